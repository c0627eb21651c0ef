"""A block of rows, and what reads blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from cuspfa.data.column_choice import ColumnChoice
from cuspfa.data.tables.answers import Answers
from cuspfa.data.tables.notes import DroppedColumn, Note


def as_kind(rows: Any, dtype: Any, *, copy: bool = False) -> Any:
    """An array of another type. Values too large for it become infinite and are refused later."""
    with np.errstate(over="ignore"):
        return np.array(rows, dtype=dtype) if copy else np.asarray(rows, dtype=dtype)


class Block(NamedTuple):
    """Some rows, and where they are from."""

    rows: Any
    """(m, p) dense, float64 or float32, in either order; NaN where a value is missing."""
    place: str
    """Name of the file or object that they are from."""
    first: int
    """Number of the first row in it."""
    empty: int = 0
    """Rows without any value that were left out of the block."""


class Reader(Protocol):
    """Blocks of rows, in their order."""

    names: list[str] | None
    n_rows: int | None
    """None if it is unknown until all rows are read."""
    again: bool
    """Can the rows be read more than once?"""
    all_names: list[str]
    """Names of all columns, whether they are read or not."""
    notes: list[Note]
    """What was found out or assumed about the format."""
    dropped: list[DroppedColumn]
    """Columns that do not hold numbers."""
    choice: ColumnChoice
    coded: int
    """Missing values in the last pass that are codes of the user."""
    answers: list[Answers]
    """Columns of words that become numbers."""

    @property
    def n_columns(self) -> int:
        """Number of columns that are read."""

    def drop(self, error: Any) -> None:
        """Drop a column that does not hold numbers; raise the error if it was requested."""

    def blocks(self, size: int, dtype: Any) -> Iterator[Block]:
        """Blocks of at most `size` rows."""
