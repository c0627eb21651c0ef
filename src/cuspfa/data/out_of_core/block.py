"""Some rows, and where they are from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from cuspfa.data.tables.notes import DroppedColumn, Note


def as_kind(rows: Any, dtype: Any, *, copy: bool = False) -> Any:
    """An array of another type; what is too large for it is infinite, which is refused later."""
    with np.errstate(over="ignore"):
        return np.array(rows, dtype=dtype) if copy else np.asarray(rows, dtype=dtype)


class Block(NamedTuple):
    """Some rows, and where they are from."""

    rows: Any
    """(m, p) dense, float64 or float32, in either order; NaN where there is a missing value."""
    place: str
    """Name of the file, or what else they are from."""
    first: int
    """Number of the first row there."""
    empty: int = 0
    """Rows without any value that were left out of it."""


class Choice(NamedTuple):
    """Columns to be read, by their positions among all."""

    columns: Sequence[int]
    excluded: Sequence[int] = ()
    asked: bool = False
    """Were they named by the user, so that one which looks like names of rows is kept?"""
    insists: bool = False
    """Is a column that cannot be analysed an error, instead of being dropped?"""

    @property
    def kept(self) -> list[int]:
        """Without those excluded."""
        excluded = set(self.excluded)
        return [j for j in self.columns if j not in excluded]


Choose = Callable[[list[str]], Choice]
"""A choice among the names of all columns."""


def all_columns(names: list[str]) -> Choice:
    """None named, none excluded."""
    return Choice(range(len(names)))


class Reader(Protocol):
    """Blocks of rows, in their order."""

    names: list[str] | None
    n_rows: int | None
    """None if it is not known before all are read."""
    again: bool
    """Can it be read more than once?"""
    all_names: list[str]
    """Of the columns that are read and of all others."""
    notes: list[Note]
    """What was found out or assumed."""
    dropped: list[DroppedColumn]
    """Columns that do not hold numbers."""
    choice: Choice
    coded: int
    """Cells that the user's codes made missing in the last pass."""

    @property
    def n_columns(self) -> int:
        """How many are read."""

    def drop(self, error: Any) -> None:
        """Go on without a column that does not hold numbers, or raise the error."""

    def blocks(self, size: int, dtype: Any) -> Iterator[Block]:
        """Blocks of at most `size` rows."""
