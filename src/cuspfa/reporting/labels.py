"""Names of columns where there is little room: in tables of text and in figures."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence


def width(text: str) -> int:
    """Columns that a text takes in a terminal: some letters take two, some signs none."""
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


def short(name: str, longest: int) -> str:
    """A name cut in the middle: what tells columns apart is mostly at one end.

    Examples
    --------
    >>> short("I often feel sad in the morning", 16)
    'I often…morning'
    """
    # A line break would run into the next label; a control character has no place in a figure.
    name = "".join(_drawable(one) for one in " ".join(name.split()))
    if width(name) <= longest:
        return name
    head, tail = longest // 2, longest - longest // 2 - 1
    return f"{_begin(name, head).rstrip()}…{_begin(name[::-1], tail)[::-1].lstrip()}"


def _drawable(letter: str) -> str:
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(letter) in ("Cc", "Cs") else letter


def minus(text: str) -> str:
    """A minus sign in place of a hyphen."""
    return text.replace("-", "−")


def _begin(text: str, most: int) -> str:
    """As much of its beginning as has room."""
    taken = 0
    for place, letter in enumerate(text):
        taken += width(letter)
        if taken > most:
            return text[:place]
    return text


def short_names(names: Sequence[str], longest: int) -> list[str]:
    """Short names, and the number of the column behind those that would look the same.

    Examples
    --------
    >>> short_names(["a long name, first", "a long name, 2", "a long name, first"], 12)
    ['a lo…irst #0', 'a long…me, 2', 'a lo…irst #2']
    """
    cut = [short(name, longest) for name in names]
    alike = Counter(cut)
    found = []
    for j, (name, now) in enumerate(zip(names, cut, strict=True)):
        sign = f" #{j}"
        found.append(short(name, longest - len(sign)) + sign if alike[now] > 1 else now)
    return found
