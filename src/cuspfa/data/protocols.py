"""The two protocols between data and engines.

A layout of complete data defines only how YᵀYW is computed (`CompleteMatrix`); engines use a
`DataSource`, which turns loadings and noise into moments of the scores. The score means are
linear in the data, E[η] = YW with W p×K, so for complete data those two products are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.linalg import eigh

from cuspfa._typing import Array
from cuspfa.data.in_memory import LARGEST_KEPT_DATA, DenseData, RotatedRows
from cuspfa.inference.compiled_sweeps import log_likelihoods
from cuspfa.inference.kernels import Statistics, flip
from cuspfa.inference.updates import KnownScores, LoadingsDistribution, ScoreMoments
from cuspfa.model.likelihoods.gaussian import (
    marginal_log_likelihood,
)

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

    @property
    def dense(self) -> DenseData | None:
        """The data as one array; None where the layout is another."""


class DataSource(Protocol):
    """What an engine uses of the data."""

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

    @property
    def dense(self) -> DenseData | None:
        """The data as one array; None where values are missing or the layout is another."""

    def expect_scores(self, loadings: LoadingsDistribution, noise_precision: Array) -> KnownScores:
        """Best q(η) given the other blocks, as moments."""

    def inactive_scores(self, signal: Array) -> tuple[Array | float, float]:
        """Variance of an inactive factor's scores, and its term of the bound (see `Tail`).

        `signal` (p,) is τ_j times the variance of its loadings.
        """

    def log_likelihood(self, loadings: Array, noise_variance: Array) -> float:
        """Σ_i log N(y_i; 0, ΛΛᵀ + Σ), scores integrated out, for loadings (p, K)."""

    def log_likelihoods(self, loadings: Array, noise_variances: Array) -> Array:
        """`log_likelihood` of B draws, (B,), for loadings (p, B, K) and noise (p, B)."""

    def likelihood_work(self, k: int) -> float:
        """Multiplications that `log_likelihood` takes."""

    def statistics(self, largest: int | None = ...) -> Statistics | None:
        """The data up to a rotation of their rows, where that is small enough to keep.

        `largest` is how many numbers that may be, None for any; left out, what a posterior keeps.
        """

    def surrogate(self, loadings: Array, noise_variance: Array) -> DataSource | None:
        """Complete data that are similar but cheaper, given a first fit; None if there are none."""

    def tempered(self, n: float) -> DataSource:
        """The data, counted as n rows: their log-likelihood times n / (rows)."""

    def leading(
        self,
        k: int,
        noise_variance: Array,
        *,
        near: Array | None = None,
    ) -> tuple[Array, Array]:
        """At least k leading eigenvalues and vectors of Ψ^{-1/2} YᵀY Ψ^{-1/2}, Ψ = diag(noise).

        `near` (p, m) are loadings that are expected to span most of them.
        """


@dataclass(frozen=True)
class TemperedMatrix:
    """Data that count as n rows: √w Y, w = n / (rows of Y), for a likelihood to the power w."""

    matrix: CompleteMatrix
    n: float

    @property
    def _weight(self) -> float:
        return self.n / self.matrix.n

    @property
    def sum_of_squares(self) -> Array:
        """(p,) w Σ_i y_ij²."""
        return self._weight * self.matrix.sum_of_squares

    def products(self, w: Array) -> tuple[Array, Array]:
        """YᵀYW and WᵀYᵀYW, both times w."""
        cross, inner = self.matrix.products(w)
        return self._weight * cross, self._weight * inner

    @property
    def dense(self) -> DenseData | None:
        """The array of the data, weighted."""
        dense = self.matrix.dense
        if dense is None:
            return None
        weight = self._weight if dense.is_gram else self._weight**0.5
        return dense._replace(values=weight * dense.values)

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """Weighted statistics of the data; None if the data count as fewer rows than their rank.

        Then they are not the statistics of any n rows, which exact draws assume.
        """
        found = self.matrix.statistics(largest)
        if found is None or self.n < len(found.rows):
            return None
        return RotatedRows(None, self._weight**0.5 * found.rows, self.n)


EXACT_UP_TO, SOME_FROM = 400, 200
"""Columns up to which eigenvectors cost no more than a few subspace iterations, and from which on
only those that are asked for are computed."""
BATCHED_UP_TO = 40_000
"""Size p·min(n, p) of the sufficient statistics up to which likelihoods of many draws are computed
together."""


def one_by_one(
    log_likelihood: Callable[[Array, Array], float], loadings: Array, noise_variances: Array
) -> Array:
    """The likelihoods of B draws by a function of one, (B,)."""
    draws = zip(flip(loadings), noise_variances.T, strict=True)
    return np.array([log_likelihood(one, noise) for one, noise in draws])


class CompleteSource:
    """A `DataSource` over any `CompleteMatrix`."""

    def __init__(self, matrix: CompleteMatrix) -> None:
        self._matrix = matrix
        self.n = matrix.n
        self.squares = matrix.sum_of_squares
        self.p = len(self.squares)
        self.counts: Array = np.full(self.p, self.n, dtype=float)
        self.incomplete_rows: IncompleteRows | None = None

    @cached_property
    def dense(self) -> DenseData | None:
        """The rows as one dense array, if the matrix has them."""
        return self._matrix.dense

    def inactive_scores(self, signal: Array) -> tuple[float, float]:
        """One variance for all rows."""
        v = 1.0 / (1.0 + float(signal.sum()))
        return v, 0.5 * self.n * (float(np.log(v)) + 1.0 - v)

    def expect_scores(self, loadings: LoadingsDistribution, noise_precision: Array) -> ScoreMoments:
        """Step 3: one covariance V for all rows, means YW with W = diag(τ) μ V."""
        k = loadings.mean.shape[1]
        if k == 0:
            return ScoreMoments(np.zeros((self.p, 0)), np.zeros((0, 0)), 0.0, self.n)
        precision = loadings.weighted_gram(noise_precision)
        precision[np.diag_indices_from(precision)] += 1.0
        # NumPy's solvers: the input checks of SciPy's are slow for small matrices.
        root = np.linalg.inv(np.linalg.cholesky(precision))
        covariance = root.T @ root
        w = (noise_precision[:, None] * loadings.mean) @ covariance
        cross, inner = self._matrix.products(w)
        log_det = 2.0 * self.n * float(np.sum(np.log(np.diag(root))))
        return ScoreMoments(cross, inner + self.n * covariance, log_det, self.n)

    def log_likelihood(self, loadings: Array, noise_variance: Array) -> float:
        """Log-likelihood by products with the matrix; no p×p matrix is formed."""
        return marginal_log_likelihood(
            loadings, noise_variance, self.squares, self.n, self._matrix.products
        )

    def log_likelihoods(self, loadings: Array, noise_variances: Array) -> Array:
        """All at once where the sufficient statistics are small, one by one elsewhere."""
        if self._small_statistics is None:
            return one_by_one(self.log_likelihood, loadings, noise_variances)
        return log_likelihoods(loadings, noise_variances, self._small_statistics)

    @cached_property
    def _small_statistics(self) -> Statistics | None:
        """The sufficient statistics, where their root takes no longer than a few likelihoods."""
        small = self.p * min(self.p, self.n) <= BATCHED_UP_TO
        return self._matrix.statistics() if small else None

    def likelihood_work(self, k: int) -> float:
        """Multiplications of the product with the matrix."""
        return self.p * min(self.p, self.n) * (k + 1)

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """Statistics of the matrix."""
        return self._matrix.statistics(largest)

    def surrogate(self, loadings: Array, noise_variance: Array) -> None:
        """None: a search over complete data needs no surrogate."""

    def tempered(self, n: float) -> CompleteSource:
        """The data, counted as n rows."""
        return CompleteSource(TemperedMatrix(self._matrix, n))

    def leading(
        self,
        k: int,
        noise_variance: Array,
        *,
        near: Array | None = None,
    ) -> tuple[Array, Array]:
        """Exact where p is small, otherwise by subspace iteration from fixed vectors."""
        root = 1.0 / np.sqrt(noise_variance)
        if self.p <= EXACT_UP_TO:
            if self.dense is not None and self.dense.is_gram:
                scaled = root[:, None] * self.dense.values * root
            else:
                scaled = root[:, None] * self._matrix.products(np.diag(root))[0]
            if self.p < SOME_FROM or k >= self.p // 2:
                values, vectors = np.linalg.eigh(scaled)
            else:
                wanted = (self.p - max(k, 1), self.p - 1)
                values, vectors = eigh(scaled, subset_by_index=wanted, check_finite=False)
            return values[::-1], vectors[:, ::-1]
        # With more vectors than requested, a few iterations are enough for a start.
        # The vectors are fixed, so that the result of a search does not depend on a seed.
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
