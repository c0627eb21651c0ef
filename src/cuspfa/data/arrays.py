"""Complete data in memory: as a Gram matrix, or as rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuspfa._types import Array
from cuspfa.data.source import CompleteMatrix


@dataclass(frozen=True)
class GramMatrix:
    """G = YᵀY held once; a product costs O(p²H) whatever n is."""

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
    """Y itself; a product costs O(npH), which is less than the Gram form's when p > n."""

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


def complete_matrix(rows: Array, n: float) -> CompleteMatrix:
    """The cheaper home for centred and scaled rows."""
    if rows.shape[0] >= rows.shape[1]:
        return GramMatrix(rows.T @ rows, n)
    return RowMatrix(rows, n)
