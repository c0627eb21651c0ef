"""Columns that are exact sums, differences or copies of others."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dpstrf

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import DependentColumns, column
from cuspfa.data.in_memory import DEPENDENT, DenseData

WIDEST = 2000
"""Columns up to which dependence is looked for: the matrix is factorised."""
MOST_ROWS = 50_000
"""Rows, evenly spaced ones, of a table that has no sums."""
PART_OF_SUM = 1e-6
"""Coefficients of standardised columns below which one has no part in a sum."""


def dependent_columns(
    data: DenseData | None, n: float, labels: list[Any] | None
) -> DependentColumns | None:
    """The first set of linearly dependent columns of n rows, unless columns are more than rows.

    A column that depends on the others is found by a Cholesky factorisation with pivots, and the
    columns that it depends on by its regression on the independent ones.
    """
    return None if data is None or not data.is_gram else _dependent(data.values, n, labels)


def dependent_in_rows(rows: Array, labels: list[Any] | None) -> DependentColumns | None:
    """The same for rows (n, p); None where values are missing."""
    if rows.shape[1] > WIDEST or np.isnan(rows).any():
        return None
    some = rows[:: -(-len(rows) // MOST_ROWS)]
    spread = np.ptp(some, axis=0)
    if not np.all(spread > 0):
        return None
    some = (some - some.mean(axis=0)) / spread
    return _dependent(some.T @ some, len(some), labels)


def _dependent(products: Array, n: float, labels: list[Any] | None) -> DependentColumns | None:
    if not len(products) <= min(n, WIDEST):
        return None
    sd = np.sqrt(np.diag(products))
    correlation = products / sd[:, None] / sd
    _, pivots, rank, _ = dpstrf(correlation, tol=DEPENDENT)
    if rank == len(sd):
        return None
    independent, extra = pivots[:rank] - 1, sorted(pivots[rank:] - 1)
    found = _set_of(correlation, independent, int(extra[0]))
    return DependentColumns(
        tuple(column(j, labels) for j in found), n_extra=len(extra), n_columns=len(sd)
    )


def _set_of(correlation: Array, independent: Array, extra: int) -> list[int]:
    """A column, and those of which it is a linear combination."""
    inner = correlation[np.ix_(independent, independent)]
    weights = np.linalg.solve(inner, correlation[independent, extra])
    return sorted([extra, *independent[np.abs(weights) > PART_OF_SUM].tolist()])
