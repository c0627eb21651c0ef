"""Python code that makes a fit again, from its provenance; with public names alone."""

from __future__ import annotations

from cuspfa._utils.fit_warning_text import CLASSES, engine_code
from cuspfa.posterior.provenance import DataProvenance, FitSettings, Provenance, ReadOptions
from cuspfa.rotation.gpa import Rotation, as_rotation


def python_recipe(provenance: Provenance) -> str:
    """Imports, data, fit and report."""
    names, before, data = _data(provenance.data)
    settings = provenance.settings
    note = "  # your data" if data == "X" and not before else ""
    lines = [
        f"from cuspfa import {', '.join(sorted({*names, *_names(settings)}))}",
        "",
        *before,
        f"model = {_model(settings)}.fit({data}){note}",
        'model.posterior_.report("report.html")',
    ]
    return "\n".join(lines)


def _data(data: DataProvenance | None) -> tuple[list[str], list[str], str]:
    """Names to import, lines before the fit, and what is fitted."""
    if data is None or data.form == "stream":
        return [], [], "X"
    if data.form == "example":
        lines = ['X = datasets.load_bfi(subset="items", as_frame=True).data']
        if data.options.columns or data.options.exclude:
            lines.append(f"X = X[{list(data.names)!r}]")
        return ["datasets"], lines, "X"
    if data.options == ReadOptions():
        return [], [], repr(data.source)
    arguments = [repr(data.source), *_reading(data)]
    return ["read_table"], [f"table = read_table({', '.join(arguments)})"], "table"


def _reading(data: DataProvenance) -> list[str]:
    """Options of reading that were given, with the names of columns written out."""
    options = data.options
    given = {
        "columns": list(data.names) if options.columns else None,
        "exclude": list(data.excluded) if options.exclude and not options.columns else None,
        "id_column": options.id_column,
        "missing": list(options.missing) or None,
        "header": options.header,
        "decimal": options.decimal,
        "memory_limit": options.memory_limit,
    }
    return [f"{name}={value!r}" for name, value in given.items() if value is not None]


def _names(settings: FitSettings) -> set[str]:
    """Names that the model is written with."""
    names = {"CuspFactorAnalysis"}
    if settings.engine.values:
        names.add(CLASSES[settings.engine.name])
    if settings.prior is not None:
        names |= {"CuspPrior", type(settings.prior.slab).__name__}
    if settings.rotation is not None and not _plain(settings.rotation):
        names.add("Rotation")
    return names


def _model(settings: FitSettings) -> str:
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
    if settings.rotation is not None:
        plain = _plain(settings.rotation)
        given["rotation"] = repr(settings.rotation.method if plain else settings.rotation)
    if isinstance(settings.random_state, int):
        given["random_state"] = str(settings.random_state)
    return f"CuspFactorAnalysis({', '.join(f'{name}={value}' for name, value in given.items())})"


def _plain(rotation: Rotation) -> bool:
    """Does the method's name alone say it?"""
    return rotation.target is None and rotation == as_rotation(rotation.method)
