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
    from cuspfa.posterior.sampled import Diagnostics as Diagnostics
    from cuspfa.posterior.sampled import SampledPosterior as SampledPosterior
    from cuspfa.posterior.variational import VariationalPosterior as VariationalPosterior

__all__ = [
    "Diagnostics",
    "Draws",
    "FitInfo",
    "Interval",
    "Posterior",
    "SampledPosterior",
    "SearchEntry",
    "VariationalPosterior",
    "load",
    "load_scores",
]
_MODULES = {
    "Diagnostics": "sampled",
    "Draws": "draws",
    "FitInfo": "fit_info",
    "Interval": "draws",
    "Posterior": "base",
    "SampledPosterior": "sampled",
    "SearchEntry": "fit_info",
    "VariationalPosterior": "variational",
    "load": "files",
    "load_scores": "files",
}


def __getattr__(name: str) -> Any:
    return attribute(__name__, _MODULES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
