"""Where a fit came from: data, parameters, warnings and versions, as values; nothing of any row."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, NamedTuple

from cuspfa._utils.fit_warning import FitWarning
from cuspfa._utils.spelling import EngineSettings
from cuspfa.data.provenance import DataProvenance
from cuspfa.data.screening.column_kinds import KindGroup
from cuspfa.model.likelihoods.kinds import LikelihoodSetting
from cuspfa.model.prior import CuspPrior
from cuspfa.rotation.gpa import Rotation

PACKAGES = ("cuspfa", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class FitSettings:
    """Parameters of the model, as they were given."""

    engine: EngineSettings
    n_factors: int | Literal["auto"] = "auto"
    prior: CuspPrior | None = None
    """None for the default of the engine."""
    standardize: bool = True
    model_error: float | Literal["auto"] = 0.0
    robust: bool = False
    rotation: Rotation | None = None
    likelihood: LikelihoodSetting = "gaussian"
    offset: str | None = None
    """Of log rates: "library_size", the name of a column, or "given" for numbers."""
    random_state: int | Literal["generator"] | None = None
    """"generator" stands for a generator, whose state is not kept."""


@dataclass(frozen=True)
class Provenance:
    """Everything that is needed to repeat a fit, apart from the data."""

    settings: FitSettings
    data: DataProvenance | None
    """None if nothing more is known than rows and columns."""
    command: str
    """The command line; empty if the fit was made in Python."""
    warnings: tuple[FitWarning, ...]
    versions: tuple[tuple[str, str], ...]
    """Of the packages that made the fit."""
    kinds: tuple[KindGroup, ...] = ()
    """Columns by kind; empty where rows were not seen, or are too few."""


def with_warnings(provenance: Provenance, warnings: tuple[FitWarning, ...]) -> Provenance:
    """The provenance with these warnings added."""
    return replace(provenance, warnings=provenance.warnings + warnings)


class Origin(NamedTuple):
    """What a caller of the model knows of the data in addition to their values."""

    data: DataProvenance | None = None
    command: str = ""
    warnings: tuple[FitWarning, ...] = ()


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Versions of Python and the packages that numbers depend on, as they are installed."""
    found = [("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:  # the modules are there without the package
            continue
    return tuple(found)
