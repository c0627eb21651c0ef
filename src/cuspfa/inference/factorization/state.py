"""The state of q(θ, β, d, z, v), its steps, and its bound.

The parts of the counts and the rates d_h are at their best distributions whenever they are used:
with these profiled out the bound is

    Σ_ij {x_ij log s_i Σ_h e^{E log θ_ih + E log β_jh} − log x_ij!} − Σ_ij s_i Σ_h E θ_ih E β_jh
      + E log p(θ) − E log q(θ) + Σ_h {κ_h slab_h + (1 − κ_h) spike_h} − E log q(β)
      + labels + sticks,

κ_h the probability that column h is active. q(d_h) belongs to the slab: with a spike it stands for
the rate given that the column is active.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from cuspfa._typing import Array
from cuspfa.data.counts import Counts
from cuspfa.inference._kernels import kernel
from cuspfa.inference.factorization.split import Split, expected_split
from cuspfa.model.poisson_factorization import (
    Hyperparameters,
    PoissonFactorizationPrior,
    climb,
)
from cuspfa.model.process import (
    Labels,
    Sticks,
    converge_labels,
    expected_log_weights,
    labels_bound,
    prior_sticks,
    sticks_bound,
    update_labels,
    update_sticks,
)

CERTAIN = 1.0 - 1e-12
"""Columns that are active with a probability above it take part in the scale step."""


class Gammas(NamedTuple):
    """Independent gamma distributions, (m, K)."""

    shape: Array
    rate: Array
    """(m, K) or (1, K)"""
    mean: Array
    geometric: Array
    """exp(E log x)"""
    log_sums: Array
    """(K,) column sums of E log x"""
    entropy: float
    """Of all of them."""

    @property
    def totals(self) -> Array:
        """(K,) column sums of the means."""
        return np.asarray(self.mean.sum(axis=0))


def gammas(shape: Array, rate: Array) -> Gammas:
    """Distributions with these parameters, and their moments."""
    core = kernel("factorization")
    if core is None or shape.size == 0:
        log_mean = digamma(shape) - np.log(rate)
        entropy = shape + gammaln(shape) + (1 - shape) * digamma(shape) - np.log(rate)
        return Gammas(
            *(shape, rate, shape / rate, np.exp(log_mean)),
            *(log_mean.sum(axis=0), float(np.sum(entropy))),
        )
    shape, rate = np.ascontiguousarray(shape), np.ascontiguousarray(rate)
    mean, geometric, log_sums = np.empty_like(shape), np.empty_like(shape), np.zeros(shape.shape[1])
    entropy = core.gamma_moments(shape, rate, mean, geometric, log_sums)
    return Gammas(shape, rate, mean, geometric, log_sums, entropy)


class GammaParameters(NamedTuple):
    """Of independent gamma distributions, (m, K)."""

    shape: Array
    rate: Array
    """(m, K) or (1, K)"""


class StateParameters(NamedTuple):
    """A state without its moments, which take four times the memory."""

    scores: GammaParameters
    loadings: GammaParameters


class CountState(NamedTuple):
    """All that the next iteration needs."""

    scores: Gammas
    """q(θ), (n, K)"""
    loadings: Gammas
    """q(β), (p, K)"""
    split: Split
    """Expected parts of the counts under these."""
    hyper: Hyperparameters
    active: Array
    """(K,) κ_h"""
    labels: Labels | None = None
    """None with a spike at zero."""
    sticks: Sticks | None = None

    @property
    def n_factors(self) -> int:
        """K, the columns that are held."""
        return int(self.loadings.shape.shape[1])

    @property
    def sizes(self) -> Array:
        """(K,) Σ_i E θ_ih Σ_j E β_jh."""
        return np.asarray(self.scores.totals * self.loadings.totals)

    @property
    def parameters(self) -> StateParameters:
        """Those of its distributions alone."""
        return StateParameters(
            *(GammaParameters(one.shape, one.rate) for one in (self.scores, self.loadings))
        )


def state_of(
    scores: Gammas,
    loadings: Gammas,
    data: Counts,
    hyper: Hyperparameters,
    prior: PoissonFactorizationPrior,
) -> CountState:
    """A state with these distributions, of columns that are active if there is no spike."""
    k = loadings.shape.shape[1]
    split = expected_split(data.x, scores.geometric, loadings.geometric)
    state = CountState(scores, loadings, split, hyper, np.ones(k))
    if prior.spike is None or k == 0:
        return state
    sticks = prior_sticks(prior.process(), k)
    return step_labels(state._replace(sticks=sticks), data, prior)


# --- steps ---


def step_scores(state: CountState, data: Counts, prior: PoissonFactorizationPrior) -> CountState:
    """q(θ_ih) = Ga(a + Σ_j x_ijh, a + s_i Σ_j E β_jh)."""
    a = state.hyper.score_shape
    # One rate for all rows where that can be: large tables have many.
    some = data._replace(exposure=data.exposure[:1]) if data.rows_alike else data
    rate = a + some.loading_totals(state.loadings.mean)
    return state._replace(scores=gammas(a + state.split.by_row, rate))


def step_loadings(state: CountState, data: Counts, prior: PoissonFactorizationPrior) -> CountState:
    """q(β_jh) = Ga(c + Σ_i x_ijh, κ_h E d_h + (1 − κ_h) c/ϑ + Σ_i s_i E θ_ih)."""
    c, p = state.hyper.loading_shape, data.p
    own = state.active * state.hyper.column_rate(state.loadings.totals, p)
    if prior.spike is not None:
        own = own + (1 - state.active) * c / prior.spike
    rate = own + data.score_totals(state.scores.mean)
    return state._replace(loadings=gammas(c + state.split.by_column, rate))


def step_scale(state: CountState, data: Counts, prior: PoissonFactorizationPrior) -> CountState:
    """θ_h → u θ_h, β_h → β_h / u with the best u > 0, q(d_h) profiled.

    The bound is (an − cp) log u − a T u − (e + cp) log(f + B/u), T = Σ_i E θ_ih, B = Σ_j E β_jh, so
    that a T f u² − {(an − cp) f − a T B} u − (an + e) B = 0. A column that may be inactive stays.
    """
    a, c, e, f = state.hyper
    n, p = data.n, data.p
    t, b = state.scores.totals, state.loadings.totals
    linear = (a * n - c * p) * f - a * t * b
    root = np.sqrt(linear**2 + 4 * a * t * f * (a * n + e) * b)
    # Each form of the root where it does not cancel.
    with np.errstate(divide="ignore", invalid="ignore"):
        u = np.where(
            linear >= 0, (linear + root) / (2 * a * t * f), 2 * (a * n + e) * b / (root - linear)
        )
    u = np.where((state.active > CERTAIN) & np.isfinite(u) & (u > 0), u, 1.0)
    return state._replace(scores=scaled(state.scores, u), loadings=scaled(state.loadings, 1 / u))


def scaled(one: Gammas, factor: Array) -> Gammas:
    """The distributions of columns multiplied by a factor (K,)."""
    logs = np.log(factor)
    m = one.shape.shape[0]
    return Gammas(
        *(one.shape, one.rate / factor, one.mean * factor, one.geometric * factor),
        *(one.log_sums + m * logs, one.entropy + m * float(np.sum(logs))),
    )


def step_hyperparameters(
    state: CountState, data: Counts, prior: PoissonFactorizationPrior
) -> CountState:
    """Newton steps for the hyperparameters that are learned."""
    directions = prior.directions()
    if not directions:
        return state

    def density(hyper: Hyperparameters) -> float:
        return sum(column_terms(state, data, prior, hyper)) + prior.log_hyperprior(hyper)

    return state._replace(hyper=climb(density, state.hyper, directions))


def step_labels(state: CountState, data: Counts, prior: PoissonFactorizationPrior) -> CountState:
    """q(z), then q(v), with the code of the Gaussian model."""
    if prior.spike is None or state.sticks is None:
        return state
    odds = log_odds(state, data, prior)
    labels = update_labels(odds, expected_log_weights(state.sticks))
    sticks = update_sticks(labels, prior.process())
    return state._replace(labels=labels, sticks=sticks, active=labels.active)


def step_converge_labels(
    state: CountState, data: Counts, prior: PoissonFactorizationPrior
) -> CountState:
    """q(z) and q(v) repeated until they converge."""
    if prior.spike is None or state.sticks is None:
        return state
    odds = log_odds(state, data, prior)
    labels, sticks = converge_labels(odds, state.sticks, prior.process())
    return state._replace(labels=labels, sticks=sticks, active=labels.active)


def step_split(state: CountState, data: Counts, prior: PoissonFactorizationPrior) -> CountState:
    """Parts of the counts in the proportions exp(E log θ_ih + E log β_jh)."""
    split = expected_split(data.x, state.scores.geometric, state.loadings.geometric)
    return state._replace(split=split)


COUNT_STEPS = (
    step_scores,
    step_loadings,
    step_scale,
    step_hyperparameters,
    step_labels,
    step_split,
)
"""One iteration; each step maximises the bound over one block."""


def iteration(state: CountState, data: Counts, prior: PoissonFactorizationPrior) -> CountState:
    """All steps in turn."""
    for step in COUNT_STEPS:
        state = step(state, data, prior)
    return state


def log_odds(state: CountState, data: Counts, prior: PoissonFactorizationPrior) -> Array:
    """Log slab − log spike of each column, (K,)."""
    totals, logs = state.loadings.totals, state.loadings.log_sums
    assert prior.spike is not None
    slab = state.hyper.slab_log_density(totals, logs, data.p)
    return slab - state.hyper.spike_log_density(totals, logs, data.p, prior.spike)


# --- the bound ---


class CountBound(NamedTuple):
    """E log p(x, θ, β, d, z, v) − E log q, in nats; each prior with its own entropy."""

    likelihood: float
    """With the entropy of the parts of the counts."""
    scores: float
    loadings: float
    """With d_h, and the hyper-prior of what is learned."""
    labels: float
    """With a spike at zero log P(H* = K), exactly."""
    sticks: float

    @property
    def total(self) -> float:
        """The bound."""
        return float(sum(self))


def column_terms(
    state: CountState, data: Counts, prior: PoissonFactorizationPrior, hyper: Hyperparameters
) -> tuple[float, float]:
    """E log p(θ) and E log p(β | z), with these hyperparameters."""
    scores, loadings, p = state.scores, state.loadings, data.p
    totals = loadings.totals
    density = state.active * hyper.slab_log_density(totals, loadings.log_sums, p)
    if prior.spike is not None:
        spike = hyper.spike_log_density(totals, loadings.log_sums, p, prior.spike)
        density = density + (1 - state.active) * spike
    of_scores = hyper.score_log_density(scores.totals, scores.log_sums, data.n)
    return float(np.sum(of_scores)), float(np.sum(density))


def lower_bound(
    state: CountState, data: Counts, prior: PoissonFactorizationPrior, constant: float
) -> CountBound:
    """The bound; `constant` is `data.constant`, which is computed once."""
    of_scores, of_loadings = column_terms(state, data, prior, state.hyper)
    rates = float(np.sum(data.score_totals(state.scores.mean) * _totals(state, data)))
    labels, sticks = prior.log_count_probability(state.n_factors), 0.0
    if prior.spike is not None:
        labels = sticks = 0.0
        if state.labels is not None and state.sticks is not None:
            labels = labels_bound(state.labels, state.sticks)
            sticks = sticks_bound(state.sticks, prior.process())
    return CountBound(
        likelihood=constant + state.split.log_rates - rates,
        scores=of_scores + state.scores.entropy,
        loadings=of_loadings + state.loadings.entropy + prior.log_hyperprior(state.hyper),
        labels=labels,
        sticks=sticks,
    )


def _totals(state: CountState, data: Counts) -> Array:
    """What `score_totals` has to be multiplied with."""
    return state.loadings.totals if data.missing is None else state.loadings.mean
