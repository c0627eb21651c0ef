"""What the user said of a table when it was read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading a table, as they were given."""

    columns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    id_column: str | None = None
    missing: tuple[str, ...] = ()
    header: bool | None = None
    decimal: str | None = None
    memory_limit: str | None = None
    sheet: str | None = None
    order: tuple[tuple[str, ...], ...] = ()
    """Words of answers from low to high, for one or more scales."""
    n: int | None = None
    """Number of rows that a matrix was made of."""
    means: str | None = None
    sds: str | None = None
    """Means and standard deviations of the variables of a matrix, with commas between them."""
