"""Rows with a multivariate t distribution: y_i | u_i ~ N(μ, Ω/u_i), u_i ~ Ga(ν/2, ν/2).

ν = ∞ is the normal distribution, with u_i = 1. A row has one u_i for all of its values, so that any
of its columns have a t distribution with the same ν, and the expectations of missing values and of
factor scores given the rest of the row are those of the normal distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from cuspfa._typing import Array


@dataclass(frozen=True)
class RowTails:
    """The distribution of the u_i, and what follows from it for each row."""

    degrees_of_freedom: float = math.inf
    """ν."""

    @property
    def are_normal(self) -> bool:
        """Is ν infinite?"""
        return math.isinf(self.degrees_of_freedom)

    def weights(self, squares: Array, n_values: Array | float) -> Array:
        """E[u_i | y_i] = (ν + p)/(ν + d_i), for squared Mahalanobis distances of p values each."""
        inverse = 1.0 / self.degrees_of_freedom
        return np.asarray((1.0 + n_values * inverse) / (1.0 + squares * inverse))

    def draw_weights(
        self, squares: Array, n_values: Array | float, rng: np.random.Generator
    ) -> Array:
        """u_i | y_i ~ Ga((ν + p)/2, (ν + d_i)/2), (n,); ones where ν is infinite."""
        if self.are_normal:
            return np.ones(len(squares))
        half = self.degrees_of_freedom / 2
        gamma = rng.standard_gamma(half + n_values / 2, len(squares))
        return np.asarray(gamma / (half + squares / 2))

    def log_density(self, log_det: Array | float, squares: Array, n_values: Array | float) -> Array:
        """Log densities of p values each, from log|2πΩ| and the squared distances."""
        if self.are_normal:
            return np.asarray(-0.5 * (log_det + squares))
        half = self.degrees_of_freedom / 2
        constant = gammaln(half + n_values / 2) - gammaln(half) - n_values / 2 * np.log(half)
        power = (half + n_values / 2) * np.log1p(squares / self.degrees_of_freedom)
        return np.asarray(constant - 0.5 * log_det - power)

    def effective_rows(self, n: float, p: int) -> float:
        """Normal rows with as much information on means and correlations: n (ν + p)/(ν + p + 2)."""
        return float(n / (1.0 + 2.0 / (self.degrees_of_freedom + p)))


NORMAL_TAILS = RowTails()
