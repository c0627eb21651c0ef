"""Public names of a package that are loaded when they are first used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def attribute(package: str, modules: Mapping[str, str], name: str) -> Any:
    """The attribute of a package, from the module that `modules` names for it."""
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(modules[name]), name)
