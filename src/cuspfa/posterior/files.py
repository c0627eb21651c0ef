"""Fitted posteriors as files: one zip of JSON and npy, without pickle.

What is said of a posterior in `fit.json` and which arrays follow is here; the bytes of the file are
in `_archive.py`, the checks of single values in `_json_kinds.py`.

Every later version of the format will begin with `fit.json`, not compressed, and a version in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from cuspfa import _archive as archive
from cuspfa import _json_kinds as json_kinds
from cuspfa._archive import CONTENT, LARGEST, LARGEST_CONTENT
from cuspfa._checks import must_be
from cuspfa._types import Array
from cuspfa._whole_file import as_path, check_writable, replacing
from cuspfa.blocks import Loadings, LoadingsLaw, Noise
from cuspfa.blocks_holes import HoleLoadings
from cuspfa.data.arrays import RotatedRows
from cuspfa.errors import FileError, InputError
from cuspfa.posterior import plausible
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.origin import Origin
from cuspfa.posterior.record import FitRecord, SearchEntry
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.posterior.variational import Means, ScoreLaw, VariationalPosterior
from cuspfa.prior import CuspPrior
from cuspfa.rotation import Rotation
from cuspfa.slabs import GaussianSlab, InverseGammaSlab, LearnedSlab, Slab
from cuspfa.sweeps import Statistics

FORMAT, VERSION = "cuspfa-fit", 2
"""Version 2 is for data with holes; complete data are still written as version 1."""
MOST_RIVALS = 1000
"""Rivals of a posterior that are kept."""

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
        content, arrays = _sampled().describe(posterior, bool(statistics))
    elif isinstance(posterior, VariationalPosterior):
        content, arrays = _describe(posterior, bool(statistics))
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
    >>> from cuspfa.posterior.files import load
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
    >>> from cuspfa.posterior.files import load_scores
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


def _sampled() -> Any:
    """The same for sampled posteriors; loaded late, for it needs what is below."""
    from cuspfa.posterior import sampled_files

    return sampled_files


# --- from a posterior to plain values and arrays ---


def _describe(
    posterior: VariationalPosterior, statistics: bool
) -> tuple[dict[str, Any], dict[str, Array]]:
    for rival in posterior.rivals:
        _check_shared(posterior, rival)
    arrays = {"center": posterior.center, "scale": posterior.scale}
    holes = posterior.means is not None
    if posterior.means is not None:
        arrays["counts"] = posterior.means.counts
    correlation = posterior.sample_correlation if holes and statistics else None
    if correlation is not None:
        arrays["correlation"] = correlation
    known = None
    if statistics and posterior.statistics is not None:
        known, arrays["statistics"] = describe_statistics(posterior.statistics)
    parts = []
    for part, prefix in zip((posterior, *posterior.rivals), _prefixes(), strict=False):
        parts.append(_describe_part(part))
        arrays |= {prefix + name: array for name, array in _part_arrays(part).items()}
    content = {
        "format": FORMAT,
        "version": VERSION if holes else 1,
        "library": version("cuspfa"),
        "kind": "variational",
        "n_rows": int(posterior.n_rows),
        "n_columns": len(posterior.scale),
        "names": None if posterior.names is None else list(posterior.names),
        "prior": prior_out(posterior.prior),
        "rotation": rotation_out(posterior.rotation),
        "origin": origin_out(posterior.origin),
        "statistics": known,
        "parts": parts,
        "scores": False,
    }
    if holes:
        content["holes"] = {"correlation": correlation is not None}
    return content, arrays


def _prefixes() -> Iterator[str]:
    """Before the names of the arrays of each part; the first is the posterior itself."""
    yield ""
    number = 0
    while True:
        number += 1
        yield f"rivals/{number}/"


def _check_shared(posterior: VariationalPosterior, rival: VariationalPosterior) -> None:
    same = (
        not rival.rivals
        and rival.prior == posterior.prior
        and rival.statistics is posterior.statistics
        and _same_counts(rival.means, posterior.means)
        and rival.n_rows == posterior.n_rows
        and rival.names == posterior.names
        and np.array_equal(rival.center, posterior.center)
        and np.array_equal(rival.scale, posterior.scale)
    )
    if not same:
        raise InputError(
            "This posterior cannot be saved: its rivals must be of the same data and prior, and "
            "have none themselves. Save it without them: dataclasses.replace(posterior, rivals=())."
        )


def _same_counts(one: Means | None, other: Means | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one.counts, other.counts)


def describe_statistics(statistics: Statistics) -> tuple[dict[str, Any], Array]:
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


def _describe_part(part: VariationalPosterior) -> dict[str, Any]:
    return {
        "n_factors": part.n_active,
        "n_directions": part.loadings.directions,
        "log_det": json_kinds.number_out(part.loadings.log_det),
        "n": json_kinds.number_out(part.scores.n),
        **_plain_values(part, _OWN),
    }


def _part_arrays(part: VariationalPosterior) -> dict[str, Array]:
    arrays = {
        **_law_arrays(part.loadings),
        "noise_shape": part.noise.shape,
        "noise_rate": part.noise.rate,
        "scores_inner": part.scores.inner,
        "scores_covariance": part.scores.covariance,
        "active": part.active,
        "tail_variance": part.tail_variance,
    }
    if part.means is not None:
        arrays["location"] = part.means.location
    if part.record is not None:
        arrays["trace"] = part.record.trace
    return arrays


def _law_arrays(law: LoadingsLaw) -> dict[str, Array]:
    if isinstance(law, HoleLoadings):
        return {
            "loadings_mean": law.mean,
            "loadings_covariance": law.covariance,
            "loadings_anchor": law.anchor,
        }
    if not isinstance(law, Loadings):
        raise InputError(f"Loadings of type {type(law).__name__} cannot be saved.")
    return {
        "loadings_mean": law.mean,
        "loadings_basis": law.basis,
        "loadings_weights": law.weights,
        "loadings_eigenvalues": law.eigenvalues,
    }


def _plain_values(thing: Any, kinds: dict[str, json_kinds.Kind]) -> dict[str, Any]:
    """Attributes of these kinds, as JSON has them."""
    return {name: _OUT[kind](getattr(thing, name)) for name, kind in kinds.items()}


def _slab_out(slab: Slab) -> dict[str, Any]:
    word = type(slab).__name__
    if word not in _SLABS or type(slab) is not _SLABS[word][0]:
        raise InputError(f"A slab of type {word} cannot be saved.")
    return {"type": word, **_plain_values(slab, _SLABS[word][1])}


def rotation_out(rotation: Rotation | None) -> dict[str, Any] | None:
    """The axes of a posterior, as JSON has them."""
    if rotation is None:
        return None
    target = None if rotation.target is None else [list(row) for row in rotation.target]
    return {**_plain_values(rotation, _ROTATION), "target": target}


def origin_out(origin: Origin | None) -> dict[str, Any] | None:
    """Where a fit came from, as JSON has it."""
    if origin is None:
        return None
    pairs = ("settings", "versions")
    found = origin._asdict()
    return found | {name: [list(pair) for pair in found[name]] for name in pairs}


def record_out(record: FitRecord | None) -> dict[str, Any] | None:
    """How a fit went, as JSON has it; without its trace."""
    if record is None:
        return None
    search = [_plain_values(entry, _ENTRY) for entry in record.search]
    return {**_plain_values(record, _RECORD), "n_trace": len(record.trace), "search": search}


def prior_out(prior: CuspPrior) -> dict[str, Any]:
    """A prior, as JSON has it."""
    return _plain_values(prior, _PRIOR)


def _checked_scores(scores: Any, n: int, k: int) -> Array:
    try:
        array = np.asarray(scores, dtype=float)
    except (TypeError, ValueError):
        raise must_be("scores", "an array of numbers", type(scores).__name__) from None
    if array.shape != (n, k):
        raise must_be("scores", f"of shape {(n, k)}, rows of the data by factors", array.shape)
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
    found = _check_version(content)
    for later in ("rotation", "origin"):  # not in files from before there were any
        content.setdefault(later, None)
    sampled = content.get("kind") == "gibbs"
    if sampled:
        content.setdefault("holes", None)  # files from before samplers took data with holes
    kinds = _sampled().KINDS if sampled else _CONTENT | ({"holes": holes_in} if found > 1 else {})
    checked = json_kinds.fields(CONTENT, content, kinds)
    if sampled:
        _sampled().check(checked)
    p, names, known = (checked[key] for key in ("n_columns", "names", "statistics"))
    if p == 0 or not (sampled or checked["parts"]):
        raise FileError(f"is damaged: {CONTENT} describes no posterior")
    if names is not None and len(names) != p:
        raise FileError(f"is damaged: {len(names)} names are not those of {p} columns")
    if known is not None and known["type"] == "gram" and known["n_rows"] != p:
        raise FileError(f"is damaged: cross-products of {known['n_rows']} instead of {p} columns")
    plausible.check_content(checked)
    return checked


def _check_version(content: Any) -> int:
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
    return found


def _shapes(content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The arrays of a file, in their order."""
    if content["kind"] == "gibbs":
        found: dict[str, tuple[int, ...]] = _sampled().shapes(content)
        return found
    p = content["n_columns"]
    shapes: dict[str, tuple[int, ...]] = {"center": (p,), "scale": (p,)}
    holes = content.get("holes")
    if holes is not None:
        shapes["counts"] = (p,)
        if holes["correlation"]:
            shapes["correlation"] = (p, p)
    if content["statistics"] is not None:
        shapes["statistics"] = (content["statistics"]["n_rows"], p)
    for part, prefix in zip(content["parts"], _prefixes(), strict=False):
        k, m = part["n_factors"], part["n_directions"]
        own: dict[str, tuple[int, ...]] = {
            **(_shared_shapes(p, k, m) if holes is None else _own_shapes(p, k)),
            "noise_shape": (p,),
            "noise_rate": (p,),
            "scores_inner": (k, k),
            "scores_covariance": (k, k),
            "active": (k,),
            "tail_variance": (p,),
        }
        if holes is not None:
            own["location"] = (p,)
        if part["record"] is not None:
            own["trace"] = (part["record"]["n_trace"],)
        shapes |= {prefix + name: shape for name, shape in own.items()}
    if content["scores"]:
        shapes["scores"] = (content["n_rows"], content["parts"][0]["n_factors"])
    return shapes


def _shared_shapes(p: int, k: int, m: int) -> dict[str, tuple[int, ...]]:
    return {
        "loadings_mean": (p, k),
        "loadings_basis": (k, m),
        "loadings_weights": (p,),
        "loadings_eigenvalues": (m,),
    }


def _own_shapes(p: int, k: int) -> dict[str, tuple[int, ...]]:
    return {
        "loadings_mean": (p, k),
        "loadings_covariance": (p, k, k),
        "loadings_anchor": (p, k),
    }


POSITIVE = ("scale", "noise_shape", "noise_rate", "counts")
NOT_NEGATIVE = ("loadings_weights", "loadings_eigenvalues", "active", "tail_variance")


def _check_values(name: str, array: Array) -> None:
    kind = name.rpartition("/")[2]
    if kind == "trace":
        return
    may_be_infinite = kind == "loadings_eigenvalues"  # for loadings without spread
    right = ~np.isnan(array) if may_be_infinite else np.isfinite(array)
    if kind in POSITIVE:
        right &= array > 0
    elif kind in NOT_NEGATIVE:
        right &= array >= 0
    if not np.all(right):
        raise FileError(f"has numbers in {name}.npy that cannot be there")
    plausible.check_size(name, array, positive=kind in POSITIVE)


def _rebuild(content: dict[str, Any], arrays: dict[str, Array]) -> Posterior:
    sampled = content["kind"] == "gibbs"
    for name, shape in _shapes(content).items():
        if arrays[name].shape != shape:
            raise FileError(f"has {name}.npy of shape {arrays[name].shape} instead of {shape}")
        if not sampled:
            _check_values(name, arrays[name])
    if sampled:
        posterior: Posterior = _sampled().rebuild(content, arrays)
        return posterior
    holes = content.get("holes")
    statistics = None
    if (known := content["statistics"]) is not None:
        rows, is_gram = arrays["statistics"], known["type"] == "gram"
        plausible.check_statistics(rows, is_gram=is_gram)
        statistics = RotatedRows(rows if is_gram else None, None if is_gram else rows, known["n"])
    shared = {
        "prior": content["prior"],
        "statistics": statistics,
        "center": arrays["center"],
        "scale": arrays["scale"],
        "n_rows": content["n_rows"],
        "names": content["names"],
        "correlation": arrays["correlation"] if holes and holes["correlation"] else None,
    }
    first, *others = (
        _rebuild_part(part, arrays, prefix)
        for part, prefix in zip(content["parts"], _prefixes(), strict=False)
    )
    for part in (first, *others):
        spread = part["noise"].variance + part["tail_variance"]
        plausible.check_units(arrays["scale"], part["loadings"].mean, spread)
    rivals = tuple(VariationalPosterior(**other, **shared) for other in others)
    rotation = content["rotation"]
    target = None if rotation is None else rotation.target
    if target is not None and np.shape(target) != first["loadings"].mean.shape:
        raise FileError(f"is damaged: a target of shape {np.shape(target)} is not of its loadings")
    own = {"rotation": rotation, "origin": content["origin"]}
    return VariationalPosterior(**first, **shared, **own, rivals=rivals)


def _rebuild_part(part: dict[str, Any], arrays: dict[str, Array], prefix: str) -> dict[str, Any]:
    def of(name: str) -> Array:
        return arrays[prefix + name]

    plausible.check_law(prefix, arrays)
    known = part["record"]
    record = record_of(known, None if known is None else of("trace"))
    law: LoadingsLaw
    means = None
    if "counts" in arrays:
        law = HoleLoadings(
            of("loadings_mean"), of("loadings_covariance"), of("loadings_anchor"), part["log_det"]
        )
        _check_covariances(prefix, law)
        means = Means(of("location"), arrays["counts"])
    else:
        law = Loadings(
            of("loadings_mean"),
            of("loadings_basis"),
            of("loadings_weights"),
            of("loadings_eigenvalues"),
            part["log_det"],
        )
    return {
        "loadings": law,
        "means": means,
        "noise": Noise(of("noise_shape"), of("noise_rate")),
        "scores": ScoreLaw(of("scores_inner"), of("scores_covariance"), part["n"]),
        "active": of("active"),
        "expected_active_factors": part["expected_active_factors"],
        "tail_variance": of("tail_variance"),
        "slab": part["slab"],
        "weight": part["weight"],
        "record": record,
    }


def _check_covariances(prefix: str, law: HoleLoadings) -> None:
    """Each must be positive definite, or draws would end in an error of NumPy's."""
    symmetric = np.array_equal(law.covariance, law.covariance.transpose(0, 2, 1))
    try:
        np.linalg.cholesky(law.covariance)
    except np.linalg.LinAlgError:
        symmetric = False
    if not symmetric:
        raise FileError(f"has numbers in {prefix}loadings_covariance.npy that cannot be there")


def record_of(known: dict[str, Any] | None, trace: Array | None) -> FitRecord | None:
    """How a fit went, from checked values."""
    if known is None:
        return None
    search = [SearchEntry(**entry) for entry in known["search"]]
    values = {name: value for name, value in known.items() if name != "n_trace"}
    return FitRecord(**values | {"trace": trace, "search": search})


# --- the entries of fit.json ---

_SLABS: dict[str, tuple[type, dict[str, json_kinds.Kind]]] = {
    "GaussianSlab": (GaussianSlab, {"variance": json_kinds.number}),
    "InverseGammaSlab": (
        InverseGammaSlab,
        {"shape": json_kinds.number, "rate": json_kinds.number, "pooled": json_kinds.flag},
    ),
    "LearnedSlab": (LearnedSlab, {"common": json_kinds.flag}),
}
_ENTRY: dict[str, json_kinds.Kind] = {
    "n_factors": json_kinds.count,
    "lower_bound": json_kinds.number,
    "evidence": json_kinds.number,
    "weight": json_kinds.number,
    "n_iter": json_kinds.count,
    "status": json_kinds.text,
}
_RECORD: dict[str, json_kinds.Kind] = {
    "method": json_kinds.text,
    "lower_bound": json_kinds.number,
    "status": json_kinds.text,
    "converged": json_kinds.flag,
    "n_iter": json_kinds.count,
}


def _slab(name: str, value: Any) -> Slab:
    word = value.get("type") if isinstance(value, dict) else None
    if not isinstance(word, str) or word not in _SLABS:
        raise json_kinds.wrong(name, word)
    made, kinds = _SLABS[word]
    values = json_kinds.fields(name, value, {"type": json_kinds.text, **kinds})
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


def _origin(name: str, value: Any) -> Origin:
    texts = json_kinds.list_of(json_kinds.text)
    pairs = json_kinds.list_of(json_kinds.list_of(json_kinds.text, 2))
    kinds: dict[str, json_kinds.Kind] = dict.fromkeys(Origin._fields, json_kinds.text)
    kinds |= {"remarks": texts, "warnings": texts, "settings": pairs, "versions": pairs}
    found = json_kinds.fields(name, value, kinds)
    for key in ("settings", "versions"):
        if any(len(pair) != 2 for pair in found[key]):
            raise FileError(f"is damaged: {key} are no pairs")
        found[key] = [(pair[0], pair[1]) for pair in found[key]]
    return Origin(**found)


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


def holes_in(name: str, value: Any) -> dict[str, Any]:
    """What is kept of data with holes, checked."""
    return json_kinds.fields(name, value, {"correlation": json_kinds.flag})


def record_in(name: str, value: Any) -> dict[str, Any] | None:
    """How a fit went, checked."""
    if value is None:
        return None
    return json_kinds.fields(
        name, value, {**_RECORD, "n_trace": json_kinds.count, "search": json_kinds.list_of(_entry)}
    )


def _entry(name: str, value: Any) -> dict[str, Any]:
    return json_kinds.fields(name, value, _ENTRY)


def _part(name: str, value: Any) -> dict[str, Any]:
    laws = {
        "n_factors": json_kinds.count,
        "n_directions": json_kinds.count,
        "log_det": json_kinds.number,
        "n": json_kinds.positive,
    }
    return json_kinds.fields(name, value, {**laws, **_OWN})


_spike = json_kinds.optional(json_kinds.number)
_PRIOR: dict[str, json_kinds.Kind] = {
    "alpha": json_kinds.number,
    "slab": _slab,
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
_OWN: dict[str, json_kinds.Kind] = {
    "expected_active_factors": json_kinds.number,
    "slab": _slab,
    "weight": json_kinds.share,
    "record": record_in,
}
SHARED_KINDS: dict[str, json_kinds.Kind] = {
    "format": json_kinds.text,
    "version": json_kinds.count,
    "library": json_kinds.text,
    "n_rows": json_kinds.count,
    "n_columns": json_kinds.count,
    "names": json_kinds.optional(json_kinds.list_of(json_kinds.text)),
    "prior": _prior,
    "rotation": json_kinds.optional(_rotation),
    "origin": json_kinds.optional(_origin),
    "statistics": json_kinds.optional(_statistics),
    "scores": json_kinds.flag,
}
"""Entries that posteriors of every kind have."""
_CONTENT: dict[str, json_kinds.Kind] = {
    **SHARED_KINDS,
    "kind": json_kinds.word("variational"),
    "parts": json_kinds.list_of(_part, 1 + MOST_RIVALS),
}
_OUT: dict[json_kinds.Kind, Callable[[Any], Any]] = {
    json_kinds.count: int,
    json_kinds.number: json_kinds.number_out,
    json_kinds.share: json_kinds.number_out,
    json_kinds.text: str,
    json_kinds.flag: bool,
    _spike: lambda value: None if value is None else json_kinds.number_out(value),
    _choice: lambda value: None if value is None else bool(value),
    _slab: _slab_out,
    record_in: record_out,
}
"""How a value of each kind is written."""


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
