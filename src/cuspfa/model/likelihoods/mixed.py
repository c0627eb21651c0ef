"""Columns of several kinds side by side: each cell is left to the likelihood of its column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.model.likelihoods.base import CellExpectations, Likelihood, TiltedMoments
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood

READERS: dict[str, Callable[[dict[str, Any]], tuple[Likelihood, Any]]] = {
    "ordinal": OrdinalLikelihood.from_json,
    "continuous": ContinuousLikelihood.from_json,
}
"""The likelihoods that a part may be, by their names in files."""


class Part(NamedTuple):
    """A likelihood and the columns of the table that it has."""

    likelihood: Likelihood
    columns: Indices


@dataclass(frozen=True)
class MixedLikelihood:
    """p columns; the parameters are a tuple of those of the parts."""

    parts: tuple[Part, ...]

    @property
    def p(self) -> int:
        """Number of columns."""
        return sum(len(part.columns) for part in self.parts)

    def check(self, rows: Any) -> Array:
        """The values of all parts."""
        table = np.asarray(rows, dtype=float)
        values = np.empty(table.shape)
        for part in self.parts:
            values[:, part.columns] = part.likelihood.check(table[:, part.columns])
        return values

    def initial(self, values: Array) -> tuple[Any, ...]:
        """Those of each part."""
        return tuple(part.likelihood.initial(values[:, part.columns]) for part in self.parts)

    def expectations(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> CellExpectations:
        """Column by column."""
        found = CellExpectations(*np.empty((3, *mean.shape)))
        for part, own in zip(self.parts, parameters, strict=True):
            at = (slice(None), part.columns)
            cells = part.likelihood.expectations(values[at], mean[at], variance[at], own)
            for whole, piece in zip(found, cells, strict=True):
                whole[at] = piece
        return found

    def tilted(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> TiltedMoments:
        """Column by column."""
        found = TiltedMoments(*np.empty((3, *mean.shape)))
        for part, own in zip(self.parts, parameters, strict=True):
            at = (slice(None), part.columns)
            cells = part.likelihood.tilted(values[at], mean[at], variance[at], own)
            for whole, piece in zip(found, cells, strict=True):
                whole[at] = piece
        return found

    def update(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """That of each part."""
        found = []
        for part, own in zip(self.parts, parameters, strict=True):
            at = (slice(None), part.columns)
            found.append(part.likelihood.update(values[at], mean[at], variance[at], own))
        return tuple(found)

    def shifted(self, parameters: tuple[Any, ...], amount: Array) -> tuple[Any, ...]:
        """That of each part."""
        pairs = zip(self.parts, parameters, strict=True)
        return tuple(part.likelihood.shifted(own, amount[part.columns]) for part, own in pairs)

    def log_prior(self, parameters: tuple[Any, ...]) -> float:
        """The sum over the parts."""
        pairs = zip(self.parts, parameters, strict=True)
        return sum(part.likelihood.log_prior(own) for part, own in pairs)

    def log_density(self, values: Array, linear: Array, parameters: tuple[Any, ...]) -> Array:
        """Column by column."""
        found = np.empty(linear.shape)
        for part, own in zip(self.parts, parameters, strict=True):
            at = (..., part.columns)
            found[at] = part.likelihood.log_density(values[at], linear[at], own)
        return found

    def sample(self, linear: Array, parameters: tuple[Any, ...], rng: np.random.Generator) -> Array:
        """Column by column."""
        found = np.empty(linear.shape)
        for part, own in zip(self.parts, parameters, strict=True):
            at = (..., part.columns)
            found[at] = part.likelihood.sample(linear[at], own, rng)
        return found

    def mean(self, mean: Array, variance: Array, parameters: tuple[Any, ...]) -> Array:
        """Column by column."""
        found = np.empty(mean.shape)
        for part, own in zip(self.parts, parameters, strict=True):
            at = (..., part.columns)
            found[at] = part.likelihood.mean(mean[at], variance[at], own)
        return found

    def to_json(self, parameters: tuple[Any, ...]) -> dict[str, Any]:
        """Parts and their columns."""
        pairs = zip(self.parts, parameters, strict=True)
        return {
            "likelihood": "mixed",
            "parts": [part.likelihood.to_json(own) for part, own in pairs],
            "columns": [part.columns.tolist() for part in self.parts],
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> tuple[MixedLikelihood, tuple[Any, ...]]:
        """What `to_json` made."""
        made = [READERS[part["likelihood"]](part) for part in saved["parts"]]
        columns = [np.array(own, dtype=np.intp) for own in saved["columns"]]
        parts = [Part(one, own) for (one, _), own in zip(made, columns, strict=True)]
        return cls(tuple(parts)), tuple(parameters for _, parameters in made)

    def describe(self, parameters: tuple[Any, ...]) -> list[dict[str, Any]]:
        """A row for each column, in the order of the table."""
        rows: list[dict[str, Any]] = [{} for _ in range(self.p)]
        for part, own in zip(self.parts, parameters, strict=True):
            described = part.likelihood.describe(own)
            for j, row in zip(part.columns, described, strict=True):
                rows[j] = row
        return rows
