"""From a user's data of any kind to counts, column names and provenance."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cuspfa._utils.arguments import must_be
from cuspfa._utils.fit_warning import EmptyRows, FitWarning
from cuspfa.data.column_choice import as_they_are
from cuspfa.data.count_blocks import counts_of_blocks
from cuspfa.data.counts import Counts, check_counts, check_matrix
from cuspfa.data.moments import Moments
from cuspfa.data.out_of_core.dask_ import DaskRows
from cuspfa.data.out_of_core.load import ReadFile, find_out_of_core
from cuspfa.data.out_of_core.readers import Slices
from cuspfa.data.out_of_core.stream import RowStream, as_stream
from cuspfa.data.provenance import DataProvenance, table_provenance
from cuspfa.data.tables.dialect import DEFAULT_READING
from cuspfa.data.tables.read_table import Table, load_table, reads_by_blocks
from cuspfa.data.tables.sparse_files import SparseTable, read_sparse, sparse_suffix
from cuspfa.errors import DataError


class CountInput(NamedTuple):
    """Counts that are ready for an engine, and what is known of them."""

    counts: Counts
    names: list[str] | None
    provenance: DataProvenance | None = None
    warnings: tuple[FitWarning, ...] = ()


def load_counts(
    X: Any, exposure: Any = None, missing: Any = None, *, fractions: bool = False
) -> CountInput:
    """Counts of an array, a sparse matrix, a frame, a table, a path, a stream or Dask."""
    if isinstance(X, Moments):
        raise must_be("X", "rows of counts: sums are not enough", "Moments")
    if isinstance(X, (str, os.PathLike)):
        path = os.fspath(X)
        if sparse_suffix(path) in (".mtx", ".npz"):
            X = read_sparse(path)
        elif not reads_by_blocks(path, None, DEFAULT_READING):
            X = load_table(path, as_they_are, id_column=None, how=DEFAULT_READING)
    if isinstance(X, SparseTable):
        counts = check_matrix(X.x, X.names, exposure, missing, fractions=fractions)
        return CountInput(counts, X.names, sparse_provenance(X))
    view = find_out_of_core(X)
    view = view.table if isinstance(view, ReadFile) else view
    if isinstance(view, Table):
        return _of_table(view, exposure, missing, fractions)
    if view is None:
        counts, table = check_counts(X, exposure, missing, fractions=fractions)
        return CountInput(counts, table.names)
    if missing is not None:
        raise must_be(
            "missing", "None for data that are read by blocks, where NaN is missing", "it"
        )
    allowed = view.allowed
    blocks = _dask_blocks(view) if isinstance(view, DaskRows) else _stream_blocks(view)
    counts = counts_of_blocks(blocks, view.names, exposure, allowed=allowed, fractions=fractions)
    return CountInput(counts, view.names)


def sparse_provenance(table: SparseTable) -> DataProvenance:
    """What is known of a sparse matrix in a file."""
    n, p = table.x.shape
    return DataProvenance(
        source=table.source,
        form="file",
        kind=table.kind,
        n_rows=n,
        n_columns=p,
        n_missing=0,
        names=tuple(table.names or ()),
        notes=table.notes,
        layer=table.layer,
    )


def _of_table(table: Table, exposure: Any, missing: Any, fractions: bool) -> CountInput:
    told = (EmptyRows(table.n_empty, table.n_rows),) if table.n_empty else ()
    provenance = table_provenance(table)
    if isinstance(table.data, np.ndarray):
        counts = check_matrix(table.data, table.names, exposure, missing, fractions=fractions)
        return CountInput(counts, table.names, provenance, told)
    if not isinstance(table.data, RowStream):
        raise DataError(
            f"{table.source} was summed up when it was read, and counts need its rows. Pass the "
            "path to fit, or a RowStream."
        )
    stream = as_stream(table.data)
    blocks = _stream_blocks(stream)
    counts = counts_of_blocks(
        blocks, stream.names, exposure, allowed=stream.allowed, fractions=fractions
    )
    return CountInput(counts, stream.names, provenance, told)


def _stream_blocks(stream: RowStream) -> Iterator[Any]:
    for block in stream.blocks(allow_missing=True):
        yield block.rows


def _dask_blocks(rows: DaskRows) -> Iterator[Any]:
    """Blocks of rows, computed one after the other."""
    if rows.n_rows is None:
        rows.array = rows.array.compute_chunk_sizes()
    array = rows.array.rechunk({1: -1})
    size = max(array.chunks[0])
    for block in Slices([("dask.array", array)], None, as_they_are).blocks(size, float):
        yield block.rows
