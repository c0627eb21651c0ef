"""Count, mean and centred cross-products of rows that come block by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._typing import Array


class Sums:
    """Sums of blocks, each centred at its own mean and merged by Chan, Golub & LeVeque's formula.

    Σy² − nȳ² would lose digits where means are large. Beside the sums, memory is needed for one
    block and one p×p matrix.
    """

    def __init__(self, p: int) -> None:
        self.n = 0
        self.mean: Array = np.zeros(p)
        self.cross: Array = np.zeros((p, p))
        self._product: Array | None = None
        self._centred: Array | None = None

    @np.errstate(
        over="ignore", invalid="ignore"
    )  # sums that overflow are refused where they are used
    def add(self, block: Any) -> None:
        """Add a block of rows (m, p) in either order; float32 rows are multiplied in float32."""
        size = len(block)
        if not size:
            return
        kind = np.float32 if block.dtype == np.float32 else np.float64
        block_mean = block.mean(axis=0, dtype=float)
        shift = block_mean - self.mean
        # The shift of the mean is one more row: √(nm/(n+m)) times the shift.
        centred = self._room(size + 1, kind, "C" if _by_rows(block) else "F")
        np.subtract(block, block_mean, out=centred[:size], casting="same_kind")
        centred[size] = shift * np.sqrt(self.n * size / (self.n + size))
        if self._product is None or self._product.dtype != kind:
            self._product = np.empty(self.cross.shape, kind)
        # NumPy uses the symmetry of this product and releases the GIL for the reading thread.
        np.matmul(centred.T, centred, out=self._product)
        self.cross += self._product
        self.mean += shift * (size / (self.n + size))
        self.n += size

    def alone(self) -> Sums:
        """Drop the work arrays, so that the sums can be sent or kept."""
        self._product = self._centred = None
        return self

    def _room(self, rows: int, kind: Any, order: Any) -> Array:
        """An array for a centred block, reused where it fits, since allocation is slow."""
        old = self._centred
        shape = (rows, len(self.mean))
        if old is None or old.shape != shape or old.dtype != kind or order not in _orders(old):
            self._centred = old = np.empty(shape, kind, order)
        return old

    def only(self, columns: list[int]) -> Sums:
        """Sums of some columns."""
        chosen = Sums(0)
        chosen.n, chosen.mean = self.n, self.mean[columns]
        chosen.cross = self.cross[np.ix_(columns, columns)]
        return chosen

    @np.errstate(over="ignore", invalid="ignore")
    def merge(self, other: Sums) -> Sums:
        """Add the rows of other sums, in place."""
        total = self.n + other.n
        if total:
            shift = other.mean - self.mean
            self.cross += other.cross
            self.cross += np.outer(shift, shift * (self.n * other.n / total))
            self.mean += shift * (other.n / total)
            self.n = total
        return self


def _orders(block: Array) -> str:
    return ("C" if block.flags.c_contiguous else "") + ("F" if block.flags.f_contiguous else "")


def _by_rows(block: Any) -> bool:
    return bool(block.flags.c_contiguous or not block.flags.f_contiguous)
