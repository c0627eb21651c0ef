"""Fitted posteriors as files: one zip of JSON and npy, without pickle.

The bytes of the file are in `_archive.py`, the entries of `fit.json` that every posterior has in
`file_entries.py`, what each kind adds in `variational_entries.py` and `sampled_entries.py`.

Every later version of the format will begin with `fit.json`, not compressed, and a version in it.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be
from cuspfa.errors import FileError, InputError
from cuspfa.io import archive, plausibility, sampled_entries, variational_entries
from cuspfa.io import schema as json_kinds
from cuspfa.io.archive import CONTENT, LARGEST, LARGEST_CONTENT
from cuspfa.io.atomic import as_path, check_writable, replacing
from cuspfa.io.posterior_entries import FORMAT, VERSION
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.posterior.variational import VariationalPosterior

AnyPath = str | os.PathLike[str]


def save(
    posterior: Posterior, path: AnyPath, *, statistics: bool = True, scores: Any = None
) -> None:
    """Write a posterior to a file; see `Posterior.save`."""
    target = as_path(path)
    if target.exists() and not target.is_file():
        raise _not_a_file(target)
    check_writable("path", target)
    if not isinstance(statistics, (bool, np.bool_)):
        raise must_be("statistics", "True or False", statistics)
    if isinstance(posterior, SampledPosterior):
        content, arrays = sampled_entries.describe(posterior, bool(statistics))
    elif isinstance(posterior, VariationalPosterior):
        content, arrays = variational_entries.describe(posterior, bool(statistics))
    else:
        raise must_be("posterior", "a VariationalPosterior or SampledPosterior", posterior)
    if scores is not None:
        arrays["scores"] = _checked_scores(scores, posterior.n_rows, posterior.n_active)
        content["scores"] = True
    text = json.dumps(content, indent=1, allow_nan=False).encode()
    arrays = {name: archive.plain(array) for name, array in arrays.items()}
    try:
        checked = _decode(text)
        _rebuild(checked, arrays)  # what is written can be read
    except FileError as error:
        raise InputError(f"This posterior {error}; so it cannot be saved.") from None
    members = {CONTENT: [memoryview(text)]}
    members |= {f"{name}.npy": archive.as_npy(arrays[name]) for name in _shapes(checked)}
    total = archive.file_size({name: sum(map(len, parts)) for name, parts in members.items()})
    if total > LARGEST:
        raise InputError(
            f"The file would have {total:,} bytes, and can have no more than {LARGEST:,}. Leave "
            "out scores or statistics."
        )
    with replacing(target) as temporary, open(temporary, "wb") as file:
        for piece in archive.archive(members):
            file.write(piece)


def load(path: AnyPath) -> Posterior:
    """Read a posterior that `Posterior.save` wrote.

    Nothing in the file is run, and nothing but this one file is read or written, whoever made it.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    Posterior
        Its draws are those of the posterior that was saved, seed by seed.

    Raises
    ------
    FileError
        The file is of another kind, damaged, cut off, changed, or written by a newer cuspfa.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cuspfa import CuspFactorAnalysis, datasets
    >>> from cuspfa.io.posterior_format import load
    >>> X = datasets.simulate(100, 8, 2, random_state=0).X
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "personality.cuspfa"
    ...     CuspFactorAnalysis().fit(X).posterior_.save(path)
    ...     load(path)
    <VariationalPosterior of 2 factors, 100 rows, 8 columns>
    """
    place = as_path(path)
    try:
        return _rebuild(*_read(place))
    except FileError as error:
        raise FileError(f"{str(place)!r} {error}.") from None


def load_scores(path: AnyPath) -> Array | None:
    """The factor scores in a file, as they were given to `Posterior.save`.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    ndarray (n, K) or None
        None if there are none in the file, which then can be shared more freely.

    Raises
    ------
    FileError
        As in `load`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from cuspfa import CuspFactorAnalysis, datasets
    >>> from cuspfa.io.posterior_format import load_scores
    >>> X = datasets.simulate(100, 8, 2, random_state=0).X
    >>> model = CuspFactorAnalysis().fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "personality.cuspfa"
    ...     model.posterior_.save(path, scores=model.transform(X))
    ...     load_scores(path).shape
    (100, 2)
    """
    place = as_path(path)
    try:
        _, arrays = _read(place)
        return arrays.get("scores")
    except FileError as error:
        raise FileError(f"{str(place)!r} {error}.") from None


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


# --- from plain values and arrays to a posterior ---


def _decode(text: bytes) -> dict[str, Any]:
    """`fit.json`, every value of it checked."""
    if len(text) > LARGEST_CONTENT:
        raise FileError(f"has {len(text):,} bytes of {CONTENT}, more than {LARGEST_CONTENT:,}")
    try:
        content = json.loads(text.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise FileError(f"is damaged: its {CONTENT} cannot be read") from None
    _check_version(content)
    for later in ("rotation", "provenance"):  # not in files from before there were any
        content.setdefault(later, None)
    kind = _kind(content)
    checked = json_kinds.fields(CONTENT, content, kind.kinds(content))
    kind.check(checked)
    p, names, known = (checked[key] for key in ("n_columns", "names", "statistics"))
    if p == 0:
        raise FileError(f"is damaged: {CONTENT} describes no posterior")
    if names is not None and len(names) != p:
        raise FileError(f"is damaged: {len(names)} names are not those of {p} columns")
    if known is not None and known["type"] == "gram" and known["n_rows"] != p:
        raise FileError(f"is damaged: cross-products of {known['n_rows']} instead of {p} columns")
    plausibility.check_content(checked)
    return checked


def _kind(content: dict[str, Any]) -> ModuleType:
    return sampled_entries if content.get("kind") == "gibbs" else variational_entries


def _check_version(content: Any) -> None:
    kind = content.get("format") if isinstance(content, dict) else None
    if kind != FORMAT:
        raise FileError(
            f"is not a fit saved by cuspfa: its {CONTENT} has format {archive.short(kind)}"
        )
    found = json_kinds.count("version", content.get("version"))
    if found > VERSION:
        raise FileError(
            f"is of version {found} of the format, written by cuspfa "
            f"{archive.short(content.get('library'))}; this cuspfa, {version('cuspfa')}, reads "
            f"version {VERSION}. Upgrade cuspfa to read it"
        )
    if found < 1:
        raise FileError(f"is damaged: there is no version {found} of the format")


def _shapes(content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The arrays of a file, in their order."""
    shapes: dict[str, tuple[int, ...]] = _kind(content).shapes(content)
    return shapes


def _rebuild(content: dict[str, Any], arrays: dict[str, Array]) -> Posterior:
    for name, shape in _shapes(content).items():
        if arrays[name].shape != shape:
            raise FileError(f"has {name}.npy of shape {arrays[name].shape} instead of {shape}")
    posterior: Posterior = _kind(content).rebuild(content, arrays)
    return posterior


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


# --- the file system ---


def _not_a_file(place: Path) -> InputError:
    what = "the directory" if place.is_dir() else "the device or pipe"
    return InputError(f"path must be a file. Got {what} {str(place)!r} instead.")


def _read(place: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    if place.exists() and not place.is_file():  # a pipe would wait for ever
        raise _not_a_file(place)
    return archive.read(place, _decode, _shapes)
