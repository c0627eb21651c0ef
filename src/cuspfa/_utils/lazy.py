"""Public names of a package that are loaded when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

DefinedIn = Mapping[str, tuple[str, ...]]
"""Modules, and the public names that each defines."""


def public_names(defined_in: DefinedIn) -> list[str]:
    """All names, sorted, for `__all__`."""
    return sorted(name for names in defined_in.values() for name in names)


def lazy_names(
    package: str, defined_in: DefinedIn, modules: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package; `modules` are whole modules, by a shorter name."""
    module_of = {name: module for module, names in defined_in.items() for name in names}

    def attribute(name: str) -> Any:
        if name in modules:
            return import_module(modules[name])
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return attribute, lambda: sorted([*module_of, *modules])
