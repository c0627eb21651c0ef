"""Draws of loadings and noise, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cuspfa._checks import whole
from cuspfa._types import Array, Indices


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of Λ and σ² in the user's units; Ω = ΛΛᵀ + Σ is made when asked for.

    Attributes
    ----------
    loadings : ndarray (n_draws, p, H)
        Λ. Its columns may be rotated and reordered without changing Ω.
    noise_variance : ndarray (n_draws, p)
        σ².
    mean : ndarray (n_draws, p) or None
        Column means, where they were drawn.
    """

    loadings: Array
    noise_variance: Array
    mean: Array | None = None

    def __len__(self) -> int:
        return len(self.loadings)

    @property
    def covariance(self) -> Array:
        """Ω of each draw, (n_draws, p, p): ask only where that fits into memory."""
        omega: Array = self.loadings @ self.loadings.transpose(0, 2, 1)
        diagonal = np.arange(omega.shape[1])
        omega[:, diagonal, diagonal] += self.noise_variance
        return omega

    @property
    def correlation(self) -> Array:
        """Ω* = (Ω⊙I)^{-1/2} Ω (Ω⊙I)^{-1/2} of each draw, (n_draws, p, p)."""
        omega = self.covariance
        sd = np.sqrt(np.diagonal(omega, axis1=1, axis2=2))
        return omega / sd[:, :, None] / sd[:, None, :]

    @property
    def communality(self) -> Array:
        """The part of each variance that the factors explain, (n_draws, p)."""
        common = np.sum(self.loadings**2, axis=2)
        return np.asarray(common / (common + self.noise_variance))

    @property
    def variance_share(self) -> Array:
        """Shares of variance on principal axes of the correlation scale, (n_draws, K)."""
        variance = np.sum(self.loadings**2, axis=2) + self.noise_variance
        standard = self.loadings / np.sqrt(variance)[:, :, None]
        values = np.linalg.eigvalsh(standard.transpose(0, 2, 1) @ standard)[:, ::-1]
        return np.asarray(np.maximum(values, 0.0) / standard.shape[1])

    def only(self, columns: Indices | slice) -> Draws:
        """The same draws of some columns alone."""
        mean = None if self.mean is None else self.mean[:, columns]
        return Draws(self.loadings[:, columns], self.noise_variance[:, columns], mean)

    def batches(self, size: int = 100) -> Iterator[Draws]:
        """The same draws, a few at a time, for sums that need no p×p×n_draws array."""
        whole("size", size, 1)
        for first in range(0, len(self), size):
            part = slice(first, first + size)
            mean = None if self.mean is None else self.mean[part]
            yield Draws(self.loadings[part], self.noise_variance[part], mean)


def correlation_mse(draws: Draws, sample_correlation: Array) -> float:
    """Σ_{j≤q} E(Ω*_jq − S_jq)² / {p(p+1)/2}, as §4 of the paper defines it."""
    upper = np.triu_indices(len(sample_correlation))
    target = sample_correlation[upper]
    total = sum(
        float(np.sum((part.correlation[:, upper[0], upper[1]] - target) ** 2))
        for part in draws.batches()
    )
    return total / (len(draws) * len(target))
