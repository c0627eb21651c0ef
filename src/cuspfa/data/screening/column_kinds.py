"""What kind of numbers a column holds: one rule, for rows in memory and for the first of a stream.

A column is the first of these that applies to its observed values:

- "binary": two different values;
- "few_points": 3 to 11 points on a grid of equal steps, such as 1 to 6;
- "codes": 3 to 50 different whole numbers that span more than ten times their number and are no
  multiples of a unit, each but 0 in five rows or more, such as 101, 205, 342: most likely numbers
  of categories;
- "counts": whole numbers from 0 on, of which at least one in twenty is 0;
- "skewed": a skewness beyond ±2, and beyond ±1 without the hundredth of the values at each end, so
  that a few outlying rows do not make it so;
- "continuous": all others.

Numbers far from all others that are repeated, such as -99, do not count: they stand for missing
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.data.screening.missing_codes import codes_by_column
from cuspfa.data.screening.near_constant import FIRST_LOOK_ROWS

__all__ = ["KindGroup", "KindWatcher", "column_kinds", "skewness_of"]

ColumnKind = Literal["binary", "few_points", "codes", "counts", "skewed", "continuous"]
KINDS: tuple[ColumnKind, ...] = (
    "few_points",
    "binary",
    "counts",
    "codes",
    "skewed",
    "continuous",
)
"""In the order in which they are told."""
MOST_POINTS = 11
"""Points of the finest answer scale: 0 to 10."""
MOST_CODES, CODE_SPAN, ROWS_A_CODE = 50, 10, 5
"""Categories, how much wider than their number codes are spread, and rows for each."""
LARGEST_CODE = 1e12
ZERO_SHARE = 0.05
"""Least share of zeros in counts."""
STRONG_SKEWNESS = 2.0
"""Skewness of a column with many values from which on a transformation is advised; that of an
exponential distribution."""
OUTER_VALUES = 100
"""One in so many values at each end is left out to see whether a column stays skewed."""
FEW_VALUES, LARGE_SKEWNESS = 7, 1.0
"""Points up to which an item's skewness matters, and the skewness from which on its Pearson
correlations depend on it as much as on what the item measures. A finer scale loses little."""
KIND_ROWS, KIND_CELLS = 5000, 1 << 22
"""Most rows and cells that are looked at."""
CHANGED_BY_CODES: tuple[ColumnKind, ...] = ("codes", "skewed", "continuous")
"""Kinds that items have if some of their values are codes for missing ones."""
FEWEST_KIND_ROWS = 20
"""Values below which the kind of a column is not told."""
GRID_TOLERANCE = 1e-6
"""Part of a step by which points of a grid may be off, as decimal fractions are."""


@dataclass(frozen=True)
class KindGroup:
    """Columns of one kind."""

    kind: ColumnKind
    columns: tuple[int, ...]
    """Their positions."""
    points: tuple[int, int] | None = None
    """Of items: fewest and most points that occur."""
    skewed: tuple[int, ...] = ()
    """Positions of the items with few points and much skewness."""


def column_kinds(rows: Any) -> tuple[KindGroup, ...]:
    """Columns by kind; empty where rows are too few to tell.

    Sparse rows are counts, if all are whole numbers from 0 on and some above 1, and else of no
    kind. Of many rows, `KIND_ROWS` of them are looked at, evenly spread.

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.tile([[1.0, 0.0], [2.0, 1.0], [3.0, 1.0], [4.0, 0.0]], (10, 1))
    >>> [(one.kind, one.columns, one.points) for one in column_kinds(answers)]
    [('few_points', (0,), (4, 4)), ('binary', (1,), (2, 2))]
    """
    n, p = rows.shape
    most = _rows_for(p)
    if n > most:
        rows = rows[np.linspace(0, n - 1, most).astype(np.intp)]
    if rows.shape[0] < FEWEST_KIND_ROWS or not p:
        return ()
    if issparse(rows):
        values = np.asarray(rows.data, dtype=float)
        whole = len(values) and _are_whole_from_zero(values) and values.max() > 1
        return (KindGroup("counts", tuple(range(p))),) if whole else ()
    look = np.asarray(rows, dtype=float)
    with np.errstate(all="ignore"):  # numbers too large to be told apart have no kind of their own
        found = dict(enumerate(_each_kind(look)))
        coded = [j for j, one in found.items() if one.kind in CHANGED_BY_CODES]
        without = _without_codes(look, coded)
        if without:
            again = _each_kind(np.column_stack(list(without.values())))
            found |= dict(zip(without, again, strict=True))
    return tuple(
        _group(kind, members)
        for kind in KINDS
        if (members := [(j, one) for j, one in found.items() if one.kind == kind])
    )


def _without_codes(look: Array, columns: list[int]) -> dict[int, Array]:
    """The columns among these that have codes for missing values, without them."""
    codes = codes_by_column(look[:, columns])
    return {
        j: np.where(np.isin(look[:, j], values), np.nan, look[:, j])
        for j, values in zip(columns, codes, strict=True)
        if values
    }


class KindWatcher:
    """Kinds of the columns of a stream, by its first rows."""

    def __init__(self) -> None:
        self._held: list[Array] = []
        self._left: int | None = None

    def add(self, block: Any) -> None:
        """One more block of rows."""
        if self._left is None:
            self._left = _rows_for(block.shape[1])
        if self._left > 0 and len(block):
            self._held.append(np.array(block[: self._left], dtype=float))
            self._left -= len(self._held[-1])

    def kinds(self, kept: list[int]) -> tuple[KindGroup, ...]:
        """Kinds of some columns, with the places of the columns among these."""
        return column_kinds(np.concatenate(self._held)[:, kept]) if self._held else ()


def _rows_for(p: int) -> int:
    return min(KIND_ROWS, KIND_CELLS // max(p, 1))


# --- single columns ---


@dataclass(frozen=True)
class _Kind:
    kind: ColumnKind
    points: int = 0
    skewed: bool = False


def _each_kind(look: Array) -> list[_Kind]:
    seen = ~np.isnan(look)
    n = seen.sum(axis=0)
    skewness = _skewness(look, seen, n)
    zeros = np.sum(look == 0, axis=0) >= ZERO_SHARE * n
    found = []
    for j in range(look.shape[1]):
        enough = n[j] >= FEWEST_KIND_ROWS
        if enough and zeros[j] and _are_whole_from_zero(look[seen[:, j], j]):
            found.append(_Kind("counts"))
        elif enough and abs(skewness[j]) > STRONG_SKEWNESS and _stays_skewed(look[seen[:, j], j]):
            found.append(_Kind("skewed"))
        else:
            found.append(_Kind("continuous"))
    columns = _may_be_few(look)
    few = _kinds_of_few(look[:, columns], n[columns], skewness[columns])
    for j, one in zip(columns, few, strict=True):
        found[j] = one or found[j]
    return found


def _skewness(look: Array, seen: BoolArray, n: Indices) -> Array:
    values = look if seen.all() else np.where(seen, look, 0.0)
    number = np.maximum(n, 1)
    centred = values - values.sum(axis=0) / number
    if values is not look:
        centred *= seen
    centred /= np.maximum(np.max(np.abs(centred), axis=0), 1e-300)  # whatever their size
    squares = centred**2
    spread = np.sqrt(squares.sum(axis=0) / number)
    third = np.einsum("ij,ij->j", squares, centred) / number
    return np.asarray(third / np.maximum(spread, 1e-100) ** 3)


def skewness_of(values: Array) -> float:
    """Skewness of the values of one column, none of them missing."""
    seen = np.ones((len(values), 1), dtype=bool)
    return float(_skewness(values[:, None], seen, seen.sum(axis=0))[0])


def _stays_skewed(values: Array) -> bool:
    """Is a column skewed without its ends too?"""
    cut = -(-len(values) // OUTER_VALUES)
    return abs(skewness_of(np.sort(values)[cut:-cut])) > LARGE_SKEWNESS


def _are_whole_from_zero(values: Array) -> bool:
    return bool(values.min() >= 0 and np.all(values == np.round(values)))


def _may_be_few(look: Array) -> Indices:
    """Columns with so few values in some rows that all of their rows have to be looked at."""
    some = look[np.linspace(0, len(look) - 1, min(len(look), FIRST_LOOK_ROWS)).astype(np.intp)]
    steps = np.sum(np.diff(np.sort(some, axis=0), axis=0) > 0, axis=0)
    most = max(MOST_POINTS, min(MOST_CODES, len(look) // ROWS_A_CODE))
    return np.flatnonzero(steps < most)


def _kinds_of_few(look: Array, n: Indices, skewness: Array) -> list[_Kind | None]:
    """The kinds of columns with few values; None for those that are none of such columns."""
    ordered = np.sort(look, axis=0)  # NaN last; what is compared with NaN is False
    gaps = np.diff(ordered, axis=0)
    levels = 1 + np.sum(gaps > 0, axis=0)
    step = np.min(np.where(gaps > 0, gaps, np.inf), axis=0, initial=np.inf)
    off_grid = np.any(np.abs(gaps / step - np.round(gaps / step)) > GRID_TOLERANCE, axis=0)
    points = 1 + np.nanmax((ordered - ordered[0]) / step, axis=0, initial=0.0)
    whole = ~np.any(ordered - np.floor(ordered) > 0, axis=0)
    found: list[_Kind | None] = []
    for j in range(look.shape[1]):
        much = abs(skewness[j]) > LARGE_SKEWNESS and levels[j] <= FEW_VALUES
        if n[j] < FEWEST_KIND_ROWS:
            found.append(None)
        elif levels[j] <= 2:
            found.append(_Kind("binary", 2, bool(much)))
        elif not off_grid[j] and points[j] < MOST_POINTS + 0.5:
            found.append(_Kind("few_points", int(levels[j]), bool(much)))
        else:
            wide = off_grid[j] or points[j] > CODE_SPAN * levels[j]
            # Amounts that are mostly zero have few values too.
            zeros = int(np.sum(ordered[:, j] == 0))
            rows_a_code = (n[j] - zeros) / (levels[j] - (zeros > 0))
            fits = levels[j] <= MOST_CODES and rows_a_code >= ROWS_A_CODE
            codes = whole[j] and wide and fits and _has_no_unit(ordered[: n[j], j])
            found.append(_Kind("codes") if codes else None)
    return found


def _has_no_unit(values: Array) -> bool:
    """Are differences of whole numbers multiples of nothing but 1? Rounded amounts are of more."""
    if np.max(np.abs(values)) > LARGEST_CODE:
        return False
    return int(np.gcd.reduce((values - values[0]).astype(np.int64))) == 1


def _group(kind: ColumnKind, members: list[tuple[int, _Kind]]) -> KindGroup:
    points = [one.points for _, one in members]
    return KindGroup(
        kind,
        tuple(j for j, _ in members),
        (min(points), max(points)) if kind in ("few_points", "binary") else None,
        tuple(j for j, one in members if one.skewed),
    )
