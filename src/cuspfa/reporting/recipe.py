"""Python code that repeats a fit, from its provenance, with public names only."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cuspfa._utils.fit_warning_text import CLASSES, engine_code
from cuspfa.data.provenance import DataProvenance
from cuspfa.data.tables.read_options import ReadOptions
from cuspfa.data.tables.triangles import MATRIX_FILES
from cuspfa.model.likelihoods.kinds import GIVEN_OFFSET, from_setting
from cuspfa.posterior.error_curve import CurvePoint
from cuspfa.posterior.provenance import FitSettings, Provenance
from cuspfa.rotation.gpa import Rotation, as_rotation

if TYPE_CHECKING:
    from cuspfa.posterior.presentation import Presentation


def python_recipe(provenance: Provenance, shown: Presentation | None = None) -> str:
    """Imports, data, fit, names and signs of the factors, and report."""
    names, before, data = _data_code(provenance.data)
    settings = provenance.settings
    note = "  # your data" if data == "X" and not before else ""
    lines = [
        f"from cuspfa import {', '.join(sorted({*names, *_imported_names(settings)}))}",
        "",
        *before,
        f"model = {_model_code(settings)}.fit({data}){note}",
        *_shown_code(shown),
    ]
    return "\n".join(lines)


def _shown_code(shown: Presentation | None) -> list[str]:
    changes = []
    if shown is not None and shown.factor_names:
        changes.append(f"with_factor_names({list(shown.factor_names)!r})")
    if shown is not None and shown.reversed_factors:
        changes.append(f"with_reversed_factors({list(shown.reversed_factors)!r})")
    lines, place = [], "model.posterior_"
    for change in changes:
        lines.append(f"posterior = {place}.{change}")
        place = "posterior"
    return [*lines, f'{place}.report("report.html")']


def _data_code(data: DataProvenance | None) -> tuple[list[str], list[str], str]:
    """Names to import, lines before the fit, and what is fitted."""
    if data is None or data.form == "stream":
        return [], [], "X"
    if data.form == "example":
        lines = ['X = datasets.load_bfi(subset="items", as_frame=True).data']
        if data.options.columns or data.options.exclude:
            lines.append(f"X = X[{list(data.names)!r}]")
        return ["datasets"], lines, "X"
    if data.kind in MATRIX_FILES:
        kind = MATRIX_FILES[data.kind]
        arguments = [repr(data.source), *_reading_arguments(data), f"kind={kind!r}"]
        return ["read_moments"], [f"moments = read_moments({', '.join(arguments)})"], "moments"
    if data.options == ReadOptions() and not _covariates(data):
        return [], [], repr(data.source)
    arguments = [repr(data.source), *_reading_arguments(data)]
    return ["read_table"], [f"table = read_table({', '.join(arguments)})"], "table"


def _reading_arguments(data: DataProvenance) -> list[str]:
    """Options of reading that were given, with the names of columns written out."""
    options = data.options
    unwanted = [*(data.excluded if options.exclude else ()), *_covariates(data)]
    given = {
        "columns": list(data.names) if options.columns else None,
        "exclude": unwanted if unwanted and not options.columns else None,
        "id_column": options.id_column,
        "missing": list(options.missing) or None,
        "header": options.header,
        "decimal": options.decimal,
        "memory_limit": options.memory_limit,
        "sheet": options.sheet,
        "order": [list(one) for one in options.order] or None,
        "n": options.n,
        "means": options.means and [float(one) for one in options.means.split(",")],
        "sds": options.sds and [float(one) for one in options.sds.split(",")],
    }
    return [f"{name}={value!r}" for name, value in given.items() if value is not None]


def _covariates(data: DataProvenance) -> list[str]:
    """Columns that the program leaves out, and the library does not."""
    return [one.name for one in data.dropped if one.code == "covariate"]


def _imported_names(settings: FitSettings) -> set[str]:
    """Names that the model is written with."""
    names = {"CuspFactorAnalysis"}
    if settings.engine.values:
        names.add(CLASSES[settings.engine.name])
    if settings.prior is not None:
        names |= {"CuspPrior", type(settings.prior.slab).__name__}
    if settings.rotation is not None and not _is_named(settings.rotation):
        names.add("Rotation")
    if "Ordinal(" in repr(from_setting(settings.likelihood)):
        names.add("Ordinal")
    return names


def _model_code(settings: FitSettings) -> str:
    """The model, without parameters that have their defaults."""
    given = {}
    if settings.n_factors != "auto":
        given["n_factors"] = str(settings.n_factors)
    if settings.engine.values:
        given["method"] = engine_code(settings.engine)
    elif settings.engine.name != "variational":
        given["method"] = repr(settings.engine.name)
    if settings.prior is not None:
        given["prior"] = repr(settings.prior)
    if not settings.standardize:
        given["standardize"] = "False"
    if settings.model_error != 0.0:
        given["model_error"] = repr(settings.model_error)
    if settings.likelihood != "gaussian":
        given["likelihood"] = repr(from_setting(settings.likelihood))
    if settings.offset not in (None, GIVEN_OFFSET):
        given["offset"] = repr(settings.offset)
    if settings.robust:
        given["robust"] = "True"
    if settings.rotation is not None:
        plain = _is_named(settings.rotation)
        given["rotation"] = repr(settings.rotation.method if plain else settings.rotation)
    if isinstance(settings.random_state, int):
        given["random_state"] = str(settings.random_state)
    return f"CuspFactorAnalysis({', '.join(f'{name}={value}' for name, value in given.items())})"


NEXT_ROTATION = "oblimin"
"""Axes of the factors that a next step shows: those on which factors are usually named."""
WRITTEN, UNSAVED = ("-o", "--report", "--loadings"), "--no-statistics"
"""Options of a command that write files; the next command writes none."""
OF_FACTORS = ("--names", "--reverse")
"""Options about the factors of one fit; the next has others."""


class NextStep(NamedTuple):
    """The fit with a tolerated model error."""

    command: str
    """The whole command; empty if the fit was made in Python."""
    python: str
    """Python code."""
    model: str
    """The model alone, in Python."""


def next_step(
    provenance: Provenance | None, exact: CurvePoint | None, tolerated: CurvePoint | None
) -> NextStep | None:
    """How to fit the factors that remain with a tolerated error; None where there are no fewer."""
    if provenance is None or exact is None or tolerated is None:
        return None
    settings = provenance.settings
    known = settings.engine.name == "variational" and settings.n_factors == "auto"
    if not known or settings.model_error != 0.0 or not 0 < tolerated.n_factors < exact.n_factors:
        return None
    rotation = settings.rotation
    words = [*_without_files(shlex.split(provenance.command))]
    words += ["--model-error", f"{tolerated.model_error:g}"]
    if rotation is None and tolerated.n_factors > 1:
        rotation = as_rotation(NEXT_ROTATION)
        words += ["--rotation", NEXT_ROTATION]
    settings = replace(settings, model_error=tolerated.model_error, rotation=rotation)
    return NextStep(
        shlex.join(words) if provenance.command else "",
        python_recipe(replace(provenance, settings=settings)),
        f"{_model_code(settings)}.fit({_data_code(provenance.data)[2]})",
    )


def _without_files(words: list[str]) -> Iterator[str]:
    """A command line without the options that write files or are about its factors."""
    given = iter(words)
    for word in given:
        if word in WRITTEN + OF_FACTORS:
            next(given)
        elif word != UNSAVED:
            yield word


def _is_named(rotation: Rotation) -> bool:
    """Is the rotation fully given by the name of its method?"""
    return rotation.target is None and rotation == as_rotation(rotation.method)
