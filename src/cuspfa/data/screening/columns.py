"""Which columns of a table are analysed: one rule for tables in memory and by blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.fit_warning import FitWarning, ReadingNote
from cuspfa._utils.spelling import Spell, as_argument
from cuspfa._utils.wording import counted, listed
from cuspfa.data.column_choice import ColumnChoice
from cuspfa.data.screening.covariates import (
    ValueRange,
    covariate_kind,
    may_be_covariate,
    range_of,
)
from cuspfa.data.screening.duplicates import duplicated_columns
from cuspfa.data.screening.matrix_input import EXTRA_ROWS, refuse_matrix
from cuspfa.data.tables.cells import ParsedColumn, check_finite
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.data.tables.reader import name_samples
from cuspfa.data.validate import CheckedRows
from cuspfa.errors import DataError

FEWEST_ROWS = 10
"""Rows that a factor analysis needs at least."""
FEWEST_COLUMNS = 2
MENDABLE = ("words", "odd_word", "mixed", "strays", "thousands", "per_cent", "formulas")
"""Reasons for dropping a column that the user can remove. They are told first."""
REASONS_SHOWN = 5
IDS_HELD = 1 << 22
"""Values of a column read by blocks that decide whether it names the rows."""
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
    """Missing values by column, of the analysed columns that have any."""
    n_empty: int
    """Rows without any value in these columns. They are dropped."""
    notes: list[Note]
    """Columns that look like covariates, or are copies of others."""


def screen(
    source: str,
    columns: Sequence[ParsedColumn],
    choice: ColumnChoice,
    id_position: int | None = None,
    spell: Spell = as_argument,
    first: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Screened:
    """Columns of numbers that vary, and rows that have a value in them.

    `first` is the name of the first column of the file, if that is not among the columns. `labels`
    are what columns are by the file, such as the question "How old are you?".
    """
    n_rows = columns[0].n_rows if columns else 0
    _check_no_matrix(source, columns, id_position, spell)
    check_rows_enough(source, n_rows)
    first = columns[0].name if first is None else first
    dropped, kept = [], []
    covariates: dict[str, str] = {}
    every_name = frozenset(column.name for column in columns)
    blank = _blank(columns, n_rows)
    for j in choice.kept:
        if j == id_position:
            dropped.append(DroppedColumn(columns[j].name, "id_column"))
            continue
        check_finite(columns[j], source, spell)
        asked = choice.asked or j in choice.included
        why = _why_in_memory(columns[j], blank, first=columns[j].name == first, asked=asked)
        numbers_of = columns[j].numbers
        if why is None and not asked and numbers_of is not None:
            values = numbers_of[~np.isnan(numbers_of)]
            label = (labels or {}).get(columns[j].name, "")
            why = _covariate(columns[j].name, range_of(values), every_name, label)
            if why is not None and not choice.drops_covariates:
                covariates[why.name] = why.detail
                why = None
        if why is None:
            kept.append(j)
        else:
            dropped.append(why)
    check_columns_enough(source, len(kept), dropped, len(columns), spell)
    numbers = (columns[j].numbers for j in kept)
    rows = np.column_stack([one for one in numbers if one is not None])
    refuse_matrix(rows, source, spell)  # beside columns that are dropped
    empty = np.isnan(rows).all(axis=1)
    n_empty = int(empty.sum())
    rows = rows[~empty] if n_empty else rows
    check_rows_enough(source, len(rows), " with a value in these columns")
    missing = {columns[j].name: columns[j].n_missing - n_empty for j in kept}
    missing = {name: number for name, number in missing.items() if number}
    names = [columns[j].name for j in kept]
    notes = covariate_notes(covariates) + _duplicate_notes(names, rows)
    return Screened(names, rows, dropped, missing, n_empty, notes)


def _covariate(
    name: str, values: ValueRange, every_name: frozenset[str], label: str = ""
) -> DroppedColumn | None:
    kind = covariate_kind(name, values, every_name) or covariate_kind(label, values, frozenset())
    return None if kind is None else DroppedColumn(name, "covariate", detail=kind)


def notes_on_columns(table: CheckedRows, *, copies: bool) -> tuple[FitWarning, ...]:
    """Notes on an array or a data frame, all columns of which are analysed.

    Columns of a data frame that look like covariates are named, and names of samples where
    variables should be; and with `copies` the columns that are copies of others.
    """
    if issparse(table.rows):
        return ()
    rows = np.asarray(table.rows, dtype=float)
    notes: list[Note] = []
    if table.names is not None:
        notes += _frame_notes(table.names, rows)
    if copies:
        labels = table.names or [f"column {j}" for j in range(rows.shape[1])]
        notes += _duplicate_notes(labels, rows)
    return tuple(map(ReadingNote, notes))


def _frame_notes(names: Sequence[str], rows: Array) -> list[Note]:
    every_name, covariates = frozenset(names), {}
    for name, values in zip(names, rows.T, strict=True):
        known = values[~np.isnan(values)] if may_be_covariate(name) else values[:0]
        why = _covariate(name, range_of(known), every_name) if len(known) else None
        if why is not None:
            covariates[name] = why.detail
    kinds = listed(list(dict.fromkeys(covariates.values())), len(covariates))
    notes = [Note("frame_covariates", tuple(covariates), detail=kinds)] if covariates else []
    if name_samples(names) and len(rows) > len(names):
        notes.append(Note("samples", tuple(names), len(rows)))
    return notes


def _duplicate_notes(names: Sequence[str], rows: Array) -> list[Note]:
    """A note on columns that are equal where both have a value."""
    pairs = tuple(f"{names[j]} and {names[k]}" for j, k in duplicated_columns(rows))
    return [Note("duplicates", pairs)] if pairs else []


def covariate_notes(found: Mapping[str, str]) -> list[Note]:
    """A note on the columns that look like covariates, by what they look like."""
    kinds = listed(list(dict.fromkeys(found.values())), len(found))
    return [Note("covariates", tuple(found), detail=kinds)] if found else []


def check_rows_enough(source: str, n_rows: int, which: str = "") -> None:
    """Refuse a table with too few rows."""
    if n_rows < FEWEST_ROWS:
        raise DataError(
            f"{source} has {counted(n_rows, 'row')}{which}. A factor analysis needs at least "
            f"{FEWEST_ROWS}."
        )


def check_columns_enough(
    source: str,
    n_kept: int,
    dropped: Sequence[DroppedColumn],
    n_columns: int,
    spell: Spell = as_argument,
) -> None:
    """Refuse a table with too few columns to analyse."""
    if n_kept >= FEWEST_COLUMNS:
        return
    alike: dict[str, list[DroppedColumn]] = {}
    for one in sorted(dropped, key=lambda one: one.code not in MENDABLE):
        alike.setdefault(one.reason, []).append(one)
    said = [
        f"{listed([one.name for one in every], 4)}: {every[0].shown(spell)}."
        for every in list(alike.values())[:REASONS_SHOWN]
    ]
    gone = f" Dropped: {' '.join(said)}" if dropped else ""
    hint = " Are its cells separated by commas, semicolons, tabs or bars?"
    raise DataError(
        f"{source} has {counted(n_kept, 'column')} of numbers to analyse, and "
        f"{FEWEST_COLUMNS} are needed.{gone}{hint if n_columns == 1 else ''}"
    )


def _check_no_matrix(
    source: str, columns: Sequence[ParsedColumn], id_position: int | None, spell: Spell
) -> None:
    """Refuse a correlation matrix, with or without names of its rows."""
    found = [
        np.full(column.n_rows, np.nan) if column.numbers is None else column.numbers
        for j, column in enumerate(columns)
        if j != id_position and (column.dropped is None or column.dropped.code == "empty")
    ]
    for chosen in (found, found[1:]):  # the first column may count the rows
        if chosen and 0 <= len(chosen[0]) - len(chosen) <= EXTRA_ROWS:
            refuse_matrix(np.column_stack(chosen), source, spell)


def _blank(columns: Sequence[ParsedColumn], n_rows: int) -> BoolArray:
    """(n,) rows without any number, such as empty rows at the end of a spreadsheet."""
    found = np.ones(n_rows, dtype=bool)
    for column in columns:
        if column.numbers is not None:
            found &= np.isnan(column.numbers)
    return found


def _why_in_memory(
    column: ParsedColumn, blank: BoolArray, *, first: bool, asked: bool
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
    """The reason to drop a column that looks like names of the rows, if it does."""
    if not np.array_equal(values, np.floor(values)):
        return None
    if first and _counts_rows(values):
        return DroppedColumn(name, "counter", int(values[0]))
    different = len(np.unique(values)) == len(values)
    return DroppedColumn(name, "id") if different and _is_id(name) else None


def _counts_rows(values: Array) -> bool:
    """0, 1, 2, ... or 1, 2, 3, ..., restarted at most once in ten rows, as in joined files."""
    restarts = values[1:][np.diff(values) != 1]
    few = (len(restarts) + 1) * FEWEST_ROWS <= len(values)
    return few and values[0] in (0, 1) and bool(np.all(restarts == values[0]))


class ScreenedBlocks:
    """The columns to drop from complete rows by blocks; `every` are all columns of the file."""

    def __init__(self, names: Sequence[str], every: Sequence[str], choice: ColumnChoice) -> None:
        p, first = len(names), every[:1]
        self.names, self.n = list(names), 0
        self._low, self._high = np.full(p, np.inf), np.full(p, -np.inf)
        self._first, self._choice = first, choice
        self._held: dict[int, list[Array]] = {}
        self._whole: dict[int, bool] = {}
        self.covariates: dict[str, str] = {}
        """Columns that look like covariates and are not dropped, after `dropped`."""
        if not choice.asked:
            included = {every[j] for j in choice.included}
            free = [(j, name) for j, name in enumerate(names) if name not in included]
            self._held = {j: [] for j, name in free if name in first or _is_id(name)}
            self._whole = {j: True for j, name in free if may_be_covariate(name)}
        self._every = frozenset(every)

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
        for j in self._whole:
            self._whole[j] &= bool(np.array_equal(block[:, j], np.floor(block[:, j])))
        self.n += len(block)

    def dropped(self) -> dict[int, DroppedColumn]:
        """Columns that are dropped, by position."""
        found = {}
        for j, name in enumerate(self.names):
            why = _constant(name, self._low[j], self._high[j], missing=False)
            if why is None and j in self._held:
                values = np.concatenate(self._held[j])
                why = _like_an_id(name, values, first=name in self._first)
            if why is None and j in self._whole:
                values_of = ValueRange(self._low[j], self._high[j], self._whole[j])
                why = _covariate(name, values_of, self._every)
                if why is not None and not self._choice.drops_covariates:
                    self.covariates[name] = why.detail
                    why = None
            if why is not None:
                found[j] = why
        return found


def _is_id(name: str) -> bool:
    return _ID_NAME.fullmatch(name) is not None
