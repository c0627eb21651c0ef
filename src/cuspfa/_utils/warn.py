"""Warnings that point at the line of the user's code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from cuspfa.errors import CuspWarning

INNER_PACKAGES = {"cuspfa", "sklearn", "joblib"}
"""Packages whose lines a warning skips: those that call cuspfa in pipelines and searches."""


_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def silent() -> Iterator[None]:
    """Suppress warnings of fits that cuspfa makes for its own purposes, in this thread.

    `warnings.catch_warnings` would affect all threads of the process.
    """
    before = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(before)


def warn(message: str, kind: type[Warning] = CuspWarning) -> None:
    """Warn at the innermost line that is not in one of `INNER_PACKAGES`.

    The depth differs between `fit`, `fit_transform`, a pipeline and a grid search, so it is
    counted. (From Python 3.12 on `skip_file_prefixes` will do.)
    """
    if _silent.get():
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) in INNER_PACKAGES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


def _package(variables: dict[str, object]) -> str:
    return str(variables.get("__name__", "")).partition(".")[0]
