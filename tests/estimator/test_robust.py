"""Robust fits: weights of rows, t densities, files, and rows that are read in several passes."""

import json

import dask.array
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, multivariate_normal, multivariate_t
from scipy.stats import t as student

import cuspfa
from cuspfa import CuspFactorAnalysis, Moments, RowStream, datasets, robust_moments
from cuspfa.errors import CuspWarning, DataError
from cuspfa.model.row_tails import RowTails

N_OUT = 5


def straying(seed=5, n=400, p=10, k=2):
    """Clean rows, and the same with the first five shifted by six standard deviations."""
    clean = datasets.simulate(n, p, k, strength=0.8, random_state=seed).X
    rows = clean.copy()
    signs = np.random.default_rng(11).choice([-1.0, 1.0], (N_OUT, p))
    rows[:N_OUT] += 6 * rows.std(axis=0) * signs
    return clean, rows


@pytest.fixture(scope="module")
def rows():
    return straying()[1]


@pytest.fixture(scope="module")
def model(rows):
    return CuspFactorAnalysis(robust=True).fit(rows)


def test_outlying_rows_make_no_factor_and_are_named(model, rows):
    assert model.n_factors_ == 2
    assert CuspFactorAnalysis().fit(rows).n_factors_ > 2  # negative control
    assert set(np.argsort(model.row_weights_)[:N_OUT]) == set(range(N_OUT))
    assert model.row_weights_[:N_OUT].max() < 0.1 < 0.3 < model.row_weights_[N_OUT:].min()
    assert 1 < model.degrees_of_freedom_ < 50


def test_the_fit_is_that_of_robust_moments(model, rows):
    found = robust_moments(rows)
    other = CuspFactorAnalysis().fit_moments(found.moments())
    assert_allclose(model.row_weights_, found.weights)
    assert_allclose(model.loadings_, other.loadings_, atol=1e-10)
    assert_allclose(model.mean_, found.mean)
    p = found.degrees_of_freedom + 10
    assert model.posterior_.n_rows == len(rows)
    assert model.posterior_.correlation_rows == round(len(rows) * p / (p + 2))


def test_clean_rows_lose_nothing():
    clean, _ = straying()
    robust, plain = (CuspFactorAnalysis(robust=one).fit(clean) for one in (True, False))
    assert robust.n_factors_ == plain.n_factors_ == 2
    assert_allclose(robust.get_covariance(), plain.get_covariance(), rtol=0.02, atol=0.02)
    assert plain.row_weights_ is None
    assert plain.degrees_of_freedom_ == np.inf


def test_densities_are_those_of_scipys_t(model, rows):
    t = multivariate_t(model.mean_, model.get_covariance(), df=model.degrees_of_freedom_)
    assert_allclose(model.score_samples(rows), t.logpdf(rows), rtol=1e-9)
    assert model.score(rows) == pytest.approx(t.logpdf(rows).mean())
    # Negative control: a normal density calls the outlying rows next to impossible.
    normal = multivariate_normal(model.mean_, model.get_covariance())
    assert np.all(normal.logpdf(rows[:N_OUT]) < t.logpdf(rows[:N_OUT]) - 20)
    # Some columns of t rows have a t distribution with the same ν.
    some = rows[:20].copy()
    some[:, [1, 4, 7]] = np.nan
    seen = [0, 2, 3, 5, 6, 8, 9]
    t = multivariate_t(
        model.mean_[seen], model.get_covariance(columns=seen), df=model.degrees_of_freedom_
    )
    assert_allclose(model.score_samples(some), t.logpdf(some[:, seen]), rtol=1e-9)
    far = np.full((1, 10), 1e200)
    assert model.score_samples(far) == [-np.inf]
    assert np.isfinite(model.score_samples(far / 1e100))


def test_expected_scores_are_those_of_normal_rows_and_covariances_have_the_weight(model, rows):
    omega = model.get_covariance()
    loadings = model.components_.T
    towards = np.linalg.solve(omega, loadings)
    assert_allclose(model.transform(rows), (rows - model.mean_) @ towards, atol=1e-9)
    found = model.factor_scores(rows)
    given = np.eye(2) - loadings.T @ towards
    distances = np.sum((rows - model.mean_) @ np.linalg.inv(omega) * (rows - model.mean_), axis=1)
    weights = (model.degrees_of_freedom_ + 10) / (model.degrees_of_freedom_ + distances)
    assert_allclose(found.covariance, given / weights[:, None, None], rtol=1e-8)
    # The same of rows with missing values, by the columns that they have.
    some = rows[:8].copy()
    some[:, 0] = np.nan
    found = model.factor_scores(some).covariance
    block = omega[1:, 1:]
    part = some[:, 1:] - model.mean_[1:]
    distances = np.sum(part @ np.linalg.inv(block) * part, axis=1)
    weights = (model.degrees_of_freedom_ + 9) / (model.degrees_of_freedom_ + distances)
    given = np.eye(2) - loadings[1:].T @ np.linalg.solve(block, loadings[1:])
    assert_allclose(found, given / weights[:, None, None], rtol=1e-8)


def test_imputed_values_and_their_deviations(model, rows):
    some = rows[:6].copy()
    some[:, 3] = np.nan
    others = [j for j in range(10) if j != 3]
    omega, mean = model.get_covariance(), model.mean_
    slope = np.linalg.solve(omega[np.ix_(others, others)], omega[others, 3])
    part = some[:, others] - mean[others]
    filled, std = model.impute(some, return_std=True)
    assert_allclose(filled[:, 3], mean[3] + part @ slope, rtol=1e-9)
    distances = np.sum(part @ np.linalg.inv(omega[np.ix_(others, others)]) * part, axis=1)
    nu = model.degrees_of_freedom_
    variance = (omega[3, 3] - omega[3, others] @ slope) * (nu + distances) / (nu + 9)
    assert_allclose(std[:, 3], np.sqrt(variance), rtol=1e-8)
    assert np.all(std[:, others] == 0)
    # Drawn values have a t distribution with ν + 9 degrees of freedom about them.
    drawn = model.impute(some[:1], n_draws=600, random_state=1)[:, 0, 3]
    scores = (drawn - filled[0, 3]) / std[0, 3]
    assert kstest(scores, student(nu + 9).cdf).pvalue > 1e-3
    # Negative control: without the weight of this outlying row the draws would be too close.
    plain = std[0, 3] / np.sqrt((nu + distances[0]) / (nu + 9))
    assert kstest((drawn - filled[0, 3]) / plain, student(nu + 9).cdf).pvalue < 1e-6


def test_new_rows_are_drawn_from_the_t_distribution(model):
    drawn = model.sample(4000, random_state=0)
    root = np.linalg.cholesky(model.get_covariance())
    squares = np.sum(np.linalg.solve(root, (drawn - model.mean_).T) ** 2, axis=0) / 10
    from_f = np.random.default_rng(1).f(10, model.degrees_of_freedom_, 200_000)
    assert_allclose(
        np.quantile(squares, [0.1, 0.5, 0.9]), np.quantile(from_f, [0.1, 0.5, 0.9]), rtol=0.06
    )
    normal = np.random.default_rng(1).chisquare(10, 200_000) / 10  # negative control
    assert np.quantile(squares, 0.9) > 1.1 * np.quantile(normal, 0.9)


def test_tails():
    tails = RowTails()
    assert tails.are_normal
    assert tails.effective_rows(10, 3) == 10
    assert_array_equal(tails.weights(np.array([0.0, 1e9]), 3), 1.0)
    tails = RowTails(4.0)
    assert tails.effective_rows(100, 6) == pytest.approx(100 * 10 / 12)
    rng = np.random.default_rng(0)
    drawn = tails.draw_weights(np.full(20_000, 8.0), 6.0, rng)
    assert drawn.mean() == pytest.approx(float(tails.weights(np.array(8.0), 6.0)), rel=0.02)


def test_the_same_in_blocks_and_through_files(tmp_path, model, rows):
    np.save(tmp_path / "rows.npy", rows)
    np.savetxt(
        tmp_path / "rows.csv", rows, delimiter=",", comments="", header=",".join("abcdefghij")
    )
    doors = (
        RowStream(tmp_path / "rows.npy", batch_rows=64),
        RowStream(tmp_path / "rows.csv", batch_rows=64),
        tmp_path / "rows.csv",
        cuspfa.read_table(tmp_path / "rows.csv", memory_limit="1GB"),
        np.load(tmp_path / "rows.npy", mmap_mode="r"),
        dask.array.from_array(rows, chunks=(90, 5)),
    )
    for door in doors:
        found = CuspFactorAnalysis(robust=True).fit(door)
        assert_allclose(found.row_weights_, model.row_weights_, rtol=1e-6)
        assert found.degrees_of_freedom_ == pytest.approx(model.degrees_of_freedom_, rel=1e-5)
        assert_allclose(np.abs(found.loadings_), np.abs(model.loadings_), atol=1e-6)


def test_rows_without_values_and_columns_that_are_dropped_in_blocks(tmp_path, model, rows):
    gap = np.insert(rows, [3, 200], np.nan, axis=0)
    with_text = tmp_path / "rows.csv"
    names = ",".join("abcdefghij")
    lines = [f"{names},id,same"]
    lines += [
        ",".join([*("" if np.isnan(v) else repr(float(v)) for v in one), str(i), "7"])
        for i, one in enumerate(gap)
    ]
    with_text.write_text("\n".join(lines))
    np.save(tmp_path / "gap.npy", gap)
    for door in (
        gap,
        RowStream(tmp_path / "gap.npy", batch_rows=64),
        dask.array.from_array(gap, chunks=(90, 10)),
    ):
        with pytest.warns(CuspWarning, match="2 rows have no value"):
            found = CuspFactorAnalysis(robust=True).fit(door)
        assert found.posterior_.n_rows == len(rows)
        assert_array_equal(np.flatnonzero(np.isnan(found.row_weights_)), [3, 201])
        seen = found.row_weights_[~np.isnan(found.row_weights_)]
        assert_allclose(seen, model.row_weights_, rtol=1e-6)
    with pytest.warns(CuspWarning, match="Dropped 1 column"):
        found = CuspFactorAnalysis(robust=True).fit(
            RowStream(with_text, batch_rows=64, exclude=["id"])
        )
    assert found.n_features_in_ == 10
    seen = found.row_weights_[~np.isnan(found.row_weights_)]
    assert_allclose(seen, model.row_weights_, rtol=1e-6)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda rows: iter([rows]), "an iterator can be read once. Pass a path"),
        (
            lambda rows: np.where(np.eye(*rows.shape) > 0, np.nan, rows),
            "needs complete rows. Impute",
        ),
        (lambda rows: rows[:11], "at least 12 here. Got 11 rows"),
        (lambda rows: rows[:5], "at least 12 here. Got 5 rows"),
        (lambda rows: np.column_stack([rows, rows @ np.ones(10)]), "linearly dependent"),
        (lambda rows: dask.array.from_array(rows[:5], chunks=(5, 10)), "at least 12 here"),
    ],
)
def test_data_without_weights_of_rows(rows, data, message):
    with pytest.raises(DataError, match=message):
        CuspFactorAnalysis(robust=True).fit(data(rows))


def test_moments_have_no_rows_to_weigh(rows):
    with pytest.raises(DataError, match="sums over all rows have none"):
        CuspFactorAnalysis(robust=True).fit_moments(Moments.from_rows(rows))


def test_few_rows_are_told_and_with_two_for_each_column_outlying_rows_are_seen():
    rng = np.random.default_rng(3)
    rows = datasets.simulate(32, 15, 3, random_state=4).X
    rows[7] += 6 * rows.std(axis=0) * rng.choice([-1.0, 1.0], 15)
    found = robust_moments(rows)  # the ascent from all rows ends at ν = ∞
    assert np.argmin(found.weights) == 7
    assert found.weights[7] < 0.1
    with pytest.warns(CuspWarning, match="20 rows are few for the weights of rows of 15 columns"):
        model = CuspFactorAnalysis(robust=True).fit(rows[:20])
    codes = [one.code for one in model.posterior_.provenance.warnings]
    assert codes == ["few_rows_for_weights"]


@pytest.mark.filterwarnings("ignore:R-hat|Too few draws:cuspfa.errors.CuspWarning")
@pytest.mark.parametrize("method", ["variational", "gibbs"])
def test_a_saved_fit(tmp_path, rows, method):
    engine = cuspfa.Gibbs(n_draws=100, burn_in=100, n_chains=1) if method == "gibbs" else method
    model = CuspFactorAnalysis(n_factors=2, robust=True, method=engine, random_state=0).fit(rows)
    path = tmp_path / "fit.cusp"
    model.posterior_.save(path)
    again = CuspFactorAnalysis.from_posterior(cuspfa.load(path))
    assert again.robust is True
    assert again.degrees_of_freedom_ == model.degrees_of_freedom_
    assert_array_equal(again.row_weights_, model.row_weights_)
    assert_array_equal(again.score_samples(rows), model.score_samples(rows))
    model.posterior_.save(path, statistics=False)
    again = CuspFactorAnalysis.from_posterior(cuspfa.load(path))
    assert again.row_weights_ is None
    assert again.degrees_of_freedom_ == model.degrees_of_freedom_
    assert "weights were not saved" in str(again.posterior_.summary(n_draws=20))


def test_summary_json_report_and_methods(tmp_path, model):
    posterior = model.posterior_
    text = " ".join(str(posterior.summary()).split())
    assert "5 rows of 400 have weights below 0.3" in text
    found = posterior.to_dict()
    json.dumps(found, allow_nan=False)
    assert {one["row"] for one in found["row_weights"]["outlying"]} == set(range(N_OUT))
    assert found["row_weights"]["degrees_of_freedom"] == model.degrees_of_freedom_
    posterior.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Outlying rows" in page
    assert "Lange, K. L., Little" in page
    assert "robust=True" in page
    # Negative control: nothing of this in the report of a fit that is not robust.
    plain = CuspFactorAnalysis().fit(straying()[0]).posterior_
    plain.report(tmp_path / "report.html")
    assert "Outlying rows" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert plain.to_dict()["row_weights"] is None
    assert "Robust" not in str(plain.summary())


def test_prior_sensitivity_fits_the_weighted_rows(model, rows):
    found = cuspfa.prior_sensitivity(CuspFactorAnalysis(robust=True), rows, alpha=[1, 5])
    assert [one.n_factors for one in found] == [2, 2]
    plain = cuspfa.prior_sensitivity(CuspFactorAnalysis(), rows, alpha=[5])  # negative control
    assert plain[0].n_factors > 2
    assert found[1].lower_bound == pytest.approx(model.lower_bound_, abs=0.01)


def test_with_model_error_and_a_sampler(rows):
    model = CuspFactorAnalysis(robust=True, model_error=0.05).fit(rows)
    assert model.n_factors_ == 2
    assert np.all(np.isfinite(model.score_samples(rows)))
    t = multivariate_t(model.mean_, model.get_covariance(), df=model.degrees_of_freedom_)
    assert_allclose(model.score_samples(rows), t.logpdf(rows), rtol=1e-8)
    engine = cuspfa.Gibbs(n_draws=200, burn_in=200, n_chains=2)
    with pytest.warns(CuspWarning):  # so few draws
        sampled = CuspFactorAnalysis(method=engine, robust=True, random_state=1).fit(rows)
    assert sampled.n_factors_ == 2
    assert sampled.row_weights_[:N_OUT].max() < 0.1


def test_rows_that_are_far_out_in_a_file(tmp_path):
    clean, _ = straying()
    rows = np.r_[clean, np.full((1, 10), 1e7)]
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    of_file = CuspFactorAnalysis(robust=True).fit(path)
    in_memory = CuspFactorAnalysis(robust=True).fit(rows)
    assert of_file.n_factors_ == in_memory.n_factors_ == 2
    assert in_memory.row_weights_[-1] < 1e-9
    assert_allclose(of_file.row_weights_, in_memory.row_weights_, rtol=1e-5)
