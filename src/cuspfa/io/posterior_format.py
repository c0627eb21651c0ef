"""Fitted posteriors as files: one zip of JSON and npy, without pickle.

The bytes of a file are in `archive.py`. Which entries and arrays there are depends on the kind of
posterior: each kind has a `Layout`, and this module knows no posterior.

Every later version of the format will begin with `fit.json`, not compressed, and a version in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be
from cuspfa.errors import FileError, InputError
from cuspfa.io import archive, plausibility
from cuspfa.io import schema as json_kinds
from cuspfa.io.archive import CONTENT, LARGEST, LARGEST_CONTENT
from cuspfa.io.atomic import as_path, check_writable, replacing

AnyPath = str | os.PathLike[str]
FORMAT, VERSION = "cuspfa-fit", 1
Content = dict[str, Any]
Arrays = dict[str, Array]
P = TypeVar("P", covariant=True)


class Layout(NamedTuple):
    """What the file of one kind of posterior holds."""

    kinds: dict[str, json_kinds.Kind]
    """The entries of `fit.json`, each with its check."""
    check: Callable[[Content], None]
    """Refuses values that contradict each other."""
    shapes: Callable[[Content], dict[str, tuple[int, ...]]]
    """The arrays, in their order."""


class Kind(Protocol, Generic[P]):
    """A class of posteriors that can be read from a file."""

    @property
    def layout(self) -> Layout:
        """Its entries and arrays."""

    def from_entries(self, content: Content, arrays: Arrays, /) -> P:
        """The posterior; entries are checked and shapes are right."""


def check_target(path: AnyPath) -> Path:
    """A path that a file can be written to, or an error before any work is done."""
    target = as_path(path)
    if target.exists() and not target.is_file():
        raise _not_a_file(target)
    check_writable("path", target)
    return target


def save(
    kind: Kind[P],
    content: Content,
    arrays: Arrays,
    target: Path,
    *,
    scores: Any = None,
    n_factors: int = 0,
) -> None:
    """Write entries and arrays to a file; see `Posterior.save`."""
    if scores is not None:
        arrays = {**arrays, "scores": _checked_scores(scores, content["n_rows"], n_factors)}
    about = {"format": FORMAT, "version": VERSION, "library": version("cuspfa")}
    content = {**about, **content, "scores": scores is not None}
    text = json.dumps(content, indent=1, allow_nan=False).encode()
    arrays = {name: archive.plain(array) for name, array in arrays.items()}
    try:
        checked = decode(text, {content["kind"]: kind})
        _rebuild(kind, checked, arrays)  # what is written can be read
    except FileError as error:
        raise InputError(f"This posterior {error}; so it cannot be saved.") from None
    members = {CONTENT: [memoryview(text)]}
    members |= {f"{name}.npy": archive.as_npy(arrays[name]) for name in kind.layout.shapes(checked)}
    total = archive.file_size({name: sum(map(len, parts)) for name, parts in members.items()})
    if total > LARGEST:
        raise InputError(
            f"The file would have {total:,} bytes, and can have no more than {LARGEST:,}. Leave "
            "out scores or statistics."
        )
    with replacing(target) as temporary, open(temporary, "wb") as file:
        for piece in archive.archive(members):
            file.write(piece)


def load(path: AnyPath, kinds: Mapping[str, Kind[P]]) -> P:
    """The posterior in a file, made by the class that `kinds` names; see `cuspfa.load`."""
    place = as_path(path)
    try:
        content, arrays = read(place, kinds)
        return _rebuild(kinds[content["kind"]], content, arrays)
    except FileError as error:
        raise FileError(f"{str(place)!r} {error}.") from None


def load_scores(path: AnyPath, kinds: Mapping[str, Kind[Any]]) -> Array | None:
    """The factor scores in a file; see `cuspfa.posterior.load_scores`."""
    place = as_path(path)
    try:
        return read(place, kinds)[1].get("scores")
    except FileError as error:
        raise FileError(f"{str(place)!r} {error}.") from None


def read(place: Path, kinds: Mapping[str, Kind[Any]]) -> tuple[Content, Arrays]:
    """The entries of a file, checked, and its arrays, of the right shapes."""
    if place.exists() and not place.is_file():  # a pipe would wait for ever
        raise _not_a_file(place)
    return archive.read(
        place,
        lambda text: decode(text, kinds),
        lambda content: kinds[content["kind"]].layout.shapes(content),
    )


def decode(text: bytes, kinds: Mapping[str, Kind[Any]]) -> Content:
    """`fit.json`, every value of it checked."""
    if len(text) > LARGEST_CONTENT:
        raise FileError(f"has {len(text):,} bytes of {CONTENT}, more than {LARGEST_CONTENT:,}")
    try:
        content = json.loads(text.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise FileError(f"is damaged: its {CONTENT} cannot be read") from None
    _check_version(content)
    layout = kinds[json_kinds.word(*kinds)("kind", content.get("kind"))].layout
    checked = json_kinds.fields(CONTENT, content, layout.kinds)
    layout.check(checked)
    p, names, known = (checked[key] for key in ("n_columns", "names", "statistics"))
    if p == 0:
        raise FileError(f"is damaged: {CONTENT} describes no posterior")
    if names is not None and len(names) != p:
        raise FileError(f"is damaged: {len(names)} names are not those of {p} columns")
    if known is not None and known["type"] == "gram" and known["n_rows"] != p:
        raise FileError(f"is damaged: cross-products of {known['n_rows']} instead of {p} columns")
    plausibility.check_content(checked)
    return checked


def _check_version(content: Any) -> None:
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise FileError(
            f"is not a fit saved by cuspfa: its {CONTENT} has format {archive.short(found)}"
        )
    number = json_kinds.count("version", content.get("version"))
    if number > VERSION:
        raise FileError(
            f"is of version {number} of the format, written by cuspfa "
            f"{archive.short(content.get('library'))}; this cuspfa, {version('cuspfa')}, reads "
            f"version {VERSION}. Upgrade cuspfa to read it"
        )
    if number < 1:
        raise FileError(f"is damaged: there is no version {number} of the format")


def _rebuild(kind: Kind[P], content: Content, arrays: Arrays) -> P:
    for name, shape in kind.layout.shapes(content).items():
        if arrays[name].shape != shape:
            raise FileError(f"has {name}.npy of shape {arrays[name].shape} instead of {shape}")
    return kind.from_entries(content, arrays)


def _checked_scores(scores: Any, n: int, k: int) -> Array:
    try:
        array = np.asarray(scores, dtype=float)
    except (TypeError, ValueError):
        raise must_be("scores", "an array of numbers", type(scores).__name__) from None
    if array.shape != (n, k):
        raise must_be(
            "scores",
            f"of shape {(n, k)}, rows that were analysed (with any value) by factors",
            array.shape,
        )
    if not np.all(np.isfinite(array)):
        raise InputError("scores must be finite. Got NaN or infinite ones instead.")
    return array


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _not_a_file(place: Path) -> InputError:
    what = "the directory" if place.is_dir() else "the device or pipe"
    return InputError(f"path must be a file. Got {what} {str(place)!r} instead.")
