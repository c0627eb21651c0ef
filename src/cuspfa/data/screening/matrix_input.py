"""Correlation and covariance matrices that were passed for rows of observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cuspfa._typing import Array
from cuspfa.errors import DataError

FEWEST, LARGEST = 3, 3000
"""Columns from which on a symmetric table is no accident, and up to which it is looked for."""
ROUNDED = 0.0051
"""What printed correlations may be off by: half of the second decimal."""
VARIES = 10.0
"""A matrix is recognised only if its entries differ by so many times what two may differ by."""
EQUAL = 1e-6
"""What two entries of a covariance matrix may differ by, on the scale of correlations."""


def kind_of_matrix(rows: Any) -> str | None:
    """Say "correlation" or "covariance" of a table that is such a matrix, or a triangle of it.

    Rows of observations are as many as columns by accident, and never symmetric. Tables of whole
    numbers (adjacencies, an identity) are neither.
    """
    n, p = rows.shape
    if n != p or not FEWEST <= p <= LARGEST:
        return None
    table = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=float)
    diagonal = np.diag(table)
    if not np.all(diagonal > 0) or np.any(np.isinf(table)):
        return None
    whole = _both_halves(table)
    if whole is None or np.all(whole == np.round(whole)):
        return None
    root = np.sqrt(diagonal)
    scaled = whole / root[:, None] / root
    apart = np.abs(scaled - scaled.T)
    if np.all(np.abs(diagonal - 1.0) <= ROUNDED):
        near, kind = ROUNDED, "correlation"
    else:
        near, kind = EQUAL, "covariance"
    # Rows far from zero that hardly vary are symmetric up to their own variation.
    varies = np.ptp(scaled) > VARIES * near
    fits = apart.max() <= near and np.abs(scaled).max() <= 1.0 + near and varies
    return kind if fits else None


def _both_halves(table: Array) -> Array | None:
    """The matrix; of one with a triangle left empty, that triangle is filled from the other."""
    missing = np.isnan(table)
    if not missing.any():
        return table
    above, below = np.triu_indices(len(table), 1), np.tril_indices(len(table), -1)
    for full, empty in ((above, below), (below, above)):
        if missing[empty].all() and not missing[full].any():
            return np.asarray(np.where(missing, table.T, table))
    return None


def refuse_matrix(rows: Any, what: str = "X") -> None:
    """Raise a DataError that says what to do with a matrix instead."""
    kind = kind_of_matrix(rows)
    if kind is not None:
        matrix = "X" if what == "X" else "matrix"
        raise DataError(
            f"{what} looks like a {kind} matrix of {rows.shape[1]} variables (it is square and "
            "symmetric), not like rows of observations. Fit a matrix by "
            f"CuspFactorAnalysis().fit_moments(Moments.from_{kind}({matrix}, n=...)), n being the "
            "number of rows it was made of."
        )


class FirstRows:
    """As many rows as columns of a stream, for as long as there may be no more."""

    def __init__(self, p: int) -> None:
        self.p, self._n = p, 0
        self._held: list[Array] = []

    def add(self, block: Any) -> None:
        """One more block of rows."""
        self._n += len(block)
        if self._n > self.p or self.p > LARGEST:
            self._held.clear()
        else:
            self._held.append(np.array(block))

    @property
    def square(self) -> Array | None:
        """All rows, if they were as many as columns."""
        return np.concatenate(self._held) if self._n == self.p and self._held else None
