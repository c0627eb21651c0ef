"""Draws of latent responses: truncated normal and logistic numbers, and Pólya–gamma precisions.

A logistic number r is normal with the precision ω, where ω has the Pólya–gamma distribution
PG(2, 0): ¼ sech²(r/2) = ¼ E exp(−½ ωr²). Given r, ω has the distribution PG(2, r) (Polson, Scott &
Windle, 2013).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, log_ndtr, logit, ndtr, ndtri, ndtri_exp

from cuspfa._typing import Array, BoolArray
from cuspfa.inference._kernels import kernel

DRAWN_BY_LOGS = -30.0
"""Truncated numbers below it are drawn by logarithms."""
SERIES_CHANGE = 0.64
"""Where the two series of the density of Pólya–gamma numbers change places."""


def truncated_normal(lower: Array, upper: Array, rng: np.random.Generator) -> Array:
    """Standard normal numbers between the limits, by the inverse of their distribution function.

    The interval is reflected so that its end nearer to zero is the upper one.
    """
    uniform, core = rng.random(lower.shape), kernel("cells")
    if core is not None:
        ends = (np.ascontiguousarray(end, dtype=float).ravel() for end in (lower, upper))
        core.truncated_normal(*ends, uniform.reshape(-1))
        return uniform
    reflected = lower + upper > 0.0
    low, high = np.where(reflected, -upper, lower), np.where(reflected, -lower, upper)
    below = ndtr(low)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = ndtri(below + uniform * (ndtr(high) - below))
    far = high < DRAWN_BY_LOGS
    if np.any(far):
        top, bottom, part = log_ndtr(high[far]), log_ndtr(low[far]), uniform[far]
        drawn[far] = ndtri_exp(top + np.log(part + (1.0 - part) * np.exp(bottom - top)))
    drawn = np.clip(drawn, low, high)
    return np.asarray(np.where(reflected, -drawn, drawn), dtype=float)


def truncated_logistic(lower: Array, upper: Array, rng: np.random.Generator) -> Array:
    """Standard logistic numbers between the limits, in the same way."""
    reflected = lower + upper > 0.0
    low, high = np.where(reflected, -upper, lower), np.where(reflected, -lower, upper)
    uniform = rng.random(low.shape)
    below = expit(low)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = logit(below + uniform * (expit(high) - below))
    far = high < DRAWN_BY_LOGS
    if np.any(far):  # there the distribution function is e^x
        part, apart = uniform[far], np.exp(low[far] - high[far])
        drawn[far] = high[far] + np.log(part + (1.0 - part) * apart)
    drawn = np.clip(drawn, low, high)
    return np.asarray(np.where(reflected, -drawn, drawn), dtype=float)


def draw_logistic_precision(residual: Array, rng: np.random.Generator) -> Array:
    """PG(2, r), the sum of two numbers from PG(1, r)."""
    tilt = np.abs(residual).ravel() / 2.0
    both = _draw_jacobi(np.concatenate([tilt, tilt]), rng).reshape(2, -1)
    return np.asarray(both.sum(axis=0).reshape(residual.shape) / 4.0)


def _draw_jacobi(tilt: Array, rng: np.random.Generator) -> Array:
    """J*(1, z), four times PG(1, 2z): Devroye's method of alternating series."""
    found, left = np.empty(len(tilt)), np.arange(len(tilt))
    rate = math.pi**2 / 8.0 + tilt**2 / 2.0
    # Probability of the exponential part of the proposal, right of the change.
    root = 1.0 / math.sqrt(SERIES_CHANGE)
    start = np.log(rate) + rate * SERIES_CHANGE
    near = start - tilt + log_ndtr(root * (SERIES_CHANGE * tilt - 1.0))
    far = start + tilt + log_ndtr(-root * (SERIES_CHANGE * tilt + 1.0))
    right = 1.0 / (1.0 + 4.0 / math.pi * (np.exp(near) + np.exp(far)))
    while len(left):
        z, k = tilt[left], rate[left]
        x = SERIES_CHANGE + rng.standard_exponential(len(left)) / k
        inner = rng.random(len(left)) >= right[left]
        x[inner] = _truncated_inverse_gaussian(z[inner], rng)
        good = _accepted(x, rng)
        found[left[good]] = x[good]
        left = left[~good]
    return found


def _truncated_inverse_gaussian(z: Array, rng: np.random.Generator) -> Array:
    """Inverse Gaussian numbers of mean 1/z and shape 1 below the change."""
    found, left, t = np.empty(len(z)), np.arange(len(z)), SERIES_CHANGE
    while len(left):
        own = z[left]
        wide = own < 1.0 / t
        size = len(left)
        # Of a mean beyond the change: a truncated inverse χ² number, tilted.
        first, second = rng.standard_exponential(size), rng.standard_exponential(size)
        tilted = t / (1.0 + t * first) ** 2
        good = (first**2 <= 2.0 * second / t) & (rng.random(size) < np.exp(-0.5 * own**2 * tilted))
        # Otherwise: an inverse Gaussian number, as a root of a quadratic.
        mean = 1.0 / np.maximum(own, 1e-300)
        squared = rng.standard_normal(size) ** 2
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = mean * squared
            # The smaller root, in a form that does not cancel.
            plain = mean / (1.0 + 0.5 * scaled + np.sqrt(scaled + 0.25 * scaled**2))
            other = rng.random(size) > mean / (mean + plain)
            plain = np.where(other, mean**2 / plain, plain)
        x = np.where(wide, tilted, plain)
        good = np.where(wide, good, plain <= t)
        found[left[good]] = x[good]
        left = left[~good]
    return found


def _accepted(x: Array, rng: np.random.Generator) -> BoolArray:
    """Whether proposals are kept: partial sums of the series lie above and below in turn."""
    total = _series_term(0, x)
    level = rng.random(len(x)) * total
    kept, open_ = np.zeros(len(x), dtype=bool), np.ones(len(x), dtype=bool)
    number = 0
    while np.any(open_):
        number += 1
        if number % 2:
            total = total - _series_term(number, x)
            below = open_ & (level <= total)
            kept |= below
            open_ &= ~below
        else:
            total = total + _series_term(number, x)
            open_ &= ~(level > total)
    return kept


def _series_term(number: int, x: Array) -> Array:
    half = number + 0.5
    left = (2.0 / (math.pi * x)) ** 1.5 * np.exp(-2.0 * half**2 / x)
    right = np.exp(-0.5 * (half * math.pi) ** 2 * x)
    return np.asarray(math.pi * half * np.where(x <= SERIES_CHANGE, left, right))
