"""The estimator of counts: scikit-learn's checks, new rows, missing cells, exposures, errors."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.stats import gamma, poisson
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from cuspfa import CuspPoissonFactorization, PoissonFactorizationPrior
from cuspfa.errors import ConvergenceWarning, CuspWarning, DataError, InputError

RNG = np.random.default_rng(1)
RATES = RNG.gamma(0.3, 3, (120, 3)) @ RNG.gamma(0.3, 3, (3, 30))
X = RNG.poisson(RATES)


@pytest.fixture(scope="module")
def model():
    return CuspPoissonFactorization(n_factors=3, random_state=0).fit(X)


def no_failures(estimator):
    return {}


def all_checks():
    """A given K of 1: the checks are of the interface, and their data are not counts."""
    estimators = [CuspPoissonFactorization(fractions=True, max_factors=2)]
    mark = parametrize_with_checks(estimators, expected_failed_checks=no_failures).mark
    return pytest.mark.parametrize(mark.args[0], list(mark.args[1]), **mark.kwargs)


@all_checks()
def test_scikit_learn_check(estimator, check):
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        check(estimator)


def test_it_finds_k_and_the_loadings():
    fitted = CuspPoissonFactorization(random_state=0).fit(X)
    assert fitted.n_factors_ == 3
    assert fitted.converged_
    assert np.all(fitted.components_ >= 0)
    assert list(fitted.search_.to_frame()["n_factors"]) == [one.n_factors for one in fitted.search_]
    assert np.all(np.diff(fitted.posterior_.shares) <= 0)
    error = fitted.inverse_transform(fitted.transform(X)) - RATES
    assert np.mean(error**2) < 0.05 * np.var(RATES)


def test_a_fit_that_has_not_converged_warns_once():
    with pytest.warns(ConvergenceWarning) as caught:
        fitted = CuspPoissonFactorization(n_factors=3, max_iter=2, random_state=0).fit(X)
    assert [str(one.message) for one in caught] == [
        "Not converged: the fit stopped at max_iter=2 iterations. To go on, raise max_iter of "
        "CuspPoissonFactorization, or its tol above 0.1."
    ]
    assert not fitted.converged_
    told = fitted.posterior_.summary().convergence_text
    assert told.startswith("Ended (not converged: stopped at max_iter iterations; ")
    assert "after 2 iterations" in told


def test_sparse_frames_and_dense_arrays_give_the_same_fit(model):
    frame = pd.DataFrame(X, columns=[f"word {j}" for j in range(30)])
    for data in (sparse.csr_matrix(X), sparse.coo_array(X), frame, X.astype(np.float32)):
        other = clone(model).fit(data)
        np.testing.assert_allclose(other.components_, model.components_, rtol=1e-9)
    assert other.n_features_in_ == 30
    named = clone(model).fit(frame)
    assert list(named.feature_names_in_) == list(frame.columns)
    with pytest.raises(DataError, match="feature names should match"):
        named.transform(frame[frame.columns[::-1]])


def test_the_same_seed_gives_the_same_fit(model):
    again = clone(model).fit(X)
    np.testing.assert_array_equal(again.components_, model.components_)
    np.testing.assert_array_equal(
        again.posterior_.interval("rates", n_draws=5, random_state=3),
        pickle.loads(pickle.dumps(model)).posterior_.interval("rates", n_draws=5, random_state=3),
    )


def test_missing_cells_are_left_out_however_they_are_marked(model):
    holes = np.random.default_rng(0).random(X.shape) < 0.1
    dense = np.where(holes, np.nan, X)
    one = clone(model).fit(dense)
    two = clone(model).fit(sparse.csr_matrix(X), missing=holes)
    np.testing.assert_allclose(one.components_, two.components_, rtol=1e-9)
    rates = one.inverse_transform(one.transform(dense))
    error = np.mean((rates - RATES)[holes] ** 2)
    assert error < 0.3 * np.var(RATES[holes])
    # Zeros in their place would pull the rates down.
    zeros = clone(model).fit(np.where(holes, 0, X))
    wrong = zeros.inverse_transform(zeros.transform(np.where(holes, 0, X)))
    assert error < np.mean((wrong - RATES)[holes] ** 2)


def test_exposures_multiply_the_rates():
    rng = np.random.default_rng(3)
    s = rng.uniform(0.2, 5.0, 120)
    counts = rng.poisson(s[:, None] * RATES)
    fitted = CuspPoissonFactorization(n_factors=3, random_state=0).fit(counts, exposure=s)
    rates = fitted.inverse_transform(fitted.transform(counts, exposure=s))
    assert np.mean((rates - RATES) ** 2) < 0.05 * np.var(RATES)


def test_log_densities_are_those_of_quadrature():
    x = np.random.default_rng(2).poisson(2.0, (30, 4))
    fitted = CuspPoissonFactorization(n_factors=1, random_state=0).fit(x)
    beta, a = fitted.components_[0], fitted.posterior_.hyperparameters.score_shape

    def density(theta, row):
        return gamma.pdf(theta, a, scale=1 / a) * np.prod(poisson.pmf(row, 1.5 * theta * beta))

    exact = [np.log(quad(density, 0, 20, args=(row,), points=[1.0])[0]) for row in x[:5]]
    found = fitted.score_samples(x[:5], exposure=np.full(5, 1.5))
    np.testing.assert_allclose(found, exact, atol=0.02)
    assert fitted.score(x) == pytest.approx(np.mean(fitted.score_samples(x)))


def test_intervals_of_rates_contain_the_truth(model):
    interval = model.posterior_.interval("rates", 0.9)
    inside = (interval.lower < RATES) & (interval.upper > RATES)
    assert 0.84 < inside.mean() < 0.95
    low, high = model.posterior_.interval("shares")
    assert np.all(low < high)
    low, high = model.posterior_.interval("loadings", n_draws=50)
    assert low.shape == model.components_.T.shape


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (X - 5.0, "Negative values"),
        (X + 0.5, "not whole numbers: 0.5 in row"),
        (sparse.csr_matrix(np.where(X > 3, np.nan, X)), "column"),
        (X * 1e9, "Counts above"),
        (np.full((3, 2), np.inf), "infinity"),
    ],
)
def test_what_is_not_a_count_is_refused(data, message):
    with pytest.raises(DataError, match=message):
        CuspPoissonFactorization(n_factors=1).fit(data)


@pytest.mark.parametrize(
    ("parameters", "fit", "message"),
    [
        ({"n_factors": 40}, {}, "n_factors must be at most 30"),
        ({"n_factors": 0}, {}, "cannot explain"),
        ({"tol": 0.0}, {}, "tol"),
        ({"n_factors": 1}, {"exposure": np.zeros(120)}, "exposure must be 120 positive"),
        ({"n_factors": 1}, {"missing": np.ones((2, 2))}, "missing must be a mask"),
        (
            {"prior": PoissonFactorizationPrior(spike=0.1, n_terms=5)},
            {},
            "spike of the prior must be None",
        ),
    ],
)
def test_wrong_arguments_are_named(parameters, fit, message):
    with pytest.raises(InputError, match=message):
        CuspPoissonFactorization(**parameters).fit(X, **fit)


def test_the_prior_refuses_what_it_cannot_mean():
    with pytest.raises(InputError, match="score_shape"):
        PoissonFactorizationPrior(score_shape=0.001)
    with pytest.raises(InputError, match="n_terms with a spike"):
        PoissonFactorizationPrior(spike=0.1)
    with pytest.raises(InputError, match="alpha"):
        PoissonFactorizationPrior(alpha=-1)


def test_counts_of_zero_have_no_factor():
    fitted = CuspPoissonFactorization().fit(np.zeros((5, 3)))
    assert fitted.n_factors_ == 0
    assert fitted.transform(np.zeros((2, 3))).shape == (2, 0)
    np.testing.assert_array_equal(fitted.score_samples(np.eye(3)[:1]), [-np.inf])


def test_fractions_are_accepted_when_asked_for():
    fitted = CuspPoissonFactorization(n_factors=3, fractions=True).fit(X + 0.5)
    assert fitted.n_factors_ == 3
    with pytest.raises(InputError, match="no counts to draw with"):
        fitted.posterior_.draw()


def test_no_sweeps_split_fractions():
    fits = [
        CuspPoissonFactorization(n_factors=2, fractions=True, random_state=seed).fit(X[:40] + 0.5)
        for seed in (0, 1)
    ]
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)
