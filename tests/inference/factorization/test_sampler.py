"""The sampler that draws the number of factors: joint-law, rank and literal tests."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats

from cuspfa import Gibbs, PoissonFactorizationPrior
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization import jumps, kernels
from cuspfa.inference.factorization.jumps import jump, sweep_down, sweep_up
from cuspfa.inference.factorization.kernels import CountDraw, sweep
from cuspfa.inference.factorization.sampler import count_model, start_at_random, step
from cuspfa.inference.gibbs.labels import ProcessColumns
from cuspfa.model.poisson_factorization import Hyperparameters
from joint_draws import smallest_p_value

N, P, H, ALPHA = 4, 3, 4, 2.0
EXPOSURE = np.array([0.5, 1.0, 2.0, 1.5])
MISSING = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]])
HYPER = Hyperparameters(0.8, 0.6, 2.5, 2.0)
MANY = 10**6
SPIKE = 0.05


@pytest.fixture(autouse=True)
def short_paths(monkeypatch):
    """Jumps are exact with paths of any length."""
    monkeypatch.setattr(jumps, "PATH_STEPS", 4)


def prior_of(*, spike=False):
    return PoissonFactorizationPrior(
        ALPHA, *HYPER, size=1.0, spike=SPIKE if spike else None, n_terms=H if spike else None
    )


def from_prior(rng, *, spike=False, k=None):
    """Parameters from the model, written from its definition."""
    a, c, e, f = HYPER
    columns, active = None, None
    if spike:
        k = H
        survivors = np.cumprod(1 - np.append(rng.beta(1, ALPHA, H - 1), 1.0))
        active = rng.random(H) < survivors
        with np.errstate(divide="ignore"):
            columns = ProcessColumns(active[None], np.log(survivors)[None], np.array([H]))
    elif k is None:
        k = rng.poisson(ALPHA)
    rates = rng.gamma(e, 1 / f, k)
    own = rates if active is None else np.where(active, rates, c / SPIKE)
    scores = np.maximum(rng.gamma(a, 1 / a, (N, k)), 1e-290)
    loadings = np.maximum(rng.gamma(c, 1.0, (P, k)) / own, 1e-290)
    return CountDraw(scores, loadings, rates, HYPER, columns)


def with_counts(draw, rng):
    x = rng.poisson(EXPOSURE[:, None] * draw.scores @ draw.loadings.T) * (1 - MISSING)
    return Counts(sparse.csr_matrix(x.astype(float)), EXPOSURE, sparse.csr_matrix(MISSING * 1.0))


def features(draw, data, rng):
    rates, number = draw.scores @ draw.loadings.T, int(draw.active.sum())
    return [
        number + 1e-3 * rng.random(),
        *np.log(1e-3 + rates[[0, 1, 3], [0, 2, 1]]),
        np.log(1e-3 + draw.loadings.max(initial=0.0)),
        np.log(1e-3 + draw.scores.sum()),
        number * data.x.sum() + 1e-3 * rng.random(),
        np.log(1e-3 + draw.rates[draw.active].sum()),
    ]


def joint_p_value(size, change, *, spike=False, seed=0):
    """Draws of the joint law before changes, and others after them."""
    rng = np.random.default_rng(seed)
    before, after = [], []
    for _ in range(size):
        draw = from_prior(rng, spike=spike)
        before.append(features(draw, with_counts(draw, rng), rng))
        draw = from_prior(rng, spike=spike)
        data = with_counts(draw, rng)
        draw = change(draw, data, rng)
        after.append(features(draw, data, rng))
    return smallest_p_value(before, after)


def jumps_and_sweeps(draw, data, rng):
    for _ in range(3):
        draw = jump(draw, data, prior_of(), MANY, rng)
        draw = sweep(draw, data, prior_of(), rng)
    return draw


def plain_sweeps(draw, data, rng):
    for _ in range(3):
        draw = sweep(draw, data, prior_of(spike=True), rng)
    return draw


def test_jumps_leave_the_joint_distribution_unchanged():
    assert joint_p_value(400, jumps_and_sweeps) > 1e-3


def test_plain_sweeps_leave_the_joint_distribution_unchanged():
    assert joint_p_value(400, plain_sweeps, spike=True) > 1e-3


def places_counted_thrice(prior, k):
    return math.log(ALPHA) + 2 * math.log(k + 1)


def without_total(at, data, h, before, after):
    x, rest = data.x.data, np.arange(at.n_factors) != h
    own = data.rates(at.scores[:, [h]], at.loadings[:, [h]])
    others = data.rates(at.scores[:, rest], at.loadings[:, rest])
    with np.errstate(divide="ignore"):
        return float(x @ (np.log(others + after * own) - np.log(others + before * own)))


def sweep_of_all_parts(at, data, prior, parts, rng):
    return sweep_up(at, data, prior, np.ones_like(parts), rng)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("log_prior_odds", places_counted_thrice),
        ("gain", without_total),
        ("sweep_up", sweep_of_all_parts),
    ],
)
def test_a_broken_jump_changes_the_joint_distribution(name, broken, monkeypatch):
    monkeypatch.setattr(jumps, name, broken)
    assert joint_p_value(400, jumps_and_sweeps) < 1e-3


def broken_labels(at, prior, rng):
    """Labels without the density of the loadings in the spike."""
    found = draw_columns(at, prior, rng)
    flags = rng.random(at.n_factors) < np.exp(at.columns.log_survivors[0])
    return found._replace(columns=found.columns._replace(active=flags[None]))


def broken_loadings(at, split, data, prior, rng, parts=1.0):
    shape = at.hyper.loading_shape + split.by_column  # inactive columns as if they were active
    return at._replace(loadings=kernels.gamma(shape, at.rates + data.score_totals(at.scores), rng))


draw_columns = kernels.draw_columns


@pytest.mark.parametrize(
    ("name", "broken"), [("draw_columns", broken_labels), ("draw_loadings", broken_loadings)]
)
def test_a_broken_plain_sweep_changes_the_joint_distribution(name, broken, monkeypatch):
    monkeypatch.setattr(kernels, name, broken)
    assert joint_p_value(400, plain_sweeps, spike=True) < 1e-3


# --- against the definition ---


def number_probabilities(x, size, rng):
    """P(K | x) for K ≤ 7 by draws of the prior: the mean of the density of the data."""
    a, c, e, f = HYPER
    n, p = x.shape
    evidence = np.zeros(8)
    for k in range(8):
        theta = rng.gamma(a, 1 / a, (size, n, k))
        beta = rng.gamma(c, 1.0, (size, p, k)) / rng.gamma(e, 1 / f, (size, 1, k))
        logs = stats.poisson.logpmf(x, theta @ beta.transpose(0, 2, 1)).sum(axis=(1, 2))
        evidence[k] = np.exp(logs).mean() * stats.poisson.pmf(k, ALPHA)
    return evidence / evidence.sum()


@pytest.mark.parametrize(("alpha", "right"), [(ALPHA, True), (2 * ALPHA, False)])
def test_numbers_of_factors_have_their_posterior_probabilities(alpha, right):
    rng, x = np.random.default_rng(3), np.array([[3, 0], [0, 4]])
    wanted = number_probabilities(x, 200_000, rng)
    prior = PoissonFactorizationPrior(alpha, *HYPER, size=1.0)
    data = Counts(sparse.csr_matrix(x.astype(float)), np.ones(2))
    draw = CountDraw(np.ones((2, 1)), np.ones((2, 1)), np.ones(1), HYPER)
    found = []
    for number in range(3100):
        draw = sweep(jump(draw, data, prior, MANY, rng), data, prior, rng)
        if number >= 100:
            found.append(draw.n_factors)
    blocks = np.array([np.bincount(one, minlength=30)[:8] for one in np.split(np.array(found), 30)])
    shares = blocks / blocks.sum(axis=1, keepdims=True)
    z = (shares.mean(axis=0) - wanted) / (shares.std(axis=0, ddof=1) / np.sqrt(30) + 1e-9)
    assert (np.max(np.abs(z[1:6])) < 4) == right


# --- ranks ---


N_RANKED = 20
"""Draws that the truth is ranked among."""


def truth_of(draw, rng):
    rates = draw.scores @ draw.loadings.T
    number = int(draw.active.sum()) + rng.uniform(-0.5, 0.5)
    # Without a column all rates are zero: ties are broken at random.
    return np.append(rates[[0, 1, 3], [0, 2, 1]] + 1e-12 * rng.random(3), number)


def ranks_of_jumps(size, prior, between=3):
    """Ranks of the truth among states before and after it, of a chain through the truth.

    Before it the chain goes by the time reversal of its steps. So ranks are uniform however much
    the states depend on each other (Besag & Clifford, 1989).
    """
    rng, out = np.random.default_rng(8), []
    for _ in range(size):
        truth = from_prior(rng)
        data = with_counts(truth, rng)
        own, below = truth_of(truth, rng), np.zeros(4)
        place = int(rng.integers(N_RANKED + 1))
        for number, back in ((place, True), (N_RANKED - place, False)):
            draw = truth
            for step_number in range(1, number * between + 1):
                if back:
                    draw = sweep_down(draw, data, prior, np.ones(draw.n_factors), rng)
                    draw = jump(draw, data, prior, MANY, rng)
                else:
                    draw = jump(draw, data, prior, MANY, rng)
                    draw = sweep_up(draw, data, prior, np.ones(draw.n_factors), rng)
                if step_number % between == 0:
                    below += own < truth_of(draw, rng)
        out.append(below)
    return np.array(out)


def ranks_of_labels(size, prior, between=5):
    """Ranks of the truth among thinned draws of a chain that starts elsewhere."""
    rng, out = np.random.default_rng(8), []
    for _ in range(size):
        truth = from_prior(rng, spike=True)
        data, draw = with_counts(truth, rng), from_prior(rng, spike=True)
        own, below = truth_of(truth, rng), np.zeros(4)
        for number in range(1, between * (N_RANKED + 10) + 1):
            draw = sweep(draw, data, prior, rng)
            if number > 10 * between and number % between == 0:
                below += own < truth_of(draw, rng)
        out.append(below)
    return np.array(out)


@pytest.mark.long
@pytest.mark.parametrize(("alpha", "passes"), [(ALPHA, True), (4 * ALPHA, False)])
@pytest.mark.parametrize("spike", [False, True], ids=["jumps", "labels"])
def test_the_truth_has_uniform_ranks_among_draws(spike, alpha, passes):
    prior = replace(prior_of(spike=spike), alpha=alpha)
    found = (ranks_of_labels if spike else ranks_of_jumps)(210, prior)
    counts = [np.bincount(one.astype(int) // 3, minlength=7) for one in found.T]
    p_value = min(stats.chisquare(one).pvalue for one in counts)
    assert (p_value > 1e-3) == passes


# --- starts, adaptation and limits ---


def simulated(n=80, p=30, k=2, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.poisson(rng.gamma(0.8, 1 / 0.8, (n, k)) @ rng.gamma(0.6, 3.0, (p, k)).T)
    return Counts(sparse.csr_matrix(x.astype(float)), np.ones(n))


@pytest.mark.parametrize(
    ("spike", "adaptive"), [(None, True), (0.05, True), (0.05, False)], ids=["jumps", "a", "plain"]
)
@pytest.mark.parametrize("k", [1, 4])
def test_chains_from_random_starts_find_the_factors(spike, adaptive, k, monkeypatch):
    monkeypatch.setattr(jumps, "PATH_STEPS", 12)
    data = simulated(50, 16)
    prior = PoissonFactorizationPrior(
        score_shape=0.8, loading_shape=0.6, spike=spike, n_terms=spike and 10
    ).for_data(data.mean_rate)
    method = Gibbs(start_adapt=20, adaptive=adaptive)
    model = count_model(data, prior, method, n_factors=None, max_factors=10)
    rng, numbers = np.random.default_rng(k), []
    at = start_at_random(model, k, rng)
    for number in range(1, 901):
        at = step(at, number, model, rng)
        numbers.append(int(at.active.sum()))
    assert numbers[0] in (k, k + 1)
    assert np.mean(np.array(numbers[-150:]) == 2) > 0.5


def test_the_number_of_columns_adapts_ever_more_rarely():
    data = simulated(20, 6)
    prior = PoissonFactorizationPrior(spike=0.01, n_terms=8).for_data(data.mean_rate)
    method = Gibbs(start_adapt=5, adapt_rate=(2.5, -0.25))
    model = count_model(data, prior, method, n_factors=None, max_factors=6)
    rng, changes, held = np.random.default_rng(0), [], []
    at = start_at_random(model, 2, rng)
    for number in range(1, 81):
        before = at.n_factors
        at = step(at, number, model, rng)
        held.append(at.n_factors)
        if at.n_factors != before:
            changes.append(number)
    assert changes
    assert 5 <= min(changes) <= max(changes) < 40
    assert max(held) <= 8
    # From then on it is the plain sampler, which is exact.
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    after = step(at, 10_000, model, one)
    np.testing.assert_array_equal(after.loadings, sweep(at, data, prior, other).loadings)


def test_a_sampler_that_does_not_adapt_keeps_all_its_columns():
    data = simulated(20, 6)
    prior = PoissonFactorizationPrior(spike=0.01, n_terms=8).for_data(data.mean_rate)
    method = Gibbs(adaptive=False, start_adapt=1)
    model = count_model(data, prior, method, n_factors=None, max_factors=6)
    rng = np.random.default_rng(0)
    at = start_at_random(model, None, rng)
    for number in range(1, 20):
        at = step(at, number, model, rng)
        assert at.n_factors == 8
        assert not at.active[-1]  # the last column always has the spike


def test_limits_hold_and_a_given_number_stays():
    data, prior = simulated(20, 6, 3), PoissonFactorizationPrior(alpha=20.0, size=1.0)
    rng = np.random.default_rng(0)
    model = count_model(data, prior, Gibbs(max_columns=4), n_factors=None, max_factors=6)
    at = start_at_random(model, None, rng)
    for number in range(1, 120):
        at = step(at, number, model, rng)
        assert 1 <= at.n_factors <= 3
    given = count_model(data, prior, Gibbs(), n_factors=2, max_factors=6)
    at = start_at_random(given, 2, rng)
    for number in range(1, 30):
        at = step(at, number, given, rng)
        assert at.n_factors == 2
    assert jumps.SWEEPS_PER_JUMP < 30
