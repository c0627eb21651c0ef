"""Columns that are equal in all rows in which both have a value."""

from __future__ import annotations

import numpy as np

from cuspfa._typing import Array

FIRST_COMPARED = 64
"""Rows that are compared first, for all pairs of columns."""
MOST_COLUMNS = 2000
"""Columns up to which all pairs are compared; of more, only those with the same missing values."""
FEWEST_SHARED = 10
"""Rows with a value in both columns that are needed."""


def duplicated_columns(rows: Array) -> list[tuple[int, int]]:
    """Pairs of columns (n, p) that are equal where both are observed: the first, and its copy.

    A column is reported once, as the copy of the first that it equals.
    """
    p = rows.shape[1]
    if p > MOST_COLUMNS:
        return _same_bytes(rows)
    places = np.linspace(0, len(rows) - 1, min(FIRST_COMPARED, len(rows))).astype(int)
    head = rows[places]
    missing = np.isnan(head)
    found: list[tuple[int, int]] = []
    copies: set[int] = set()
    for j in range(p):
        if j in copies:
            continue
        alike = (head[:, j + 1 :] == head[:, [j]]) | missing[:, j + 1 :] | missing[:, [j]]
        for k in (np.flatnonzero(alike.all(axis=0)) + j + 1).tolist():
            if k not in copies and _equal(rows[:, j], rows[:, k]):
                found.append((j, k))
                copies.add(k)
    return found


def _equal(first: Array, second: Array) -> bool:
    shared = ~np.isnan(first) & ~np.isnan(second)
    return bool(shared.sum() >= FEWEST_SHARED and np.array_equal(first[shared], second[shared]))


def _same_bytes(rows: Array) -> list[tuple[int, int]]:
    seen: dict[bytes, int] = {}
    found = []
    for k in range(rows.shape[1]):
        key = np.ascontiguousarray(rows[:, k] + 0.0).tobytes()  # one zero, not two
        first = seen.setdefault(key, k)
        if first != k:
            found.append((first, k))
    return found
