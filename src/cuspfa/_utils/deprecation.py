"""Deprecation of public names: the old one works, and says what replaces it and until when."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from cuspfa._utils.warn import warn

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def deprecated(
    *, instead: str, removed_in: str
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Mark a function or method as deprecated.

    Each call gives a FutureWarning, at the line of the caller. `instead` is code that replaces the
    call, and `removed_in` the first release without the name.
    """

    def mark(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def warned(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            warn_deprecated(f"{function.__qualname__}()", instead=instead, removed_in=removed_in)
            return function(*args, **kwargs)

        return warned

    return mark


def warn_deprecated(what: str, *, instead: str, removed_in: str) -> None:
    """Warn that a parameter, a value or an attribute is deprecated."""
    warn(f"{what} is deprecated and will be removed in {removed_in}. Use {instead}.", FutureWarning)
