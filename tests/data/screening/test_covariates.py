"""Columns that describe rows are named, and left out by the program; so are copies named."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, datasets, load, read_table
from cuspfa.cli.app import run_program
from cuspfa.data.screening.covariates import ValueRange, covariate_kind
from cuspfa.data.screening.duplicates import duplicated_columns
from cuspfa.errors import CuspWarning
from cuspfa.reporting.recipe import python_recipe

N = 300
RATING, YEARS = ValueRange(1, 5, True), ValueRange(18, 77, True)
REAL = ValueRange(-3.2, 3.4, False)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("age", YEARS, "age"),
        ("Age (years)", YEARS, "age"),
        ("participantAge", YEARS, "age"),
        ("AGE", ValueRange(18.5, 60.25, False), "age"),
        ("language", YEARS, None),
        ("age", REAL, None),
        ("sex", ValueRange(1, 2, True), "sex or gender"),
        ("Gender", ValueRange(0, 1, True), "sex or gender"),
        ("sex", REAL, None),
        ("grade", ValueRange(7, 8, True), "grade or education"),
        ("education", RATING, "grade or education"),
        ("school_id", RATING, None),
        ("ID", RATING, "an identifier"),
        ("target", ValueRange(25, 346.5, False), "a target"),
        ("class", RATING, "a class"),
        ("weight", ValueRange(0.2, 4.7, False), "a survey weight"),
        ("weight", ValueRange(43.5, 120, False), None),
        ("fnlwgt", ValueRange(12285, 1484705, True), None),
        ("pweight", ValueRange(0.1, 9.5, False), "a survey weight"),
        ("year", ValueRange(1999, 2008, True), "a year"),
        ("years", RATING, None),
        ("A1", RATING, None),
        ("How old are you?", YEARS, "age"),
        ("What is your age in years?", YEARS, "age"),
        ("Wie alt sind Sie?", YEARS, "age"),
        ("How old do you feel at work?", YEARS, None),
        ("With which gender do you identify?", ValueRange(1, 3, True), "sex or gender"),
        ("What is your highest level of education?", RATING, "grade or education"),
        ("I enjoyed my education", RATING, None),
        ("Year of birth", ValueRange(1950, 2004, True), "a year"),
        ("Geburtsjahr", ValueRange(1950, 2004, True), "a year"),
    ],
)
def test_rules(name: str, values: ValueRange, kind: str | None) -> None:
    assert covariate_kind(name, values, frozenset()) == kind


def test_records_of_qualtrics() -> None:
    share = ValueRange(0, 100, True)
    assert covariate_kind("Progress", share, frozenset({"ResponseId"})) == "a record of the survey"
    assert covariate_kind("Progress", share, frozenset()) is None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = datasets.simulate(N, 6, 1, random_state=0).X.round(2)
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    rng = np.random.default_rng(1)
    frame["age"], frame["sex"] = rng.integers(18, 80, N), rng.integers(1, 3, N)
    found = tmp_path / "t.csv"
    frame.to_csv(found, index=False)
    return found


@pytest.mark.parametrize("limit", [None, "100MB"])
def test_the_library_warns_and_the_program_leaves_out(
    path: Path, limit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    table = read_table(path, memory_limit=limit)
    assert table.names == [*"abcdef", "age", "sex"]
    (note,) = table.notes
    assert str(note) == (
        "Columns that look like age, sex or gender are analysed: age, sex. To leave them out, "
        "name them in exclude of read_table."
    )
    assert not read_table(path, columns=["a", "b", "age"], memory_limit=limit).notes
    words = ["fit", str(path), "--factors", "1", "--json"]
    words += [] if limit is None else ["--memory-limit", limit]
    for more, names in (
        ([], [*"abcdef"]),
        (["--include", "age"], [*"abcdef", "age"]),
        (["--columns", "a-d,sex"], [*"abcd", "sex"]),
    ):
        assert run_program([*words, *more]) == 0
        out, err = capsys.readouterr()
        told = json.loads(out)
        assert told["columns"] == names
        if not more:
            assert [one["name"] for one in told["left_out"]["columns"]] == ["age", "sex"]
            said = " ".join(err.split())
            assert "age looks like age; to keep it, name it in --include" in said


def test_the_python_code_of_a_fit_leaves_the_same_out(path: Path) -> None:
    saved = path.with_suffix(".cusp")
    assert run_program(["fit", str(path), "--factors", "1", "--quiet", "-o", str(saved)]) == 0
    recipe = python_recipe(load(saved).provenance)
    assert f"read_table({str(path)!r}, exclude=['age', 'sex'])" in recipe


def test_a_fit_to_a_path_warns(path: Path) -> None:
    with pytest.warns(CuspWarning, match="Columns that look like age, sex or gender are analysed"):
        CuspFactorAnalysis(n_factors=1).fit(path)


def test_a_fit_to_a_data_frame_warns() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(datasets.simulate(60, 4, 1, random_state=1).X, columns=list("abcd"))
    frame["age"] = rng.integers(18, 80, 60)
    frame["Q3"] = rng.integers(18, 80, 60)  # no name of an age
    said = (
        "Columns that look like age are analysed: age. Leave them out of X unless they are "
        "measurements like the others."
    )
    for likelihood in ("gaussian", "normal_scores"):
        with pytest.warns(CuspWarning, match=re.escape(said)):
            CuspFactorAnalysis(n_factors=1, likelihood=likelihood).fit(frame)
    CuspFactorAnalysis(n_factors=1).fit(frame.drop(columns="age"))
    CuspFactorAnalysis(n_factors=1).fit(frame.to_numpy())


def test_copies_with_missing_values_are_named() -> None:
    frame = pd.DataFrame(datasets.simulate(80, 5, 1, random_state=1).X, columns=list("abcde"))
    frame["copy"] = frame["b"]
    frame.loc[:3, "b"] = np.nan
    frame.loc[7:9, "copy"] = np.nan
    for data, pair in ((frame, "b and copy"), (frame.to_numpy(), "column 1 and column 5")):
        with pytest.warns(CuspWarning, match=f"both have a value: {pair}. Leave one of each"):
            CuspFactorAnalysis(n_factors=1).fit(data)


def test_a_data_frame_with_samples_for_columns() -> None:
    rows = datasets.simulate(60, 5, 1, random_state=1).X
    frame = pd.DataFrame(rows, columns=[f"GSM{4100 + j}" for j in range(5)])
    with pytest.warns(CuspWarning, match="names of samples .* transpose the table"):
        CuspFactorAnalysis(n_factors=1).fit(frame)


def test_duplicates() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 6, (200, 6)).astype(float)
    rows[:, 3] = rows[:, 1]
    rows[:, 5] = rows[:, 1]
    rows[::7, 3] = np.nan  # equal where both are observed
    rows[0, 1] = np.nan
    assert duplicated_columns(rows) == [(1, 3), (1, 5)]
    rows[150, 3] = 7 - rows[150, 1]
    assert duplicated_columns(rows) == [(1, 5)]
    rows[9:, 5] = np.nan  # too few rows in common
    assert duplicated_columns(rows) == []
    wide = rng.normal(size=(12, 2100))
    wide[:, 2000] = wide[:, 3]
    assert duplicated_columns(wide) == [(3, 2000)]


def test_columns_with_names_of_samples(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = datasets.simulate(N, 4, 1, random_state=0).X.round(2)

    def notes(names: list[str], n: int = N) -> list[str]:
        pd.DataFrame(rows[:n], columns=names).to_csv(path, index=False)
        return [str(note) for note in read_table(path).notes]

    (told,) = notes([f"GSM{4100 + j}" for j in range(4)])
    assert f"(GSM4100, GSM4101, GSM4102, GSM4103) and there are {N} rows" in told
    assert "transpose the table" in told
    assert notes(["TCGA-02-0001", "TCGA-02-0003", "TCGA-02-0007", "x"])
    assert notes([f"Sample {j}" for j in range(1, 5)])
    assert notes(["sampling", "GSM", "sample size", "srr"]) == []


def test_a_label_that_asks_for_the_age(tmp_path: Path) -> None:
    """Qualtrics calls the question Q3; its wording says what it is."""
    rows = np.random.default_rng(0).integers(1, 6, (N, 3))
    age = np.random.default_rng(1).integers(18, 70, N)
    names, asked = ["Q1_1", "Q1_2", "Q2", "Q3"], ["I worry", "I sleep", "I eat", "How old are you?"]
    codes = [f'{{""ImportId"":""QID{j}""}}' for j in range(4)]
    lines = [",".join(names), ",".join(asked), ",".join(f'"{one}"' for one in codes)]
    lines += [",".join(map(str, [*row, years])) for row, years in zip(rows, age, strict=True)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    table = read_table(path)
    assert [one.columns for one in table.notes if one.code == "covariates"] == [("Q3",)]
    assert table.names == names
    assert run_program(["fit", str(path), "--json", "--no-checks", "-o", str(tmp_path / "f")]) == 0
    assert load(tmp_path / "f").column_names == names[:3]


def test_a_table_with_a_copy_and_one_of_genes(tmp_path: Path) -> None:
    rows = datasets.simulate(N, 4, 1, random_state=0).X.round(2)
    frame = pd.DataFrame(rows, columns=list("abcd"))
    frame["copy"] = frame["b"]
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    (note,) = read_table(path).notes
    assert "b and copy" in str(note)
    frame = frame.drop(columns="copy")
    for name, words in (
        ("symbol", [f"GENE{j}" for j in range(N)]),
        ("x", [f"ENSG{j:011d}" for j in range(N)]),
        ("person", [f"P{j}" for j in range(N)]),
    ):
        frame.insert(0, name, words)
        frame.to_csv(path, index=False)
        codes = [note.code for note in read_table(path).notes]
        assert codes == ([] if name == "person" else ["genes"])
        with pytest.warns(CuspWarning) as told:
            CuspFactorAnalysis(n_factors=1).fit(path)
        assert ("transpose" in str(told[0].message)) == (name != "person")
        frame = frame.drop(columns=name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(path)
