"""How a table of text is written: encoding, separator, decimal sign and header, from its start."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cuspfa.data.tables.cells import is_missing, number, quoted
from cuspfa.data.tables.column_names import made_up_names, unique_names, without_quote
from cuspfa.data.tables.notes import SEPARATORS, Note, Spell, as_argument
from cuspfa.errors import DataError

LOOK_CHARACTERS, LOOK_CELLS = 1 << 20, 200_000
"""How much of a file is looked at to find out how it is written."""
FEWEST_NAMES = 4
"""Fewer numbers in a row are too few to call it counting."""
FEWEST_THOUSANDS = 2
"""So many cells with a sign before three digits are no accident."""
_SAID = re.compile(r"sep=([\t;|,])\r?\n", re.IGNORECASE)
_DECIMAL = {
    ",": re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII),
    ".": re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", re.ASCII),
}
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_BELOW_THOUSAND = re.compile(r"[+-]?\d{1,3}", re.ASCII)

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Reading:
    """What the user says of how a table is written, and how the user's arguments are spelt."""

    header: bool | None = None
    """Does the first row name the columns? None: find out."""
    decimal: str | None = None
    """The decimal sign; None: find out."""
    missing: Sequence[str | float] = ()
    """Words and numbers that stand for missing values."""
    spell: Spell = as_argument


USUAL = Reading()


@dataclass(frozen=True)
class Dialect:
    """How a table of text is written."""

    names: list[str]
    separator: str
    decimal: str
    encoding: str
    start: int
    """Bytes before the first row of data."""
    has_header: bool
    spare: bool
    """Is there a separator after the last cell of each row, and nothing behind it?"""
    notes: list[Note]

    @property
    def width(self) -> int:
        """Cells of a row."""
        return len(self.names) + self.spare

    def place(self, row: int) -> str:
        """A row of data, counted from 1, as it is called in messages."""
        return f"row {row} below the header" if self.has_header else f"row {row}"


def find_dialect(start: bytes, how: Reading = USUAL, *, whole: bool = True) -> Dialect:
    """Find out how a table is written, as far as it was not said.

    `start` is how it begins, or the `whole` of it.
    """
    text, encoding, mark, notes = decode(start, whole=whole)
    if not text.strip():
        raise DataError("there is nothing in it.")
    said = _SAID.match(text)  # a line by which Excel is told
    top = said.end() if said else 0
    separator = said[1] if said else _separator(text)
    stream = io.StringIO(text[top:], newline="")
    reader = csv.reader(stream, delimiter=separator)
    rows = _look(text[top:], separator)
    first, above = _first_row(reader)
    decimal = how.decimal or _decimal_sign(rows, separator)
    rows = rows[above + 1 :]
    header, guess = how.header, None
    if header is None:
        filled = [cell for cell in first if not is_missing(cell)]
        header = not all(number(cell, decimal) is not None for cell in filled)
        if not header:
            header = like_names(first, rows, decimal)
            guess = Note("header" if header else "no_header", count=len(first))
            guess = Note("empty_first_row", count=len(first)) if above and not header else guess
    names = list(map(without_quote, first)) if header else made_up_names(len(first))
    end = top + stream.tell() if header else top
    if whole and not text[end:].strip():
        raise DataError("it has a header and no rows.")
    widths = Counter(map(len, rows))
    usual = widths.most_common(1)[0][0] if widths else len(first)
    spare = usual == len(names) + 1 and all(not row[-1].strip() for row in rows if len(row) > 1)
    if usual == len(names) + 1 and not spare:
        names = ["row names", *names]
        notes.append(Note("row_names"))
    names, renamed = unique_names(names)
    if how.decimal is None:
        _check_thousands(rows, decimal, names, how.spell)
    written = [f"separated by {SEPARATORS[separator]}"] if len(names) > 1 else []
    written += ["with decimal commas"] if decimal == "," else []
    if written and (separator != "," or decimal == ","):
        notes.insert(0, Note("format", detail=" and ".join(written)))
    notes += ([guess] if guess else []) + renamed
    begin = mark + len(text[:end].encode(encoding))
    return Dialect(names, separator, decimal, encoding, begin, header, spare, notes)


def decode(start: bytes, *, whole: bool = True) -> tuple[str, str, int, list[Note]]:
    """The characters, their encoding, the bytes of a mark before them, and notes."""
    for mark, encoding in (
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF8, "utf-8"),
        (b"", "utf-8"),
        (b"", "cp1252"),
        (b"", "latin-1"),
    ):
        if not start.startswith(mark):
            continue
        if b"\0" in start[:LOOK_CHARACTERS] and not encoding.startswith("utf-16"):
            _refuse_zeros(start[:LOOK_CHARACTERS])
        try:
            decoder = codecs.getincrementaldecoder(encoding)()
            text = decoder.decode(start[len(mark) :], final=whole)
        except UnicodeDecodeError:
            continue
        notes = []
        if encoding != "utf-8":
            shown = {"cp1252": "Windows-1252", "latin-1": "Latin-1"}.get(encoding, "UTF-16")
            notes.append(Note("encoding", detail=shown))
        return text, encoding, len(mark), notes
    raise AssertionError("Latin-1 knows every byte")


def _refuse_zeros(start: bytes) -> None:
    """Bytes of zero: every other one of UTF-16, nearly so, and any of what is no text."""
    parts = (start[0::2], start[1::2])
    shares = sorted(part.count(0) / max(len(part), 1) for part in parts)
    if shares[0] == 0.0 and shares[1] > 0.5:
        raise DataError("it seems to be encoded in UTF-16, without the mark. Save it as UTF-8.")
    raise DataError(
        "this is no table of text, nor Parquet or Feather. Save it as CSV from the program "
        "that made it."
    )


def _first_row(reader: Any) -> tuple[list[str], int]:
    """The first row with a value, which may name the columns, and the rows above it.

    Empty lines are no rows; where no row has a value, the first one.
    """
    top: list[str] | None = None
    above = 0
    for row in _records(reader):
        if not any(not is_missing(cell) for cell in row):
            if len(row) > 1:
                top, above = top or row, above + 1
            continue
        return row, above
    if top is None:
        raise DataError("there is nothing in it.")
    return top, above


def _records(reader: Any) -> Iterator[list[str]]:
    """The rows of a reader; what it cannot read is a message."""
    try:
        yield from reader
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} cannot be read ({error}).") from None


def _look(text: str, separator: str) -> list[list[str]]:
    """The first rows that are not blank lines, the header among them."""
    cut = len(text) > LOOK_CHARACTERS
    stream = io.StringIO(text[:LOOK_CHARACTERS], newline="")
    rows, cells = [], 0
    try:
        for row in csv.reader(stream, delimiter=separator):
            if len(row) > 1 or any(not is_missing(cell) for cell in row):
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


# --- does the first row name the columns? ---


def like_names(first: Sequence[str], rows: Rows, decimal: str) -> bool:
    """Does a first row of numbers name the columns?

    So it seems if its numbers are whole and all different, and either every column below has
    decimals, or they count, up or down, beyond what the columns hold. The first cell may be empty,
    above a column that counts the rows.
    """
    if is_missing(first[0]) and _counts(_numbers(rows, 0, decimal)):
        first, rows = first[1:], [row[1:] for row in rows]
    values = [number(cell, decimal) for cell in first]
    names = [value for value in values if value is not None and value.is_integer()]
    if len(names) < len(first) or len(set(names)) < len(names) or len(names) < 2:
        return False
    below = [_numbers(rows, j, decimal) for j in range(len(first))]
    if not all(below):
        return False
    if all(any(not value.is_integer() for value in column) for column in below):
        return True
    steps = {after - before for before, after in pairwise(names)}
    outside = any(
        not min(column) <= name <= max(column) for name, column in zip(names, below, strict=True)
    )
    return len(names) >= FEWEST_NAMES and steps in ({1.0}, {-1.0}) and outside


def _counts(column: Sequence[float]) -> bool:
    return len(column) > 1 and all(after - before == 1 for before, after in pairwise(column))


def _numbers(rows: Rows, j: int, decimal: str) -> list[float]:
    found = (number(row[j], decimal) for row in rows if j < len(row) and not is_missing(row[j]))
    return [value for value in found if value is not None]


# --- decimal signs and thousands signs ---


def _decimal_sign(rows: Rows, separator: str) -> str:
    """A comma, if numbers are written with it and not with a point, and it is no thousands sign."""
    commas = points = 0
    clear = separator == ";"
    for row in rows:
        for cell in row:
            word = cell.strip()
            if "," in word and _DECIMAL[","].fullmatch(word):
                commas += 1
                clear = clear or not _THOUSANDS.fullmatch(word)
            elif "." in word and _DECIMAL["."].fullmatch(word):
                points += 1
    return "," if clear and commas > points else "."


def _check_thousands(rows: Rows, decimal: str, names: Sequence[str], spell: Spell) -> None:
    """Refuse a column in which the decimal sign looks like one of thousands.

    There all signs stand before exactly three digits, and numbers without one have no more than
    three: 871 and 1,082. Written with three decimals all numbers would have the sign; with zeros
    dropped at the end, some would have fewer digits behind it. A sign that is a decimal one beyond
    doubt anywhere in the table is one everywhere.
    """
    words = [[cell.strip() for cell in row] for row in rows]
    if any(decimal in word and _clear(word, decimal) for row in words for word in row):
        return
    for j, name in enumerate(names):
        column = [row[j] for row in words if j < len(row) and not is_missing(row[j])]
        grouped = [word for word in column if decimal in word and _THOUSANDS.fullmatch(word)]
        below = sum(_BELOW_THOUSAND.fullmatch(word) is not None for word in column)
        if len(grouped) >= FEWEST_THOUSANDS and below and len(grouped) + below == len(column):
            example = grouped[0]
            raise DataError(
                f"column {name!r}: does {quoted(example)} mean {example.replace(decimal, '')}, or "
                "has it three decimals? Save the table without thousands signs; if these are "
                f"decimal signs, say so: {spell('decimal', decimal)}."
            )


def _clear(word: str, decimal: str) -> bool:
    return bool(_DECIMAL[decimal].fullmatch(word)) and not _THOUSANDS.fullmatch(word)
