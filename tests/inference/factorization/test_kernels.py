"""Exact draws: joint-law and rank tests with negative controls, and the split of the counts."""

import numpy as np
import pytest
from scipy import sparse, stats

from cuspfa.data.counts import Counts
from cuspfa.inference import _kernels
from cuspfa.inference.factorization import kernels, split, state
from cuspfa.inference.factorization.kernels import CountDraw, adapt, sweep
from cuspfa.inference.factorization.split import draw_split, expected_split
from cuspfa.inference.gibbs.labels import ProcessColumns
from cuspfa.model.poisson_factorization import Hyperparameters, PoissonFactorizationPrior
from joint_draws import smallest_p_value

N, P, K = 4, 3, 3
EXPOSURE = np.array([0.5, 1.0, 2.0, 1.5])
MISSING = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]])


def prior_of(kind):
    if kind == "learned":
        return PoissonFactorizationPrior(rate_shape=None, size=2.0)
    spike = {"terms": 0.05}.get(kind)
    return PoissonFactorizationPrior(
        2.0, 0.8, 0.6, 2.5, 2.0, size=1.0, spike=spike, n_terms=K if spike else None
    )


def from_prior(prior, rng):
    """Parameters and counts from the model, written from its definition."""
    if prior.score_shape is None:
        a, c = 0.3 * np.exp(rng.standard_normal(2))
        e = rng.gamma(4.0, 1.0)
        # log(c f / e) ~ N(log(size/α), 1.5²)
        f = e / c * prior.size / prior.alpha * np.exp(1.5 * rng.standard_normal())
        hyper = Hyperparameters(a, c, e, f)
    else:
        hyper = Hyperparameters(0.8, 0.6, 2.5, 2.0)
    a, c, e, f = hyper
    rates, columns = rng.gamma(e, 1 / f, K), None
    own = rates
    if prior.spike is not None:
        v = np.append(rng.beta(1, prior.alpha, K - 1), 1.0)
        survivors = np.cumprod(1 - v)
        active = rng.random(K) < survivors
        with np.errstate(divide="ignore"):
            columns = ProcessColumns(active[None], np.log(survivors)[None], np.array([K]))
        own = np.where(active, rates, c / prior.spike)
    scores = np.maximum(rng.gamma(a, 1 / a, (N, K)), 1e-290)
    loadings = np.maximum(rng.gamma(c, 1.0, (P, K)) / own, 1e-290)
    return CountDraw(scores, loadings, rates, hyper, columns)


def with_counts(draw, rng):
    x = rng.poisson(EXPOSURE[:, None] * draw.scores @ draw.loadings.T) * (1 - MISSING)
    return Counts(sparse.csr_matrix(x.astype(float)), EXPOSURE, sparse.csr_matrix(MISSING * 1.0))


def features(draw, data):
    active = draw.active
    return [
        np.log(draw.scores[0, 0]),
        np.log(draw.scores.sum()),
        np.log(draw.loadings[2, 1]),
        np.log(np.where(active, draw.rates, 1.0)[0]) + 1e-9 * draw.rates[1],
        np.log(draw.scores.sum(axis=0) @ draw.loadings.sum(axis=0)),
        draw.hyper.score_shape + 1e-9 * draw.scores[0, 0],
        draw.hyper.loading_shape + 1e-9 * draw.scores[0, 1],
        draw.hyper.rate_shape + 1e-9 * draw.scores[0, 2],
        draw.hyper.rate_scale + 1e-9 * draw.scores[1, 0],
        active.sum() + 0.5 * np.tanh(np.log(draw.loadings[0, 0])),
        np.log((draw.scores[3] @ draw.loadings[0]) * (data.x.sum() + 1)),
    ]


def joint_p_value(kind, size, n_sweeps=2, seed=0):
    rng, prior = np.random.default_rng(seed), prior_of(kind)
    before, after = [], []
    for _ in range(size):
        draw = from_prior(prior, rng)
        before.append(features(draw, with_counts(draw, rng)))
        draw = from_prior(prior, rng)
        data = with_counts(draw, rng)
        for _ in range(n_sweeps):
            draw = sweep(draw, data, prior, rng)
        after.append(features(draw, data))
    return smallest_p_value(before, after)


@pytest.mark.parametrize("kind", ["given", "learned", "terms"])
def test_a_sweep_leaves_the_joint_distribution_unchanged(kind):
    assert joint_p_value(kind, 400) > 1e-3


def broken_scores(at, split, data, rng):
    a = at.hyper.score_shape
    rate = a + data.loading_totals(at.loadings) / data.exposure[:, None]  # no exposure
    return at._replace(scores=kernels.gamma(a + split.by_row, rate, rng))


def broken_rates(at, prior, rng):
    _, c, e, f = at.hyper
    shape = np.full(K, e + c)  # p columns are counted as one
    return at._replace(rates=kernels.gamma(shape, f + at.loadings.sum(axis=0), rng))


def broken_columns(at, split, data, prior, rng):
    def density(log_u):
        return -(np.expm1(log_u) ** 2)  # not the conditional density

    u = np.exp(kernels.metropolis(density, K, rng))
    return at._replace(loadings=at.loadings * u, rates=at.rates / u)


def broken_scales(at, rng):
    a, c, e, f = at.hyper
    t, b = at.scores.sum(axis=0), at.loadings.sum(axis=0)

    def density(log_u):  # without the Haar powers
        return -a * t * np.exp(log_u) - (e + c * P) * np.log(f + b / np.exp(log_u))

    u = np.exp(kernels.metropolis(density, K, rng))
    return at._replace(scores=at.scores * u, loadings=at.loadings / u)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("draw_scores", broken_scores),
        ("draw_rates", broken_rates),
        ("move_columns", broken_columns),
        ("move_scales", broken_scales),
    ],
)
def test_a_broken_step_changes_the_joint_distribution(name, broken, monkeypatch):
    monkeypatch.setattr(kernels, name, broken)
    assert joint_p_value("given", 400) < 1e-3


def ranks(size, widen=1.0):
    """Ranks of the truth among thinned draws of the posterior."""
    rng, prior, out = np.random.default_rng(5), prior_of("given"), []
    for _ in range(size):
        truth = from_prior(prior, rng)
        data, draw = with_counts(truth, rng), from_prior(prior, rng)
        own = np.log(truth.scores @ truth.loadings.T).ravel()[[0, 5, 10]]
        below = np.zeros(3)
        for number in range(70):
            draw = sweep(draw, data, prior, rng)
            if number >= 20 and number % 5 == 0:
                rate = np.log(draw.scores @ draw.loadings.T).ravel()[[0, 5, 10]]
                below += own + np.log(widen) < rate
        out.append(below)
    return np.array(out)


@pytest.mark.long
@pytest.mark.parametrize(("widen", "passes"), [(1.0, True), (1.6, False)])
def test_the_truth_has_uniform_ranks_among_draws(widen, passes):
    counts = np.array([np.bincount(one.astype(int), minlength=11) for one in ranks(120, widen).T])
    p_value = min(stats.chisquare(one).pvalue for one in counts)
    assert (p_value > 1e-3) == passes


def test_a_learned_shape_is_drawn_from_its_posterior():
    """Of one parameter, on a grid; from far away, as the joint distribution cannot tell."""
    rng, prior = np.random.default_rng(7), PoissonFactorizationPrior(2.0, None, 0.6, 2.5, 2.0)
    scores, size = rng.gamma(3.0, 1 / 3.0, (12, 2)), 2.0
    prior = prior.for_data(size)
    at = CountDraw(
        scores, rng.gamma(0.6, 1.0, (5, 2)), np.ones(2), prior.start()._replace(score_shape=0.05)
    )
    logs = []
    for _ in range(300):
        at = kernels.draw_hyperparameters(at, prior, rng)
        logs.append(np.log(at.hyper.score_shape))
    assert np.mean(np.diff(logs) != 0) > 0.5
    grid = np.linspace(-4.0, 5.0, 2001)
    density = [
        prior.log_hyperprior(at.hyper._replace(score_shape=float(a)))
        + stats.gamma(a, scale=1 / a).logpdf(scores).sum()
        for a in np.exp(grid)
    ]
    share = np.exp(density - np.max(density))
    share /= share.sum()
    mean = share @ grid
    sd = np.sqrt(share @ (grid - mean) ** 2)
    drawn = np.array(logs[20:])
    assert drawn.mean() == pytest.approx(mean, abs=0.35 * sd)
    assert drawn.std() == pytest.approx(sd, rel=0.25)
    assert abs(np.log(0.05) - mean) > 5 * sd


def test_the_adaptive_sampler_keeps_the_active_columns_and_one_more():
    rng = np.random.default_rng(1)
    prior = PoissonFactorizationPrior(2.0, 0.8, 0.6, 2.5, 2.0, size=1.0, spike=1e-3, n_terms=12)
    theta, beta = rng.gamma(0.8, 1 / 0.8, (80, 2)), rng.gamma(0.6, 3.0, (30, 2))
    x = rng.poisson(theta @ beta.T)
    data = Counts(sparse.csr_matrix(x.astype(float)), np.ones(80))
    draw = from_q_like(theta, beta, prior, rng)
    held = []
    for number in range(300):
        draw = sweep(draw, data, prior, rng)
        if number > 20 and number % 3 == 0:
            draw = adapt(draw, prior, 12, rng)
            assert draw.n_factors == len(draw.active)
        held.append(int(draw.active.sum()))
    assert np.mean(np.array(held[100:]) == 2) > 0.8


def from_q_like(theta, beta, prior, rng):
    hyper, k = prior.start(), 5
    more = k - theta.shape[1]
    active = np.arange(k) < theta.shape[1]
    from cuspfa.inference.gibbs.labels import first_columns

    return CountDraw(
        np.hstack([theta, rng.gamma(1.0, 1.0, (len(theta), more))]),
        np.hstack([beta, 1e-3 * rng.gamma(1.0, 1.0, (len(beta), more))]),
        np.ones(k),
        hyper,
        first_columns(active[None], prior, rng),
    )


# --- the split of the counts ---


def random_problem(largest=40, seed=0):
    rng = np.random.default_rng(seed)
    x = sparse.csr_matrix(rng.poisson(rng.gamma(0.3, largest / 2, (30, 20))).astype(float))
    return x, rng.gamma(0.5, 1.0, (30, 4)), rng.gamma(0.5, 1.0, (20, 4)), rng


def test_expected_parts_are_in_proportion_to_the_rates():
    x, scores, loadings, _ = random_problem()
    found = expected_split(x, scores, loadings)
    by_row, log_rates = np.zeros_like(scores), 0.0
    for i in range(30):
        for j in range(20):
            weights = scores[i] * loadings[j]
            by_row[i] += x[i, j] * weights / weights.sum()
            log_rates += x[i, j] * np.log(weights.sum())
    np.testing.assert_allclose(found.by_row, by_row, rtol=1e-10)
    assert found.log_rates == pytest.approx(log_rates)
    np.testing.assert_allclose(found.by_column.sum(axis=1), np.asarray(x.sum(axis=0)).ravel())


def test_random_parts_add_up_and_have_the_expected_means():
    x, scores, loadings, rng = random_problem()
    expected = expected_split(x, scores, loadings)
    drawn = [draw_split(x, scores, loadings, rng) for _ in range(400)]
    rows = np.array([one.by_row for one in drawn])
    np.testing.assert_array_equal(rows.sum(axis=2), np.tile(np.asarray(x.sum(axis=1)).T, (400, 1)))
    error = rows.std(axis=0) / np.sqrt(400) + 1e-9
    assert np.max(np.abs(rows.mean(axis=0) - expected.by_row) / error) < 5.5
    # Independent binomials: the variance of a part is Σ x π (1 − π).
    weights = scores[:, None, :] * loadings[None, :, :]
    share = weights / weights.sum(axis=2, keepdims=True)
    variance = np.einsum("ij,ijk->ik", x.toarray(), share * (1 - share))
    ratio = rows.var(axis=0)[variance > 1] / variance[variance > 1]
    assert abs(ratio.mean() - 1) < 0.05


@pytest.mark.skipif(_kernels.kernel("factorization") is None, reason="needs the compiled core")
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_the_compiled_split_is_that_of_numpy(index, monkeypatch):
    x, scores, loadings, _ = random_problem()
    x.indices, x.indptr = x.indices.astype(index), x.indptr.astype(index)
    fast = expected_split(x, scores, loadings)
    drawn = draw_split(x, scores, loadings, np.random.default_rng(3))
    monkeypatch.setattr(split, "kernel", lambda name: None)
    slow = expected_split(x, scores, loadings)
    for one, other in zip(list(fast), list(slow), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-11)
    again = draw_split(x, scores, loadings, np.random.default_rng(3))
    np.testing.assert_array_equal(drawn.by_row, again.by_row)
    np.testing.assert_array_equal(drawn.by_column, again.by_column)


@pytest.mark.skipif(_kernels.kernel("factorization") is None, reason="needs the compiled core")
@pytest.mark.parametrize("rows", [1, 6])
def test_compiled_moments_are_those_of_scipy(rows, monkeypatch):
    rng = np.random.default_rng(0)
    shape, rate = rng.gamma(0.3, 20.0, (6, 3)) + 0.02, rng.gamma(1.0, 1.0, (rows, 3))
    fast = state.gammas(shape, rate)
    monkeypatch.setattr(state, "kernel", lambda name: None)
    slow = state.gammas(shape, rate)
    for one, other in zip(list(fast), list(slow), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-10)
    frozen = stats.gamma(shape, scale=1 / np.broadcast_to(rate, shape.shape))
    assert fast.entropy == pytest.approx(float(np.sum(frozen.entropy())))
