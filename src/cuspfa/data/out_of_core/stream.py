"""Rows that are not in memory, read block by block; a thread reads ahead."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.arguments import must_be, one_of, whole
from cuspfa._utils.wording import counted
from cuspfa.data.column_choice import ChooseColumns, chooser
from cuspfa.data.in_memory import ROW_BLOCK_SIZE
from cuspfa.data.names import column_label
from cuspfa.data.out_of_core.block import Block
from cuspfa.data.out_of_core.mapped import Mapped
from cuspfa.data.out_of_core.memory import allowed_bytes, check_fits, format_bytes
from cuspfa.data.out_of_core.readers import Slices, open_reader, paths_of
from cuspfa.data.screening.near_constant import Watcher
from cuspfa.data.sums import Sums
from cuspfa.data.tables.dialect import Reading, as_reading
from cuspfa.data.tables.read_options import ReadOptions
from cuspfa.data.validate import without_values
from cuspfa.errors import DataError

BLOCKS_AHEAD = 2
"""Blocks that are read ahead of the work on them."""
BLOCKS_HELD = BLOCKS_AHEAD + 4
"""Blocks in memory: read ahead, being read, summed and centred, and one of the reader."""
SQUARES_HELD = 4
"""p×p matrices of float64 in memory while sums become a source."""
MIN_BLOCK_ROWS = 256
"""Rows of a block at least: with fewer, adding up p×p numbers would dominate the cost."""
LARGEST_COPY_SHARE = 0.25
"""Share of the allowed memory up to which a wide map is copied, which speeds up iterations."""


COPIES_OF_HELD_ROWS = 4
"""Copies of rows that are held for columns that are not all Gaussian, while they are prepared."""


class ReadingProgress(NamedTuple):
    """Progress of a pass over the rows."""

    rows: int
    """Rows read so far."""
    n_rows: int | None
    """Number of all rows, if it is known."""
    rows_per_second: float
    seconds_left: float | None


class Plan(NamedTuple):
    """How a stream will be fitted and the memory that takes, before a row is read."""

    n_rows: int | None
    n_columns: int
    how: str
    """"sums" (one pass), "map" (rows stay in their file) or "rows" (they are copied)."""
    memory: int
    """Bytes."""
    allowed: int | None
    """Bytes that may be used; None if unknown."""

    def __str__(self) -> str:
        size = "rows not counted yet" if self.n_rows is None else f"{self.n_rows:,} rows"
        does = {
            "sums": "summed up in one pass",
            "map": "left in the file and read in every iteration",
            "rows": "copied into memory",
        }[self.how]
        of = "" if self.allowed is None else f" of {format_bytes(self.allowed)}"
        return f"{size}, {self.n_columns:,} columns, {does}: about {format_bytes(self.memory)}{of}"


class MissingValuesError(DataError):
    """A value is missing in rows that are summed up."""


class RowStream:
    """Rows that are read block by block: `fit` takes one, or makes one of a path.

    Parameters
    ----------
    data : path, list of paths, array on disk or iterator
        A file or folder of Parquet, Feather, CSV, TSV (`cuspfa[files]`), npy, Zarr or h5ad; a
        workbook, or a file of SPSS, Stata or R (`cuspfa[office]`), which is held in memory; a
        `numpy.memmap`, h5py or Zarr array; an AnnData object backed by a file; or an iterator of
        batches, each an array, sparse matrix or data frame, which can be read once.
    columns : None, or names, indices, slice or mask
        The columns to read; each must hold numbers. None means all of an array or iterator, and
        those columns of a file that hold numbers: text, ID and constant columns are dropped, with
        a warning.
    exclude : None, or names, indices, slice or mask
        Columns not to read.
    missing : sequence of numbers and words, default=()
        Codes for missing values in files, besides empty cells, NA, NaN and null.
    header : bool or None, default=None
        Does the first row of a text file name the columns? None: found from the file.
    decimal : "." or "," or None, default=None
        The decimal sign of a text file. None: found from the file.
    sheet : str, int or None, default=None
        The sheet of a workbook, by name or by number from 1 on. None: the first with cells.
    order : str, sequence of str, or several of them, default=None
        Words of answers from low to high, such as "never,sometimes,often": columns of these words
        become numbers from 1 on. Known scales of agreement, frequency and the like, and words with
        numbers in front, become numbers without it, with a note.
    memory_limit : None, int or str, default=None
        Memory that may be used, in bytes or as text such as "4GB". None: 80 % of the free memory.
        A fit that needs more is refused before a row is read.
    dtype : "float64" or "float32", default="float64"
        With "float32" blocks are multiplied in single precision, twice as fast, and added up in
        double precision. Each block keeps seven digits.
    batch_rows : int or None, default=None
        Rows of a block. None: about 16 MB.
    progress : callable or None, default=None
        Called with a `ReadingProgress` at the start and after each block.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from cuspfa import CuspFactorAnalysis, RowStream, datasets
    >>> X = datasets.simulate(2000, 10, 2, random_state=1).X
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "rows.npy", X)
    ...     rows = RowStream(Path(folder) / "rows.npy", memory_limit="100MB")
    ...     rows.n_rows, CuspFactorAnalysis().fit(rows).n_factors_
    (2000, 2)
    """

    def __init__(
        self,
        data: Any,
        *,
        columns: Any = None,
        exclude: Any = None,
        missing: Any = (),
        header: bool | None = None,
        decimal: str | None = None,
        sheet: str | int | None = None,
        order: Any = None,
        memory_limit: int | str | None = None,
        dtype: str = "float64",
        batch_rows: int | None = None,
        progress: Callable[[ReadingProgress], None] | None = None,
    ) -> None:
        self.dtype = np.dtype(one_of("dtype", dtype, ("float64", "float32")))
        if progress is not None and not callable(progress):
            raise must_be("progress", "a function or None", progress)
        how = as_reading(missing, header, decimal, sheet, order)
        insists = columns is not None
        choose = None if columns is exclude is None else chooser(columns, exclude, insists=insists)
        self._open(data, choose, how, memory_limit, progress, batch_rows)
        self.options = how.options(memory_limit, self.kept_names if insists else (), self.excluded)

    def _open(
        self,
        data: Any,
        choose: ChooseColumns | None,
        how: Reading,
        memory_limit: int | str | None,
        progress: Callable[[ReadingProgress], None] | None,
        batch_rows: int | None = None,
    ) -> None:
        self.allowed = allowed_bytes(memory_limit, how.spell("memory_limit"))
        self.progress, self.how = progress, how
        self.reader, self.paths = open_reader(data, choose, how), paths_of(data)
        self.is_path = isinstance(data, (str, os.PathLike))
        self.source = str(data) if self.is_path else str((*self.paths, type(data).__name__)[0])
        self.batch_rows = _block_rows(batch_rows, self.n_columns, self.allowed)
        self.empty_rows = 0
        """Rows without any value that the last pass left out."""

    @property
    def names(self) -> list[str] | None:
        """Names of the columns, if there are any."""
        return self.reader.names

    @property
    def kept_names(self) -> list[str]:
        """Names of the columns that are read, made up if there are none."""
        return self.names or [self.reader.all_names[j] for j in self.reader.choice.kept]

    @property
    def excluded(self) -> list[str]:
        """Columns left out at the request of the user."""
        return [self.reader.all_names[j] for j in self.reader.choice.excluded]

    @property
    def n_columns(self) -> int:
        """Number of columns that are read."""
        return self.reader.n_columns

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None for text and iterators, whose rows are not counted."""
        return self.reader.n_rows

    def plan(self, *, every_row: bool = False) -> Plan:
        """How a fit will read the rows, and the memory it needs.

        An unknown number of rows is assumed to exceed the number of columns. With `every_row` the
        rows are copied in any case.
        """
        n, p = self.n_rows, self.n_columns
        if every_row:
            held = COPIES_OF_HELD_ROWS * 8 * (n or 0) * p
            return Plan(n, p, "rows", held + self._for_blocks(), self.allowed)
        if n is None or n >= p:
            return Plan(n, p, "sums", self._for_sums(), self.allowed)
        copy = 2 * 8 * n * p  # the rows, and the same centred and scaled
        if (
            self.can_be_mapped
            and self.allowed is not None
            and copy > LARGEST_COPY_SHARE * self.allowed
        ):
            return Plan(n, p, "map", Mapped.memory(n, p), self.allowed)
        return Plan(n, p, "rows", copy + self._for_blocks(), self.allowed)

    def _for_blocks(self) -> int:
        rows = min(self.batch_rows, self.n_rows or self.batch_rows)
        return BLOCKS_HELD * rows * self.n_columns * self.dtype.itemsize

    def _for_sums(self) -> int:
        return SQUARES_HELD * 8 * self.n_columns**2 + self._for_blocks()

    @property
    def can_be_mapped(self) -> bool:
        """Is the data one array with random access?"""
        return isinstance(self.reader, Slices) and self.reader.is_one_array

    def blocks(self, *, allow_missing: bool = False) -> Iterator[Block]:
        """Blocks of rows, read ahead in a thread; an infinite value is an error.

        With `allow_missing` all rows are given, with their missing values. Without, a missing value
        is an error, and rows without any value are left out and counted.
        """
        began, rows = time.perf_counter(), 0
        self.empty_rows = 0
        self._tell(began, rows)
        for block in _read_ahead(self._checked(allow_missing)):
            self.empty_rows += block.empty
            yield block
            rows += len(block.rows) + block.empty
            self._tell(began, rows)

    def _checked(self, allow_missing: bool) -> Iterator[Block]:
        for block in self.reader.blocks(self.batch_rows, self.dtype):
            with np.errstate(over="ignore", invalid="ignore"):
                fine = bool(np.isfinite(block.rows.sum()))
            if not fine:
                lacking = without_values(block.rows)
                check_block(block, self.names, allow_missing, lacking)
                if lacking.any() and not allow_missing:
                    block = block._replace(rows=block.rows[~lacking], empty=int(lacking.sum()))
            yield block

    def _tell(self, began: float, rows: int) -> None:
        if self.progress is not None:
            speed = rows / max(time.perf_counter() - began, 1e-9)
            left = (self.n_rows - rows) / speed if self.n_rows is not None and rows else None
            self.progress(ReadingProgress(rows, self.n_rows, speed, left))


def stream_sums(stream: RowStream, watcher: Watcher) -> Sums:
    """Count, means and cross-products, in one pass; `watcher` is given the blocks too."""
    _check_squares(stream)
    sums = Sums(stream.n_columns)
    for block in stream.blocks():
        sums.add(block.rows)
        watcher.add(block.rows)
    return checked_sums(sums, stream.names)


def read_stream(stream: RowStream, watcher: Watcher) -> Sums | Mapped | Array:
    """Sums for n ≥ p; otherwise a map of the rows, or the rows themselves, where they fit.

    Where the number of rows is unknown, rows are held until there are as many as columns: until
    then they take less memory than p×p numbers.
    """
    p, plan = stream.n_columns, stream.plan()
    if plan.how == "map":
        check_fits(plan.memory, plan.allowed, str(plan), "Give it more, or fewer columns.")
        assert isinstance(stream.reader, Slices)
        return Mapped.of(stream.reader, stream.names, check_block)
    if plan.how == "rows":
        check_fits(plan.memory, plan.allowed, str(plan), "Write the rows as one npy file instead.")
    if stream.n_rows is not None and stream.n_rows >= p:
        return stream_sums(stream, watcher)
    sums: Sums | None = None
    held: list[Array] = []
    rows = 0
    for block in stream.blocks():
        rows += len(block.rows)
        watcher.add(block.rows)
        if sums is None:
            held.append(np.asarray(block.rows))
            _check_held(rows, stream)
        if rows >= p and held:
            _check_squares(stream)
            sums = Sums(p)
            while held:
                sums.add(held.pop(0))
        elif sums is not None:
            sums.add(block.rows)
    if sums is not None:
        return checked_sums(sums, stream.names)
    return np.concatenate(held) if held else np.zeros((0, p))


def checked_sums(sums: Sums, names: list[str] | None) -> Sums:
    """The sums of two rows or more whose squares did not overflow; otherwise an error."""
    if sums.n < 2:
        raise DataError(f"Found {counted(sums.n, 'row')} while a minimum of 2 is required.")
    large = ~np.isfinite(sums.mean) | ~np.isfinite(np.diag(sums.cross))
    if large.any():
        label = column_label(int(np.argmax(large)), names)
        raise DataError(
            f"{label} holds values too large to be squared (in float32, if the stream has "
            "dtype='float32'). Rescale it."
        )
    return sums


def _block_rows(given: int | None, p: int, allowed: int | None) -> int:
    """Rows of a block: about 16 MB, and all blocks at most a quarter of the allowed memory."""
    if given is not None:
        return whole("batch_rows", given, 1)
    p = max(p, 1)  # a table without columns is refused elsewhere
    rows = max(ROW_BLOCK_SIZE // p, MIN_BLOCK_ROWS)
    return rows if allowed is None else max(1, min(rows, allowed // (4 * BLOCKS_HELD * 8 * p)))


def _check_squares(stream: RowStream) -> None:
    check_fits(
        stream._for_sums(),
        stream.allowed,
        f"A fit to {stream.n_columns:,} columns by their cross-products",
        "Use fewer columns, a smaller batch_rows, or a machine with more memory.",
    )


def _check_held(rows: int, stream: RowStream) -> None:
    check_fits(
        2 * 8 * rows * stream.n_columns,
        stream.allowed,
        f"Holding {rows:,} rows of {stream.n_columns:,} columns, more columns than rows so far,",
        "Write the rows as one npy file and give its path: its rows stay in the file.",
    )


def check_block(
    block: Block,
    names: list[str] | None,
    allow_missing: bool = False,
    lacking: BoolArray | None = None,
) -> None:
    """Raise an error that names the first value that is not a finite number.

    Missing values are accepted with `allow_missing`, and in rows where `lacking` is True.
    """
    wrong = np.isinf(block.rows) if allow_missing else ~np.isfinite(block.rows)
    if lacking is not None:
        wrong[lacking] = False
    if not wrong.any():
        return  # the values are finite, only their sum overflowed
    row, column = (int(one) for one in np.argwhere(wrong)[0])
    missing = bool(np.isnan(block.rows[row, column]))
    kind, what = (MissingValuesError, "NaN") if missing else (DataError, "infinity")
    if not missing and block.rows.dtype == np.float32:
        what += ", or a value beyond the range of float32,"
    advice = "fill in the missing values" if missing else "correct them"
    raise kind(
        f"{block.place}: {column_label(column, names)} has {what} in row {block.first + row}, "
        f"counted from 0. Drop such rows or columns, or {advice}."
    )


def _read_ahead(blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks of a reader, read in a thread while the caller works on earlier ones."""
    with ThreadPoolExecutor(1, "cuspfa-reader") as thread:
        waiting = deque(thread.submit(next, blocks, None) for _ in range(BLOCKS_AHEAD))
        try:
            while (block := waiting.popleft().result()) is not None:
                waiting.append(thread.submit(next, blocks, None))
                yield block
        finally:
            for one in waiting:
                one.cancel()


def table_stream(
    data: Any,
    choose: ChooseColumns,
    how: Reading,
    memory_limit: int | str | None,
    progress: Callable[[ReadingProgress], None] | None,
) -> RowStream:
    """A stream of files whose columns are chosen once their names are known."""
    stream = RowStream.__new__(RowStream)
    stream.dtype = np.dtype(float)
    stream._open(data, choose, how, memory_limit, progress)
    stream.options = ReadOptions()
    return stream


def as_stream(data: Any) -> RowStream:
    """A stream as it is, or a stream over a path or anything else that can be read by blocks."""
    return data if isinstance(data, RowStream) else RowStream(data)
