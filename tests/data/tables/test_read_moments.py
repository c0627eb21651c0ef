"""Matrices in files: refused as rows, and read as moments however they are printed."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, Moments, datasets, load, read_moments, read_table
from cuspfa.cli.app import run_program
from cuspfa.data.column_choice import chooser
from cuspfa.data.screening.matrix_input import refuse_matrix
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.tables.read_moments import load_matrix
from cuspfa.errors import CuspWarning, DataError, InputError
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
    assert f"moments = read_moments({str(path)!r}, n=213, kind='correlation')" in recipe
    sds = ["--sds", ",".join(map(str, SDS)), "--means", ",".join(map(str, -MEANS))]
    assert run_program([*command, *sds, "--columns", "1-8", "-o", str(saved)]) == 0
    posterior = load(saved)
    np.testing.assert_allclose(posterior.mean, -MEANS[:8])
    np.testing.assert_allclose(np.sqrt(np.diag(posterior.covariance)), SDS[:8], rtol=0.05)
    capsys.readouterr()
    for words, message in (
        (["--n", "9"], "--n is for a matrix. Give --correlation or --covariance too."),
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
    path.write_text("a,b\n1,0.5\n0.5," + "9" * 200_000)
    with pytest.raises(DataError, match=r"line 3 cannot be read \(field larger than"):
        read_moments(path, n=N)


def test_a_covariance_matrix(tmp_path: Path) -> None:
    path = tmp_path / "S.csv"
    path.write_text(text_of(np.cov(ROWS.T)))
    moments = read_moments(path, n=N, exclude=["v2"])
    np.testing.assert_allclose(moments.covariance, np.cov(np.delete(ROWS, 1, axis=1).T))


FOUR = np.array([[1, 0.5, 0.4, 0.3], [0.5, 1, 0.6, 0.5], [0.4, 0.6, 1, 0.6], [0.3, 0.5, 0.6, 1]])
X4, A4 = ["x1", "x2", "x3", "x4"], ["a", "b", "c", "d"]
TRIANGLES = {
    "lower": ("1\n.5 1\n.4 .6 1\n.3 .5 .6 1\n", X4),
    "lower, no diagonal": (".5\n.4 .6\n.3 .5 .6\n", X4),
    "lower, no diagonal, commas": (".5,,\n.4,.6,\n.3,.5,.6\n", X4),
    "lower, no diagonal, per cent": ("50\n40 60\n30 50 60\n", X4),
    "lower, no diagonal, header": ("a b c d\n.5\n.4 .6\n.3 .5 .6\n", A4),
    "lower, no diagonal, rows": ("a\nb .5\nc .4 .6\nd .3 .5 .6\n", A4),
    "lower, no diagonal, hyphens": ("a -\nb .5 -\nc .4 .6 -\nd .3 .5 .6 -\n", A4),
    "lower, no diagonal, as printed": ("  a b c\nb .5\nc .4 .6\nd .3 .5 .6\n", A4),
    "lower, rows": ("a 1\nb .5 1\nc .4 .6 1\nd .3 .5 .6 1\n", A4),
    "lower, rows and header": ("a b c d\na 1\nb .5 1\nc .4 .6 1\nd .3 .5 .6 1\n", A4),
    "upper": ("1 .5 .4 .3\n1 .6 .5\n1 .6\n1\n", X4),
    "upper, header": ("a b c d\n1 .5 .4 .3\n1 .6 .5\n1 .6\n1\n", A4),
    "upper, rows": ("a 1 .5 .4 .3\nb 1 .6 .5\nc 1 .6\nd 1\n", A4),
    "upper, no diagonal": (".5 .4 .3\n.6 .5\n.6\n", X4),
    "upper, no diagonal, rows": ("a .5 .4 .3\nb .6 .5\nc .6\nd\n", A4),
    "whole, rows": ("a 1 .5 .4 .3\nb .5 1 .6 .5\nc .4 .6 1 .6\nd .3 .5 .6 1\n", A4),
    "n below": ("a 1\nb .5 1\nc .4 .6 1\nd .3 .5 .6 1\nn 50 50 50 50\n", A4),
}


@pytest.mark.parametrize("form", TRIANGLES)
def test_rows_of_a_triangle_are_placed(form: str, tmp_path: Path) -> None:
    path = tmp_path / "R.txt"
    text, names = TRIANGLES[form]
    path.write_text(text)
    moments = read_moments(path, n=50, kind="correlation")
    assert moments.names == names
    np.testing.assert_allclose(moments.covariance, FOUR)


def test_the_program_reads_a_triangle_without_its_diagonal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "R.txt"
    path.write_text(TRIANGLES["lower, no diagonal"][0])
    assert run_program(["fit", str(path), "--correlation", "--n", "200", "--max-factors", "1"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "(correlation matrix): 200 rows, 4 columns" in told
    assert "taken as a triangle without its diagonal, of 4 variables." in told
    assert "semicolons" not in told
    path.write_text(TRIANGLES["lower, no diagonal, rows"][0])
    assert run_program(["fit", str(path), "--correlation", "--n", "200", "--quiet"]) == 0
    assert "column1" not in capsys.readouterr().err


def test_a_triangle_read_as_rows_is_named(tmp_path: Path) -> None:
    path = tmp_path / "R.csv"
    path.write_text("1\n.5,1\n.4,.6,1\n.3,.5,.6,1\n")
    with pytest.raises(DataError, match=r"triangle of a correlation matrix: .*read_moments\("):
        read_table(path)
    path.write_text("1\n.5 1\n.4 .6 1\n.3 .5 .6 1\n")
    with pytest.raises(DataError, match=r"one cell each. If it is a triangle of a correlation"):
        read_table(path)
    path.write_text("a,b\n1,2\n3\n" + "4,5\n" * 20)  # a row that is too short is no triangle
    with pytest.raises(DataError) as told:
        read_table(path)
    assert "correlation matrix" not in str(told.value)


AMBIGUOUS = r"correlations of 4 variables without the diagonal, or a matrix of 3 variables"
DIAGONAL = r"diagonal of a correlation matrix must be 1, 100 or empty\. Got {} for '{}' instead"
REFUSED = [
    (".5\n.4 .6\n.3 .5 .6\n", None, AMBIGUOUS + ".*kind='correlation' or kind='covariance'"),
    ("b .5\nc .4 .6\nd .3 .5 .6\n", "correlation", AMBIGUOUS + ".*Write the diagonal"),
    ("a b c\n.5\n.4 .6\n.3 .5 .7\n", "correlation", DIAGONAL.format("0.5", "a")),
    ("a b c\n.9 .4 .3\n.4 .8 .5\n.3 .5 .7\n", None, DIAGONAL.format("0.7", "c")),
    ("4 1 1\n1 5 2\n1 2 6.5\n", "correlation", DIAGONAL.format("6.5", "x3") + ".*='covariance'"),
    ("a b c\na\nb .5\nc .4 .6\n", "covariance", "must have its diagonal"),
]


@pytest.mark.parametrize(("text", "kind", "message"), REFUSED)
def test_a_matrix_that_may_be_two_things_is_refused(
    text: str, kind: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "R.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_moments(path, n=50, kind=kind)


def test_the_kind_of_a_matrix(tmp_path: Path) -> None:
    path = tmp_path / "S.txt"
    path.write_text(".5\n.3 .6\n.3 .4 .6\n")
    moments = read_moments(path, n=50, kind="covariance")
    np.testing.assert_allclose(np.diag(moments.covariance), [0.5, 0.6, 0.6])
    path.write_text("100 45 30\n45 100 20\n30 20 100\n")
    np.testing.assert_allclose(read_moments(path, n=50).covariance[0], [1, 0.45, 0.3])
    moments = read_moments(path, n=50, kind="covariance")
    np.testing.assert_allclose(moments.covariance[0], [100, 45, 30])
    with pytest.raises(InputError, match="kind must be one of 'correlation', 'covariance'"):
        read_moments(path, n=50, kind="R")


def changed(value: float, mirror: float | None = None) -> Any:
    matrix = FOUR.copy()
    matrix[0, 2], matrix[2, 0] = value, value if mirror is None else mirror
    return matrix


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (changed(0.4, 0.9), "Got 0.4 in row 'a', column 'c', and 0.9 in row 'c', column 'a'"),
        (changed(np.nan), "row 'a', column 'c' of the matrix must be a number. Got no value"),
        (changed(1.2), "between -1 and 1. Got 1.2 in row 'a', column 'c' instead"),
        (changed(-0.99), "in row 'a', column 'c', where the file has -0.99"),
    ],
)
def test_the_entry_that_is_wrong_is_named(matrix: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "R.csv"
    pd.DataFrame(matrix, columns=A4).to_csv(path, index=False)
    with pytest.raises(DataError) as error:
        read_moments(path, n=50)
    assert message in str(error.value)


def test_names_of_rows_are_no_variable(tmp_path: Path) -> None:
    for name in ("R.csv", "R.xlsx"):
        frame = pd.DataFrame(FOUR, columns=A4, index=A4)
        path = tmp_path / name
        frame.to_csv(path) if name.endswith("csv") else frame.to_excel(path)
        found = load_matrix(str(path), chooser(None, None, insists=True), how=Reading(), n=50)
        assert (found.moments.names, found.notes) == (A4, [])


def test_another_number_of_rows_than_the_file_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "R.csv"
    path.write_text(text_of(R, rows=True, n=N))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_moments(path).n == read_moments(path, n=N).n == N
    said = f"The file has n = {N}. The number that was given, 100, is used."
    with pytest.warns(CuspWarning, match=said):
        assert read_moments(path, n=100).n == 100
    assert run_program(["fit", str(path), "--correlation", "--n", "100", "--quiet"]) == 0
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_repaired_matrix_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "R.csv"
    pd.DataFrame([[1, 0.9, 0.3], [0.9, 1, 0.75], [0.3, 0.75, 1]], columns=A4[:3]).to_csv(path)
    with pytest.warns(CuspWarning, match=r"changed correlations by up to 0.0\d+ \(row 'a'"):
        moments = read_moments(path, n=50)
    assert np.linalg.eigvalsh(moments.covariance)[0] > 0
    command = ["fit", str(path), "--correlation", "--n", "50"]
    assert run_program([*command, "--max-factors", "1", "--quiet"]) == 0
    told = capsys.readouterr().err
    assert "is not positive semi-definite" in told
    assert "CuspWarning" not in told


def test_a_matrix_of_full_rank_needs_more_rows_than_variables(tmp_path: Path) -> None:
    path = tmp_path / "R.csv"
    pd.DataFrame(FOUR, columns=A4).to_csv(path, index=False)
    for n in (2, 4):
        message = f"^n must be .* at least 5: .*4 variables and rank 4.*Got {n} instead"
        with pytest.raises(InputError, match=message):
            read_moments(path, n=n)
    assert read_moments(path, n=5).n == 5
    # Correlations of fewer rows than variables, rounded: their rank is below the number of rows.
    few = np.corrcoef(ROWS[:8].T).round(2)
    path.write_text(text_of(few))
    with pytest.warns(CuspWarning, match="positive semi-definite"):
        assert read_moments(path, n=8).n == 8
