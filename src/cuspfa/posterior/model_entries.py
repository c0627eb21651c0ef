"""Slabs, priors, model errors and rotations in `fit.json`."""

from __future__ import annotations

from typing import Any

from cuspfa.errors import InputError
from cuspfa.io import records, schema
from cuspfa.io.records import PLAIN, Codec
from cuspfa.model.model_error import LARGEST_MODEL_ERROR, SMALLEST_MODEL_ERROR
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import SLABS, Slab
from cuspfa.rotation.gpa import Rotation


def _slab_codecs(slab: type[Slab]) -> records.Codecs:
    return {name: PLAIN[kind] for name, kind in slab.field_types().items()}


def _slab_out(slab: Slab) -> dict[str, Any]:
    word = type(slab).__name__
    if SLABS.get(word) is not type(slab):
        raise InputError(f"A slab of type {word} cannot be saved.")
    return {"type": word, **records.fields_out(slab, _slab_codecs(type(slab)))}


def _slab_in(name: str, value: Any) -> Slab:
    word = value.get("type") if isinstance(value, dict) else None
    if not isinstance(word, str) or word not in SLABS:
        raise schema.wrong(name, word)
    expected = {"type": schema.as_text, **records.checks(_slab_codecs(SLABS[word]))}
    values = schema.fields(name, value, expected)
    del values["type"]
    slab: Slab = records.made(SLABS[word], values)
    return slab


def _target_out(target: Any) -> list[list[float | None]]:
    return [list(row) for row in target]


def as_model_error(name: str, value: Any) -> float:
    """0, or a size that a fit can have."""
    size = schema.as_number(name, value)
    if size == 0.0 or SMALLEST_MODEL_ERROR <= size <= LARGEST_MODEL_ERROR:
        return size
    raise schema.wrong(name, value)


_target_row = schema.list_of(schema.nullable(schema.as_number))
SLAB = Codec(_slab_out, _slab_in)
PRIOR = records.record_codec(CuspPrior, {**PLAIN, Slab: SLAB})
ROTATION = records.record_codec(
    Rotation, target=records.optional(Codec(_target_out, schema.list_of(_target_row)))
)
