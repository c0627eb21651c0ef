"""The bytes of a saved fit: a zip of `fit.json` and npy members, none of them compressed.

Order and sizes of the members follow from `fit.json`. So the reader knows every byte of a right
file except the numbers and their checksums. It refuses any other file before it allocates an array,
and trusts no name or size in the file. Other programs see an ordinary zip file, and `numpy.load` an
ordinary npz file.
"""

from __future__ import annotations

import math
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa.errors import FileError, InputError
from cuspfa.io.atomic import as_path, not_a_file, replacing

CONTENT = "fit.json"
LARGEST_FILE, LARGEST_CONTENT = (1 << 32) - 1, 1 << 26
"""The most bytes of a file, by the limits of plain zip files, and of its JSON."""


def shown_value(value: Any) -> str:
    """A value of a file, shortened for a message."""
    if isinstance(value, (dict, list)):
        return f"a {type(value).__name__}"
    shown = value[:60] if isinstance(value, str) else value
    return ascii(shown)[:80]


# --- npy: float64 alone, with a header of fixed length ---

NPY_HEADER = 128
NPY_DTYPE = np.dtype("<f8")


def _npy_header(shape: tuple[int, ...], fortran: bool) -> bytes:
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", NPY_HEADER - 10)
    about = f"{{'descr': '<f8', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    return start + about.encode().ljust(NPY_HEADER - 11) + b"\n"


def plain(array: Any) -> Array:
    """A contiguous array in its own order: another order would change the rounding of draws."""
    ready = np.asarray(array, dtype=float)
    contiguous = ready.flags.c_contiguous or ready.flags.f_contiguous
    return ready if contiguous else np.ascontiguousarray(ready)


def as_npy(array: Array) -> list[memoryview]:
    """The bytes of an array's member."""
    header = _npy_header(array.shape, not array.flags.c_contiguous)
    flat = array.ravel(order="K").astype(NPY_DTYPE, copy=False)
    return [memoryview(header), _bytes_of(flat)]


def _bytes_of(flat: Any) -> memoryview:
    return memoryview(flat.view(np.uint8))


def _npy_size(shape: tuple[int, ...]) -> int:
    return NPY_HEADER + NPY_DTYPE.itemsize * math.prod(shape)


def _read_npy(file: BufferedReader, name: str, shape: tuple[int, ...]) -> tuple[Array, int]:
    """An array and its checksum."""
    header = file.read(NPY_HEADER)
    if header not in (_npy_header(shape, False), _npy_header(shape, True)):
        raise FileError(f"has no array of float64 of shape {shape} as {name}")
    flat = np.empty(math.prod(shape), NPY_DTYPE)
    if file.readinto(_bytes_of(flat)) != flat.nbytes:
        raise _cut_off()
    crc = zlib.crc32(_bytes_of(flat), zlib.crc32(header))
    order: Any = "C" if header == _npy_header(shape, False) else "F"
    return flat.astype(float, copy=False).reshape(shape, order=order), crc


# --- zip: members that are not compressed, nothing between them, nothing after them ---

LOCAL_HEADER, CENTRAL_HEADER, END_RECORD = (
    struct.Struct("<4s5H3I2H"),
    struct.Struct("<4s6H3I5H2I"),
    struct.Struct("<4s4H2IH"),
)
ZIP_VERSION, MADE_ON_UNIX, FILE_MODE = 20, 3 << 8, (stat.S_IFREG | 0o644) << 16
MEMBER_TIME, MEMBER_DATE = 0, 1 << 5 | 1
"""1 January 1980, 00:00: files do not hold the time at which they were written."""


def _local(name: str, crc: int, size: int) -> bytes:
    about = (ZIP_VERSION, 0, 0, MEMBER_TIME, MEMBER_DATE, crc, size, size, len(name), 0)
    return LOCAL_HEADER.pack(b"PK\3\4", *about) + name.encode()


def _tail(members: dict[str, tuple[int, int]]) -> bytes:
    """The directory at the end of a file, for members with these checksums and sizes."""
    directory, offset = [], 0
    for name, (crc, size) in members.items():
        about = (
            MADE_ON_UNIX | ZIP_VERSION,
            ZIP_VERSION,
            0,
            0,
            MEMBER_TIME,
            MEMBER_DATE,
            crc,
            size,
            size,
            len(name),
        )
        directory.append(
            CENTRAL_HEADER.pack(b"PK\1\2", *about, 0, 0, 0, 0, FILE_MODE, offset) + name.encode()
        )
        offset += LOCAL_HEADER.size + len(name) + size
    joined, count = b"".join(directory), len(members)
    return joined + END_RECORD.pack(b"PK\5\6", 0, 0, count, count, len(joined), offset, 0)


def file_size(sizes: dict[str, int]) -> int:
    """Bytes of a file with members of these sizes."""
    heads = sum(LOCAL_HEADER.size + CENTRAL_HEADER.size + 2 * len(name) for name in sizes)
    return heads + sum(sizes.values()) + END_RECORD.size


def write_archive(target: Path, text: bytes, arrays: dict[str, Array], advice: str) -> None:
    """Write `fit.json` and arrays to a file, whole or not at all.

    `advice` says what to leave out of a file that would be too large.
    """
    members = {CONTENT: [memoryview(text)]}
    members |= {f"{name}.npy": as_npy(array) for name, array in arrays.items()}
    total = file_size({name: sum(map(len, parts)) for name, parts in members.items()})
    if total > LARGEST_FILE:
        raise InputError(
            f"The file would have {total:,} bytes. It can have no more than {LARGEST_FILE:,}. "
            f"{advice}"
        )
    with replacing(target) as temporary, open(temporary, "wb") as file:
        for piece in archive_bytes(members):
            file.write(piece)


def archive_bytes(members: dict[str, list[memoryview]]) -> Iterator[bytes | memoryview]:
    """The bytes of a file with these members, piece by piece."""
    known = {}
    for name, parts in members.items():
        crc = 0
        for part in parts:
            crc = zlib.crc32(part, crc)
        known[name] = crc, sum(map(len, parts))
        yield _local(name, *known[name])
        yield from parts
    yield _tail(known)


@contextmanager
def readable(path: Any) -> Iterator[Path]:
    """The path of a file; a FileError about its content gets the name of the file."""
    place = as_path(path)
    if place.exists() and not place.is_file():  # reading a pipe could block for ever
        raise not_a_file(place)
    try:
        yield place
    except FileError as error:
        raise FileError(f"{str(place)!r} {error}.") from None


def read_archive(
    place: Path,
    what: str,
    decode: Callable[[bytes], dict[str, Any]],
    shapes_of: Callable[[dict[str, Any]], dict[str, tuple[int, ...]]],
) -> tuple[dict[str, Any], dict[str, Array]]:
    """The content of `fit.json`, and the arrays that it describes.

    `what` names the right kind of file in messages, `decode` checks the JSON, and `shapes_of` gives
    the shapes of its arrays, in their order.
    """
    with open(place, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        text = _read_content(file, size, what)
        content = decode(text)
        shapes = shapes_of(content)
        sizes = {f"{name}.npy": _npy_size(shape) for name, shape in shapes.items()}
        expected = file_size({CONTENT: len(text), **sizes})
        if size < expected:
            raise _cut_off()
        if size > min(expected, LARGEST_FILE):
            raise FileError(f"is damaged: it has {size:,} bytes and should have {expected:,}")
        known, arrays = {CONTENT: (zlib.crc32(text), len(text))}, {}
        for name, shape in shapes.items():
            member = f"{name}.npy"
            head = file.read(LOCAL_HEADER.size + len(member))
            if len(head) < LOCAL_HEADER.size + len(member):
                raise _cut_off()
            crc = LOCAL_HEADER.unpack_from(head)[6]
            if head != _local(member, crc, sizes[member]):
                raise FileError(f"is damaged: {member} is missing or misplaced")
            arrays[name], found = _read_npy(file, member, shape)
            if found != crc:
                raise FileError(f"is damaged: the checksum of {member} is wrong")
            known[member] = crc, sizes[member]
        if file.read(size) != _tail(known):
            raise FileError("is damaged: its directory is wrong")
    return content, arrays


def _read_content(file: BufferedReader, size: int, what: str) -> bytes:
    """The bytes of `fit.json`, the first member."""
    head = file.read(LOCAL_HEADER.size)
    if not head.startswith(b"PK\3\4"):
        raise FileError(f"is not {what}: it is {_looks_like(head)}")
    if len(head) < LOCAL_HEADER.size:
        raise _cut_off()
    *_, crc, length, _, name_length, _ = LOCAL_HEADER.unpack(head)
    name = file.read(min(name_length, 100))
    if name != CONTENT.encode():
        if CONTENT.encode().startswith(name):
            raise _cut_off()
        shown = shown_value(name.decode("utf-8", "replace"))
        raise FileError(f"is not {what}: it is a zip file that begins with {shown}")
    if head + name != _local(CONTENT, crc, length):
        raise FileError(
            "is damaged, or was packed again by another program; use the file as cuspfa wrote it"
        )
    if length > LARGEST_CONTENT:
        raise FileError(f"has {length:,} bytes of {CONTENT}, more than {LARGEST_CONTENT:,}")
    text = file.read(length) if length <= size else b""
    if len(text) < length:
        raise _cut_off()
    if zlib.crc32(text) != crc:
        raise FileError(f"is damaged: the checksum of {CONTENT} is wrong")
    return text


_KNOWN = {
    b"PK\5\6": "an empty zip file",
    b"\x93NUMPY": "a NumPy array",
    b"\x80": "a pickle",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a Parquet file",
    b"{": "JSON text",
    b"<": "a web page or XML",
}


def _looks_like(head: bytes) -> str:
    if not head:
        return "empty"
    for start, kind in _KNOWN.items():
        if head.startswith(start):
            return kind
    printable = all(byte >= 32 or byte in b"\t\r\n" for byte in head)
    return "text or a table" if printable else "of an unknown kind"


def _cut_off() -> FileError:
    return FileError("is damaged: it was cut off")
