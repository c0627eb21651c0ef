"""Tables in: CSV, TSV, Parquet, Feather, from a file or from standard input."""

from __future__ import annotations

import difflib
import gzip
import io
import shlex
import stat
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuspfa._utils.optional import needed
from cuspfa.data.out_of_core.memory import allowed_bytes, in_words
from cuspfa.data.tables.cells import Column, column_of_arrow, missing_codes
from cuspfa.data.tables.column_names import find_column, unique_names
from cuspfa.data.tables.dialect import USUAL, Reading, find_dialect
from cuspfa.data.tables.notes import Note
from cuspfa.data.tables.text import whole_text
from cuspfa.errors import DataError, InputError

COPIES = 4
"""Times its size that a table takes in memory when it is read as a whole."""
UNKNOWN = 1 << 32
"""Bytes that are read where nobody knows how much memory there is."""
OFFICE = {
    b"PK\x03\x04": "a workbook or an archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"$FL2": "an SPSS file",
    b"$FL3": "an SPSS file",
    b"\x89HDF": "an HDF5 file",
    b"%PDF": "a PDF file",
}
"""How files begin that people try and that are no tables for us."""


@dataclass(frozen=True, eq=False)
class FileTable:
    """All columns of a file."""

    source: str
    """The file's name, or standard input."""
    kind: str
    columns: list[Column]
    n_rows: int
    notes: list[Note]
    """What was found out or assumed."""
    id_position: int | None = None
    ids: list[str] | None = None
    """Names of the rows, if a column of them was asked for."""

    @property
    def names(self) -> list[str]:
        """Of all columns."""
        return [column.name for column in self.columns]

    @property
    def n_missing(self) -> int:
        """Missing values in all columns."""
        return sum(column.n_missing for column in self.columns)


Check = Callable[[list[str]], object]


def read_file(
    path: str, *, id_column: str | None = None, how: Reading = USUAL, check: Check = list
) -> FileTable:
    """The table in a file, "-" being standard input; what it holds decides how it is read.

    `check` is shown the names of the columns before their cells are read, which may take long.
    """
    source = "standard input" if path == "-" else path
    try:
        raw = _decompressed(_standard_input() if path == "-" else _bytes(Path(path)), source)
        _check_kind(raw, source)
        return _parsed(source, raw, id_column, how, check)
    except MemoryError:
        raise DataError(
            f"{source} does not fit into memory. Save it as a file that is not compressed, or as "
            f"Parquet, and read that by blocks: {how.spell('memory_limit', '1GB')}"
        ) from None


def _decompressed(raw: bytes, source: str) -> bytes:
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as inside:
            return _no_more(inside, f"{source}, once it is decompressed,")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{source}: the compressed file is damaged ({error}).") from None


def _check_kind(raw: bytes, source: str) -> None:
    if not raw:
        raise DataError(f"{source} is empty. Give a file with rows and columns.")
    if raw.startswith(b"PK\x03\x04") and raw[30:38] == b"fit.json":
        info = f"cuspfa info {shlex.quote(source)}"
        raise DataError(f"{source} is a fit, not data. Look at it by: {info}")
    for start, what in OFFICE.items():
        if raw.startswith(start):
            raise DataError(
                f"{source} is {what}. Save the table as CSV from the program that made it."
            )


def _parsed(
    source: str, raw: bytes, id_column: str | None, how: Reading, check: Check
) -> FileTable:
    missing = missing_codes(how.missing)
    try:
        if raw.startswith(b"PAR1"):
            kind, names, notes, read = _of_arrow("Parquet", raw)
        elif raw.startswith((b"ARROW1", b"FEA1")):
            kind, names, notes, read = _of_arrow("Feather", raw)
        else:
            kind, names, notes, read = _of_text(raw, how)
        position = None
        if id_column is not None:
            position = find_column(how.spell("id_column"), id_column, names)
        check(names)
        chunks, decimal = read(position)
        columns = [
            column_of_arrow(name, one, missing, decimal)
            for name, one in zip(names, chunks, strict=True)
        ]
    except DataError as error:
        raise DataError(f"{source}: {error}") from error
    ids = (
        None
        if position is None
        else ["" if v is None else str(v) for v in chunks[position].to_pylist()]
    )
    truths = tuple(column.name for column in columns if column.truth)
    notes = notes + ([Note("truth", truths)] if truths else [])
    if missing.any:
        notes = [*notes, Note("missing", count=sum(column.coded for column in columns))]
    return FileTable(source, kind, columns, columns[0].n_rows, notes, position, ids)


Read = Callable[[int | None], tuple[list[Any], str]]
"""Arrow columns and the decimal sign; the column at the position given as text."""


def _of_text(raw: bytes, how: Reading) -> tuple[str, list[str], list[Note], Read]:
    dialect = find_dialect(raw, how)

    def read(position: int | None) -> tuple[list[Any], str]:
        return whole_text(raw, dialect, position), dialect.decimal

    kind = "TSV" if dialect.separator == "\t" else "CSV"
    return kind, dialect.names, dialect.notes, read


def _of_arrow(kind: str, raw: bytes) -> tuple[str, list[str], list[Note], Read]:
    what = f"Reading {kind} files"
    pyarrow = needed("pyarrow", what, "files")
    module = needed(f"pyarrow.{kind.lower()}", what, "files")
    try:
        table = module.read_table(pyarrow.BufferReader(raw))
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"the {kind} file is damaged ({error}).") from None
    names, notes = unique_names(table.column_names)
    if not names:
        raise DataError("it has no columns.")
    return kind, names, notes, lambda _: (list(table.columns), ".")


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise InputError("there is no standard input to read. Give a file.")
    if sys.stdin.isatty():
        sys.stderr.write("Reading from the keyboard; Ctrl-D ends, Ctrl-C gives up.\n")
    return _no_more(sys.stdin.buffer, "standard input")


def _no_more(stream: Any, what: str) -> bytes:
    """All that a stream holds, if it fits: nobody knows before how long it is."""
    allowed = allowed_bytes(None)
    most = UNKNOWN if allowed is None else allowed // COPIES
    parts, size = [], 0
    while part := stream.read(1 << 20):
        parts.append(part)
        size += len(part)
        if size > most:
            raise DataError(
                f"{what} is longer than {in_words(most)}, more than can be read into memory. Save "
                "it as a file that is not compressed, or as Parquet: these are read by blocks."
            )
    return b"".join(parts)


def _bytes(path: Path) -> bytes:
    try:
        kind = path.stat().st_mode
        if stat.S_ISREG(kind):
            return path.read_bytes()
        if stat.S_ISFIFO(kind):  # of another program
            with open(path, "rb") as pipe:
                return _no_more(pipe, str(path))
        if not stat.S_ISDIR(kind):
            raise InputError(
                f"{str(path)!r} is a device or a socket, not a file. Give a file, a pipe, or - for "
                "standard input."
            )
        raise IsADirectoryError
    except IsADirectoryError:
        raise InputError(f"{str(path)!r} is a directory. Give a file in it.") from None
    except PermissionError:
        if path.is_dir():  # Windows
            raise InputError(f"{str(path)!r} is a directory. Give a file in it.") from None
        raise InputError(f"no permission to read {str(path)!r}.") from None
    except FileNotFoundError:
        raise no_such_file(path) from None


def no_such_file(path: Path) -> InputError:
    """What to say of it, and which one may be meant."""
    return InputError(f"there is no file {str(path)!r}.{_similar(path)}")


def _similar(path: Path) -> str:
    try:
        names = [one.name for one in path.parent.iterdir() if one.is_file()]
    except OSError:
        return f" There is no directory {str(path.parent)!r} either."
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.8)
    return f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
