"""Words of the command line: ranges and patterns, capital letters, a file without a command."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cuspfa import RowStream, read_table
from cuspfa.cli.app import run_program
from cuspfa.cli.reading import parse_columns
from cuspfa.errors import InputError

NAMES = ["id", "x1", "x2", "A1", "A2", "x3", "o-1", "o-2", "3"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("x1-x3", ["x1", "x2", "A1", "A2", "x3"]),  # in the order of the table
        ("x1:x2,A*", ["x1", "x2", "A1", "A2"]),
        ("A?,x3", ["A1", "A2", "x3"]),
        ("o-1-o-2", ["o-1", "o-2"]),
        ("o-1", ["o-1"]),
        ("2-3", ["x1", "x2"]),
        ("3", ["3"]),  # a name comes before a number
        ("x*,x1", ["x1", "x2", "x3"]),
    ],
)
def test_ranges_and_patterns(given: str, found: list[str]) -> None:
    assert [NAMES[j] for j in parse_columns("--columns", [given], NAMES)] == found


def test_words_that_mean_no_column() -> None:
    told = {
        "B*": "--columns: no column has a name like 'B*'.",
        "a*": "Capital letters count: did you mean 'A1'?",
        "x1-x9": "'x1-x9' is no range of columns: there is no column 'x9'.",
        "X1:a2": "there is no column 'X1:a2'. Did you mean 'x1:A2'?",
        "x1-": "there is no column 'x1-'. Did you mean",
    }
    for word, message in told.items():
        with pytest.raises(InputError, match=re.escape(message)):
            parse_columns("--columns", [word], NAMES)


def test_the_library_takes_the_same_words(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 9)), columns=NAMES)
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    for columns in ("x1:x2,A*", ["x1-x2", "A*"]):
        for limit in (None, "100MB"):
            table = read_table(path, columns=columns, memory_limit=limit)
            assert table.names == ["x1", "x2", "A1", "A2"]
        assert RowStream(path, columns=columns).names == ["x1", "x2", "A1", "A2"]
    assert read_table(path, exclude="o-*,id").names == ["x1", "x2", "A1", "A2", "x3", "3"]
    with pytest.raises(InputError, match="columns: no column has a name like 'B\\*'"):
        read_table(path, columns="B*")


def test_capital_letters_do_not_matter(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rotation", "Oblimin", "--method", "Variational", "--factors", "2", "--quiet"]
    assert run_program(["fit", "--example", "BFI", *words]) == 0
    assert run_program(["fit", "--example", "bfi", "--rotation", "Oblimim"]) == 2
    assert "must be one of varimax, quartimax" in capsys.readouterr().err


def test_a_file_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["my answers.csv", "--factors", "2"]) == 2
    assert "cuspfa fit 'my answers.csv' --factors 2" in capsys.readouterr().err
    assert run_program(["old.cusp"]) == 2
    assert "to show a saved fit: cuspfa info old.cusp" in capsys.readouterr().err
    assert run_program(["answer"]) == 2
    assert "there is no command 'answer'" in capsys.readouterr().err


def test_wrong_values_are_told_with_their_option(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (
            ["plot", "a.cusp", "pie", "-o", "a.png"],
            "KIND must be one of search, model_error, scree",
        ),
        (["fit", "a.csv", "--rotation", "no"], "--rotation must be one of varimax, "),
        (["fit", "a.csv", "--factors", "two"], "--factors must be a whole number. Got 'two' inst"),
        (["fit", "a.csv", "--jsno"], "there is no option --jsno. Did you mean --json?"),
        (["scores", "a.cusp", "a.csv", "--json"], "there is no option --json. See cuspfa scores"),
    ):
        assert run_program(words) == 2
        assert f"cuspfa: {told}" in capsys.readouterr().err
