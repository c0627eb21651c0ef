"""Complete data in memory: moments, Gram matrix, rows, sparse rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from cuspfa._typing import Array, Indices
from cuspfa._utils.linalg import rotated_rows, symmetric_root
from cuspfa.inference.kernels import Statistics

ROW_BLOCK_SIZE = 1 << 21
"""Numbers in a block of rows: 16 MB."""


def row_blocks(rows: Any) -> Iterator[Array]:
    """Blocks of rows as dense float64 in row order, whatever the order of the table.

    The order of a sum decides its last bits. The same numbers, as a frame or as an array, give the
    same bits.
    """
    size = max(1, ROW_BLOCK_SIZE // max(rows.shape[1], 1))
    for first in range(0, rows.shape[0], size):
        block = rows[first : first + size]
        dense = block.toarray() if issparse(block) else block
        yield np.asarray(dense, dtype=float, order="C")


DEPENDENT = 1e-10
"""Unexplained share of a column's sum of squares below which it depends on the columns before."""
LARGEST_KEPT_DATA = 4_000_000
"""Numbers that a posterior may keep of the data: 32 MB. With more, exact sweeps take minutes."""


class RotatedRows:
    """R with RᵀR = YᵀY, computed on first use; Y itself is not kept."""

    def __init__(self, gram: Array | None, rows: Array | None, n: float) -> None:
        self.gram, self.given, self.n = gram, rows, n

    @cached_property
    def rows(self) -> Array:
        """(r, p) R."""
        if self.given is not None:
            return self.given
        assert self.gram is not None
        return _root(self.gram, self.n)

    @property
    def squares(self) -> Array:
        """(p,) Σ_i y_ij²."""
        if self.gram is not None:
            return np.diag(self.gram).copy()
        return np.asarray(np.einsum("ij,ij->j", self.rows, self.rows))

    def arranged(self, order: Indices, signs: Array) -> RotatedRows:
        """The statistics of the columns in this order, with these signs, as if they came so."""
        if self.gram is not None:
            gram = signs[:, None] * self.gram[np.ix_(order, order)] * signs
            return RotatedRows(gram, None, self.n)
        rows = rotated_rows(signs * self.rows[:, order], len(self.rows))
        return RotatedRows(None, rows, self.n)


def _root(gram: Array, n: float) -> Array:
    """R with RᵀR = G, with at most n rows.

    Triangular, or symmetric if columns are linearly dependent. For dependent columns rounding
    errors decide whether a triangular root exists, and draws depend on the kind of root.
    """
    if n >= len(gram):
        try:
            lower = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            lower = None
        if lower is not None and np.all(np.diag(lower) ** 2 > DEPENDENT * np.diag(gram)):
            return np.asarray(lower.T)
    root = symmetric_root(gram)
    return root if n >= len(gram) else rotated_rows(root, round(n))


class DenseData(NamedTuple):
    """Complete data as one array in C order, for compiled iterations."""

    values: Array
    """(p, p) YᵀY or (n, p) Y."""
    is_gram: bool


@dataclass(frozen=True)
class GramMatrix:
    """G = YᵀY; a product costs O(p²K) for any n."""

    gram: Array
    n: float

    @property
    def sum_of_squares(self) -> Array:
        """(p,) the diagonal of G."""
        return np.diag(self.gram).copy()

    def products(self, w: Array) -> tuple[Array, Array]:
        """YᵀYW and WᵀYᵀYW."""
        cross = self.gram @ w
        return cross, w.T @ cross

    @property
    def dense(self) -> DenseData:
        """G."""
        return DenseData(np.ascontiguousarray(self.gram, dtype=float), is_gram=True)

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """The Gram matrix."""
        small = largest is None or self.gram.size <= largest
        return RotatedRows(self.gram, None, self.n) if small else None


@dataclass(frozen=True)
class RowMatrix:
    """Y itself; a product costs O(npK), which is less than the Gram form's when p > n."""

    rows: Array
    n: float

    @property
    def sum_of_squares(self) -> Array:
        """(p,) Σ_i y_ij²."""
        return np.asarray(np.einsum("ij,ij->j", self.rows, self.rows))

    def products(self, w: Array) -> tuple[Array, Array]:
        """YᵀYW and WᵀYᵀYW."""
        scores = self.rows @ w
        return self.rows.T @ scores, scores.T @ scores

    @property
    def dense(self) -> DenseData:
        """Y."""
        return DenseData(np.ascontiguousarray(self.rows, dtype=float), is_gram=False)

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """The rows, rotated, so that single rows cannot be recovered."""
        if largest is not None and self.rows.size > largest:
            return None
        size = min(round(self.n), len(self.rows), self.rows.shape[1])
        return RotatedRows(None, rotated_rows(self.rows, size), self.n)


@dataclass(frozen=True)
class SparseMatrix:
    """Y = (X − 1cᵀ) diag(1/s) with X sparse, not centred or scaled itself."""

    rows: Any
    center: Array
    scale: Array
    n: float

    @property
    def sum_of_squares(self) -> Array:
        """(p,) Σ_i x_ij² − (rows) c_j², scaled."""
        squares = np.asarray(self.rows.multiply(self.rows).sum(axis=0), dtype=float).ravel()
        centred = squares - self.rows.shape[0] * self.center**2
        return np.asarray(centred / self.scale**2)

    def products(self, w: Array) -> tuple[Array, Array]:
        """YᵀYW and WᵀYᵀYW."""
        scaled = w / self.scale[:, None]
        scores = self.rows @ scaled - self.center @ scaled
        cross = self.rows.T @ scores - np.outer(self.center, scores.sum(axis=0))
        return cross / self.scale[:, None], scores.T @ scores

    @property
    def dense(self) -> None:
        """None: sparse rows are not made dense."""

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """None: cross-products of sparse rows would be a dense matrix."""
        return None
