"""Incomplete rows: scores, densities and filled values by conditioning; draws; files; frames."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from scipy.stats import multivariate_normal

from cuspfa import (
    CuspFactorAnalysis,
    Gibbs,
    Variational,
    check_assumptions,
    datasets,
    load,
    prior_sensitivity,
    select_n_factors,
)
from cuspfa.errors import CuspWarning, DataError, InputError
from cuspfa.io import archive
from cuspfa.posterior import VariationalPosterior
from oracles import missing as oracle
from support import variational_posterior

SIMULATED = datasets.simulate(150, 7, 2, mean=2.0, random_state=3)
X = SIMULATED.X.copy()
X[np.random.default_rng(0).random(X.shape) < 0.15] = np.nan
MODEL = CuspFactorAnalysis(n_factors=2).fit(X)
NEW = np.array(
    [
        [np.nan] * 7,
        [1.0, 2.0, np.nan, 3.0, np.nan, 0.0, 1.0],
        [1.0, 2.0, 2.5, 3.0, 1.0, 0.0, 1.0],
        [np.nan] * 6 + [4.0],
    ]
)


def distribution():
    return MODEL.mean_, MODEL.get_covariance()


def test_filled_values_and_their_spread_by_conditioning_the_joint_distribution():
    mean, omega = distribution()
    values, std = MODEL.impute(NEW, return_std=True)
    for row, filled, spread in zip(NEW, values, std, strict=True):
        missing_value = np.isnan(row)
        assert_allclose(filled[~missing_value], row[~missing_value], rtol=0)
        assert_allclose(spread[~missing_value], 0.0, atol=0)
        if missing_value.any():
            at, covariance = oracle.conditional(row, mean, omega)
            assert_allclose(filled[missing_value], at, rtol=1e-9)
            assert_allclose(spread[missing_value], np.sqrt(np.diag(covariance)), rtol=1e-9)
    assert_allclose(MODEL.impute(NEW), values, rtol=0)


def test_densities_are_of_what_a_row_has():
    mean, omega = distribution()
    found = MODEL.score_samples(NEW)
    for row, value in zip(NEW, found, strict=True):
        o = ~np.isnan(row)
        exact = 0.0
        if o.any():
            exact = multivariate_normal(mean[o], omega[np.ix_(o, o)]).logpdf(row[o])
        assert_allclose(value, exact, rtol=1e-9, atol=1e-12)


def test_scores_by_conditioning_and_at_the_prior_for_a_row_without_values():
    c, noise = MODEL.components_, MODEL.noise_variance_
    scores = MODEL.factor_scores(NEW)
    assert scores.covariance.shape == (4, 2, 2)
    for row, at, covariance in zip(NEW, scores.mean, scores.covariance, strict=True):
        o = ~np.isnan(row)
        omega = c[:, o].T @ c[:, o] + np.diag(noise[o])
        weights = c[:, o] @ np.linalg.inv(omega)
        assert_allclose(at, weights @ (row[o] - MODEL.mean_[o]), atol=1e-9)
        assert_allclose(covariance, np.eye(2) - weights @ c[:, o].T, atol=1e-9)
    assert_allclose(scores.mean[0], 0.0, atol=0)
    assert_allclose(MODEL.transform(NEW), scores.mean, rtol=0)
    complete = MODEL.factor_scores(NEW[2:3])
    assert complete.covariance.shape == (2, 2)
    assert_allclose(complete.mean[0], scores.mean[2], atol=1e-10)


def test_drawn_tables_have_the_predictive_law():
    drawn = MODEL.impute(np.repeat(NEW[1:2], 400, axis=0), n_draws=20, random_state=0)
    assert drawn.shape == (20, 400, 7)
    missing_value = np.isnan(NEW[1])
    assert_allclose(
        drawn[..., ~missing_value],
        np.broadcast_to(NEW[1][~missing_value], drawn[..., ~missing_value].shape),
    )
    at, covariance = oracle.conditional(NEW[1], *distribution())
    values = drawn[..., missing_value].reshape(-1, 2)
    assert_allclose(values.mean(axis=0), at, atol=0.15)
    assert_allclose(np.cov(values, rowvar=False), covariance, atol=0.2)
    # Tables differ by their parameters, not only by their noise.
    between = drawn[:, :, missing_value].mean(axis=1).var(axis=0)
    assert np.all(between > 1.5 * np.diag(covariance) / 400)
    again = MODEL.impute(NEW, n_draws=3, random_state=5)
    assert_allclose(MODEL.impute(NEW, n_draws=3, random_state=5), again, rtol=0)
    assert not np.allclose(MODEL.impute(NEW, n_draws=3, random_state=6), again)


def test_a_fit_to_complete_rows_fills_missing_values_too():
    model = CuspFactorAnalysis(n_factors=2).fit(SIMULATED.X)
    at, _ = oracle.conditional(NEW[1], model.mean_, model.get_covariance())
    assert_allclose(model.impute(NEW)[1][np.isnan(NEW[1])], at, rtol=1e-9)
    assert np.isfinite(model.impute(NEW, n_draws=2, random_state=0)).all()
    draws = model.posterior_.draw(4000, random_state=0)
    means = model.posterior_.draw_means(draws, np.random.default_rng(0))
    # A flat prior on the mean: its posterior is N(ȳ, Ω/n).
    assert_allclose(means.mean(axis=0), SIMULATED.X.mean(axis=0), atol=0.03)
    assert_allclose(np.cov(means, rowvar=False) * 150, model.get_covariance(), atol=0.4)


def test_means_are_drawn_with_a_fit_to_missing_values():
    draws = MODEL.posterior_.draw(2000, random_state=0)
    assert draws.mean.shape == (2000, 7)
    assert_allclose(draws.mean.mean(axis=0), MODEL.mean_, atol=0.06)
    spread = np.sqrt(np.diag(MODEL.get_covariance()) / np.sum(~np.isnan(X), axis=0))
    assert_allclose(draws.mean.std(axis=0), spread, rtol=0.2)
    approximate = variational_posterior(MODEL).draw(2000, random_state=0, sweeps=0)
    assert_allclose(approximate.mean.std(axis=0), spread, rtol=0.2)
    assert draws.only(np.array([1, 2])).mean.shape == (2000, 2)
    assert next(draws.batches(10)).mean.shape == (10, 7)


# --- kinds of tables ---


def test_missing_values_of_every_kind_of_table():
    table = np.round(X, 2)
    names = list("abcdefg")
    frame = pd.DataFrame(table, columns=names)
    whole = frame.convert_dtypes()
    kinds = {
        "pandas": frame,
        "nullable": whole,
        "polars": pl.from_pandas(frame, nan_to_null=True),
        "arrow": pa.Table.from_pandas(frame),
        "objects": frame.astype(object).where(~np.isnan(table), None),
        "float32": table.astype(np.float32),
        "masked": np.ma.masked_invalid(table),
        "objects array": frame.astype(object).where(~np.isnan(table), None).to_numpy(),
    }
    expected = CuspFactorAnalysis(n_factors=2).fit(table)
    for kind, data in kinds.items():
        model = CuspFactorAnalysis(n_factors=2).fit(data)
        tolerance = 1e-5 if kind == "float32" else 1e-9
        assert_allclose(model.get_covariance(), expected.get_covariance(), rtol=tolerance)
        assert_allclose(model.impute(data), expected.impute(table), rtol=tolerance, atol=tolerance)


def test_missing_values_in_whole_numbers_and_truth_values():
    for frame in (
        pd.DataFrame({"a": pd.array([1, None, 3, 5], dtype="Int64"), "b": [1.0, 2.0, 4.0, 0.0]}),
        pl.DataFrame({"a": [1, None, 3, 5], "b": [1.0, 2.0, 4.0, 0.0]}),
        pa.table({"a": [1, None, 3, 5], "b": [1.0, 2.0, 4.0, 0.0]}),
    ):
        with pytest.warns(CuspWarning, match="1 of 4 rows have one value only"):
            model = CuspFactorAnalysis().fit(frame)
        filled = np.asarray(model.impute(frame))
        assert filled[1, 1] == 2.0
        assert 1.0 <= filled[1, 0] <= 5.0


BAD = {
    "no value at all": (np.where(np.arange(7) == 3, np.nan, X), "column 3 has no value at all"),
    "infinity": (np.where(np.arange(7) == 3, np.inf, X), "contains infinity: column 3 has 150"),
    "constant": (np.where((np.arange(7) == 3) & ~np.isnan(X), 1.0, X), "column 3 is constant"),
    "sparse": (sparse.csr_matrix(X), "contains NaN.*dense data"),
}


@pytest.mark.parametrize(("data", "message"), BAD.values(), ids=BAD)
def test_bad_data(data, message):
    with pytest.raises(DataError, match=message):
        CuspFactorAnalysis().fit(data)


def test_bad_arguments():
    with pytest.raises(DataError, match="plug-in.*biased"):
        CuspFactorAnalysis(method=Variational(mean="plug-in")).fit(X)
    with pytest.raises(DataError, match="must be dense"):
        MODEL.impute(sparse.csr_matrix(np.ones((2, 7))))
    with pytest.raises(InputError, match="return_std must be False with n_draws"):
        MODEL.impute(X, n_draws=2, return_std=True)
    with pytest.raises(InputError, match="return_std must be True or False"):
        MODEL.impute(X, return_std="yes")
    with pytest.raises(InputError, match="n_draws"):
        MODEL.impute(X, n_draws=0)
    with pytest.raises(DataError, match="7 features"):
        MODEL.impute(X[:, :6])
    with pytest.raises(DataError, match="row 0 holds values so large"):
        MODEL.transform([[1e308, 1e308, 1e308, -1e308, 1e308, 1e308, np.nan]])
    assert MODEL.score_samples([[1e200] * 6 + [np.nan]]) == -np.inf
    assert MODEL.impute(np.empty((0, 7))).shape == (0, 7)
    assert MODEL.impute(np.empty((0, 7)), n_draws=2).shape == (2, 0, 7)


def test_no_factors_and_one_column():
    noise = np.random.default_rng(0).normal(size=(60, 4))
    noise[::7, 1] = np.nan
    model = CuspFactorAnalysis(n_factors=0).fit(noise)
    assert_allclose(model.impute(noise)[0, 1], np.nanmean(noise[:, 1]))
    assert model.impute(noise, n_draws=2, random_state=0).shape == (2, 60, 4)
    with pytest.warns(CuspWarning, match="9 rows have no value at all"):
        one = CuspFactorAnalysis().fit(noise[:, [1]])
    assert_allclose(one.impute(noise[:, [1]])[0], np.nanmean(noise[:, 1]))


# --- what else must work ---


def test_pages_and_checks_work_with_missing_values():
    assert "SRMR" in str(MODEL.posterior_.summary())
    lower, upper = MODEL.posterior_.interval("correlation", n_draws=200)
    assert np.all(lower <= upper)
    # The correlations without a model are near those of the rows before values went missing.
    truth = np.corrcoef(SIMULATED.X, rowvar=False)
    assert_allclose(MODEL.posterior_.sample_correlation, truth, atol=0.12)
    assert select_n_factors(CuspFactorAnalysis(), X, n_folds=2, n_splits=2).n_factors == 2
    assert [row.n_factors for row in prior_sensitivity(CuspFactorAnalysis(), X, alpha=[1, 5])] == [
        2,
        2,
    ]
    assert len(prior_sensitivity(CuspFactorAnalysis(standardize=False), X, alpha=[5])) == 1
    found = CuspFactorAnalysis().fit(X)
    assert check_assumptions(found, X) == []
    spoiled = X.copy()
    spoiled[4] = [8, -8, 8, np.nan, 8, -8, 8]
    kinds = check_assumptions(CuspFactorAnalysis().fit(spoiled), spoiled)
    assert any(one.rows[:1] == (4,) for one in kinds)


def test_covariance_without_a_model_is_that_of_em():
    """Against EM written row by row."""
    x = X[:40, :4]
    model = CuspFactorAnalysis(n_factors=1).fit(x)
    mean, omega = np.nanmean(x, axis=0), np.diag(np.nanvar(x, axis=0))
    for _ in range(300):
        sums, products = np.zeros(4), np.zeros((4, 4))
        for row in x:
            missing_value, filled = np.isnan(row), row.copy()
            own = np.zeros((4, 4))
            if missing_value.any():
                filled[missing_value], own[np.ix_(missing_value, missing_value)] = (
                    oracle.conditional(row, mean, omega)
                )
            sums += filled
            products += np.outer(filled, filled) + own
        mean = sums / 40
        omega = products / 40 - np.outer(mean, mean)
    sd = np.sqrt(np.diag(omega))
    assert_allclose(model.posterior_.sample_correlation, omega / np.outer(sd, sd), atol=0.01)


def test_a_saved_fit_is_the_same_and_has_no_row(tmp_path):
    posterior, path = variational_posterior(CuspFactorAnalysis().fit(X)), tmp_path / "fit.cusp"
    posterior.save(path)
    loaded = load(path)
    assert isinstance(loaded, VariationalPosterior)
    assert loaded.rows is None
    assert_allclose(loaded.mean, posterior.mean, rtol=0)
    assert_allclose(loaded.covariance, posterior.covariance, rtol=0)
    assert_allclose(loaded.sample_correlation, posterior.sample_correlation, rtol=0)
    one, other = (
        source.draw(50, random_state=0, sweeps=0, average_over_k=True)
        for source in (posterior, loaded)
    )
    assert_allclose(one.loadings, other.loadings, rtol=0)
    assert_allclose(one.mean, other.mean, rtol=0)
    assert loaded.draw(10, random_state=0).loadings.shape == (10, 7, 2)
    with pytest.raises(InputError, match="no statistics are kept"):
        loaded.draw(10, sweeps=2)
    posterior.save(path, statistics=False)
    assert load(path).sample_correlation is None
    assert "SRMR" not in str(load(path).summary())


def test_a_pickled_or_copied_posterior_has_no_row():
    posterior = MODEL.posterior_
    for other in (pickle.loads(pickle.dumps(posterior)), copy.deepcopy(posterior)):
        assert other.rows is None
        assert other.draw(10, random_state=0).mean.shape == (10, 7)
    held = posterior.rows.data.rows
    content = pickle.dumps(posterior)
    assert not any(value.tobytes() in content for value in held[held != 0])
    assert posterior.loadings_distribution.mean[0, 0].tobytes() in content  # it can tell


def test_damaged_covariances_are_refused(tmp_path, monkeypatch):
    posterior = MODEL.posterior_
    distribution = posterior.loadings_distribution
    for wrong in (-distribution.covariance, distribution.covariance + np.triu(np.ones((2, 2)), 1)):
        broken = copy.copy(posterior)
        object.__setattr__(broken, "loadings_distribution", distribution._replace(covariance=wrong))
        with pytest.raises(InputError, match=r"loadings_covariance.npy that cannot be there"):
            broken.save(tmp_path / "fit")
    assert archive.CONTENT  # the reader is the same that checks before writing


def test_rows_far_from_zero_keep_their_digits():
    far = X + 1e9
    one, other = CuspFactorAnalysis(n_factors=2).fit(X), CuspFactorAnalysis(n_factors=2).fit(far)
    assert_allclose(one.get_covariance(), other.get_covariance(), rtol=1e-4)
    assert_allclose(other.mean_ - 1e9, one.mean_, atol=1e-5)


def test_distances_of_rows_are_chi_squared_whatever_their_missing_values():
    """Filled by one draw, rows are as far from the centre as the model says."""
    filled = MODEL.impute(X, n_draws=1, random_state=0)[0]
    residual = filled - MODEL.mean_
    distance = np.sum((residual @ MODEL.get_precision()) * residual, axis=1)
    assert stats.kstest(distance, stats.chi2(7).cdf).pvalue > 1e-3
    mean_filled = MODEL.impute(X) - MODEL.mean_
    short = np.sum((mean_filled @ MODEL.get_precision()) * mean_filled, axis=1)
    assert stats.kstest(short, stats.chi2(7).cdf).pvalue < 1e-3


def test_more_tables_than_a_sampler_kept_draws():
    rows = datasets.simulate(60, 5, 1, random_state=0).X
    rows[::4, 0] = np.nan
    method = Gibbs(n_draws=10, n_chains=2, burn_in=20)
    # So few draws have not converged.
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        model = CuspFactorAnalysis(method=method, random_state=0).fit(rows)
    tables = model.impute(rows, n_draws=50, random_state=0)
    assert tables.shape == (50, 60, 5)
    assert np.isfinite(tables).all()
    assert len({one.tobytes() for one in tables}) == 50  # noise is drawn anew
    assert len(model.posterior_.draw(5, average_over_k=True)) == 5


def test_aligned_scores_of_rows_with_missing_values():
    """Those of complete rows where nothing is missing; wider, and at the prior, where all is."""
    rows = datasets.simulate(150, 8, 2, random_state=0).X
    aligned = CuspFactorAnalysis().fit(rows).posterior_.align(n_draws=400)
    incomplete = rows[:6].copy()
    incomplete[1, :4] = np.nan
    incomplete[2] = np.nan
    found, whole = aligned.scores(incomplete), aligned.scores(rows[:6])
    assert_allclose(found.mean[[0, 3, 4, 5]], whole.mean[[0, 3, 4, 5]], atol=0.1)
    width = found.upper - found.lower
    assert np.all(width[1] > (whole.upper - whole.lower)[1])
    assert_allclose(found.mean[2], 0.0, atol=0.2)
    assert_allclose(width[2], 2 * 1.96, rtol=0.2)
