"""From cells of text to columns: numbers with missing values, or the reason for dropping them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.optional import needed
from cuspfa._utils.spelling import Spell
from cuspfa._utils.wording import counted
from cuspfa.data.tables.notes import DropCode, DroppedColumn
from cuspfa.errors import DataError

MISSING_WORDS = ("", "NA", "N/A", "#N/A", "NaN", "null", ".", "-")
"""Cells that stand for a missing value, in upper or lower case."""
MISSING_SPELLINGS = sorted(
    {spelling for word in MISSING_WORDS for spelling in (word, word.lower(), word.upper())}
)
"""`MISSING_WORDS` in upper and lower case, for readers that distinguish case."""
_MISSING_WORDS = frozenset(word.lower() for word in MISSING_WORDS)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([ T]\d.*)?"  # 2021-03-28, 2021-03-28T12:30
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( \d.*)?"  # 28.03.2021, 3/28/21 12:30
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d*)?)?"  # 12:30:05
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,' \u00a0\u2009\u202f’]\d{3})+([.,]\d+)?", re.ASCII)
_PER_CENT = re.compile(r"[+-]?\d*[.,]?\d+\s?%")
NUMBERS_SHARE = 0.5
"""Share of numbers from which on a column is reported as numbers with other values among them."""


@dataclass(frozen=True, eq=False)
class ParsedColumn:
    """One column of a table."""

    name: str
    n_rows: int
    n_missing: int
    numbers: Array | None
    """(n,) values, some possibly infinite, NaN where missing; None if they are not numbers."""
    dropped: DroppedColumn | None = None
    """Why it is dropped, if it does not hold numbers."""
    truth: bool = False
    """Were true and false read as 1 and 0?"""
    coded: int = 0
    """Missing values that are codes of the user."""


class MissingCodes(NamedTuple):
    """The user's codes for missing values, besides `MISSING_WORDS`."""

    numbers: tuple[float, ...] = ()
    words: frozenset[str] = frozenset()
    """In lower case."""

    @property
    def any(self) -> bool:
        """Are there any codes?"""
        return bool(self.numbers or self.words)

    def takes(self, value: float | None, cell: str) -> bool:
        """Is a cell, or the number in it, a code?"""
        return value in self.numbers or cell.strip().lower() in self.words


NO_CODES = MissingCodes()


def missing_codes(given: Sequence[str | float]) -> MissingCodes:
    """Codes sorted into numbers, in any notation, and words."""
    numbers, words = [], set()
    for code in given:
        value = parse_number(code) if isinstance(code, str) else float(code)
        if value is None:
            words.add(str(code).strip().lower())
        else:
            numbers.append(value)
    return MissingCodes(tuple(numbers), frozenset(words))


def is_missing(cell: str | None) -> bool:
    """Does a cell stand for a missing value?"""
    return cell is None or cell.strip().lower() in _MISSING_WORDS


def parse_number(cell: str, decimal: str = ".") -> float | None:
    """The number a cell holds, infinity included; None if it holds something else."""
    text = cell.strip()
    if decimal == ",":
        text = text.replace(",", ".", 1) if "." not in text else ""
    if _NUMBER.fullmatch(text) or _INFINITE.fullmatch(text):
        return float(text)
    return None


def clean(name: str) -> str:
    """A name on one line, without outer spaces and unprintable characters."""
    return " ".join("".join(c for c in name if c.isprintable() or c.isspace()).split())


def quoted(text: str, longest: int = 20) -> str:
    """A text in quotes, shortened, as an example."""
    short = clean(text)
    return f'"{short[: longest - 1]}…"' if len(short) > longest else f'"{short}"'


def column_of_texts(
    name: str, cells: Sequence[str | None], decimal: str = ".", missing: MissingCodes = NO_CODES
) -> ParsedColumn:
    """A column of text cells: numbers, truth values as 1 and 0, or a reason for dropping it."""
    known: dict[str | None, float | None] = {}
    for cell in set(cells):
        value = np.nan if is_missing(cell) else parse_number(cell or "", decimal)
        known[cell] = np.nan if missing.takes(value, cell or "") else value
    values = [known[cell] for cell in cells]
    n_missing = sum(1 for value in values if value is not None and np.isnan(value))
    coded = n_missing - sum(map(is_missing, cells)) if missing.any else 0
    if n_missing == len(cells) or all(value is not None for value in values):
        column = column_of_numbers(name, np.array(values, dtype=float))
        return replace(column, coded=coded)
    words = [cell.strip() for cell in cells if cell is not None and known[cell] is None]
    if n_missing + len(words) == len(cells) and all(w.lower() in ("true", "false") for w in words):
        truth = [np.nan if known[cell] is not None else float(_is_true(cell)) for cell in cells]
        return replace(column_of_numbers(name, np.array(truth)), truth=True, coded=coded)
    dropped = _text_column(name, words, len(cells) - n_missing)
    return ParsedColumn(name, len(cells), n_missing, None, dropped, coded=coded)


def words_undecided(column: ParsedColumn, odd: str) -> ParsedColumn:
    """A column of text as one of words whose order is not known; `odd` is in no known scale."""
    why = column.dropped
    if why is None or why.code != "text":
        return column
    if odd:
        return replace(column, dropped=replace(why, code="odd_word", example=f": {quoted(odd)}"))
    return replace(column, dropped=replace(why, code="words"))


def column_of_numbers(name: str, values: Array, missing: MissingCodes = NO_CODES) -> ParsedColumn:
    """A column of numbers. Infinite values stay; `check_finite` refuses them in a used column."""
    numbers, coded = np.array(values, dtype=float), 0
    if missing.numbers:
        codes = np.isin(numbers, missing.numbers)
        numbers[codes] = np.nan
        coded = int(codes.sum())
    n_missing = int(np.isnan(numbers).sum())
    empty = DroppedColumn(name, "empty") if n_missing == len(numbers) else None
    return ParsedColumn(
        name, len(numbers), n_missing, None if empty else numbers, dropped=empty, coded=coded
    )


def column_of_arrow(
    name: str, chunks: Any, missing: MissingCodes = NO_CODES, decimal: str = "."
) -> ParsedColumn:
    """A column of any type that Arrow knows."""
    pyarrow = needed("pyarrow", "Reading tables", "files")
    types, kind, n = pyarrow.types, chunks.type, len(chunks)
    if types.is_dictionary(kind):
        return column_of_arrow(name, chunks.cast(kind.value_type), missing, decimal)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column_of_texts(name, chunks.to_pylist(), decimal, missing)
    if is_number_type(kind):
        chunks = chunks.cast(pyarrow.int8()) if types.is_boolean(kind) else chunks
        numbers = chunks.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
        column = column_of_numbers(name, numbers, missing)
        return replace(column, truth=types.is_boolean(kind))
    if chunks.null_count == n:
        dropped = DroppedColumn(name, "empty")
    elif types.is_temporal(kind):
        example = quoted(str(chunks.drop_null()[0].as_py()))
        dropped = DroppedColumn(name, "dates", example=f", such as {example}")
    else:
        dropped = DroppedColumn(name, "type", detail=quoted(str(kind)))
    return ParsedColumn(name, n, chunks.null_count, None, dropped)


def is_number_type(kind: Any) -> bool:
    """Are all values of this Arrow type numbers, truth values or missing?"""
    types = needed("pyarrow", "Reading tables", "files").types
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(test(kind) for test in tests)


def check_finite(column: ParsedColumn, source: str, spell: Spell) -> None:
    """Refuse infinite values in a column that is used."""
    if column.numbers is None:
        return
    infinite = np.isinf(column.numbers)
    if infinite.any():
        raise DataError(
            f"{source}: column {column.name!r} has "
            f"{counted(int(infinite.sum()), 'infinite value')}, the first in row "
            f"{int(np.argmax(infinite)) + 1}. Correct them, leave the column out, or take them as "
            "missing: "
            f"{spell('missing', ('inf', '-inf'))}"
        )


def _is_true(cell: str | None) -> bool:
    return cell is not None and cell.strip().lower() == "true"


def _text_column(name: str, words: list[str], filled: int) -> DroppedColumn:
    code: DropCode
    if all(_THOUSANDS.fullmatch(word) for word in words):
        code = "thousands"
    elif all(_PER_CENT.fullmatch(word) for word in words):
        code = "per_cent"
    elif len(words) <= (1 - NUMBERS_SHARE) * filled:
        code = "mixed"
    else:
        code = "dates" if all(_DATE.fullmatch(word) for word in words) else "text"
    example = f", such as {quoted(words[0])}"
    return DroppedColumn(name, code, len(words), filled, example=example)
