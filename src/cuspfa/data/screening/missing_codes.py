"""Numbers that look like codes for missing answers: -99, 999, 9 among answers from 1 to 5."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import PossibleMissingCode

CODE = re.compile(r"-?(77+|8+|9+|9+[78])|-7")
"""Numbers that are often used so."""
SEVERAL = 3.0
"""Times the range of all other values that a number is beyond them."""
SINGLE, MANY = 1.0, 0.02
"""The same for a code of one digit, which must be this part of the values: counts have tails."""
FAR, OFTEN = 10.0, 3
"""The same for any other number, and how often it must occur."""
MOST_CODES, MOST_ROWS = 3, 100_000
"""Codes at each end, and rows that are looked at."""
SHOWN = 5
"""Codes that are told of."""


@dataclass(frozen=True)
class Found:
    """A number that looks like a code."""

    value: float
    columns: list[str]
    count: int
    """In all of them together."""

    def warning(self, *, by_blocks: bool = False) -> PossibleMissingCode:
        """Of a table that is read by blocks the first rows were looked at."""
        return PossibleMissingCode(tuple(self.columns), self.count, by_blocks, self.value)


def find_codes(names: Sequence[str], rows: Array) -> list[Found]:
    """Codes by how often they occur, of the columns of a table (n, p), NaN where nothing is."""
    found: dict[float, Found] = {}
    for name, column in zip(names, rows.T, strict=True):
        for value in codes_of(column[:MOST_ROWS]):
            known = found.get(value, Found(value, [], 0))
            count = known.count + int(np.sum(column == value))
            found[value] = Found(value, [*known.columns, name], count)
    return sorted(found.values(), key=lambda one: -one.count)


def codes_of(column: Array) -> list[float]:
    """Repeated values far outside all others.

    As many at each end as are all far from the values between them, which are at least half.
    """
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    total, size = int(counts.sum()), len(values)
    best: list[int] = []
    for low in range(MOST_CODES + 1):
        for high in range(MOST_CODES + 1):
            ends = [*range(low), *range(size - high, size)]
            if len(ends) <= len(best) or size - len(ends) < 2:
                continue
            first, last = float(values[low]), float(values[size - high - 1])
            span, inside = last - first, int(counts[low : size - high].sum())
            gaps = ([first - values[low - 1]] if low else []) + (
                [values[size - high] - last] if high else []
            )
            wanted = max(_wanted(values[j], int(counts[j]), total) for j in ends)
            if 2 * inside >= total and min(gaps) >= wanted * span:
                best = ends
    return [float(values[j]) for j in best]


def _wanted(value: float, count: int, total: int) -> float:
    """Times the range of the other values that it must be beyond them; never, if infinite."""
    code = value.is_integer() and CODE.fullmatch(str(int(value))) is not None
    if code and abs(value) < 10:
        return SINGLE if count >= max(3, MANY * total) else np.inf
    if code:
        return SINGLE if count >= 2 and abs(value) > 999 else SEVERAL if count >= 2 else np.inf
    return FAR if count >= OFTEN else np.inf
