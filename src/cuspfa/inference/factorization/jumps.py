"""Exact changes of the number of columns, with a spike at zero.

A new column begins as a draw from its prior of which no part reaches the counts. Then the part w
rises to 1 in steps, with a sweep of all columns after each, so that the column takes on what the
others leave unexplained. Such a path has the weight (Neal, 2001)

    log W = Σ_t log p(x | w_t) − log p(x | w_{t−1}),

each term at the state before its sweep. A column that goes away takes the same path backwards, its
sweeps with their parts in the opposite order. Given that a column comes as often as one goes, the
change from K to K + 1 columns is accepted with probability

    min{1, W × P(H* = K + 1) / P(H* = K) × (K + 1) g_h},

g_h the probability that the new column h is the one that goes from the new state. That leaves the
posterior of K, of the process, and of everything else unchanged (Karagiannis & Andrieu, 2013).
Columns that go are chosen in inverse proportion to their size: large ones never go.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.kernels import (
    CountDraw,
    draw_loadings,
    draw_rates,
    draw_scores,
    gamma,
    move_columns,
    move_scales,
)
from cuspfa.inference.factorization.split import Split, draw_split
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior

PATH_STEPS, PATH_POWER = 12, 4.0
"""Steps of a path, and r of w_t = (t / steps)^r: with a small part a column has few events yet."""
SWEEPS_PER_JUMP = 4
"""Sweeps from one attempt to the next: paths take about as long as three times the sweeps."""


def path_parts() -> Array:
    """0 = w_0 < w_1 < … = 1."""
    return np.asarray((np.arange(PATH_STEPS + 1) / PATH_STEPS) ** PATH_POWER)


def jump(
    at: CountDraw,
    data: Counts,
    prior: PoissonFactorizationPrior,
    most: int,
    rng: np.random.Generator,
) -> CountDraw:
    """Try to add a column, or to take one away, each half of the time; at most `most` columns."""
    if rng.random() < 0.5:
        return at if at.n_factors >= most else add_column(at, data, prior, rng)
    least = int(data.x.nnz > 0)  # no count without a column
    return at if at.n_factors <= least else remove_column(at, data, prior, rng)


def add_column(
    at: CountDraw, data: Counts, prior: PoissonFactorizationPrior, rng: np.random.Generator
) -> CountDraw:
    """The state with one column more, or as it was."""
    new = with_new_column(at, rng)
    h, parts, w = at.n_factors, np.ones(at.n_factors + 1), path_parts()
    log_weight = 0.0
    for before, after in pairwise(w):
        log_weight += gain(new, data, h, before, after)
        if after < 1:
            parts[h] = after
            new = sweep_up(new, data, prior, parts, rng)
    odds = log_weight + log_prior_odds(prior, h) + math.log(chances(new, data)[h])
    return new if -rng.standard_exponential() < odds else at


def remove_column(
    at: CountDraw, data: Counts, prior: PoissonFactorizationPrior, rng: np.random.Generator
) -> CountDraw:
    """The state with one column less, or as it was."""
    chance = chances(at, data)
    h = int(rng.choice(at.n_factors, p=chance))
    new, parts, w = at, np.ones(at.n_factors), path_parts()[::-1]
    odds = -log_prior_odds(prior, at.n_factors - 1) - math.log(chance[h])
    for before, after in pairwise(w):
        odds += gain(new, data, h, before, after)
        if after > 0:
            parts[h] = after
            new = sweep_down(new, data, prior, parts, rng)
    return new.without(h) if -rng.standard_exponential() < odds else at


def with_new_column(at: CountDraw, rng: np.random.Generator) -> CountDraw:
    """One more column, drawn from its prior."""
    n, p, (a, c, e, f) = len(at.scores), len(at.loadings), at.hyper
    rate = gamma(np.full(1, e), np.array(f), rng)
    scores = gamma(np.full((n, 1), a), np.array(a), rng)
    loadings = gamma(np.full((p, 1), c), rate, rng)
    return at._replace(
        scores=np.hstack([at.scores, scores]),
        loadings=np.hstack([at.loadings, loadings]),
        rates=np.append(at.rates, rate),
    )


def gain(at: CountDraw, data: Counts, h: int, before: float, after: float) -> float:
    """Log p(x | w = after) − log p(x | w = before), w the part of column h."""
    others, x = np.arange(at.n_factors) != h, data.x.data
    own = data.rates(at.scores[:, [h]], at.loadings[:, [h]])
    rest = data.rates(at.scores[:, others], at.loadings[:, others])
    with np.errstate(divide="ignore"):
        change = float(x @ (np.log(rest + after * own) - np.log(rest + before * own)))
    total = float(np.sum(data.loading_totals(at.loadings[:, [h]]) * at.scores[:, [h]]))
    return change - (after - before) * total


def chances(at: CountDraw, data: Counts) -> Array:
    """(K,) probabilities that a column is the one that goes."""
    sizes = np.sum(data.score_totals(at.scores) * at.loadings, axis=0)
    sizes = np.maximum(sizes, np.finfo(float).tiny)
    inverse = sizes.min() / sizes
    return np.asarray(inverse / inverse.sum())


def log_prior_odds(prior: PoissonFactorizationPrior, k: int) -> float:
    """Log of P(H* = k + 1) / P(H* = k), and of k + 1, the places that a new column may have."""
    more, fewer = prior.log_count_probability(k + 1), prior.log_count_probability(k)
    return more - fewer + math.log(k + 1)


# --- sweeps on a path, with the hyperparameters as they are ---


def sweep_up(
    at: CountDraw,
    data: Counts,
    prior: PoissonFactorizationPrior,
    parts: Array,
    rng: np.random.Generator,
) -> CountDraw:
    """A sweep where only these parts (K,) of the columns reach the counts."""
    split = split_of(at, data, parts, rng)
    at = draw_scores(at, split, data, rng, parts)
    at = draw_loadings(at, split, data, prior, rng, parts)
    at = draw_rates(at, prior, rng)
    at = move_columns(at, split, data, prior, rng, parts)
    at = move_scales(at, rng)
    return draw_rates(at, prior, rng)


def sweep_down(
    at: CountDraw,
    data: Counts,
    prior: PoissonFactorizationPrior,
    parts: Array,
    rng: np.random.Generator,
) -> CountDraw:
    """The same in the opposite order: its time reversal.

    Rates after `move_scales` are those of the move itself, which has them integrated out.
    """
    at = move_scales(at, rng)
    at = draw_rates(at, prior, rng)
    split = split_of(at, data, parts, rng)
    at = move_columns(at, split, data, prior, rng, parts)
    at = draw_rates(at, prior, rng)
    at = draw_loadings(at, split, data, prior, rng, parts)
    return draw_scores(at, split, data, rng, parts)


def split_of(at: CountDraw, data: Counts, parts: Array, rng: np.random.Generator) -> Split:
    """The counts split among these parts of the columns."""
    return draw_split(data.x, parts * at.scores, at.loadings, rng)
