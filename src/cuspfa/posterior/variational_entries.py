"""Entries and arrays of a saved `VariationalPosterior`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from cuspfa._typing import Array
from cuspfa.errors import FileError, InputError
from cuspfa.inference.updates import Loadings, LoadingsDistribution
from cuspfa.io import plausibility
from cuspfa.io import schema as json_kinds
from cuspfa.io.posterior_format import Layout
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.posterior import entries
from cuspfa.posterior.distributions import Means, ScoreDistribution

if TYPE_CHECKING:
    from cuspfa.posterior.variational import VariationalPosterior

MAX_ALTERNATIVES = 1000
"""Alternatives that a file may hold."""

_OWN: dict[str, json_kinds.Kind] = {
    "expected_active": json_kinds.number,
    "slab": entries.slab_in,
    "weight": json_kinds.share,
    "fit_info": entries.fit_info_in,
}


def _part(name: str, value: Any) -> dict[str, Any]:
    distributions = {
        "n_factors": json_kinds.count,
        "n_directions": json_kinds.count,
        "log_det": json_kinds.number,
        "n": json_kinds.positive,
    }
    return json_kinds.fields(name, value, {**distributions, **_OWN})


KINDS: dict[str, json_kinds.Kind] = {
    **entries.SHARED_KINDS,
    "missing": json_kinds.optional(entries.missing_in),
    "parts": json_kinds.list_of(_part, 1 + MAX_ALTERNATIVES),
}


def check(content: dict[str, Any]) -> None:
    """Numbers that must go together."""
    if not content["parts"]:
        raise FileError("is damaged: it describes no posterior")


def describe(
    posterior: VariationalPosterior, statistics: bool
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Plain values and arrays."""
    for other in posterior.alternatives:
        _check_shared(posterior, other)
    arrays = {"center": posterior.center, "scale": posterior.scale}
    missing = posterior.means is not None
    if posterior.means is not None:
        arrays["counts"] = posterior.means.counts
    correlation = posterior.sample_correlation if missing and statistics else None
    if correlation is not None:
        arrays["correlation"] = correlation
    known = None
    if statistics and posterior.statistics is not None:
        known, arrays["statistics"] = entries.statistics_out(posterior.statistics)
    parts = []
    for part, prefix in zip((posterior, *posterior.alternatives), _prefixes(), strict=False):
        parts.append(_describe_part(part))
        arrays |= {prefix + name: array for name, array in _part_arrays(part).items()}
    known_missing = entries.missing_out(correlation, posterior.effective) if missing else None
    content = entries.shared_out(posterior, statistics=known, missing=known_missing, parts=parts)
    return content, arrays


def _prefixes() -> Iterator[str]:
    """Before the names of the arrays of each part; the first is the posterior itself."""
    yield ""
    number = 0
    while True:
        number += 1
        yield f"alternatives/{number}/"


def _check_shared(posterior: VariationalPosterior, other: VariationalPosterior) -> None:
    same = (
        not other.alternatives
        and other.prior == posterior.prior
        and other.statistics is posterior.statistics
        and _same_counts(other.means, posterior.means)
        and other.n_rows == posterior.n_rows
        and other.names == posterior.names
        and np.array_equal(other.center, posterior.center)
        and np.array_equal(other.scale, posterior.scale)
    )
    if not same:
        raise InputError(
            "This posterior cannot be saved: its alternatives must be of the same data and prior, "
            "and have none themselves. Save it without them: dataclasses.replace(posterior, "
            "alternatives=())."
        )


def _same_counts(one: Means | None, other: Means | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one.counts, other.counts)


def _describe_part(part: VariationalPosterior) -> dict[str, Any]:
    return {
        "n_factors": part.n_active,
        "n_directions": part.loadings_distribution.directions,
        "log_det": json_kinds.number_out(part.loadings_distribution.log_det),
        "n": json_kinds.number_out(part.score_distribution.n),
        **entries.plain_values(part, _OWN),
    }


def _part_arrays(part: VariationalPosterior) -> dict[str, Array]:
    arrays = {
        **_distribution_arrays(part.loadings_distribution),
        "noise_shape": part.noise_distribution.shape,
        "noise_rate": part.noise_distribution.rate,
        "scores_inner": part.score_distribution.inner,
        "scores_covariance": part.score_distribution.covariance,
        "active": part.slab_probability,
        "tail_variance": part.tail_variance,
    }
    if part.means is not None:
        arrays["location"] = part.means.location
    if part.fit_info is not None:
        arrays["trace"] = part.fit_info.trace
    return arrays


def _distribution_arrays(distribution: LoadingsDistribution) -> dict[str, Array]:
    if isinstance(distribution, RowwiseLoadings):
        return {
            "loadings_mean": distribution.mean,
            "loadings_covariance": distribution.covariance,
            "loadings_anchor": distribution.anchor,
        }
    if not isinstance(distribution, Loadings):
        raise InputError(f"Loadings of type {type(distribution).__name__} cannot be saved.")
    return {
        "loadings_mean": distribution.mean,
        "loadings_basis": distribution.basis,
        "loadings_weights": distribution.weights,
        "loadings_eigenvalues": distribution.eigenvalues,
    }


def shapes(content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The arrays of a file, in their order."""
    p = content["n_columns"]
    found: dict[str, tuple[int, ...]] = {"center": (p,), "scale": (p,)}
    missing = content["missing"]
    if missing is not None:
        found["counts"] = (p,)
        if missing["correlation"]:
            found["correlation"] = (p, p)
    if content["statistics"] is not None:
        found["statistics"] = (content["statistics"]["n_rows"], p)
    for part, prefix in zip(content["parts"], _prefixes(), strict=False):
        k, m = part["n_factors"], part["n_directions"]
        own: dict[str, tuple[int, ...]] = {
            **(_shared_shapes(p, k, m) if missing is None else _own_shapes(p, k)),
            "noise_shape": (p,),
            "noise_rate": (p,),
            "scores_inner": (k, k),
            "scores_covariance": (k, k),
            "active": (k,),
            "tail_variance": (p,),
        }
        if missing is not None:
            own["location"] = (p,)
        if part["fit_info"] is not None:
            own["trace"] = (part["fit_info"]["n_trace"],)
        found |= {prefix + name: shape for name, shape in own.items()}
    if content["scores"]:
        found["scores"] = (content["n_rows"], content["parts"][0]["n_factors"])
    return found


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
    plausibility.check_size(name, array, positive=kind in POSITIVE)


def values(content: dict[str, Any], arrays: dict[str, Array]) -> list[dict[str, Any]]:
    """The fields of the posterior, then those of its alternatives; shapes are known to be right."""
    for name in shapes(content):
        _check_values(name, arrays[name])
    missing = content["missing"]
    shared = {
        "prior": content["prior"],
        "statistics": entries.statistics_of(content["statistics"], arrays),
        "center": arrays["center"],
        "scale": arrays["scale"],
        "n_rows": content["n_rows"],
        "names": content["names"],
        "correlation": arrays["correlation"] if missing and missing["correlation"] else None,
        "effective": entries.effective_of(missing),
    }
    first, *others = (
        _rebuild_part(part, arrays, prefix)
        for part, prefix in zip(content["parts"], _prefixes(), strict=False)
    )
    for part in (first, *others):
        with np.errstate(all="ignore"):  # what overflows is refused
            spread = (
                part["noise_distribution"].variance
                + part["tail_variance"]
                + part["loadings_distribution"].row_variance
            )
        plausibility.check_units(arrays["scale"], part["loadings_distribution"].mean, spread)
    rotation = content["rotation"]
    target = None if rotation is None else rotation.target
    if target is not None and np.shape(target) != first["loadings_distribution"].mean.shape:
        raise FileError(f"is damaged: a target of shape {np.shape(target)} is not of its loadings")
    own = {"rotation": rotation, "provenance": content["provenance"]}
    return [{**first, **shared, **own}, *({**other, **shared} for other in others)]


def _rebuild_part(part: dict[str, Any], arrays: dict[str, Array], prefix: str) -> dict[str, Any]:
    def of(name: str) -> Array:
        return arrays[prefix + name]

    plausibility.check_distribution(prefix, arrays)
    known = part["fit_info"]
    fit_info = entries.fit_info_of(known, None if known is None else of("trace"))
    distribution: LoadingsDistribution
    means = None
    if "counts" in arrays:
        distribution = RowwiseLoadings(
            of("loadings_mean"), of("loadings_covariance"), of("loadings_anchor"), part["log_det"]
        )
        _check_covariances(prefix, distribution)
        means = Means(of("location"), arrays["counts"])
    else:
        distribution = Loadings(
            of("loadings_mean"),
            of("loadings_basis"),
            of("loadings_weights"),
            of("loadings_eigenvalues"),
            part["log_det"],
        )
    return {
        "loadings_distribution": distribution,
        "means": means,
        "noise_distribution": Noise(of("noise_shape"), of("noise_rate")),
        "score_distribution": ScoreDistribution(
            of("scores_inner"), of("scores_covariance"), part["n"]
        ),
        "slab_probability": of("active"),
        "expected_active": part["expected_active"],
        "tail_variance": of("tail_variance"),
        "slab": part["slab"],
        "weight": part["weight"],
        "fit_info": fit_info,
    }


def _check_covariances(prefix: str, distribution: RowwiseLoadings) -> None:
    """Each must be positive definite, or draws would end in an error of NumPy's."""
    symmetric = np.array_equal(distribution.covariance, distribution.covariance.transpose(0, 2, 1))
    try:
        np.linalg.cholesky(distribution.covariance)
    except np.linalg.LinAlgError:
        symmetric = False
    if not symmetric:
        raise FileError(f"has numbers in {prefix}loadings_covariance.npy that cannot be there")


LAYOUT = Layout(KINDS, check, shapes)
