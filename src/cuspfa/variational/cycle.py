"""One cycle of Algorithm 1: five blocks, each a pure function of the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cuspfa._types import Array
from cuspfa.blocks import Loadings, Noise, ScoreMoments, update_loadings, update_noise
from cuspfa.data.source import DataSource
from cuspfa.prior import CuspPrior
from cuspfa.process import (
    CumulativeShrinkage,
    Labels,
    Sticks,
    expected_log_weights,
    update_labels,
    update_sticks,
)


class State(NamedTuple):
    """q(λ, η, σ, z, v): all that the next cycle needs."""

    loadings: Loadings
    noise: Noise
    scores: ScoreMoments
    labels: Labels
    sticks: Sticks

    @property
    def expected_active(self) -> float:
        """E[H*] = Σ_h Σ_{l>h} κ_hl."""
        return float(np.sum(self.labels.active))


def prior_precision(labels: Labels, prior: CuspPrior) -> Array:
    """θ*_h = E[1/θ_h], (H,)."""
    return labels.active / prior.slab.variance + labels.inactive / prior.spike


def slab_log_odds(energy: Array, p: int, prior: CuspPrior) -> Array:
    """E log N(λ_·h; 0, θ_0) − E log N(λ_·h; 0, θ_∞), (H,), from E‖λ_·h‖²."""
    slab, spike = prior.slab.variance, prior.spike
    return np.asarray(0.5 * p * np.log(spike / slab) + 0.5 * energy * (1 / spike - 1 / slab))


def step_loadings(state: State, source: DataSource, prior: CuspPrior) -> State:
    """Step 1."""
    precision = prior_precision(state.labels, prior)
    loadings = update_loadings(precision, state.noise.precision, state.scores)
    return state._replace(loadings=loadings)


def step_noise(state: State, source: DataSource, prior: CuspPrior) -> State:
    """Step 2."""
    noise = update_noise(state.loadings, state.scores, source.squares, source.counts, prior)
    return state._replace(noise=noise)


def step_scores(state: State, source: DataSource, prior: CuspPrior) -> State:
    """Step 3."""
    return state._replace(scores=source.expect_scores(state.loadings, state.noise.precision))


def step_labels(state: State, source: DataSource, prior: CuspPrior) -> State:
    """Step 4."""
    log_odds = slab_log_odds(state.loadings.column_energy, source.p, prior)
    return state._replace(labels=update_labels(log_odds, expected_log_weights(state.sticks)))


def step_sticks(state: State, source: DataSource, prior: CuspPrior) -> State:
    """Step 5."""
    return state._replace(sticks=update_sticks(state.labels, _process(state, prior)))


STEPS = (step_loadings, step_noise, step_scores, step_labels, step_sticks)


def blocks(state: State, source: DataSource, prior: CuspPrior) -> Iterator[State]:
    """The states after each of the five steps, in the paper's order."""
    for step in STEPS:
        state = step(state, source, prior)
        yield state


def cycle(state: State, source: DataSource, prior: CuspPrior) -> State:
    """One whole cycle."""
    for step in STEPS:
        state = step(state, source, prior)
    return state


def _process(state: State, prior: CuspPrior) -> CumulativeShrinkage:
    return prior.process(len(state.labels.active))
