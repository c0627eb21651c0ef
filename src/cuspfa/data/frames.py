"""Data frames of any library that narwhals supports: their names, and their values as rows."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from cuspfa._typing import Array
from cuspfa.data.names import column_label
from cuspfa.errors import DataError


def as_frame(data: Any) -> nw.DataFrame[Any] | None:
    """The data as a narwhals frame; None if they are not a data frame."""
    if type(data).__name__ == "RecordBatch" and type(data).__module__.startswith("pyarrow"):
        data = sys.modules["pyarrow"].Table.from_batches([data])
    try:
        frame = nw.from_native(data, pass_through=True)
    except Exception as error:  # narwhals has errors of its own for frames it cannot read
        raise _unreadable(data, error) from error
    if isinstance(frame, nw.LazyFrame):
        raise DataError("X must be a data frame in memory. Got a lazy one: call .collect().")
    return frame if isinstance(frame, nw.DataFrame) else None


def _unreadable(native: Any, error: Exception) -> DataError:
    """The error for a frame of which narwhals reads nothing; names that repeat are told first."""
    # pyarrow has names of columns, and `columns` are their values.
    labels: Any = getattr(native, "column_names", getattr(native, "columns", ()))
    (name, times), *_ = [*Counter(list(labels)).most_common(1), ("", 0)]
    if times > 1:
        return DataError(
            f"The names of the columns must be different. Got {name!r} {times} times: rename the "
            "columns."
        )
    return DataError(f"The data frame cannot be read: {error}")


def frame_labels(frame: nw.DataFrame[Any]) -> list[Any]:
    """Names of the columns, of whatever type."""
    try:
        return list(frame.columns)
    except Exception as error:
        raise _unreadable(nw.to_native(frame), error) from error


def rows_of_frame(frame: nw.DataFrame[Any], labels: list[Any]) -> Any:
    """A dense array, or a sparse matrix if all columns are sparse."""
    try:
        native, dtypes = frame.to_native(), set(frame.schema.values())
    except Exception as error:
        raise _unreadable(nw.to_native(frame), error) from error
    rows = _sparse_rows(native) if labels else None
    if rows is not None:
        return rows
    if labels and all(_is_number_type(dtype) for dtype in dtypes):
        rows = _all_at_once(frame)
        if rows is not None and rows.dtype.kind in "fiub":
            return rows
    rows = np.empty(frame.shape, order="F")
    for index, name in enumerate(labels):
        rows[:, index] = _column_values(frame.get_column(name), column_label(index, labels))
    return rows


def _all_at_once(frame: nw.DataFrame[Any]) -> Any:
    """The whole frame as an array, which is faster than column by column; None if that fails."""
    try:
        return frame.to_numpy()
    except TypeError:  # its older releases: nullable columns whose names are numbers
        return None


def _sparse_rows(native: Any) -> Any:
    """A SciPy matrix of a pandas frame with sparse columns; None if its fill value is not zero."""
    accessor = getattr(native, "sparse", None)
    if accessor is None or not hasattr(accessor, "to_coo"):
        return None
    try:
        return accessor.to_coo()
    except (TypeError, ValueError):  # the fill value is not zero, or values are not numbers
        return None


def _is_number_type(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or dtype == nw.Boolean)


def _column_values(column: Any, label: str) -> Array:
    dtype, native = column.dtype, column.to_native()
    try:
        if _is_sparse(native):
            return np.asarray(native.sparse.to_dense(), dtype=float)
        if dtype == nw.Object:
            return floats_of(column.to_numpy())
        if _is_number_type(dtype):
            return np.asarray(column.cast(nw.Float64).to_numpy())
        own = getattr(native, "dtype", None)  # bytes in another order, or of another length
        if isinstance(own, np.dtype) and own.kind in "fiub":
            return np.asarray(native, dtype=float)
    except (TypeError, ValueError, OverflowError):
        pass
    if dtype == nw.Unknown:  # the library itself can name the type
        dtype = native.dtype if hasattr(native, "dtype") else getattr(native, "type", dtype)
    advice = "Drop it, or turn it into numbers."
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        advice = (
            "Drop it, turn it into numbers, or, where its values have an order, into ordered "
            "categories with likelihood='ordinal'."
        )
    raise DataError(f"{label} has type {dtype}, which is not numeric. {advice}")


def floats_of(objects: Any) -> Array:
    """Objects as numbers, NaN for `numpy.ma.masked`."""
    masked = np.array([value is np.ma.masked for value in objects], dtype=bool)
    return np.asarray(np.where(masked, np.nan, objects).astype(float))


def _is_sparse(native: Any) -> bool:
    return hasattr(getattr(native, "sparse", None), "to_dense")
