"""Settings as a user writes them: in Python, or as options of the program."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuspfa._typing import EngineName

Spell = Callable[..., str]
"""Takes the name of an argument, and its value if one is advised."""
_READING_OPTIONS = {"id_column": "--id", "memory_limit": "--memory-limit"}


@dataclass(frozen=True)
class EngineSettings:
    """An engine and those of its settings that differ from the defaults."""

    name: EngineName
    values: Mapping[str, Any] = field(default_factory=dict)


def as_argument(name: str, value: Any = None) -> str:
    """An argument of a Python function."""
    return name if value is None else f"{name}={value!r}"


def as_option(name: str, value: Any = None) -> str:
    """An argument of the library as an option of the program."""
    option = _READING_OPTIONS.get(name, f"--{name}")
    if name == "header":
        return "--no-header" if value is False else option
    if value is None:
        return option
    if name == "kind":
        return f"--{value}"
    if name == "decimal":
        value = {".": "point", ",": "comma"}[value]
    return f"{option} {shlex.quote(','.join(value) if isinstance(value, tuple) else str(value))}"


def showing_fit(path: str, spell: Spell) -> str:
    """How a saved fit is looked at, in the form of `spell`."""
    return f"cuspfa info {shlex.quote(path)}" if spell is as_option else f"cuspfa.load({path!r})"


def fitting_matrix(what: str, kind: str, spell: Spell) -> str:
    """How a correlation or covariance matrix is fitted, in the form of `spell`."""
    if spell is as_option:
        return f"cuspfa fit {shlex.quote(what)} --{kind} --n N"
    if Path(what).suffix in ("", ".npy", ".zarr", ".h5ad"):  # no file that read_moments reads
        matrix = "X" if what == "X" else "matrix"
        return f"CuspFactorAnalysis().fit_moments(Moments.from_{kind}({matrix}, n=...))"
    return f"CuspFactorAnalysis().fit_moments(read_moments({what!r}, n=...))"
