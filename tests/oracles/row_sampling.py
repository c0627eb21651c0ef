"""The probability of a row with its scores integrated out, by importance sampling.

Scores are drawn from q(η_i), mixed with the prior so that the weights are bounded. The estimate is
unbiased, and its error is known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

from cuspfa._typing import Array
from cuspfa.inference.cellwise.state import RowScores
from cuspfa.model.likelihoods.base import Likelihood

REPLICATES = 8
"""Independent sets of draws of importance sampling, which its error is found from."""
DRAWS_POWER = 8
"""A set has 2 to this power draws from q."""
PRIOR_POWER = 1
"""And one from the prior for 2 to this power draws from q: in one dimension fewer have an error
several times as large."""
NUMBERS_AT_ONCE = 2_000_000
"""Draws times cells that are held at once."""


class SampledRows(NamedTuple):
    """log p(x_i | Λ, parameters) by importance sampling."""

    log_probability: Array
    """(n,)"""
    sets: Array
    """(R, n) the same of each of R independent sets of draws."""

    @property
    def error(self) -> Array:
        """(n,) Monte Carlo error of each row."""
        return np.asarray(self.sets.std(axis=0, ddof=1) / np.sqrt(len(self.sets)))

    def total(self, counts: Array | None = None) -> tuple[float, float]:
        """Σ_i log p(x_i), with counts of the rows if these stand for several, and its error."""
        weights = np.ones(len(self.log_probability)) if counts is None else counts
        error = (self.sets @ weights).std(ddof=1) / np.sqrt(len(self.sets))
        return float(weights @ self.log_probability), float(error)


def sample_rows(
    values: Array,
    likelihood: Likelihood,
    parameters: Any,
    loadings: Array,
    scores: RowScores,
    rng: np.random.Generator,
    power: int = DRAWS_POWER,
) -> SampledRows:
    """Importance sampling from q(η_i), mixed with the prior."""
    n, k = scores.mean.shape
    found = np.empty((REPLICATES, n))
    sizes = (2**power, 2 ** max(power - PRIOR_POWER, 0))
    share = sizes[0] / sum(sizes)
    step = max(NUMBERS_AT_ONCE // (sum(sizes) * values.shape[1]), 1)
    for first in range(0, n, step):
        at = slice(first, first + step)
        own = RowScores(*(part[at] for part in scores))
        root = np.linalg.cholesky(own.covariance)
        inverse = np.linalg.inv(root)
        for rows in found[:, at]:
            near = own.mean + np.einsum("rab,srb->sra", root, _normal(sizes[0], len(root), k, rng))
            eta = np.concatenate([near, _normal(sizes[1], len(root), k, rng)])
            logs = likelihood.log_density(values[at], eta @ loadings.T, parameters).sum(axis=2)
            prior = -0.5 * np.sum(eta**2, axis=2)
            white = np.einsum("rab,srb->sra", inverse, eta - own.mean)
            own_q = -0.5 * np.sum(white**2, axis=2) - 0.5 * own.log_det
            mixture = np.logaddexp(np.log(share) + own_q, np.log1p(-share) + prior)
            rows[:] = logsumexp(logs + prior - mixture, axis=0) - np.log(sum(sizes))
    return SampledRows(np.asarray(logsumexp(found, axis=0) - np.log(REPLICATES)), found)


def _normal(size: int, rows: int, k: int, rng: np.random.Generator) -> Array:
    """(size, rows, k) standard normal numbers, by Sobol points with a random shift for each row."""
    if not k:
        return np.zeros((size, rows, 0))
    points = qmc.Sobol(k, scramble=False).random(size)[:, None, :]
    shifted = (points + rng.random((rows, k))) % 1.0
    uniform = 1.0 - np.abs(2.0 * shifted - 1.0)  # a periodic integrand has a smaller error
    return np.asarray(ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12)))
