"""The search for the number of factors: spectral start, walks, restarts, scores, polish.

The spectrum of the data suggests the K to begin with. The bound falls behind log p(y | K) more and
more as K grows, so the walk may stop too early; `model_selection.py` goes on from there.

Where the data have a surrogate, iterations on it are quicker. It is searched first, and the search
of the data themselves begins at what was found there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cuspfa.data.protocols import DataSource
from cuspfa.inference.variational.progress import SearchStopped, SearchTimeout
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.walk import walk


def search_over_k(search: Search, score_candidates: Callable[[Search], None] | None) -> None:
    """The whole search; without scores K is chosen by the bound."""
    explore(search)
    _converge_alternatives(search)
    _measure_rise(search)
    candidates = search.candidates
    if score_candidates is not None:
        candidates.prefer_nonempty = True
        try:
            score_candidates(search)
        except (SearchStopped, KeyboardInterrupt):
            if candidates.best.state.n_factors not in candidates.evidence_by_k:
                candidates.evidence_by_k.clear()  # the best K has none to compare
            raise
    search.polish()


def explore(search: Search) -> None:
    """Spectral start, walks and restarts; on a surrogate of the data first, if there is one."""
    start = search.spectral_state()
    surrogate = search.surrogate_at(start)
    if surrogate is not None:
        _explore_surrogate(search, surrogate)
    else:
        search.try_state(start)
        walk(search)


def _explore_surrogate(search: Search, surrogate: DataSource) -> None:
    """Search a surrogate of the data, and run its best candidates on the data themselves."""
    surrogate = refreshed(search, surrogate)
    scout, search.surrogate_searched = search.anew(surrogate), True
    with best_kept_at_timeout(search, scout):
        scout.try_state(scout.spectral_state())
        walk(scout)
        _converge_alternatives(scout)
    found = scout.candidates
    top, floor = found.best.state.n_factors, found.best.total - search.settings.restart_within
    near = [k for k, run in found.best_by_k.items() if run.total > floor or abs(k - top) <= 1]
    for k in sorted(near, key=lambda k: -found.best_by_k[k].total):
        search.try_state(search.restated(found.best_by_k[k].state))


def refreshed(search: Search, surrogate: DataSource, k: int | None = None) -> DataSource:
    """The surrogate made anew a few times, each time of a fit to the last, of k factors or any."""
    for _ in range(search.settings.surrogate_refreshes):
        first = search.anew(surrogate)
        with best_kept_at_timeout(search, first):
            state = first.try_state(first.spectral_state(k)).state
        surrogate = search.surrogate_at(state) or surrogate
    return surrogate


@contextmanager
def best_kept_at_timeout(search: Search, scout: Search) -> Iterator[None]:
    """If time ends during the search of a surrogate, run an iteration on the data from its best."""
    try:
        yield
    except SearchTimeout:
        found = scout.candidates
        best = (
            found.best if found.given_k is None else found.best_by_k.get(found.given_k, found.best)
        )
        search.try_state(search.restated(best.state))
        raise


def _converge_alternatives(search: Search) -> None:
    """Run on every K close to the best: on a plateau `tol` may have stopped it early."""
    candidates, settings = search.candidates, search.settings
    floor = candidates.best.total - settings.converge_within
    close = [run for run in candidates.best_by_k.values() if run.total > floor]
    if len(close) > 1:
        for run in close:
            search.try_state(run.state, tol=settings.converge_tol * search.tol, patient=True)


def _measure_rise(search: Search) -> None:
    """At a limit above `large`, run fewer factors to their end if none were.

    `Candidates.rise_per_factor` needs two such runs.
    """
    best, settings = search.candidates.best.state, search.settings
    k = best.n_factors
    unknown = math.isnan(search.candidates.rise_per_factor()[0])
    if settings.large < k == search.max_factors and unknown:
        fewer = search.smaller(best, max(2, math.ceil(settings.look_back * k)))
        search.try_state(fewer, patient=True)
