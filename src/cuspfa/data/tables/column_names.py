"""Names of columns: cleaned, made unique, made up, looked up, and safe for spreadsheets."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from cuspfa.data.tables.cells import clean, parse_number, quoted
from cuspfa.data.tables.notes import Note
from cuspfa.errors import InputError

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of a cell that a spreadsheet takes for a formula."""


def made_up_names(number_of_columns: int) -> list[str]:
    """Names for columns without names."""
    return [f"x{j}" for j in range(1, number_of_columns + 1)]


def unique_names(names: Iterable[str]) -> tuple[list[str], list[Note]]:
    """Clean names, all different and none empty, and notes on changed names."""
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
    """The position of the column with this name; `label` is the argument in messages."""
    if word in names:
        return names.index(word)
    raise InputError(f"{label}: {no_such_column(word, names)}")


def no_such_column(word: str, names: list[str]) -> str:
    """A message that there is no column with this name, with a similar name."""
    near = difflib.get_close_matches(word, names, n=1)
    lower = [name for name in names if name.lower() == word.lower()]
    if near or lower:
        return f"there is no column {word!r}. Did you mean {(lower or near)[0]!r}?"
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f"there is no column {word!r}. The columns are {shown} ({len(names)} in all)."


def not_a_formula(text: str) -> str:
    """A name or label for CSV files, so that a spreadsheet does not run it as a formula.

    A single quote in front makes it text (OWASP's rule). Numbers stay as they are.
    """
    return f"'{text}" if text.startswith(FORMULA_STARTS) and parse_number(text) is None else text


def without_quote(text: str) -> str:
    """A name without the quote that `not_a_formula` puts in front."""
    return text[1:] if text.startswith("'") and not_a_formula(text[1:]) == text else text
