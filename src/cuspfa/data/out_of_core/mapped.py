"""Wide rows that stay in their file: Y is read in every iteration, block by block.

YᵀYW = Σ_i y_i (y_iᵀW): a block of rows gives its part of both products at once, so that a file in
the order of rows is read once an iteration, from its beginning to its end. A file in the order of
columns is read twice, by blocks of columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.in_memory import LARGEST_KEPT_DATA, RowMatrix
from cuspfa.data.out_of_core.block import Block, as_kind
from cuspfa.inference.kernels import Statistics

NUMBERS = 1 << 24
"""In a block: 128 MB, of which nothing is copied where the file holds float64."""
FAR = 1e3
"""Standard deviations between zero and a mean, up to which centring can wait until after the
product: it costs as many digits as this number has."""
ALIVE = 12
"""p×K matrices of an engine at work, with their copies."""
FACTORS = 50


@dataclass(frozen=True)
class Mapped:
    """An array on disk with its column means and sums of squares about them."""

    thing: Any
    center: Array
    squares: Array

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.thing.shape[0])

    @staticmethod
    def memory(n: int, p: int) -> int:
        """Bytes that a fit takes beside the file."""
        return 8 * (2 * min(NUMBERS, n * p) + ALIVE * p * min(FACTORS, n))

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # what overflowed is refused by who uses it
    def of(
        cls, reader: Any, names: list[str] | None, check: Callable[[Block, list[str] | None], None]
    ) -> Mapped:
        """Read once, for means and sums of squares."""
        (place, thing), *_ = reader.things
        n, p = thing.shape
        center, squares = np.empty(p), np.empty(p)
        step = max(1, NUMBERS // n)
        if not _by_columns(thing):
            return cls(thing, *_row_moments(thing, place, names, check))
        for first in range(0, p, step):
            part = as_kind(thing[:, first : first + step], float)
            here = slice(first, first + part.shape[1])
            center[here] = part.mean(axis=0)
            centred = part - center[here]
            squares[here] = np.einsum("ij,ij->j", centred, centred)
            if not np.all(np.isfinite(squares[here])):
                check(Block(part, f"{place}, columns from {first} on", 0), None)
        return cls(thing, center, squares)


def _row_moments(
    thing: Any, place: str, names: list[str] | None, check: Callable[..., None]
) -> tuple[Array, Array]:
    """Chan's formula for the columns alone, by blocks of rows."""
    n, p = thing.shape
    center, squares, done = np.zeros(p), np.zeros(p), 0
    for first, last in _row_blocks(n, p):
        part = as_kind(thing[first:last], float)
        mean = part.mean(axis=0)
        if not np.all(np.isfinite(mean)):
            check(Block(part, place, first), names)
        shift, size = mean - center, last - first
        part = part - mean
        squares += np.einsum("ij,ij->j", part, part) + shift**2 * (done * size / (done + size))
        center += shift * (size / (done + size))
        done += size
    return center, squares


@dataclass(frozen=True, eq=False)
class MappedMatrix:
    """Y = (X − 1cᵀ) diag(1/s) with X on disk."""

    thing: Any
    center: Array
    scale: Array
    sum_of_squares: Array
    n: float

    def products(self, w: Array) -> tuple[Array, Array]:
        """YᵀYW and WᵀYᵀYW."""
        scaled = w / self.scale[:, None]
        if _by_columns(self.thing):
            cross, inner = self._over_columns(scaled)
        else:
            cross, inner = self._over_rows(scaled)
        cross /= self.scale[:, None]
        return cross, inner

    def _over_rows(self, scaled: Array) -> tuple[Array, Array]:
        n, p = self.thing.shape
        far, offset = self._is_far, self.center @ scaled
        cross = np.zeros(scaled.shape)
        inner, total = np.zeros((scaled.shape[1],) * 2), np.zeros(scaled.shape[1])
        for first, last in _row_blocks(n, p):
            part = np.asarray(self.thing[first:last], dtype=float)
            if far:
                part = part - self.center
                scores = part @ scaled
            else:
                scores = part @ scaled - offset
                total += scores.sum(axis=0)
            cross += part.T @ scores
            inner += scores.T @ scores
        if not far:
            cross -= np.outer(self.center, total)
        return cross, inner

    def _over_columns(self, scaled: Array) -> tuple[Array, Array]:
        n, p = self.thing.shape
        step, far = max(1, NUMBERS // n), self._is_far
        scores, cross = np.zeros((n, scaled.shape[1])), np.empty(scaled.shape)
        for first in range(0, p, step):
            here = slice(first, first + step)
            scores += self._columns(here, far) @ scaled[here]
        if not far:
            scores -= self.center @ scaled
        for first in range(0, p, step):
            here = slice(first, first + step)
            cross[here] = self._columns(here, far).T @ scores
        if not far:
            cross -= np.outer(self.center, scores.sum(axis=0))
        return cross, scores.T @ scores

    def _columns(self, here: slice, far: bool) -> Array:
        part = np.asarray(self.thing[:, here], dtype=float)
        return part - self.center[here] if far else part

    @property
    def _is_far(self) -> bool:
        spread = np.sqrt(self.sum_of_squares / self.n) * self.scale
        return bool(np.any(np.abs(self.center) > FAR * spread))

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """Those of the rows, where they are few."""
        n, p = self.thing.shape
        if largest is not None and n * p > largest:
            return None
        rows = (np.asarray(self.thing[:], dtype=float) - self.center) / self.scale
        return RowMatrix(rows, self.n).statistics(None)


def _row_blocks(n: int, p: int) -> list[tuple[int, int]]:
    size = max(1, NUMBERS // p)
    return [(first, min(first + size, n)) for first in range(0, n, size)]


def _by_columns(thing: Any) -> bool:
    """Does a column lie together in the file?"""
    flags = getattr(thing, "flags", None)
    return flags is not None and flags.f_contiguous and not flags.c_contiguous
