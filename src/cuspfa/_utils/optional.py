"""Imports of optional packages, which extras install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cuspfa.errors import InputError


def import_or_none(module: str) -> Any | None:
    """A module, or None where its package is not installed."""
    try:
        return import_module(module)
    except ImportError:
        return None


def needed(module: str, what: str, extra: str) -> Any:
    """A module, or an error that says what to install."""
    found = import_or_none(module)
    if found is None:
        package = module.partition(".")[0]
        raise InputError(f"{what} needs {package}: pip install 'cuspfa[{extra}]'.")
    return found
