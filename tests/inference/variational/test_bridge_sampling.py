"""The evidence score against log p(y | K), as a sampler that shares no algebra with it finds it.

What is asked of the score: over the K of a case, it differs from log p(y | K) by a constant, to
about 1 nat.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import gamma, norm

from cuspfa import CuspPrior, GaussianSlab, InverseGammaSlab
from cuspfa.data.complete import prepare_rows
from cuspfa.datasets import load_bfi, simulate
from cuspfa.inference.variational import bridge_proposal
from cuspfa.inference.variational.bridge_sampling import (
    DRAWS_OF_A_CHAIN,
    Bridge,
    bennett,
    log_average_slab,
    log_mean_ratio,
)
from cuspfa.inference.variational.collapsed_bound import evidence
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_given_k import search_given_k
from cuspfa.model.likelihoods.gaussian import spectral_loadings
from cuspfa.model.slabs import Slab
from oracles import thermodynamic as oracle

FIXED = CuspPrior(slab=GaussianSlab(1.0), noise_shape=1.0, noise_rate=0.3)
LEARNED = CuspPrior(slab=InverseGammaSlab(2.0, 0.4), noise_shape=0.1)
FLAT = CuspPrior(slab=InverseGammaSlab(2.0, 0.4), noise_shape=-1.0)


class Case(NamedTuple):
    y: np.ndarray
    prior: CuspPrior
    scaling: str
    flat_mean: bool


CASES = {
    "fixed slab, dense": Case(simulate(50, 7, 2, random_state=1).X, FIXED, "none", False),
    "fixed slab, weak": Case(
        simulate(40, 8, 2, strength=0.4, random_state=2).X, FIXED, "none", True
    ),
    "inverse gamma slab, dense": Case(
        simulate(60, 6, 2, random_state=3).X, LEARNED, "columns", True
    ),
    "inverse gamma slab, weak": Case(
        simulate(50, 8, 1, strength=0.4, random_state=4).X, LEARNED, "columns", True
    ),
    "fixed slab, n < p": Case(simulate(15, 20, 1, random_state=5).X, FIXED, "none", False),
    "inverse gamma slab, n < p": Case(
        simulate(15, 20, 1, random_state=6).X, LEARNED, "columns", True
    ),
    "flat noise prior, n < p": Case(simulate(15, 20, 1, random_state=6).X, FLAT, "columns", True),
}


# log p(y | K) by long runs of the oracle: `truth_of(name, k, sweeps=4000, seed=10)`, errors 0.01 to
# 0.06.
TRUTH = {
    "fixed slab, dense": (-502.67, -486.78, -471.30, -474.89),
    "fixed slab, weak": (-455.69, -456.86, -459.31, -463.14),
    "inverse gamma slab, dense": (-523.95, -472.93, -450.89, -451.28),
    "inverse gamma slab, weak": (-584.35, -581.50, -581.83, -582.48),
    "fixed slab, n < p": (-501.37, -406.04, -410.85),
    "inverse gamma slab, n < p": (-454.98, -362.04, -363.52),
    "flat noise prior, n < p": (-395.08, -325.57, -329.24),
}
NAT = {"inverse gamma slab, dense": 2.2, "inverse gamma slab, n < p": 1.8}
"""What the score may be wrong by in comparing two K: 1 nat, more where a noise variance may be near
zero, in which case the posterior has tails that a few sweeps from q do not reach."""


class Row(NamedTuple):
    k: int
    truth: float
    score: float
    collapsed: float
    bound: float


def prepared_of(case):
    return prepare_rows(case.y, scaling=case.scaling, flat_mean=case.flat_mean)


def settled(source, prior, k):
    search = Search(
        source,
        prior,
        tol=1e-4,
        max_iter=2000,
        max_factors=source.p,
    )
    search_given_k(search, k)
    return search.candidates


@cache
def table(name):
    case, rows = CASES[name], []
    source = prepared_of(case).source
    for k, truth in enumerate(TRUTH[name]):
        candidates = settled(source, case.prior, k)
        state, rng = candidates.best.state, np.random.default_rng(0)
        collapsed = evidence(state, source, case.prior, rng, 800)
        assert collapsed.error < 0.2
        found = collapsed
        if k:
            found = Bridge(state, source.statistics(), case.prior, rng).with_draws(800)
        constant = case.prior.log_count_probability(k)
        bound = candidates.curve[k].lower_bound
        values = (found.value, collapsed.value, bound)
        rows.append(Row(k, truth, *(value - constant for value in values)))
    return rows


def as_text(rows):
    lines = ["  K  log p(y | K)  score, collapsed bound, bound - truth"]
    for row in rows:
        gaps = "".join(f"{value - row.truth:10.2f}" for value in row[2:])
        lines.append(f"{row.k:3d}{row.truth:14.2f}{gaps}")
    return "\n".join(lines)


def disagreement(gaps):
    """The largest difference between two K."""
    return max(gaps) - min(gaps)


def truth_of(name, k, **options):
    case = CASES[name]
    slab = case.prior.slab
    given: float | tuple[float, float]
    if isinstance(slab, InverseGammaSlab):
        given = (slab.shape, slab.rate)
    else:
        assert isinstance(slab, GaussianSlab)
        given = slab.variance
    model = oracle.Model(k, given, (case.prior.noise_shape, case.prior.noise_rate))
    y = (case.y - case.y.mean(axis=0)) / prepared_of(case).scale
    rows = oracle.rows_without_mean(y) if case.flat_mean else y
    return oracle.log_evidence(rows, model, step=1.0, **options)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_truth_is_what_the_oracle_finds(name):
    """A short run by another seed, for the most factors, good enough to tell a nat."""
    found = truth_of(name, len(TRUTH[name]) - 1, sweeps=250)
    assert found.value == pytest.approx(TRUTH[name][-1], abs=0.75)


@pytest.mark.parametrize("name", CASES)
def test_differences_between_k_are_right_to_a_nat(name):
    rows = table(name)
    gaps = [row.score - row.truth for row in rows]
    assert disagreement(gaps) < NAT.get(name, 1.0), as_text(rows)


@pytest.mark.parametrize("name", CASES)
def test_the_collapsed_bound_is_a_bound_and_more_than_half_way_to_the_truth(name):
    rows = table(name)
    assert abs(rows[0].collapsed - rows[0].truth) < 0.1, as_text(rows)  # exact without factors
    for row in rows:
        assert row.collapsed < row.truth + 0.3, as_text(rows)
        assert row.truth - row.collapsed <= 0.5 * (row.truth - row.bound) + 0.05, as_text(rows)


@pytest.mark.parametrize("name", CASES)
def test_the_bounds_are_far_from_right(name):
    """Negative control: a nat is not had for nothing."""
    rows = table(name)
    assert disagreement([row.collapsed - row.truth for row in rows]) > 1.2 * NAT.get(name, 1.0)
    assert disagreement([row.bound - row.truth for row in rows]) > 10.0, as_text(rows)


def test_the_papers_data():
    """Against thermodynamic integration by two paths (errors 0.05 to 0.2)."""
    truth = [-5388.7, -5317.3, -5273.0, -5265.0, -5274.6]
    data = load_bfi(subset="paper").data
    source = prepare_rows(data, scaling="none", flat_mean=False).source
    gaps = []
    for k, value in enumerate(truth, 1):
        state = settled(source, FIXED, k).best.state
        bridge = Bridge(state, source.statistics(), FIXED, np.random.default_rng(0))
        found = bridge.with_draws(800)
        gaps.append(found.value - FIXED.log_count_probability(k) - value)
    assert max(np.abs(gaps)) < 0.75


def test_a_bridge_between_known_laws():
    """Two normal densities without their constants, one five times as wide as the other."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(4000), 5.0 * rng.standard_normal(4000) + 1.0

    def log_weight(z):  # target e^{-(z-1)²/50}, proposal N(0, 1)
        return -((z - 1) ** 2) / 50 + 0.5 * z**2 + 0.5 * np.log(2 * np.pi)

    value, error = bennett(log_weight(x), log_weight(y).reshape(500, 8))
    assert value == pytest.approx(np.log(5 * np.sqrt(2 * np.pi)), abs=4 * error)
    assert error < 0.05
    assert abs(np.mean(log_weight(x)) - value) > 10 * error  # negative control


def test_the_error_of_a_bridge_sees_chains_that_repeat_themselves_or_are_on_their_way():
    rng = np.random.default_rng(1)
    above, below = rng.normal(-0.5, 1.0, 400), rng.normal(0.5, 1.0, (50, 8))
    _, error = bennett(above, below)
    _, stuck = bennett(above, np.repeat(below[:, :1], 8, axis=1))  # eight times the same draw
    assert stuck > 1.5 * error
    drift = np.linspace(-3.0, 3.0, 8)
    _, moving = bennett(above, below + drift)
    assert moving > 2.0 * error

    def root(half):
        """Of Bennett's equation: shares of proposal and target beyond it are the same."""
        of_target = (below + 2.0 * drift)[:, half].ravel()
        return brentq(lambda v: expit(above - v).mean() - expit(v - of_target).mean(), -20, 20)

    _, moving = bennett(above, below + 2.0 * drift)
    assert moving == pytest.approx(abs(root(slice(4, 8)) - root(slice(0, 4))) / 2, rel=1e-6)


@pytest.mark.parametrize(
    "squared_norms", [(9.0, 1.0), (4.0, 4.0), (20.0, 3.0, 0.2), (5.0, 4.0, 3.0, 0.5)]
)
def test_the_slab_averaged_over_rotations(squared_norms):
    """Against a mean over random rotations."""
    slab, p, k = InverseGammaSlab(2.0, 0.4), 12, len(squared_norms)
    rng = np.random.default_rng(0)
    columns = np.diag(squared_norms)
    turns = np.linalg.qr(rng.standard_normal((200_000, k, k)))[0]
    turned = np.einsum("rah,ab,rbh->rh", turns, columns, turns, optimize=True)
    logs = np.sum(slab.log_density(turned, p), axis=1)
    truth = np.logaddexp.reduce(logs) - np.log(len(logs))
    found = log_average_slab(columns[None], slab, p)[0]
    assert found == pytest.approx(truth, abs=0.15 * k)
    best = np.sum(slab.log_density(np.array(squared_norms), p))
    if max(squared_norms) > 2 * min(squared_norms):
        assert abs(best - truth) > 1.0  # negative control: not to average is to be wrong


@pytest.mark.parametrize("p", [4, 25, 200])
def test_the_mean_over_rotations_of_two_columns(p):
    """By a fine rule over the angle, by the rule of any slab, and in closed form."""
    slab = InverseGammaSlab(2.0, 0.1)
    one, two = np.full((3, 40), 20.0), np.tile(np.geomspace(0.001, 30.0, 40), (3, 1))
    nodes, weights = np.polynomial.legendre.leggauss(4000)
    part = np.cos(nodes * np.pi / 4) ** 2
    before = slab.log_density(one[0], p) + slab.log_density(two[0], p)
    c = part[:, None]
    turned = slab.log_density(one[0, 0] * c + two[0] * (1 - c), p)
    turned = turned + slab.log_density(one[0, 0] * (1 - c) + two[0] * c, p)
    expected = np.log(weights / 2 @ np.exp(turned - before))
    np.testing.assert_allclose(slab.log_pair_average(one, two, p)[1], expected, atol=1e-6)
    by_rule = Slab.log_pair_average(slab, one, two, p)[1]
    np.testing.assert_allclose(by_rule, expected, atol=1e-3)
    assert np.min(expected) < -1.0  # negative control: it is not the density as it is


def test_the_shift_is_the_derivative_of_the_best_loadings():
    """Of ΛΛᵀ, which has no rotation, against the best loadings for noise changed a little."""
    sim = simulate(400, 9, 2, random_state=11)
    source = prepare_rows(sim.X, scaling="columns", flat_mean=True).source
    state, data = settled(source, LEARNED, 2).best.state, source.statistics()
    shift = bridge_proposal.Shift(state, data, data.n * state.noise.precision)
    noise = state.noise_variance

    def best(variance):
        values, vectors = np.linalg.eigh(
            data.rows.T @ data.rows / np.sqrt(np.outer(variance, variance))
        )
        return spectral_loadings(values[:-3:-1], vectors[:, :-3:-1], variance, data.n)

    change = 1e-5 * np.random.default_rng(0).standard_normal(9)
    before, after = best(noise), best(noise * np.exp(change))
    certain = np.linalg.norm(shift.turned, axis=0)  # the part of a shift that is made
    assert np.all((certain > 0.7) & (certain <= 1.0))
    factors = shift.root[:, None] * shift.directions[:, :2] * shift.scale
    np.testing.assert_allclose(factors @ factors.T, before @ before.T, atol=1e-9)
    turned = factors @ (shift.turned / certain)
    moved = shift.of(change[:, None])[0] / certain
    expected = after @ after.T - before @ before.T
    found = moved @ turned.T + turned @ moved.T
    np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
    assert np.abs(expected).max() > 1e-6


def test_the_shift_begins_at_the_best_loadings_also_of_weak_factors():
    """Those of maximum likelihood: the signal of a direction is what it has above the noise."""
    sim = simulate(400, 9, 2, random_state=11)
    source = prepare_rows(sim.X, scaling="columns", flat_mean=True).source
    data, state = source.statistics(), settled(source, LEARNED, 2).best.state
    factor = 5.0  # with so much more noise the second factor is weak
    noisy = state._replace(noise=state.noise._replace(rate=factor * state.noise.rate))
    root = np.sqrt(noisy.noise_variance)
    shift = bridge_proposal.Shift(noisy, data, data.n / root**2)
    covariance = data.rows.T @ data.rows / data.n
    values = np.linalg.eigvalsh(covariance / np.outer(root, root))[::-1]
    assert 0.05 < values[1] - 1.0 < 0.9
    np.testing.assert_allclose(shift.scale**2, values[:2] - 1.0, rtol=1e-9)


def test_noise_of_columns_that_share_a_factor_with_few_is_uncertain():
    """A doublet leaves its noise variances open; columns without a factor have n/2 each."""
    doublet = np.zeros((6, 1))
    doublet[:2, 0] = np.sqrt(0.5)
    root = bridge_proposal.noise_root(doublet, 100.0)
    variances = np.diag(np.linalg.inv(root @ root.T))
    alone = bridge_proposal.PROPOSAL_NOISE_FACTOR / (50.0 * (1 + bridge_proposal.LEAST_INFORMATION))
    np.testing.assert_allclose(variances[2:], alone)
    assert np.all(variances[:2] > 10 * alone)


def test_draws_that_are_added_later_give_the_same_as_all_at_once_to_their_error():
    """And the draws made first are kept: the second half alone would give another number."""
    sim = simulate(120, 8, 2, random_state=12)
    source = prepare_rows(sim.X, scaling="columns", flat_mean=True).source
    state, data = settled(source, LEARNED, 2).best.state, source.statistics()

    def made(seed):
        return Bridge(state, data, LEARNED, np.random.default_rng(seed))

    steps, once = made(0), made(1)
    first = steps.with_draws(64)
    assert steps.with_draws(64) == first  # no new draws
    all_of_them, at_once = steps.with_draws(256), once.with_draws(256)
    assert all_of_them.n_draws == at_once.n_draws == 256
    apart = np.hypot(all_of_them.error, at_once.error)
    assert abs(all_of_them.value - at_once.value) < 4 * apart
    assert all_of_them.value != first.value
    assert all_of_them.error < first.error


def test_the_mean_of_ratios_is_that_of_their_cumulants():
    """Of a normal and of a gamma distribution, whose means of exp(r) are known."""
    at = (np.arange(20_000) + 0.5) / 20_000
    order = np.random.default_rng(0).permutation(20_000)
    normal = (0.3 + 0.8 * norm.ppf(at))[order].reshape(-1, DRAWS_OF_A_CHAIN)
    value, error = log_mean_ratio(normal)
    assert value == pytest.approx(0.3 + 0.8**2 / 2, abs=2e-3)
    assert 0.0 < error < 0.02
    skewed = gamma.ppf(at, 9.0, scale=0.1)[order].reshape(-1, DRAWS_OF_A_CHAIN)
    value, error = log_mean_ratio(skewed)
    assert abs(value + 9.0 * np.log(1.0 - 0.1)) < error
    assert value == pytest.approx(0.9 + 0.09 / 2 + 2 * 9.0 * 0.1**3 / 12, abs=1e-3)


def test_the_precision_of_the_noise_is_the_curvature_of_the_profile_likelihood():
    """Of log σ² with the loadings at their best, in rows that have exactly the covariance."""
    rng, p, n = np.random.default_rng(8), 6, 50.0
    loadings, noise = rng.normal(size=(p, 1)), rng.uniform(0.3, 1.5, p)
    covariance = loadings @ loadings.T + np.diag(noise)

    def profile(log_noise):
        root = np.exp(-0.5 * log_noise)
        values = np.linalg.eigvalsh(root[:, None] * covariance * root)
        fitted = np.log(values[-1]) + 1.0 + values[:-1].sum()
        return -0.5 * n * (fitted + log_noise.sum())

    step, at, unit = 1e-3, np.log(noise), np.eye(p)
    curvature = np.array(
        [
            [
                sum(
                    a * b * profile(at + step * (a * unit[i] + b * unit[j]))
                    for a in (1, -1)
                    for b in (1, -1)
                )
                / (4 * step**2)
                for j in range(p)
            ]
            for i in range(p)
        ]
    )
    direction = loadings / np.sqrt(noise)[:, None]
    root = bridge_proposal.noise_root(direction / np.linalg.norm(direction), n)
    precision = bridge_proposal.PROPOSAL_NOISE_FACTOR * root @ root.T
    precision -= 0.5 * n * bridge_proposal.LEAST_INFORMATION * np.eye(p)
    np.testing.assert_allclose(precision, -curvature, atol=1e-3 * n)
