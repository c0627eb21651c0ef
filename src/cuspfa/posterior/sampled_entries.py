"""Entries and arrays of a saved `SampledPosterior`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from cuspfa._typing import Array
from cuspfa.io import plausibility, schema
from cuspfa.posterior import entries

if TYPE_CHECKING:
    from cuspfa.posterior.sampled import SampledPosterior


class SampledEntries(entries.PosteriorEntries):
    """What the file of a `SampledPosterior` holds."""

    kinds: ClassVar = {
        **entries.SHARED_KINDS,
        "n_draws": schema.as_count,
        "n_chains": schema.as_count,
        "n_terms": schema.as_count,
        "n_factors": schema.as_count,
        "spike": schema.as_positive,
        "fit_info": entries.FIT_INFO.codec.check,
    }

    def describe(
        self, posterior: SampledPosterior, *, statistics: bool
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays of a posterior, with or without statistics of the data."""
        size, _, width = posterior.loadings_draws.shape
        arrays = {
            "center": posterior.center,
            "scale": posterior.scale,
            "loadings": posterior.loadings_draws,
            "noise_variance": posterior.noise_variance_draws,
            "active": posterior.active_draws.astype(float),
            "log_likelihood": posterior.log_likelihood,
        }
        counts = None
        if posterior.mean_draws is not None:
            counts, arrays["mean"] = posterior.counts, posterior.mean_draws
        about, data = entries.data_out(posterior, counts, statistics=statistics)
        arrays |= data
        if posterior.fit_info is not None:
            arrays["trace"] = posterior.fit_info.trace
        content = entries.shared_out(
            posterior,
            **about,
            n_draws=size,
            n_chains=int(posterior.n_chains),
            n_terms=width,
            n_factors=posterior.n_active,
            spike=float(posterior.spike),
            fit_info=entries.FIT_INFO.codec.out(posterior.fit_info),
        )
        return content, arrays

    def check(self, content: dict[str, Any]) -> None:
        """Raise a FileError without draws, or with chains of different lengths."""
        entries.check_chains(content)

    def shapes(self, content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """The arrays of a file and their shapes, in their order."""
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
            found["mean"] = (size, p)
        return {**found, **entries.data_shapes(content), **entries.further_shapes(content)}

    def values(self, content: dict[str, Any], arrays: dict[str, Array]) -> list[dict[str, Any]]:
        """Fields of the posterior; arrays have their shapes."""
        plausibility.check_arrays(
            arrays, positive=("scale", "noise_variance", "counts"), binary=("active",)
        )
        own = {
            "loadings_draws": arrays["loadings"],
            "noise_variance_draws": arrays["noise_variance"],
            "active_draws": arrays["active"] > 0,
            "log_likelihood": arrays["log_likelihood"],
            "n_chains": content["n_chains"],
            "spike": content["spike"],
            "mean_draws": arrays.get("mean"),
            "counts": arrays.get("counts"),
            "fit_info": entries.FIT_INFO.read(content["fit_info"], arrays.get("trace")),
            **entries.presented_fields(content, content["n_factors"]),
        }
        return [{**own, **entries.shared_fields(content, arrays)}]
