"""Fitted posteriors as files: one zip of JSON and npy, without pickle.

A file holds `fit.json` and then one member for each array, none of them compressed, in an order
and of sizes that follow from `fit.json`. So a reader looks up no name and trusts no size: it knows
every byte that it will meet but for the numbers themselves and their checksums, and refuses a file
with any other, before it makes room for an array. Other programs see an ordinary zip file, and
`numpy.load` an ordinary npz file.

Every later version of the format will begin with `fit.json`, not compressed, and a version in it.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from cuspfa._checks import must_be
from cuspfa._types import Array
from cuspfa.blocks import Loadings, Noise
from cuspfa.data.arrays import RotatedRows
from cuspfa.errors import FileError, InputError
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.record import FitRecord, SearchEntry
from cuspfa.posterior.variational import ScoreLaw, VariationalPosterior
from cuspfa.prior import CuspPrior
from cuspfa.slabs import GaussianSlab, InverseGammaSlab, LearnedSlab, Slab
from cuspfa.sweeps import Statistics

FORMAT, VERSION, CONTENT = "cuspfa-fit", 1, "fit.json"
LARGEST, LARGEST_CONTENT = (1 << 32) - 1, 1 << 26
"""Bytes of a file, as a plain zip file can count them, and of its JSON."""
MOST_RIVALS, MOST = 1000, 1 << 48
"""Rivals of a posterior, and the largest whole number in the JSON."""

AnyPath = str | os.PathLike[str]


def save(
    posterior: Posterior, path: AnyPath, *, statistics: bool = True, scores: Any = None
) -> None:
    """Write a posterior to a file; see `Posterior.save`."""
    target = _writable(_path(path))
    if not isinstance(statistics, (bool, np.bool_)):
        raise must_be("statistics", "True or False", statistics)
    if not isinstance(posterior, VariationalPosterior):
        raise must_be("posterior", "a VariationalPosterior", posterior)
    content, arrays = _describe(posterior, bool(statistics))
    if scores is not None:
        arrays["scores"] = _checked_scores(scores, posterior.n_rows, posterior.n_active)
        content["scores"] = True
    text = json.dumps(content, indent=1, allow_nan=False).encode()
    arrays = {name: _plain(array) for name, array in arrays.items()}
    try:
        checked = _decode(text)
        _rebuild(checked, arrays)  # what is written can be read
    except FileError as error:
        raise InputError(f"This posterior {error}; so it cannot be saved.") from None
    members = {CONTENT: [memoryview(text)]}
    members |= {f"{name}.npy": _as_npy(arrays[name]) for name in _shapes(checked)}
    total = _size({name: sum(map(len, parts)) for name, parts in members.items()})
    if total > LARGEST:
        raise InputError(
            f"The file would have {total:,} bytes, and can have no more than {LARGEST:,}. Leave "
            "out scores or statistics."
        )
    _write(target, _archive(members))


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
    place = _path(path)
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
    place = _path(path)
    try:
        _, arrays = _read(place)
        return arrays.get("scores")
    except FileError as error:
        raise FileError(f"{str(place)!r} {error}.") from None


# --- from a posterior to plain values and arrays ---


def _describe(
    posterior: VariationalPosterior, statistics: bool
) -> tuple[dict[str, Any], dict[str, Array]]:
    for rival in posterior.rivals:
        _check_shared(posterior, rival)
    arrays = {"center": posterior.center, "scale": posterior.scale}
    known = None
    if statistics and posterior.statistics is not None:
        known, arrays["statistics"] = _describe_statistics(posterior.statistics)
    parts = []
    for part, prefix in zip((posterior, *posterior.rivals), _prefixes(), strict=False):
        parts.append(_describe_part(part))
        arrays |= {prefix + name: array for name, array in _part_arrays(part).items()}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "library": version("cuspfa"),
        "kind": "variational",
        "n_rows": int(posterior.n_rows),
        "n_columns": len(posterior.scale),
        "names": None if posterior.names is None else list(posterior.names),
        "prior": _plain_values(posterior.prior, _PRIOR),
        "statistics": known,
        "parts": parts,
        "scores": False,
    }
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


def _describe_statistics(statistics: Statistics) -> tuple[dict[str, Any], Array]:
    if not isinstance(statistics, RotatedRows):
        raise InputError(
            f"Statistics of type {type(statistics).__name__} cannot be saved. Leave them out: "
            "statistics=False."
        )
    if statistics.gram is not None:
        array, word = statistics.gram, "gram"
    else:
        array, word = statistics.rows, "rows"
    return {"type": word, "n_rows": len(array), "n": _number_out(statistics.n)}, array


def _describe_part(part: VariationalPosterior) -> dict[str, Any]:
    return {
        "n_factors": part.n_active,
        "n_directions": len(part.loadings.eigenvalues),
        "log_det": _number_out(part.loadings.log_det),
        "n": _number_out(part.scores.n),
        **_plain_values(part, _OWN),
    }


def _part_arrays(part: VariationalPosterior) -> dict[str, Array]:
    arrays = {
        "loadings_mean": part.loadings.mean,
        "loadings_basis": part.loadings.basis,
        "loadings_weights": part.loadings.weights,
        "loadings_eigenvalues": part.loadings.eigenvalues,
        "noise_shape": part.noise.shape,
        "noise_rate": part.noise.rate,
        "scores_inner": part.scores.inner,
        "scores_covariance": part.scores.covariance,
        "active": part.active,
        "tail_variance": part.tail_variance,
    }
    if part.record is not None:
        arrays["trace"] = part.record.trace
    return arrays


def _plain_values(thing: Any, kinds: dict[str, Kind]) -> dict[str, Any]:
    """Attributes of these kinds, as JSON has them."""
    return {name: _OUT[kind](getattr(thing, name)) for name, kind in kinds.items()}


def _slab_out(slab: Slab) -> dict[str, Any]:
    word = type(slab).__name__
    if word not in _SLABS or type(slab) is not _SLABS[word][0]:
        raise InputError(f"A slab of type {word} cannot be saved.")
    return {"type": word, **_plain_values(slab, _SLABS[word][1])}


def _record_out(record: FitRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    search = [_plain_values(entry, _ENTRY) for entry in record.search]
    return {**_plain_values(record, _RECORD), "n_trace": len(record.trace), "search": search}


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
    _check_version(content)
    checked = _fields(CONTENT, content, _CONTENT)
    p, names, known = (checked[key] for key in ("n_columns", "names", "statistics"))
    if p == 0 or not checked["parts"]:
        raise FileError(f"is damaged: {CONTENT} describes no posterior")
    if names is not None and len(names) != p:
        raise FileError(f"is damaged: {len(names)} names are not those of {p} columns")
    if known is not None and known["type"] == "gram" and known["n_rows"] != p:
        raise FileError(f"is damaged: cross-products of {known['n_rows']} instead of {p} columns")
    return checked


def _check_version(content: Any) -> None:
    kind = content.get("format") if isinstance(content, dict) else None
    if kind != FORMAT:
        raise FileError(f"is not a fit saved by cuspfa: its {CONTENT} has format {_short(kind)}")
    found = _count("version", content.get("version"))
    if found > VERSION:
        raise FileError(
            f"is of version {found} of the format, written by cuspfa "
            f"{_short(content.get('library'))}; this cuspfa, {version('cuspfa')}, reads version "
            f"{VERSION}. Upgrade cuspfa to read it"
        )
    if found != VERSION:
        raise FileError(f"is damaged: there is no version {found} of the format")


def _shapes(content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The arrays of a file, in their order."""
    p = content["n_columns"]
    shapes: dict[str, tuple[int, ...]] = {"center": (p,), "scale": (p,)}
    if content["statistics"] is not None:
        shapes["statistics"] = (content["statistics"]["n_rows"], p)
    for part, prefix in zip(content["parts"], _prefixes(), strict=False):
        k, m = part["n_factors"], part["n_directions"]
        own: dict[str, tuple[int, ...]] = {
            "loadings_mean": (p, k),
            "loadings_basis": (k, m),
            "loadings_weights": (p,),
            "loadings_eigenvalues": (m,),
            "noise_shape": (p,),
            "noise_rate": (p,),
            "scores_inner": (k, k),
            "scores_covariance": (k, k),
            "active": (k,),
            "tail_variance": (p,),
        }
        if part["record"] is not None:
            own["trace"] = (part["record"]["n_trace"],)
        shapes |= {prefix + name: shape for name, shape in own.items()}
    if content["scores"]:
        shapes["scores"] = (content["n_rows"], content["parts"][0]["n_factors"])
    return shapes


POSITIVE = ("scale", "noise_shape", "noise_rate")
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


def _rebuild(content: dict[str, Any], arrays: dict[str, Array]) -> VariationalPosterior:
    for name, shape in _shapes(content).items():
        if arrays[name].shape != shape:
            raise FileError(f"has {name}.npy of shape {arrays[name].shape} instead of {shape}")
        _check_values(name, arrays[name])
    statistics = None
    if (known := content["statistics"]) is not None:
        rows, is_gram = arrays["statistics"], known["type"] == "gram"
        statistics = RotatedRows(rows if is_gram else None, None if is_gram else rows, known["n"])
    shared = {
        "prior": content["prior"],
        "statistics": statistics,
        "center": arrays["center"],
        "scale": arrays["scale"],
        "n_rows": content["n_rows"],
        "names": content["names"],
    }
    first, *others = (
        _rebuild_part(part, arrays, prefix)
        for part, prefix in zip(content["parts"], _prefixes(), strict=False)
    )
    rivals = tuple(VariationalPosterior(**other, **shared) for other in others)
    return VariationalPosterior(**first, **shared, rivals=rivals)


def _rebuild_part(part: dict[str, Any], arrays: dict[str, Array], prefix: str) -> dict[str, Any]:
    def of(name: str) -> Array:
        return arrays[prefix + name]

    record = None
    if (known := part["record"]) is not None:
        search = [SearchEntry(**entry) for entry in known["search"]]
        values = {name: value for name, value in known.items() if name != "n_trace"}
        record = FitRecord(**values | {"trace": of("trace"), "search": search})
    return {
        "loadings": Loadings(
            of("loadings_mean"),
            of("loadings_basis"),
            of("loadings_weights"),
            of("loadings_eigenvalues"),
            part["log_det"],
        ),
        "noise": Noise(of("noise_shape"), of("noise_rate")),
        "scores": ScoreLaw(of("scores_inner"), of("scores_covariance"), part["n"]),
        "active": of("active"),
        "expected_active_factors": part["expected_active_factors"],
        "tail_variance": of("tail_variance"),
        "slab": part["slab"],
        "weight": part["weight"],
        "record": record,
    }


# --- values of the JSON: each checks one and gives it back ---

Kind = Callable[[str, Any], Any]
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _fields(name: str, value: Any, kinds: dict[str, Kind]) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise FileError(f"is damaged: {name} has not the entries it should have")
    return {key: kind(key, value[key]) for key, kind in kinds.items()}


def _wrong(name: str, value: Any) -> FileError:
    return FileError(f"is damaged: {name} cannot be {_short(value)}")


def _short(value: Any) -> str:
    """A value of a file, fit for a message."""
    if isinstance(value, (dict, list)):
        return f"a {type(value).__name__}"
    shown = value[:60] if isinstance(value, str) else value
    return ascii(shown)[:80]


def _count(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST:
        raise _wrong(name, value)
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if type(value) is not float or not math.isfinite(value):
        raise _wrong(name, value)
    return value


def _number_out(value: float) -> float | str:
    """JSON has no NaN and no infinity."""
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _positive(name: str, value: Any) -> float:
    number = _number(name, value)
    if not 0 < number < math.inf:
        raise _wrong(name, value)
    return number


def _share(name: str, value: Any) -> float:
    number = _number(name, value)
    if not 0 <= number <= 1:
        raise _wrong(name, value)
    return number


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, value)
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, value)
    return value


def _word(*words: str) -> Kind:
    def kind(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise _wrong(name, value)
        return value

    return kind


def _list(each: Kind, most: int = MOST) -> Kind:
    def kind(name: str, value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > most:
            raise _wrong(name, value)
        return [each(name, one) for one in value]

    return kind


def _optional(other: Kind) -> Kind:
    def kind(name: str, value: Any) -> Any:
        return None if value is None else other(name, value)

    return kind


_SLABS: dict[str, tuple[type, dict[str, Kind]]] = {
    "GaussianSlab": (GaussianSlab, {"variance": _number}),
    "InverseGammaSlab": (InverseGammaSlab, {"shape": _number, "rate": _number, "pooled": _flag}),
    "LearnedSlab": (LearnedSlab, {"common": _flag}),
}
_ENTRY: dict[str, Kind] = {
    "n_factors": _count,
    "lower_bound": _number,
    "evidence": _number,
    "weight": _number,
    "n_iter": _count,
    "status": _text,
}
_RECORD: dict[str, Kind] = {
    "method": _text,
    "lower_bound": _number,
    "status": _text,
    "converged": _flag,
    "n_iter": _count,
}


def _slab(name: str, value: Any) -> Slab:
    word = value.get("type") if isinstance(value, dict) else None
    if not isinstance(word, str) or word not in _SLABS:
        raise _wrong(name, word)
    made, kinds = _SLABS[word]
    values = _fields(name, value, {"type": _text, **kinds})
    del values["type"]
    slab: Slab = _made(made, values)
    return slab


def _prior(name: str, value: Any) -> CuspPrior:
    prior: CuspPrior = _made(CuspPrior, _fields(name, value, _PRIOR))
    return prior


def _made(what: type, values: dict[str, Any]) -> Any:
    try:
        return what(**values)
    except InputError as error:
        raise FileError(f"is damaged: {str(error).removesuffix('.')}") from None


def _statistics(name: str, value: Any) -> dict[str, Any]:
    kinds = {"type": _word("gram", "rows"), "n_rows": _count, "n": _positive}
    return _fields(name, value, kinds)


def _record(name: str, value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    return _fields(name, value, {**_RECORD, "n_trace": _count, "search": _list(_entry)})


def _entry(name: str, value: Any) -> dict[str, Any]:
    return _fields(name, value, _ENTRY)


def _part(name: str, value: Any) -> dict[str, Any]:
    laws = {"n_factors": _count, "n_directions": _count, "log_det": _number, "n": _positive}
    return _fields(name, value, {**laws, **_OWN})


_spike = _optional(_number)
_PRIOR: dict[str, Kind] = {
    "alpha": _number,
    "slab": _slab,
    "spike": _spike,
    "noise_shape": _number,
    "noise_rate": _number,
    "stick_shape": _number,
}
_OWN: dict[str, Kind] = {
    "expected_active_factors": _number,
    "slab": _slab,
    "weight": _share,
    "record": _record,
}
_CONTENT: dict[str, Kind] = {
    "format": _text,
    "version": _count,
    "library": _text,
    "kind": _word("variational"),
    "n_rows": _count,
    "n_columns": _count,
    "names": _optional(_list(_text)),
    "prior": _prior,
    "statistics": _optional(_statistics),
    "parts": _list(_part, 1 + MOST_RIVALS),
    "scores": _flag,
}
_OUT: dict[Kind, Callable[[Any], Any]] = {
    _count: int,
    _number: _number_out,
    _share: _number_out,
    _text: str,
    _flag: bool,
    _spike: lambda value: None if value is None else _number_out(value),
    _slab: _slab_out,
    _record: _record_out,
}
"""How a value of each kind is written."""


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


# --- npy: float64 alone, with a header of fixed length ---

NPY_HEADER = 128
NUMBER = np.dtype("<f8")


def _npy_header(shape: tuple[int, ...], fortran: bool) -> bytes:
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", NPY_HEADER - 10)
    about = f"{{'descr': '<f8', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    return start + about.encode().ljust(NPY_HEADER - 11) + b"\n"


def _plain(array: Any) -> Array:
    """Contiguous, and in the order it was: another order would round differently in draws."""
    ready = np.asarray(array, dtype=float)
    contiguous = ready.flags.c_contiguous or ready.flags.f_contiguous
    return ready if contiguous else np.ascontiguousarray(ready)


def _as_npy(array: Array) -> list[memoryview]:
    header = _npy_header(array.shape, not array.flags.c_contiguous)
    flat = array.ravel(order="K").astype(NUMBER, copy=False)
    return [memoryview(header), _bytes_of(flat)]


def _bytes_of(flat: Any) -> memoryview:
    return memoryview(flat.view(np.uint8))


def _npy_size(shape: tuple[int, ...]) -> int:
    return NPY_HEADER + NUMBER.itemsize * math.prod(shape)


def _read_npy(file: BufferedReader, name: str, shape: tuple[int, ...]) -> tuple[Array, int]:
    """An array and its checksum."""
    header = file.read(NPY_HEADER)
    if header not in (_npy_header(shape, False), _npy_header(shape, True)):
        raise FileError(f"has no array of float64 of shape {shape} as {name}")
    flat = np.empty(math.prod(shape), NUMBER)
    if file.readinto(_bytes_of(flat)) != flat.nbytes:
        raise _cut_off()
    crc = zlib.crc32(_bytes_of(flat), zlib.crc32(header))
    order: Any = "C" if header == _npy_header(shape, False) else "F"
    return flat.astype(float, copy=False).reshape(shape, order=order), crc


# --- zip: members that are not compressed, nothing between them, nothing after them ---

LOCAL, CENTRAL, END = (
    struct.Struct("<4s5H3I2H"),
    struct.Struct("<4s6H3I5H2I"),
    struct.Struct("<4s4H2IH"),
)
NEEDED, UNIX, MODE = 20, 3 << 8, (stat.S_IFREG | 0o644) << 16
TIME, DATE = 0, 1 << 5 | 1
"""Midnight of the first of January 1980: a file does not tell when it was written."""


def _local(name: str, crc: int, size: int) -> bytes:
    about = (NEEDED, 0, 0, TIME, DATE, crc, size, size, len(name), 0)
    return LOCAL.pack(b"PK\3\4", *about) + name.encode()


def _tail(members: dict[str, tuple[int, int]]) -> bytes:
    """The directory at the end, of members with these checksums and sizes."""
    directory, offset = [], 0
    for name, (crc, size) in members.items():
        about = (UNIX | NEEDED, NEEDED, 0, 0, TIME, DATE, crc, size, size, len(name))
        directory.append(CENTRAL.pack(b"PK\1\2", *about, 0, 0, 0, 0, MODE, offset) + name.encode())
        offset += LOCAL.size + len(name) + size
    joined, count = b"".join(directory), len(members)
    return joined + END.pack(b"PK\5\6", 0, 0, count, count, len(joined), offset, 0)


def _size(sizes: dict[str, int]) -> int:
    """Of a file with members of these sizes."""
    heads = sum(LOCAL.size + CENTRAL.size + 2 * len(name) for name in sizes)
    return heads + sum(sizes.values()) + END.size


def _archive(members: dict[str, list[memoryview]]) -> Iterator[bytes | memoryview]:
    known = {}
    for name, parts in members.items():
        crc = 0
        for part in parts:
            crc = zlib.crc32(part, crc)
        known[name] = crc, sum(map(len, parts))
        yield _local(name, *known[name])
        yield from parts
    yield _tail(known)


def _read(place: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    if place.exists() and not place.is_file():  # a pipe would wait for ever
        raise _not_a_file(place)
    with open(place, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        text = _read_content(file, size)
        content = _decode(text)
        shapes = _shapes(content)
        sizes = {f"{name}.npy": _npy_size(shape) for name, shape in shapes.items()}
        expected = _size({CONTENT: len(text), **sizes})
        if size < expected:
            raise _cut_off()
        if size > min(expected, LARGEST):
            raise FileError(f"is damaged: it has {size:,} bytes and should have {expected:,}")
        known, arrays = {CONTENT: (zlib.crc32(text), len(text))}, {}
        for name, shape in shapes.items():
            member = f"{name}.npy"
            head = file.read(LOCAL.size + len(member))
            if len(head) < LOCAL.size + len(member):
                raise _cut_off()
            crc = LOCAL.unpack_from(head)[6]
            if head != _local(member, crc, sizes[member]):
                raise FileError(f"is damaged: {member} is not where it should be")
            arrays[name], found = _read_npy(file, member, shape)
            if found != crc:
                raise FileError(f"is damaged: the checksum of {member} is wrong")
            known[member] = crc, sizes[member]
        if file.read(size) != _tail(known):
            raise FileError("is damaged: its end is not as it should be")
    return content, arrays


def _read_content(file: BufferedReader, size: int) -> bytes:
    """The bytes of `fit.json`, the first member."""
    head = file.read(LOCAL.size)
    if not head.startswith(b"PK\3\4"):
        raise FileError(f"is not a fit saved by cuspfa: it is {_looks_like(head)}")
    if len(head) < LOCAL.size:
        raise _cut_off()
    *_, crc, length, _, name_length, _ = LOCAL.unpack(head)
    name = file.read(min(name_length, 100))
    if name != CONTENT.encode():
        if CONTENT.encode().startswith(name):
            raise _cut_off()
        shown = _short(name.decode("utf-8", "replace"))
        raise FileError(f"is not a fit saved by cuspfa: it is a zip file that begins with {shown}")
    if head + name != _local(CONTENT, crc, length):
        raise FileError(
            "is damaged, or was packed again by another program; use the file as cuspfa wrote it"
        )
    if length > LARGEST_CONTENT:
        raise FileError(f"has {length:,} bytes of {CONTENT}, more than {LARGEST_CONTENT:,}")
    text = file.read(length) if length <= size else b""
    if len(text) < length:
        raise _cut_off()
    if zlib.crc32(text) != crc:
        raise FileError(f"is damaged: the checksum of {CONTENT} is wrong")
    return text


_KNOWN = {
    b"PK\5\6": "an empty zip file",
    b"\x93NUMPY": "a NumPy array",
    b"\x80": "a pickle",
    b"\x89HDF": "an HDF5 file",
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a Parquet file",
    b"{": "JSON text",
    b"<": "a web page or XML",
}


def _looks_like(head: bytes) -> str:
    if not head:
        return "empty"
    for start, kind in _KNOWN.items():
        if head.startswith(start):
            return kind
    printable = all(byte >= 32 or byte in b"\t\r\n" for byte in head)
    return "text or a table" if printable else "of an unknown kind"


def _cut_off() -> FileError:
    return FileError("is damaged: it was cut off")


# --- the file system ---


def _path(path: Any) -> Path:
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise must_be("path", "a text or a path", path) from None
    if "\0" in text:
        raise must_be("path", "the name of a file", path)
    return Path(text)


def _not_a_file(place: Path) -> InputError:
    what = "the directory" if place.is_dir() else "the device or pipe"
    return InputError(f"path must be a file. Got {what} {str(place)!r} instead.")


def _writable(place: Path) -> Path:
    """Where to write, or an error before any work is done."""
    target = Path(os.path.realpath(place))
    if target.exists():
        if not target.is_file():
            raise _not_a_file(place)
        if not os.access(target, os.W_OK):
            raise InputError(f"path: no permission to write to {str(place)!r}.")
    if not target.parent.is_dir():
        raise InputError(
            f"path: there is no directory {str(target.parent)!r}. Create it, or choose another."
        )
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"path: no permission to write in {str(target.parent)!r}.")
    return target


def _write(target: Path, pieces: Iterator[bytes | memoryview]) -> None:
    """The whole file or nothing: an old one stays until the new one is complete."""
    kept = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    temporary = target.with_name(f".cuspfa-{secrets.token_hex(8)}.part")

    def private(name: str, flags: int) -> int:
        return os.open(name, flags, 0o666 if kept is None else kept & 0o600)

    try:
        with open(temporary, "xb", opener=private) as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        if kept is not None:
            temporary.chmod(kept)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
