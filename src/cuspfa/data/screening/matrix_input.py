"""Correlation and covariance matrices that were passed as rows of observations."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from cuspfa._typing import Array
from cuspfa._utils.spelling import Spell, as_argument, fitting_matrix
from cuspfa.errors import DataError

EXTRA_ROWS = 3
"""Rows that a file may have besides the matrix: counts, means and standard deviations."""
SMALLEST_MATRIX, LARGEST_MATRIX = 3, 3000
"""Numbers of columns between which a symmetric table is taken for a matrix."""
CORRELATION_TOLERANCE = 0.0051
"""Rounding error of printed correlations: half of the second decimal."""
SMALLEST_RANGE = 10.0
"""Range of the entries of a matrix, in multiples of the tolerance."""
COVARIANCE_TOLERANCE = 1e-6
"""Difference between symmetric entries of a covariance matrix, on the correlation scale."""


class FoundMatrix(NamedTuple):
    """A matrix in a table."""

    kind: Literal["correlation", "covariance"]
    matrix: Array
    """(p, p) symmetric; correlations have a unit diagonal."""


def kind_of_matrix(rows: Any) -> str | None:
    """Is a table a "correlation" or "covariance" matrix, or a triangle of one?"""
    found = find_matrix(rows)
    return None if found is None else found.kind


def find_matrix(rows: Any) -> FoundMatrix | None:
    """The matrix that a table is, if it is one: whole, or a triangle, with or without diagonal.

    A square table of observations is not symmetric. Tables of whole numbers (adjacency matrices,
    an identity) are taken as observations, unless they are correlations in per cent: with a
    diagonal of 100 and, if it is 1 or empty, with other numbers up to 99.
    """
    n, p = rows.shape
    if n != p or not SMALLEST_MATRIX <= p <= LARGEST_MATRIX:
        return None
    table = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=float)
    if np.any(np.isinf(table)):
        return None
    whole = _both_halves(table)
    if whole is None:
        return None
    whole = _without_per_cent(whole)
    diagonal = np.diag(whole)
    if not np.all(diagonal > 0) or np.all(whole == np.round(whole)):
        return None
    root = np.sqrt(diagonal)
    scaled = whole / root[:, None] / root
    apart = np.abs(scaled - scaled.T)
    if np.all(np.abs(diagonal - 1.0) <= CORRELATION_TOLERANCE):
        near, kind = CORRELATION_TOLERANCE, "correlation"
    else:
        near, kind = COVARIANCE_TOLERANCE, "covariance"
    # Rows far from zero that hardly vary are symmetric up to their own variation.
    varies = np.ptp(scaled) > SMALLEST_RANGE * near
    if not (apart.max() <= near and np.abs(scaled).max() <= 1.0 + near and varies):
        return None
    if kind == "covariance":
        return FoundMatrix("covariance", (whole + whole.T) / 2)
    matrix = np.clip((whole + whole.T) / 2, -1.0, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return FoundMatrix("correlation", matrix)


def _without_per_cent(table: Array) -> Array:
    """Correlations of whole numbers, such as 45 for .45, as decimals; other tables as they are.

    An empty diagonal is filled with ones.
    """
    diagonal, off = np.diag(table), table[~np.eye(len(table), dtype=bool)]
    blank = bool(np.all(np.isnan(diagonal)))
    largest = float(np.abs(off).max())
    whole = bool(np.all(off == np.round(off)))
    per_cent = whole and 1 < largest < 100 and (blank or bool(np.all(diagonal == 1)))
    if per_cent or (bool(np.all(diagonal == 100)) and largest <= 100):
        table = table / 100
        np.fill_diagonal(table, 1.0)
    elif blank and largest <= 1:
        table = table.copy()
        np.fill_diagonal(table, 1.0)
    return table


def _both_halves(table: Array) -> Array | None:
    """The matrix; an empty triangle is filled from the other one. The diagonal may be empty."""
    missing = np.isnan(table)
    if not missing.any():
        return table
    blank = np.diag(missing)
    if blank.any() and not blank.all():
        return None
    if missing.sum() == blank.sum():
        return table
    above, below = np.triu_indices(len(table), 1), np.tril_indices(len(table), -1)
    for full, empty in ((above, below), (below, above)):
        if missing[empty].all() and not missing[full].any():
            return np.asarray(np.where(missing, table.T, table))
    return None


def refuse_matrix(rows: Any, what: str = "X", spell: Spell = as_argument) -> None:
    """Raise a DataError for a matrix, with advice on how to fit it.

    Up to three rows above or below the matrix may be counts, means and standard deviations.
    """
    n, p = rows.shape
    if not 0 <= n - p <= EXTRA_ROWS:
        return
    kinds = (kind_of_matrix(one) for one in ((rows,) if n == p else (rows[:p], rows[n - p :])))
    kind = next(filter(None, kinds), None)
    if kind is not None:
        raise DataError(
            f"{what} looks like a {kind} matrix of {p} variables (it is square and "
            f"symmetric), not like rows of observations. Fit a matrix by "
            f"{fitting_matrix(what, kind, spell)}, n being the number of rows it was made of."
        )


class FirstRows:
    """The rows of a stream, held while they may be a matrix."""

    def __init__(self, p: int) -> None:
        self.p, self._n = p, 0
        self._held: list[Array] = []

    def add(self, block: Any) -> None:
        """One more block of rows."""
        self._n += len(block)
        if self._n > self.p + EXTRA_ROWS or self.p > LARGEST_MATRIX:
            self._held.clear()
        else:
            self._held.append(np.array(block))

    @property
    def square(self) -> Array | None:
        """All rows, if there are as many as columns, or a few more."""
        return np.concatenate(self._held) if self._n >= self.p and self._held else None
