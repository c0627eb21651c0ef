"""Which columns are analysed, and what is left out, with the reason."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa.data.screening.matrix_input import kind_of_matrix
from cuspfa.data.tables.cells import Column, check_finite
from cuspfa.data.tables.reader import Table, no_such_column
from cuspfa.errors import DataError, InputError

FEWEST_ROWS = 10
"""With fewer rows nothing can be said of any factor."""
FEWEST_COLUMNS = 2
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_ID_NAME = re.compile(
    r"(?i:(.*[\W_])?(id|ids|idx|index|nr|no|row|row ?names?|row ?numbers?|case|obs|subject|"
    r"participant|respondent)\W*|__index_level_\d+__|column1)|.*[a-z]I[Dd]"
)


class LeftOut(NamedTuple):
    """A column that is not analysed."""

    name: str
    reason: str
    """Without any cell of it: what is written into files."""
    detail: str = ""
    """What a person at the terminal is told besides: an example, a value."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """What is analysed."""

    names: list[str]
    rows: Array
    """(n, p) NaN where there is a missing value."""
    left_out: list[LeftOut]
    excluded: list[str]
    """Left out because the user said so."""
    n_missing: dict[str, int]
    """By column, of those analysed, where there are any."""
    empty: int = 0
    """Rows without any value in these columns: left out."""
    counted: tuple[int, int] | None = None
    """Rows, and those with a missing value, where the rows themselves are not kept here."""

    @property
    def n_rows(self) -> int:
        """Rows that are analysed."""
        return len(self.rows) if self.counted is None else self.counted[0]

    @property
    def n_lacking(self) -> int:
        """Rows with a missing value."""
        if self.counted is not None:
            return self.counted[1]
        return int(np.isnan(self.rows).any(axis=1).sum())


def choose(table: Table, columns: Sequence[str] = (), exclude: Sequence[str] = ()) -> Chosen:
    """Columns of numbers that vary."""
    check_no_matrix(table)
    if table.n_rows < FEWEST_ROWS:
        raise DataError(
            f"{table.source} has {table.n_rows} row(s). At least {FEWEST_ROWS} are needed to say "
            "anything of factors."
        )
    asked = parse_columns("--columns", columns, table.names)
    unwanted = parse_columns("--exclude", exclude, table.names)
    candidates = asked if columns else list(range(len(table.columns)))
    candidates = [j for j in candidates if j not in unwanted]
    left_out, kept = [], []
    blank = _blank(table)
    for j in candidates:
        if j != table.id_position:
            check_finite(table.columns[j], table.source)
        reason, detail = _reason(table, j, blank, wanted=bool(columns))
        if reason:
            left_out.append(LeftOut(table.columns[j].name, reason, detail))
        else:
            kept.append(j)
    if len(kept) < FEWEST_COLUMNS:
        raise DataError(_too_few_columns(table, kept, left_out))
    rows = np.column_stack([_numbers(table.columns[j]) for j in kept])
    lacking = np.isnan(rows).all(axis=1)
    empty = int(lacking.sum())
    rows = rows[~lacking] if empty else rows
    n_missing = {table.columns[j].name: table.columns[j].n_missing - empty for j in kept}
    n_missing = {name: number for name, number in n_missing.items() if number}
    names = [table.columns[j].name for j in kept]
    excluded = [table.columns[j].name for j in sorted(unwanted)]
    if len(rows) < FEWEST_ROWS:
        raise DataError(
            f"{table.source} has {len(rows)} row(s) with a value in these columns. At least "
            f"{FEWEST_ROWS} are needed to say anything of factors."
        )
    return Chosen(names, rows, left_out, excluded, n_missing, empty)


def check_no_matrix(table: Table) -> None:
    """Refuse a matrix of correlations, with names of its rows or without."""
    numbers = [column.numbers for j, column in enumerate(table.columns) if j != table.id_position]
    columns = [column for column in numbers if column is not None]
    for chosen in (columns, columns[1:]):  # the first may count the rows
        if len(chosen) == table.n_rows > 0:
            refuse_matrix_in(table.source, np.column_stack(chosen))


def refuse_matrix_in(source: str, rows: Array) -> None:
    """Say what to do with it instead."""
    kind = kind_of_matrix(rows)
    if kind is not None:
        raise DataError(
            f"{source} looks like a {kind} matrix of {len(rows)} variables (it is square and "
            "symmetric). The program takes rows of observations: give the table that the matrix "
            "was made of. A matrix alone is fitted in Python: CuspFactorAnalysis().fit_moments("
            f"Moments.from_{kind}(matrix, n=...)), n being the number of rows it was made of."
        )


def _blank(table: Table) -> BoolArray:
    """Rows without any number, such as spreadsheets have below their last one."""
    found = np.ones(table.n_rows, dtype=bool)
    for column in table.columns:
        if column.numbers is not None:
            found &= np.isnan(column.numbers)
    return found


def parse_columns(option: str, given: Sequence[str], names: list[str]) -> list[int]:
    """Positions of columns by name or, where no column is called so, by number from 1."""
    found: set[int] = set()
    for text in given:
        for word in [text] if text in names else _words(option, text):
            found |= _positions(option, word, names)
    return sorted(found)


def as_option(names: Sequence[str]) -> str:
    """Names as one would type them behind an option."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return shlex.quote(line.getvalue())


def _words(option: str, text: str) -> list[str]:
    try:
        row = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise InputError(
            f"{option}: the quotes in {text!r} do not match. A name with commas goes into double "
            "quotes."
        ) from None
    return [word.strip() for word in row if word.strip()]


def _positions(option: str, word: str, names: list[str]) -> set[int]:
    if word in names:
        return {names.index(word)}
    ends = _RANGE.fullmatch(word)
    if ends is None:
        raise InputError(f"{option}: {no_such_column(word, names)}")
    first, last = int(ends[1]), int(ends[2] or ends[1])
    if not 1 <= first <= last <= len(names):
        raise InputError(
            f"{option}: {word!r} is no column's name, and columns are numbered from 1 to "
            f"{len(names)}."
        )
    return set(range(first - 1, last))


def called_an_id(name: str) -> bool:
    """Is it a name that people give to names of rows?"""
    return _ID_NAME.fullmatch(name) is not None


def _numbers(column: Column) -> Array:
    assert column.numbers is not None
    return column.numbers


def _reason(table: Table, j: int, blank: BoolArray, *, wanted: bool) -> tuple[str, str]:
    """Why a column is left out, and a detail; nothing if it is not. `wanted`: it was asked for."""
    column = table.columns[j]
    if j == table.id_position:
        return "names of rows, as --id says", ""
    if column.numbers is None:
        return column.why, f", such as {column.example}" if column.example else ""
    values = column.numbers[~np.isnan(column.numbers)]
    if _constant(values):
        if values.min() < values.max():
            return "varies too little for its size: subtract a constant first", ""
        return "constant", f", always {values[0]:g}" + (" or missing" if column.n_missing else "")
    if len(values) < FEWEST_ROWS:
        return f"only {len(values)} of {column.n_rows} rows have a value", ""
    if not wanted and len(values) == np.sum(~blank):
        why = _like_an_id(column.name, values, first=j == 0)
        return f"{why}; to keep it, name it in --columns" if why else "", ""
    return "", ""


def _constant(values: Array) -> bool:
    if not len(values):
        return True
    low, high = float(values.min()), float(values.max())
    return high - low <= 1e-12 * max(abs(low), abs(high))


def _like_an_id(name: str, values: Array, *, first: bool) -> str:
    """What makes a column look like names of rows, if anything does."""
    if not np.array_equal(values, np.floor(values)):
        return ""
    if len(np.unique(values)) < len(values):
        return ""
    start = values.min()
    in_order = np.array_equal(values, np.arange(start, start + len(values)))
    if first and in_order and start in (0, 1):
        return f"counts the rows from {start:g} on"
    if called_an_id(name):
        return "names of rows: whole numbers, all different, and called so"
    return ""


def _too_few_columns(table: Table, kept: list[int], left_out: list[LeftOut]) -> str:
    shown = "; ".join(f"{one.name}: {one.reason}{one.detail}" for one in left_out[:4])
    more = f"; and {len(left_out) - 4} more" if len(left_out) > 4 else ""
    gone = f" Left out: {shown}{more}." if left_out else ""
    hint = " Are its cells separated by commas, semicolons, tabs or bars?"
    return (
        f"{table.source} has {len(kept)} column(s) of numbers to analyse, and "
        f"{FEWEST_COLUMNS} are needed.{gone}{hint if len(table.columns) == 1 else ''}"
    )


def most_missing(n_missing: dict[str, int], number: int = 3) -> list[tuple[str, int]]:
    """The columns with most holes."""
    return sorted(n_missing.items(), key=lambda item: -item[1])[:number]
