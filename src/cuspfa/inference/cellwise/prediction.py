"""New rows under a fit: scores, probabilities, missing values, samples and latent correlations.

Loadings and parameters are those of the fit, as numbers. The distribution of a row's scores given
its observed values is that of EP.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.inference.cellwise.kernels import (
    OrdinalData,
    begin_ordinal,
    latent_correlations,
    sweep_ordinal,
)
from cuspfa.inference.cellwise.marginal import propagate
from cuspfa.inference.cellwise.state import CellState, RowScores, linear_moments
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.likelihoods.base import Likelihood
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood

CORRELATION_CHAINS, CORRELATION_BURN_IN, CORRELATION_SWEEPS = 8, 20, 2
"""Chains from q, sweeps before the first draw, and sweeps between two draws of a chain."""


class FittedCells(NamedTuple):
    """What prediction needs of a fit."""

    likelihood: Likelihood
    loadings: Array
    """(p, K)"""
    parameters: Any
    """Of the likelihood."""

    def scores(self, rows: Array) -> RowScores:
        """Distribution of the scores of each row given its observed values."""
        values = self.likelihood.check(rows)
        return propagate(values, self.likelihood, self.parameters, self.loadings).scores

    def log_probability(self, rows: Array) -> Array:
        """(n,) log p of the observed values of each row."""
        values = self.likelihood.check(rows)
        found = propagate(values, self.likelihood, self.parameters, self.loadings)
        return found.log_probability

    def expected(self, rows: Array) -> Array:
        """(n, p) the rows with missing values replaced by their expected values."""
        mean, variance = self._linear(rows)
        filled = self.likelihood.mean(mean, variance, self.parameters)
        return np.where(np.isnan(rows), filled, rows)

    def impute(self, rows: Array, rng: np.random.Generator) -> Array:
        """(n, p) the rows with a draw for each missing value, given the observed ones."""
        scores = self.scores(rows)
        root = np.linalg.cholesky(scores.covariance)
        noise = rng.standard_normal(scores.mean.shape)
        eta = scores.mean + (root @ noise[:, :, None])[:, :, 0]
        drawn = self.likelihood.sample(eta @ self.loadings.T, self.parameters, rng)
        return np.where(np.isnan(rows), drawn, rows)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """(size, p) new rows."""
        eta = rng.standard_normal((size, self.loadings.shape[1]))
        return self.likelihood.sample(eta @ self.loadings.T, self.parameters, rng)

    def _linear(self, rows: Array) -> tuple[Array, Array]:
        (p, k), scores = self.loadings.shape, self.scores(rows)
        certain = RowwiseLoadings(self.loadings, np.zeros((p, k, k)), np.zeros((p, k)), 0.0)
        return linear_moments(certain, scores)


def draw_latent_correlations(
    state: CellState,
    values: Array,
    likelihood: OrdinalLikelihood,
    n_draws: int,
    rng: np.random.Generator,
) -> Array:
    """(n_draws, p, p) correlations of the latent responses, by exact sweeps from a fit."""
    slab, data = state.slab.with_fixed_hyperparameters(), OrdinalData.of(values, likelihood)
    size = min(CORRELATION_CHAINS, n_draws)
    chains, drawn = begin_ordinal(state, slab, size, rng), []
    for number in range(-(-n_draws // size)):
        for _ in range(CORRELATION_SWEEPS if number else CORRELATION_BURN_IN):
            chains = sweep_ordinal(chains, data, slab, rng)
        drawn.append(latent_correlations(chains))
    return np.concatenate(drawn)[:n_draws]
