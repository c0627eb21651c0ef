"""Bayesian factor analysis that finds its own number of factors.

The public names are loaded when they are first used, so that `import cuspfa` is quick.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuspfa import datasets as datasets
    from cuspfa.data.moments import Moments as Moments
    from cuspfa.data.out_of_core.stream import RowStream as RowStream
    from cuspfa.data.tables.read_table import read_table as read_table
    from cuspfa.diagnostics import fit_indices as fit_indices
    from cuspfa.diagnostics import retention as retention
    from cuspfa.diagnostics.assumptions import check_assumptions as check_assumptions
    from cuspfa.diagnostics.n_factors import select_n_factors as select_n_factors
    from cuspfa.diagnostics.prior_sensitivity import prior_sensitivity as prior_sensitivity
    from cuspfa.estimator.factor_analysis import CuspFactorAnalysis as CuspFactorAnalysis
    from cuspfa.estimator.predict_to_file import predict_to_file as predict_to_file
    from cuspfa.inference.gibbs.settings import Gibbs as Gibbs
    from cuspfa.inference.variational.settings import Variational as Variational
    from cuspfa.interop.anndata_ import fit_anndata as fit_anndata
    from cuspfa.model.prior import CuspPrior as CuspPrior
    from cuspfa.model.process import CumulativeShrinkage as CumulativeShrinkage
    from cuspfa.model.slabs import EmpiricalBayesSlab as EmpiricalBayesSlab
    from cuspfa.model.slabs import GaussianSlab as GaussianSlab
    from cuspfa.model.slabs import InverseGammaSlab as InverseGammaSlab
    from cuspfa.posterior.files import load as load
    from cuspfa.reporting import plots as plots
    from cuspfa.rotation.congruence import factor_congruence as factor_congruence
    from cuspfa.rotation.gpa import Rotation as Rotation
    from cuspfa.rotation.gpa import rotate as rotate

__version__ = version("cuspfa")

_HOMES = {
    "CumulativeShrinkage": "cuspfa.model.process",
    "CuspFactorAnalysis": "cuspfa.estimator.factor_analysis",
    "CuspPrior": "cuspfa.model.prior",
    "GaussianSlab": "cuspfa.model.slabs",
    "Gibbs": "cuspfa.inference.gibbs.settings",
    "InverseGammaSlab": "cuspfa.model.slabs",
    "EmpiricalBayesSlab": "cuspfa.model.slabs",
    "Moments": "cuspfa.data.moments",
    "Rotation": "cuspfa.rotation.gpa",
    "RowStream": "cuspfa.data.out_of_core.stream",
    "Variational": "cuspfa.inference.variational.settings",
    "factor_congruence": "cuspfa.rotation.congruence",
    "fit_anndata": "cuspfa.interop.anndata_",
    "select_n_factors": "cuspfa.diagnostics.n_factors",
    "load": "cuspfa.posterior.files",
    "check_assumptions": "cuspfa.diagnostics.assumptions",
    "read_table": "cuspfa.data.tables.read_table",
    "rotate": "cuspfa.rotation.gpa",
    "prior_sensitivity": "cuspfa.diagnostics.prior_sensitivity",
    "predict_to_file": "cuspfa.estimator.predict_to_file",
}
_MODULES = {
    "datasets": "cuspfa.datasets",
    "diagnostics": "cuspfa.diagnostics",
    "errors": "cuspfa.errors",
    "fit_indices": "cuspfa.diagnostics.fit_indices",
    "plots": "cuspfa.reporting.plots",
    "posterior": "cuspfa.posterior",
    "retention": "cuspfa.diagnostics.retention",
    "rotation": "cuspfa.rotation",
}

__all__ = [
    "CumulativeShrinkage",
    "CuspFactorAnalysis",
    "CuspPrior",
    "EmpiricalBayesSlab",
    "GaussianSlab",
    "Gibbs",
    "InverseGammaSlab",
    "Moments",
    "Rotation",
    "RowStream",
    "Variational",
    "__version__",
    "check_assumptions",
    "datasets",
    "errors",
    "factor_congruence",
    "fit_anndata",
    "fit_indices",
    "load",
    "plots",
    "predict_to_file",
    "prior_sensitivity",
    "read_table",
    "retention",
    "rotate",
    "select_n_factors",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'cuspfa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
