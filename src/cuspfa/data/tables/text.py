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

from cuspfa._utils.optional import needed, optional
from cuspfa.data.tables.cells import (
    EMPTY,
    NONE,
    Column,
    Missing,
    column_of_numbers,
    column_of_texts,
    quoted,
    unique_names,
)
from cuspfa.data.tables.number_format import check_thousands, decimal_sign
from cuspfa.data.tables.text_format import (
    LOOK_CELLS,
    LOOK_CHARACTERS,
    MISSING_SPELLINGS,
    all_numbers,
    as_it_was,
    first_row_said,
    is_missing,
    like_names,
    made_up_names,
)
from cuspfa.errors import DataError

SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
"""In the order of preference where several would do: commas may be decimal ones."""
_SAID = re.compile(r"sep=([\t;|,])\r?\n", re.IGNORECASE)


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
    guess: str = ""
    """What was assumed of a first row of numbers: to be heard in any case."""


def decode(raw: bytes) -> tuple[str, list[str]]:
    """The characters, and a remark if they are not in UTF-8."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return raw.decode("utf-16"), ["Encoded in UTF-16."]
        except UnicodeDecodeError:
            pass
    start = raw[:LOOK_CHARACTERS]
    if b"\0" in start:
        if _every_other_is_zero(start):
            raise DataError("it seems to be encoded in UTF-16, without the mark. Save it as UTF-8.")
        raise DataError(
            "this is no table of text, nor Parquet or Feather. Save it as CSV from the program "
            "that made it."
        )
    try:
        return raw.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        pass
    try:
        return raw.decode("cp1252"), ["Not encoded in UTF-8; read as Windows-1252."]
    except UnicodeDecodeError:
        return raw.decode("latin-1"), ["Not encoded in UTF-8; read as Latin-1."]


def _every_other_is_zero(start: bytes) -> bool:
    """Nearly so: what UTF-16 makes of a table of numbers."""
    parts = (start[0::2], start[1::2])
    shares = sorted(part.count(0) / max(len(part), 1) for part in parts)
    return shares[0] == 0.0 and shares[1] > 0.5


def take_apart(raw: bytes, *, header: bool | None = None, decimal: str | None = None) -> Text:
    """Find out how a table is written, as far as it was not said; the cells are not read yet."""
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
    told, decimal = decimal, decimal or decimal_sign(sample, separator)
    body, line, guess = text[stream.tell() :], reader.line_num + 1, ""
    names = list(map(as_it_was, first))
    if all_numbers(first, decimal) and header is None:
        header = like_names(first, rows, decimal)
        guess = first_row_said(header, len(first))
        guess += " If it is data: --no-header" if header else " If it names the columns: --header"
    if header is False:
        body, line = text, 1
        names = made_up_names(len(first))
    spare = usual == len(names) + 1 and all(not row[-1].strip() for row in rows if len(row) > 1)
    if usual == len(names) + 1 and not spare:
        names = ["row names", *names]
        notes.append("The rows have one cell more than the header: taken as names of rows.")
    names, renamed = unique_names(names)
    if told is None:
        check_thousands(rows, decimal, names)
    written = [f"separated by {SEPARATORS[separator]}"] if len(names) > 1 else []
    written += ["with decimal commas"] if decimal == "," else []
    unusual = separator != "," or decimal == ","
    notes = ([f"Cells {' and '.join(written)}."] if written and unusual else []) + notes
    notes += [guess] if guess else []
    return Text(body, names, separator, decimal, notes + renamed, spare, line, guess)


def read_columns(
    text: Text, as_text: int | None, missing: Missing = NONE
) -> tuple[list[Column], list[str] | None]:
    """The columns; and that at `as_text` cell by cell as it is written, leading zeros and all."""
    arrow = optional("pyarrow.csv")
    if not text.body.strip():
        raise DataError("it has a header and no rows.")
    if arrow is None:
        return _by_python(text, as_text, missing)
    return _by_arrow(text, as_text, missing, arrow)


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


# --- its cells ---


def _by_arrow(
    text: Text, as_text: int | None, missing: Missing, arrow: Any
) -> tuple[list[Column], list[str] | None]:
    pyarrow = needed("pyarrow", "This", "files")
    width = len(text.names) + text.spare
    odd: list[Any] = []

    def on_odd_row(row: Any) -> str:
        odd.append(row)
        return "error"

    types = {} if as_text is None else {str(as_text): pyarrow.string()}
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
                null_values=MISSING_SPELLINGS,
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
            columns.append(column_of_texts(name, cells, text.decimal, missing))
        else:
            columns.append(column_of_arrow(name, chunks, missing))
    return columns, ids


def column_of_arrow(name: str, chunks: Any, missing: Missing = NONE) -> Column:
    """A column of any type that Arrow knows."""
    pyarrow = needed("pyarrow", "This", "files")
    types = pyarrow.types
    kind = chunks.type
    if types.is_dictionary(kind):
        return column_of_arrow(name, chunks.cast(kind.value_type), missing)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column_of_texts(name, chunks.to_pylist(), missing=missing)
    if types.is_null(kind):
        return Column(name, len(chunks), len(chunks), None, EMPTY)
    truth = types.is_boolean(kind)
    if truth:
        chunks = chunks.cast(pyarrow.int8())
        kind = chunks.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = chunks.cast(pyarrow.float64(), safe=False)
        return column_of_numbers(name, numbers.to_numpy(), truth=truth, missing=missing)
    n, n_missing = len(chunks), chunks.null_count
    if n_missing == n:
        return Column(name, n, n_missing, None, EMPTY)
    if types.is_temporal(kind):
        example = quoted(str(chunks.drop_null()[0].as_py()))
        return Column(name, n, n_missing, None, "dates or times", example)
    return Column(name, n, n_missing, None, f"values of type {quoted(str(kind))}, not numbers")


def _by_python(
    text: Text, as_text: int | None, missing: Missing
) -> tuple[list[Column], list[str] | None]:
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
            ids = ["" if is_missing(cell) else str(cell) for cell in cells]
        columns.append(column_of_texts(name, cells, text.decimal, missing))
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
