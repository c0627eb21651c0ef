"""The choice of K: the candidates of the search are scored by their evidence.

Where the data are small enough for exact sweeps, the evidence is found by bridge sampling
(`bridge_sampling.py`), which is accurate; otherwise by the collapsed bound (`collapsed_bound.py`),
which is quick. For incomplete data bridge sampling is done with a surrogate, and with a tolerated
model error with Gaussian rows; the expected ratio of the likelihoods corrects for the difference.

The gap between the bound and log p(y | K) grows with K. So the K of the best bound is compared with
those above it, as long as their bounds are in reach, and with the one below.
"""

from __future__ import annotations

import numpy as np

from cuspfa._typing import Array
from cuspfa.inference.variational.bridge_sampling import Bridge, LikelihoodRatios, arrangement
from cuspfa.inference.variational.collapsed_bound import CollapsedBound, Evidence
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.steps import VariationalState


def score_candidates(search: Search) -> None:
    """Score candidates by bridge sampling, up and down until K is `bridge_behind` nats behind.

    A few draws are enough for that. Where others might lead to another choice, more are added.

    Where rows are few the evidence is nearly flat above the truth, so the next K up is scored
    however low its bound is. Where bridge sampling would take long, or rows are very few, collapsed
    bounds are used.
    """
    candidates, settings = search.candidates, search.settings
    if not can_bridge(search):
        score_by_collapsed_bound(search)
        return
    start = candidates.best.state.n_factors
    tall = search.source.n > settings.tall * search.source.p
    if tall and search.tolerated is None and not _open_question(search):
        return
    bridges = _Bridges(search)
    best = bridges.score(start)
    for step in (1, -1):
        k, rising = start + step, False
        while 0 <= k <= search.max_factors and _converged(search, k, grow=rising):
            if k > start + settings.furthest and not rising:
                break
            hopeless = candidates.best.total - settings.hopeless_below
            bounds_count = search.tolerated is None  # those of tempered data prefer too many
            if k < start and bounds_count and candidates.best_by_k[k].total < hopeless:
                break
            scored = bridges.score(k)
            rising = step > 0 and _behind(search, best, scored) > settings.parsimony
            best = max(best, scored)
            if _behind(search, scored, best) > settings.bridge_behind:
                break
            k += step
    scored_by_k = candidates.evidence_by_k
    while _add_draws(search, bridges):
        pass
    best = scored_by_k[candidates.top_evidence]
    close = [
        k for k, one in scored_by_k.items() if _behind(search, one, best) < settings.bridge_behind
    ]
    if any(scored_by_k[k].error > settings.bridge_error_limit for k in close):
        scored_by_k.clear()
        score_by_collapsed_bound(search)


def can_bridge(search: Search) -> bool:
    """Are the data small enough, the rows enough and the factors few enough for bridge sampling?"""
    settings, best = search.settings, search.candidates.best.state
    rows = search.source.n + 1  # a flat mean takes one row
    return (
        best.slab.capabilities.sampled
        and (search.statistics is not None or _surrogate_pays(search))
        and rows >= settings.fewest_bridged_rows
        and search.source.p <= settings.most_bridged_columns * rows
        and best.n_factors <= settings.most_bridged
    )


def _surrogate_pays(search: Search) -> bool:
    """Is there a surrogate to sweep, and are likelihoods of the data themselves quick enough?"""
    settings, k = search.settings, search.candidates.best.state.n_factors
    work = search.source.likelihood_work(k) * settings.ratio_draws
    return work <= settings.draw_cost and search.scored(k).statistics is not None


def score_k(search: Search, k: int, *, bridge: bool) -> Evidence | None:
    """Score one K, unless that is known; None if there is no run of k nonempty factors."""
    known = search.candidates.evidence_by_k.get(k)
    if known is not None:
        return known
    if k > search.max_factors or not _converged(search, k, grow=True):
        return None
    if bridge:
        return _Bridges(search).score(k, search.settings.most_bridge_draws)
    return _CollapsedBounds(search).score(k, search.settings.more_draws)


def _add_draws(search: Search, bridges: _Bridges) -> bool:
    """Double the draws of the K that leave the choice open; False if there is nothing to double.

    Among these K they are added where the error is large.
    """
    candidates, settings, scored = (
        search.candidates,
        search.settings,
        search.candidates.evidence_by_k,
    )
    tied = candidates.tied
    decisive = {candidates.chosen.state.n_factors, candidates.top_evidence, *tied} if tied else ()
    # Without factors the evidence is exact.
    few = [k for k in sorted(decisive) if k and scored[k].n_draws < settings.most_bridge_draws]
    largest = max((scored[k].error for k in few), default=0.0)
    for k in few:
        if scored[k].error >= settings.add_at_error * largest:
            bridges.score(k, 2 * scored[k].n_draws)
    return bool(few)


def _behind(search: Search, one: Evidence, best: Evidence) -> float:
    """Nats that an evidence is surely behind the best, at `sure_errors` errors."""
    error = float(np.hypot(one.error, best.error))
    return best.value - one.value - search.settings.sure_errors * error


class _Bridges:
    """The bridge of each K, whose draws are kept for when more are needed."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._bridge_by_k: dict[int, Bridge] = {}

    def score(self, k: int, draws: int | None = None) -> Evidence:
        """Score k, by the first draws or by so many in all."""
        search, settings = self._search, self._search.settings
        search.check_time()
        if k == 0:
            return _CollapsedBounds(search).score(k, settings.draws)  # exact, without a bridge
        if k not in self._bridge_by_k:
            self._bridge_by_k[k] = self._new_bridge(k)
        found = self._bridge_by_k[k].with_draws(draws or settings.bridge_draws)
        search.candidates.evidence_by_k[k] = found
        return found

    def _new_bridge(self, k: int) -> Bridge:
        """Columns and factors get an order and signs that do not depend on those of the data."""
        search, scored = self._search, self._search.scored(k)
        assert scored.statistics is not None
        order, signs = arrangement(scored.statistics)
        back = np.argsort(order)
        as_given = bool(np.array_equal(order, np.arange(len(order))) and np.all(signs > 0))
        statistics, state = scored.statistics, scored.run.state
        if not as_given:
            statistics = statistics.arranged(order, signs)
        loadings = state.loadings.arranged(order, signs)
        factor_signs = np.where(np.sum(loadings.mean**3, axis=0) < 0, -1.0, 1.0)
        state = state._replace(
            loadings=loadings.rotated(np.diag(factor_signs), 0.0),
            noise=state.noise.arranged(order),
        )

        def exact(loadings: Array, noise: Array) -> Array:
            """The likelihood of the data as they came."""
            given = signs[back, None, None] * loadings[back]
            return scored.source.log_likelihoods(given, noise[back])

        ratios = None
        if scored.approximate:
            quick = search.source.incomplete_rows is None
            most = search.settings.most_bridge_draws if quick else search.settings.ratio_draws
            ratios = LikelihoodRatios(exact, statistics, most)
        return Bridge(state, statistics, search.prior, _fixed_draws(), ratios)


class _CollapsedBounds:
    """The collapsed bounds of the best K and of the last, whose draws are kept for the same."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._bound_by_k: dict[int, CollapsedBound] = {}

    def score(self, k: int, most: int) -> Evidence:
        """Score k by so many draws in all, or fewer where each takes long."""
        search = self._search
        scored, draws = search.candidates.evidence_by_k, _draws(search, k, most)
        known = scored.get(k)
        if known is not None and known.n_draws >= draws:
            return known
        search.check_time()
        if k not in self._bound_by_k:
            # A bound takes much memory: of the others none is computed again.
            self._bound_by_k = {
                one: kept
                for one, kept in self._bound_by_k.items()
                if one == search.candidates.top_evidence
            }
            state, source = search.scored(k).run.state, search.scored(k).source
            self._bound_by_k[k] = CollapsedBound(state, source, search.prior, _fixed_draws())
        scored[k] = self._bound_by_k[k].with_draws(draws, search.check_time)
        return scored[k]


def _fixed_draws() -> np.random.Generator:
    """A generator of the same draws every time, so that an evidence is the same in each fit."""
    return np.random.default_rng(0)


def _converged(search: Search, k: int, *, grow: bool = False) -> bool:
    """Make sure that there is a run of k nonempty factors that was not pruned.

    If a factor of it has no signal, `grow` makes another start from k − 1.
    """
    candidates = search.candidates
    run = candidates.best_by_k.get(k)
    if run is None:
        if k - 1 not in candidates.best_by_k:
            return False
        search.grow(k)
    elif run.status is Status.PRUNED:
        search.try_state(run.state, patient=True)
    below = k - 1 in candidates.best_by_k
    if grow and below and k in candidates.best_by_k and not candidates.has_nonempty(k):
        search.grow(k)
    return candidates.has_nonempty(k)


def _open_question(search: Search) -> bool:
    """May the evidence prefer another K than the best bound does?"""
    return _in_reach(search, search.candidates.best.state.n_factors + 1) or _close_below(search)


def _close_below(search: Search) -> bool:
    """Is the bound of one factor less than the best close to it?"""
    candidates = search.candidates
    below = candidates.best_by_k.get(candidates.best.state.n_factors - 1)
    floor = candidates.best.total - 2 * search.settings.parsimony
    return below is not None and below.total > floor


def score_by_collapsed_bound(search: Search) -> None:
    """Upwards while in reach, and the one below if its bound is close; by `collapsed_bound.py`.

    As long as the evidence rises by more than `parsimony` and its error, every K that has a run of
    nonempty factors is in reach.
    """
    candidates, settings = search.candidates, search.settings
    if candidates.best.state.n_factors > settings.heaviest or not _open_question(search):
        return
    k, most = candidates.best.state.n_factors, settings.more_draws
    bounds = _CollapsedBounds(search)
    if _close_below(search):
        bounds.score(k - 1, most)
    bounds.score(k, settings.draws)
    misses, rising = 0, False
    while misses < settings.score_misses and _in_reach(search, k + 1, rising=rising):
        top = candidates.top_evidence
        best, k = candidates.evidence_by_k[top], k + 1
        scored = bounds.score(k, settings.draws)
        more = _draws(search, k, most) > scored.n_draws
        error = np.hypot(scored.error, best.error)
        if more and abs(scored.value - best.value) < settings.compare_errors * error:
            best, scored = bounds.score(top, most), bounds.score(k, most)
        rising = _behind(search, best, scored) > settings.parsimony
        misses = 0 if scored.value > best.value else misses + 1


def _in_reach(search: Search, k: int, *, rising: bool = False) -> bool:
    """Is there a converged run of k nonempty factors whose bound is close enough to the best?

    It is if the evidence may make up for the difference with so many factors. If the evidence is
    `rising`, the bound does not matter.
    """
    candidates, settings = search.candidates, search.settings
    if k > min(search.max_factors, settings.heaviest):
        return False
    if rising:
        return _converged(search, k, grow=True)
    if not signal_left(search, candidates.best_by_k[k - 1].state, settings.near_edge):
        return False
    further = k - candidates.best.state.n_factors
    allowance = further * (settings.allowance + settings.allowance_growth * k)
    if k not in candidates.curve:
        search.grow(k)
    run = candidates.best_by_k.get(k)
    if run is not None and run.status is Status.PRUNED:
        if run.total < candidates.best.total - 2 * allowance:
            return False
        search.try_state(run.state, behind=allowance)
        if not search.surrogate_searched:  # or it was tried there
            search.try_state(search.spectral_state(k), behind=allowance)
        run = candidates.best_by_k[k]
    if run is None or run.total < candidates.best.total - allowance:
        return False
    return candidates.all_nonempty(run.state)


def evidence_rising(search: Search) -> float | None:
    """Nats that the last factor added to the evidence, if it was rising where the scoring ended.

    None if more factors were scored, if the rise is within its error, and if no correlation above
    the edge of pure noise is left.
    """
    candidates = search.candidates
    scored = candidates.evidence_by_k
    if not scored:
        return None
    top = candidates.top_evidence
    if top - 1 not in scored or top + 1 in scored:
        return None
    if not candidates.lead(top, top - 1) > search.settings.parsimony_errors:
        return None
    if not signal_left(search, candidates.best_by_k[top].state, 1.0):
        return None
    return scored[top].value - scored[top - 1].value


def signal_left(search: Search, state: VariationalState, part: float) -> bool:
    """Is the leading direction that a state leaves over above this part of the edge of noise?"""
    n, p, k = search.source.n, search.source.p, state.n_factors
    values, _ = search.source.leading(k + 1, state.noise_variance, near=state.loadings.mean)
    edge = (1 + np.sqrt((p - k) / n)) ** 2
    return len(values) > k and bool(values[k] > part * n * edge)


def _draws(search: Search, k: int, most: int) -> int:
    """Draws of a collapsed bound: fewer than `most` where each takes long."""
    settings = search.settings
    if search.surrogate_searched:  # most of the averaging is done with the surrogate
        return settings.fewest_draws
    affordable = settings.draw_cost / search.source.likelihood_work(k)
    return int(np.clip(affordable, settings.fewest_draws, most))
