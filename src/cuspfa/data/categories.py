"""Ordered categories of data frames as numbers, with their labels."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import is_number
from cuspfa._utils.wording import listed
from cuspfa.data.frames import as_frame, frame_labels
from cuspfa.errors import DataError

NAMED_CATEGORIES = 6
"""Categories that a message lists."""
Categories = tuple[str, ...]
"""Labels of the categories 0, 1, … of a column, in order."""


class Coded(NamedTuple):
    """A data frame with numbers in place of categories."""

    data: Any
    labels: dict[str, Categories]
    """Of the columns that had categories with text."""


def with_numbers(data: Any, known: Mapping[str, Categories] | None = None) -> Coded:
    """The data, with ordered categories numbered from 0 on; other data as they are.

    Categories that are numbers in order stay these numbers. `known` are the categories of the fit,
    in the order of which new rows are numbered.
    """
    frame = as_frame(data)
    if frame is None:
        return Coded(data, {})
    labels: dict[str, Categories] = {}
    columns: dict[str, Array] = {}
    for name in frame_labels(frame):
        column = frame.get_column(name)
        if column.dtype not in (nw.Categorical, nw.Enum):
            continue
        values, found = _numbers(column, str(name), (known or {}).get(str(name)))
        columns[name] = values
        if found:
            labels[str(name)] = found
    if not columns:
        return Coded(data, {})
    space = nw.get_native_namespace(frame)
    new = [
        nw.new_series(str(name), values, native_namespace=space) for name, values in columns.items()
    ]
    native = frame.to_native()
    if hasattr(native, "index"):  # pandas aligns rows by their index
        return Coded(native.assign(**{str(n): v for n, v in columns.items()}), labels)
    return Coded(frame.with_columns(*new).to_native(), labels)


def _numbers(column: Any, name: str, known: Categories | None) -> tuple[Array, Categories]:
    """Values as numbers, NaN where missing, and labels of the categories."""
    native = column.to_native()
    accessor = getattr(native, "cat", None)
    ordered = getattr(accessor, "ordered", None)
    own = column.cat.get_categories().to_list()
    values = np.array(column.to_list(), dtype=object)
    missing = np.array([value is None or value != value for value in values], dtype=bool)
    if ordered is False and len(own) > 2:
        raise DataError(
            f"{name} has categories without an order: {listed([str(one) for one in own], 6)}. Give "
            "them one, by pandas.CategoricalDtype(categories, ordered=True), or drop the column."
        )
    if known is None and all(is_number(one) for one in own) and list(own) == sorted(own):
        return np.where(missing, np.nan, values).astype(float), ()
    order = tuple(str(one) for one in own) if known is None else known
    places = {label: float(place) for place, label in enumerate(order)}
    found = np.full(len(values), np.nan)
    for at in np.flatnonzero(~missing):
        label = str(values[at])
        if label not in places:
            raise unseen_category(name, label, order)
        found[at] = places[label]
    return found, order


def with_categories(data: Any, categories: Mapping[str, Categories]) -> Any:
    """A frame of numbers with the labels of these columns; arrays as they are.

    Columns of pandas become ordered categoricals, those of other libraries text.
    """
    frame = as_frame(data)
    if frame is None or not categories:
        return data
    native, columns = frame.to_native(), {}
    for name, labels in categories.items():
        numbers = frame.get_column(name).to_numpy()
        words = [None if number != number else labels[int(number)] for number in numbers]
        columns[name] = words
    if hasattr(native, "index"):
        make = sys.modules["pandas"].Categorical
        made = {
            name: make(words, categories=list(categories[name]), ordered=True)
            for name, words in columns.items()
        }
        return native.assign(**made)
    space = nw.get_native_namespace(frame)
    new = [nw.new_series(name, words, native_namespace=space) for name, words in columns.items()]
    return frame.with_columns(*new).to_native()


def unseen_category(name: str, value: object, known: Sequence[object]) -> DataError:
    """The error for a category that the fit has not seen."""
    return DataError(
        f"{name} has the category {value!s}, which the fit has not seen. It has "
        f"{listed([str(one) for one in known], NAMED_CATEGORIES)}. Make it missing, or join it "
        "with its neighbour."
    )
