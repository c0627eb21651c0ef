"""Data that are not in memory, on the way to a source: files, iterators, maps, Dask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import FitWarning, NearConstant
from cuspfa._utils.fit_warning_text import python_text
from cuspfa._utils.warn import warn
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
from cuspfa.data.out_of_core.readers import Slices, as_they_are, is_out_of_core
from cuspfa.data.out_of_core.screened import check_incomplete, read_screened
from cuspfa.data.out_of_core.stream import (
    MissingValuesError,
    RowStream,
    as_stream,
    check_block,
    reading_warnings,
)
from cuspfa.data.protocols import CompleteMatrix, CompleteSource
from cuspfa.data.screening.matrix_input import LARGEST, refuse_matrix
from cuspfa.data.tables.notes import DroppedColumn, told_dropped
from cuspfa.data.tables.read_table import Table
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


def find_out_of_core(data: Any) -> RowStream | DaskRows | Table | None:
    """A view of data that are not in memory, or of a table; None for other data in memory."""
    if isinstance(data, (RowStream, Table)):
        return data
    if is_out_of_core(data):
        return as_stream(data)
    return DaskRows(data) if is_dask(data) else None


def load_data(view: RowStream | DaskRows | Table, *, scaling: str, flat_mean: bool) -> Loaded:
    """Read them as their shape and the memory allow."""
    if isinstance(view, Table):
        return _load_table(view, scaling, flat_mean)
    if isinstance(view, DaskRows):
        return _load_dask(view, scaling, flat_mean)
    found = read_screened(view)
    notes = _told(view, found.dropped)
    if isinstance(found.data, np.ndarray):
        return Loaded(None, found.data, found.names, notes, found.n_empty)
    prepared = _prepared(found.data, found.names, scaling, flat_mean)
    told = reading_warnings(notes, found.n_empty, prepared.n)
    return _ready(prepared, found.names, told, found.near_constant)


def _ready(
    prepared: Prepared,
    names: list[str] | None,
    told: tuple[FitWarning, ...],
    near_constant: NearConstant | None,
) -> Loaded:
    told = told if near_constant is None else (*told, near_constant)
    return Loaded(prepared._replace(names=names, warnings=told), None, names)


def _told(stream: RowStream, dropped: Sequence[DroppedColumn]) -> str | None:
    """Doubts and dropped columns, in words."""
    notes = (note.told() for note in stream.reader.notes if note.is_doubt)
    return " ".join(filter(None, (*notes, told_dropped(dropped)))) or None


def _prepared(
    found: Moments | Mapped | OnWorkers, names: list[str] | None, scaling: str, flat_mean: bool
) -> Prepared:
    if isinstance(found, Moments):
        found.check_usable()
        return prepare_moments(found, scaling=scaling, flat_mean=flat_mean)
    return _prepare_wide(found, names, scaling, flat_mean)


def _load_table(table: Table, scaling: str, flat_mean: bool) -> Loaded:
    if isinstance(table.data, RowStream):
        return load_data(table.data, scaling=scaling, flat_mean=flat_mean)
    if isinstance(table.data, Moments):
        prepared = _prepared(table.data, table.names, scaling, flat_mean)
        return _ready(prepared, table.names, (), table.near_constant)
    return Loaded(None, table.data, table.names)


def _load_dask(rows: DaskRows, scaling: str, flat_mean: bool) -> Loaded:
    try:
        found = _compute(rows)
    except MissingValuesError as error:
        if rows.leave_out_empty():
            return _load_dask(rows, scaling, flat_mean)
        if rows.n_rows is None:
            rows.array = rows.array.compute_chunk_sizes()
        check_incomplete(int(rows.array.shape[0]), rows.n_columns, rows.allowed, error)
        found = np.asarray(rows.array.compute())
    if isinstance(found, np.ndarray):
        return Loaded(None, found, rows.names, None, rows.empty_rows)
    prepared = _prepared(found, rows.names, scaling, flat_mean)
    return _ready(prepared, rows.names, reading_warnings(None, rows.empty_rows, prepared.n), None)


def summed_up(data: Any) -> Moments:
    """Sums of a stream, with a warning of what was dropped."""
    stream = as_stream(data)
    found = read_screened(stream, sums=True)
    assert isinstance(found.data, Moments)
    told = reading_warnings(_told(stream, found.dropped), found.n_empty, found.data.n)
    if told:
        warn(" ".join(map(python_text, told)))
    return found.data


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
    return Mapped.of(
        Slices([("dask.array", rows.array)], None, as_they_are), rows.names, check_block
    )


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
