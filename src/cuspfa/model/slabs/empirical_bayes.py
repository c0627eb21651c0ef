"""A normal slab whose variances are plugged in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be, true_or_false
from cuspfa.model.slabs.base import LOG_2PI, Slab, SlabCapabilities, SlabKernel, fixed_px_scale

SMALLEST_VARIANCE = 1e-12
"""A plug-in variance of a vanishing factor goes no lower, where it would lose its digits."""


@dataclass(frozen=True)
class EmpiricalBayesSlab(Slab):
    """λ_jh ~ N(0, θ_h) with θ_h plugged in at its best value.

    Parameters
    ----------
    shared : bool, default=False
        One variance for all factors instead of one for each.

    Notes
    -----
    A plug-in variance has no prior, so a surplus factor costs less than it should.
    `InverseGammaSlab` is the proper version.

    Examples
    --------
    >>> EmpiricalBayesSlab(shared=True)
    EmpiricalBayesSlab(shared=True)
    """

    shared: bool = False

    def __post_init__(self) -> None:
        true_or_false("slab shared", self.shared)

    @property
    def in_words(self) -> str:
        """Normal, with a variance that is estimated."""
        whose = "that all factors share" if self.shared else "of the factor's own"
        return f"normal with a variance {whose}, which is estimated"

    @property
    def capabilities(self) -> SlabCapabilities:  # type: ignore[override]
        """Rotations change nothing where all factors have one variance: only tr ΛΛᵀ counts."""
        return SlabCapabilities(rotation_invariant=self.shared)

    def variance(self, squared_norm: Array, p: int) -> Array:
        """The best θ_h ≥ `SMALLEST_VARIANCE`: E_h/p, or the mean of these over the columns."""
        if self.shared:
            if not squared_norm.shape[-1]:
                return np.ones_like(squared_norm)
            mean = np.mean(squared_norm, axis=-1, keepdims=True)
            shared = np.broadcast_to(mean / p, squared_norm.shape)
            return np.asarray(np.maximum(shared, SMALLEST_VARIANCE))
        return np.maximum(squared_norm / p, SMALLEST_VARIANCE)

    def log_density(self, squared_norm: Array, p: int) -> Array:
        """φ(E_h): the log density at the plug-in variance."""
        variance = self.variance(squared_norm, p)
        return np.asarray(-0.5 * p * (LOG_2PI + np.log(variance)) - 0.5 * squared_norm / variance)

    def precision(self, squared_norm: Array, p: int) -> Array:
        """The precision 1/θ_h, (K,)."""
        return 1.0 / self.variance(squared_norm, p)

    def px_scale(self, eigenvalues: Array, n: float, p: int) -> Array:
        """Whitened scores; or, for a common t, the t with Σ_h x_h = nK."""
        k = len(eigenvalues)
        if not self.shared:
            return np.full(k, float(n))

        def excess(log_t: float) -> float:
            return float(np.sum(fixed_px_scale(eigenvalues, n, p, np.exp(log_t)))) / (n * k) - 1

        # x² − (n − p) x = t l at x = n gives t = np/l: the answer lies between the extremes.
        low, high = np.log(n * p / eigenvalues.max()), np.log(n * p / eigenvalues.min())
        log_t = brentq(excess, low - 1e-6, high + 1e-6, xtol=1e-12) if k > 1 else low
        return fixed_px_scale(eigenvalues, n, p, float(np.exp(log_t)))

    def scale_freedom(self, squared_norm: Array, n: float, p: int) -> Array:
        """n: the variance follows the scale."""
        return np.full(len(squared_norm), n)

    def kernel_form(self) -> SlabKernel | None:
        """Kind 2; none with one variance for all factors."""
        return None if self.shared else SlabKernel(2)

    def check_spike(self, spike: float) -> None:
        """The variances depend on all columns, so that only a spike at zero is possible."""
        raise must_be("spike", "None with a slab whose scale depends on all factors", spike)
