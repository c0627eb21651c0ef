"""Quantiles of draws, by sorting: several times quicker than those of NumPy along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuspfa._typing import Array
from cuspfa._utils.arguments import fraction

INTERVAL_BLOCK_SIZE = 1 << 23
"""Numbers of a block of entries by draws: 64 MB."""


def tails(prob: Any) -> list[float]:
    """Lower and upper tail of a central interval of this probability."""
    inside = fraction("prob", prob)
    return [(1 - inside) / 2, (1 + inside) / 2]


def sorted_quantiles(ordered: NDArray[Any], at: list[float]) -> Array:
    """Along the last axis, which is sorted; linearly interpolated."""
    last = ordered.shape[-1] - 1
    ends = []
    for tail in at:
        low = int(tail * last)
        high = min(low + 1, last)
        share = tail * last - low
        ends.append(ordered[..., low] + share * (ordered[..., high] - ordered[..., low]))
    return np.array(ends, dtype=float)


def matrix_quantiles(
    loadings: Array, noise_variance: Array, at: list[float], *, standardized: bool
) -> Array:
    """Two quantiles of each entry of ΛΛᵀ + diag σ², or of the correlations, (2, p, p).

    Of `loadings` (n_draws, p, K), a block of rows of the matrix at a time.
    """
    variance = np.sum(loadings**2, axis=2) + noise_variance
    # Single precision from here on, on the correlation scale: half the memory, twice the speed.
    unit = np.sqrt(variance if standardized else variance.mean(axis=0, keepdims=True))
    scaled = (loadings / unit[:, :, None]).astype(np.float32)
    noise = (noise_variance / unit**2).astype(np.float32)
    size, p, _ = scaled.shape
    found = np.empty((2, p, p))
    first = 0
    while first < p:
        # Entries of some rows from the diagonal on: the matrix is symmetric.
        last = min(p, first + max(1, INTERVAL_BLOCK_SIZE // (size * (p - first))))
        block = np.matmul(scaled[:, first:last], scaled[:, first:].transpose(0, 2, 1))
        rows = np.arange(last - first)
        block[:, rows, rows] += noise[:, first:last]
        # To sort short contiguous rows is several times quicker than quantiles along an axis.
        ordered = np.sort(np.ascontiguousarray(block.reshape(size, -1).T), axis=1)
        ends = sorted_quantiles(ordered, at).reshape(2, last - first, p - first)
        found[:, first:last, first:] = ends
        found[:, first:, first:last] = ends.transpose(0, 2, 1)
        first = last
    if standardized:
        found[:, np.arange(p), np.arange(p)] = 1.0
    else:
        found *= unit[0][:, None] * unit[0]
    return found
