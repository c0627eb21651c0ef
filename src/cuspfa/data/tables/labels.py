"""Labels that a file has for its columns and for their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class ValueLabel(NamedTuple):
    """A value of a column, and its label."""

    value: float
    label: str


@dataclass(frozen=True)
class ColumnLabels:
    """The label of a column, such as the wording of an item, and those of its values.

    Parameters
    ----------
    name : str
        Name of the column.
    label : str
        What the column is; empty if the file does not say.
    values : tuple of ValueLabel
        Values with a label, such as (1.0, "strongly agree").

    Examples
    --------
    >>> from cuspfa.data.tables.labels import ColumnLabels, ValueLabel
    >>> ColumnLabels("q1", "I worry a lot", (ValueLabel(1.0, "never"),)).label
    'I worry a lot'
    """

    name: str
    label: str = ""
    values: tuple[ValueLabel, ...] = ()

    @property
    def any(self) -> bool:
        """Is there any label?"""
        return bool(self.label or self.values)


def labels_of(names: Iterable[str], known: Iterable[ColumnLabels]) -> tuple[ColumnLabels, ...]:
    """The labels of these columns, of those that have any, in their order."""
    by_name = {one.name: one for one in known if one.any}
    return tuple(by_name[name] for name in names if name in by_name)
