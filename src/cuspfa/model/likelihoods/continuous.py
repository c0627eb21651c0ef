"""Continuous columns in the protocol of likelihoods: x_ij ~ N(μ_j + f_ij, σ²_j), in closed form.

The formulas of the noise are those of `gaussian.py`. An engine over single cells uses this file
where a table has columns of other kinds too; tables of continuous columns alone have sufficient
statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.errors import DataError
from cuspfa.model.likelihoods.base import (
    CellExpectations,
    ColumnParameters,
    Intervals,
    PseudoData,
    ResponsePrior,
    TiltedMoments,
    WithPseudoData,
)
from cuspfa.model.likelihoods.gaussian import Noise, update_noise
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import LOG_2PI

POINT_SHAPE = 1e12
"""Shape of q(σ²) where σ² is a number, B/A: its distribution is as narrow as digits allow."""


class ContinuousParameters(NamedTuple):
    """Locations μ_j (q,), as numbers under a flat prior, and q(σ²_j)."""

    location: Array
    noise: Noise


@dataclass(frozen=True)
class ContinuousLikelihood(WithPseudoData):
    """q continuous columns."""

    names: tuple[str, ...]
    """Names of the columns in messages."""
    noise_shape: float = -1.0
    noise_rate: float = 0.003
    fixed_location: bool = False
    """Locations stay at zero: the columns are centred."""
    center: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    """Values are those of a user less `center`, divided by `scale`; without these as they are."""

    @classmethod
    def of(cls, rows: Any, names: tuple[str, ...] | None = None) -> ContinuousLikelihood:
        """The likelihood of these rows, standardised."""
        table = np.asarray(rows, dtype=float)
        names = tuple(f"column {j}" for j in range(table.shape[1])) if names is None else names
        table = cls(names).check(table)
        for column, name in zip(table.T, names, strict=True):
            if len(np.unique(column[~np.isnan(column)])) < 2:
                raise DataError(
                    f"Values of {name} must vary. Got a single value or none; drop the column."
                )
        center, scale = np.nanmean(table, axis=0), np.nanstd(table, axis=0)
        return cls(names, center=tuple(center.tolist()), scale=tuple(scale.tolist()))

    @cached_property
    def _prior(self) -> CuspPrior:
        return CuspPrior(noise_shape=self.noise_shape, noise_rate=self.noise_rate)

    def check(self, rows: Any) -> Array:
        """The rows, finite where observed; columns vary."""
        table = np.array(rows, dtype=float)
        for column, name in zip(table.T, self.names, strict=True):
            observed = column[~np.isnan(column)]
            if np.any(np.isinf(observed)):
                raise DataError(f"Values of {name} must be finite. Got {np.inf} instead.")
        return self._inside(table)

    def _inside(self, table: Array) -> Array:
        """The values that the model has, of values as a user has them."""
        if self.center is None or self.scale is None:
            return table
        return np.asarray((table - np.array(self.center)) / np.array(self.scale))

    def _outside(self, values: Array) -> Array:
        """Values as a user has them."""
        if self.center is None or self.scale is None:
            return values
        return np.asarray(np.array(self.center) + np.array(self.scale) * values)

    def initial(self, values: Array) -> ContinuousParameters:
        """Means and variances of the observed values."""
        counts = np.sum(~np.isnan(values), axis=0)
        mean = np.nanmean(values, axis=0)
        location = np.zeros(len(mean)) if self.fixed_location else mean
        squares = np.nansum((values - location) ** 2, axis=0)
        return ContinuousParameters(location, update_noise(squares, counts, self._prior))

    def expectations(
        self, values: Array, mean: Array, variance: Array, parameters: ContinuousParameters
    ) -> CellExpectations:
        """In closed form."""
        observed, residual = _residuals(values, mean, parameters)
        tau = parameters.noise.precision
        value = parameters.noise.log_precision - LOG_2PI - tau * (residual**2 + variance)
        return CellExpectations(0.5 * value * observed, tau * residual, -tau * observed)

    def tilted(
        self, values: Array, mean: Array, variance: Array, parameters: ContinuousParameters
    ) -> TiltedMoments:
        """For σ²_j = 1/E[1/σ²_j]."""
        observed, residual = _residuals(values, mean, parameters)
        total = variance + 1.0 / parameters.noise.precision
        value = -0.5 * (LOG_2PI + np.log(total) + residual**2 / total) * observed
        return TiltedMoments(value, residual / total, -observed / total)

    def tilted_further(
        self, values: Array, mean: Array, variance: Array, parameters: ContinuousParameters
    ) -> tuple[Array, Array]:
        """Zero: the normalizer is quadratic."""
        return np.zeros_like(mean), np.zeros_like(mean)

    def shifted(self, parameters: ContinuousParameters, amount: Array) -> ContinuousParameters:
        """Locations μ_j − amount_j; unchanged where these are fixed."""
        if self.fixed_location:
            return parameters
        return parameters._replace(location=parameters.location - amount)

    def start(self, values: Array, shares: Array) -> tuple[ContinuousParameters, Array]:
        """Means, and the variances that are left."""
        location, noise = self.initial(values)
        sd = np.sqrt(noise.rate / noise.shape)
        left = noise._replace(rate=noise.rate * (1.0 - shares))
        return ContinuousParameters(location, left), sd

    @property
    def n_packed(self) -> int:
        """Locations and variances."""
        return len(self.names) * (1 if self.fixed_location else 2)

    def pack(self, parameters: ContinuousParameters) -> Array:
        """Locations, unless these are fixed, and logarithms of σ²."""
        logs = -np.log(parameters.noise.precision)
        if self.fixed_location:
            return logs
        return np.concatenate([parameters.location, logs], axis=-1)

    def unpack(self, packed: Array) -> ContinuousParameters:
        """With σ² as a number."""
        q = len(self.names)
        variance = np.exp(packed[..., -q:])
        location = np.zeros_like(variance) if self.fixed_location else packed[..., :q]
        shape = np.full(variance.shape, POINT_SHAPE)
        return ContinuousParameters(location, Noise(shape, POINT_SHAPE * variance))

    def log_packed_prior(self, packed: Array) -> Array:
        """Of the logarithms of σ²; that of the locations is flat."""
        logs = packed[..., -len(self.names) :]
        own = -self.noise_shape * logs - self.noise_rate * np.exp(-logs)
        return np.asarray(np.sum(own + self._prior.log_noise_constant, axis=-1))

    def packed_prior_derivatives(self, packed: Array) -> tuple[Array, Array]:
        """In closed form."""
        gradient, curvature = np.zeros((2, packed.shape[-1]))
        own = slice(-len(self.names), None)
        curvature[own] = self.noise_rate * np.exp(-packed[own])
        gradient[own] = curvature[own] - self.noise_shape
        return gradient, np.diag(curvature)

    def intervals(self, values: Array, parameters: ContinuousParameters) -> Intervals | None:
        """The values less their locations."""
        z = np.asarray(values - parameters.location)
        return Intervals(z, z, 1.0 / parameters.noise.precision)

    def tilted_gradient(
        self, values: Array, mean: Array, variance: Array, parameters: ContinuousParameters
    ) -> Array:
        """In closed form."""
        observed, residual = _residuals(values, mean, parameters)
        noise = 1.0 / parameters.noise.precision
        total = variance + noise
        logs = 0.5 * noise * ((residual / total) ** 2 - observed / total)
        return logs if self.fixed_location else np.concatenate([residual / total, logs], axis=1)

    @property
    def exact_information(self) -> BoolArray:
        """All: the density is normal."""
        return np.ones(len(self.names), dtype=np.bool_)

    @property
    def packed_owner(self) -> Indices:
        """Locations, unless these are fixed, and variances."""
        return np.tile(np.arange(len(self.names)), 1 if self.fixed_location else 2)

    def draw(
        self,
        values: Array,
        linear: Array,
        parameters: ContinuousParameters,
        rng: np.random.Generator,
    ) -> tuple[ContinuousParameters, PseudoData]:
        """σ² with the locations integrated out, then these, then missing values."""
        observed = ~np.isnan(values)
        counts = np.broadcast_to(observed, linear.shape).sum(axis=1).astype(float)
        residual = np.where(observed, values - linear, 0.0)
        mean = residual.sum(axis=1) / np.maximum(counts, 1.0)
        mean = np.zeros_like(mean) if self.fixed_location else mean
        rss = np.sum((residual - mean[:, None, :] * observed) ** 2, axis=1)
        freedom = counts if self.fixed_location else counts - 1.0
        gamma = rng.standard_gamma(np.maximum(self.noise_shape + freedom / 2.0, 0.5))
        variance = (self.noise_rate + rss / 2.0) / gamma
        if not self.fixed_location:
            mean = mean + np.sqrt(variance / np.maximum(counts, 1.0)) * rng.standard_normal(
                mean.shape
            )
        known = ContinuousParameters(
            mean, Noise(np.full(mean.shape, POINT_SHAPE), POINT_SHAPE * variance)
        )
        z = np.broadcast_to(values, linear.shape) - mean[:, None, :]
        row = np.nonzero(np.isnan(z))
        sd = np.sqrt(variance)[row[0], row[2]]
        z[row] = linear[row] + sd * rng.standard_normal(len(sd))
        return known, PseudoData(z, 1.0 / variance)

    def response_prior(self, parameters: ContinuousParameters) -> ResponsePrior:
        """Flat; where the location is fixed, z does not move."""
        shape = parameters.location.shape
        still = np.full(shape, np.inf if self.fixed_location else 0.0)
        none = np.zeros(shape)
        return ResponsePrior(still, none, none, none, np.zeros(shape[-1], dtype=bool))

    def rescaled(self, parameters: ContinuousParameters, factor: Array) -> ContinuousParameters:
        """The parameters as they are: z is known."""
        return parameters

    def response_variance(self, parameters: ContinuousParameters) -> Array:
        """The noise variance of each column."""
        return np.asarray(1.0 / parameters.noise.precision)

    def log_density(self, values: Array, linear: Array, parameters: ContinuousParameters) -> Array:
        """For σ²_j = 1/E[1/σ²_j]; 0 where missing."""
        observed, residual = _residuals(values, linear, parameters)
        tau = parameters.noise.precision[..., None, :]
        return np.asarray(0.5 * (np.log(tau) - LOG_2PI - tau * residual**2) * observed)

    def sample(
        self, linear: Array, parameters: ContinuousParameters, rng: np.random.Generator
    ) -> Array:
        """Values with their noise."""
        noise = rng.standard_normal(linear.shape) / np.sqrt(parameters.noise.precision)
        return self._outside(parameters.location + linear + noise)

    def mean(self, mean: Array, variance: Array, parameters: ContinuousParameters) -> Array:
        """The location and the mean of f."""
        return self._outside(parameters.location + mean)

    def by_column(self, parameters: ContinuousParameters) -> ColumnParameters:
        """Locations and noise variances."""
        location, variance = parameters.location, self.response_variance(parameters)
        empty = np.zeros((*location.shape[:-1], 0))
        none = np.full(location.shape, np.inf)
        return ColumnParameters(location, variance, [empty] * len(self.names), none)

    def from_columns(self, known: ColumnParameters) -> ContinuousParameters:
        """With σ² as numbers."""
        shape = np.full(known.noise_variance.shape, POINT_SHAPE)
        noise = Noise(shape, POINT_SHAPE * known.noise_variance)
        return ContinuousParameters(known.location, noise)


def _residuals(
    values: Array, linear: Array, parameters: ContinuousParameters
) -> tuple[Array, Array]:
    """Where values are observed, as 0 or 1, and x_ij − μ_j − f_ij, 0 where missing."""
    observed = ~np.isnan(values)
    residual = np.where(observed, values - parameters.location[..., None, :] - linear, 0.0)
    return observed.astype(float), residual
