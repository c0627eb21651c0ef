"""Scores and densities of new complete rows, dense or sparse, block by block.

Their distribution is `cuspfa.model.likelihoods.gaussian.MarginalGaussian`. For scores sparse rows
are multiplied as they are, with the centring beside them. For densities they are made dense a block
at a time: far from the mean a difference of large squares would have no digits left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from cuspfa._typing import Array
from cuspfa._utils.tables import Columns, data_frame, html_table
from cuspfa.data.in_memory import row_blocks
from cuspfa.errors import DataError
from cuspfa.model.likelihoods.gaussian import MarginalGaussian


class FactorScores(NamedTuple):
    """Normal distribution of each row's scores."""

    mean: Array
    """(n, K) E[η_i | y_i]."""
    covariance: Array
    """(K, K) their covariance, the same for all rows; (n, K, K), one for each row, if values are
    missing or rows have weights."""

    def to_frame(self) -> Any:
        """The means, by row and factor, as a data frame of pandas or, without it, of polars."""
        return data_frame(self._columns())

    def _repr_html_(self) -> str:
        return html_table(self._columns())

    def _columns(self) -> Columns:
        return {f"factor{k}": column.tolist() for k, column in enumerate(self.mean.T, 1)}


def scores_of(distribution: MarginalGaussian, rows: Any) -> Array:
    """E[η | y] of each row, (n, K)."""
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is an error below
        if issparse(rows):
            weights = distribution.score_weights
            result = np.asarray(rows @ weights - distribution.mean @ weights)
        else:
            blocks = [distribution.scores(block) for block in row_blocks(rows)]
            result = np.concatenate([np.zeros((0, distribution.score_weights.shape[1])), *blocks])
    return check_scores(result)


def covariance_of_scores(distribution: MarginalGaussian, rows: Any) -> Array:
    """(K, K) for normal rows; (n, K, K) given the weights of rows with a t distribution."""
    if distribution.tails.are_normal:
        return distribution.score_covariance
    k = len(distribution.score_covariance)
    found = [distribution.score_covariances(block) for block in row_blocks(rows)]
    return np.concatenate([np.zeros((0, k, k)), *found])


def log_densities(distribution: MarginalGaussian, rows: Any) -> Array:
    """The log density of each row, (n,)."""
    return np.concatenate([np.zeros(0), *map(distribution.log_density, row_blocks(rows))])


def check_scores(scores: Array) -> Array:
    """The scores, or a DataError if those of a row overflow."""
    lost = ~np.isfinite(scores).all(axis=1)
    if lost.any():
        raise DataError(
            f"row {int(np.argmax(lost))} holds values so large that its scores overflow. Look at "
            "its values, and rescale the data if they are meant."
        )
    return scores
