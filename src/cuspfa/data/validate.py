"""From user input to checked arrays, or an error that says what to do."""

from __future__ import annotations

import reprlib
import sys
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.wording import counted, listed
from cuspfa.data.frames import as_frame, floats_of, frame_labels, rows_of_frame
from cuspfa.data.names import NAMES_IN_MESSAGE, column_label, text_names
from cuspfa.data.out_of_core.block import as_kind
from cuspfa.data.screening.matrix_input import refuse_matrix
from cuspfa.errors import DataError, DataTypeError

MATRIX_ROUNDING = 1e-6
"""Part of its largest entry by which a matrix may differ from a symmetric one; difference of a
correlation from 1."""
LARGEST_SQUARABLE, SMALLEST_SQUARABLE = 1e152, 1e-152
"""Limits beyond which squares of values overflow or vanish."""


class CheckedRows(NamedTuple):
    """Rows of finite real numbers, with NaN for missing values where they are allowed."""

    rows: Any
    """A dense array of any real type and order, or a SciPy sparse matrix in canonical CSR form."""
    names: list[str] | None
    """Column names, if the input has any and all are text."""
    labels: list[Any] | None
    """Column labels of any type, for messages."""
    has_missing: bool = False
    """Are values missing?"""
    empty: tuple[int, ...] = ()
    """Positions of rows without any value, which are left out of data to be fitted."""
    offset: Array | None = None
    """(n,) of the log rates of counts; None without counts."""
    offset_column: int | None = None
    """Where the data have a column of offsets, which `rows` have not."""


def check_rows(data: Any, *, allow_missing: bool = False, fitted: bool = False) -> CheckedRows:
    """Rows and names of any table of finite numbers; one row or constant columns are accepted.

    `allow_missing` accepts NaN. If the data are `fitted`, rows without any value are left out.
    """
    return _read_rows(data, None, allow_missing, fitted=fitted)[0]


def check_table(
    data: Any, names: list[str] | None = None, *, allow_missing: bool = False
) -> CheckedRows:
    """Rows and names of data to be fitted: at least two rows, and no constant or empty column.

    Rows without any value carry no information and are left out. `names` are for an array, which
    has none of its own.
    """
    table, ranges = _read_rows(data, names, allow_missing, fitted=True)
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
        shown = listed([column_label(int(j), table.labels) for j in columns], NAMES_IN_MESSAGE)
        has, it = ("has", "it") if len(columns) == 1 else ("have", "them")
        raise DataError(f"{shown} {has} no value at all: every row is missing. Drop {it}.")
    _check_spread(*ranges, table.labels)
    return table


def column_names(data: Any) -> list[str] | None:
    """Column names of a data frame; its values are not checked."""
    frame = as_frame(data)
    return None if frame is None else text_names(frame_labels(frame))


def dense_rows(rows: Any) -> Array:
    """Checked rows, sparse or not, as a dense array of float64."""
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=float)


def without_values(rows: Any) -> BoolArray:
    """(n,) rows in which all values are NaN."""
    n, p = rows.shape
    if sparse.issparse(rows):
        lacking = np.repeat(np.arange(n), np.diff(rows.indptr))[np.isnan(rows.data)]
        return np.asarray(np.bincount(lacking, minlength=n) == p)
    found = np.isnan(rows[:, 0])
    some = np.flatnonzero(found)  # few, as a rule
    found[some] = np.isnan(rows[some]).all(axis=1)
    return np.asarray(found)


def _read_rows(
    data: Any, names: list[str] | None, allow_missing: bool, *, fitted: bool = False
) -> tuple[CheckedRows, tuple[Array, Array]]:
    """The table, and the smallest and largest value of each column, NaN if it has no value."""
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
        return CheckedRows(rows, names, labels), (nothing, nothing)
    if fitted:
        refuse_matrix(rows)
    low, high = _column_range(rows)
    missing, empty = bool(np.isnan(low).any()), np.zeros(0, dtype=np.intp)
    if missing and fitted:
        lacking = without_values(rows)
        if lacking.any() and not lacking.all():  # if all are empty, the error names columns
            rows, empty = rows[~lacking], np.flatnonzero(lacking)
            low, high = _column_range(rows)
            missing = bool(np.isnan(low).any())
    if missing and allow_missing and not sparse.issparse(rows):
        low, high = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
        low, high = np.asarray(low, float), np.asarray(high, float)
    else:
        _check_no_missing(rows, low, labels, allowed=allow_missing)
    _check_finite(rows, low, high, labels)
    return CheckedRows(rows, names, labels, missing, tuple(empty.tolist())), (low, high)


def _rows_of_sparse(data: Any) -> Any:
    if data.ndim != 2:
        raise DataError(f"Expected 2D array, got {data.ndim}D array instead.")
    if data.dtype.kind not in "fiub":
        raise DataError(f"X has type {data.dtype}, which is not numeric. Turn it into numbers.")
    rows = data.tocsr()
    if rows is data:
        # SciPy sorts indices and adds up duplicates in place, even in `min`. So the user's arrays
        # are shared only if there is nothing to sort or add up.
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
            example = next(x for x in raw[:, index] if not _is_float(x))
            kind = DataTypeError if isinstance(error, TypeError) else DataError
            raise kind(
                f"column {index} holds {example!r}, which is not a number ({error}). "
                "Drop the column, or turn it into numbers."
            ) from None
    return result


def symmetric(name: str, matrix: Array) -> Array:
    """A square matrix, exactly symmetric if it is so up to rounding; otherwise a DataError."""
    if np.any(np.abs(matrix - matrix.T) > MATRIX_ROUNDING * np.abs(matrix).max()):
        raise DataError(f"{name} must be symmetric. Got a matrix that is not.")
    return np.asarray((matrix + matrix.T) / 2)


def check_correlations(name: str, matrix: Array, advice: str) -> None:
    """Refuse a diagonal that is not 1, and entries that are no correlations."""
    off = np.abs(np.diag(matrix) - 1.0)
    if np.any(off > MATRIX_ROUNDING):
        j = int(np.argmax(off))
        raise DataError(
            f"{name} must have a unit diagonal. Got {matrix[j, j]:g} at index {j} instead; {advice}"
        )
    if np.any(np.abs(matrix) > 1 + MATRIX_ROUNDING):
        raise DataError(f"{name} must have entries between -1 and 1.")


def is_dask(data: Any) -> bool:
    """Is it a Dask collection?"""
    return "dask" in sys.modules and sys.modules["dask"].is_dask_collection(data)


def unmasked(block: Any) -> Any:
    """An array with NaN for masked values."""
    if not np.ma.isMaskedArray(block):
        return block
    if np.ma.is_masked(block) and block.dtype.kind in "fiub":
        return np.ma.filled(block.astype(float), np.nan)
    if np.ma.is_masked(block) and block.dtype.kind == "O":
        return np.ma.filled(block, np.nan)
    return np.ma.getdata(block)


def unmasked_blocks(data: Any) -> Any:
    """A dask.array with NaN for masked values in each block; other collections as they are."""
    if not hasattr(data, "map_blocks") or not hasattr(data, "_meta"):
        return data
    if not np.ma.isMaskedArray(data._meta):  # single blocks may still be masked arrays
        return data.map_blocks(unmasked, dtype=data.dtype, meta=data._meta)
    kind = np.dtype(float) if data.dtype.kind in "fiub" else data.dtype
    empty = np.empty((0,) * data.ndim, dtype=kind)
    return data.map_blocks(_as_kind, kind, dtype=kind, meta=empty)


def _as_kind(block: Any, kind: Any) -> Any:
    return np.asarray(unmasked(block), dtype=kind)


def _with_masks(data: Any) -> Any:
    """A list of rows with NaN for masked values."""
    return [_with_mask(row) for row in data] if isinstance(data, (list, tuple)) else data


def _with_mask(row: Any) -> Any:
    if isinstance(row, (list, tuple)) and any(value is np.ma.masked for value in row):
        return [np.nan if value is np.ma.masked else value for value in row]
    return unmasked(row)


def _is_float(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _column_range(rows: Any) -> tuple[Array, Array]:
    """Smallest and largest value of each column; NaN if a value of it is NaN."""
    if sparse.issparse(rows):
        columns = rows.tocsc()
        low, high = columns.min(axis=0), columns.max(axis=0)
        return np.asarray(low.toarray(), float).ravel(), np.asarray(high.toarray(), float).ravel()
    return np.asarray(rows.min(axis=0), float), np.asarray(rows.max(axis=0), float)


def _check_no_missing(rows: Any, low: Array, labels: list[Any] | None, *, allowed: bool) -> None:
    """Refuse NaN where missing values are not allowed, or in a sparse matrix."""
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
        advice = "Drop these rows or columns, or correct the values."
        raise DataError(_what_is_wrong(rows, bad, np.isinf, "infinity", labels, advice))


def _what_is_wrong(
    rows: Any, bad: BoolArray, test: Any, what: str, labels: list[Any] | None, advice: str
) -> str:
    column = int(np.argmax(bad))
    values = rows[:, [column]].toarray() if sparse.issparse(rows) else rows[:, column]
    wrong = test(np.asarray(values, float).ravel())
    others = int(bad.sum()) - 1
    kind = "NaN" if what == "NaN" else "infinite"
    more = f" ({counted(others, 'more column')} with {what})" if others else ""
    number = int(wrong.sum())
    verb = "is" if number == 1 else "are"
    return (
        f"Input X contains {what}: {column_label(column, labels)} has {counted(number, 'value')} "
        f"that {verb} {kind}, the first in row {int(np.argmax(wrong))}{more}. {advice}"
    )


def _check_spread(low: Array, high: Array, labels: list[Any] | None) -> None:
    largest = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(over="ignore"):  # differences of very large values
        outside = (largest > LARGEST_SQUARABLE) | ((high > low) & (high - low < SMALLEST_SQUARABLE))
    if outside.any():
        index = int(np.argmax(outside))
        raise DataError(
            f"{column_label(index, labels)} holds values too large or too small to be squared "
            f"({low[index]:g} to {high[index]:g}). Rescale it."
        )
    constant = high - low <= 1e-12 * largest
    if constant.any():
        columns = np.flatnonzero(constant)
        shown = listed([column_label(int(j), labels) for j in columns], NAMES_IN_MESSAGE)
        one = len(columns) == 1
        raise DataError(
            f"{shown} {'is' if one else 'are'} constant (up to rounding error), so "
            f"{'its noise variance' if one else 'their noise variances'} cannot be estimated. "
            f"Drop {'it' if one else 'them'}."
        )
