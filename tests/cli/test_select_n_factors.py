"""`cuspfa select-n-factors`."""

import json

import pytest

from cuspfa import CuspFactorAnalysis, select_n_factors
from support import answers, write_csv

QUICK = ("--folds", 2, "--splits", 2)


@pytest.fixture
def data(tmp_path, plain_terminal):
    rows = [[20 + i % 9, *row] for i, row in enumerate(answers().tolist())]
    return write_csv(tmp_path / "answers.csv", ["age", *"abcdefgh"], rows)


def test_it_prints_what_the_library_finds(cuspfa, data):
    code, out, err = cuspfa("select-n-factors", "answers.csv", *QUICK)
    assert (code, err) == (0, "")
    found = select_n_factors(CuspFactorAnalysis(random_state=0), answers(), n_folds=2, n_splits=2)
    assert out.endswith(f"\n{found}\n")
    assert "looks like age" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_json_and_quiet(cuspfa, data):
    code, out, err = cuspfa("select-n-factors", "answers.csv", *QUICK, "--json", "--numbers", "1-3")
    assert code == 0
    assert "Read answers.csv" in err
    found = json.loads(out)
    assert found["n_factors"] == found["best_held_out"] == 2
    assert [one["n_factors"] for one in found["held_out"]] == [1, 2, 3]
    assert found["rules"][0] == {"rule": "evidence", "n_factors": 2}
    assert len(found["factors"]) == 2
    assert found["left_out"]["columns"][0]["name"] == "age"
    assert found["curve"]["points"][0]["n_factors"] == 2
    assert found["warnings"] == []
    code, out, _ = cuspfa("select-n-factors", "answers.csv", *QUICK, "--quiet")
    assert out == found["headline"] + "\n"


def test_warnings_advise_options(cuspfa, data):
    code, out, _ = cuspfa("select-n-factors", "answers.csv", *QUICK, "--max-factors", 1)
    assert code == 0
    assert "As many factors were found as --max-factors 1 allows" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give a file with data"),
        (["answer.csv"], "Did you mean 'answers.csv'?"),
        (["answers.csv", "--folds", "1"], "--folds must be a whole number not below 2"),
        (["answers.csv", "--folds", "61"], "--folds must be at most the 60 rows"),
        (["answers.csv", "--splits", "0"], "--splits must be a whole number not below 1"),
        (["answers.csv", "--numbers", "3-1"], "--numbers must be numbers of factors, such as 1-8"),
        (["answers.csv", "--numbers", "1,x"], "--numbers must be numbers of factors, such as 1-8"),
        (["answers.csv", "--numbers", "1,9"], "--numbers must be at most 8, the columns analysed"),
        (["answers.csv", "--numbers", "1-5", "--max-factors", "3"], "--numbers must be at most 3,"),
        (["answers.csv", "--jobs", "0"], "--jobs must be a whole number other than 0"),
        (["answers.csv", "--columns", "z"], "--columns: there is no column 'z'"),
        (["."], "needs all rows in memory"),
    ],
)
def test_mistakes(cuspfa, data, words, message):
    code, _, err = cuspfa("select-n-factors", *words)
    assert code == 2
    assert message in err
