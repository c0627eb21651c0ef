"""Parts of the variational distribution that draws and files need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.linalg import rotated_rows, symmetric_root
from cuspfa.inference.kernels import standard_wishart


class ScoreDistribution(NamedTuple):
    """q(η_i) = N(m_i, V), i = 1..n, by what the scale-rotation move needs of it."""

    inner: Array
    """(K, K) Σ_i m_i m_iᵀ."""
    covariance: Array
    """(K, K) V."""
    n: float

    def draw_second(self, size: int, rng: np.random.Generator) -> Array:
        """Draws of ηᵀη, (size, K, K): min(n, K) rotated rows with a mean, the others without."""
        k = len(self.covariance)
        rows = min(round(self.n), k)
        mean = symmetric_root(self.inner)
        if rows < k:
            mean = rotated_rows(mean, rows)
        root = np.linalg.cholesky(self.covariance).T
        scores = mean + rng.standard_normal((size, rows, k)) @ root
        second: Array = scores.transpose(0, 2, 1) @ scores
        rest = round(self.n) - rows
        if rest > 0:
            second += root.T @ standard_wishart(rest, size, k, rng) @ root
        return second


class Means(NamedTuple):
    """What is known of the means of incomplete columns."""

    location: Array
    """(p,) E, as a difference to the mean of what was observed, on the engine's scale."""
    counts: Array
    """(p,) values that each column has."""
