"""New rows under a fit: scores, probabilities, missing values and samples.

Loadings and parameters are those of the fit, as numbers. The distribution of a row's scores given
its observed values is that of EP.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.inference.cellwise.marginal import corrections, integrate_rows, propagate
from cuspfa.inference.cellwise.state import RowScores, linear_moments
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.likelihoods.base import Likelihood


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
        """(n,) log p of the observed values of each row.

        By quadrature for one or two factors, else by EP with its corrections.
        """
        values = self.likelihood.check(rows)
        given = self.likelihood, self.parameters, self.loadings
        found = propagate(values, *given)
        if 0 < self.loadings.shape[1] <= 2:
            return integrate_rows(values, *given, found.scores)
        return found.log_probability + corrections(found, values, *given)

    def expected(self, rows: Array) -> Array:
        """(n, p) the rows with missing values replaced by their expected values."""
        mean, variance = self.linear(rows)
        filled = self.likelihood.mean(mean + self._offsets(rows), variance, self.parameters)
        own = rows[:, : len(self.loadings)]
        return np.where(np.isnan(own), filled, own)

    def impute(self, rows: Array, rng: np.random.Generator) -> Array:
        """(n, p) the rows with a draw for each missing value, given the observed ones."""
        scores = self.scores(rows)
        root = np.linalg.cholesky(scores.covariance)
        noise = rng.standard_normal(scores.mean.shape)
        eta = scores.mean + (root @ noise[:, :, None])[:, :, 0]
        own = rows[:, : len(self.loadings)]
        linear = eta @ self.loadings.T + self._offsets(rows)
        drawn = self.likelihood.sample(linear, self.parameters, rng)
        return np.where(np.isnan(own), drawn, own)

    def sample(self, size: int, rng: np.random.Generator, offset: Array | float = 0.0) -> Array:
        """(size, p) new rows, with offsets (size,) of the log rates of counts."""
        eta = rng.standard_normal((size, self.loadings.shape[1]))
        own = np.broadcast_to(offset, (size,))[:, None] * self.likelihood.direct
        return self.likelihood.sample(eta @ self.loadings.T + own, self.parameters, rng)

    def _offsets(self, rows: Array) -> Array:
        """(n, p) offsets of log rates; 0 for columns that are no counts."""
        direct = self.likelihood.direct
        if not np.any(direct):
            return np.zeros((1, len(direct)))
        return rows[:, -1:] * direct

    def linear(self, rows: Array) -> tuple[Array, Array]:
        """Mean and variance of f of each value given the observed ones, (n, p) each."""
        (p, k), scores = self.loadings.shape, self.scores(rows)
        certain = RowwiseLoadings(self.loadings, np.zeros((p, k, k)), np.zeros((p, k)), 0.0)
        return linear_moments(certain, scores)
