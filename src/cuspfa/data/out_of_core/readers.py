"""Readers of rows that are not in memory.

A reader knows its columns before it reads a row. Each block has its file and its first row, so that
an error can name the place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from cuspfa._utils.arguments import must_be
from cuspfa._utils.optional import needed
from cuspfa.data.column_choice import ChooseColumns, all_columns, as_they_are
from cuspfa.data.frames import as_frame
from cuspfa.data.out_of_core.block import Block, Reader, as_kind
from cuspfa.data.out_of_core.whole_files import WHOLE_SUFFIXES, WholeFiles
from cuspfa.data.tables.answers import Answers
from cuspfa.data.tables.arrow import ARROW_SUFFIXES, ArrowFiles
from cuspfa.data.tables.column_names import made_up_names
from cuspfa.data.tables.dialect import DEFAULT_READING, Reading
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.data.validate import check_rows, unmasked, unmasked_blocks
from cuspfa.errors import DataError, InputError

FILE_SUFFIXES = (*ARROW_SUFFIXES, ".npy", ".zarr", ".h5ad", *WHOLE_SUFFIXES)


def open_reader(
    data: Any, choose: ChooseColumns | None = None, how: Reading = DEFAULT_READING
) -> Reader:
    """A reader of a path, a folder, a list of paths, an array on disk, or an iterator of batches.

    Columns of files are screened if none are chosen. Columns of other data are read as they are.
    """
    if isinstance(data, (str, os.PathLike)):
        return _of_paths(_files(Path(data)), choose or all_columns, how)
    if isinstance(data, (list, tuple)):
        if not data or not all(isinstance(one, (str, os.PathLike)) for one in data):
            raise must_be("data", "paths, where it is a list", type(data[0] if data else data))
        files = [file for one in data for file in _files(Path(one))]
        return _of_paths(files, choose or all_columns, how)
    choose = choose or as_they_are
    if getattr(data, "isbacked", False):
        names = [str(name) for name in data.var_names]
        return Slices([(str(data.filename), data.X)], names, choose)
    if as_frame(data) is not None:
        table = check_rows(data, allow_missing=True)
        return Slices([(type(data).__name__, table.rows)], table.names, choose)
    if hasattr(data, "shape") and hasattr(data, "__getitem__"):
        return Slices([(_where(data), unmasked_blocks(data))], None, choose)
    if isinstance(data, Iterable):
        return Given(data, choose)
    raise must_be(
        "data", "a path, a folder, an array on disk or an iterator of batches", type(data).__name__
    )


class _Plain:
    """A reader of plain numbers: no notes, no codes for missing values, no dropped columns."""

    coded = 0

    def __init__(self, width: int, names: list[str] | None, choose: ChooseColumns) -> None:
        self.all_names = names or made_up_names(width)
        self.choice = choose(self.all_names)
        self.names = names and [names[j] for j in self.choice.kept]
        self.notes: list[Note] = []
        self.dropped: list[DroppedColumn] = []
        self.answers: list[Answers] = []

    @property
    def n_columns(self) -> int:
        """Number of columns that are read."""
        return len(self.choice.kept)

    def drop(self, error: Any) -> None:
        """Raise the error: all columns of arrays are numbers."""
        raise error


class Slices(_Plain):
    """Two-dimensional arrays that give their rows by `array[first:last]`."""

    again = True

    def __init__(
        self, arrays: list[tuple[str, Any]], names: list[str] | None, choose: ChooseColumns
    ) -> None:
        self.arrays = arrays
        for place, array in arrays:
            if len(array.shape) != 2:
                raise DataError(f"{place} must be a table. Got {len(array.shape)} dimensions.")
            if np.dtype(array.dtype).kind not in "fiub":
                raise DataError(f"{place} has type {array.dtype}, which is not numeric.")
            if array.shape[1] != arrays[0][1].shape[1]:
                raise DataError(
                    f"{place} has {array.shape[1]} columns, and {arrays[0][0]} has "
                    f"{arrays[0][1].shape[1]}. All must have the same."
                )
        width = int(arrays[0][1].shape[1])
        super().__init__(width, names, choose)
        every = self.choice.kept == list(range(width))
        self.chosen = None if every else np.array(self.choice.kept, dtype=np.intp)
        self.n_rows: int | None = sum(int(array.shape[0]) for _, array in arrays)

    @property
    def is_one_array(self) -> bool:
        """Is there one dense array, with all its columns?"""
        (_, array), *others = self.arrays
        kinds = ("memmap", "ndarray", "Array", "Dataset")
        return not others and self.chosen is None and type(array).__name__ in kinds

    def blocks(self, size: int, dtype: Any) -> Iterator[Block]:
        """Slices of rows."""
        for place, array in self.arrays:
            for first in range(0, int(array.shape[0]), size):
                rows = array[first : first + size]
                rows = rows.toarray() if issparse(rows) else unmasked(rows)
                rows = rows if self.chosen is None else rows[:, self.chosen]
                # A copy, so that a memory map is read here and not where it is multiplied.
                yield Block(as_kind(rows, dtype, copy=True), place, first)


class Given(_Plain):
    """Batches of an iterator: arrays, sparse matrices or data frames. They can be read once."""

    again = False

    def __init__(self, batches: Iterable[Any], choose: ChooseColumns) -> None:
        if choose is not as_they_are:
            raise InputError("columns is for files. Choose them in the batches.")
        self._batches = iter(batches)
        self.n_rows: int | None = None
        self._number = -1
        self._first = self._next()
        if self._first is None:
            raise DataError("The iterator gave no batch of rows.")
        super().__init__(int(self._first[0].shape[1]), self._first[1], choose)

    def _next(self) -> tuple[Any, list[str] | None] | None:
        for batch in self._batches:
            self._number += 1
            try:
                table = check_rows(batch, allow_missing=True)
            except DataError as error:
                raise type(error)(f"batch {self._number}: {error}") from error
            rows = table.rows.toarray() if issparse(table.rows) else table.rows
            if len(rows):
                return np.asarray(rows), table.names
        return None

    def blocks(self, size: int, dtype: Any) -> Iterator[Block]:
        """The batches in their order; large ones are split."""
        found, self._first = self._first, None
        if found is None:
            raise InputError("An iterator of batches can be read once. Make a new one.")
        while found is not None:
            rows, names = found
            if rows.shape[1] != self.n_columns or names != self.names:
                how = f"{rows.shape[1]} instead of {self.n_columns}"
                if rows.shape[1] == self.n_columns:
                    how = "other names, or the same in another order"
                raise DataError(
                    f"batch {self._number} has other columns than the first: {how}. Give all "
                    "batches the columns of the first."
                )
            for first in range(0, len(rows), size):
                part = as_kind(rows[first : first + size], dtype)
                yield Block(part, f"batch {self._number}", first)
            found = self._next()


# --- paths -------------------------------------------------------------------------------------


def paths_of(data: Any) -> list[Path]:
    """Files and folders that are read, if they are known."""
    known = getattr(data, "filename", None)  # of a memory map, or of AnnData
    given = data if isinstance(data, (list, tuple)) else [data if known is None else known]
    return [Path(one) for one in given if isinstance(one, (str, os.PathLike))]


def _files(path: Path) -> list[Path]:
    """The file, or the files of a folder in the order of their names."""
    if not path.exists():
        raise InputError(f"there is no file or folder {str(path)!r}.")
    if not path.is_file() and not path.is_dir():
        raise InputError(
            f"{str(path)!r} is a pipe, a device or a socket, which cannot be read twice. Save the "
            "rows as a file, or pass an iterator of batches."
        )
    if not path.is_dir() or path.suffix.lower() == ".zarr":
        return [path]
    found = sorted(_inside(path))
    kinds = {file_format(one) for one in found}
    if not found:
        raise DataError(f"{str(path)!r} holds no file that ends in {', '.join(FILE_SUFFIXES)}.")
    if len(kinds) > 1:
        raise DataError(
            f"{str(path)!r} holds files of several kinds ({', '.join(sorted(kinds))}). Give those "
            "of one kind, in a folder of their own or as a list."
        )
    return found


def _inside(folder: Path) -> Iterator[Path]:
    """Tables in a folder and its subfolders, except names that begin with . or _."""
    for one in folder.iterdir():
        if one.name.startswith((".", "_")):
            continue
        if file_format(one) in FILE_SUFFIXES:
            yield one
        elif one.is_dir():
            yield from _inside(one)


def file_format(path: Path) -> str:
    """The suffix of a file's format, without that of its compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] in (".gz", ".bz2", ".zst"):
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


def names_columns(data: Any) -> bool:
    """Is it a path of files with named columns, which can be read separately?"""
    paths = data if isinstance(data, (list, tuple)) else [data]
    if not paths or not all(isinstance(one, (str, os.PathLike)) for one in paths):
        return False
    return file_format(_files(Path(paths[0]))[0]) in (*ARROW_SUFFIXES, *WHOLE_SUFFIXES)


def _of_paths(files: list[Path], choose: ChooseColumns, how: Reading) -> Reader:
    for file in files:
        if file.is_file() and file.stat().st_size == 0:
            raise DataError(f"{str(file)!r} is empty. Wait until it is written, or remove it.")
    kind = file_format(files[0])
    if kind in ARROW_SUFFIXES:
        return ArrowFiles(files, kind, choose, how)
    if kind in WHOLE_SUFFIXES:
        return WholeFiles(files, choose, how)
    if kind == ".npy":
        return Slices([(str(file), _mapped(file)) for file in files], None, choose)
    if kind == ".zarr":
        zarr = needed("zarr", "Reading Zarr arrays", "zarr")
        return Slices([(str(file), _zarr(zarr, file)) for file in files], None, choose)
    if kind == ".h5ad" and len(files) == 1:
        anndata = needed("anndata", "Reading h5ad files", "anndata")
        opened = _checked_open(files[0], lambda: anndata.read_h5ad(files[0], backed="r"))
        return open_reader(opened, choose, how)
    raise InputError(
        f"{str(files[0])!r} must end in one of {', '.join(FILE_SUFFIXES)}, or be a folder of such "
        "files."
    )


def _mapped(file: Path) -> Any:
    return _checked_open(file, lambda: np.load(file, mmap_mode="r", allow_pickle=False))


def _zarr(zarr: Any, file: Path) -> Any:
    return _checked_open(file, lambda: zarr.open_array(str(file), mode="r"))


def _checked_open(file: Path, call: Any) -> Any:
    try:
        return call()
    except (ValueError, OSError, EOFError, KeyError) as error:
        raise DataError(f"{str(file)!r} cannot be read, or is cut off: {error}") from error


def _where(data: Any) -> str:
    name = getattr(data, "filename", None)
    return f"{type(data).__name__}" if name is None else str(name)


def is_out_of_core(data: Any) -> bool:
    """Is it a path, an iterator of batches, or an array on disk?"""
    if isinstance(data, (str, os.PathLike)):
        return True
    if isinstance(data, np.memmap) and data.ndim == 2:
        return bool(data.nbytes > SMALLEST_STREAMED_MAP)
    if isinstance(data, (list, tuple)):
        return bool(data) and all(isinstance(one, (str, os.PathLike)) for one in data)
    module = type(data).__module__.partition(".")[0]
    if module in ("zarr", "h5py") and module in sys.modules:
        return hasattr(data, "shape")
    return isinstance(data, Iterator) or bool(getattr(data, "isbacked", False))


SMALLEST_STREAMED_MAP = 1 << 28
"""Bytes from which on a memory map is read by blocks. Smaller ones are faster as arrays."""
