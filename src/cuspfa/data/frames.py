"""Data frames of every library that narwhals knows: their names, and their numbers as rows."""

from __future__ import annotations

import sys
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from cuspfa._typing import Array
from cuspfa.data.names import column_label
from cuspfa.errors import DataError


def as_frame(data: Any) -> nw.DataFrame[Any] | None:
    """The data as a frame of narwhals, None if they are no frame at all."""
    if type(data).__name__ == "RecordBatch" and type(data).__module__.startswith("pyarrow"):
        data = sys.modules["pyarrow"].Table.from_batches([data])
    try:
        frame = nw.from_native(data, pass_through=True)
    except Exception as error:  # narwhals has errors of its own for frames it cannot read
        raise DataError(f"The data frame cannot be read: {error}") from error
    if isinstance(frame, nw.LazyFrame):
        raise DataError("X must be a data frame in memory. Got a lazy one: call .collect().")
    return frame if isinstance(frame, nw.DataFrame) else None


def frame_labels(frame: nw.DataFrame[Any]) -> list[Any]:
    """Names of the columns, of whatever type."""
    try:
        return list(frame.columns)
    except Exception as error:
        raise DataError(f"The data frame cannot be read: {error}") from error


def rows_of_frame(frame: nw.DataFrame[Any], labels: list[Any]) -> Any:
    """A dense array, or a sparse matrix of a frame whose columns are all sparse."""
    try:
        native, dtypes = frame.to_native(), set(frame.schema.values())
    except Exception as error:
        raise DataError(f"The data frame cannot be read: {error}") from error
    rows = _sparse_rows(native) if labels else None
    if rows is not None:
        return rows
    if labels and all(_is_number(dtype) for dtype in dtypes):
        rows = _all_at_once(frame)
        if rows is not None and rows.dtype.kind in "fiub":
            return rows
    rows = np.empty(frame.shape, order="F")
    for index, name in enumerate(labels):
        rows[:, index] = _column(frame.get_column(name), column_label(index, labels))
    return rows


def _all_at_once(frame: nw.DataFrame[Any]) -> Any:
    """The array, for thousands of columns take long one by one; None if narwhals cannot."""
    try:
        return frame.to_numpy()
    except TypeError:  # its older releases: nullable columns whose names are numbers
        return None


def _sparse_rows(native: Any) -> Any:
    """SciPy's form of a pandas frame with sparse columns; None if it is not all zeros between."""
    accessor = getattr(native, "sparse", None)
    if accessor is None or not hasattr(accessor, "to_coo"):
        return None
    try:
        return accessor.to_coo()
    except (TypeError, ValueError):  # what is left out is not zero, or is not a number
        return None


def _is_number(dtype: Any) -> bool:
    return bool(dtype.is_numeric() or dtype == nw.Boolean)


def _column(column: Any, label: str) -> Array:
    dtype, native = column.dtype, column.to_native()
    try:
        if _is_sparse(native):
            return np.asarray(native.sparse.to_dense(), dtype=float)
        if dtype == nw.Object:
            return floats_of(column.to_numpy())
        if _is_number(dtype):
            return np.asarray(column.cast(nw.Float64).to_numpy())
        own = getattr(native, "dtype", None)  # bytes in another order, or of another length
        if isinstance(own, np.dtype) and own.kind in "fiub":
            return np.asarray(native, dtype=float)
    except (TypeError, ValueError, OverflowError):
        pass
    if dtype == nw.Unknown:  # narwhals has no word for it, its own library has
        dtype = native.dtype if hasattr(native, "dtype") else getattr(native, "type", dtype)
    raise DataError(
        f"{label} has type {dtype}, which is not numeric. Drop it, or turn it into numbers."
    )


def floats_of(objects: Any) -> Array:
    """Objects as numbers; `numpy.ma.masked` is NaN, of which NumPy would warn."""
    masked = np.array([value is np.ma.masked for value in objects], dtype=bool)
    return np.asarray(np.where(masked, np.nan, objects).astype(float))


def _is_sparse(native: Any) -> bool:
    return hasattr(getattr(native, "sparse", None), "to_dense")
