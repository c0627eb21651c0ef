"""New rows under a fit to ordinal columns: scores, probabilities, missing values, samples.

The distribution of a row's scores given its observed values is that of expectation propagation,
with loadings and thresholds of the mode. Rows are worked through in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be
from cuspfa.data.categories import unseen_category
from cuspfa.data.cells import with_offset
from cuspfa.data.offsets import check_offset
from cuspfa.data.validate import CheckedRows
from cuspfa.inference.cellwise.engine import fitted_cells
from cuspfa.inference.cellwise.prediction import FittedCells
from cuspfa.inference.cellwise.state import linear_moments
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.likelihoods.kinds import COUNT_KINDS
from cuspfa.posterior.latent import LatentParameters, LatentPosterior, category_chances
from cuspfa.posterior.predictive import FactorScores

CELLS_TOGETHER = 500_000
"""Values of the rows of a block."""


class Imputed(NamedTuple):
    """Rows with their missing values filled, and the probabilities of all categories."""

    rows: Array
    probabilities: dict[str, Array]
    """(n, C) of each column: given the observed values where one is missing, else 0 and 1."""


class LatentRows:
    """New rows under a posterior, on the axes of these components (K, p)."""

    def __init__(self, posterior: LatentPosterior, components: Array, rotation: Array) -> None:
        self.posterior, self.rotation = posterior, rotation
        loadings = (rotation @ components).T / posterior.scale[:, None]
        self.cells = self._cells_of(loadings, posterior.parameters)

    def _cells_of(self, loadings: Array, parameters: LatentParameters) -> FittedCells:
        own = self.posterior
        return fitted_cells(own.columns, own.center, own.scale, loadings, parameters)

    def check(self, given: CheckedRows) -> Array:
        """Rows for the other methods, or a DataError for a category that the fit has not seen.

        With counts the offsets are their last column.
        """
        table = np.array(given.rows, dtype=float)
        for column, one in zip(table.T, self.posterior.columns, strict=True):
            if one.column in self.posterior.transforms:
                column[:] = self.posterior.transforms[one.column].transform(column)
            if not one.levels:
                continue
            strange = ~np.isnan(column) & ~np.isin(column, one.levels)
            if strange.any():
                first = int(np.argmax(strange))
                raise unseen_category(one.column, f"{column[first]:g} (row {first})", one.levels)
        return with_offset(table, given.offset)

    def scores(self, rows: Array) -> FactorScores:
        """Mean and covariance of the scores of each row."""
        k, turn = self.rotation.shape[1], self.rotation
        mean, covariance = np.empty((len(rows), k)), np.empty((len(rows), k, k))
        for at in self._blocks(rows):
            found = self.cells.scores(rows[at])
            mean[at] = found.mean @ turn
            covariance[at] = turn.T @ found.covariance @ turn
        return FactorScores(mean, covariance)

    def log_probability(self, rows: Array) -> Array:
        """(n,) log probability of the observed values of each row, in the user's units."""
        found = np.zeros(len(rows))
        for at in self._blocks(rows):
            found[at] = self.cells.log_probability(rows[at])
        known = ~np.isnan(rows[:, : len(self.posterior.scale)])  # without the offsets
        return np.asarray(found - known @ np.log(self.posterior.scale))

    def impute(self, rows: Array) -> Imputed:
        """The most probable category for each missing value, or the expected value."""
        columns, posterior = self.posterior.columns, self.posterior
        filled = rows[:, : len(columns)].copy()
        found = {
            one.column: np.zeros((len(rows), len(one.levels))) for one in columns if one.levels
        }
        spans = np.cumsum([0, *(max(len(one.levels) - 1, 0) for one in columns)])
        p, k = self.cells.loadings.shape
        certain = RowwiseLoadings(self.cells.loadings, np.zeros((p, k, k)), np.zeros((p, k)), 0.0)
        for at in self._blocks(rows):
            means, variances = linear_moments(certain, self.cells.scores(rows[at]))
            for j, one in enumerate(columns):
                lacking = np.isnan(rows[at, j])
                if one.kind in COUNT_KINDS:
                    # An expected count, E exp(μ + o + f).
                    logs = posterior.parameters.mean[j] + means[:, j] + 0.5 * variances[:, j]
                    filled[at, j][lacking] = np.exp(logs + rows[at, -1])[lacking]
                    continue
                if not one.levels:
                    filled[at, j][lacking] = posterior.parameters.mean[j] + means[lacking, j]
                    filled[at, j][lacking] *= posterior.scale[j]
                    filled[at, j][lacking] += posterior.center[j]
                    continue
                cuts = posterior.parameters.thresholds[spans[j] : spans[j + 1]]
                chances = category_chances(cuts - means[:, j, None], variances[:, j], one.link)
                levels = np.asarray(one.levels, dtype=float)
                filled[at, j][lacking] = levels[np.argmax(chances[lacking], axis=1)]
                chances[~lacking] = rows[at, j][~lacking, None] == levels
                found[one.column][at] = chances
        return Imputed(self._as_given(filled), found)

    def _as_given(self, rows: Array) -> Array:
        """Rows with values in place of normal scores."""
        for j, one in enumerate(self.posterior.columns):
            if one.column in self.posterior.transforms:
                rows[..., j] = self.posterior.transforms[one.column].inverse(rows[..., j])
        return rows

    def drawn(self, rows: Array, size: int, rng: np.random.Generator) -> Array:
        """(size, n, p) rows with draws for missing values, each with a draw of the posterior."""
        loadings, known, _ = self.posterior.kept
        order = rng.permutation(len(loadings))
        result = np.empty((size, len(rows), len(self.posterior.columns)))
        for place, number in zip(result, np.resize(order, size), strict=True):
            own = LatentParameters(*(part[number] for part in known))
            cells = self._cells_of(loadings[number], own)
            for at in self._blocks(rows):
                place[at] = cells.impute(rows[at], rng)
        return self._as_given(result)

    def sample(self, size: int, rng: np.random.Generator, offset: Any = None) -> Array:
        """(size, p) new rows, at these offsets of log rates or at the mean one of the fit."""
        own: Array | float = self.posterior.mean_offset
        if offset is not None:
            if not np.any(self.cells.likelihood.direct):
                raise must_be("offset", "None: no column is one of counts", offset)
            own = check_offset(offset, size)
        return self._as_given(self.cells.sample(size, rng, own))

    def _blocks(self, rows: Array) -> Iterator[slice]:
        step = max(1, CELLS_TOGETHER // max(rows.shape[1], 1))
        for first in range(0, len(rows), step):
            yield slice(first, first + step)
