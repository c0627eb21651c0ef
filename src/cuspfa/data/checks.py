"""User input in, ready arrays out, or an error a person can act on."""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np
from scipy import sparse

from cuspfa._types import Array, Indices
from cuspfa.errors import DataError, DataTypeError

LARGEST, SMALLEST = 1e152, 1e-152
"""Outside of these the squares of values overflow or vanish."""


class Table(NamedTuple):
    """Finite real numbers in rows, none of whose columns is constant."""

    rows: Any
    """A dense array of any real type and order, or a SciPy sparse matrix."""
    names: list[str] | None
    """Column names, if the input had any."""


def check_rows(data: Any, names: list[str] | None = None) -> Table:
    """Rows and names of anything that holds finite numbers, be it one row or constant.

    `names` are for an array, which has none of its own.
    """
    frame = _as_frame(data)
    rows, names = _rows_of_frame(frame) if frame is not None else (_rows_of_array(data), names)
    if rows.shape[0] and rows.shape[1]:
        low, high = _column_range(rows)
        _check_finite(rows, low, high, names)
    return Table(rows, names)


def check_table(data: Any, names: list[str] | None = None) -> Table:
    """Accept arrays, nested sequences, sparse matrices and data frames; refuse the rest."""
    rows, names = check_rows(data, names)
    n, p = rows.shape
    if p < 1:
        raise DataError(
            f"Found array with 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required."
        )
    if n < 2:
        raise DataError(
            f"Found array with {n} sample(s) (shape={rows.shape}) while a minimum of 2 is required."
        )
    _check_spread(*_column_range(rows), names)
    return Table(rows, names)


def column_label(index: int, names: list[str] | None) -> str:
    """How a column is called in messages."""
    return f"column {index}" if names is None else f"column {names[index]!r} (index {index})"


def check_columns(columns: Any, p: int, names: list[str] | None) -> Indices:
    """Indices of columns given by name, index, slice or mask; each may be asked for once."""
    if isinstance(columns, slice):
        return np.arange(p)[columns]
    given = np.atleast_1d(np.asarray(columns))
    if given.ndim != 1:
        raise DataError(f"columns must be one list. Got an array of {given.ndim} dimensions.")
    if given.dtype == bool:
        if len(given) != p:
            raise DataError(f"columns must be a mask of length {p}. Got length {len(given)}.")
        return np.flatnonzero(given)
    if given.dtype.kind in "UOT":
        if names is None:
            raise DataError("columns must be indices, for the fitted data had no column names.")
        place = {name: index for index, name in enumerate(names)}
        missing = [name for name in given.tolist() if name not in place]
        if missing:
            raise DataError(f"columns must be among the fitted ones. Got {missing[0]!r} instead.")
        indices = np.array([place[name] for name in given.tolist()], dtype=np.intp)
    elif given.dtype.kind in "iu" or given.size == 0:
        indices = given.astype(np.intp)
        outside = (indices < -p) | (indices >= p)
        if outside.any():
            wrong = int(indices[outside][0])
            raise DataError(f"columns must be between 0 and {p - 1}. Got {wrong} instead.")
        indices = indices % p
    else:
        raise DataError(f"columns must be names, indices, a slice or a mask. Got {columns!r}.")
    if len(np.unique(indices)) < len(indices):
        raise DataError("columns must not name a column twice.")
    return np.asarray(indices)


FEW = 0.01
"""A column in which no more than this part of the rows, or one row, differs from the rest..."""
LOOK = 101
"""... as seen from so many rows first, so that columns that vary cost next to nothing."""
MEMBERS = 20
"""Below so many rows nothing is called nearly constant."""


def nearly_constant(table: Table) -> str | None:
    """A warning that names columns in which hardly a row differs from the others, if there are."""
    rows, names = table
    n = rows.shape[0]
    if n < MEMBERS:
        return None
    few = max(1, int(FEW * n))
    found = []
    if sparse.issparse(rows):
        varied = np.asarray((rows != 0).sum(axis=0)).ravel()
        found = np.flatnonzero(varied <= few).tolist()
    else:
        look = np.asarray(rows[np.linspace(0, n - 1, min(n, LOOK)).astype(int)], dtype=float)
        common = np.median(look, axis=0)
        suspects = np.flatnonzero(np.sum(look != common, axis=0) <= max(2, 4 * FEW * len(look)))
        found = [int(j) for j in suspects if np.sum(rows[:, j] != common[j]) <= few]
    if not found:
        return None
    labels = ", ".join(column_label(j, names) for j in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return (
        f"{labels}{more} {'is' if len(found) == 1 else 'are'} nearly constant: at most {few} of "
        f"{n} rows differ from the others. Such columns say little of any factor but may make one "
        "of their own. Drop them, or expect that."
    )


def _as_frame(data: Any) -> nw.DataFrame[Any] | None:
    try:
        frame = nw.from_native(data, pass_through=True)
    except Exception as error:  # narwhals has errors of its own for frames it cannot read
        raise DataError(f"The data frame cannot be read: {error}") from error
    if isinstance(frame, nw.LazyFrame):
        raise DataError("X must be a data frame in memory. Got a lazy one: call .collect().")
    return frame if isinstance(frame, nw.DataFrame) else None


def _rows_of_frame(frame: nw.DataFrame[Any]) -> tuple[Array, list[str]]:
    try:
        columns = list(frame.iter_columns())
        names = [str(column.name) for column in columns]
    except Exception as error:
        raise DataError(f"The data frame cannot be read: {error}") from error
    rows = np.empty((frame.shape[0], len(columns)), order="F")
    for index, column in enumerate(columns):
        dtype = column.dtype
        try:
            if dtype == nw.Object:
                rows[:, index] = column.to_numpy().astype(float)
            elif dtype.is_numeric() or dtype == nw.Boolean:
                rows[:, index] = column.cast(nw.Float64).to_numpy()
            else:
                raise TypeError
        except (TypeError, ValueError):
            raise DataError(
                f"column {names[index]!r} (index {index}) has type {dtype}, which is not numeric. "
                "Drop it, or turn it into numbers."
            ) from None
    return rows, names


def _rows_of_array(data: Any) -> Any:
    if sparse.issparse(data):
        if data.ndim != 2:
            raise DataError(f"Expected 2D array, got {data.ndim}D array instead.")
        if data.dtype.kind not in "fiub":
            raise DataError(f"X has type {data.dtype}, which is not numeric. Turn it into numbers.")
        return data.tocsr().astype(np.float64, copy=False)  # float32 would be summed as such
    if np.ma.isMaskedArray(data):
        if np.ma.is_masked(data):
            raise DataError(
                "X must have no masked values. Got a masked array instead; drop these rows or "
                "columns, or impute the values first."
            )
        data = np.ma.getdata(data)
    try:
        raw = np.asarray(data)
    except ValueError as error:
        raise DataError(f"X must be a table with rows of equal length: {error}") from error
    if raw.ndim != 2:
        what = f"{raw.ndim}D array" if raw.ndim else repr(data)
        raise DataError(
            f"Expected 2D array (rows are observations, columns variables), got {what} instead. "
            "Reshape your data either using array.reshape(-1, 1) if it has a single variable or "
            "array.reshape(1, -1) if it contains a single row."
        )
    if raw.dtype.kind == "c":
        raise DataError("Complex data not supported. Pass real numbers.")
    if raw.dtype.kind in "fiub":
        return raw
    if raw.dtype.kind != "O":
        raise DataError(f"X has type {raw.dtype}, which is not numeric. Turn it into numbers.")
    result = np.empty(raw.shape)
    for index in range(raw.shape[1]):
        try:
            result[:, index] = raw[:, index].astype(float)
        except (TypeError, ValueError, OverflowError) as error:
            example = next(x for x in raw[:, index] if not _is_number(x))
            kind = DataTypeError if isinstance(error, TypeError) else DataError
            raise kind(
                f"column {index} holds {example!r}, which is not a number ({error}). "
                "Drop the column, or turn it into numbers."
            ) from None
    return result


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _column_range(rows: Any) -> tuple[Array, Array]:
    """Smallest and largest of each column; NaN where a column has one."""
    if sparse.issparse(rows):
        low, high = (np.asarray(m.toarray(), float).ravel() for m in (rows.min(0), rows.max(0)))
        return low, high
    return np.asarray(rows.min(axis=0), float), np.asarray(rows.max(axis=0), float)


def _check_finite(rows: Any, low: Array, high: Array, names: list[str] | None) -> None:
    bad = ~(np.isfinite(low) & np.isfinite(high))
    if not bad.any():
        return
    column = int(np.argmax(bad))
    values = rows[:, [column]].toarray() if sparse.issparse(rows) else rows[:, column]
    values = np.asarray(values, float).ravel()
    wrong = ~np.isfinite(values)
    row, others = int(np.argmax(wrong)), int(bad.sum()) - 1
    what = "NaN" if np.isnan(values[row]) else "infinity"
    more = f" ({others} more column(s) hold NaN or infinity too)" if others else ""
    raise DataError(
        f"Input X contains {what}: {column_label(column, names)} has {int(wrong.sum())} value(s) "
        f"that are NaN or infinite, the first in row {row}{more}. Drop these rows or columns, or "
        "impute the values first."
    )


def _check_spread(low: Array, high: Array, names: list[str] | None) -> None:
    largest = np.maximum(np.abs(low), np.abs(high))
    outside = (largest > LARGEST) | ((high > low) & (high - low < SMALLEST))
    if outside.any():
        index = int(np.argmax(outside))
        raise DataError(
            f"{column_label(index, names)} holds values too large or too small to be squared "
            f"({low[index]:g} to {high[index]:g}). Rescale it."
        )
    constant = high - low <= 1e-12 * largest
    if constant.any():
        columns = np.flatnonzero(constant)
        labels = ", ".join(column_label(int(j), names) for j in columns[:5])
        more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
        one = len(columns) == 1
        raise DataError(
            f"{labels}{more} {'is' if one else 'are'} constant (up to rounding error), so "
            f"{'its noise variance' if one else 'their noise variances'} cannot be estimated. "
            f"Drop {'it' if one else 'them'}."
        )
