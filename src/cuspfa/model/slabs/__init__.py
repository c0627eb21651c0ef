"""Distributions of the loadings of an active factor, one in each file.

Every module of this folder is imported, so that a new file is known to the reader of saved fits.
"""

from importlib import import_module
from pkgutil import iter_modules

from cuspfa.model.slabs.base import LOG_2PI, SLABS, Slab, SlabCapabilities
from cuspfa.model.slabs.empirical_bayes import EmpiricalBayesSlab
from cuspfa.model.slabs.gaussian import GaussianSlab
from cuspfa.model.slabs.inverse_gamma import InverseGammaSlab

__all__ = [
    "LOG_2PI",
    "SLABS",
    "EmpiricalBayesSlab",
    "GaussianSlab",
    "InverseGammaSlab",
    "Slab",
    "SlabCapabilities",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
