"""Records as JSON: dataclasses and named tuples, written and checked by the types of their fields.

A field of a dataclass with the metadata `in_files=False` is not written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from cuspfa.errors import FileError, InputError
from cuspfa.io import schema


class Codec(NamedTuple):
    """How values of one type are written, and how they are checked when they are read."""

    out: Callable[[Any], Any]
    check: schema.JsonKind


Codecs = dict[str, Codec]
Known = Mapping[type, Codec]
"""Types with codecs of their own."""
PLAIN: dict[type, Codec] = {
    int: Codec(int, schema.as_count),
    float: Codec(schema.number_out, schema.as_number),
    str: Codec(str, schema.as_text),
    bool: Codec(bool, schema.as_flag),
}


def fields_out(value: Any, codecs: Codecs) -> dict[str, Any]:
    """Attributes with these codecs, as JSON has them."""
    return {name: codec.out(getattr(value, name)) for name, codec in codecs.items()}


def checks(codecs: Codecs) -> dict[str, schema.JsonKind]:
    """The check of each entry."""
    return {name: codec.check for name, codec in codecs.items()}


def field_codecs(record: type, known: Known, *, leave_out: tuple[str, ...] = ()) -> Codecs:
    """Codecs of the fields of a dataclass or a named tuple, by their types."""
    if dataclasses.is_dataclass(record):
        kept = [one for one in dataclasses.fields(record) if one.metadata.get("in_files", True)]
        names = [one.name for one in kept]
    else:
        names = list(record._fields)  # type: ignore[attr-defined]
    hints = get_type_hints(record, localns={one.__name__: one for one in known})
    return {name: codec_of(hints[name], known) for name in names if name not in leave_out}


def record_codec(record: type, known: Known = PLAIN, **own: Codec) -> Codec:
    """The codec of a dataclass or a named tuple; `own` has codecs of single fields."""
    codecs = field_codecs(record, known, leave_out=tuple(own)) | own
    expected = checks(codecs)
    return Codec(
        lambda value: fields_out(value, codecs),
        lambda name, value: made(record, schema.fields(name, value, expected)),
    )


def codec_of(hint: Any, known: Known) -> Codec:
    """The codec of a type."""
    if hint in known:
        return known[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return Codec(str, schema.word(*inner))
    if origin in (UnionType, Union) and NoneType in inner and len(inner) == 2:
        return optional(codec_of(next(one for one in inner if one is not NoneType), known))
    if origin is tuple:
        return _tuple_codec(codec_of(inner[0], known), None if inner[1] is ... else len(inner))
    return record_codec(hint, known)


def optional(codec: Codec) -> Codec:
    """The codec of None, or of a value with this codec."""
    return Codec(
        lambda value: None if value is None else codec.out(value), schema.nullable(codec.check)
    )


def _tuple_codec(each: Codec, length: int | None) -> Codec:
    """The codec of a tuple of values of one type, of a fixed length or of any."""
    checked = schema.list_of(each.check)

    def check(name: str, value: Any) -> tuple[Any, ...]:
        found = checked(name, value)
        if length is not None and len(found) != length:
            raise schema.wrong(name, value)
        return tuple(found)

    return Codec(lambda value: [each.out(one) for one in value], check)


def made(record: type, values: dict[str, Any]) -> Any:
    """The record of checked values, or a FileError where it refuses them."""
    try:
        return record(**values)
    except InputError as error:
        raise FileError(f"is damaged: {str(error).removesuffix('.')}") from None
