"""From a checked table or moments to a source; the shape decides on the layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import FitWarning
from cuspfa.data.in_memory import GramMatrix, RowMatrix, SparseMatrix, row_blocks
from cuspfa.data.moments import Moments
from cuspfa.data.protocols import CompleteMatrix, CompleteSource, DataSource
from cuspfa.data.robust_moments import RobustMoments
from cuspfa.errors import DataError
from cuspfa.model.row_tails import NORMAL_TAILS, RowTails

if TYPE_CHECKING:
    from cuspfa.data.provenance import DataProvenance
    from cuspfa.data.screening.column_kinds import KindGroup

Scaling = Literal["columns", "common", "none"]
"""Columns of unit variances, of unit median variance, or as they are."""
SMALL_GRAM = 1500
"""Columns up to which a dense p×p matrix is always small: 18 MB."""
GRAM_TO_NONZEROS = 4
"""Largest ratio of the size of a dense p×p matrix to the non-zeros of sparse rows."""


class Prepared(NamedTuple):
    """A source, and its units: user's value = center + scale × value in the source."""

    source: DataSource
    center: Array
    scale: Array
    n: int
    names: list[str] | None = None
    """Column names, if the data have any and all are text."""
    warnings: tuple[FitWarning, ...] = ()
    """Warnings about the data."""
    provenance: DataProvenance | None = None
    """The file, and how it was read, if the data came from one."""
    kinds: tuple[KindGroup, ...] = ()
    """Columns by kind; empty where rows were not seen, or are too few."""
    tails: RowTails = NORMAL_TAILS
    """The distribution of the rows' weights; normal unless the fit is robust."""
    row_weights: Array | None = None
    """Weights of the rows of a robust fit, in their order; NaN for rows that were left out."""


def prepare_moments(moments: Moments, *, scaling: Scaling, flat_mean: bool) -> Prepared:
    """A source over the Gram matrix of moments."""
    variances = np.diag(moments.cross_products) / max(moments.n - 1, 1)
    scale = column_scale(variances, scaling)
    gram = moments.cross_products / scale[:, None] / scale
    matrix = GramMatrix(gram, counted_rows(moments.n, flat_mean))
    return Prepared(CompleteSource(matrix), moments.mean, scale, moments.n)


def prepare_robust(found: RobustMoments, *, scaling: Scaling, flat_mean: bool) -> Prepared:
    """A source over the Gram matrix of robust moments, with the weights of the rows."""
    prepared = prepare_moments(found.moments(), scaling=scaling, flat_mean=flat_mean)
    return prepared._replace(
        n=int(np.sum(~np.isnan(found.weights))),
        tails=RowTails(found.degrees_of_freedom),
        row_weights=found.weights,
        warnings=found.warnings,
    )


def prepare_rows(rows: Any, *, scaling: Scaling, flat_mean: bool) -> Prepared:
    """A source over a Gram matrix for n ≥ p, or over rows for p > n; sparse rows may stay sparse.

    `scaling` is "columns" (unit variances), "common" (unit median variance) or "none".
    """
    n, p = rows.shape
    if sparse.issparse(rows):
        return _prepare_sparse(rows, scaling, flat_mean)
    if n >= p:
        moments = Moments.from_checked_rows(rows)
        return prepare_moments(moments, scaling=scaling, flat_mean=flat_mean)
    # A centred copy, by blocks, so that other types need no second copy.
    center = sum(block.sum(axis=0) for block in row_blocks(rows)) / n
    copy, first = np.empty((n, p)), 0
    for block in row_blocks(rows):
        np.subtract(block, center, out=copy[first : first + len(block)])
        first += len(block)
    scale = column_scale(np.einsum("ij,ij->j", copy, copy) / (n - 1), scaling)
    copy /= scale
    return Prepared(CompleteSource(RowMatrix(copy, counted_rows(n, flat_mean))), center, scale, n)


def _prepare_sparse(rows: Any, scaling: Scaling, flat_mean: bool) -> Prepared:
    n, p = rows.shape
    rows = rows.astype(float, copy=False)  # squares in single precision lose half the digits
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
    if n >= p and (p <= SMALL_GRAM or p**2 <= GRAM_TO_NONZEROS * rows.nnz):
        gram = (rows.T @ rows).toarray() - n * np.outer(center, center)
        matrix = GramMatrix(gram / scale[:, None] / scale, counted)
    else:
        matrix = SparseMatrix(rows, center, scale, counted)
    return Prepared(CompleteSource(matrix), center, scale, n)


def counted_rows(n: int, flat_mean: bool) -> float:
    """Number of rows in the likelihood: n, or n − 1 under a flat prior on the mean."""
    return n - 1.0 if flat_mean else float(n)


def column_scale(variances: Array, scaling: Scaling) -> Array:
    """Divisors of columns with these variances."""
    if scaling == "columns":
        return np.asarray(np.sqrt(variances))
    common = np.sqrt(np.median(variances)) if scaling == "common" else 1.0
    return np.full(len(variances), common)
