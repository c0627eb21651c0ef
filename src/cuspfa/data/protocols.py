"""The two protocols between data and engines.

A layout of complete data defines only how YᵀYW is computed (`CompleteMatrix`); engines use a
`DataSource`, which turns loadings and noise into moments of the scores. The score means are
linear in the data, E[η] = YW with W p×K, so for complete data those two products are enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.in_memory import LARGEST_KEPT_DATA
from cuspfa.inference.kernels import Statistics
from cuspfa.inference.updates import KnownScores, LoadingsDistribution, ScoreMoments
from cuspfa.model.likelihoods.gaussian import marginal_log_likelihood

if TYPE_CHECKING:
    from cuspfa.missing.patterns import IncompleteRows


class CompleteMatrix(Protocol):
    """A p-column data matrix Y without missing values, centred and scaled."""

    @property
    def n(self) -> float:
        """Rows the likelihood counts: n, or n − 1 under a flat prior on the mean."""

    @property
    def sum_of_squares(self) -> Array:
        """(p,) Σ_i y_ij²."""

    def products(self, w: Array) -> tuple[Array, Array]:
        """YᵀYW (p, K) and WᵀYᵀYW (K, K)."""

    def statistics(self, largest: int | None = ...) -> Statistics | None:
        """The data up to a rotation of their rows, where that is small enough to keep.

        `largest` is how many numbers that may be, None for any; left out, what a posterior keeps.
        """


class DataSource(Protocol):
    """All that an engine uses of the data."""

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

    @property
    def incomplete_rows(self) -> IncompleteRows | None:
        """The rows, where values are missing; None for complete data."""

    def expect_scores(self, loadings: LoadingsDistribution, noise_precision: Array) -> KnownScores:
        """Best q(η) given the other blocks, as moments."""

    def inactive_scores(self, signal: Array) -> tuple[Array | float, float]:
        """Variance of an inactive factor's scores, and its term of the bound (see `Tail`).

        `signal` (p,) is τ_j times the variance of its loadings.
        """

    def log_likelihood(self, loadings: Array, noise_variance: Array) -> float:
        """Σ_i log N(y_i; 0, ΛΛᵀ + Σ), scores integrated out, for loadings (p, K)."""

    def likelihood_work(self, k: int) -> float:
        """Multiplications that `log_likelihood` takes."""

    def statistics(self, largest: int | None = ...) -> Statistics | None:
        """The data up to a rotation of their rows, where that is small enough to keep.

        `largest` is how many numbers that may be, None for any; left out, what a posterior keeps.
        """

    def surrogate(self, loadings: Array, noise_variance: Array) -> DataSource | None:
        """Data much like these, at a fraction of the cost, given a first fit; None if there are
        no such.
        """

    def leading(
        self,
        k: int,
        noise_variance: Array,
        *,
        near: Array | None = None,
    ) -> tuple[Array, Array]:
        """At least k leading eigenvalues and vectors of Ψ^{-1/2} YᵀY Ψ^{-1/2}, Ψ = diag(noise).

        `near` (p, m) are loadings thought to span most of them.
        """


EXACT_UP_TO = 400
"""Columns up to which all eigenvectors cost no more than an iteration for the leading ones."""


class CompleteSource:
    """A `DataSource` over any `CompleteMatrix`."""

    def __init__(self, matrix: CompleteMatrix) -> None:
        self._matrix = matrix
        self.n = matrix.n
        self.squares = matrix.sum_of_squares
        self.p = len(self.squares)
        self.counts: Array = np.full(self.p, self.n, dtype=float)
        self.incomplete_rows: IncompleteRows | None = None

    def inactive_scores(self, signal: Array) -> tuple[float, float]:
        """One variance for all rows."""
        v = 1.0 / (1.0 + float(np.sum(signal)))
        return v, 0.5 * self.n * (float(np.log(v)) + 1.0 - v)

    def expect_scores(self, loadings: LoadingsDistribution, noise_precision: Array) -> ScoreMoments:
        """Step 3: one covariance V for all rows, means YW with W = diag(τ) μ V."""
        k = loadings.mean.shape[1]
        if k == 0:
            return ScoreMoments(np.zeros((self.p, 0)), np.zeros((0, 0)), 0.0, self.n)
        precision = loadings.weighted_gram(noise_precision)
        precision[np.diag_indices_from(precision)] += 1.0
        # NumPy's solvers: SciPy's check their input at length, which small matrices feel.
        root = np.linalg.inv(np.linalg.cholesky(precision))
        covariance = root.T @ root
        w = (noise_precision[:, None] * loadings.mean) @ covariance
        cross, inner = self._matrix.products(w)
        log_det = 2.0 * self.n * float(np.sum(np.log(np.diag(root))))
        return ScoreMoments(cross, inner + self.n * covariance, log_det, self.n)

    def log_likelihood(self, loadings: Array, noise_variance: Array) -> float:
        """By products with the matrix; no p×p matrix is formed."""
        return marginal_log_likelihood(
            loadings, noise_variance, self.squares, self.n, self._matrix.products
        )

    def likelihood_work(self, k: int) -> float:
        """Of the product with the matrix."""
        return self.p * min(self.p, self.n) * (k + 1)

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """Those of the matrix."""
        return self._matrix.statistics(largest)

    def surrogate(self, loadings: Array, noise_variance: Array) -> None:
        """None: these are quick themselves."""

    def leading(
        self,
        k: int,
        noise_variance: Array,
        *,
        near: Array | None = None,
    ) -> tuple[Array, Array]:
        """All eigenvectors where p is small, otherwise subspace iteration from fixed vectors."""
        root = 1.0 / np.sqrt(noise_variance)
        if self.p <= EXACT_UP_TO:
            cross, _ = self._matrix.products(np.diag(root))
            values, vectors = np.linalg.eigh(root[:, None] * cross)
            return values[::-1], vectors[:, ::-1]
        # More vectors than asked for make few iterations enough for a start.
        # The same vectors every time: what a search finds is not to depend on a seed.
        rng = np.random.default_rng(0)
        basis = rng.standard_normal((self.p, min(k + max(k // 4, 8), self.p)))
        if near is not None:
            basis[:, : near.shape[1]] = root[:, None] * near
        for _ in range(3 if near is None else 1):
            cross, _ = self._matrix.products(root[:, None] * np.linalg.qr(basis)[0])
            basis = root[:, None] * cross
        basis = np.linalg.qr(basis)[0]
        _, inner = self._matrix.products(root[:, None] * basis)
        values, turn = np.linalg.eigh(inner)
        return values[::-1], (basis @ turn)[:, ::-1]
