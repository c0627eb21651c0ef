"""Means and sums below a table are refused, and people are not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, RowStream, read_table
from cuspfa.data.tables.reader import read_file
from cuspfa.errors import DataError

NAMES = ["q1", "q2", "q3", "q4"]
ROWS = pd.DataFrame(np.random.default_rng(8).integers(1, 6, (30, 4)), columns=NAMES)


def written(folder: Path, frame: pd.DataFrame, kind: str) -> Path:
    path = folder / f"t.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_excel(path, index=False)
    return path


def below(names: list[str], first: str, values: list[list[float]]) -> pd.DataFrame:
    """The table with a first column, and rows of these names and values below it."""
    people = ROWS.astype(object)
    labels: list[object] = list(range(1, 31)) if first == "id" else [f"P{j}" for j in range(30)]
    people.insert(0, first, labels)
    more = [[name, *row] for name, row in zip(names, values, strict=True)]
    return pd.concat([people, pd.DataFrame(more, columns=people.columns)], ignore_index=True)


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
@pytest.mark.parametrize("first", ["id", "person"])
def test_named_summaries_are_refused(kind: str, first: str, tmp_path: Path) -> None:
    table = below(["Mean", "S.D."], first, [[3.1, 2.9, 3.0, 2.8], [1.4, 1.4, 1.3, 1.5]])
    message = rf"column '{first}': row 31 \('Mean'\), row 32 \('S.D.'\). Remove these rows"
    path = written(tmp_path, table, kind)
    with pytest.raises(DataError, match=message):
        read_table(path)
    with pytest.raises(DataError, match=message):
        CuspFactorAnalysis().fit(path)


def test_one_word_in_an_item(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(ROWS.to_csv(index=False) + "Total,,,\n")
    with pytest.raises(DataError, match=r"column 'q1': row 31 \('Total'\)"):
        read_table(path)
    path.write_text(ROWS.to_csv(index=False) + "N,30,30,30\n")
    with pytest.raises(DataError, match=r"column 'q1': row 31 \('N'\)"):
        read_table(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([ROWS.mean(), ROWS.std()], "the means of the rows above in row 31"),
        ([ROWS.mean().round(2)], "the means of the rows above in row 31"),
        ([ROWS.sum()], "the sums of the rows above in row 31"),
    ],
)
def test_summaries_without_a_name_are_refused(
    values: list[pd.Series], message: str, tmp_path: Path
) -> None:
    table = pd.concat([ROWS, pd.DataFrame(values)], ignore_index=True)
    with pytest.raises(DataError, match=message):
        read_table(written(tmp_path, table, "xlsx"))


def test_people_are_kept(tmp_path: Path) -> None:
    # A person called Max, a group called total, and a row at the centre of a design.
    one = [3.0, 2.0, 3.0, 2.0]
    assert read_table(written(tmp_path, below(["Max"], "person", [one]), "csv")).n_rows == 31
    grouped = ROWS.assign(group=["m", "f", "total"] * 10)
    assert read_table(written(tmp_path, grouped, "csv")).n_rows == 30
    levels = (-1, 0, 1)
    points = [[i, j, k] for i in levels for j in levels for k in levels]
    centred = pd.DataFrame([*points, [0, 0, 0]], columns=["a", "b", "c"])
    assert read_table(written(tmp_path, centred, "csv")).n_rows == 28


def test_rows_near_the_means_are_people(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.normal(size=(40, 1)) * np.arange(1, 6) + 1e-3 * rng.normal(size=(40, 5))
        path = written(tmp_path, pd.DataFrame(values).round(2), "csv")
        assert read_file(str(path)).n_rows == 40


@pytest.mark.parametrize("decimals", [0, 3])
@pytest.mark.parametrize("what", ["means", "sums"])
@pytest.mark.parametrize("below", [0, 3])
def test_summaries_in_blocks(what: str, decimals: int, below: int, tmp_path: Path) -> None:
    rows = np.random.default_rng(5).normal(3, 1.2, (200, 4)).round(decimals)
    summary = rows.mean(axis=0) if what == "means" else rows.sum(axis=0)
    path = tmp_path / "t.csv"
    frame = pd.DataFrame(np.vstack([rows, summary, rows[:below]]), columns=NAMES)
    frame.to_csv(path, index=False)
    for size in (7, 200, 10_000):
        with pytest.raises(DataError, match=f"t.csv: summaries .* {what} of the rows .* row 201"):
            CuspFactorAnalysis().fit(RowStream(path, batch_rows=size))
    frame.loc[3, "q4"] = np.nan
    frame.loc[200, "q4"] = getattr(frame["q4"][:200], what[:-1])()
    frame.to_csv(path, index=False)
    with pytest.raises(DataError, match=f"t.csv: summaries .* {what} of the rows .* row 201"):
        read_table(path, memory_limit="1GB")
    frame.drop(index=200).to_csv(path, index=False)
    assert read_table(path, memory_limit="1GB").n_rows == 200 + below


def test_people_in_blocks_are_none(tmp_path: Path) -> None:
    rows = np.tile([[1.0, 5, 2, 4], [5, 1, 4, 2]], (60, 1))
    path = tmp_path / "t.csv"
    for last in ([3.0, 3, 3, 3], [3.01, 3.02, 3.01, 3.5], [0.0, 0, 0, 0]):
        # The means of all are an answer that others gave, or not quite the means.
        frame = pd.DataFrame(np.vstack([[3.0, 3, 3, 3], rows, last]), columns=NAMES)
        frame.to_csv(path, index=False)
        stream = RowStream(path, batch_rows=50)
        assert CuspFactorAnalysis(n_factors=1).fit(stream).posterior_.n_rows == 122
