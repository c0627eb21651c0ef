"""Incomplete rows that count as fewer: their log-likelihood times a weight below one.

The scores of a row do not depend on the weight; every sum over rows is multiplied by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuspfa._typing import Array
from cuspfa.data.protocols import CompleteSource
from cuspfa.inference.kernels import Statistics
from cuspfa.inference.updates import LoadingsDistribution
from cuspfa.missing.patterns import IncompleteRows
from cuspfa.missing.updates import RowwiseScoreMoments

if TYPE_CHECKING:
    from cuspfa.missing.source import MissingDataSource


class TemperedMissingData:
    """A `DataSource` over incomplete rows, counted as n rows."""

    def __init__(self, source: MissingDataSource, n: float) -> None:
        self._source, self._weight = source, n / source.n
        self.n, self.p = n, source.p
        self.counts: Array = self._weight * source.counts
        self.squares: Array = self._weight * source.squares
        self.incomplete_rows: IncompleteRows | None = source.incomplete_rows

    @property
    def dense(self) -> None:
        """None: rows with missing values are not a dense array of numbers."""

    def expect_scores(
        self, loadings: LoadingsDistribution, noise_precision: Array
    ) -> RowwiseScoreMoments:
        """Best q(η) given the other blocks, with all sums over rows weighted."""
        found, weight = self._source.expect_scores(loadings, noise_precision), self._weight
        return found._replace(
            cross=weight * found.cross,
            second=weight * found.second,
            total=weight * found.total,
            spread=weight * found.spread,
            log_det=weight * found.log_det,
            n=self.n,
        )

    def inactive_scores(self, signal: Array) -> tuple[Array, float]:
        """The variance of an inactive factor's scores, and its term of the bound."""
        variance, term = self._source.inactive_scores(signal)
        return variance, self._weight * term

    def log_likelihood(self, loadings: Array, noise_variance: Array) -> float:
        """Log-likelihood of the rows times their weight."""
        return self._weight * self._source.log_likelihood(loadings, noise_variance)

    def log_likelihoods(self, loadings: Array, noise_variances: Array) -> Array:
        """Log-likelihoods of B draws times the weight."""
        return self._weight * self._source.log_likelihoods(loadings, noise_variances)

    def likelihood_work(self, k: int) -> float:
        """Multiplications that `log_likelihood` takes."""
        return self._source.likelihood_work(k)

    def statistics(self, largest: int | None = None) -> Statistics | None:
        """None: incomplete rows have no sufficient statistics."""
        return None

    def surrogate(self, loadings: Array, noise_variance: Array) -> CompleteSource | None:
        """The surrogate of the rows, weighted."""
        found = self._source.surrogate(loadings, noise_variance)
        return None if found is None else found.tempered(self._weight * found.n)

    def tempered(self, n: float) -> TemperedMissingData:
        """The rows, counted as n."""
        return TemperedMissingData(self._source, n)

    def leading(
        self, k: int, noise_variance: Array, *, near: Array | None = None
    ) -> tuple[Array, Array]:
        """Leading directions of the rows, with weighted eigenvalues."""
        values, vectors = self._source.leading(k, noise_variance, near=near)
        return self._weight * values, vectors
