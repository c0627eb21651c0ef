"""The sampler leaves the joint distribution of everything and the data as it is: two kinds of test.

One step: a draw from the joint distribution is, after a few sweeps, still a draw from it (so it is
for simulation-based calibration with the rank of nothing but the draw itself). Geweke's: sweeps and
new data in turn must visit the prior. Prior and data are written here from the model alone.
"""

import numpy as np
import pytest

from cuspfa import CuspPrior, GaussianSlab
from cuspfa.data.in_memory import RotatedRows, RowMatrix
from cuspfa.inference.gibbs import chain, data_kernels, labels
from cuspfa.inference.gibbs.chain import GibbsState, Model, sweep
from cuspfa.inference.gibbs.data_kernels import CompleteDataKernel, data_kernel
from cuspfa.inference.gibbs.labels import ProcessColumns, first_columns
from cuspfa.inference.kernels import Chains, Scales
from cuspfa.missing import kernels as missing_kernels
from cuspfa.missing.patterns import IncompleteRows
from cuspfa.missing.source import MissingDataSource
from joint_draws import (
    SLABS,
    covariance_features,
    draw_shape_and_rate,
    largest_difference,
    smallest_p_value,
)

SPIKE, H = 0.02, 4
SETS = 600


def prior_of(slab):
    return CuspPrior(alpha=2.0, slab=slab, noise_shape=4.0, noise_rate=2.0)


def from_prior(slab, p, rng):
    """One state, written from the model, loop by loop."""
    v = [rng.beta(1.0, 2.0) for _ in range(H - 1)] + [1.0]
    weights, rest = [], 1.0
    for stick in v:
        weights.append(stick * rest)
        rest *= 1.0 - stick
    z = [int(rng.choice(H, p=np.array(weights) / sum(weights))) for _ in range(H)]
    active = np.array([[z[h] > h for h in range(H)]])
    a = b = None
    if not isinstance(slab, GaussianSlab):
        a, b = draw_shape_and_rate(slab, rng)
    theta = np.empty((1, H))
    for h in range(H):
        if not active[0, h]:
            theta[0, h] = SPIKE
        elif isinstance(slab, GaussianSlab):
            theta[0, h] = slab.variance
        else:
            theta[0, h] = b / rng.gamma(a)
    loadings = np.sqrt(theta) * rng.standard_normal((p, 1, H))
    noise = 2.0 / rng.gamma(4.0, size=(p, 1))
    with np.errstate(divide="ignore"):
        log_s = np.log([1.0 - min(sum(weights[: h + 1]), 1.0) for h in range(H - 1)] + [0.0])
    log_s = log_s[None, :]
    hyper = None if a is None else (np.array([a]), np.array([b]))
    process = ProcessColumns(active, log_s, np.array([H]))
    return GibbsState(Chains(loadings, noise, Scales(theta, hyper, active)), process)


def rows_given(state, n, rng):
    loadings, noise = state.chains.loadings[:, 0], state.chains.noise[:, 0]
    scores = rng.standard_normal((n, H))
    return scores @ loadings.T + rng.standard_normal((n, len(noise))) * np.sqrt(noise)


def features(state, y):
    loadings, noise = state.chains.loadings[:, 0], state.chains.noise[:, 0]
    active, log_s = state.columns.active[0], state.columns.log_survivors[0]
    sample = y.T @ y / len(y)
    squared_norm = np.sum(loadings**2, axis=0)
    return [
        *covariance_features(loadings, noise, sample),
        np.log(squared_norm[0]),
        np.log(squared_norm[2]),
        loadings[0, 0] * loadings[1, 0],
        active.sum() + 1e-9 * loadings[0, 0],
        active[2] * np.trace(sample),
        log_s[0],
        log_s[2] + 0.3 * active[0],
        np.log(state.chains.scales.variances[0, 0]) + 1e-9 * loadings[0, 0],
    ]


def model_of(y, slab, scale_rotation_every, **changes):
    n, p = y.shape
    data = RotatedRows(y.T @ y, None, n) if n >= p else RowMatrix(y, n).statistics()
    return Model(
        CompleteDataKernel(data),
        prior_of(slab),
        SPIKE,
        H,
        None,
        (-1.0, -5e-4),
        scale_rotation_every,
    )._replace(**changes)


def one_step(slab, n, p, scale_rotation_every, steps=3, seed=0, sets=SETS):
    """The smallest p-value of features at draws from the joint distribution, and at others after
    sweeps."""
    rng = np.random.default_rng(seed)
    before, after = [], []
    for i in range(sets):
        state = from_prior(slab, p, rng)
        y = rows_given(state, n, rng)
        if i % 2:
            before.append(features(state, y))
            continue
        model = model_of(y, slab, scale_rotation_every)
        for at in range(1, steps + 1):
            state = sweep(state, at, model, rng)
        after.append(features(state, y))
    return smallest_p_value(before, after)


def paired(slab, n, p, scale_rotation_every, steps=2, sets=300, seed=0, part=0.0):
    """The largest |z| of what sweeps change in features, at independent draws from the joint
    distribution.

    No draw depends on another, so that the errors are known, and each is compared with itself. With
    missing values (`part`) the data enter by their first rows alone, which have none, and nothing
    depends on where the means are: the prior of these is flat.
    """
    rng = np.random.default_rng(seed)
    changes = []
    for _ in range(sets):
        state = from_prior(slab, p, rng)
        y = rows_given(state, n, rng)
        model, known = model_of(y, slab, scale_rotation_every), y
        if part:
            seen = rng.random((n, p)) > part
            seen[:3] = True
            known = y[:3] - y[:3].mean(axis=0)
            source = MissingDataSource(IncompleteRows(np.where(seen, y, 0.0), seen))
            model = model._replace(data=data_kernel(source))
            state = state._replace(rest=(np.zeros((p, 1)),))
        before = np.array(features(state, known))
        for at in range(1, steps + 1):
            state = sweep(state, at, model, rng)
        changes.append(features(state, known) - before)
    found = np.array(changes)
    return float(np.max(np.abs(found.mean(axis=0)) / found.std(axis=0, ddof=1)) * np.sqrt(sets))


def geweke(slab, n, p, scale_rotation_every, length=2400, seed=1):
    """The largest |z| of features along sweeps with new data in turn, against the prior."""
    rng = np.random.default_rng(seed)
    state = from_prior(slab, p, rng)
    visited = []
    for at in range(1, length + 1):
        y = rows_given(state, n, rng)
        state = sweep(state, at, model_of(y, slab, scale_rotation_every), rng)
        visited.append(features(state, y))
    independent = []
    for _ in range(length // 2):
        fresh = from_prior(slab, p, rng)
        independent.append(features(fresh, rows_given(fresh, n, rng)))
    return largest_difference(visited, independent)


@pytest.mark.parametrize(("n", "p", "scale_rotation_every"), [(7, 4, 1), (4, 7, 0)])
@pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS)
def test_sweeps_leave_the_joint_distribution_as_it_is(slab, n, p, scale_rotation_every):
    assert one_step(slab, n, p, scale_rotation_every) > 1e-4


@pytest.mark.parametrize(("slab", "scale_rotation_every"), [("fixed", 1), ("pooled", 2)])
def test_sweeps_leave_the_joint_distribution_with_missing_values_as_it_is(
    slab, scale_rotation_every
):
    assert paired(SLABS[slab], 7, 4, scale_rotation_every, part=0.3) < 4.5


def test_missing_values_filled_without_the_factors_are_found_out(monkeypatch):
    def apart(data, loadings, noise, mean, rng):
        spread = noise + np.sum(loadings**2, axis=2)
        return missing_kernels.fill(data, 0.0 * loadings, spread, mean, rng)

    monkeypatch.setattr(data_kernels, "fill", apart)
    assert paired(SLABS["fixed"], 16, 4, 0, steps=4, part=0.4) > 4.5


@pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS)
def test_sweeps_and_new_data_in_turn_visit_the_prior(slab):
    assert geweke(slab, 6, 3, scale_rotation_every=2) < 4.5


def labels_one_off(original):
    """Labels that count the column itself to the slab."""

    def broken(odds, process, rng):
        before = np.zeros((len(process.active), 1))
        shifted = np.concatenate([before, process.log_survivors[:, :-1]], axis=1)
        return original(odds, process._replace(log_survivors=shifted), rng)

    return broken


def sticks_without_prior(original):
    return lambda counts, width, prior, rng: original(
        [found + 1 for found in counts], width, prior, rng
    )


def odds_given_theta(original):
    """Labels given θ_h instead of with it integrated out, though θ_h is drawn after them."""

    def broken(squared_norm, scales, prior, spike, p):
        theta = scales.variances
        return -0.5 * (p * np.log(theta / spike) + squared_norm / theta - squared_norm / spike)

    return broken


BREAKS = {
    "labels one off": ("draw_labels", labels_one_off),
    "sticks": ("draw_sticks", sticks_without_prior),
    "odds given theta": ("log_odds", odds_given_theta),
}


@pytest.mark.parametrize(("name", "broken"), BREAKS.values(), ids=BREAKS)
def test_a_wrong_step_is_found_out(monkeypatch, name, broken):
    monkeypatch.setattr(chain, name, broken(getattr(labels, name)))
    assert geweke(SLABS["inverse gamma"], 6, 3, scale_rotation_every=2) > 4.5


def test_one_step_finds_a_wrong_step_too(monkeypatch):
    monkeypatch.setattr(chain, "draw_labels", labels_one_off(labels.draw_labels))
    assert one_step(SLABS["inverse gamma"], 7, 4, 0, steps=6) < 1e-4


def test_a_start_draws_its_sticks_from_the_prior():
    """1 − v ~ Beta(α, 1), so that −log(1 − v) is exponential with rate α."""
    prior = CuspPrior(alpha=3.0)
    active = np.ones((4000, 4), dtype=bool)
    columns = first_columns(active, prior, np.random.default_rng(0))
    steps = -np.diff(columns.log_survivors[:, :-1], axis=1, prepend=0.0)
    error = (1 / 3.0) / np.sqrt(steps.size)
    assert abs(steps.mean() - 1 / 3.0) < 4.5 * error
    assert abs(steps.mean() - 1 / 3.5) > 4.5 * error
    assert np.all(np.isneginf(columns.log_survivors[:, -1]))
