"""A normal slab with a given variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be, store_positive
from cuspfa.model.slabs.base import LOG_2PI, Slab, SlabCapabilities, SlabKernel, fixed_px_scale


@dataclass(frozen=True)
class GaussianSlab(Slab):
    """λ_jh ~ N(0, θ_0) with θ_0 = `variance` given, as in Legramanti (2020).

    Parameters
    ----------
    variance : float, default=1.0
        θ_0.

    Examples
    --------
    >>> GaussianSlab(variance=1.0)
    GaussianSlab(variance=1.0)
    """

    variance: float = 1.0

    capabilities: ClassVar[SlabCapabilities] = SlabCapabilities(
        sampled=True, rotation_invariant=True
    )

    def __post_init__(self) -> None:
        store_positive(self, "variance", label="slab ")

    @property
    def in_words(self) -> str:
        """Normal, with a variance that is given."""
        return f"normal with variance {self.variance:g}"

    def log_density(self, squared_norm: Array, p: int) -> Array:
        """E log N(λ_·h; 0, θ_0 I)."""
        constant = -0.5 * p * (LOG_2PI + np.log(self.variance))
        return np.asarray(constant - 0.5 * squared_norm / self.variance)

    def precision(self, squared_norm: Array, p: int) -> Array:
        """The precision 1/θ_0."""
        return np.full(len(squared_norm), 1.0 / self.variance)

    def px_scale(self, eigenvalues: Array, n: float, p: int) -> Array:
        """At the optimum M = (n − p) I + Λ₂/θ_0."""
        return fixed_px_scale(eigenvalues, n, p, 1.0 / self.variance)

    def scale_freedom(self, squared_norm: Array, n: float, p: int) -> Array:
        """In closed form, n − p + 2E/θ_0."""
        return np.asarray(n - p + 2 * squared_norm / self.variance)

    def kernel_form(self) -> SlabKernel:
        """Kind 0, a given variance θ_0."""
        return SlabKernel(0, self.variance)

    def start_variances(self, k: int, mean_variance: float, rng: np.random.Generator) -> Array:
        """The given variance θ_0 for each column."""
        return np.full(k, self.variance)

    def check_spike(self, spike: float) -> None:
        """The spike must be narrower than the slab."""
        if spike >= self.variance:
            raise must_be("spike", f"smaller than the slab's variance {self.variance}", spike)

    def start_hyperparameters(self, size: int) -> None:
        """None: a slab with a given variance has no hyperparameters to draw."""

    def active_variances(self, variances: Array) -> Array:
        """The given variance θ_0 for each column."""
        return np.full_like(variances, self.variance)

    def automatic_spike(self, n: float, p: int) -> float:
        """The variance of the spike: a twentieth of θ_0."""
        return self.variance / 20
