"""Prediction for new incomplete rows: y ~ N(m, CᵀC + Ψ), some columns of which are observed.

The formulas are those of `MarginalGaussian` for the observed columns of a row. Rows with the same
pattern share their matrices. A row without any value has the prior of the scores, N(0, I).
Scores of correlated factors are transformed at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.linalg import packed
from cuspfa.missing.kernels import draw_observed_scores
from cuspfa.missing.patterns import IncompleteRows, PatternBlock, score_covariances
from cuspfa.model.likelihoods.gaussian import MarginalGaussian
from cuspfa.model.slabs import LOG_2PI
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.predictive import check_scores

MOST_PRODUCTS = 1 << 22
"""Products of loadings, p K², up to which they are kept for all patterns: 32 MB."""


class _Part(NamedTuple):
    """Rows of some patterns, and their scores given the observed values."""

    block: PatternBlock
    at: Indices
    """(r,) positions of the rows."""
    scores: Array
    """(r, K) E[η | y]."""
    covariance: Array
    """(u, K, K) of each pattern."""
    log_det: Array
    """(u,)"""

    @property
    def n_values(self) -> Array:
        """(r,) numbers of observed values."""
        return self.block.of_rows(self.block.observed.sum(axis=1))


def _one_by_one(observed: Array, components: Array, scaled: Array) -> tuple[Array, Array]:
    """`score_covariances` from components C (K, p) and Ψ^{-1}Cᵀ, for one pattern after another."""
    k, found = len(components), []
    for one in observed > 0:
        precision = np.eye(k) + components[:, one] @ scaled[one]
        found.append((np.linalg.inv(precision), -np.linalg.slogdet(precision)[1]))
    covariances, log_dets = zip(*found, strict=True)
    return np.array(covariances), np.array(log_dets)


class ObservedRows:
    """Rows with NaN where missing, and their distribution under a `MarginalGaussian`."""

    def __init__(self, distribution: MarginalGaussian, rows: Array) -> None:
        self.distribution, self.given = distribution, np.asarray(rows, dtype=float)
        self.observed: BoolArray = ~np.isnan(self.given)
        with np.errstate(over="ignore", invalid="ignore"):  # refused by `check_scores`
            residual = np.where(self.observed, self.given - distribution.mean, 0.0)
        self.data = IncompleteRows(residual, self.observed)

    def _parts(self) -> Iterator[_Part]:
        c, noise = self.distribution.components, self.distribution.noise_variance
        k, first = len(c), 0
        scaled = (c / noise).T
        few = scaled.size * k <= MOST_PRODUCTS
        signal = packed(scaled[:, :, None] * c.T[:, None, :]) if few else None
        for block in self.data.blocks(k):
            covariance, log_det = (
                _one_by_one(block.observed, c, scaled)
                if signal is None
                else score_covariances(block.observed, signal, k)
            )
            with np.errstate(over="ignore", invalid="ignore"):
                towards = block.rows @ scaled
                scores = (block.of_rows(covariance) @ towards[:, :, None])[:, :, 0]
            at = self.data.order[first : first + len(block.rows)]
            first += len(block.rows)
            yield _Part(block, at, scores, covariance, log_det)

    def scores(self) -> Array:
        """E[η | y] of each row, (n, K), on the axes of the distribution."""
        rotation = self.distribution.rotation
        return self._scores() if rotation is None else np.asarray(self._scores() @ rotation)

    def _scores(self) -> Array:
        result = np.zeros((len(self.given), len(self.distribution.components)))
        for part in self._parts():
            result[part.at] = part.scores
        return check_scores(result)

    def score_covariances(self) -> Array:
        """Covariance of η given y and the weight of y, of each row, (n, K, K)."""
        rotation = self.distribution.rotation
        k = len(self.distribution.components) if rotation is None else rotation.shape[1]
        result = np.zeros((len(self.given), k, k))
        for part in self._parts():
            own = part.covariance
            if rotation is not None:
                own = rotation.T @ own @ rotation + self.distribution.score_offset
            result[part.at] = part.block.of_rows(own) / self._weights(part)[:, None, None]
        return result

    def _squares(self, part: _Part) -> Array:
        """(r,) squared Mahalanobis distances of the observed values."""
        distribution, block = self.distribution, part.block
        with np.errstate(over="ignore", invalid="ignore"):
            residual = block.rows - part.scores @ distribution.components
            residual = np.where(block.of_rows(block.observed) > 0, residual, 0.0)
            squares = residual**2 @ (1.0 / distribution.noise_variance)
            squares += np.sum(part.scores**2, axis=1)
        return np.where(np.isnan(squares), np.inf, squares)

    def _weights(self, part: _Part) -> Array:
        """(r,) expected weights."""
        tails = self.distribution.tails
        if tails.are_normal:
            return np.ones(len(part.at))
        return tails.weights(self._squares(part), part.n_values)

    def log_density(self) -> Array:
        """Log density of the observed values of each row, (n,); 0 for a row without any value."""
        noise, result = self.distribution.noise_variance, np.zeros(len(self.given))
        for part in self._parts():
            observed = part.block.observed
            log_det = part.block.of_rows(observed @ (LOG_2PI + np.log(noise)) - part.log_det)
            result[part.at] = self.distribution.tails.log_density(
                log_det, self._squares(part), part.n_values
            )
        return result

    def filled(self) -> Array:
        """The rows with missing values replaced by expected values, (n, p)."""
        expected = self.distribution.mean + self._scores() @ self.distribution.components
        return np.where(self.observed, self.given, expected)

    def standard_deviations(self) -> Array:
        """Standard deviations of missing values given the others and their weight, (n, p)."""
        result = np.zeros_like(self.given)
        c = self.distribution.components
        for part in self._parts():
            own = np.einsum("kj,ukj->uj", c, part.covariance @ c) + self.distribution.noise_variance
            own = part.block.of_rows(own * (1.0 - part.block.observed))
            result[part.at] = np.sqrt(own / self._weights(part)[:, None])
        return result

    def draw(self, draws: Draws, means: Array, rng: np.random.Generator) -> Iterator[Array]:
        """The rows with drawn missing values, (n, p), once for each draw of the parameters."""
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

    def draw_given(
        self, covariances: Iterable[Array], means: Array, rng: np.random.Generator
    ) -> Iterator[Array]:
        """`draw` for covariance matrices (p, p) of a row, of any form, instead of loadings.

        With Q the inverse, the missing values are N(m − Q_mm^{-1}Q_mo(y − m)_o, Q_mm^{-1}/u), u
        being drawn for each row.
        """
        squares, n_values = np.zeros(len(self.given)), self.observed.sum(axis=1)
        if not self.distribution.tails.are_normal:
            for part in self._parts():
                squares[part.at] = self._squares(part)
        rows_of = [self.data.order[begin:end] for begin, end in pairwise(self.data.starts.tolist())]
        for covariance, mean in zip(covariances, means, strict=True):
            precision, filled = np.linalg.inv(covariance), self.given.copy()
            noise = np.zeros_like(filled)
            noise[~self.observed] = rng.standard_normal(np.count_nonzero(~self.observed))
            weights = self.distribution.tails.draw_weights(squares, n_values, rng)
            noise /= np.sqrt(weights)[:, None]
            for pattern, rows in zip(self.data.patterns, rows_of, strict=True):
                m = np.flatnonzero(~pattern)
                if not len(m):
                    continue
                known = self.given[np.ix_(rows, np.flatnonzero(pattern))] - mean[pattern]
                root = np.linalg.cholesky(precision[np.ix_(m, m)])
                towards = precision[np.ix_(m, np.flatnonzero(pattern))] @ known.T
                shift = np.linalg.solve(root, towards)
                change = np.linalg.solve(root.T, noise[np.ix_(rows, m)].T - shift)
                filled[np.ix_(rows, m)] = mean[m] + change.T
            yield filled
