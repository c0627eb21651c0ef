"""The estimator with model error, against formulas that are written out with p×p matrices."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV

from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    Moments,
    Variational,
    datasets,
)
from cuspfa._utils.fit_warning import ModelErrorNotLearned, TemperedLikelihood
from cuspfa._utils.fit_warning_text import terminal_text
from cuspfa.data.in_memory import GramMatrix
from cuspfa.errors import CuspWarning, InputError
from cuspfa.inference.variational import error_grid
from cuspfa.model.model_error import ModelError
from support import with_missing

X = datasets.simulate(150, 8, 2, random_state=1).X
WIDE = datasets.simulate(30, 50, 2, random_state=2).X
EPS = 0.12
ZERO_BOUND = -1606.36477915962
"""The bound of X before there was a model error."""


INCOMPLETE = with_missing(X[:40], 0.2)


@pytest.fixture(scope="module", params=[None, "oblimin"])
def model(request):
    return CuspFactorAnalysis(n_factors=2, model_error=EPS, rotation=request.param).fit(X)


def parts(model, rows=X):
    """Λ, Ω and E[Σ̃] = (A + mΩ)/(ν + m − p − 1), with A the cross-products of centred rows."""
    n, p = rows.shape
    centred = rows - rows.mean(axis=0)
    loadings, phi = model.components_.T, model.factor_correlations_
    omega = loadings @ phi @ loadings.T + np.diag(model.noise_variance_)
    m = ModelError.of_size(model.model_error_, p).degrees
    population = (centred.T @ centred + m * omega) / (n - 1 + m - p - 1)
    return loadings @ phi, omega, population  # Λ Φ = Cov(y, η)


# --- without error ---


def test_zero_is_the_default():
    for rows in (X, WIDE, load_wine().data):
        default, zero = (CuspFactorAnalysis(**one).fit(rows) for one in ({}, {"model_error": 0.0}))
        assert default.n_factors_ == zero.n_factors_
        assert default.lower_bound_ == zero.lower_bound_
        assert [one.evidence for one in default.search_] == pytest.approx(
            [one.evidence for one in zero.search_], rel=0, abs=0, nan_ok=True
        )
        drawn = [one.posterior_.draw(5, random_state=1).loadings for one in (default, zero)]
        np.testing.assert_array_equal(*drawn)
    assert CuspFactorAnalysis().fit(X).lower_bound_ == pytest.approx(ZERO_BOUND, abs=0.01)
    other = CuspFactorAnalysis(model_error=EPS).fit(X)
    assert other.lower_bound_ != pytest.approx(ZERO_BOUND, abs=1.0)
    assert other.model_error_ == EPS
    assert zero.model_error_ == 0.0
    assert zero.posterior_.population is None


# --- what speaks of the population ---


def test_covariance_is_that_of_the_population(model):
    _, omega, population = parts(model)
    np.testing.assert_allclose(model.get_covariance(), population, rtol=1e-10)
    np.testing.assert_allclose(model.get_covariance([5, 2]), population[np.ix_([5, 2], [5, 2])])
    np.testing.assert_allclose(model.get_precision() @ population, np.eye(8), atol=1e-9)
    assert np.max(np.abs(population - omega)) > 0.02


def test_densities_are_those_of_the_population(model):
    _, omega, population = parts(model)
    found = model.score_samples(X)
    expected = multivariate_normal(X.mean(axis=0), population).logpdf(X)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.max(np.abs(found - multivariate_normal(X.mean(axis=0), omega).logpdf(X))) > 0.01
    assert model.score(X) == pytest.approx(expected.mean(), rel=1e-9)
    for row, value in zip(INCOMPLETE, model.score_samples(INCOMPLETE), strict=True):
        o = ~np.isnan(row)
        some = multivariate_normal(X.mean(axis=0)[o], population[np.ix_(o, o)])
        assert value == pytest.approx(some.logpdf(row[o]), rel=1e-9)


def test_scores_are_the_regression_on_the_population(model):
    towards, omega, population = parts(model)
    centred = X - X.mean(axis=0)
    expected = centred @ np.linalg.solve(population, towards)
    scores = model.factor_scores(X)
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-9)
    np.testing.assert_allclose(scores.mean, expected, atol=1e-9)
    covariance = model.factor_correlations_ - towards.T @ np.linalg.solve(population, towards)
    np.testing.assert_allclose(scores.covariance, covariance, atol=1e-9)
    own = centred @ np.linalg.solve(omega, towards)
    assert np.max(np.abs(expected - own)) > 1e-3


def test_scores_of_rows_with_missing_values(model):
    towards, _, population = parts(model)
    means = X.mean(axis=0)
    found = model.factor_scores(INCOMPLETE)
    np.testing.assert_allclose(model.transform(INCOMPLETE), found.mean, atol=1e-12)
    for row, mean, covariance in zip(INCOMPLETE, found.mean, found.covariance, strict=True):
        o = ~np.isnan(row)
        weights = np.linalg.solve(population[np.ix_(o, o)], towards[o])
        np.testing.assert_allclose(mean, (row[o] - means[o]) @ weights, atol=1e-9)
        expected = model.factor_correlations_ - towards[o].T @ weights
        np.testing.assert_allclose(covariance, expected, atol=1e-9)


def conditional(population, means, row):
    """Mean and covariance of the missing values of a row, given the others."""
    o, m = ~np.isnan(row), np.isnan(row)
    weights = np.linalg.solve(population[np.ix_(o, o)], population[np.ix_(o, m)])
    mean = means[m] + (row[o] - means[o]) @ weights
    return m, mean, population[np.ix_(m, m)] - population[np.ix_(m, o)] @ weights


def test_imputed_values_are_conditional_means(model):
    _, omega, population = parts(model)
    filled, sd = model.impute(INCOMPLETE, return_std=True)
    differs = 0.0
    for row, found, spread in zip(INCOMPLETE, filled, sd, strict=True):
        m, mean, covariance = conditional(population, X.mean(axis=0), row)
        np.testing.assert_array_equal(found[~m], row[~m])
        np.testing.assert_allclose(found[m], mean, atol=1e-9)
        np.testing.assert_allclose(spread[m], np.sqrt(np.diag(covariance)), rtol=1e-9)
        other = conditional(omega, X.mean(axis=0), row)[1]
        differs = max(differs, np.max(np.abs(other - mean), initial=0.0))
    assert differs > 1e-3


def test_drawn_values_have_the_spread_of_the_population():
    rows = X[:3].copy()
    rows[0, [1, 4]] = np.nan
    rows[1, 2:7] = np.nan
    rows[2] = np.nan
    model = CuspFactorAnalysis(n_factors=2, model_error=EPS).fit(X)
    size = 4000
    drawn = model.impute(rows, n_draws=size, random_state=3)
    posterior = model.posterior_.draw(size, random_state=4, population=True)
    rng = np.random.default_rng(5)
    for number, row in enumerate(rows):
        # The same distribution by another way: every draw of Σ̃ with its own formulas.
        values = []
        for covariance in posterior.covariance:
            centre = rng.multivariate_normal(X.mean(axis=0), covariance / len(X))
            _, mean, spread = conditional(covariance, centre, row)
            values.append(rng.multivariate_normal(mean, spread))
        own = drawn[:, number][:, np.isnan(row)]
        for j, column in enumerate(np.array(values).T):
            # 15 columns, and draws of one chain depend on each other: a strict limit, far from
            # what a shift by a fifth of a standard deviation gives.
            assert kstest(own[:, j], column).pvalue > 1e-6
            assert kstest(own[:, j], column + 0.2 * column.std()).pvalue < 1e-8
        np.testing.assert_allclose(np.corrcoef(own.T), np.corrcoef(np.array(values).T), atol=0.08)


@pytest.mark.parametrize("quantity", ["covariance", "correlation"])
def test_intervals_are_those_of_drawn_populations(quantity):
    model = CuspFactorAnalysis(n_factors=2, model_error=EPS).fit(X)
    posterior = model.posterior_
    draws = posterior.draw(8000, random_state=1, population=True)
    values = getattr(draws, quantity)
    low, high = np.quantile(values, [0.025, 0.975], axis=0)
    found = posterior.interval(quantity, n_draws=8000, random_state=2)
    width = np.where(high - low > 1e-9, high - low, 1.0)
    assert np.max(np.abs(found.lower - low) / width) < 0.06
    assert np.max(np.abs(found.upper - high) / width) < 0.06
    given = posterior.interval(quantity, draws=draws)
    np.testing.assert_allclose(given.lower, low, atol=1e-12)
    some = posterior.interval(quantity, n_draws=8000, random_state=2, columns=[6, 1])
    assert np.max(np.abs(some.lower - low[np.ix_([6, 1], [6, 1])])) < 0.06 * width.max()
    # Those of Ω are others.
    omega = getattr(posterior.draw(8000, random_state=1), quantity)
    ends = np.quantile(omega, [0.025, 0.975], axis=0)
    off = ~np.eye(8, dtype=bool)
    assert np.max(np.abs(ends[0] - low)[off] / width[off]) > 0.2


def test_samples_have_the_covariance_of_the_population(model):
    rows = model.sample(60_000, random_state=0)
    _, omega, population = parts(model)
    found = np.cov(rows.T)
    sd = np.sqrt(np.outer(np.diag(population), np.diag(population)) / 60_000)
    assert np.max(np.abs(found - population) / sd) < 6
    assert np.max(np.abs(found - omega) / sd) > 6


def test_more_columns_than_rows():
    with pytest.warns(CuspWarning, match="likelihood to a power"):
        model = CuspFactorAnalysis(n_factors=2, model_error=0.05).fit(WIDE)
    towards, _, population = parts(model, WIDE)
    np.testing.assert_allclose(model.get_covariance(), population, rtol=1e-9)
    np.testing.assert_allclose(
        model.transform(WIDE),
        (WIDE - WIDE.mean(axis=0)) @ np.linalg.solve(population, towards),
        atol=1e-8,
    )
    (warning,) = model.posterior_.provenance.warnings
    rows = ModelError.of_size(0.05, 50).effective_rows(29.0)
    assert warning == TemperedLikelihood(0.05, "rows", rows, 50, True)


def test_the_same_rows_one_pattern_after_another(model, monkeypatch):
    together = model.transform(INCOMPLETE), model.score_samples(INCOMPLETE)
    monkeypatch.setattr("cuspfa.missing.prediction.MOST_PRODUCTS", 0)
    np.testing.assert_allclose(model.transform(INCOMPLETE), together[0], atol=1e-12)
    np.testing.assert_allclose(model.score_samples(INCOMPLETE), together[1], rtol=1e-12)


def test_no_p_by_p_arrays_are_made_of_wide_data(monkeypatch):
    p = 2000
    rows = datasets.simulate(20, p, 1, random_state=0).X
    with pytest.warns(CuspWarning, match="to a power"):
        model = CuspFactorAnalysis(n_factors=1, model_error=0.05).fit(rows)
    new = with_missing(rows[:4], 0.05)
    tracemalloc.start()
    model.get_covariance([0, 1])
    model.score(rows)
    model.sample(2, random_state=0)
    model.transform(rows)
    model.transform(new)
    model.impute(new)
    model.posterior_.interval("correlation", columns=[0, 1], n_draws=20)
    peak = tracemalloc.get_traced_memory()[1]
    model.get_covariance()
    whole = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * p * p * 8 < p * p * 8 <= whole
    monkeypatch.setattr("cuspfa.posterior.population.MOST_KEPT", 100_000)
    for call in (
        lambda: model.impute(new, n_draws=1),
        lambda: model.posterior_.draw(1, population=True),
    ):
        with pytest.raises(InputError, match="take more than 100,000 numbers"):
            call()


# --- what data and settings allow ---


@pytest.mark.parametrize("error", [0.05, "auto"])
def test_refused_with_a_finite_spike_and_random_starts(error):
    with pytest.raises(InputError, match="0 with a spike of"):
        CuspFactorAnalysis(model_error=error, prior=CuspPrior.variational_paper()).fit(X)
    with pytest.raises(InputError, match="0 with init='random'"):
        CuspFactorAnalysis(model_error=error, method=Variational(init="random")).fit(X)


@pytest.mark.parametrize("error", [-0.01, 0.6, np.nan, "some", None])
def test_refused_out_of_range(error):
    with pytest.raises(InputError, match="model_error"):
        CuspFactorAnalysis(model_error=error).fit(X)


def fit_with_warning(rows, error, match):
    with pytest.warns(CuspWarning, match=match):
        model = CuspFactorAnalysis(n_factors=1, model_error=error).fit(rows)
    (warning,) = model.posterior_.provenance.warnings
    return model, warning


def test_auto_means_zero_where_it_cannot_be_learned():
    model, warning = fit_with_warning(WIDE, "auto", "cannot be learned from 30 rows of 50 columns")
    assert warning == ModelErrorNotLearned("rows", 30, 50)
    assert model.model_error_ == 0.0
    exact = CuspFactorAnalysis(n_factors=1).fit(WIDE)
    assert model.lower_bound_ == exact.lower_bound_
    assert len(model.posterior_.fit_info.model_errors) == 0

    model, warning = fit_with_warning(
        with_missing(X, 0.1), "auto", "with missing values: model_error='a"
    )
    assert warning == ModelErrorNotLearned("missing", 150, 8)
    assert model.model_error_ == 0.0
    assert "--model-error auto means 0" in terminal_text(warning)


def test_auto_where_cross_products_are_not_kept(monkeypatch):
    monkeypatch.setattr(GramMatrix, "statistics", lambda *_: None)
    moments = Moments.from_rows(X)
    with pytest.warns(CuspWarning, match="too large to keep"):
        model = CuspFactorAnalysis(n_factors=1, model_error="auto").fit_moments(moments)
    assert model.model_error_ == 0.0
    with pytest.warns(CuspWarning, match="those of the factor model"):
        fixed = CuspFactorAnalysis(n_factors=1, model_error=0.05).fit_moments(moments)
    assert fixed.posterior_.population is None
    assert fixed.posterior_.provenance.warnings[0].reason == "size"


def test_a_fixed_error_with_missing_values():
    rows = with_missing(X, 0.1)
    model, warning = fit_with_warning(rows, 0.05, "those of the factor model")
    effective = ModelError.of_size(0.05, 8).effective_rows(149.0)
    assert warning == TemperedLikelihood(0.05, "missing", effective, 8, False)
    assert model.posterior_.population is None
    np.testing.assert_allclose(model.get_covariance(), model.posterior_.covariance)


def test_an_error_too_large_for_the_rows_is_not_on_the_grid():
    rows = datasets.simulate(24, 20, 1, random_state=0).X
    model = CuspFactorAnalysis(n_factors=1, model_error="auto").fit(rows)
    sizes = {one.model_error for one in model.posterior_.fit_info.model_errors}
    enough = [
        size for size in error_grid.GRID if ModelError.of_size(size, 20).effective_rows(23.0) >= 20
    ]
    assert 0 < len(enough) < len(error_grid.GRID)
    assert sizes <= {0.0, *enough}
    assert model.posterior_.provenance.warnings == ()


# --- as scikit-learn has it ---


def test_clone_and_set_params():
    model = CuspFactorAnalysis(model_error="auto")
    assert clone(model).model_error == "auto"
    assert model.set_params(model_error=0.05).fit(X).model_error_ == 0.05
    assert clone(model).get_params()["model_error"] == 0.05
    assert "model_error='auto'" in repr(CuspFactorAnalysis(model_error="auto"))


def test_a_grid_search_over_the_error():
    search = GridSearchCV(
        CuspFactorAnalysis(n_factors=1), {"model_error": [0.0, 0.05, 0.1]}, cv=3
    ).fit(X)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) == 3
    assert search.best_estimator_.model_error_ == search.best_params_["model_error"]
    # Two factors make the data: with one of them a model error is better than none.
    assert search.best_params_["model_error"] > 0


def test_an_error_too_small_to_be_seen_is_none():
    rows = datasets.simulate(200, 8, 2, random_state=0).X
    tiny, none = (CuspFactorAnalysis(model_error=size).fit(rows) for size in (1e-9, 0.0))
    assert tiny.model_error_ == 0.0
    assert tiny.lower_bound_ == none.lower_bound_
