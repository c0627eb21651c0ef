"""Counts on the command line: tables and sparse matrices, their columns, and exposures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be
from cuspfa._utils.spelling import as_option
from cuspfa._utils.wording import counted
from cuspfa.cli.data_input import check_enough_columns, choose_columns, read_as_json, show_table
from cuspfa.cli.options import FitOptions
from cuspfa.cli.progress import progress
from cuspfa.cli.provenance import data_provenance, reading_options
from cuspfa.cli.terminal import Page
from cuspfa.data.column_choice import ColumnChoice
from cuspfa.data.count_blocks import counts_of_blocks
from cuspfa.data.count_input import CountInput, sparse_provenance
from cuspfa.data.counts import check_matrix
from cuspfa.data.out_of_core.stream import table_stream
from cuspfa.data.tables.cells import ParsedColumn, clean
from cuspfa.data.tables.column_names import find_column, made_up_names
from cuspfa.data.tables.read_table import Table, reads_by_blocks, screened, stream_table
from cuspfa.data.tables.reader import FileTable, read_file
from cuspfa.data.tables.sparse_files import SparseTable, read_sparse, sparse_suffix
from cuspfa.errors import DataError, InputError

SPARSE_ROW_NAMES = "row"
"""The column with the names of the rows of a sparse matrix, in a table that is written."""


class ReadCounts(NamedTuple):
    """Counts that were read, and their exposures."""

    data: CountInput
    exposure: Array | None
    shown: dict[str, Any]
    """What was read and left out, for the JSON."""


def read_counts(options: FitOptions, page: Page) -> ReadCounts:
    """Read counts, and print what was read and left out."""
    path = str(options.data)
    if path != "-" and is_sparse(path):
        return _sparse(options, page)
    if options.transpose or options.layer is not None:
        wrong = "--transpose" if options.transpose else "--layer"
        raise InputError(f"{wrong} is for sparse matrices (.mtx, .npz, .h5ad). Leave it out.")
    how = options.read.reading()
    if path != "-" and (
        options.memory_limit is not None or reads_by_blocks(path, options.memory_limit, how)
    ):
        return _by_blocks(options, page)

    def choose(names: list[str]) -> ColumnChoice:
        return _without_exposure(choose_columns(options, names, options.factors), options, names)

    with progress(options.quiet):
        file = read_file(path, id_column=options.id_column, how=how, check=choose)
    table = screened(file, choose, how)
    show_table(page, table, quiet=options.quiet)
    exposure = None
    if options.exposure is not None:
        exposure = table_exposure(options.exposure, file)[_kept_rows(file, table)]
        check_exposure(options.exposure, exposure)
    counts = check_matrix(table.rows, list(table.names), exposure, None)
    found = CountInput(counts, table.names, data_provenance(options, table))
    return ReadCounts(found, exposure, read_as_json(table, table.n_missing_read))


def is_sparse(path: str) -> bool:
    """Is a file read as a sparse matrix?"""
    return bool(sparse_suffix(path))


def check_exposure(name: str, values: Array) -> None:
    """Refuse exposures that are missing, zero or negative."""
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"--exposure: column {name!r} must be positive in each row. Got {values[row]:g} in row "
            f"{row + 1}, and {int(wrong.sum()) - 1} more such rows."
        )


def _without_exposure(choice: ColumnChoice, options: FitOptions, names: list[str]) -> ColumnChoice:
    if options.exposure is None:
        return choice
    position = find_column("--exposure", options.exposure, names)
    return choice._replace(
        columns=[j for j in choice.columns if j != position],
        included=[j for j in choice.included if j != position],
    )


def table_exposure(name: str, file: FileTable) -> Array:
    """Exposures of the rows of a table, as they are in it."""
    column = file.columns[find_column("--exposure", name, file.names)]
    if column.numbers is None:
        raise DataError(f"--exposure: column {name!r} of {file.source} does not hold numbers.")
    return np.asarray(column.numbers, dtype=float)


def _kept_rows(file: FileTable, table: Table) -> Array:
    """(n,) rows that have a value in the columns that are analysed."""
    if not table.n_empty:
        return np.ones(file.n_rows, dtype=bool)
    by_name = {one.name: one.numbers for one in file.columns}
    own = [by_name[name] for name in table.names]
    return np.asarray(~np.all([np.isnan(one) for one in own if one is not None], axis=0))


def _by_blocks(options: FitOptions, page: Page) -> ReadCounts:
    if options.exposure is not None or options.id_column is not None:
        wrong = "--exposure" if options.exposure is not None else "--id"
        raise InputError(
            f"{wrong} is for files that fit into memory, and {options.data} is read by blocks. "
            "Leave it out, or give exposures in Python."
        )

    def choose(names: list[str]) -> ColumnChoice:
        return choose_columns(options, names, options.factors)

    with progress(options.quiet) as bar:
        how = options.read.reading()
        stream = table_stream(options.data, choose, how, options.memory_limit, bar.on_rows)
        blocks = (block.rows for block in stream.blocks(allow_missing=True))
        counts = counts_of_blocks(blocks, stream.names, allowed=stream.allowed)
    table = replace(stream_table(stream), n_rows=counts.n)
    show_table(page, table, quiet=options.quiet)
    if counts.on_disk and not options.quiet:
        size = f"{counts.x.nnz:,} counts above zero"
        page.paragraph(f"The {size} are in a temporary file, which is read in each iteration.")
    found = CountInput(counts, stream.names, data_provenance(options, table))
    return ReadCounts(found, None, read_as_json(table, 0))


def _sparse(options: FitOptions, page: Page) -> ReadCounts:
    table = read_sparse(
        str(options.data), layer=options.layer, transpose=options.transpose, spell=as_option
    )
    n, p = table.x.shape
    if not options.quiet:
        size = f"{counted(n, 'row')}, {counted(p, 'column')}, {table.x.nnz:,} cells stored"
        page.paragraph(f"Read {clean(table.source)} ({table.kind}): {size}.")
        for note in table.notes:
            page.paragraph(f"  {note.message(as_option)}", indent=4)
    names = table.names or made_up_names(p)
    choice = choose_columns(options, names, options.factors)
    kept = list(choice.kept)
    check_enough_columns(options.factors, len(kept))
    if not kept:
        raise DataError("No column is left to analyse. Choose others in --columns or --exclude.")
    exposure = None
    if options.exposure is not None:
        exposure = sparse_exposure(table, options.exposure)
    labels = [names[j] for j in kept]
    x = table.x if len(kept) == p else table.x[:, kept]
    counts = check_matrix(x, labels, exposure, None)
    own = labels if table.names is not None or len(kept) < p else None
    provenance = replace(
        sparse_provenance(table),
        names=tuple(labels),
        excluded=tuple(names[j] for j in choice.excluded),
        options=reading_options(options),
    )
    shown = {
        "read": {"source": table.source, "kind": table.kind, "n_rows": n, "n_columns": p},
        "left_out": {"columns": [], "excluded": list(provenance.excluded), "rows": 0},
    }
    return ReadCounts(CountInput(counts, own, provenance), exposure, shown)


def sparse_exposure(table: SparseTable, name: str) -> Array:
    """Exposures of the rows of an h5ad file."""
    known = table.columns or {}
    if name not in known:
        names = ", ".join(map(repr, known)) or "none"
        raise must_be("--exposure", f"a column of numbers of the rows ({names})", name)
    found = np.asarray(known[name], dtype=float)
    check_exposure(name, found)
    return found


def sparse_as_file(table: SparseTable) -> FileTable:
    """What a writer of tables needs of a sparse matrix: the names of its rows, if it has any."""
    n = int(table.x.shape[0])
    if table.ids is None:
        return FileTable(table.source, table.kind, [], n, [])
    column = ParsedColumn(SPARSE_ROW_NAMES, n, 0, None)
    return FileTable(table.source, table.kind, [column], n, [], 0, table.ids)
