"""The state of q and the steps that improve it.

K explicit factors are held as matrices. The H − K others, of which the data contain no information,
share one distribution in closed form (`Tail`). The steps of Algorithm 1 are pure functions of the
state. `run.py` puts them together with the scale-rotation step of `px_step.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.protocols import DataSource
from cuspfa.inference.updates import KnownScores, LoadingsDistribution
from cuspfa.model.likelihoods.gaussian import Noise, update_noise
from cuspfa.model.prior import CuspPrior
from cuspfa.model.process import (
    Labels,
    Sticks,
    converge_labels,
    expected_log_weights,
    update_labels,
    update_sticks,
)
from cuspfa.model.slabs import LOG_2PI, Slab

CERTAIN_LOG_ODDS = 40.0
"""Log odds beyond which a label is certain to machine precision."""


class Tail(NamedTuple):
    """Inactive factors: mean zero, uncorrelated with everything, all alike."""

    size: int
    """H − K; 0 when the spike is a point mass at zero, where such factors do not exist."""
    loading_variance: Array
    """(p,) w_j, variance of λ_jh."""
    score_variance: Array | float
    """v, variance of η_ih; with missing values (p,), its sum over the rows that have column j, over
    n."""
    score_term: float = 0.0
    """E[log p(η_·h)] − E[log q(η_·h)], what the scores of one such factor add to the bound."""


class VariationalState(NamedTuple):
    """q(λ, η, σ, z, v): all that the next iteration needs."""

    loadings: LoadingsDistribution
    noise: Noise
    scores: KnownScores
    tail: Tail
    labels: Labels
    sticks: Sticks
    slab: Slab
    """The prior's slab, with its hyperparameters as updated so far."""

    @property
    def n_factors(self) -> int:
        """K, the factors held as matrices."""
        return int(self.loadings.mean.shape[1])

    @property
    def active(self) -> Array:
        """(K,) probability that an explicit factor is active."""
        return self.labels.active[: self.n_factors]

    @property
    def noise_variance(self) -> Array:
        """(p,) 1/E[1/σ²_j]."""
        return np.asarray(1.0 / self.noise.precision)

    @property
    def expected_active(self) -> float:
        """E[H*] = Σ_h Σ_{l>h} κ_hl."""
        return self.labels.total(self.labels.active) if len(self.labels.active) else 0.0


def spike_log_density(squared_norm: Array, p: int, spike: float) -> Array:
    """E log N(λ_·h; 0, θ_∞ I)."""
    return np.asarray(-0.5 * p * (LOG_2PI + np.log(spike)) - 0.5 * squared_norm / spike)


def column_squared_norms(state: VariationalState) -> Array:
    """(L,) E‖λ_·h‖² of the columns that the labels have rows for, explicit ones first."""
    explicit, rows = state.loadings.column_squared_norm, len(state.labels.active)
    if rows == len(explicit):
        return explicit
    norms = np.full(rows, state.tail.loading_variance.sum())
    norms[: len(explicit)] = explicit
    return norms


def prior_precision(state: VariationalState, prior: CuspPrior) -> Array:
    """θ*_h = E[1/θ_h] of the columns, (L,)."""
    labels, p = state.labels, len(state.noise.rate)
    slab = state.slab.precision(column_squared_norms(state), p)
    if prior.spike is None:
        return slab
    return np.asarray(labels.active * slab + labels.inactive / prior.spike)


def slab_log_odds(state: VariationalState, prior: CuspPrior) -> Array:
    """Log slab − log spike of the columns in expectation, (L,)."""
    assert prior.spike is not None
    squared_norm, p = column_squared_norms(state), len(state.noise.rate)
    slab = state.slab.log_density(squared_norm, p)
    return np.asarray(slab - spike_log_density(squared_norm, p, prior.spike))


def residual_squares(state: VariationalState, squares: Array) -> Array:
    """(p,) E Σ_i (y_ij − λ_jᵀη_i)² with all H factors."""
    tail = state.tail
    extra = tail.size * state.scores.n * tail.score_variance * tail.loading_variance
    return np.asarray(state.scores.expected_rss(state.loadings, squares) + extra)


def step_loadings(
    state: VariationalState, source: DataSource, prior: CuspPrior
) -> VariationalState:
    """Step 1, for explicit and inactive factors."""
    precision, k, tail = prior_precision(state, prior), state.n_factors, state.tail
    loadings = state.scores.best_loadings(precision[:k], state.noise.precision)
    if tail.size:
        # The inactive factors share one distribution, so their prior precisions enter by their
        # mean.
        mean = (precision[k:].sum() + (state.labels.last - 1) * precision[-1]) / tail.size
        total = mean + state.noise.precision * source.n * tail.score_variance
        tail = tail._replace(loading_variance=1.0 / total)
    return state._replace(loadings=loadings, tail=tail)


def step_noise(state: VariationalState, source: DataSource, prior: CuspPrior) -> VariationalState:
    """Update of the noise variances (step 2)."""
    rss = residual_squares(state, source.squares)
    return state._replace(noise=update_noise(rss, source.counts, prior))


def step_overrelaxed_noise(
    state: VariationalState, source: DataSource, prior: CuspPrior
) -> VariationalState:
    """Step 2 and half as far again, at most by a factor e^½: noise and loadings converge sooner.

    As a function of log B_j the bound is A(u − e^u), u = log(B*_j/B_j): to overshoot the best
    point by half of the way, or by ½, leaves it higher than it was.
    """
    best = step_noise(state, source, prior).noise
    beyond = np.clip(0.5 * np.log(best.rate / state.noise.rate), -0.5, 0.5)
    return state._replace(noise=best._replace(rate=best.rate * np.exp(beyond)))


def expect_scores(
    loadings: LoadingsDistribution, noise_precision: Array, source: DataSource
) -> KnownScores:
    """The moments of explicit factors' scores, as the source defines them."""
    return source.expect_scores(loadings, noise_precision)


def step_scores(
    state: VariationalState,
    source: DataSource,
    prior: CuspPrior,
    expect: Callable[..., KnownScores] = expect_scores,
) -> VariationalState:
    """Step 3, for explicit and inactive factors."""
    precision, tail = state.noise.precision, state.tail
    if tail.size:
        variance, term = source.inactive_scores(precision * tail.loading_variance)
        tail = tail._replace(score_variance=variance, score_term=term)
    return state._replace(scores=expect(state.loadings, precision, source), tail=tail)


def step_labels(state: VariationalState, source: DataSource, prior: CuspPrior) -> VariationalState:
    """Update of the labels (step 4)."""
    if prior.spike is None:
        return state
    log_weights = expected_log_weights(state.sticks)
    return state._replace(
        labels=update_labels(slab_log_odds(state, prior), log_weights, state.labels.last)
    )


def step_sticks(state: VariationalState, source: DataSource, prior: CuspPrior) -> VariationalState:
    """Update of the sticks (step 5)."""
    if prior.spike is None:
        return state
    process = prior.process()
    return state._replace(sticks=update_sticks(state.labels, process))


def step_slab(state: VariationalState, source: DataSource, prior: CuspPrior) -> VariationalState:
    """Update of the slab's hyperparameters, which all columns share."""
    return state._replace(
        slab=state.slab.update_hyperparameters(state.loadings.column_squared_norm, source.p)
    )


def step_uncertain_labels(
    state: VariationalState, source: DataSource, prior: CuspPrior
) -> VariationalState:
    """Steps 4 and 5 where a label is uncertain; otherwise they wait for `step_converge_labels`.

    Labels that are certain do not change, and the update of the loadings does not depend on the
    sticks, so most iterations need neither step.
    """
    if prior.spike is None:
        return state
    odds = slab_log_odds(state, prior)
    certain = np.abs(odds).min() > CERTAIN_LOG_ODDS and np.array_equal(
        odds > 0, state.labels.active > 0.5
    )
    if certain and state.labels.stick_counts[0] > 0:  # a start's labels have no counts yet
        return state
    return step_sticks(step_labels(state, source, prior), source, prior)


def step_converge_labels(
    state: VariationalState, source: DataSource, prior: CuspPrior
) -> VariationalState:
    """Steps 4 and 5 repeated until they converge, with the other blocks fixed."""
    if prior.spike is None:
        return state
    process = prior.process()
    odds = slab_log_odds(state, prior)
    labels, sticks = converge_labels(odds, state.sticks, process, state.labels.last)
    return state._replace(labels=labels, sticks=sticks)
