"""The parsers of spreadsheets and of files of SPSS, Stata and R, in a process of their own.

A script of the standard library and of these packages alone: `office.py` starts it with the bytes
of a file at standard input. Standard output has one line of JSON, and then the cells: text with
commas between them, or an Arrow stream of columns. An error is the JSON {"error": ...}.
"""

from __future__ import annotations

import csv
import datetime
import html
import io
import json
import math
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from typing import Any

NA_INTEGER = -(2**31)
MOST_SHEETS_NAMED = 8
_FORMULA = re.compile(
    rb'<c r="(?P<column>[A-Z]+)[0-9]+"(?P<more>[^>]*)>\s*<f(?:[^>]*/>|[^>]*>[^<]*</f>)\s*'
    rb"(?P<value><v>[^<]+</v>)?"
)
"""A cell of a sheet with a formula."""


class UnreadableError(Exception):
    """The file cannot be read; the message says why."""


# --- spreadsheets ---


def _read_workbook(raw: bytes, sheet: str | int | None) -> tuple[dict[str, Any], bytes]:
    import python_calamine

    book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(raw))
    tables = [
        one.name
        for one in book.sheets_metadata
        if one.typ == python_calamine.SheetTypeEnum.WorkSheet
    ]
    name = _sheet_name(tables, book, sheet)
    cells = book.get_sheet_by_name(name)
    rows = [[_cell(value) for value in row] for row in cells.to_python()]
    rows = _without_margins(rows)
    formulas = _empty_formulas(raw, name)
    if formulas and len(rows) < 2:
        raise UnreadableError(
            f"the cells of sheet {name!r} are formulas without stored values. Open the workbook in "
            "Excel or LibreOffice and save it there."
        )
    if not rows:
        raise UnreadableError(f"sheet {name!r} holds no cells. {_sheets(tables)}")
    stream = io.StringIO(newline="")
    stream.write("sep=,\n")
    csv.writer(stream, lineterminator="\n").writerows(rows)
    left = cells.start[1] if cells.start else 0
    found = {
        "form": "text",
        "sheet": name,
        "sheets": tables,
        "chosen": sheet is not None,
        "formulas": [[column - left, number] for column, number in formulas.items()],
    }
    return found, stream.getvalue().encode()


def _empty_formulas(raw: bytes, name: str) -> dict[int, int]:
    """Cells with a formula and no stored value, by column from 0 on; of an .xlsx file alone."""
    path = _file_of_sheet(raw, name)
    if path is None:
        return {}
    found: dict[int, int] = {}
    for cell in _FORMULA.finditer(zipfile.ZipFile(io.BytesIO(raw)).read(path)):
        # A formula whose value is a text may have an empty one.
        if cell["value"] is None and b't="str"' not in cell["more"]:
            letters = cell["column"].decode()
            column = sum((ord(one) - 64) * 26**k for k, one in enumerate(reversed(letters))) - 1
            found[column] = found.get(column, 0) + 1
    return found


def _file_of_sheet(raw: bytes, name: str) -> str | None:
    """The file inside an .xlsx file that has the cells of a sheet."""
    if not raw.startswith(b"PK"):
        return None
    archive = zipfile.ZipFile(io.BytesIO(raw))
    files = archive.namelist()
    if "xl/workbook.xml" not in files or "xl/_rels/workbook.xml.rels" not in files:
        return None
    sheets = _tags(archive.read("xl/workbook.xml"), "sheet")
    links = _tags(archive.read("xl/_rels/workbook.xml.rels"), "Relationship")
    link = next((one.get("id") for one in sheets if one.get("name") == name), None)
    target = next((one.get("Target", "") for one in links if one.get("Id", "") == link), "")
    path = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
    return path if path in files else None


def _tags(xml: bytes, name: str) -> list[dict[str, str]]:
    """Attributes of all tags with this name, without the prefixes of their namespaces."""
    tags = re.findall(rf"<(?:\w+:)?{name}\s([^>]*)>", xml.decode("utf-8", "replace"))
    return [
        {key: html.unescape(value) for key, value in re.findall(r'(?:\w+:)?(\w+)="([^"]*)"', one)}
        for one in tags
    ]


def _sheet_name(tables: list[str], book: Any, sheet: str | int | None) -> str:
    """The name of the sheet that is asked for, or of the first one with cells."""
    if not tables:
        raise UnreadableError("the workbook has no sheet of cells.")
    if sheet is None:
        filled = (name for name in tables if book.get_sheet_by_name(name).height)
        return next(filled, tables[0])
    same = [name for name in tables if name.lower() == str(sheet).strip().lower()]
    if str(sheet) in tables or len(same) == 1:
        return str(sheet) if str(sheet) in tables else same[0]
    number = int(sheet) if str(sheet).isdecimal() else 0
    if not 1 <= number <= len(tables):
        raise UnreadableError(f"there is no sheet {sheet!r}. {_sheets(tables)}")
    return tables[number - 1]


def _sheets(tables: list[str]) -> str:
    more = ", …" if len(tables) > MOST_SHEETS_NAMED else ""
    names = ", ".join(map(repr, tables[:MOST_SHEETS_NAMED]))
    return f"The sheets, numbered from 1, are {names}{more}."


def _cell(value: Any) -> str:
    """A cell as text; formulas are there by their values, and errors are empty."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def _without_margins(rows: list[list[str]]) -> list[list[str]]:
    """The rows up to the last one, and the columns up to the last one, that has a cell."""
    while rows and not any(map(str.strip, rows[-1])):
        rows.pop()
    width = max((j + 1 for row in rows for j, cell in enumerate(row) if cell.strip()), default=0)
    return [row[:width] for row in rows]


# --- SPSS and Stata ---


def _read_statistics(raw: bytes, kind: str) -> tuple[dict[str, Any], bytes]:
    try:
        cells, about = _cells_of(io.BytesIO(raw), kind)
    except TypeError:  # older releases read files alone
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table")
            with open(path, "wb") as file:
                file.write(raw)
            cells, about = _cells_of(path, kind)
    names = list(about.column_names)
    columns = [list(cells[name]) for name in names]
    user_missing = [0] * len(names)
    labels = [label or "" for label in about.column_labels]
    values = [(about.variable_value_labels or {}).get(name, {}) for name in names]
    for j, name in enumerate(names):
        ranges = (about.missing_ranges or {}).get(name, [])
        if ranges:
            columns[j], values[j], user_missing[j] = _without_user_missing(
                columns[j], values[j], ranges
            )
    return _columns(names, columns, labels, values, user_missing)


def _cells_of(file: Any, kind: str) -> tuple[Any, Any]:
    """Columns by name, and what is known of them."""
    import pyreadstat

    if kind == "SPSS":
        found: tuple[Any, Any] = pyreadstat.read_sav(file, output_format="dict", user_missing=True)
        return found
    found = pyreadstat.read_dta(file, output_format="dict")
    return found


def _without_user_missing(
    column: list[Any], labels: dict[Any, str], ranges: list[Any]
) -> tuple[list[Any], dict[Any, str], int]:
    """None for values that the file declares as missing, the other labels, and their number."""

    def declared(value: Any) -> bool:
        for one in ranges:
            low, high = (one["lo"], one["hi"]) if isinstance(one, dict) else (one, one)
            if isinstance(value, str) == isinstance(low, str) and low <= value <= high:
                return True
        return False

    gone = [value is not None and declared(value) for value in column]
    kept = [None if is_missing else value for value, is_missing in zip(column, gone, strict=True)]
    others = {value: label for value, label in labels.items() if not declared(value)}
    return kept, others, sum(gone)


# --- R ---


def _read_r(raw: bytes) -> tuple[dict[str, Any], bytes]:
    import rdata

    extension = ".rda" if raw.startswith((b"RDX", b"RDA")) else ".rds"
    root = rdata.parser.parse_data(raw, extension=extension).object
    frames = list(_data_frames(root, is_list=extension == ".rda"))
    if len(frames) != 1:
        found = "no data frame" if not frames else f"{len(frames)} data frames"
        raise UnreadableError(
            f"the file holds {found}, and one is needed. In R: saveRDS(as.data.frame(x), file)."
        )
    frame = frames[0]
    names = _texts(_attributes(frame)["names"])
    columns, labels, values, user_missing = [], [], [], []
    for column in map(_followed, frame.value):
        about = _attributes(column)
        cells, value_labels = _r_cells(column, about)
        ranges: list[Any] = []
        if "na_values" in about:
            ranges += _numbers(about["na_values"])
        if "na_range" in about:
            low, high = _numbers(about["na_range"])
            ranges.append({"lo": low, "hi": high})
        cells, value_labels, gone = _without_user_missing(cells, value_labels, ranges)
        columns.append(cells)
        labels.append(_texts(about["label"])[0] if "label" in about else "")
        values.append(value_labels)
        user_missing.append(gone)
    row_names = _attributes(frame).get("row.names")
    if row_names is not None and row_names.info.type.name == "STR":
        names, columns = ["row names", *names], [_texts(row_names), *columns]
        labels, values, user_missing = ["", *labels], [{}, *values], [0, *user_missing]
    return _columns(names, columns, labels, values, user_missing)


def _data_frames(root: Any, *, is_list: bool) -> Iterable[Any]:
    """The object, or the objects of a workspace, that are data frames."""
    objects = []
    if is_list:
        node = root
        while node.info.type.name == "LIST":
            objects.append(node.value[0])
            node = node.value[1]
    else:
        objects.append(root)
    for one in objects:
        if "data.frame" in _texts(_attributes(one).get("class")):
            yield one


def _followed(r_object: Any) -> Any:
    """The object itself, where the file has a reference to it."""
    return r_object.referenced_object if r_object.info.type.name == "REF" else r_object


def _attributes(r_object: Any) -> dict[str, Any]:
    found, node = {}, r_object.attributes
    while node is not None and node.info.type.name == "LIST":
        tag = _followed(node.tag)
        found[tag.value.value.decode()] = _followed(node.value[0])
        node = node.value[1]
    return found


def _texts(r_object: Any) -> list[Any]:
    """A vector of texts, None where they are missing."""
    if r_object is None or r_object.info.type.name != "STR":
        return []
    return [
        None if one.value is None else one.value.decode("utf-8", "replace")
        for one in r_object.value
    ]


def _numbers(r_object: Any) -> list[Any]:
    """A vector of numbers, None where they are missing."""
    import numpy as np

    values = np.ma.filled(np.ma.asarray(r_object.value, dtype=float), math.nan).tolist()
    integer = r_object.info.type.name in ("INT", "LGL")
    return [None if v != v or (integer and v == NA_INTEGER) else v for v in values]


def _r_cells(column: Any, about: dict[str, Any]) -> tuple[list[Any], dict[Any, str]]:
    """The cells of a column of a data frame, and the labels of its values."""
    kind, classes = column.info.type.name, _texts(about.get("class"))
    if kind == "STR":
        return _texts(column), {}
    if kind not in ("INT", "REAL", "LGL"):
        return ["" if one is None else f"({kind})" for one in column.value], {}
    cells = _numbers(column)
    if "factor" in classes:
        levels = _texts(about.get("levels"))
        if "ordered" in classes:
            return cells, {float(code): str(level) for code, level in enumerate(levels, 1)}
        return [None if code is None else levels[int(code) - 1] for code in cells], {}
    if any(one in ("Date", "POSIXct", "difftime") for one in classes):
        days = "Date" in classes
        return [None if one is None else _r_date(one, days=days) for one in cells], {}
    if kind == "LGL":
        return [None if one is None else bool(one) for one in cells], {}
    labelled = about.get("labels")
    if labelled is None or labelled.info.type.name not in ("INT", "REAL"):
        return cells, {}
    words = _texts(_attributes(labelled).get("names"))
    pairs = zip(_numbers(labelled), words, strict=False)
    return cells, {value: word for value, word in pairs if value is not None and word}


def _r_date(value: float, *, days: bool) -> str:
    since = datetime.timedelta(days=value) if days else datetime.timedelta(seconds=value)
    return (datetime.datetime(1970, 1, 1) + since).isoformat(" ")


# --- columns ---


def _columns(
    names: Sequence[str],
    columns: Sequence[list[Any]],
    labels: Sequence[str],
    values: Sequence[dict[Any, Any]],
    user_missing: Sequence[int],
) -> tuple[dict[str, Any], bytes]:
    """An Arrow stream of columns: numbers, truth values, or text."""
    import pyarrow

    if not names:
        raise UnreadableError("the table has no columns.")
    if not columns[0]:
        raise UnreadableError("the table has no rows.")
    arrays = [_array(pyarrow, column) for column in columns]
    table = pyarrow.table(arrays, names=[str(j) for j in range(len(names))])
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    about = {
        "form": "columns",
        "names": list(map(str, names)),
        "labels": list(map(str, labels)),
        "values": [
            [[float(value), str(label)] for value, label in one.items() if _is_number(value)]
            for one in values
        ],
        "user_missing": list(user_missing),
    }
    return about, sink.getvalue().to_pybytes()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _array(pyarrow: Any, column: list[Any]) -> Any:
    known = [value for value in column if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return pyarrow.array(column, pyarrow.bool_())
    if all(_is_number(value) for value in known):
        return pyarrow.array(column, pyarrow.float64())
    return pyarrow.array([None if v is None else str(v) for v in column], pyarrow.string())


# --- the process ---


def _limit_memory(size: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    try:
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ValueError, OSError):  # systems without this limit, or with a lower one
        return


def main() -> None:
    """Read standard input and write what was found to standard output."""
    kind, sheet, memory = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    _limit_memory(memory)
    out = sys.stdout.buffer
    payload = b""
    try:
        raw = sys.stdin.buffer.read()
        if kind == "workbook":
            about, payload = _read_workbook(raw, sheet)
        else:
            about, payload = _read_r(raw) if kind == "R" else _read_statistics(raw, kind)
    except MemoryError:
        about = {"error": "memory"}
    except ImportError as error:
        about = {"error": "import", "detail": str(error.name)}
    except UnreadableError as error:
        about = {"error": "told", "detail": str(error)}
    except Exception as error:
        about = {"error": "damaged", "detail": " ".join(str(error).split())[:200]}
    out.write(json.dumps(about).encode() + b"\n" + payload)
    out.flush()


if __name__ == "__main__":
    main()
