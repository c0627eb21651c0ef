"""Entries and arrays of a saved `VariationalPosterior`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cuspfa._typing import Array
from cuspfa.errors import FileError, InputError
from cuspfa.inference.updates import Loadings, LoadingsDistribution
from cuspfa.io import plausibility, records, schema
from cuspfa.io.records import PLAIN, Codec
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.posterior import entries
from cuspfa.posterior.distributions import Means, ScoreDistribution
from cuspfa.posterior.model_entries import SLAB

if TYPE_CHECKING:
    from cuspfa.posterior.variational import VariationalPosterior

MAX_ALTERNATIVES = 1000
"""Alternatives that a file may hold."""

_OWN: records.Codecs = {
    "expected_active": PLAIN[float],
    "slab": SLAB,
    "weight": Codec(schema.number_out, schema.as_share),
    "fit_info": entries.FIT_INFO.codec,
}


def _part(name: str, value: Any) -> dict[str, Any]:
    distributions = {
        "n_factors": schema.as_count,
        "n_directions": schema.as_count,
        "log_det": schema.as_number,
        "n": schema.as_positive,
    }
    return schema.fields(name, value, {**distributions, **records.checks(_OWN)})


class VariationalEntries(entries.PosteriorEntries):
    """What the file of a `VariationalPosterior` holds: one part for it and for each alternative."""

    kinds: ClassVar = {
        **entries.SHARED_KINDS,
        "parts": schema.list_of(_part, 1 + MAX_ALTERNATIVES),
    }

    def describe(
        self, posterior: VariationalPosterior, *, statistics: bool
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays of a posterior, with or without statistics of the data."""
        for other in posterior.alternatives:
            _check_shared(posterior, other)
        counts = None if posterior.means is None else posterior.means.counts
        about, data = entries.data_out(posterior, counts, statistics=statistics)
        arrays = {"center": posterior.center, "scale": posterior.scale, **data}
        parts = []
        for part, prefix in zip((posterior, *posterior.alternatives), _prefixes(), strict=False):
            parts.append(_describe_part(part))
            arrays |= {prefix + name: array for name, array in _part_arrays(part).items()}
        return entries.shared_out(posterior, **about, parts=parts), arrays

    def check(self, content: dict[str, Any]) -> None:
        """Raise a FileError without any part."""
        if not content["parts"]:
            raise FileError("is damaged: it describes no posterior")

    def shapes(self, content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """The arrays of a file and their shapes, in their order."""
        p, missing = content["n_columns"], content["missing"] is not None
        found = {"center": (p,), "scale": (p,), **entries.data_shapes(content)}
        for part, prefix in zip(content["parts"], _prefixes(), strict=False):
            k = part["n_factors"]
            own: dict[str, tuple[int, ...]] = {
                **_loadings_shapes(p, k, part["n_directions"], missing),
                "noise_shape": (p,),
                "noise_rate": (p,),
                "scores_inner": (k, k),
                "scores_covariance": (k, k),
                "active": (k,),
                "tail_variance": (p,),
            }
            if missing:
                own["location"] = (p,)
            if part["fit_info"] is not None:
                own["trace"] = (part["fit_info"]["n_trace"],)
            found |= {prefix + name: shape for name, shape in own.items()}
        if content["scores"]:
            found["scores"] = (content["n_rows"], content["parts"][0]["n_factors"])
        return found

    def values(self, content: dict[str, Any], arrays: dict[str, Array]) -> list[dict[str, Any]]:
        """Fields of the posterior, then those of its alternatives; arrays have their shapes."""
        plausibility.check_arrays(arrays, positive=POSITIVE, not_negative=NOT_NEGATIVE)
        shared = entries.shared_fields(content, arrays)
        first, *others = (
            _rebuild_part(part, arrays, prefix)
            for part, prefix in zip(content["parts"], _prefixes(), strict=False)
        )
        for part in (first, *others):
            with np.errstate(all="ignore"):  # what overflows is refused
                variance = (
                    part["noise_distribution"].variance
                    + part["tail_variance"]
                    + part["loadings_distribution"].row_variance
                )
            plausibility.check_units(arrays["scale"], part["loadings_distribution"].mean, variance)
        rotation = content["rotation"]
        target = None if rotation is None else rotation.target
        if target is not None and np.shape(target) != first["loadings_distribution"].mean.shape:
            raise FileError(
                f"is damaged: a target of shape {np.shape(target)} is not of its loadings"
            )
        own = entries.presented_fields(content, content["parts"][0]["n_factors"])
        return [{**first, **shared, **own}, *({**other, **shared} for other in others)]


def _prefixes() -> Iterator[str]:
    """Prefixes of the names of the arrays of each part; the first part is the posterior itself."""
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
        "log_det": schema.number_out(part.loadings_distribution.log_det),
        "n": schema.number_out(part.score_distribution.n),
        **records.fields_out(part, _OWN),
    }


def _part_arrays(part: VariationalPosterior) -> dict[str, Array]:
    distribution = part.loadings_distribution
    names = _loadings_shapes(
        len(part.scale), part.n_active, distribution.directions, part.means is not None
    )
    arrays = {
        **{name: getattr(distribution, name.removeprefix("loadings_")) for name in names},
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


def _loadings_shapes(p: int, k: int, m: int, missing: bool) -> dict[str, tuple[int, ...]]:
    """Arrays of q(Λ), by row with missing values and else with a common basis of m directions.

    Each is a field of the distribution with `loadings_` before its name.
    """
    if missing:
        return {
            "loadings_mean": (p, k),
            "loadings_covariance": (p, k, k),
            "loadings_anchor": (p, k),
        }
    return {
        "loadings_mean": (p, k),
        "loadings_basis": (k, m),
        "loadings_weights": (p,),
        "loadings_eigenvalues": (m,),
    }


POSITIVE = ("scale", "noise_shape", "noise_rate", "counts")
NOT_NEGATIVE = ("loadings_weights", "loadings_eigenvalues", "active", "tail_variance")


def _rebuild_part(part: dict[str, Any], arrays: dict[str, Array], prefix: str) -> dict[str, Any]:
    def of(name: str) -> Array:
        return arrays[prefix + name]

    plausibility.check_distribution(prefix, arrays)
    known = part["fit_info"]
    fit_info = entries.FIT_INFO.read(known, None if known is None else of("trace"))
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
