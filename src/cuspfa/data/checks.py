"""User input in, ready arrays out, or an error a person can act on."""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from cuspfa._types import Array
from cuspfa.errors import DataError


class Table(NamedTuple):
    """A finite float table, none of whose columns is constant."""

    rows: Array
    names: list[str] | None
    """Column names, if the input had any."""


def check_table(data: Any) -> Table:
    """Accept arrays, nested sequences and data frames; refuse what cannot be analysed."""
    frame = nw.from_native(data, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        names: list[str] | None = [str(name) for name in frame.columns]
        rows = _rows_of_frame(frame)
    else:
        names, rows = None, _rows_of_array(data)
    _check_shape(rows)
    _check_finite(rows, names)
    _check_constant(rows, names)
    return Table(rows, names)


def column_label(index: int, names: list[str] | None) -> str:
    """How a column is called in messages."""
    return f"column {index}" if names is None else f"column {names[index]!r} (index {index})"


def _rows_of_frame(frame: nw.DataFrame[Any]) -> Array:
    for index, (name, dtype) in enumerate(frame.schema.items()):
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise DataError(
                f"column {name!r} (index {index}) has type {dtype}, which is not numeric. "
                "Drop it, or turn it into numbers."
            )
    columns = [frame[name].cast(nw.Float64).to_numpy() for name in frame.columns]
    if not columns:
        return np.empty((frame.shape[0], 0))
    return np.column_stack(columns).astype(float, copy=False)


def _rows_of_array(data: Any) -> Array:
    if hasattr(data, "tocsr"):
        raise DataError("X must be a dense array. Got a sparse one instead; use X.toarray().")
    raw = np.asarray(data)
    if raw.ndim != 2:
        raise DataError(
            f"Expected 2D array (rows are observations, columns variables), got {raw.ndim}D array "
            "instead. Reshape your data, e.g. X.reshape(-1, 1) for one variable."
        )
    if raw.dtype.kind == "c":
        raise DataError("Complex data not supported. Pass real numbers.")
    if raw.dtype.kind in "fiub":
        return raw.astype(float)
    result = np.empty(raw.shape)
    for index in range(raw.shape[1]):
        try:
            result[:, index] = raw[:, index].astype(float)
        except (TypeError, ValueError):
            example = next(x for x in raw[:, index] if not _is_number(x))
            raise DataError(
                f"column {index} holds {example!r}, which is not a number. "
                "Drop the column, or turn it into numbers."
            ) from None
    return result


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _check_shape(rows: Array) -> None:
    n, p = rows.shape
    if p < 1:
        raise DataError(
            f"Found array with 0 feature(s) (shape={rows.shape}); at least 1 is needed."
        )
    if n < 2:
        raise DataError(
            f"Found array with {n} sample(s) (shape={rows.shape}) while a minimum of 2 is required."
        )


def _check_finite(rows: Array, names: list[str] | None) -> None:
    bad = ~np.isfinite(rows)
    if not bad.any():
        return
    per_column = bad.sum(axis=0)
    column = int(np.argmax(per_column > 0))
    row = int(np.argmax(bad[:, column]))
    what = "NaN" if np.isnan(rows[row, column]) else "infinity"
    others = int((per_column > 0).sum()) - 1
    more = f" ({others} more column(s) hold NaN or infinity too)" if others else ""
    raise DataError(
        f"Input X contains {what}: {column_label(column, names)} has {per_column[column]} value(s) "
        f"that are NaN or infinite, the first in row {row}{more}. Drop these rows or columns, or "
        "impute the values first."
    )


def _check_constant(rows: Array, names: list[str] | None) -> None:
    constant = rows.max(axis=0) == rows.min(axis=0)
    if constant.any():
        columns = np.flatnonzero(constant)
        labels = ", ".join(column_label(int(j), names) for j in columns[:5])
        more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
        raise DataError(
            f"{labels}{more} is constant, so it says nothing about factors and its noise variance "
            "cannot be estimated. Drop it."
        )
