"""The sweeps leave the posterior as it is: one step from the joint distribution is the joint
distribution."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from cuspfa import CuspPrior, GaussianSlab, InverseGammaSlab, datasets
from cuspfa.data.in_memory import GramMatrix, RotatedRows, RowMatrix
from cuspfa.inference import kernels as module
from cuspfa.inference.kernels import Chains, Scales, sweep_complete
from joint_draws import SLABS, covariance_features, draw_shape_and_rate, smallest_p_value

PRIOR = CuspPrior(noise_shape=4.0, noise_rate=2.0)
HEAVY = InverseGammaSlab(0.7, 0.3)
SETS = 1200


def from_prior(slab, p, k, rng):
    """Λ, σ² and scales, written from the model alone."""
    if isinstance(slab, GaussianSlab):
        scales = Scales(np.full((1, k), slab.variance))
    else:
        a, b = draw_shape_and_rate(slab, rng)
        theta = stats.invgamma(a, scale=b).rvs((1, k), random_state=rng)
        scales = Scales(theta, (np.array([a]), np.array([b])))
    loadings = np.sqrt(scales.variances) * rng.standard_normal((p, 1, k))
    noise = 2.0 / rng.gamma(4.0, size=(p, 1))
    return Chains(loadings, noise, scales)


def features(chains, y):
    """What joint distribution of parameters and data is compared in."""
    loadings, noise = chains.loadings[:, 0], chains.noise[:, 0]
    return [
        *covariance_features(loadings, noise, y.T @ y / len(y)),
        np.log(chains.scales.variances[0, 0]) + 1e-9 * loadings[0, 0],
        loadings[0, 0] * loadings[1, 0],
        np.log(np.ptp(np.sum(loadings**2, axis=0)) + 1e-9),
    ]


def one_step(slab, n, p, k, steps=2, seed=0):
    """Features at a draw from the joint distribution, and at others after a few sweeps."""
    rng = np.random.default_rng(seed)
    before, after = [], []
    for i in range(SETS):
        chains = from_prior(slab, p, k, rng)
        scores = rng.standard_normal((n, k))
        y = scores @ chains.loadings[:, 0].T
        y += rng.standard_normal((n, p)) * np.sqrt(chains.noise[:, 0])
        if i % 2:
            before.append(features(chains, y))
            continue
        data = RotatedRows(y.T @ y, None, n) if n >= p else RowMatrix(y, n).statistics()
        for _ in range(steps):
            chains = sweep_complete(chains, data, slab, PRIOR, rng)
        after.append(features(chains, y))
    return smallest_p_value(before, after)


@pytest.mark.parametrize(("n", "p", "k"), [(7, 4, 2), (4, 7, 2), (12, 3, 1)])
@pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS)
def test_a_sweep_leaves_the_joint_distribution_as_it_is(slab, n, p, k):
    assert one_step(slab, n, p, k) > 1e-4


BREAKS = {
    "scale by n − p": (
        "scale_rotation_move",
        lambda original: lambda c, m, s, slab, n, p, rng: original(c, m, s, slab, n - p, p, rng),
    ),
    "half the noise": (
        "draw_noise",
        lambda original: lambda *args: 0.8 * original(*args),
    ),
}


@pytest.mark.parametrize(("name", "broken"), BREAKS.values(), ids=BREAKS)
def test_a_wrong_sweep_is_found_out(monkeypatch, name, broken):
    monkeypatch.setattr(module, name, broken(getattr(module, name)))
    assert one_step(SLABS["inverse gamma"], 7, 4, 2, steps=5) < 1e-4


def many_from_prior(slab, n, p, k, rng, size=20_000):
    """Columns' products, scores' products and scales of many draws from the prior."""
    theta = stats.invgamma(slab.shape, scale=slab.rate).rvs((size, k), random_state=rng)
    scales = Scales(theta, (np.full(size, slab.shape), np.full(size, slab.rate)))
    loadings = np.sqrt(theta) * rng.standard_normal((p, size, k))
    scores = rng.standard_normal((n, size, k))
    return module.gram(loadings), module.gram(scores), scales


def energy_features(columns):
    squared_norm = np.sort(module.squared_norms(columns), axis=1)
    return [
        np.log(squared_norm[:, 0]),
        np.log(squared_norm[:, -1] / squared_norm[:, 0]),
        columns[:, 0, 1],
    ]


def same_law(one, other):
    return min(stats.ks_2samp(a, b).pvalue for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("k", [2, 3])
def test_rotations_leave_the_slab_as_it_is(k):
    rng = np.random.default_rng(0)
    before, _, scales = many_from_prior(HEAVY, 5, 4, k, rng)
    columns, _, _ = many_from_prior(HEAVY, 5, 4, k, rng)
    for blind in (False, True):
        wrong = (np.full(len(columns), -2.0), scales.hyperparameters[1])
        distribution = scales._replace(hyperparameters=wrong) if blind else scales
        after = columns
        for _ in range(3):
            turned = module.draw_rotation(after, distribution, HEAVY, 4, rng)
            assert_allclose(
                turned @ turned.transpose(0, 2, 1), np.eye(k)[None] + 0 * turned, atol=1e-9
            )
            after = turned.transpose(0, 2, 1) @ after @ turned
        assert (same_law(energy_features(before), energy_features(after)) > 1e-4) == (not blind)


def test_a_rotation_of_one_draw_leaves_its_argument_as_it_is():
    rng = np.random.default_rng(0)
    columns, _, scales = many_from_prior(HEAVY, 6, 4, 3, rng)
    one = scales._replace(
        variances=scales.variances[:1],
        hyperparameters=tuple(part[:1] for part in scales.hyperparameters),
    )
    before = columns[:1].copy()
    before.flags.writeable = False
    turned = module.draw_rotation(before, one, HEAVY, 4, rng)
    assert_allclose(turned[0] @ turned[0].T, np.eye(3), atol=1e-9)
    assert not np.allclose(turned[0], np.eye(3))


@pytest.mark.parametrize(("n", "p"), [(6, 4), (4, 9)])
def test_the_scale_rotation_move_leaves_loadings_and_scores_as_they_are(n, p):
    rng = np.random.default_rng(0)
    before = many_from_prior(HEAVY, n, p, 3, rng)
    columns, second, scales = many_from_prior(HEAVY, n, p, 3, rng)
    for wrong in (0.0, 1.0):
        root, after, moved = module.scale_rotation_move(
            columns, second, scales, HEAVY, n + wrong, p, rng
        )
        inverse = np.linalg.inv(root)
        turned = inverse.transpose(0, 2, 1) @ columns @ inverse
        assert_allclose(after, root @ second @ root.transpose(0, 2, 1), rtol=1e-6, atol=1e-9)
        one = [*energy_features(before[0]), *energy_features(before[1]), before[2].variances[:, 0]]
        other = [*energy_features(turned), *energy_features(after), moved.variances[:, 0]]
        assert (same_law(one, other) > 1e-4) == (wrong == 0.0)


def test_scores_of_rows_of_zeros_are_wishart():
    rng = np.random.default_rng(0)
    for freedom, k in ((2, 3), (3, 3), (50, 3)):
        drawn = module.standard_wishart(freedom, 40_000, k, rng)
        rows = rng.standard_normal((40_000, freedom, k))
        plain = rows.transpose(0, 2, 1) @ rows
        for pick in ((0, 0), (0, 1), (2, 2)):
            one, other = drawn[:, *pick], plain[:, *pick]
            assert stats.ks_2samp(one, other).pvalue > 1e-4
        assert stats.ks_2samp(drawn[:, 0, 0], 1.05 * plain[:, 0, 0]).pvalue < 1e-4


def test_the_root_of_the_data_has_their_products_and_no_row_of_them():
    y = datasets.simulate(30, 8, 2, random_state=0).X
    y = y - y.mean(axis=0)
    wide = y[:6] - y[:6].mean(axis=0)
    for matrix, data, rows in (
        (GramMatrix(y.T @ y, 29.0), y, 8),
        (RowMatrix(wide, 5.0), wide, 5),
    ):
        found = matrix.statistics()
        assert len(found.rows) == rows
        assert_allclose(found.rows.T @ found.rows, data.T @ data, atol=1e-10)
        assert_allclose(found.squares, np.sum(data**2, axis=0), atol=1e-10)
        near = np.abs(found.rows[:, None, :] - data).max(axis=2)
        assert near.min() > 1e-3
    square = y[:8] - y[:8].mean(axis=0)  # n = p: one row fewer is counted than there are columns
    root = GramMatrix(square.T @ square, 7.0).statistics().rows
    assert root.shape == (7, 8)
    assert_allclose(root.T @ root, square.T @ square, atol=1e-8)
    singular = np.column_stack([y, y[:, :1]])
    root = GramMatrix(singular.T @ singular, 29.0).statistics().rows
    assert_allclose(root.T @ root, singular.T @ singular, atol=1e-8)
    huge = RowMatrix(np.zeros((2, 3_000_000)), 1.0)
    assert huge.statistics() is None
