"""Offsets of the log rates of counts: from a column, from row totals, or given as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.wording import listed
from cuspfa.data.cells import PreparedCells
from cuspfa.data.screening.column_kinds import column_kinds
from cuspfa.data.validate import CheckedRows
from cuspfa.errors import DataError, InputError
from cuspfa.model.likelihoods.kinds import GIVEN_OFFSET, LIBRARY_SIZE

WIDEST_OFFSETS = 40.0
"""Between the smallest and the largest offset; rates then differ by a factor of e to this power."""
ROWS_NAMED = 5
NAMES_SHOWN = 8
ON_LOG_SCALE = (
    "Offsets are added to log rates: for an exposure, such as an area, pass its logarithm"
)


def check_offset(offset: Any, n: int, *, name: str = "offset") -> Array:
    """(n,) finite numbers, or an InputError; a single number is that of every row."""
    try:
        array = np.asarray(offset, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers. Got {offset!r} instead.") from None
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (n,):
        raise InputError(
            f"{name} must have one number for each of the {n} rows. Got shape {array.shape} "
            "instead."
        )
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise InputError(
            f"{name} must be finite. Got {array[bad[0]]:g} in row {bad[0]} instead. {ON_LOG_SCALE},"
            " and leave out rows without exposure."
        )
    if n and np.ptp(array) > WIDEST_OFFSETS:
        raise InputError(
            f"{name} must span at most {WIDEST_OFFSETS:g}. Got numbers from {array.min():g} to "
            f"{array.max():g} instead. {ON_LOG_SCALE}."
        )
    return array


def offsets_of_new_rows(
    table: CheckedRows, rule: str | None, offset: Any, counts: BoolArray
) -> CheckedRows:
    """New rows with the offsets of their log rates.

    `rule` is the offset of the fit: None, "library_size", "given" or the name of a column, which is
    taken out of the rows where they have it.
    """
    names, n = table.names, len(table.rows)
    if rule is not None and rule not in (LIBRARY_SIZE, GIVEN_OFFSET) and rule in (names or []):
        assert names is not None
        at = names.index(rule)
        kept = np.delete(np.arange(len(names)), at)
        own = np.asarray(table.rows[:, at], dtype=float)
        table = table._replace(
            rows=np.asarray(table.rows)[:, kept],
            names=[names[j] for j in kept],
            offset_column=at,
        )
        if offset is None:
            return table._replace(offset=check_offset(own, n, name=f"offset ({rule})"))
    if offset is not None:
        return table._replace(offset=check_offset(offset, n))
    if rule is None:
        return table._replace(offset=np.zeros(n))
    if rule == LIBRARY_SIZE:
        return table._replace(offset=library_sizes(np.asarray(table.rows, dtype=float), counts))
    what = "numbers" if rule == GIVEN_OFFSET else f"the column {rule}"
    raise InputError(
        f"offset must be given: the fit had {what} as offsets of its rows. Pass offset=, one "
        "number for each row, or one for all."
    )


def library_sizes(rows: Array, counts: BoolArray) -> Array:
    """(n,) logarithms of the sums of the counts of each row, `counts` (p,) being their columns."""
    own = rows[:, counts]
    missing = np.flatnonzero(np.isnan(own).any(axis=1))
    if len(missing):
        raise DataError(
            f"offset='{LIBRARY_SIZE}' needs all counts of a row. Counts are missing in "
            f"{_rows(missing)}; pass offset= as numbers, or leave these rows out."
        )
    totals = own.sum(axis=1)
    empty = np.flatnonzero(totals <= 0)
    if len(empty):
        raise DataError(
            f"offset='{LIBRARY_SIZE}' needs a count above zero in every row. There is none in "
            f"{_rows(empty)}; leave these rows out, or pass offset= as numbers."
        )
    return np.asarray(np.log(totals))


def _rows(places: Any) -> str:
    noun = "row" if len(places) == 1 else "rows"
    return f"{noun} {listed([str(int(one)) for one in places], ROWS_NAMED)}"


def without_offset(prepared: PreparedCells, name: str) -> tuple[PreparedCells, Array]:
    """Prepared rows without the column of offsets, and its numbers."""
    names = prepared.names
    if names is None or name not in names:
        known = "have none" if names is None else f"are {listed(names, NAMES_SHOWN)}"
        raise InputError(
            f"offset must be None, '{LIBRARY_SIZE}' or the name of a column. Got {name!r} instead; "
            f"the names {known}. Numbers are passed to fit as offset=."
        )
    at = names.index(name)
    kept = np.delete(np.arange(len(names)), at)
    offset = check_offset(prepared.rows[:, at], len(prepared.rows), name=f"offset ({name})")
    rows = np.ascontiguousarray(prepared.rows[:, kept])
    labels = prepared.labels
    return (
        prepared._replace(
            rows=rows,
            names=[names[j] for j in kept],
            labels=None if labels is None else [labels[j] for j in kept],
            categories={key: own for key, own in prepared.categories.items() if key != name},
            kinds=column_kinds(rows),
        ),
        offset,
    )
