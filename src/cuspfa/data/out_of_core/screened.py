"""Rows of files, read by blocks and screened as tables in memory are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import ColumnsDropped, FitWarning, NearConstant, ReadingNote
from cuspfa.data.column_choice import ColumnChoice
from cuspfa.data.out_of_core.mapped import Mapped
from cuspfa.data.out_of_core.memory import check_fits, format_bytes
from cuspfa.data.out_of_core.stream import (
    COPIES_OF_HELD_ROWS,
    MissingValuesError,
    RowStream,
    read_stream,
    stream_sums,
)
from cuspfa.data.screening.column_kinds import KindGroup, KindWatcher
from cuspfa.data.screening.columns import (
    ScreenedBlocks,
    check_columns_enough,
    check_rows_enough,
    covariate_notes,
    screen,
)
from cuspfa.data.screening.matrix_input import FirstRows, refuse_matrix
from cuspfa.data.screening.near_constant import NearConstantColumns
from cuspfa.data.sums import Sums
from cuspfa.data.tables.arrow import ArrowFiles, NotNumbersError
from cuspfa.data.tables.cells import column_of_numbers
from cuspfa.data.tables.column_names import made_up_names
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.data.tables.summary_rows import LastRows, check_last_rows
from cuspfa.errors import DataError

INCOMPLETE_COPIES = 5
"""Copies of the rows in memory during a fit to incomplete data."""


class ScreenedRows(NamedTuple):
    """What is analysed of rows that were read by blocks."""

    data: Sums | Mapped | Array
    """Sums, rows that stay in their file, or rows in memory."""
    names: list[str] | None
    kept: list[int]
    """Positions, among the columns of the stream, of those analysed."""
    dropped: list[DroppedColumn]
    n_empty: int
    """Rows without any value. They are dropped."""
    n_missing: dict[str, int]
    near_constant: NearConstant | None
    notes: list[Note] = []  # noqa: RUF012 (it is not changed)
    """Columns that look like covariates, or are copies of others."""
    kinds: tuple[KindGroup, ...] = ()
    """Columns by kind, of rows that are not in memory."""


def read_screened(
    stream: RowStream, *, sums: bool = False, every_row: bool = False
) -> ScreenedRows:
    """One pass over the rows, and a second one where values are missing.

    With `sums`, only sums are returned, and a missing value is an error. With `every_row` the rows
    themselves are held. A column that turns out not to hold numbers is dropped, and the pass is
    repeated.
    """
    while True:
        try:
            if every_row:
                names = stream.names or made_up_names(stream.n_columns)
                return _in_memory(held_rows(stream), names, stream)
            return _pass(stream, sums)
        except NotNumbersError as error:
            stream.reader.drop(error)


def _pass(stream: RowStream, sums: bool) -> ScreenedRows:
    reader = stream.reader
    names = stream.names or made_up_names(stream.n_columns)
    if reader.dropped or not reader.choice.insists:
        check_columns_enough(
            stream.source, len(names), reader.dropped, _n_cells(stream), stream.how.spell
        )
    watched = _Watched(
        NearConstantColumns(),
        FirstRows(stream.n_columns),
        ScreenedBlocks(names, reader.all_names, reader.choice),
        KindWatcher(),
        LastRows(),
    )
    try:
        found = stream_sums(stream, watched) if sums else read_stream(stream, watched)
    except MissingValuesError as error:
        if sums:
            raise
        found = incomplete_rows(stream, error)
    if isinstance(found, Sums):
        _check_no_summaries(stream, watched.last.check)
    if watched.first.square is not None:
        what = "X" if reader.choice.insists else stream.source
        refuse_matrix(watched.first.square, what, stream.how.spell)
    every = list(range(len(names)))
    if reader.choice.insists or isinstance(found, Mapped):
        warning = watched.rare.warning(stream.names, every)
        return ScreenedRows(
            found,
            stream.names,
            every,
            reader.dropped,
            stream.empty_rows,
            {},
            warning,
            kinds=watched.kinds.kinds(every),
        )
    if isinstance(found, np.ndarray):
        return _in_memory(found, names, stream)
    return _summed(found, names, stream, watched)


def _check_no_summaries(stream: RowStream, check: Callable[[], None]) -> None:
    """Check the last rows of text, Parquet and Feather; other files are checked when read."""
    if not isinstance(stream.reader, ArrowFiles):
        return
    try:
        check()
    except DataError as error:
        raise DataError(f"{stream.source}: {error}") from error


def _summed(found: Sums, names: list[str], stream: RowStream, watched: _Watched) -> ScreenedRows:
    check_rows_enough(stream.source, found.n)
    gone = watched.columns.dropped()
    kept = [j for j in range(len(names)) if j not in gone]
    dropped = _in_order(stream, gone.values())
    check_columns_enough(stream.source, len(kept), dropped, _n_cells(stream), stream.how.spell)
    own = stream.names and [names[j] for j in kept]
    found = found.only(kept) if gone else found
    warning = watched.rare.warning(stream.names, kept)
    notes = covariate_notes(watched.columns.covariates)
    kinds = watched.kinds.kinds(kept)
    return ScreenedRows(found, own, kept, dropped, stream.empty_rows, {}, warning, notes, kinds)


def _in_memory(rows: Array, names: list[str], stream: RowStream) -> ScreenedRows:
    """Rows that are held in memory, screened like any table."""
    reader = stream.reader
    _check_no_summaries(stream, partial(check_last_rows, list(rows.T)))
    columns = [column_of_numbers(name, own) for name, own in zip(names, rows.T, strict=True)]
    included = {reader.all_names[j] for j in reader.choice.included}
    choice = ColumnChoice(
        range(len(names)),
        asked=reader.choice.asked,
        included=[j for j, name in enumerate(names) if name in included],
        drops_covariates=reader.choice.drops_covariates,
    )
    found = screen(
        stream.source, columns, choice, spell=stream.how.spell, first=reader.all_names[0]
    )
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
        found.notes,
    )


def stream_passes(
    stream: RowStream, kept: list[int], function: Callable[..., Array], *values: Array
) -> Iterator[Array]:
    """One more pass over some columns; see `cuspfa.data.robust_moments.Passes`.

    Rows without any value, which the first pass left out, are rows of NaN.
    """
    first, every = 0, len(kept) == stream.n_columns
    for block in stream.blocks(allow_missing=True):
        here = slice(first, first + len(block.rows))
        first += len(block.rows)
        rows = block.rows if every else block.rows[:, kept]
        yield function(rows, *(one[here] for one in values))


def doubts_of(notes: Sequence[Note], dropped: Sequence[DroppedColumn]) -> tuple[FitWarning, ...]:
    """What the reader of a file assumed and may have got wrong, and the columns it dropped."""
    doubts = tuple(ReadingNote(note) for note in notes if note.is_doubt)
    if not dropped:
        return doubts
    return (*doubts, ColumnsDropped(tuple(one.without_example() for one in dropped)))


def _in_order(stream: RowStream, gone: Iterable[DroppedColumn]) -> list[DroppedColumn]:
    """Columns dropped before and after the pass, in the order of the file."""
    places = {name: j for j, name in enumerate(stream.reader.all_names)}
    return sorted([*stream.reader.dropped, *gone], key=lambda one: places[one.name])


def _n_cells(stream: RowStream) -> int:
    """Number of columns of a file, which is 1 if separators were missed; 0 for an array."""
    return len(stream.reader.all_names) if stream.names is not None else 0


class _Watched(NamedTuple):
    """What is collected of the rows beside their sums."""

    rare: NearConstantColumns
    first: FirstRows
    columns: ScreenedBlocks
    kinds: KindWatcher
    last: LastRows

    def add(self, block: Any) -> None:
        for one in self:
            one.add(block)


def incomplete_rows(stream: RowStream, error: MissingValuesError) -> Array:
    """All rows, since incomplete rows have no sufficient statistics."""
    if not stream.reader.again:
        raise MissingValuesError(
            f"{error} A fit to incomplete data needs a second pass, and an iterator can be read "
            "once: pass a path, or an array."
        ) from error
    held: list[Array] = []
    rows = stream.n_rows or 0
    for block in stream.blocks(allow_missing=True):
        held.append(np.asarray(block.rows))
        rows = max(rows, sum(map(len, held)))
        check_incomplete(rows, stream.n_columns, stream.allowed, error)
    return np.concatenate(held)


def held_rows(stream: RowStream) -> Array:
    """All rows, with their missing values; refused as soon as they do not fit into memory."""
    held: list[Array] = []
    rows = stream.n_rows or 0
    check_held(rows, stream.n_columns, stream.allowed, counted=True)
    for block in stream.blocks(allow_missing=True):
        held.append(np.asarray(block.rows, dtype=float))
        rows = max(rows, sum(map(len, held)))
        check_held(rows, stream.n_columns, stream.allowed, counted=stream.n_rows is not None)
    return np.concatenate(held) if held else np.zeros((0, stream.n_columns))


def check_held(rows: int, p: int, allowed: int | None, *, counted: bool) -> None:
    """Refuse to hold more rows than there is memory for, copies of them included.

    `counted` says that there are no more rows than these.
    """
    more = "" if counted else " or more"
    check_fits(
        COPIES_OF_HELD_ROWS * 8 * rows * p,
        allowed,
        f"A fit of {rows:,} rows{more} and {p:,} columns, not all Gaussian,",
        "Fit a sample of the rows, or use likelihood='gaussian', which needs sums alone.",
    )


def check_incomplete(rows: int, p: int, allowed: int | None, error: MissingValuesError) -> None:
    """Refuse to hold more rows with missing values than there is memory for."""
    needed = INCOMPLETE_COPIES * 8 * rows * p
    if allowed is not None and needed > allowed:
        raise MissingValuesError(
            f"{error} A fit to incomplete data needs all rows in memory: {format_bytes(needed)} or "
            f"more, and {format_bytes(allowed)} may be taken (memory_limit)."
        ) from error
