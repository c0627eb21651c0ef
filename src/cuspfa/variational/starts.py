"""Where a run begins."""

from __future__ import annotations

import numpy as np

from cuspfa._types import Array
from cuspfa.blocks import Loadings, Noise
from cuspfa.data.source import DataSource
from cuspfa.prior import CuspPrior
from cuspfa.process import expected_log_weights, prior_sticks, update_labels
from cuspfa.variational.cycle import State, slab_log_odds


def state_at(mean: Array, source: DataSource, prior: CuspPrior) -> State:
    """The state whose loadings are `mean` without spread and whose noise is all the variance.

    A point mass has no density, so the bound of this state is −∞; the first cycle mends it.
    """
    p, n_terms = mean.shape
    # ‖Y‖² = 0 cannot happen here: constant columns are refused before an engine sees the data.
    shape = prior.noise_shape + source.counts / 2
    noise = Noise(shape, shape * source.squares / source.counts)
    loadings = Loadings(mean, np.eye(n_terms), np.zeros((p, n_terms)), -np.inf)
    sticks = prior_sticks(prior.process(n_terms))
    log_odds = slab_log_odds(loadings.column_energy, p, prior)
    labels = update_labels(log_odds, expected_log_weights(sticks))
    scores = source.expect_scores(loadings, noise.precision)
    return State(loadings, noise, scores, labels, sticks)


def draw_start(
    source: DataSource, prior: CuspPrior, n_terms: int, rng: np.random.Generator
) -> State:
    """A random start: loadings drawn from the prior itself.

    The process draws which columns are active, hence how many; the loadings follow from slab and
    spike. So the starts differ in their number of factors, about Poisson(α), which matters more
    than where the factors point: the number seldom changes by much during a run.
    """
    draws = prior.process(n_terms).draw(prior.slab.variance, prior.spike, random_state=rng)
    mean = rng.standard_normal((source.p, n_terms)) * np.sqrt(draws.theta)
    return state_at(mean, source, prior)
