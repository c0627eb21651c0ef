"""Rows that are not in memory: where they are, what their columns are called, blocks of them.

A reader knows its columns before it reads a row, and says of each block in which file it is and at
which row it begins, so that an error can name the place.
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
from cuspfa.data.frames import as_frame
from cuspfa.data.out_of_core.block import Block, Choice, Choose, Reader, all_columns, as_kind
from cuspfa.data.tables.arrow import SUFFIXES as ARROW_SUFFIXES
from cuspfa.data.tables.arrow import ArrowFiles
from cuspfa.data.tables.column_names import made_up_names
from cuspfa.data.tables.dialect import USUAL, Reading
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.data.validate import check_rows, unmasked, unmasked_blocks
from cuspfa.errors import DataError, InputError

SUFFIXES = (*ARROW_SUFFIXES, ".npy", ".zarr", ".h5ad")


def open_reader(data: Any, choose: Choose | None = None, how: Reading = USUAL) -> Reader:
    """A reader of a path, a folder, a list of paths, arrays on disk, or an iterator of batches.

    Columns of files are screened if none are chosen; those of other data are read as they are.
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


def as_they_are(names: list[str]) -> Choice:
    """All columns, none of which is screened."""
    return Choice(range(len(names)), insists=True)


class _Plain:
    """Rows of numbers, of which there is nothing to say."""

    coded = 0

    def __init__(self, width: int, names: list[str] | None, choose: Choose) -> None:
        self.all_names = names or made_up_names(width)
        self.choice = choose(self.all_names)
        self.names = names and [names[j] for j in self.choice.kept]
        self.notes: list[Note] = []
        self.dropped: list[DroppedColumn] = []

    @property
    def n_columns(self) -> int:
        """How many are read."""
        return len(self.choice.kept)

    def drop(self, error: Any) -> None:
        """Columns of arrays are all numbers."""
        raise error


class Slices(_Plain):
    """Anything two-dimensional that gives its rows by `thing[first:last]`."""

    again = True

    def __init__(
        self, things: list[tuple[str, Any]], names: list[str] | None, choose: Choose
    ) -> None:
        self.things = things
        for place, thing in things:
            if len(thing.shape) != 2:
                raise DataError(f"{place} must be a table. Got {len(thing.shape)} dimensions.")
            if np.dtype(thing.dtype).kind not in "fiub":
                raise DataError(f"{place} has type {thing.dtype}, which is not numeric.")
            if thing.shape[1] != things[0][1].shape[1]:
                raise DataError(
                    f"{place} has {thing.shape[1]} columns, and {things[0][0]} has "
                    f"{things[0][1].shape[1]}. All must have the same."
                )
        width = int(things[0][1].shape[1])
        super().__init__(width, names, choose)
        every = self.choice.kept == list(range(width))
        self.chosen = None if every else np.array(self.choice.kept, dtype=np.intp)
        self.n_rows: int | None = sum(int(thing.shape[0]) for _, thing in things)

    @property
    def is_one_array(self) -> bool:
        """One thing, of which all columns are used, and which gives dense parts of any shape."""
        (_, thing), *others = self.things
        kinds = ("memmap", "ndarray", "Array", "Dataset")
        return not others and self.chosen is None and type(thing).__name__ in kinds

    def blocks(self, size: int, dtype: Any) -> Iterator[Block]:
        """Slices of rows."""
        for place, thing in self.things:
            for first in range(0, int(thing.shape[0]), size):
                rows = thing[first : first + size]
                rows = rows.toarray() if issparse(rows) else unmasked(rows)
                rows = rows if self.chosen is None else rows[:, self.chosen]
                # A copy: what a memory map lends would be read where it is multiplied.
                yield Block(as_kind(rows, dtype, copy=True), place, first)


class Given(_Plain):
    """Batches that the caller's iterator gives: arrays, sparse matrices or data frames.

    They are gone when they are read, so that there is one pass and no other.
    """

    again = False

    def __init__(self, batches: Iterable[Any], choose: Choose) -> None:
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
        """The batches as they come; large ones in pieces."""
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
    """Files and folders that are read, as far as they are known."""
    known = getattr(data, "filename", None)  # of a memory map, or of AnnData
    given = data if isinstance(data, (list, tuple)) else [data if known is None else known]
    return [Path(one) for one in given if isinstance(one, (str, os.PathLike))]


def _files(path: Path) -> list[Path]:
    """The file itself, or the files of a folder in the order of their names."""
    if not path.exists():
        raise InputError(f"there is no file or folder {str(path)!r}.")
    if not path.is_file() and not path.is_dir():
        raise InputError(
            f"{str(path)!r} is a pipe, a device or a socket. A file is read more than once: save "
            "what comes as a file, or pass an iterator of batches."
        )
    if not path.is_dir() or path.suffix.lower() == ".zarr":
        return [path]
    found = sorted(_inside(path))
    kinds = {kind_of(one) for one in found}
    if not found:
        raise DataError(f"{str(path)!r} holds no file that ends in {', '.join(SUFFIXES)}.")
    if len(kinds) > 1:
        raise DataError(
            f"{str(path)!r} holds files of several kinds ({', '.join(sorted(kinds))}). Give those "
            "of one kind, in a folder of their own or as a list."
        )
    return found


def _inside(folder: Path) -> Iterator[Path]:
    """Tables below a folder; names that begin with . or _ are not data, by custom."""
    for one in folder.iterdir():
        if one.name.startswith((".", "_")):
            continue
        if kind_of(one) in SUFFIXES:
            yield one
        elif one.is_dir():
            yield from _inside(one)


def kind_of(path: Path) -> str:
    """The end of a file's name that says what it is, without that of a compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] in (".gz", ".bz2", ".zst"):
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


def names_columns(data: Any) -> bool:
    """Is it a path of files whose columns have names, of which some can be read alone?"""
    paths = data if isinstance(data, (list, tuple)) else [data]
    if not paths or not all(isinstance(one, (str, os.PathLike)) for one in paths):
        return False
    return kind_of(_files(Path(paths[0]))[0]) in ARROW_SUFFIXES


def _of_paths(files: list[Path], choose: Choose, how: Reading) -> Reader:
    for file in files:
        if file.is_file() and file.stat().st_size == 0:
            raise DataError(f"{str(file)!r} is empty. Is its writer still at work?")
    kind = kind_of(files[0])
    if kind in ARROW_SUFFIXES:
        return ArrowFiles(files, kind, choose, how)
    if kind == ".npy":
        return Slices([(str(file), _mapped(file)) for file in files], None, choose)
    if kind == ".zarr":
        zarr = needed("zarr", "Reading Zarr arrays", "zarr")
        return Slices([(str(file), _zarr(zarr, file)) for file in files], None, choose)
    if kind == ".h5ad" and len(files) == 1:
        anndata = needed("anndata", "Reading h5ad files", "anndata")
        opened = _opened(files[0], lambda: anndata.read_h5ad(files[0], backed="r"))
        return open_reader(opened, choose, how)
    raise InputError(
        f"{str(files[0])!r} must end in one of {', '.join(SUFFIXES)}, or be a folder of such files."
    )


def _mapped(file: Path) -> Any:
    return _opened(file, lambda: np.load(file, mmap_mode="r", allow_pickle=False))


def _zarr(zarr: Any, file: Path) -> Any:
    return _opened(file, lambda: zarr.open_array(str(file), mode="r"))


def _opened(file: Path, call: Any) -> Any:
    try:
        return call()
    except (ValueError, OSError, EOFError, KeyError) as error:
        raise DataError(f"{str(file)!r} cannot be read, or is cut off: {error}") from error


def _where(data: Any) -> str:
    name = getattr(data, "filename", None)
    return f"{type(data).__name__}" if name is None else str(name)


def is_out_of_core(data: Any) -> bool:
    """Paths, iterators of batches, arrays on disk; what is already in memory is not."""
    if isinstance(data, (str, os.PathLike)):
        return True
    if isinstance(data, np.memmap) and data.ndim == 2:
        return bool(data.nbytes > SMALL)
    if isinstance(data, (list, tuple)):
        return bool(data) and all(isinstance(one, (str, os.PathLike)) for one in data)
    module = type(data).__module__.partition(".")[0]
    if module in ("zarr", "h5py") and module in sys.modules:
        return hasattr(data, "shape")
    return isinstance(data, Iterator) or bool(getattr(data, "isbacked", False))


SMALL = 1 << 28
"""Bytes of a memory map that is read by blocks: smaller ones are quicker as an array."""
