"""Tables as people have them."""

import csv
import gzip
import io

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cuspfa import read_table
from cuspfa.cli.reading import parse_columns
from cuspfa.data.tables.cells import clean
from cuspfa.data.tables.column_names import unique_names
from cuspfa.data.tables.reader import read_file
from cuspfa.errors import DataError, InputError
from support import column_numbers


@pytest.fixture
def write(tmp_path):
    def to_file(content):
        path = tmp_path / "table.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return to_file


@pytest.fixture
def read(write):
    """All columns of a table of text."""
    return lambda content, **options: read_file(write(content), **options)


@pytest.fixture
def analysed(write):
    """The columns that are analysed."""
    return lambda content, **options: read_table(write(content), **options)


def why(table):
    return {
        one.name: one.dropped.reason + one.dropped.example
        for one in table.columns
        if one.numbers is None
    }


# --- text: how it is written ---


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators(read, separator):
    table = read(f"a{separator}b\n1{separator}2.5\n3{separator}-4e1\n")
    assert table.names == ["a", "b"]
    assert column_numbers(table) == [[1, 3], [2.5, -40]]
    assert table.kind == ("TSV" if separator == "\t" else "CSV")
    assert bool(table.notes) == (separator != ",")


def test_decimal_commas(read):
    table = read("Länge;n\n3,5;1\n-0,25;2\n1,250;3\n")
    assert column_numbers(table) == [[3.5, -0.25, 1.25], [1, 2, 3]]
    assert [str(note) for note in table.notes] == [
        "Cells separated by semicolons and with decimal commas."
    ]


def test_decimal_commas_without_a_header_are_not_separators(read):
    table = read("3,5;2,1\n1,0;2,7\n")
    assert table.names == ["x1", "x2"]
    assert column_numbers(table) == [[3.5, 1.0], [2.1, 2.7]]


def test_decimal_commas_in_quotes(read):
    assert column_numbers(read('a,b\n"3,5",1\n"2,25",2\n')) == [[3.5, 2.25], [1, 2]]


def test_thousands_are_not_guessed(read):
    table = read('a,b\n"1,234",1\n"2,345",2\n')
    assert why(table) == {
        "a": 'numbers with thousands separators (save them without), such as "1,234"'
    }


def test_names_of_every_kind(read):
    head = io.StringIO()
    names = ["Größe, cm", 'say "hi"', " spaces ", "名前", "two\nlines", "\x1b[31mred", "1"]
    csv.writer(head, lineterminator="\n").writerow(names)
    table = read("\ufeff" + head.getvalue() + "1,2,3,4,5,6,7\n8,9,10,11,12,13,14\n")
    expected = ["Größe, cm", 'say "hi"', "spaces", "名前", "two lines", "[31mred", "1"]
    assert table.names == expected
    assert column_numbers(table)[4] == [5, 12]


def test_names_that_occur_twice_or_not_at_all(read):
    table = read("a,a,,a_2\n1,2,3,4\n5,6,7,8\n")
    assert table.names == ["a", "a_2", "column3", "a_2_2"]
    assert len(table.notes) == 3
    assert str(table.notes[-1]) == "Columns without a name in the header are named: column3."
    assert unique_names(["b", "b", "b"])[0] == ["b", "b_2", "b_3"]


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("utf-8", ""), ("utf-8-sig", ""), ("latin-1", "Windows-1252"), ("utf-16", "UTF-16")],
)
def test_encodings(read, encoding, said):
    table = read("Größe,b\n1,2\n3,4\n".encode(encoding))
    assert table.names == ["Größe", "b"]
    assert said in " ".join(map(str, table.notes))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines(read, end):
    table = read(end.join(["", "a,b", "1,2", "", "3,4", "", ""]))
    assert column_numbers(table) == [[1, 3], [2, 4]]


def test_without_a_header_it_says_so(read):
    table = read("1,2,NA\n3,4,5\n")
    assert table.names == ["x1", "x2", "x3"]
    assert table.n_rows == 2
    assert "first row holds numbers only" in str(table.notes[0])


def test_row_names_of_r(read):
    table = read('"a","b"\n"r1",1,2\n"r2",3,4\n')
    assert table.names == ["row names", "a", "b"]
    assert "one cell more than the header" in str(table.notes[0])


def test_a_separator_at_the_end_of_each_row(read):
    assert column_numbers(read("a;b\n1;2;\n3;4;\n")) == [[1, 3], [2, 4]]
    assert read("a;b;\n1;2;\n3;4;\n").names == ["a", "b", "column3"]


def test_excel_may_say_its_separator(read):
    assert column_numbers(read("sep=;\r\na;b\r\n1;2\r\n3;4\r\n")) == [[1, 3], [2, 4]]


def test_text_with_separators_quotes_and_line_breaks(read):
    table = read('a,t,b\n1,"x, ""y""\nz",2\n3,"",4\n')
    assert column_numbers(table) == [[1, 3], None, [2, 4]]
    assert table.columns[1].n_missing == 1


def test_missing_values(read):
    words = ["", "NA", "na", "N/A", "NaN", "nan", "NULL", "null", ".", "-", " NA ", "#N/A"]
    table = read("a,b\n" + "".join(f"{word},1\n" for word in words) + "inf,1\n-Infinity,1\n5,1\n")
    assert table.columns[0].n_missing == len(words)
    assert column_numbers(table)[0][-1] == 5


def test_what_is_no_number_is_named(read):
    rows = [
        ("female", "2021-03-28", "28.03.2021", "12:30", "", "true", "1"),
        ("male", "2021-03-29", "1/2/21", "12:31:05", "NA", "FALSE", "2"),
        ("", "NA", "", "", "", "", "?"),
        ("x", "2021-03-30", "01.01.1999", "0:00", ".", "True", "4"),
    ]
    table = read("sex,iso,date,time,none,truth,almost\n" + "".join(map(_line, rows)))
    reasons = why(table)
    assert reasons["sex"] == 'text, such as "female"'
    assert reasons["iso"] == 'dates or times, such as "2021-03-28"'
    assert reasons["date"] == 'dates or times, such as "28.03.2021"'
    assert reasons["time"].startswith("dates or times")
    assert reasons["none"] == "empty"
    assert reasons["almost"] == (
        'correct, or leave empty, 1 of 4 values that are not numbers, such as "?"'
    )
    assert column_numbers(table)[5][:2] == [1, 0]
    assert np.isnan(column_numbers(table)[5][2])
    assert any("read as 1 and 0: truth" in note for note in map(str, table.notes))


def _line(cells):
    return ",".join(cells) + "\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n\n", "holds no cells"),
        (b"a,b\n", "a header and no rows"),
        (b"a,b\n1,2\n3\n", "row 2 below the header has 1 cell"),
        (b"a,b\n1,2\n3,4,5\n", "row 2 below the header has 3 cell"),
        (b"1,2\n3,4\n5\n", "row 3 has 1 cell"),
        (b'a,b,t\n1,2,x\n3,4,"open\n5,6,x\n', "opens a quote that is not closed"),
        (b"Table 1\na,b,c\n1,2,3\n", "remove lines above it"),
        (b"a,b\n1,\x00\x01\n", "neither a text table nor"),
        (b"PK\x03\x04rest", "zip file is damaged"),
        (b"$FL2rest", "cannot be read, or is damaged"),
        (b"PAR1 and then nothing", "Parquet file is damaged"),
        (b"ARROW1 and then nothing", "Feather file is damaged"),
        (b"\x1f\x8bnothing", "compressed file is damaged"),
    ],
)
def test_what_cannot_be_read_is_a_message(read, content, message):
    with pytest.raises(DataError, match=message) as caught:
        read(content)
    assert "table.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ids_keep_their_zeros(read):
    table = read("id,b\n007,1\n010,2\n,3\n", id_column="id")
    assert table.ids == ["007", "010", ""]
    with pytest.raises(InputError, match="Did you mean 'id'"):
        read("id,b\n007,1\n010,2\n", id_column="ID")


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    names=st.lists(NAMES, min_size=2, max_size=5, unique_by=clean),
    seed=st.integers(0, 1000),
    separator=st.sampled_from(",;\t|"),
    comma=st.booleans(),
)
def test_what_is_written_is_read(tmp_path, names, seed, separator, comma):
    """Any names and any numbers, written by another program's rules, come back as they were."""
    names[0] = f"n{names[0]}"  # else they may all be numbers
    values = np.random.default_rng(seed).normal(size=(5, len(names))).round(3)
    path = tmp_path / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_ALL)
        writer.writerow(names)
        for row in values:
            writer.writerow([str(x).replace(".", ",") if comma else str(x) for x in row])
    table = read_file(str(path))
    assert table.names == unique_names(names)[0]
    np.testing.assert_array_equal(np.transpose(column_numbers(table)), values)


# --- other formats ---


def arrow_table():
    return pa.table(
        {
            "whole": pa.array([1, None, 3], pa.int16()),
            "real": pa.array([1.5, float("nan"), 2.5], pa.float32()),
            "price": pa.array([1, 2, 3]).cast(pa.decimal128(30, 2)),
            "truth": [True, False, None],
            "when": pa.array([0, 1, 2], pa.timestamp("s")),
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
            "text": ["1", "2", "NA"],
            "list": [[1], [2], [3]],
            "none": pa.nulls(3),
            "bytes": [b"1", b"2", b"3"],
        }
    )


@pytest.mark.parametrize("kind", ["Parquet", "Feather"])
def test_parquet_and_feather_by_what_they_hold(tmp_path, kind):
    path = tmp_path / "named.csv"  # the name may lie
    if kind == "Parquet":
        pyarrow.parquet.write_table(arrow_table(), path)
    else:
        pyarrow.feather.write_feather(arrow_table(), path)
    table = read_file(str(path), id_column="text")
    assert table.kind == kind
    assert table.ids == ["1", "2", "NA"]
    values = dict(zip(table.names, column_numbers(table), strict=True))
    nan = float("nan")
    np.testing.assert_equal(values["whole"], [1, nan, 3])
    np.testing.assert_equal(values["real"], [1.5, nan, 2.5])
    np.testing.assert_equal(values["truth"], [1, 0, nan])
    np.testing.assert_equal(values["price"], [1, 2, 3])
    np.testing.assert_equal(values["text"], [1, 2, nan])
    reasons = why(table)
    assert reasons["when"].startswith("dates or times")
    assert reasons["kind"] == 'text, such as "x"'
    assert reasons["none"] == "empty"
    assert "not numbers" in reasons["list"]
    assert "not numbers" in reasons["bytes"]


def test_compressed_text(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    assert column_numbers(read_file(str(path))) == [[1, 3], [2, 4]]


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(arrow_table(), path)
    monkeypatch.setattr("cuspfa._utils.optional.import_or_none", lambda module: None)
    with pytest.raises(InputError, match=r"needs pyarrow: pip install 'cuspfa\[files\]'"):
        read_file(str(path))


# --- columns and rows ---


def made(columns, n=40, seed=0):
    """CSV of normal columns; those given replace or add to them."""
    rng = np.random.default_rng(seed)
    base = {name: rng.normal(size=n).round(3).tolist() for name in "abc"}
    base |= columns
    lines = [",".join(base)]
    lines += [",".join(str(base[name][i]) for name in base) for i in range(n)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("person_id", [1000 + 7 * i for i in range(40)], "names of rows"),
        ("subjectID", list(range(40, 0, -1)), "names of rows"),
        ("Nr.", list(range(1, 41)), "names of rows"),
        ("valid", list(range(40)), ""),
        ("age", list(range(20, 60)), ""),
        ("id", [1, 1, *range(2, 40)], ""),
        ("id", [0.5 * i for i in range(40)], ""),
        ("kind", [3] * 40, "constant, always 3"),
        ("kind", [3] * 39 + [""], "constant, always 3 or missing"),
    ],
)
def test_columns_left_out_with_why(analysed, name, values, reason):
    table = analysed(made({name: values}))
    assert table.names == (["a", "b", "c"] if reason else ["a", "b", "c", name])
    assert [reason in one.reason + one.example for one in table.dropped] == (
        [True] if reason else []
    )


def test_a_first_column_that_counts_is_left_out_unless_asked_for(analysed):
    content = "".join(
        f"{first},{line}\n"
        for first, line in zip(["", *range(1, 41)], made({}).splitlines(), strict=True)
    )
    (left,) = analysed(content).dropped
    assert left.name == "column1"
    assert left.reason.startswith("counts the rows from 1 on")
    assert analysed(content, columns=slice(0, 4)).names == ["column1", "a", "b", "c"]


def test_names_and_numbers_of_columns():
    names = ["id", "a,b", "3", "x y", "last"]
    assert parse_columns("--columns", ["a,b"], names) == [1]
    assert parse_columns("--columns", ['"a,b",last', "x y"], names) == [1, 3, 4]
    assert parse_columns("--columns", ["3"], names) == [2]  # a name goes before a number
    assert parse_columns("--columns", ["4-5, 1"], names) == [0, 3, 4]
    for wrong in ("0", "5-4", "2-9", "9"):
        with pytest.raises(InputError, match="numbered from 1 to 5"):
            parse_columns("--columns", [wrong], names)
    with pytest.raises(InputError, match="Did you mean 'last'"):
        parse_columns("--exclude", ["lasst"], names)
    with pytest.raises(InputError, match=r"The columns are id, a,b, 3, x y, last \(5 in all\)"):
        parse_columns("--exclude", ["qqq"], names)
    with pytest.raises(InputError, match="quotes"):
        parse_columns("--columns", ['"a'], names)


def test_rows_with_missing_values_are_kept(analysed):
    table = analysed(made({"d": [""] * 5 + list(range(35)), "e": ["", 1, 2, 3] * 10}))
    assert table.rows.shape == (40, 5)
    assert np.isnan(table.rows[:5, 3]).all()
    assert table.n_incomplete == 13
    assert table.n_missing == {"d": 5, "e": 10}


def test_a_column_with_hardly_a_value_is_left_out(analysed):
    table = analysed(made({"d": list(range(9)) + [""] * 31, "e": list(range(10)) + [""] * 30}))
    assert table.names == ["a", "b", "c", "e"]
    assert table.dropped[0].reason == "only 9 of 40 rows have a value"


def test_too_little_to_analyse(analysed):
    with pytest.raises(DataError, match=r"has 9 rows"):
        analysed(made({}, n=9))
    with pytest.raises(DataError, match=r"has 1 column of numbers.* b: constant"):
        analysed(made({"b": [1] * 40, "c": ["x"] * 40}))
    with pytest.raises(DataError, match="separated by commas"):
        analysed("a b\n" + "1 2\n" * 12)
