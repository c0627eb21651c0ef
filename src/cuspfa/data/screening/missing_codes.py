"""Numbers that look like codes for missing values: -99, 999, or 9 among answers from 1 to 5."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
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
CODE_COLUMNS, NUMBER_COLUMNS = 2, 3
"""Columns in which a code, or any other number, makes up for its being rare in each of them."""
CODES_SHOWN = 5
"""Codes that are reported."""


def find_codes(
    names: Sequence[str], rows: Array, *, by_blocks: bool = False
) -> list[PossibleMissingCode]:
    """The codes that occur most often in the columns of a table (n, p) with NaN for missing values.

    A value is one if it is repeated in its column, or far outside in several columns. `by_blocks`
    says that `rows` are only the first of a table that is read by blocks.
    """
    found: dict[float, PossibleMissingCode] = {}
    for name, column, values in zip(names, rows.T, codes_by_column(rows), strict=True):
        for value in values:
            known = found.get(value, PossibleMissingCode((), 0, by_blocks, value))
            count = known.count + int(np.sum(column == value))
            found[value] = replace(known, columns=(*known.columns, name), count=count)
    return sorted(found.values(), key=lambda one: -one.count)[:CODES_SHOWN]


def far_categories(column: Array) -> list[float]:
    """Values of a column of categories far outside the others, also if they occur only once.

    Positive numbers of one digit must be repeated: the last category may be rare.
    """
    ends = _ends(column)
    return _far_values(ends, {value for value in ends.values if not 0 < value < 10})


def is_common_code(value: float) -> bool:
    """Is a number often used as a code for missing values?"""
    return value.is_integer() and COMMON_CODE.fullmatch(str(int(value))) is not None


def codes_by_column(rows: Array) -> list[list[float]]:
    """Values of each column far outside the others, that are repeated or in several columns."""
    every = [_ends(column[:ROWS_SEARCHED]) for column in rows.T]
    times = Counter(value for ends in every for value in _far_values(ends, None))
    shared = {value for value, k in times.items() if k >= _columns_wanted(value, len(every))}
    return [_far_values(ends, shared) for ends in every]


class _ColumnEnds(NamedTuple):
    """The lowest and highest values of a column, and how often they occur."""

    values: Array
    counts: Indices
    total: int
    n_between: int
    """Different values between these."""


def _ends(column: Array) -> _ColumnEnds:
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    kept = CODES_AT_EACH_END + 1
    between = max(len(values) - 2 * kept, 0)
    if between:
        values = np.concatenate([values[:kept], values[-kept:]])
    total = int(counts.sum())
    counts = np.concatenate([counts[:kept], counts[-kept:]]) if between else counts
    return _ColumnEnds(values, counts, total, between)


def _far_values(ends: _ColumnEnds, shared: Collection[float] | None) -> list[float]:
    """The largest set of values at both ends that are far from the values between them.

    These must be at least half of all. Values at the ends must be repeated, unless they are among
    the `shared` ones; None means that all are.
    """
    values, counts, size = ends.values, ends.counts, len(ends.values)
    if _ends_are_near(ends):
        return []
    best: list[int] = []
    for low in range(CODES_AT_EACH_END + 1):
        for high in range(CODES_AT_EACH_END + 1):
            outer = [*range(low), *range(size - high, size)]
            if len(outer) <= len(best) or size + ends.n_between - len(outer) < 2:
                continue
            first, last = float(values[low]), float(values[size - high - 1])
            span = last - first
            inside = ends.total - int(counts[:low].sum()) - int(counts[size - high :].sum())
            gaps = ([first - values[low - 1]] if low else []) + (
                [values[size - high] - last] if high else []
            )
            wanted = max(
                _distance(float(values[j]), first)
                if shared is None or values[j] in shared
                else _wanted(float(values[j]), int(counts[j]), ends.total, first)
                for j in outer
            )
            # 8 is the next value after 4 and 6.
            steps = np.diff(values[low : size - high]) if not ends.n_between else np.zeros(1)
            apart = min(gaps) >= wanted * span and min(gaps) > np.max(steps)
            if 2 * inside >= ends.total and apart:
                best = outer
    return [float(values[j]) for j in best]


def _ends_are_near(ends: _ColumnEnds) -> bool:
    """Is every gap between the values at the ends narrower than what lies between them?

    Then none is far outside: no code is nearer to the others than their range. It is so for most
    columns, and quicker to tell than to try all sets of values.
    """
    if not ends.n_between:
        return False
    kept, values = CODES_AT_EACH_END + 1, ends.values.tolist()
    gaps = (
        above - below
        for side in (values[:kept], values[-kept:])
        for below, above in itertools.pairwise(side)
    )
    return bool(max(gaps) < SHORT_CODE_DISTANCE * (values[-kept] - values[kept - 1]))


def _wanted(value: float, count: int, total: int, lowest: float) -> float:
    """Distance from the other values that makes a number a code; infinite if none does.

    `lowest` is the lowest of the others.
    """
    if not is_common_code(value):
        return NUMBER_DISTANCE if count >= NUMBER_COUNT else np.inf
    if abs(value) < 10:
        # A negative number below counts is in no tail of them.
        few = 2 if value < 0 <= lowest else max(3, SHORT_CODE_SHARE * total)
        return SHORT_CODE_DISTANCE if count >= few else np.inf
    return _distance(value, 0.0) if count >= 2 else np.inf


def _distance(value: float, lowest: float) -> float:
    """How far a repeated number is from the others; `lowest` is the lowest of these."""
    if not is_common_code(value):
        return NUMBER_DISTANCE
    if abs(value) < 10:  # among negative values, -9 is one of them
        return SHORT_CODE_DISTANCE if value > 0 or lowest >= 0 else np.inf
    return SHORT_CODE_DISTANCE if abs(value) > 999 else CODE_DISTANCE


def _columns_wanted(value: float, n_columns: int) -> float:
    """Columns in which a value that is far outside is a code, even if it is in each only once."""
    if not is_common_code(value):
        return NUMBER_COLUMNS
    # The tail of counts ends at 8 or 9 in some columns, a code is in most.
    return max(3, n_columns / 2) if 0 < value < 10 else CODE_COLUMNS
