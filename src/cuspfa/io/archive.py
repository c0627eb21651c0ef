"""The bytes of a saved fit: a zip of `fit.json` and npy members, none of them compressed.

Order and sizes of the members follow from `fit.json`. So the reader looks up no name and trusts no
size: it knows every byte that it will meet but for the numbers themselves and their checksums, and
refuses a file with any other, before it makes room for an array. Other programs see an ordinary
zip file, and `numpy.load` an ordinary npz file.
"""

from __future__ import annotations

import math
import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa.errors import FileError

CONTENT = "fit.json"
LARGEST, LARGEST_CONTENT = (1 << 32) - 1, 1 << 26
"""Bytes of a file, as a plain zip file can count them, and of its JSON."""


def short(value: Any) -> str:
    """A value of a file, fit for a message."""
    if isinstance(value, (dict, list)):
        return f"a {type(value).__name__}"
    shown = value[:60] if isinstance(value, str) else value
    return ascii(shown)[:80]


# --- npy: float64 alone, with a header of fixed length ---

NPY_HEADER = 128
NUMBER = np.dtype("<f8")


def _npy_header(shape: tuple[int, ...], fortran: bool) -> bytes:
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", NPY_HEADER - 10)
    about = f"{{'descr': '<f8', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    return start + about.encode().ljust(NPY_HEADER - 11) + b"\n"


def plain(array: Any) -> Array:
    """Contiguous, and in the order it was: another order would round differently in draws."""
    ready = np.asarray(array, dtype=float)
    contiguous = ready.flags.c_contiguous or ready.flags.f_contiguous
    return ready if contiguous else np.ascontiguousarray(ready)


def as_npy(array: Array) -> list[memoryview]:
    """The bytes of an array's member."""
    header = _npy_header(array.shape, not array.flags.c_contiguous)
    flat = array.ravel(order="K").astype(NUMBER, copy=False)
    return [memoryview(header), _bytes_of(flat)]


def _bytes_of(flat: Any) -> memoryview:
    return memoryview(flat.view(np.uint8))


def _npy_size(shape: tuple[int, ...]) -> int:
    return NPY_HEADER + NUMBER.itemsize * math.prod(shape)


def _read_npy(file: BufferedReader, name: str, shape: tuple[int, ...]) -> tuple[Array, int]:
    """An array and its checksum."""
    header = file.read(NPY_HEADER)
    if header not in (_npy_header(shape, False), _npy_header(shape, True)):
        raise FileError(f"has no array of float64 of shape {shape} as {name}")
    flat = np.empty(math.prod(shape), NUMBER)
    if file.readinto(_bytes_of(flat)) != flat.nbytes:
        raise _cut_off()
    crc = zlib.crc32(_bytes_of(flat), zlib.crc32(header))
    order: Any = "C" if header == _npy_header(shape, False) else "F"
    return flat.astype(float, copy=False).reshape(shape, order=order), crc


# --- zip: members that are not compressed, nothing between them, nothing after them ---

LOCAL, CENTRAL, END = (
    struct.Struct("<4s5H3I2H"),
    struct.Struct("<4s6H3I5H2I"),
    struct.Struct("<4s4H2IH"),
)
NEEDED, UNIX, MODE = 20, 3 << 8, (stat.S_IFREG | 0o644) << 16
TIME, DATE = 0, 1 << 5 | 1
"""Midnight of the first of January 1980: a file does not tell when it was written."""


def _local(name: str, crc: int, size: int) -> bytes:
    about = (NEEDED, 0, 0, TIME, DATE, crc, size, size, len(name), 0)
    return LOCAL.pack(b"PK\3\4", *about) + name.encode()


def _tail(members: dict[str, tuple[int, int]]) -> bytes:
    """The directory at the end, of members with these checksums and sizes."""
    directory, offset = [], 0
    for name, (crc, size) in members.items():
        about = (UNIX | NEEDED, NEEDED, 0, 0, TIME, DATE, crc, size, size, len(name))
        directory.append(CENTRAL.pack(b"PK\1\2", *about, 0, 0, 0, 0, MODE, offset) + name.encode())
        offset += LOCAL.size + len(name) + size
    joined, count = b"".join(directory), len(members)
    return joined + END.pack(b"PK\5\6", 0, 0, count, count, len(joined), offset, 0)


def file_size(sizes: dict[str, int]) -> int:
    """Of a file with members of these sizes."""
    heads = sum(LOCAL.size + CENTRAL.size + 2 * len(name) for name in sizes)
    return heads + sum(sizes.values()) + END.size


def archive(members: dict[str, list[memoryview]]) -> Iterator[bytes | memoryview]:
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


def read(
    place: Path,
    decode: Callable[[bytes], dict[str, Any]],
    shapes_of: Callable[[dict[str, Any]], dict[str, tuple[int, ...]]],
) -> tuple[dict[str, Any], dict[str, Array]]:
    """What `fit.json` says, and the arrays that it says there are.

    `decode` checks the JSON and `shapes_of` knows its arrays, in their order.
    """
    with open(place, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        text = _read_content(file, size)
        content = decode(text)
        shapes = shapes_of(content)
        sizes = {f"{name}.npy": _npy_size(shape) for name, shape in shapes.items()}
        expected = file_size({CONTENT: len(text), **sizes})
        if size < expected:
            raise _cut_off()
        if size > min(expected, LARGEST):
            raise FileError(f"is damaged: it has {size:,} bytes and should have {expected:,}")
        known, arrays = {CONTENT: (zlib.crc32(text), len(text))}, {}
        for name, shape in shapes.items():
            member = f"{name}.npy"
            head = file.read(LOCAL.size + len(member))
            if len(head) < LOCAL.size + len(member):
                raise _cut_off()
            crc = LOCAL.unpack_from(head)[6]
            if head != _local(member, crc, sizes[member]):
                raise FileError(f"is damaged: {member} is not where it should be")
            arrays[name], found = _read_npy(file, member, shape)
            if found != crc:
                raise FileError(f"is damaged: the checksum of {member} is wrong")
            known[member] = crc, sizes[member]
        if file.read(size) != _tail(known):
            raise FileError("is damaged: its end is not as it should be")
    return content, arrays


def _read_content(file: BufferedReader, size: int) -> bytes:
    """The bytes of `fit.json`, the first member."""
    head = file.read(LOCAL.size)
    if not head.startswith(b"PK\3\4"):
        raise FileError(f"is not a fit saved by cuspfa: it is {_looks_like(head)}")
    if len(head) < LOCAL.size:
        raise _cut_off()
    *_, crc, length, _, name_length, _ = LOCAL.unpack(head)
    name = file.read(min(name_length, 100))
    if name != CONTENT.encode():
        if CONTENT.encode().startswith(name):
            raise _cut_off()
        shown = short(name.decode("utf-8", "replace"))
        raise FileError(f"is not a fit saved by cuspfa: it is a zip file that begins with {shown}")
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
