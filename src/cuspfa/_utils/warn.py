"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from cuspfa.errors import CuspWarning

LIBRARIES = {"cuspfa", "sklearn", "joblib"}
"""Packages that lie between a user and a fit: in pipelines, searches, `set_output`."""


_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def silent() -> Iterator[None]:
    """Fits of our own, whose warnings are not about the user's: say nothing.

    Of this thread alone; `warnings.catch_warnings` is for the whole process, and for one thread.
    """
    before = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(before)


def warn(message: str, kind: type[Warning] = CuspWarning) -> None:
    """Warn at the innermost line that is not in one of `LIBRARIES`.

    The depth differs between `fit`, `fit_transform`, a pipeline and a grid search, so it is
    counted. (From Python 3.12 on `skip_file_prefixes` will do.)
    """
    if _silent.get():
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) in LIBRARIES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


def _package(variables: dict[str, object]) -> str:
    return str(variables.get("__name__", "")).partition(".")[0]
