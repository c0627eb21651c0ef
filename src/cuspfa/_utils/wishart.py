"""Draws of standard Wishart matrices by their triangular root (Bartlett's decomposition)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cuspfa._typing import Array, Indices


def wishart_root(freedom: float, size: int, k: int, rng: np.random.Generator) -> Array:
    """Lower triangular T with TTᵀ ~ Wishart(freedom, I_k), freedom > k − 1; (size, k, k)."""
    below, diagonal = _triangle(k)
    lower = rng.standard_normal((size, k, k)) * below
    lower[:, diagonal, diagonal] = np.sqrt(rng.chisquare(freedom - diagonal, size=(size, k)))
    return np.asarray(lower)


@lru_cache(maxsize=64)
def _triangle(k: int) -> tuple[Array, Indices]:
    """Ones below the diagonal, and the indices of the diagonal; used in every sweep."""
    return np.tri(k, k, -1), np.arange(k)
