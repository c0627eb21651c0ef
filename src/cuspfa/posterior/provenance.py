"""Where a fit came from: words and commands, and nothing of any row."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

FACTORS, STANDARDISED, SEED = "number of factors", "standardised columns", "seed"
"""Names of settings."""
PACKAGES = ("cuspfa", "numpy", "scipy", "scikit-learn")


class Provenance(NamedTuple):
    """What a reader needs to know, and to do, to come to the same fit."""

    data: str
    """What was read, in a sentence; empty if nothing more is known than rows and columns."""
    remarks: list[str]
    """What was assumed or left out, a sentence each."""
    settings: list[tuple[str, str]]
    """Names and values of settings."""
    command: str
    """The command line; empty if the fit was made in Python."""
    python: str
    """The same in Python."""
    warnings: list[str]
    """What the fit warned of."""
    versions: list[tuple[str, str]]
    """Of the packages that made the fit."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Settings that are parameters of the model, as it takes them; others are its defaults."""
        said, found = dict(self.settings), {}
        if (number := said.get(FACTORS, "")).isdecimal():
            found["n_factors"] = int(number)
        if (seed := said.get(SEED, "")).isdecimal():
            found["random_state"] = int(seed)
        return {"standardize": said.get(STANDARDISED) != "no", **found}

    def warned(self, messages: Sequence[str]) -> Provenance:
        """The same, with these warnings."""
        return self._replace(warnings=list(messages))


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = [("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:  # somebody brought the modules without the package
            continue
    return tuple(found)


def versions() -> list[tuple[str, str]]:
    """Of Python and the packages that numbers depend on, as they are now."""
    return list(_versions())
