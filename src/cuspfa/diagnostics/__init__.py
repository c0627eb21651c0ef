"""Results on the number of factors, assumptions, fit, and sensitivity to the prior.

The functions that give them are in `cuspfa`, `cuspfa.fit_indices` and `cuspfa.retention`.
"""

from typing import TYPE_CHECKING, Any

from cuspfa._utils.lazy import attribute

if TYPE_CHECKING:
    from cuspfa.diagnostics.assumptions import Finding as Finding
    from cuspfa.diagnostics.fit_indices import Bartlett as Bartlett
    from cuspfa.diagnostics.fit_indices import Kmo as Kmo
    from cuspfa.diagnostics.fit_indices import Rmsea as Rmsea
    from cuspfa.diagnostics.fit_measures import FitMeasures as FitMeasures
    from cuspfa.diagnostics.fit_measures import Residual as Residual
    from cuspfa.diagnostics.n_factors import FactorSelection as FactorSelection
    from cuspfa.diagnostics.n_factors import HeldOut as HeldOut
    from cuspfa.diagnostics.n_factors import Replication as Replication
    from cuspfa.diagnostics.prior_sensitivity import PriorSensitivity as PriorSensitivity
    from cuspfa.diagnostics.prior_sensitivity import PriorSensitivityRow as PriorSensitivityRow
    from cuspfa.diagnostics.retention import FactorMatch as FactorMatch
    from cuspfa.diagnostics.retention import MinimumAveragePartial as MinimumAveragePartial
    from cuspfa.diagnostics.retention import ParallelAnalysis as ParallelAnalysis

__all__ = [
    "Bartlett",
    "FactorMatch",
    "FactorSelection",
    "Finding",
    "FitMeasures",
    "HeldOut",
    "Kmo",
    "MinimumAveragePartial",
    "ParallelAnalysis",
    "PriorSensitivity",
    "PriorSensitivityRow",
    "Replication",
    "Residual",
    "Rmsea",
]
_MODULES = {
    "Bartlett": "cuspfa.diagnostics.fit_indices",
    "FactorMatch": "cuspfa.diagnostics.retention",
    "FactorSelection": "cuspfa.diagnostics.n_factors",
    "Finding": "cuspfa.diagnostics.assumptions",
    "FitMeasures": "cuspfa.diagnostics.fit_measures",
    "HeldOut": "cuspfa.diagnostics.n_factors",
    "Kmo": "cuspfa.diagnostics.fit_indices",
    "MinimumAveragePartial": "cuspfa.diagnostics.retention",
    "ParallelAnalysis": "cuspfa.diagnostics.retention",
    "PriorSensitivity": "cuspfa.diagnostics.prior_sensitivity",
    "PriorSensitivityRow": "cuspfa.diagnostics.prior_sensitivity",
    "Replication": "cuspfa.diagnostics.n_factors",
    "Residual": "cuspfa.diagnostics.fit_measures",
    "Rmsea": "cuspfa.diagnostics.fit_indices",
}


def __getattr__(name: str) -> Any:
    return attribute(__name__, _MODULES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
