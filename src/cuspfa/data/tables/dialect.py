"""The dialect of a text table, found from its start: encoding, separator, decimal sign, header."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

from cuspfa._utils.arguments import must_be, one_of
from cuspfa._utils.spelling import Spell, as_argument
from cuspfa.data.tables.answers import Answers, as_order
from cuspfa.data.tables.cells import clean, is_missing, parse_number, quoted
from cuspfa.data.tables.column_names import made_up_names, unique_names, without_quote
from cuspfa.data.tables.labels import without_shared_questions
from cuspfa.data.tables.notes import SEPARATOR_NAMES, Note
from cuspfa.data.tables.read_options import ReadOptions
from cuspfa.errors import DataError

LOOK_CHARACTERS, LOOK_CELLS = 1 << 20, 200_000
"""How much of a file is used to find its dialect."""
FEWEST_COUNTED_NAMES = 4
"""Consecutive numbers in a first row from which on they may be names of columns."""
MOST_TITLES = 10
"""Rows above the names of the columns that are looked at."""
FEWEST_THOUSANDS = 2
"""Cells of the form 1,234 from which on the sign may separate thousands."""
_SAID = re.compile(r"sep=([\t;|,])\r?\n", re.IGNORECASE)
_DECIMAL = {
    ",": re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII),
    ".": re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", re.ASCII),
}
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_BELOW_THOUSAND = re.compile(r"[+-]?\d{1,3}", re.ASCII)

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Reading:
    """What the user says about the format of a table, and how arguments are spelt in messages."""

    header: bool | None = None
    """Does the first row name the columns? None: found from the file."""
    decimal: str | None = None
    """The decimal sign. None: found from the file."""
    missing: Sequence[str | float] = ()
    """Codes for missing values, besides those of `MISSING_WORDS`."""
    spell: Spell = as_argument
    sheet: str | int | None = None
    """The sheet of a workbook, by name or by number from 1 on. None: the first with cells."""
    order: tuple[tuple[str, ...], ...] = ()
    """Words of answers from low to high, for one or more scales."""
    answers: tuple[Answers, ...] = ()
    """Words and numbers of an earlier fit."""

    def options(
        self,
        memory_limit: int | str | None,
        columns: Sequence[str] = (),
        exclude: Sequence[str] = (),
        id_column: str | None = None,
    ) -> ReadOptions:
        """What the user said, as the provenance of a fit keeps it."""
        return ReadOptions(
            columns=tuple(columns),
            exclude=tuple(exclude),
            id_column=id_column,
            missing=tuple(one if isinstance(one, str) else f"{one:g}" for one in self.missing),
            header=self.header,
            decimal=self.decimal,
            memory_limit=None if memory_limit is None else str(memory_limit),
            sheet=None if self.sheet is None else str(self.sheet),
            order=self.order,
        )


DEFAULT_READING = Reading()


def as_reading(
    missing: Any, header: Any, decimal: Any, sheet: Any = None, order: Any = None
) -> Reading:
    """Arguments about the format of files, checked."""
    if header is not None and not isinstance(header, bool):
        raise must_be("header", "True, False or None", header)
    if decimal is not None:
        one_of("decimal", decimal, (".", ","))
    if sheet is not None and (isinstance(sheet, bool) or not isinstance(sheet, (str, Integral))):
        raise must_be("sheet", "a name, or a number from 1 on", sheet)
    codes = [missing] if isinstance(missing, (str, Real)) else list(missing)
    wrong = [code for code in codes if not isinstance(code, (str, Real))]
    if wrong:
        raise must_be("missing", "numbers and words", wrong[0])
    return Reading(
        header,
        decimal,
        tuple(c if isinstance(c, str) else float(c) for c in codes),
        sheet=sheet if sheet is None or isinstance(sheet, str) else int(sheet),
        order=as_order(order),
    )


@dataclass(frozen=True)
class Dialect:
    """How a text table is written."""

    names: list[str]
    separator: str
    decimal: str
    encoding: str
    start: int
    """Bytes before the first row of data."""
    has_header: bool
    spare: bool
    """Does each row end with a separator?"""
    notes: list[Note]
    labels: list[str] = field(default_factory=list)
    """Labels of the columns, if rows below the header hold them."""

    @property
    def width(self) -> int:
        """Number of cells in a row."""
        return len(self.names) + self.spare

    def place(self, row: int) -> str:
        """Name of a row of data in messages; rows are counted from 1."""
        return f"row {row} below the header" if self.has_header else f"row {row}"


def find_dialect(start: bytes, how: Reading = DEFAULT_READING, *, whole: bool = True) -> Dialect:
    """Find the dialect of a table, as far as it is not given.

    `start` is the beginning of the file, or the `whole` of it.
    """
    text, encoding, mark, notes = decode_text(start, whole=whole)
    if not text.strip():
        raise DataError("the file holds no cells.")
    said = _SAID.match(text)  # a line for Excel
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
        header = not all(parse_number(cell, decimal) is not None for cell in filled)
        if not header:
            header = like_names(first, rows, decimal)
            guess = Note("header" if header else "no_header", count=len(first))
            guess = Note("empty_first_row", count=len(first)) if above and not header else guess
    if header and how.header is None:
        _check_no_title(first, rows, decimal)
    labels: list[str] = []
    if header and len(rows) > 1 and _is_qualtrics(rows[1]):
        labels, questions = without_shared_questions([clean(cell) for cell in next(reader)])
        next(reader)
        rows = rows[2:]
        notes.append(Note("qualtrics"))
        notes += [Note("shared_question", detail=quoted(one, 200)) for one in questions]
    names = list(map(without_quote, first)) if header else made_up_names(len(first))
    end = top + stream.tell() if header else top
    if whole and not text[end:].strip():
        raise DataError("the file has a header and no rows.")
    widths = Counter(map(len, rows))
    usual = widths.most_common(1)[0][0] if widths else len(first)
    spare = usual == len(names) + 1 and all(not row[-1].strip() for row in rows if len(row) > 1)
    if usual == len(names) + 1 and not spare:
        names = ["row names", *names]
        notes.append(Note("row_names"))
    names, renamed = unique_names(names)
    if how.decimal is None:
        _check_thousands(rows, decimal, names, how.spell)
    written = [f"separated by {SEPARATOR_NAMES[separator]}"] if len(names) > 1 else []
    written += ["with decimal commas"] if decimal == "," else []
    if written and (separator != "," or decimal == ","):
        notes.insert(0, Note("format", detail=" and ".join(written)))
    notes += ([guess] if guess else []) + renamed
    begin = mark + len(text[:end].encode(encoding))
    return Dialect(names, separator, decimal, encoding, begin, header, spare, notes, labels)


def _check_no_title(first: Sequence[str], rows: Rows, decimal: str) -> None:
    """Refuse a table whose names of columns are below a title, or below names of groups of columns.

    They are the first row without numbers that is above one with numbers, and has more words than
    the first row of the table.
    """
    n_first = sum(not is_missing(cell) for cell in first)
    for k, (row, below) in enumerate(pairwise(rows[:MOST_TITLES])):
        words = [j for j, cell in enumerate(row) if not is_missing(cell)]
        if any(parse_number(row[j], decimal) is not None for j in words):
            return
        numbers = [parse_number(below[j], decimal) for j in words if j < len(below)]
        n_numbers = sum(one is not None for one in numbers)
        if len(words) > n_first and 2 * n_numbers > len(words):
            shown = ", ".join(quoted(row[j]) for j in words[:3])
            raise DataError(
                f"the names of the columns seem to be in row {k + 2} ({shown}, …), below "
                f"{quoted(next(cell for cell in first if not is_missing(cell)))}. The first row "
                "must hold the names of the columns: remove lines above it."
            )


def _is_qualtrics(row: Sequence[str]) -> bool:
    """Is it the third row of a table of Qualtrics, which has a code of each question?"""
    filled = [cell for cell in row if cell.strip()]
    return bool(filled) and all("ImportId" in cell and "{" in cell for cell in filled)


def decode_text(start: bytes, *, whole: bool = True) -> tuple[str, str, int, list[Note]]:
    """The text, its encoding, the length of its byte-order mark, and notes."""
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
    raise AssertionError("Latin-1 decodes every byte")


def _refuse_zeros(start: bytes) -> None:
    """The error for zero bytes: UTF-16 without a byte-order mark, or a file that is not text."""
    parts = (start[0::2], start[1::2])
    shares = sorted(part.count(0) / max(len(part), 1) for part in parts)
    if shares[0] == 0.0 and shares[1] > 0.5:
        raise DataError("the file seems to be UTF-16 without a byte-order mark. Save it as UTF-8.")
    raise DataError(
        "the file is neither a text table nor Parquet or Feather. Save the table as CSV from the "
        "program that made it."
    )


def _first_row(reader: Any) -> tuple[list[str], int]:
    """The first row with a value, which may name the columns, and the number of rows above it.

    Empty lines are not counted. Where no row has a value, the first row is returned.
    """
    top: list[str] | None = None
    above = 0
    for row in records(reader):
        if not any(not is_missing(cell) for cell in row):
            if len(row) > 1:
                top, above = top or row, above + 1
            continue
        return row, above
    if top is None:
        raise DataError("the file holds no cells.")
    return top, above


def records(reader: Any) -> Iterator[list[str]]:
    """The rows of a reader; a line that cannot be read is a DataError."""
    try:
        yield from reader
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} cannot be read ({error}).") from None


def _look(text: str, separator: str) -> list[list[str]]:
    """The first rows that are not blank, with the header."""
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
    except csv.Error:  # reported when the whole file is read
        return rows
    return rows[:-1] if cut and len(rows) > 2 else rows


def _separator(text: str) -> str:
    """The separator by which most rows have as many cells as the first row, or one more."""
    best, agreement = ",", 0.0
    for separator in SEPARATOR_NAMES:
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

    It does if its numbers are distinct and whole, and either every column below has decimals, or
    the numbers are consecutive and outside the range of a column. The first cell may be empty above
    a column that counts the rows.
    """
    if is_missing(first[0]) and _is_consecutive(_column_numbers(rows, 0, decimal)):
        first, rows = first[1:], [row[1:] for row in rows]
    values = [parse_number(cell, decimal) for cell in first]
    names = [value for value in values if value is not None and value.is_integer()]
    if len(names) < len(first) or len(set(names)) < len(names) or len(names) < 2:
        return False
    below = [_column_numbers(rows, j, decimal) for j in range(len(first))]
    if not all(below):
        return False
    if all(any(not value.is_integer() for value in column) for column in below):
        return True
    steps = {after - before for before, after in pairwise(names)}
    outside = any(
        not min(column) <= name <= max(column) for name, column in zip(names, below, strict=True)
    )
    return len(names) >= FEWEST_COUNTED_NAMES and steps in ({1.0}, {-1.0}) and outside


def _is_consecutive(column: Sequence[float]) -> bool:
    return len(column) > 1 and all(after - before == 1 for before, after in pairwise(column))


def _column_numbers(rows: Rows, j: int, decimal: str) -> list[float]:
    found = (
        parse_number(row[j], decimal) for row in rows if j < len(row) and not is_missing(row[j])
    )
    return [value for value in found if value is not None]


# --- decimal signs and thousands separators ---


def _decimal_sign(rows: Rows, separator: str) -> str:
    """A comma, if it is the sign of most decimal numbers and no thousands separator."""
    commas = points = 0
    clear = separator == ";"
    for row in rows:
        for cell in row:
            word = cell.strip()
            if "," in word and _DECIMAL[","].fullmatch(word):
                commas += 1
                clear = clear or not _GROUPED.fullmatch(word)
            elif "." in word and _DECIMAL["."].fullmatch(word):
                points += 1
    return "," if clear and commas > points else "."


def _check_thousands(rows: Rows, decimal: str, names: Sequence[str], spell: Spell) -> None:
    """Refuse a column in which the decimal sign may separate thousands.

    In such a column three digits follow every sign, and numbers without a sign have at most three
    digits: 871 and 1,082. Numbers with three decimals would all have the sign, and without trailing
    zeros some would have fewer decimals. One number in the table that is clearly decimal settles
    the question for all columns.
    """
    words = [[cell.strip() for cell in row] for row in rows]
    if any(decimal in word and _clear(word, decimal) for row in words for word in row):
        return
    for j, name in enumerate(names):
        column = [row[j] for row in words if j < len(row) and not is_missing(row[j])]
        grouped = [word for word in column if decimal in word and _GROUPED.fullmatch(word)]
        below = sum(_BELOW_THOUSAND.fullmatch(word) is not None for word in column)
        if len(grouped) >= FEWEST_THOUSANDS and below and len(grouped) + below == len(column):
            example = grouped[0]
            raise DataError(
                f"column {name!r}: does {quoted(example)} mean {example.replace(decimal, '')}, or "
                "has it three decimals? Save the table without thousands separators; if these are "
                f"decimal signs, say so: {spell('decimal', decimal)}."
            )


def _clear(word: str, decimal: str) -> bool:
    return bool(_DECIMAL[decimal].fullmatch(word)) and not _GROUPED.fullmatch(word)
