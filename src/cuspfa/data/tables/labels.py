"""Labels that a file has for its columns and for their values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_MISSING_LABEL = re.compile(
    r"(no (answer|response|reply|data)|not (answered|applicable|asked|stated|ascertained|available)"
    r"|refus(ed|al)( to answer)?|do(n'?| no)t know|(system |user )?missing( values?| data)?"
    r"|inapplicable|skipped|n/a|n\.a\.?|na|dk|nr|keine angabe|wei(ß|ss) nicht)"
)
_NO_ITEMS = ("Selected Choice", "Text")
"""What Qualtrics writes behind a question without items."""
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


def without_shared_questions(labels: Sequence[str]) -> tuple[list[str], list[str]]:
    """Labels without the question that several items share, and these questions.

    Surveys write the label of an item as "question - item".

    Examples
    --------
    >>> without_shared_questions(["Do you ... - Worry", "Do you ... - Smile", "Your age - years"])
    (['Worry', 'Smile', 'Your age - years'], ['Do you ...'])
    """
    parts = [label.rpartition(" - ") for label in labels]
    items = [(question, item.strip()) for question, _, item in parts]
    times = Counter(question for question, item in items if item and item not in _NO_ITEMS)
    shared = [question for question, number in times.items() if question and number > 1]

    def item_of(label: str) -> str:
        beginnings = (f"{one} - " for one in shared if label.startswith(f"{one} - "))
        item = label.removeprefix(max(beginnings, key=len, default=""))
        return label if not item.strip() or item in _NO_ITEMS else item

    return list(map(item_of, labels)), shared


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


def scales_of(
    names: Iterable[str], labels: Mapping[str, Mapping[float, str]]
) -> dict[tuple[ValueLabel, ...], list[str]]:
    """The columns by the labels of their values, which are in the order of the values.

    Examples
    --------
    >>> found = scales_of(["a", "b", "c"], {"a": {2: "often", 1: "never"}, "c": {1: "no"}})
    >>> [(scale_words(scale), columns) for scale, columns in found.items()]
    [(['1 = never', '2 = often'], ['a']), ([], ['b']), (['1 = no'], ['c'])]
    """
    found: dict[tuple[ValueLabel, ...], list[str]] = {}
    for name in names:
        scale = tuple(ValueLabel(*pair) for pair in sorted(labels.get(name, {}).items()))
        found.setdefault(scale, []).append(name)
    return found


def common_scale(
    names: Iterable[str], labels: Mapping[str, Mapping[float, str]]
) -> tuple[ValueLabel, ...]:
    """Labels of values that all these columns share; empty if they share none."""
    scales = list(scales_of(names, labels))
    return scales[0] if len(scales) == 1 else ()


def scale_words(scale: Iterable[tuple[float, str]]) -> list[str]:
    """Each value with its label."""
    return [f"{value:g}".replace("-", "−") + f" = {label}" for value, label in scale]


def labels_of(names: Iterable[str], known: Iterable[ColumnLabels]) -> tuple[ColumnLabels, ...]:
    """The labels of these columns, of those that have any, in their order."""
    by_name = {one.name: one for one in known if one.any}
    return tuple(by_name[name] for name in names if name in by_name)
