"""The settings of the variational engine, and the engine behind them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from cuspfa._utils.sklearn_compat import Interval, StrOptions, check_parameters
from cuspfa.data.protocols import DataSource
from cuspfa.inference.variational.model_selection import (
    evidence_rising,
    score_by_collapsed_bound,
    score_candidates,
    signal_left,
)
from cuspfa.inference.variational.progress import Callback, Interrupted, OutOfTime
from cuspfa.inference.variational.run import Run
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_settings import SearchSettings
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.fit_info import SearchEntry

CRITERIA: dict[str, Callable[[Search], None] | None] = {
    "evidence": score_candidates,
    "collapsed": score_by_collapsed_bound,
    "bound": None,
}
SEARCH = SearchSettings()
CLEAR = 1.5
"""Times the edge of noise: correlation left over that is worth a warning."""
MOST_FACTORS = 100
"""What `max_factors=None` looks for at most; data with more have no small number of factors."""
ERROR_DRAWS = 1000
"""Draws of the errors of the evidences, over which weights are averaged."""
NOTABLE = 1e-3
"""Weights below this are not kept for draws."""


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
        Called after each iteration with a `Progress` tuple: n_factors, iteration, lower_bound,
        best_lower_bound, max_factors, rise (nats that a further factor added lately, while the
        search goes up), seconds (since it began), seconds_left (to `max_factors` at this pace).

    Examples
    --------
    >>> Variational(init="random", n_init=5)
    Variational(init='random', n_init=5)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"spectral", "random"})],
        "criterion": [StrOptions(set(CRITERIA))],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_factors": [Interval(Integral, 0, None, closed="left"), None],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "mean": [StrOptions({"flat", "plug-in"})],
        "callback": [callable, None],
    }

    def __init__(
        self,
        *,
        tol: float = 0.05,
        max_iter: int = 2000,
        init: str = "spectral",
        criterion: str = "evidence",
        n_init: int = 20,
        max_factors: int | None = None,
        max_time: float | None = None,
        mean: str = "flat",
        callback: Callback | None = None,
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

    def _limit(self, source: DataSource, prior: CuspPrior) -> int:
        if self.max_factors is not None:
            return min(self.max_factors, source.p)
        if prior.spike is not None:
            return source.p
        return min(most_identified(source.p, source.n), MOST_FACTORS)

    def infer(
        self,
        source: DataSource,
        prior: CuspPrior,
        *,
        n_factors: int | None,
        rng: np.random.Generator,
        n_jobs: int | None = None,
    ) -> VariationalFit:
        """Fit to a source; `n_factors` None means that the number is to be found."""
        limit = self._limit(source, prior)
        search = Search(
            source,
            prior,
            tol=self.tol,
            max_iter=self.max_iter,
            max_factors=limit if n_factors is None else max(limit, n_factors),
            rng=rng,
            callback=self.callback,
            deadline=math.inf if self.max_time is None else time.monotonic() + self.max_time,
            settings=SEARCH,
        )
        interrupted = out_of_time = False
        try:
            if self.init == "random":
                search.random_restarts(n_init=self.n_init, n_factors=n_factors, n_jobs=n_jobs)
            elif n_factors is None:
                search.over_k(None if prior.spike is not None else CRITERIA[self.criterion])
            else:
                search.at_k(n_factors)
        except OutOfTime:
            out_of_time = True
        except (Interrupted, KeyboardInterrupt):
            if not search.curve:
                raise KeyboardInterrupt from None  # nothing to keep yet
            interrupted = True
        entries, best = _entries(search), search.chosen
        alternatives = [
            (entry.weight, search.best_by_k[entry.n_factors].state)
            for entry in entries
            if entry.weight > NOTABLE
            and search.evidence_by_k
            and entry.n_factors != best.state.n_factors
        ]
        number = int(np.sum(best.state.active > 0.5))
        found = n_factors is None and not interrupted
        identified = most_identified(source.p, source.n)
        free = self.max_factors is None and prior.spike is None
        at_ledermann_bound = found and free and number == limit == identified < source.p
        at_ledermann_bound = (
            at_ledermann_bound and not out_of_time and signal_left(search, best.state, CLEAR)
        )
        set_limit = self.max_factors if not free else MOST_FACTORS if limit < identified else None
        reached = found and set_limit is not None and number == set_limit
        return VariationalFit(
            best,
            entries,
            interrupted,
            alternatives,
            at_ledermann_bound,
            out_of_time,
            set_limit if reached else None,
            search.climb()[0] if found else math.nan,
            evidence_rising(search) if found and number < limit else None,
        )


def most_identified(p: int, n: float) -> int:
    """The most factors that p columns can tell apart (Ledermann's bound) and n rows support.

    At least one from two columns on, so that two correlated columns have their factor.
    """
    ledermann = math.floor((2 * p + 1 - math.sqrt(8 * p + 1)) / 2)
    return min(max(ledermann, 1 if p > 1 else 0), max(math.ceil(n) - 1, 0))


def _entries(search: Search) -> list[SearchEntry]:
    scored = {k: found.value for k, found in search.evidence_by_k.items()}
    scores = scored or {k: point.lower_bound for k, point in search.curve.items()}
    errors = [search.evidence_by_k[k].error if scored else 0.0 for k in scores]
    weights = dict(zip(scores, _weights(list(scores.values()), errors), strict=True))
    tied = search.tied
    return [
        SearchEntry(
            n_factors=k,
            lower_bound=point.lower_bound,
            evidence=scored.get(k, math.nan),
            evidence_error=search.evidence_by_k[k].error if k in scored else math.nan,
            tied=k in tied,
            weight=weights.get(k, 0.0),
            n_iter=point.n_iter,
            status=point.status.value,
        )
        for k, point in sorted(search.curve.items())
    ]


def _weights(scores: list[float], errors: list[float]) -> list[float]:
    """exp(score), normalised, and averaged over normal errors of the scores.

    Without the average the highest of a few noisy scores would seem nearly certain.
    """
    z = np.random.default_rng(0).standard_normal((ERROR_DRAWS, len(scores)))
    values = np.array(scores) + np.array(errors) * z
    parts = np.exp(values - values.max(axis=1, keepdims=True))
    return [float(one) for one in np.mean(parts / parts.sum(axis=1, keepdims=True), axis=0)]
