"""A factor model that holds only approximately: the population covariance varies around it.

    Σ̃ ~ IW(m, mΩ),  Ω = ΛΛᵀ + Σ,        the population covariance, E[Σ̃⁻¹] = Ω⁻¹,
    A | Σ̃ ~ W(ν, Σ̃),                    the cross-products of ν = n − 1 centred rows,

the adventitious error of Wu & Browne (2015). The degrees of freedom m come from the size ε of the
error, a population RMSEA: the expected discrepancy of Σ̃ and the best multiple of Ω is
ε² p(p + 1)/2. With Σ̃ integrated out the rows have a matrix-t density; as a function of Ω it is
highest at Ω = A/ν, and its curvature there is that of νm/(ν + m) Gaussian rows.

Wu & Browne's scale matrix mΩ is kept, not (m − p − 1)Ω, for which E[Σ̃] = Ω: the typical Σ̃ is
smaller than its mean, and Ω would be larger than the data by the factor m/(m − p − 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import brentq
from scipy.special import digamma, multigammaln

from cuspfa._typing import Array
from cuspfa._utils.linalg import symmetrized
from cuspfa._utils.wishart import wishart_root

LARGEST_MODEL_ERROR = 0.5
"""An RMSEA far beyond any factor model."""
SMALLEST_MODEL_ERROR = 1e-4
"""Below this RMSEA a model error is taken as 0: the data would have to have 10⁸ rows to show it."""
LEAST_PART = 0.05
"""Smallest eigenvalue of nearest Gaussian cross-products, relative to those of the data or the
model, whichever is smaller."""

LARGE_ARGUMENT = 1e5
"""From here on ψ(x) − log x is −1/(2x) to as many digits as it can be computed with."""


class ModelError(NamedTuple):
    """The size of the error for p columns."""

    size: float
    """ε, a population RMSEA."""
    degrees: float
    """m > p + 1."""

    @classmethod
    def of_size(cls, size: float, p: int) -> ModelError:
        """An error of this size: m such that the expected discrepancy is ε² p(p + 1)/2."""
        goal = np.log(size**2 * p * (p + 1) / 2)
        # From m − p − 1 nearly zero, where the discrepancy is unbounded, to where it is rounding.
        found = brentq(lambda log_c: np.log(_discrepancy(log_c, p)) - goal, -200.0, 46.0)
        return cls(size, float(np.exp(found)) + p + 1)

    def effective_rows(self, rows: float) -> int:
        """Gaussian rows with as much information on Ω as these, rounded: 1/(1/ν + 1/m)."""
        return max(round(rows * self.degrees / (rows + self.degrees)), 1)


def _discrepancy(log_c: float, p: int) -> float:
    """E[log|Ω| − log|Σ̃|] with Ω the multiple of the model that is E[Σ̃], for m = p + 1 + e^log_c.

    Σ_{i=1..p} ψ((m − i + 1)/2) + p log{2/(m − p − 1)}.
    """
    above, c_half = (1 + np.arange(1, p + 1)) / 2, np.exp(log_c) / 2
    half = c_half + above
    # ψ(x) − log c/2 = {ψ(x) − log x} + log(x/(c/2)), of which neither part cancels for large m.
    close = np.log1p(above / c_half)
    lag = np.where(half < LARGE_ARGUMENT, digamma(half) - np.log(half), -0.5 / half)
    return float(np.sum(lag + close))


class Sample(NamedTuple):
    """The data by their cross-products."""

    cross_products: Array
    """(p, p) A = YᵀY."""
    rows: float
    """ν."""


def log_marginal_density(covariance: Array, sample: Sample, error: ModelError) -> Array:
    """Log p(Y | Ω) with the population covariance integrated out, for Ω (..., p, p).

    logΓ_p((ν + m)/2) − logΓ_p(m/2) − (νp/2) log π + (m/2) log|mΩ| − ((ν + m)/2) log|mΩ + A|.
    """
    rows, m = sample.rows, error.degrees
    p = covariance.shape[-1]
    constant = multigammaln((rows + m) / 2, p) - multigammaln(m / 2, p)
    constant += 0.5 * p * (m * np.log(m) - rows * np.log(np.pi))
    both = log_det(m * covariance + sample.cross_products)
    return np.asarray(constant + 0.5 * (m * log_det(covariance) - (rows + m) * both))


def log_det(matrix: Array) -> Array:
    """log|M| of positive definite matrices (..., p, p)."""
    root = np.linalg.cholesky(matrix)
    return np.asarray(2.0 * np.sum(np.log(np.diagonal(root, axis1=-2, axis2=-1)), axis=-1))


def nearest_gaussian(covariance: Array, sample: Sample, error: ModelError) -> Sample:
    """Rows whose Gaussian log-likelihood has the gradient of the marginal one at Ω.

    The gradient of the marginal log density at Ω is that of ν Gaussian rows with cross-products
    G = E[cross-products | Y, Ω] = (ν + m)(Ω⁻¹ + mA⁻¹)⁻¹. With n = `effective_rows` the same
    gradient, and nearly the same curvature, have n rows with cross-products G − (ν − n)Ω. Along an
    eigenvector of A relative to Ω these grow more slowly than A and may become negative;
    `LEAST_PART` prevents that.
    """
    rows, m = sample.rows, error.degrees
    n = error.effective_rows(rows)
    root = np.linalg.cholesky(covariance)
    half = solve_triangular(root, sample.cross_products, lower=True)
    relative, vectors = np.linalg.eigh(symmetrized(solve_triangular(root, half.T, lower=True)))
    ratio = np.maximum(relative, 0.0) / rows  # of A/ν to Ω
    expected = (rows + m) * rows * ratio / (rows * ratio + m)
    least = LEAST_PART * n * np.minimum(ratio, 1.0)
    basis = root @ vectors
    matched = (basis * np.maximum(expected - (rows - n), least)) @ basis.T
    return Sample(symmetrized(matched), float(n))


# --- the population covariance given the data and Ω: IW(ν + m, A + mΩ) ---


def draw_population(
    covariance: Array, sample: Sample, error: ModelError, rng: np.random.Generator
) -> Array:
    """Draws of Σ̃ | Y, Ω, (size, p, p), one for each Ω (size, p, p)."""
    size, p, _ = covariance.shape
    lower = wishart_root(sample.rows + error.degrees, size, p, rng)
    root = np.linalg.cholesky(sample.cross_products + error.degrees * covariance)
    # Σ̃ = R T⁻ᵀ T⁻¹ Rᵀ with T Tᵀ a standard Wishart matrix.
    half = np.linalg.solve(lower, root.transpose(0, 2, 1))
    return np.asarray(half.transpose(0, 2, 1) @ half)
