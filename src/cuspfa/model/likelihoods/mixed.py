"""Columns of several kinds side by side: each cell is left to the likelihood of its column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.model.likelihoods.base import (
    CellExpectations,
    ColumnParameters,
    Intervals,
    Likelihood,
    PseudoData,
    ResponsePrior,
    Tangents,
    TiltedMoments,
)


class Part(NamedTuple):
    """A likelihood and the columns of the table that it has."""

    likelihood: Likelihood
    columns: Indices

    @property
    def places(self) -> Indices:
        """Its columns of values: for counts the last one too, which has the offsets."""
        return np.append(self.columns, -1) if self.likelihood.has_offset else self.columns


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
        return any(part.likelihood.has_offset for part in self.parts)

    def initial(self, values: Array) -> tuple[Any, ...]:
        """Those of each part."""
        return tuple(part.likelihood.initial(values[:, part.places]) for part in self.parts)

    def expectations(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> CellExpectations:
        """Column by column."""
        cells = self._cells(values, mean, variance, parameters)
        return CellExpectations(*self._joined([one.expectations(*own) for one, own in cells]))

    def tilted(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> TiltedMoments:
        """Column by column."""
        cells = self._cells(values, mean, variance, parameters)
        return TiltedMoments(*self._joined([one.tilted(*own) for one, own in cells]))

    def tilted_further(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> tuple[Array, Array]:
        """Column by column."""
        cells = self._cells(values, mean, variance, parameters)
        third, fourth = self._joined([one.tilted_further(*own) for one, own in cells])
        return third, fourth

    def _cells(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> Iterator[tuple[Likelihood, tuple[Array, Array, Array, Any]]]:
        """The likelihood of each part, and its share of such arguments."""
        for part, own in zip(self.parts, parameters, strict=True):
            at = (slice(None), part.columns)
            yield part.likelihood, (values[:, part.places], mean[at], variance[at], own)

    def _joined(self, pieces: Sequence[Sequence[Any]]) -> list[Any]:
        """Arrays of the columns of each part as arrays of all columns, on their last axis."""
        found = []
        for own in zip(*pieces, strict=True):
            lead = np.broadcast_shapes(*(piece.shape[:-1] for piece in own))
            whole = np.empty((*lead, self.p), own[0].dtype)
            for part, piece in zip(self.parts, own, strict=True):
                whole[..., part.columns] = piece
            found.append(whole)
        return found

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
        pairs = zip(self.parts, parameters, strict=True)
        found = [part.likelihood.intervals(values[:, part.places], own) for part, own in pairs]
        known = [one for one in found if one is not None]
        return Intervals(*self._joined(known)) if len(known) == len(found) else None

    def tilted_gradient(
        self, values: Array, mean: Array, variance: Array, parameters: tuple[Any, ...]
    ) -> Array:
        """One part after the other."""
        cells = self._cells(values, mean, variance, parameters)
        return np.concatenate([one.tilted_gradient(*own) for one, own in cells], axis=1)

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
    def exact_information(self) -> BoolArray:
        """Column by column."""
        own = [(part.likelihood.exact_information,) for part in self.parts]
        found: BoolArray = self._joined(own)[0]
        return found

    @property
    def direct(self) -> BoolArray:
        """Column by column."""
        found: BoolArray = self._joined([(part.likelihood.direct,) for part in self.parts])[0]
        return found

    def tangents(self, values: Array, linear: Array, parameters: tuple[Any, ...]) -> Tangents:
        """Column by column."""
        found = [
            part.likelihood.tangents(values[..., part.places], linear[..., part.columns], own)
            for part, own in zip(self.parts, parameters, strict=True)
        ]
        return Tangents(*self._joined(found))

    def first_linear(self, values: Array, parameters: tuple[Any, ...]) -> Array:
        """Column by column."""
        found = [
            (part.likelihood.first_linear(values[..., part.places], own),)
            for part, own in zip(self.parts, parameters, strict=True)
        ]
        return np.asarray(self._joined(found)[0])

    @property
    def packed_owner(self) -> Indices:
        """Column by column."""
        return np.concatenate([part.columns[part.likelihood.packed_owner] for part in self.parts])

    def start_values(self, values: Array) -> Array:
        """Column by column."""
        own = [(part.likelihood.start_values(values[:, part.places]),) for part in self.parts]
        return np.asarray(self._joined(own)[0])

    def response_prior(self, parameters: tuple[Any, ...]) -> ResponsePrior:
        """Column by column."""
        pairs = zip(self.parts, parameters, strict=True)
        found = self._joined([part.likelihood.response_prior(own) for part, own in pairs])
        return ResponsePrior(*found)

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

    def response_variance(self, parameters: tuple[Any, ...]) -> Array:
        """Column by column."""
        pairs = zip(self.parts, parameters, strict=True)
        found = [(part.likelihood.response_variance(own),) for part, own in pairs]
        return np.asarray(self._joined(found)[0])

    def log_density(self, values: Array, linear: Array, parameters: tuple[Any, ...]) -> Array:
        """Column by column."""
        found = [
            (part.likelihood.log_density(values[..., part.places], linear[..., part.columns], own),)
            for part, own in zip(self.parts, parameters, strict=True)
        ]
        return np.asarray(self._joined(found)[0])

    def sample(self, linear: Array, parameters: tuple[Any, ...], rng: np.random.Generator) -> Array:
        """Column by column."""
        found = [
            (part.likelihood.sample(linear[..., part.columns], own, rng),)
            for part, own in zip(self.parts, parameters, strict=True)
        ]
        return np.asarray(self._joined(found)[0])

    def mean(self, mean: Array, variance: Array, parameters: tuple[Any, ...]) -> Array:
        """Column by column."""
        found = [
            (part.likelihood.mean(mean[..., part.columns], variance[..., part.columns], own),)
            for part, own in zip(self.parts, parameters, strict=True)
        ]
        return np.asarray(self._joined(found)[0])

    def by_column(self, parameters: tuple[Any, ...]) -> ColumnParameters:
        """Column by column."""
        pairs = zip(self.parts, parameters, strict=True)
        found = [part.likelihood.by_column(own) for part, own in pairs]
        location, variance, dispersion = self._joined([(one[0], one[1], one[3]) for one in found])
        thresholds = {
            int(j): own
            for part, one in zip(self.parts, found, strict=True)
            for j, own in zip(part.columns, one.thresholds, strict=True)
        }
        return ColumnParameters(
            location, variance, [thresholds[j] for j in range(self.p)], dispersion
        )

    def from_columns(self, known: ColumnParameters) -> tuple[Any, ...]:
        """Those of each part."""
        location, variance, thresholds, dispersion = known
        return tuple(
            part.likelihood.from_columns(
                ColumnParameters(
                    location[..., part.columns],
                    variance[..., part.columns],
                    [thresholds[int(j)] for j in part.columns],
                    dispersion[..., part.columns],
                )
            )
            for part in self.parts
        )
