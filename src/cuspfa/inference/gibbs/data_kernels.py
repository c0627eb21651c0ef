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

Rest = tuple[Array, ...]
"""What data need from sweep to sweep beside loadings, noise and scales; empty for complete data."""


class Measured(NamedTuple):
    """What of B chains is kept with a draw, beside the loadings."""

    noise: Array
    """(B, p) variances."""
    log_likelihood: Array
    """(B,)"""
    mean: Array | None = None
    """(B, p) of the columns, where values are missing or columns are not all Gaussian."""
    thresholds: Array | None = None
    """(B, T) of ordinal columns."""


class DataKernel(Protocol):
    """Data as a sweep uses them: complete, incomplete or by single cells."""

    @property
    def variances(self) -> Array:
        """(p,) of the columns."""

    @property
    def size(self) -> int:
        """Numbers that a sweep reads."""

    @property
    def identity(self) -> list[Array]:
        """Arrays that identify the data, for checkpoints."""

    def start(self, size: int, location: Array | None, rng: np.random.Generator) -> Rest:
        """What `size` chains begin with.

        `location` (p,) are means to start at; None for those of the observed values.
        """

    def draw(
        self,
        chains: Chains,
        rest: Rest,
        moved: Indices,
        prior: CuspPrior,
        rng: np.random.Generator,
    ) -> tuple[Chains, Rest]:
        """Scores, loadings, noise and the rest given the scales."""

    def measured(self, chains: Chains, rest: Rest) -> Measured:
        """What is kept of these chains."""


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

    def start(self, size: int, location: Array | None, rng: np.random.Generator) -> Rest:
        """Nothing: the means are integrated out."""
        return ()


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
        rest: Rest,
        moved: Indices,
        prior: CuspPrior,
        rng: np.random.Generator,
    ) -> tuple[Chains, Rest]:
        """Scores, loadings and noise given the scales."""
        return draw_given_scales(chains, moved, self.statistics, prior.slab, prior, rng), ()

    def measured(self, chains: Chains, rest: Rest) -> Measured:
        """Noise, and the log-likelihood with the scores integrated out."""
        logs = log_likelihoods(chains.loadings, chains.noise, self.statistics)
        return Measured(np.ascontiguousarray(chains.noise.T), logs)


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

    def start(self, size: int, location: Array | None, rng: np.random.Generator) -> Rest:
        """The means, (p, size): `location`, or those of the observed values."""
        if location is None:
            return (np.zeros((self.source.p, size)),)
        return (np.tile(location[:, None], (1, size)),)

    def draw(
        self,
        chains: Chains,
        rest: Rest,
        moved: Indices,
        prior: CuspPrior,
        rng: np.random.Generator,
    ) -> tuple[Chains, Rest]:
        """Missing values; scores, loadings and noise given these and the scales; means."""
        (mean,) = rest
        filled = fill(self.rows, chains.loadings, chains.noise, mean, rng)
        chains, _, level = draw_given_filled(
            chains, moved, self.rows, filled, prior.slab, prior, rng
        )
        return chains, (draw_mean(chains.loadings, level, len(self.rows.rows), rng),)

    def measured(self, chains: Chains, rest: Rest) -> Measured:
        """Noise, the log-likelihood by the source, and means."""
        loadings, noise = (
            np.ascontiguousarray(part) for part in (flip(chains.loadings), chains.noise.T)
        )
        pairs = zip(loadings, noise, strict=True)
        logs = [self.source.log_likelihood(own, variance) for own, variance in pairs]
        return Measured(noise, np.array(logs), rest[0].T.copy())


def data_kernel(source: DataSource) -> DataKernel | None:
    """The kernel for this source; None where complete data are too large to be dense."""
    if source.incomplete_rows is not None:
        return MissingDataKernel(source, source.incomplete_rows)
    statistics = source.statistics(None)
    return None if statistics is None else CompleteDataKernel(statistics)
