"""Distributions of scores and loadings where each cell has a weight of its own.

q has a normal distribution for the scores of each row, N(m_i, V_i), and for the loadings of each
column, N(μ_j, V_λj). The linear predictor f_ij = λ_jᵀη_i is taken as normal, with

    E[f_ij] = μ_jᵀm_i,   var(f_ij) = μ_jᵀV_iμ_j + m_iᵀV_λj m_i + tr(V_λj V_i).

For loadings without uncertainty (V_λ = 0) this is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.inference.kernels import Scales
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.slabs import Slab

START_SHARE = 0.95
"""Largest share of the variance of a column that a start gives to the factors."""


class CellChains(NamedTuple):
    """The state of B chains, without the pseudo-data."""

    loadings: Array
    """(p, B, K)"""
    scores: Array
    """(B, n, K)"""
    parameters: Any
    """Of the likelihood, with a leading axis of B."""
    scales: Scales


class RowScores(NamedTuple):
    """q(η_i) = N(m_i, V_i) of each row."""

    mean: Array
    """(n, K) m_i."""
    covariance: Array
    """(n, K, K) V_i."""
    log_det: Array
    """(n,) log|V_i|."""

    def rotated(self, r: Array, log_det_r: float) -> RowScores:
        """The distribution of Rη."""
        return RowScores(self.mean @ r.T, r @ self.covariance @ r.T, self.log_det + 2.0 * log_det_r)


class CellState(NamedTuple):
    """The distributions, with the parameters of the likelihood."""

    loadings: RowwiseLoadings
    scores: RowScores
    parameters: Any
    """Of the likelihood."""
    slab: Slab
    """The prior's slab, with its hyperparameters as updated so far."""

    @property
    def n_factors(self) -> int:
        """K."""
        return int(self.loadings.mean.shape[1])


def flat(matrices: Array) -> Array:
    """(…, K, K) as (…, K²)."""
    k = matrices.shape[-1]
    return matrices.reshape(*matrices.shape[:-2], k * k)


def outer(vectors: Array) -> Array:
    """xxᵀ of each vector x, (…, K, K)."""
    return np.asarray(vectors[..., :, None] * vectors[..., None, :])


def linear_moments(loadings: RowwiseLoadings, scores: RowScores) -> tuple[Array, Array]:
    """Mean and variance of f_ij, (n, p) each."""
    mean = scores.mean @ loadings.mean.T
    second = outer(loadings.mean) + loadings.covariance
    variance = flat(scores.covariance) @ flat(second).T
    if np.any(loadings.covariance):
        variance += flat(outer(scores.mean)) @ flat(loadings.covariance).T
    return mean, np.maximum(variance, 0.0)


def principal_factors(values: Array, k: int) -> Array:
    """(p, k) loadings of a start: principal factors of the correlations of the values.

    They are given for a noise of one, as the probit link has it.
    """
    centred = values - np.nanmean(values, axis=0)
    scaled = np.nan_to_num(centred / np.nanstd(values, axis=0))
    observed = (~np.isnan(values)).astype(float)
    together = np.maximum(observed.T @ observed, 1.0)
    correlation = scaled.T @ scaled / together
    shares = np.full(len(correlation), 0.5)
    for _ in range(3):
        np.fill_diagonal(correlation, shares)
        found, vectors = np.linalg.eigh(correlation)
        own = vectors[:, ::-1][:, :k] * np.sqrt(np.maximum(found[::-1][:k], 1e-3))
        shares = np.minimum(np.sum(own**2, axis=1), START_SHARE)
    own *= np.sqrt(shares / np.maximum(np.sum(own**2, axis=1), 1e-12))[:, None]
    return np.asarray(own / np.sqrt(1.0 - shares)[:, None])
