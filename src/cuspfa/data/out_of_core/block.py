"""Some rows, and where they are from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np


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


class Reader(Protocol):
    """Blocks of rows, in their order."""

    names: list[str] | None
    n_columns: int
    n_rows: int | None
    """None if it is not known before all are read."""
    again: bool
    """Can it be read more than once?"""
    remark: str | None
    """What had to be assumed of it."""

    def blocks(self, size: int, dtype: Any) -> Iterator[Block]:
        """Blocks of at most `size` rows."""
