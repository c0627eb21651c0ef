"""User input in, ready arrays out, or an error a person can act on."""

from __future__ import annotations

import reprlib
import sys
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.data.frames import as_frame, floats_of, frame_labels, rows_of_frame
from cuspfa.data.names import column_label, text_names
from cuspfa.data.out_of_core.block import as_kind
from cuspfa.data.screening.matrix_input import refuse_matrix
from cuspfa.errors import DataError, DataTypeError, InputError

LARGEST, SMALLEST = 1e152, 1e-152
"""Outside of these the squares of values overflow or vanish."""


class Table(NamedTuple):
    """Finite real numbers in rows, and NaN for missing values where these are allowed."""

    rows: Any
    """A dense array of any real type and order, or a SciPy sparse matrix in canonical CSR form."""
    names: list[str] | None
    """Column names, if the input had any and all are text."""
    labels: list[Any] | None
    """What the input calls its columns, text or not, for messages."""
    has_missing: bool = False
    """Is there a NaN?"""
    empty: tuple[int, ...] = ()
    """Which of the given rows had no value at all and were left out, of data to be fitted."""


def check_rows(
    data: Any, names: list[str] | None = None, *, allow_missing: bool = False, fitted: bool = False
) -> Table:
    """Rows and names of anything that holds finite numbers, be it one row or constant.

    `names` are for an array, which has none of its own; `allow_missing` allows NaN; of data to
    be `fitted` rows without any value are left out.
    """
    return _read(data, names, allow_missing, fitted=fitted)[0]


def check_table(data: Any, names: list[str] | None = None, *, allow_missing: bool = False) -> Table:
    """The same for data to be fitted: two rows or more, and no column constant or empty.

    Rows without any value carry no information and are left out.
    """
    table, ranges = _read(data, names, allow_missing, fitted=True)
    n, p = table.rows.shape
    if p < 1:
        raise DataError(
            f"Found array with 0 feature(s) (shape={(n, p)}) while a minimum of 1 is required."
        )
    if n < 2:
        raise DataError(
            f"Found array with {n} sample(s) (shape={(n, p)}) while a minimum of 2 is required."
        )
    empty = np.isnan(ranges[0])
    if empty.any():
        columns = np.flatnonzero(empty)
        shown = ", ".join(column_label(int(j), table.labels) for j in columns[:5])
        more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
        has, it = ("has", "it") if len(columns) == 1 else ("have", "them")
        raise DataError(f"{shown}{more} {has} no value at all: every row is missing. Drop {it}.")
    _check_spread(*ranges, table.labels)
    return table


def column_names(data: Any) -> list[str] | None:
    """Names of a data frame's columns alone: its values are not looked at."""
    frame = as_frame(data)
    return None if frame is None else text_names(frame_labels(frame))


def check_columns(columns: Any, p: int, names: list[str] | None, label: str = "columns") -> Indices:
    """Positions of columns given by name, position, slice or mask; each may be asked for once.

    `label` is the name of the argument.
    """
    if isinstance(columns, slice):
        try:
            return np.arange(p)[columns]
        except TypeError:
            raise InputError(
                f"{label} must be a slice of positions, not of names. Got {columns!r} instead."
            ) from None
    given = _as_list(columns, label)
    if given and all(isinstance(one, (bool, np.bool_)) for one in given):
        if len(given) != p:
            raise InputError(f"{label} must be a mask of length {p}. Got length {len(given)}.")
        return np.flatnonzero(given)
    if given and all(isinstance(one, str) for one in given):
        positions = _positions_of_names(given, names, label)
    elif all(isinstance(one, Integral) and not isinstance(one, bool) for one in given):
        positions = np.array(given, dtype=np.intp)
        outside = (positions < -p) | (positions >= p)
        if outside.any():
            wrong = int(positions[outside][0])
            raise InputError(f"{label} must be between 0 and {p - 1}. Got {wrong} instead.")
        positions = positions % p
    else:
        raise InputError(
            f"{label} must be names, indices, a slice or a mask, and one kind alone. "
            f"Got {reprlib.repr(columns)} instead."
        )
    if len(np.unique(positions)) < len(positions):
        raise InputError(f"{label} must not name a column twice.")
    return np.asarray(positions)


def _as_list(columns: Any, label: str) -> list[Any]:
    """What was given as a plain list; of lists NumPy would make [1, 'a'] all text."""
    if isinstance(columns, (str, Integral)):
        return [columns]
    given = np.asarray(columns, dtype=object if isinstance(columns, (list, tuple)) else None)
    if given.ndim == 0:
        raise InputError(
            f"{label} must be a list of names or indices, a slice or a mask. "
            f"Got {reprlib.repr(columns)} instead."
        )
    if given.ndim > 1:
        raise InputError(f"{label} must be one list. Got an array of {given.ndim} dimensions.")
    return list(given.tolist())


def _positions_of_names(given: list[str], names: list[str] | None, label: str) -> Indices:
    if names is None:
        raise InputError(
            f"{label} must be indices, counted from 0: the fitted data had no column names, or "
            "names that are not text, which are not kept."
        )
    places: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        places.setdefault(name, []).append(index)
    for name in given:
        if name not in places:
            raise InputError(f"{label} must be among the fitted ones. Got {name!r} instead.")
        if len(places[name]) > 1:
            raise InputError(
                f"{label} must say which one is meant: {len(places[name])} are called {name!r}. "
                "Use indices."
            )
    return np.array([places[name][0] for name in given], dtype=np.intp)


def without_values(rows: Any) -> BoolArray:
    """(n,) rows that are NaN throughout; what a sparse matrix does not hold is zero."""
    n, p = rows.shape
    if sparse.issparse(rows):
        lacking = np.repeat(np.arange(n), np.diff(rows.indptr))[np.isnan(rows.data)]
        return np.asarray(np.bincount(lacking, minlength=n) == p)
    found = np.isnan(rows[:, 0])
    some = np.flatnonzero(found)  # hardly any, as a rule
    found[some] = np.isnan(rows[some]).all(axis=1)
    return np.asarray(found)


def _read(
    data: Any, names: list[str] | None, allow_missing: bool, *, fitted: bool = False
) -> tuple[Table, tuple[Array, Array]]:
    """The table, and the smallest and largest value of each column, NaN if it has none."""
    frame = as_frame(data)
    if frame is None:
        labels: list[Any] | None = names
        rows = (
            _rows_of_sparse(data) if sparse.issparse(data) else _rows_of_array(data, allow_missing)
        )
    else:
        labels = frame_labels(frame)
        names = text_names(labels)
        rows = rows_of_frame(frame, labels)
        rows = _rows_of_sparse(rows) if sparse.issparse(rows) else rows
    if not (rows.shape[0] and rows.shape[1]):
        nothing = np.zeros(rows.shape[1])
        return Table(rows, names, labels), (nothing, nothing)
    if fitted:
        refuse_matrix(rows)
    low, high = _column_range(rows)
    missing, empty = bool(np.isnan(low).any()), np.zeros(0, dtype=np.intp)
    if missing and fitted:
        lacking = without_values(rows)
        if lacking.any() and not lacking.all():  # of nothing at all the columns are named
            rows, empty = rows[~lacking], np.flatnonzero(lacking)
            low, high = _column_range(rows)
            missing = bool(np.isnan(low).any())
    if missing and allow_missing and not sparse.issparse(rows):
        low, high = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
        low, high = np.asarray(low, float), np.asarray(high, float)
    else:
        _check_no_missing(rows, low, labels, allowed=allow_missing)
    _check_finite(rows, low, high, labels)
    return Table(rows, names, labels, missing, tuple(empty.tolist())), (low, high)


def _rows_of_sparse(data: Any) -> Any:
    if data.ndim != 2:
        raise DataError(f"Expected 2D array, got {data.ndim}D array instead.")
    if data.dtype.kind not in "fiub":
        raise DataError(f"X has type {data.dtype}, which is not numeric. Turn it into numbers.")
    rows = data.tocsr()
    if rows is data:
        # SciPy sorts indices and adds up duplicates in place, even where it is asked for a
        # minimum: the user's matrix lends its numbers only where there is nothing to be done.
        rows = type(data)((data.data, data.indices, data.indptr), shape=data.shape)
        rows = rows if rows.has_canonical_format else rows.copy()
    rows.sum_duplicates()
    return rows.astype(np.float64, copy=False)  # float32 would be summed as such


def _rows_of_array(data: Any, allow_missing: bool) -> Any:
    if type(data).__name__ == "AnnData":
        raise DataError(
            "X must be a table. Got an AnnData object instead: use cuspfa.fit_anndata(adata), or "
            "pass adata.X or adata.to_df()."
        )
    data = unmasked_blocks(data).compute() if is_dask(data) else _with_masks(data)
    if np.ma.isMaskedArray(data):
        if np.ma.is_masked(data) and not allow_missing:
            raise DataError(
                "X must have no masked values. Got a masked array instead; drop these rows or "
                "columns, or impute the values first."
            )
        data = unmasked(data)
    try:
        raw = np.asarray(data)
    except ValueError as error:
        raise DataError(f"X must be a table with rows of equal length: {error}") from error
    if raw.ndim == 0:
        raise DataError(
            "X must be a table: a 2D array (rows are observations, columns variables), a sparse "
            f"matrix or a data frame. Got {reprlib.repr(data)} instead."
        )
    if raw.ndim != 2:
        raise DataError(
            "Expected 2D array (rows are observations, columns variables), got "
            f"{raw.ndim}D array instead. "
            "Reshape your data either using array.reshape(-1, 1) if it has a single variable or "
            "array.reshape(1, -1) if it contains a single row."
        )
    if raw.dtype.kind == "c":
        raise DataError("Complex data not supported. Pass real numbers.")
    if raw.dtype.kind in "fiub":
        longer = raw.dtype.kind == "f" and raw.dtype.itemsize > 8
        return as_kind(raw, float) if longer else raw
    if raw.dtype.kind != "O":
        raise DataError(f"X has type {raw.dtype}, which is not numeric. Turn it into numbers.")
    result = np.empty(raw.shape)
    for index in range(raw.shape[1]):
        try:
            result[:, index] = floats_of(raw[:, index])
        except (TypeError, ValueError, OverflowError) as error:
            example = next(x for x in raw[:, index] if not _is_number(x))
            kind = DataTypeError if isinstance(error, TypeError) else DataError
            raise kind(
                f"column {index} holds {example!r}, which is not a number ({error}). "
                "Drop the column, or turn it into numbers."
            ) from None
    return result


def is_dask(data: Any) -> bool:
    """Is it a dask.array or a dask.dataframe?"""
    return "dask" in sys.modules and sys.modules["dask"].is_dask_collection(data)


def unmasked(block: Any) -> Any:
    """An array as it is, NaN where one with a mask is masked."""
    if not np.ma.isMaskedArray(block):
        return block
    if np.ma.is_masked(block) and block.dtype.kind in "fiub":
        return np.ma.filled(block.astype(float), np.nan)
    if np.ma.is_masked(block) and block.dtype.kind == "O":
        return np.ma.filled(block, np.nan)
    return np.ma.getdata(block)


def unmasked_blocks(data: Any) -> Any:
    """The same for each block of a dask.array; other collections are left alone."""
    if not hasattr(data, "map_blocks") or not hasattr(data, "_meta"):
        return data
    if not np.ma.isMaskedArray(data._meta):  # some blocks may have a mask all the same
        return data.map_blocks(unmasked, dtype=data.dtype, meta=data._meta)
    kind = np.dtype(float) if data.dtype.kind in "fiub" else data.dtype
    empty = np.empty((0,) * data.ndim, dtype=kind)
    return data.map_blocks(_as_kind, kind, dtype=kind, meta=empty)


def _as_kind(block: Any, kind: Any) -> Any:
    return np.asarray(unmasked(block), dtype=kind)


def _with_masks(data: Any) -> Any:
    """A list of rows, NaN where these have a mask, or `numpy.ma.masked` among their values."""
    return [_with_mask(row) for row in data] if isinstance(data, (list, tuple)) else data


def _with_mask(row: Any) -> Any:
    if isinstance(row, (list, tuple)) and any(value is np.ma.masked for value in row):
        return [np.nan if value is np.ma.masked else value for value in row]
    return unmasked(row)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _column_range(rows: Any) -> tuple[Array, Array]:
    """Smallest and largest of each column; NaN where a column has one."""
    if sparse.issparse(rows):
        columns = rows.tocsc()
        low, high = columns.min(axis=0), columns.max(axis=0)
        return np.asarray(low.toarray(), float).ravel(), np.asarray(high.toarray(), float).ravel()
    return np.asarray(rows.min(axis=0), float), np.asarray(rows.max(axis=0), float)


def _check_no_missing(rows: Any, low: Array, labels: list[Any] | None, *, allowed: bool) -> None:
    """Refuse NaN where missing values are not allowed, or are in a sparse matrix."""
    bad = np.isnan(low)
    if not bad.any():
        return
    advice = "Drop these rows or columns, or impute the values first."
    if allowed:
        advice = "Missing values are for dense data: pass X.toarray() if that fits into memory."
    raise DataError(_what_is_wrong(rows, bad, np.isnan, "NaN", labels, advice))


def _check_finite(rows: Any, low: Array, high: Array, labels: list[Any] | None) -> None:
    bad = np.isinf(low) | np.isinf(high)
    if bad.any():
        advice = "Drop these rows or columns, or put right what made them."
        raise DataError(_what_is_wrong(rows, bad, np.isinf, "infinity", labels, advice))


def _what_is_wrong(
    rows: Any, bad: BoolArray, test: Any, what: str, labels: list[Any] | None, advice: str
) -> str:
    column = int(np.argmax(bad))
    values = rows[:, [column]].toarray() if sparse.issparse(rows) else rows[:, column]
    wrong = test(np.asarray(values, float).ravel())
    others = int(bad.sum()) - 1
    are = "NaN" if what == "NaN" else "infinite"
    more = f" ({others} more column(s) hold {what} too)" if others else ""
    return (
        f"Input X contains {what}: {column_label(column, labels)} has {int(wrong.sum())} value(s) "
        f"that are {are}, the first in row {int(np.argmax(wrong))}{more}. {advice}"
    )


def _check_spread(low: Array, high: Array, labels: list[Any] | None) -> None:
    largest = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(over="ignore"):  # the difference of values that are too large
        outside = (largest > LARGEST) | ((high > low) & (high - low < SMALLEST))
    if outside.any():
        index = int(np.argmax(outside))
        raise DataError(
            f"{column_label(index, labels)} holds values too large or too small to be squared "
            f"({low[index]:g} to {high[index]:g}). Rescale it."
        )
    constant = high - low <= 1e-12 * largest
    if constant.any():
        columns = np.flatnonzero(constant)
        shown = ", ".join(column_label(int(j), labels) for j in columns[:5])
        more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
        one = len(columns) == 1
        raise DataError(
            f"{shown}{more} {'is' if one else 'are'} constant (up to rounding error), so "
            f"{'its noise variance' if one else 'their noise variances'} cannot be estimated. "
            f"Drop {'it' if one else 'them'}."
        )
