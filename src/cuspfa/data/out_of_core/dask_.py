"""Rows in Dask collections: sums by a tree, or columns that stay on the workers.

Tall rows become sums on the workers. Of wide rows each worker holds blocks of columns: W is sent
and YᵀYW returned, p×K numbers each, and only scores, n×K numbers, move between workers. Tasks are
pure functions, so that Dask can recompute the blocks of a lost worker.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.optional import needed
from cuspfa.data.in_memory import LARGEST_KEPT_DATA, RowMatrix
from cuspfa.data.names import text_names
from cuspfa.data.out_of_core.block import Block, as_kind
from cuspfa.data.out_of_core.memory import allowed_bytes, check_fits
from cuspfa.data.out_of_core.stream import SQUARES_HELD, check_block, checked_sums
from cuspfa.data.sums import Sums
from cuspfa.data.validate import unmasked_blocks
from cuspfa.errors import DataError
from cuspfa.inference.kernels import Statistics

MERGED_PER_TASK = 8
"""Sums, or partial scores, that one task adds up."""
BLOCKS_PER_PASS = 32
"""Blocks of rows whose results, p×p numbers each, are in memory together."""
ROW_CHUNK_BYTES, SMALL_CHUNK_BYTES = 1 << 26, 1 << 23
"""Bytes of a block of rows, and bytes below which the caller's blocks are joined."""
COLUMN_BLOCKS_PER_THREAD, LARGEST_COLUMN_BLOCK = 4, 1 << 31
"""Blocks of columns for each thread, and the most bytes of a block. Few blocks mean few partial
scores (n×K numbers a block) to move; several blocks for each thread balance the load."""
COUNT_ROWS_FROM = 1500
"""Columns from which on an unknown number of rows is counted first."""


class DaskRows:
    """A Dask collection, checked but not computed."""

    def __init__(self, data: Any) -> None:
        self.names: list[str] | None = None
        if hasattr(data, "to_dask_array"):
            labels = list(data.columns)
            for label, kind in zip(labels, data.dtypes, strict=True):
                if getattr(kind, "kind", "O") not in "fiub" and not _nullable(kind):
                    raise DataError(
                        f"column {label!r} has type {kind}, which is not numeric. Drop it, or turn "
                        "it into numbers."
                    )
            self.names = text_names(labels)
            data = data.astype("float64").to_dask_array()
        if not (hasattr(data, "rechunk") and getattr(data, "ndim", 0) == 2):
            raise DataError(
                "X must be a dask.array of two dimensions or a dask.dataframe. Got "
                f"{type(data).__name__} instead."
            )
        if data.dtype.kind not in "fiub":
            raise DataError(f"X has type {data.dtype}, which is not numeric.")
        if np.isnan(data.shape[1]):
            raise DataError("X has an unknown number of columns: call compute_chunk_sizes().")
        data = unmasked_blocks(data)
        self.n_columns = int(data.shape[1])
        if np.isnan(data.shape[0]) and self.n_columns >= COUNT_ROWS_FROM:
            data = data.compute_chunk_sizes()
        self.array = data
        self.n_rows = None if np.isnan(data.shape[0]) else int(data.shape[0])
        self.allowed = allowed_bytes(None)
        self.empty_rows: tuple[int, ...] = ()
        """Positions of rows without any value that were left out."""

    def leave_out_empty(self) -> bool:
        """Leave out rows without any value, in one more pass; returns whether there were any."""
        if self.n_rows is None:
            self.array = self.array.compute_chunk_sizes()
        lacking = np.asarray(_dask("dask.array").isnan(self.array).all(axis=1).compute())
        if not lacking.any() or lacking.all():
            return False
        self.array = self.array[np.flatnonzero(~lacking)]
        self.n_rows = int((~lacking).sum())
        self.empty_rows = tuple(np.flatnonzero(lacking).tolist())
        return True

    @property
    def is_wide(self) -> bool:
        """Are there more columns than rows?"""
        return self.n_rows is not None and self.n_rows < self.n_columns


def _nullable(kind: Any) -> bool:
    """Is it a nullable number type of pandas?"""
    return str(kind).lower().startswith(("int", "uint", "float", "double", "bool"))


def client_of() -> Any:
    """The client of a cluster; None for a scheduler in this process."""
    if "distributed" not in sys.modules:
        return None
    scheduler = _dask("dask.base").get_scheduler()
    owner = getattr(scheduler, "__self__", None)
    return owner if isinstance(owner, sys.modules["distributed"].Client) else None


def _dask(module: str) -> Any:
    return needed(module, "Computing with Dask", "dask")


# --- tall --------------------------------------------------------------------------------------


def dask_sums(rows: DaskRows) -> Sums:
    """Sums of each block on its worker, merged by a tree."""
    dask, p = _dask("dask"), rows.n_columns
    check_fits(
        SQUARES_HELD * 8 * p * p, rows.allowed, f"A fit to {p:,} columns", "Use fewer columns."
    )
    array = rows.array.rechunk({1: -1})
    if rows.n_rows is not None:
        size = max(array.chunks[0]) * p * 8
        if size < SMALL_CHUNK_BYTES and len(array.chunks[0]) > 1:
            array = array.rechunk({0: max(1, ROW_CHUNK_BYTES // (8 * p))})
    token = uuid4().hex
    starts: list[int | None] = [None] * len(array.chunks[0])
    if rows.n_rows is not None:
        starts = [int(one) for one in np.cumsum([0, *array.chunks[0][:-1]])]
    sums = [
        dask.delayed(sum_up)(
            part, number, start, rows.names, dask_key_name=f"cuspfa-sums-{token}-{number}"
        )
        for number, (part, start) in enumerate(zip(array.to_delayed().ravel(), starts, strict=True))
    ]
    merged = _by_tree(
        sums,
        lambda group, place: dask.delayed(merge)(
            group, dask_key_name=f"cuspfa-merge-{token}-{place}"
        ),
    )
    (total,) = dask.compute(merged)
    return checked_sums(total, rows.names)


def dask_passes(rows: DaskRows, function: Callable[..., Array], *values: Array) -> Iterator[Array]:
    """One pass over rows, a block on its worker; see `cuspfa.data.robust_moments.Passes`."""
    dask = _dask("dask")
    if rows.n_rows is None:
        rows.array = rows.array.compute_chunk_sizes()
        rows.n_rows = int(rows.array.shape[0])
    array = rows.array.rechunk({1: -1})
    ends = np.cumsum(array.chunks[0])
    tasks = [
        dask.delayed(function)(part, *(one[end - size : end] for one in values))
        for part, size, end in zip(array.to_delayed().ravel(), array.chunks[0], ends, strict=True)
    ]
    for first in range(0, len(tasks), BLOCKS_PER_PASS):
        yield from dask.compute(*tasks[first : first + BLOCKS_PER_PASS])


def _by_tree(parts: list[Any], combine: Callable[[list[Any], str], Any]) -> Any:
    """One task that combines all parts, a few at a time; `combine` is given a place for its key."""
    level = 0
    while len(parts) > 1:
        level += 1
        groups = [parts[i : i + MERGED_PER_TASK] for i in range(0, len(parts), MERGED_PER_TASK)]
        parts = [combine(group, f"{level}-{number}") for number, group in enumerate(groups)]
    return parts[0]


def sum_up(part: Any, number: int, start: int | None, names: list[str] | None) -> Sums:
    """Sums of one block, by smaller blocks; `start` is the number of its first row, if known."""
    place = f"partition {number}" if start is None else "X"
    array = as_kind(part, float)
    sums, step = Sums(array.shape[1]), max(256, (1 << 21) // max(array.shape[1], 1))
    for first in range(0, len(array), step):
        piece = array[first : first + step]
        with np.errstate(over="ignore", invalid="ignore"):
            fine = np.isfinite(piece.sum())
        if not fine:
            check_block(Block(piece, place, (start or 0) + first), names)
        sums.add(piece)
    return sums.alone()


def merge(parts: list[Sums]) -> Sums:
    """The sums of all parts, in a new object: a task must not change its arguments."""
    total = Sums(len(parts[0].mean))
    for part in parts:
        total.merge(part)
    return total


# --- wide --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnWorkers:
    """Unscaled rows as blocks of columns on the workers."""

    client: Any
    blocks: list[Any]
    widths: list[int]
    n: int
    center: Array
    squares: Array


def columns_on_workers(rows: DaskRows, client: Any) -> OnWorkers:
    """Distribute columns over the workers, and compute their means and sums of squares."""
    n = rows.n_rows
    assert n is not None
    threads = sum(client.nthreads().values()) or 1
    number = max(
        COLUMN_BLOCKS_PER_THREAD * threads, -(-8 * n * rows.n_columns // LARGEST_COLUMN_BLOCK)
    )
    width = -(-rows.n_columns // number)
    array = rows.array.map_blocks(as_kind, float, dtype=float).rechunk({0: -1, 1: width}).persist()
    by_place = {one.key[-1]: one for one in _dask("distributed").futures_of(array)}
    blocks = [by_place[number] for number in range(len(array.chunks[1]))]
    token = uuid4().hex
    found = client.gather(
        [
            client.submit(
                column_moments, block, number * width, key=f"cuspfa-columns-{token}-{number}"
            )
            for number, block in enumerate(blocks)
        ]
    )
    center, squares = (np.concatenate([one[i] for one in found]) for i in range(2))
    return OnWorkers(client, blocks, [int(one) for one in array.chunks[1]], n, center, squares)


@np.errstate(over="ignore", invalid="ignore")
def column_moments(block: Array, first: int) -> tuple[Array, Array]:
    """Means, and sums of squares about them; infinite where values are too large."""
    block = as_kind(block, float)
    mean = block.mean(axis=0)
    if not np.all(np.isfinite(mean)):
        check_block(Block(block, f"X, of the columns from {first} on", 0), None)
    centred = block - mean
    return mean, np.einsum("ij,ij->j", centred, centred)


class DistributedColumns:
    """A `CompleteMatrix` whose Y stays on the workers."""

    def __init__(self, held: OnWorkers, scale: Array, n: float) -> None:
        self.client, self.n, self.size = held.client, n, held.n
        self.sum_of_squares: Array = held.squares / scale**2
        self.bounds = np.cumsum([0, *held.widths])
        self.token, self.calls = uuid4().hex, 0
        self.blocks = [
            self.client.submit(
                standardised,
                block,
                held.center[here],
                scale[here],
                key=f"cuspfa-standardised-{self.token}-{number}",
            )
            for number, (block, here) in enumerate(zip(held.blocks, self._places(), strict=True))
        ]

    def _places(self) -> list[slice]:
        return [slice(int(a), int(b)) for a, b in zip(self.bounds, self.bounds[1:], strict=False)]

    @property
    def dense(self) -> None:
        """None: the rows stay on the workers."""

    def products(self, w: Array) -> tuple[Array, Array]:
        """YᵀYW and WᵀYᵀYW: W is sent, and YᵀYW returned, by blocks of columns."""
        self.calls += 1
        name, submit = f"{self.token}-{self.calls}", self.client.submit
        parts = [
            submit(multiply, block, np.ascontiguousarray(w[here]), key=f"cuspfa-scores-{name}-{j}")
            for j, (block, here) in enumerate(zip(self.blocks, self._places(), strict=True))
        ]
        total = _by_tree(
            parts, lambda group, place: submit(add_up, group, key=f"cuspfa-add-{name}-{place}")
        )
        crossed = [
            submit(multiply_back, block, total, key=f"cuspfa-cross-{name}-{j}")
            for j, block in enumerate(self.blocks)
        ]
        scores, *cross = self.client.gather([total, *crossed])
        return np.concatenate(cross), scores.T @ scores

    def statistics(self, largest: int | None = LARGEST_KEPT_DATA) -> Statistics | None:
        """Sufficient statistics of the rows, if these are small."""
        if largest is not None and self.size * len(self.sum_of_squares) > largest:
            return None
        return RowMatrix(np.hstack(self.client.gather(self.blocks)), self.n).statistics(None)


def standardised(block: Array, center: Array, scale: Array) -> Array:
    """The centred and scaled columns of a block."""
    return (block - center) / scale


def multiply(block: Array, w: Array) -> Array:
    """A block's part of the scores."""
    return block @ w


def add_up(parts: list[Array]) -> Array:
    """The sum of partial scores."""
    return np.asarray(np.sum(parts, axis=0))


def multiply_back(block: Array, scores: Array) -> Array:
    """A block's rows of YᵀYW."""
    return block.T @ scores
