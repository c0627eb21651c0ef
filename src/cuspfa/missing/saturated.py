"""Correlations of incomplete data without a factor model, and their effective numbers of rows.

The saturated normal model is fitted by EM, from the estimates of a factor model. Incomplete rows
carry less information than as many complete rows, and measures of fit that ignored this would
reject any model. The effective numbers of rows are found with data drawn from the model, with
values missing in the same places.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.missing.patterns import IncompleteRows, PatternBlock

FEWEST_STEPS, MOST_STEPS, EM_TOLERANCE = 8, 20, 5e-4
"""Steps of EM, and the change of the covariance, relative to itself, at which they end."""
MOST_EM_WORK, EM_WORK = 4e9, 4e8
"""Multiplications of the fewest steps above which nothing is computed, and multiplications of all
steps otherwise. Each pattern has a matrix of its own."""
REPLICATED_CORRELATIONS, MOST_REPLICATES = 600, 8
"""Correlations of all replicated data together, for an error of a few per cent, and the most data
sets."""


class Effective(NamedTuple):
    """Effective numbers of complete rows."""

    correlations: float
    """Complete rows whose correlations would have the same sampling variance."""
    discrepancy: float
    """Complete rows with the same likelihood ratio for the same discrepancy of correlations."""


class Unrestricted(NamedTuple):
    """Correlations of incomplete data without a factor model."""

    correlation: Array
    effective: Effective


class _Normal(NamedTuple):
    """A normal distribution."""

    mean: Array
    covariance: Array

    @property
    def correlation(self) -> Array:
        sd = np.sqrt(np.diag(self.covariance))
        return np.asarray(self.covariance / sd[:, None] / sd)


def too_long(data: IncompleteRows) -> bool:
    """Would EM without a factor model take long?"""
    return len(data.patterns) * float(data.rows.shape[1]) ** 3 * FEWEST_STEPS > MOST_EM_WORK


def unrestricted(data: IncompleteRows, mean: Array, covariance: Array) -> Unrestricted | None:
    """Correlations and effective numbers of rows, given mean and covariance of a factor model.

    `data` are not rotated. None if the computation would take long, if there are no more rows than
    columns, so that the covariance is singular, or if no row has values of two columns.

    The likelihood ratio of n complete rows is nF, with F the discrepancy between their correlations
    and the model's. Its mean for rows drawn from the model is not the number of correlations: F
    takes the standard deviations from the sample, which is not the best choice for columns that
    correlate. So each set of drawn rows is compared with itself before values were removed. A few
    missing values then change little, for any correlations. Incomplete rows only add to the
    information of the complete ones, and removed values only reduce that of all n.
    """
    p = data.rows.shape[1]
    alone = data.patterns.sum(axis=1).max() < 2
    if too_long(data) or data.n <= p or p < 2 or alone:
        return None
    replicates = min(math.ceil(REPLICATED_CORRELATIONS / (p * (p - 1) // 2)), MOST_REPLICATES)
    each = len(data.patterns) * float(p) ** 3 * (1 + replicates)
    steps = int(np.clip(EM_WORK / each, FEWEST_STEPS, MOST_STEPS))
    model = _Normal(mean, covariance)
    try:
        found = _maximised(data.rotated(), model, steps)
        ratio = _likelihood_ratio(data.rotated(), model, found)
        apart = _discrepancy(found.correlation, model.correlation)
        rng, upper = np.random.default_rng(0), np.triu_indices(p, 1)
        squares, ratios = np.zeros(2), np.zeros(2)  # of complete and of incomplete rows
        for _ in range(replicates):  # with fixed random numbers
            drawn, whole = _replicate_incomplete(data, model, rng)
            again = _maximised(drawn, model, steps)
            both = np.asarray(np.corrcoef(whole, rowvar=False)), again.correlation
            squares += [np.sum((one - model.correlation)[upper] ** 2) for one in both]
            ratios[0] += data.n * _discrepancy(both[0], model.correlation)
            ratios[1] += _likelihood_ratio(drawn, model, again)
    except np.linalg.LinAlgError:  # linearly dependent columns
        return None
    least = float(data.sizes[data.patterns.all(axis=1)].sum())
    rows = 1.0 + (data.n - 1) * squares[0] / squares[1]
    weight = ratio / apart * ratios[0] / ratios[1] if apart > 0 else rows
    rows, weight = np.clip([rows, weight], least, data.n).tolist()
    return Unrestricted(found.correlation, Effective(rows, weight))


def _discrepancy(correlation: Array, model: Array) -> float:
    """Log|M| − log|R| + tr(RM⁻¹) − p, by the root of M; singular matrices raise LinAlgError."""
    np.linalg.cholesky(correlation)
    root = np.linalg.inv(np.linalg.cholesky(model))
    excess = np.linalg.eigvalsh(root @ correlation @ root.T) - 1.0
    return float(np.sum(excess - np.log1p(excess)))


def _maximised(data: IncompleteRows, distribution: _Normal, steps: int) -> _Normal:
    """The distribution after at most so many steps of EM."""
    n, p = data.n, data.rows.shape[1]
    for _ in range(steps):
        mean, covariance = distribution
        sums, products, weights = np.zeros(p), np.zeros((p, p)), np.zeros((p, p))
        for block, observed in _covariances(data, covariance):
            both = block.observed[:, :, None] * block.observed[:, None, :]
            slopes = (np.linalg.inv(observed) * both) @ covariance
            weights += np.einsum("u,uij->ij", block.sizes, slopes)
            centred = block.rows - block.ones * mean * block.of_rows(block.observed)
            filled = np.matmul(centred[:, None, :], block.of_rows(slopes))[:, 0]
            filled += block.ones * mean
            sums += block.ones[:, 0] @ filled
            products += filled.T @ filled
        products += (
            n * covariance - covariance @ weights
        )  # conditional covariance of missing values
        after = sums / n
        found = products / n - np.outer(after, after)
        before, distribution = distribution, _Normal(after, (found + found.T) / 2)
        if _change(before.covariance, distribution.covariance) < EM_TOLERANCE:
            break
    return distribution


def _change(before: Array, after: Array) -> float:
    """The largest entry of L⁻¹(after − before)L⁻ᵀ with LLᵀ = before.

    Unlike a change of correlations it is also large where the variance of a nearly constant
    combination of columns changes by a large factor.
    """
    root = np.linalg.inv(np.linalg.cholesky(before))
    return float(np.max(np.abs(root @ (after - before) @ root.T)))


def _likelihood_ratio(data: IncompleteRows, model: _Normal, found: _Normal) -> float:
    """Likelihood ratio statistic of the model's correlations, with means and variances free.

    If the model is known, about χ² with a degree of freedom for each correlation.
    """
    sd = np.sqrt(np.diag(found.covariance))
    restricted = _Normal(found.mean, model.correlation * sd[:, None] * sd)
    return max(_deviance(data, restricted) - _deviance(data, found), 0.0)


def _deviance(data: IncompleteRows, distribution: _Normal) -> float:
    """−2 log-likelihood of the observed values, up to a constant."""
    value = 0.0
    for block, covariance in _covariances(data, distribution.covariance):
        observed = block.of_rows(block.observed)
        centred = block.rows - block.ones * distribution.mean * observed
        inverse = block.of_rows(np.asarray(np.linalg.inv(covariance)))
        value += float(block.sizes @ np.linalg.slogdet(covariance)[1])
        value += float(np.sum(np.matmul(centred[:, None, :], inverse)[:, 0] * centred))
    return value


def _covariances(data: IncompleteRows, covariance: Array) -> Iterator[tuple[PatternBlock, Array]]:
    """Blocks of (u, p, p) covariances of observed values, with the identity elsewhere."""
    p = len(covariance)
    for block in data.blocks(p):
        observed = covariance * (block.observed[:, :, None] * block.observed[:, None, :])
        observed[:, np.arange(p), np.arange(p)] += 1.0 - block.observed
        yield block, observed


def _replicate_incomplete(
    data: IncompleteRows, model: _Normal, rng: np.random.Generator
) -> tuple[IncompleteRows, Array]:
    """Rows drawn from the model with the missing values of the data, and the complete rows."""
    root = np.linalg.cholesky(model.covariance)
    whole = model.mean + rng.standard_normal((data.n, len(root))) @ root.T
    drawn = copy(data)
    drawn.rows = np.where(np.repeat(data.patterns, data.sizes, axis=0), whole, 0.0)
    return drawn.rotated(), whole
