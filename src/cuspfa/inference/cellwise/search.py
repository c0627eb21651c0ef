"""The number of factors over single cells: candidates one after the other, and their scores."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from cuspfa._typing import Array
from cuspfa.errors import DataError
from cuspfa.inference.cellwise.evidence import (
    MOST_LEARNED_SHARE,
    CellMode,
    bridged_evidence,
    counted_values,
    find_mode,
    laplace_evidence,
    log_beyond_normal,
    start_of_mode,
    state_of_mode,
)
from cuspfa.inference.cellwise.marginal import DistinctRows
from cuspfa.inference.cellwise.row_sums import RowBlocks
from cuspfa.inference.cellwise.scale_path import n_path_chains, path_of_last_factor
from cuspfa.inference.cellwise.state import CellState
from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.inference.variational.search_settings import DEFAULT_SEARCH
from cuspfa.inference.variational.settings import most_identified
from cuspfa.model.likelihoods.base import Likelihood
from cuspfa.model.prior import CuspPrior

SEARCH_PATIENCE = 2
"""Candidates in a row without a higher score that end the search."""
LEAST_SQUARED_NORM = 0.05
"""Of a column of loadings; a factor below has no signal, and its K is not scored."""
ROWS_OF_A_NUMBER = 10
"""With more of them than `MOST_LEARNED_SHARE` they are right if a column has so many values for
each of its own loadings and other parameters: with 40 rows of 12 five-point columns, and with 40
rows of 10 seven-point columns, one factor too many is found in every third or second set."""
BRIDGE_WITHIN = 10.0
"""Candidates so close to the best score, in nats, are scored by bridge sampling if asked for."""
LONGER_PATH, CLEAR_GAIN = 3, 5.0
"""Times as many sweeps of a path whose error is too large, also beside the gain, which must be so
many errors; if it stays too large, no path counts."""


class CellCandidate(NamedTuple):
    """A number of factors with its fit."""

    state: CellState | None
    """None where rows come by blocks."""
    mode: CellMode
    laplace: float
    """log p(x, K) by Laplace's method."""
    bridged: Evidence | None = None
    """log p(x, K) by bridge sampling, or by paths of the factors, with its error, of paths
    that of the last factor."""
    by_path: bool = False
    """Is the score by a path, whose error is small or small beside what the factor adds?"""

    @property
    def n_factors(self) -> int:
        """K."""
        return int(self.mode.loadings.shape[1])

    @property
    def score(self) -> float:
        """The better of the two estimates; Laplace's where bridge sampling has failed."""
        return self.laplace if self.bridge_failed or self.bridged is None else self.bridged.value

    @property
    def error(self) -> float:
        """Monte Carlo error of the score."""
        return 0.0 if self.bridge_failed or self.bridged is None else self.bridged.error

    @property
    def bridge_failed(self) -> bool:
        """Has it no score by bridge sampling with a small error?"""
        if self.by_path:
            return False
        one, limit = self.bridged, DEFAULT_SEARCH.bridge_error_limit
        return one is None or not (np.isfinite(one.value) and one.error <= limit)

    def lead(self, other: CellCandidate) -> float:
        """Monte Carlo errors by which the score is more than `parsimony` above another."""
        error = max(float(np.hypot(self.error, other.error)), DEFAULT_SEARCH.least_error)
        return float((self.score - other.score - DEFAULT_SEARCH.parsimony) / error)


class CellSearch(NamedTuple):
    """All candidates that have a score, in the order of K."""

    candidates: tuple[CellCandidate, ...]
    limit: int | None = None
    """Most factors that were tried, where there are too few rows for the scores of more."""
    out_of_time: bool = False
    """Did the search end before it was complete?"""
    behind: tuple[CellCandidate, ...] = ()
    """Numbers of factors that were tried and are too far behind for a score by bridge sampling."""

    @property
    def best(self) -> CellCandidate:
        """The fewest factors to which no more add the evidence that a further factor must add.

        The rule is that of continuous columns: `parsimony`, and some Monte Carlo errors.
        """
        enough = DEFAULT_SEARCH.parsimony_errors
        return next(one for one in self.candidates if self.top.lead(one) <= enough)

    @property
    def top(self) -> CellCandidate:
        """The candidate of the highest score."""
        return max(self.candidates, key=lambda one: one.score)

    @property
    def tied(self) -> set[int]:
        """Other numbers of factors that another set of Monte Carlo draws might have chosen."""
        chosen, settings = self.best, DEFAULT_SEARCH
        reach = settings.parsimony_errors + settings.tie_errors
        least = settings.parsimony_errors - settings.tie_errors
        # More factors could have been chosen only if these few had been too far behind.
        safe = max(one.lead(chosen) for one in self.candidates) < least
        return {
            one.n_factors
            for one in self.candidates
            if one is not chosen
            and self.top.lead(one) <= reach
            and (one.n_factors < chosen.n_factors or not safe)
        }

    @property
    def weights(self) -> Array:
        """P(K | x) as far as the scores are right."""
        return np.asarray(softmax([one.score for one in self.candidates]))


def search_cells(
    values: Array | RowBlocks,
    likelihood: Likelihood,
    prior: CuspPrior,
    *,
    largest: int | None = None,
    bridge: bool = False,
    rng: np.random.Generator | None = None,
    model_error: float = 0.0,
    deadline: float = math.inf,
) -> CellSearch:
    """K = 0, 1, … until the score has not risen for some K, or a factor has no signal.

    With `bridge` the candidates close to the best are scored by bridge sampling, or counts by paths
    of their factors where rows are too few for it, unless a model
    error (in units of RMSEA) is given: its posterior has no exact sweeps, as rows by blocks have
    none. Nor have rows that are too few for one factor: there is nothing to compare. Where
    `deadline`, a time of `time.monotonic`, comes first, the scores are those of Laplace's method.
    """
    rows = values if isinstance(values, RowBlocks) else DistinctRows.of(values)
    n, p = values.shape[0], len(likelihood.direct)
    limit = None
    share = share_of_rows(n, model_error)
    counted, direct = counted_values(rows, p), bool(np.any(likelihood.direct))
    found: list[CellCandidate] = []
    late = False
    most = most_identified(p, n) if largest is None else largest

    def next_one() -> CellCandidate | None:
        """With one factor more than the last one; None where there is no such fit."""
        nonlocal limit, late
        k = len(found)
        if direct:
            few = _learned(likelihood, k) > p * MOST_LEARNED_SHARE * counted
        else:
            few = has_few_rows(k, p, likelihood.n_packed, counted)
        if k > most:
            return None
        if k > 0 and few:
            limit = k - 1
            return None
        try:
            candidate = fit_cells(
                values, likelihood, prior, k, share=share, rows=rows, deadline=deadline
            )
        except DataError:
            if not found:
                raise
            limit = k - 1
            return None
        late = time.monotonic() > deadline
        if found and not candidate.mode.reached:
            return None
        if k and float(np.min(np.sum(candidate.mode.loadings**2, axis=0))) < LEAST_SQUARED_NORM:
            return None
        return candidate

    while (candidate := next_one()) is not None:
        found.append(candidate)
        k = candidate.n_factors
        best = int(np.argmax([one.laplace for one in found]))
        if k - best >= SEARCH_PATIENCE:
            late = False
            break
        if late:
            break
    if not bridge or late or limit == 0 or share < 1.0 or isinstance(values, RowBlocks):
        return CellSearch(tuple(found), limit, late)
    rng = np.random.default_rng(0) if rng is None else rng
    top = max(found, key=lambda one: one.laplace)
    # With few values for each number that is learned Laplace's method prefers too many factors.
    within = BRIDGE_WITHIN + len(top.mode.precision) ** 2 / (4.0 * counted)
    near = [one for one in found if one.laplace >= top.laplace - within]
    if direct and _learned(likelihood, near[-1].n_factors) > MOST_LEARNED_SHARE * counted:
        scored = _scored_by_paths(found, next_one, values, likelihood, prior, rng, deadline)
        late = time.monotonic() > deadline
        return CellSearch(tuple(found) if late else tuple(scored), limit, late)
    behind = tuple(one for one in found if one.laplace < top.laplace - within)
    scored = []
    for one in near:
        if time.monotonic() > deadline:  # scores of two kinds cannot be compared
            return CellSearch(tuple(found), limit, out_of_time=True)
        assert one.state is not None
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            try:
                bridged = bridged_evidence(one.mode, one.state, values, likelihood, prior, rng)
            except np.linalg.LinAlgError:  # draws so far out that there is no probability
                bridged = Evidence(-np.inf, np.inf, 0)
        scored.append(one._replace(bridged=bridged))
    if any(one.bridge_failed for one in scored):  # scores of two kinds cannot be compared
        scored = [one._replace(bridged=None) for one in scored]
    return CellSearch(tuple(scored), limit, behind=behind)


def _scored_by_paths(
    found: list[CellCandidate],
    next_one: Callable[[], CellCandidate | None],
    values: Array,
    likelihood: Likelihood,
    prior: CuspPrior,
    rng: np.random.Generator,
    deadline: float,
) -> list[CellCandidate]:
    """Candidates with scores by paths, factor by factor from K = 0.

    `found` grows by further candidates while the score rises. Tables too large for paths keep the
    scores of Laplace's method.
    """
    n_chains = n_path_chains(values.size)
    if not n_chains:
        return found
    scored, p = [found[0]], len(likelihood.direct)
    beyond = prior.log_count_probability(0)
    while time.monotonic() <= deadline:
        k, last = len(scored), scored[-1]
        if k == len(found):
            candidate = next_one()
            if candidate is None:
                break
            found.append(candidate)
        one = found[k]
        assert one.state is not None
        for longer in (1, LONGER_PATH):
            path = path_of_last_factor(one.state, values, likelihood, rng, n_chains, longer)
            gain, error, _ = path.gain
            if error <= max(DEFAULT_SEARCH.bridge_error_limit, gain / CLEAR_GAIN):
                break
        else:
            return found
        further = log_beyond_normal(path.squared_norm, path.slab, p, prior)
        value = last.score + gain + further - beyond
        score, beyond = path.gain._replace(value=value), further
        scored.append(one._replace(bridged=score, by_path=True))
        if k - int(np.argmax([each.score for each in scored])) >= SEARCH_PATIENCE:
            break
    return scored


def _learned(likelihood: Likelihood, k: int) -> int:
    """Numbers that are learned with k factors, up to rotations."""
    return len(likelihood.direct) * k - k * (k - 1) // 2 + likelihood.n_packed


def has_few_rows(k: int, p: int, n_packed: int, counted: float) -> bool:
    """Are `counted` values of a column too few for the scores of k factors of p columns?"""
    learned, own = p * k - k * (k - 1) // 2 + n_packed, k + n_packed / p
    return learned > MOST_LEARNED_SHARE * counted and own * ROWS_OF_A_NUMBER > counted


def fit_cells(
    values: Array | RowBlocks,
    likelihood: Likelihood,
    prior: CuspPrior,
    k: int,
    *,
    share: float = 1.0,
    rows: DistinctRows | RowBlocks | None = None,
    deadline: float = math.inf,
) -> CellCandidate:
    """A fit with K = k factors and its score by Laplace's method.

    A row counts `share` times; `rows` are those of `values` if they are known. A DataError says
    that there are too few rows for a finite score.
    """
    if isinstance(values, RowBlocks):
        rows, seen = values, values.start_rows
    else:
        rows, seen = DistinctRows.of(values) if rows is None else rows, values
    start = start_of_mode(seen, likelihood, k)
    # Steps that go too far have no finite probability and are refused; what is left is looked at.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        try:
            mode = find_mode(*start, prior.slab, rows, likelihood, share, deadline)
            state = None
            if not isinstance(values, RowBlocks):
                state = state_of_mode(mode)
            evidence = laplace_evidence(mode, likelihood, prior)
        except np.linalg.LinAlgError:
            evidence = np.nan
    if not np.isfinite(evidence):
        if np.any(likelihood.direct):
            raise DataError(
                f"The evidence of K = {k} factors of these counts is no finite number: "
                f"{values.shape[0]} rows are too few, or counts beside zeros too large. Give fewer "
                "factors, or drop columns with few counts."
            )
        if np.all(likelihood.exact_information):
            raise DataError(
                f"The evidence of K = {k} factors is no finite number: do columns follow from "
                "others? Drop those that do, or use likelihood='gaussian'."
            )
        raise DataError(
            f"{values.shape[0]} rows are too few for columns with this many categories: the "
            f"evidence of {k} factors is no finite number. Join categories, or use "
            "likelihood='gaussian'."
        )
    return CellCandidate(state, mode, evidence)


def share_of_rows(n: int, model_error: float) -> float:
    """n_eff/n with 1/n_eff = 1/ν + ε², ν = n − 1: how often a row counts with model error ε."""
    return 1.0 / (1.0 + (n - 1) * model_error**2)
