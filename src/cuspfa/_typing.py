"""Type names shared by all modules."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Indices = NDArray[np.intp]
RandomState = None | int | np.random.Generator | np.random.RandomState

EngineName = Literal["variational", "gibbs"]
PosteriorKind = Literal[
    "variational",
    "gibbs",
    "latent",
    "latent_gibbs",
    "poisson_factorization",
    "poisson_factorization_gibbs",
]
MeanTreatment = Literal["flat", "plug-in"]
