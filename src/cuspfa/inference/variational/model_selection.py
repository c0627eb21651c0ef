"""Which K, honestly: the candidates of the search weighed again by their evidence.

By a bridge to the posterior (`bridge.py`), which is accurate, where the data are small enough for
exact sweeps, otherwise by the collapsed bound (`evidence.py`), which is quick.

The bound falls behind log p(y | K) more and more as K grows. So the K of the best bound is weighed
against those above it, as long as they are not hopelessly behind, and the one below.
"""

from __future__ import annotations

import numpy as np

from cuspfa.inference.variational.bridge_sampling import bridged_evidence
from cuspfa.inference.variational.collapsed_bound import Evidence, evidence
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.search import PARSIMONY, Search, noise_variance
from cuspfa.inference.variational.steps import State
from cuspfa.model.slabs import GaussianSlab, InverseGammaSlab

BEHIND, CLOSE, FURTHEST = 5.0, 3.0, 6
"""Nats behind the best where bridges end, nats within which they are built again with more draws,
and the most factors above the best bound's that are looked at."""
HOPELESS = 50.0
"""Nats behind the best bound where fewer factors are not weighed: with fewer of them the bound is
closer to the evidence, so their evidence is as far behind."""
MISSES = 2
"""So many K in a row that the evidence does not prefer end the weighing."""
NEAR_EDGE = 0.9
"""A direction below this part of the edge of pure noise is not worth weighing."""
HEAVIEST = 64
"""Above so many factors the bound decides: an evidence takes K⁴ numbers and K⁶ multiplications."""
DEAD = 0.05
"""A factor with less signal than this does nothing: K with it is K − 1 without."""
MANY = 10
"""With more factors at the best bound no bridge is built: a sweep takes K² small steps."""
TALL = 20
"""With so many rows a column the bound is close enough to see that there is nothing to weigh."""
UNSURE = 10.0
"""Nats of error beyond which a bridge has not met the other side."""
BRIDGE = 3
"""Draws of a bridge for each draw of a bound: many together cost less."""
FEWEST, DRAWS, DRAW_COST = 20, 40, 2e8
"""Draws for an evidence; fewer where they would take more than so many multiplications."""


def score_candidates(search: Search) -> None:
    """Upwards until K is `BEHIND` nats behind the best, and downwards; by `bridge.py`.

    Where rows are few the evidence is nearly flat above the truth, so the next K up is weighed
    however little its bound promises. Where bridges would take long, collapsed bounds do instead.
    """
    start, slab = search.best.state.n_factors, search.best.state.slab
    known = isinstance(slab, (GaussianSlab, InverseGammaSlab))
    if not known or search.statistics is None or start > MANY:
        score_by_collapsed_bound(search)
        return
    if search.source.n > TALL * search.source.p and not _open_question(search):
        return
    best = _bridge(search, start, DRAWS)
    for step in (1, -1):
        k = start + step
        while 0 <= k <= min(search.max_factors, start + FURTHEST) and _converged(search, k):
            if k < start and search.best_by_k[k].total < search.best.total - HOPELESS:
                break
            scored = _bridge(search, k, DRAWS)
            best = max(best, scored)
            if _behind(scored, best) > BEHIND:
                break
            k += step
    close = [k for k, found in search.evidence_by_k.items() if _behind(found, best) < CLOSE]
    if len(close) > 1:
        for k in close:
            _bridge(search, k, 4 * DRAWS)
    if any(search.evidence_by_k[k].error > UNSURE for k in close):
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
    found = bridged_evidence(state, search.statistics, search.prior, fixed, BRIDGE * draws)
    search.evidence_by_k[k] = found
    return found


def _converged(search: Search, k: int) -> bool:
    """Make sure that there is a run of k living factors that was not given up."""
    one = search.best_by_k.get(k)
    if one is None:
        if k - 1 not in search.best_by_k:
            return False
        search.grow(k)
    elif one.status is Status.PRUNED:
        search.try_state(one.state, patient=True)
    return k in search.best_by_k and weakest_signal(search.best_by_k[k].state) > DEAD


def _open_question(search: Search) -> bool:
    """May the evidence prefer another K than the best bound does?"""
    return _in_reach(search, search.best.state.n_factors + 1) or _close_below(search)


def _close_below(search: Search) -> bool:
    below = search.best_by_k.get(search.best.state.n_factors - 1)
    return below is not None and below.total > search.best.total - 2 * PARSIMONY


def score_by_collapsed_bound(search: Search) -> None:
    """Upwards while in reach, and the one below if its bound is close; by `evidence.py`."""
    if search.best.state.n_factors > HEAVIEST or not _open_question(search):
        return
    k = search.best.state.n_factors
    if _close_below(search):
        _score(search, k - 1, 4 * DRAWS)
    best = _score(search, k, DRAWS)
    misses = 0
    while misses < MISSES and _in_reach(search, k + 1):
        k += 1
        scored = _score(search, k, DRAWS)
        more = _draws(search, k, 4 * DRAWS) > scored.n_draws
        if more and abs(scored.value - best.value) < 4 * np.hypot(scored.error, best.error):
            top = max(search.evidence_by_k, key=lambda one: search.evidence_by_k[one].value)
            best, scored = _score(search, top, 4 * DRAWS), _score(search, k, 4 * DRAWS)
        misses = 0 if scored.value > best.value else misses + 1
        best = max(best, scored)


def _in_reach(search: Search, k: int) -> bool:
    """Is there a converged run with k living factors, not hopelessly behind the best bound?

    Hopeless is more than evidence has ever given back for so many factors.
    """
    if k > min(search.max_factors, HEAVIEST) or not signal_left(
        search, search.best_by_k[k - 1].state
    ):
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
    return weakest_signal(candidate.state) > DEAD


def signal_left(search: Search, state: State, part: float = NEAR_EDGE) -> bool:
    """Is the leading direction that a state leaves over above this part of the edge of noise?"""
    n, p, k = search.source.n, search.source.p, state.n_factors
    noise, mean = noise_variance(state), state.loadings.mean
    values, _ = search.source.leading(k + 1, noise, near=mean)
    edge = (1 + np.sqrt((p - k) / n)) ** 2
    return len(values) > k and bool(values[k] > part * n * edge)


def _draws(search: Search, k: int, most: int) -> int:
    if search.followed:  # most of the averaging is done with the likeness
        return FEWEST
    return int(np.clip(DRAW_COST / search.source.likelihood_work(k), FEWEST, most))


def _score(search: Search, k: int, most: int) -> Evidence:
    state, draws = search.best_by_k[k].state, _draws(search, k, most)
    # The same draws every time: an average, which should not differ from fit to fit.
    fixed = np.random.default_rng(0)
    search.check_time()
    found = evidence(state, search.source, search.prior, fixed, draws, search.check_time)
    search.evidence_by_k[k] = found
    return found


def weakest_signal(state: State) -> float:
    """Σ_j μ_jh² E[1/σ²_j] of the weakest factor: what its scores can be told from noise by."""
    signal = state.noise.precision @ state.loadings.mean**2
    return float(np.min(signal, initial=np.inf))
