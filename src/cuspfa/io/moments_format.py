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
from cuspfa.errors import FileError
from cuspfa.io import archive, schema
from cuspfa.io.archive import CONTENT
from cuspfa.io.atomic import as_path, check_writable

MOMENTS_FORMAT, MOMENTS_VERSION = "cuspfa-moments", 1
SAVED_MOMENTS = "moments saved by cuspfa"
FEW_ROWS = 10
"""Rows up to which moments may reveal single rows; a usual threshold for published tables."""
_MOMENTS_CONTENT: dict[str, schema.JsonKind] = {
    "format": schema.word(MOMENTS_FORMAT),
    "version": schema.as_count,
    "library": schema.as_text,
    "n": schema.as_count,
    "n_columns": schema.as_count,
    "names": schema.nullable(schema.list_of(schema.as_text)),
}


def save_moments(n: int, mean: Array, cross: Array, names: list[str] | None, path: Any) -> None:
    """Write moments to a file, whole or not at all; see `Moments.save`."""
    target = as_path(path)
    check_writable("path", target)
    content = {
        "format": MOMENTS_FORMAT,
        "version": MOMENTS_VERSION,
        "library": version("cuspfa"),
        "n": int(n),
        "n_columns": len(mean),
        "names": None if names is None else [str(name) for name in names],
    }
    text = json.dumps(content, indent=1, allow_nan=False).encode()
    arrays = {"mean": archive.plain(mean), "cross_products": archive.plain(cross)}
    _warn_if_telling(n, len(mean))
    archive.write_archive(target, text, arrays, "Save the moments of fewer columns.")


def _warn_if_telling(n: int, p: int) -> None:
    """Warn if single rows may be recovered: moments hold p(p+3)/2 numbers, the rows np."""
    if n <= max(FEW_ROWS, (p + 3) // 2):
        warn(
            f"moments of {n} rows and {p} columns may reveal single rows to whoever has the file: "
            "the rows are few, or hold no more numbers than the moments. Share moments of more "
            "rows, or of fewer columns."
        )


def load_moments(path: Any) -> dict[str, Any]:
    """The checked content of a file of moments: n, mean, cross_products, names."""
    with archive.readable(path) as place:
        content, arrays = archive.read_archive(place, SAVED_MOMENTS, _decode, _shapes)
        for name, array in arrays.items():
            if not np.all(np.isfinite(array)):
                raise FileError(f"has numbers in {name}.npy that cannot be there")
    return {"n": content["n"], "names": content["names"], **arrays}


def _decode(text: bytes) -> dict[str, Any]:
    content = schema.parse_content(text, SAVED_MOMENTS, MOMENTS_FORMAT, MOMENTS_VERSION)
    checked = schema.fields(CONTENT, content, _MOMENTS_CONTENT)
    names, p = checked["names"], checked["n_columns"]
    if not (checked["n"] and p):
        raise FileError(f"is damaged: {CONTENT} describes no moments")
    if names is not None and len(names) != p:
        raise FileError(f"is damaged: {len(names)} names are not those of {p} columns")
    return checked


def _shapes(content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    p = content["n_columns"]
    return {"mean": (p,), "cross_products": (p, p)}
