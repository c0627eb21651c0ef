"""The estimator for columns of counts: offsets, new rows, files and bad input."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, special, stats

from cuspfa import CuspFactorAnalysis, RowStream, fit_anndata, load
from cuspfa.errors import CuspWarning, DataError, InputError
from cuspfa.inference.cellwise import engine
from cuspfa.posterior import Posterior
from cuspfa.reporting.methods_text import methods_paragraph

N, P = 60, 5


def table() -> pd.DataFrame:
    """Counts of one factor, and the logarithm of the effort behind a row."""
    rng = np.random.default_rng(1)
    offset = np.log(rng.choice([0.5, 1.0, 4.0], N))
    rate = np.exp(1.0 + offset[:, None] + 0.8 * rng.normal(size=(N, 1)) * np.ones(P))
    rows = rng.poisson(rate * rng.gamma(4.0, size=rate.shape) / 4.0)
    frame = pd.DataFrame(rows, columns=[f"s{j}" for j in range(P)])
    return frame.assign(effort=offset)


X = table()
COUNTS, EFFORT = X.drop(columns="effort"), X["effort"].to_numpy()


def fit(data: Any = X, **given: Any) -> CuspFactorAnalysis:
    settings = {"n_factors": 1, "likelihood": "negative_binomial", "offset": "effort", **given}
    numbers = settings.pop("numbers", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CuspFactorAnalysis(**settings).fit(data, offset=numbers)


@pytest.fixture(scope="module")
def model() -> CuspFactorAnalysis:
    return fit()


def test_a_column_of_offsets_is_the_same_as_numbers(model: CuspFactorAnalysis) -> None:
    other = fit(COUNTS, offset=None, numbers=EFFORT)
    assert other.components_ == pytest.approx(model.components_)
    assert other.transform(COUNTS, offset=EFFORT) == pytest.approx(model.transform(X))
    assert model.n_features_in_ == P
    without = fit(COUNTS, offset=None)
    assert not np.allclose(without.components_, model.components_, atol=0.02)


def test_an_offset_of_all_rows_moves_the_locations_alone(model: CuspFactorAnalysis) -> None:
    moved = fit(COUNTS, offset=None, numbers=EFFORT + 2.0)
    assert moved.components_ == pytest.approx(model.components_, abs=1e-3)
    assert moved.mean_ == pytest.approx(model.mean_ - 2.0, abs=1e-3)


def test_library_sizes_are_logarithms_of_row_totals() -> None:
    rows = COUNTS[COUNTS.sum(axis=1) > 0]
    one = fit(rows, offset="library_size")
    two = fit(rows, offset=None, numbers=np.log(rows.sum(axis=1)))
    assert one.components_ == pytest.approx(two.components_)
    some = rows.iloc[:3]
    given = np.log(some.sum(axis=1))
    assert one.transform(some) == pytest.approx(two.transform(some, offset=given))
    with pytest.raises(DataError, match="rows 0, 1, 2"):
        one.transform(some * 0)
    lacking = some.astype(float)
    lacking.iloc[1, 0] = np.nan
    with pytest.raises(DataError, match="missing in row 1"):
        one.transform(lacking)


def test_the_score_of_a_row_is_an_integral(model: CuspFactorAnalysis) -> None:
    rows = X.astype(float).iloc[:4]
    rows.iloc[2, 1] = np.nan
    dispersion = model.posterior_.parameters.dispersion
    eta = np.linspace(-8, 8, 2001)
    found = []
    for row in rows.to_numpy():
        rate = np.exp(model.mean_ + row[P] + eta[:, None] * model.components_[0])
        logs = stats.nbinom.logpmf(row[:P], dispersion, dispersion / (dispersion + rate))
        own = stats.norm.logpdf(eta) + np.nansum(logs, axis=1)
        found.append(special.logsumexp(own) + np.log(eta[1] - eta[0]))
    assert model.score_samples(rows) == pytest.approx(found, abs=1e-4)
    assert model.score(rows) == pytest.approx(np.mean(found), abs=1e-4)
    given = fit(COUNTS, offset=None, numbers=EFFORT)
    counts, offset = rows.drop(columns="effort"), rows["effort"].to_numpy()
    assert given.score_samples(counts, offset=offset) == pytest.approx(found, abs=1e-4)
    assert np.all(np.abs(given.score_samples(counts, offset=offset + 1) - found) > 0.02)


def test_expected_counts_fill_missing_ones(model: CuspFactorAnalysis) -> None:
    rows = X.astype(float).iloc[:4]
    rows.iloc[0, 0] = np.nan
    filled = model.impute(rows)
    assert list(filled.columns) == list(X.columns)
    assert filled.iloc[1:].equals(rows.iloc[1:])
    larger = rows.assign(effort=rows["effort"] + 1.0)
    # Rows of e times the effort, as far as they are known.
    larger.iloc[:, 1:P] = (larger.iloc[:, 1:P] * np.e).round()
    assert model.impute(larger).iloc[0, 0] > 1.5 * filled.iloc[0, 0]
    drawn = model.impute(rows, n_draws=3, random_state=0)
    assert all(float(one.iloc[0, 0]).is_integer() for one in drawn)


def test_samples_have_the_rates_of_their_offsets(model: CuspFactorAnalysis) -> None:
    low = model.sample(4000, random_state=0, offset=0.0).mean(axis=0)
    high = model.sample(4000, random_state=0, offset=1.0).mean(axis=0)
    assert high / low == pytest.approx(np.full(P, np.exp(1.0)), rel=0.15)


def test_a_file_gives_the_same_answers(model: CuspFactorAnalysis, tmp_path: Any) -> None:
    model.posterior_.save(tmp_path / "fit.cusp")
    posterior = load(tmp_path / "fit.cusp")
    assert isinstance(posterior, Posterior)
    again = CuspFactorAnalysis.from_posterior(posterior)
    assert np.array_equal(again.transform(X), model.transform(X))
    assert again.offset == "effort"
    assert np.array_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))
    one, two = (m.posterior_.interval("dispersion") for m in (model, again))
    assert np.array_equal(one.lower, two.lower)
    assert list(posterior.count_table()) == list(model.posterior_.count_table())


def test_the_summary_says_what_a_loading_is(model: CuspFactorAnalysis) -> None:
    text = " ".join(str(model.posterior_.summary()).split())
    assert "negative binomial counts" in text
    assert "exp(λ)" in text


def test_communalities_of_poisson_counts_are_one() -> None:
    poisson = fit(likelihood="poisson")
    assert np.sum(poisson.loadings_**2, axis=1) == pytest.approx(np.ones(P), abs=1e-4)
    assert not len(poisson.posterior_.draw(10).dispersion[0])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"offset": "area"}, InputError, "area"),
        ({"offset": None, "numbers": EFFORT[1:]}, InputError, f"each of the {N} rows"),
        ({"offset": None, "numbers": np.where(EFFORT > 0, np.nan, 0)}, InputError, "finite"),
        ({"offset": None, "numbers": np.full(N, -np.inf)}, InputError, "logarithm"),
        ({"offset": None, "numbers": np.linspace(0, 99, N)}, InputError, "span"),
        ({"numbers": EFFORT}, InputError, "offset of fit"),
        ({"likelihood": "gaussian"}, InputError, "for counts"),
        ({"method": "gibbs"}, InputError, "method"),
        ({"likelihood": "binomial"}, InputError, "likelihood"),
    ],
)
def test_bad_arguments(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fit(**given)


@pytest.mark.parametrize(
    ("value", "message"),
    [(-1, "s1 must be whole"), (0.5, "s1 must be whole"), (5e9, "s1 must be at")],
)
def test_values_that_are_no_counts(value: float, message: str) -> None:
    bad = X.astype(float)
    bad.iloc[3, 1] = value
    with pytest.raises(DataError, match=message):
        fit(bad)


def test_new_rows_need_the_offsets_of_the_fit(model: CuspFactorAnalysis) -> None:
    with pytest.raises(InputError, match="column effort"):
        model.transform(COUNTS)
    bad = X.astype(float)
    bad.iloc[2, P] = np.nan
    with pytest.raises(InputError, match="row 2"):
        model.transform(bad)


def test_weights_that_do_not_fit_are_worked_through_by_blocks(
    model: CuspFactorAnalysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "allowed_bytes", lambda limit: 20_000)
    blocks = fit()
    assert not blocks.posterior_.has_exact_draws
    assert blocks.components_ == pytest.approx(model.components_, abs=0.02)
    assert blocks.mean_ == pytest.approx(model.mean_, abs=0.02)
    # By blocks the information is that of outer products, which for 60 rows is a little off.
    assert blocks.search_[0].evidence == pytest.approx(model.search_[0].evidence, abs=0.5)


def test_rows_of_any_source(model: CuspFactorAnalysis, tmp_path: Any) -> None:
    path = tmp_path / "rows.csv"
    X.to_csv(path, index=False)
    for data in (str(path), RowStream(str(path), batch_rows=17), iter([X.iloc[:30], X.iloc[30:]])):
        assert np.array_equal(fit(data).components_, model.components_)


def test_anndata_has_offsets_in_a_column_of_cells(model: CuspFactorAnalysis) -> None:
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(np.zeros((N, P)))
    data.layers["counts"] = sparse.csr_matrix(COUNTS.to_numpy(float))
    data.obs["effort"] = EFFORT
    one = CuspFactorAnalysis(n_factors=1, likelihood="negative_binomial")
    fit_anndata(data, layer="counts", model=one, offset="effort")
    assert data.varm["cusp_loadings"] == pytest.approx(model.loadings_)
    assert data.obsm["X_cusp"] == pytest.approx(model.transform(X))
    assert data.uns["cusp"]["params"]["offset"] == "effort"
    with pytest.raises(InputError, match="offset must be a column of adata.obs"):
        fit_anndata(data, layer="counts", model=one, offset="depth")


def test_arviz_has_dispersions_by_column(model: CuspFactorAnalysis) -> None:
    try:
        pytest.importorskip("arviz")
    except OSError as error:
        pytest.skip(f"ArviZ needs a folder to write to: {error}")
    found = model.posterior_.to_arviz(columns=["s3", "s1"])["posterior"]["dispersion"]
    assert found.coords["dispersed_feature"].to_numpy().tolist() == ["s1", "s3"]
    draws = model.posterior_.draw().dispersion[:, [1, 3]]
    assert found.median(("chain", "draw")).to_numpy() == pytest.approx(np.median(draws, axis=0))


def test_too_few_rows_for_more_factors_are_told_in_terms_of_counts() -> None:
    rng = np.random.default_rng(0)
    eta = rng.normal(size=(6, 3))
    rows = rng.poisson(np.exp(1.0 + eta @ rng.normal(size=(3, 12))))
    with pytest.warns(CuspWarning, match="6 rows are too few for this many columns, as") as told:
        model = CuspFactorAnalysis(likelihood="negative_binomial").fit(rows)
    assert not any("categories" in str(one.message) for one in told)
    assert "categories" not in str(model.posterior_.summary()).split("Converged")[0]


def test_the_methods_have_the_priors_of_counts(model: CuspFactorAnalysis) -> None:
    text = methods_paragraph(model.posterior_, 100)
    assert "the logarithm of the rate of its counts is a weighted sum" in text
    assert "with standard deviation 5." in text
    assert "Logarithms of dispersions are normal with mean 1 and standard deviation 2." in text
    assert "Noise variances" not in text
    assert "categories" not in text


def test_tables_for_a_paper_have_no_reliability_of_sums_of_log_rates(
    model: CuspFactorAnalysis,
) -> None:
    tables = model.posterior_.apa_tables()
    assert "those of log rates of counts, at the mode," in tables.to_markdown()
    assert all(one.alpha is None and one.omega is None for one in tables.factors)


def test_the_dispersion_of_the_first_column_alone() -> None:
    # Its position is 0.
    rows = np.random.default_rng(3).poisson(np.exp(np.random.default_rng(4).normal(1, 1, (50, 4))))
    kinds = {0: "negative_binomial", 1: "poisson", 2: "poisson", 3: "poisson"}
    posterior = fit(rows, likelihood=kinds, offset=None).posterior_
    found = posterior.interval("dispersion")
    assert found.names == ["x0"]
    assert found.lower.shape == (1,)
    with pytest.raises(InputError, match="Thresholds are those of ordinal columns"):
        posterior.interval("thresholds")
    assert not posterior.threshold_table()
