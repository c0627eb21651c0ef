"""One reader: the same file gives the same columns, missing values and fit, whoever reads it."""

import gzip
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

import cuspfa
from cuspfa import CuspFactorAnalysis, Moments, RowStream, datasets, read_table
from cuspfa._utils.fit_warning import ColumnsDropped
from cuspfa.cli.app import run_program
from cuspfa.data.tables.notes import DropCode, DroppedColumn, Note, NoteCode
from cuspfa.errors import CuspWarning, DataError, InputError
from cuspfa.posterior import load

NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture
def rows() -> Any:
    return datasets.simulate(120, 5, 1, random_state=0).X.round(2)


def comma(rows: Any, names: list[str] | None = None, separator: str = ";") -> str:
    """Decimal commas, as spreadsheets write them in much of Europe."""
    lines = [separator.join(str(value).replace(".", ",") for value in row) for row in rows]
    return "\n".join([*([separator.join(names)] if names else []), *lines]) + "\n"


class Readers:
    """What each way of reading a file makes of it: names, and what is missing."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self.capsys = path, capsys

    def every(self, **how: Any) -> dict[str, tuple[list[str], Any]]:
        """Names and rows, or covariance where rows are not kept, by reader."""
        found: dict[str, tuple[list[str], Any]] = {}
        memory = read_table(self.path, **how)
        found["read_table"] = memory.names, np.ma.cov(np.ma.masked_invalid(memory.rows.T)).data
        self.rows = memory.rows
        blocks = read_table(self.path, memory_limit="100MB", **how)
        data = blocks.data
        own = data.covariance if isinstance(data, Moments) else None
        found["by blocks"] = blocks.names, own
        assert [(one.name, one.code) for one in blocks.dropped] == [
            (one.name, one.code) for one in memory.dropped
        ]
        assert blocks.n_missing == memory.n_missing
        assert (blocks.n_rows, blocks.n_empty) == (memory.n_rows, memory.n_empty)
        folder = self.path.parent / "folder"
        folder.mkdir(exist_ok=True)
        (folder / self.path.name).write_bytes(self.path.read_bytes())
        found["folder"] = read_table(folder, **how).names, None
        with warnings.catch_warnings(action="ignore", category=CuspWarning):
            model = CuspFactorAnalysis(n_factors=1).fit(
                RowStream(self.path, **how) if how else self.path
            )
            known = CuspFactorAnalysis(n_factors=1).fit(memory)
        np.testing.assert_allclose(model.get_covariance(), known.get_covariance(), rtol=1e-6)
        assert model.posterior_.n_rows == memory.n_rows
        found["fit(path)"] = list(model.feature_names_in_), None
        for limit in ([], ["--memory-limit", "100MB"]):
            if not how:
                assert run_program(["fit", str(self.path), "--factors", "1", "--json", *limit]) == 0
                told = json.loads(self.capsys.readouterr().out)
                found[f"program {limit}"] = told["columns"], None
        return found


@pytest.fixture
def readers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def write(text: str | bytes, name: str = "t.csv") -> Readers:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return Readers(path, capsys)

    return write


def check(found: dict[str, tuple[list[str], Any]], names: list[str], rows: Any) -> None:
    assert {reader: one[0] for reader, one in found.items()} == dict.fromkeys(found, names)
    if not np.isnan(rows).any():
        for _, covariance in found.values():
            if covariance is not None:
                np.testing.assert_allclose(covariance, np.cov(rows.T), rtol=1e-8)


# --- how a table is written ---


@pytest.mark.parametrize("names", [None, NAMES])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_decimal_commas(rows: Any, names: list[str] | None, name: str, readers: Any) -> None:
    text = comma(rows, names).encode()
    at = readers(gzip.compress(text) if name.endswith("gz") else text, name)
    check(at.every(), names or ["x1", "x2", "x3", "x4", "x5"], rows)
    np.testing.assert_array_equal(at.rows, rows)


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "utf-8-sig"])
def test_encodings(rows: Any, encoding: str, readers: Any) -> None:
    text = "sep=;\n" + comma(rows, ["ä", *NAMES[1:]])
    at = readers(text.encode(encoding))
    check(at.every(), ["ä", *NAMES[1:]], rows)


@pytest.mark.parametrize("first", [",,,,", "NA,NA,NA,NA,NA", "NA,,.,-,nan"])
def test_an_empty_first_row_is_no_header(rows: Any, first: str, readers: Any) -> None:
    lines = [",".join(map(repr, row)) for row in rows.tolist()]
    bare = readers("\n".join([first, *lines]))
    check(bare.every(), ["x1", "x2", "x3", "x4", "x5"], rows)
    table = read_table(bare.path)
    assert (table.n_rows, table.n_empty) == (120, 1)  # it is a row without values
    named = readers("\n".join([first, ",".join(NAMES), *lines]))
    check(named.every(), NAMES, rows)
    assert read_table(named.path).n_empty == 0  # above the header


def test_quotes_spaces_and_spare_separators(rows: Any, readers: Any) -> None:
    lines = ['"a";" b ";"c";"d";"e"']
    lines += [";".join(f' "{value}" '.strip() for value in row) + ";" for row in rows.tolist()]
    check(readers("\n".join(lines)).every(), NAMES, rows)


# --- what is analysed ---


def test_screening(rows: Any, readers: Any) -> None:
    frame = pd.DataFrame(rows, columns=NAMES)
    frame.insert(0, "person", np.arange(1, 121))
    frame.insert(3, "case_id", np.arange(500, 620)[::-1])
    frame["sex"], frame["ward"], frame["none"] = ["f", "m"] * 60, 7, np.nan
    frame["born"], frame["flag"] = "2001-02-03", [True, False, True, True] * 30
    names = [*NAMES, "flag"]
    for kind in ("csv", "parquet", "feather"):
        path = f"t.{kind}"
        at = readers(b"", path)
        write = frame.to_csv if kind == "csv" else getattr(frame, f"to_{kind}")
        write(at.path, **({"index": False} if kind == "csv" else {}))
        check(at.every(), names, np.full((1, 1), np.nan))
        found = {one.name: one.code for one in read_table(at.path).dropped}
        assert found == {
            "person": "counter",
            "case_id": "id",
            "sex": "text",
            "ward": "constant",
            "none": "empty",
            "born": "dates",
        }
        with pytest.warns(CuspWarning, match=r"Dropped 6 columns \('person': counts the"):
            CuspFactorAnalysis(n_factors=1).fit(at.path)
        at.path.unlink()
        (at.path.parent / "folder" / path).unlink()


def test_the_columns_asked_for(rows: Any, readers: Any) -> None:
    frame = pd.DataFrame(rows, columns=NAMES)
    frame.insert(0, "id", np.arange(1, 121))
    path = readers(frame.to_csv(index=False)).path
    for limit in (None, "100MB"):
        assert read_table(path, memory_limit=limit).names == NAMES
        asked = read_table(path, columns=["id", "a", "b"], memory_limit=limit)
        assert asked.names == ["id", "a", "b"]
        less = read_table(path, exclude=["c"], id_column="a", memory_limit=limit)
        assert (less.names, less.excluded) == (["b", "d", "e"], ["c"])
        assert [(one.name, one.code) for one in less.dropped] == [
            ("id", "counter"),
            ("a", "id_column"),
        ]
        with pytest.raises(InputError, match="columns: there is no column 'B'. Did you mean 'b'"):
            read_table(path, columns=["B"], memory_limit=limit)
    frame["sex"] = "f"
    path = readers(frame.to_csv(index=False)).path
    with pytest.raises(DataError, match=r"column 'sex' must be numbers. Got text, such as \"f\""):
        RowStream(path, columns=["a", "sex"])


def test_missing_values_and_their_codes(rows: Any, readers: Any) -> None:
    cells = rows.astype(object)
    cells[5, 1], cells[6, 2], cells[7, 3], cells[8, 4] = " NA ", -99, "refused", "+0.5"
    lines = [",".join(NAMES), *(",".join(map(str, row)) for row in cells.tolist())]
    at = readers("\n".join(lines))
    found = at.every(missing=(-99, "refused"))
    check(found, NAMES, at.rows)
    assert np.argwhere(np.isnan(at.rows)).tolist() == [[5, 1], [6, 2], [7, 3]]
    assert at.rows[8, 4] == 0.5


# --- what is wrong, by blocks too ---


LONG = 400_000


@pytest.fixture(scope="module")
def long() -> list[str]:
    numbers = np.random.default_rng(0).normal(size=(LONG, 3)).round(3)
    return ["a,b,c", *(f"{x},{y},{z}" for x, y, z in numbers.tolist())]


def test_a_ragged_row_far_down(long: list[str], readers: Any) -> None:
    lines = [*long[:-1], "1,2"]
    path = readers("\n".join(lines)).path
    for limit in (None, "500MB"):
        with pytest.raises(DataError, match=rf"t.csv: row {LONG} below the header has 2 cell"):
            read_table(path, memory_limit=limit)
    with pytest.raises(DataError, match=rf"t.csv: row {LONG} below the header has 2 cell"):
        CuspFactorAnalysis().fit(path)


def test_a_word_far_down(long: list[str], readers: Any) -> None:
    at = readers("\n".join([*long[:-1], "1,oops,2"]))
    with pytest.raises(
        DataError, match=rf'column .b. must .*"oops" in row {LONG} below the header'
    ):
        CuspFactorAnalysis().fit(RowStream(at.path, columns=["a", "b", "c"]))
    for limit in (None, "500MB"):
        table = read_table(at.path, memory_limit=limit)
        assert (table.names, table.n_rows) == (["a", "c"], LONG)
        (gone,) = table.dropped
        assert gone.name == "b"
        assert '"oops"' in gone.example
    assert f"row {LONG} below" in gone.example


def test_a_number_only_our_rules_know_far_down(long: list[str], readers: Any) -> None:
    path = readers("\n".join([*long[:-2], "1, NA ,2", "1,4,2"])).path
    memory, blocks = read_table(path), read_table(path, memory_limit="500MB")
    assert memory.n_missing == blocks.n_missing == {"b": 1}
    np.testing.assert_array_equal(memory.rows, blocks.rows)


# --- warnings of a fit ---


def test_a_fit_keeps_dropped_columns_as_values(rows: Any, readers: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame(rows, columns=NAMES)
    frame.insert(0, "ward", "B-secret")
    path = readers(frame.to_csv(index=False, header=True)).path
    with pytest.warns(CuspWarning, match=r"Dropped 1 column \('ward': text\)"):
        model = CuspFactorAnalysis(n_factors=1).fit(path)
    model.posterior_.save(tmp_path / "fit")
    for posterior in (model.posterior_, load(tmp_path / "fit")):
        (warning,) = posterior.provenance.warnings
        assert isinstance(warning, ColumnsDropped)
        (gone,) = warning.columns
        assert (gone.name, gone.code, gone.example) == ("ward", "text", "")
    assert b"secret" not in (tmp_path / "fit").read_bytes()


# --- words ---


def test_the_library_names_no_option(rows: Any, readers: Any) -> None:
    frame = pd.DataFrame(rows, columns=NAMES)
    frame.insert(0, "id", np.arange(1, 121))
    said = [one.message() for one in read_table(readers(frame.to_csv(index=False)).path).dropped]
    bare = read_table(readers("\n".join(",".join(map(repr, row)) for row in rows.tolist())).path)
    said += [str(note) for note in bare.notes]
    for text in ("a;b\n871;1\n1,082;1\n93;1\n2,400;1\n", "a,b\n" + "inf,1\n1,2\n2,3\n" * 9):
        with pytest.raises(DataError) as caught:
            read_table(readers(text).path)
        said.append(str(caught.value))
    assert len(said) == 4
    for one, argument in zip(
        said, ("columns", "header=True", "decimal=','", "missing="), strict=True
    ):
        assert argument in one
        assert "--" not in one


def test_no_message_of_the_library_has_an_option() -> None:
    package = Path(cuspfa.__file__).parent
    options = ["--columns", "--exclude", "--id", "--missing", "--header", "--no-header"]
    options += ["--decimal", "--memory-limit"]
    for file in (package / "data").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not [one for one in options if one in text], file


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decimal": "x"}, "decimal must be one of"),
        ({"header": 1}, "header must be True, False or None"),
        ({"missing": [None]}, "missing must be numbers and words"),
        ({"memory_limit": "much"}, "memory_limit must be a number of bytes"),
        ({"id_column": "z"}, "id_column: there is no column 'z'"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str, rows: Any, readers: Any) -> None:
    path = readers(pd.DataFrame(rows, columns=NAMES).to_csv(index=False)).path
    with pytest.raises(InputError, match=message):
        read_table(path, **options)
    with pytest.raises(InputError, match="path must be"):
        read_table(3)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"<html><table><tr><td>a</td></tr></table></html>", "a web page"),
        (b"\xef\xbb\xbf\r\n<!DOCTYPE HTML><html></html>", "a web page"),
        (b"{\\rtf1\\ansi a,b}", "a document in rich text"),
        (b'<?xml version="1.0"?><Workbook></Workbook>', "an XML file"),
        (b"%PDF-1.7", "a PDF file"),
    ],
)
def test_other_files_under_the_name_of_a_table(tmp_path: Path, content: bytes, what: str) -> None:
    """Programs write web pages and call them workbooks."""
    path = tmp_path / "export.xls"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"export.xls is {what}. Save the table as CSV"):
        read_table(path)


def test_a_saved_fit_is_no_table_and_python_is_told_how_to_load_it(tmp_path: Path) -> None:
    rows = datasets.simulate(60, 6, 1, random_state=3).X
    path = tmp_path / "saved.csv"
    CuspFactorAnalysis(n_factors=1).fit(rows).posterior_.save(path)
    with pytest.raises(DataError, match="is a saved fit, not data") as caught:
        read_table(path)
    assert str(caught.value).endswith(f"cuspfa.load({str(path)!r})")


def test_every_code_of_a_note_and_of_a_dropped_column_has_its_words() -> None:
    for drop in get_args(DropCode):
        assert DroppedColumn("x", drop, count=1, of=2, detail="int").message()
    for note in get_args(NoteCode):
        assert Note(note, columns=("x",), count=1, detail="y").message()


def test_a_fit_to_a_path_keeps_what_the_program_keeps(tmp_path, rows):
    path, fit = tmp_path / "answers.csv", tmp_path / "fit.cusp"
    path.write_text(comma(np.column_stack([np.arange(len(rows)), rows]), ["nr", *NAMES]))
    with pytest.warns(CuspWarning, match="'nr'"):
        model = CuspFactorAnalysis(n_factors=1).fit(path)
    found = model.posterior_.provenance.data
    options = ["--factors", "1", "-o", str(fit), "--quiet"]
    assert run_program(["fit", str(path), *options]) == 0
    expected = load(fit).provenance.data
    assert expected is not None
    assert replace(expected, options=found.options) == found
    assert found.source == str(path)
    assert (found.n_rows, found.n_columns, found.names) == (120, 6, tuple(NAMES))
    assert [(one.name, one.code) for one in found.dropped] == [("nr", "counter")]
    model.posterior_.save(fit)
    assert load(fit).provenance.data == found


def test_a_fit_to_a_stream_keeps_its_options(tmp_path, rows):
    path = tmp_path / "answers.csv"
    path.write_text(comma(rows, NAMES))
    stream = RowStream(path, columns=["a", "b", "c", "d"], missing=[-9], decimal=",")
    model = CuspFactorAnalysis(n_factors=1).fit(stream)
    options = model.posterior_.provenance.data.options
    assert (options.columns, options.missing) == (("a", "b", "c", "d"), ("-9",))
    assert options.decimal == ","
    several = CuspFactorAnalysis(n_factors=1).fit([path, path]).posterior_.provenance
    assert several.data is None  # one path cannot stand for several


def test_a_table_is_shown_in_a_line(tmp_path, rows):
    path = tmp_path / "answers.csv"
    path.write_text(comma(np.column_stack([np.arange(len(rows)), rows]), ["nr", *NAMES]))
    assert repr(read_table(path)) == f"<Table {path} (CSV): 120 rows, 5 columns, 1 dropped>"
