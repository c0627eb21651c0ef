"""Short names of columns and axes, for tables and figures."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuspfa.rotation.gpa import Rotation


def width(text: str) -> int:
    """Width of a text in a terminal: some characters take two columns, combining ones none."""
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


def shortened(name: str, longest: int) -> str:
    """A name cut in the middle, as names differ mostly at one of their ends.

    Examples
    --------
    >>> shortened("I often feel sad in the morning", 16)
    'I often…morning'
    """
    # Line breaks and control characters cannot be drawn in a label.
    name = "".join(_drawable(one) for one in " ".join(name.split()))
    if width(name) <= longest:
        return name
    head, tail = longest // 2, longest - longest // 2 - 1
    return f"{_begin(name, head).rstrip()}…{_begin(name[::-1], tail)[::-1].lstrip()}"


def described_names(names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Names with their wording, where there is any.

    Examples
    --------
    >>> described_names(["N1", "N2"], ["Get angry easily.", ""])
    ['N1 Get angry easily.', 'N2']
    """
    return [f"{name} {text}" if text else name for name, text in zip(names, labels, strict=True)]


def axes_name(rotation: Rotation | None) -> str:
    """What the axes of a rotation are called."""
    return "principal axes" if rotation is None else rotation.method


def _drawable(letter: str) -> str:
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(letter) in ("Cc", "Cs") else letter


def _begin(text: str, most: int) -> str:
    """The longest beginning of a text that is at most so wide."""
    taken = 0
    for place, letter in enumerate(text):
        taken += width(letter)
        if taken > most:
            return text[:place]
    return text


def short_names(names: Sequence[str], longest: int) -> list[str]:
    """Short names; those that would be equal get the index of their column.

    Examples
    --------
    >>> short_names(["a long name, first", "a long name, 2", "a long name, first"], 12)
    ['a lo…irst #0', 'a long…me, 2', 'a lo…irst #2']
    """
    cut = [shortened(name, longest) for name in names]
    alike = Counter(cut)
    found = []
    for j, (name, now) in enumerate(zip(names, cut, strict=True)):
        sign = f" #{j}"
        found.append(shortened(name, longest - len(sign)) + sign if alike[now] > 1 else now)
    return found
