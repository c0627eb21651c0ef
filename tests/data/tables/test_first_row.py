"""Does the first row of a table of text name its columns? One rule, whoever reads it."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, RowStream, datasets, predict_to_file
from cuspfa.cli.app import run_program
from cuspfa.data.tables.reader import read_file
from cuspfa.errors import CuspWarning

BELOW = ["1.5,2.5,0.5", "2.5,NA,1.5", "3.5,4.5,.", "0.5,1.5,2.5"]
WHOLE = ["1,2,2", "2,1,2", "3,3,1", "1,1,2"]

TABLES = {
    # the lines, then names and the number of rows below them
    "names": (["a,b,c", *BELOW], ["a", "b", "c"], 4),
    "numbers": (["0.1,0.2,0.3", *BELOW], ["x1", "x2", "x3"], 5),
    "an empty cell": (["0.1,,0.3", *BELOW], ["x1", "x2", "x3"], 5),
    "a first empty cell": ([",0.2,0.3", *BELOW], ["x1", "x2", "x3"], 5),
    "NA": (["NA,0.2,0.3", *BELOW], ["x1", "x2", "x3"], 5),
    "a point": (["0.1,0.2,.", *BELOW], ["x1", "x2", "x3"], 5),
    "answers with an empty cell": (["1,,2", *WHOLE], ["x1", "x2", "x3"], 5),
    "whole numbers as names": (["0,1,2", *BELOW], ["0", "1", "2"], 4),
    "answers": (["1,2,3", *WHOLE], ["x1", "x2", "x3"], 5),
    "a number and a name": (["0.1,b,0.3", *BELOW], ["0.1", "b", "0.3"], 4),
}


def lines(kind: str) -> tuple[list[str], list[str], int]:
    return TABLES[kind]


@pytest.mark.parametrize("kind", TABLES)
def test_the_program_in_memory(kind: str, tmp_path: Path) -> None:
    text, names, n = lines(kind)
    (tmp_path / "t.csv").write_text("\n".join(text) + "\n", encoding="utf-8")
    table = read_file(str(tmp_path / "t.csv"))
    assert (table.names, table.n_rows) == (names, n)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("how", ["csv", "semicolons", "gz", "tsv", "folder"])
def test_by_blocks(kind: str, how: str, tmp_path: Path) -> None:
    text, names, n = lines(kind)
    whole = "\n".join(text) + "\n"
    if how == "gz":
        path = tmp_path / "t.csv.gz"
        path.write_bytes(gzip.compress(whole.encode()))
    elif how == "tsv":
        path = tmp_path / "t.tsv"
        path.write_text(whole.replace(",", "\t"), encoding="utf-8")
    elif how == "folder":
        path, n = tmp_path / "t", 2 * n
        path.mkdir()
        for name in ("a.csv", "b.csv"):
            (path / name).write_text(whole, encoding="utf-8")
    else:
        path = tmp_path / "t.csv"
        path.write_text(whole.replace(",", ";") if how == "semicolons" else whole, encoding="utf-8")
    stream = RowStream(path)
    assert stream.names == names
    rows = np.concatenate([block.rows for block in stream.blocks(allow_missing=True)])
    assert rows.shape == (n, 3)
    cells = text[1 if names[0] != "x1" else 0].split(",")
    known = [np.nan if cell in ("", "NA", ".") else float(cell) for cell in cells]
    np.testing.assert_array_equal(rows[0], known)


def test_what_pandas_writes_is_a_header(tmp_path: Path) -> None:
    """Counted columns, and rows counted below an empty first cell."""
    pandas = pytest.importorskip("pandas")
    X = datasets.simulate(50, 5, 1, random_state=0).X
    pandas.DataFrame(X).to_csv(tmp_path / "t.csv")
    table = read_file(str(tmp_path / "t.csv"))
    assert (table.names, table.n_rows) == (["column1", *"01234"], 50)
    assert RowStream(tmp_path / "t.csv").names == ["column1", *"01234"]


@pytest.fixture
def headless(tmp_path: Path) -> tuple[Any, Path]:
    X = datasets.simulate(80, 6, 2, random_state=2).X.round(3)
    text = [",".join(map(repr, row)) for row in X.tolist()]
    text[0] = text[0].replace(text[0].split(",")[2], "", 1)
    X[0, 2] = np.nan
    (tmp_path / "bare.csv").write_text("\n".join(text) + "\n", encoding="utf-8")
    return X, tmp_path / "bare.csv"


def test_no_row_is_lost_in_a_fit(headless: tuple[Any, Path], tmp_path: Path) -> None:
    X, path = headless
    known = CuspFactorAnalysis(n_factors=2).fit(X)
    with pytest.warns(CuspWarning, match="first row holds numbers only: taken as data"):
        found = CuspFactorAnalysis(n_factors=2).fit(path)
    assert found.posterior_.n_rows == 80
    assert list(found.feature_names_in_) == ["x1", "x2", "x3", "x4", "x5", "x6"]
    np.testing.assert_allclose(found.get_covariance(), known.get_covariance())
    with pytest.warns(CuspWarning, match="first row holds numbers only"):
        assert predict_to_file(found, "transform", path, tmp_path / "scores.parquet") == 80


def test_no_row_is_lost_in_the_program(
    headless: tuple[Any, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _, path = headless
    results = []
    for limit in ([], ["--memory-limit", "500MB"]):
        assert run_program(["fit", str(path), "--json", *limit]) == 0
        shown = capsys.readouterr()
        assert "first row holds numbers only: taken as data" in " ".join(shown.err.split())
        results.append(json.loads(shown.out))
    assert [one["n_rows"] for one in results] == [80, 80]
    assert results[0]["headline"] == results[1]["headline"]
