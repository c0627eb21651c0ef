"""The bytes of a table: of a file, a pipe or standard input, decompressed, within memory."""

from __future__ import annotations

import bz2
import difflib
import gzip
import io
import lzma
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from cuspfa._utils.wording import listed
from cuspfa.data.out_of_core.memory import allowed_bytes, format_bytes
from cuspfa.errors import DataError, InputError

COPIES_IN_MEMORY = 4
"""Memory that a table takes when it is read as a whole, in multiples of its size."""
DEFAULT_READ_LIMIT = 1 << 32
"""Bytes that are read at most where the amount of memory is unknown."""
MOST_EXPANSION, LEAST_EXPANDED = 100, 1 << 28
"""Compressed files are refused that grow to over so many times their size, and over 256 MB: tables
shrink less, and a small file could fill the memory."""
ZIP_START = b"PK\x03\x04"
MOST_ZIP_ENTRIES = 10_000
"""Entries of a zip file or workbook from which on it is refused."""
SHOWN_ENTRIES = 5
_COMPRESSED: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_WORKBOOK_ENTRIES = ("xl/workbook.xml", "xl/workbook.bin", "content.xml")


def source_bytes(path: str) -> bytes:
    """The bytes of a file, or of standard input for "-", decompressed."""
    raw = _standard_input() if path == "-" else _file_bytes(Path(path))
    return _decompressed(raw, "standard input" if path == "-" else path)


def _decompressed(raw: bytes, source: str) -> bytes:
    for start, opened in _COMPRESSED.items():
        if raw.startswith(start):
            try:
                with opened(io.BytesIO(raw)) as inside:
                    return _expanded(inside, source, len(raw))
            except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
                raise DataError(f"{source}: the compressed file is damaged ({error}).") from None
    return raw


# --- zip files ---


def is_workbook(raw: bytes) -> bool:
    """Are these the bytes of a spreadsheet: Excel of any age, or OpenDocument?"""
    if raw.startswith(b"\xd0\xcf\x11\xe0"):
        return True
    if not raw.startswith(ZIP_START):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            return any(name in archive.NameToInfo for name in _WORKBOOK_ENTRIES)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False


def unzipped(raw: bytes, source: str) -> tuple[bytes, str]:
    """The one table of a zip file, and its name in it."""
    with _opened(raw, source) as archive:
        files = [one for one in archive.infolist() if _is_table(one)]
        if not files:
            raise DataError(f"{source} is a zip file without any file in it.")
        if len(files) > 1:
            names = listed([repr(one.filename) for one in files], SHOWN_ENTRIES)
            raise DataError(
                f"{source} is a zip file with {len(files)} files: {names}. Unzip it, and give one "
                "of them."
            )
        inside = _entry(archive, files[0], source, len(raw))
    if inside.startswith(ZIP_START) and not is_workbook(inside):
        raise DataError(f"{source} is a zip file in which there is another one. Unzip it.")
    return _decompressed(inside, source), files[0].filename


def check_expanded_size(raw: bytes, source: str) -> None:
    """Refuse a zipped workbook that is too large once it is decompressed.

    The bytes are counted by decompression, since the sizes that an archive states may be wrong.
    """
    if not raw.startswith(ZIP_START):
        return
    most, size = _most_expanded(len(raw)), 0
    with _opened(raw, source) as archive:
        for one in archive.infolist():
            with _readable_entry(archive, one, source) as stream:
                while part := _part(stream, source):
                    size += len(part)
                    if size > most:
                        raise _too_expanded(source, most)


def _opened(raw: bytes, source: str) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(io.BytesIO(raw))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(f"{source}: the zip file is damaged ({error}).") from None
    if len(archive.infolist()) > MOST_ZIP_ENTRIES:
        raise DataError(f"{source} is a zip file with more than {MOST_ZIP_ENTRIES} entries.")
    return archive


def _is_table(entry: zipfile.ZipInfo) -> bool:
    """Is an entry a file that a person put there?"""
    parts = PurePosixPath(entry.filename).parts
    hidden = any(part.startswith((".", "__MACOSX")) for part in parts)
    return not entry.is_dir() and not hidden


def _readable_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, source: str) -> Any:
    if entry.flag_bits & 1:
        raise DataError(f"{source} is protected by a password. Save it without one.")
    try:
        return archive.open(entry)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{source}: the zip file is damaged ({error}).") from None


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, source: str, size: int) -> bytes:
    with _readable_entry(archive, entry, source) as stream:
        try:
            return _expanded(stream, source, size)
        except (zipfile.BadZipFile, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise DataError(f"{source}: the zip file is damaged ({error}).") from None


def _part(stream: Any, source: str) -> bytes:
    try:
        return bytes(stream.read(1 << 20))
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{source}: the file is damaged ({error}).") from None


# --- sizes ---


def read_limit() -> int:
    """Bytes that may be read into memory."""
    allowed = allowed_bytes(None)
    return DEFAULT_READ_LIMIT if allowed is None else allowed // COPIES_IN_MEMORY


def _within_memory(stream: Any, what: str) -> bytes:
    """All bytes of a stream of unknown length, if they fit into memory."""
    most = read_limit()
    return _all_bytes(stream, most, _too_long(what, most))


def _expanded(stream: Any, source: str, compressed: int) -> bytes:
    """All bytes of a decompressing stream over so many bytes, if they are not too many."""
    most = _most_expanded(compressed)
    return _all_bytes(stream, most, _too_expanded(source, most))


def _all_bytes(stream: Any, most: int, error: DataError) -> bytes:
    parts, size = [], 0
    while part := stream.read(1 << 20):
        parts.append(part)
        size += len(part)
        if size > most:
            raise error
    return b"".join(parts)


def _most_expanded(compressed: int) -> int:
    """Bytes to which a file of so many compressed bytes may grow."""
    return min(read_limit(), max(MOST_EXPANSION * compressed, LEAST_EXPANDED))


def _too_expanded(source: str, most: int) -> DataError:
    return _too_long(f"{source}, once it is decompressed,", most)


def _too_long(what: str, most: int) -> DataError:
    return DataError(
        f"{what} is longer than {format_bytes(most)}, more than can be read into memory. "
        "Save it as a text file that is not compressed, or as Parquet: these are read by blocks."
    )


# --- files and standard input ---


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise InputError("there is no standard input to read. Give a file.")
    if sys.stdin.isatty():
        sys.stderr.write("Reading from the keyboard; Ctrl-D ends the input, Ctrl-C cancels.\n")
    return _within_memory(sys.stdin.buffer, "standard input")


def _file_bytes(path: Path) -> bytes:
    try:
        kind = path.stat().st_mode
        if stat.S_ISREG(kind):
            return path.read_bytes()
        if stat.S_ISFIFO(kind):  # of another program
            with open(path, "rb") as pipe:
                return _within_memory(pipe, str(path))
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
    """The error for a missing file, with a file of a similar name."""
    return InputError(f"there is no file {str(path)!r}.{_similar(path)}")


def _similar(path: Path) -> str:
    try:
        names = [one.name for one in path.parent.iterdir() if one.is_file()]
    except OSError:
        return f" There is no directory {str(path.parent)!r} either."
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.8)
    return f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
