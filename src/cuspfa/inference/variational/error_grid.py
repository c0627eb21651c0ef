"""The error of the model learned with K, and searches over a grid of errors.

Each search begins where the one before it ended, with a larger error. The more error is tolerated,
the fewer factors can be told from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from cuspfa._typing import Array
from cuspfa.inference.variational.model_selection import can_bridge, score_candidates, score_k
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.tolerance import no_marginal
from cuspfa.inference.variational.walk import walk_down
from cuspfa.posterior.error_curve import TOLERATED
from cuspfa.posterior.fit_info import ModelErrorEntry

GRID = (
    *(0.005, 0.007, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.042),
    *(0.05, 0.06, 0.07, 0.085, 0.1, 0.12, 0.145, 0.17, 0.2),
)
"""Errors that are compared when the error is learned, beside 0."""
PRIOR_SD = 0.05
"""Standard deviation of the normal distribution whose positive half is the prior of ε."""
RIDGE = 3.0
"""Nats below the best within which pairs of K and ε are reported."""
UNION_WITHIN = 10.0
"""A K is compared at all errors if at one of them it is so close to the best."""

LEAST_SHARE = 0.05
"""Errors that contribute more than this to the evidence of a K decide on it."""

MakeSearch = Callable[[float], Search]
Start = tuple[Array, Array]
"""Loadings (p, K) and noise variances (p,) that a run begins at."""


def steps_to(size: float) -> list[float]:
    """The errors by which a fit comes from the exact model to this one, those of the curve.

    With a large error the bound has poor maxima, which a search that begins there ends in.
    """
    return [*(one for one in TOLERATED if 0.0 < one < size), size]


def searches(
    starts: Iterable[Start],
    make: MakeSearch,
    sizes: Iterable[float],
    score: Callable[[Search], None] | None = score_candidates,
) -> Iterator[Search]:
    """Scored searches with these errors, in ascending order, each begun at the one before it."""
    for size in sizes:
        search = make(size)
        try_starts(search, starts)
        search.candidates.prefer_nonempty = True
        if score is not None:
            score(search)
        yield search
        starts = starts_of(search)


class ErrorPath:
    """Searches of one problem with ascending errors, kept for fits of it with other errors.

    A fit that goes on from them is the same as one that begins anew: each search depends on the
    one before it alone.
    """

    def __init__(self) -> None:
        self._starts: dict[float, list[Start]] = {}
        """Where the search with each error ended."""
        self._searches: dict[float, Search] = {}
        """Those that no fit has polished yet."""

    def begin(self, exact: Search) -> None:
        """Begin at the search of the exact model."""
        self._starts[0.0] = starts_of(exact)

    @property
    def has_begun(self) -> bool:
        """Is the search of the exact model known?"""
        return 0.0 in self._starts

    def searches_to(
        self, size: float, make: MakeSearch, score: Callable[[Search], None] | None
    ) -> Iterator[Search]:
        """The searches up to this error that have not been made yet, or the last of them."""
        if size in self._searches:
            yield self._searches.pop(size)
            return
        sizes = steps_to(size)
        known = max(one for one in (0.0, *sizes[:-1]) if one in self._starts)
        left = [one for one in sizes if one > known]
        for one, search in zip(left, searches(self._starts[known], make, left, score), strict=True):
            self._starts[one] = starts_of(search)
            if one != size:
                self._searches[one] = search
            yield search


def starts_of(search: Search) -> list[Start]:
    """Where the candidates of a search ended, the best first."""
    runs = search.candidates.best_by_k
    states = [runs[k].state for k in sorted(runs, key=lambda k: -runs[k].total)]
    return [(state.loadings.mean, state.noise_variance) for state in states]


def try_starts(search: Search, starts: Iterable[Start]) -> None:
    """Try these starts, and fewer factors."""
    for mean, noise_variance in starts:
        search.try_state(search.state_at(mean, noise_variance))
    walk_down(search)


class Integrated(NamedTuple):
    """The evidence of one K with ε integrated out."""

    value: float
    error: float
    shares: dict[float, float]
    """What each ε contributes."""


Pairs = dict[tuple[int, float], tuple[float, float]]
"""Log posterior, apart from a constant, and its error, by K and ε."""


def learn_model_error(
    first: Search, make: MakeSearch, n_factors: int | None
) -> tuple[Search, list[ModelErrorEntry]]:
    """The search with the chosen pair of K and ε, and all pairs within `RIDGE` nats of the best.

    Every K that is close to the best at one ε is scored at every ε. The smallest K is chosen whose
    evidence, with ε integrated out, is not behind the best by more than `parsimony` nats and
    `parsimony_errors` errors; and then the best ε of this K. An ε without a marginal density has no
    evidence to be compared; without any there are no pairs.
    """
    by_size = {0.0: first}
    sizes = [size for size in GRID if no_marginal(first.source, size) is None]
    if not sizes:
        return first, []
    if n_factors is None:
        by_size |= zip(sizes, searches(starts_of(first), make, sizes), strict=True)
        union = sorted({k for search in by_size.values() for k in _close(search)})
    else:
        run = first.candidates.best_by_k[n_factors]
        for size in sizes:
            search = make(size)
            search.try_state(search.restated(run.state))
            if n_factors in search.candidates.best_by_k:
                by_size[size], run = search, search.candidates.best_by_k[n_factors]
        union = [n_factors]
    found = _scored(by_size, union)
    if not found:
        return first, []
    k = _choice(_integrated(found), first)
    chosen = max((pair for pair in found if pair[0] == k), key=lambda pair: found[pair][0])
    floor = max(value for value, _ in found.values()) - RIDGE
    entries = [
        ModelErrorEntry(size, k, *found[k, size], chosen=(k, size) == chosen)
        for k, size in sorted(found, key=lambda pair: -found[pair][0])
        if found[k, size][0] >= floor or (k, size) == chosen
    ]
    search = by_size[chosen[1]]
    search.candidates.selected = chosen[0]
    return search, entries


def _scored(by_size: dict[float, Search], union: list[int]) -> Pairs:
    """Every K at every ε.

    Evidences that decide are computed with more draws. Where the error exceeds `parsimony` all the
    same, as happens with a large ε, the pair is left out: such an error would allow any K.
    """
    bridge = all(can_bridge(search) for search in by_size.values())
    found: Pairs = {}

    def score(k: int, size: float) -> None:
        one = score_k(by_size[size], k, bridge=bridge)
        if one is not None:
            found[k, size] = (one.value - 0.5 * (size / PRIOR_SD) ** 2, one.error)

    for size, search in by_size.items():
        if can_bridge(search) and not bridge:  # one estimator for all errors
            search.candidates.evidence_by_k.clear()
        for k in union:
            score(k, size)
    settings = by_size[0.0].settings
    whole = _integrated(found)
    for k, one in whole.items():
        if _behind(one, whole) < settings.parsimony + settings.tie_errors * one.error:
            for size, share in one.shares.items():
                if share > LEAST_SHARE:
                    del by_size[size].candidates.evidence_by_k[k]
                    score(k, size)
    return {pair: one for pair, one in found.items() if one[1] <= settings.parsimony} or found


def _integrated(found: Pairs) -> dict[int, Integrated]:
    """The evidence of each K, by the trapezoidal rule over ε."""
    sizes = np.array(sorted({size for _, size in found}))
    steps = np.concatenate([[0.0], np.diff(sizes), [0.0]])
    widths = (steps[:-1] + steps[1:]) / 2 if len(sizes) > 1 else np.ones(1)
    whole = {}
    for k in sorted({k for k, _ in found}):
        there = [(size, width) for size, width in zip(sizes, widths, strict=True)]
        there = [(size, width) for size, width in there if (k, size) in found]
        values = np.array([found[k, size][0] + np.log(width) for size, width in there])
        errors = np.array([found[k, size][1] for size, _ in there])
        value = float(logsumexp(values))
        shares = np.exp(values - value)
        by_size = {
            float(size): float(share) for (size, _), share in zip(there, shares, strict=True)
        }
        whole[k] = Integrated(value, float(np.linalg.norm(shares * errors)), by_size)
    return whole


def _behind(one: Integrated, whole: dict[int, Integrated]) -> float:
    return max(other.value for other in whole.values()) - one.value


def _choice(whole: dict[int, Integrated], search: Search) -> int:
    """The smallest K that is not surely behind."""
    settings = search.settings
    best = max(whole.values(), key=lambda one: one.value)
    allowed = (
        settings.parsimony + settings.parsimony_errors * float(np.hypot(one.error, best.error))
        for one in whole.values()
    )
    return next(
        k
        for (k, one), most in zip(whole.items(), allowed, strict=True)
        if _behind(one, whole) <= most
    )


def _close(search: Search) -> list[int]:
    """K that are scored and close to the best."""
    scored = search.candidates.evidence_by_k
    if not scored:
        return [search.candidates.best.state.n_factors]
    floor = max(one.value for one in scored.values()) - UNION_WITHIN
    return [k for k, one in scored.items() if one.value > floor]
