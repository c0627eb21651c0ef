"""The bivariate normal distribution with unit variances."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, owens_t

from cuspfa._typing import Array

TINY = 1e-300
"""A zero is moved by so much: Owen's function needs its sign."""


def bivariate_normal_cdf(x: Array, y: Array, rho: Array) -> Array:
    """P(X ≤ x, Y ≤ y) for correlation `rho`, by Owen's T function; arguments are finite."""
    x, y = np.where(x == 0.0, TINY, x), np.where(y == 0.0, TINY, y)
    root = np.sqrt((1.0 - rho) * (1.0 + rho))
    with np.errstate(over="ignore"):  # T of an infinite argument is right
        of_x, of_y = (y - rho * x) / x / root, (x - rho * y) / y / root
    opposite = np.where((x > 0.0) == (y > 0.0), 0.0, 0.5)
    value = 0.5 * (ndtr(x) + ndtr(y)) - owens_t(x, of_x) - owens_t(y, of_y) - opposite
    return np.asarray(np.clip(value, 0.0, 1.0))


def bivariate_normal_density(x: Array, y: Array, rho: Array) -> Array:
    """The density, which is also the derivative of the distribution function by `rho`."""
    rest = (1.0 - rho) * (1.0 + rho)
    square = x * x - 2.0 * rho * x * y + y * y
    return np.asarray(np.exp(-0.5 * square / rest) / (2.0 * np.pi * np.sqrt(rest)))
