"""Complete data in memory: moments, Gram matrix, rows, sparse rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from cuspfa._typing import Array
from cuspfa._utils.linalg import rotated_rows, symmetric_root
from cuspfa.inference.kernels import Statistics

ROW_BLOCK_SIZE = 1 << 21
"""Numbers in a block of rows: 16 MB, so that a block is a small part of any data worth it."""


def row_blocks(rows: Any) -> Iterator[Array]:
    """Blocks of rows as dense float64, one row after the other whatever the table's order.

    The order of a sum decides its last bits: the same numbers, as a frame or as an array, are to
    give the same bits.
    """
    size = max(1, ROW_BLOCK_SIZE // max(rows.shape[1], 1))
    for first in range(0, rows.shape[0], size):
        block = rows[first : first + size]
        dense = block.toarray() if issparse(block) else block
        yield np.asarray(dense, dtype=float, order="C")


DEPENDENT = 1e-10
"""Part of a column's sum of squares: if the columns before it leave less, it depends on them."""
LARGEST_KEPT_DATA = 4_000_000
"""Numbers of a matrix that a posterior may keep: 32 MB. Above, exact sweeps would take minutes."""


class RotatedRows:
    """R with RᵀR = YᵀY, made when it is first asked for; of Y itself nothing is kept."""

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


def _root(gram: Array, n: float) -> Array:
    """R with RᵀR = G, of no more than n rows.

    Triangular, or symmetric where columns depend on each other. There rounding errors decide
    whether a triangular root exists, and draws would be others with one than with the other.
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


@dataclass(frozen=True)
class GramMatrix:
    """G = YᵀY held once; a product costs O(p²K) whatever n is."""

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

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """The rows, rotated so that nothing is left of which row was which."""
        if largest is not None and self.rows.size > largest:
            return None
        size = min(round(self.n), len(self.rows), self.rows.shape[1])
        return RotatedRows(None, rotated_rows(self.rows, size), self.n)


@dataclass(frozen=True)
class SparseMatrix:
    """Y = (X − 1cᵀ) diag(1/s) with X sparse: centring and scaling stay factors beside it."""

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

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """None: they would be dense."""
        return None
