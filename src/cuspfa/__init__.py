"""Bayesian factor analysis that finds its own number of factors.

The public names are loaded when they are first used, so that `import cuspfa` is quick.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from cuspfa._utils.lazy import lazy_names, public_names

if TYPE_CHECKING:
    from cuspfa import datasets as datasets
    from cuspfa.data.latent_correlations import polychoric as polychoric
    from cuspfa.data.moments import Moments as Moments
    from cuspfa.data.out_of_core.stream import RowStream as RowStream
    from cuspfa.data.robust_moments import robust_moments as robust_moments
    from cuspfa.data.tables.read_moments import read_moments as read_moments
    from cuspfa.data.tables.read_table import read_table as read_table
    from cuspfa.diagnostics import fit_indices as fit_indices
    from cuspfa.diagnostics import retention as retention
    from cuspfa.diagnostics.assumptions import check_assumptions as check_assumptions
    from cuspfa.diagnostics.n_factors import select_n_factors as select_n_factors
    from cuspfa.diagnostics.prior_sensitivity import prior_sensitivity as prior_sensitivity
    from cuspfa.estimator.factor_analysis import CuspFactorAnalysis as CuspFactorAnalysis
    from cuspfa.estimator.load import load as load
    from cuspfa.estimator.poisson_factorization import (
        CuspPoissonFactorization as CuspPoissonFactorization,
    )
    from cuspfa.estimator.predict_to_file import predict_to_file as predict_to_file
    from cuspfa.inference.gibbs.settings import Gibbs as Gibbs
    from cuspfa.inference.variational.settings import Variational as Variational
    from cuspfa.interop.anndata_ import fit_anndata as fit_anndata
    from cuspfa.model.likelihoods.kinds import Ordinal as Ordinal
    from cuspfa.model.poisson_factorization import (
        PoissonFactorizationPrior as PoissonFactorizationPrior,
    )
    from cuspfa.model.prior import CuspPrior as CuspPrior
    from cuspfa.model.process import CumulativeShrinkage as CumulativeShrinkage
    from cuspfa.model.slabs import EmpiricalBayesSlab as EmpiricalBayesSlab
    from cuspfa.model.slabs import GaussianSlab as GaussianSlab
    from cuspfa.model.slabs import InverseGammaSlab as InverseGammaSlab
    from cuspfa.reporting import plots as plots
    from cuspfa.rotation.congruence import factor_congruence as factor_congruence
    from cuspfa.rotation.gpa import Rotation as Rotation
    from cuspfa.rotation.gpa import rotate as rotate

__version__ = version("cuspfa")

_DEFINED_IN = {
    "cuspfa.data.latent_correlations": ("polychoric",),
    "cuspfa.data.moments": ("Moments",),
    "cuspfa.data.out_of_core.stream": ("RowStream",),
    "cuspfa.data.robust_moments": ("robust_moments",),
    "cuspfa.data.tables.read_moments": ("read_moments",),
    "cuspfa.data.tables.read_table": ("read_table",),
    "cuspfa.diagnostics.assumptions": ("check_assumptions",),
    "cuspfa.diagnostics.n_factors": ("select_n_factors",),
    "cuspfa.diagnostics.prior_sensitivity": ("prior_sensitivity",),
    "cuspfa.estimator.factor_analysis": ("CuspFactorAnalysis",),
    "cuspfa.estimator.load": ("load",),
    "cuspfa.estimator.poisson_factorization": ("CuspPoissonFactorization",),
    "cuspfa.estimator.predict_to_file": ("predict_to_file",),
    "cuspfa.inference.gibbs.settings": ("Gibbs",),
    "cuspfa.inference.variational.settings": ("Variational",),
    "cuspfa.interop.anndata_": ("fit_anndata",),
    "cuspfa.model.likelihoods.kinds": ("Ordinal",),
    "cuspfa.model.poisson_factorization": ("PoissonFactorizationPrior",),
    "cuspfa.model.prior": ("CuspPrior",),
    "cuspfa.model.process": ("CumulativeShrinkage",),
    "cuspfa.model.slabs": ("EmpiricalBayesSlab", "GaussianSlab", "InverseGammaSlab"),
    "cuspfa.rotation.congruence": ("factor_congruence",),
    "cuspfa.rotation.gpa": ("Rotation", "rotate"),
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
_RESULT_PACKAGES = {"diagnostics", "posterior", "rotation"}
"""Packages of classes of results."""

__all__ = [*public_names(_DEFINED_IN), *sorted(_MODULES.keys() - _RESULT_PACKAGES), "__version__"]
__getattr__, _ = lazy_names(__name__, _DEFINED_IN, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
