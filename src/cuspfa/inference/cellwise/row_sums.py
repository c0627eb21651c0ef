"""Sums over rows at loadings and parameters, which a step to the mode needs.

Rows of a table that fits with its weights are propagated together and remembered, so that the next
step begins at their factors. Rows by blocks are propagated anew, a block at a time, in one pass:
what is kept of them is log p, the gradient and the products of the gradients of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.inference.cellwise.information import InformationWay, louis_information
from cuspfa.inference.cellwise.marginal import (
    EP_TOLERANCE,
    DistinctRows,
    Propagated,
    cavities_of,
    corrections,
    propagate,
    row_gradients,
)
from cuspfa.model.likelihoods.base import Likelihood

NUMBERS_OF_A_CELL = 30
"""Numbers that are held at once for each value of the rows that are propagated together."""
NUMBERS_OF_A_BLOCK = 8_000_000
"""Of all rows of a block."""
MOST_START_ROWS = 50_000
"""Rows, evenly spaced, that a start is computed from where rows come by blocks."""


class RowsAt(Protocol):
    """Rows at loadings and parameters, by EP."""

    @property
    def log_likelihood(self) -> float:
        """Σ_i log p(x_i)."""

    @property
    def converged(self) -> bool:
        """Has EP converged for every row?"""

    def sums(
        self,
        likelihood: Likelihood,
        parameters: Any,
        loadings: Array,
        way: InformationWay = "products",
    ) -> SummedGradients:
        """At the same loadings and parameters, with information of this kind."""

    def rotated(self, axes: Array) -> Self:
        """At loadings times these axes (K, K)."""


class SummedGradients(NamedTuple):
    """Of the log probabilities of rows by loadings, row by row of Λ, and packed parameters."""

    gradient: Array
    """(d,) Σ_i g_i."""
    information: Array
    """(d, d) Σ_i g_i g_iᵀ, or that of `louis_information`."""


class PropagatedRows(NamedTuple):
    """Rows that are remembered with their factors."""

    rows: DistinctRows
    found: Propagated

    @property
    def log_likelihood(self) -> float:
        """Σ_i log p(x_i)."""
        return float(self.rows.counts @ self.found.log_probability)

    @property
    def converged(self) -> bool:
        """Has EP converged for every row?"""
        return self.found.converged

    def sums(
        self,
        likelihood: Likelihood,
        parameters: Any,
        loadings: Array,
        way: InformationWay = "products",
    ) -> SummedGradients:
        """At the same loadings and parameters, with information of this kind."""
        values, counts = self.rows.values, self.rows.counts
        cavities = cavities_of(self.found, loadings)
        own = row_gradients(self.found, values, likelihood, parameters, loadings)
        by_row = np.concatenate(
            [
                own.reshape(len(values), loadings.size),
                likelihood.tilted_gradient(values, *cavities, parameters),
            ],
            axis=1,
        )
        if way == "products":
            return SummedGradients(counts @ by_row, by_row.T @ (counts[:, None] * by_row))
        information = louis_information(
            values,
            counts,
            likelihood,
            parameters,
            loadings,
            self.found.scores,
            known_scores=way == "known scores",
        )
        return SummedGradients(counts @ by_row, information)

    def rotated(self, axes: Array) -> PropagatedRows:
        """At loadings times these axes."""
        scores = self.found.scores.rotated(axes.T, 0.0)
        return PropagatedRows(self.rows, self.found._replace(scores=scores))


class SummedRows(NamedTuple):
    """Rows of which only sums are left."""

    log_likelihood: float
    converged: bool
    gradients: SummedGradients
    n_packed: int
    """Packed parameters, the last of the numbers of the gradient."""

    def sums(
        self,
        likelihood: Likelihood,
        parameters: Any,
        loadings: Array,
        way: InformationWay = "products",
    ) -> SummedGradients:
        """Sums of the pass over the rows, with the information that this pass was made for."""
        return self.gradients

    def rotated(self, axes: Array) -> SummedRows:
        """At loadings times these axes."""
        (gradient, information), k = self.gradients, len(axes)
        if not k:
            return self
        d = len(gradient)
        turn = np.eye(d)
        p = (d - self.n_packed) // k
        turn[: p * k, : p * k] = np.kron(np.eye(p), axes)
        turned = SummedGradients(gradient @ turn, turn.T @ information @ turn)
        return self._replace(gradients=turned)


class RowBlocks:
    """Rows as a likelihood checks them, whose weights are too many to be held."""

    def __init__(self, rows: Array, likelihood: Likelihood) -> None:
        self.rows, self._likelihood = rows, likelihood
        self._likelihood_width = len(likelihood.direct)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), self._likelihood_width

    @cached_property
    def counted(self) -> float:
        """Mean number of values of a column."""
        p = self.shape[1]
        parts = [np.sum(~np.isnan(self.rows[at, :p])) for at in self._blocks(1)]
        return float(sum(parts) / p)

    @cached_property
    def start_rows(self) -> Array:
        """Values of evenly spaced rows."""
        step = -(-len(self.rows) // MOST_START_ROWS)
        return self._likelihood.check(self.rows[::step])

    def propagated(
        self,
        parameters: Any,
        loadings: Array,
        tolerance: float = EP_TOLERANCE,
        way: InformationWay = "products",
    ) -> SummedRows:
        """Sums over all rows, in one pass, with information of this kind."""
        d = loadings.size + self._likelihood.n_packed
        total, converged = 0.0, True
        gradient, information = np.zeros(d), np.zeros((d, d))
        for block in self._values(loadings.shape[1]):
            found = propagate(
                block.values, self._likelihood, parameters, loadings, tolerance=tolerance
            )
            own = PropagatedRows(block, found)
            sums = own.sums(self._likelihood, parameters, loadings, way)
            total += own.log_likelihood
            converged &= found.converged
            gradient += sums.gradient
            information += sums.information
        sums = SummedGradients(gradient, information)
        return SummedRows(total, converged, sums, self._likelihood.n_packed)

    def corrections(self, parameters: Any, loadings: Array) -> float:
        """What Σ_i log p(x_i) has beyond EP; see `marginal.corrections`."""
        total = 0.0
        for block in self._values(loadings.shape[1]):
            given = self._likelihood, parameters, loadings
            found = propagate(block.values, *given)
            total += float(block.counts @ corrections(found, block.values, *given))
        return total

    def _blocks(self, k: int) -> Iterator[slice]:
        size = max(NUMBERS_OF_A_BLOCK // numbers_of_a_row(self._likelihood, self.shape[1], k), 1)
        for first in range(0, len(self.rows), size):
            yield slice(first, first + size)

    def _values(self, k: int) -> Iterator[DistinctRows]:
        none: Indices = np.zeros(0, dtype=np.intp)
        for at in self._blocks(k):
            values = self._likelihood.check(self.rows[at])
            yield DistinctRows(values, np.ones(len(values)), none)


def numbers_of_a_row(likelihood: Likelihood, p: int, k: int) -> int:
    """Numbers that are held at once for each row that is propagated, with its gradient."""
    return NUMBERS_OF_A_CELL * p + 2 * (p * k + likelihood.n_packed) + 4 * k * k


def propagated_at(
    rows: DistinctRows | RowBlocks,
    likelihood: Likelihood,
    parameters: Any,
    loadings: Array,
    start: RowsAt | None = None,
    tolerance: float = EP_TOLERANCE,
    way: InformationWay = "products",
) -> RowsAt:
    """Rows at loadings and parameters; `start` are the same rows nearby.

    Rows by blocks have information of the kind `way` alone.
    """
    if isinstance(rows, RowBlocks):
        return rows.propagated(parameters, loadings, tolerance, way)
    begin = start.found if isinstance(start, PropagatedRows) else None
    found = propagate(rows.values, likelihood, parameters, loadings, begin, tolerance)
    return PropagatedRows(rows, found)
