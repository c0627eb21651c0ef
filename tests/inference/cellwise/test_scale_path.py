"""What a factor adds to log p(x), against averages over the prior."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from cuspfa import GaussianSlab
from cuspfa.inference.cellwise import scale_path
from cuspfa.inference.cellwise.scale_path import n_path_chains, path_of_last_factor
from cuspfa.inference.cellwise.search import fit_cells, search_cells
from cuspfa.model.likelihoods.counts import CountLikelihood
from cuspfa.model.prior import CuspPrior

N, P, VARIANCE, LOCATION_SD = 9, 4, 0.4, 0.5
CENTER = (1.0,) * P
PRIOR = CuspPrior(slab=GaussianSlab(VARIANCE))


def counts():
    rng = np.random.default_rng(4)
    loadings = np.array([0.9, 0.8, -0.7, 0.6])
    rows = rng.poisson(np.exp(1.0 + rng.normal(size=(N, 1)) * loadings)).astype(float)
    return np.column_stack([rows, np.zeros(N)])


def average_over_prior(values, size, seed):
    """Log mean likelihood of one factor over draws of the prior, and its error.

    Scores are integrated out by quadrature.
    """
    rng = np.random.default_rng(seed)
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    logs = np.empty(size)
    for draw in range(size):
        loadings = np.sqrt(VARIANCE) * rng.normal(size=P)
        location = np.array(CENTER) + LOCATION_SD * rng.normal(size=P)
        log_rate = location + nodes[:, None] * loadings  # (nodes, P)
        own = values[:, :P] @ log_rate.T - np.exp(log_rate).sum(axis=1)
        logs[draw] = special.logsumexp(own, b=weights / weights.sum(), axis=1).sum()
    logs -= special.gammaln(values[:, :P] + 1.0).sum()
    ratio = np.exp(logs - logs.max())
    return np.log(ratio.mean()) + logs.max(), ratio.std() / ratio.mean() / np.sqrt(size)


def without_factors(values):
    """Log of the product of the integrals over the locations."""
    found = 0.0
    for column in values.T[:P]:

        def density(location, column=column):
            logs = stats.poisson.logpmf(column, np.exp(location)).sum()
            return np.exp(logs + 60) * stats.norm.pdf(location, CENTER[0], LOCATION_SD)

        found += np.log(integrate.quad(density, -1, 4, epsabs=0.0)[0]) - 60
    return found


def test_the_gain_is_that_of_averages_over_the_prior():
    values = counts()
    likelihood = CountLikelihood(tuple("abcd"), "poisson", CENTER, LOCATION_SD)
    single, single_error = average_over_prior(values, 20_000, 1)
    want = single - without_factors(values)
    state = fit_cells(values, likelihood, PRIOR, 1).state
    got = path_of_last_factor(state, values, likelihood, np.random.default_rng(0)).gain
    error = np.hypot(single_error, got.error)
    assert want > 10.0 > 10 * error
    assert got.value == pytest.approx(want, abs=3 * error)


def test_variances_of_the_path_are_nearer_to_the_truth_than_those_of_the_mode():
    values = wide_counts(16, 24, 2)
    likelihood = CountLikelihood.of(values, family="negative_binomial")
    one = fit_cells(values, likelihood, CuspPrior(), 2)
    path = path_of_last_factor(one.state, values, likelihood, np.random.default_rng(0))
    true = 24 * (0.9**2 + 0.7**2)
    assert one.mode.squared_norm.sum() < path.squared_norm.sum() < 1.5 * true


def wide_counts(n, p, k):
    rng = np.random.default_rng(1)
    loadings = rng.normal(size=(p, k)) * np.array([0.9, 0.7, 0.6])[:k]
    rate = np.exp(0.5 + rng.normal(size=(n, k)) @ loadings.T)
    rows = rng.poisson(rate * rng.gamma(4.0, size=rate.shape) / 4.0)
    return np.column_stack([rows, np.zeros(n)]).astype(float)


def test_a_table_with_more_columns_than_rows_is_scored_by_paths(monkeypatch):
    values = wide_counts(16, 24, 2)
    likelihood = CountLikelihood.of(values, family="negative_binomial")
    found = search_cells(values, likelihood, CuspPrior(), bridge=True)
    assert found.best.n_factors == 2
    own = [one for one in found.candidates if one.n_factors]
    assert all(one.bridged is not None and one.bridged.error < 4.0 for one in own)
    # A table whose paths would take too long has the scores of Laplace's method.
    monkeypatch.setattr(scale_path, "MOST_PATH_CELLS", 1e4)
    assert n_path_chains(values.size) == 0
    plain = search_cells(values, likelihood, CuspPrior(), bridge=True)
    assert all(one.bridged is None for one in plain.candidates)
