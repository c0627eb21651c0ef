"""Data that are not in memory, on the way to a source: files, iterators, maps, Dask."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.complete import Prepared, column_scale, counted_rows, prepare_moments
from cuspfa.data.moments import Moments
from cuspfa.data.names import column_label
from cuspfa.data.out_of_core.dask_ import (
    DaskRows,
    DistributedColumns,
    OnWorkers,
    client_of,
    columns_on_workers,
)
from cuspfa.data.out_of_core.dask_ import moments_of as dask_moments
from cuspfa.data.out_of_core.mapped import Mapped, MappedMatrix
from cuspfa.data.out_of_core.memory import in_words
from cuspfa.data.out_of_core.readers import Slices, is_out_of_core
from cuspfa.data.out_of_core.stream import (
    MissingValuesError,
    RowStream,
    as_stream,
    check_block,
    read,
    reading_warnings,
)
from cuspfa.data.protocols import CompleteMatrix, CompleteSource
from cuspfa.data.screening.matrix_input import LARGEST, FirstRows, refuse_matrix
from cuspfa.data.screening.near_constant import NearConstantColumns
from cuspfa.data.validate import is_dask
from cuspfa.errors import DataError


class Loaded(NamedTuple):
    """A ready source, or rows that turned out to fit into memory."""

    prepared: Prepared | None
    rows: Array | None
    names: list[str] | None
    note: str | None = None
    """What the reader had to assume, of rows in memory."""
    empty: int = 0
    """Rows without any value that were dropped, of rows in memory."""


def find_out_of_core(data: Any) -> RowStream | DaskRows | None:
    """A view of data that are not in memory; None for those that are."""
    if isinstance(data, RowStream) or is_out_of_core(data):
        return as_stream(data)
    return DaskRows(data) if is_dask(data) else None


def load_data(view: RowStream | DaskRows, *, scaling: str, flat_mean: bool) -> Loaded:
    """Read them as their shape and the memory allow."""
    found: Moments | Mapped | OnWorkers | Array
    note = view.reader.remark if isinstance(view, RowStream) else None
    watched = _Watched(NearConstantColumns(), FirstRows(view.n_columns))
    try:
        found = read(view, watched) if isinstance(view, RowStream) else _compute(view)
    except MissingValuesError as error:
        if isinstance(view, DaskRows) and view.leave_out_empty():
            return load_data(view, scaling=scaling, flat_mean=flat_mean)
        found = incomplete_rows(view, error)
    if isinstance(found, np.ndarray):
        return Loaded(None, found, view.names, note, view.empty_rows)
    if isinstance(found, Moments):
        found.check_usable()
        prepared = prepare_moments(found, scaling=scaling, flat_mean=flat_mean)
    else:
        prepared = _prepare_wide(found, view.names, scaling, flat_mean)
    if watched.first.square is not None:
        refuse_matrix(watched.first.square)
    told = reading_warnings(note, view.empty_rows, prepared.n)
    near_constant = watched.rare.warning(view.names)
    told = told if near_constant is None else (*told, near_constant)
    prepared = prepared._replace(names=view.names, warnings=told)
    return Loaded(prepared, None, view.names)


class _Watched(NamedTuple):
    """What a fit wants to know of rows beside their sums."""

    rare: NearConstantColumns
    first: FirstRows

    def add(self, block: Any) -> None:
        self.rare.add(block)
        self.first.add(block)


def _compute(rows: DaskRows) -> Moments | Mapped | OnWorkers | Array:
    """What a collection becomes; without a cluster a wide one is an array like others."""
    if rows.n_rows == rows.n_columns <= LARGEST:
        refuse_matrix(np.asarray(rows.array.compute()))
    if not rows.is_wide:
        return dask_moments(rows)
    client, n, p = client_of(), rows.n_rows or 0, rows.n_columns
    if client is not None:
        return columns_on_workers(rows, client)
    if rows.allowed is None or 16 * n * p <= rows.allowed:
        return np.asarray(rows.array.compute())
    return Mapped.of(Slices([("dask.array", rows.array)], None, None), rows.names, check_block)


INCOMPLETE_HELD = 5
"""Copies of the rows that the engine for missing values holds."""


def incomplete_rows(view: RowStream | DaskRows, error: MissingValuesError) -> Array:
    """All rows: what is missing differs from row to row, so that no sums tell of it."""
    if isinstance(view, DaskRows):
        if view.n_rows is None:
            view.array = view.array.compute_chunk_sizes()
        _check_incomplete(view, int(view.array.shape[0]), error)
        return np.asarray(view.array.compute())
    if not view.reader.again:
        raise MissingValuesError(
            f"{error} A fit to incomplete data needs all rows, and an iterator gives them once: "
            "pass a path, or an array."
        ) from error
    held: list[Array] = []
    rows = view.n_rows or 0
    for block in view.blocks(allow_missing=True):
        held.append(np.asarray(block.rows))
        rows = max(rows, sum(map(len, held)))
        _check_incomplete(view, rows, error)
    return np.concatenate(held)


def _check_incomplete(view: RowStream | DaskRows, rows: int, error: MissingValuesError) -> None:
    needed = INCOMPLETE_HELD * 8 * rows * view.n_columns
    if view.allowed is not None and needed > view.allowed:
        raise MissingValuesError(
            f"{error} A fit to incomplete data needs all rows in memory: {in_words(needed)} or "
            f"more, and {in_words(view.allowed)} may be taken (memory_limit)."
        ) from error


def _prepare_wide(
    found: Mapped | OnWorkers, names: list[str] | None, scaling: str, flat_mean: bool
) -> Prepared:
    n = found.n
    large = ~np.isfinite(found.squares)
    if large.any():
        label = column_label(int(np.argmax(large)), names)
        raise DataError(f"{label} holds values too large to be squared. Rescale it.")
    constant = found.squares <= n * (1e-12 * found.center) ** 2
    if constant.any():
        label = column_label(int(np.argmax(constant)), names)
        raise DataError(f"{label} is constant (up to rounding error). Drop it.")
    scale, counted = column_scale(found.squares / (n - 1), scaling), counted_rows(n, flat_mean)
    matrix: CompleteMatrix
    if isinstance(found, Mapped):
        squares = found.squares / scale**2
        matrix = MappedMatrix(found.thing, found.center, scale, squares, counted)
    else:
        matrix = DistributedColumns(found, scale, counted)
    return Prepared(CompleteSource(matrix), found.center, scale, n)
