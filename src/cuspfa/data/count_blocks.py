"""Counts that come block by block: sparse rows in memory or, where they are many, in a file.

An engine makes one pass over the sparse rows in each iteration, in their order. So rows in a file
that is mapped into memory give the same result as rows in memory, and only the part that is being
read need be there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from cuspfa._typing import Array
from cuspfa.data.counts import Counts, check_values, exposures_of
from cuspfa.data.out_of_core.memory import allowed_bytes
from cuspfa.errors import DataError

LARGEST_SHARE_IN_MEMORY = 0.25
"""Part of the memory allowed up to which sparse rows are held there."""
BYTES_OF_A_COUNT = 12
MOST_COUNTS = 2**31 - 1


class _Column:
    """One array, in pieces in memory or in a file."""

    def __init__(self, dtype: Any) -> None:
        self.dtype, self.pieces, self.file = np.dtype(dtype), [], None
        self.size = 0

    pieces: list[Any]
    file: Any

    def add(self, values: Any) -> None:
        ready = np.ascontiguousarray(values, dtype=self.dtype)
        self.size += len(ready)
        if self.file is None:
            self.pieces.append(ready)
        else:
            self.file.write(ready.tobytes())

    def to_file(self) -> None:
        self.file = tempfile.TemporaryFile(prefix="cuspfa-")  # noqa: SIM115 (the map keeps it)
        pieces, self.pieces, self.size = self.pieces, [], 0
        for one in pieces:
            self.add(one)

    def array(self) -> Any:
        if self.file is None:
            return np.concatenate([np.zeros(0, self.dtype), *self.pieces])
        self.file.flush()
        with self.file:
            return np.memmap(self.file, self.dtype, mode="r", shape=(self.size,))


class CountBlocks:
    """Blocks of rows as one table of counts."""

    def __init__(
        self,
        labels: list[Any] | None = None,
        *,
        allowed: int | None = None,
        fractions: bool = False,
    ) -> None:
        self.labels, self.fractions = labels, fractions
        allowed = allowed_bytes(None) if allowed is None else allowed
        self.most = np.inf if allowed is None else LARGEST_SHARE_IN_MEMORY * allowed
        self.data, self.indices = _Column(float), _Column(np.int32)
        self.ends = [0]
        self.absent: list[Any] = []
        self.p: int | None = None

    @property
    def on_disk(self) -> bool:
        """Are the rows in a file?"""
        return self.data.file is not None

    def add(self, rows: Any) -> None:
        """The next rows, dense or sparse; NaN of dense rows is a missing cell."""
        if self.p is None:
            self.p = int(rows.shape[1])
        elif rows.shape[1] != self.p:
            raise DataError(f"All blocks must have {self.p} columns. Got one of {rows.shape[1]}.")
        absent = None
        if not sparse.issparse(rows):
            missing = np.isnan(rows)
            if missing.any():
                absent = sparse.csr_matrix(missing.astype(float))
                rows = np.where(missing, 0.0, rows)
        x = sparse.csr_matrix(rows, dtype=float)
        x.sum_duplicates()
        x.eliminate_zeros()
        check_values(x, self.labels, self.fractions, first=len(self.ends) - 1)
        self.absent.append(sparse.csr_matrix(x.shape) if absent is None else absent)
        self.data.add(x.data)
        self.indices.add(x.indices)
        self.ends.extend((self.ends[-1] + x.indptr[1:].astype(np.int64)).tolist())
        if self.ends[-1] > MOST_COUNTS:
            raise DataError(f"A table can have at most {MOST_COUNTS:,} counts above zero.")
        if not self.on_disk and BYTES_OF_A_COUNT * self.ends[-1] > self.most:
            self.data.to_file()
            self.indices.to_file()

    def counts(self, exposure: Any = None) -> Counts:
        """All rows."""
        n = len(self.ends) - 1
        if not n or not self.p:
            raise DataError(f"Found array with {n} sample(s) while a minimum of 1 is required.")
        parts = self.data.array(), self.indices.array(), np.array(self.ends, dtype=np.int32)
        x = sparse.csr_matrix(parts, (n, self.p))
        absent = sparse.csr_matrix(sparse.vstack(self.absent))
        return Counts(
            x, exposures_of(exposure, n), absent if absent.nnz else None, on_disk=self.on_disk
        )


def counts_of_blocks(
    blocks: Iterable[Any],
    labels: list[Any] | None,
    exposure: Any = None,
    *,
    allowed: int | None = None,
    fractions: bool = False,
) -> Counts:
    """Counts of blocks of rows."""
    table = CountBlocks(labels, allowed=allowed, fractions=fractions)
    for rows in blocks:
        table.add(rows)
    return table.counts(exposure)


def scratch(data: Counts) -> Array:
    """Room for a number for each count above zero: in a file, if the counts are in one."""
    if not data.on_disk or not data.x.nnz:
        return np.empty(data.x.nnz)
    with tempfile.TemporaryFile(prefix="cuspfa-") as file:
        return np.memmap(file, float, mode="w+", shape=(data.x.nnz,))
