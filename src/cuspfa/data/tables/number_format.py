"""How numbers are written in a table of text: decimal signs and thousands signs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cuspfa.data.tables.cells import quoted
from cuspfa.data.tables.text_format import Rows, is_missing
from cuspfa.errors import DataError

_DECIMAL = {
    ",": re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII),
    ".": re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", re.ASCII),
}
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_BELOW_THOUSAND = re.compile(r"[+-]?\d{1,3}", re.ASCII)
FEWEST_THOUSANDS = 2
"""So many cells with a sign before three digits are no accident."""


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
        column = [row[j] for row in words if j < len(row) and not is_missing(row[j])]
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
