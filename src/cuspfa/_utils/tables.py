"""Results as tables: data frames of pandas or polars, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from numbers import Integral, Real
from types import ModuleType
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from cuspfa._utils.wording import minus

Columns = Mapping[str, Sequence[Any]]
FRAME_LIBRARIES = ("pandas", "polars")
NOTEBOOK_ROWS = 60
"""Rows of a table that a notebook shows."""


def data_frame(columns: Columns) -> Any:
    """A data frame of pandas or, where that is not installed, of polars."""
    return _frame_library().DataFrame({key: list(values) for key, values in columns.items()})


def _frame_library() -> ModuleType:
    for name in FRAME_LIBRARIES:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise ImportError(
        "A data frame needs pandas or polars, and neither is installed. Install one of them with "
        "pip install pandas."
    )


def frame_like(values: Any, X: Any) -> Any:
    """Values (n, p) in a frame like X, with its names and index; an array if X is none."""
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return values
    native = frame.to_native()
    if hasattr(native, "index"):  # pandas, where names may be numbers, or equal
        return type(native)(values, index=native.index, columns=native.columns)
    columns = dict(zip(frame.columns, np.asarray(values).T, strict=True))
    namespace = nw.get_native_namespace(frame)
    return nw.from_dict(columns, native_namespace=namespace).to_native()


def square_frame(matrix: Any, names: list[str], library: str | None = None) -> Any:
    """A matrix in a frame with names of its columns, and in pandas also of its rows.

    `library` is "pandas" or "polars"; None takes the one that is installed.
    """
    frames = _frame_library() if library is None else import_module(library)
    if frames.__name__ == "pandas":
        return frames.DataFrame(matrix, index=names, columns=names)
    return frames.DataFrame(matrix, schema=names)


def html_table(columns: Columns, caption: str = "") -> str:
    """An HTML table in the colours of its page; NaN is a dash."""
    names = list(columns)
    rows = list(zip(*columns.values(), strict=True))
    cell = "padding:.1em .8em .1em 0;text-align:"
    sides = [
        "left" if any(isinstance(row[j], str) for row in rows) else "right"
        for j in range(len(names))
    ]
    head = "".join(
        f'<th style="{cell}{side}">{escape(name)}</th>'
        for name, side in zip(names, sides, strict=True)
    )
    lines = ['<table style="border-collapse:collapse">']
    if caption:
        lines.append(f'<caption style="text-align:left">{escape(caption)}</caption>')
    lines.append(f"<thead><tr>{head}</tr></thead><tbody>")
    for row in rows[:NOTEBOOK_ROWS]:
        cells = (
            f'<td style="{cell}{side}">{escape(_cell(value))}</td>'
            for value, side in zip(row, sides, strict=True)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody></table>")
    if len(rows) > NOTEBOOK_ROWS:
        lines.append(f'<div style="opacity:.7">and {len(rows) - NOTEBOOK_ROWS} more rows</div>')
    return "".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        number = float(value)
        if np.isnan(number):
            return "–"
        return minus(f"{number:.3f}") if abs(number) < 1e6 else f"{number:.3g}"
    return str(value)


class TabularResult:
    """A result with rows and columns."""

    def _columns(self) -> Columns:
        """The columns of the table by name."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """A data frame of pandas or, where that is not installed, of polars."""
        return data_frame(self._columns())

    def _repr_html_(self) -> str:
        """The HTML that a notebook shows."""
        return html_table(self._columns())
