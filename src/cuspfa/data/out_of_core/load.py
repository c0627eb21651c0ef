"""From data that are not in memory to a source: files, iterators, maps, Dask."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import EmptyRows, FitWarning, NearConstant
from cuspfa.data.column_choice import all_columns, as_they_are
from cuspfa.data.complete import (
    Prepared,
    Scaling,
    column_scale,
    counted_rows,
    prepare_moments,
    prepare_robust,
)
from cuspfa.data.moments import Moments
from cuspfa.data.names import column_label
from cuspfa.data.out_of_core.dask_ import (
    DaskRows,
    DistributedColumns,
    OnWorkers,
    client_of,
    columns_on_workers,
    dask_passes,
    dask_sums,
)
from cuspfa.data.out_of_core.mapped import Mapped, MappedMatrix
from cuspfa.data.out_of_core.readers import Slices, file_format, is_out_of_core
from cuspfa.data.out_of_core.screened import (
    check_held,
    check_incomplete,
    doubts_of,
    read_screened,
    stream_passes,
)
from cuspfa.data.out_of_core.stream import (
    MissingValuesError,
    RowStream,
    as_stream,
    check_block,
)
from cuspfa.data.protocols import CompleteMatrix, CompleteSource
from cuspfa.data.provenance import DataProvenance, table_provenance
from cuspfa.data.robust_moments import (
    Passes,
    RobustMoments,
    check_more_rows,
    estimate,
)
from cuspfa.data.screening.column_kinds import KindGroup
from cuspfa.data.screening.matrix_input import LARGEST_MATRIX, refuse_matrix
from cuspfa.data.sums import Sums
from cuspfa.data.tables.dialect import DEFAULT_READING
from cuspfa.data.tables.read_table import Table, load_table, reads_by_blocks, stream_table
from cuspfa.data.tables.sparse_files import SPARSE_SUFFIXES
from cuspfa.data.validate import is_dask
from cuspfa.errors import DataError


class Loaded(NamedTuple):
    """Data that were read, before they become a source."""

    data: Array | Sums | Moments | Mapped | OnWorkers
    """Rows that fit into memory, their sums, or rows that stay where they are."""
    names: list[str] | None
    warnings: tuple[FitWarning, ...] = ()
    """What the reader assumed and dropped."""
    n_empty: int = 0
    """Rows without any value that were dropped."""
    empty: tuple[int, ...] = ()
    """Their positions, where `passes` leaves them out."""
    passes: Passes | None = None
    """Further passes over rows that were summed up; None where they can be read once."""
    near_constant: NearConstant | None = None
    provenance: DataProvenance | None = None
    """The file, and how it was read."""
    kinds: tuple[KindGroup, ...] = ()
    """Columns by kind, of rows that were summed up; empty if unknown."""


SMALL_FILE = 1 << 24
"""Bytes up to which a file is read as a whole, as the program and `read_table` read it."""


class ReadFile(NamedTuple):
    """A small file that was read as a whole. What was found in it has not been told."""

    table: Table
    allowed: int | None = None

    @property
    def n_columns(self) -> int:
        """Columns that are analysed."""
        return self.table.n_columns

    @property
    def names(self) -> list[str]:
        """Names of these columns."""
        return self.table.names


View = RowStream | DaskRows | Table | ReadFile


def find_out_of_core(data: Any) -> View | None:
    """A reader of data that are not in memory, or a table; None for other data in memory."""
    if isinstance(data, (RowStream, Table)):
        return data
    if isinstance(data, (str, os.PathLike)) and _is_small_file(os.fspath(data)):
        path = os.fspath(data)
        return ReadFile(load_table(path, all_columns, id_column=None, how=DEFAULT_READING))
    if is_out_of_core(data):
        return as_stream(data)
    return DaskRows(data) if is_dask(data) else None


def _is_small_file(path: str) -> bool:
    place = Path(path)
    return (
        place.is_file()
        and file_format(place) not in SPARSE_SUFFIXES
        and not reads_by_blocks(path, None, DEFAULT_READING)
        and place.stat().st_size <= SMALL_FILE
    )


def load_data(view: View, *, every_row: bool = False) -> Loaded:
    """Read data as their shape and the memory allow; with `every_row` the rows, into memory."""
    if isinstance(view, ReadFile):
        table = view.table
        told = doubts_of(table.notes, table.dropped)
        return Loaded(
            table.rows, table.names, told, table.n_empty, provenance=table_provenance(table)
        )
    if isinstance(view, DaskRows):
        data = _collected(view) if every_row else _compute_dask(view)
        return Loaded(
            data,
            view.names,
            n_empty=len(view.empty_rows),
            empty=view.empty_rows,
            passes=partial(dask_passes, view),
        )
    if isinstance(view, RowStream):
        return _read(view, every_row)
    loaded = (
        _read(view.data, every_row)
        if isinstance(view.data, RowStream)
        else Loaded(
            view.data,
            view.names,
            passes=view.passes,
            near_constant=view.near_constant,
            kinds=view.kinds,
        )
    )
    return loaded._replace(provenance=table_provenance(view))


def _read(stream: RowStream, every_row: bool) -> Loaded:
    found = read_screened(stream, every_row=every_row)
    told = doubts_of([*stream.reader.notes, *found.notes], found.dropped)
    loaded = Loaded(
        found.data,
        found.names,
        told,
        found.n_empty,
        passes=partial(stream_passes, stream, found.kept) if stream.reader.again else None,
        near_constant=found.near_constant,
        kinds=found.kinds,
    )
    if not stream.is_path:
        return loaded
    table = stream_table(stream, found)
    loaded = loaded._replace(provenance=table_provenance(table))
    return loaded if isinstance(table.data, RowStream) else loaded._replace(data=table.data)


def prepare_loaded(
    loaded: Loaded, *, scaling: Scaling, flat_mean: bool, robust: bool = False
) -> Prepared:
    """A source of data whose rows are not in memory, with names and warnings."""
    data = loaded.data
    if isinstance(data, Sums):
        data = Moments.from_sums(data, loaded.names)
    assert not isinstance(data, np.ndarray)
    if robust:
        found = _robust_moments(loaded, data)
        prepared = prepare_robust(found, scaling=scaling, flat_mean=flat_mean)
    elif isinstance(data, Moments):
        data.check_usable()
        prepared = prepare_moments(data, scaling=scaling, flat_mean=flat_mean)
    else:
        prepared = _prepare_wide(data, loaded.names, scaling, flat_mean)
    told = loaded.warnings + prepared.warnings + empty_rows(loaded.n_empty, prepared.n)
    told += () if loaded.near_constant is None else (loaded.near_constant,)
    return prepared._replace(
        names=loaded.names, warnings=told, provenance=loaded.provenance, kinds=loaded.kinds
    )


def _robust_moments(loaded: Loaded, data: Moments | Mapped | OnWorkers) -> RobustMoments:
    if not isinstance(data, Moments):
        check_more_rows(data.n, len(data.center))
    if loaded.passes is None and isinstance(loaded.data, Sums):
        raise DataError(
            "A robust fit goes through the rows several times, and an iterator can be read once. "
            "Pass a path, or an array."
        )
    if loaded.passes is None:
        raise no_rows_to_weigh()
    assert isinstance(data, Moments)
    check_more_rows(data.n, len(data.mean))
    data.check_usable()
    return estimate(loaded.passes, data, loaded.empty)


def no_rows_to_weigh() -> DataError:
    """The error for a robust fit to moments."""
    return DataError(
        "A robust fit weighs rows, and sums over all rows have none. Fit the rows themselves, or "
        "the moments that cuspfa.robust_moments makes of them, without robust."
    )


def empty_rows(n_empty: int, n_rows: int) -> tuple[EmptyRows, ...]:
    """The warning of rows without any value that were dropped beside `n_rows` others, if any."""
    return (EmptyRows(n_empty, n_rows),) if n_empty else ()


def _collected(rows: DaskRows) -> Array:
    """All rows, which are refused where they do not fit into memory."""
    if rows.n_rows is None:
        rows.array = rows.array.compute_chunk_sizes()
    check_held(int(rows.array.shape[0]), rows.n_columns, rows.allowed, counted=True)
    return np.asarray(rows.array.compute(), dtype=float)


def _compute_dask(rows: DaskRows) -> Sums | Mapped | OnWorkers | Array:
    """What a collection becomes; all its rows where values are missing."""
    try:
        return _compute(rows)
    except MissingValuesError as error:
        if rows.leave_out_empty():
            return _compute_dask(rows)
        if rows.n_rows is None:
            rows.array = rows.array.compute_chunk_sizes()
        check_incomplete(int(rows.array.shape[0]), rows.n_columns, rows.allowed, error)
        return np.asarray(rows.array.compute())


def _compute(rows: DaskRows) -> Sums | Mapped | OnWorkers | Array:
    """Sums of tall rows; wide rows on the workers or, without a cluster, in memory or on disk."""
    if rows.n_rows == rows.n_columns <= LARGEST_MATRIX:
        refuse_matrix(np.asarray(rows.array.compute()))
    if not rows.is_wide:
        return dask_sums(rows)
    client, n, p = client_of(), rows.n_rows or 0, rows.n_columns
    if client is not None:
        return columns_on_workers(rows, client)
    if rows.allowed is None or 16 * n * p <= rows.allowed:
        return np.asarray(rows.array.compute())
    return Mapped.of(
        Slices([("dask.array", rows.array)], None, as_they_are), rows.names, check_block
    )


def _prepare_wide(
    found: Mapped | OnWorkers, names: list[str] | None, scaling: Scaling, flat_mean: bool
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
        matrix = MappedMatrix(found.array, found.center, scale, squares, counted)
    else:
        matrix = DistributedColumns(found, scale, counted)
    return Prepared(CompleteSource(matrix), found.center, scale, n)
