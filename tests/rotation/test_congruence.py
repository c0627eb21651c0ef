"""Congruence between two fits."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import orthogonal_procrustes

from cuspfa import CuspFactorAnalysis, Gibbs, datasets, factor_congruence
from cuspfa.errors import CuspWarning, DataError, InputError
from support import column_congruence

RNG = np.random.default_rng(0)
TRUE = np.kron(np.eye(3), np.full((4, 1), 0.8)) + 0.1 * RNG.normal(size=(12, 3))
NAMES = [f"item {j}" for j in range(12)]


def fit(loadings, n=300, seed=0, **settings):
    rng = np.random.default_rng(seed)
    p, k = loadings.shape
    X = rng.normal(size=(n, k)) @ loadings.T + 0.7 * rng.normal(size=(n, p))
    frame = pd.DataFrame(X, columns=NAMES[:p])
    return CuspFactorAnalysis(n_factors=k, **settings).fit(frame)


@pytest.fixture(scope="module")
def half():
    return fit(TRUE, rotation="oblimin")


@pytest.mark.parametrize("rotation", [None, "oblimin"])
def test_turned_congruence_is_that_of_procrustes(half, rotation):
    other = fit(TRUE, seed=1, rotation=rotation)
    found = factor_congruence(half, other, n_draws=100)
    rotated_solution, mean = (
        half.posterior_.rotated_solution,
        other.posterior_.standardized_loadings,
    )
    flat = rotated_solution.loadings @ rotated_solution.matrix.T
    turned = mean @ orthogonal_procrustes(mean, flat)[0] @ np.linalg.inv(rotated_solution.matrix).T
    assert_allclose(found.second, turned, atol=1e-8)
    assert_allclose(found.congruence, column_congruence(half.loadings_, turned), atol=1e-8)
    assert found.congruence.min() > 0.95
    assert np.all(found.lower < found.upper)
    assert np.all(found.chance < 0.8)
    assert "equal" in str(found)


def test_other_factors_are_not_found(half):
    """The negative control: other loadings are no more alike than chance allows."""
    strange = fit(RNG.normal(size=(12, 3)) * 0.5, seed=2)
    found = factor_congruence(half, strange, n_draws=100)
    assert np.median(found.congruence) < 0.85
    assert found.congruence.min() < found.chance.max()
    assert "different" in str(found)


def test_without_a_turn_factors_are_paired_as_they_are(half):
    other = fit(TRUE[:, ::-1], seed=1, rotation="oblimin")
    found = factor_congruence(half, other, procrustes=False, n_draws=100)
    a, b = half.loadings_[:, found.pairs[:, 0]], other.loadings_[:, found.pairs[:, 1]]
    assert_allclose(found.congruence, np.abs(column_congruence(a, b)), atol=1e-8)
    assert found.congruence.min() > 0.95
    assert np.all((found.lower > 0.8) & (found.lower < found.upper))


def test_variables_are_matched_by_name(half):
    other = fit(TRUE, seed=1)
    X = pd.DataFrame(other.sample(300, random_state=0), columns=NAMES)
    plain = factor_congruence(half, CuspFactorAnalysis(n_factors=3).fit(X), n_draws=20)
    order = np.random.default_rng(0).permutation(12)
    mixed = CuspFactorAnalysis(n_factors=3).fit(X[[NAMES[j] for j in order]])
    again = factor_congruence(half, mixed, n_draws=20)
    assert_allclose(again.congruence, plain.congruence, atol=1e-6)
    unnamed = CuspFactorAnalysis(n_factors=3).fit(X.to_numpy()[:, order])
    assert (
        factor_congruence(half, unnamed, n_draws=20).congruence.min() < 0.8
    )  # by position it is not


def test_other_numbers_of_factors(half):
    found = factor_congruence(half, fit(TRUE[:, :2], seed=1), n_draws=50)
    assert np.sum(np.isnan(found.congruence)) == 1
    assert np.nanmin(found.congruence) > 0.95
    assert "no such factor" in str(found)
    more = factor_congruence(fit(TRUE[:, :2], seed=1), half, n_draws=50)
    assert more.congruence.shape == (2,)
    assert more.congruence.min() > 0.95
    none = CuspFactorAnalysis(n_factors=0).fit(pd.DataFrame(half.sample(50), columns=NAMES))
    assert np.isnan(factor_congruence(half, none, n_draws=10).congruence).all()
    assert factor_congruence(none, half, n_draws=10).congruence.shape == (0,)


def test_arguments_are_checked(half):
    with pytest.raises(InputError, match="second must be a fitted CuspFactorAnalysis"):
        factor_congruence(half, 3)
    with pytest.raises(InputError, match="procrustes must be True or False"):
        factor_congruence(half, half, procrustes="yes")
    with pytest.raises(DataError, match="The second has no 'item 8'"):
        factor_congruence(half, fit(TRUE[:8], seed=1))
    short = CuspFactorAnalysis(n_factors=3).fit(half.sample(50, random_state=0)[:, :8])
    with pytest.raises(DataError, match="Got 12 and 8 of them"):
        factor_congruence(half, short)


def test_fits_of_both_engines_whatever_number_of_draws_they_have():
    rows = datasets.simulate(100, 8, 2, random_state=0).X
    variational = CuspFactorAnalysis().fit(rows)
    method = Gibbs(n_draws=20, n_chains=2, burn_in=50)
    # So few draws have not converged.
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        sampled = CuspFactorAnalysis(method=method, random_state=0).fit(rows)
    assert factor_congruence(variational, sampled).congruence.min() > 0.95
    alone = factor_congruence(sampled, sampled)
    assert_allclose(alone.congruence, 1.0)
    assert np.all(alone.lower < 0.999)  # not draw by draw with itself
