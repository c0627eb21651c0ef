"""Workbooks and files of SPSS, Stata and R: the same answer as from CSV, by every reader."""

import gzip
import importlib.util
import io
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat
import pytest
import xlsxwriter

from cuspfa import CuspFactorAnalysis, RowStream, datasets, read_table
from cuspfa._utils.spelling import as_option
from cuspfa.cli.app import run_program
from cuspfa.data.tables import office, office_child, source_bytes
from cuspfa.data.tables.labels import ColumnLabels, ValueLabel
from cuspfa.data.tables.notes import Note
from cuspfa.errors import CuspWarning, DataError, InputError
from rds import rds
from support import posix

N = 90
NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture
def frame() -> Any:
    rows = datasets.simulate(N, 5, 1, random_state=0).X.round(3)
    rows[4, 1] = np.nan
    found = pd.DataFrame(rows, columns=NAMES)
    found.insert(0, "person", np.arange(1, N + 1))
    found["town"] = ["York", "Bath", "Leeds"] * (N // 3)
    return found


def write_xlsx(path: Path, frame: Any, before: int = 0, sheet: str = "answers") -> None:
    """A workbook with some rows and a column empty before the table, and a formula for each b."""
    with xlsxwriter.Workbook(path) as book:
        cells = book.add_worksheet(sheet)
        cells.write_row(before, before, list(frame.columns))
        for i, row in enumerate(frame.itertuples(index=False), start=before + 1):
            for j, value in enumerate(row, start=before):
                if value == value and j == before + 2:
                    cells.write_formula(i, j, "=RAND()", None, value)
                elif value == value:
                    cells.write(i, j, value)


def write(path: Path, frame: Any) -> None:
    kind = path.suffix
    if kind == ".xlsx":
        write_xlsx(path, frame)
    elif kind in (".sav", ".zsav"):
        pyreadstat.write_sav(frame, path, compress=kind == ".zsav")
    elif kind == ".dta":
        pyreadstat.write_dta(frame, path)
    elif kind == ".rds":
        columns: dict[str, Any] = {
            name: (
                frame[name].tolist()
                if name in ("person", "town")
                else [None if v != v else v for v in frame[name].tolist()],
                {},
            )
            for name in frame
        }
        path.write_bytes(rds(columns))
    elif kind == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("folder/answers.csv", frame.to_csv(index=False))
            archive.writestr("__MACOSX/folder/._answers.csv", b"\0\1")
    else:
        frame.to_csv(path, index=False)


KINDS = [".xlsx", ".sav", ".zsav", ".dta", ".rds", ".zip", ".csv.gz", ".csv.bz2"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_answer_as_from_csv_by_every_reader(
    kind: str, frame: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "t.csv", frame)
    path = tmp_path / f"t{kind}"
    write(path, frame)
    known, found = read_table(tmp_path / "t.csv"), read_table(path)
    assert found.names == known.names == NAMES
    np.testing.assert_array_equal(found.rows, known.rows)
    assert [(one.name, one.code) for one in found.dropped] == [
        ("person", "counter"),
        ("town", "text"),
    ]
    limited = read_table(path, memory_limit="1GB")
    assert (limited.names, limited.n_missing) == (NAMES, {"b": 1})
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        fits = [CuspFactorAnalysis(n_factors=1).fit(one) for one in (known, found, path)]
        fits.append(CuspFactorAnalysis(n_factors=1).fit(RowStream(path, columns=NAMES)))
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.get_covariance(), fits[0].get_covariance(), rtol=1e-9)
    told = {}
    for one in (path, tmp_path / "t.csv"):
        saved = tmp_path / "fit.cusp"
        assert run_program(["fit", str(one), "--factors", "1", "--json", "-o", str(saved)]) == 0
        told[one] = json.loads(capsys.readouterr().out)
        for command in ("scores", "impute"):
            assert run_program([command, str(saved), str(one), "--id", "person"]) == 0
            told[one][command] = capsys.readouterr().out
    a, b = told.values()
    for key in ("columns", "n_factors", "scores", "impute", "missing", "left_out"):
        if key == "left_out":
            assert [one["name"] for one in a[key]["columns"]] == ["person", "town"]
        else:
            assert a[key] == b[key], key
    assert a["scores"].splitlines()[1].startswith("1,")


def test_a_folder_of_workbooks(frame: Any, tmp_path: Path) -> None:
    for place in (0, 1):
        write(tmp_path / f"{place}.xlsx", frame.iloc[place * 45 : (place + 1) * 45])
    table = read_table(tmp_path)
    assert (table.names, table.n_rows) == (NAMES, N)


# --- sheets and cells ---


def test_a_sheet_that_is_no_table_names_the_others(frame: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    for first in (
        pd.DataFrame({"note": ["Codebook", "1 = no"]}),
        pd.DataFrame({"item": list("abcdefghijkl"), "wording": list("abcdefghijkl")}),
        pd.DataFrame({"item": ["1", "2", "mean"], "value": [1, 3, 2]}),
    ):
        with pd.ExcelWriter(path, engine="xlsxwriter") as book:
            first.to_excel(book, sheet_name="Read me", index=False)
            frame.to_excel(book, sheet_name="Answers", index=False)
        with pytest.raises(DataError, match=r"Sheet 'Read me' .*another one: sheet='Answers'"):
            read_table(path)
        assert read_table(path, sheet="Answers").names == NAMES


def test_sheets_by_name_and_number(frame: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path, engine="xlsxwriter") as book:
        book.book.add_worksheet("notes")
        frame.to_excel(book, sheet_name="First", index=False)
        frame.assign(a=frame["a"] + 10).to_excel(book, sheet_name="Second", index=False)
    table = read_table(path)
    assert table.sheet == "First"
    (note,) = (one for one in table.notes if one.code == "sheet")
    assert note == Note("sheet", ("notes", "Second"), detail="First")
    assert note.is_doubt
    assert str(note).endswith("For another one: sheet='notes'")
    for sheet in ("Second", "second", 3, "3"):
        other = read_table(path, sheet=sheet)
        np.testing.assert_allclose(other.rows[:, 0], table.rows[:, 0] + 10)
        assert other.sheet == "Second"
        assert not [one for one in other.notes if one.code == "sheet"]
    with pytest.raises(DataError, match=r"t.xlsx: there is no sheet 'Third'. The sheets, numbered"):
        read_table(path, sheet="Third")
    with pytest.raises(DataError, match="sheet 'notes' holds no cells"):
        read_table(path, sheet=1)
    with pytest.raises(InputError, match="sheet must be a name, or a number"):
        read_table(path, sheet=1.5)
    frame.to_csv(tmp_path / "t.csv")
    with pytest.raises(InputError, match="sheet is for workbooks"):
        read_table(tmp_path / "t.csv", sheet=1)


def test_the_program_takes_a_sheet(
    frame: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path, engine="xlsxwriter") as book:
        frame.to_excel(book, sheet_name="First", index=False)
        frame[["a", "b", "c"]].to_excel(book, sheet_name="Second", index=False)
    assert run_program(["fit", str(path), "--factors", "1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Sheet 'First' of the workbook is read. For another one: --sheet Second" in shown
    for words, told in (
        (["--columns", "a,zz"], "--columns: there is no column 'zz'."),
        (["--factors", "50"], "--factors must be at most the "),
    ):
        assert run_program(["fit", str(path), *words]) == 2
        err = capsys.readouterr().err
        assert told in err
        assert "Sheet 'First' of the workbook is read. For another one: --sheet Second" in err
    assert run_program(["fit", str(path), "--factors", "1", "--sheet", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == ["a", "b", "c"]


def test_cells_of_a_workbook(frame: Any, tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    write_xlsx(path, frame, before=3)  # empty rows and columns before the table; formulas
    np.testing.assert_array_equal(read_table(path).rows, frame[NAMES].to_numpy())
    with xlsxwriter.Workbook(path) as book:
        cells = book.add_worksheet()
        date = book.add_format({"num_format": "yyyy-mm-dd"})
        cells.write_row(0, 0, ["x", "y", "when", "flag", "text number", "wrong"])
        for i in range(1, 31):
            cells.write_number(i, 0, round(1.001 * i, 3))  # no thousands: the cell is a number
            cells.write_number(i, 1, i * i)
            cells.write_number(i, 2, 40000 + i, date)
            cells.write_boolean(i, 3, i % 3 == 0)
            cells.write_string(i, 4, str(i % 7))
            cells.write_formula(i, 5, "=1/0", None, "#DIV/0!" if i == 3 else i % 5)
        cells.write_string(200, 9, " ")  # a cell that is only formatted
    table = read_table(path)
    assert table.names == ["x", "y", "flag", "text number", "wrong"]
    assert [(one.name, one.code) for one in table.dropped] == [("when", "dates")]
    rows = np.arange(1, 31)
    wrong = np.where(rows == 3, np.nan, rows % 5)
    np.testing.assert_array_equal(
        table.rows,
        np.column_stack([np.round(1.001 * rows, 3), rows**2, rows % 3 == 0, rows % 7, wrong]),
    )


# --- SPSS, Stata and R ---


LABELS = (
    ColumnLabels("a", "I worry — a lot", (ValueLabel(1.0, "never"), ValueLabel(2.0, "often"))),
    ColumnLabels("b", "I sleep well"),
)


def rating(seed: int) -> Any:
    return np.random.default_rng(seed).integers(1, 6, N).astype(float)


def test_labels_and_user_missing_values_of_spss(tmp_path: Path) -> None:
    frame = pd.DataFrame({name: rating(j) for j, name in enumerate("abcd")})
    frame.loc[3, "a"], frame.loc[4, "b"], frame.loc[5, "b"] = 9, 97, 99
    path = tmp_path / "t.sav"
    pyreadstat.write_sav(
        frame,
        path,
        column_labels={"a": LABELS[0].label, "b": LABELS[1].label},
        variable_value_labels={"a": {1: "never", 2: "often"}},
        missing_ranges={"a": [9], "b": [{"lo": 97, "hi": 99}]},
    )
    table = read_table(path)
    assert table.labels == LABELS
    assert table.n_missing == {"a": 1, "b": 2}
    assert Note("user_missing", count=3) in table.notes
    assert read_table(path, columns=["b", "c"]).labels == LABELS[1:]


def test_labels_of_missing_values_are_no_labels_of_answers(tmp_path: Path) -> None:
    frame = pd.DataFrame({name: rating(j) for j, name in enumerate("abcd")})
    frame.loc[3, "a"], frame.loc[4, "b"] = -9, 98
    words: dict[int | float, str] = {1: "never", 5: "often", -9: "refused", 98: "filtered"}
    path = tmp_path / "t.sav"
    pyreadstat.write_sav(
        frame,
        path,
        variable_value_labels=dict.fromkeys("ab", words),
        missing_ranges={"a": [-9], "b": [{"lo": 90, "hi": 99}]},
    )
    answers = (ValueLabel(1.0, "never"), ValueLabel(5.0, "often"))
    first, second = read_table(path).labels
    assert set(first.values) == {*answers, ValueLabel(98.0, "filtered")}  # not declared for "a"
    assert second.values == answers  # "refused" is not declared for "b", and nobody has it
    first, second = read_table(path, missing=[-9, 98]).labels
    assert first.values == second.values == answers


def test_a_value_labelled_as_missing_and_not_declared(tmp_path: Path) -> None:
    frame = pd.DataFrame({name: rating(j) for j, name in enumerate("abcd")})
    frame.loc[3, ["a", "c"]], frame.loc[4, "a"], frame.loc[7, "d"] = 9, 8, 7
    labels: dict[int | float, str] = {
        1: "never",
        7: "very often",
        8: "Don’t know/Refused",
        9: "NO ANSWER",
    }
    path = tmp_path / "t.sav"
    pyreadstat.write_sav(frame, path, variable_value_labels=dict.fromkeys("acd", labels))
    told = [note.message(as_option) for note in read_table(path).notes if note.is_doubt]
    assert len(told) == 2
    assert "8 = Don’t know/Refused" in told[0]
    assert told[1].endswith("as a number in a, c. To make it missing: --missing 9")
    assert read_table(path, missing=[8, 9]).n_missing == {"a": 2, "c": 1}
    assert not [note for note in read_table(path, missing=[8, 9]).notes if note.is_doubt]


def test_labels_and_missing_values_of_stata(tmp_path: Path) -> None:
    frame = pd.DataFrame({name: rating(j) for j, name in enumerate("abcd")}).astype(object)
    frame.loc[3, "a"] = "z"
    path = tmp_path / "t.dta"
    pyreadstat.write_dta(
        frame,
        path,
        column_labels=["I worry", "", "", ""],
        missing_user_values={"a": ["z"]},
        variable_value_labels={"a": {1: "never"}},
    )
    table = read_table(path)
    assert table.labels == (ColumnLabels("a", "I worry", (ValueLabel(1.0, "never"),)),)
    assert table.n_missing == {"a": 1}


AS_TEXT = """A 2 262658 131840 787 2 13 12 1 2 3 4 5 6 7 8 9 10 11 NA 14 12 0.5 1 1.5 2 2.5 3 3.5
4 4.5 5 5.5 6 1026 1 262153 5 names 16 2 262153 1 a 262153 1 b 1026 1 262153 5 class 16 1 262153 10
data.frame 1026 1 262153 9 row.names 13 2 NA -12 254"""
"""saveRDS(data.frame(a = c(1:11, NA), b = seq(0.5, 6, by = 0.5)), ascii = TRUE, version = 2) in R,
a word in each line."""


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_r_files_that_were_saved_as_text(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "t.rds"
    path.write_bytes(pack("\n".join([*AS_TEXT.split(), ""]).encode()))
    table = read_table(path)
    assert (table.kind, table.names) == ("R", ["a", "b"])
    np.testing.assert_array_equal(table.rows[:, 0], [*range(1, 12), np.nan])
    np.testing.assert_array_equal(table.rows[:, 1], np.arange(1, 13) / 2)


def test_r_data_frames(tmp_path: Path) -> None:
    a, b = rating(0), rating(1)
    cells: list[Any] = a.tolist()
    cells[3] = 9.0
    whole: list[Any] = [int(v) for v in b]
    whole[4] = None
    columns: dict[str, Any] = {
        "a": (cells, {"label": ["I worry — a lot"], "na_values": [9.0]}),
        "b": (whole, {}),
        "ordered": (whole, {"levels": list("vwxyz"), "class": ["ordered", "factor"]}),
        "factor": (whole, {"levels": ["p", "q", "r", "s", "t"], "class": ["factor"]}),
        "flag": ([v > 2 for v in a], {}),
        "day": ([18000.0 + j for j in range(N)], {"class": ["Date"]}),
        "word": (["é"] * N, {}),
    }
    path = tmp_path / "t.rds"
    path.write_bytes(rds(columns))
    table = read_table(path)
    assert table.names == ["a", "b", "ordered", "flag"]
    codes = {one.name: one.code for one in table.dropped}
    assert codes == {"factor": "text", "day": "dates", "word": "text"}
    assert table.n_missing == {"a": 1, "b": 1, "ordered": 1}
    levels = tuple(ValueLabel(float(j), x) for j, x in enumerate("vwxyz", 1))
    assert table.labels == (
        ColumnLabels("a", "I worry — a lot"),
        ColumnLabels("ordered", "", levels),
    )
    named = tmp_path / "named.rds"
    named.write_bytes(rds({k: columns[k] for k in "ab"}, [f"row {j}" for j in range(N)]))
    assert read_table(named, id_column="row names").ids[:2] == ["row 0", "row 1"]
    alone = tmp_path / "vector.rds"
    alone.write_bytes(b"X\n\0\0\0\2\0\3\5\0\0\2\3\0\0\0\0\r\0\0\0\1\0\0\0\7")
    with pytest.raises(DataError, match=r"holds no data frame, and one is needed. In R: saveRDS"):
        read_table(alone)


# --- hostile and damaged files ---


def test_a_zip_with_several_files_or_none(tmp_path: Path) -> None:
    path, inner = tmp_path / "t.zip", io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("a.csv", b"a,b\n1,2\n")
    for names, message in (
        (["a.csv", "b.csv"], r"a zip file with 2 files: 'a.csv', 'b.csv'. Unzip it"),
        (["__MACOSX/a.csv"], "without any file"),
        (["a.zip"], "in which there is another one"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, inner.getvalue() if name == "a.zip" else b"a,b\n1,2\n")
        with pytest.raises(DataError, match=message):
            read_table(path)


@pytest.mark.parametrize("suffix", [".zip", ".xlsx", ".rds", ".csv.gz"])
def test_bombs_are_refused_before_memory_is_taken(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_bytes, "read_limit", lambda: 1 << 20)
    path, big = tmp_path / f"t{suffix}", b"0" * (5 << 20)
    if suffix in (".zip", ".xlsx"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("xl/workbook.xml" if suffix == ".xlsx" else "t.csv", big)
        assert path.stat().st_size < 1 << 14
    else:
        path.write_bytes(gzip.compress(b"X\n" + big))
    with pytest.raises(DataError, match=r"t\..*, once it is decompressed, is longer than 1.05 MB"):
        read_table(path)


def test_a_size_that_an_archive_states_wrongly(tmp_path: Path, frame: Any) -> None:
    path = tmp_path / "t.xlsx"
    write(path, frame)
    raw = bytearray(path.read_bytes())
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        size = next(o.file_size for o in archive.infolist() if o.filename.endswith("sheet1.xml"))
    little = size.to_bytes(4, "little")
    assert raw.count(little) == 2
    path.write_bytes(bytes(raw).replace(little, (10).to_bytes(4, "little")))
    with pytest.raises(DataError, match="damaged"):
        read_table(path)


def parts(sheet: str, strings: str = "") -> bytes:
    """A workbook of handwritten parts."""
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office_ = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    book = f'<workbook {space} xmlns:r="{office_}"><sheets><sheet name="s" sheetId="1" r:id="r1"/>'
    links = f'<Relationships xmlns="{package}/relationships">'
    links += f'<Relationship Id="r1" Type="{office_}/worksheet" Target="worksheets/sheet1.xml"/>'
    links += f'<Relationship Id="r2" Type="{office_}/sharedStrings" Target="sharedStrings.xml"/>'
    root = f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
    root += f'Type="{office_}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_rels/.rels", root)
        archive.writestr("xl/workbook.xml", f"{book}</sheets></workbook>")
        archive.writestr("xl/_rels/workbook.xml.rels", f"{links}</Relationships>")
        archive.writestr(
            "xl/worksheets/sheet1.xml",
            f"<worksheet {space}><sheetData>{sheet}</sheetData></worksheet>",
        )
        archive.writestr("xl/sharedStrings.xml", strings or f"<sst {space}></sst>")
    return out.getvalue()


def test_a_sheet_whose_cells_are_far_apart(tmp_path: Path) -> None:
    first = '<row r="1"><c r="A1"><v>1</v></c></row>'
    last = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    path = tmp_path / "t.xlsx"
    path.write_bytes(parts(first + last))  # 17 billion cells, if all are taken
    with pytest.raises(DataError, match=r"t.xlsx (is damaged, or larger than can be read|needs)"):
        read_table(path)


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    entities = '<!ENTITY a0 "ha">' + "".join(
        f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 12)
    )
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    strings = f'<!DOCTYPE sst [{entities}]><sst xmlns="{space}"><si><t>&a11;</t></si></sst>'
    sheet = "".join(
        f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c><c r="B{i}"><v>{i}</v></c></row>'
        for i in range(1, 20)
    )
    path = tmp_path / "t.xlsx"
    path.write_bytes(parts(sheet, strings))
    with pytest.raises(DataError, match=r"t.xlsx (cannot be read|has \d column)"):
        read_table(path)


@pytest.mark.parametrize("kind", [".xlsx", ".sav", ".zsav", ".dta", ".rds"])
def test_damaged_files_are_errors(kind: str, tmp_path: Path, frame: Any) -> None:
    """Each file is cut or changed at random places: a table, or an error that names the file."""
    whole = tmp_path / f"whole{kind}"
    write(whole, frame)
    raw, path = whole.read_bytes(), tmp_path / f"t{kind}"
    rng = np.random.default_rng(7)
    n_errors = 0
    for turn in range(8):
        changed = bytearray(raw)
        if turn < 3:
            changed = changed[: int(rng.integers(4, len(raw) - 1))]
        else:
            for place in rng.integers(4, len(raw), 40):
                changed[place] = rng.integers(256)
        path.write_bytes(changed)
        said = ""
        try:
            read_table(path)
        except DataError as error:
            said = str(error)
        assert not said or f"t{kind}" in said
        n_errors += bool(said)
    assert n_errors >= 3


@posix
def test_a_parser_that_crashes_or_hangs_is_an_error(
    tmp_path: Path, frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.sav"
    write(path, frame)
    script = tmp_path / "child.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(office_child, "__file__", str(script))
    with pytest.raises(DataError, match="its parser ended with code -11. Save the table as CSV"):
        read_table(path)
    script.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(office, "CHILD_SECONDS", 0.5)
    with pytest.raises(DataError, match="was not read within"):
        read_table(path)


@pytest.mark.parametrize(
    ("kind", "package"), [(".xlsx", "python_calamine"), (".sav", "pyreadstat")]
)
def test_a_missing_package_names_the_extra(
    kind: str, package: str, tmp_path: Path, frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / f"t{kind}", frame)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else find(name)
    )
    with pytest.raises(InputError, match=rf"needs {package}: pip install 'cuspfa\[office\]'"):
        read_table(tmp_path / f"t{kind}")


@pytest.mark.parametrize("kind", [".xlsx", ".csv"])
@pytest.mark.parametrize(
    "above",
    [
        [["My study"], []],
        [["My study"], ["of 2023"]],
        [["Agreeable", "", "", "Open"]],
    ],
)
def test_rows_above_the_names_of_columns(kind: str, above: list[list[str]], tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(1, 6, (30, 5)).tolist()
    path = tmp_path / f"t{kind}"
    blank = [[*row, *[""] * (5 - len(row))] for row in above]
    frame = pd.DataFrame([*blank, NAMES, *rows])
    if kind == ".csv":
        frame.to_csv(path, index=False, header=False)
    else:
        frame.to_excel(path, index=False, header=False)
    place = len(above) + 1
    message = rf"row {place} \(\"a\", \"b\", \"c\", …\).*remove lines above it"
    with pytest.raises(DataError, match=message):
        read_table(path)


def test_formulas_without_stored_values(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with xlsxwriter.Workbook(path) as book:
        book.add_worksheet("first & empty")
        cells = book.add_worksheet("second <1>")
        cells.write_row(1, 2, [*NAMES, "sum", "twice"])
        for i in range(30):
            cells.write_row(2 + i, 2, rating(i)[:5])
            cells.write_formula(2 + i, 7, f"=SUM(C{i + 3}:G{i + 3})", None, "")
            cells.write_formula(2 + i, 8, f"=2*C{i + 3}", None, "" if i < 4 else i % 5)
            cells.write_formula(2 + i, 9, '=""', None, "text")
    table = read_table(path, sheet="second <1>")
    (note,) = (one for one in table.notes if one.code == "formulas")
    assert (note.columns, note.count, note.is_doubt) == (("sum", "twice"), 34, True)
    assert "Open the workbook in Excel or LibreOffice" in str(note)
    reasons = {one.name: one.reason for one in table.dropped}
    assert reasons["sum"] == "formulas without stored values"
    assert table.n_missing == {"twice": 4}
    with xlsxwriter.Workbook(path) as book:
        cells = book.add_worksheet()
        for i in range(30):
            cells.write_formula(i, 0, "=RAND()", None, "")
    with pytest.raises(DataError, match="are formulas without stored values"):
        read_table(path)


def test_files_that_grow_beyond_what_tables_do_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_bytes, "LEAST_EXPANDED", 1 << 20)
    bomb = b"a,b\n" + b"0" * (1 << 22)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(bomb))
    with zipfile.ZipFile(tmp_path / "t.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", bomb)
    for name in ("t.csv.gz", "t.zip"):
        with pytest.raises(DataError, match=r"t\..*, once it is decompressed, is longer than 1.05"):
            read_table(tmp_path / name)
    rows = np.random.default_rng(0).integers(0, 2, (400_000, 2))
    text = "a,b\n" + "\n".join(f"{a},{b}" for a, b in rows)
    (tmp_path / "u.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert len(text) > 1 << 20
    assert read_table(tmp_path / "u.csv.gz").n_rows == 400_000
