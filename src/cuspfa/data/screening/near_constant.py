"""Columns in which hardly a row differs from the others: they may make a factor of their own."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from cuspfa._typing import Array, Indices
from cuspfa._utils.fit_warning import NearConstant, column
from cuspfa.data.validate import Table

FEW = 0.01
"""A column is nearly constant if no more than this part of its rows, or one row, differs."""
LOOK = 101
"""So many rows are looked at first, so that columns that vary cost next to nothing."""
MEMBERS = 20
"""With fewer rows than this no column is called nearly constant."""


def near_constant(table: Table) -> NearConstant | None:
    """Columns in which hardly a row differs from the others, if there are any."""
    rows, labels = table.rows, table.labels
    n = rows.shape[0]
    if n < MEMBERS:
        return None
    few = max(1, int(FEW * n))
    if sparse.issparse(rows):
        found = _hardly_vary_sparse(rows, few)
    else:
        found = _hardly_vary_incomplete(rows, few) if table.has_missing else _hardly_vary(rows, few)
    return _warning(found, few, n, labels)


class Watcher(Protocol):
    """What looks at the blocks of a pass beside those who sum them up."""

    def add(self, block: Any) -> None:
        """One more block of rows."""


class NearConstantColumns:
    """The same for rows that come by blocks: of columns that hardly vary, what differs is counted.

    Which these may be, and what value is common in them, is learned from the first block.
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
        """Those of the columns `kept`, if there are any."""
        few = max(1, int(FEW * self._n))
        if self._n < MEMBERS:
            return None
        found = [int(j) for j in self._suspects[self._differ <= few] if j in kept]
        return _warning(found, few, self._n, labels)


def _warning(found: list[int], few: int, n: int, labels: list[Any] | None) -> NearConstant | None:
    return NearConstant(tuple(column(j, labels) for j in found), few, n) if found else None


def _hardly_vary(rows: Any, few: int) -> list[int]:
    """Columns in which at most `few` rows differ from the most common value.

    That value is the median, of all rows or of those looked at.
    """
    common, suspects = _suspects(rows)
    return [int(j) for j in suspects if np.sum(rows[:, j] != common[j]) <= few]


def _suspects(rows: Any) -> tuple[Array, Indices]:
    """Medians of the rows looked at, and the columns in which nearly all of these have it."""
    n = len(rows)
    look = np.asarray(rows[np.linspace(0, n - 1, min(n, LOOK)).astype(int)], dtype=float)
    common = np.median(look, axis=0)
    most = max(2, 4 * FEW * len(look))
    return common, np.flatnonzero(np.sum(look != common, axis=0) <= most)


def _hardly_vary_incomplete(rows: Any, few: int) -> list[int]:
    """The same among the values that a column has."""
    found = []
    for j in range(rows.shape[1]):
        values = rows[:, j][~np.isnan(rows[:, j])]
        if len(values) >= MEMBERS and np.sum(values != np.median(values)) <= few:
            found.append(j)
    return found


def _hardly_vary_sparse(rows: Any, few: int) -> list[int]:
    """The same: the most common value is zero, or the median of a column with hardly a zero."""
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
