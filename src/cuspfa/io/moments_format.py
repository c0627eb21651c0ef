"""Moments as files, so that sites can exchange sufficient statistics instead of rows.

The bytes are those of a saved fit (`archive.py`): JSON and npy in a zip, without pickle.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.warn import warn
from cuspfa.errors import FileError, InputError
from cuspfa.io import archive
from cuspfa.io import schema as json_kinds
from cuspfa.io.archive import CONTENT, LARGEST
from cuspfa.io.atomic import as_path, check_writable, replacing

FORMAT, VERSION = "cuspfa-moments", 1
FEW_ROWS = 10
"""Tables of fewer people than this are not published either."""
_CONTENT: dict[str, json_kinds.Kind] = {
    "format": json_kinds.word(FORMAT),
    "version": json_kinds.count,
    "library": json_kinds.text,
    "n": json_kinds.count,
    "n_columns": json_kinds.count,
    "names": json_kinds.optional(json_kinds.list_of(json_kinds.text)),
}


def save(n: int, mean: Array, cross: Array, names: list[str] | None, path: Any) -> None:
    """Write moments to a file, whole or not at all; see `Moments.save`."""
    target = as_path(path)
    check_writable("path", target)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "library": version("cuspfa"),
        "n": int(n),
        "n_columns": len(mean),
        "names": None if names is None else [str(name) for name in names],
    }
    text = json.dumps(content, indent=1, allow_nan=False).encode()
    arrays = {"mean": archive.plain(mean), "cross_products": archive.plain(cross)}
    members = {CONTENT: [memoryview(text)]}
    members |= {f"{name}.npy": archive.as_npy(array) for name, array in arrays.items()}
    total = archive.file_size({name: sum(map(len, parts)) for name, parts in members.items()})
    if total > LARGEST:
        raise InputError(
            f"The file would have {total:,} bytes, and can have no more than {LARGEST:,}. Save the "
            "moments of fewer columns."
        )
    _warn_if_telling(n, len(mean))
    with replacing(target) as temporary, open(temporary, "wb") as file:
        for piece in archive.archive(members):
            file.write(piece)


def _warn_if_telling(n: int, p: int) -> None:
    """The moments hold p(p+3)/2 numbers, the rows np."""
    if n <= max(FEW_ROWS, (p + 3) // 2):
        warn(
            f"moments of {n} rows and {p} columns may reveal single rows to whoever has the file: "
            "they are of few rows, or hold no fewer numbers than the rows do. Share those of more "
            "rows, or of fewer columns."
        )


def load(path: Any) -> dict[str, Any]:
    """What is in a file of moments, checked: n, mean, cross_products, names."""
    place = as_path(path)
    try:
        if place.exists() and not place.is_file():  # a pipe would wait for ever
            raise FileError("is no file")
        content, arrays = archive.read(place, _decode, _shapes)
        for name, array in arrays.items():
            if not np.all(np.isfinite(array)):
                raise FileError(f"has numbers in {name}.npy that cannot be there")
    except FileError as error:
        said = str(error).replace("a fit saved by cuspfa", "moments saved by cuspfa")
        raise FileError(f"{str(place)!r} {said}.") from None
    return {"n": content["n"], "names": content["names"], **arrays}


def _decode(text: bytes) -> dict[str, Any]:
    try:
        content = json.loads(text.decode())
    except (ValueError, RecursionError):
        raise FileError(f"is damaged: its {CONTENT} cannot be read") from None
    kind = content.get("format") if isinstance(content, dict) else None
    if kind == "cuspfa-fit":
        raise FileError("is a saved fit, not moments; read it by cuspfa.load")
    if kind != FORMAT:
        raise FileError(f"holds no moments saved by cuspfa: it has format {archive.short(kind)}")
    found = json_kinds.count("version", content.get("version"))
    if found > VERSION:
        raise FileError(
            f"is of version {found} of the format, and this cuspfa, {version('cuspfa')}, reads "
            f"version {VERSION}. Upgrade cuspfa to read it"
        )
    checked = json_kinds.fields(CONTENT, content, _CONTENT)
    names, p = checked["names"], checked["n_columns"]
    if not (checked["version"] and checked["n"] and p):
        raise FileError(f"is damaged: {CONTENT} describes no moments")
    if names is not None and len(names) != p:
        raise FileError(f"is damaged: {len(names)} names are not those of {p} columns")
    return checked


def _shapes(content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    p = content["n_columns"]
    return {"mean": (p,), "cross_products": (p, p)}
