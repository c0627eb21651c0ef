"""The evidence lower bound as named terms, with every constant."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa.blocks import expected_rss, noise_bound
from cuspfa.data.source import DataSource
from cuspfa.prior import CuspPrior
from cuspfa.process import labels_bound, sticks_bound
from cuspfa.variational.cycle import State, prior_precision

LOG_2PI = float(np.log(2 * np.pi))


class Bound(NamedTuple):
    """E_q[log p(y, λ, η, σ, z, v)] − E_q[log q], in nats; each prior with its own entropy."""

    likelihood: float
    """E[log p(y | λ, η, σ)]"""
    loadings: float
    """E[log p(λ | z)] − E[log q(λ)]"""
    scores: float
    """E[log p(η)] − E[log q(η)]"""
    noise: float
    """E[log p(σ²)] − E[log q(σ²)]"""
    labels: float
    """E[log p(z | v)] − E[log q(z)]"""
    sticks: float
    """E[log p(v)] − E[log q(v)]"""

    @property
    def total(self) -> float:
        """The bound."""
        return float(sum(self))


def lower_bound(state: State, source: DataSource, prior: CuspPrior) -> Bound:
    """The bound of any state, not only of one that has just been updated."""
    loadings, noise, scores, labels, sticks = state
    p, n_terms = loadings.mean.shape

    rss = expected_rss(loadings, scores, source.squares)
    likelihood = 0.5 * np.sum(
        source.counts * (noise.log_precision - LOG_2PI) - noise.precision * rss
    )

    log_variance = labels.active * np.log(prior.slab.variance) + labels.inactive * np.log(
        prior.spike
    )
    fit = p * np.sum(log_variance) + prior_precision(labels, prior) @ loadings.column_energy
    # The 2π of the prior and of the entropy cancel; ½ log e per coordinate stays.
    loadings_term = 0.5 * (loadings.log_det + p * n_terms - fit)

    scores_term = 0.5 * (scores.log_det + scores.n * n_terms - np.trace(scores.second))

    return Bound(
        likelihood=float(likelihood),
        loadings=float(loadings_term),
        scores=float(scores_term),
        noise=noise_bound(noise, prior),
        labels=labels_bound(labels, sticks),
        sticks=sticks_bound(sticks, prior.process(n_terms)),
    )
