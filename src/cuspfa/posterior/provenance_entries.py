"""What `fit.json` says of the provenance of a fit: how each value is written and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuspfa._utils.fit_warning import (
    AtLedermannBound,
    BoundDecreased,
    ChainsNotConverged,
    Column,
    ColumnLimitReached,
    EmptyFactors,
    EmptyRows,
    EngineSettings,
    EvidenceRising,
    FactorLimitReached,
    FitWarning,
    InactiveFactors,
    IterationLimit,
    NearConstant,
    NeverCoObserved,
    OutOfTime,
    PossibleMissingCode,
    ReadingNote,
    SamplerOutOfTime,
    SingleValueRows,
    TooFewDraws,
)
from cuspfa.io.schema import (
    Kind,
    count,
    fields,
    flag,
    list_of,
    number,
    number_out,
    optional,
    text,
    word,
    wrong,
)
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.provenance import (
    DataProvenance,
    DroppedColumn,
    FitSettings,
    Provenance,
    ReadOptions,
)
from cuspfa.rotation.gpa import Rotation


@dataclass(frozen=True)
class Parts:
    """How priors and rotations are written and read, which a fit has besides its provenance."""

    prior_out: Callable[[CuspPrior], dict[str, Any]]
    prior: Kind
    rotation_out: Callable[[Rotation | None], dict[str, Any] | None]
    rotation: Kind


# --- kinds ---


def _tuple_of(each: Kind) -> Kind:
    checked = list_of(each)
    return lambda name, value: tuple(checked(name, value))


def _nothing(name: str, value: Any) -> None:
    """No cell of the data is in a file."""
    if value is not None:
        raise wrong(name, value)


def _seed(name: str, value: Any) -> Any:
    """A whole number of any size, null, or a generator."""
    if value is None or value == "generator" or (type(value) is int and value >= 0):
        return value
    raise wrong(name, value)


def _n_factors(name: str, value: Any) -> Any:
    return value if value == "auto" else count(name, value)


def _column(name: str, value: Any) -> Column:
    return Column(**fields(name, value, {"index": count, "name": optional(text)}))


def _two_numbers(name: str, value: Any) -> tuple[float, ...]:
    found = list_of(number, 2)(name, value)
    if len(found) != 2:
        raise wrong(name, value)
    return tuple(found)


_maybe_number = optional(number)
_WARNINGS: dict[type[FitWarning], dict[str, Kind]] = {
    ReadingNote: {"text": text},
    PossibleMissingCode: {
        "columns": _tuple_of(text),
        "count": count,
        "by_blocks": flag,
        "value": _nothing,
    },
    EmptyRows: {"n_dropped": count, "n_rows": count},
    NearConstant: {"columns": _tuple_of(_column), "n_differ": count, "n_rows": count},
    NeverCoObserved: {"n_pairs": count, "first": _column, "second": _column},
    SingleValueRows: {"n_single": count, "n_rows": count},
    InactiveFactors: {"n_factors": count, "n_active": count, "spike": _maybe_number},
    EmptyFactors: {"n_factors": count, "n_empty": count},
    AtLedermannBound: {"n_factors": count, "n_columns": count},
    FactorLimitReached: {
        "limit": count,
        "default_limit": count,
        "given": flag,
        "rise": _maybe_number,
    },
    EvidenceRising: {"rise": number},
    ColumnLimitReached: {"max_columns": count},
    IterationLimit: {"max_iter": count, "tol": number},
    OutOfTime: {"max_time": number, "n_factors_given": flag, "rise": _maybe_number},
    BoundDecreased: {},
    SamplerOutOfTime: {"max_time": _maybe_number},
    ChainsNotConverged: {
        "r_hat": _maybe_number,
        "quantity": optional(text),
        "n_draws": count,
        "thin": count,
    },
    TooFewDraws: {"effective_size": number, "quantity": text, "n_draws": count, "thin": count},
}
"""Fields of warnings. A long fit is announced before it begins, and not kept."""
_CODES = {kind.code: kind for kind in _WARNINGS}
_ENGINES: dict[str, dict[str, Kind]] = {
    "variational": {
        "tol": number,
        "max_iter": count,
        "init": word("spectral", "random"),
        "criterion": word("evidence", "collapsed", "bound"),
        "n_init": count,
        "max_factors": count,
        "max_time": number,
        "mean": word("flat", "plug-in"),
    },
    "gibbs": {
        "n_draws": count,
        "n_chains": count,
        "burn_in": count,
        "thin": count,
        "adaptive": flag,
        "start_adapt": count,
        "adapt_rate": _two_numbers,
        "max_columns": count,
        "scale_rotation_every": count,
        "init": word("variational", "random"),
        "mean": word("flat", "plug-in"),
        "max_time": number,
    },
}
"""Settings of engines; the defaults are not written."""
_OPTIONS: dict[str, Kind] = {
    "columns": _tuple_of(text),
    "exclude": _tuple_of(text),
    "id_column": optional(text),
    "missing": _tuple_of(text),
    "header": optional(flag),
    "decimal": optional(text),
    "memory_limit": optional(text),
}


def _options(name: str, value: Any) -> ReadOptions:
    return ReadOptions(**fields(name, value, _OPTIONS))


def _dropped(name: str, value: Any) -> DroppedColumn:
    return DroppedColumn(**fields(name, value, {"name": text, "reason": text}))


_DATA: dict[str, Kind] = {
    "source": text,
    "form": word("file", "example", "stream"),
    "kind": text,
    "n_rows": count,
    "n_columns": count,
    "n_missing": optional(count),
    "by_blocks": flag,
    "names": _tuple_of(text),
    "options": _options,
    "notes": _tuple_of(text),
    "dropped": _tuple_of(_dropped),
    "excluded": _tuple_of(text),
    "n_empty_rows": count,
}


# --- as JSON has them ---


def provenance_out(provenance: Provenance | None, parts: Parts) -> dict[str, Any] | None:
    """Where a fit came from, as JSON has it."""
    if provenance is None:
        return None
    settings, data = provenance.settings, provenance.data
    prior = settings.prior
    return {
        "settings": {
            "engine": _engine_out(settings.engine),
            "n_factors": settings.n_factors,
            "prior": None if prior is None else parts.prior_out(prior),
            "standardize": settings.standardize,
            "rotation": parts.rotation_out(settings.rotation),
            "random_state": settings.random_state,
        },
        "data": None if data is None else _data_out(data),
        "command": provenance.command,
        "warnings": [_warning_out(one) for one in provenance.warnings],
        "versions": [list(pair) for pair in provenance.versions],
    }


def _engine_out(engine: EngineSettings) -> dict[str, Any]:
    kinds = _ENGINES[engine.name]
    values = {name: _setting_out(kinds[name], value) for name, value in engine.values.items()}
    return {"name": engine.name, "values": values}


def _setting_out(kind: Kind, value: Any) -> Any:
    if kind is _two_numbers:
        return [number_out(one) for one in value]
    return number_out(value) if kind is number else value


def _warning_out(warning: FitWarning) -> dict[str, Any]:
    known = warning.to_dict().items()
    return {name: number_out(one) if type(one) is float else one for name, one in known}


def _data_out(data: DataProvenance) -> dict[str, Any]:
    options = {name: _plain(getattr(data.options, name)) for name in _OPTIONS}
    dropped = [{"name": one.name, "reason": one.reason} for one in data.dropped]
    found = {name: _plain(getattr(data, name)) for name in _DATA}
    return {**found, "options": options, "dropped": dropped}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# --- as they are read ---


def provenance_kind(parts: Parts) -> Kind:
    """Where a fit came from, checked."""
    settings_kinds: dict[str, Kind] = {
        "engine": _engine,
        "n_factors": _n_factors,
        "prior": optional(parts.prior),
        "standardize": flag,
        "rotation": optional(parts.rotation),
        "random_state": _seed,
    }

    def settings(name: str, value: Any) -> FitSettings:
        return FitSettings(**fields(name, value, settings_kinds))

    kinds: dict[str, Kind] = {
        "settings": settings,
        "data": optional(_data),
        "command": text,
        "warnings": _tuple_of(_warning),
        "versions": _tuple_of(_pair),
    }
    return lambda name, value: Provenance(**fields(name, value, kinds))


def _engine(name: str, value: Any) -> EngineSettings:
    found = fields(name, value, {"name": word(*_ENGINES), "values": _settings})
    known, values = _ENGINES[found["name"]], found["values"]
    unknown = values.keys() - known.keys()
    if unknown:
        raise wrong(name, min(unknown))
    kinds = {setting: known[setting] for setting in values}
    return EngineSettings(found["name"], fields(name, values, kinds))


def _settings(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise wrong(name, value)
    return value


def _data(name: str, value: Any) -> DataProvenance:
    return DataProvenance(**fields(name, value, _DATA))


def _warning(name: str, value: Any) -> FitWarning:
    code = value.get("code") if isinstance(value, dict) else None
    if not isinstance(code, str) or code not in _CODES:
        raise wrong(name, code)
    kind = _CODES[code]
    found = fields(name, value, {"code": text, **_WARNINGS[kind]})
    del found["code"]
    return kind(**found)


def _pair(name: str, value: Any) -> tuple[str, str]:
    found = list_of(text, 2)(name, value)
    if len(found) != 2:
        raise wrong(name, value)
    return found[0], found[1]
