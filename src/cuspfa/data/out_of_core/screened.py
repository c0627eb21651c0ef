"""Rows of files, read by blocks and screened as tables in memory are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import NearConstant
from cuspfa.data.moments import Moments
from cuspfa.data.out_of_core.block import Choice
from cuspfa.data.out_of_core.mapped import Mapped
from cuspfa.data.out_of_core.memory import in_words
from cuspfa.data.out_of_core.stream import MissingValuesError, RowStream, moments_of, read
from cuspfa.data.screening.columns import (
    ScreenedBlocks,
    check_columns_enough,
    check_rows_enough,
    screen,
)
from cuspfa.data.screening.matrix_input import FirstRows, refuse_matrix
from cuspfa.data.screening.near_constant import NearConstantColumns
from cuspfa.data.tables.arrow import NotNumbersError
from cuspfa.data.tables.cells import column_of_numbers
from cuspfa.data.tables.column_names import made_up_names
from cuspfa.data.tables.notes import DroppedColumn

INCOMPLETE_HELD = 5
"""Copies of the rows that the engine for missing values holds."""


class ScreenedRows(NamedTuple):
    """What is analysed of rows that were read by blocks."""

    data: Moments | Mapped | Array
    """Sums, rows that stay in their file, or rows that had to be held."""
    names: list[str] | None
    kept: list[int]
    """Positions, among the columns of the stream, of those analysed."""
    dropped: list[DroppedColumn]
    n_empty: int
    """Rows without any value, which are dropped."""
    n_missing: dict[str, int]
    near_constant: NearConstant | None


def read_screened(stream: RowStream, *, sums: bool = False) -> ScreenedRows:
    """One pass, or a second one where values are missing; of `sums` alone, that is an error.

    A column that turns out to hold something else than numbers is dropped, and the pass begun
    again.
    """
    while True:
        try:
            return _pass(stream, sums)
        except NotNumbersError as error:
            stream.reader.drop(error)


def _pass(stream: RowStream, sums: bool) -> ScreenedRows:
    reader = stream.reader
    names = stream.names or made_up_names(stream.n_columns)
    if reader.dropped or not reader.choice.insists:
        check_columns_enough(stream.source, len(names), reader.dropped, _n_cells(stream))
    watched = _Watched(
        NearConstantColumns(),
        FirstRows(stream.n_columns),
        ScreenedBlocks(names, reader.all_names[:1], reader.choice),
    )
    try:
        found = moments_of(stream, watched) if sums else read(stream, watched)
    except MissingValuesError as error:
        if sums:
            raise
        found = incomplete_rows(stream, error)
    if watched.first.square is not None:
        refuse_matrix(watched.first.square, "X" if reader.choice.insists else stream.source)
    every = list(range(len(names)))
    if reader.choice.insists or isinstance(found, Mapped):
        warning = watched.rare.warning(stream.names, every)
        return ScreenedRows(
            found, stream.names, every, reader.dropped, stream.empty_rows, {}, warning
        )
    if isinstance(found, np.ndarray):
        return _in_memory(found, names, stream)
    return _summed(found, names, stream, watched)


def _summed(found: Moments, names: list[str], stream: RowStream, watched: _Watched) -> ScreenedRows:
    check_rows_enough(stream.source, found.n)
    gone = watched.columns.dropped()
    kept = [j for j in range(len(names)) if j not in gone]
    dropped = _in_order(stream, gone.values())
    check_columns_enough(stream.source, len(kept), dropped, _n_cells(stream))
    own = stream.names and [names[j] for j in kept]
    if gone:
        cross = found.cross_products[np.ix_(kept, kept)]
        found = Moments(found.n, found.mean[kept], cross, own)
    warning = watched.rare.warning(stream.names, kept)
    return ScreenedRows(found, own, kept, dropped, stream.empty_rows, {}, warning)


def _in_memory(rows: Array, names: list[str], stream: RowStream) -> ScreenedRows:
    """Rows that have to be held: their columns are looked at as those of any table."""
    reader = stream.reader
    columns = [column_of_numbers(name, own) for name, own in zip(names, rows.T, strict=True)]
    choice = Choice(range(len(names)), asked=reader.choice.asked)
    found = screen(stream.source, columns, choice, first=reader.all_names[0])
    kept = [names.index(name) for name in found.names]
    own = stream.names and found.names
    return ScreenedRows(
        found.rows,
        own,
        kept,
        _in_order(stream, found.dropped),
        found.n_empty + stream.empty_rows,
        found.n_missing,
        None,
    )


def _in_order(stream: RowStream, gone: Iterable[DroppedColumn]) -> list[DroppedColumn]:
    """Columns dropped before and after the pass, in the order of the file."""
    places = {name: j for j, name in enumerate(stream.reader.all_names)}
    return sorted([*stream.reader.dropped, *gone], key=lambda one: places[one.name])


def _n_cells(stream: RowStream) -> int:
    """Columns of a file in which separators may have been missed; 0 of an array."""
    return len(stream.reader.all_names) if stream.names is not None else 0


class _Watched(NamedTuple):
    """What a fit wants to know of rows beside their sums."""

    rare: NearConstantColumns
    first: FirstRows
    columns: ScreenedBlocks

    def add(self, block: Any) -> None:
        for one in self:
            one.add(block)


def incomplete_rows(stream: RowStream, error: MissingValuesError) -> Array:
    """All rows: what is missing differs from row to row, so that no sums tell of it."""
    if not stream.reader.again:
        raise MissingValuesError(
            f"{error} A fit to incomplete data needs all rows, and an iterator gives them once: "
            "pass a path, or an array."
        ) from error
    held: list[Array] = []
    rows = stream.n_rows or 0
    for block in stream.blocks(allow_missing=True):
        held.append(np.asarray(block.rows))
        rows = max(rows, sum(map(len, held)))
        check_incomplete(rows, stream.n_columns, stream.allowed, error)
    return np.concatenate(held)


def check_incomplete(rows: int, p: int, allowed: int | None, error: MissingValuesError) -> None:
    """Refuse to hold more rows with missing values than there is memory for."""
    needed = INCOMPLETE_HELD * 8 * rows * p
    if allowed is not None and needed > allowed:
        raise MissingValuesError(
            f"{error} A fit to incomplete data needs all rows in memory: {in_words(needed)} or "
            f"more, and {in_words(allowed)} may be taken (memory_limit)."
        ) from error
