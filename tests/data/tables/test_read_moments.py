"""Matrices in files: refused as rows, and read as moments however they are printed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, Moments, datasets, load, read_moments, read_table
from cuspfa.cli.app import run_program
from cuspfa.data.screening.matrix_input import refuse_matrix
from cuspfa.errors import DataError, InputError
from cuspfa.reporting.recipe import python_recipe

P, N = 12, 213
NAMES = [f"v{j}" for j in range(1, P + 1)]
ROWS = datasets.simulate(N, P, 2, random_state=4).X * np.arange(1, P + 1) + 3
R = np.corrcoef(ROWS.T).round(2)
SDS, MEANS = ROWS.std(axis=0, ddof=1).round(3), ROWS.mean(axis=0).round(3)


def lower(matrix: Any, diagonal: bool = True) -> Any:
    return np.where(np.tri(P, P, 0 if diagonal else -1, dtype=bool), matrix, np.nan)


def text_of(matrix: Any, names: bool = True, rows: bool = False, **extra: Any) -> str:
    frame = pd.DataFrame(matrix, columns=NAMES, index=NAMES)
    for name, values in extra.items():
        frame.loc[name] = values
    return str(frame.to_csv(header=names, index=rows))


FORMS = {
    "whole": text_of(R),
    "named rows": text_of(R, rows=True),
    "lower": text_of(lower(R)),
    "lower, no diagonal": text_of(lower(R, diagonal=False)),
    "upper": text_of(lower(R).T),
    "no header": text_of(R, names=False),
    "short rows": "\n".join(
        [",".join(NAMES), *(",".join(map(str, R[j, : j + 1])) for j in range(P))]
    ),
    "spaces": "\n".join(
        [
            " ".join(NAMES),
            *(f"{NAMES[j]} " + " ".join(f"{v:.2f}" for v in R[j, : j + 1]) for j in range(P)),
        ]
    ),
    "semicolons": text_of(lower(R), rows=True).replace(",", ";").replace(".", ","),
    "per cent": text_of((100 * R).round()),
    "per cent, no diagonal": text_of(lower((100 * R).round(), diagonal=False)),
    "with n, means and sds": text_of(lower(R), rows=True, N=N, Mean=MEANS, SD=SDS),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_matrix_is_read_and_is_no_table_of_people(form: str, tmp_path: Path) -> None:
    path = tmp_path / "R.csv"
    path.write_text(FORMS[form])
    moments = read_moments(path, n=None if "with n" in form else N)
    sds = np.sqrt(np.diag(moments.covariance))
    np.testing.assert_allclose(moments.covariance / np.outer(sds, sds), R, atol=1e-12)
    assert moments.n == N
    assert moments.names == (NAMES if form != "no header" else [f"x{j}" for j in range(1, P + 1)])
    if "with n" in form:
        np.testing.assert_allclose(moments.mean, MEANS)
        np.testing.assert_allclose(np.sqrt(np.diag(moments.covariance)), SDS)
    if form in ("short rows", "spaces"):  # no table
        return
    with pytest.raises(DataError, match=r"looks like a correlation matrix of 12 .*read_moments\("):
        read_table(path)


def test_a_matrix_is_refused_by_every_entry_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "R.csv"
    path.write_text(text_of(R))
    with pytest.raises(DataError, match="looks like a correlation matrix"):
        CuspFactorAnalysis().fit(path)
    with pytest.raises(DataError, match="looks like a correlation matrix"):
        CuspFactorAnalysis().fit(np.vstack([R, SDS, MEANS]))
    assert run_program(["fit", str(path)]) == 2
    assert f"cuspfa fit {path} --correlation --n N" in " ".join(capsys.readouterr().err.split())


def test_rows_that_are_no_matrix_are_not_refused() -> None:
    rng = np.random.default_rng(0)
    links = np.triu(rng.integers(0, 2, (12, 12)), 1)
    tables = [rng.normal(size=(12 + extra, 12)) for extra in range(4)]
    for rows in (*tables, links + links.T + np.eye(12), links + links.T):
        refuse_matrix(rows)
    with pytest.raises(DataError, match="correlation"):
        refuse_matrix(np.vstack([MEANS, R]))


def test_the_program_fits_a_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, saved = tmp_path / "R.csv", tmp_path / "fit.cusp"
    path.write_text(text_of(lower(R), rows=True))
    known = CuspFactorAnalysis().fit_moments(Moments.from_correlation(R, N, names=NAMES))
    command = ["fit", str(path), "--correlation", "--n", str(N)]
    assert run_program([*command, "--json", "-o", str(saved)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["n_factors"] == known.n_factors_ == 2
    assert (told["columns"], told["read"]["kind"]) == (NAMES, "correlation matrix")
    np.testing.assert_allclose(load(saved).covariance, known.get_covariance(), rtol=1e-9)
    recipe = python_recipe(load(saved).provenance)
    assert f"moments = read_moments({str(path)!r}, n=213)" in recipe
    sds = ["--sds", ",".join(map(str, SDS)), "--means", ",".join(map(str, -MEANS))]
    assert run_program([*command, *sds, "--columns", "1-8", "-o", str(saved)]) == 0
    posterior = load(saved)
    np.testing.assert_allclose(posterior.mean, -MEANS[:8])
    np.testing.assert_allclose(np.sqrt(np.diag(posterior.covariance)), SDS[:8], rtol=0.05)
    capsys.readouterr()
    for words, message in (
        (["--n", "9"], "--n is for a matrix. Give --correlation too."),
        (["--correlation"], "Say of how many rows it was made: --n."),
        (["--correlation", "--n", "9", "--id", "x"], "--id is for rows"),
        (["--correlation", "--n", "9", "--sds", "1,2"], "--sds must be 12 numbers"),
        (["--correlation", "--n", "9", "--sds", "1,x"], "--sds must be numbers"),
    ):
        assert run_program(["fit", str(path), *words]) == 2
        assert message in " ".join(capsys.readouterr().err.split())


def test_extra_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame(R, columns=NAMES).assign(center=MEANS, **{"n.obs": N})
    path = tmp_path / "R.csv"
    frame.to_csv(path)  # with a column that counts the rows from 0 on
    moments = read_moments(path)
    assert (moments.n, moments.names) == (N, NAMES)
    np.testing.assert_allclose(moments.mean, MEANS)
    np.testing.assert_allclose(moments.covariance, R)
    frame.assign(center=0.0).to_csv(path)
    with pytest.raises(DataError, match="looks like a correlation matrix"):
        read_table(path)


def test_what_is_no_matrix(tmp_path: Path) -> None:
    path = tmp_path / "R.csv"
    path.write_text(pd.DataFrame(ROWS).to_csv(index=False))
    with pytest.raises(DataError, match="is not a correlation or covariance matrix: it has 213"):
        read_moments(path, n=9)
    path.write_text(text_of(R))
    with pytest.raises(InputError, match="Say of how many rows it was made: n"):
        read_moments(path)
    with pytest.raises(InputError, match="sds must be positive"):
        read_moments(path, n=N, sds=-SDS)


def test_a_covariance_matrix(tmp_path: Path) -> None:
    path = tmp_path / "S.csv"
    path.write_text(text_of(np.cov(ROWS.T)))
    moments = read_moments(path, n=N, exclude=["v2"])
    np.testing.assert_allclose(moments.covariance, np.cov(np.delete(ROWS, 1, axis=1).T))
