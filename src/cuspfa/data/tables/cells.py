"""Cells of text and the columns they make: numbers with missing values, or why they are none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.tables.text_format import is_missing, number
from cuspfa.errors import DataError

_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([ T]\d.*)?"  # 2021-03-28, 2021-03-28T12:30
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( \d.*)?"  # 28.03.2021, 3/28/21 12:30
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d*)?)?"  # 12:30:05
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,' \u00a0\u2009\u202f’]\d{3})+([.,]\d+)?", re.ASCII)
_PER_CENT = re.compile(r"[+-]?\d*[.,]?\d+\s?%")
EMPTY = "empty"
MOSTLY = 0.5
"""From this part on, a column of text is told as numbers with something else between them."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table."""

    name: str
    n_rows: int
    n_missing: int
    numbers: Array | None
    """(n,) NaN where there is a missing value; None if the column holds something else. May be
    infinite."""
    why: str = ""
    """What it holds if not numbers, for the person who expected some; without any cell of it."""
    example: str = ""
    """A cell of it, for the person's eyes alone: it is not written into any file."""
    truth: bool = False
    """Was it true and false, read as 1 and 0?"""
    coded: int = 0
    """Of the holes, those that --missing made."""


class Missing(NamedTuple):
    """What --missing says stands for a missing value, beside `HOLES`."""

    numbers: tuple[float, ...] = ()
    words: frozenset[str] = frozenset()
    """In small letters."""

    @property
    def any(self) -> bool:
        """Is there any at all?"""
        return bool(self.numbers or self.words)

    def takes(self, value: float | None, cell: str) -> bool:
        """Is a cell, or the number in it, one of them?"""
        return value in self.numbers or cell.strip().lower() in self.words


NONE = Missing()


def parse_missing(given: Sequence[str]) -> Missing:
    """Of words with commas between them; numbers are numbers, however they are written."""
    words = [word.strip() for text in given for word in text.split(",") if word.strip()]
    numbers = {word: number(word) for word in words}
    found = [value for value in numbers.values() if value is not None]
    others = frozenset(word.lower() for word, value in numbers.items() if value is None)
    return Missing(tuple(found), others)


def clean(name: str) -> str:
    """A name as it is shown and matched: one line, no spaces around it, nothing unprintable."""
    return " ".join("".join(c for c in name if c.isprintable() or c.isspace()).split())


def column_of_texts(
    name: str, cells: Sequence[str | None], decimal: str = ".", missing: Missing = NONE
) -> Column:
    """Numbers, truth values as 1 and 0, or why neither."""
    known: dict[str | None, float | None] = {}
    for cell in set(cells):
        value = np.nan if is_missing(cell) else number(cell or "", decimal)
        known[cell] = np.nan if missing.takes(value, cell or "") else value
    values = [known[cell] for cell in cells]
    n_missing = sum(1 for value in values if value is not None and np.isnan(value))
    coded = n_missing - sum(map(is_missing, cells)) if missing.any else 0
    if n_missing == len(cells):
        return Column(name, len(cells), n_missing, None, EMPTY, coded=coded)
    if all(value is not None for value in values):
        return column_of_numbers(name, np.array(values, dtype=float), coded=coded)
    words = [cell.strip() for cell in cells if cell is not None and known[cell] is None]
    if n_missing + len(words) == len(cells) and all(w.lower() in ("true", "false") for w in words):
        truth = [np.nan if known[cell] is not None else float(_is_true(cell)) for cell in cells]
        return column_of_numbers(name, np.array(truth), truth=True, coded=coded)
    why, example = _why(words, len(cells) - n_missing), quoted(words[0])
    return Column(name, len(cells), n_missing, None, why, example, coded=coded)


def column_of_numbers(
    name: str, values: Array, *, truth: bool = False, missing: Missing = NONE, coded: int = 0
) -> Column:
    """Infinite values stay: `check_finite` refuses them where the column is used."""
    numbers = np.array(values, dtype=float)
    if missing.numbers:
        codes = np.isin(numbers, missing.numbers)
        numbers[codes] = np.nan
        coded = int(codes.sum())
    n_missing = int(np.isnan(numbers).sum())
    if n_missing == len(numbers):
        return Column(name, len(numbers), n_missing, None, EMPTY, coded=coded)
    return Column(name, len(numbers), n_missing, numbers, truth=truth, coded=coded)


def check_finite(column: Column, source: str) -> None:
    """Refuse infinite values of a column that is to be used."""
    if column.numbers is None:
        return
    infinite = np.isinf(column.numbers)
    if infinite.any():
        raise DataError(
            f"{source}: column {column.name!r} has {int(infinite.sum())} value(s) that are "
            f"infinite, the first in row {int(np.argmax(infinite)) + 1}. Put right what made them, "
            "leave the column out, or have them taken as missing: --missing inf,-inf"
        )


def _is_true(cell: str | None) -> bool:
    return cell is not None and cell.strip().lower() == "true"


def _why(words: list[str], filled: int) -> str:
    if all(_THOUSANDS.fullmatch(word) for word in words):
        return "numbers with thousands signs (save them without)"
    if all(_PER_CENT.fullmatch(word) for word in words):
        return "numbers with per cent signs (save them without)"
    if len(words) <= (1 - MOSTLY) * filled:
        return f"correct, or leave empty, {len(words)} of {filled} values that are no numbers"
    if all(_DATE.fullmatch(word) for word in words):
        return "dates or times"
    return "text"


def quoted(text: str, longest: int = 20) -> str:
    """A piece of text as an example."""
    short = clean(text)
    return f'"{short[: longest - 1]}…"' if len(short) > longest else f'"{short}"'


def unique_names(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Clean names, no two the same and none empty; and what had to be said about that."""
    found: list[str] = []
    taken: set[str] = set()
    notes: list[str] = []
    nameless: list[str] = []
    for position, raw in enumerate(names, 1):
        name = clean(raw)
        if not name:
            name = f"column{position}"
            nameless.append(name)
        if name in taken:
            twice, copy = name, 2
            while f"{twice}_{copy}" in taken:
                copy += 1
            name = f"{twice}_{copy}"
            notes.append(f"Column {position} is called {quoted(twice)} again; here it is {name!r}.")
        taken.add(name)
        found.append(name)
    if nameless:
        shown = ", ".join(nameless[:4]) + (", …" if len(nameless) > 4 else "")
        notes.append(f"Without a name in the header, and called so here: {shown}.")
    return found, notes
