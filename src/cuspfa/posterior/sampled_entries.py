"""Entries and arrays of a saved `SampledPosterior`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cuspfa._typing import Array
from cuspfa.errors import FileError
from cuspfa.io import plausibility
from cuspfa.io import schema as json_kinds
from cuspfa.io.posterior_format import Layout
from cuspfa.posterior import entries

if TYPE_CHECKING:
    from cuspfa.posterior.sampled import SampledPosterior

KINDS: dict[str, json_kinds.Kind] = {
    **entries.SHARED_KINDS,
    "n_draws": json_kinds.count,
    "n_chains": json_kinds.count,
    "n_terms": json_kinds.count,
    "n_factors": json_kinds.count,
    "spike": json_kinds.positive,
    "missing": json_kinds.optional(entries.missing_in),
    "fit_info": entries.fit_info_in,
}


def describe(
    posterior: SampledPosterior, statistics: bool
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Plain values and arrays."""
    size, _, width = posterior.loadings_draws.shape
    arrays = {
        "center": posterior.center,
        "scale": posterior.scale,
        "loadings": posterior.loadings_draws,
        "noise_variance": posterior.noise_variance_draws,
        "active": posterior.active_draws.astype(float),
        "log_likelihood": posterior.log_likelihood,
    }
    missing = None
    if posterior.mean_draws is not None and posterior.counts is not None:
        arrays |= {"mean": posterior.mean_draws, "counts": posterior.counts}
        correlation = posterior.correlation if statistics else None
        missing = entries.missing_out(correlation, posterior.effective)
        if correlation is not None:
            arrays["correlation"] = correlation
    known = None
    if statistics and posterior.statistics is not None:
        known, arrays["statistics"] = entries.statistics_out(posterior.statistics)
    if posterior.fit_info is not None:
        arrays["trace"] = posterior.fit_info.trace
    content = entries.shared_out(
        posterior,
        statistics=known,
        n_draws=size,
        n_chains=int(posterior.n_chains),
        n_terms=width,
        n_factors=posterior.n_active,
        spike=float(posterior.spike),
        missing=missing,
        fit_info=entries.fit_info_out(posterior.fit_info),
    )
    return content, arrays


def check(content: dict[str, Any]) -> None:
    """Numbers that must go together."""
    if not content["n_chains"] or not content["n_draws"]:
        raise FileError("is damaged: it holds no draws")
    if content["n_draws"] % content["n_chains"]:
        raise FileError("is damaged: its chains are of different lengths")


def shapes(content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The arrays of a file, in their order."""
    p, size, width = content["n_columns"], content["n_draws"], content["n_terms"]
    found: dict[str, tuple[int, ...]] = {
        "center": (p,),
        "scale": (p,),
        "loadings": (size, p, width),
        "noise_variance": (size, p),
        "active": (size, width),
        "log_likelihood": (size,),
    }
    if content["missing"] is not None:
        found |= {"mean": (size, p), "counts": (p,)}
        if content["missing"]["correlation"]:
            found["correlation"] = (p, p)
    if content["statistics"] is not None:
        found["statistics"] = (content["statistics"]["n_rows"], p)
    if content["fit_info"] is not None:
        found["trace"] = (content["fit_info"]["n_trace"],)
    if content["scores"]:
        found["scores"] = (content["n_rows"], content["n_factors"])
    return found


def values(content: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """The fields of the posterior; shapes are known to be right."""
    for name, array in arrays.items():
        right = np.isfinite(array)
        if name in ("scale", "noise_variance", "counts"):
            right &= array > 0
        elif name == "active":
            right &= (array == 0) | (array == 1)
        if name != "trace" and not np.all(right):
            raise FileError(f"has numbers in {name}.npy that cannot be there")
        plausibility.check_size(name, array, positive=name == "noise_variance")
    return {
        "loadings_draws": arrays["loadings"],
        "noise_variance_draws": arrays["noise_variance"],
        "active_draws": arrays["active"] > 0,
        "log_likelihood": arrays["log_likelihood"],
        "n_chains": content["n_chains"],
        "spike": content["spike"],
        "prior": content["prior"],
        "statistics": entries.statistics_of(content["statistics"], arrays),
        "center": arrays["center"],
        "scale": arrays["scale"],
        "n_rows": content["n_rows"],
        "names": content["names"],
        "mean_draws": arrays.get("mean"),
        "counts": arrays.get("counts"),
        "correlation": arrays.get("correlation"),
        "effective": entries.effective_of(content["missing"]),
        "rotation": content["rotation"],
        "provenance": content["provenance"],
        "fit_info": entries.fit_info_of(content["fit_info"], arrays.get("trace")),
    }


LAYOUT = Layout(KINDS, check, shapes)
