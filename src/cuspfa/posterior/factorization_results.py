"""What a Poisson factorization found, as plain values: draws, the search, the fit, its origin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from cuspfa._typing import Array, Indices
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa.data.provenance import DataProvenance
from cuspfa.errors import InputError
from cuspfa.model.poisson_factorization import Hyperparameters

MONITORED, MONITORED_RATES = 6, "product of the rates"
"""Columns of which a sampler's rates are looked at, and what is looked at."""


class CountSearchEntry(NamedTuple):
    """What was found for one number of factors."""

    n_factors: int
    lower_bound: float
    """Of the run that was kept, and of others the highest."""
    evidence_gain: float
    """log p(x, K) − log p(x, K − 1), with the prior of K; NaN where it was not estimated."""
    evidence_error: float
    """Its Monte Carlo standard error."""
    held_out_gain: float
    """Gain of the log-likelihood of a quarter of the events, held out; NaN where not estimated."""
    n_iter: int
    status: str


class CountSearchPath(TabularResult, list[CountSearchEntry]):
    """The numbers of factors that were tried, with what was found for each."""

    def _columns(self) -> Columns:
        return {name: [getattr(one, name) for one in self] for name in CountSearchEntry._fields}


class CountFitInfo(NamedTuple):
    """The run that was kept, and the search."""

    lower_bound: float
    status: str
    converged: bool
    n_iter: int
    trace: Array
    """(n_iter,) the bound after each iteration."""
    search: CountSearchPath


@dataclass(frozen=True)
class CountSettings:
    """Parameters of the estimator, as they were given."""

    n_factors: int | Literal["auto"]
    max_factors: int
    tol: float
    max_iter: int
    fractions: bool
    random_state: int | Literal["generator"] | None
    """"generator" stands for a generator, whose state is not kept."""
    exposure: bool = False
    """Were exposures given?"""
    exposure_column: str = ""
    """The column of a file that they are in, if they are."""


@dataclass(frozen=True)
class CountProvenance:
    """Where a fit came from; nothing of any row."""

    settings: CountSettings
    data: DataProvenance | None
    """None if nothing more is known than rows and columns."""
    command: str
    """The command line; empty if the fit was made in Python."""
    versions: tuple[tuple[str, str], ...]
    """Of the packages that made the fit."""


@dataclass(frozen=True, eq=False)
class CountTotals:
    """Sums over the data of a fit, without anything of a single row."""

    n_events: float
    """Σ x_ij"""
    n_positive: int
    """Cells above zero."""
    n_missing: int
    """Cells that are missing."""
    by_column: Array
    """(p,) Σ_i x_ij"""
    dispersion: Array
    """(p,) Σ_i (x_ij − λ_ij)² at the fitted rates λ, divided by what it is for a Poisson variable,
    about Σ_i λ_ij."""
    dispersion_of_all: float
    """Residual dispersion of all columns together."""


@dataclass(frozen=True)
class FactorizationDraws:
    """Draws of the posterior, with their factors in the order of the posterior mean.

    Factors are matched by the assignment of highest total cosine between loadings.
    """

    loadings: Array
    """(S, p, K) β"""
    shares: Array
    """(S, K) the part of all expected counts that each factor has"""
    hyperparameters: tuple[Hyperparameters, ...]
    scores: Array | None = None
    """(S, n, K) θ of the rows of the fit; None of a loaded posterior"""
    inactive: tuple[Array, Array] | None = None
    """Scores (S, n, H − K) and loadings (S, p, H − K) of columns of a spike above zero, which rates
    include; None without such a spike."""

    def __len__(self) -> int:
        return len(self.loadings)

    @property
    def column_shares(self) -> Array:
        """(S, p, K) β_jh / Σ_j β_jh, the part of a factor's events that each column has."""
        totals = self.loadings.sum(axis=1, keepdims=True)
        return np.asarray(self.loadings / np.maximum(totals, np.finfo(float).tiny))

    def rates(self, rows: Indices | None = None, columns: Indices | None = None) -> Array:
        """Draws (S, rows, columns) of Σ_h θ_ih β_jh, all rows and columns by default."""
        if self.scores is None:
            raise InputError(
                "These draws have no scores, which rates need: a saved fit holds nothing of a row. "
                "Use the posterior of the fit itself."
            )
        total: Array = np.zeros(())
        for scores, loadings in ((self.scores, self.loadings), *filter(None, [self.inactive])):
            some = scores if rows is None else scores[:, rows]
            others = loadings if columns is None else loadings[:, columns]
            total = total + some @ others.transpose(0, 2, 1)
        return total

    def some(self, which: Indices) -> FactorizationDraws:
        """Some of the draws."""
        return FactorizationDraws(
            self.loadings[which],
            self.shares[which],
            tuple(self.hyperparameters[int(s)] for s in which),
            None if self.scores is None else self.scores[which],
            None if self.inactive is None else (self.inactive[0][which], self.inactive[1][which]),
        )


class RawDraws(NamedTuple):
    """Draws as a sampler makes them, with factors in any order."""

    loadings: Array
    shares: Array
    hyperparameters: list[Hyperparameters]
    scores: Array | None
    inactive: tuple[Array, Array] | None = None


class Sampler(NamedTuple):
    """Exact sweeps from a fit."""

    draw: Callable[[int, int, np.random.Generator, bool], RawDraws]
    """From the number of draws, the sweeps before each, and whether scores are kept."""
    work: float
    """Counts above zero times factors: the cost of a sweep."""


def matched_draws(raw: RawDraws, components: Array) -> FactorizationDraws:
    """Draws with their factors in the order of components (K, p)."""
    loadings, shares, hyper, scores, inactive = raw
    for s in range(len(loadings) if len(components) else 0):
        order = matching_order(loadings[s], components.T)
        loadings[s], shares[s] = loadings[s][:, order], shares[s][order]
        if scores is not None:
            scores[s] = scores[s][:, order]
    return FactorizationDraws(loadings, shares, tuple(hyper), scores, inactive)


def matching_order(loadings: Array, reference: Array) -> Indices:
    """The order of columns that is nearest to the reference: the best assignment of cosines."""
    one = loadings / np.linalg.norm(loadings, axis=0)
    other = reference / np.linalg.norm(reference, axis=0)
    order: Indices = linear_sum_assignment(-(other.T @ one))[1]
    return order


def monitored_columns(p: int) -> Indices:
    """Columns whose rates tell whether chains have converged, evenly spread."""
    return np.unique(np.linspace(0, p - 1, min(p, MONITORED)).round().astype(int))


class FactorItem(NamedTuple):
    """One column of a factor."""

    factor: int
    """From 1 on."""
    name: str
    share: float
    """β_jh / Σ_j β_jh, its part of the factor's events; the median of draws."""
    lower: float
    upper: float
    """The interval of the share."""
    of_column: float
    """The part of the column's events that belongs to the factor."""


class FactorItems(TabularResult, list[FactorItem]):
    """The columns with the largest loadings of each factor."""

    def _columns(self) -> Columns:
        return {name: [getattr(one, name) for one in self] for name in FactorItem._fields}
