"""A walk over K in both directions, each candidate started from its neighbour, and restarts.

A walk ends when `patience` steps in a row have not raised the bound. Then the K near the best are
started anew from elsewhere, since the bound at one K may have several maxima.

Above `large` factors a walk takes several at once: twice as many after each step that raised the
bound, half as many after one that did not, down to one. Where the data do not have a small number
of factors the bound rises for long; `VariationalProgress` says by how much.
"""

from __future__ import annotations

import numpy as np

from cuspfa.inference.variational.run import REMAINING_GROWTH, Run, Status
from cuspfa.inference.variational.search import Search, from_weakest
from cuspfa.inference.variational.steps import VariationalState


def walk(search: Search) -> None:
    """Walks and restarts until they find nothing better."""
    for _ in range(search.settings.most_walks):
        walk_up(search)
        walk_down(search)
        _settle_best(search)
        if not restart(search):
            break


def _settle_best(search: Search) -> None:
    """Run the best candidate on, so that another run of its maximum is not taken for a better one.

    Another walk from a state that is only a little nearer to the same maximum finds nothing.
    """
    tol = search.settings.converge_tol * search.tol
    search.try_state(search.candidates.best.state, tol=tol, patient=True)


def walk_up(search: Search) -> None:
    """Add factors to the best run until `patience` in a row were no better."""
    take_long_steps(search, upwards=True)
    candidates, patience = search.candidates, search.settings.patience
    state, misses = candidates.best.state, 0
    directions = np.zeros((search.source.p, 0))
    while misses < patience and state.n_factors < search.max_factors:
        if directions.shape[1] == 0:
            directions = search.unexplained(state, patience)
        before = candidates.best.total
        state = search.try_state(search.with_loadings(state, directions[:, :1])).state
        directions = directions[:, 1:]
        if candidates.best.total > before:
            state, misses, directions = candidates.best.state, 0, directions[:, :0]
        else:
            misses += _count_of_miss(search, state)


def walk_down(search: Search) -> None:
    """Take factors from the best run until `patience` in a row were no better."""
    take_long_steps(search, upwards=False)
    candidates = search.candidates
    state, misses = candidates.best.state, 0
    while misses < search.settings.patience and state.n_factors > 0:
        before = candidates.best.total
        state = search.try_state(search.smaller(state)).state
        misses = 0 if candidates.best.total > before else misses + _count_of_miss(search, state)


def _count_of_miss(search: Search, state: VariationalState) -> int:
    """A failed step counts as one, and as one more for every `dent_depth` below the best."""
    behind = search.candidates.best.total - search.candidates.curve[state.n_factors].lower_bound
    return 1 + int(min(behind / search.settings.dent_depth, search.settings.patience))


def take_long_steps(search: Search, *, upwards: bool) -> None:
    """Several factors at a time from the best run, where it has more than `large`.

    Steps grow as long as they raise the bound, then shrink to one, so that the number of runs
    grows like the logarithm of the distance. Runs end early while each step gains much.
    """
    candidates, settings = search.candidates, search.settings
    k = candidates.best.state.n_factors
    step = int(settings.first_long_step * k) if k > settings.large else 1
    grows, tol = True, search.tol
    while step > 1:
        state, before = candidates.best.state, candidates.best.total
        k = state.n_factors
        room = search.max_factors - k if upwards else k - settings.large
        step = min(step, room)
        if step < 2:
            break
        start = search.larger(state, step) if upwards else search.smaller(state, step)
        search.try_state(start, tol=tol)
        gain = candidates.best.total - before
        if candidates.best.state.n_factors == k:
            gain = 0.0  # a finite spike may take back what was added
        if gain > 0.0 and grows:
            tol = max(search.tol, settings.rough_part * gain)
            step = min(2 * step, max(int(settings.longest_step * k), step))
        elif gain <= 0.0:
            _converge_best(search, tol)
            step, grows, tol = step // 2, False, search.tol
    _converge_best(search, tol)


def _converge_best(search: Search, tol: float) -> None:
    """Run the best candidate on to the tolerance of the search if it ended at a larger one."""
    if tol > search.tol:
        search.try_state(search.candidates.best.state)


def restart(search: Search) -> bool:
    """Start the K near the best anew, from their neighbours and the spectrum; was one better?"""
    candidates, settings = search.candidates, search.settings
    before = candidates.best.total
    _drop_each(search)
    near = [
        k for k, run in candidates.best_by_k.items() if run.total > before - settings.restart_within
    ]
    best_first = sorted(near, key=lambda k: -candidates.best_by_k[k].total)
    for k in best_first[: settings.most_restarted]:
        if k + 1 in candidates.best_by_k:
            search.try_state(search.smaller(candidates.best_by_k[k + 1].state))
        if k - 1 in candidates.best_by_k and len(near) > 1:
            search.try_state(search.larger(candidates.best_by_k[k - 1].state))
        if len(near) > 1:
            search.try_state(search.spectral_state(k))
    # With more factors a random start never comes near.
    if candidates.best.state.n_factors <= settings.large:
        _try_random_neighbours(search)
    return candidates.best.total > before + search.tol


def _drop_each(search: Search) -> None:
    """Try one factor less than the best, without each of its factors in turn.

    The walk down drops the weakest one. If another factor can take over its part, the best run
    with one less may be without a strong one.
    """
    state, hopeless = search.candidates.best.state, 0
    for which in from_weakest(state)[1 : search.settings.most_dropped]:
        run = search.try_state(search.without(state, np.array([which])))
        hopeless = hopeless + 1 if _is_hopeless(search, run) else 0
        if hopeless == search.settings.patience:
            break  # the others are stronger still


def _is_hopeless(search: Search, run: Run) -> bool:
    """Was a run pruned so far below the best that several times its growth would not do?"""
    if run.status is not Status.PRUNED:
        return False
    growth = float(run.trace[-1] - run.trace[-2])
    behind = search.candidates.best.total - run.total
    return behind > search.settings.hopeless_times * REMAINING_GROWTH * growth


def _try_random_neighbours(search: Search) -> None:
    """A few random starts at the best K and beside it, where the curve is flat.

    There another K may have a maximum that no start from a neighbour leads to. If several K have
    nearly the same bound, the neighbours of each are tried, further below the best.
    """
    candidates, settings = search.candidates, search.settings
    curve = candidates.curve
    top, height = candidates.best.state.n_factors, candidates.best.total
    close = [
        k for k, point in curve.items() if point.lower_bound > height - settings.converge_within
    ]
    beside = {k + step for k in close for step in (-1, 0, 1)} - {top}
    for k in sorted(beside):
        run = candidates.best_by_k.get(k)
        if run is None or run.status is not Status.PRUNED:
            continue
        if run.total > height - settings.finish_neighbours_within:
            search.try_state(run.state, patient=True)
    doubled = 1 if len(close) == 1 else 2
    floor = candidates.best.total - doubled * settings.random_starts_within
    flat = [k for k in sorted(beside) if k in curve and curve[k].lower_bound > floor]
    if not flat or candidates.best.state.n_factors != top:
        return
    # The same starts every time: which maximum is found should not differ from fit to fit.
    rng = np.random.default_rng(0)
    starts = doubled * settings.random_starts
    for k in [top] * (starts // 2) + flat * starts:
        search.try_state(search.random_state(k, rng))
    if search.prior.spike is not None:
        # A wide spike has maxima in which an inactive factor carries signal.
        for k in sorted({top, top + 1, *flat}) * settings.random_starts_of_spike:
            search.try_state(search.random_state(k, rng), patient=True)
