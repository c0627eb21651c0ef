"""Tables in: CSV, TSV, Parquet, Feather, from a file or from standard input."""

from __future__ import annotations

import difflib
import gzip
import io
import shlex
import stat
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuspfa._utils.optional import needed
from cuspfa.data.out_of_core.memory import allowed_bytes, in_words
from cuspfa.data.tables.cells import Column, Missing, parse_missing, unique_names
from cuspfa.data.tables.text import column_of_arrow, read_columns, take_apart
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


@dataclass(frozen=True)
class Reading:
    """What the command line says of how a table is written."""

    header: bool | None = None
    """Does the first row name the columns? None: find out."""
    decimal: str | None = None
    """The decimal sign; None: find out."""
    missing: Sequence[str] = ()
    """Words and numbers that stand for missing values, with commas between them."""


@dataclass(frozen=True, eq=False)
class Table:
    """What was read."""

    source: str
    """The file's name, or standard input."""
    kind: str
    columns: list[Column]
    n_rows: int
    notes: list[str] = field(default_factory=list)
    """What had to be assumed."""
    id_position: int | None = None
    ids: list[str] | None = None
    """Names of the rows, if a column of them was asked for."""
    loud: list[str] = field(default_factory=list)
    """Of the notes, those to be heard in any case."""

    @property
    def names(self) -> list[str]:
        """Of all columns."""
        return [column.name for column in self.columns]

    @property
    def n_missing(self) -> int:
        """Missing values in all columns."""
        return sum(column.n_missing for column in self.columns)


USUAL = Reading()
Check = Callable[[list[str]], object]


def read_table(
    path: str,
    *,
    id_column: str | None = None,
    how: Reading = USUAL,
    check: Check = list,
) -> Table:
    """The table in a file, "-" being standard input; what it holds decides how it is read.

    `check` is shown the names of the columns before their cells are read, which may take long.
    """
    source = "standard input" if path == "-" else path
    try:
        return _read(path, source, id_column, how, check)
    except MemoryError:
        raise DataError(
            f"{source} does not fit into memory. Save it as a file that is not compressed, or as "
            "Parquet, and read that by blocks: --memory-limit 1GB"
        ) from None


def _read(path: str, source: str, id_column: str | None, how: Reading, check: Check) -> Table:
    raw = _standard_input() if path == "-" else _bytes(Path(path))
    if raw.startswith(b"\x1f\x8b"):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as inside:
                raw = _no_more(inside, f"{source}, once it is decompressed,")
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{source}: the compressed file is damaged ({error}).") from None
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
    missing = parse_missing(how.missing)
    table = _parsed(source, raw, id_column, how, missing, check)
    if missing.any:
        coded = sum(column.coded for column in table.columns)
        note = f"--missing made {coded or 'no'} cell{'' if coded == 1 else 's'} missing."
        table.notes.append(note)
        table.loud.extend([] if coded else [note])
    return table


def _parsed(
    source: str, raw: bytes, id_column: str | None, how: Reading, missing: Missing, check: Check
) -> Table:
    try:
        if raw.startswith(b"PAR1"):
            return _from_arrow(source, "Parquet", raw, id_column, missing, check)
        if raw.startswith((b"ARROW1", b"FEA1")):
            return _from_arrow(source, "Feather", raw, id_column, missing, check)
        return _from_text(source, raw, id_column, how, missing, check)
    except DataError as error:
        raise DataError(f"{source}: {error}") from error


def find_column(option: str, word: str, names: list[str]) -> int:
    """The position of the column that is called so."""
    if word in names:
        return names.index(word)
    raise InputError(f"{option}: {no_such_column(word, names)}")


def no_such_column(word: str, names: list[str]) -> str:
    """That there is none of this name, and which one may be meant."""
    near = difflib.get_close_matches(word, names, n=1)
    lower = [name for name in names if name.lower() == word.lower()]
    if near or lower:
        return f"there is no column {word!r}. Did you mean {(lower or near)[0]!r}?"
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f"there is no column {word!r}. The columns are {shown} ({len(names)} in all)."


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


def _from_text(
    source: str, raw: bytes, id_column: str | None, how: Reading, missing: Missing, check: Check
) -> Table:
    text = take_apart(raw, header=how.header, decimal=how.decimal)
    position = None if id_column is None else find_column("--id", id_column, text.names)
    check(text.names)
    columns, ids = read_columns(text, position, missing)
    kind = "TSV" if text.separator == "\t" else "CSV"
    notes = text.notes + _truths(columns)
    loud = [text.guess] if text.guess else []
    return Table(source, kind, columns, columns[0].n_rows, notes, position, ids, loud)


def _from_arrow(
    source: str, kind: str, raw: bytes, id_column: str | None, missing: Missing, check: Check
) -> Table:
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
    position = None if id_column is None else find_column("--id", id_column, names)
    check(names)
    chunks = [table.column(j) for j in range(len(names))]
    ids = None if position is None else _texts(chunks[position])
    columns = [column_of_arrow(name, one, missing) for name, one in zip(names, chunks, strict=True)]
    notes += _truths(columns)
    return Table(source, kind, columns, int(table.num_rows), notes, position, ids)


def _truths(columns: list[Column]) -> list[str]:
    found = [column.name for column in columns if column.truth]
    return [f"True and false are read as 1 and 0: {', '.join(found)}."] if found else []


def _texts(chunks: Any) -> list[str]:
    return ["" if value is None else str(value) for value in chunks.to_pylist()]
