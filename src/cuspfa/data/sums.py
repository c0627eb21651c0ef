"""Count, mean and centred cross-products of rows that come block by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._typing import Array


class Sums:
    """Sums of blocks, each centred at its own mean and merged by Chan, Golub & LeVeque's formula.

    Σy² − nȳ² would lose (mean/sd)² of the digits. Beside the sums there is room for one block and
    one more p×p matrix, whatever the number of rows.
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
        """One more block, rows (m, p) in either order; float32 rows are multiplied as such."""
        size = len(block)
        if not size:
            return
        kind = np.float32 if block.dtype == np.float32 else np.float64
        block_mean = block.mean(axis=0, dtype=float)
        shift = block_mean - self.mean
        # What moves with the mean is one more row: √(nm/(n+m)) times the shift.
        centred = self._room(size + 1, kind, "C" if _by_rows(block) else "F")
        np.subtract(block, block_mean, out=centred[:size], casting="same_kind")
        centred[size] = shift * np.sqrt(self.n * size / (self.n + size))
        if self._product is None or self._product.dtype != kind:
            self._product = np.empty(self.cross.shape, kind)
        # NumPy's product knows that it is symmetric, and lets other threads read meanwhile.
        np.matmul(centred.T, centred, out=self._product)
        self.cross += self._product
        self.mean += shift * (size / (self.n + size))
        self.n += size

    def alone(self) -> Sums:
        """Without the room for products, to be sent or kept."""
        self._product = self._centred = None
        return self

    def _room(self, rows: int, kind: Any, order: Any) -> Array:
        """For a centred block; the same again where it fits, for new memory is slow to come by."""
        old = self._centred
        shape = (rows, len(self.mean))
        if old is None or old.shape != shape or old.dtype != kind or order not in _orders(old):
            self._centred = old = np.empty(shape, kind, order)
        return old

    @np.errstate(over="ignore", invalid="ignore")
    def merge(self, other: Sums) -> Sums:
        """Those of both sets of rows, in place of the first."""
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
