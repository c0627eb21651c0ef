"""Pairs of columns that are never observed in the same row."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import NeverCoObserved, column

MOST_COLUMNS_COUNTED = 2000
"""Columns up to which the rows of all pairs are counted."""
ROWS_COUNTED_TOGETHER = 65_536


def never_co_observed(counts: Array, labels: list[Any] | None) -> NeverCoObserved | None:
    """The warning of such pairs, from (p, p) numbers of rows of pairs; None if there are none."""
    first, second = np.nonzero(np.triu(counts == 0, 1))
    if not len(first):
        return None
    pair = column(int(first[0]), labels), column(int(second[0]), labels)
    return NeverCoObserved(len(first), *pair)


def never_co_observed_in(rows: Array, labels: list[Any] | None) -> NeverCoObserved | None:
    """The same for rows (n, p) with NaN for missing values."""
    p = rows.shape[1]
    if p > MOST_COLUMNS_COUNTED or not np.isnan(rows).any():
        return None
    counts = np.zeros((p, p))
    for first in range(0, len(rows), ROWS_COUNTED_TOGETHER):
        # Sums of so many ones are exact in single precision.
        there = (~np.isnan(rows[first : first + ROWS_COUNTED_TOGETHER])).astype(np.float32)
        counts += there.T @ there
    return never_co_observed(counts, labels)
