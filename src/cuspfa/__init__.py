"""Bayesian factor analysis that finds its own number of factors.

The public names are loaded when they are first used, so that `import cuspfa` is quick.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuspfa import datasets as datasets
    from cuspfa.estimator import CuspFactorAnalysis as CuspFactorAnalysis
    from cuspfa.prior import CuspPrior as CuspPrior
    from cuspfa.prior import GaussianSlab as GaussianSlab
    from cuspfa.process import CumulativeShrinkage as CumulativeShrinkage
    from cuspfa.variational.method import Variational as Variational

__version__ = version("cuspfa")

_HOMES = {
    "CumulativeShrinkage": "cuspfa.process",
    "CuspFactorAnalysis": "cuspfa.estimator",
    "CuspPrior": "cuspfa.prior",
    "GaussianSlab": "cuspfa.prior",
    "Variational": "cuspfa.variational.method",
}
_MODULES = ("datasets", "errors")

__all__ = [
    "CumulativeShrinkage",
    "CuspFactorAnalysis",
    "CuspPrior",
    "GaussianSlab",
    "Variational",
    "__version__",
    "datasets",
    "errors",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"cuspfa.{name}")
    raise AttributeError(f"module 'cuspfa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
