"""The update of the loadings given the moments of the scores (Algorithm 1, step 1).

Each function takes the blocks it depends on and returns a new one. Letters are the paper's: λ_j a
row of Λ with q(λ_j) = N(μ_j, V_j), τ_j = E[1/σ²_j], T = diag(θ*_h) the expected prior precisions,
M = E[ηᵀη].

All rows have V_j = (T + τ_j M)^{-1} and differ only by the number τ_j, so one eigendecomposition
T^{-1/2} M T^{-1/2} = U diag(d) Uᵀ serves them all: with F = T^{-1/2} U,

    V_j = F diag(q_j) Fᵀ,   q_jk = 1 / (1 + τ_j d_k).

There is no p×H×H array. With missing values each column is observed in other rows, and
V_j = (T + τ_j M_j)^{-1} (`cuspfa.missing.updates`). Engines use both forms by the two protocols
here. The noise is in
`cuspfa.model.likelihoods.gaussian`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.linalg import packed, polar_factor
from cuspfa.model.likelihoods.gaussian import expected_rss
from cuspfa.rotation.gpa import signs


class LoadingsDistribution(Protocol):
    """q(λ_j) = N(μ_j, V_j), j = 1..p, however the V_j are held."""

    @property
    def mean(self) -> Array:
        """(p, K) μ_j in rows."""

    @property
    def log_det(self) -> float:
        """Σ_j log|V_j|."""

    @property
    def column_squared_norm(self) -> Array:
        """(K,) E‖λ_·h‖²."""

    @property
    def row_variance(self) -> Array:
        """(p,) tr V_j = E[λ_jᵀλ_j] − μ_jᵀμ_j."""

    @property
    def directions(self) -> int:
        """Standard normal numbers that the deviations of a row are made of."""

    def covariances(self) -> Array:
        """(p, K, K) V_j."""

    def traces(self, second: Array) -> Array:
        """(p,) tr(V_j M)."""

    def weighted_gram(self, weights: Array) -> Array:
        """Σ_j w_j E[λ_j λ_jᵀ], (K, K)."""

    def deviations(self, z: Array) -> Array:
        """Λ − E[Λ], (..., p, K), of standard normal numbers (..., p, directions)."""

    def whitened(self, delta: Array) -> Array:
        """V_j^{-1} δ_j in rows, (..., p, K)."""

    def metric(self) -> Array:
        """Σ_j packed(μ_j μ_jᵀ) packed(V_j^{-1})ᵀ, a square matrix of K(K+1)/2 rows.

        Its numbers are those of the quadratic form Σ_j (Xᵀμ_j)ᵀ V_j^{-1} (Xᵀμ_j) of a K×K matrix X.
        """

    def only(self, columns: BoolArray) -> LoadingsDistribution:
        """The marginal distribution of some columns of Λ (mask over K); `log_det` is
        not computed.
        """

    def rotated(self, r_inverse: Array, log_det_r: float) -> LoadingsDistribution:
        """The distribution of R^{-T}λ_j, which leaves Λη as it was when η becomes Rη."""

    def arranged(self, order: Indices, signs: Array) -> LoadingsDistribution:
        """The distribution of the rows of Λ in this order, with these signs."""

    def widened(self, times: float) -> LoadingsDistribution:
        """The distribution with all covariances multiplied by `times`."""


class KnownScores(Protocol):
    """Moments of the scores that loadings, noise and bound depend on."""

    @property
    def n(self) -> float:
        """The number of rows in the likelihood."""

    @property
    def log_det(self) -> float:
        """Σ_i log|V_i| over these rows."""

    @property
    def total(self) -> Array:
        """(K, K) Σ_i E[η_i η_iᵀ] over these rows."""

    def covariance(self, loadings: LoadingsDistribution, noise_precision: Array) -> Array:
        """(K, K) the V_i that follow from these loadings and noise, or their mean."""

    def location(self, loadings: LoadingsDistribution) -> Array:
        """(p,) E[mean of column j], as a difference to the mean of what was observed."""

    def best_loadings(self, prior_precision: Array, noise_precision: Array) -> LoadingsDistribution:
        """Best q(Λ) with the others fixed (step 1)."""

    def expected_rss(self, loadings: LoadingsDistribution, squares: Array) -> Array:
        """(p,) E Σ_i (y_ij − λ_jᵀη_i)², from s_j = Σ_i y_ij²."""

    def rotated(self, r: Array, log_det_r: float) -> KnownScores:
        """The moments of Rη."""

    def with_total(self, diagonal: Array) -> KnownScores:
        """Moments of scores whose `total` is known to be this diagonal matrix (K,)."""


class ScoreMoments(NamedTuple):
    """`KnownScores` of complete data: moments of η_i ~ N(m_i, V_i)."""

    cross: Array
    """(p, H) Σ_i y_ij E[η_i]."""
    second: Array
    """(H, H) Σ_i E[η_i η_iᵀ]."""
    log_det: float
    """Σ_i log|V_i|."""
    n: float
    """The number of rows in the likelihood."""

    @property
    def total(self) -> Array:
        """(H, H) `second`: every column is observed in all rows."""
        return self.second

    def covariance(self, loadings: LoadingsDistribution, noise_precision: Array) -> Array:
        """(H, H) V, the same for all rows."""
        precision = loadings.weighted_gram(noise_precision)
        precision[np.diag_indices_from(precision)] += 1.0
        return np.asarray(np.linalg.inv(precision))

    def location(self, loadings: LoadingsDistribution) -> Array:
        """(p,) zero: all columns are observed in the same rows."""
        return np.zeros(len(self.cross))

    def best_loadings(self, prior_precision: Array, noise_precision: Array) -> Loadings:
        """Best q(Λ) with the others fixed (step 1)."""
        return update_loadings(prior_precision, noise_precision, self)

    def expected_rss(self, loadings: LoadingsDistribution, squares: Array) -> Array:
        """(p,) E Σ_i (y_ij − λ_jᵀη_i)²."""
        return expected_rss(loadings, self.cross, self.second, squares)

    def rotated(self, r: Array, log_det_r: float) -> ScoreMoments:
        """The moments of Rη."""
        return ScoreMoments(
            self.cross @ r.T, r @ self.second @ r.T, self.log_det + 2 * self.n * log_det_r, self.n
        )

    def with_total(self, diagonal: Array) -> ScoreMoments:
        """Moments with exact zeros off the diagonal of `total`; no eigendecomposition is needed."""
        return self._replace(second=np.diag(diagonal))


class Loadings(NamedTuple):
    """q(λ_j) = N(μ_j, F diag(q_j) Fᵀ) with q_jk = 1 / (1 + τ_j d_k), j = 1..p."""

    mean: Array
    """(p, K) μ_j in rows."""
    basis: Array
    """(K, K) F; of some columns only (`only`), its rows for these."""
    weights: Array
    """(p,) τ_j, the noise precisions when the block was updated."""
    eigenvalues: Array
    """(K,) d_k; infinite for loadings without spread."""
    log_det: float
    """Σ_j log|V_j|."""

    @property
    def spread(self) -> Array:
        """(p, K) q_j in rows."""
        return 1.0 / (1.0 + self.weights[:, None] * self.eigenvalues)

    @property
    def column_squared_norm(self) -> Array:
        """(K,) E‖λ_·h‖²."""
        return np.asarray((self.mean**2).sum(axis=0) + self.basis**2 @ self.spread.sum(axis=0))

    @property
    def row_variance(self) -> Array:
        """(p,) tr V_j = E[λ_jᵀλ_j] − μ_jᵀμ_j."""
        return np.asarray(self.spread @ np.sum(self.basis**2, axis=0))

    @property
    def directions(self) -> int:
        """The columns of the basis; more than K after `only`."""
        return int(self.basis.shape[1])

    def covariances(self) -> Array:
        """(p, K, K) V_j."""
        return np.asarray((self.basis * self.spread[:, None, :]) @ self.basis.T)

    def traces(self, second: Array) -> Array:
        """(p,) tr(V_j M)."""
        return np.asarray(self.spread @ (self.basis * (second @ self.basis)).sum(axis=0))

    def deviations(self, z: Array) -> Array:
        """Λ − E[Λ], (..., p, K), of standard normal numbers (..., p, directions).

        The polar factor of F makes them independent of signs and order of the eigenvectors in F.
        After `only` F is not square, and a sign rule is used instead.
        """
        k, directions = self.basis.shape
        drawn = z @ polar_factor(self.basis) if k == directions else z * signs(self.basis)
        drawn *= np.sqrt(self.spread)
        return np.asarray(drawn @ self.basis.T)

    def whitened(self, delta: Array) -> Array:
        """V_j^{-1} δ_j in rows, (..., p, K)."""
        inverse = np.linalg.inv(self.basis)
        return np.asarray(((delta @ inverse.T) / self.spread) @ inverse)

    def metric(self) -> Array:
        """As V_j^{-1} = T + τ_j M for all rows: a sum of two products."""
        mean, inverse = self.mean, np.linalg.inv(self.basis)
        prior_and_data = np.array([inverse.T @ inverse, (inverse.T * self.eigenvalues) @ inverse])
        grams = np.array([mean.T @ mean, mean.T @ (self.weights[:, None] * mean)])
        return np.asarray(packed(grams).T @ packed(prior_and_data))

    def weighted_gram(self, weights: Array) -> Array:
        """Σ_j w_j E[λ_j λ_jᵀ], (K, K)."""
        spread = (self.basis * (weights @ self.spread)) @ self.basis.T
        return np.asarray(self.mean.T @ (weights[:, None] * self.mean) + spread)

    def only(self, columns: BoolArray) -> Loadings:
        """The marginal distribution of some columns of Λ (mask over K); `log_det` is
        not computed.
        """
        order = np.argsort(self.eigenvalues, kind="stable")  # `deviations` goes by it
        return self._replace(
            mean=self.mean[:, columns],
            basis=self.basis[columns][:, order],
            eigenvalues=self.eigenvalues[order],
            log_det=float("nan"),
        )

    def rotated(self, r_inverse: Array, log_det_r: float) -> Loadings:
        """The distribution of R^{-T}λ_j, which leaves Λη as it was when η becomes Rη."""
        return self._replace(
            mean=self.mean @ r_inverse,
            basis=r_inverse.T @ self.basis,
            log_det=self.log_det - 2 * len(self.mean) * log_det_r,
        )

    def arranged(self, order: Indices, signs: Array) -> Loadings:
        """The distribution of the rows of Λ in this order, with these signs."""
        mean = signs[:, None] * self.mean[order]
        return self._replace(mean=mean, weights=self.weights[order])

    def widened(self, times: float) -> Loadings:
        """The distribution with all covariances multiplied by `times`."""
        log_det = self.log_det + self.mean.size * float(np.log(times))
        return self._replace(basis=np.sqrt(times) * self.basis, log_det=log_det)


def update_loadings(
    prior_precision: Array, noise_precision: Array, scores: ScoreMoments
) -> Loadings:
    """Best q(Λ) with the others fixed (step 1)."""
    root, moments = 1.0 / np.sqrt(prior_precision), np.diagonal(scores.second)
    if np.count_nonzero(scores.second) == np.count_nonzero(moments):
        # Diagonal already, as the scale-rotation step leaves them.
        d, basis = moments / prior_precision, np.diag(root)
    else:
        d, u = np.linalg.eigh(root[:, None] * scores.second * root)
        d, basis = np.maximum(d, 0.0), root[:, None] * u
    spread = 1.0 / (1.0 + noise_precision[:, None] * d)
    mean = (noise_precision[:, None] * spread * (scores.cross @ basis)) @ basis.T
    p = len(noise_precision)
    log_det = float(np.log(spread).sum() - p * np.log(prior_precision).sum())
    return Loadings(mean, basis, noise_precision, d, log_det)
