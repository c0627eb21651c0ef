"""Rows without any value carry no information: whatever holds them, the fit is that of the rest."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from cuspfa import (
    CuspFactorAnalysis,
    Gibbs,
    Moments,
    RowStream,
    check_assumptions,
    predict_to_file,
    select_n_factors,
)
from cuspfa._utils.fit_warning import EmptyRows
from cuspfa.cli.app import run_program
from cuspfa.diagnostics.outliers import outlying_rows
from cuspfa.errors import CuspWarning, DataError
from support import factor_rows

ROWS, COLUMNS = 60, 10
NAMES = [f"v{j}" for j in range(COLUMNS)]


@pytest.fixture(scope="module")
def rows() -> Any:
    """Two factors, which many empty rows used to hide."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, 2)) @ rng.normal(size=(2, COLUMNS)) * 0.6 + rng.normal(
        size=(ROWS, COLUMNS)
    )


@pytest.fixture(scope="module")
def alone(rows: Any) -> CuspFactorAnalysis:
    return CuspFactorAnalysis().fit(rows)


@pytest.fixture(scope="module")
def two(rows: Any) -> CuspFactorAnalysis:
    """With the number of factors given, which is quicker."""
    return CuspFactorAnalysis(n_factors=2).fit(rows)


def with_empty(rows: Any, number: int) -> Any:
    """Empty rows spread among the others."""
    places = np.sort(np.random.default_rng(number).integers(0, len(rows) + 1, number))
    return np.insert(rows, places, np.nan, axis=0)


def same(found: CuspFactorAnalysis, known: CuspFactorAnalysis) -> None:
    assert found.n_factors_ == known.n_factors_ > 0
    assert found.posterior_.n_rows == ROWS
    assert found.lower_bound_ == pytest.approx(known.lower_bound_, abs=1e-8)
    np.testing.assert_allclose(found.get_covariance(), known.get_covariance(), atol=1e-7)


@pytest.mark.parametrize("number", [6, 20, 240, 540])
def test_empty_rows_change_nothing(rows: Any, alone: CuspFactorAnalysis, number: int) -> None:
    with pytest.warns(CuspWarning, match=f"^{number} rows have no value .* 60 rows are analysed"):
        found = CuspFactorAnalysis().fit(with_empty(rows, number))
    same(found, alone)
    mine, known = found.posterior_.summary().fit, alone.posterior_.summary().fit
    assert mine == pytest.approx(known)
    widths, expected = (
        np.diff(one.posterior_.interval("communality")[:2], axis=0) for one in (found, alone)
    )
    np.testing.assert_allclose(widths, expected)
    assert found.posterior_.provenance is not None
    assert EmptyRows(number, 60) in found.posterior_.provenance.warnings


def test_an_empty_row_beside_rows_that_lack_some_values(rows: Any) -> None:
    lacking = rows.copy()
    lacking[np.random.default_rng(1).random(rows.shape) < 0.1] = np.nan
    known = CuspFactorAnalysis().fit(lacking)
    with pytest.warns(CuspWarning, match="^1 row has no value at all and is left out"):
        found = CuspFactorAnalysis().fit(with_empty(lacking, 1))
    same(found, known)


def held(rows: Any, kind: str, folder: Path) -> Any:
    """The same rows in every form of data that a fit takes."""
    frame = pd.DataFrame(rows, columns=NAMES)
    if kind == "frame":
        return frame
    if kind == "nullable":
        return frame.astype("Float64")
    if kind == "masked":
        return np.ma.masked_invalid(rows)
    if kind == "sparse":
        return sparse.csr_array(rows)
    if kind == "iterator":
        return iter([rows[:17], rows[17:]])
    if kind == "npy":
        np.save(folder / "rows.npy", rows)
        return folder / "rows.npy"
    if kind == "csv":
        frame.to_csv(folder / "rows.csv", index=False)
        return folder / "rows.csv"
    if kind == "parquet":
        frame.to_parquet(folder / "rows.parquet")
        return RowStream(folder / "rows.parquet", batch_rows=13)
    dask = pytest.importorskip("dask.array")
    if kind == "dask":
        return dask.from_array(rows, chunks=(13, COLUMNS))
    assert kind == "dask of unknown length"
    array = dask.from_array(rows, chunks=(13, COLUMNS))
    return array[dask.ones(len(rows), dtype=bool, chunks=13)]


KINDS = ["frame", "nullable", "masked", "sparse", "iterator", "npy", "csv", "parquet"]
KINDS += ["dask", "dask of unknown length"]


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_holds_them(rows: Any, two: CuspFactorAnalysis, kind: str, tmp_path: Path) -> None:
    data = held(with_empty(rows, 120), kind, tmp_path)
    with pytest.warns(CuspWarning, match="^120 rows have no value at all"):
        found = CuspFactorAnalysis(n_factors=2).fit(data)
    same(found, two)


@pytest.mark.parametrize("kind", [one for one in KINDS if one not in ("sparse", "iterator")])
def test_beside_missing_values_whatever_holds_them(rows: Any, kind: str, tmp_path: Path) -> None:
    lacking = rows.copy()
    lacking[[3, 30, 31], [2, 4, 9]] = np.nan
    known = CuspFactorAnalysis(n_factors=2).fit(lacking)
    data = held(with_empty(lacking, 120), kind, tmp_path)
    with pytest.warns(CuspWarning, match="^120 rows have no value at all"):
        found = CuspFactorAnalysis(n_factors=2).fit(data)
    same(found, known)


@pytest.mark.parametrize("kind", ["array", "npy", "dask"])
def test_wide_rows(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    wide = factor_rows(30, 40, 2, rng)
    known = CuspFactorAnalysis(n_factors=2).fit(wide)
    data = with_empty(wide, 5)
    if kind == "npy":
        np.save(tmp_path / "wide.npy", data)
        data = tmp_path / "wide.npy"
    elif kind == "dask":
        data = pytest.importorskip("dask.array").from_array(data, chunks=(10, 10))
    with pytest.warns(CuspWarning, match="^5 rows have no value at all"):
        found = CuspFactorAnalysis(n_factors=2).fit(data)
    assert found.posterior_.n_rows == 30
    np.testing.assert_allclose(found.get_covariance(), known.get_covariance(), atol=1e-6)


def test_of_a_sampler(rows: Any) -> None:
    def sampler() -> CuspFactorAnalysis:
        method = Gibbs(n_draws=200, n_chains=2, burn_in=50)
        return CuspFactorAnalysis(method=method, random_state=0)

    with pytest.warns(CuspWarning):  # so few draws are not enough, either way
        known = sampler().fit(rows)
    with pytest.warns(CuspWarning, match="^120 rows have no value at all"):
        found = sampler().fit(with_empty(rows, 120))
    assert found.posterior_.n_rows == ROWS
    np.testing.assert_allclose(found.get_covariance(), known.get_covariance())


def test_moments(rows: Any) -> None:
    known = Moments.from_rows(rows)
    data = with_empty(rows, 5)
    for make in (Moments.from_rows, lambda X: Moments.from_stream(iter([X[:20], X[20:]]))):
        with pytest.warns(CuspWarning, match="^5 rows have no value at all"):
            found = make(data)
        assert found.n == known.n
        np.testing.assert_allclose(found.cross_products, known.cross_products)


def test_new_rows_stay_one_for_one(rows: Any, alone: CuspFactorAnalysis, tmp_path: Path) -> None:
    data = with_empty(rows, 7)
    lacking = np.isnan(data).all(axis=1)
    with pytest.warns(CuspWarning, match="no value at all"):
        scores = CuspFactorAnalysis().fit_transform(data)
    assert scores.shape == (67, 2)
    np.testing.assert_array_equal(scores[lacking], 0.0)
    np.testing.assert_allclose(scores[~lacking], alone.transform(rows), atol=1e-7)
    np.testing.assert_array_equal(alone.score_samples(data)[lacking], 0.0)
    np.testing.assert_allclose(alone.impute(data)[lacking], np.tile(alone.mean_, (7, 1)))
    np.save(tmp_path / "rows.npy", data)
    assert predict_to_file(alone, "transform", tmp_path / "rows.npy", tmp_path / "s.parquet") == 67


def test_anndata_keeps_its_cells(rows: Any) -> None:
    anndata = pytest.importorskip("anndata")
    from cuspfa import fit_anndata as fit

    adata = anndata.AnnData(with_empty(rows, 7))
    with pytest.warns(CuspWarning, match="^7 rows"):
        fit(adata)
    assert adata.obsm["X_cusp"].shape == (67, 2)


def test_outlying_rows_are_named_by_their_place(rows: Any) -> None:
    rng = np.random.default_rng(5)
    data = np.vstack([rows, rng.normal(size=(140, COLUMNS))])
    data[50:53] += [5, -5] * 5
    data = np.vstack([np.full((4, COLUMNS), np.nan), data])
    with pytest.warns(CuspWarning, match="^4 rows"):
        model = CuspFactorAnalysis().fit(data)
    (found,) = (one for one in check_assumptions(model, data) if one.kind == "outlying rows")
    assert {54, 55, 56} <= set(found.rows)
    np.testing.assert_array_equal(found.rows, 4 + outlying_rows(data[4:]))


def test_how_many_divides_what_there_is(rows: Any) -> None:
    with pytest.warns(CuspWarning, match="^30 rows"):
        found = select_n_factors(CuspFactorAnalysis(), with_empty(rows, 30), n_folds=2, n_splits=1)
    assert found.n_rows == ROWS


def test_nothing_but_empty_rows_is_an_error() -> None:
    with pytest.raises(DataError, match="no value at all: every row is missing"):
        CuspFactorAnalysis().fit(np.full((20, 3), np.nan))
    one = np.full((20, 3), np.nan)
    one[4] = 1.0
    with pytest.raises(DataError, match=r"1 sample\(s\)"):
        CuspFactorAnalysis().fit(one)


# --- the program ---


def table(rows: Any, path: Path, blank: int) -> Path:
    """As spreadsheets save it: a counter, a text, and lines of separators below the last row."""
    lines = [",".join(["id", *NAMES, "remark"])]
    lines += [f"{i},{','.join(map(repr, row))},said" for i, row in enumerate(rows.tolist(), 1)]
    lines += ["," * (COLUMNS + 1)] * blank
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("limit", [[], ["--memory-limit", "500MB"]])
def test_the_program_says_how_many(
    rows: Any, limit: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(["fit", str(table(rows, tmp_path / "clean.csv", 0)), "--json", *limit]) == 0
    known = json.loads(capsys.readouterr().out)
    path = table(rows, tmp_path / "tail.csv", 540)
    assert run_program(["fit", str(path), "--json", *limit]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert found["headline"] == known["headline"]
    assert found["n_rows"] == ROWS
    assert (found["read"]["n_rows"], found["left_out"]["rows"]) == (600, 540)
    assert [one["name"] for one in found["left_out"]["columns"]] == ["id", "remark"]
    assert found["missing"]["n"] == 0
    said = "Left out 540 rows without any value in the columns analysed: 60 rows are analysed."
    assert said in re.sub(r"\s+", " ", shown.err)
    assert found["warnings"] == known["warnings"]


def test_rows_with_a_name_and_nothing_else(
    rows: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = table(rows, tmp_path / "names.csv", 0).read_text(encoding="utf-8").splitlines()
    lines += [f"{i},{',' * COLUMNS}nobody" for i in range(61, 81)]
    (tmp_path / "names.csv").write_text("\n".join(lines), encoding="utf-8")
    assert run_program(["fit", str(tmp_path / "names.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_rows"], found["left_out"]["rows"]) == (ROWS, 20)
