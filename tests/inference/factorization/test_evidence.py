"""The score for K against brute force, and what the search finds."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln, logsumexp

from cuspfa.data.counts import Counts
from cuspfa.inference.factorization import evidence as evidence_module
from cuspfa.inference.factorization import thinning
from cuspfa.inference.factorization.evidence import (
    EvidencePath,
    EvidenceSettings,
    log_evidence,
    mean_and_variance,
)
from cuspfa.inference.factorization.run import RunLimits, run_iterations
from cuspfa.inference.factorization.search import (
    CountSearch,
    CountSearchSettings,
    first_state,
    fit_given_k,
    larger,
    of_means,
    search_over_k,
)
from cuspfa.inference.factorization.split import draw_split
from cuspfa.inference.factorization.state import lower_bound
from cuspfa.inference.factorization.thinning import thinned
from cuspfa.inference.variational.run import Status
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior

PRIOR = PoissonFactorizationPrior(5.0, 0.9, 0.8, 3.0, 2.0, size=1.0)
EXPOSURE = np.array([1.0, 0.5, 2.0])


def tiny():
    x = np.array([[3.0, 0.0], [0.0, 2.0], [6.0, 1.0]])
    return x, Counts(sparse.csr_matrix(x), EXPOSURE)


def brute_force(x, k, size=400_000):
    """Log p(x | K), the mean over draws of the prior, and its standard error."""
    rng = np.random.default_rng(k)
    a, c, e, f = PRIOR.start()
    scores = rng.gamma(a, 1 / a, (size, 3, k))
    loadings = rng.gamma(c, 1.0, (size, 2, k)) / rng.gamma(e, 1 / f, (size, 1, k))
    rate = EXPOSURE[:, None] * np.einsum("sik,sjk->sij", scores, loadings)
    logs = (x * np.log(rate) - rate - gammaln(x + 1)).sum(axis=(1, 2))
    weights = np.exp(logs - logs.max())
    error = weights.std() / weights.mean() / np.sqrt(size)
    return logsumexp(logs) - np.log(size), error


def tiny_state(k):
    """A run of K columns, of which no hyperparameter is learned."""
    _, data = tiny()
    state = first_state(data, PRIOR, 1)
    while state.n_factors < k:
        state = larger(state, data, PRIOR, CountSearchSettings())
    return run_iterations(state, data, PRIOR, RunLimits(1e-6)).state, data


SLOW = EvidenceSettings(steps=20, n_sweeps=300, n_burn=10)


def path_value(k, settings=SLOW):
    """By a path, without P(H* = K) and log K!: columns of a tiny problem exchange their places."""
    state, data = tiny_state(k)
    found = log_evidence(state, data, PRIOR, np.random.default_rng(0), settings)
    return found.value - PRIOR.log_count_probability(k) - gammaln(k + 1), found.error


@pytest.mark.parametrize("k", [1, 2])
def test_a_path_gives_the_evidence(k):
    x, _ = tiny()
    truth, error = brute_force(x, k)
    value, own = path_value(k)
    assert abs(value - truth) < 4 * np.hypot(error, own) + 0.05 < 0.6


def test_at_the_start_of_a_path_the_mean_is_the_bound():
    state, data = tiny_state(2)
    path, rng = EvidencePath(state, data), np.random.default_rng(0)
    values, at = [], path.start(rng)
    for _ in range(8000):
        at, split = path.sweep(at, 0.0, rng)
        values.append(path.log_ratio(at, split))
    bound = lower_bound(state, data, PRIOR, data.constant).total - PRIOR.log_count_probability(2)
    assert abs(np.mean(values) - bound) < 4 * np.std(values) / np.sqrt(len(values))


def test_counts_are_split_in_the_proportions_between_those_of_q_and_of_the_draw(monkeypatch):
    state, data = tiny_state(2)
    path, rng, given = EvidencePath(state, data), np.random.default_rng(1), []

    def split(x, scores, loadings, rng):
        given.append(scores[:, None, :] * loadings[None, :, :])
        return draw_split(x, scores, loadings, rng)

    monkeypatch.setattr(evidence_module, "draw_split", split)
    at = path.start(rng)
    for s in (0.0, 0.3, 1.0):
        path.sweep(at, s, rng)
        of_q = state.scores.geometric[:, None, :] * state.loadings.geometric[None, :, :]
        wanted = of_q ** (1 - s) * (at.scores[:, None, :] * at.loadings[None, :, :]) ** s
        found = given[-1]
        np.testing.assert_allclose(
            found / found.sum(axis=2, keepdims=True), wanted / wanted.sum(axis=2, keepdims=True)
        )


def without_rates(self, at, split):
    """As if d_h were given."""
    left_out = (self.state.hyper.rate_scale - self.rate_rate) * at.rates
    return LOG_RATIO(self, at, split) + float(np.sum(left_out))


def another_prior_of_loadings(self, at, s, rng):
    """Loadings as if the prior had another shape."""
    state = self.state
    wrong = state.hyper._replace(loading_shape=3 * state.hyper.loading_shape)
    self.state = state._replace(hyper=wrong)
    try:
        return SWEEP(self, at, s, rng)
    finally:
        self.state = state


LOG_RATIO, SWEEP = EvidencePath.log_ratio, EvidencePath.sweep


@pytest.mark.parametrize(
    ("name", "broken"), [("log_ratio", without_rates), ("sweep", another_prior_of_loadings)]
)
def test_a_wrong_path_is_caught(name, broken, monkeypatch):
    x, _ = tiny()
    monkeypatch.setattr(EvidencePath, name, broken)
    assert abs(path_value(2, SLOW._replace(n_sweeps=100))[0] - brute_force(x, 2)[0]) > 0.6


def test_thinned_tables_are_independent_and_add_up():
    rng = np.random.default_rng(0)
    rate = rng.gamma(2.0, 2.0, (20, 10))
    pairs = []
    for _ in range(300):
        x = sparse.csr_matrix(rng.poisson(rate).astype(float))
        kept, held = thinned(Counts(x, np.ones(20)), 0.75, rng)
        assert abs(kept.x + held.x - x).sum() == 0
        pairs.append((kept.x.toarray().ravel(), held.x.toarray().ravel()))
    np.testing.assert_allclose(kept.exposure, 0.75)
    np.testing.assert_allclose(held.exposure, 0.25)
    one, other = (np.array(part) for part in zip(*pairs, strict=True))
    covariance = np.mean((one - one.mean(axis=0)) * (other - other.mean(axis=0)), axis=0)
    scale = np.sqrt(one.var(axis=0) * other.var(axis=0))
    assert abs(np.mean(covariance / scale)) < 4 / np.sqrt(300 * 200)
    np.testing.assert_allclose(other.mean(), 0.25 * rate.mean(), rtol=0.03)


def simulated(n, p, k, mean, *, seed):
    rng = np.random.default_rng(seed)
    rate = rng.gamma(0.3, 1 / 0.3, (n, k)) @ (rng.gamma(0.3, 1.0, (k, p)))
    rate *= mean / rate.mean()
    x = rng.poisson(rate).astype(float)
    return x, Counts(sparse.csr_matrix(x), np.ones(n))


def test_iterations_of_the_means_raise_the_posterior_density():
    """EM for point values: x is Poisson, and a prior Ga(a + 1, a) makes a the power of a mean."""
    x, data = simulated(40, 15, 3, 2.0, seed=2)
    prior = PoissonFactorizationPrior().for_data(data.mean_rate)
    state = first_state(data, prior, 1)
    while state.n_factors < 3:
        state = larger(state, data, prior, CountSearchSettings())
    a, c, e, f = state.hyper

    def density(one):
        scores, loadings = one.scores.mean, one.loadings.mean
        rate = scores @ loadings.T
        own = np.sum(a * np.log(scores) - a * scores) + c * np.sum(np.log(loadings))
        own -= np.sum((e + c * 15) * np.log(f + loadings.sum(axis=0)))
        return np.sum(x * np.log(rate) - rate) + own

    course = [density(of_means(state, data, prior, number)) for number in range(30)]
    assert np.min(np.diff(course)) > -1e-6
    assert course[-1] > course[0] + 20
    short = density(of_means(state, data, prior, 0))
    assert short == pytest.approx(density(state))


def test_a_run_with_given_hyperparameters_has_the_bound_of_the_prior():
    _, data = simulated(60, 20, 2, 1.0, seed=3)
    prior = PoissonFactorizationPrior().for_data(data.mean_rate)
    search = CountSearch(data, prior, CountSearchSettings(), np.random.default_rng(0), 5)
    run = search.run(search.with_columns(first_state(data, prior, 1), 2), fixed=True)
    assert run.state.hyper == prior.start()
    assert run.total == pytest.approx(lower_bound(run.state, data, prior, data.constant).total)
    assert run.trace[-1] == pytest.approx(run.total, abs=0.5)


@pytest.mark.parametrize(("size", "k", "mean"), [((150, 60), 2, 0.5), ((200, 80), 4, 1.5)])
def test_the_search_finds_k(size, k, mean):
    _, data = simulated(size[0], size[1], k, mean, seed=k)
    prior = PoissonFactorizationPrior().for_data(data.mean_rate)
    found = search_over_k(data, prior, np.random.default_rng(0), max_factors=12)
    assert found.run.state.n_factors == k
    assert found.run.status is Status.CONVERGED
    assert found.scores[k].evidence > 20.0
    assert found.scores[k + 1].evidence < 0.0
    assert found.scores[k].held_out > 5.0 > found.scores[k + 1].held_out


def test_noise_has_one_factor_and_zeros_none():
    rng = np.random.default_rng(0)
    for x, k in ((rng.poisson(1.0, (80, 30)), 1), (np.zeros((10, 5)), 0)):
        data = Counts(sparse.csr_matrix(x.astype(float)), np.ones(len(x)))
        prior = PoissonFactorizationPrior().for_data(data.mean_rate)
        found = search_over_k(data, prior, np.random.default_rng(0), max_factors=5)
        assert found.run.state.n_factors == k


def test_a_given_k_is_kept_and_too_much_work_leaves_out_the_sweeps():
    _, data = simulated(100, 40, 3, 1.0, seed=1)
    prior = PoissonFactorizationPrior().for_data(data.mean_rate)
    rng = np.random.default_rng(0)
    assert fit_given_k(data, prior, rng, 5).run.state.n_factors == 5
    cheap = CountSearchSettings(exact_work=0.0)
    found = search_over_k(data, prior, rng, max_factors=8, settings=cheap)
    assert not found.scores
    assert 1 <= found.run.state.n_factors <= 4


def test_the_variance_of_a_mean_counts_neighbours_that_are_alike():
    x = [1.0, 2.0, 4.0, 3.0, 5.0, 6.0, 5.0]
    d = [value - 26 / 7 for value in x]
    alike = sum(one * two for one, two in zip(d[1:], d[:-1], strict=True)) / sum(v * v for v in d)
    assert 0.3 < alike < 0.8
    mean, variance = mean_and_variance(x)
    assert mean == pytest.approx(26 / 7, rel=1e-12)
    own = sum(v * v for v in d) / 6 / 7
    assert variance == pytest.approx(own * (1 + alike) / (1 - alike), rel=1e-12)
    assert mean_and_variance([2.0, 2.0]) == (2.0, 0.0)


@pytest.mark.parametrize("n_sweeps", [1, 6])
def test_draws_that_are_all_alike_predict_with_their_own_rates(n_sweeps, monkeypatch):
    """Then nothing is extrapolated: Σ x log λ − Σ λ over the events held out."""
    rng = np.random.default_rng(5)
    scores, loadings = rng.gamma(2.0, 1.0, (6, 2)), rng.gamma(2.0, 1.0, (4, 2))
    held = rng.poisson(scores @ loadings.T).astype(float)
    at: Any = SimpleNamespace(scores=scores, loadings=loadings)
    monkeypatch.setattr(thinning, "sweep", lambda *_: at)
    data = Counts(sparse.csr_matrix(held), np.ones(6))
    found, last = thinning.predicted(at, data, data, None, rng, n_sweeps)
    rates = scores @ loadings.T
    assert found == pytest.approx(np.sum(held * np.log(rates)) - rates.sum(), rel=1e-12)
    assert last is at


def test_predictions_are_extrapolated_from_two_halves_to_many_draws(monkeypatch):
    """A mean over S draws is too low by b/S: with one draw in each half, by b/2 and by b."""
    rng = np.random.default_rng(6)
    draws: Any = [
        SimpleNamespace(scores=rng.gamma(2.0, 1.0, (6, 2)), loadings=rng.gamma(2.0, 1.0, (4, 2)))
        for _ in range(2)
    ]
    held = rng.poisson(2.0, (6, 4)).astype(float)
    data, left = Counts(sparse.csr_matrix(held), np.ones(6)), list(draws)
    monkeypatch.setattr(thinning, "sweep", lambda *_: left.pop(0))
    found, last = thinning.predicted(draws[0], data, data, None, rng, 2)
    assert last is draws[1]
    one, other = (at.scores @ at.loadings.T for at in draws)
    both, alone = np.log((one + other) / 2), (np.log(one) + np.log(other)) / 2
    value = 2 * np.sum(held * both) - np.sum(held * alone) - (one + other).sum() / 2
    assert found == pytest.approx(value, rel=1e-12)
