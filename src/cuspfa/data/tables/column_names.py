"""Names of columns: cleaned, made unique, made up, found, and written so that no spreadsheet runs
them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from cuspfa.data.tables.cells import clean, number, quoted
from cuspfa.data.tables.notes import Note
from cuspfa.errors import InputError

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a cell begins that a spreadsheet takes for a formula."""


def made_up_names(number_of_columns: int) -> list[str]:
    """Of columns that have none."""
    return [f"x{j}" for j in range(1, number_of_columns + 1)]


def unique_names(names: Iterable[str]) -> tuple[list[str], list[Note]]:
    """Clean names, no two the same and none empty; and notes on those that were changed."""
    found: list[str] = []
    taken: set[str] = set()
    notes: list[Note] = []
    nameless: list[str] = []
    for position, raw in enumerate(names, 1):
        name = clean(raw)
        if not name:
            name = f"column{position}"
            nameless.append(name)
        if name in taken:
            twice, copy = name, 2
            while f"{twice}_{copy}" in taken:
                copy += 1
            name = f"{twice}_{copy}"
            notes.append(Note("renamed", (repr(name),), position, quoted(twice)))
        taken.add(name)
        found.append(name)
    return found, notes + ([Note("nameless", tuple(nameless))] if nameless else [])


def find_column(label: str, word: str, names: list[str]) -> int:
    """The position of the column of this name; `label` is what the user calls the argument."""
    if word in names:
        return names.index(word)
    raise InputError(f"{label}: {no_such_column(word, names)}")


def no_such_column(word: str, names: list[str]) -> str:
    """That there is none of this name, and which one may be meant."""
    near = difflib.get_close_matches(word, names, n=1)
    lower = [name for name in names if name.lower() == word.lower()]
    if near or lower:
        return f"there is no column {word!r}. Did you mean {(lower or near)[0]!r}?"
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f"there is no column {word!r}. The columns are {shown} ({len(names)} in all)."


def not_a_formula(text: str) -> str:
    """A name or a label as it is written to CSV: spreadsheets run what begins as a formula does.

    A single quote before it makes it text (OWASP's rule); numbers stay as they are.
    """
    return f"'{text}" if text.startswith(FORMULA) and number(text) is None else text


def without_quote(text: str) -> str:
    """A name without the quote that `not_a_formula` put before it."""
    return text[1:] if text.startswith("'") and not_a_formula(text[1:]) == text else text
