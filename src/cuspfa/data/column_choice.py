"""Which columns of a table are meant: by name, position, slice or mask."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Indices
from cuspfa._utils.arguments import is_whole
from cuspfa.data.tables.column_names import no_such_column
from cuspfa.errors import DataError, InputError


class ColumnChoice(NamedTuple):
    """Positions of the columns to read."""

    columns: Sequence[int]
    excluded: Sequence[int] = ()
    asked: bool = False
    """Were they named by the user, so that a column that looks like names of rows is kept?"""
    insists: bool = False
    """Is a column that cannot be analysed an error? Otherwise it is dropped."""
    included: Sequence[int] = ()
    """Columns that are analysed even if they look like names of rows or like covariates."""
    drops_covariates: bool = False
    """Are columns that look like covariates dropped? Otherwise a note names them."""

    @property
    def kept(self) -> list[int]:
        """Positions without the excluded ones."""
        excluded = set(self.excluded)
        return [j for j in self.columns if j not in excluded]


ChooseColumns = Callable[[list[str]], ColumnChoice]
"""Chooses among the names of all columns."""


def all_columns(names: list[str]) -> ColumnChoice:
    """All columns, to be screened."""
    return ColumnChoice(range(len(names)))


def as_they_are(names: list[str]) -> ColumnChoice:
    """All columns, not screened."""
    return ColumnChoice(range(len(names)), insists=True)


def names_of_word(word: str, names: Sequence[str]) -> list[str]:
    """The columns that a word means: a name, a range of names, or a pattern; none if it is neither.

    `x1-x9` and `A1:O5` are the columns between two names, in the order of the table. In a pattern,
    `*` stands for any characters and `?` for one.
    """
    if word in names:
        return [word]
    for place, sign in enumerate(word):
        first, last = word[:place].strip(), word[place + 1 :].strip()
        if sign in "-:" and first in names and last in names:
            ends = sorted((names.index(first), names.index(last)))
            return list(names[ends[0] : ends[1] + 1])
    if any(sign in word for sign in "*?"):
        return [name for name in names if fnmatchcase(name, word.replace("[", "[[]"))]
    return []


def means_no_column(word: str, names: Sequence[str]) -> str:
    """A message on a word for which `names_of_word` finds nothing.

    Examples
    --------
    >>> means_no_column("A1-A22", ["A1", "A2"])
    "'A1-A22' is no range of columns: there is no column 'A22'. Did you mean 'A2'?"
    >>> means_no_column("a1:a2", ["A1", "A2"])
    "there is no column 'a1:a2'. Did you mean 'A1:A2'?"
    """
    listed = list(names)
    small: dict[str, str] = {}
    for name in listed:
        small.setdefault(name.lower(), name)
    for place, sign in enumerate(word):
        ends = [word[:place].strip(), word[place + 1 :].strip()]
        if sign not in "-:" or not all(ends):
            continue
        if all(one.lower() in small for one in ends):
            meant = sign.join(small[one.lower()] for one in ends)
            return f"there is no column {word!r}. Did you mean {meant!r}?"
        strange = [one for one in ends if one not in listed]
        if len(strange) == 1:
            why = no_such_column(strange[0], listed)
            return f"{word!r} is no range of columns: {why}"
    if any(sign in word for sign in "*?"):
        other = names_of_word(word.lower(), list(small))
        hint = f" Capital letters count: did you mean {small[other[0]]!r}?" if other else ""
        return f"no column has a name like {word!r}.{hint}"
    return no_such_column(word, listed)


def _written_out(label: str, given: Any, names: list[str]) -> Any:
    """Columns given as text, with ranges and patterns written out; other choices as they are."""
    if isinstance(given, str):
        given = [given] if given in names else [word.strip() for word in given.split(",")]
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) for one in given):
        return given
    found: list[str] = []
    for word in given:
        own = names_of_word(word, names)
        if not own:
            raise DataError(f"{label}: {means_no_column(word, names)}")
        found += own if own == [word] else [name for name in own if name not in found]
    return found


def chooser(columns: Any, exclude: Any, *, insists: bool) -> ChooseColumns:
    """A function that chooses columns by names, indices, slices or masks."""

    def choose(names: list[str]) -> ColumnChoice:
        p = len(names)
        wanted = _written_out("columns", columns, names)
        unwanted = _written_out("exclude", exclude, names)
        chosen = range(p) if columns is None else check_columns(wanted, p, names).tolist()
        excluded = [] if exclude is None else check_columns(unwanted, p, names, "exclude").tolist()
        return ColumnChoice(chosen, excluded, asked=columns is not None, insists=insists)

    return choose


def check_columns(columns: Any, p: int, names: list[str] | None, label: str = "columns") -> Indices:
    """Positions of columns given by name, position, slice or mask; each may be named once.

    `label` is the name of the argument.
    """
    if isinstance(columns, slice):
        try:
            return np.arange(p)[columns]
        except TypeError:
            raise InputError(
                f"{label} must be a slice of positions, not of names. Got {columns!r} instead."
            ) from None
    given = _as_list(columns, label)
    if given and all(isinstance(one, (bool, np.bool_)) for one in given):
        if len(given) != p:
            raise InputError(f"{label} must be a mask of length {p}. Got length {len(given)}.")
        return np.flatnonzero(given)
    if given and all(isinstance(one, str) for one in given):
        positions = _positions_of_names(given, names, label)
    elif all(is_whole(one) for one in given):
        positions = np.array(given, dtype=np.intp)
        outside = (positions < -p) | (positions >= p)
        if outside.any():
            wrong = int(positions[outside][0])
            raise InputError(f"{label} must be between 0 and {p - 1}. Got {wrong} instead.")
        positions = positions % p
    else:
        raise InputError(
            f"{label} must be names, indices, a slice or a mask, and one kind alone. "
            f"Got {reprlib.repr(columns)} instead."
        )
    if len(np.unique(positions)) < len(positions):
        raise InputError(f"{label} must not name a column twice.")
    return np.asarray(positions)


def _as_list(columns: Any, label: str) -> list[Any]:
    """The given columns as a list. NumPy would turn the list [1, 'a'] into text."""
    if isinstance(columns, (str, Integral)):
        return [columns]
    given = np.asarray(columns, dtype=object if isinstance(columns, (list, tuple)) else None)
    if given.ndim == 0:
        raise InputError(
            f"{label} must be a list of names or indices, a slice or a mask. "
            f"Got {reprlib.repr(columns)} instead."
        )
    if given.ndim > 1:
        raise InputError(f"{label} must be one list. Got an array of {given.ndim} dimensions.")
    return list(given.tolist())


def _positions_of_names(given: list[str], names: list[str] | None, label: str) -> Indices:
    if names is None:
        raise InputError(
            f"{label} must be indices, counted from 0: the fitted data had no column names, or "
            "names that are not text, which are not kept."
        )
    places: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        places.setdefault(name, []).append(index)
    for name in given:
        if name not in places:
            raise InputError(f"{label} must be among the fitted ones. Got {name!r} instead.")
        if len(places[name]) > 1:
            raise InputError(
                f"{label} must say which one is meant: {len(places[name])} are called {name!r}. "
                "Use indices."
            )
    return np.array([places[name][0] for name in given], dtype=np.intp)
