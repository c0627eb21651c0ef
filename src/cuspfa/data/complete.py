"""From a checked table or moments to a ready source: the layout is chosen by shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import FitWarning
from cuspfa.data.in_memory import GramMatrix, RowMatrix, SparseMatrix, row_blocks
from cuspfa.data.moments import Moments
from cuspfa.data.protocols import CompleteMatrix, CompleteSource, DataSource
from cuspfa.errors import DataError

SMALL_GRAM = 1500
"""Columns up to which a dense p×p matrix is small whatever the data are: 18 MB."""
WORTH = 4
"""A dense p×p matrix may hold so many times the numbers that the sparse rows do."""


class Prepared(NamedTuple):
    """A source, and how its units relate to the user's: value = center + scale × engine's."""

    source: DataSource
    center: Array
    scale: Array
    n: int
    names: list[str] | None = None
    """Column names, if the data have any and all are text."""
    warnings: tuple[FitWarning, ...] = ()
    """What the data give reason for."""


def prepare_moments(moments: Moments, *, scaling: str, flat_mean: bool) -> Prepared:
    """As a Gram matrix."""
    variances = np.diag(moments.cross_products) / max(moments.n - 1, 1)
    scale = column_scale(variances, scaling)
    gram = moments.cross_products / scale[:, None] / scale
    matrix = GramMatrix(gram, counted_rows(moments.n, flat_mean))
    return Prepared(CompleteSource(matrix), moments.mean, scale, moments.n)


def prepare_rows(rows: Any, *, scaling: str, flat_mean: bool) -> Prepared:
    """A Gram matrix for n ≥ p, rows for p > n; sparse rows stay sparse where p is large.

    `scaling` is "columns" (unit variances), "common" (unit median variance) or "none".
    """
    n, p = rows.shape
    if sparse.issparse(rows):
        return _prepare_sparse(rows, scaling, flat_mean)
    if n >= p:
        moments = Moments.from_checked_rows(rows)
        return prepare_moments(moments, scaling=scaling, flat_mean=flat_mean)
    # A copy of the data, centred by blocks so that no second one is made of other types.
    center = sum(block.sum(axis=0) for block in row_blocks(rows)) / n
    copy, first = np.empty((n, p)), 0
    for block in row_blocks(rows):
        np.subtract(block, center, out=copy[first : first + len(block)])
        first += len(block)
    scale = column_scale(np.einsum("ij,ij->j", copy, copy) / (n - 1), scaling)
    copy /= scale
    return Prepared(CompleteSource(RowMatrix(copy, counted_rows(n, flat_mean))), center, scale, n)


def _prepare_sparse(rows: Any, scaling: str, flat_mean: bool) -> Prepared:
    n, p = rows.shape
    rows = rows.astype(float, copy=False)  # squares in single precision would lose half the digits
    center = np.asarray(rows.sum(axis=0), dtype=float).ravel() / n
    squares = np.asarray(rows.multiply(rows).sum(axis=0), dtype=float).ravel()
    variances = (squares - n * center**2) / (n - 1)
    lost = n * center**2 / 1e8 > np.maximum(variances, 0) * (n - 1)
    if np.any(lost):
        raise DataError(
            f"column {int(np.argmax(lost))} of the sparse matrix has a mean far above its standard "
            "deviation, so centring it sparsely would lose its digits. Subtract a constant from "
            "it, or pass a dense array."
        )
    scale, counted = column_scale(variances, scaling), counted_rows(n, flat_mean)
    matrix: CompleteMatrix
    if n >= p and (p <= SMALL_GRAM or p**2 <= WORTH * rows.nnz):
        gram = (rows.T @ rows).toarray() - n * np.outer(center, center)
        matrix = GramMatrix(gram / scale[:, None] / scale, counted)
    else:
        matrix = SparseMatrix(rows, center, scale, counted)
    return Prepared(CompleteSource(matrix), center, scale, n)


def counted_rows(n: int, flat_mean: bool) -> float:
    """Rows that the likelihood counts."""
    return n - 1.0 if flat_mean else float(n)


def column_scale(variances: Array, scaling: str) -> Array:
    """What columns of these variances are divided by."""
    if scaling == "columns":
        return np.asarray(np.sqrt(variances))
    common = np.sqrt(np.median(variances)) if scaling == "common" else 1.0
    return np.full(len(variances), common)
