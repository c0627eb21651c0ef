"""Bayesian factor analysis that finds its own number of factors.

The public names are loaded when they are first used, so that `import cuspfa` is quick.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuspfa import anndata as anndata
    from cuspfa import datasets as datasets
    from cuspfa import plots as plots
    from cuspfa.data.moments import Moments as Moments
    from cuspfa.data.streams import Stream as Stream
    from cuspfa.data_misfit import misfit as misfit
    from cuspfa.estimator import CuspFactorAnalysis as CuspFactorAnalysis
    from cuspfa.factor_count import how_many as how_many
    from cuspfa.gibbs.method import Gibbs as Gibbs
    from cuspfa.posterior import adequacy as adequacy
    from cuspfa.posterior import retention as retention
    from cuspfa.posterior.comparison import compare as compare
    from cuspfa.posterior.files import load as load
    from cuspfa.prior import CuspPrior as CuspPrior
    from cuspfa.prior_sensitivity import sensitivity as sensitivity
    from cuspfa.process import CumulativeShrinkage as CumulativeShrinkage
    from cuspfa.rotation import Rotation as Rotation
    from cuspfa.rotation import rotate as rotate
    from cuspfa.row_files import write_rows as write_rows
    from cuspfa.slabs import GaussianSlab as GaussianSlab
    from cuspfa.slabs import InverseGammaSlab as InverseGammaSlab
    from cuspfa.slabs import LearnedSlab as LearnedSlab
    from cuspfa.variational.method import Variational as Variational

__version__ = version("cuspfa")

_HOMES = {
    "CumulativeShrinkage": "cuspfa.process",
    "CuspFactorAnalysis": "cuspfa.estimator",
    "CuspPrior": "cuspfa.prior",
    "GaussianSlab": "cuspfa.slabs",
    "Gibbs": "cuspfa.gibbs.method",
    "InverseGammaSlab": "cuspfa.slabs",
    "LearnedSlab": "cuspfa.slabs",
    "Moments": "cuspfa.data.moments",
    "Rotation": "cuspfa.rotation",
    "Stream": "cuspfa.data.streams",
    "Variational": "cuspfa.variational.method",
    "compare": "cuspfa.posterior.comparison",
    "how_many": "cuspfa.factor_count",
    "load": "cuspfa.posterior.files",
    "misfit": "cuspfa.data_misfit",
    "rotate": "cuspfa.rotation",
    "sensitivity": "cuspfa.prior_sensitivity",
    "write_rows": "cuspfa.row_files",
}
_MODULES = {
    "adequacy": "cuspfa.posterior.adequacy",
    "anndata": "cuspfa.anndata",
    "datasets": "cuspfa.datasets",
    "errors": "cuspfa.errors",
    "plots": "cuspfa.plots",
    "retention": "cuspfa.posterior.retention",
}

__all__ = [
    "CumulativeShrinkage",
    "CuspFactorAnalysis",
    "CuspPrior",
    "GaussianSlab",
    "Gibbs",
    "InverseGammaSlab",
    "LearnedSlab",
    "Moments",
    "Rotation",
    "Stream",
    "Variational",
    "__version__",
    "adequacy",
    "anndata",
    "compare",
    "datasets",
    "errors",
    "how_many",
    "load",
    "misfit",
    "plots",
    "retention",
    "rotate",
    "sensitivity",
    "write_rows",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'cuspfa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
