"""Warnings that point at the user's own line."""

from __future__ import annotations

import sys
import warnings

from cuspfa.errors import CuspWarning

LIBRARIES = {"cuspfa", "sklearn", "joblib"}
"""Packages that lie between a user and a fit: in pipelines, searches, `set_output`."""


def warn(message: str, kind: type[Warning] = CuspWarning) -> None:
    """Warn at the innermost line that is not in one of `LIBRARIES`.

    The depth differs between `fit`, `fit_transform`, a pipeline and a grid search, so it is
    counted. (From Python 3.12 on `skip_file_prefixes` will do.)
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) in LIBRARIES:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


def _package(variables: dict[str, object]) -> str:
    return str(variables.get("__name__", "")).partition(".")[0]
