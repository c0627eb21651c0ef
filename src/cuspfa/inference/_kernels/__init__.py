"""The compiled core: kernels that are faster spellings of NumPy code, which stays their definition.

Where an extension is not built, or the environment variable CUSPFA_NO_COMPILED_CORE is 1, the NumPy
code runs; bound and draws agree to 1e-8.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType

SWITCH = "CUSPFA_NO_COMPILED_CORE"

NOT_BUILT = (
    "The compiled core of cuspfa is not built, and fits take several times longer; results are the "
    "same. Install a C compiler (on Debian: apt-get install gcc python3-dev) and install cuspfa "
    f"again, or set the environment variable {SWITCH}=1 to hide this message."
)


@cache
def kernel(name: str) -> ModuleType | None:
    """The extension of this name, or None."""
    if os.environ.get(SWITCH) == "1":
        return None
    try:
        return import_module(f"{__name__}.{name}")
    except ImportError:
        return None


def not_built() -> bool:
    """Is there no compiled core, though none was switched off?"""
    return os.environ.get(SWITCH) != "1" and kernel("iteration") is None
