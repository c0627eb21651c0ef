"""The evidence lower bound as named terms, with every constant."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa.data.protocols import DataSource
from cuspfa.inference.variational.steps import (
    VariationalState,
    column_squared_norms,
    residual_squares,
    spike_log_density,
)
from cuspfa.model.likelihoods.gaussian import expected_log_likelihood, noise_bound
from cuspfa.model.prior import CuspPrior
from cuspfa.model.process import labels_bound, sticks_bound
from cuspfa.model.slabs import LOG_2PI


class Bound(NamedTuple):
    """E_q[log p(y, λ, η, σ, z, v)] − E_q[log q], in nats; each prior with its own entropy."""

    likelihood: float
    """E[log p(y | λ, η, σ)]"""
    loadings: float
    """E[log p(λ | z)] − E[log q(λ)], maximised over a slab's own variances"""
    scores: float
    """E[log p(η)] − E[log q(η)]"""
    noise: float
    """E[log p(σ²)] − E[log q(σ²)]"""
    labels: float
    """E[log p(z | v)] − E[log q(z)]; with a spike at zero, log P(H* = K) exactly"""
    sticks: float
    """E[log p(v)] − E[log q(v)]"""

    @property
    def total(self) -> float:
        """The bound."""
        return float(sum(self))


def lower_bound(
    state: VariationalState,
    source: DataSource,
    prior: CuspPrior,
    after: tuple[VariationalState, Bound | None] | None = None,
) -> Bound:
    """The bound of any state, not only of one that has just been updated.

    `after` is an earlier state and its bound. The terms of labels and sticks are taken from it if
    these have not changed.
    """
    noise = state.noise
    rss = residual_squares(state, source.squares)
    known = None
    if after is not None and after[0].labels is state.labels and after[0].sticks is state.sticks:
        known = after[1]
    if known is not None:
        labels, sticks = known.labels, known.sticks
    elif prior.spike is None:
        labels, sticks = prior.log_count_probability(state.n_factors), 0.0
    else:
        labels = labels_bound(state.labels, state.sticks)
        sticks = sticks_bound(state.sticks, prior.process())
    return Bound(
        likelihood=expected_log_likelihood(noise, source.counts, rss),
        loadings=_loadings_term(state, source.p, prior),
        scores=_scores_term(state),
        noise=noise_bound(noise, prior),
        labels=labels,
        sticks=sticks,
    )


def _loadings_term(state: VariationalState, p: int, prior: CuspPrior) -> float:
    labels, tail, k = state.labels, state.tail, state.n_factors
    squared_norm = column_squared_norms(state)
    density = labels.active * state.slab.log_density(squared_norm, p)
    if prior.spike is not None:
        density = density + labels.inactive * spike_log_density(squared_norm, p, prior.spike)
    log_det = state.loadings.log_det
    if tail.size:
        log_det += tail.size * float(np.log(tail.loading_variance).sum())
    entropy = 0.5 * (log_det + p * (k + tail.size) * (1 + LOG_2PI))
    return (labels.total(density) if len(density) else 0.0) + entropy + state.slab.log_hyperprior()


def _scores_term(state: VariationalState) -> float:
    # The 2π of prior and entropy cancel; ½ log e per coordinate stays.
    scores, k = state.scores, state.n_factors
    explicit = 0.5 * (scores.log_det + scores.n * k - float(scores.total.trace()))
    return explicit + state.tail.size * state.tail.score_term
