"""The settings of the variational engine, and the engine behind them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, TypeGuard, get_args

import numpy as np
from sklearn.base import BaseEstimator

from cuspfa._typing import MeanTreatment
from cuspfa._utils.arguments import must_be
from cuspfa._utils.fit_warning import LongFit
from cuspfa._utils.sklearn_compat import Interval, StrOptions, check_parameters
from cuspfa.data.protocols import DataSource
from cuspfa.inference.variational.candidates import search_entries
from cuspfa.inference.variational.cost import cost_of_incomplete
from cuspfa.inference.variational.error_grid import ErrorPath, learn_model_error
from cuspfa.inference.variational.model_selection import (
    evidence_rising,
    score_by_collapsed_bound,
    score_candidates,
    signal_left,
)
from cuspfa.inference.variational.progress import (
    SearchInterrupted,
    SearchTimeout,
    VariationalCallback,
)
from cuspfa.inference.variational.random_restarts import random_restarts
from cuspfa.inference.variational.run import Run
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_given_k import search_given_k
from cuspfa.inference.variational.search_over_k import search_over_k
from cuspfa.inference.variational.search_settings import DEFAULT_SEARCH, SearchSettings
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.inference.variational.tolerance import ToleratedError
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.fit_info import ModelErrorEntry, SearchEntry

SelectionCriterion = Literal["evidence", "collapsed", "bound"]
CRITERIA: dict[SelectionCriterion, Callable[[Search], None] | None] = {
    "evidence": score_candidates,
    "collapsed": score_by_collapsed_bound,
    "bound": None,
}
DEFAULT_MAX_FACTORS = 100
"""What `max_factors=None` looks for at most; data with more have no small number of factors."""


class VariationalFit(NamedTuple):
    """The best run, and the whole curve by number of factors."""

    best: Run
    entries: list[SearchEntry]
    interrupted: bool
    alternatives: list[tuple[float, VariationalState]]
    """Other numbers of factors of notable weight, with their weights."""
    at_ledermann_bound: bool
    """Was the number limited to what the columns can tell apart, with correlation left over?"""
    out_of_time: bool = False
    """Did `max_time` end the search?"""
    limit: int | None = None
    """`max_factors`, or what None stands for, if the number of factors has come to it."""
    rise: float = math.nan
    """Nats that each of the last factors added, where more were not tried; else NaN."""
    evidence_rising: float | None = None
    """Nats that the last factor added to the evidence, if it was rising where the scoring ended."""
    model_error: float = 0.0
    """ε of the fit."""
    errors: Sequence[ModelErrorEntry] = ()
    """Log posterior by number of factors and ε, where ε was learned."""


class Variational(BaseEstimator):  # type: ignore[misc]
    """Mean-field variational Bayes (Algorithm 1 of Legramanti, 2020, made fast).

    Parameters
    ----------
    tol : float, default=0.05
        A run stops when its bound grows by less than this in an iteration, in nats; the winner of a
        search goes on to a hundredth of it.
    max_iter : int, default=2000
        Most iterations of a run.
    init : {"spectral", "random"}, default="spectral"
        "spectral": a search over the number of factors that starts from the leading directions of
        the data and each further number from its neighbour. "random": `n_init` runs from starts
        drawn from the prior (the number of active columns from the process, their loadings from
        the slab, noise at the sample variances), the best one kept. The paper does the latter and
        does not say how its starts were drawn.
    criterion : {"evidence", "collapsed", "bound"}, default="evidence"
        What the search chooses the number of factors by. "evidence": log p(y, K) to about a nat,
        by a bridge between q and the posterior, for up to 10 factors and data up to about 200
        columns (or as many numbers); beyond, like "collapsed". "collapsed": a bound of it with
        the scores integrated out and rotations taken into account, which is quicker and on the
        side of few factors; beyond 64 factors, like "bound". "bound": the evidence lower bound,
        as in the paper, which prefers too few.
        Of no effect with a finite spike or random starts. The smallest number is chosen whose
        evidence is not below the best by more than 2 nats and twice the Monte Carlo error.
    n_init : int, default=20
        Number of random starts; of no effect with "spectral".
    max_factors : int or None, default=None
        Most factors. None means as many as p columns can tell apart (Ledermann's bound) and n
        rows support, and no more than 100; with a finite spike it means p, as in the paper, whose
        process has H = max_factors + 1 terms. Raw counts and random walks may have no small number
        of factors: the bound then rises with each one, and a warning at the end says by how much.
    max_time : float or None, default=None
        Seconds after which the search stops, with the best of what was tried by then: `status_`
        says so and `converged_` is False. One iteration is made in any case. What was found by then
        depends on the machine.
    mean : {"flat", "plug-in"}, default="flat"
        "flat" integrates the means out under a flat prior, which counts n − 1 rows; "plug-in"
        treats the sample means as known and counts n, as in the papers. The two bounds are not
        comparable.
    callback : callable or None, default=None
        Called after each iteration with a `VariationalProgress` tuple: n_factors, iteration,
        lower_bound, best_lower_bound, max_factors, rise (nats that a further factor added lately,
        while the search goes up), seconds (since it began), seconds_left (to `max_factors` at this
        pace).

    Examples
    --------
    >>> Variational(init="random", n_init=5)
    Variational(init='random', n_init=5)
    """

    name: ClassVar[Literal["variational"]] = "variational"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"spectral", "random"})],
        "criterion": [StrOptions(set(CRITERIA))],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_factors": [Interval(Integral, 0, None, closed="left"), None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "mean": [StrOptions(set(get_args(MeanTreatment)))],
        "callback": [callable, None],
    }

    def __init__(
        self,
        *,
        tol: float = 0.05,
        max_iter: int = 2000,
        init: Literal["spectral", "random"] = "spectral",
        criterion: SelectionCriterion = "evidence",
        n_init: int = 20,
        max_factors: int | None = None,
        max_time: float | None = None,
        mean: MeanTreatment = "flat",
        callback: VariationalCallback | None = None,
    ) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.init = init
        self.criterion = criterion
        self.n_init = n_init
        self.max_factors = max_factors
        self.max_time = max_time
        self.mean = mean
        self.callback = callback

    def check(self) -> None:
        """Raise an InputError that names the setting which is out of range, if any is."""
        check_parameters(self)

    def check_n_factors(self, n_factors: int) -> None:
        """Raise an InputError where a given number of factors exceeds `max_factors`."""
        if self.max_factors is not None and n_factors > self.max_factors:
            raise must_be("n_factors", f"at most max_factors={self.max_factors}", n_factors)

    def check_model_error(self, prior: CuspPrior, model_error: float | Literal["auto"]) -> None:
        """Raise an InputError where settings or prior exclude a model error."""
        if model_error == 0:
            return
        if self.init == "random":
            raise must_be("model_error", "0 with init='random'", model_error)
        if prior.spike is not None:
            raise must_be(
                "model_error",
                f"0 with a spike of {prior.spike:g}, as in prior; CuspPrior(spike=None) allows it",
                model_error,
            )

    @staticmethod
    def default_prior() -> CuspPrior:
        """What `prior=None` means."""
        return CuspPrior()

    @staticmethod
    def long_fit(source: DataSource, n_factors: int | None) -> LongFit | None:
        """The warning that a fit to incomplete data will take long; None if it will not."""
        rows = source.incomplete_rows
        if rows is None:
            return None
        return cost_of_incomplete(rows.n, len(rows.patterns), source.p, n_factors)

    def _limit(self, source: DataSource, prior: CuspPrior) -> int:
        if self.max_factors is not None:
            return min(self.max_factors, source.p)
        if prior.spike is not None:
            return source.p
        return min(most_identified(source.p, source.n), DEFAULT_MAX_FACTORS)

    def new_search(
        self,
        source: DataSource,
        prior: CuspPrior,
        tolerated: ToleratedError | None = None,
        *,
        n_factors: int | None = None,
        began: float,
        settings: SearchSettings,
    ) -> Search:
        """A search without candidates, with this error of the model; `max_time` is from `began`."""
        data = source if tolerated is None else tolerated.tempered
        limit = self._limit(data, prior)
        return Search(
            data,
            prior if tolerated is None else prior.for_counts(float(tolerated.rows)),
            tol=self.tol,
            max_iter=self.max_iter,
            max_factors=limit if n_factors is None else max(limit, n_factors),
            callback=self.callback,
            began=began,
            deadline=math.inf if self.max_time is None else began + self.max_time,
            settings=settings,
            tolerated=tolerated,
        )

    def infer(
        self,
        source: DataSource,
        prior: CuspPrior,
        *,
        n_factors: int | None,
        rng: np.random.Generator,
        n_jobs: int | None = None,
        model_error: float | Literal["auto"] = 0.0,
        path: ErrorPath | None = None,
    ) -> VariationalFit:
        """Fit to a source; `n_factors` None means that the number is to be found.

        `path` is of fits to the same source with the same settings apart from `model_error`.
        """
        began = time.monotonic()

        def make(tolerated: ToleratedError | None) -> Search:
            """An empty search, with this error of the model."""
            return self.new_search(
                *(source, prior, tolerated),
                n_factors=n_factors,
                began=began,
                settings=DEFAULT_SEARCH,
            )

        score = None if prior.spike is not None else CRITERIA[self.criterion]

        def tolerate(size: float) -> Search:
            return make(ToleratedError(source, size))

        def run(search: Search) -> None:
            """The whole search."""
            if self.init == "random":
                random_restarts(search, rng, n_init=self.n_init, n_factors=n_factors, n_jobs=n_jobs)
            elif n_factors is None:
                search_over_k(search, score)
            else:
                search_given_k(search, n_factors)

        errors: list[ModelErrorEntry] = []
        interrupted = out_of_time = False
        size = model_error if _positive(model_error) else 0.0
        stepwise = size > 0.0 and n_factors is None
        search = make(None) if size == 0.0 or stepwise else tolerate(size)
        if path is None or self.max_time is not None or n_factors is not None:
            path = ErrorPath()
        try:
            if not (stepwise and path.has_begun):
                run(search)
                path.begin(search)
            if model_error == "auto":
                search, errors = learn_model_error(search, tolerate, n_factors)
            elif stepwise:
                for step in path.searches_to(size, tolerate, score):
                    search = step
                search.callback = self.callback
                search.polish()
            search.finish()
        except SearchTimeout:
            out_of_time = True
            if stepwise and _size_of(search) != size:
                search = _one_iteration(tolerate(size), search)
        except (SearchInterrupted, KeyboardInterrupt):
            if not search.candidates.curve:
                raise KeyboardInterrupt from None  # nothing to keep yet
            interrupted = True
        return self._result(search, n_factors, errors, interrupted, out_of_time)

    def _result(
        self,
        search: Search,
        n_factors: int | None,
        errors: list[ModelErrorEntry],
        interrupted: bool,
        out_of_time: bool,
    ) -> VariationalFit:
        source, prior, candidates = search.source, search.prior, search.candidates
        limit, entries = self._limit(source, prior), search_entries(candidates)
        best = search.chosen
        alternatives = [
            (entry.weight, search.scored(entry.n_factors).run.state)
            for entry in entries
            if entry.weight > search.settings.least_weight
            and candidates.evidence_by_k
            and entry.n_factors != best.state.n_factors
        ]
        number = int(np.sum(best.state.active > 0.5))
        found = n_factors is None and not interrupted
        identified = most_identified(source.p, source.n)
        free = self.max_factors is None and prior.spike is None
        at_ledermann_bound = (
            found
            and free
            and number == limit == identified < source.p
            and not out_of_time
            and signal_left(search, best.state, search.settings.clear_edge)
        )
        set_limit = self.max_factors
        if free and limit < identified:
            set_limit = DEFAULT_MAX_FACTORS
        reached = found and set_limit is not None and number == set_limit
        return VariationalFit(
            best=best,
            entries=entries,
            interrupted=interrupted,
            alternatives=alternatives,
            at_ledermann_bound=at_ledermann_bound,
            out_of_time=out_of_time,
            limit=set_limit if reached else None,
            rise=candidates.rise_per_factor()[0] if found else math.nan,
            evidence_rising=evidence_rising(search) if found and number < limit else None,
            model_error=_size_of(search),
            errors=errors,
        )


def _size_of(search: Search) -> float:
    """The model error of a search."""
    return 0.0 if search.tolerated is None else search.tolerated.error.size


def _one_iteration(search: Search, last: Search) -> Search:
    """The search, out of time, with one iteration from where the last one ended."""
    with suppress(SearchTimeout):
        search.try_state(search.restated(last.candidates.best.state))
    return search


def _positive(model_error: float | Literal["auto"]) -> TypeGuard[float]:
    return not isinstance(model_error, str) and model_error > 0


def most_identified(p: int, n: float) -> int:
    """The most factors that p columns can tell apart (Ledermann's bound) and n rows support.

    At least one from two columns on, so that two correlated columns have their factor.
    """
    ledermann = math.floor((2 * p + 1 - math.sqrt(8 * p + 1)) / 2)
    return min(max(ledermann, 1 if p > 1 else 0), max(math.ceil(n) - 1, 0))
