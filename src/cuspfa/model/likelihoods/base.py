"""The protocol of likelihoods: what an engine over single cells needs of a kind of column.

A cell has the log density ℓ(x_ij | f_ij) with the linear predictor f_ij = λ_jᵀη_i. What does not
depend on loadings and scores belongs to the likelihood: its parameters are noise variances and
locations, or cut-points. An engine knows f_ij as normal with a mean and a variance, and uses

    e0 = E ℓ,   e1 = E ∂ℓ/∂f,   e2 = E ∂²ℓ/∂f².

These make each cell a Gaussian observation of f: its precision is w = −e2, and its value
E[f] + e1/w. A missing cell has the precision 0.

Values are (n, q) arrays of the q columns of this kind, with NaN where a value is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from cuspfa._typing import Array

QUADRATURE_NODES, TILTED_NODES = 15, 41
"""Nodes of Gauss–Hermite quadrature for an expected log density, and for an expected density."""

LEAST_TILTED_VARIANCE = 1e-8
"""Derivatives by quadrature are quotients by the variance of f."""

Parameters = Any
"""What a likelihood has to learn; each has its own type."""


class CellExpectations(NamedTuple):
    """Expectations of the log density of each cell and of its derivatives, (n, q) each."""

    value: Array
    """e0; 0 where a value is missing, as the other two."""
    slope: Array
    """e1."""
    curvature: Array
    """e2, not above 0."""

    @property
    def weights(self) -> Array:
        """The precisions −e2."""
        return -self.curvature


class TiltedMoments(NamedTuple):
    """Of a cell under a normal distribution of f: log ∫ p(x | f) N(f; m, v) df, (n, q) each."""

    log_normalizer: Array
    """0 where a value is missing, as the other two."""
    slope: Array
    """First derivative by m."""
    curvature: Array
    """Second derivative by m."""


class Likelihood(Protocol):
    """A kind of column. Its fields are what is given; its parameters are learned."""

    def check(self, rows: Any) -> Array:
        """Values for the other methods, or a DataError that names the column."""

    def initial(self, values: Array) -> Parameters:
        """Parameters to start from."""

    def expectations(
        self, values: Array, mean: Array, variance: Array, parameters: Parameters
    ) -> CellExpectations:
        """Expectations for f_ij ~ N(mean, variance)."""

    def tilted(
        self, values: Array, mean: Array, variance: Array, parameters: Parameters
    ) -> TiltedMoments:
        """The log of the expected density for f_ij ~ N(mean, variance), and its derivatives."""

    def update(
        self, values: Array, mean: Array, variance: Array, parameters: Parameters
    ) -> Parameters:
        """Parameters with a larger Σ e0 + `log_prior`."""

    def shifted(self, parameters: Parameters, amount: Array) -> Parameters:
        """Parameters with which f_j + amount_j has the density that f_j had before."""

    def log_prior(self, parameters: Parameters) -> float:
        """E[log p] − E[log q] of the parameters; the log density where these are numbers."""

    def log_density(self, values: Array, linear: Array, parameters: Parameters) -> Array:
        """ℓ(x_ij | f_ij), (…, n, q) for f (…, n, q)."""

    def sample(self, linear: Array, parameters: Parameters, rng: np.random.Generator) -> Array:
        """Values as a user has them, for f (n, q)."""

    def mean(self, mean: Array, variance: Array, parameters: Parameters) -> Array:
        """Expected values as a user has them, for f_ij ~ N(mean, variance)."""

    def to_json(self, parameters: Parameters) -> dict[str, Any]:
        """Fields and parameters as JSON values."""

    def describe(self, parameters: Parameters) -> list[dict[str, Any]]:
        """A row of named values for each column, for tables."""


@cache
def hermite_nodes(size: int) -> tuple[Array, Array]:
    """Nodes and weights for the expectation of a function of a standard normal number."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(size)
    return nodes, weights / weights.sum()


def tilted_by_quadrature(
    log_density: Callable[[Array], Array], mean: Array, variance: Array
) -> TiltedMoments:
    """`Likelihood.tilted` by quadrature, of a log density as a function of f."""
    nodes, weights = hermite_nodes(TILTED_NODES)
    variance = np.maximum(variance, LEAST_TILTED_VARIANCE)
    sd = np.sqrt(variance)
    logs = np.array([log_density(mean + sd * node) for node in nodes])
    largest = logs.max(axis=0)
    parts = np.exp(logs - largest) * weights.reshape(-1, *[1] * mean.ndim)
    total = parts.sum(axis=0)
    # The moments of f under p(x | f) N(f; m, v), by which the derivatives are known.
    first = np.tensordot(nodes, parts, 1) / total
    second = np.tensordot(nodes**2, parts, 1) / total
    return TiltedMoments(
        np.asarray(largest + np.log(total)),
        np.asarray(first / sd),
        np.asarray((second - first**2 - 1.0) / variance),
    )
