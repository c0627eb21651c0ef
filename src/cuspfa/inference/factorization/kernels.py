"""Exact draws: the sweep of the Gibbs sampler.

A sweep splits the counts at random; then scores, loadings and rates d_h are gamma variables. Two
scale moves follow, along which plain sweeps are slow, with the Haar measure du/u of their groups:

    θ_h → uθ_h, β_h → β_h/u with d_h integrated out:  u^{an − cp} e^{−aTu} (f + B/u)^{−(e + cp)}
    β_h → uβ_h, d_h → d_h/u given the split:          u^{X_h − e} e^{−f d_h / u − uR_h}

T = Σ_i θ_ih, B = Σ_j β_jh, X_h the events of factor h and R_h its expected number. Both, and the
hyperparameters, are drawn by Metropolis steps of many sizes.

Where a column is to come or to go (`jumps.py`), only a part w_h of its rates reaches the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.split import Split, draw_split
from cuspfa.inference.factorization.state import CountState
from cuspfa.inference.gibbs.labels import ProcessColumns, draw_labels, draw_sticks, first_columns
from cuspfa.model.poisson_factorization import (
    Hyperparameters,
    PoissonFactorizationPrior,
    moved,
)

SMALLEST = 1e-290
"""Gamma variables of small shape may be below what a float can hold."""
WHOLE = 1.0
"""w_h of columns whose rates reach the counts as they are."""
SCALE_STEPS, HYPER_MOVES = 6, 3
"""Metropolis steps of each scale move, and for the hyperparameters."""


class CountDraw(NamedTuple):
    """A state of the sampler."""

    scores: Array
    """(n, K) θ"""
    loadings: Array
    """(p, K) β"""
    rates: Array
    """(K,) d_h; of an inactive column not used"""
    hyper: Hyperparameters
    columns: ProcessColumns | None = None
    """Labels and sticks, with one chain; None with a spike at zero."""

    @property
    def sizes(self) -> Array:
        """(K,) Σ_i θ_ih Σ_j β_jh"""
        return np.asarray(self.scores.sum(axis=0) * self.loadings.sum(axis=0))

    @property
    def n_factors(self) -> int:
        """Columns that are held."""
        return int(self.loadings.shape[1])

    @property
    def active(self) -> BoolArray:
        """(K,) which columns are active."""
        if self.columns is None:
            return np.ones(self.n_factors, dtype=bool)
        return np.asarray(self.columns.active[0])

    def without(self, which: int) -> CountDraw:
        """A draw without one of its columns; with a spike at zero."""
        kept = np.arange(self.n_factors) != which
        return self._replace(
            scores=self.scores[:, kept], loadings=self.loadings[:, kept], rates=self.rates[kept]
        )


def gamma(shape: Array, rate: Array, rng: np.random.Generator) -> Array:
    """Ga(shape, rate)."""
    return np.maximum(rng.standard_gamma(shape) / rate, SMALLEST)


def draw_from_q(
    state: CountState, prior: PoissonFactorizationPrior, rng: np.random.Generator
) -> CountDraw:
    """A start of the sampler: scores and loadings drawn from q."""
    scores = gamma(state.scores.shape, state.scores.rate, rng)
    loadings = gamma(state.loadings.shape, state.loadings.rate, rng)
    p, hyper = len(loadings), state.hyper
    shape = np.full(state.n_factors, hyper.rate_shape + hyper.loading_shape * p)
    rates = gamma(shape, hyper.rate_scale + loadings.sum(axis=0), rng)
    columns = None
    if prior.spike is not None and state.n_factors:
        columns = first_columns((state.active > 0.5)[None, :], prior, rng)  # type: ignore[arg-type]
    return CountDraw(scores, loadings, rates, hyper, columns)


def sweep(
    at: CountDraw, data: Counts, prior: PoissonFactorizationPrior, rng: np.random.Generator
) -> CountDraw:
    """All parts in turn, each from its conditional distribution."""
    split = draw_split(data.x, at.scores, at.loadings, rng)
    at = draw_scores(at, split, data, rng)
    at = draw_loadings(at, split, data, prior, rng)
    at = draw_rates(at, prior, rng)
    at = move_columns(at, split, data, prior, rng)
    at = move_scales(at, rng)
    at = draw_rates(at, prior, rng)
    at = draw_hyperparameters(at, prior, rng)
    return draw_columns(at, prior, rng)


def draw_scores(
    at: CountDraw,
    split: Split,
    data: Counts,
    rng: np.random.Generator,
    parts: float | Array = WHOLE,
) -> CountDraw:
    """θ_ih ~ Ga(a + Σ_j x_ijh, a + w_h s_i Σ_j β_jh)."""
    a = at.hyper.score_shape
    rate = a + data.loading_totals(parts * at.loadings)
    return at._replace(scores=gamma(a + split.by_row, rate, rng))


def draw_loadings(
    at: CountDraw,
    split: Split,
    data: Counts,
    prior: PoissonFactorizationPrior,
    rng: np.random.Generator,
    parts: float | Array = WHOLE,
) -> CountDraw:
    """β_jh ~ Ga(c + Σ_i x_ijh, d_h + w_h Σ_i s_i θ_ih), with c/ϑ for d_h in an inactive column."""
    own = at.rates
    if prior.spike is not None:
        own = np.where(at.active, own, at.hyper.loading_shape / prior.spike)
    shape = at.hyper.loading_shape + split.by_column
    return at._replace(loadings=gamma(shape, own + data.score_totals(parts * at.scores), rng))


def draw_rates(
    at: CountDraw, prior: PoissonFactorizationPrior, rng: np.random.Generator
) -> CountDraw:
    """d_h ~ Ga(e + cp, f + Σ_j β_jh); of an inactive column from the prior."""
    _, c, e, f = at.hyper
    p = len(at.loadings)
    shape = np.where(at.active, e + c * p, e)
    rate = f + np.where(at.active, at.loadings.sum(axis=0), 0.0)
    return at._replace(rates=gamma(shape, rate, rng))


def move_columns(
    at: CountDraw,
    split: Split,
    data: Counts,
    prior: PoissonFactorizationPrior,
    rng: np.random.Generator,
    parts: float | Array = WHOLE,
) -> CountDraw:
    """β_h → uβ_h with d_h → d_h/u, of active columns."""
    e, f = at.hyper.rate_shape, at.hyper.rate_scale
    events = split.by_column.sum(axis=0)
    expected = np.sum(data.score_totals(parts * at.scores) * at.loadings, axis=0)

    def density(log_u: Array) -> Array:
        u = np.exp(log_u)
        return np.asarray((events - e) * log_u - f * at.rates / u - expected * u)

    u = np.where(at.active, np.exp(metropolis(density, at.n_factors, rng)), 1.0)
    return at._replace(loadings=at.loadings * u, rates=at.rates / u)


def move_scales(at: CountDraw, rng: np.random.Generator) -> CountDraw:
    """θ_h → uθ_h with β_h → β_h/u, of active columns; d_h is integrated out and drawn next."""
    a, c, e, f = at.hyper
    n, p = len(at.scores), len(at.loadings)
    t, b = at.scores.sum(axis=0), at.loadings.sum(axis=0)

    def density(log_u: Array) -> Array:
        u = np.exp(log_u)
        own = (a * n - c * p) * log_u - a * t * u
        return np.asarray(own - (e + c * p) * np.log(f + b / u))

    u = np.where(at.active, np.exp(metropolis(density, at.n_factors, rng)), 1.0)
    return at._replace(scores=at.scores * u, loadings=at.loadings / u)


def metropolis(density: Callable[[Array], Array], size: int, rng: np.random.Generator) -> Array:
    """Independent log u (size,), after Metropolis steps from 0 of many sizes."""
    at = np.zeros(size)
    here = density(at)
    for _ in range(SCALE_STEPS):
        step = np.exp(rng.uniform(-5.0, 1.0, size)) * rng.standard_normal(size)
        there = density(at + step)
        accepted = -rng.standard_exponential(size) < there - here
        at, here = np.where(accepted, at + step, at), np.where(accepted, there, here)
    return at


def draw_hyperparameters(
    at: CountDraw, prior: PoissonFactorizationPrior, rng: np.random.Generator
) -> CountDraw:
    """Metropolis steps for what is learned, with d_h integrated out; then d_h."""
    directions = prior.directions()
    if not directions:
        return at
    n, p = len(at.scores), len(at.loadings)
    totals = at.scores.sum(axis=0), at.loadings.sum(axis=0)
    logs = np.log(at.scores).sum(axis=0), np.log(at.loadings).sum(axis=0)
    active = at.active

    def density(hyper: Hyperparameters) -> float:
        columns = hyper.slab_log_density(totals[1], logs[1], p)
        if prior.spike is not None:
            spike = hyper.spike_log_density(totals[1], logs[1], p, prior.spike)
            columns = np.where(active, columns, spike)
        own = np.sum(hyper.score_log_density(totals[0], logs[0], n)) + np.sum(columns)
        return float(own) + prior.log_hyperprior(hyper)

    hyper = at.hyper
    here = density(hyper)
    for _ in range(HYPER_MOVES):
        for direction in directions:
            step = float(np.exp(rng.uniform(-5.0, 1.0)) * rng.standard_normal())
            tried = moved(hyper, direction, step)
            there = -np.inf if tried is None else density(tried)
            if -rng.standard_exponential() < there - here and tried is not None:
                hyper, here = tried, there
    return draw_rates(at._replace(hyper=hyper), prior, rng)


def draw_columns(
    at: CountDraw, prior: PoissonFactorizationPrior, rng: np.random.Generator
) -> CountDraw:
    """Labels with d_h integrated out, then sticks, as in the Gaussian model; then d_h."""
    if prior.spike is None or at.columns is None:
        return at
    totals, logs = at.loadings.sum(axis=0), np.log(at.loadings).sum(axis=0)
    p = len(at.loadings)
    odds = at.hyper.slab_log_density(totals, logs, p) - at.hyper.spike_log_density(
        totals, logs, p, prior.spike
    )
    active, counts = draw_labels(odds[None, :], at.columns, rng)
    log_s = draw_sticks(counts, at.n_factors, prior, rng)  # type: ignore[arg-type]
    columns = ProcessColumns(active, log_s, at.columns.terms)
    return draw_rates(at._replace(columns=columns), prior, rng)


def adapt(
    at: CountDraw, prior: PoissonFactorizationPrior, most: int, rng: np.random.Generator
) -> CountDraw:
    """Keep the active columns and one inactive; or, if all but one are active, add one.

    A new column is drawn from the spike, and its scores from their prior.
    """
    assert at.columns is not None
    assert prior.spike is not None
    h, active = at.n_factors, at.active
    number = int(active.sum())
    if number < h - 1:
        kept: Indices = np.flatnonzero(active)
    elif h < most:
        kept = np.arange(h)
    else:
        return at
    n, p, (a, c, _, _) = len(at.scores), len(at.loadings), at.hyper[:4]
    new_scores = gamma(np.full((n, 1), a), np.array(a), rng)
    new_loadings = gamma(np.full((p, 1), c), np.array(c / prior.spike), rng)
    flags = np.append(active[kept], False)[None, :]
    start = first_columns(flags, prior, rng)  # type: ignore[arg-type]
    survivors = np.exp(at.columns.log_survivors[0])
    weights = -np.diff(survivors, prepend=1.0)[kept]
    with np.errstate(divide="ignore"):
        start.log_survivors[0, :-1] = np.log(np.maximum(1.0 - np.cumsum(weights), 0.0))
    if number >= h - 1:  # grown: the last stick, which was 1, is drawn from its prior
        before = at.columns.log_survivors[0, h - 2] if h > 1 else 0.0
        rest = float(rng.beta(prior.alpha, prior.stick_shape))
        start.log_survivors[0, h - 1] = before + np.log(rest)
    added = CountDraw(
        np.hstack([at.scores[:, kept], new_scores]),
        np.hstack([at.loadings[:, kept], new_loadings]),
        np.append(at.rates[kept], 1.0),
        at.hyper,
        start,
    )
    return draw_rates(added, prior, rng)
