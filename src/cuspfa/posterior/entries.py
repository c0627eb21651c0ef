"""Entries of `fit.json` that posteriors of every kind have: how each is written and checked.

The checks of single values are in `cuspfa.io.schema`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cuspfa._typing import Array
from cuspfa.data.in_memory import RotatedRows
from cuspfa.errors import FileError, InputError
from cuspfa.inference.kernels import Statistics
from cuspfa.io import plausibility
from cuspfa.io import schema as json_kinds
from cuspfa.missing.saturated import Effective
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import SLABS, Slab
from cuspfa.posterior.fit_info import FitInfo, SearchEntry, SearchPath
from cuspfa.posterior.provenance_entries import Parts, provenance_kind, provenance_out
from cuspfa.rotation.gpa import Rotation

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

# --- the entries of fit.json ---

_FIELD_KINDS: dict[type, json_kinds.Kind] = {float: json_kinds.number, bool: json_kinds.flag}
"""Fields that a slab may have."""
_ENTRY: dict[str, json_kinds.Kind] = {
    "n_factors": json_kinds.count,
    "lower_bound": json_kinds.number,
    "evidence": json_kinds.number,
    "evidence_error": json_kinds.number,
    "tied": json_kinds.flag,
    "weight": json_kinds.number,
    "n_iter": json_kinds.count,
    "status": json_kinds.text,
}
_FIT_INFO: dict[str, json_kinds.Kind] = {
    "method": json_kinds.text,
    "lower_bound": json_kinds.number,
    "status": json_kinds.text,
    "converged": json_kinds.flag,
    "n_iter": json_kinds.count,
}


# --- as JSON has them ---


def shared_out(posterior: Posterior, **own: Any) -> dict[str, Any]:
    """The entries that posteriors of every kind have, then those of its own."""
    return {
        "n_rows": int(posterior.n_rows),
        "n_columns": len(posterior.scale),
        "names": None if posterior.names is None else list(posterior.names),
        "prior": plain_values(posterior.prior, _PRIOR),
        "rotation": _rotation_out(posterior.rotation),
        "provenance": provenance_out(posterior.provenance, _PARTS),
        "kind": posterior.kind,
        **own,
    }


def statistics_out(statistics: Statistics) -> tuple[dict[str, Any], Array]:
    """What kind they are, and their numbers."""
    if not isinstance(statistics, RotatedRows):
        raise InputError(
            f"Statistics of type {type(statistics).__name__} cannot be saved. Leave them out: "
            "statistics=False."
        )
    if statistics.gram is not None:
        array, word = statistics.gram, "gram"
    else:
        array, word = statistics.rows, "rows"
    return {"type": word, "n_rows": len(array), "n": json_kinds.number_out(statistics.n)}, array


def plain_values(thing: Any, kinds: dict[str, json_kinds.Kind]) -> dict[str, Any]:
    """Attributes of these kinds, as JSON has them."""
    return {name: _OUT[kind](getattr(thing, name)) for name, kind in kinds.items()}


def _slab_out(slab: Slab) -> dict[str, Any]:
    word = type(slab).__name__
    if SLABS.get(word) is not type(slab):
        raise InputError(f"A slab of type {word} cannot be saved.")
    return {"type": word, **plain_values(slab, _slab_kinds(type(slab)))}


def _slab_kinds(slab: type[Slab]) -> dict[str, json_kinds.Kind]:
    return {name: _FIELD_KINDS[kind] for name, kind in slab.field_types().items()}


def _rotation_out(rotation: Rotation | None) -> dict[str, Any] | None:
    """The axes of a posterior, as JSON has them."""
    if rotation is None:
        return None
    target = None if rotation.target is None else [list(row) for row in rotation.target]
    return {**plain_values(rotation, _ROTATION), "target": target}


def fit_info_out(fit_info: FitInfo | None) -> dict[str, Any] | None:
    """How a fit went, as JSON has it; without its trace."""
    if fit_info is None:
        return None
    search = [plain_values(entry, _ENTRY) for entry in fit_info.search]
    return {**plain_values(fit_info, _FIT_INFO), "n_trace": len(fit_info.trace), "search": search}


# --- as they are read ---


def slab_in(name: str, value: Any) -> Slab:
    """A slab, checked."""
    word = value.get("type") if isinstance(value, dict) else None
    if not isinstance(word, str) or word not in SLABS:
        raise json_kinds.wrong(name, word)
    made = SLABS[word]
    values = json_kinds.fields(name, value, {"type": json_kinds.text, **_slab_kinds(made)})
    del values["type"]
    slab: Slab = _made(made, values)
    return slab


def _prior(name: str, value: Any) -> CuspPrior:
    prior: CuspPrior = _made(CuspPrior, json_kinds.fields(name, value, _PRIOR))
    return prior


def _rotation(name: str, value: Any) -> Rotation:
    row = json_kinds.list_of(json_kinds.optional(json_kinds.number))
    target = json_kinds.optional(json_kinds.list_of(row))
    values = json_kinds.fields(name, value, {**_ROTATION, "target": target})
    rotation: Rotation = _made(Rotation, values)
    return rotation


def _made(what: type, values: dict[str, Any]) -> Any:
    try:
        return what(**values)
    except InputError as error:
        raise FileError(f"is damaged: {str(error).removesuffix('.')}") from None


def _statistics(name: str, value: Any) -> dict[str, Any]:
    kinds = {
        "type": json_kinds.word("gram", "rows"),
        "n_rows": json_kinds.count,
        "n": json_kinds.positive,
    }
    return json_kinds.fields(name, value, kinds)


def missing_in(name: str, value: Any) -> dict[str, Any]:
    """What is kept of incomplete data, checked."""
    kinds: dict[str, json_kinds.Kind] = {
        "correlation": json_kinds.flag,
        "effective": json_kinds.optional(json_kinds.list_of(json_kinds.positive, 2)),
    }
    found = json_kinds.fields(name, value, kinds)
    known = found["effective"]
    if known is not None and (len(known) < 2 or not found["correlation"]):
        raise json_kinds.wrong(name, known)
    return found


def missing_out(correlation: Array | None, effective: Effective | None) -> dict[str, Any]:
    """The same, as JSON has it."""
    known = None
    if correlation is not None and effective is not None:
        known = [json_kinds.number_out(value) for value in effective]
    return {"correlation": correlation is not None, "effective": known}


def effective_of(missing: dict[str, Any] | None) -> Effective | None:
    """From checked values."""
    return (
        None
        if missing is None or missing["effective"] is None
        else Effective(*missing["effective"])
    )


def fit_info_in(name: str, value: Any) -> dict[str, Any] | None:
    """How a fit went, checked."""
    if value is None:
        return None
    return json_kinds.fields(
        name,
        value,
        {**_FIT_INFO, "n_trace": json_kinds.count, "search": json_kinds.list_of(_entry)},
    )


def _entry(name: str, value: Any) -> dict[str, Any]:
    return json_kinds.fields(name, value, _ENTRY)


_spike = json_kinds.optional(json_kinds.number)
_PRIOR: dict[str, json_kinds.Kind] = {
    "alpha": json_kinds.number,
    "slab": slab_in,
    "spike": _spike,
    "noise_shape": json_kinds.number,
    "noise_rate": json_kinds.number,
    "stick_shape": json_kinds.number,
}
_choice = json_kinds.optional(json_kinds.flag)
_ROTATION: dict[str, json_kinds.Kind] = {
    "method": json_kinds.text,
    "oblique": _choice,
    "normalize": _choice,
    "gamma": json_kinds.number,
    "power": json_kinds.number,
    "delta": json_kinds.number,
    "n_starts": json_kinds.count,
    "random_state": json_kinds.count,
}
_PARTS = Parts(lambda prior: plain_values(prior, _PRIOR), _prior, _rotation_out, _rotation)
SHARED_KINDS: dict[str, json_kinds.Kind] = {
    "format": json_kinds.text,
    "kind": json_kinds.text,
    "version": json_kinds.count,
    "library": json_kinds.text,
    "n_rows": json_kinds.count,
    "n_columns": json_kinds.count,
    "names": json_kinds.optional(json_kinds.list_of(json_kinds.text)),
    "prior": _prior,
    "rotation": json_kinds.optional(_rotation),
    "provenance": json_kinds.optional(provenance_kind(_PARTS)),
    "statistics": json_kinds.optional(_statistics),
    "scores": json_kinds.flag,
}
"""Entries that posteriors of every kind have."""
_OUT: dict[json_kinds.Kind, Callable[[Any], Any]] = {
    json_kinds.count: int,
    json_kinds.number: json_kinds.number_out,
    json_kinds.share: json_kinds.number_out,
    json_kinds.text: str,
    json_kinds.flag: bool,
    _spike: lambda value: None if value is None else json_kinds.number_out(value),
    _choice: lambda value: None if value is None else bool(value),
    slab_in: _slab_out,
    fit_info_in: fit_info_out,
}
"""How a value of each kind is written."""


def statistics_of(known: dict[str, Any] | None, arrays: dict[str, Array]) -> Statistics | None:
    """Cross-products or rotated rows, from checked values."""
    if known is None:
        return None
    rows, is_gram = arrays["statistics"], known["type"] == "gram"
    plausibility.check_statistics(rows, is_gram=is_gram)
    return RotatedRows(rows if is_gram else None, None if is_gram else rows, known["n"])


def fit_info_of(known: dict[str, Any] | None, trace: Array | None) -> FitInfo | None:
    """How a fit went, from checked values."""
    if known is None:
        return None
    search = SearchPath(SearchEntry(**entry) for entry in known["search"])
    values = {name: value for name, value in known.items() if name != "n_trace"}
    return FitInfo(**values | {"trace": trace, "search": search})
