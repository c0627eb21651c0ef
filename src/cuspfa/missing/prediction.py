"""New incomplete rows: y ~ N(m, CᵀC + Ψ), of which each row has some columns.

The same formulas as in `cuspfa.posterior.predictive` with the columns that a row has; rows with the
same missing values share their matrices. A row without any value has the scores' prior, N(0, I).
Correlated factors are turned at the end, as there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.missing.kernels import draw_observed_scores
from cuspfa.missing.patterns import IncompleteRows, PatternBlock, packed, score_covariances
from cuspfa.model.slabs import LOG_2PI
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.predictive import MarginalGaussian, check_scores


class _Part(NamedTuple):
    """Rows of some patterns, and their scores given what they show."""

    block: PatternBlock
    at: Indices
    """(r,) which rows these are."""
    scores: Array
    """(r, K) E[η | y]."""
    covariance: Array
    """(u, K, K) of each pattern."""
    log_det: Array
    """(u,)"""


class ObservedRows:
    """Rows with NaN where missing, and their distribution under a `MarginalGaussian`."""

    def __init__(self, distribution: MarginalGaussian, rows: Array) -> None:
        self.distribution, self.given = distribution, np.asarray(rows, dtype=float)
        self.observed: BoolArray = ~np.isnan(self.given)
        with np.errstate(over="ignore", invalid="ignore"):  # said below, with the row
            residual = np.where(self.observed, self.given - distribution.mean, 0.0)
        self.data = IncompleteRows(residual, self.observed)

    def _parts(self) -> Iterator[_Part]:
        c, noise = self.distribution.components, self.distribution.noise_variance
        k, first = len(c), 0
        scaled = (c / noise).T
        signal = packed(scaled[:, :, None] * c.T[:, None, :])
        for block in self.data.blocks(k):
            covariance, log_det = score_covariances(block.observed, signal, k)
            with np.errstate(over="ignore", invalid="ignore"):
                towards = block.rows @ scaled
                scores = (block.of_rows(covariance) @ towards[:, :, None])[:, :, 0]
            at = self.data.order[first : first + len(block.rows)]
            first += len(block.rows)
            yield _Part(block, at, scores, covariance, log_det)

    def scores(self) -> Array:
        """E[η | y] of each row, (n, K), on the axes of the distribution."""
        turn = self.distribution.turn
        return self._scores() if turn is None else np.asarray(self._scores() @ turn)

    def _scores(self) -> Array:
        result = np.zeros((len(self.given), len(self.distribution.components)))
        for part in self._parts():
            result[part.at] = part.scores
        return check_scores(result)

    def score_covariances(self) -> Array:
        """Covariance of η given y, of each row, (n, K, K)."""
        k = len(self.distribution.components)
        result = np.zeros((len(self.given), k, k))
        for part in self._parts():
            result[part.at] = part.block.of_rows(part.covariance)
        turn = self.distribution.turn
        return result if turn is None else np.asarray(turn.T @ result @ turn)

    def log_density(self) -> Array:
        """Log density of what each row shows, (n,); 0 for a row that shows nothing."""
        noise, result = self.distribution.noise_variance, np.zeros(len(self.given))
        for part in self._parts():
            observed = part.block.observed
            constant = observed @ (LOG_2PI + np.log(noise)) - part.log_det
            with np.errstate(over="ignore", invalid="ignore"):
                residual = part.block.rows - part.scores @ self.distribution.components
                residual = np.where(part.block.of_rows(observed) > 0, residual, 0.0)
                squares = residual**2 @ (1.0 / noise) + np.sum(part.scores**2, axis=1)
            squares = np.where(np.isnan(squares), np.inf, squares)
            result[part.at] = -0.5 * (part.block.of_rows(constant) + squares)
        return result

    def filled(self) -> Array:
        """The rows with expected values where values are missing, (n, p)."""
        expected = self.distribution.mean + self._scores() @ self.distribution.components
        return np.where(self.observed, self.given, expected)

    def standard_deviations(self) -> Array:
        """Of missing values given what their rows show, (n, p); 0 where observed."""
        result = np.zeros_like(self.given)
        c = self.distribution.components
        for part in self._parts():
            own = np.einsum("kj,ukj->uj", c, part.covariance @ c) + self.distribution.noise_variance
            result[part.at] = np.sqrt(part.block.of_rows(own * (1.0 - part.block.observed)))
        return result

    def draw(self, draws: Draws, means: Array, rng: np.random.Generator) -> Iterator[Array]:
        """The rows with missing values drawn, (n, p), once for each draw of the parameters."""
        row, column = np.nonzero(~self.observed)
        place = np.empty(len(self.given), dtype=np.intp)
        place[self.data.order] = np.arange(len(place))
        for loadings, noise, mean in zip(draws.loadings, draws.noise_variance, means, strict=True):
            scores = draw_observed_scores(
                self.data, loadings, noise, mean - self.distribution.mean, rng
            )
            filled = self.given.copy()
            values = mean[column] + np.sum(loadings[column] * scores[place[row]], axis=1)
            filled[row, column] = values + np.sqrt(noise[column]) * rng.standard_normal(len(row))
            yield filled
