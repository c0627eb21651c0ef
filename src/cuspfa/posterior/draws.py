"""Draws of loadings and noise, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.arguments import must_be, whole
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa.errors import DataError, InputError

N_DRAWS = 1000
"""The default number of draws, of every function that makes some."""


@contextmanager
def refused_if_singular() -> Iterator[None]:
    """Draws that meet a singular matrix: the numbers of a loaded file contradict each other."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise DataError(
            f"No draws can be made of these numbers ({error}). If they were loaded from a "
            "file, fit again; mean_field=True may do without what fails."
        ) from error


class _Ends(NamedTuple):
    lower: Array
    upper: Array


class Interval(TabularResult, _Ends):
    """Lower and upper ends, entry by entry: `lower, upper = interval`.

    Attributes
    ----------
    lower, upper : ndarray
        The ends.
    names : list of str or None
        What the entries of a vector, or the rows and columns of a matrix, are called.
    """

    names: list[str] | None = None
    second_names: list[str] | None = None
    """Of the columns of a matrix, where they differ from those of the rows."""

    @classmethod
    def named(
        cls, lower: Array, upper: Array, names: list[str], second_names: list[str] | None = None
    ) -> Self:
        """An interval with names of its entries."""
        found = cls(lower, upper)
        found.names, found.second_names = names, second_names
        return found

    def _columns(self) -> Columns:
        names = self.names or [f"x{j}" for j in range(len(self.lower))]
        ends = {"lower": self.lower.ravel().tolist(), "upper": self.upper.ravel().tolist()}
        if self.lower.ndim == 1:
            return {"name": names, **ends}
        first, second = zip(*product(names, self.second_names or names), strict=True)
        return {"first": first, "second": second, **ends}


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of Λ and σ² in the user's units; Ω = ΛΛᵀ + Σ is made when asked for.

    Attributes
    ----------
    loadings : ndarray (n_draws, p, H)
        Λ. Its columns may be rotated and reordered without changing Ω.
    noise_variance : ndarray (n_draws, p)
        σ².
    mean : ndarray (n_draws, p) or None
        Column means, where they were drawn.
    active : ndarray of bool (n_draws, H) or None
        Which columns of Λ are factors, where a sampler has others that the spike shrinks. None
        means those that are not all zeros.
    population : ndarray (n_draws, p, p) or None
        Population covariances Σ̃ of a fit with model error, where they were drawn. Covariances and
        correlations are those of Σ̃ then, and of Ω otherwise.
    thresholds : ndarray (n_draws, T) or None
        Thresholds of ordinal columns, column after column, on the scale of the loadings.
    dispersion : ndarray (n_draws, D) or None
        Dispersions r of negative binomial columns, in their order.
    """

    loadings: Array
    noise_variance: Array
    mean: Array | None = None
    active: BoolArray | None = None
    population: Array | None = None
    thresholds: Array | None = None
    dispersion: Array | None = None

    def __len__(self) -> int:
        return len(self.loadings)

    @property
    def covariance(self) -> Array:
        """Σ̃ or Ω of each draw, (n_draws, p, p): ask only where that fits into memory."""
        if self.population is not None:
            return self.population
        omega: Array = self.loadings @ self.loadings.transpose(0, 2, 1)
        diagonal = np.arange(omega.shape[1])
        omega[:, diagonal, diagonal] += self.noise_variance
        return omega

    @property
    def correlation(self) -> Array:
        """(Ω⊙I)^{-1/2} Ω (Ω⊙I)^{-1/2}, or the same of Σ̃, of each draw, (n_draws, p, p)."""
        omega = self.covariance
        sd = np.sqrt(np.diagonal(omega, axis1=1, axis2=2))
        return omega / sd[:, :, None] / sd[:, None, :]

    @property
    def standardized_loadings(self) -> Array:
        """Λ on the correlation scale of each draw, (n_draws, p, H)."""
        variance = np.sum(self.loadings**2, axis=2) + self.noise_variance
        return np.asarray(self.loadings / np.sqrt(variance)[:, :, None])

    @property
    def communality(self) -> Array:
        """The part of each variance that the factors explain, (n_draws, p)."""
        common = np.sum(self.loadings**2, axis=2)
        return np.asarray(common / (common + self.noise_variance))

    @property
    def explained_variance_ratio(self) -> Array:
        """Shares of variance on principal axes of the correlation scale, (n_draws, K)."""
        standard = self.standardized_loadings
        values = np.linalg.eigvalsh(standard.transpose(0, 2, 1) @ standard)[:, ::-1]
        return np.asarray(np.maximum(values, 0.0) / standard.shape[1])

    @property
    def factors(self) -> BoolArray:
        """(n_draws, H) which columns are factors; the others are zeros, or the spike's."""
        if self.active is not None:
            return self.active
        return np.asarray(np.any(self.loadings != 0, axis=1))

    def only(self, columns: Indices | slice) -> Draws:
        """The draws of some columns alone, without thresholds."""
        mean = None if self.mean is None else self.mean[:, columns]
        whole = self.population
        block = None if whole is None else whole[:, columns][:, :, columns]
        loadings, noise = self.loadings[:, columns], self.noise_variance[:, columns]
        return Draws(loadings, noise, mean, self.active, block)

    def batches(self, size: int = 100) -> Iterator[Draws]:
        """The draws, a few at a time, for sums that need no p×p×n_draws array."""
        whole("size", size, 1)
        for first in range(0, len(self), size):
            yield self.some(slice(first, first + size))

    def some(self, numbers: Indices | slice) -> Draws:
        """Some of the draws."""
        active = None if self.active is None else self.active[numbers]
        mean = None if self.mean is None else self.mean[numbers]
        whole = None if self.population is None else self.population[numbers]
        cuts = None if self.thresholds is None else self.thresholds[numbers]
        loadings, noise = self.loadings[numbers], self.noise_variance[numbers]
        spread = None if self.dispersion is None else self.dispersion[numbers]
        return Draws(loadings, noise, mean, active, whole, cuts, spread)


def correlation_mse(draws: Draws, sample_correlation: Array) -> float:
    """Σ_{j≤q} E(Ω*_jq − S_jq)² / {p(p+1)/2}, as §4 of the paper defines it."""
    upper = np.triu_indices(len(sample_correlation))
    target = sample_correlation[upper]
    total = sum(
        float(np.sum((part.correlation[:, upper[0], upper[1]] - target) ** 2))
        for part in draws.batches()
    )
    return total / (len(draws) * len(target))


def check_draws(draws: Any, p: int) -> Draws:
    """The `draws` argument of a caller, of p variables, or an error."""
    if not isinstance(draws, Draws):
        raise must_be("draws", "None or what posterior.draw returns", type(draws).__name__)
    if draws.noise_variance.shape[1] != p:
        raise InputError(
            f"draws must be of the posterior's {p} variables. Got draws of "
            f"{draws.noise_variance.shape[1]} instead."
        )
    return draws
