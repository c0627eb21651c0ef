"""Which K, honestly: the candidates of the search weighed again by `evidence.py`.

The bound falls behind log p(y | K) more and more as K grows. So the K of the best bound is weighed
against those above it, as long as they are not hopelessly behind, and the one below.
"""

from __future__ import annotations

import numpy as np

from cuspfa.variational.cycle import State
from cuspfa.variational.evidence import Evidence, evidence
from cuspfa.variational.fit import Status
from cuspfa.variational.search import PARSIMONY, Search, noise_variance

MISSES = 2
"""So many K in a row that the evidence does not prefer end the weighing."""
NEAR_EDGE = 0.9
"""A direction below this part of the edge of pure noise is not worth weighing."""
DEAD = 0.05
"""A factor with less signal than this does nothing: K with it is K − 1 without."""
DRAWS, DRAW_COST = 40, 2e8
"""Draws for an evidence; fewer where they would take more than so many multiplications."""


def weigh(search: Search) -> None:
    """Weigh the K of the best bound against those above it and the one below, if in reach."""
    k = search.best.state.n_factors
    below = search.best_by_k.get(k - 1)
    close_below = below is not None and below.total > search.best.total - 2 * PARSIMONY
    if not (_in_reach(search, k + 1) or close_below):
        return
    if close_below:
        _weigh(search, k - 1, 4 * DRAWS)
    best = _weigh(search, k, DRAWS)
    misses = 0
    while misses < MISSES and _in_reach(search, k + 1):
        k += 1
        weighed = _weigh(search, k, DRAWS)
        if abs(weighed.value - best.value) < 4 * np.hypot(weighed.error, best.error):
            top = max(search.evidence_by_k, key=lambda one: search.evidence_by_k[one].value)
            best, weighed = _weigh(search, top, 4 * DRAWS), _weigh(search, k, 4 * DRAWS)
        misses = 0 if weighed.value > best.value else misses + 1
        best = max(best, weighed)


def _in_reach(search: Search, k: int) -> bool:
    """Is there a converged run with k living factors, not hopelessly behind the best bound?

    Hopeless is more than evidence has ever given back for so many factors.
    """
    if k > search.max_factors or not signal_left(search, search.best_by_k[k - 1].state):
        return False
    allowance = (k - search.best.state.n_factors) * (30 + 5 * k)
    if k not in search.curve:
        below = search.best_by_k[k - 1].state
        search.try_state(search.larger(below, search.left_over(below, 1)), patient=True)
    candidate = search.best_by_k.get(k)
    if candidate is not None and candidate.status is Status.GIVEN_UP:
        if candidate.total < search.best.total - 2 * allowance:
            return False
        search.try_state(candidate.state, patient=True)
        search.try_state(search.spectral_state(k), patient=True)
        candidate = search.best_by_k[k]
    if candidate is None or candidate.total < search.best.total - allowance:
        return False
    return weakest_signal(candidate.state) > DEAD


def signal_left(search: Search, state: State, part: float = NEAR_EDGE) -> bool:
    """Is the leading direction that a state leaves over above this part of the edge of noise?"""
    n, p, k = search.source.n, search.source.p, state.n_factors
    noise, mean = noise_variance(state), state.loadings.mean
    values, _ = search.source.leading(k + 1, noise, search.rng, near=mean)
    edge = (1 + np.sqrt((p - k) / n)) ** 2
    return len(values) > k and bool(values[k] > part * n * edge)


def _weigh(search: Search, k: int, draws: int) -> Evidence:
    cost = search.source.p * min(search.source.p, search.source.n) * (k + 1)
    draws = int(np.clip(DRAW_COST / cost, 20, draws))
    # The same draws every time: an average, which should not differ from fit to fit.
    fixed = np.random.default_rng(0)
    found = evidence(search.best_by_k[k].state, search.source, search.prior, fixed, draws)
    search.evidence_by_k[k] = found
    return found


def weakest_signal(state: State) -> float:
    """Σ_j μ_jh² E[1/σ²_j] of the weakest factor: what its scores can be told from noise by."""
    signal = state.noise.precision @ state.loadings.mean**2
    return float(np.min(signal, initial=np.inf))
