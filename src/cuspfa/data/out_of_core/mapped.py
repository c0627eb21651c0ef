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

MAPPED_BLOCK_SIZE = 1 << 24
"""Numbers in a block: 128 MB. A file of float64 is not copied."""
LARGEST_MEAN_TO_SD = 1e3
"""Ratio of mean to standard deviation up to which centring after the product is precise enough: it
loses as many digits as the ratio has."""
FACTOR_MATRICES_HELD = 12
"""p×K matrices that an engine holds during an iteration."""
FACTORS_PLANNED = 50
"""Factors for which memory is planned."""


@dataclass(frozen=True)
class Mapped:
    """An array on disk with its column means and sums of squares about them."""

    array: Any
    center: Array
    squares: Array

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.array.shape[0])

    @staticmethod
    def memory(n: int, p: int) -> int:
        """Bytes that a fit needs in memory."""
        return 8 * (
            2 * min(MAPPED_BLOCK_SIZE, n * p) + FACTOR_MATRICES_HELD * p * min(FACTORS_PLANNED, n)
        )

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # overflow is refused by the caller
    def of(
        cls, reader: Any, names: list[str] | None, check: Callable[[Block, list[str] | None], None]
    ) -> Mapped:
        """Column means and sums of squares, in one pass."""
        (place, array), *_ = reader.arrays
        n, p = array.shape
        center, squares = np.empty(p), np.empty(p)
        step = max(1, MAPPED_BLOCK_SIZE // n)
        if not _by_columns(array):
            return cls(array, *_row_moments(array, place, names, check))
        for first in range(0, p, step):
            part = as_kind(array[:, first : first + step], float)
            here = slice(first, first + part.shape[1])
            center[here] = part.mean(axis=0)
            centred = part - center[here]
            squares[here] = np.einsum("ij,ij->j", centred, centred)
            if not np.all(np.isfinite(squares[here])):
                check(Block(part, f"{place}, columns from {first} on", 0), None)
        return cls(array, center, squares)


def _row_moments(
    array: Any, place: str, names: list[str] | None, check: Callable[..., None]
) -> tuple[Array, Array]:
    """Means and sums of squares by blocks of rows, merged by Chan's formula."""
    n, p = array.shape
    center, squares, done = np.zeros(p), np.zeros(p), 0
    for first, last in _row_blocks(n, p):
        part = as_kind(array[first:last], float)
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

    array: Any
    center: Array
    scale: Array
    sum_of_squares: Array
    n: float

    @property
    def dense(self) -> None:
        """None: the rows stay in their file."""

    def products(self, w: Array) -> tuple[Array, Array]:
        """YᵀYW and WᵀYᵀYW."""
        scaled = w / self.scale[:, None]
        if _by_columns(self.array):
            cross, inner = self._over_columns(scaled)
        else:
            cross, inner = self._over_rows(scaled)
        cross /= self.scale[:, None]
        return cross, inner

    def _over_rows(self, scaled: Array) -> tuple[Array, Array]:
        n, p = self.array.shape
        far, offset = self._is_far, self.center @ scaled
        cross = np.zeros(scaled.shape)
        inner, total = np.zeros((scaled.shape[1],) * 2), np.zeros(scaled.shape[1])
        for first, last in _row_blocks(n, p):
            part = np.asarray(self.array[first:last], dtype=float)
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
        n, p = self.array.shape
        step, far = max(1, MAPPED_BLOCK_SIZE // n), self._is_far
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
        part = np.asarray(self.array[:, here], dtype=float)
        return part - self.center[here] if far else part

    @property
    def _is_far(self) -> bool:
        spread = np.sqrt(self.sum_of_squares / self.n) * self.scale
        return bool(np.any(np.abs(self.center) > LARGEST_MEAN_TO_SD * spread))

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """Sufficient statistics of the rows, if these are small."""
        n, p = self.array.shape
        if largest is not None and n * p > largest:
            return None
        rows = (np.asarray(self.array[:], dtype=float) - self.center) / self.scale
        return RowMatrix(rows, self.n).statistics(None)


def _row_blocks(n: int, p: int) -> list[tuple[int, int]]:
    size = max(1, MAPPED_BLOCK_SIZE // p)
    return [(first, min(first + size, n)) for first in range(0, n, size)]


def _by_columns(array: Any) -> bool:
    """Is the array in column order?"""
    flags = getattr(array, "flags", None)
    return flags is not None and flags.f_contiguous and not flags.c_contiguous
