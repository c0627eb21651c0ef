"""Fitted posteriors as files: one zip of JSON and npy, without pickle.

`archive.py` defines the bytes of a file. Entries and arrays depend on the kind of posterior: each
kind has a `Layout`, and this module imports no posterior.

Every later version of the format will begin with an uncompressed `fit.json` that has a version.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be
from cuspfa.errors import FileError, InputError
from cuspfa.io import archive, plausibility, schema
from cuspfa.io.archive import CONTENT
from cuspfa.io.atomic import as_path, check_writable, not_a_file

AnyPath = str | os.PathLike[str]
FIT_FORMAT, FIT_VERSION = "cuspfa-fit", 6
SAVED_FIT = "a fit saved by cuspfa"
JsonObject = dict[str, Any]
NamedArrays = dict[str, Array]
SavedT = TypeVar("SavedT", covariant=True)


class Layout(Protocol):
    """What the file of one kind of posterior holds."""

    @property
    def kinds(self) -> dict[str, schema.JsonKind]:
        """The entries of `fit.json`, each with its check."""

    def check(self, content: JsonObject) -> None:
        """Raise a FileError where values contradict each other."""

    def shapes(self, content: JsonObject) -> dict[str, tuple[int, ...]]:
        """The arrays, in their order."""


class SavedKind(Protocol, Generic[SavedT]):
    """A class of posteriors that can be read from a file."""

    @property
    def layout(self) -> Layout:
        """Entries and arrays of its files."""

    def from_entries(self, content: JsonObject, arrays: NamedArrays, /) -> SavedT:
        """The posterior of checked entries and arrays."""


def check_target(path: AnyPath) -> Path:
    """A path that a file can be written to, or an error before any work is done."""
    target = as_path(path)
    if target.exists() and not target.is_file():
        raise not_a_file(target)
    check_writable("path", target)
    return target


def write_posterior(
    kind: SavedKind[SavedT],
    content: JsonObject,
    arrays: NamedArrays,
    target: Path,
    *,
    scores: Any = None,
    n_factors: int = 0,
) -> None:
    """Write entries and arrays to a file; see `Posterior.save`."""
    if scores is not None:
        arrays = {**arrays, "scores": _checked_scores(scores, content["n_rows"], n_factors)}
    about = {"format": FIT_FORMAT, "version": FIT_VERSION, "library": version("cuspfa")}
    content = {**about, **content, "scores": scores is not None}
    text = json.dumps(content, indent=1, allow_nan=False).encode()
    arrays = {name: archive.plain(array) for name, array in arrays.items()}
    try:
        checked = check_entries(text, {content["kind"]: kind})
        _rebuild(kind, checked, arrays)  # so that what is written can be read
    except FileError as error:
        raise InputError(f"This posterior {error}; it cannot be saved.") from None
    ordered = {name: arrays[name] for name in kind.layout.shapes(checked)}
    archive.write_archive(target, text, ordered, "Leave out scores or statistics.")


def read_posterior(path: AnyPath, kinds: Mapping[str, SavedKind[SavedT]]) -> SavedT:
    """The posterior in a file, made by the class that `kinds` names; see `cuspfa.load`."""
    with archive.readable(path) as place:
        content, arrays = _read_entries(place, kinds)
        return _rebuild(kinds[content["kind"]], content, arrays)


def read_scores(path: AnyPath, kinds: Mapping[str, SavedKind[Any]]) -> Array | None:
    """The factor scores in a file; see `cuspfa.posterior.load_scores`."""
    with archive.readable(path) as place:
        return _read_entries(place, kinds)[1].get("scores")


def _read_entries(
    place: Path, kinds: Mapping[str, SavedKind[Any]]
) -> tuple[JsonObject, NamedArrays]:
    """The entries of a file, checked, and its arrays, of the right shapes."""
    return archive.read_archive(
        place,
        SAVED_FIT,
        lambda text: check_entries(text, kinds),
        lambda content: kinds[content["kind"]].layout.shapes(content),
    )


def check_entries(text: bytes, kinds: Mapping[str, SavedKind[Any]]) -> JsonObject:
    """The entries of `fit.json`, each checked."""
    content = _upgraded(schema.parse_content(text, SAVED_FIT, FIT_FORMAT, FIT_VERSION))
    layout = kinds[schema.word(*kinds)("kind", content.get("kind"))].layout
    checked = schema.fields(CONTENT, content, layout.kinds)
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


def _upgraded(content: JsonObject) -> JsonObject:
    """Entries of an older version of the format as the present one has them.

    Version 2 added the model error, and what was said of a table when it was read; version 3 the
    names and signs of factors, the wording of variables and the kinds of columns; version 4 the
    likelihood and the weights of rows; version 5 Poisson factorizations; version 6 log rates of
    counts, and the layer of h5ad, which version 5 has in words. What is not as an older version
    has it is left for the checks.
    """
    if content["version"] > 5:
        return content
    content = _with_layer(content)
    if content.get("kind") == "poisson_factorization":  # they have exposures
        return content
    content = _with_setting(content, "offset", None)
    if content.get("kind") in ("latent", "latent_gibbs"):
        content["mean_offset"] = 0.0
    if content["version"] > 3:
        return content
    content = _with_setting(content, "likelihood", "gaussian")
    content = _with_setting(content, "robust", value=False)
    content |= {"degrees_of_freedom": "Infinity", "n_row_weights": None}
    if content["version"] > 2:
        return content
    plain: JsonObject = {"factor_names": [], "reversed_factors": [], "wording": []}
    content = {**content, "presentation": plain}
    provenance = content.get("provenance")
    if isinstance(provenance, dict):
        content["provenance"] = provenance = {**provenance, "kinds": []}
    if content["version"] > 1:
        return content
    content["model_error"] = 0.0
    if isinstance(provenance, dict):
        data = _with_reading(provenance.get("data"))
        content["provenance"] = {**provenance, "data": data}
        content = _with_setting(content, "model_error", value=0.0)
    if isinstance(content.get("parts"), list):
        content["parts"] = [_with_model_errors(part) for part in content["parts"]]
    upgraded: JsonObject = _with_model_errors(content)
    return upgraded


def _with_setting(content: JsonObject, name: str, value: Any) -> JsonObject:
    """Entries with one more parameter of the model."""
    provenance = content.get("provenance")
    if not isinstance(provenance, dict) or not isinstance(provenance.get("settings"), dict):
        return {**content}
    settings = {**provenance["settings"], name: value}
    return {**content, "provenance": {**provenance, "settings": settings}}


def _with_layer(content: JsonObject) -> JsonObject:
    """Entries with the layer of h5ad that was read."""
    provenance = content.get("provenance")
    if not isinstance(provenance, dict) or not isinstance(provenance.get("data"), dict):
        return {**content}
    data = provenance["data"]
    data = {**data, "layer": str(data.get("kind")).partition(", layer ")[2] or None}
    return {**content, "provenance": {**provenance, "data": data}}


def _with_reading(data: Any) -> Any:
    """What was read, with the entries of version 2: labels, answers, sheets, orders, matrices."""
    if not isinstance(data, dict) or not isinstance(data.get("options"), dict):
        return data
    added: JsonObject = {"sheet": None, "order": [], "n": None, "means": None, "sds": None}
    return {**data, "options": {**data["options"], **added}, "labels": [], "answers": []}


def _with_model_errors(content: Any) -> Any:
    known = content.get("fit_info") if isinstance(content, dict) else None
    if not isinstance(known, dict):
        return content
    return {**content, "fit_info": {**known, "model_errors": []}}


def _rebuild(kind: SavedKind[SavedT], content: JsonObject, arrays: NamedArrays) -> SavedT:
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
