"""Tables larger than memory: columns are chosen by type, and rows are summed up in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.moments import Moments
from cuspfa.data.out_of_core.load import incomplete_rows
from cuspfa.data.out_of_core.memory import allowed_bytes
from cuspfa.data.out_of_core.readers import kind_of, types_of
from cuspfa.data.out_of_core.stream import MissingValuesError, Plan, Progress, RowStream, read
from cuspfa.data.screening.columns import (
    FEWEST_COLUMNS,
    Chosen,
    LeftOut,
    called_an_id,
    choose,
    parse_columns,
    refuse_matrix_in,
)
from cuspfa.data.screening.matrix_input import FirstRows
from cuspfa.data.tables.arrow import is_number
from cuspfa.data.tables.cells import column_of_numbers
from cuspfa.data.tables.reader import COPIES, Table, find_column
from cuspfa.data.tables.text_format import made_up_names
from cuspfa.errors import DataError, InputError
from cuspfa.missing.kernels import RowsInMemory
from cuspfa.posterior.base import Posterior

ARRAYS = (".npy", ".zarr", ".h5ad")
"""Kinds of files that are read by blocks whatever their size: no other reader knows them."""


@dataclass(frozen=True, eq=False)
class Large:
    """What was read of it, in the forms that a smaller table has."""

    table: Table
    chosen: Chosen
    data: Moments | RowStream | Array
    """Sums, or rows that had to be held; a stream where the library maps them from their file."""
    sample: Array
    """The first rows of the columns that are analysed."""


def is_large(data: str | None, limit: str | None) -> bool:
    """A folder, a file that does not fit or is an array, or one for which a limit is given."""
    if data is None or data == "-":
        if limit is not None:
            raise InputError("--memory-limit is for a file or a folder. Give one.")
        return False
    allowed = allowed_bytes(limit, "--memory-limit")
    path = Path(data)
    if limit is not None or path.is_dir() or kind_of(path) in ARRAYS:
        return path.exists()
    return path.is_file() and allowed is not None and COPIES * path.stat().st_size > allowed


def plan_large(
    data: str,
    limit: str | None,
    columns: Sequence[str],
    exclude: Sequence[str],
    id_column: str | None,
    progress: Callable[[Progress], None],
) -> tuple[RowStream, Table, Chosen, Plan]:
    """Which columns are read, and what that takes; no row is read yet."""
    types = types_of(data)
    names = list(types)
    position = None if id_column is None else find_column("--id", id_column, names)
    asked = parse_columns("--columns", columns, names)
    unwanted = parse_columns("--exclude", exclude, names)
    left_out, kept = [], []
    for j in asked if columns else range(len(names)):
        reason = _reason(names[j], types[names[j]], j == position, wanted=bool(columns))
        if j in unwanted:
            continue
        if reason:
            left_out.append(LeftOut(names[j].strip() or "(no name)", reason, ""))
        else:
            kept.append(names[j])
    if types and len(kept) < FEWEST_COLUMNS:
        raise DataError(f"{data} has {len(kept)} column(s) of numbers; 2 are needed.")
    stream = RowStream(data, columns=kept or None, memory_limit=limit, progress=progress)
    kept = stream.names or made_up_names(stream.n_columns)
    whole = [column_of_numbers(name, np.empty(0)) for name in names or kept]
    said = [] if stream.reader.remark is None else [stream.reader.remark]
    table = Table(
        data, "by blocks", whole, stream.n_rows or 0, said, id_position=position, loud=said
    )
    excluded = [names[j] for j in unwanted]
    nothing = np.empty((0, len(kept)))
    return stream, table, Chosen(kept, nothing, left_out, excluded, {}), stream.plan()


def read_large(stream: RowStream, table: Table, chosen: Chosen, *, asked: bool) -> Large:
    """One pass; columns that turn out to be constant, or to count the rows, are left out.

    `asked`: the columns were named, so that they are what the user wants.
    """
    if stream.plan().how == "map":
        return Large(table, chosen, stream, _sample(stream))
    try:
        first = FirstRows(stream.n_columns)
        found = read(stream, first)
        if first.square is not None:
            refuse_matrix_in(table.source, first.square)
    except MissingValuesError as error:
        found = incomplete_rows(stream, error)
    if isinstance(found, np.ndarray):
        return _in_memory(found, table, chosen, asked=asked, empty=stream.empty_rows)
    assert isinstance(found, Moments)
    empty = stream.empty_rows
    squares = np.diag(found.cross_products)
    reasons = np.where(squares <= found.n * (1e-12 * found.mean) ** 2, "constant", "").tolist()
    if not asked and table.names[:1] == chosen.names[:1]:
        reasons[0] = reasons[0] or _counts_rows(found)
    gone = [LeftOut(chosen.names[j], reason, "") for j, reason in enumerate(reasons) if reason]
    keep = np.array([j for j, reason in enumerate(reasons) if not reason], dtype=int)
    if len(keep) < FEWEST_COLUMNS:
        raise DataError(f"{table.source} has {len(keep)} column(s) that vary; 2 are needed.")
    names = [chosen.names[j] for j in keep]
    moments = Moments(found.n, found.mean[keep], found.cross_products[np.ix_(keep, keep)], names)
    left = replace(
        chosen,
        names=names,
        left_out=chosen.left_out + gone,
        empty=empty,
        counted=(found.n, 0),
    )
    table = replace(table, n_rows=found.n + empty)
    return Large(table, left, moments, _sample(stream)[:, keep])


def _counts_rows(found: Moments) -> str:
    """Does the first column have the mean and the variance of 0, 1, 2, ... or 1, 2, 3, ...?"""
    n = float(found.n)
    squares = n * (n**2 - 1) / 12
    for start in (0, 1):
        off = abs(found.mean[0] - start - (n - 1) / 2)
        if off < 1e-9 * n and abs(found.cross_products[0, 0] - squares) < 1e-9 * squares:
            return f"counts the rows from {start} on; to keep it, name it in --columns"
    return ""


def _sample(stream: RowStream) -> Array:
    """The first block of rows."""
    blocks = stream.blocks(allow_missing=True)
    try:
        return next((np.asarray(one.rows) for one in blocks), np.empty((0, stream.n_columns)))
    finally:
        blocks.close()  # type: ignore[attr-defined]


def _in_memory(rows: Array, table: Table, chosen: Chosen, *, asked: bool, empty: int) -> Large:
    """Rows that have to be held: their columns are looked at as those of any table.

    So many `empty` ones are gone already.
    """
    columns = [column_of_numbers(name, own) for name, own in zip(chosen.names, rows.T, strict=True)]
    held = replace(table, columns=columns, n_rows=len(rows), id_position=None)
    found = choose(held, chosen.names if asked else ())
    left_out = chosen.left_out + found.left_out
    found = replace(found, left_out=left_out, excluded=chosen.excluded, empty=found.empty + empty)
    table = _counted(table, len(rows) + empty, found.n_missing, found.empty)
    return Large(table, found, found.rows, found.rows)


def _counted(table: Table, n: int, n_missing: dict[str, int], empty: int) -> Table:
    columns = [
        replace(one, n_rows=n, n_missing=n_missing.get(one.name, 0) + empty)
        for one in table.columns
    ]
    return replace(table, n_rows=n, columns=columns)


def after_fit(large: Large, posterior: Posterior) -> Large:
    """With the rows and missing values of a stream that the library read itself."""
    stream = large.data
    if not isinstance(stream, RowStream):
        return large
    n = posterior.n_rows
    lacking = (n - np.asarray(posterior.column_counts)).round().astype(int)
    n_missing = {name: int(k) for name, k in zip(large.chosen.names, lacking, strict=True) if k}
    broken = _n_incomplete_rows(stream, posterior) if n_missing else 0
    empty = (stream.n_rows or n) - n
    chosen = replace(large.chosen, n_missing=n_missing, counted=(n, broken), empty=empty)
    return Large(_counted(large.table, n + empty, n_missing, empty), chosen, stream, large.sample)


def _n_incomplete_rows(stream: RowStream, posterior: Posterior) -> int:
    """As the fit knows them; if it keeps no rows, in one more pass."""
    kept = getattr(posterior, "rows", None)
    if isinstance(kept, RowsInMemory):
        return len(np.unique(kept.missing[0]))
    lacking = (np.isnan(block.rows) for block in stream.blocks(allow_missing=True))
    return sum(int(np.sum(one.any(axis=1) & ~one.all(axis=1))) for one in lacking)


def _reason(name: str, kind: str, is_id: bool, *, wanted: bool) -> str:
    if is_id:
        return "names of rows, as --id says"
    if not is_number(kind):
        return f"not numbers: {kind}"
    if not wanted and kind.startswith(("int", "uint")):
        if called_an_id(name):
            return "names of rows: whole numbers, and called so; to keep it, name it in --columns"
        if not name.strip():
            return "names of rows: whole numbers without a name"
    return ""
