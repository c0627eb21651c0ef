"""Kinds of JSON values: each checks a value of a file and returns it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from cuspfa.errors import FileError
from cuspfa.io.archive import CONTENT, LARGEST_CONTENT, shown_value

LARGEST_INTEGER = 1 << 48
"""The largest whole number in a file."""
JsonKind = Callable[[str, Any], Any]
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


_OTHER_FORMATS = {
    "cuspfa-fit": "it is a saved fit, which cuspfa.load reads",
    "cuspfa-moments": "it holds moments, which Moments.load reads",
}


def parse_content(text: bytes, what: str, form: str, newest: int) -> dict[str, Any]:
    """The JSON of a file of format `form`, of version 1 to `newest`; `what` names such a file."""
    if len(text) > LARGEST_CONTENT:
        raise FileError(f"has {len(text):,} bytes of {CONTENT}, more than {LARGEST_CONTENT:,}")
    try:
        content = json.loads(text.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise FileError(f"is damaged: its {CONTENT} cannot be read") from None
    found = content.get("format") if isinstance(content, dict) else None
    if found != form:
        other = f"its {CONTENT} has format {shown_value(found)}"
        known = _OTHER_FORMATS.get(found, other) if isinstance(found, str) else other
        raise FileError(f"is not {what}: {known}")
    number = as_count("version", content.get("version"))
    if number > newest:
        raise FileError(
            f"is of version {number} of the format, written by cuspfa "
            f"{shown_value(content.get('library'))}; this cuspfa, {version('cuspfa')}, reads "
            f"version {newest}. Upgrade cuspfa to read it"
        )
    if number < 1:
        raise FileError(f"is damaged: there is no version {number} of the format")
    checked: dict[str, Any] = content
    return checked


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def fields(name: str, value: Any, kinds: dict[str, JsonKind]) -> dict[str, Any]:
    """A dictionary with exactly these entries."""
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise FileError(f"is damaged: {name} has wrong or missing entries")
    return {key: kind(key, value[key]) for key, kind in kinds.items()}


def wrong(name: str, value: Any) -> FileError:
    """The error for a value of the wrong kind."""
    return FileError(f"is damaged: {name} cannot be {shown_value(value)}")


def as_count(name: str, value: Any) -> int:
    """A non-negative whole number."""
    if type(value) is not int or not 0 <= value <= LARGEST_INTEGER:
        raise wrong(name, value)
    return value


def as_number(name: str, value: Any) -> float:
    """A number, or the text "NaN", "Infinity" or "-Infinity"."""
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if type(value) is not float or not math.isfinite(value):
        raise wrong(name, value)
    return value


def number_out(value: float) -> float | str:
    """A number for JSON, which has no NaN and no infinity."""
    ready = float(value)
    if math.isfinite(ready):
        return ready
    return "NaN" if math.isnan(ready) else "Infinity" if ready > 0 else "-Infinity"


def as_positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    checked = as_number(name, value)
    if not 0 < checked < math.inf:
        raise wrong(name, value)
    return checked


def as_share(name: str, value: Any) -> float:
    """A number from 0 to 1."""
    checked = as_number(name, value)
    if not 0 <= checked <= 1:
        raise wrong(name, value)
    return checked


def as_null(name: str, value: Any) -> None:
    """Null."""
    if value is not None:
        raise wrong(name, value)


def as_text(name: str, value: Any) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise wrong(name, value)
    return value


def as_flag(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise wrong(name, value)
    return value


def word(*words: str) -> JsonKind:
    """One of these words."""

    def kind(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise wrong(name, value)
        return value

    return kind


def list_of(each: JsonKind, most: int = LARGEST_INTEGER) -> JsonKind:
    """A list of values of one kind."""

    def kind(name: str, value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise wrong(name, value)
        return [each(name, one) for one in value]

    return kind


def nullable(other: JsonKind) -> JsonKind:
    """Null, or a value of a kind."""

    def kind(name: str, value: Any) -> Any:
        return None if value is None else other(name, value)

    return kind
