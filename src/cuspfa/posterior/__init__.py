"""Posterior distributions of fitted models, the same for every engine, in the user's units."""

from typing import TYPE_CHECKING, Any

from cuspfa._utils.lazy import attribute

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior as Posterior
    from cuspfa.posterior.draws import Draws as Draws
    from cuspfa.posterior.draws import Interval as Interval
    from cuspfa.posterior.files import load as load
    from cuspfa.posterior.files import load_scores as load_scores
    from cuspfa.posterior.fit_info import FitInfo as FitInfo
    from cuspfa.posterior.fit_info import SearchEntry as SearchEntry
    from cuspfa.posterior.fit_info import SearchPath as SearchPath
    from cuspfa.posterior.predictive import FactorScores as FactorScores
    from cuspfa.posterior.provenance import Provenance as Provenance
    from cuspfa.posterior.sampled import Diagnostics as Diagnostics
    from cuspfa.posterior.sampled import SampledPosterior as SampledPosterior
    from cuspfa.posterior.variational import VariationalPosterior as VariationalPosterior
    from cuspfa.reporting.summary import Summary as Summary

__all__ = [
    "Diagnostics",
    "Draws",
    "FactorScores",
    "FitInfo",
    "Interval",
    "Posterior",
    "Provenance",
    "SampledPosterior",
    "SearchEntry",
    "SearchPath",
    "Summary",
    "VariationalPosterior",
    "load",
    "load_scores",
]
_MODULES = {
    "Diagnostics": "cuspfa.posterior.sampled",
    "Draws": "cuspfa.posterior.draws",
    "FactorScores": "cuspfa.posterior.predictive",
    "FitInfo": "cuspfa.posterior.fit_info",
    "Interval": "cuspfa.posterior.draws",
    "Posterior": "cuspfa.posterior.base",
    "Provenance": "cuspfa.posterior.provenance",
    "SampledPosterior": "cuspfa.posterior.sampled",
    "SearchEntry": "cuspfa.posterior.fit_info",
    "SearchPath": "cuspfa.posterior.fit_info",
    "Summary": "cuspfa.reporting.summary",
    "VariationalPosterior": "cuspfa.posterior.variational",
    "load": "cuspfa.posterior.files",
    "load_scores": "cuspfa.posterior.files",
}


def __getattr__(name: str) -> Any:
    return attribute(__name__, _MODULES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
