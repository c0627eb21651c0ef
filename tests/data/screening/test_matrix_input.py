"""A correlation matrix is not rows of observations, and is refused with what to do instead."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from cuspfa import CuspFactorAnalysis, Moments, RowStream, datasets, select_n_factors
from cuspfa.cli.app import run_program
from cuspfa.data.screening.matrix_input import kind_of_matrix
from cuspfa.errors import DataError

NAMES = [f"facet{j}" for j in range(30)]


@pytest.fixture(scope="module")
def frame() -> Any:
    return pd.DataFrame(datasets.simulate(400, 30, 4, random_state=0).X, columns=NAMES)


ADVICE = (
    r"looks like a correlation matrix of 30 variables.*"
    r"(Moments.from_correlation\(\w+|read_moments\(.*), n=...\)"
)


@pytest.mark.parametrize("decimals", [16, 3, 2])
def test_correlations_are_refused(frame: Any, decimals: int) -> None:
    matrix = frame.corr().round(decimals)
    for data in (matrix, matrix.to_numpy(), sparse.csr_array(matrix), iter([matrix, matrix[:0]])):
        with pytest.raises(DataError, match=ADVICE):
            CuspFactorAnalysis().fit(data)
    moments = Moments.from_correlation(matrix, n=400)  # as the message says
    assert CuspFactorAnalysis().fit_moments(moments).n_factors_ == 4


def test_every_entry_point(frame: Any, tmp_path: Path) -> None:
    matrix = frame.corr()
    np.save(tmp_path / "m.npy", matrix)
    matrix.to_csv(tmp_path / "m.csv", index=False)
    matrix.to_parquet(tmp_path / "m.parquet", index=False)
    for name in ("m.npy", "m.csv", "m.parquet"):
        with pytest.raises(DataError, match=ADVICE):
            CuspFactorAnalysis().fit(tmp_path / name)
        with pytest.raises(DataError, match=ADVICE):
            CuspFactorAnalysis().fit(RowStream(tmp_path / name, batch_rows=7))
    for call in (
        Moments.from_rows,
        lambda X: select_n_factors(CuspFactorAnalysis(), X),
        lambda X: Moments.from_stream(iter([X])),
    ):
        with pytest.raises(DataError, match=ADVICE):
            call(matrix)
    dask = pytest.importorskip("dask.array", reason="an extra")
    with pytest.raises(DataError, match=ADVICE):
        CuspFactorAnalysis().fit(dask.from_array(matrix.to_numpy(), chunks=10))


@pytest.mark.parametrize("part", [np.tril, np.triu])
def test_one_triangle(frame: Any, part: Any) -> None:
    matrix = frame.corr().to_numpy()
    matrix[part(np.ones((30, 30)), 0) == 0] = np.nan
    with pytest.raises(DataError, match="correlation matrix"):
        CuspFactorAnalysis().fit(matrix)


def test_covariances_are_refused(frame: Any) -> None:
    with pytest.raises(DataError, match=r"covariance matrix.*Moments.from_covariance\(X, n=...\)"):
        CuspFactorAnalysis().fit(frame.cov())


def test_square_tables_of_other_kinds_are_none() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 30))
    unit = np.clip(rows, -1, 1)
    np.fill_diagonal(unit, 1.0)
    links = np.triu(rng.random((30, 30)) < 0.3, 1)
    distances = np.abs(rows[0][:, None] - rows[0])
    others = {
        "data": rows,
        "data with a diagonal of ones": unit,
        "identity": np.eye(30),
        "adjacency": (links | links.T | np.eye(30, dtype=bool)).astype(float),
        "distances": distances,
        "symmetric, and larger beside the diagonal": rows + rows.T,
        "two columns": np.array([[1.0, 0.5], [0.5, 1.0]]),
        "not square": np.vstack([np.eye(30), rows[:1]]),
        "skew": np.tril(unit) - np.tril(unit, -1).T,
    }
    assert {name: kind_of_matrix(table) for name, table in others.items()} == dict.fromkeys(others)
    assert CuspFactorAnalysis().fit(np.eye(4)).n_features_in_ == 4


def test_square_data_are_fitted() -> None:
    X = datasets.simulate(12, 12, 1, random_state=3).X
    assert CuspFactorAnalysis().fit(X).posterior_.n_rows == 12


@pytest.mark.parametrize("limit", [[], ["--memory-limit", "500MB"]])
@pytest.mark.parametrize("form", ["names of rows", "bare", "counted", "6 variables"])
def test_the_program(
    frame: Any, form: str, limit: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = frame.corr().round(2)
    if form == "6 variables":
        matrix = matrix.iloc[:6, :6]
    if form == "counted":
        matrix = matrix.reset_index(drop=True)
    matrix.to_csv(tmp_path / "r.csv", index=form in ("names of rows", "counted"))
    assert run_program(["fit", str(tmp_path / "r.csv"), *limit]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"looks like a correlation matrix of {len(matrix)} variables" in said
    assert "r.csv --correlation --n N, n being the number of rows" in said


def test_rows_far_from_zero_are_no_covariance_matrix():
    rows = 1e9 + np.random.default_rng(0).standard_normal((3, 3))
    assert kind_of_matrix(rows) is None
    assert CuspFactorAnalysis().fit(rows).n_factors_ >= 0
