"""Complete data in memory: moments, Gram matrix, rows, sparse rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuspfa._types import Array

BLOCK = 1 << 21
"""Numbers in a block of rows: 16 MB, so that a block is a small part of any data worth it."""


def row_blocks(rows: Any) -> Iterator[Array]:
    """Blocks of rows as float64, whatever the table's type and order."""
    size = max(1, BLOCK // max(rows.shape[1], 1))
    for first in range(0, rows.shape[0], size):
        yield np.asarray(rows[first : first + size], dtype=float)


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
