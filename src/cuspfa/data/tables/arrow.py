"""Tables in files that pyarrow reads: Parquet, Feather (Arrow IPC), CSV and TSV."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cuspfa._utils.optional import needed
from cuspfa.data.out_of_core.block import Block
from cuspfa.data.tables.text_format import (
    LOOK_CELLS,
    LOOK_CHARACTERS,
    MISSING_SPELLINGS,
    all_numbers,
    as_it_was,
    first_row_said,
    like_names,
    made_up_names,
)
from cuspfa.data.validate import check_columns
from cuspfa.errors import DataError

SUFFIXES = (".parquet", ".pq", ".feather", ".arrow", ".ipc", ".csv", ".tsv")
_SEPARATORS = ",;\t|"


class ArrowFiles:
    """Files of one kind whose columns are the same, by name, in any order."""

    again = True

    def __init__(self, files: list[Path], kind: str, columns: Any) -> None:
        self.files = files
        self.form = _form(kind)
        first = self._known(files[0])
        if not first:
            raise DataError(f"{str(files[0])!r} has no columns.")
        names = list(first)
        if columns is not None:
            _check_there(files[0], columns, first)
            names = [names[j] for j in check_columns(columns, len(names), names)]
        self.names: list[str] | None = names
        self.n_columns = len(names)
        for file in files:
            self._check_same(file, first if file is files[0] else self._known(file))
        self.remark = self.form.remark(files[0])
        rows = [self.form.count(file) for file in files]
        self.n_rows: int | None = None if None in rows else sum(filter(None, rows))

    def _known(self, file: Path) -> dict[str, Any]:
        with _readable(file):
            names, types = self.form.schema(file)
        (most, times), *_ = Counter(names).most_common(1) or [("", 0)]
        if times > 1:
            raise DataError(f"{str(file)!r} has {times} columns called {most!r}. Rename them.")
        return dict(zip(names, types, strict=True))

    def _check_same(self, file: Path, known: dict[str, Any]) -> None:
        assert self.names is not None
        missing = [name for name in self.names if name not in known]
        if missing:
            shown = ", ".join(repr(name) for name in missing[:5])
            more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
            raise DataError(
                f"{str(file)!r} has no column {shown}{more}, which {str(self.files[0])!r} has. All "
                "files must have the same columns."
            )
        for name in self.names:
            if not is_number(known[name]):
                raise DataError(
                    f"{str(file)!r}: column {name!r} has type {known[name]}, which is not numeric. "
                    "Leave it out (columns= of RowStream, --exclude of the program), or turn it "
                    "into numbers."
                )

    def blocks(self, size: int, dtype: Any) -> Iterator[Block]:
        """Batches of the files, put together where they are small."""
        assert self.names is not None
        for file in self.files:
            # Columns are contiguous, as they are in the file: no time is lost in turning them.
            filled, first = 0, 0
            casts: list[tuple[int, str | None]] | None = None
            room = np.empty((self.n_columns, size), dtype)
            with _readable(file):
                for batch in self.form.batches(file, self.names, size):
                    done = 0
                    casts = _casts(batch.schema, self.names) if casts is None else casts
                    while done < len(batch):
                        part = batch.slice(done, min(size - filled, len(batch) - done))
                        _fill(room[:, filled : filled + len(part)], part, casts)
                        done, filled = done + len(part), filled + len(part)
                        if filled == size:
                            yield Block(room.T, str(file), first)
                            first, filled = first + size, 0
                            room = np.empty((self.n_columns, size), dtype)
                if filled:
                    yield Block(room[:, :filled].T, str(file), first)


def column_types(file: Path, kind: str) -> dict[str, str]:
    """What columns a file has, by name, and of which type each is."""
    with _readable(file):
        return {name: str(one) for name, one in zip(*_form(kind).schema(file), strict=True)}


def _check_there(file: Path, columns: Any, known: dict[str, Any]) -> None:
    given = [columns] if isinstance(columns, str) else columns
    if isinstance(given, (list, tuple)):
        missing = [name for name in given if isinstance(name, str) and name not in known]
        if missing:
            raise DataError(f"{str(file)!r} has no column {missing[0]!r}.")


def _fill(room: Any, batch: Any, casts: list[tuple[int, str | None]]) -> None:
    for target, (place, cast) in zip(room, casts, strict=True):
        column = batch.column(place)
        column = column if cast is None else column.cast(cast)
        with np.errstate(over="ignore"):  # what is infinite is refused later
            target[:] = column.to_numpy(zero_copy_only=False)


def _casts(schema: Any, names: list[str]) -> list[tuple[int, str | None]]:
    """Where each column is, and what it must be made before NumPy takes it as numbers."""
    places = {name: j for j, name in enumerate(schema.names)}
    found: list[tuple[int, str | None]] = []
    for name in names:
        kind = str(schema.types[places[name]])
        cast = "int8" if kind == "bool" else None
        cast = "float64" if kind.startswith(("decimal", "null")) else cast
        found.append((places[name], cast))
    return found


def is_number(kind: Any) -> bool:
    """Can a column of this type be analysed?"""
    word = str(kind)
    return word.startswith(("int", "uint", "float", "double", "halffloat", "bool", "decimal")) or (
        word == "null"
    )


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Pyarrow's errors in our words, with the file."""
    try:
        yield
    except DataError:
        raise
    except (ValueError, OSError, EOFError) as error:  # pyarrow's own are kinds of these
        raise DataError(f"{str(file)!r} cannot be read, or is damaged: {error}") from error


# --- the three forms ---------------------------------------------------------------------------


class _Binary:
    """Files that hold names of their columns."""

    def remark(self, file: Path) -> str | None:
        return None


class _Parquet(_Binary):
    def __init__(self) -> None:
        self.module = needed("pyarrow.parquet", "Reading Parquet files", "files")

    def _open(self, file: Path) -> Any:
        return self.module.ParquetFile(file, memory_map=True, pre_buffer=False)

    def schema(self, file: Path) -> tuple[list[str], list[Any]]:
        with self._open(file) as opened:
            found = opened.schema_arrow
            return found.names, found.types

    def count(self, file: Path) -> int | None:
        with self._open(file) as opened:
            return int(opened.metadata.num_rows)

    def batches(self, file: Path, names: list[str], size: int) -> Iterator[Any]:
        with self._open(file) as opened:
            yield from opened.iter_batches(size, columns=names, use_threads=False)


class _Feather(_Binary):
    def __init__(self) -> None:
        self.module = needed("pyarrow", "Reading Feather files", "files")
        needed("pyarrow.ipc", "Reading Feather files", "files")

    def _open(self, file: Path) -> Any:
        return self.module.ipc.open_file(self.module.memory_map(str(file)))

    def schema(self, file: Path) -> tuple[list[str], list[Any]]:
        found = self._open(file).schema
        return found.names, found.types

    def count(self, file: Path) -> int | None:
        opened = self._open(file)
        if not hasattr(opened, "count_rows"):
            return None
        return int(opened.count_rows())

    def batches(self, file: Path, names: list[str], size: int) -> Iterator[Any]:
        opened = self._open(file)
        for number in range(opened.num_record_batches):
            yield opened.get_batch(number)


class _Text:
    def __init__(self) -> None:
        self.module = needed("pyarrow.csv", "Reading CSV files by blocks", "files")

    def _open(self, file: Path, types: dict[str, Any] | None = None) -> Any:
        arrow, start = self.module, _start(file)
        return arrow.open_csv(
            file,
            # One thread, so that an error can say in which row it is.
            read_options=arrow.ReadOptions(
                use_threads=False,
                block_size=1 << 22,
                column_names=start.names,
                skip_rows=start.skipped,
            ),
            parse_options=arrow.ParseOptions(delimiter=start.separator),
            convert_options=arrow.ConvertOptions(
                column_types=types or {},
                include_columns=list(types or {}),
                null_values=MISSING_SPELLINGS,
                strings_can_be_null=True,
            ),
        )

    def schema(self, file: Path) -> tuple[list[str], list[Any]]:
        with self._open(file) as opened:
            found = opened.schema
        return list(found.names), list(found.types)

    def remark(self, file: Path) -> str | None:
        """What the first row was taken for, if that is not plain."""
        return _start(file).remark

    def count(self, file: Path) -> int | None:
        return None

    def batches(self, file: Path, names: list[str], size: int) -> Iterator[Any]:
        # Types are guessed from the first rows; whole numbers may go on as others.
        known = dict(zip(*self.schema(file), strict=True))
        types = {name: "bool" if str(known[name]) == "bool" else "float64" for name in names}
        with self._open(file, types) as opened:
            yield from opened


def _form(kind: str) -> _Parquet | _Feather | _Text:
    if kind in (".parquet", ".pq"):
        return _Parquet()
    return _Feather() if kind in (".feather", ".arrow", ".ipc") else _Text()


class _Start(NamedTuple):
    """How a table of text begins."""

    separator: str
    names: list[str] | None
    """Made up, where the first row is data; None for those of the header."""
    remark: str | None
    skipped: int = 0
    """Lines above the first row, and the header, where `names` stand for it."""


def _start(file: Path) -> _Start:
    """The separator that is in the first line most often, and what the first row is."""
    pyarrow = needed("pyarrow", "Reading CSV files by blocks", "files")
    with pyarrow.input_stream(str(file), compression="detect") as stream:
        head = stream.read(LOOK_CHARACTERS)
    lines = head.decode("utf-8-sig", "replace").splitlines()
    lines = lines[:-1] if len(head) == LOOK_CHARACTERS else lines  # the last may be cut off
    blank = next((number for number, line in enumerate(lines) if line.strip()), 0)
    lines = [line for line in lines if line.strip()]
    if not lines:
        return _Start(",", None, None)
    separator = max(_SEPARATORS, key=lines[0].count)
    first = next(csv.reader(lines[:1], delimiter=separator))
    if not all_numbers(first, "."):
        known = list(map(as_it_was, first))
        if known != first:
            return _Start(separator, known, None, blank + 1)
        return _Start(separator, None, None)
    below = lines[1 : 1 + max(LOOK_CELLS // len(first), 1)]
    names = like_names(first, list(csv.reader(below, delimiter=separator)), ".")
    said = first_row_said(names, len(first))
    return _Start(separator, None if names else made_up_names(len(first)), said)
