"""Numbers that look like codes for missing values: -99, 999, or 9 among answers from 1 to 5."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import PossibleMissingCode

COMMON_CODE = re.compile(r"-?(77+|8+|9+|9+[78])|-7")
"""Numbers that are often used as codes."""
CODE_DISTANCE = 3.0
"""Distance of a code from the other values, in multiples of their range."""
SHORT_CODE_DISTANCE, SHORT_CODE_SHARE = 1.0, 0.02
"""Distance of a code of one digit, and its share of the values: counts have long tails."""
NUMBER_DISTANCE, NUMBER_COUNT = 10.0, 3
"""Distance of any other number, and how often it must occur."""
CODES_AT_EACH_END, ROWS_SEARCHED = 3, 100_000
"""Codes below and above the other values, and rows that are searched."""
CODES_SHOWN = 5
"""Codes that are reported."""


def find_codes(
    names: Sequence[str], rows: Array, *, by_blocks: bool = False
) -> list[PossibleMissingCode]:
    """The codes that occur most often in the columns of a table (n, p) with NaN for missing values.

    `by_blocks` says that `rows` are only the first of a table that is read by blocks.
    """
    found: dict[float, PossibleMissingCode] = {}
    for name, column in zip(names, rows.T, strict=True):
        for value in codes_of(column[:ROWS_SEARCHED]):
            known = found.get(value, PossibleMissingCode((), 0, by_blocks, value))
            count = known.count + int(np.sum(column == value))
            found[value] = replace(known, columns=(*known.columns, name), count=count)
    return sorted(found.values(), key=lambda one: -one.count)[:CODES_SHOWN]


def codes_of(column: Array) -> list[float]:
    """Repeated values far outside the others.

    The largest set of values at both ends that are far from the values between them; these must be
    at least half of all.
    """
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    total, size = int(counts.sum()), len(values)
    best: list[int] = []
    for low in range(CODES_AT_EACH_END + 1):
        for high in range(CODES_AT_EACH_END + 1):
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
    """Distance from the other values that makes a number a code; infinite if none does."""
    code = value.is_integer() and COMMON_CODE.fullmatch(str(int(value))) is not None
    if code and abs(value) < 10:
        return SHORT_CODE_DISTANCE if count >= max(3, SHORT_CODE_SHARE * total) else np.inf
    if code:
        return (
            SHORT_CODE_DISTANCE
            if count >= 2 and abs(value) > 999
            else CODE_DISTANCE
            if count >= 2
            else np.inf
        )
    return NUMBER_DISTANCE if count >= NUMBER_COUNT else np.inf
