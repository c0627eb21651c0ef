"""The course of a fit: the numbers of factors that were tried, and how it ended."""

from __future__ import annotations

from typing import NamedTuple

from cuspfa._typing import Array, EngineName
from cuspfa._utils.tables import Columns, TabularResult

CONVERGED = "converged"
"""How the status of a run that converged begins."""
CONVERGED_STATUS = f"{CONVERGED}: the bound grew by less than tol in the last iteration"
"""The status of a variational run that converged."""


class SearchEntry(NamedTuple):
    """What was found for one number of factors."""

    n_factors: int
    lower_bound: float
    """The highest bound reached with this number of factors; NaN with model error."""
    evidence: float
    """Estimate of log p(y, K) where it was made, else NaN."""
    evidence_error: float
    """Its Monte Carlo standard error, else NaN."""
    tied: bool
    """Might another set of Monte Carlo draws have chosen this number instead of the chosen one?"""
    weight: float
    """exp(evidence), or exp(bound) where no evidence was made, normalised, and averaged over the
    error of the evidence. Not a probability."""
    n_iter: int
    """Iterations spent on it, over all its runs."""
    status: str

    @property
    def converged(self) -> bool:
        """Did the best run with this number of factors converge?"""
        return self.status.startswith(CONVERGED)


class SearchPath(TabularResult, list[SearchEntry]):
    """The numbers of factors that were tried, with what was found for each: a list of entries.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets
    >>> X = datasets.simulate(100, 8, 2, random_state=0).X
    >>> search = CuspFactorAnalysis().fit(X).search_
    >>> search[0]._fields[:3]
    ('n_factors', 'lower_bound', 'evidence')
    >>> list(search.to_frame().columns)[:3]
    ['n_factors', 'lower_bound', 'evidence']
    """

    def _columns(self) -> Columns:
        return {name: [getattr(one, name) for one in self] for name in SearchEntry._fields}


class ModelErrorEntry(NamedTuple):
    """What was found for one number of factors with one size of the model error."""

    model_error: float
    """ε, a population RMSEA."""
    n_factors: int
    log_posterior: float
    """Log p(y, K | ε), with the prior of ε where that was learned."""
    error: float
    """Its standard error."""
    chosen: bool
    """Are these the number of factors and the error of the fit?"""


class ModelErrorPath(TabularResult, list[ModelErrorEntry]):
    """Numbers of factors and sizes of the model error with what was found for each pair."""

    def _columns(self) -> Columns:
        return {name: [getattr(one, name) for one in self] for name in ModelErrorEntry._fields}


class FitInfo(NamedTuple):
    """The run that was kept, and the whole curve by number of factors."""

    method: EngineName
    """The engine."""
    lower_bound: float
    status: str
    converged: bool
    n_iter: int
    trace: Array
    """(n_iter,) the bound after each iteration."""
    search: SearchPath
    """By number of factors."""
    model_errors: ModelErrorPath = ModelErrorPath()
    """All pairs within 3 nats of the best, where the model error was learned."""
