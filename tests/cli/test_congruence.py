"""`cuspfa congruence`."""

import json

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from cuspfa import CuspFactorAnalysis, datasets, factor_congruence, load
from support import answers, write_csv

COLUMNS = list("abcdefgh")
SIZES = {"1": 80, "2": 70, "3": 50}


def rows_of(group):
    """Groups 1 and 2 have the same loadings, group 3 has others."""
    drawn = datasets.simulate(200, 8, 2, random_state=1).X.round(3)
    if group == "3":
        return datasets.simulate(50, 8, 2, random_state=9).X.round(3)
    return drawn[:80] if group == "1" else drawn[80:150]


@pytest.fixture
def data(tmp_path, plain_terminal):
    rows = [[f"{group}.0", *row] for group in SIZES for row in rows_of(group).tolist()]
    rows += [["", *row] for row in answers()[:4].tolist()]
    rows += [["4", *row] for row in answers()[4:9].tolist()]
    return write_csv(tmp_path / "answers.csv", ["group", *COLUMNS], rows)


def expected(one, other, **settings):
    fits = [
        CuspFactorAnalysis(n_factors=2, random_state=0).fit(rows_of(name)) for name in (one, other)
    ]
    return factor_congruence(*fits, **settings)


def test_each_pair_of_groups(cuspfa, data):
    code, out, err = cuspfa("congruence", "answers.csv", "--by", "group", "--factors", 2)
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "Left out 4 rows without a value of group." in out
    assert "Left out groups of fewer than 10 rows: 4 (5)." in out
    assert "looks like" not in out
    for one, other in (("1", "2"), ("1", "3"), ("2", "3")):
        head = f"group = {one} ({SIZES[one]} rows, 2 factors) and group = {other}"
        assert f"{head} ({SIZES[other]} rows, 2 factors):\n{expected(one, other)}\n" in out
    assert "--no-procrustes compares" in out
    assert expected("1", "2").congruence.min() > 0.9 > expected("1", "3").congruence.min()


def test_json_has_the_figures_of_the_library(cuspfa, data):
    words = ("--by", "group", "--factors", 2, "--json", "--no-procrustes")
    code, out, err = cuspfa("congruence", "answers.csv", *words)
    assert code == 0
    assert "Left out 4 rows" in err
    found = json.loads(out)
    assert found["by"] == {"column": "group", "groups": {**SIZES, "4": 5}, "n_missing": 4}
    assert [(one["first"], one["second"]) for one in found["comparisons"]] == [
        ("1", "2"),
        ("1", "3"),
        ("2", "3"),
    ]
    assert found["fits"][0] == {"name": "1", "n_rows": 80, "n_factors": 2}
    assert found["procrustes"] is False
    library = expected("1", "2", procrustes=False)
    pairs = found["comparisons"][0]["pairs"]
    np.testing.assert_allclose([one["congruence"] for one in pairs], library.congruence)
    np.testing.assert_allclose([one["interval"][0] for one in pairs], library.lower)
    assert [[one["first"], one["second"]] for one in pairs] == (library.pairs + 1).tolist()


def test_two_saved_fits(cuspfa, data):
    for group in ("1", "2"):
        write_csv(f"{group}.csv", COLUMNS, rows_of(group).tolist())
        words = ("--factors", 2, "-o", f"{group}.cusp", "--quiet")
        assert cuspfa("fit", f"{group}.csv", *words)[0] == 0
    code, out, err = cuspfa("congruence", "1.cusp", "2.cusp")
    assert (code, err) == (0, "")
    assert "1.cusp (80 rows, 2 factors) and 2.cusp (70 rows, 2 factors):" in out
    assert str(factor_congruence(load("1.cusp"), load("2.cusp"))) in out
    found = json.loads(cuspfa("congruence", "1.cusp", "2.cusp", "--json", "--seed", 1)[1])
    assert found["comparisons"][0]["first"] == "1.cusp"
    assert "by" not in found


def test_one_line_for_each_pair(cuspfa, data):
    words = ("--by", "group", "--factors", 2, "--quiet")
    code, out, err = cuspfa("congruence", "answers.csv", *words)
    assert code == 0
    assert "Left out 4 rows" in err
    values = expected("1", "2").congruence
    equal, alike = int(np.sum(values >= 0.95)), int(np.sum((values >= 0.85) & (values < 0.95)))
    said = [f"{number} {word}" for number, word in ((equal, "equal"), (alike, "alike")) if number]
    first, *others = out.splitlines()
    assert first == f"group = 1 and group = 2: 2 factors, {', '.join(said)}"
    assert len(others) == 2


def test_a_factor_that_the_other_fit_does_not_have(cuspfa, data):
    for k in (1, 2):
        write_csv("1.csv", COLUMNS, rows_of("1").tolist())
        assert cuspfa("fit", "1.csv", "--factors", k, "-o", f"{k}.cusp", "--quiet")[0] == 0
    code, out, _ = cuspfa("congruence", "2.cusp", "1.cusp", "--quiet")
    assert code == 0
    assert "1 not in the second" in out
    pairs = json.loads(cuspfa("congruence", "2.cusp", "1.cusp", "--json")[1])["comparisons"][0]
    assert [one["congruence"] is None for one in pairs["pairs"]].count(True) == 1


def test_words_and_codes_as_groups(cuspfa):
    rows = [[word, *row] for word in ("b", "a") for row in rows_of("1")[:40].tolist()]
    rows += [["unknown", *row] for row in rows_of("2")[:20].tolist()]
    write_csv("words.csv", ["sex", *COLUMNS], rows)
    words = ("--by", "sex", "--factors", 1, "--missing", "unknown", "--json")
    found = json.loads(cuspfa("congruence", "words.csv", *words)[1])
    assert found["by"] == {"column": "sex", "groups": {"a": 40, "b": 40}, "n_missing": 20}
    assert found["comparisons"][0]["pairs"][0]["congruence"] == pytest.approx(1.0)


def test_a_column_that_is_constant_in_a_group(cuspfa):
    rows = [[1 + i // 40, *row, float(i >= 40) * i] for i, row in enumerate(rows_of("1").tolist())]
    write_csv("constant.csv", ["group", *COLUMNS, "z"], rows)
    code, _, err = cuspfa("congruence", "constant.csv", "--by", "group")
    assert code == 2
    assert "--by group: group '1': " in err
    assert "z" in err
    assert cuspfa("congruence", "constant.csv", "--by", "group", "--exclude", "z")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give two saved fits, or a table and the column with its groups: --by COLUMN"),
        (["answers.csv"], "give two saved fits, or a table"),
        (["answers.csv", "answers.csv"], "not a fit saved by cuspfa"),
        (["1.cusp", "1.cusp", "--by", "group"], "--by is for the groups of one table"),
        (["1.cusp", "1.cusp", "--factors", "2"], "--factors has no effect with two saved fits"),
        (["1.cusp", "other.cusp"], "The second has no 'a'"),
        (["1.cusp", "none.cusp"], "the fit of none.cusp has no factors to compare"),
        (["1.cusp", "--by", "group"], "is a saved fit, not data"),
        (["answers.csv", "--by", "grup"], "--by: there is no column 'grup'. Did you mean 'group'?"),
        (["answers.csv", "--by", "a"], "--by must be a column with at most 12 groups"),
        (["answers.csv", "--by", "group", "--id", "group"], "--id and --by must be two columns"),
        (["answers.csv", "--by", "group", "--factors", "9"], "--factors must be at most the 8"),
        (["answers.csv", "--by", "group", "--factors", "2", "--max-factors", "3"], "one of them"),
        (["answers.csv", "--by", "group", "--missing", "1,2"], "must have at least two groups"),
        (["--example", "bfi", "--by", "gender"], "--by: --example has no column with groups"),
        ([".", "--by", "group"], "needs all rows in memory"),
    ],
)
def test_mistakes(cuspfa, data, words, message):
    model = CuspFactorAnalysis(n_factors=2)
    model._fit(rows_of("1"), COLUMNS).posterior_.save("1.cusp")
    model._fit(rows_of("1"), list("bcdefghi")).posterior_.save("other.cusp")
    CuspFactorAnalysis(n_factors=0)._fit(rows_of("1"), COLUMNS).posterior_.save("none.cusp")
    code, out, err = cuspfa("congruence", *words)
    assert code == 2
    assert message in err
    assert "Tucker" not in out


def test_groups_with_labels_are_in_the_order_of_their_values(cuspfa, tmp_path, plain_terminal):
    """So that first and second are the same as in a file without labels."""
    frame = pd.DataFrame(np.vstack([rows_of("1"), rows_of("2")]), columns=COLUMNS)
    frame["sex"] = np.repeat([1.0, 2.0], [80, 70])
    pyreadstat.write_sav(frame, "t.sav", variable_value_labels={"sex": {1.0: "woman", 2.0: "man"}})
    out = cuspfa("congruence", "t.sav", "--by", "sex", "--factors", 2)[1]
    assert "sex = woman (80 rows, 2 factors) and sex = man (70 rows, 2 factors):" in out
    assert str(expected("1", "2")) in out


def test_factors_of_the_second_fit_without_a_counterpart_are_counted(cuspfa, data):
    for name, number in (("one", 1), ("two", 2), ("three", 3)):
        words = ("--factors", number, "--exclude", "group", "-o", f"{name}.cusp", "--quiet")
        assert cuspfa("fit", "answers.csv", *words)[0] == 0
    told = "no counterpart in the first."
    assert (
        f"1 further factor of the second has {told}"
        in cuspfa("congruence", "two.cusp", "three.cusp")[1]
    )
    assert (
        f"2 further factors of the second have {told}"
        in cuspfa("congruence", "one.cusp", "three.cusp")[1]
    )
    assert told not in cuspfa("congruence", "three.cusp", "two.cusp")[1]
