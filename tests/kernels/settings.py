"""Which kernels and instructions NumPy and SciPy can be made to use here, and which they do use."""

import importlib
import os
import platform
import sys
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg  # noqa: F401  (it brings SciPy's own OpenBLAS)
from threadpoolctl import threadpool_info

from cuspfa.inference._kernels import SWITCH, kernel

try:
    _core: Any = importlib.import_module("numpy._core._multiarray_umath")
except ImportError:  # before NumPy 2
    _core = importlib.import_module("numpy.core._multiarray_umath")

HAS = {name for name, here in _core.__cpu_features__.items() if here}
CORETYPES = {
    # Value of OPENBLAS_CORETYPE, instructions it needs, and what OpenBLAS then calls itself. Builds
    # without a kernel of its own for a processor take an older one.
    "Prescott": ({"SSE3"}, {"Prescott", "Katmai"}),
    "Nehalem": ({"SSE42"}, {"Nehalem"}),
    "Sandybridge": ({"AVX"}, {"Sandybridge"}),
    "Haswell": ({"AVX2", "FMA3"}, {"Haswell"}),
    "Zen": ({"AVX2", "FMA3"}, {"Zen", "Haswell"}),
    "SkylakeX": ({"AVX512_SKX"}, {"SkylakeX"}),
}
if HAS & {"X86_V4"}:  # what NumPy 2.4 calls the same instructions
    HAS |= {"AVX512_SKX"}


class Setting(NamedTuple):
    """Variables of the environment, and what must be seen in a process that has them."""

    name: str
    variables: dict[str, str]
    kernels: Set[str] = frozenset()
    """What OpenBLAS may call itself; empty if it is left alone."""
    disabled: Sequence[str] = ()
    """Features that NumPy must not have."""


DEFAULT = Setting("default", {})
NUMPY_ALONE = Setting("NumPy alone", {SWITCH: "1"})
"""Without the compiled core."""


class Selected(NamedTuple):
    """What is used in this process."""

    kernels: dict[str, str]
    """By library."""
    features: list[str]
    """What NumPy dispatches to."""
    compiled: bool
    """Is the compiled core used?"""

    def __str__(self):
        """In words; two that read the same are the same."""
        kernels = ", ".join(f"{name} {kernel}" for name, kernel in self.kernels.items())
        features = f"NumPy with {' '.join(self.features) or 'no features'}"
        core = "compiled core" if self.compiled else "no compiled core"
        return f"{kernels or 'no OpenBLAS'}; {features}; {core}"


def selected():
    kernels = {}
    for one in threadpool_info():
        if one["internal_api"] == "openblas":
            path = one["filepath"].lower()
            owner = next(
                (name for name in ("scipy.libs", "numpy.libs") if name in path), "openblas"
            )
            kernels[owner.removesuffix(".libs")] = one["architecture"]
    features = sorted(set(_core.__cpu_dispatch__) & HAS)
    return Selected(dict(sorted(kernels.items())), features, kernel("iteration") is not None)


def wrong(setting, now):
    """Why a setting has not taken effect in a process that uses this; empty if it has."""
    found = [
        f"{owner}'s OpenBLAS runs its {kernel} kernels"
        for owner, kernel in now.kernels.items()
        if setting.kernels and kernel not in setting.kernels
    ]
    if setting.kernels and not now.kernels:
        found.append("there is no OpenBLAS")
    still = sorted(set(setting.disabled) & set(now.features))
    found += [f"NumPy still has {feature}" for feature in still]
    if SWITCH in setting.variables and now.compiled:
        found.append("the compiled core runs")
    return found


def settings():
    """All that this processor can run, and a note on each that it cannot."""
    found, notes = [], []
    if not selected().kernels:
        name = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
        notes.append(
            f"NumPy and SciPy are built on {name}, not OpenBLAS: no kernels to choose from."
        )
    elif platform.machine().lower() not in ("x86_64", "amd64"):
        notes.append(f"No kernels of OpenBLAS are known to this test on {platform.machine()}.")
    else:
        for name, (needs, kernels) in CORETYPES.items():
            if needs <= HAS:
                found.append(Setting(name, {"OPENBLAS_CORETYPE": name}, kernels))
            else:
                notes.append(f"{name}: this processor lacks {' '.join(sorted(needs - HAS))}.")
    features = selected().features
    if features:
        names = " ".join(features)
        variables = {"NPY_DISABLE_CPU_FEATURES": names}
        found.append(Setting(f"without {names}", variables, disabled=features))
    else:
        notes.append("NumPy dispatches to no feature of this processor.")
    if selected().compiled:
        found.append(NUMPY_ALONE)
    else:
        notes.append("The compiled core is not built: NumPy alone is the default.")
    return found, notes


def clean(environment):
    """Without what a setting may set."""
    return {
        name: value
        for name, value in environment.items()
        if name not in ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", SWITCH)
    }


def assert_in_effect():
    """In a child: the setting named in CUSPFA_KERNEL_SETTING is the one that runs."""
    name = os.environ["CUSPFA_KERNEL_SETTING"]
    kernels = CORETYPES[name][1] if name in CORETYPES else frozenset()
    disabled = name.removeprefix("without ").split() if name.startswith("without ") else []
    variables = NUMPY_ALONE.variables if name == NUMPY_ALONE.name else {}
    setting = Setting(name, variables, kernels, disabled)
    reasons = wrong(setting, selected())
    assert not reasons, f"{name} has not taken effect: {'; '.join(reasons)}"


if __name__ == "__main__":
    assert_in_effect()
    sys.stdout.write(f"uses {selected()}\n")
