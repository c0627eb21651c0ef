"""Words of the command line: ranges and patterns, capital letters, a file without a command."""

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
    for word in ("B*", "x1-x9", "x1-"):
        with pytest.raises(InputError, match=r"--columns: there is no column"):
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
    with pytest.raises(InputError, match="columns: there is no column 'B\\*'"):
        read_table(path, columns="B*")


def test_capital_letters_do_not_matter(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rotation", "Oblimin", "--method", "Variational", "--factors", "2", "--quiet"]
    assert run_program(["fit", "--example", "BFI", *words]) == 0
    assert run_program(["fit", "--example", "bfi", "--rotation", "Oblimim"]) == 2
    assert "must be one of varimax, quartimax" in capsys.readouterr().err


def test_a_file_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["my answers.csv", "--factors", "2"]) == 2
    assert "cuspfa fit 'my answers.csv' --factors 2" in capsys.readouterr().err
    assert run_program(["answer"]) == 2
    assert "there is no command 'answer'" in capsys.readouterr().err
