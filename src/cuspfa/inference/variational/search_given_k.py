"""The search for the best run of a given number of factors.

The spectral start is enough for most data. Where its run is slow, has factors without signal or is
beaten by a start from a neighbouring K, further starts follow. Where the data have a surrogate, it
is searched first.
"""

from __future__ import annotations

import numpy as np

from cuspfa.data.protocols import DataSource
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_over_k import best_kept_at_timeout, explore, refreshed


def search_given_k(search: Search, k: int) -> None:
    """A spectral start, further starts where they may be better, and the polish."""
    candidates = search.candidates
    candidates.given_k = k
    try:
        surrogate = search.surrogate_at(search.spectral_state(k)) if k else None
        if surrogate is None:
            _find(search, k)
        else:
            _find_on_surrogate(search, surrogate, k)
    finally:  # also when it is stopped: other K were steps on the way
        # A finite spike may call a given factor inactive: then the most that stayed count.
        kept = k if k in candidates.best_by_k else max(candidates.best_by_k, default=None)
        candidates.keep_only(kept)
    search.polish()


def _find(search: Search, k: int) -> None:
    """A spectral start, and others where it may not have led to the best run."""
    first = search.try_state(search.spectral_state(k))
    slow = first.n_iter > search.settings.slow_iterations
    nonempty = search.candidates.all_nonempty(first.state)
    if k and (slow or not nonempty or _neighbours_are_better(search, k)):
        _try_other_starts(search, k)
        _approach(search, k)


def _find_on_surrogate(search: Search, surrogate: DataSource, k: int) -> None:
    """Find the best run on a surrogate of the data, and run from there on the data themselves."""
    surrogate = refreshed(search, surrogate, k)
    scout, search.surrogate_searched = search.anew(surrogate), True
    scout.candidates.given_k = k
    with best_kept_at_timeout(search, scout):
        _find(scout, k)
    found = scout.candidates
    search.candidates.prefer_nonempty = found.prefer_nonempty
    best = found.best_by_k.get(k, found.best)
    search.try_state(search.restated(best.state), patient=True)


def _neighbours_are_better(search: Search, k: int) -> bool:
    """Does a start from k + 1 or k − 1 factors of the spectrum lead to a higher bound?"""
    candidates = search.candidates
    if k not in candidates.best_by_k:
        return False  # the labels of a finite spike do not have so many
    before = candidates.best_by_k[k].total
    fewer = search.try_state(search.spectral_state(k - 1), patient=True).state
    search.try_state(search.larger(fewer), patient=True)
    if k < min(search.max_factors, search.source.p):
        more = search.try_state(search.spectral_state(k + 1), patient=True).state
        search.try_state(search.smaller(more), patient=True)
    return candidates.best_by_k[k].total > before + 2 * search.tol


def _try_other_starts(search: Search, k: int) -> None:
    """Reach k one factor at a time from the K that the spectrum suggests, and by random starts."""
    state = search.try_state(search.spectral_state(), patient=True).state
    while state.n_factors != k:
        too_many = state.n_factors > k
        start = search.smaller(state) if too_many else search.larger(state)
        after = search.try_state(start, patient=True).state
        if not too_many and after.n_factors <= state.n_factors:
            break  # the labels of a finite spike do not have one more
        state = after
    rng = np.random.default_rng(0)
    for _ in range(search.settings.random_starts):
        search.try_state(search.random_state(k, rng), patient=True)


def _approach(search: Search, k: int) -> None:
    """Take k from a search over K of its own, where all starts so far leave empty factors.

    Where there are many maxima, a start with all factors at once seldom finds the best, and may
    end with factors without signal. If the search has k nonempty factors, these come first.
    """
    candidates = search.candidates
    if candidates.has_nonempty(k):
        return
    path = search.anew(silent=False)
    found = path.candidates
    found.given_k = k
    try:
        explore(path)
        found.prefer_nonempty = True
        _walk_to(path, k)
    finally:
        if k in found.best_by_k:
            candidates.prefer_nonempty = found.has_nonempty(k)
            candidates.add(found.best_by_k[k])


def _walk_to(search: Search, k: int) -> None:
    """Try k from the nearest K below and above, one factor at a time."""
    candidates = search.candidates
    fewer = max((one for one in candidates.best_by_k if one < k), default=k)
    more = min((one for one in candidates.best_by_k if one > k), default=k)
    for grown in range(fewer + 1, k + 1):
        if grown - 1 not in candidates.best_by_k:
            break  # the labels of a finite spike do not have one more
        search.grow(grown)
    state = candidates.best_by_k.get(more, candidates.best).state
    while state.n_factors > k:
        state = search.try_state(search.smaller(state), patient=True).state
    if k in candidates.best_by_k and candidates.best_by_k[k].status is Status.PRUNED:
        search.try_state(candidates.best_by_k[k].state, patient=True)
