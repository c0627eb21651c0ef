"""Columns of answers that follow from another column, such as copies of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.fit_warning import DeterminedColumns, column
from cuspfa.data.screening.duplicates import FEWEST_SHARED

MOST_VALUES = 20
"""Different values of a column of answers."""
MOST_ANSWERS = 500
"""Columns of answers up to which they are compared."""
ROWS_COMPARED_FIRST = 256
"""Rows that are compared first, for all pairs of columns."""


def determined_columns(rows: Array, labels: list[Any] | None) -> DeterminedColumns | None:
    """The columns of rows (n, p) that follow from another, each with the first of these.

    A column of answers follows from another column if each value of the other goes with a single
    value of it, and the order of these values is that of the others, or its reverse. It must vary
    in the rows that have values in both.
    """
    answers = [j for j, values in enumerate(rows.T) if _few_values(values)]
    others = [j for j in range(rows.shape[1]) if j not in set(answers)]
    if not answers or len(answers) > MOST_ANSWERS or len(others) > MOST_ANSWERS:
        return None
    places = np.unique(np.linspace(0, len(rows) - 1, ROWS_COMPARED_FIRST).astype(int))
    head = rows[places]
    possible = _may_follow(head[:, answers])
    found: dict[int, int] = {}
    for j, k in zip(*np.nonzero(possible), strict=True):
        first, second = answers[j], answers[k]
        # Of copies one is reported, and not what it is a copy of.
        if second in found or found.get(first) == second:
            continue
        if _follows(rows[:, first], rows[:, second]):
            found[second] = first
    for first in others:
        for second in answers:
            if second in found or not _in_order(head[:, first], head[:, second]):
                continue
            if _follows(rows[:, first], rows[:, second]):
                found[second] = first
    if not found:
        return None
    pairs = tuple((column(k, labels), column(j, labels)) for k, j in sorted(found.items()))
    return DeterminedColumns(pairs)


def _few_values(values: Array) -> bool:
    head = values[: 10 * MOST_VALUES]
    if len(np.unique(head[~np.isnan(head)])) > MOST_VALUES:
        return False
    found = np.unique(values[~np.isnan(values)])
    return len(found) <= MOST_VALUES and bool(np.all(found == np.round(found)))


def _may_follow(head: Array) -> BoolArray:
    """(q, q): does each value of column j go with at most one value of column k?"""
    indicators, ends = [], [0]
    for values in head.T:
        levels = np.unique(values[~np.isnan(values)])
        indicators.append(values[:, None] == levels)
        ends.append(ends[-1] + len(levels))
    table = np.concatenate(indicators, axis=1).astype(np.float32)
    together = (table.T @ table) > 0
    q = head.shape[1]
    result = np.zeros((q, q), dtype=bool)
    for j in range(q):
        own = together[ends[j] : ends[j + 1]]
        for k in range(q):
            block = own[:, ends[k] : ends[k + 1]]
            result[j, k] = j != k and bool(np.all(block.sum(axis=1) <= 1))
    return result


def _follows(first: Array, second: Array) -> bool:
    shared = ~np.isnan(first) & ~np.isnan(second)
    if shared.sum() < FEWEST_SHARED or len(np.unique(second[shared])) < 2:
        return False
    pairs = np.unique(np.column_stack([first[shared], second[shared]]), axis=0)
    return len(np.unique(pairs[:, 0])) == len(pairs) and _in_order(*pairs.T)


def _in_order(first: Array, second: Array) -> bool:
    """Is the second monotone in the first, but for the order of values of equal ones?"""
    shared = ~np.isnan(first) & ~np.isnan(second)
    order = np.lexsort((second[shared], first[shared]))
    rises = np.all(np.diff(second[shared][order]) >= 0)
    order = np.lexsort((-second[shared], first[shared]))
    return bool(rises or np.all(np.diff(second[shared][order]) <= 0))
