"""Each block update maximises the bound: no slope there, and 5 % away there is one."""

import numpy as np
import pytest

import bridge
from cuspfa.inference.variational.elbo import lower_bound
from cuspfa.inference.variational.steps import (
    slab_log_odds,
    step_labels,
    step_loadings,
    step_noise,
    step_scores,
    step_sticks,
)
from cuspfa.model.process import expected_log_weights, update_labels
from oracles import algorithm1 as oracle
from support import factor_rows

SHAPES = [(25, 5, 6), (5, 9, 4)]
MILD = oracle.Hyper(alpha=1.7, theta_0=2.5, theta_inf=0.2, a_sigma=2.2, b_sigma=0.9)
STEP = 1e-4


class Problem:
    """A state some iterations from a random start, and the bound as a function of one block."""

    def __init__(self, shape):
        n, p, n_terms = shape
        rng = np.random.default_rng(3)
        self.rng = rng
        self.y = factor_rows(n, p, 2, rng)
        self.prior, self.source = bridge.prior_of(MILD), bridge.source_of(self.y)
        literal = oracle.random_state(n, p, n_terms, rng)
        for _ in range(2):
            literal = oracle.iteration(self.y, literal, MILD)
        self.literal = literal
        self.state = bridge.package_state(self.y, bridge.share_covariance(literal), MILD)

    def bound(self, state):
        return lower_bound(state, self.source, self.prior).total

    # Each takes the numbers (moves) to add to a block's natural coordinates.

    def loadings(self, state, size):
        block = state.loadings
        d_mean = self.rng.normal(size=block.mean.shape)
        d_log = self.rng.normal(size=block.eigenvalues.shape)
        d_rows = self.rng.normal(size=block.weights.shape)
        d_turn = self.rng.normal(size=block.basis.shape)

        def at(t):
            moved = block._replace(
                mean=block.mean + t * size * d_mean,
                basis=block.basis @ (np.eye(len(block.basis)) + t * size * d_turn),
                weights=block.weights * np.exp(t * size * d_rows),
                eigenvalues=block.eigenvalues * np.exp(t * size * d_log),
            )
            twice = 2 * len(moved.mean) * np.linalg.slogdet(moved.basis)[1]
            return moved._replace(log_det=float(np.sum(np.log(moved.spread)) + twice))

        return lambda t: self.bound(state._replace(loadings=at(t)))

    def noise(self, state, size):
        d_shape, d_rate = self.rng.normal(size=(2, self.source.p))

        def at(t):
            return state.noise._replace(
                shape=state.noise.shape * np.exp(t * size * d_shape),
                rate=state.noise.rate * np.exp(t * size * d_rate),
            )

        return lambda t: self.bound(state._replace(noise=at(t)))

    def scores(self, state, size):
        n, k = len(self.y), state.scores.second.shape[0]
        precision = np.eye(k) + state.loadings.weighted_gram(state.noise.precision)
        v = np.linalg.inv(precision)
        mu = (self.y * state.noise.precision) @ state.loadings.mean @ v
        d_mu, d_v = self.rng.normal(size=(n, k)), self.rng.normal(size=(k, k))

        def at(t):
            turn = np.eye(k) + t * size * d_v
            return bridge.scores_of(self.y, mu + t * size * d_mu, turn @ v @ turn.T)

        return lambda t: self.bound(state._replace(scores=at(t)))

    def labels(self, state, size):
        log_odds = slab_log_odds(state, self.prior)
        log_weights = expected_log_weights(state.sticks)
        d_odds, d_weights = self.rng.normal(size=(2, len(log_odds)))

        def at(t):
            return update_labels(log_odds + t * size * d_odds, log_weights + t * size * d_weights)

        return lambda t: self.bound(state._replace(labels=at(t)))

    def sticks(self, state, size):
        d_a, d_b = self.rng.normal(size=(2, len(state.sticks.a)))

        def at(t):
            return state.sticks._replace(
                a=state.sticks.a * np.exp(t * size * d_a), b=state.sticks.b * np.exp(t * size * d_b)
            )

        return lambda t: self.bound(state._replace(sticks=at(t)))


BLOCKS = {
    "loadings": step_loadings,
    "noise": step_noise,
    "scores": step_scores,
    "labels": step_labels,
    "sticks": step_sticks,
}


def slope(function, at):
    return (function(at + STEP) - function(at - STEP)) / (2 * STEP)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("block", BLOCKS)
def test_slope_vanishes_at_the_update_and_not_beside_it(block, shape):
    problem = Problem(shape)
    state = BLOCKS[block](problem.state, problem.source, problem.prior)
    for _ in range(5):
        along = getattr(problem, block)(state, size=1.0)
        here, beside, behind = slope(along, 0.0), slope(along, 0.05), slope(along, -0.05)
        assert abs(here) < 1e-3 * max(abs(beside), abs(behind))
        assert beside < 0 < behind  # a maximum, not a saddle
        assert along(0.0) > max(along(0.05), along(-0.05))
