"""Entries and arrays of a saved `LatentPosterior`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from cuspfa._typing import Array
from cuspfa.errors import FileError
from cuspfa.io import plausibility, records, schema
from cuspfa.io.records import PLAIN, Codec
from cuspfa.model.likelihoods.kinds import ColumnLikelihood, LikelihoodTable
from cuspfa.model.likelihoods.links import LINKS
from cuspfa.posterior import entries

if TYPE_CHECKING:
    from cuspfa.posterior.latent import LatentPosterior
    from cuspfa.posterior.sampled_latent import SampledLatentPosterior


def _level(name: str, value: Any) -> int:
    """A whole number, which may be negative."""
    if type(value) is not int:
        raise schema.wrong(name, value)
    return value


_LEVELS = Codec(list, lambda name, value: tuple(schema.list_of(_level)(name, value)))
_LINK = Codec(str, schema.word("", *LINKS))
_COLUMN = records.record_codec(ColumnLikelihood, PLAIN, levels=_LEVELS, link=_LINK)
_LABELS = schema.list_of(
    lambda name, value: schema.fields(
        name, value, {"column": schema.as_text, "labels": schema.list_of(schema.as_text)}
    )
)
PARAMETERS = ("mean", "noise_variance", "thresholds", "dispersion")
"""Arrays of parameters, with `mode_` or `draws_` before their names."""
POSITIVE_ARRAYS = (
    "scale",
    "counts",
    *(f"{kind}_{name}" for kind in ("mode", "draws") for name in ("noise_variance", "dispersion")),
)
"""Arrays of numbers above zero."""
_KNOTS = schema.list_of(
    lambda name, value: schema.fields(name, value, {"column": schema.as_text, "n": schema.as_count})
)


class LatentEntries(entries.PosteriorEntries):
    """What the file of a `LatentPosterior` holds: the mode, and draws."""

    kinds: ClassVar = {
        **entries.SHARED_KINDS,
        "n_factors": schema.as_count,
        "n_draws": schema.as_count,
        "n_chains": schema.as_count,
        "likelihoods": schema.list_of(_COLUMN.check),
        "categories": _LABELS,
        "transforms": _KNOTS,
        "exact": schema.as_flag,
        "mean_offset": schema.as_number,
        "fit_info": entries.FIT_INFO.codec.check,
    }

    def describe(
        self, posterior: LatentPosterior, *, statistics: bool
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays of a posterior, with or without correlations of the data."""
        kept = posterior.kept
        about, data = entries.data_out(posterior, posterior.counts, statistics=statistics)
        arrays = {
            "center": posterior.center,
            "scale": posterior.scale,
            "loadings_mode": posterior.loadings_mode,
            **{f"mode_{name}": getattr(posterior.parameters, name) for name in PARAMETERS},
            "frequencies": posterior.frequencies,
            "draws_loadings": kept.loadings,
            **{f"draws_{name}": getattr(kept.parameters, name) for name in PARAMETERS},
            "knots": _knots(posterior),
            **data,
        }
        if posterior.fit_info is not None:
            arrays["trace"] = posterior.fit_info.trace
        labels = [
            {"column": name, "labels": list(own)} for name, own in posterior.categories.items()
        ]
        content = entries.shared_out(
            posterior,
            **about,
            n_factors=posterior.n_active,
            n_draws=len(kept.loadings),
            n_chains=kept.n_chains,
            likelihoods=[_COLUMN.out(one) for one in posterior.likelihoods],
            categories=labels,
            transforms=[
                {"column": name, "n": len(own.values)} for name, own in posterior.transforms.items()
            ],
            exact=posterior.exact,
            mean_offset=posterior.mean_offset,
            fit_info=entries.FIT_INFO.codec.out(posterior.fit_info),
        )
        return content, arrays

    def check(self, content: dict[str, Any]) -> None:
        """Raise a FileError where values contradict each other."""
        entries.check_chains(content)
        columns = content["likelihoods"]
        if len(columns) != content["n_columns"] or content["missing"] is None:
            raise FileError("is damaged: it does not say what its columns are")
        for one in columns:
            levels, ordinal = one.levels, one.kind == "ordinal"
            if ordinal != bool(one.link) or list(levels) != sorted(set(levels)):
                raise FileError("is damaged: the categories of a column contradict its likelihood")
            if ordinal != (len(levels) > 1):
                raise FileError("is damaged: the categories of a column contradict its likelihood")
        names = {one.column for one in columns}
        if any(one["column"] not in names for one in content["categories"]):
            raise FileError("is damaged: it has labels for a column that is not there")
        labels = {one["column"]: one["labels"] for one in content["categories"]}
        knots = {one["column"] for one in content["transforms"] if one["n"] > 1}
        if len(knots) != len(content["transforms"]):
            raise FileError("is damaged: a column of normal scores lacks its function")
        for one in columns:
            if (one.kind == "normal_scores") != (one.column in knots):
                raise FileError("is damaged: a column of normal scores lacks its function")
            if one.column in labels and not (
                one.levels and 0 <= one.levels[0] <= one.levels[-1] < len(labels[one.column])
            ):
                raise FileError("is damaged: the labels of a column are not those of its levels")

    def shapes(self, content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """The arrays of a file and their shapes, in their order."""
        p, k, size = content["n_columns"], content["n_factors"], content["n_draws"]
        levels = [len(one.levels) for one in content["likelihoods"]]
        thresholds = sum(max(number - 1, 0) for number in levels)
        dispersed = sum(one.kind == "negative_binomial" for one in content["likelihoods"])
        found: dict[str, tuple[int, ...]] = {
            "center": (p,),
            "scale": (p,),
            "loadings_mode": (p, k),
            "mode_mean": (p,),
            "mode_noise_variance": (p,),
            "mode_thresholds": (thresholds,),
            "frequencies": (sum(levels),),
            "draws_loadings": (size, p, k),
            "draws_mean": (size, p),
            "draws_noise_variance": (size, p),
            "draws_thresholds": (size, thresholds),
            "knots": (2, sum(one["n"] for one in content["transforms"])),
            **entries.data_shapes(content),
            **entries.further_shapes(content),
        }
        if dispersed:  # older versions have none
            found |= {"mode_dispersion": (dispersed,), "draws_dispersion": (size, dispersed)}
        return found

    def values(self, content: dict[str, Any], arrays: dict[str, Array]) -> list[dict[str, Any]]:
        """Fields of the posterior; arrays have their shapes."""
        plausibility.check_arrays(
            arrays, positive=POSITIVE_ARRAYS, whole=("frequencies",), binary=("active",)
        )
        none = np.zeros((content["n_draws"], 0))
        arrays = {"mode_dispersion": none[0], "draws_dispersion": none, **arrays}
        columns = LikelihoodTable(content["likelihoods"])
        _check_order(columns, arrays["mode_thresholds"][None])
        _check_order(columns, arrays["draws_thresholds"])
        own = {
            "columns": columns,
            "loadings_mode": arrays["loadings_mode"],
            "mode": {name: arrays[f"mode_{name}"] for name in PARAMETERS},
            "knots": _read_knots(content, arrays["knots"]),
            "exact": content["exact"],
            "mean_offset": content["mean_offset"],
            "frequencies": arrays["frequencies"],
            "counts": arrays["counts"],
            "categories": {one["column"]: tuple(one["labels"]) for one in content["categories"]},
            "draws": {
                "loadings": arrays["draws_loadings"],
                "parameters": {name: arrays[f"draws_{name}"] for name in PARAMETERS},
                "n_chains": content["n_chains"],
            },
            "fit_info": entries.FIT_INFO.read(content["fit_info"], arrays.get("trace")),
            **entries.presented_fields(content, content["n_factors"]),
        }
        return [{**own, **entries.shared_fields(content, arrays)}]


class SampledLatentEntries(LatentEntries):
    """What the file of a `SampledLatentPosterior` holds: the same, and which columns are active."""

    kinds: ClassVar = {
        **LatentEntries.kinds,
        "n_terms": schema.as_count,
        "spike": schema.as_positive,
    }

    def describe(
        self, posterior: LatentPosterior, *, statistics: bool
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays, with those of the sampler."""
        sampled = cast("SampledLatentPosterior", posterior)
        content, arrays = super().describe(posterior, statistics=statistics)
        content |= {"n_terms": sampled.active_draws.shape[1], "spike": float(sampled.spike)}
        arrays["active"] = sampled.active_draws.astype(float)
        arrays["log_likelihood"] = sampled.log_likelihood
        return content, arrays

    def shapes(self, content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """The arrays of a file and their shapes, in their order."""
        p, size, width = content["n_columns"], content["n_draws"], content["n_terms"]
        found = super().shapes(content)
        found["draws_loadings"] = (size, p, width)
        return {**found, "active": (size, width), "log_likelihood": (size,)}

    def values(self, content: dict[str, Any], arrays: dict[str, Array]) -> list[dict[str, Any]]:
        """Fields of the posterior; arrays have their shapes."""
        (fields,) = super().values(content, arrays)
        active = arrays["active"]
        if int(np.argmax(np.bincount(active.sum(axis=1).astype(int)))) != content["n_factors"]:
            raise FileError("is damaged: its draws have another number of factors than it says")
        own = {
            "active_draws": active > 0,
            "log_likelihood": arrays["log_likelihood"],
            "spike": content["spike"],
            "n_chains": content["n_chains"],
        }
        return [{**fields, **own}]


def _knots(posterior: LatentPosterior) -> Array:
    """(2, …) values and scores of all functions to normal scores."""
    parts = [np.array([own.values, own.scores]) for own in posterior.transforms.values()]
    return np.concatenate([np.zeros((2, 0)), *parts], axis=1)


def _read_knots(content: dict[str, Any], knots: Array) -> dict[str, Array]:
    sizes = [one["n"] for one in content["transforms"]]
    parts = np.split(knots, np.cumsum(sizes)[:-1], axis=1)
    found = {one["column"]: own for one, own in zip(content["transforms"], parts, strict=False)}
    if any(np.any(np.diff(own, axis=1) <= 0) for own in found.values()):
        raise FileError("is damaged: a function to normal scores does not increase")
    return found


def _check_order(columns: LikelihoodTable, thresholds: Array) -> None:
    """Thresholds of a column are in order."""
    first = 0
    for one in columns:
        last = first + max(len(one.levels) - 1, 0)
        if np.any(np.diff(thresholds[:, first:last], axis=1) < 0):
            raise FileError("is damaged: thresholds of a column are not in order")
        first = last
