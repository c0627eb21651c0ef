"""What `cuspfa fit` says of columns and rows: kinds, cautions, checks, and --no-checks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cuspfa import datasets
from cuspfa.cli.app import run_program
from cuspfa.diagnostics.assumptions import is_quick
from support import write_csv

pytestmark = pytest.mark.usefixtures("plain_terminal")
NAMES = list("abcdefgh")


@pytest.fixture
def clean_csv(tmp_path: Path) -> str:
    rows = datasets.simulate(150, 8, 2, random_state=1).X
    return str(write_csv(tmp_path / "clean.csv", NAMES, rows.round(3).tolist()))


@pytest.fixture
def spoiled_csv(tmp_path: Path) -> str:
    rows = datasets.simulate(150, 8, 2, random_state=1).X
    rows[40] += np.array([4.0, -4.0] * 4)
    return str(write_csv(tmp_path / "spoiled.csv", NAMES, rows.round(3).tolist()))


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_program(["fit", *words]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_an_outlying_row_is_named_and_the_cost_is_shown(
    spoiled_csv: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(capsys, spoiled_csv)
    assert "Check, outlying rows: 1 of 150 rows lies further from the others" in out
    assert "normal data would have any (41, counted from 1). Look at them" in out
    assert "s for checks, " in out
    assert "8 continuous columns. The Gaussian model is made for these." in out
    assert out.index("8 continuous columns") < out.index("Loadings (")


def test_an_outlying_row_has_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = datasets.simulate(150, 8, 2, random_state=1).X
    rows[[40, 90]] += np.array([4.0, -4.0] * 4)
    named = [[f"p{i}", *row] for i, row in enumerate(rows.round(3).tolist())]
    path = str(write_csv(tmp_path / "named.csv", ["who", *NAMES], named))
    page = tmp_path / "report.html"
    out = printed(capsys, path, "--id", "who", "--report", str(page))
    assert re.search(r"would have any \((p40, p90|p90, p40); the worst first\)\.", out)
    told = page.read_text()
    assert re.search(r"<li>Outlying rows: 2 of 150 [^<]*\((41, 91|91, 41), counted from 1;", told)
    # A name of a row is a cell of the data.
    assert re.search("p[49]0", told) is None
    assert re.search("p[49]0", printed(capsys, path, "--id", "who", "--json")) is None
    printed(capsys, path, "--id", "who", "--report", str(page), "--no-checks")
    assert "Outlying rows" not in page.read_text()
    named.insert(3, ["p3b", *[""] * 8])  # a row without any value
    write_csv(tmp_path / "named.csv", ["who", *NAMES], named)
    out = printed(capsys, path, "--id", "who")
    assert re.search(r"would have any \((41, 91|91, 41), counted from 1; the worst first\)\.", out)
    assert "Rows are counted without the 1 that have no value." in out


def test_usual_rows_have_no_finding_but_are_checked(
    clean_csv: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(capsys, clean_csv)
    assert "Check" not in out
    assert "Caution" not in out
    assert "s for checks, " in out


def test_checks_can_be_left_out(spoiled_csv: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, spoiled_csv, "--no-checks")
    assert "outlying" not in out
    assert "s for checks" not in out


def test_json_has_kinds_cautions_and_checks(
    spoiled_csv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(printed(capsys, spoiled_csv, "--json"))
    assert found["column_kinds"] == [
        {"kind": "continuous", "columns": NAMES, "points": None, "skewed": []}
    ]
    assert found["cautions"] == []
    finding = found["checks"]["findings"][0]
    assert finding["kind"] == "outlying rows"
    assert finding["rows"] == [41]
    assert found["seconds"]["checks"] > 0
    found = json.loads(printed(capsys, spoiled_csv, "--json", "--no-checks"))
    assert found["checks"] is found["seconds"]["checks"] is None
    skewed = (np.random.default_rng(0).random((80, 4)) < 0.1).astype(int)
    path = write_csv(tmp_path / "rare.csv", list("abcd"), skewed.tolist())
    found = json.loads(printed(capsys, str(path), "--json", "--factors", "1", "--no-checks"))
    assert found["column_kinds"][0]["kind"] == "binary"
    assert found["column_kinds"][0]["skewed"] == list("abcd")
    assert "skewed_items" in [one["code"] for one in found["cautions"]]


def test_what_is_quick() -> None:
    assert is_quick(2800, 25)
    assert is_quick(3570, 57)
    assert not is_quick(1000, 500)
    assert not is_quick(64, 100_000)
