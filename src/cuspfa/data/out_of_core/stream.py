"""One pass over rows that are not in memory: a thread reads ahead while blocks are multiplied."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.arguments import must_be, one_of, whole
from cuspfa._utils.fit_warning import EmptyRows, FitWarning, ReadingNote
from cuspfa.data.in_memory import ROW_BLOCK_SIZE
from cuspfa.data.moments import Moments
from cuspfa.data.names import column_label
from cuspfa.data.out_of_core.block import Block, Choice, Choose
from cuspfa.data.out_of_core.mapped import Mapped
from cuspfa.data.out_of_core.memory import allowed_bytes, check_fits, in_words
from cuspfa.data.out_of_core.readers import Slices, open_reader, paths_of
from cuspfa.data.screening.near_constant import Watcher
from cuspfa.data.sums import Sums
from cuspfa.data.tables.column_names import no_such_column
from cuspfa.data.tables.dialect import Reading
from cuspfa.data.validate import check_columns, without_values
from cuspfa.errors import DataError

AHEAD = 2
"""Blocks that are read before they are asked for."""
BLOCKS_HELD = AHEAD + 4
"""In all: being read, read ahead, being summed, centred, and what the reader itself holds."""
SQUARES_HELD = 4
"""p×p matrices of float64 while sums are made and become a source."""
MIN_ROWS = 256
"""Rows of a block of very wide rows: with fewer, adding up p×p numbers would be all the work."""
MAP_SHARE = 0.25
"""A wide map is copied, which makes iterations quicker, if that takes no more of the memory
allowed."""


class Progress(NamedTuple):
    """How far a pass has come."""

    rows: int
    """Read so far."""
    n_rows: int | None
    """In all, if that is known."""
    rows_per_second: float
    seconds_left: float | None


class Plan(NamedTuple):
    """What a fit of a stream will take, known before a row is read."""

    n_rows: int | None
    n_columns: int
    how: str
    """"sums" (one pass), "map" (rows stay in their file) or "rows" (they are copied)."""
    memory: int
    """Bytes."""
    allowed: int | None
    """Bytes that may be taken; None if nobody knows."""

    def __str__(self) -> str:
        size = "rows not counted yet" if self.n_rows is None else f"{self.n_rows:,} rows"
        does = {
            "sums": "summed up in one pass",
            "map": "left in the file and read in every iteration",
            "rows": "copied into memory",
        }[self.how]
        of = "" if self.allowed is None else f" of {in_words(self.allowed)}"
        return f"{size}, {self.n_columns:,} columns, {does}: about {in_words(self.memory)}{of}"


class MissingValuesError(DataError):
    """A value is missing, in rows that are read once."""


class RowStream:
    """Rows that are read block by block: `fit` takes one, or makes one of a path.

    Parameters
    ----------
    data : path, list of paths, array on disk or iterator
        A file or folder of Parquet, Feather, CSV, TSV (`cuspfa[files]`), npy, Zarr or h5ad; a
        `numpy.memmap`, h5py or Zarr array; an AnnData object backed by a file; or an iterator of
        batches, each an array, sparse matrix or data frame, which can be read once.
    columns : None, or names, indices, slice or mask
        The columns to read; each must hold numbers. None means all of an array or iterator, and
        those columns of a file that hold numbers: text, ID and constant columns are dropped, with
        a warning.
    exclude : None, or names, indices, slice or mask
        Columns not to read.
    missing : sequence of numbers and words, default=()
        What stands for a missing value in files, besides empty cells, NA, NaN and null.
    header : bool or None, default=None
        Does the first row of a text file name the columns? None means: found from the file.
    decimal : "." or "," or None, default=None
        The decimal sign of a text file. None means: found from the file.
    memory_limit : None, int or str, default=None
        What may be taken, in bytes or as text such as "4GB". None means 80 % of what is free. A
        fit that would take more is refused before a row is read.
    dtype : "float64" or "float32", default="float64"
        With "float32" blocks are multiplied in single precision, twice as fast, and added up in
        double: seven digits of each block are kept, all are of the sums.
    batch_rows : int or None, default=None
        Rows of a block. None means about 16 MB.
    progress : callable or None, default=None
        Called with a `Progress` at the start and after each block.

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
        memory_limit: int | str | None = None,
        dtype: str = "float64",
        batch_rows: int | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.dtype = np.dtype(one_of("dtype", dtype, ("float64", "float32")))
        if progress is not None and not callable(progress):
            raise must_be("progress", "a function or None", progress)
        how = as_reading(missing, header, decimal)
        insists = columns is not None
        choose = None if columns is exclude is None else chooser(columns, exclude, insists=insists)
        self._open(data, choose, how, memory_limit, progress, batch_rows)

    def _open(
        self,
        data: Any,
        choose: Choose | None,
        how: Reading,
        memory_limit: int | str | None,
        progress: Callable[[Progress], None] | None,
        batch_rows: int | None = None,
    ) -> None:
        self.allowed = allowed_bytes(memory_limit, how.spell("memory_limit"))
        self.progress = progress
        self.reader, self.paths = open_reader(data, choose, how), paths_of(data)
        self.source = ", ".join(map(str, self.paths[:1])) or type(data).__name__
        self.batch_rows = _block_rows(batch_rows, self.n_columns, self.allowed)
        self.empty_rows = 0
        """Rows without any value that the last pass for a fit left out."""

    @property
    def names(self) -> list[str] | None:
        """Of the columns, if they have any."""
        return self.reader.names

    @property
    def n_columns(self) -> int:
        """How many are read."""
        return self.reader.n_columns

    @property
    def n_rows(self) -> int | None:
        """In all; None for text and iterators, whose rows nobody has counted."""
        return self.reader.n_rows

    def plan(self) -> Plan:
        """What a fit will take.

        Where the number of rows is not known it is taken to be above that of the columns.
        """
        n, p = self.n_rows, self.n_columns
        if n is None or n >= p:
            return Plan(n, p, "sums", self._for_sums(), self.allowed)
        copy = 2 * 8 * n * p  # the rows, and the same centred and scaled
        if self.can_be_mapped and self.allowed is not None and copy > MAP_SHARE * self.allowed:
            return Plan(n, p, "map", Mapped.memory(n, p), self.allowed)
        return Plan(n, p, "rows", copy + self._for_blocks(), self.allowed)

    def _for_blocks(self) -> int:
        rows = min(self.batch_rows, self.n_rows or self.batch_rows)
        return BLOCKS_HELD * rows * self.n_columns * self.dtype.itemsize

    def _for_sums(self) -> int:
        return SQUARES_HELD * 8 * self.n_columns**2 + self._for_blocks()

    @property
    def can_be_mapped(self) -> bool:
        """Is it one array, of which any part can be read at any time?"""
        return isinstance(self.reader, Slices) and self.reader.is_one_array

    def blocks(self, *, allow_missing: bool = False) -> Iterator[Block]:
        """Blocks of rows, read ahead in a thread; a value that is no number is an error.

        With `allow_missing` all rows are there, with their missing values; without, rows that have
        no value at all are left out and counted.
        """
        began, rows = time.perf_counter(), 0
        self.empty_rows = 0
        self._tell(began, rows)
        for block in _read_ahead(self._checked(allow_missing), AHEAD):
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
            self.progress(Progress(rows, self.n_rows, speed, left))


def reading_warnings(note: str | None, n_empty: int, n_rows: int) -> tuple[FitWarning, ...]:
    """What a reader assumed, and the rows without any value beside `n_rows` others."""
    notes = () if note is None else (ReadingNote(note),)
    return (*notes, EmptyRows(n_empty, n_rows)) if n_empty else notes


def moments_of(stream: RowStream, watcher: Watcher | None = None) -> Moments:
    """Count, means and cross-products, in one pass; `watcher` sees the blocks too."""
    _check_squares(stream)
    sums = Sums(stream.n_columns)
    for block in stream.blocks():
        sums.add(block.rows)
        if watcher is not None:
            watcher.add(block.rows)
    return as_moments(sums, stream.names)


def read(stream: RowStream, watcher: Watcher | None = None) -> Moments | Mapped | Array:
    """Sums for n ≥ p; otherwise a map of the rows, or the rows themselves, where they fit.

    Rows are held until there are as many as columns, for until then they are smaller than p×p.
    """
    p, plan = stream.n_columns, stream.plan()
    if plan.how == "map":
        check_fits(plan.memory, plan.allowed, str(plan), "Give it more, or fewer columns.")
        assert isinstance(stream.reader, Slices)
        return Mapped.of(stream.reader, stream.names, check_block)
    if plan.how == "rows":
        check_fits(plan.memory, plan.allowed, str(plan), "Write the rows as one npy file instead.")
    if stream.n_rows is not None and stream.n_rows >= p:
        return moments_of(stream, watcher)
    sums: Sums | None = None
    held: list[Array] = []
    rows = 0
    for block in stream.blocks():
        rows += len(block.rows)
        if watcher is not None:
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
        return as_moments(sums, stream.names)
    return np.concatenate(held) if held else np.zeros((0, p))


def as_moments(sums: Sums, names: list[str] | None) -> Moments:
    """Checked, if there are rows enough."""
    if sums.n < 2:
        raise DataError(f"Found {sums.n} row(s) while a minimum of 2 is required.")
    large = ~np.isfinite(sums.mean) | ~np.isfinite(np.diag(sums.cross))
    if large.any():
        label = column_label(int(np.argmax(large)), names)
        raise DataError(
            f"{label} holds values too large to be squared (in float32, if the stream has "
            "dtype='float32'). Rescale it."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        return Moments(sums.n, sums.mean, sums.cross, names)


def _block_rows(given: int | None, p: int, allowed: int | None) -> int:
    """About 16 MB, or less where all blocks together would take a quarter of what is allowed."""
    if given is not None:
        return whole("batch_rows", given, 1)
    p = max(p, 1)  # that there are no columns is said elsewhere
    rows = max(ROW_BLOCK_SIZE // p, MIN_ROWS)
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
        "Write the rows as one npy file and give its path: it is read from where it is.",
    )


def check_block(
    block: Block,
    names: list[str] | None,
    allow_missing: bool = False,
    lacking: BoolArray | None = None,
) -> None:
    """Name the first value that is no number, but in rows that are lacking altogether."""
    wrong = np.isinf(block.rows) if allow_missing else ~np.isfinite(block.rows)
    if lacking is not None:
        wrong[lacking] = False
    if not wrong.any():
        return  # a sum too large for a number, of values that are not
    row, column = (int(one) for one in np.argwhere(wrong)[0])
    missing = bool(np.isnan(block.rows[row, column]))
    kind, what = (MissingValuesError, "NaN") if missing else (DataError, "infinity")
    if not missing and block.rows.dtype == np.float32:
        what += ", or a value beyond the range of float32,"
    advice = "fill in the missing values" if missing else "put right what made them"
    raise kind(
        f"{block.place}: {column_label(column, names)} has {what} in row {block.first + row}, "
        f"counted from 0. Drop such rows or columns, or {advice}."
    )


# --- a thread that reads ahead -----------------------------------------------------------------


class _Failed(NamedTuple):
    error: BaseException


def _read_ahead(blocks: Iterator[Block], ahead: int) -> Iterator[Block]:
    """The same blocks, read in a thread; its errors are the caller's."""
    ready: queue.Queue[Block | _Failed | None] = queue.Queue(ahead)
    stop = threading.Event()

    def put(one: Block | _Failed | None) -> bool:
        while not stop.is_set():
            try:
                ready.put(one, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for block in blocks:
                if not put(block):
                    return
            put(None)
        except BaseException as error:
            put(_Failed(error))

    thread = threading.Thread(target=work, name="cuspfa-reader", daemon=True)
    thread.start()
    try:
        while (found := ready.get()) is not None:
            if isinstance(found, _Failed):
                raise found.error
            yield found
    finally:
        stop.set()
        thread.join()


def as_reading(missing: Any, header: Any, decimal: Any) -> Reading:
    """What is said of how files are written, checked."""
    if header is not None and not isinstance(header, bool):
        raise must_be("header", "True, False or None", header)
    if decimal is not None:
        one_of("decimal", decimal, (".", ","))
    codes = [missing] if isinstance(missing, (str, Real)) else list(missing)
    wrong = [code for code in codes if not isinstance(code, (str, Real))]
    if wrong:
        raise must_be("missing", "numbers and words", wrong[0])
    return Reading(header, decimal, tuple(c if isinstance(c, str) else float(c) for c in codes))


def chooser(columns: Any, exclude: Any, *, insists: bool) -> Choose:
    """A choice by names, indices, slices or masks."""

    def choose(names: list[str]) -> Choice:
        p, known = len(names), set(names)
        for label, given in (("columns", columns), ("exclude", exclude)):
            words = [given] if isinstance(given, str) else given
            if isinstance(words, (list, tuple)):
                unknown = [one for one in words if isinstance(one, str) and one not in known]
                if unknown:
                    raise DataError(f"{label}: {no_such_column(unknown[0], names)}")
        chosen = range(p) if columns is None else check_columns(columns, p, names).tolist()
        excluded = [] if exclude is None else check_columns(exclude, p, names, "exclude").tolist()
        return Choice(chosen, excluded, asked=columns is not None, insists=insists)

    return choose


def table_stream(
    data: Any,
    choose: Choose,
    how: Reading,
    memory_limit: int | str | None,
    progress: Callable[[Progress], None] | None,
) -> RowStream:
    """A stream of files whose columns are chosen once their names are known."""
    stream = RowStream.__new__(RowStream)
    stream.dtype = np.dtype(float)
    stream._open(data, choose, how, memory_limit, progress)
    return stream


def as_stream(data: Any) -> RowStream:
    """The stream itself, or one over a path or what else can be read by blocks."""
    return data if isinstance(data, RowStream) else RowStream(data)
