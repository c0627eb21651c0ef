"""Cells of text and the columns they make: numbers with holes, or why they are none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cuspfa._types import Array

HOLES = ("", "NA", "N/A", "#N/A", "NaN", "null", ".", "-")
"""What stands for a missing value, in capitals or not."""
_HOLES = frozenset(word.lower() for word in HOLES)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([ T]\d.*)?"  # 2021-03-28, 2021-03-28T12:30
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( \d.*)?"  # 28.03.2021, 3/28/21 12:30
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d*)?)?"  # 12:30:05
)
EMPTY = "empty"
MOSTLY = 0.5
"""From this part on, a column of text is told as numbers with something else between them."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table."""

    name: str
    n_rows: int
    holes: int
    numbers: Array | None
    """(n,) NaN where there is a hole; None if the column holds something else."""
    why: str = ""
    """What it holds if not numbers, for the person who expected some."""
    truth: bool = False
    """Was it true and false, read as 1 and 0?"""


def clean(name: str) -> str:
    """A name as it is shown and matched: one line, no spaces around it, nothing unprintable."""
    return " ".join("".join(c for c in name if c.isprintable() or c.isspace()).split())


def is_hole(cell: str | None) -> bool:
    """Does it stand for a missing value?"""
    return cell is None or cell.strip().lower() in _HOLES


def number(cell: str, decimal: str = ".") -> float | None:
    """The number a cell holds, infinity included; None if it holds something else."""
    text = cell.strip()
    if decimal == ",":
        text = text.replace(",", ".", 1) if "." not in text else ""
    if _NUMBER.fullmatch(text) or _INFINITE.fullmatch(text):
        return float(text)
    return None


def column_of_texts(name: str, cells: Sequence[str | None], decimal: str = ".") -> Column:
    """Numbers, truth values as 1 and 0, or why neither."""
    known: dict[str | None, float | None] = {}
    for cell in set(cells):
        known[cell] = np.nan if is_hole(cell) else number(cell or "", decimal)
    values = [known[cell] for cell in cells]
    holes = sum(1 for value in values if value is not None and np.isnan(value))
    if holes == len(cells):
        return Column(name, len(cells), holes, None, EMPTY)
    if all(value is not None for value in values):
        return column_of_numbers(name, np.array(values, dtype=float))
    words = [cell.strip() for cell in cells if cell is not None and known[cell] is None]
    if holes + len(words) == len(cells) and all(w.lower() in ("true", "false") for w in words):
        truth = [np.nan if is_hole(cell) else float(_is_true(cell)) for cell in cells]
        return column_of_numbers(name, np.array(truth), truth=True)
    return Column(name, len(cells), holes, None, _why(words, len(cells) - holes))


def column_of_numbers(name: str, values: Array, *, truth: bool = False) -> Column:
    """Infinite values are holes: there is nothing to be done with them."""
    numbers = np.where(np.isfinite(values), values, np.nan)
    holes = int(np.isnan(numbers).sum())
    if holes == len(numbers):
        return Column(name, len(numbers), holes, None, EMPTY)
    return Column(name, len(numbers), holes, numbers, truth=truth)


def _is_true(cell: str | None) -> bool:
    return cell is not None and cell.strip().lower() == "true"


def _why(words: list[str], filled: int) -> str:
    example = quoted(words[0])
    if len(words) <= (1 - MOSTLY) * filled:
        which = f"{len(words)} of {filled} values are no numbers"
        return f"{which}, such as {example}: correct them, or leave them empty"
    if all(_DATE.fullmatch(word) for word in words):
        return f"dates or times, such as {example}"
    return f"text, such as {example}"


def quoted(text: str, longest: int = 20) -> str:
    """A piece of text as an example."""
    short = clean(text)
    return f'"{short[: longest - 1]}…"' if len(short) > longest else f'"{short}"'


def unique_names(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Clean names, no two the same and none empty; and what had to be said about that."""
    found: list[str] = []
    taken: set[str] = set()
    notes: list[str] = []
    for position, raw in enumerate(names, 1):
        name = clean(raw)
        if not name:
            name = f"column{position}"
        if name in taken:
            twice, copy = name, 2
            while f"{twice}_{copy}" in taken:
                copy += 1
            name = f"{twice}_{copy}"
            notes.append(f"Column {position} is called {quoted(twice)} again; here it is {name!r}.")
        taken.add(name)
        found.append(name)
    return found, notes
