"""`cuspfa check`."""

import json

import numpy as np
import pytest

from support import answers, with_missing, write_csv


def outlying():
    rows = answers(200, 10, 2)
    rows[[3, 40, 77]] += [4, -4] * 5
    return rows


@pytest.fixture
def data(tmp_path, plain_terminal):
    rows = [[f"p{i}", *row] for i, row in enumerate(outlying().tolist())]
    return write_csv(tmp_path / "answers.csv", ["who", *"abcdefghij"], rows)


def test_rows_that_lie_apart_are_named_as_in_the_file(cuspfa, data):
    code, out, err = cuspfa("check", "answers.csv", "--exclude", "who")
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines())
    said = " ".join(out.split())
    assert "1 finding on the data" in said
    assert "Outlying rows: 3 of 200 rows lie further" in said
    assert named_rows(said, ", counted from 1; the worst first)") == {"4", "41", "78"}
    said = " ".join(cuspfa("check", "answers.csv", "--id", "who")[1].split())
    assert named_rows(said, "; the worst first)") == {"p3", "p40", "p77"}


def named_rows(said, end):
    return set(said.split("would have any (")[1].split(end)[0].split(", "))


def test_more_rows_than_a_sentence_holds_are_named_below(cuspfa):
    rows = answers(300, 8, 2)
    rows[:7] += np.array([4.0, -4.0] * 4)
    write_csv("many.csv", ["who", *"abcdefgh"], [[f"p{i}", *row] for i, row in enumerate(rows)])
    said = " ".join(cuspfa("check", "many.csv", "--id", "who")[1].split())
    assert "and 2 more; the worst first)" in said
    below = said.split("These rows: ")[1].split(", ")
    assert sorted(below) == [f"p{i}" for i in range(7)]


def test_nothing_is_found_in_normal_rows(cuspfa):
    write_csv("normal.csv", "abcdefgh", answers(200, 8, 2).tolist())
    code, out, _ = cuspfa("check", "normal.csv")
    assert code == 0
    assert "2 factors; no findings on the data\nNo skewed items, outlying rows or" in out


def test_a_saved_fit_gives_the_same(cuspfa, data):
    assert cuspfa("fit", "answers.csv", "--id", "who", "-o", "fit.cusp", "--quiet")[0] == 0
    _, of_data, _ = cuspfa("check", "answers.csv", "--id", "who", "--json")
    code, of_fit, err = cuspfa("check", "fit.cusp", "answers.csv", "--json")
    assert code == 0
    assert "Read as the data of the fit: --id who." in err
    found = json.loads(of_fit)
    assert found == json.loads(of_data)
    (finding,) = found["findings"]
    assert finding["kind"] == "outlying rows"
    assert sorted(finding["rows"]) == [4, 41, 78]
    assert finding["columns"] == []
    assert finding["n_factors_without"] == 2
    assert cuspfa("check", "fit.cusp", "answers.csv", "--quiet")[1].endswith(
        "1 finding on the data\n"
    )


def test_incomplete_rows_of_a_saved_fit(cuspfa):
    rows = with_missing(outlying(), 0.05)
    rows[5] = np.nan
    cells = [["" if x != x else x for x in row] for row in rows.tolist()]
    write_csv("missing.csv", "abcdefghij", cells)
    assert cuspfa("fit", "missing.csv", "-o", "fit.cusp", "--quiet")[0] == 0
    code, out, _ = cuspfa("check", "fit.cusp", "missing.csv", "--json")
    assert code == 0
    (finding,) = json.loads(out)["findings"]
    assert sorted(finding["rows"]) == [4, 41, 78]  # the empty row is counted
    code, out, _ = cuspfa("check", "missing.csv", "--json")
    assert json.loads(out)["findings"][0]["rows"] is None  # places in the file are not known


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give a file with data"),
        (["fit.cusp"], "Give its data too: cuspfa check fit.cusp DATA"),
        (["answers.csv", "fit.cusp"], "not a fit saved by cuspfa"),
        (["fit.cusp", "other.csv"], "must be the rows that the model was fitted to"),
        (["fit.cusp", "answers.csv", "--max-factors", "3"], "--max-factors has no effect with a"),
        (["fit.cusp", "answers.csv", "--columns", "a"], "--columns has no effect with a saved"),
        (["answers.csv", "--method", "x"], "--method must be variational or gibbs"),
        (["."], "needs all rows in memory"),
    ],
)
def test_mistakes(cuspfa, data, words, message):
    assert cuspfa("fit", "answers.csv", "--id", "who", "-o", "fit.cusp", "--quiet")[0] == 0
    write_csv("other.csv", "abcdefghij", answers(200, 10, 2).tolist())
    code, _, err = cuspfa("check", *words)
    assert code == 2
    assert message in err
