"""Likelihoods of data whose model may be off: a power of the Gaussian one, and the marginal one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from cuspfa import CuspPrior, GaussianSlab
from cuspfa.data.in_memory import GramMatrix, RowMatrix
from cuspfa.data.protocols import CompleteSource
from cuspfa.inference.variational.elbo import lower_bound
from cuspfa.inference.variational.init import draw_start
from cuspfa.inference.variational.run import iteration
from cuspfa.inference.variational.steps import step_loadings, step_noise, step_scores
from cuspfa.inference.variational.tolerance import NearestSource, ToleratedError, no_marginal
from cuspfa.missing.source import MissingDataSource
from cuspfa.model.model_error import ModelError, Sample, log_marginal_density
from support import factor_rows, incomplete_rows, with_missing

N, P, K = 60, 7, 2
PRIOR = CuspPrior()
FIXED = CuspPrior(slab=GaussianSlab(0.5))
"""With a slab that has no variances of its own, which the bound would be maximised over."""


def rows_of(seed=0, n=N):
    rows = factor_rows(n, P, K, np.random.default_rng(seed))
    return rows - rows.mean(axis=0)


def sources(rows):
    """The layouts, each counting every row; with missing values around known means."""
    return {
        "gram": CompleteSource(GramMatrix(rows.T @ rows, float(len(rows)))),
        "rows": CompleteSource(RowMatrix(rows.copy(), float(len(rows)))),
        "missing": MissingDataSource(
            incomplete_rows(with_missing(rows, 0.2, seed=1)), flat_mean=False
        ),
    }


def literal(rows, loadings, noise):
    """Σ_i log N of the observed values of each row."""
    omega = loadings @ loadings.T + np.diag(noise)
    total = 0.0
    for row in rows:
        o = ~np.isnan(row)
        total += multivariate_normal(np.zeros(o.sum()), omega[np.ix_(o, o)]).logpdf(row[o])
    return total


@pytest.mark.parametrize("layout", ["gram", "rows", "missing"])
def test_a_tempered_likelihood_is_a_power(layout):
    rows, rng = rows_of(), np.random.default_rng(2)
    source = sources(rows)[layout]
    tempered = source.tempered(17.0)
    assert tempered.n == 17.0
    assert_allclose(tempered.counts, source.counts * 17 / N)
    given = with_missing(rows, 0.2, seed=1) if layout == "missing" else rows
    for _ in range(3):
        loadings, noise = rng.normal(size=(P, K)), rng.uniform(0.3, 1.0, P)
        expected = 17 / N * literal(given, loadings, noise)
        assert_allclose(tempered.log_likelihood(loadings, noise), expected, rtol=1e-9)
        both = tempered.log_likelihoods(loadings[:, None], noise[:, None])
        assert_allclose(both, [expected], rtol=1e-9)
        assert abs(source.log_likelihood(loadings, noise) - expected) > 1.0
    assert_allclose(tempered.tempered(60.0).n, 60.0)


def both_twice(layout):
    """A source that counts twice, and one of every row written twice."""
    rows = rows_of()
    once, twice = sources(rows)[layout].tempered(2.0 * N), sources(np.vstack([rows, rows]))[layout]
    if layout == "missing":
        given = with_missing(rows, 0.2, seed=1)
        twice = MissingDataSource(incomplete_rows(np.vstack([given, given])), flat_mean=False)
    return once, twice


@pytest.mark.parametrize("layout", ["gram", "rows", "missing"])
def test_a_weight_of_two_is_every_row_twice(layout):
    pair = both_twice(layout)
    states = [draw_start(one, PRIOR, 6, np.random.default_rng(0), K) for one in pair]
    for _ in range(6):
        states = [iteration(state, one, PRIOR) for state, one in zip(states, pair, strict=True)]
        bounds = [
            lower_bound(state, one, PRIOR).total for state, one in zip(states, pair, strict=True)
        ]
        assert_allclose(bounds[0], bounds[1], rtol=1e-9)
        assert_allclose(states[0].loadings.mean, states[1].loadings.mean, atol=1e-8)
        assert_allclose(states[0].noise.rate, states[1].noise.rate, rtol=1e-8)
        assert_allclose(states[0].noise.shape, states[1].noise.shape, rtol=1e-12)


def test_missing_data_without_missing_values_are_complete_data():
    rows = rows_of()
    whole = CompleteSource(GramMatrix(rows.T @ rows, N - 1.0)).tempered(20.0)
    incomplete = MissingDataSource(incomplete_rows(rows)).tempered(20.0)
    pair = (whole, incomplete)
    states = [draw_start(one, PRIOR, 6, np.random.default_rng(0), K) for one in pair]
    for _ in range(5):
        states = [iteration(state, one, PRIOR) for state, one in zip(states, pair, strict=True)]
        bounds = [
            lower_bound(state, one, PRIOR).total for state, one in zip(states, pair, strict=True)
        ]
        assert_allclose(bounds[0], bounds[1], rtol=1e-8)
        assert_allclose(states[0].noise.rate, states[1].noise.rate, rtol=1e-7)


def slope(function, step=1e-4):
    """The central difference at 0."""
    return (function(step) - function(-step)) / (2 * step)


@pytest.mark.parametrize("layout", ["gram", "missing"])
def test_every_block_is_at_the_maximum_of_the_tempered_bound(layout):
    source = sources(rows_of())[layout].tempered(23.5)
    rng = np.random.default_rng(4)
    state = draw_start(source, FIXED, 6, rng, K)
    for _ in range(3):
        state = iteration(state, source, FIXED)
    own = step_loadings(state, source, FIXED)
    move = rng.normal(size=(P, K))

    def of_loadings(t, at=own, along=move):
        loadings = at.loadings._replace(mean=at.loadings.mean + t * along)
        return lower_bound(at._replace(loadings=loadings), source, FIXED).total

    assert abs(slope(of_loadings)) < 1e-4
    assert abs(slope(lambda t: of_loadings(t + 0.05))) > 0.05
    own = step_noise(own, source, FIXED)
    turn = rng.normal(size=P)

    def of_noise(t, at=own):
        noise = at.noise._replace(rate=at.noise.rate * np.exp(t * turn))
        return lower_bound(at._replace(noise=noise), source, FIXED).total

    assert abs(slope(of_noise)) < 1e-4
    assert abs(slope(lambda t: of_noise(t + 0.05))) > 0.05

    def of_scores(t, at=own):
        """The scores that other noise would lead to."""
        other = source.expect_scores(at.loadings, at.noise.precision * np.exp(t * turn))
        return lower_bound(at._replace(scores=other), source, FIXED).total

    assert step_scores(own, source, FIXED).scores.n == 23.5
    assert abs(slope(of_scores)) < 1e-4
    assert abs(slope(lambda t: of_scores(t + 0.3))) > 1e-3


def test_the_nearest_source_has_the_marginal_density():
    rows = rows_of(n=300)
    source = CompleteSource(GramMatrix(rows.T @ rows, 299.0))
    tolerated = ToleratedError(source, 0.08)
    rng = np.random.default_rng(0)
    loadings, noise = rng.normal(size=(P, K)), rng.uniform(0.3, 1.0, P)
    near = tolerated.near(loadings, noise)
    assert isinstance(near, NearestSource)
    assert near.n == tolerated.rows == ModelError.of_size(0.08, P).effective_rows(299.0)
    sample, error = Sample(rows.T @ rows, 299.0), ModelError.of_size(0.08, P)
    omega = loadings @ loadings.T + np.diag(noise)
    expected = float(log_marginal_density(omega, sample, error))
    assert_allclose(near.log_likelihood(loadings, noise), expected, rtol=1e-10)
    several = np.stack([loadings, 0.5 * loadings], axis=1)
    found = near.log_likelihoods(several, np.stack([noise, noise], axis=1))
    assert_allclose(found[0], expected, rtol=1e-10)
    assert abs(found[1] - expected) > 1.0
    gaussian = CompleteSource.log_likelihoods(near, several, np.stack([noise, noise], axis=1))
    assert abs((gaussian[0] - gaussian[1]) - (found[0] - found[1])) < 0.5 * abs(found[0] - found[1])


def test_where_the_marginal_density_is_not_used():
    rows = rows_of()
    gram = CompleteSource(GramMatrix(rows.T @ rows, N - 1.0))
    assert no_marginal(gram, 0.05) is None
    assert (
        no_marginal(MissingDataSource(incomplete_rows(with_missing(rows, 0.2, seed=1))), 0.05)
        == "missing"
    )
    few = rows_of(n=7)
    assert no_marginal(CompleteSource(RowMatrix(few, 6.0)), 0.05) == "rows"
    # Enough rows, but not once they count less.
    some = CompleteSource(GramMatrix(rows.T @ rows, 8.0))
    assert no_marginal(some, 0.001) is None
    assert no_marginal(some, 0.4) == "rows"
