"""Tables are written as the input was, with a sensible number of digits, also as workbooks."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, datasets, load
from cuspfa.cli.app import run_program
from cuspfa.cli.written_tables import field_text

NAMES = list("abcdef")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.3493084755474239, "-0.349308"),
        (2.0, "2"),
        (0.1 + 0.2, "0.3"),
        (1234567.8, "1234570"),
        (-1e-20, "-1e-20"),
        (-0.0, "0"),
        (float("nan"), ""),
    ],
)
def test_digits(value: float, text: str) -> None:
    assert field_text(value) == text
    assert field_text(value, decimal=",") == text.replace(".", ",")


def test_observed_values_keep_their_digits() -> None:
    assert field_text(1234567.25, observed=True) == "1234567.25"
    assert field_text(0.30000000000000004, observed=True) == "0.30000000000000004"


@pytest.fixture
def rows() -> np.ndarray:
    found = datasets.simulate(80, 6, 1, random_state=0).X.round(3)
    found[2, 3] = np.nan
    return found


def test_the_dialect_of_the_input(
    rows: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame(rows, columns=NAMES)
    frame.insert(0, "who", [f"p{j}" for j in range(80)])
    path, fit = tmp_path / "t.csv", tmp_path / "f.cusp"
    frame.to_csv(path, index=False, sep=";", decimal=",")
    words = ["fit", str(path), "--factors", "1", "--id", "who", "-o", str(fit), "--quiet"]
    assert run_program(words) == 0
    known = CuspFactorAnalysis.from_posterior(load(fit).without_names())
    capsys.readouterr()
    assert run_program(["scores", str(fit), str(path)]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0] == "who;factor1"
    found = pd.read_csv(tmp_path / "t.csv", sep=";", decimal=",")
    (tmp_path / "out.csv").write_text(text)
    scores = pd.read_csv(tmp_path / "out.csv", sep=";", decimal=",")
    np.testing.assert_allclose(scores["factor1"], known.transform(rows)[:, 0], rtol=5e-6)
    assert max(len(line.split(";")[1].strip("-")) for line in text.splitlines()[1:]) <= 10
    for suffix in (".csv", ".xlsx", ".parquet", ".tsv"):
        out = tmp_path / f"filled{suffix}"
        assert run_program(["impute", str(fit), str(path), "-o", str(out)]) == 0
        filled = {
            ".csv": lambda out: pd.read_csv(out, sep=";", decimal=","),
            ".tsv": lambda out: pd.read_csv(out, sep="\t", decimal=","),
            ".xlsx": pd.read_excel,
            ".parquet": pd.read_parquet,
        }[suffix](out)
        assert list(filled["who"]) == list(found["who"])
        seen = ~np.isnan(rows)
        np.testing.assert_array_equal(filled[NAMES].to_numpy()[seen], rows[seen])
        np.testing.assert_allclose(filled["d"][2], known.impute(rows)[2, 3], rtol=5e-6)


def test_workbooks_hold_no_formula(
    rows: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame(rows, columns=NAMES)
    frame.insert(0, "who", [f"=1+{j}" for j in range(80)])
    path, fit = tmp_path / "t.csv", tmp_path / "f.cusp"
    frame.to_csv(path, index=False)
    assert run_program(["fit", str(path), "--factors", "1", "-o", str(fit), "--quiet"]) == 0
    out = tmp_path / "s.xlsx"
    assert run_program(["scores", str(fit), str(path), "--id", "who", "-o", str(out)]) == 0
    written = pd.read_excel(out)
    assert list(written["who"]) == list(frame["who"])
    scores = written.iloc[:, 1]
    assert all(one == float(f"{one:.6g}") for one in scores)
    assert scores.std() > 0.3
    assert run_program(["scores", str(fit), str(path), "-o", str(tmp_path / "s.sav")]) == 2
    assert "tables are written as CSV, TSV, Excel or Parquet" in capsys.readouterr().err
