"""Nearly constant columns, which may become a factor of their own."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from cuspfa._typing import Array, Indices
from cuspfa._utils.fit_warning import NearConstant, column
from cuspfa.data.validate import CheckedRows

DIFFERING_SHARE = 0.01
"""A column is nearly constant if at most this share of its rows, or one row, differs."""
FIRST_LOOK_ROWS = 101
"""Rows of a first look, which excludes columns that vary."""
FEWEST_VALUES = 20
"""Rows below which no column is called nearly constant."""


def near_constant(table: CheckedRows) -> NearConstant | None:
    """The warning of nearly constant columns, if there are any."""
    rows, labels = table.rows, table.labels
    n, p = rows.shape
    if not (table.has_missing or sparse.issparse(rows)):
        watcher = NearConstantColumns()
        watcher.add(rows)
        return watcher.warning(labels, range(p))
    few = max(1, int(DIFFERING_SHARE * n))
    hardly_vary = _hardly_vary_sparse if sparse.issparse(rows) else _hardly_vary_incomplete
    return (
        _near_constant_warning(hardly_vary(rows, few), few, n, labels)
        if n >= FEWEST_VALUES
        else None
    )


class Watcher(Protocol):
    """Sees the blocks of a pass that are summed up."""

    def add(self, block: Any) -> None:
        """One more block of rows."""


class NearConstantColumns:
    """Columns that hardly vary, of complete rows by blocks or all at once.

    A look at the first block gives the columns that may be so and their most common values. In
    these columns the rows that differ are counted.
    """

    def __init__(self) -> None:
        self._n, self._suspects = 0, np.zeros(0, dtype=np.intp)
        self._common = self._differ = np.zeros(0)

    def add(self, block: Any) -> None:
        """One more block of rows."""
        if not self._n and len(block):
            common, self._suspects = _suspects(block)
            self._common, self._differ = common[self._suspects], np.zeros(len(self._suspects))
        self._n += len(block)
        if len(self._suspects):
            self._differ += np.sum(block[:, self._suspects] != self._common, axis=0)

    def warning(self, labels: list[Any] | None, kept: Collection[int]) -> NearConstant | None:
        """The warning of those among the columns `kept`, if there are any."""
        few = max(1, int(DIFFERING_SHARE * self._n))
        if self._n < FEWEST_VALUES:
            return None
        found = [int(j) for j in self._suspects[self._differ <= few] if j in kept]
        return _near_constant_warning(found, few, self._n, labels)


def _near_constant_warning(
    found: list[int], few: int, n: int, labels: list[Any] | None
) -> NearConstant | None:
    return NearConstant(tuple(column(j, labels) for j in found), few, n) if found else None


def _suspects(rows: Any) -> tuple[Array, Indices]:
    """Medians of some rows, and the columns in which nearly all of these rows have the median."""
    n = len(rows)
    look = np.asarray(rows[np.linspace(0, n - 1, min(n, FIRST_LOOK_ROWS)).astype(int)], dtype=float)
    common = np.median(look, axis=0)
    most = max(2, 4 * DIFFERING_SHARE * len(look))
    return common, np.flatnonzero(np.sum(look != common, axis=0) <= most)


def _hardly_vary_incomplete(rows: Any, few: int) -> list[int]:
    """Columns in which at most `few` of the observed values differ from their median."""
    found = []
    for j in range(rows.shape[1]):
        values = rows[:, j][~np.isnan(rows[:, j])]
        if len(values) >= FEWEST_VALUES and np.sum(values != np.median(values)) <= few:
            found.append(j)
    return found


def _hardly_vary_sparse(rows: Any, few: int) -> list[int]:
    """Columns in which at most `few` rows differ from the most common value.

    That value is zero, or the median of a column with hardly a zero.
    """
    n, p = rows.shape
    filled = np.bincount(rows.indices[rows.data != 0], minlength=p)
    found = np.flatnonzero(filled <= few).tolist()
    full = np.flatnonzero(filled >= n - few)
    columns = rows[:, full].tocsc()
    for place, j in enumerate(full.tolist()):
        values = columns.data[columns.indptr[place] : columns.indptr[place + 1]]
        if n - np.sum(values == np.median(values)) <= few:
            found.append(j)
    return sorted(found)
