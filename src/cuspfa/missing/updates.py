"""Updates of loadings for incomplete rows, given the moments of the scores.

Column j is observed in n_j rows. Its mean has a flat prior and is integrated out exactly, given
scores, loading and noise, so that scores enter centred at their mean over these rows:

    M_j = Σ_i (m_i − a_j)(m_i − a_j)ᵀ + f Σ_i V_i,   a_j = mean of the m_i,   f = 1 − 1/n,

with sums over the rows that have column j. Here (1 − 1/n_j) would be exact; f makes the bound
slightly lower and keeps it a bound. Without missing values both are equal, and the updates are
those of `inference/updates.py`. Each row of Λ has its own covariance, V_j = (T + τ_j M_j)^{-1}.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.linalg import packed, symmetrized
from cuspfa.inference.updates import LoadingsDistribution


class RowwiseScoreMoments(NamedTuple):
    """Moments of η_i ~ N(m_i, V_i) that loadings, noise and bound depend on."""

    cross: Array
    """(p, K) Σ_i y_ij m_i over the rows that have column j, y_ij centred over them."""
    second: Array
    """(p, K, K) M_j."""
    anchor: Array
    """(p, K) a_j, less the mean of all m_i: the origin of the scores for column j."""
    total: Array
    """(K, K) Σ_i E[η_i η_iᵀ] over all rows, centred."""
    spread: Array
    """(K, K) the part of `total` that is f Σ_i V_i."""
    log_det: float
    """f Σ_i log|V_i|."""
    n: float
    """The number of rows the likelihood counts."""

    def covariance(self, loadings: LoadingsDistribution, noise_precision: Array) -> Array:
        """(K, K) the mean of the V_i."""
        return self.spread / self.n

    def location(self, loadings: LoadingsDistribution) -> Array:
        """(p,) E[mean of column j], as a difference from its observed mean."""
        return np.asarray(-np.sum(loadings.mean * self.anchor, axis=1))

    def best_loadings(self, prior_precision: Array, noise_precision: Array) -> RowwiseLoadings:
        """Best q(Λ) with the others fixed (step 1), and the means of the columns with it."""
        precision = noise_precision[:, None, None] * self.second
        diagonal = np.arange(len(prior_precision))
        precision[:, diagonal, diagonal] += prior_precision
        covariance = symmetrized(np.asarray(np.linalg.inv(precision), dtype=float))
        mean = (covariance @ (noise_precision[:, None] * self.cross)[:, :, None])[:, :, 0]
        log_det = -float(np.sum(np.linalg.slogdet(precision)[1]))
        return RowwiseLoadings(mean, covariance, self.anchor, log_det)

    def expected_rss(self, loadings: LoadingsDistribution, squares: Array) -> Array:
        """(p,) E Σ_i (y_ij − λ_jᵀη_i)² over the rows that have column j, both centred."""
        second = loadings.covariances() + loadings.mean[:, :, None] * loadings.mean[:, None, :]
        fitted = np.sum(second * self.second, axis=(1, 2))
        return np.asarray(squares + fitted - 2.0 * np.sum(loadings.mean * self.cross, axis=1))

    def rotated(self, r: Array, log_det_r: float) -> RowwiseScoreMoments:
        """The moments of Rη."""
        return RowwiseScoreMoments(
            self.cross @ r.T,
            r @ self.second @ r.T,
            self.anchor @ r.T,
            r @ self.total @ r.T,
            r @ self.spread @ r.T,
            self.log_det + 2 * self.n * log_det_r,
            self.n,
        )

    def with_total(self, diagonal: Array) -> RowwiseScoreMoments:
        """Moments with exact zeros off the diagonal of `total`."""
        return self._replace(total=np.diag(diagonal))


class RowwiseLoadings(NamedTuple):
    """q(λ_j) = N(μ_j, V_j), with a covariance matrix for each row of Λ."""

    mean: Array
    """(p, K) μ_j in rows."""
    covariance: Array
    """(p, K, K) V_j."""
    anchor: Array
    """(p, K) a_j of the scores they were updated with: the column's mean given λ_j is −λ_jᵀa_j."""
    log_det: float
    """Σ_j log|V_j|."""

    @property
    def directions(self) -> int:
        """K."""
        return int(self.mean.shape[1])

    @property
    def column_squared_norm(self) -> Array:
        """(K,) E‖λ_·h‖²."""
        own = np.diagonal(self.covariance, axis1=1, axis2=2)
        return np.asarray(np.sum(self.mean**2 + own, axis=0))

    @property
    def row_variance(self) -> Array:
        """(p,) tr V_j."""
        return np.asarray(np.trace(self.covariance, axis1=1, axis2=2))

    def covariances(self) -> Array:
        """(p, K, K) V_j."""
        return self.covariance

    def traces(self, second: Array) -> Array:
        """(p,) tr(V_j M)."""
        return np.asarray(np.sum(self.covariance * second, axis=(1, 2)))

    def weighted_gram(self, weights: Array) -> Array:
        """Σ_j w_j E[λ_j λ_jᵀ], (K, K)."""
        spread = np.tensordot(weights, self.covariance, 1)
        return np.asarray(self.mean.T @ (weights[:, None] * self.mean) + spread)

    def deviations(self, z: Array) -> Array:
        """Λ − E[Λ], (..., p, K), of standard normal numbers of that shape."""
        return np.asarray((np.linalg.cholesky(self.covariance) @ z[..., None])[..., 0])

    def whitened(self, delta: Array) -> Array:
        """V_j^{-1} δ_j in rows, (..., p, K)."""
        return np.asarray((np.linalg.inv(self.covariance) @ delta[..., None])[..., 0])

    def metric(self) -> Array:
        """Σ_j packed(μ_j μ_jᵀ) packed(V_j^{-1})ᵀ."""
        grams = packed(self.mean[:, :, None] * self.mean[:, None, :])
        precision = np.asarray(np.linalg.inv(self.covariance), dtype=float)
        return np.asarray(grams.T @ packed(precision))

    def only(self, columns: BoolArray) -> RowwiseLoadings:
        """The marginal distribution of some columns of Λ (mask over K), without log-determinant."""
        return RowwiseLoadings(
            self.mean[:, columns],
            self.covariance[:, columns][:, :, columns],
            self.anchor[:, columns],
            float("nan"),
        )

    def rotated(self, r_inverse: Array, log_det_r: float) -> RowwiseLoadings:
        """The distribution of R^{-T}λ_j, which leaves Λη as it was when η becomes Rη."""
        return RowwiseLoadings(
            self.mean @ r_inverse,
            symmetrized(r_inverse.T @ self.covariance @ r_inverse),
            self.anchor @ np.linalg.inv(r_inverse).T,
            self.log_det - 2 * len(self.mean) * log_det_r,
        )

    def arranged(self, order: Indices, signs: Array) -> RowwiseLoadings:
        """The distribution of the rows of Λ in this order, with these signs."""
        mean = signs[:, None] * self.mean[order]
        return RowwiseLoadings(mean, self.covariance[order], self.anchor[order], self.log_det)

    def widened(self, times: float) -> RowwiseLoadings:
        """The distribution with all covariances multiplied by `times`."""
        log_det = self.log_det + self.mean.size * float(np.log(times))
        return self._replace(covariance=times * self.covariance, log_det=log_det)
