"""Rows of means, sums and the like below the rows of a table, which are no observations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.optional import needed
from cuspfa.data.tables.cells import ParsedColumn, clean, is_missing, parse_number
from cuspfa.errors import DataError

LAST_ROWS = 12
"""Rows at the end of a table among which summaries are looked for."""
SURE_WORDS = re.compile(
    r"(grand )?(means?|averages?|avg|totals?|sums?)|medians?|variances?|s ?ds?|std|stdev|stddev"
    r"|(st|std|standard) (dev|deviation)|mittelwert|summe|gesamt|moyenne"
)
"""Names of rows that are summaries."""
UNSURE_WORDS = re.compile(r"n|m|s|se|sem|var|count|min|max|minimum|maximum|skewness|kurtosis")
"""Names of rows that are summaries among numbers, or below others."""
FEWEST_ABOVE, FEWEST_EQUAL = 10, 3
"""Rows above a row of means or sums without a name, and columns in which it must be right."""
MEAN_ROUNDING, SUMMARY_ERROR = 0.0051, 1e-6
"""Rounding error of means with two decimals, of whole numbers; relative error of others."""


def check_no_summaries(
    names: Sequence[str],
    cells: Sequence[Any],
    columns: Sequence[ParsedColumn],
    decimal: str,
) -> None:
    """Refuse a table with summaries in its last rows: by their names, or by their values.

    `cells` are Arrow columns as they were read, and `columns` the same as numbers.
    """
    types = needed("pyarrow", "Reading tables", "files").types
    n_numbers = sum(one.numbers is not None for one in columns)
    for name, column in zip(names, cells, strict=True):
        if types.is_string(column.type) or types.is_large_string(column.type):
            _check_names(name, column, decimal, n_numbers)
    check_last_rows([one.numbers for one in columns if one.numbers is not None])


def _word(cell: str | None) -> str:
    plain = clean(cell or "").lower().replace(".", " ").replace("_", " ").strip(" :=()")
    return " ".join(plain.split())


def _check_names(name: str, column: Any, decimal: str, n_columns: int) -> None:
    start = max(len(column) - LAST_ROWS, 0)
    last = column.slice(start).to_pylist()
    found: list[int] = []
    for row in range(len(column) - 1, start - 1, -1):  # from the last row upwards
        if is_missing(last[row - start]):
            continue
        word = _word(last[row - start])
        if not (SURE_WORDS.fullmatch(word) or UNSURE_WORDS.fullmatch(word)):
            break
        found.insert(0, row)
    if not found or found[0] == n_columns:  # or they are below a correlation matrix
        return
    cells = column.to_pylist()
    above = [cell for cell in cells[: found[0]] if cell is not None and not is_missing(cell)]
    n_numbers = sum(parse_number(cell, decimal) is not None for cell in above)
    if 2 * n_numbers <= len(above):
        # Names of rows are all different, and some people are called Max.
        sure = any(SURE_WORDS.fullmatch(_word(cells[row])) for row in found)
        if len(set(above)) < len(above) or len(above) < FEWEST_ABOVE or not sure:
            return
    said = ", ".join(f"row {row + 1} ({clean(cells[row] or '')!r})" for row in found)
    raise DataError(
        f"summaries below the rows are no observations. Got them in column {name!r}: {said}. "
        "Remove these rows from the file."
    )


def check_last_rows(columns: Sequence[Array]) -> None:
    """Refuse a row that has the means or the sums of all rows above it."""
    numbers = [one for one in columns if not np.any(np.isinf(one))]
    n = len(numbers[0]) if numbers else 0
    for row in range(max(n - LAST_ROWS, FEWEST_ABOVE), n):
        for what, summary in (("means", np.mean), ("sums", np.sum)):
            with np.errstate(over="ignore", invalid="ignore"):  # of values near the largest number
                found = _is_summary(numbers, row, summary)
            if found:
                raise _summary_error(what, row)


class LastRows:
    """The last of many rows without missing values, to be compared with those above.

    Of the rows above there are sums alone, so that a value is one's own if it is not among the
    whole numbers, or beyond the values above.
    """

    def __init__(self) -> None:
        self.rows = np.empty((0, 0))
        self.n = 0
        self.sum: Any = 0.0
        self.low: Any = np.inf
        self.high: Any = -np.inf
        self.whole: Any = True

    def add(self, block: Array) -> None:
        """Take the rows that come next."""
        if not len(block):
            return
        held = np.vstack([self.rows, block]) if self.rows.size else np.asarray(block, dtype=float)
        with np.errstate(over="ignore", invalid="ignore"):  # values near the largest number
            self._pass(held[:-LAST_ROWS])
        self.rows = np.array(held[-LAST_ROWS:])

    def _pass(self, rows: Array) -> None:
        if not len(rows):
            return
        self.n += len(rows)
        self.sum = self.sum + rows.sum(axis=0)
        self.low = np.minimum(self.low, rows.min(axis=0))
        self.high = np.maximum(self.high, rows.max(axis=0))
        self.whole = self.whole & np.all(rows == np.floor(rows), axis=0)

    def check(self) -> None:
        """Refuse a row that has the means or the sums of all rows above it."""
        with np.errstate(over="ignore", invalid="ignore"):
            for row in self.rows:
                if self.n >= FEWEST_ABOVE:
                    for what, summary in (("means", self.sum / self.n), ("sums", self.sum)):
                        if self._is_summary(row, summary):
                            raise _summary_error(what, self.n)
                self._pass(row[None])

    def _is_summary(self, row: Array, summary: Array) -> bool:
        varies = self.high > self.low
        near = SUMMARY_ERROR * np.maximum(np.abs(row), self.high - self.low)
        fraction = row != np.floor(row)
        near = np.where(self.whole & fraction, MEAN_ROUNDING, near)
        equal = (np.abs(row - summary) <= near) & np.isfinite(near)
        if not np.all(equal[varies]):
            return False
        own = varies & (fraction | (row < self.low) | (row > self.high))
        return bool(np.sum(varies) >= FEWEST_EQUAL and own.any())


def _summary_error(what: str, row: int) -> DataError:
    return DataError(
        f"summaries below the rows are no observations. Got the {what} of the rows above in row "
        f"{row + 1}. Remove it from the file, and all rows below it."
    )


def _is_summary(numbers: Sequence[Array], row: int, summary: Callable[[Array], Any]) -> bool:
    """Has a row the same summary of the rows above in all columns?"""
    own = 0
    n_equal = 0
    for column in numbers:
        above = column[:row]
        above = above[~np.isnan(above)]
        if np.isnan(column[row]) or len(above) < FEWEST_ABOVE or np.ptp(above) == 0:
            continue
        value = float(column[row])
        near = SUMMARY_ERROR * max(abs(value), float(np.ptp(above)))
        if np.array_equal(above, np.floor(above)) and not value.is_integer():
            near = MEAN_ROUNDING
        if not abs(value - float(summary(above))) <= near < np.inf:
            return False
        n_equal += 1
        own += value not in above
    # A row of values that others have too, such as zeros, may be an observation.
    return n_equal >= FEWEST_EQUAL and own > 0
