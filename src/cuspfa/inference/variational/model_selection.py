"""The choice of K: the candidates of the search are scored by their evidence.

Where the data are small enough for exact sweeps, the evidence is found by bridge sampling
(`bridge_sampling.py`), which is accurate; otherwise by the collapsed bound (`collapsed_bound.py`),
which is quick.

The gap between the bound and log p(y | K) grows with K. So the K of the best bound is compared with
those above it, as long as their bounds are in reach, and with the one below.
"""

from __future__ import annotations

import numpy as np

from cuspfa.inference.variational.bridge_sampling import bridged_evidence
from cuspfa.inference.variational.collapsed_bound import Evidence, evidence
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.search import Search, noise_variance
from cuspfa.inference.variational.steps import VariationalState


def score_candidates(search: Search) -> None:
    """By bridge sampling, up and down until K is `bridge_behind` nats behind the best.

    Where rows are few the evidence is nearly flat above the truth, so the next K up is scored
    however low its bound is. Where bridge sampling would take long, collapsed bounds are used.
    """
    start, slab = search.best.state.n_factors, search.best.state.slab
    sampled = slab.capabilities.sampled
    if not sampled or search.statistics is None or start > search.settings.most_bridged:
        score_by_collapsed_bound(search)
        return
    if search.source.n > search.settings.tall * search.source.p and not _open_question(search):
        return
    best = _bridge(search, start, search.settings.draws)
    for step in (1, -1):
        k, rising = start + step, False
        while 0 <= k <= search.max_factors and _converged(search, k, grow=rising):
            if k > start + search.settings.furthest and not rising:
                break
            if (
                k < start
                and search.best_by_k[k].total < search.best.total - search.settings.hopeless_below
            ):
                break
            scored = _bridge(search, k, search.settings.draws)
            rising = step > 0 and _behind(best, scored) > search.settings.parsimony
            best = max(best, scored)
            if _behind(scored, best) > search.settings.bridge_behind:
                break
            k += step
    close = [
        k
        for k, found in search.evidence_by_k.items()
        if _behind(found, best) < search.settings.redraw_within
    ]
    if len(close) > 1:
        for k in close:
            _bridge(search, k, 4 * search.settings.draws)
    if any(search.evidence_by_k[k].error > search.settings.bridge_error_limit for k in close):
        search.evidence_by_k.clear()
        score_by_collapsed_bound(search)


def _behind(one: Evidence, best: Evidence) -> float:
    """Nats that an evidence is surely behind the best, at two errors."""
    return best.value - one.value - 2.0 * float(np.hypot(one.error, best.error))


def _bridge(search: Search, k: int, draws: int) -> Evidence:
    search.check_time()
    if k == 0:
        return _score(search, k, draws)  # exact, without a bridge
    assert search.statistics is not None
    # The same draws every time: an average, which should not differ from fit to fit.
    fixed = np.random.default_rng(0)
    state = search.best_by_k[k].state
    found = bridged_evidence(
        state, search.statistics, search.prior, fixed, search.settings.bridge_draws_factor * draws
    )
    search.evidence_by_k[k] = found
    return found


def _converged(search: Search, k: int, *, grow: bool = False) -> bool:
    """Make sure that there is a run of k living factors that was not given up.

    If a factor of it has no signal, `grow` makes another start from k − 1.
    """
    one = search.best_by_k.get(k)
    if one is None:
        if k - 1 not in search.best_by_k:
            return False
        search.grow(k)
    elif one.status is Status.PRUNED:
        search.try_state(one.state, patient=True)
    if grow and k in search.best_by_k and not search.is_alive(search.best_by_k[k].state):
        search.grow(k)
    return k in search.best_by_k and search.is_alive(search.best_by_k[k].state)


def _open_question(search: Search) -> bool:
    """May the evidence prefer another K than the best bound does?"""
    return _in_reach(search, search.best.state.n_factors + 1) or _close_below(search)


def _close_below(search: Search) -> bool:
    below = search.best_by_k.get(search.best.state.n_factors - 1)
    return below is not None and below.total > search.best.total - 2 * search.settings.parsimony


def score_by_collapsed_bound(search: Search) -> None:
    """Upwards while in reach, and the one below if its bound is close; by `collapsed_bound.py`.

    As long as the evidence rises by more than `parsimony` and its error, every K that has a run of
    living factors is in reach.
    """
    if search.best.state.n_factors > search.settings.heaviest or not _open_question(search):
        return
    k, most = search.best.state.n_factors, 4 * search.settings.draws
    if _close_below(search):
        _score(search, k - 1, most)
    _score(search, k, search.settings.draws)
    misses, rising = 0, False
    while misses < search.settings.score_misses and _in_reach(search, k + 1, rising=rising):
        top = max(search.evidence_by_k, key=lambda one: search.evidence_by_k[one].value)
        best, k = search.evidence_by_k[top], k + 1
        scored = _score(search, k, search.settings.draws)
        more = _draws(search, k, most) > scored.n_draws
        if more and abs(scored.value - best.value) < 4 * np.hypot(scored.error, best.error):
            best, scored = _score(search, top, most), _score(search, k, most)
        rising = _behind(best, scored) > search.settings.parsimony
        misses = 0 if scored.value > best.value else misses + 1


def _in_reach(search: Search, k: int, *, rising: bool = False) -> bool:
    """Is there a converged run with k living factors, not hopelessly behind the best bound?

    Hopeless is more than evidence has ever given back for so many factors. If the evidence is
    `rising`, the bound does not matter.
    """
    if k > min(search.max_factors, search.settings.heaviest):
        return False
    if rising:
        return _converged(search, k, grow=True)
    if not signal_left(search, search.best_by_k[k - 1].state, search.settings.near_edge):
        return False
    allowance = (k - search.best.state.n_factors) * (30 + 5 * k)
    if k not in search.curve:
        search.grow(k)
    candidate = search.best_by_k.get(k)
    if candidate is not None and candidate.status is Status.PRUNED:
        if candidate.total < search.best.total - 2 * allowance:
            return False
        search.try_state(candidate.state, patient=True)
        if not search.followed:  # or it would have been tried there
            search.try_state(search.spectral_state(k), patient=True)
        candidate = search.best_by_k[k]
    if candidate is None or candidate.total < search.best.total - allowance:
        return False
    return search.is_alive(candidate.state)


def evidence_rising(search: Search) -> float | None:
    """Nats that the last factor added to the evidence, if it was rising where the scoring ended.

    None if more factors were scored, if the rise is within its error, and if no correlation above
    the edge of noise is left.
    """
    found = search.evidence_by_k
    top = max(found, key=lambda k: found[k].value, default=0)
    if top - 1 not in found or top + 1 in found:
        return None
    if not search.lead(top, top - 1) > search.settings.parsimony_errors:
        return None
    if not signal_left(search, search.best_by_k[top].state, 1.0):
        return None
    return found[top].value - found[top - 1].value


def signal_left(search: Search, state: VariationalState, part: float) -> bool:
    """Is the leading direction that a state leaves over above this part of the edge of noise?"""
    n, p, k = search.source.n, search.source.p, state.n_factors
    noise, mean = noise_variance(state), state.loadings.mean
    values, _ = search.source.leading(k + 1, noise, near=mean)
    edge = (1 + np.sqrt((p - k) / n)) ** 2
    return len(values) > k and bool(values[k] > part * n * edge)


def _draws(search: Search, k: int, most: int) -> int:
    if search.followed:  # most of the averaging is done with the surrogate
        return search.settings.fewest_draws
    return int(
        np.clip(
            search.settings.draw_cost / search.source.likelihood_work(k),
            search.settings.fewest_draws,
            most,
        )
    )


def _score(search: Search, k: int, most: int) -> Evidence:
    state, draws = search.best_by_k[k].state, _draws(search, k, most)
    # The same draws every time: an average, which should not differ from fit to fit.
    fixed = np.random.default_rng(0)
    search.check_time()
    found = evidence(state, search.source, search.prior, fixed, draws, search.check_time)
    search.evidence_by_k[k] = found
    return found
