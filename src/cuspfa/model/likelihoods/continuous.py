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

from cuspfa._typing import Array
from cuspfa.errors import DataError
from cuspfa.model.likelihoods.base import CellExpectations, TiltedMoments
from cuspfa.model.likelihoods.gaussian import Noise, noise_bound, update_noise
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import LOG_2PI


class ContinuousParameters(NamedTuple):
    """Locations μ_j (q,), as numbers under a flat prior, and q(σ²_j)."""

    location: Array
    noise: Noise


@dataclass(frozen=True)
class ContinuousLikelihood:
    """q continuous columns."""

    names: tuple[str, ...]
    """Names of the columns in messages."""
    noise_shape: float = -1.0
    noise_rate: float = 0.003
    fixed_location: bool = False
    """Locations stay at zero: the columns are centred."""

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
        return table

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

    def update(
        self, values: Array, mean: Array, variance: Array, parameters: ContinuousParameters
    ) -> ContinuousParameters:
        """Best locations, then the best q(σ²)."""
        observed = ~np.isnan(values)
        counts = observed.sum(axis=0)
        if not self.fixed_location:
            location = np.nansum(values - mean, axis=0) / counts
            parameters = parameters._replace(location=location)
        _, residual = _residuals(values, mean, parameters)
        rss = np.sum(residual**2 + variance * observed, axis=0)
        return parameters._replace(noise=update_noise(rss, counts, self._prior))

    def shifted(self, parameters: ContinuousParameters, amount: Array) -> ContinuousParameters:
        """Locations μ_j − amount_j; unchanged where these are fixed."""
        if self.fixed_location:
            return parameters
        return parameters._replace(location=parameters.location - amount)

    def log_prior(self, parameters: ContinuousParameters) -> float:
        """Of the noise."""
        return noise_bound(parameters.noise, self._prior)

    def log_density(self, values: Array, linear: Array, parameters: ContinuousParameters) -> Array:
        """For σ²_j = 1/E[1/σ²_j]; 0 where missing."""
        observed, residual = _residuals(values, linear, parameters)
        tau = parameters.noise.precision
        return np.asarray(0.5 * (np.log(tau) - LOG_2PI - tau * residual**2) * observed)

    def sample(
        self, linear: Array, parameters: ContinuousParameters, rng: np.random.Generator
    ) -> Array:
        """Values with their noise."""
        noise = rng.standard_normal(linear.shape) / np.sqrt(parameters.noise.precision)
        return np.asarray(parameters.location + linear + noise)

    def mean(self, mean: Array, variance: Array, parameters: ContinuousParameters) -> Array:
        """The location and the mean of f."""
        return np.asarray(parameters.location + mean)

    def to_json(self, parameters: ContinuousParameters) -> dict[str, Any]:
        """Fields and parameters as lists."""
        return {
            "likelihood": "continuous",
            "names": list(self.names),
            "noise_prior": [self.noise_shape, self.noise_rate],
            "fixed_location": self.fixed_location,
            "location": parameters.location.tolist(),
            "noise": [part.tolist() for part in parameters.noise],
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> tuple[ContinuousLikelihood, ContinuousParameters]:
        """What `to_json` made."""
        noise_shape, noise_rate = saved["noise_prior"]
        made = cls(tuple(saved["names"]), noise_shape, noise_rate, saved["fixed_location"])
        shape, rate = (np.array(part) for part in saved["noise"])
        return made, ContinuousParameters(np.array(saved["location"]), Noise(shape, rate))

    def describe(self, parameters: ContinuousParameters) -> list[dict[str, Any]]:
        """Name, location and noise variance of each column."""
        own = zip(self.names, parameters.location, 1.0 / parameters.noise.precision, strict=True)
        return [
            {"column": name, "location": round(float(mu), 4), "noise_variance": round(float(v), 4)}
            for name, mu, v in own
        ]


def _residuals(
    values: Array, linear: Array, parameters: ContinuousParameters
) -> tuple[Array, Array]:
    """Where values are observed, as 0 or 1, and x_ij − μ_j − f_ij, 0 where missing."""
    observed = ~np.isnan(values)
    residual = np.where(observed, values - parameters.location - linear, 0.0)
    return observed.astype(float), residual
