"""The part of a sweep that depends on the data, for complete data and for missing values.

With missing values a sweep starts with a draw for each of them, given the observed entries alone,
and ends with the columns' means. No value of a row is kept between sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.data.protocols import DataSource
from cuspfa.inference.compiled_sweeps import log_likelihoods
from cuspfa.inference.kernels import Chains, Statistics, draw_given_scales, flip
from cuspfa.missing.kernels import draw_given_filled, draw_mean, fill
from cuspfa.missing.patterns import IncompleteRows
from cuspfa.model.prior import CuspPrior


class DataKernel(Protocol):
    """Data as a sweep uses them, complete or incomplete."""

    @property
    def variances(self) -> Array:
        """(p,) of the columns."""

    @property
    def size(self) -> int:
        """Numbers that a sweep reads."""

    @property
    def identity(self) -> list[Array]:
        """Arrays that identify the data, for checkpoints."""

    def start_mean(self, size: int, location: Array | None) -> Array | None:
        """The columns' means of `size` chains, (p, size); None where they are integrated out.

        `location` (p,) are the means to start at; None for those of the observed values.
        """

    def draw(
        self,
        chains: Chains,
        mean: Array | None,
        moved: Indices,
        prior: CuspPrior,
        rng: np.random.Generator,
    ) -> tuple[Chains, Array | None]:
        """Scores, loadings, noise and means given the scales."""

    def log_likelihood(self, chains: Chains) -> Array:
        """Of each chain, (B,), with the scores integrated out."""


@dataclass(frozen=True)
class StatisticsKernel:
    """What kernels over sufficient statistics share; the means are integrated out."""

    statistics: Statistics

    @property
    def variances(self) -> Array:
        """(p,) of the columns."""
        return np.asarray(self.statistics.squares / self.statistics.n)

    @property
    def identity(self) -> list[Array]:
        """Number of rows, sums of squares and the first row of R."""
        known = self.statistics
        return [np.array([known.n]), known.squares, known.rows[0]]

    def start_mean(self, size: int, location: Array | None) -> None:
        """None: the means are integrated out."""


@dataclass(frozen=True)
class CompleteDataKernel(StatisticsKernel):
    """Draws given complete data, from their sufficient statistics."""

    @property
    def size(self) -> int:
        """Entries of R, with p columns and min(n, p) rows."""
        p = len(self.statistics.squares)
        return p * min(p, round(self.statistics.n))

    def draw(
        self,
        chains: Chains,
        mean: Array | None,
        moved: Indices,
        prior: CuspPrior,
        rng: np.random.Generator,
    ) -> tuple[Chains, None]:
        """Scores, loadings and noise given the scales."""
        return draw_given_scales(chains, moved, self.statistics, prior.slab, prior, rng), None

    def log_likelihood(self, chains: Chains) -> Array:
        """The log-likelihood of each chain, (B,)."""
        return log_likelihoods(chains.loadings, chains.noise, self.statistics)


class MissingDataKernel(NamedTuple):
    """Draws given incomplete rows, with a draw for every missing value."""

    source: DataSource
    rows: IncompleteRows

    @property
    def variances(self) -> Array:
        """(p,) of the observed values of the columns."""
        return np.asarray(self.source.squares / self.source.counts)

    @property
    def size(self) -> int:
        """All values, those that are missing included."""
        return self.source.p * round(self.source.n)

    @property
    def identity(self) -> list[Array]:
        """Number of rows, sums of squares, counts and the rows."""
        source = self.source
        return [np.array([source.n]), source.squares, self.rows.counts, self.rows.rows]

    def start_mean(self, size: int, location: Array | None) -> Array:
        """The means of `size` chains, (p, size): `location`, or those of the observed values."""
        if location is None:
            return np.zeros((self.source.p, size))
        return np.tile(location[:, None], (1, size))

    def draw(
        self,
        chains: Chains,
        mean: Array | None,
        moved: Indices,
        prior: CuspPrior,
        rng: np.random.Generator,
    ) -> tuple[Chains, Array]:
        """Missing values; scores, loadings and noise given these and the scales; means."""
        assert mean is not None
        filled = fill(self.rows, chains.loadings, chains.noise, mean, rng)
        chains, _, level = draw_given_filled(
            chains, moved, self.rows, filled, prior.slab, prior, rng
        )
        return chains, draw_mean(chains.loadings, level, len(self.rows.rows), rng)

    def log_likelihood(self, chains: Chains) -> Array:
        """Of each chain, (B,), by the source."""
        loadings, noise = np.ascontiguousarray(flip(chains.loadings)), chains.noise.T
        pairs = zip(loadings, np.ascontiguousarray(noise), strict=True)
        return np.array([self.source.log_likelihood(own, variance) for own, variance in pairs])


def data_kernel(source: DataSource) -> DataKernel | None:
    """The kernel for this source; None where complete data are too large to be dense."""
    if source.incomplete_rows is not None:
        return MissingDataKernel(source, source.incomplete_rows)
    statistics = source.statistics(None)
    return None if statistics is None else CompleteDataKernel(statistics)
