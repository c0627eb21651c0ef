"""The Gaussian likelihood: y_ij = λ_jᵀη_i + ε_ij, ε_ij ~ N(0, σ²_j).

All that the engines assume about the noise is here: q(σ²) and its update, the residual sums of
squares, the terms of the bound, conditional draws, the marginal likelihood with the scores
integrated out, loadings to start from, and the distribution of new rows. Rows with missing values
have their marginal likelihood in `cuspfa.missing.likelihood`.

Draws of many chains are arrays (p, B, K), as in `cuspfa.inference.kernels`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from cuspfa._typing import Array, Indices
from cuspfa.model.prior import CuspPrior
from cuspfa.model.row_tails import NORMAL_TAILS, RowTails
from cuspfa.model.slabs import LOG_2PI

if TYPE_CHECKING:
    from cuspfa.inference.kernels import Statistics
    from cuspfa.inference.updates import LoadingsDistribution

# --- q(σ²) ---


class Noise(NamedTuple):
    """q(σ²_j) = InvGa(A_j, B_j); both (p,)."""

    shape: Array
    rate: Array

    def arranged(self, order: Indices) -> Noise:
        """The distribution of the variables in this order."""
        return Noise(self.shape[order], self.rate[order])

    @property
    def precision(self) -> Array:
        """τ_j = E[1/σ²_j]."""
        return self.shape / self.rate

    @property
    def log_precision(self) -> Array:
        """E[log 1/σ²_j]."""
        return np.asarray(digamma(self.shape) - np.log(self.rate))

    @property
    def variance(self) -> Array:
        """E[σ²_j] = B_j / (A_j − 1) where A_j ≥ 2, which five rows are enough for.

        Just above A_j = 1 the expectation grows without bound, and an estimate of it would be
        many times the variance of the data; from there down it does not exist. Up to A_j = 1 this
        is 1/E[1/σ²_j] = B_j / A_j, and between the two B_j: the divisor never falls as rows are
        added, and does not jump.
        """
        return np.asarray(self.rate / np.maximum(self.shape - 1.0, np.minimum(self.shape, 1.0)))

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Variances, (p, size)."""
        gamma = rng.standard_gamma(self.shape[:, None], size=(len(self.shape), size))
        return np.asarray(self.rate[:, None] / gamma)


def update_noise(rss: Array, counts: Array, prior: CuspPrior) -> Noise:
    """Best q(σ²) with the others fixed (Algorithm 1, step 2).

    `rss` (p,) is E Σ_i (y_ij − λ_jᵀη_i)² and `counts` (p,) the number of values of each column.
    """
    return Noise(prior.noise_shape + counts / 2, prior.noise_rate + rss / 2)


def expected_rss(
    loadings: LoadingsDistribution, cross: Array, second: Array, squares: Array
) -> Array:
    """(p,) E Σ_i (y_ij − λ_jᵀη_i)² of complete data.

    From Σ_i y_ij E[η_i] (p, K), Σ_i E[η_iη_iᵀ] (K, K) and Σ_i y_ij² (p,).
    """
    fitted = (loadings.mean * (loadings.mean @ second - 2.0 * cross)).sum(axis=1)
    return np.asarray(squares + fitted + loadings.traces(second))


# --- terms of the bound ---


def expected_log_likelihood(noise: Noise, counts: Array, rss: Array) -> float:
    """E[log p(y | λ, η, σ)]."""
    return float(0.5 * (counts * (noise.log_precision - LOG_2PI) - noise.precision * rss).sum())


def noise_bound(noise: Noise, prior: CuspPrior) -> float:
    """E[log p(σ²)] − E[log q(σ²)], that is −KL(q(σ²) ‖ InvGa(a_σ, b_σ))."""
    a, b = prior.noise_shape, prior.noise_rate
    terms = (
        prior.log_noise_constant
        - noise.shape * np.log(noise.rate)
        + gammaln(noise.shape)
        + (a - noise.shape) * noise.log_precision
        - (b - noise.rate) * noise.precision
    )
    return float(terms.sum())


def log_noise_prior(variance: Array, prior: CuspPrior) -> Array:
    """The log density p(σ²) of draws (p, B), (B,)."""
    power = _log_inverse_gamma_power(variance, prior.noise_shape, prior.noise_rate)
    return np.asarray(power + len(variance) * prior.log_noise_constant)


def log_noise_density(variance: Array, noise: Noise) -> Array:
    """The log density q(σ²) of draws (p, B), (B,)."""
    a, b = noise
    power = _log_inverse_gamma_power(variance, a[:, None], b[:, None])
    return np.asarray(power + np.sum(a * np.log(b) - gammaln(a)))


def _log_inverse_gamma_power(variance: Array, shape: Array | float, rate: Array | float) -> Array:
    """Σ_j log of InvGa(shape, rate) without its constant."""
    return np.asarray(np.sum(-(shape + 1) * np.log(variance) - rate / variance, axis=0))


# --- conditional draws ---


def draw_noise(
    loadings: Array,
    cross: Array,
    second: Array,
    squares: Array,
    n: float,
    prior: CuspPrior,
    rng: np.random.Generator,
) -> Array:
    """σ² | Λ, η, Y, (p, B).

    From Yᵀη (p, B, K), ηᵀη (B, K, K) and the columns' sums of squares, (p, B) or (p, 1).
    """
    fitted = (loadings.transpose(1, 0, 2) @ second).transpose(1, 0, 2) - 2.0 * cross
    rss = np.maximum(squares + np.sum(loadings * fitted, axis=2), 0.0)
    gamma = rng.standard_gamma(prior.noise_shape + n / 2, size=rss.shape)
    return np.asarray((prior.noise_rate + rss / 2) / gamma)


# --- the likelihood with the scores integrated out, by Woodbury: no p×p matrix is formed ---


def marginal_log_likelihood(
    loadings: Array,
    noise_variance: Array,
    squares: Array,
    n: float,
    products: Callable[[Array], tuple[Array, Array]],
) -> float:
    """Σ_i log N(y_i; 0, ΛΛᵀ + Σ) for loadings (p, K); `products` gives YᵀYW and WᵀYᵀYW."""
    p, k = loadings.shape
    w = loadings / noise_variance[:, None]
    log_det = float(np.sum(np.log(noise_variance)))
    quadratic = float(np.sum(squares / noise_variance))
    if k:
        _, inner = products(w)
        root = np.linalg.inv(np.linalg.cholesky(np.eye(k) + loadings.T @ w))
        log_det -= 2.0 * float(np.sum(np.log(np.diag(root))))
        quadratic -= float(np.sum(root * (root @ inner)))
    return float(-0.5 * (n * (p * LOG_2PI + log_det) + quadratic))


def marginal_log_likelihoods(loadings: Array, noise: Array, data: Statistics) -> Array:
    """Σ_i log N(y_i; 0, ΛΛᵀ + Σ) of B draws, (B,), for loadings (p, B, K) and noise (p, B)."""
    p, size, k = loadings.shape
    scaled = loadings / noise[:, :, None]
    precision = loadings.transpose(1, 2, 0) @ scaled.transpose(1, 0, 2)
    precision[:, np.arange(k), np.arange(k)] += 1.0
    root = np.linalg.inv(np.linalg.cholesky(precision))
    half = (data.rows @ scaled.reshape(p, size * k)).reshape(len(data.rows), size, k)
    inner = half.transpose(1, 2, 0) @ half.transpose(1, 0, 2)
    explained = np.sum((root @ inner) * root, axis=(1, 2))
    log_det = np.sum(np.log(noise), axis=0)
    log_det -= 2 * np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1)
    quadratic = data.squares @ (1.0 / noise) - explained
    return np.asarray(-0.5 * (data.n * (p * LOG_2PI + log_det) + quadratic))


# --- the start ---


def spectral_loadings(eigenvalues: Array, vectors: Array, noise_variance: Array, n: float) -> Array:
    """Best loadings for known noise: Ψ^{1/2} U (D/n − I)^{1/2}, (p, k).

    `eigenvalues` and `vectors` are those of Ψ^{-1/2} YᵀY Ψ^{-1/2}.
    """
    signal = np.maximum(eigenvalues / n - 1.0, 1e-3)
    return np.asarray(np.sqrt(noise_variance)[:, None] * vectors * np.sqrt(signal))


# --- new rows ---


class MarginalGaussian:
    """The distribution of a row with its scores integrated out, and of its scores given the row.

    y ~ N(m, CᵀC + Ψ), with C the components (K, p) and Ψ = diag(noise variances), or a t
    distribution with this scale matrix (`RowTails`). Correlated factors Tᵀη go through the
    uncorrelated η: with the components TC the distribution of a row is the same, and scores and
    their covariance are rotated by T at the end.

    Everything goes through the K×K matrix A = I + CΨ^{-1}Cᵀ (Woodbury); a p×p matrix is made only
    where one is asked for.
    """

    def __init__(
        self,
        mean: Array,
        components: Array,
        noise_variance: Array,
        rotation: Array | None = None,
        tails: RowTails = NORMAL_TAILS,
    ) -> None:
        self.mean, self.noise_variance, self.tails = mean, noise_variance, tails
        self.components = components if rotation is None else rotation @ components
        self.rotation = rotation
        self.score_offset: Array | float = 0.0
        """What is added to the covariance of the factors given y."""

    @cached_property
    def _root(self) -> Array:
        """R = L^{-1} with LLᵀ = A."""
        c = self.components
        return np.linalg.inv(np.linalg.cholesky(np.eye(len(c)) + (c / self.noise_variance) @ c.T))

    @cached_property
    def score_covariance(self) -> Array:
        """TᵀA^{-1}T, the covariance of the factors given y, the same for all rows of weight 1."""
        root = self._root if self.rotation is None else self._root @ self.rotation
        return np.asarray(root.T @ root + self.score_offset)

    @cached_property
    def _weights(self) -> Array:
        """W (p, K) with E[η | y] = (y − m)W."""
        inner = self._root.T @ self._root
        return np.asarray((self.components / self.noise_variance).T @ inner)

    @cached_property
    def score_weights(self) -> Array:
        """(p, K) W with E[Tᵀη | y] = (y − m)W."""
        return self._weights if self.rotation is None else np.asarray(self._weights @ self.rotation)

    def scores(self, rows: Array) -> Array:
        """E[Tᵀη | y] of each row, (n, K)."""
        return np.asarray((rows - self.mean) @ self.score_weights)

    def log_density(self, rows: Array) -> Array:
        """The log density of each row, (n,)."""
        p, log_det = len(self.mean), float(np.sum(np.log(self.noise_variance)))
        log_det -= 2.0 * float(np.sum(np.log(np.diag(self._root))))
        return self.tails.log_density(p * LOG_2PI + log_det, self._squares(rows), p)

    def score_covariances(self, rows: Array) -> Array:
        """The covariance of the factors given y and the weight of y, (n, K, K)."""
        weights = self.tails.weights(self._squares(rows), len(self.mean))
        return np.asarray(self.score_covariance / weights[:, None, None])

    def _squares(self, rows: Array) -> Array:
        """(y − m)ᵀΩ^{-1}(y − m) = ‖Ψ^{-1/2}(y − m − Cᵀη)‖² + ‖η‖²: no large terms subtracted.

        Infinite, for a density of zero, where a value is too large to be squared.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            residual = rows - self.mean
            scores = residual @ self._weights
            residual -= scores @ self.components
            squares = residual**2 @ (1.0 / self.noise_variance) + np.sum(scores**2, axis=1)
        return np.where(np.isnan(squares), np.inf, squares)

    def covariance(self, columns: Indices | None = None) -> Array:
        """Ω, or its block for some columns."""
        part = slice(None) if columns is None else columns
        omega: Array = self.components[:, part].T @ self.components[:, part]
        omega[np.diag_indices_from(omega)] += self.noise_variance[part]
        return omega

    def precision(self) -> Array:
        """Ω^{-1} = Ψ^{-1} − Ψ^{-1}CᵀA^{-1}CΨ^{-1}."""
        scaled = self._root @ (self.components / self.noise_variance)
        result: Array = -scaled.T @ scaled
        result[np.diag_indices_from(result)] += 1.0 / self.noise_variance
        return result

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """New rows, (size, p)."""
        scores = rng.standard_normal((size, len(self.components)))
        noise = rng.standard_normal((size, len(self.mean))) * np.sqrt(self.noise_variance)
        weights = self.tails.draw_weights(np.zeros(size), 0.0, rng)
        return np.asarray(
            self.mean + (scores @ self.components + noise) / np.sqrt(weights)[:, None]
        )
