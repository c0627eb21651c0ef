"""New rows: y ~ N(m, CᵀC + Ψ), with C the components (K, p) and Ψ = diag(noise variances).

Correlated factors Tᵀη go through the uncorrelated η: with their components C* = T^{-1}C the
distribution of a row is the same, and scores, their covariance too, are turned by T at the end.

Everything goes through the K×K matrix A = I + CΨ^{-1}Cᵀ (Woodbury); a p×p matrix is made only
where one is asked for. For scores sparse rows are multiplied as they are, with the centring beside
them; for densities they are made dense a block at a time, since far from the mean a difference of
large squares would have no digits left.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from cuspfa._typing import Array, Indices
from cuspfa._utils.tables import Columns, data_frame, html_table
from cuspfa.data.in_memory import row_blocks
from cuspfa.errors import DataError
from cuspfa.model.slabs import LOG_2PI


class FactorScores(NamedTuple):
    """Normal distribution of each row's scores."""

    mean: Array
    """(n, K) E[η_i | y_i]."""
    covariance: Array
    """(K, K) their covariance, the same for all rows; (n, K, K), one a row, if values miss."""

    def to_frame(self) -> Any:
        """The means, by row and factor, as a data frame of pandas or, without it, of polars."""
        return data_frame(self._columns())

    def _repr_html_(self) -> str:
        return html_table(self._columns())

    def _columns(self) -> Columns:
        return {f"factor{k}": column.tolist() for k, column in enumerate(self.mean.T, 1)}


class MarginalGaussian:
    """The distribution of a row with its scores integrated out, and of its scores given the row."""

    def __init__(
        self, mean: Array, components: Array, noise_variance: Array, turn: Array | None = None
    ) -> None:
        self.mean, self.noise_variance = mean, noise_variance
        self.components = components if turn is None else turn @ components
        self.turn = turn

    @cached_property
    def _root(self) -> Array:
        """R = L^{-1} with LLᵀ = A."""
        c = self.components
        return np.linalg.inv(np.linalg.cholesky(np.eye(len(c)) + (c / self.noise_variance) @ c.T))

    @cached_property
    def score_covariance(self) -> Array:
        """A^{-1}, turned: the covariance of the factors given y, the same for all rows."""
        root = self._root if self.turn is None else self._root @ self.turn
        return np.asarray(root.T @ root)

    @cached_property
    def _weights(self) -> Array:
        """W (p, K) with E[η | y] = (y − m)W."""
        inner = self._root.T @ self._root
        return np.asarray((self.components / self.noise_variance).T @ inner)

    @cached_property
    def _score_weights(self) -> Array:
        """The same of the factors on their own axes."""
        return self._weights if self.turn is None else np.asarray(self._weights @ self.turn)

    def scores(self, rows: Any) -> Array:
        """E[η | y] of each row, (n, K)."""
        with np.errstate(over="ignore", invalid="ignore"):  # said below, with the row
            if issparse(rows):
                weights = self._score_weights
                result = np.asarray(rows @ weights - self.mean @ weights)
            else:
                blocks = [(block - self.mean) @ self._score_weights for block in row_blocks(rows)]
                result = np.concatenate(blocks) if blocks else np.zeros((0, len(self.components)))
        return check_scores(result)

    def log_density(self, rows: Any) -> Array:
        """The log of N(y; m, CᵀC + Ψ) of each row, (n,)."""
        log_det = float(np.sum(np.log(self.noise_variance)))
        log_det -= 2.0 * float(np.sum(np.log(np.diag(self._root))))
        squares = np.concatenate([np.zeros(0), *map(self._squares, row_blocks(rows))])
        return np.asarray(-0.5 * (len(self.mean) * LOG_2PI + log_det + squares))

    def _squares(self, block: Array) -> Array:
        """(y − m)ᵀΩ^{-1}(y − m) = ‖Ψ^{-1/2}(y − m − Cᵀη)‖² + ‖η‖²: no large terms subtracted.

        Infinite, for a density of zero, where a value is too large to be squared.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            residual = block - self.mean
            scores = residual @ self._weights
            residual -= scores @ self.components
            squares = residual**2 @ (1.0 / self.noise_variance) + np.sum(scores**2, axis=1)
        return np.where(np.isnan(squares), np.inf, squares)

    def covariance(self, columns: Indices | None = None) -> Array:
        """Ω, or its block for some columns."""
        part = slice(None) if columns is None else columns
        omega: Array = self.components[:, part].T @ self.components[:, part]
        omega[np.diag_indices_from(omega)] += self.noise_variance[part]
        return omega

    def precision(self) -> Array:
        """Ω^{-1} = Ψ^{-1} − Ψ^{-1}CᵀA^{-1}CΨ^{-1}."""
        scaled = self._root @ (self.components / self.noise_variance)
        result: Array = -scaled.T @ scaled
        result[np.diag_indices_from(result)] += 1.0 / self.noise_variance
        return result

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """New rows, (size, p)."""
        scores = rng.standard_normal((size, len(self.components)))
        noise = rng.standard_normal((size, len(self.mean))) * np.sqrt(self.noise_variance)
        return np.asarray(self.mean + scores @ self.components + noise)


def check_scores(scores: Array) -> Array:
    """Scores of each row, all of them numbers."""
    lost = ~np.isfinite(scores).all(axis=1)
    if lost.any():
        raise DataError(
            f"row {int(np.argmax(lost))} holds values so large that its scores overflow. Look at "
            "its values, and rescale the data if they are meant."
        )
    return scores
