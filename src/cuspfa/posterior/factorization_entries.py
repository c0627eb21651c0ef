"""Entries and arrays of a saved `FactorizationPosterior`: nothing of a single row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.spelling import EngineSettings
from cuspfa.errors import FileError
from cuspfa.io import plausibility, records, schema
from cuspfa.io.records import PLAIN, Codec
from cuspfa.model.poisson_factorization import Hyperparameters, PoissonFactorizationPrior
from cuspfa.posterior import entries
from cuspfa.posterior.factorization_results import (
    CountFitInfo,
    CountProvenance,
    CountSearchEntry,
    CountSearchPath,
    CountSettings,
    CountTotals,
    FactorizationDraws,
    monitored_columns,
)
from cuspfa.posterior.provenance_entries import (
    PARTS,
    as_number_of_factors,
    as_seed,
    unchanged,
)

if TYPE_CHECKING:
    from cuspfa.posterior.factorization import FactorizationPosterior
    from cuspfa.posterior.sampled_factorization import SampledFactorizationPosterior

ROUNDING = 1e-8
"""By which shares may miss a sum of 1."""
MOST_FACTORS = 10**6
"""More than any draw of a sampler has."""


_PRIOR = records.record_codec(PoissonFactorizationPrior)
_HYPER = records.record_codec(
    Hyperparameters, {**PLAIN, float: Codec(schema.number_out, schema.as_positive)}
)
_SETTINGS = records.record_codec(
    CountSettings,
    n_factors=Codec(unchanged, as_number_of_factors),
    random_state=Codec(unchanged, as_seed),
)
_PROVENANCE = records.optional(
    records.record_codec(CountProvenance, {**PARTS, CountSettings: _SETTINGS})
)
_FIT_INFO_OF_COUNTS = entries.FitInfoEntries(
    CountFitInfo, search=(CountSearchEntry, CountSearchPath)
)
_TOTALS = records.field_codecs(CountTotals, PLAIN, leave_out=("by_column", "dispersion"))


def _totals_in(name: str, value: Any) -> dict[str, Any]:
    return schema.fields(name, value, records.checks(_TOTALS))


class FactorizationEntries:
    """What the file of a `FactorizationPosterior` holds."""

    kinds: ClassVar[dict[str, schema.JsonKind]] = {
        **entries.FILE_KINDS,
        "n_factors": schema.as_count,
        "prior": _PRIOR.check,
        "hyperparameters": _HYPER.check,
        "totals": _totals_in,
        "n_draws": schema.as_count,
        "exact": schema.as_flag,
        "fit_info": _FIT_INFO_OF_COUNTS.codec.check,
        "provenance": _PROVENANCE.check,
        "statistics": schema.as_null,
    }

    def describe(
        self, posterior: FactorizationPosterior
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays of a posterior."""
        kept, info = posterior.kept, posterior.fit_info
        arrays = {
            "loading_shape": posterior.loading_shape,
            "loading_rate": posterior.loading_rate,
            "score_totals": posterior.score_totals,
            "by_column": posterior.totals.by_column,
            "dispersion": posterior.totals.dispersion,
            "draws_loadings": kept.loadings,
            "draws_shares": kept.shares,
            "draws_hyperparameters": np.array(kept.hyperparameters),
        }
        if info is not None:
            arrays["trace"] = info.trace
        content = {
            "n_rows": int(posterior.n_rows),
            "n_columns": posterior.n_columns,
            "n_factors": posterior.n_active,
            "names": None if posterior.names is None else list(posterior.names),
            "prior": _PRIOR.out(posterior.prior),
            "hyperparameters": _HYPER.out(posterior.hyperparameters),
            "totals": records.fields_out(posterior.totals, _TOTALS),
            "n_draws": len(kept),
            "exact": bool(posterior.has_exact_draws),
            "fit_info": _FIT_INFO_OF_COUNTS.codec.out(info),
            "provenance": _PROVENANCE.out(posterior.provenance),
            "presentation": entries.PRESENTATION.out(posterior.presentation),
            "statistics": None,
            "kind": posterior.kind,
        }
        return content, arrays

    def check(self, content: dict[str, Any]) -> None:
        """Raise a FileError where values contradict each other."""
        if not content["n_draws"]:
            raise FileError("is damaged: it holds no draws")
        totals, cells = content["totals"], content["n_rows"] * content["n_columns"]
        if totals["n_positive"] + totals["n_missing"] > cells:
            raise FileError(f"is damaged: it has more counts than {cells} cells")
        if not (totals["n_events"] >= 0 and totals["dispersion_of_all"] >= 0):
            raise FileError("is damaged: sums of counts cannot be negative")

    def shapes(self, content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """The arrays of a file and their shapes, in their order."""
        p, k, size = content["n_columns"], content["n_factors"], content["n_draws"]
        return {
            "loading_shape": (p, k),
            "loading_rate": (p, k),
            "score_totals": (k,),
            "by_column": (p,),
            "dispersion": (p,),
            "draws_loadings": (size, p, k),
            "draws_shares": (size, k),
            "draws_hyperparameters": (size, 4),
            **entries.further_shapes(content),
        }

    def values(self, content: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
        """Fields of the posterior; arrays have their shapes."""
        plausibility.check_arrays(
            arrays,
            positive=("loading_shape", "loading_rate", "score_totals", "draws_hyperparameters"),
            not_negative=("by_column", "dispersion", "draws_loadings", "draws_shares"),
            whole=("count_draws",),
        )
        shares = arrays["draws_shares"]
        if content["n_factors"] and np.any(np.abs(shares.sum(axis=1) - 1) > ROUNDING):
            raise FileError("is damaged: shares of factors do not sum to 1")
        if np.any(arrays["draws_loadings"].sum(axis=1) <= 0):
            raise FileError("is damaged: a factor has no loadings")
        return {
            "n_rows": content["n_rows"],
            "loading_shape": arrays["loading_shape"],
            "loading_rate": arrays["loading_rate"],
            "score_totals": arrays["score_totals"],
            "hyperparameters": content["hyperparameters"],
            "prior": content["prior"],
            "totals": CountTotals(
                **content["totals"],
                by_column=arrays["by_column"],
                dispersion=arrays["dispersion"],
            ),
            "names": None if content["names"] is None else tuple(content["names"]),
            "stored": FactorizationDraws(
                arrays["draws_loadings"],
                shares,
                tuple(Hyperparameters(*map(float, one)) for one in arrays["draws_hyperparameters"]),
            ),
            "exact": content["exact"],
            "fit_info": _FIT_INFO_OF_COUNTS.read(content["fit_info"], arrays.get("trace")),
            "provenance": content["provenance"],
            "presentation": entries.read_presentation(content, content["n_factors"]),
        }


class SampledFactorizationEntries(FactorizationEntries):
    """What the file of a `SampledFactorizationPosterior` holds: also the course of the chains."""

    kinds: ClassVar[dict[str, schema.JsonKind]] = {
        **FactorizationEntries.kinds,
        "n_chains": schema.as_count,
        "n_sampled": schema.as_count,
        "engine": PARTS[EngineSettings].check,
    }

    def describe(
        self, posterior: FactorizationPosterior
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values and arrays of a posterior."""
        sampled = cast("SampledFactorizationPosterior", posterior)
        content, arrays = super().describe(sampled)
        content |= {
            "n_chains": int(sampled.n_chains),
            "n_sampled": len(sampled.count_draws),
            "engine": PARTS[EngineSettings].out(sampled.engine),
        }
        arrays |= {
            "count_draws": sampled.count_draws.astype(float),
            "log_likelihood": sampled.log_likelihood,
            "monitored": sampled.monitored,
        }
        return content, arrays

    def check(self, content: dict[str, Any]) -> None:
        """Raise a FileError where values contradict each other."""
        super().check(content)
        entries.check_chains({**content, "n_draws": content["n_sampled"]})

    def shapes(self, content: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """The arrays of a file and their shapes, in their order."""
        size, some = content["n_sampled"], len(monitored_columns(content["n_columns"]))
        return {
            **super().shapes(content),
            "count_draws": (size,),
            "log_likelihood": (size,),
            "monitored": (size, some * (some + 1) // 2),
        }

    def values(self, content: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
        """Fields of the posterior; arrays have their shapes."""
        found = super().values(content, arrays)
        counts = arrays["count_draws"].astype(int)
        if counts.max() > MOST_FACTORS:
            raise FileError("is damaged: a draw has too many factors")
        if np.argmax(np.bincount(counts)) != content["n_factors"]:
            raise FileError("is damaged: its draws have another number of factors than it says")
        return {
            **found,
            "count_draws": counts,
            "log_likelihood": arrays["log_likelihood"],
            "monitored": arrays["monitored"],
            "n_chains": content["n_chains"],
            "engine": content["engine"],
        }
