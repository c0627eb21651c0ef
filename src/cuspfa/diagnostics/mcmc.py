"""Convergence of chains: R-hat and effective sample sizes (Vehtari et al., 2021).

Ranks are transformed to normal scores and chains are split in halves, which detects heavy tails and
chains that drift.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

from cuspfa._typing import Array
from cuspfa._utils.fit_warning_text import HIGHEST_R_HAT

MIN_CHAIN_LENGTH = 4
"""Fewest draws of a chain for R-hat and effective sizes."""


def r_hat_text(value: float, digits: int) -> str:
    """R-hat as it is printed."""
    return f"above {HIGHEST_R_HAT:.0f}" if value > HIGHEST_R_HAT else f"{value:.{digits}f}"


class Convergence(NamedTuple):
    """R-hat and effective sample size of each quantity."""

    r_hat: Array
    """The larger of R-hat for location and for spread; infinite where no half of a chain moves but
    they are not equal."""
    effective_size: Array
    """The number of independent draws that estimate the middle of the distribution as well."""


def convergence(values: Array) -> Convergence:
    """R-hat and effective sizes of draws (chains, draws, quantities).

    NaN where all is equal or chains have fewer than four draws.
    """
    chains, length, size = values.shape
    if length < MIN_CHAIN_LENGTH:
        return Convergence(np.full(size, np.nan), np.full(size, np.nan))
    # Quantities first: what is sorted and transformed is contiguous.
    half = length // 2
    halves = np.empty((size, 2 * chains, half))
    halves[:, :chains] = values[:, :half].transpose(2, 0, 1)
    halves[:, chains:] = values[:, length - half :].transpose(2, 0, 1)
    scores, median = _normal_scores(halves)
    folded, _ = _normal_scores(np.abs(halves - median[:, None, None]))
    return Convergence(np.fmax(_plain_r_hat(scores), _plain_r_hat(folded)), _plain_size(scores))


def _normal_scores(values: Array) -> tuple[Array, Array]:
    """Normal scores of the ranks of all draws of each quantity, and the median; ties share a rank.

    For an even number of draws. There are only as many scores as ranks and their halves, so that
    these are computed once.
    """
    flat = values.reshape(len(values), -1)
    size = flat.shape[1]
    order = np.argsort(flat, axis=1)
    ordered = np.take_along_axis(flat, order, axis=1)
    begins = np.ones(flat.shape, dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=begins[:, 1:])
    of_rank = ndtri((np.arange(2 * size + 1) / 2 - 0.375) / (size + 0.25))
    if begins.all():  # without ties, all have the same scores
        in_order = np.broadcast_to(of_rank[2::2], flat.shape)
    else:
        first = np.flatnonzero(begins)
        length = np.diff(first, append=flat.size)
        # Twice the mean of the ranks first + 1, …, first + length.
        twice = 2 * (first % size) + length + 1
        in_order = np.repeat(of_rank[twice], length).reshape(flat.shape)
    scores = np.empty(flat.shape)
    np.put_along_axis(scores, order, in_order, axis=1)
    scores[np.isnan(ordered[:, -1])] = np.nan
    median = (ordered[:, size // 2 - 1] + ordered[:, size // 2]) / 2
    return scores.reshape(values.shape), median


def _plain_r_hat(values: Array) -> Array:
    n = values.shape[2]
    moved = np.any(
        values != values[:, :, :1], axis=2
    )  # the variance of equal values is not quite 0
    within = np.where(moved, values.var(axis=2, ddof=1), 0.0).mean(axis=1)
    between = values.mean(axis=2).var(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt((n - 1) / n + between / within))


def _plain_size(values: Array) -> Array:
    """Geyer's initial monotone sequence of autocorrelations, pooled over chains.

    Half of the pair that ends it counts where it is positive, as in Stan and ArviZ.
    """
    size, m, n = values.shape
    if n < MIN_CHAIN_LENGTH:
        return np.full(size, np.nan)
    means = values.mean(axis=2)
    spectrum = rfft(values - means[:, :, None], next_fast_len(2 * n), axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    covariance = irfft(power, next_fast_len(2 * n), axis=1)[:, :n] / n
    within = covariance[:, :1] * n / (n - 1)
    total = covariance[:, :1] + means.var(axis=1, ddof=1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - covariance) / total
    rho[:, 0] = 1.0
    looked_at = max((n - 1) // 2, 1)
    pairs = rho[:, : 2 * looked_at].reshape(size, looked_at, 2).sum(axis=2)
    negative = pairs < 0
    last = np.where(negative.any(axis=1), negative.argmax(axis=1), looked_at - 1)
    kept = np.arange(looked_at) < last[:, None]
    monotone = np.minimum.accumulate(pairs, axis=1).sum(axis=1, where=kept)
    ending = np.maximum(rho[np.arange(size), 2 * last], 0.0)
    time = np.maximum(-1.0 + 2.0 * monotone + ending, 1.0 / np.log10(m * n))
    return np.where(total[:, 0] > 0, m * n / time, np.nan)
