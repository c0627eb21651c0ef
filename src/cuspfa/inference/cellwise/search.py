"""The number of factors of ordinal columns: candidates one after the other, and their scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from cuspfa._typing import Array
from cuspfa.inference.cellwise.evidence import (
    OrdinalMode,
    bridged_ordinal_evidence,
    find_mode,
    laplace_evidence,
    start_of_mode,
    state_of_mode,
)
from cuspfa.inference.cellwise.state import CellModel, CellState
from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.inference.variational.search_settings import DEFAULT_SEARCH
from cuspfa.inference.variational.settings import most_identified
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from cuspfa.model.prior import CuspPrior

SEARCH_PATIENCE = 2
"""Candidates in a row without a higher score that end the search."""
LEAST_SQUARED_NORM = 0.05
"""Of a column of loadings; a factor below has no signal, and its K is not scored."""
MOST_LEARNED_SHARE = 0.5
"""Numbers that are learned, for each value of a column. With more of them the posterior is not
nearly normal up to rotations, and the two scores disagree: by 8 nats with 60 rows of 15 binary
columns and 3 factors."""
BRIDGE_WITHIN = 10.0
"""Candidates so close to the best score, in nats, are scored by bridge sampling if asked for."""


class OrdinalCandidate(NamedTuple):
    """A number of factors with its fit."""

    state: CellState
    mode: OrdinalMode
    laplace: float
    """log p(x, K) by Laplace's method."""
    bridged: Evidence | None = None
    """log p(x, K) by bridge sampling, with its error."""

    @property
    def n_factors(self) -> int:
        """K."""
        return self.state.n_factors

    @property
    def score(self) -> float:
        """The better of the two estimates; Laplace's where bridge sampling has failed."""
        failed = self.bridged is None or self.bridged.error > DEFAULT_SEARCH.bridge_error_limit
        return self.laplace if failed or self.bridged is None else self.bridged.value


class OrdinalSearch(NamedTuple):
    """All candidates that have a score, in the order of K."""

    candidates: tuple[OrdinalCandidate, ...]
    limited: bool
    """More factors were not tried, as there are too few rows for their scores to be right."""

    @property
    def best(self) -> OrdinalCandidate:
        """The fewest factors to which no more add the evidence that a further factor must add.

        The threshold is that of continuous columns.
        """
        top = max(one.score for one in self.candidates)
        return next(one for one in self.candidates if one.score > top - DEFAULT_SEARCH.parsimony)

    @property
    def weights(self) -> Array:
        """P(K | x) as far as the scores are right."""
        return np.asarray(softmax([one.score for one in self.candidates]))


def search_ordinal(
    values: Array,
    likelihood: OrdinalLikelihood,
    prior: CuspPrior,
    *,
    largest: int | None = None,
    bridge: bool = False,
    rng: np.random.Generator | None = None,
) -> OrdinalSearch:
    """K = 0, 1, … until the score has not risen for some K, or a factor has no signal.

    With `bridge` the candidates close to the best are scored by bridge sampling.
    """
    p, limited = values.shape[1], False
    counted = float(np.mean(np.sum(~np.isnan(values), axis=0)))
    found: list[OrdinalCandidate] = []
    most = most_identified(p, len(values)) if largest is None else largest
    for k in range(most + 1):
        learned = p * k - k * (k - 1) // 2 + int(np.sum(likelihood.n_levels - 1))
        limited = k > 0 and learned > MOST_LEARNED_SHARE * counted
        if limited:
            break
        candidate = fit_ordinal(values, likelihood, prior, k)
        if k and float(np.min(np.sum(candidate.mode.loadings**2, axis=0))) < LEAST_SQUARED_NORM:
            break
        found.append(candidate)
        best = int(np.argmax([one.laplace for one in found]))
        if k - best >= SEARCH_PATIENCE:
            break
    if not bridge:
        return OrdinalSearch(tuple(found), limited)
    rng = np.random.default_rng(0) if rng is None else rng
    top = max(found, key=lambda one: one.laplace)
    # With few values for each number that is learned Laplace's method prefers too many factors.
    within = BRIDGE_WITHIN + len(top.mode.precision) ** 2 / (4.0 * counted)
    scored = []
    for one in found:
        if one.laplace < top.laplace - within:
            continue
        bridged = bridged_ordinal_evidence(one.mode, one.state, values, likelihood, prior, rng)
        scored.append(one._replace(bridged=bridged))
    return OrdinalSearch(tuple(scored), limited)


def fit_ordinal(
    values: Array, likelihood: OrdinalLikelihood, prior: CuspPrior, k: int
) -> OrdinalCandidate:
    """A fit with K = k factors and its score by Laplace's method."""
    start, cuts = start_of_mode(values, likelihood, k)
    mode = find_mode(start, cuts, prior.slab, values, likelihood)
    state = state_of_mode(mode, CellModel(values, likelihood, prior))
    return OrdinalCandidate(state, mode, laplace_evidence(mode, likelihood, prior))
