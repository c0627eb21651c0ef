"""The protocol of likelihoods: what an engine over single cells needs of a kind of column.

A cell has the log density ℓ(x_ij | f_ij) with the linear predictor f_ij = λ_jᵀη_i. What does not
depend on loadings and scores belongs to the likelihood: its parameters are noise variances and
locations, or cut-points. An engine knows f_ij as normal with a mean and a variance, and uses

    e0 = E ℓ,   e1 = E ∂ℓ/∂f,   e2 = E ∂²ℓ/∂f².

These make each cell a Gaussian observation of f: its precision is w = −e2, and its value
E[f] + e1/w. A missing cell has the precision 0.

Values are (n, q) arrays of the q columns of this kind, with NaN where a value is missing. Where a
likelihood has counts there is one more column, the offsets o_i of their log rates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices

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


class Tangents(NamedTuple):
    """Of cells at f: the log density up to what does not depend on f, and derivatives by f."""

    value: Array
    """(…, n, q); 0 where a value is missing, as the other two."""
    slope: Array
    weight: Array
    """The negative second derivative, not below 0."""


class Intervals(NamedTuple):
    """Cells of normal responses, z_ij ~ N(f_ij, σ²_j): the value of a cell says where z_ij is."""

    lower: Array
    """(n, q), NaN where a value is missing."""
    upper: Array
    """(n, q); equal to `lower` where z_ij itself is the value."""
    noise: Array
    """(q,) σ²_j."""


class PseudoData(NamedTuple):
    """Gaussian observations of f that stand for the values: z_ij ~ N(f_ij, 1/w_ij)."""

    values: Array
    """(B, n, q) z, in B chains; drawn where a value is missing."""
    precision: Array
    """w: (B, q) where all cells of a column have the same one, else (B, n, q); 0 for the columns
    that have no pseudo-data.
    """


class ResponsePrior(NamedTuple):
    """How the log prior of parameters changes where they move together with z and f, (B, q) each.

    With z_j, f_j and the parameters of column j moved by a, log p changes by
    −½ `precision` a² − `towards` a. With all of them multiplied by s, log p and the logarithm of
    the Jacobian of the parameters change by `power` log s − ½ (s² − 1) `squares`.
    """

    precision: Array
    towards: Array
    power: Array
    squares: Array
    scaled: BoolArray
    """(q,) columns whose z is latent: multiplied, it changes no value."""


class ColumnParameters(NamedTuple):
    """Parameters of any likelihood, column by column; before each axis there may be one of draws.

    Posteriors and their files have parameters in this form.
    """

    location: Array
    """(q,) 0 of ordinal columns."""
    noise_variance: Array
    """(q,) of the response given f."""
    thresholds: Sequence[Array]
    """Of each column, in order; empty of columns that are not ordinal."""
    dispersion: Array
    """(q,) infinite of columns that are not negative binomial."""


class Likelihood(Protocol):
    """A kind of column. Its fields are what is given; its parameters are learned.

    Packed parameters are (…, m) numbers without limits. Where arrays of parameters have leading
    axes, these belong to chains or draws.
    """

    @property
    def has_offset(self) -> bool:
        """Have values one more column, the offsets of log rates?"""

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

    def tilted_further(
        self, values: Array, mean: Array, variance: Array, parameters: Parameters
    ) -> tuple[Array, Array]:
        """Third and fourth derivatives of the normalizer of `tilted` by the mean, (n, q) each."""

    def shifted(self, parameters: Parameters, amount: Array) -> Parameters:
        """Parameters with which f_j + amount_j has the density that f_j had before."""

    # --- scores integrated out ---

    def start_values(self, values: Array) -> Array:
        """Numbers (n, q) whose correlations give loadings to start from."""

    def start(self, values: Array, shares: Array) -> tuple[Parameters, Array]:
        """Parameters where factors have these shares (q,) of the variance of f or values.

        And the standard deviations (q,) by which standardised loadings are multiplied.
        """

    @property
    def n_packed(self) -> int:
        """Number of packed parameters."""

    @property
    def packed_owner(self) -> Indices:
        """(m,) the column that each packed parameter belongs to."""

    def pack(self, parameters: Parameters) -> Array:
        """Parameters as numbers without limits, (…, m)."""

    def unpack(self, packed: Array) -> Parameters:
        """The parameters of such numbers."""

    def log_packed_prior(self, packed: Array) -> Array:
        """The log density of packed parameters, (…,)."""

    def packed_prior_derivatives(self, packed: Array) -> tuple[Array, Array]:
        """Gradient (m,) and negative curvature (m, m), which has no negative eigenvalue."""

    def intervals(self, values: Array, parameters: Parameters) -> Intervals | None:
        """The cells for compiled code, or None where responses are not normal."""

    def tilted_gradient(
        self, values: Array, mean: Array, variance: Array, parameters: Parameters
    ) -> Array:
        """Derivatives of Σ_j of the normalizers of `tilted` by packed parameters, (n, m)."""

    @property
    def exact_information(self) -> BoolArray:
        """(q,) columns whose information is right by expectations given the scores."""

    # --- exact draws ---

    @property
    def direct(self) -> BoolArray:
        """(q,) columns without pseudo-data: draws use their tangents."""

    def tangents(self, values: Array, linear: Array, parameters: Parameters) -> Tangents:
        """Of the cells at f (B, n, q); zeros for columns that are not direct."""

    def first_linear(self, values: Array, parameters: Parameters) -> Array:
        """F (B, n, q) near to the maximum of the density of each cell; 0 where not direct."""

    def draw(
        self, values: Array, linear: Array, parameters: Parameters, rng: np.random.Generator
    ) -> tuple[Parameters, PseudoData]:
        """Parameters and pseudo-data given f (B, n, q), in this order.

        Parameters are drawn with pseudo-data integrated out; values may be (B, n, q) too.
        """

    def response_prior(self, parameters: Parameters) -> ResponsePrior:
        """For moves of pseudo-data, f and parameters together."""

    def rescaled(self, parameters: Parameters, factor: Array) -> Parameters:
        """Parameters times factor (B, q), which is 1 for columns whose z is not latent."""

    # --- prediction ---

    def response_variance(self, parameters: Parameters) -> Array:
        """Variance of the response of each column given f, (…, q)."""

    def log_density(self, values: Array, linear: Array, parameters: Parameters) -> Array:
        """ℓ(x_ij | f_ij), (…, n, q) for f (…, n, q)."""

    def sample(self, linear: Array, parameters: Parameters, rng: np.random.Generator) -> Array:
        """Values as a user has them, for f (n, q)."""

    def mean(self, mean: Array, variance: Array, parameters: Parameters) -> Array:
        """Expected values as a user has them, for f_ij ~ N(mean, variance)."""

    def by_column(self, parameters: Parameters) -> ColumnParameters:
        """The parameters as a posterior keeps them."""

    def from_columns(self, known: ColumnParameters) -> Parameters:
        """The parameters of a posterior."""


class WithPseudoData:
    """What likelihoods share whose exact draws are by pseudo-data alone."""

    names: tuple[str, ...]

    @property
    def has_offset(self) -> bool:
        """No."""
        return False

    @property
    def direct(self) -> BoolArray:
        """(q,) no column."""
        return np.zeros(len(self.names), dtype=np.bool_)

    def tangents(self, values: Array, linear: Array, parameters: Parameters) -> Tangents:
        """Zeros."""
        return Tangents(*np.zeros((3, *linear.shape)))

    def first_linear(self, values: Array, parameters: Parameters) -> Array:
        """Zeros."""
        return np.zeros(values.shape)

    def start_values(self, values: Array) -> Array:
        """The values."""
        return values


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


def further_by_quadrature(
    log_density: Callable[[Array], Array], mean: Array, variance: Array
) -> tuple[Array, Array]:
    """`Likelihood.tilted_further` by quadrature: cumulants of f, divided by powers of v."""
    nodes, weights = hermite_nodes(TILTED_NODES)
    sd = np.sqrt(np.maximum(variance, LEAST_TILTED_VARIANCE))
    logs = np.array([log_density(mean + sd * node) for node in nodes])
    parts = np.exp(logs - logs.max(axis=0)) * weights.reshape(-1, *[1] * mean.ndim)
    parts /= parts.sum(axis=0)
    centred = nodes.reshape(-1, *[1] * mean.ndim) - np.tensordot(nodes, parts, 1)
    second, third, fourth = (np.sum(parts * centred**power, axis=0) for power in (2, 3, 4))
    return np.asarray(third / sd**3), np.asarray((fourth - 3.0 * second**2) / sd**4)
