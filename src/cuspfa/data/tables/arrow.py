"""Files that Arrow reads by blocks: Parquet, Feather (Arrow IPC), CSV and TSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cuspfa._utils.optional import needed
from cuspfa.data.column_choice import ChooseColumns
from cuspfa.data.names import check_same_columns
from cuspfa.data.out_of_core.block import Block
from cuspfa.data.tables.answers import FoundAnswers, as_numbers, different_cells, find_answers
from cuspfa.data.tables.cells import (
    ParsedColumn,
    column_of_arrow,
    is_number_type,
    missing_codes,
    words_undecided,
)
from cuspfa.data.tables.column_names import unique_names
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.data.tables.text import Parser, start_of
from cuspfa.errors import DataError, InputError

TEXT_SUFFIXES = (".csv", ".tsv")
ARROW_SUFFIXES = (".parquet", ".pq", ".feather", ".arrow", ".ipc", *TEXT_SUFFIXES)
FIRST_BATCH_ROWS = 10_000
"""Rows of the first batch, in which columns that do not hold numbers are found."""


class NotNumbersError(DataError):
    """A column that began with numbers has other values further on."""

    def __init__(self, message: str, dropped: DroppedColumn) -> None:
        super().__init__(message)
        self.dropped = dropped


class ArrowFiles:
    """Files of one kind with the same column names, in any order."""

    again = True

    def __init__(self, files: list[Path], kind: str, choose: ChooseColumns, how: Reading) -> None:
        self.files = files
        self.missing = missing_codes(how.missing)
        self.open = {file: _open_file(file, kind, how) for file in files}
        first = self.open[files[0]]
        self.all_names, self.notes = first.names, list(first.notes)
        with _readable(files[0]):
            self.choice = choose(first.names)
        self.names: list[str] | None = [first.names[j] for j in self.choice.kept]
        self.dropped: list[DroppedColumn] = []
        self.coded = 0
        """Missing values in the last pass that are codes of the user."""
        self._truth: dict[str, bool] = {}
        self.answers, self._undecided = self._find_answers(first, how)
        self._words = {name: one for one in self.answers for name in one.columns}
        self.notes += [one.note for one in self.answers]
        for file in files:
            self._check_columns(file)
        rows = [one.n_rows for one in self.open.values()]
        self.n_rows: int | None = None if None in rows else sum(filter(None, rows))

    def _find_answers(self, first: Opened, how: Reading) -> FoundAnswers:
        """Columns of words that become numbers, by the first rows of the first file."""
        cells = {name: different_cells(one) for name, one in first.doubtful.items()}
        texts = {name: one for name, one in cells.items() if one is not None}
        return find_answers(texts, how.order, self.missing, how.answers)

    @property
    def n_columns(self) -> int:
        """Number of columns that are read."""
        return len(self.names or [])

    def _check_columns(self, file: Path) -> None:
        """Check that a file has all columns, and drop those that do not begin with numbers."""
        assert self.names is not None
        opened = self.open[file]
        check_same_columns(str(file), opened.places, str(self.files[0]), self.names)
        for name in [name for name in self.names if name in opened.doubtful]:
            try:
                self._careful(name, opened.doubtful[name], opened, 0)
            except NotNumbersError as error:
                self.drop(error)

    def drop(self, error: NotNumbersError) -> None:
        """Drop a column that does not hold numbers; raise the error if it was requested."""
        if self.choice.insists or self.names is None:
            raise error
        self.names.remove(error.dropped.name)
        self.dropped.append(error.dropped)

    def blocks(self, size: int, dtype: Any) -> Iterator[Block]:
        """Batches of the files; small ones are joined."""
        names, self.coded = list(self.names or []), 0
        for file, opened in self.open.items():
            places = [opened.places[name] for name in names]
            # Columns are contiguous, as in the file, so that they are copied without a transpose.
            filled, first = 0, 0
            room = np.empty((len(names), size), dtype)
            with _readable(file):
                for batch in opened.batches(places, size):
                    done = 0
                    while done < len(batch):
                        part = batch.slice(done, min(size - filled, len(batch) - done))
                        target = room[:, filled : filled + len(part)]
                        self._fill(target, part, names, opened, first + filled)
                        done, filled = done + len(part), filled + len(part)
                        if filled == size:
                            yield Block(room.T, str(file), first)
                            first, filled = first + size, 0
                            room = np.empty((len(names), size), dtype)
                if filled:
                    yield Block(room[:, :filled].T, str(file), first)

    def _fill(self, room: Any, batch: Any, names: list[str], opened: Opened, first: int) -> None:
        for target, column, name in zip(room, batch.columns, names, strict=True):
            if is_number_type(column.type):
                self._quick(target, column)
            else:
                found = self._careful(name, column, opened, first)
                self.coded += found.coded
                target[:] = np.nan if found.numbers is None else found.numbers

    def _quick(self, target: Any, column: Any) -> None:
        """Convert a column of an Arrow number type."""
        kind = str(column.type)
        if kind == "bool":
            column = column.cast("int8")
        elif kind.startswith(("decimal", "null")):
            column = column.cast("float64")
        with np.errstate(over="ignore"):  # infinite values are refused later
            target[:] = column.to_numpy(zero_copy_only=False)
        if self.missing.numbers:
            codes = np.isin(target, self.missing.numbers)
            target[codes] = np.nan
            self.coded += int(codes.sum())

    def _careful(self, name: str, cells: Any, opened: Opened, first: int) -> ParsedColumn:
        """Convert cells of any type by the rules for tables in memory."""
        if name in self._words:
            cells = as_numbers(cells, self._words[name])
        found = column_of_arrow(name, cells, self.missing, opened.decimal)
        if name in self._undecided:
            found = words_undecided(found, self._undecided[name])
        if found.numbers is not None and self._truth.setdefault(name, found.truth) != found.truth:
            wrong = DroppedColumn(name, "mixed", found.n_rows - found.n_missing, found.n_rows)
            raise _not_numbers_error(opened, wrong, first)
        if found.dropped is None or found.dropped.code == "empty":
            return found
        parts = (
            column_of_arrow(name, cells.slice(row, 1), self.missing, opened.decimal)
            for row in range(len(cells))
        )
        row = next(
            row for row, one in enumerate(parts) if one.dropped and one.dropped.code != "empty"
        )
        raise _not_numbers_error(opened, found.dropped, first + row)


def _not_numbers_error(opened: Opened, wrong: DroppedColumn, row: int) -> NotNumbersError:
    """An error that names the row; the number of such values is not known."""
    code = "strays" if wrong.code == "mixed" else wrong.code
    # The row is that of the first word, which need not be the odd one.
    place = "" if code == "odd_word" else f" in {opened.row(row)}"
    wrong = DroppedColumn(wrong.name, code, detail=wrong.detail, example=f"{wrong.example}{place}")
    message = (
        f"{opened.file}: column {wrong.name!r} must be numbers. Got {wrong.reason}{wrong.example}. "
        "Leave the column out, or turn it into numbers."
    )
    return NotNumbersError(message, wrong)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Errors of Arrow as DataErrors that name the file."""
    try:
        yield
    except NotNumbersError:
        raise
    except DataError as error:
        raise DataError(f"{file}: {error}") from error
    except InputError:
        raise
    except (ValueError, OSError, EOFError) as error:  # base classes of Arrow's errors
        raise DataError(f"{str(file)!r} cannot be read, or is damaged: {error}") from error


# --- the three kinds of files ------------------------------------------------------------------


class Opened(NamedTuple):
    """One file, with its first rows."""

    file: Path
    names: list[str]
    notes: list[Note]
    doubtful: dict[str, Any]
    """The first rows of columns whose type is not a number type."""
    n_rows: int | None
    batches: Callable[[list[int], int], Iterator[Any]]
    """Gives batches of the columns at some positions, with so many rows if that can be chosen."""
    places: dict[str, int]
    row: Callable[[int], str]
    """Gives the name of a row, counted from 0, in messages."""
    decimal: str = "."


def _open_file(file: Path, kind: str, how: Reading) -> Opened:
    with _readable(file):
        if kind in TEXT_SUFFIXES:
            return _text(file, how)
        return _parquet(file) if kind in (".parquet", ".pq") else _feather(file)


def _open_with_schema(
    file: Path,
    columns: list[str],
    types: list[Any],
    n_rows: int | None,
    batches: Callable[[list[int], int], Iterator[Any]],
) -> Opened:
    """A file with a schema."""
    if not columns:
        raise DataError("the file has no columns.")
    names, notes = unique_names(columns)
    places = {name: j for j, name in enumerate(names)}
    others = [name for name, kind in zip(names, types, strict=True) if not is_number_type(kind)]
    head = (
        next(batches([places[name] for name in others], FIRST_BATCH_ROWS), None) if others else None
    )
    first = (
        {}
        if head is None
        else dict(zip(others, head.slice(0, FIRST_BATCH_ROWS).columns, strict=True))
    )
    return Opened(file, names, notes, first, n_rows, batches, places, lambda n: f"row {n + 1}")


def _parquet(file: Path) -> Opened:
    module = needed("pyarrow.parquet", "Reading Parquet files", "files")

    def batches(places: list[int], size: int) -> Iterator[Any]:
        with module.ParquetFile(file, memory_map=True, pre_buffer=False) as opened:
            asked = [opened.schema_arrow.names[j] for j in places]
            for batch in opened.iter_batches(size, columns=asked, use_threads=False):
                yield batch.select(asked)

    with module.ParquetFile(file, memory_map=True, pre_buffer=False) as opened:
        schema, n_rows = opened.schema_arrow, int(opened.metadata.num_rows)
    return _open_with_schema(file, schema.names, schema.types, n_rows, batches)


def _feather(file: Path) -> Opened:
    arrow = needed("pyarrow", "Reading Feather files", "files")
    needed("pyarrow.ipc", "Reading Feather files", "files")

    def batches(places: list[int], size: int) -> Iterator[Any]:
        opened = arrow.ipc.open_file(arrow.memory_map(str(file)))
        for number in range(opened.num_record_batches):
            yield opened.get_batch(number).select(places)

    opened = arrow.ipc.open_file(arrow.memory_map(str(file)))
    n_rows = int(opened.count_rows()) if hasattr(opened, "count_rows") else None
    return _open_with_schema(file, opened.schema.names, opened.schema.types, n_rows, batches)


def _text(file: Path, how: Reading) -> Opened:
    dialect = start_of(file, how)
    arrow = needed("pyarrow", "Reading CSV files by blocks", "files")
    parser = Parser(dialect)
    try:
        head = next(parser.batches(file, {}), None)
    except arrow.ArrowInvalid as error:
        raise parser.explained(error) from None
    if head is None:
        raise DataError("the file has a header and no rows.")
    by_arrow = [
        is_number_type(kind) and not arrow.types.is_boolean(kind) for kind in head.schema.types
    ]

    def batches(places: list[int], size: int) -> Iterator[Any]:
        # A column that begins with whole numbers may have decimals, or text, further on.
        numbers = {str(j): arrow.float64() if by_arrow[j] else arrow.string() for j in places}
        done, parser = 0, Parser(dialect)
        try:
            for batch in parser.batches(file, numbers):
                yield batch
                done += len(batch)
            return
        except arrow.ArrowInvalid as error:
            if parser.found_uneven_row:
                raise parser.explained(error) from None
        try:
            for batch in parser.batches(file, {str(j): arrow.string() for j in places}):
                if done < len(batch):
                    yield batch.slice(done)
                done = max(done - len(batch), 0)
        except arrow.ArrowInvalid as error:
            raise parser.explained(error) from None

    places = {name: j for j, name in enumerate(dialect.names)}
    first = {
        n: head.column(j).slice(0, FIRST_BATCH_ROWS) for n, j in places.items() if not by_arrow[j]
    }
    return Opened(
        file,
        dialect.names,
        dialect.notes,
        first,
        None,
        batches,
        places,
        lambda number: dialect.place(number + 1),
        dialect.decimal,
    )
