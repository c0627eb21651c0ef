"""Checks of the numbers in a saved fit, so that no later computation fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa.errors import FileError

LARGEST_NUMBER = 1e100
"""Beyond this number, and below its inverse, squares and ratios overflow."""
CHECKED_ELSEWHERE = ("trace", "row_weights")
"""Arrays with other rules."""
MAY_BE_INFINITE = ("loadings_eigenvalues",)
"""Of loadings without spread."""
COVARIANCE_ROUNDING = 1e-8
"""Rounding error of a covariance matrix, relative to its largest variance."""


def check_content(content: dict[str, Any]) -> None:
    """Refuse numbers and names in `fit.json` that no fit can have."""
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
        ):  # the distribution of the noise would be improper
            raise FileError(f"is damaged: n cannot be {holder['n']} with its prior")


def check_arrays(
    arrays: dict[str, Array],
    *,
    positive: Sequence[str],
    not_negative: Sequence[str] = (),
    whole: Sequence[str] = (),
    binary: Sequence[str] = (),
) -> None:
    """Refuse numbers that no fit can have, in arrays of these names, whatever their folder."""
    for place, array in arrays.items():
        name = place.rpartition("/")[2]
        if name in CHECKED_ELSEWHERE:
            continue
        right = ~np.isnan(array) if name in MAY_BE_INFINITE else np.isfinite(array)
        if name in positive:
            right &= array > 0
        elif name in not_negative:
            right &= array >= 0
        elif name in whole:
            right &= (array >= 0) & (array == np.round(array))
        elif name in binary:
            right &= (array == 0) | (array == 1)
        if not np.all(right):
            raise _wrong(place)
        check_size(place, array, positive=name in positive)


def check_size(name: str, array: Array, *, positive: bool) -> None:
    """Refuse finite numbers too large to be squared, or too small to be divisors."""
    if name in ("center", "scale"):  # in the user's units, of any size
        return
    finite = np.abs(array[np.isfinite(array)])
    if np.any(finite > LARGEST_NUMBER) or (positive and np.any(finite < 1 / LARGEST_NUMBER)):
        raise _wrong(name)


def check_distribution(prefix: str, arrays: dict[str, Array]) -> None:
    """Check that scores have covariance matrices, and labels probabilities."""
    for name, definite in (("scores_covariance", True), ("scores_inner", False)):
        if not _is_covariance(arrays[prefix + name], definite=definite):
            raise _wrong(prefix + name)
    if np.any(arrays[prefix + "active"] > 1 + COVARIANCE_ROUNDING):
        raise _wrong(f"{prefix}active")


def check_statistics(array: Array, *, is_gram: bool) -> None:
    """Check that cross-products are positive semi-definite and no column is constant."""
    squares = np.diag(array) if is_gram else np.sum(array**2, axis=0)
    right = bool(np.all(squares > 0))
    if right and is_gram:
        sd = np.sqrt(squares)
        right = _is_covariance(array / sd[:, None] / sd, definite=False)
    if not right:
        raise _wrong("statistics")


def check_units(scale: Array, mean: Array, spread: Array) -> None:
    """Check that variances in the user's units are finite and positive."""
    with np.errstate(all="ignore"):
        variance = np.sum((scale[:, None] * mean) ** 2, axis=1) + scale**2 * spread
    if not np.all(np.isfinite(variance) & (variance > 0)):
        raise _wrong("scale")


def _is_covariance(matrix: Array, *, definite: bool) -> bool:
    largest = float(np.max(np.abs(matrix), initial=0.0))
    if not len(matrix) or largest == 0.0:
        return not (len(matrix) and definite)
    if not np.allclose(matrix, matrix.T, rtol=0.0, atol=COVARIANCE_ROUNDING * largest):
        return False
    room = 0.0 if definite else COVARIANCE_ROUNDING
    try:
        np.linalg.cholesky(matrix / largest + room * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def _wrong(name: str) -> FileError:
    return FileError(f"has numbers in {name}.npy that cannot be there")
