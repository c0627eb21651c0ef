"""Where a fit came from: data, parameters, warnings and versions, as values; nothing of any row."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, NamedTuple

from cuspfa._utils.fit_warning import EngineSettings, FitWarning
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
    rotation: Rotation | None = None
    random_state: int | Literal["generator"] | None = None
    """"generator" stands for a generator, whose state is not kept."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading a table, as they were given."""

    columns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    id_column: str | None = None
    missing: tuple[str, ...] = ()
    header: bool | None = None
    decimal: str | None = None
    memory_limit: str | None = None


@dataclass(frozen=True)
class DroppedColumn:
    """A column that was read and not analysed."""

    name: str
    reason: str


@dataclass(frozen=True)
class DataProvenance:
    """What was read, and what was dropped of it."""

    source: str
    """The path, or what stands for it in messages."""
    form: Literal["file", "example", "stream"]
    """A file or folder, a data set of the package, or standard input."""
    kind: str
    """How the file was read, such as "CSV, comma"."""
    n_rows: int
    n_columns: int
    n_missing: int | None
    """None where it was not counted before the fit."""
    by_blocks: bool = False
    """Was the file too large to be read as a whole?"""
    names: tuple[str, ...] = ()
    """Columns that are analysed."""
    options: ReadOptions = ReadOptions()
    notes: tuple[str, ...] = ()
    """What the reader had to assume."""
    dropped: tuple[DroppedColumn, ...] = ()
    excluded: tuple[str, ...] = ()
    """Columns that were left out on request."""
    n_empty_rows: int = 0
    """Rows without any value, which were dropped before the fit."""


@dataclass(frozen=True)
class Provenance:
    """What a reader needs to know, and to do, to come to the same fit."""

    settings: FitSettings
    data: DataProvenance | None
    """None if nothing more is known than rows and columns."""
    command: str
    """The command line; empty if the fit was made in Python."""
    warnings: tuple[FitWarning, ...]
    versions: tuple[tuple[str, str], ...]
    """Of the packages that made the fit."""


def with_warnings(provenance: Provenance, warnings: tuple[FitWarning, ...]) -> Provenance:
    """The same with these warnings too."""
    return replace(provenance, warnings=provenance.warnings + warnings)


class Origin(NamedTuple):
    """What a caller of the model knows of the data, besides their values."""

    data: DataProvenance | None = None
    command: str = ""
    warnings: tuple[FitWarning, ...] = ()


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Of Python and the packages that numbers depend on, as they are now."""
    found = [("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:  # the modules are there without the package
            continue
    return tuple(found)
