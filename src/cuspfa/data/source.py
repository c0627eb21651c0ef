"""The two protocols between data and engines.

A home of complete data says only how YᵀYW is computed (`CompleteMatrix`); engines see a
`DataSource`, which turns loadings and noise into moments of the scores. The score means are
linear in the data, E[η] = YW with W p×H, so for complete data those two products are enough.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from cuspfa._types import Array
from cuspfa.blocks import Loadings, ScoreMoments


class CompleteMatrix(Protocol):
    """A p-column data matrix Y without holes, already centred and scaled."""

    @property
    def n(self) -> float:
        """Rows the likelihood counts: n, or n − 1 under a flat prior on the mean."""

    @property
    def sum_of_squares(self) -> Array:
        """(p,) Σ_i y_ij²."""

    def products(self, w: Array) -> tuple[Array, Array]:
        """YᵀYW (p, H) and WᵀYᵀYW (H, H)."""


class DataSource(Protocol):
    """All that an engine sees of the data."""

    @property
    def n(self) -> float:
        """Rows the likelihood counts."""

    @property
    def p(self) -> int:
        """Columns."""

    @property
    def counts(self) -> Array:
        """(p,) values observed in each column."""

    @property
    def squares(self) -> Array:
        """(p,) Σ_i y_ij² over the observed."""

    def expect_scores(self, loadings: Loadings, noise_precision: Array) -> ScoreMoments:
        """Best q(η) given the other blocks, as moments."""


class CompleteSource:
    """A `DataSource` over any `CompleteMatrix`."""

    def __init__(self, matrix: CompleteMatrix) -> None:
        self._matrix = matrix
        self.n = matrix.n
        self.squares = matrix.sum_of_squares
        self.p = len(self.squares)
        self.counts: Array = np.full(self.p, self.n, dtype=float)

    def expect_scores(self, loadings: Loadings, noise_precision: Array) -> ScoreMoments:
        """Step 3: one covariance V for all rows, means YW with W = diag(τ) μ V."""
        precision = loadings.weighted_gram(noise_precision)
        precision[np.diag_indices_from(precision)] += 1.0
        factor = cho_factor(precision, lower=True)
        covariance = cho_solve(factor, np.eye(len(precision)))
        w = (noise_precision[:, None] * loadings.mean) @ covariance
        cross, inner = self._matrix.products(w)
        log_det = -2.0 * self.n * float(np.sum(np.log(np.diag(factor[0]))))
        return ScoreMoments(cross, inner + self.n * covariance, log_det, self.n)
