"""Correlations of data with missing values without a factor model, and what they are worth.

By EM for a normal distribution, from where a model has it. Of values that are missing nothing is
known, so that n rows with them are worth fewer complete ones: measures of fit that took them for n
complete rows would call any model bad. How many they are worth is found by data drawn from the
model, with values missing in the same places.
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
"""Steps of EM, and the change of a correlation at which they end."""
MOST_EM_WORK, EM_WORK = 4e9, 4e8
"""Multiplications of the fewest steps beyond which nothing is said, and those of all that are
taken where there is room for more; each pattern takes a matrix of its own."""
REPLICATED_CORRELATIONS, MOST_REPLICATES = 600, 8
"""Correlations of replicated data in all, for an error of a few per cent, and data sets at most."""


class Effective(NamedTuple):
    """Complete rows that would tell as much."""

    correlations: float
    """Of the correlations: theirs would spread as much as these do."""
    discrepancy: float
    """Of a misfit: what a discrepancy of correlation matrices is multiplied by to be χ²."""


class Unrestricted(NamedTuple):
    """What data with missing values say of the correlations."""

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


def too_long(data: IncompleteRows, steps: int = FEWEST_STEPS) -> bool:
    """Would covariances without a model take long?"""
    return len(data.patterns) * float(data.rows.shape[1]) ** 3 * steps > MOST_EM_WORK


def unrestricted(data: IncompleteRows, mean: Array, covariance: Array) -> Unrestricted | None:
    """Of rows as they were, not rotated, and the mean and covariance of a model of them.

    None where that would take long, where there are no more rows than columns, of which
    nothing but a factor model can be regular, and where no row has values of two columns.
    """
    p = data.rows.shape[1]
    alone = data.patterns.sum(axis=1).max() < 2
    if too_long(data) or data.n <= p or p < 2 or alone:
        return None
    pairs = p * (p - 1) // 2
    replicates = min(math.ceil(REPLICATED_CORRELATIONS / pairs), MOST_REPLICATES)
    each = len(data.patterns) * float(p) ** 3 * (1 + replicates)
    steps = int(np.clip(EM_WORK / each, FEWEST_STEPS, MOST_STEPS))
    model = _Normal(mean, covariance)
    try:
        found = _maximised(data.rotated(), model, steps)
        ratio = _likelihood_ratio(data.rotated(), model, found)
        apart = _discrepancy(found.correlation, model.correlation)
        rng, upper = np.random.default_rng(0), np.triu_indices(p, 1)
        inflated, complete, lacking = 0.0, 0.0, 0.0
        for _ in range(replicates):  # the same every time
            drawn, whole = _replicate(data, model, rng)
            again = _maximised(drawn, model, steps)
            inflated += _likelihood_ratio(drawn, model, again) / (replicates * pairs)
            off = np.corrcoef(whole, rowvar=False) - model.correlation
            complete += float(np.sum(off[upper] ** 2))
            lacking += float(np.sum((again.correlation - model.correlation)[upper] ** 2))
    except np.linalg.LinAlgError:  # columns that depend on each other
        return None
    rows = min(1.0 + (data.n - 1) * complete / lacking, float(data.n))
    weight = ratio / inflated / apart if apart > 0 else rows
    return Unrestricted(found.correlation, Effective(rows, min(weight, float(data.n))))


def _discrepancy(correlation: Array, model: Array) -> float:
    """Log|M| − log|R| + tr(RM⁻¹) − p, by the root of M; singular matrices are an error."""
    np.linalg.cholesky(correlation)
    root = np.linalg.inv(np.linalg.cholesky(model))
    excess = np.linalg.eigvalsh(root @ correlation @ root.T) - 1.0
    return float(np.sum(excess - np.log1p(excess)))


def _maximised(data: IncompleteRows, distribution: _Normal, steps: int) -> _Normal:
    """The distribution after steps of EM."""
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
        products += n * covariance - covariance @ weights  # of what is missing, given the rest
        after = sums / n
        found = products / n - np.outer(after, after)
        before, distribution = distribution, _Normal(after, (found + found.T) / 2)
        if np.max(np.abs(distribution.correlation - before.correlation)) < EM_TOLERANCE:
            break
    return distribution


def _likelihood_ratio(data: IncompleteRows, model: _Normal, found: _Normal) -> float:
    """Twice the log-likelihood that the model's correlations lose, with means and variances free.

    About χ² with a degree of freedom for each correlation, if the model is known.
    """
    sd = np.sqrt(np.diag(found.covariance))
    restricted = _Normal(found.mean, model.correlation * sd[:, None] * sd)
    return max(_deviance(data, restricted) - _deviance(data, found), 0.0)


def _deviance(data: IncompleteRows, distribution: _Normal) -> float:
    """−2 log-likelihood of what was observed, up to a constant."""
    value = 0.0
    for block, covariance in _covariances(data, distribution.covariance):
        observed = block.of_rows(block.observed)
        centred = block.rows - block.ones * distribution.mean * observed
        inverse = block.of_rows(np.asarray(np.linalg.inv(covariance)))
        value += float(block.sizes @ np.linalg.slogdet(covariance)[1])
        value += float(np.sum(np.matmul(centred[:, None, :], inverse)[:, 0] * centred))
    return value


def _covariances(data: IncompleteRows, covariance: Array) -> Iterator[tuple[PatternBlock, Array]]:
    """By blocks: (u, p, p) of what patterns show, with ones on the diagonal where nothing is."""
    p = len(covariance)
    for block in data.blocks(p):
        observed = covariance * (block.observed[:, :, None] * block.observed[:, None, :])
        observed[:, np.arange(p), np.arange(p)] += 1.0 - block.observed
        yield block, observed


def _replicate(
    data: IncompleteRows, model: _Normal, rng: np.random.Generator
) -> tuple[IncompleteRows, Array]:
    """Rows of the model with values missing where the data have none, and the same complete."""
    root = np.linalg.cholesky(model.covariance)
    whole = model.mean + rng.standard_normal((data.n, len(root))) @ root.T
    drawn = copy(data)
    drawn.rows = np.where(np.repeat(data.patterns, data.sizes, axis=0), whole, 0.0)
    return drawn.rotated(), whole
