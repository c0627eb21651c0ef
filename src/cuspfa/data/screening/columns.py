"""Which columns of a table are analysed: one rule for tables in memory and by blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa.data.out_of_core.block import Choice
from cuspfa.data.screening.matrix_input import refuse_matrix
from cuspfa.data.tables.cells import Column, check_finite
from cuspfa.data.tables.notes import DroppedColumn, Spell, as_argument
from cuspfa.errors import DataError

FEWEST_ROWS = 10
"""With fewer rows nothing can be said of any factor."""
FEWEST_COLUMNS = 2
IDS_HELD = 1 << 22
"""Values of a column read by blocks by which it is judged whether it names the rows."""
_ID_NAME = re.compile(
    r"(?i:(.*[\W_])?(id|ids|idx|index|nr|no|row|row ?names?|row ?numbers?|case|obs|subject|"
    r"participant|respondent)\W*|__index_level_\d+__|column1)|.*[a-z]I[Dd]"
)


class Screened(NamedTuple):
    """What is analysed of a table in memory."""

    names: list[str]
    rows: Array
    """(n, p) NaN where a value is missing."""
    dropped: list[DroppedColumn]
    n_missing: dict[str, int]
    """By column, of those analysed, where there are any."""
    n_empty: int
    """Rows without any value in these columns, which are dropped."""


def screen(
    source: str,
    columns: Sequence[Column],
    choice: Choice,
    id_position: int | None = None,
    spell: Spell = as_argument,
    first: str | None = None,
) -> Screened:
    """Columns of numbers that vary, and rows that have a value in them.

    `first` is the name of the first column of the file, if that is not among the columns.
    """
    n_rows = columns[0].n_rows if columns else 0
    _check_no_matrix(source, columns, id_position)
    check_rows_enough(source, n_rows)
    first = columns[0].name if first is None else first
    dropped, kept = [], []
    blank = _blank(columns, n_rows)
    for j in choice.kept:
        if j == id_position:
            dropped.append(DroppedColumn(columns[j].name, "id_column"))
            continue
        check_finite(columns[j], source, spell)
        why = _why_in_memory(columns[j], blank, first=columns[j].name == first, asked=choice.asked)
        if why is None:
            kept.append(j)
        else:
            dropped.append(why)
    check_columns_enough(source, len(kept), dropped, len(columns))
    numbers = (columns[j].numbers for j in kept)
    rows = np.column_stack([one for one in numbers if one is not None])
    empty = np.isnan(rows).all(axis=1)
    n_empty = int(empty.sum())
    rows = rows[~empty] if n_empty else rows
    check_rows_enough(source, len(rows), " with a value in these columns")
    missing = {columns[j].name: columns[j].n_missing - n_empty for j in kept}
    missing = {name: number for name, number in missing.items() if number}
    return Screened([columns[j].name for j in kept], rows, dropped, missing, n_empty)


def check_rows_enough(source: str, n_rows: int, which: str = "") -> None:
    """Refuse a table of hardly any rows."""
    if n_rows < FEWEST_ROWS:
        raise DataError(
            f"{source} has {n_rows} row(s){which}. At least {FEWEST_ROWS} are needed to say "
            "anything of factors."
        )


def check_columns_enough(
    source: str, n_kept: int, dropped: Sequence[DroppedColumn], n_columns: int
) -> None:
    """Refuse a table with hardly a column to be analysed."""
    if n_kept >= FEWEST_COLUMNS:
        return
    shown = "; ".join(f"{one.name}: {one.reason}{one.example}" for one in dropped[:4])
    more = f"; and {len(dropped) - 4} more" if len(dropped) > 4 else ""
    gone = f" Dropped: {shown}{more}." if dropped else ""
    hint = " Are its cells separated by commas, semicolons, tabs or bars?"
    raise DataError(
        f"{source} has {n_kept} column(s) of numbers to analyse, and "
        f"{FEWEST_COLUMNS} are needed.{gone}{hint if n_columns == 1 else ''}"
    )


def _check_no_matrix(source: str, columns: Sequence[Column], id_position: int | None) -> None:
    """Refuse a matrix of correlations, with names of its rows or without."""
    numbers = [column.numbers for j, column in enumerate(columns) if j != id_position]
    found = [column for column in numbers if column is not None]
    for chosen in (found, found[1:]):  # the first may count the rows
        if chosen and len(chosen) == len(chosen[0]):
            refuse_matrix(np.column_stack(chosen), source)


def _blank(columns: Sequence[Column], n_rows: int) -> BoolArray:
    """Rows without any number, such as spreadsheets have below their last one."""
    found = np.ones(n_rows, dtype=bool)
    for column in columns:
        if column.numbers is not None:
            found &= np.isnan(column.numbers)
    return found


def _why_in_memory(
    column: Column, blank: BoolArray, *, first: bool, asked: bool
) -> DroppedColumn | None:
    """Why a column is dropped; None if it is not."""
    if column.numbers is None:
        return column.dropped
    values = column.numbers[~np.isnan(column.numbers)]
    why = _constant(column.name, values.min(), values.max(), missing=bool(column.n_missing))
    if why is not None:
        return why
    if len(values) < FEWEST_ROWS:
        return DroppedColumn(column.name, "few", len(values), column.n_rows)
    if asked or len(values) < np.sum(~blank):
        return None
    return _like_an_id(column.name, values, first=first)


def _constant(name: str, low: float, high: float, *, missing: bool) -> DroppedColumn | None:
    with np.errstate(over="ignore"):  # the difference of values that are too large
        if high - low > 1e-12 * max(abs(low), abs(high)):
            return None
    if low < high:
        return DroppedColumn(name, "narrow")
    example = f", always {low:g}" + (" or missing" if missing else "")
    return DroppedColumn(name, "constant", example=example)


def _like_an_id(name: str, values: Array, *, first: bool) -> DroppedColumn | None:
    """Does a column look like names of the rows?"""
    if not np.array_equal(values, np.floor(values)):
        return None
    if first and _counts(values):
        return DroppedColumn(name, "counter", int(values[0]))
    different = len(np.unique(values)) == len(values)
    return DroppedColumn(name, "id") if different and _is_id(name) else None


def _counts(values: Array) -> bool:
    """0, 1, 2, ... or 1, 2, 3, ..., begun anew at most once in ten rows, as in files one by one."""
    restarts = values[1:][np.diff(values) != 1]
    few = (len(restarts) + 1) * FEWEST_ROWS <= len(values)
    return few and values[0] in (0, 1) and bool(np.all(restarts == values[0]))


class ScreenedBlocks:
    """The same for complete rows that come by blocks; `first` is the first column of the file."""

    def __init__(self, names: Sequence[str], first: Sequence[str], choice: Choice) -> None:
        p = len(names)
        self.names, self.n = list(names), 0
        self._low, self._high = np.full(p, np.inf), np.full(p, -np.inf)
        self._first = first
        self._held: dict[int, list[Array]] = {}
        if not choice.asked:
            doubtful = (j for j, name in enumerate(names) if name in first or _is_id(name))
            self._held = {j: [] for j in doubtful}

    def add(self, block: Any) -> None:
        """One more block of rows."""
        if not len(block):
            return
        self._low = np.minimum(self._low, np.min(block, axis=0))
        self._high = np.maximum(self._high, np.max(block, axis=0))
        for j in list(self._held):
            values = np.array(block[: max(IDS_HELD - self.n, 0), j], dtype=float)
            if np.array_equal(values, np.floor(values)):
                self._held[j].append(values)
            else:
                del self._held[j]
        self.n += len(block)

    def dropped(self) -> dict[int, DroppedColumn]:
        """By position, columns that are not to be analysed."""
        found = {}
        for j, name in enumerate(self.names):
            why = _constant(name, self._low[j], self._high[j], missing=False)
            if why is None and j in self._held:
                values = np.concatenate(self._held[j])
                why = _like_an_id(name, values, first=name in self._first)
            if why is not None:
                found[j] = why
        return found


def _is_id(name: str) -> bool:
    return _ID_NAME.fullmatch(name) is not None
