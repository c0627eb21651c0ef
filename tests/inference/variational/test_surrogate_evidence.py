"""The evidence of incomplete rows: against draws from the prior, and beside complete data."""

import numpy as np
import pytest
from scipy.stats import invgamma
from sklearn.datasets import load_diabetes, load_wine

from cuspfa import CuspFactorAnalysis, CuspPrior, GaussianSlab, Variational
from cuspfa.datasets import load_bfi, simulate
from cuspfa.inference.variational.bridge_sampling import Bridge, LikelihoodRatios
from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_given_k import search_given_k
from cuspfa.missing.source import prepare_incomplete

PRIOR = CuspPrior(slab=GaussianSlab(1.0), noise_shape=2.0, noise_rate=1.0)


def without(rows, number, seed):
    """The rows with so many values missing."""
    gaps = np.array(rows, dtype=float)
    gaps.ravel()[np.random.default_rng(seed).choice(gaps.size, number, replace=False)] = np.nan
    return gaps


def log_ratio_by_prior_draws(rows, surrogate, k, rng):
    """log p(y | K) − log p(ỹ | K) and its error, by draws from the prior; y row by row."""
    p, size, parts = rows.shape[1], 200_000, 20
    noise = invgamma(2.0, scale=1.0).rvs(size=(size, p), random_state=rng)
    loadings = rng.standard_normal((size, p, k))
    omega = loadings @ loadings.transpose(0, 2, 1)
    omega[:, range(p), range(p)] += noise
    _, log_det = np.linalg.slogdet(omega)
    quadratic = np.einsum("sij,ji->s", np.linalg.inv(omega), surrogate.rows.T @ surrogate.rows)
    complete = -0.5 * (surrogate.n * (p * np.log(2 * np.pi) + log_det) + quadratic)
    observed = np.zeros(size)
    for row in rows:
        there = np.flatnonzero(~np.isnan(row))
        own = omega[:, there[:, None], there]
        _, log_det = np.linalg.slogdet(own)
        quadratic = np.einsum("i,sij,j->s", row[there], np.linalg.inv(own), row[there])
        observed += -0.5 * (len(there) * np.log(2 * np.pi) + log_det + quadratic)
    ratios = [
        np.logaddexp.reduce(one) - np.logaddexp.reduce(other)
        for one, other in zip(np.split(observed, parts), np.split(complete, parts), strict=True)
    ]
    whole = np.logaddexp.reduce(observed) - np.logaddexp.reduce(complete)
    return whole, np.std(ratios) / np.sqrt(parts)


def expected_ratio(state, statistics, source, seed):
    """What the likelihood of the data themselves changes of an evidence, from the same draws."""
    ratios = LikelihoodRatios(source.log_likelihoods, statistics, 64)
    with_ratios, without_ratios = (
        Bridge(state, statistics, PRIOR, np.random.default_rng(seed), one).with_draws(64)
        for one in (ratios, None)
    )
    change = with_ratios.value - without_ratios.value
    return Evidence(change, np.sqrt(with_ratios.error**2 - without_ratios.error**2))


@pytest.mark.parametrize("k", [1, 2])
def test_the_ratio_against_draws_from_the_prior(k):
    rows = without(simulate(12, 4, 1, strength=0.5, random_state=3).X, 6, seed=3)
    prepared = prepare_incomplete(rows, scaling="none", flat_mean=False)
    source = prepared.source
    search = Search(source, PRIOR, tol=1e-4, max_iter=2000, max_factors=4)
    search_given_k(search, k)
    state = search.candidates.best.state
    surrogate = search.surrogate_at(state)
    assert surrogate is not None
    statistics = surrogate.statistics()
    rng = np.random.default_rng(0)
    found = [expected_ratio(state, statistics, source, seed) for seed in range(20)]
    truth, error = log_ratio_by_prior_draws(rows - prepared.center, statistics, k, rng)
    values, claimed = np.array([one.value for one in found]), found[0].error
    assert np.std(values) / 2 < np.mean([one.error for one in found]) < 3 * np.std(values)
    close = 4 * np.hypot(error, np.std(values) / np.sqrt(len(values))) + claimed**2
    assert abs(values.mean() - truth) < close
    assert abs(truth) > 2 * close  # the evidence of the surrogate by itself is another


TABLES = {
    "wine": lambda: load_wine().data,
    "paper": lambda: load_bfi(subset="paper").data,
    "diabetes": lambda: load_diabetes().data,
}


@pytest.mark.parametrize("name", TABLES)
def test_one_missing_value_does_not_change_the_number_of_factors(name):
    rows = TABLES[name]()
    complete = CuspFactorAnalysis().fit(rows)
    gap = without(rows, 1, seed=0)
    found = CuspFactorAnalysis().fit(gap)
    assert found.n_factors_ == complete.n_factors_
    evidence = [
        {one.n_factors: one.evidence for one in model.search_} for model in (complete, found)
    ]
    k = found.n_factors_
    for other in (k - 1, k + 1):
        leads = [one[k] - one[other] for one in evidence]
        assert abs(leads[0] - leads[1]) < 2.5
    other = CuspFactorAnalysis(method=Variational(criterion="collapsed")).fit(gap)
    assert other.n_factors_ < k  # another score may choose another number
