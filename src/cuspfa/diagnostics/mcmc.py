"""Have the chains converged? R-hat and effective sample sizes (Vehtari et al., 2021).

Of ranks turned into normal scores, chains split in halves, so that heavy tails and chains that
drift are seen. Arrays are (chains, draws, quantities).
"""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

from cuspfa._typing import Array

FEWEST = 4
"""Draws of a chain below which its halves say nothing."""
HIGHEST = 100.0
"""R-hat above which its digits say nothing."""


def r_hat_text(value: float, digits: int) -> str:
    """R-hat as it is printed."""
    return f"above {HIGHEST:.0f}" if value > HIGHEST else f"{value:.{digits}f}"


def r_hat(values: Array) -> Array:
    """The larger of R-hat for location and for spread, of each quantity.

    NaN where all is equal or chains have fewer than four draws; infinite where no half of a chain
    moves but they are not equal.
    """
    if values.shape[1] < FEWEST:
        return np.full(values.shape[2], np.nan)
    halves = _split(values)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.asarray(np.fmax(_plain_r_hat(_scores(halves)), _plain_r_hat(_scores(folded))))


def effective_size(values: Array) -> Array:
    """How many independent draws are worth as much for the middle of the distribution; NaN as
    above.
    """
    if values.shape[1] < FEWEST:
        return np.full(values.shape[2], np.nan)
    return _plain_size(_scores(_split(values)))


def _split(values: Array) -> Array:
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, values.shape[1] - half :]])


def _scores(values: Array) -> Array:
    flat = values.reshape(-1, values.shape[2])
    ranks = rankdata(flat, axis=0)
    return np.asarray(ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(values.shape))


def _plain_r_hat(values: Array) -> Array:
    n = values.shape[1]
    moved = np.any(values != values[:, :1], axis=1)  # the variance of equal values is not quite 0
    within = np.where(moved, values.var(axis=1, ddof=1), 0.0).mean(axis=0)
    between = values.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt((n - 1) / n + between / within))


def _plain_size(values: Array) -> Array:
    """Geyer's initial monotone sequence of autocorrelations, pooled over chains.

    Half of the pair that ends it counts where it is positive, as in Stan and ArviZ.
    """
    m, n, size = values.shape
    if n < 4:
        return np.full(size, np.nan)
    centred = values - values.mean(axis=1, keepdims=True)
    spectrum = rfft(centred, next_fast_len(2 * n), axis=1)
    covariance = irfft(np.abs(spectrum) ** 2, next_fast_len(2 * n), axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1)
    total = covariance[0].copy()
    if m > 1:
        total += values.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - covariance) / total
    rho[0] = 1.0
    found, looked_at = np.full(size, np.nan), max((n - 1) // 2, 1)
    for q in np.flatnonzero(total > 0):
        pairs = rho[: 2 * looked_at, q].reshape(-1, 2).sum(axis=1)
        negative = np.flatnonzero(pairs < 0)
        last = int(negative[0]) if len(negative) else looked_at - 1
        kept = np.minimum.accumulate(pairs[:last]) if last else pairs[:0]
        time = -1.0 + 2.0 * float(kept.sum()) + max(float(rho[2 * last, q]), 0.0)
        time = max(time, 1.0 / np.log10(m * n))
        found[q] = m * n / time
    return found
