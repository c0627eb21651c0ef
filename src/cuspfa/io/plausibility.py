"""What a saved fit must be beyond shapes and kinds, so that no sum of its numbers breaks later."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa.errors import FileError

LARGEST = 1e100
"""Beyond this, and below its inverse for what must be positive, squares and ratios overflow."""
ROUNDING = 1e-8
"""Part of the largest variance by which a matrix may miss being a covariance."""


def check_content(content: dict[str, Any]) -> None:
    """Numbers and names of `fit.json` that no fit can have."""
    n, names = content["n_rows"], content["names"]
    if n < 2:
        raise FileError(f"is damaged: n_rows cannot be {n}")
    if names is not None and len(set(names)) < len(names):
        raise FileError("is damaged: two of its columns have the same name")
    holders = [
        *content.get("parts", []),
        *([content["statistics"]] if content["statistics"] else []),
    ]
    for holder in holders:
        if holder["n"] > n:
            raise FileError(f"is damaged: n cannot be {holder['n']}, of {n} rows")
        if (
            content["prior"].noise_shape + holder["n"] / 2 <= 0
        ):  # no distribution of the noise would be left
            raise FileError(f"is damaged: n cannot be {holder['n']} with its prior")


def check_size(name: str, array: Array, *, positive: bool) -> None:
    """Refuse finite numbers too large to be squared, or too small to be divided by."""
    if name in ("center", "scale"):  # in the user's units, which may be anything
        return
    finite = np.abs(array[np.isfinite(array)])
    if np.any(finite > LARGEST) or (positive and np.any(finite < 1 / LARGEST)):
        raise _wrong(name)


def check_distribution(prefix: str, arrays: dict[str, Array]) -> None:
    """The scores of a part have covariances, and its labels probabilities."""
    for name, definite in (("scores_covariance", True), ("scores_inner", False)):
        if not _is_covariance(arrays[prefix + name], definite=definite):
            raise _wrong(prefix + name)
    if np.any(arrays[prefix + "active"] > 1 + ROUNDING):
        raise _wrong(f"{prefix}active")


def check_statistics(array: Array, *, is_gram: bool) -> None:
    """Cross-products are a covariance times a number; no column is constant."""
    squares = np.diag(array) if is_gram else np.sum(array**2, axis=0)
    right = bool(np.all(squares > 0))
    if right and is_gram:
        sd = np.sqrt(squares)
        right = _is_covariance(array / sd[:, None] / sd, definite=False)
    if not right:
        raise _wrong("statistics")


def check_units(scale: Array, mean: Array, spread: Array) -> None:
    """Variances in the user's units, of loadings and of the rest, are numbers, and not zero."""
    with np.errstate(all="ignore"):
        variance = np.sum((scale[:, None] * mean) ** 2, axis=1) + scale**2 * spread
    if not np.all(np.isfinite(variance) & (variance > 0)):
        raise _wrong("scale")


def _is_covariance(matrix: Array, *, definite: bool) -> bool:
    largest = float(np.max(np.abs(matrix), initial=0.0))
    if not len(matrix) or largest == 0.0:
        return not (len(matrix) and definite)
    if not np.allclose(matrix, matrix.T, rtol=0.0, atol=ROUNDING * largest):
        return False
    room = 0.0 if definite else ROUNDING
    try:
        np.linalg.cholesky(matrix / largest + room * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def _wrong(name: str) -> FileError:
    return FileError(f"has numbers in {name}.npy that cannot be there")
