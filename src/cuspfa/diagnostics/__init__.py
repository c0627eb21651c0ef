"""Results on the number of factors, assumptions, fit, and sensitivity to the prior.

The functions that give them are in `cuspfa`, `cuspfa.fit_indices` and `cuspfa.retention`.
"""

from typing import TYPE_CHECKING

from cuspfa._utils.lazy import lazy_names, public_names

if TYPE_CHECKING:
    from cuspfa.diagnostics.assumptions import Finding as Finding
    from cuspfa.diagnostics.fit_indices import Bartlett as Bartlett
    from cuspfa.diagnostics.fit_indices import Kmo as Kmo
    from cuspfa.diagnostics.fit_indices import Rmsea as Rmsea
    from cuspfa.diagnostics.fit_measures import FitMeasures as FitMeasures
    from cuspfa.diagnostics.fit_measures import Residual as Residual
    from cuspfa.diagnostics.n_factors import FactorSelection as FactorSelection
    from cuspfa.diagnostics.n_factors import Replication as Replication
    from cuspfa.diagnostics.prior_sensitivity import PriorSensitivity as PriorSensitivity
    from cuspfa.diagnostics.prior_sensitivity import PriorSensitivityRow as PriorSensitivityRow
    from cuspfa.diagnostics.resampling import HeldOut as HeldOut
    from cuspfa.diagnostics.retention import FactorMatch as FactorMatch
    from cuspfa.diagnostics.retention import MinimumAveragePartial as MinimumAveragePartial
    from cuspfa.diagnostics.retention import ParallelAnalysis as ParallelAnalysis

_DEFINED_IN = {
    "cuspfa.diagnostics.assumptions": ("Finding",),
    "cuspfa.diagnostics.fit_indices": ("Bartlett", "Kmo", "Rmsea"),
    "cuspfa.diagnostics.fit_measures": ("FitMeasures", "Residual"),
    "cuspfa.diagnostics.n_factors": ("FactorSelection", "Replication"),
    "cuspfa.diagnostics.prior_sensitivity": ("PriorSensitivity", "PriorSensitivityRow"),
    "cuspfa.diagnostics.resampling": ("HeldOut",),
    "cuspfa.diagnostics.retention": ("FactorMatch", "MinimumAveragePartial", "ParallelAnalysis"),
}
__all__ = public_names(_DEFINED_IN)
__getattr__, __dir__ = lazy_names(__name__, _DEFINED_IN)
