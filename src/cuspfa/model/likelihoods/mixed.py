"""Columns of several kinds side by side: each cell is left to the likelihood of its column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.model.likelihoods.base import (
    CellExpectations,
    Intervals,
    Likelihood,
    PseudoData,
    ResponsePrior,
    Tangents,
    TiltedMoments,
)
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood
from cuspfa.model.likelihoods.counts import CountLikelihood
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood

READERS: dict[str, Callable[[dict[str, Any]], tuple[Likelihood, Any]]] = {
    "ordinal": OrdinalLikelihood.from_json,
    "continuous": ContinuousLikelihood.from_json,
    "counts": CountLikelihood.from_json,
}
"""The likelihoods that a part may be, by their names in files."""


class Part(NamedTuple):
    """A likelihood and the columns of the table that it has."""

    likelihood: Likelihood
    columns: Indices

    @property
    def places(self) -> Indices:
        """Its columns of values: for counts the last one too, which has the offsets."""
        return np.append(self.columns, -1) if self.has_offset else self.columns

    @property
    def has_offset(self) -> bool:
        """Are these counts?"""
        return isinstance(self.likelihood, CountLikelihood)


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
            values[:, part.places] = part.likelihood.check(table[:, part.places])
        return values

    @property
    def has_offset(self) -> bool:
        """Have rows and values one more column, the offsets of counts?"""
        return any(part.has_offset for part in self.parts)

    def initial(self, values: Array) -> tuple[Any, ...]:
        """Those of each part."""
        return tuple(part.likelihood.initial(values[:, part.places]) for part in self.parts)

    def expectations(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> CellExpectations:
        """Column by column."""
        found = CellExpectations(*np.empty((3, *mean.shape)))
        for part, own in zip(self.parts, parameters, strict=True):
            at = (slice(None), part.columns)
            cells = part.likelihood.expectations(
                values[:, part.places], mean[at], variance[at], own
            )
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
            cells = part.likelihood.tilted(values[:, part.places], mean[at], variance[at], own)
            for whole, piece in zip(found, cells, strict=True):
                whole[at] = piece
        return found

    def tilted_further(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> tuple[Array, Array]:
        """Column by column."""
        found = np.empty((2, *mean.shape))
        for part, own in zip(self.parts, parameters, strict=True):
            at = (slice(None), part.columns)
            found[:, :, part.columns] = part.likelihood.tilted_further(
                values[:, part.places], mean[at], variance[at], own
            )
        return found[0], found[1]

    def update(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """New parameters of each part, by its own rule."""
        found = []
        for part, own in zip(self.parts, parameters, strict=True):
            at = (slice(None), part.columns)
            found.append(
                part.likelihood.update(values[:, part.places], mean[at], variance[at], own)
            )
        return tuple(found)

    def shifted(self, parameters: tuple[Any, ...], amount: Array) -> tuple[Any, ...]:
        """Parameters of each part, moved by the amounts of its columns."""
        pairs = zip(self.parts, parameters, strict=True)
        return tuple(part.likelihood.shifted(own, amount[..., part.columns]) for part, own in pairs)

    def start(self, values: Array, shares: Array) -> tuple[tuple[Any, ...], Array]:
        """Parameters to start from, and standard deviations, of each part."""
        found, scales = [], np.empty(self.p)
        for part in self.parts:
            own, scales[part.columns] = part.likelihood.start(
                values[:, part.places], shares[part.columns]
            )
            found.append(own)
        return tuple(found), scales

    def pack(self, parameters: tuple[Any, ...]) -> Array:
        """One part after the other."""
        pairs = zip(self.parts, parameters, strict=True)
        return np.concatenate([part.likelihood.pack(own) for part, own in pairs], axis=-1)

    def unpack(self, packed: Array) -> tuple[Any, ...]:
        """What `pack` made."""
        own = [packed[..., at] for at in self._places]
        pairs = zip(self.parts, own, strict=True)
        return tuple(part.likelihood.unpack(numbers) for part, numbers in pairs)

    def log_packed_prior(self, packed: Array) -> Array:
        """The sum over the parts."""
        pairs = zip(self.parts, self._places, strict=True)
        own = [part.likelihood.log_packed_prior(packed[..., at]) for part, at in pairs]
        return np.asarray(np.sum(own, axis=0))

    def packed_prior_derivatives(self, packed: Array) -> tuple[Array, Array]:
        """Blocks of the parts."""
        gradient, curvature = np.zeros(len(packed)), np.zeros((len(packed), len(packed)))
        for part, at in zip(self.parts, self._places, strict=True):
            gradient[at], curvature[at, at] = part.likelihood.packed_prior_derivatives(packed[at])
        return gradient, curvature

    def intervals(self, values: Array, parameters: tuple[Any, ...]) -> Intervals | None:
        """Column by column; None if one part has none."""
        found = Intervals(np.empty(values.shape), np.empty(values.shape), np.empty(self.p))
        for part, own in zip(self.parts, parameters, strict=True):
            cells = part.likelihood.intervals(values[:, part.places], own)
            if cells is None:
                return None
            for whole, piece in zip(found, cells, strict=True):
                whole[..., part.columns] = piece
        return found

    def tilted_gradient(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> Array:
        """One part after the other."""
        found = []
        for part, own in zip(self.parts, parameters, strict=True):
            at = (slice(None), part.columns)
            found.append(
                part.likelihood.tilted_gradient(values[:, part.places], mean[at], variance[at], own)
            )
        return np.concatenate(found, axis=1)

    def draw(
        self,
        values: Array,
        linear: Array,
        parameters: tuple[Any, ...],
        rng: np.random.Generator,
    ) -> tuple[tuple[Any, ...], PseudoData]:
        """Column by column; precisions of cells if a part needs them."""
        found, drawn = [], []
        for part, own in zip(self.parts, parameters, strict=True):
            at = (..., part.columns)
            known, pseudo = part.likelihood.draw(values[..., part.places], linear[at], own, rng)
            found.append(known)
            drawn.append(pseudo)
        z, by_cell = np.empty(linear.shape), any(one.precision.ndim == 3 for one in drawn)
        precision = np.empty(linear.shape if by_cell else linear[:, 0].shape)
        for part, one in zip(self.parts, drawn, strict=True):
            z[..., part.columns] = one.values
            alone = by_cell and one.precision.ndim == 2
            own = one.precision[:, None, :] if alone else one.precision
            precision[..., part.columns] = own
        return tuple(found), PseudoData(z, precision)

    @property
    def direct(self) -> BoolArray:
        """Column by column."""
        found = np.zeros(self.p, dtype=np.bool_)
        for part in self.parts:
            found[part.columns] = part.likelihood.direct
        return found

    def tangents(self, values: Array, linear: Array, parameters: tuple[Any, ...]) -> Tangents:
        """Column by column."""
        found = Tangents(*np.empty((3, *linear.shape)))
        for part, own in zip(self.parts, parameters, strict=True):
            at = (..., part.columns)
            cells = part.likelihood.tangents(values[..., part.places], linear[at], own)
            for whole, piece in zip(found, cells, strict=True):
                whole[at] = piece
        return found

    def first_linear(self, values: Array, parameters: tuple[Any, ...]) -> Array:
        """Column by column."""
        pairs = zip(self.parts, parameters, strict=True)
        own = [part.likelihood.first_linear(values[..., part.places], one) for part, one in pairs]
        found = np.empty((*own[0].shape[:-1], self.p))
        for part, piece in zip(self.parts, own, strict=True):
            found[..., part.columns] = piece
        return found

    @property
    def packed_owner(self) -> Indices:
        """Column by column."""
        return np.concatenate([part.columns[part.likelihood.packed_owner] for part in self.parts])

    def start_values(self, values: Array) -> Array:
        """Column by column."""
        found = np.empty((len(values), self.p))
        for part in self.parts:
            found[:, part.columns] = part.likelihood.start_values(values[:, part.places])
        return found

    def response_prior(self, parameters: tuple[Any, ...]) -> ResponsePrior:
        """Column by column."""
        pairs = zip(self.parts, parameters, strict=True)
        made = [part.likelihood.response_prior(own) for part, own in pairs]
        numbers = np.empty((4, *made[0].precision.shape[:-1], self.p))
        found = ResponsePrior(
            numbers[0], numbers[1], numbers[2], numbers[3], np.zeros(self.p, dtype=bool)
        )
        for part, one in zip(self.parts, made, strict=True):
            for whole, piece in zip(found, one, strict=True):
                whole[..., part.columns] = piece
        return found

    def rescaled(self, parameters: tuple[Any, ...], factor: Array) -> tuple[Any, ...]:
        """Parameters of each part times the factors of its columns."""
        pairs = zip(self.parts, parameters, strict=True)
        return tuple(
            part.likelihood.rescaled(own, factor[..., part.columns]) for part, own in pairs
        )

    @cached_property
    def _places(self) -> list[slice]:
        """Of the packed parameters of each part."""
        sizes = [part.likelihood.n_packed for part in self.parts]
        ends = np.cumsum([0, *sizes])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    @property
    def n_packed(self) -> int:
        """Number of packed parameters."""
        return sum(part.likelihood.n_packed for part in self.parts)

    def log_prior(self, parameters: tuple[Any, ...]) -> float:
        """The sum over the parts."""
        pairs = zip(self.parts, parameters, strict=True)
        return sum(part.likelihood.log_prior(own) for part, own in pairs)

    def response_variance(self, parameters: tuple[Any, ...]) -> Array:
        """Column by column."""
        pairs = zip(self.parts, parameters, strict=True)
        own = [part.likelihood.response_variance(known) for part, known in pairs]
        found = np.empty((*own[0].shape[:-1], self.p))
        for part, piece in zip(self.parts, own, strict=True):
            found[..., part.columns] = piece
        return found

    def log_density(self, values: Array, linear: Array, parameters: tuple[Any, ...]) -> Array:
        """Column by column."""
        found = np.empty(linear.shape)
        for part, own in zip(self.parts, parameters, strict=True):
            at = (..., part.columns)
            found[at] = part.likelihood.log_density(values[..., part.places], linear[at], own)
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
