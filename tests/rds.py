"""A writer of R data frames (.rds), from the format's description in "R Internals" (XDR, 2)."""

import gzip
import struct
from typing import Any

import numpy as np

SYMBOL, PAIR, CHARACTER, LOGICAL, INTEGER, REAL, STRINGS, LIST = 1, 2, 9, 10, 13, 14, 16, 19
NIL, REFERENCE = 254, 255
NA_INTEGER = -(2**31)
NA_REAL = struct.pack(">Q", 0x7FF00000000007A2)


class Writer:
    def __init__(self) -> None:
        self.out = bytearray(b"X\n" + struct.pack(">iii", 2, 0x00030500, 0x00020300))
        self.symbols: list[str] = []

    def flags(self, kind: int, attributes: dict[str, Any], is_object: bool = False) -> None:
        self.whole(kind | (0x100 if is_object else 0) | (0x200 if attributes else 0))

    def whole(self, value: int) -> None:
        self.out += struct.pack(">i", value)

    def characters(self, text: str | None) -> None:
        if text is None:
            self.whole(CHARACTER)
            self.whole(-1)
            return
        raw = text.encode()
        self.whole(CHARACTER | ((64 if raw.isascii() else 8) << 12))
        self.whole(len(raw))
        self.out += raw

    def attributes(self, attributes: dict[str, Any]) -> None:
        if not attributes:
            return
        for name, value in attributes.items():
            self.whole(PAIR | 0x400)
            if name in self.symbols:
                self.whole((self.symbols.index(name) + 1) << 8 | REFERENCE)
            else:
                self.whole(SYMBOL)
                self.characters(name)
                self.symbols.append(name)
            self.vector(value)
        self.whole(NIL)

    def vector(self, values: Any, attributes: dict[str, Any] | None = None) -> None:
        """Texts, whole numbers, truth values or decimals; None is NA."""
        attributes = attributes or {}
        known = [one for one in values if one is not None]
        is_object = "class" in attributes
        if known and isinstance(known[0], str):
            self.flags(STRINGS, attributes, is_object)
            self.whole(len(values))
            for one in values:
                self.characters(one)
        elif known and isinstance(known[0], (bool, int)):
            kind = LOGICAL if isinstance(known[0], bool) else INTEGER
            self.flags(kind, attributes, is_object)
            self.whole(len(values))
            for one in values:
                self.whole(NA_INTEGER if one is None else int(one))
        else:
            self.flags(REAL, attributes, is_object)
            self.whole(len(values))
            for one in values:
                self.out += NA_REAL if one is None else struct.pack(">d", one)
        self.attributes(attributes)


def rds(
    columns: dict[str, tuple[Any, dict[str, Any]]], row_names: list[str] | None = None
) -> bytes:
    """The file of a data frame; each column has values and attributes."""
    writer = Writer()
    n = len(next(iter(columns.values()))[0])
    own: dict[str, Any] = {
        "names": list(columns),
        "class": ["data.frame"],
        "row.names": row_names or [None, -n],
    }
    writer.flags(LIST, own, is_object=True)
    writer.whole(len(columns))
    for values, attributes in columns.values():
        writer.vector(values.tolist() if isinstance(values, np.ndarray) else values, attributes)
    writer.attributes(own)
    return gzip.compress(bytes(writer.out))
