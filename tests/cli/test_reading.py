"""What a fit was told of its data serves for new rows: codes, names of rows, sheets, words."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, datasets, load, read_table
from cuspfa.cli.app import run_program

NAMES = list("abcdef")
AGREE = ["strongly disagree", "disagree", "agree", "strongly agree"]


@pytest.fixture
def frame() -> pd.DataFrame:
    rows = np.clip(datasets.simulate(150, 6, 1, random_state=0).X.round() + 3, 1, 5)
    rows[3, 1] = rows[7, 4] = -99
    found = pd.DataFrame(rows, columns=NAMES)
    found.insert(0, "person", [f"p{j}" for j in range(150)])
    return found


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[str, str]:
    assert run_program([str(word) for word in words]) == 0
    out, err = capsys.readouterr()
    return out, " ".join(err.split())


def test_codes_and_names_of_rows(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, fit = tmp_path / "t.csv", tmp_path / "f.cusp"
    frame.to_csv(path, index=False)
    run(capsys, "fit", path, "--missing", "-99", "--id", "person", "--factors", 1, "-o", fit)
    for command in ("scores", "impute"):
        asked, err = run(capsys, command, fit, path, "--missing", "-99", "--id", "person")
        assert "Read as the data of the fit" not in err
        alone, err = run(capsys, command, fit, path)
        assert alone == asked
        assert "Read as the data of the fit: --missing -99, --id person." in err
    frame[NAMES].to_csv(path, index=False)  # rows without names
    out, _ = run(capsys, "scores", fit, path)
    frame[NAMES].replace(-99, np.nan).to_csv(path, index=False)  # rows without the code
    for words in (("scores", fit, path), ("check", fit, path)):
        assert "made no cells missing" not in " ".join(run(capsys, *words))
    told = run(capsys, "scores", fit, path, "--missing", "-99")[1]
    assert "--missing made no cells missing." in told
    frame[NAMES].to_csv(path, index=False)
    assert out.splitlines()[0] == "factor1"
    codes, err = run(capsys, "scores", fit, path, "--missing=")
    assert "Read as the data of the fit" not in err
    assert max(abs(float(line)) for line in codes.splitlines()[1:]) > 10  # -99 is a number
    assert max(abs(float(line)) for line in out.splitlines()[1:]) < 5


def test_a_fit_of_the_library(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, fit = tmp_path / "t.csv", tmp_path / "f.cusp"
    frame.to_csv(path, index=False)
    table = read_table(path, missing=-99, id_column="person", exclude=["f"])
    CuspFactorAnalysis(n_factors=1).fit(table).posterior_.save(fit)
    data = load(fit).provenance.data
    assert (data.options.missing, data.options.id_column) == (("-99",), "person")
    assert data.excluded == ("f",)
    out, _ = run(capsys, "scores", fit, path)
    assert out.startswith("person,factor1\np0,")
    assert max(abs(float(line.split(",")[1])) for line in out.splitlines()[1:]) < 5


def test_sheets_and_words(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, fit = tmp_path / "t.xlsx", tmp_path / "f.cusp"
    words = frame.copy()
    for name in NAMES:
        words[name] = [AGREE[min(int(max(v, 1)) - 1, 3)] for v in frame[name]]
    with pd.ExcelWriter(path, engine="xlsxwriter") as book:
        frame.head(20).to_excel(book, sheet_name="other", index=False)
        words.to_excel(book, sheet_name="words", index=False)
    run(capsys, "fit", path, "--sheet", "words", "--factors", 1, "-o", fit)
    data = load(fit).provenance.data
    assert [one.rule for one in data.answers] == ["agreement"]
    assert [value for value, _ in data.labels[0].values] == [1, 2, 3, 4]
    every, err = run(capsys, "scores", fit, path)
    assert "Read as the data of the fit: --sheet words." in err
    # Fewer words: by themselves they would be numbered from 1 on.
    few = words[(words[NAMES].isin(AGREE[2:])).all(axis=1)]
    assert 3 < len(few) < 100
    few.to_csv(tmp_path / "few.csv", index=False)
    some, _ = run(capsys, "scores", fit, tmp_path / "few.csv")
    lines = every.splitlines()
    assert some.splitlines()[1:] == [lines[1 + j] for j in few.index]


def test_a_column_that_identifies_rows_stays_with_them(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, fit = tmp_path / "t.csv", tmp_path / "f.cusp"
    frame = frame.replace(-99, np.nan).drop(columns="person")
    frame.insert(2, "ID", np.arange(150) * 7 + 20)
    frame.to_csv(path, index=False)
    run(capsys, "fit", path, "--factors", 1, "-o", fit)
    for command in ("scores", "impute"):
        out, err = run(capsys, command, fit, path)
        assert "Read as the data of the fit: --id ID." in err
        assert [line.split(",")[0] for line in out.splitlines()[:3]] == ["ID", "20", "27"]
        without, err = run(capsys, command, fit, path, "--id=")
        assert err.find("Read as the data") == -1
        assert [line.split(",", 1)[1] for line in out.splitlines()] == without.splitlines()
    frame[NAMES].to_csv(path, index=False)
    assert run(capsys, "scores", fit, path)[0].splitlines()[0] == "factor1"
