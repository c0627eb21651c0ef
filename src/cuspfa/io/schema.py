"""Kinds of JSON values: each checks a value that a file claims, and gives it back ready."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cuspfa.errors import FileError
from cuspfa.io.archive import short

MOST = 1 << 48
"""The largest whole number."""
Kind = Callable[[str, Any], Any]
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def fields(name: str, value: Any, kinds: dict[str, Kind]) -> dict[str, Any]:
    """A dictionary with just these entries."""
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise FileError(f"is damaged: {name} has not the entries it should have")
    return {key: kind(key, value[key]) for key, kind in kinds.items()}


def wrong(name: str, value: Any) -> FileError:
    """The error for a value of the wrong kind."""
    return FileError(f"is damaged: {name} cannot be {short(value)}")


def count(name: str, value: Any) -> int:
    """A whole number, not negative."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise wrong(name, value)
    return value


def number(name: str, value: Any) -> float:
    """A number, or one of the three that JSON lacks, as text."""
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if type(value) is not float or not math.isfinite(value):
        raise wrong(name, value)
    return value


def number_out(value: float) -> float | str:
    """JSON has no NaN and no infinity."""
    ready = float(value)
    if math.isfinite(ready):
        return ready
    return "NaN" if math.isnan(ready) else "Infinity" if ready > 0 else "-Infinity"


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    checked = number(name, value)
    if not 0 < checked < math.inf:
        raise wrong(name, value)
    return checked


def share(name: str, value: Any) -> float:
    """A number from 0 to 1."""
    checked = number(name, value)
    if not 0 <= checked <= 1:
        raise wrong(name, value)
    return checked


def text(name: str, value: Any) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise wrong(name, value)
    return value


def flag(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise wrong(name, value)
    return value


def word(*words: str) -> Kind:
    """One of these words."""

    def kind(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise wrong(name, value)
        return value

    return kind


def list_of(each: Kind, most: int = MOST) -> Kind:
    """A list, each of whose values is of a kind."""

    def kind(name: str, value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise wrong(name, value)
        return [each(name, one) for one in value]

    return kind


def optional(other: Kind) -> Kind:
    """Null, or a value of a kind."""

    def kind(name: str, value: Any) -> Any:
        return None if value is None else other(name, value)

    return kind
