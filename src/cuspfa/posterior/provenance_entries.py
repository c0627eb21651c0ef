"""What `fit.json` says of the provenance of a fit: how each value is written and checked."""

from __future__ import annotations

from typing import Any, Literal

from cuspfa._typing import MeanTreatment
from cuspfa._utils.fit_warning import FitWarning, PossibleMissingCode
from cuspfa._utils.spelling import EngineSettings
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.io import records, schema
from cuspfa.io.records import PLAIN, Codec
from cuspfa.model.likelihoods.kinds import LikelihoodSetting, is_setting
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.model_entries import PRIOR, ROTATION, as_model_error
from cuspfa.posterior.provenance import FitSettings, Provenance
from cuspfa.rotation.gpa import Rotation


def unchanged(value: Any) -> Any:
    """A value that JSON has as it is."""
    return value


# --- warnings ---


_NOTE_CODECS: dict[type, Codec] = {one: records.record_codec(one) for one in (Note, DroppedColumn)}
_KINDS = {kind.code: kind for kind in FitWarning.__subclasses__() if kind.kept}
_WARNINGS = {
    code: records.field_codecs(kind, {**PLAIN, **_NOTE_CODECS}) for code, kind in _KINDS.items()
}
# No cell of the data is in a file.
_WARNINGS[PossibleMissingCode.code]["value"] = Codec(unchanged, schema.as_null)


def _warning_out(warning: FitWarning) -> dict[str, Any]:
    return {"code": warning.code, **records.fields_out(warning, _WARNINGS[warning.code])}


def _warning_in(name: str, value: Any) -> FitWarning:
    code = value.get("code") if isinstance(value, dict) else None
    if not isinstance(code, str) or code not in _WARNINGS:
        raise schema.wrong(name, code)
    expected = {"code": schema.as_text, **records.checks(_WARNINGS[code])}
    found = schema.fields(name, value, expected)
    del found["code"]
    return _KINDS[code](**found)


# --- engines ---


_ENGINE_SETTINGS: dict[str, dict[str, Any]] = {
    "variational": {
        "tol": float,
        "max_iter": int,
        "init": Literal["spectral", "random"],
        "criterion": Literal["evidence", "collapsed", "bound"],
        "n_init": int,
        "max_factors": int,
        "max_time": float,
        "mean": MeanTreatment,
    },
    "gibbs": {
        "n_draws": int,
        "n_chains": int,
        "burn_in": int,
        "thin": int,
        "adaptive": bool,
        "start_adapt": int,
        "adapt_rate": tuple[float, float],
        "max_columns": int,
        "scale_rotation_every": int,
        "init": Literal["variational", "random"],
        "mean": MeanTreatment,
        "max_time": float,
    },
}
"""Settings of engines and their types; the defaults are not written."""
_ENGINE_CODECS: dict[str, records.Codecs] = {
    engine: {name: records.codec_of(hint, PLAIN) for name, hint in settings.items()}
    for engine, settings in _ENGINE_SETTINGS.items()
}


def _engine_out(engine: EngineSettings) -> dict[str, Any]:
    codecs = _ENGINE_CODECS[engine.name]
    values = {name: codecs[name].out(value) for name, value in engine.values.items()}
    return {"name": engine.name, "values": values}


def _engine_in(name: str, value: Any) -> EngineSettings:
    found = schema.fields(
        name, value, {"name": schema.word(*_ENGINE_CODECS), "values": _settings_in}
    )
    known, values = _ENGINE_CODECS[found["name"]], found["values"]
    unknown = values.keys() - known.keys()
    if unknown:
        raise schema.wrong(name, min(unknown))
    expected = {setting: known[setting].check for setting in values}
    return EngineSettings(found["name"], schema.fields(name, values, expected))


def _settings_in(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise schema.wrong(name, value)
    return value


# --- the whole ---


def as_seed(name: str, value: Any) -> Any:
    """A whole number of any size, null, or a generator."""
    if value is None or value == "generator" or (type(value) is int and value >= 0):
        return value
    raise schema.wrong(name, value)


def as_number_of_factors(name: str, value: Any) -> Any:
    """A whole number, or "auto"."""
    return value if value == "auto" else schema.as_count(name, value)


def _model_error(name: str, value: Any) -> Any:
    return value if value == "auto" else as_model_error(name, value)


def _likelihood_out(setting: LikelihoodSetting) -> Any:
    return setting if isinstance(setting, str) else [list(pair) for pair in setting]


def _likelihood_in(name: str, value: Any) -> LikelihoodSetting:
    """A word, or pairs of a column and a word."""
    found: Any = value
    if isinstance(value, list):
        pairs = schema.list_of(schema.list_of(schema.as_text, 2))(name, value)
        if any(len(pair) != 2 for pair in pairs):
            raise schema.wrong(name, value)
        found = tuple((column, word) for column, word in pairs)
    elif not isinstance(value, str):
        raise schema.wrong(name, value)
    if not is_setting(found):
        raise schema.wrong(name, value)
    setting: LikelihoodSetting = found
    return setting


PARTS: dict[type, Codec] = {
    **PLAIN,
    **_NOTE_CODECS,
    EngineSettings: Codec(_engine_out, _engine_in),
    CuspPrior: PRIOR,
    Rotation: ROTATION,
    FitWarning: Codec(_warning_out, _warning_in),
}
"""Codecs of the values that a provenance is made of."""
_FIT_SETTINGS = records.record_codec(
    FitSettings,
    PARTS,
    n_factors=Codec(unchanged, as_number_of_factors),
    model_error=Codec(unchanged, _model_error),
    random_state=Codec(unchanged, as_seed),
    likelihood=Codec(_likelihood_out, _likelihood_in),
)
PROVENANCE = records.record_codec(Provenance, {**PARTS, FitSettings: _FIT_SETTINGS})
