"""How numbers are written in a table of text: decimal signs, thousands signs, and a first row of
numbers that may be the names of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from cuspfa.cli.cells import is_hole, number, quoted
from cuspfa.errors import DataError

_DECIMAL = {
    ",": re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII),
    ".": re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", re.ASCII),
}
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_BELOW_THOUSAND = re.compile(r"[+-]?\d{1,3}", re.ASCII)
FEWEST_THOUSANDS = 2
"""So many cells with a sign before three digits are no accident."""
FEWEST_NAMES = 4
"""Fewer numbers in a row are too few to call it counting."""

Rows = Sequence[Sequence[str]]


def decimal_sign(rows: Rows, separator: str) -> str:
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


def check_thousands(rows: Rows, decimal: str, names: Sequence[str]) -> None:
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
        column = [row[j] for row in words if j < len(row) and not is_hole(row[j])]
        grouped = [word for word in column if decimal in word and _THOUSANDS.fullmatch(word)]
        below = sum(_BELOW_THOUSAND.fullmatch(word) is not None for word in column)
        if len(grouped) >= FEWEST_THOUSANDS and below and len(grouped) + below == len(column):
            example = grouped[0]
            raise DataError(
                f"column {name!r}: does {quoted(example)} mean {example.replace(decimal, '')}, or "
                "has it three decimals? Save the table without thousands signs; if these are "
                f"decimal signs, say so: --decimal {'comma' if decimal == ',' else 'point'}."
            )


def _clear(word: str, decimal: str) -> bool:
    return bool(_DECIMAL[decimal].fullmatch(word)) and not _THOUSANDS.fullmatch(word)


def all_numbers(row: Sequence[str], decimal: str) -> bool:
    """Is there nothing but numbers, and at least one?"""
    filled = [cell for cell in row if not is_hole(cell)]
    return bool(filled) and all(number(cell, decimal) is not None for cell in filled)


def like_names(first: Sequence[str], rows: Rows, decimal: str) -> bool:
    """Does a first row of numbers name the columns?

    So it seems if its numbers are whole and all different, and either every column below has
    decimals, or they count, up or down, beyond what the columns hold.
    """
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


def _numbers(rows: Rows, j: int, decimal: str) -> list[float]:
    found = (number(row[j], decimal) for row in rows if j < len(row) and not is_hole(row[j]))
    return [value for value in found if value is not None]
