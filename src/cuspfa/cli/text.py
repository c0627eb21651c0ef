"""Tables of text: their encoding, separator, decimal sign and header are found out."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cuspfa.cli.cells import (
    EMPTY,
    HOLES,
    Column,
    column_of_numbers,
    column_of_texts,
    is_hole,
    number,
    quoted,
    unique_names,
)
from cuspfa.cli.packages import needed, optional
from cuspfa.errors import DataError

SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
"""In the order of preference where several would do: commas may be decimal ones."""
LOOK_CHARACTERS, LOOK_CELLS = 1 << 20, 200_000
"""How much of a file is looked at to find out how it is written."""
_SAID = re.compile(r"sep=([\t;|,])\r?\n", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Text:
    """A table of text, taken apart as far as is needed to read its cells."""

    body: str
    """All below the header."""
    names: list[str]
    separator: str
    decimal: str
    notes: list[str]
    """What had to be found out or assumed, said aloud."""
    spare: bool
    """Is there a separator after the last cell of each row, and nothing behind it?"""
    first_line: int
    """Where the body begins, counted from 1."""


def decode(raw: bytes) -> tuple[str, list[str]]:
    """The characters, and a remark if they are not in UTF-8."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return raw.decode("utf-16"), ["Encoded in UTF-16."]
        except UnicodeDecodeError:
            pass
    if b"\0" in raw[:LOOK_CHARACTERS]:
        raise DataError(
            "this is no table of text, nor Parquet or Feather. Save it as CSV from the program "
            "that made it."
        )
    try:
        return raw.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return raw.decode("latin-1"), ["Not encoded in UTF-8; read as Latin-1."]


def take_apart(raw: bytes) -> Text:
    """Find out how a table is written; the cells are not read yet."""
    text, notes = decode(raw)
    if not text.strip():
        raise DataError("there is nothing in it.")
    said = _SAID.match(text)  # a line by which Excel is told
    if said:
        text = text[said.end() :]
    separator = said[1] if said else _separator(text)
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, delimiter=separator)
    first = next(row for row in _records(reader) if any(cell.strip() for cell in row))
    sample = _look(text, separator)
    rows = sample[1:]
    widths = Counter(map(len, rows))
    usual = widths.most_common(1)[0][0] if widths else len(first)
    decimal = _decimal(sample, separator)
    body, names, line = text[stream.tell() :], first, reader.line_num + 1
    if _all_numbers(first, decimal):
        body, line = text, 1
        names = [f"x{j}" for j in range(1, len(first) + 1)]
        notes.append(
            f"The first row holds numbers only: taken as data, and the columns called x1 to "
            f"x{len(first)}."
        )
    spare = usual == len(names) + 1 and all(not row[-1].strip() for row in rows if len(row) > 1)
    if usual == len(names) + 1 and not spare:
        names = ["row names", *names]
        notes.append("The rows have one cell more than the header: taken as names of rows.")
    names, renamed = unique_names(names)
    written = [f"separated by {SEPARATORS[separator]}"] if len(names) > 1 else []
    written += ["with decimal commas"] if decimal == "," else []
    unusual = separator != "," or decimal == ","
    notes = ([f"Cells {' and '.join(written)}."] if written and unusual else []) + notes
    return Text(body, names, separator, decimal, notes + renamed, spare, line)


def read_columns(text: Text, as_text: int | None) -> tuple[list[Column], list[str] | None]:
    """The columns; and that at `as_text` cell by cell as it is written, leading zeros and all."""
    arrow = optional("pyarrow.csv")
    if not text.body.strip():
        raise DataError("it has a header and no rows.")
    if arrow is None:
        return _by_python(text, as_text)
    return _by_arrow(text, as_text, arrow)


# --- how it is written ---


def _records(reader: Any) -> Iterator[list[str]]:
    """The rows of a reader; what it cannot read is a message."""
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise DataError(f"line {reader.line_num} cannot be read ({error}).") from None
        if row is None:
            return
        yield row


def _look(text: str, separator: str) -> list[list[str]]:
    """The first rows that are not empty, the header among them."""
    cut = len(text) > LOOK_CHARACTERS
    stream = io.StringIO(text[:LOOK_CHARACTERS], newline="")
    rows, cells = [], 0
    try:
        for row in csv.reader(stream, delimiter=separator):
            if any(cell.strip() for cell in row):
                rows.append(row)
                cells += len(row)
            if cells > LOOK_CELLS:
                return rows
    except csv.Error:  # told when the whole is read
        return rows
    return rows[:-1] if cut and len(rows) > 2 else rows


def _separator(text: str) -> str:
    """The one by which most rows have as many cells as the first, or one more."""
    best, agreement = ",", 0.0
    for separator in SEPARATORS:
        rows = _look(text, separator)
        if not rows or len(rows[0]) < 2:
            continue
        width = len(rows[0])
        share = sum(len(row) in (width, width + 1) for row in rows) / len(rows)
        if share > agreement + 0.01:
            best, agreement = separator, share
    return best


def _all_numbers(row: list[str], decimal: str) -> bool:
    filled = [cell for cell in row if not is_hole(cell)]
    return bool(filled) and all(number(cell, decimal) is not None for cell in filled)


def _decimal(rows: list[list[str]], separator: str) -> str:
    """A comma, if numbers are written with it and not with a point, and it is no thousands sign."""
    commas = points = 0
    clear = separator == ";"
    for row in rows:
        for cell in row:
            word = cell.strip()
            if "," in word and _DECIMAL_COMMA.fullmatch(word):
                commas += 1
                clear = clear or not _THOUSANDS.fullmatch(word)
            elif "." in word and _DECIMAL_POINT.fullmatch(word):
                points += 1
    return "," if clear and commas > points else "."


# --- its cells ---


def _by_arrow(text: Text, as_text: int | None, arrow: Any) -> tuple[list[Column], list[str] | None]:
    pyarrow = needed("pyarrow", "This", "files")
    width = len(text.names) + text.spare
    odd: list[Any] = []

    def on_odd_row(row: Any) -> str:
        odd.append(row)
        return "error"

    types = {} if as_text is None else {str(as_text): pyarrow.string()}
    words = {spelling for word in HOLES for spelling in (word, word.lower(), word.upper())}
    body = text.body.encode()
    try:
        table = arrow.read_csv(
            pyarrow.BufferReader(body),
            read_options=arrow.ReadOptions(
                column_names=[str(j) for j in range(width)],
                use_threads=False,
                block_size=max(1 << 20, min(len(body) + 1, 1 << 26)),
            ),
            parse_options=arrow.ParseOptions(
                delimiter=text.separator, newlines_in_values=True, invalid_row_handler=on_odd_row
            ),
            convert_options=arrow.ConvertOptions(
                null_values=sorted(words),
                strings_can_be_null=True,
                decimal_point=text.decimal,
                column_types=types,
            ),
        )
    except pyarrow.ArrowInvalid as error:
        if odd:
            raise _uneven(odd[0].number, odd[0].actual_columns, text) from None
        raise DataError(f"it cannot be read ({error}).") from None
    columns = []
    ids: list[str] | None = None
    for j, name in enumerate(text.names):
        chunks = table.column(j)
        if j == as_text:
            ids = ["" if cell is None else str(cell) for cell in chunks.to_pylist()]
        if pyarrow.types.is_string(chunks.type):
            cells = chunks.to_pylist()
            _check_quotes(cells, text)
            columns.append(column_of_texts(name, cells, text.decimal))
        else:
            columns.append(column_of_arrow(name, chunks))
    return columns, ids


def column_of_arrow(name: str, chunks: Any) -> Column:
    """A column of any type that Arrow knows."""
    pyarrow = needed("pyarrow", "This", "files")
    types = pyarrow.types
    kind = chunks.type
    if types.is_dictionary(kind):
        return column_of_arrow(name, chunks.cast(kind.value_type))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column_of_texts(name, chunks.to_pylist())
    if types.is_null(kind):
        return Column(name, len(chunks), len(chunks), None, EMPTY)
    truth = types.is_boolean(kind)
    if truth:
        chunks = chunks.cast(pyarrow.int8())
        kind = chunks.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = chunks.cast(pyarrow.float64(), safe=False)
        return column_of_numbers(name, numbers.to_numpy(), truth=truth)
    n, holes = len(chunks), chunks.null_count
    if holes == n:
        return Column(name, n, holes, None, EMPTY)
    if types.is_temporal(kind):
        example = quoted(str(chunks.drop_null()[0].as_py()))
        return Column(name, n, holes, None, f"dates or times, such as {example}")
    return Column(name, n, holes, None, f"values of type {quoted(str(kind))}, not numbers")


def _by_python(text: Text, as_text: int | None) -> tuple[list[Column], list[str] | None]:
    width = len(text.names) + text.spare
    stream = io.StringIO(text.body, newline="")
    rows: list[list[str]] = []
    reader = csv.reader(stream, delimiter=text.separator)
    for row in _records(reader):
        if not row:
            continue
        if len(row) != width:
            raise _uneven(len(rows) + 1, len(row), text)
        rows.append(row)
    columns = []
    ids: list[str] | None = None
    for j, name in enumerate(text.names):
        cells: list[str | None] = [row[j] for row in rows]
        _check_quotes(cells, text)
        if j == as_text:
            ids = ["" if is_hole(cell) else str(cell) for cell in cells]
        columns.append(column_of_texts(name, cells, text.decimal))
    return columns, ids


def _uneven(row: int | None, cells: int, text: Text) -> DataError:
    where = "a row" if row is None else f"row {row} below the header"
    if text.first_line == 1 and row is not None:
        where = f"row {row}"
    if len(text.names) == 1:
        return DataError(
            f"{where} has {cells} cells, and the header one. The first line must hold the names of "
            "the columns: remove what is above it."
        )
    return DataError(
        f"{where} has {cells} cell(s) where {len(text.names)} are expected. Look for a missing or "
        "extra separator there, or for one inside a text without quotes."
    )


def _check_quotes(cells: list[str | None], text: Text) -> None:
    """A quote that is never closed swallows all rows below it."""
    last = cells[-1] if cells else None
    if last is not None and "\n" in last and text.body.count('"') % 2:
        raise DataError(
            f"row {len(cells)} below the header opens a quote that is not closed. Close it."
        )
