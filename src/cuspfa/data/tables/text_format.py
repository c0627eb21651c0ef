"""How tables of text are written: what stands for a missing value or a number, whether the first
row names the columns, and how names are written so that no spreadsheet runs them. One rule for
tables that are read or written as a whole and for those by blocks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

MISSING_WORDS = ("", "NA", "N/A", "#N/A", "NaN", "null", ".", "-")
"""What stands for a missing value, in capitals or not."""
MISSING_SPELLINGS = sorted(
    {spelling for word in MISSING_WORDS for spelling in (word, word.lower(), word.upper())}
)
"""The same for readers that tell capitals from small letters."""
LOOK_CHARACTERS, LOOK_CELLS = 1 << 20, 200_000
"""How much of a file is looked at to find out how it is written."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that a spreadsheet takes for a formula."""
FEWEST_NAMES = 4
"""Fewer numbers in a row are too few to call it counting."""
_MISSING_WORDS = frozenset(word.lower() for word in MISSING_WORDS)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)

Rows = Sequence[Sequence[str]]


def is_missing(cell: str | None) -> bool:
    """Does it stand for a missing value?"""
    return cell is None or cell.strip().lower() in _MISSING_WORDS


def number(cell: str, decimal: str = ".") -> float | None:
    """The number a cell holds, infinity included; None if it holds something else."""
    text = cell.strip()
    if decimal == ",":
        text = text.replace(",", ".", 1) if "." not in text else ""
    if _NUMBER.fullmatch(text) or _INFINITE.fullmatch(text):
        return float(text)
    return None


def all_numbers(row: Sequence[str], decimal: str) -> bool:
    """Is there nothing but numbers, and at least one? Cells may be missing."""
    filled = [cell for cell in row if not is_missing(cell)]
    return bool(filled) and all(number(cell, decimal) is not None for cell in filled)


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


def made_up_names(number_of_columns: int) -> list[str]:
    """Of columns that have none."""
    return [f"x{j}" for j in range(1, number_of_columns + 1)]


def first_row_said(names: bool, number_of_columns: int) -> str:
    """What was taken a first row of numbers for."""
    if names:
        return (
            "The first row holds whole numbers, all different, above other numbers: taken as names "
            "of the columns."
        )
    return (
        "The first row holds numbers only: taken as data, and the columns called x1 to "
        f"x{number_of_columns}."
    )


def not_a_formula(text: str) -> str:
    """A name or a label as it is written to CSV: spreadsheets run what begins as a formula does.

    A single quote before it makes it text (OWASP's rule); numbers stay as they are.
    """
    return f"'{text}" if text.startswith(FORMULA) and number(text) is None else text


def as_it_was(text: str) -> str:
    """A name without the quote that `not_a_formula` put before it."""
    return text[1:] if text.startswith("'") and not_a_formula(text[1:]) == text else text


def _numbers(rows: Rows, j: int, decimal: str) -> list[float]:
    found = (number(row[j], decimal) for row in rows if j < len(row) and not is_missing(row[j]))
    return [value for value in found if value is not None]
