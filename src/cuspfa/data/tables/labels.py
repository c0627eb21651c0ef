"""Labels that a file has for its columns and for their values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

_MISSING_LABEL = re.compile(
    r"(no (answer|response|reply|data)|not (answered|applicable|asked|stated|ascertained|available)"
    r"|refus(ed|al)( to answer)?|do(n'?| no)t know|(system |user )?missing( values?| data)?"
    r"|inapplicable|skipped|n/a|n\.a\.?|na|dk|nr|keine angabe|wei(ß|ss) nicht)"
)
_BETWEEN_LABELS = re.compile(r"[/,;|]| or ")


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


def is_missing_label(label: str) -> bool:
    """Does the label of a value say that there is no answer?

    Examples
    --------
    >>> is_missing_label("Don't know / refused"), is_missing_label("never")
    (True, False)
    """
    text = label.lower().replace("’", "'").strip(" .()[]-")
    # "n/a" has the sign that separates labels.
    parts = [text] if _MISSING_LABEL.fullmatch(text) else _BETWEEN_LABELS.split(text)
    return all(_MISSING_LABEL.fullmatch(one.strip()) for one in parts)


def labels_of(names: Iterable[str], known: Iterable[ColumnLabels]) -> tuple[ColumnLabels, ...]:
    """The labels of these columns, of those that have any, in their order."""
    by_name = {one.name: one for one in known if one.any}
    return tuple(by_name[name] for name in names if name in by_name)
