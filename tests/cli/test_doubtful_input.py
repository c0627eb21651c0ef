"""What a table leaves in doubt: the program says what it took, or stops."""

import csv
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from cuspfa import CuspFactorAnalysis, read_table
from cuspfa._utils.fit_warning_text import terminal_text
from cuspfa._utils.spelling import as_option
from cuspfa.data.screening import missing_codes as missing_codes_module
from cuspfa.data.screening.missing_codes import codes_by_column, find_codes
from cuspfa.data.tables.cells import missing_codes
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.tables.reader import read_file
from cuspfa.errors import DataError
from cuspfa.posterior import load
from cuspfa.reporting import summary
from support import answers, column_numbers, write_csv


@pytest.fixture
def read(tmp_path):
    """All columns of a table of text, with messages as the program has them."""

    def from_text(content, **how):
        path = tmp_path / "table.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_file(str(path), how=Reading(**how, spell=as_option))

    return from_text


def doubts(table):
    return [note.message(as_option) for note in table.notes if note.is_doubt]


# --- thousands ---


@pytest.mark.parametrize("sign", [",", "."])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_thousands_are_not_read_as_decimals(read, sign, separator):
    cells = ["871", f"1{sign}082", "93", f"-12{sign}400", "NA"]
    content = f"size{separator}n\n" + "".join(f"{cell}{separator}1\n" for cell in cells)
    said = {",": "comma", ".": "point"}[sign]
    if sign == "," and separator == "\t":  # no decimal comma is clear there: left out as text
        assert "thousands separators" in read(content).columns[0].dropped.reason
    else:
        with pytest.raises(DataError, match=f"--decimal {said}") as caught:
            read(content)
        assert f"column 'size': does \"1{sign}082\" mean 1082" in str(caught.value)
    told = read(content, decimal=sign)
    np.testing.assert_equal(column_numbers(told)[0], [871, 1.082, 93, -12.4, np.nan])


@pytest.mark.parametrize(
    "cells",
    [
        ["1.082", "2.345", "3.456", "9.871"],  # three decimals throughout
        ["1.082", "2", "3.456", "9.87"],  # zeros at the end are dropped
        ["1.082", "2", "0.456", "9"],
        ["1.082", "2345", "3.456", "9"],
        ["871", "1.082", "93", "12"],  # once may be an accident
        ["12.345", "1e3", "8.125", "7"],
    ],
)
def test_decimals_are_not_taken_for_thousands(read, cells):
    table = read("a;b\n" + "".join(f"{cell};1\n" for cell in cells))
    assert column_numbers(table)[0] == [float(cell) for cell in cells]


def test_a_sign_that_is_decimal_anywhere_is_decimal_everywhere(read):
    table = read("a;b\n871;0,5\n1,082;2,25\n12,500;1\n")
    assert column_numbers(table) == [[871, 1.082, 12.5], [0.5, 2.25, 1]]


def test_what_the_cells_hold_is_said(read):
    rows = [('"3,130"', "0.56%", '"1,234,567.5"'), ('"2,871"', "12 %", "12"), ("12", "7%", "3")]
    table = read("a,b,c\n" + "".join(",".join(row) + "\n" for row in rows))
    why = [one.dropped.reason for one in table.columns]
    assert why == [
        "numbers with thousands separators (save them without)",
        "numbers with per cent signs (save them without)",
        "numbers with thousands separators (save them without)",
    ]


# --- the first row ---


DECIMALS = "0.5,2.25,3\n1,0.75,2.5\n2.5,1,1.5\n"


def test_a_header_of_numbers(read):
    table = read("3,2,1\n" + DECIMALS)
    assert table.names == ["3", "2", "1"]
    assert table.n_rows == 3
    assert "--no-header" in doubts(table)[0]
    table = read("3,2,1\n" + DECIMALS, header=False)
    assert table.names == ["x1", "x2", "x3"]
    assert table.n_rows == 4
    assert doubts(table) == []


@pytest.mark.parametrize(
    "first",
    ["3,3,1", "3,2.5,1", "3,NA,1"],
)
def test_a_first_row_that_is_data(read, first):
    table = read(f"{first}\n{DECIMALS}")
    assert table.n_rows == 4
    assert "--header" in doubts(table)[0]
    assert read(f"{first}\n{DECIMALS}", header=True).n_rows == 3


def test_a_header_that_counts_beyond_the_answers(read):
    body = "1,2,5,4,3,1\n5,4,1,2,2,2\n2,1,3,5,4,4\n"
    assert read("1,2,3,4,5,6\n" + body).n_rows == 3
    assert read("6,5,4,3,2,1\n" + body).n_rows == 3
    assert read("1,2,3,5,4,6\n" + body).n_rows == 4  # does not count
    ranks = "2,1,4,3\n4,3,2,1\n1,4,3,2\n3,2,1,4\n"
    assert read("1,2,3,4\n" + ranks).n_rows == 5  # ranks: no more than the columns hold


def test_the_first_row_is_told_with_quiet_too(cuspfa):
    write_csv("bare.csv", None, answers().tolist())
    code, out, err = cuspfa("fit", "bare.csv", "--quiet")
    assert code == 0
    assert len(out.splitlines()) == 1
    assert "If it names the columns: --header" in " ".join(err.split())
    code, _, err = cuspfa("fit", "bare.csv", "--quiet", "--no-header")
    assert code == 0
    assert "first row" not in err
    code, out, _ = cuspfa("fit", "bare.csv", "--json", "--header")
    assert json.loads(out)["n_rows"] == 59


# --- codes for missing values ---


def test_codes_are_found():
    likert = [1, 2, 3, 4, 5] * 10
    ages = list(range(18, 90))
    for values, codes in [
        (likert + [-99] * 2, {-99}),
        (likert + [9] * 3, {9}),
        (likert + [99, 98] * 2, {98, 99}),
        (likert + [-9, -8] * 3, {-9, -8}),
        (likert + [-99, 999] * 3, {-99, 999}),
        (ages + [999] * 2, {999}),
        ([0, 1] * 20 + [9] * 4, {9}),
        ([0.5, 1.25, 7, 3.5] * 10 + [1e6] * 3, {1e6}),
        ([*likert, -99], set()),  # once
        (likert, set()),
        ([3.0] * 10, set()),
        ([1, 2] + [9] * 40, set()),  # most values: then it is no code
    ]:
        assert set(codes_of(np.array(values, dtype=float))) == codes, values
    assert codes_of(np.full(5, np.nan)) == []


def codes_of(column):
    return codes_by_column(column[:, None])[0]


def test_columns_whose_ends_are_near_have_no_codes(monkeypatch):
    """The quick look at the ends decides as trying all sets of values does."""
    rng = np.random.default_rng(0)
    columns = []
    for _ in range(400):
        column = rng.choice([rng.normal(size=60), rng.integers(0, 30, 60), rng.standard_cauchy(60)])
        column = column * 10.0 ** rng.integers(-2, 3) + rng.integers(-20, 20)
        some = rng.integers(0, 60, rng.integers(0, 5))
        column[some] = rng.choice([-99.0, 999.0, 99.0, -9.0, 1e6, -7.0, 888.0, 50.0])
        columns.append(column)
    table = np.column_stack(columns)
    quick = codes_by_column(table)
    assert 20 < sum(map(bool, quick)) < 380
    looked: list[bool] = []
    original = missing_codes_module._ends_are_near
    monkeypatch.setattr(
        missing_codes_module, "_ends_are_near", lambda ends: looked.append(original(ends))
    )
    assert codes_by_column(table) == quick
    assert 100 < sum(looked) < len(looked)


HEAVY = {
    "Poisson": lambda rng, n: rng.poisson(1.0, n),
    "rare counts": lambda rng, n: rng.poisson(0.05, n),
    "overdispersed counts": lambda rng, n: rng.negative_binomial(0.3, 0.1, n),
    "sparse counts": lambda rng, n: rng.negative_binomial(0.02, 0.05, n),
    "geometric": lambda rng, n: rng.geometric(0.4, n),
    "Zipf": lambda rng, n: rng.zipf(2.0, n),
    "Cauchy": lambda rng, n: rng.standard_cauchy(n).round(1),
    "Cauchy, whole": lambda rng, n: rng.standard_cauchy(n).round(),
    "t3": lambda rng, n: rng.standard_t(3, n).round(1),
    "lognormal": lambda rng, n: np.exp(2 * rng.normal(size=n)).round(),
    "income": lambda rng, n: np.exp(10 + rng.normal(size=n)).round(-3),
    "hours up to 99": lambda rng, n: np.minimum(np.exp(3 + rng.normal(size=n)).round(), 99),
    "counts up to 9": lambda rng, n: np.minimum(rng.poisson(3, n), 9),
    "Likert": lambda rng, n: rng.integers(1, 6, n),
    "rare yes": lambda rng, n: rng.random(n) < 0.02,
}


@pytest.mark.parametrize("kind", HEAVY)
def test_heavy_tails_and_counts_have_no_codes(kind):
    rng = np.random.default_rng(3)
    alarms = 0
    for n in (20, 60, 200, 1000):
        for _ in range(60):
            alarms += bool(codes_of(HEAVY[kind](rng, n).astype(float)))
    assert alarms <= 1


def test_codes_are_told_by_value_with_their_columns():
    rows = np.tile(np.arange(1.0, 6.0), (12, 1)).T.repeat(3, axis=0)
    rows[:2, :6] = -99
    rows[4:6, 0] = 888
    first, second = find_codes([f"q{j}" for j in range(12)], rows)
    assert (first.value, first.count, len(first.columns)) == (-99, 12, 6)
    told = terminal_text(first)
    assert told.startswith("-99 occurs 12 times")
    assert "q0, q1, q2, q3 and 2 more. If" in told
    assert told.endswith("--missing -99")
    assert "99" not in terminal_text(replace(first, value=None))
    assert second.value == 888


@pytest.mark.parametrize("code", [99, 999, -99, -9, 888, 9, 1234])
def test_a_code_that_is_once_in_each_of_several_columns(code):
    rows = np.random.default_rng(5).integers(1, 5, (200, 10)).astype(float)
    rows[np.arange(10), np.arange(10)] = code
    (found,) = find_codes([f"q{j}" for j in range(10)], rows)
    assert (found.value, found.count, len(found.columns)) == (code, 10, 10)
    assert not find_codes([f"q{j}" for j in range(9)], rows[9:, :9])


@pytest.mark.parametrize("kind", HEAVY)
def test_columns_with_heavy_tails_share_no_code(kind):
    rng = np.random.default_rng(4)
    alarms = 0
    for n in (60, 1000):
        for _ in range(5):
            rows = np.column_stack([HEAVY[kind](rng, n) for _ in range(20)]).astype(float)
            alarms += bool(find_codes([f"q{j}" for j in range(20)], rows))
    assert alarms <= 1


def test_missing_makes_cells_missing(read):
    content = "a,b,c,d\n" + "".join(
        f"{a},{b},{c},{d}\n"
        for a, b, c, d in [(1, -99, "yes", 2), (999, 2, "refused", 3), (-99.0, 3, "Refused", 4)]
    )
    table = read(content, missing=["-99", "999", "refused"])
    nan = np.nan
    np.testing.assert_equal(column_numbers(table)[:2], [[1, nan, nan], [nan, 2, 3]])
    assert [one.n_missing for one in table.columns] == [2, 1, 2, 0]
    assert [note.message(as_option) for note in table.notes] == ["--missing made 5 cells missing."]
    assert doubts(table) == []
    unused = read(content, missing=["77"])
    assert doubts(unused) == ["--missing made no cells missing."]
    assert unused.columns[2].dropped.code == "text"
    assert missing_codes([" -9", "x", 3]).numbers == (-9.0, 3.0)


def test_missing_in_words_leaves_numbers_and_truth(read):
    content = "a,b\n1,true\nrefused,false\n3,refused\n"
    table = read(content, missing=["refused"])
    np.testing.assert_equal(column_numbers(table), [[1, np.nan, 3], [1, 0, np.nan]])
    assert "correct, or leave empty, 1 of 3 values" in read(content).columns[0].dropped.reason


def test_missing_in_parquet(tmp_path):
    path = tmp_path / "table.parquet"
    pa.parquet.write_table(pa.table({"a": [1, -99, 3], "b": ["1", "x", "-99"]}), path)
    table = read_file(str(path), how=Reading(missing=["-99", "x"]))
    nan = np.nan
    np.testing.assert_equal(column_numbers(table), [[1, nan, 3], [1, nan, nan]])


def test_doubts_about_the_data_stand_above_the_result(cuspfa):
    rows = answers(200)
    rows[:, 7] = rows[:, 0] + rows[:, 1]
    path = write_csv("sums.csv", list("abcdefgh"), rows.tolist())
    said = " ".join(cuspfa("fit", path)[1].split())
    told = said.index("Warning: ")
    assert "'a', column 'b', column 'h' are linearly dependent" in said[told : told + 100]
    assert told < said.index("explain more than")
    assert said.count("Warning: ") == 1


def test_codes_are_warned_of_and_missing_takes_them(cuspfa):
    rows = np.clip(answers(200).round() + 3, 1, 5)
    rows[:4, 2] = rows[3:8, 5] = -99
    path = write_csv("coded.csv", list("abcdefgh"), rows.tolist())
    told = "Warning: -99 occurs 9 times, far from all other values, in c, f."
    for words, where in [([], 1), (["--quiet"], 2)]:
        said = " ".join(cuspfa("fit", path, *words)[where].split())
        assert said.count(told) == 1
        # Above the result that they make worthless, if it is printed there.
        assert said.index(told) < said.find("explain more than") or where == 2
    for command in ("check", "prior-sensitivity"):
        said = " ".join(cuspfa(command, path)[1].split())
        assert said.count(told) == 1
        assert said.index(told) < said.index("factor")
    assert cuspfa("fit", path, "-o", "coded.cusp", "--quiet")[0] == 0
    assert told in " ".join(cuspfa("check", "coded.cusp", path)[1].split())
    code, out, err = cuspfa("fit", path, "--json")
    assert code == 0
    assert "-99" in err
    assert "-99" not in out
    assert "occurs 9 times" in json.loads(out)["warnings"][0]["message"]
    for words in (["--missing", "-99,999"], ["--missing=-99"]):
        code, out, err = cuspfa("fit", path, *words, "-o", "fit.cusp")
        assert code == 0
        assert "9 missing values in 8 of 200 rows" in " ".join(out.split())
        assert "occurs" not in out
    assert "5 rows" not in cuspfa("scores", "fit.cusp", path)[2]
    assert (
        "8 of 200 rows have missing values"
        in cuspfa("scores", "fit.cusp", path, "--missing", "-99")[2]
    )
    code, out, err = cuspfa("impute", "fit.cusp", path, "--missing", "-99")
    assert code == 0
    assert "-99" not in out
    assert "9 missing values in 8 rows filled" in err


# --- nothing of a cell in what is written ---


def test_no_cell_is_in_json_or_in_a_saved_fit(cuspfa):
    rows = [
        [f"Person{i} Surname", f"19{i % 60 + 30}-01-02", 7351, *row, "x" if i else "4711"]
        for i, row in enumerate(answers().tolist())
    ]
    path = write_csv("people.csv", ["name", "born", "ward", *"abcdefgh", "rest"], rows)
    code, out, err = cuspfa("fit", path, "--json", "-o", "fit.cusp")
    assert code == 0
    saved = Path("fit.cusp").read_bytes().decode("latin-1")
    for cell in ("Person0", "Surname", "1930-01-02"):
        assert cell not in out
        assert cell not in saved
    # Digits may stand inside of another number, of an interval or of the seconds it took.
    for number in ("7351", "4711"):
        assert not re.search(rf"(?<![\d.]){number}(?![\d.])", out)
    for cell in ("Person0 Surname", "1930-01-02", "7351"):  # a person at the terminal may see it
        assert cell in err
    left = json.loads(out)["left_out"]["columns"]
    assert left[:3] == [
        {"name": "name", "reason": "text"},
        {"name": "born", "reason": "dates or times"},
        {"name": "ward", "reason": "constant"},
    ]


# --- encodings ---


def test_windows_quotes_and_euro(read):
    assert read("“a”,€\n1,2\n".encode("cp1252")).names == ["“a”", "€"]
    table = read(b"a\x81,b\xe9\n1,2\n")  # 81 is nothing in Windows-1252
    assert "Latin-1" in str(table.notes[0])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark(read, encoding):
    with pytest.raises(DataError, match="UTF-16 without a byte-order mark. Save it as UTF-8"):
        read("age,b\n1,2\n3,4\n".encode(encoding))


# --- columns ---


def test_a_large_number_with_little_noise_is_not_called_constant(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.column_stack([1e14 + rng.normal(size=20).round(), rng.normal(size=(20, 3))])
    lines = ["big,a,b,c", *(",".join(map(repr, row)) for row in rows.tolist())]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (tmp_path / "big.csv").write_text("\n".join(lines), encoding="utf-8")
        (left,) = read_table(tmp_path / "big.csv").dropped
    assert left.reason == "varies too little for its size: subtract a constant first"


# --- what is shown ---


def test_factors_without_loadings_are_not_counted_as_found(cuspfa):
    path = write_csv("answers.csv", list("abcdefgh"), answers().tolist())
    code, out, _ = cuspfa("fit", path, "--factors", "7", "--quiet")
    assert code == 0
    assert re.fullmatch(r"7 factors asked for, \d with loadings.*\n", out)


def test_cycles_are_those_of_the_whole_search(cuspfa):
    path = write_csv("answers.csv", list("abcdefgh"), answers().tolist())
    model = CuspFactorAnalysis(random_state=0).fit(answers())
    total = sum(one.n_iter for one in model.search_)
    assert total > model.n_iter_
    out = cuspfa("fit", path)[1]
    assert f"Converged after {total} iterations, {model.n_iter_} of them in the last run" in out


def test_names_that_differ_at_the_end_are_told_apart(cuspfa):
    names = [f"A rather long question about how people feel at work, number {j}" for j in range(8)]
    out = cuspfa("fit", write_csv("long.csv", names, answers().tolist()))[1]
    block = out[out.index("Loadings") :].splitlines()[2:10]
    assert len({line.split("…")[1].split("  ")[0] for line in block}) == 8


def test_a_number_of_less_weight_is_told_with_quiet_too(cuspfa, monkeypatch):
    monkeypatch.setattr(summary, "why_not_more", lambda posterior: "Because of this.")
    path = write_csv("answers.csv", list("abcdefgh"), answers().tolist())
    assert cuspfa("fit", path)[1].count("Because of this.") == 1
    _, out, err = cuspfa("fit", path, "--quiet")
    assert len(out.splitlines()) == 1
    assert err == "Because of this.\n"


# --- what a saved fit holds ---


@pytest.mark.parametrize("wide", [False, True])
def test_info_says_what_of_the_data_is_inside(cuspfa, wide):
    rows = answers(12, 20) if wide else answers()
    path = write_csv("data.csv", [f"q{j}" for j in range(rows.shape[1])], rows.tolist())
    said = "the rows of the data up to a rotation" if wide else "cross-products of the data"
    assert cuspfa("fit", path, "-o", "fit.cusp")[0] == 0
    assert said in " ".join(cuspfa("info", "fit.cusp")[1].split())
    assert cuspfa("fit", path, "-o", "less.cusp", "--no-statistics")[0] == 0
    code, out, _ = cuspfa("info", "less.cusp")
    assert code == 0
    assert said not in " ".join(out.split())
    assert load("less.cusp").statistics is None
    # The rows up to a rotation do tell the distances of the rows from each other.
    if wide:
        held, centred = load("fit.cusp").statistics.rows, rows - rows.mean(axis=0)
        standard = centred / np.sqrt(np.mean(centred**2, axis=0))
        gram = held.T @ held
        np.testing.assert_allclose(gram / gram[0, 0] * 12, standard.T @ standard, atol=1e-6)


def test_no_statistics_needs_a_file(cuspfa):
    path = write_csv("data.csv", list("abcdefgh"), answers().tolist())
    code, _, err = cuspfa("fit", path, "--no-statistics")
    assert code == 2
    assert "Give -o FILE too" in err


# --- mistakes ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fit a.csv b.csv", "'b.csv' is one word too many."),
        ("fit a.csv -o", "-o needs a value. See cuspfa fit --help."),
        ("fit --colums x", "there is no option --colums. Did you mean --columns?"),
        ("fit a.csv --colums=x", "there is no option --colums. Did you mean --columns?"),
        ("fit a.csv -x", "there is no option -x."),
        ("fit a.csv --missing -9 b", "'b' is one word too many."),
        ("scores", "FIT is missing. See cuspfa scores --help."),
        ("plot a search", "-o is missing."),
        ("scors a", "there is no command 'scors'. Did you mean scores?"),
        ("zzz", "there is no command 'zzz'. There are fit, select-n-factors,"),
        ("fit a.csv --seed 1 --seed 2", "--seed is given twice."),
    ],
)
def test_mistakes_in_our_words(cuspfa, words, message):
    code, out, err = cuspfa(*words.split())
    assert code == 2
    assert out == ""
    assert err.startswith(f"cuspfa: {message}")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("words", [["--columns", "nobody"], ["--exclude", "z"], ["--factors", "9"]])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_is_wrong_is_told_before_the_cells_are_read(cuspfa, monkeypatch, words, kind):
    write_csv("data.csv", list("abcdefgh"), answers().tolist())
    table = pa.table(dict(zip("abcdefgh", answers().T, strict=True)))
    pa.parquet.write_table(table, "data.parquet")

    def fail(*_):
        raise AssertionError

    monkeypatch.setattr("cuspfa.data.tables.reader.whole_text", fail)
    monkeypatch.setattr("cuspfa.data.tables.reader.column_of_arrow", fail)
    code, _, err = cuspfa("fit", f"data.{kind}", *words)
    assert code == 2
    assert words[0] in err


def test_sentences_fit_a_narrow_terminal(cuspfa, monkeypatch):
    path = write_csv("data.csv", list("abcdefgh"), answers().tolist())
    assert cuspfa("fit", path, "-o", "fit.cusp", "--quiet")[0] == 0
    monkeypatch.setenv("COLUMNS", "40")
    lines = cuspfa("info", "fit.cusp")[1].splitlines()
    inside = next(place for place, line in enumerate(lines) if line.startswith("Contains:"))
    sentences = lines[inside : lines.index("", inside)]
    assert len(sentences) > 1
    assert max(map(len, sentences)) <= 40


# --- a table for a paper ---


def test_a_table_of_loadings(cuspfa):
    path = write_csv("data.csv", list("abcdefgh"), answers().tolist())
    code, out, _ = cuspfa("fit", path, "--loadings", "table.csv", "--factors", "2")
    assert code == 0
    assert "Written to table.csv" in out
    head, *lines = csv.reader(Path("table.csv").read_text(encoding="utf-8").splitlines())
    assert head[:4] == ["variable", "factor1", "factor1_lower", "factor1_upper"]
    assert head[-3:] == ["communality", "communality_lower", "communality_upper"]
    assert [line[0] for line in lines] == list("abcdefgh")
    values = np.array([line[1:] for line in lines], dtype=float)
    model = CuspFactorAnalysis(n_factors=2, random_state=0).fit(answers())
    np.testing.assert_allclose(values[:, [0, 3]], model.loadings_, atol=1e-6)
    draws = model.posterior_.draw(1000, random_state=0)
    lower, upper = model.posterior_.interval("communality", draws=draws)
    np.testing.assert_allclose(values[:, 7:], np.column_stack([lower, upper]), atol=1e-6)
    table = model.posterior_.align(draws=draws).table()
    np.testing.assert_allclose(values[:, [1, 4]], table.lower, atol=1e-6)
    np.testing.assert_allclose(values[:, [2, 5]], table.upper, atol=1e-6)
    assert np.all((values[:, 1] < values[:, 0]) & (values[:, 0] < values[:, 2]))
    for words, message in [
        (["--loadings", "table.xlsx"], "ends in .csv or .tsv"),
        (["--loadings", "data.csv"], "would be lost"),
        (["--loadings", "x.csv", "-o", "x.csv"], "must be two files"),
        (["--loadings", "no/x.csv"], "there is no directory"),
    ]:
        code, _, err = cuspfa("fit", path, *words)
        assert code == 2
        assert message in err


@pytest.mark.parametrize("values", [(4, 6, 8), (3, 6, 9), (7, 8, 9), (5, 7, 9)])
def test_the_next_step_of_a_scale_is_no_code(values):
    """Cylinders of cars are 4, 6 and 8: 8 is as far from 6 as 6 is from 4."""
    rng = np.random.default_rng(1)
    column = rng.choice(np.array(values, float), 200)
    rows = np.column_stack([column, rng.normal(size=200)])
    assert not find_codes(["cyl", "x"], rows)
    column[column == values[-1]] = 88
    rows[:, 0] = column
    assert [one.value for one in find_codes(["cyl", "x"], rows)] == [88]


def test_a_negative_number_below_points_is_a_code_where_it_is_rare():
    """Three of 200 answers; three nines among them may be the end of a scale."""
    points = np.tile([1.0, 2.0, 3.0, 4.0, 5.0], 40)[:, None]
    rows = np.hstack([points, points[::-1]])
    rows[[3, 50, 120], 1] = -9.0
    (found,) = find_codes(["a", "b"], rows)
    assert (found.value, found.columns, found.count) == (-9.0, ("b",), 3)
    rows[[3, 50, 120], 1] = 9.0
    assert not find_codes(["a", "b"], rows)
    rows[:, 1] -= 9.0  # nor is one among other negative numbers
    rows[[3, 50, 120], 1] = -9.0
    assert not find_codes(["a", "b"], rows)
