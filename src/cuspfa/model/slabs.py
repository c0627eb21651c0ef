"""Distributions of the loadings of an active factor.

A slab sees a column λ_·h of p loadings only through its expected energy E_h = E‖λ_·h‖² under q.
With its own unknown variance optimised out (q(θ_h), or a plug-in θ_h, at its best), it enters
the bound as φ(E_h), `log_density`, and the update of the loadings as the precision
t_h = −2φ'(E_h). `stretch` solves the scale-rotation step: for l = an eigenvalue of E[ΛᵀΛ] in the
basis where E[ηᵀη] = I, the best x in

    ½(n − p) log x − ½x + φ(l/x).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammaln, polygamma

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.arguments import must_be, store_positive

LOG_2PI = float(np.log(2 * np.pi))

SMALLEST = 1e-12
"""A plug-in variance of a dying factor goes no lower, where it would lose its digits."""


class Slab(Protocol):
    """What the engines ask of a slab."""

    def log_density(self, squared_norm: Array, p: int) -> Array:
        """φ(E_h), (K,): expected log density of each column."""

    def precision(self, squared_norm: Array, p: int) -> Array:
        """t_h = E[1/θ_h], (K,)."""

    def px_scale(self, eigenvalues: Array, n: float, p: int) -> Array:
        """Best x for each l, (K,)."""

    def log_hyperprior(self) -> float:
        """Log density of what the slab learns about all columns together."""

    def update_hyperparameters(self, squared_norm: Array, p: int) -> Slab:
        """The slab with its own parameters improved, if it has any to learn."""


def _fixed_px_scale(eigenvalues: Array, n: float, p: int, precision: float) -> Array:
    """The positive root of x² − (n − p) x − t l = 0, without cancellation."""
    half, product = (n - p) / 2, precision * eigenvalues
    root = np.sqrt(half**2 + product)
    return np.asarray(half + root if half >= 0 else product / (root - half))


@dataclass(frozen=True)
class GaussianSlab:
    """λ_jh ~ N(0, θ_0) with θ_0 = `variance` given, as in Legramanti (2020).

    Examples
    --------
    >>> GaussianSlab(variance=1.0)
    GaussianSlab(variance=1.0)
    """

    variance: float = 1.0

    def __post_init__(self) -> None:
        store_positive(self, "variance", label="slab ")

    def log_density(self, squared_norm: Array, p: int) -> Array:
        """E log N(λ_·h; 0, θ_0 I)."""
        constant = -0.5 * p * (LOG_2PI + np.log(self.variance))
        return np.asarray(constant - 0.5 * squared_norm / self.variance)

    def precision(self, squared_norm: Array, p: int) -> Array:
        """1/θ_0."""
        return np.full(len(squared_norm), 1.0 / self.variance)

    def px_scale(self, eigenvalues: Array, n: float, p: int) -> Array:
        """At the optimum M = (n − p) I + Λ₂/θ_0."""
        return _fixed_px_scale(eigenvalues, n, p, 1.0 / self.variance)

    def log_hyperprior(self) -> float:
        """Nothing is learned about all columns together."""
        return 0.0

    def update_hyperparameters(self, squared_norm: Array, p: int) -> GaussianSlab:
        """Itself."""
        return self


@dataclass(frozen=True)
class InverseGammaSlab:
    """λ_jh | θ_h ~ N(0, θ_h), θ_h ~ InvGa(a, b): each factor learns its own scale.

    The slab of Legramanti, Durante & Dunson (2020), a Student t for the loadings of a column.

    Parameters
    ----------
    shape, rate : float
        a and b; where a fit begins if they are pooled.
    pooled : bool, default=False
        Learn a and b too, so that factors tell each other about their common scale: when they
        are alike a grows and they share one variance, when they differ a is small and each has
        its own. The hyper-prior is weak: a ~ Gamma(2, 1/50) and log(b/a) ~ N(log 0.2, 1.5²), on
        the scale of standardised data.

    Examples
    --------
    >>> InverseGammaSlab(shape=2.0, rate=2.0)
    InverseGammaSlab(shape=2.0, rate=2.0, pooled=False)
    """

    shape: float = 2.0
    rate: float = 2.0
    pooled: bool = False

    def __post_init__(self) -> None:
        store_positive(self, "shape", "rate", label="slab ")
        if not isinstance(self.pooled, (bool, np.bool_)):
            raise must_be("slab pooled", "True or False", self.pooled)

    @property
    def mode(self) -> float:
        """The most likely variance, b/(a + 1)."""
        return self.rate / (self.shape + 1)

    def log_density(self, squared_norm: Array, p: int) -> Array:
        """φ with q(θ_h) = InvGa(a + p/2, b + E_h/2)."""
        a, b = self.shape, self.rate
        constant = a * np.log(b) - gammaln(a) + gammaln(a + p / 2) - 0.5 * p * LOG_2PI
        return np.asarray(constant - (a + p / 2) * np.log(b + squared_norm / 2))

    def precision(self, squared_norm: Array, p: int) -> Array:
        """E[1/θ_h] = (a + p/2) / (b + E_h/2)."""
        return np.asarray((self.shape + p / 2) / (self.rate + squared_norm / 2))

    def px_scale(self, eigenvalues: Array, n: float, p: int) -> Array:
        """The positive root of b x² + {l/2 + (p − n) b} x − (n + 2a) l/2 = 0."""
        a, b, half = self.shape, self.rate, eigenvalues / 2
        linear = half + (p - n) * b
        root = np.sqrt(linear**2 + 4 * b * (n + 2 * a) * half)
        # Each form of the root where it does not cancel.
        return np.where(
            linear <= 0,
            (root - linear) / (2 * b),
            2 * (n + 2 * a) * half / np.maximum(root + linear, np.finfo(float).tiny),
        )

    def log_hyperprior(self) -> float:
        """Log density of (log a, log b) where they are learned, 0 where they are given."""
        if not self.pooled:
            return 0.0
        return float(_log_hyperprior(np.log(self.shape), np.log(self.rate)))

    def pooled_log_density(
        self, u: Array, w: Array, squared_norm: Array, p: int, counted: BoolArray | None = None
    ) -> Array:
        """Log density of u = log a and w = log b given energies (B, K) of the columns, (B,).

        `counted` (B, K) says which columns have this distribution; None: all.
        """
        a, b = np.exp(u), np.exp(w)
        own = a * w - gammaln(a) + gammaln(a + p / 2)
        logs = np.log(b[:, None] + squared_norm / 2)
        number: int | Array = squared_norm.shape[1]
        if counted is not None:
            logs, number = logs * counted, counted.sum(axis=1)
        return np.asarray(number * own - (a + p / 2) * logs.sum(axis=1) + _log_hyperprior(u, w))

    def update_hyperparameters(self, squared_norm: Array, p: int) -> InverseGammaSlab:
        """One safeguarded Newton step for (log a, log b); iterations repeat it to the optimum."""
        if not self.pooled:
            return self
        if len(squared_norm) == 0:  # nothing to learn from: the hyper-prior's mode
            return replace(self, shape=2 / HYPER_RATE, rate=2 / HYPER_RATE * HYPER_SCALE)
        a, b = self.shape, self.rate
        part = b / (b + squared_norm / 2)
        slope_a = float(np.sum(np.log(part) - digamma(a) + digamma(a + p / 2)))
        off = (np.log(b / a) - np.log(HYPER_SCALE)) / HYPER_SPREAD**2
        gradient = np.array(
            [a * slope_a + 2 - HYPER_RATE * a + off, np.sum(a - (a + p / 2) * part) - off]
        )
        curve_a = len(squared_norm) * (polygamma(1, a + p / 2) - polygamma(1, a))
        mixed = a * float(np.sum(1 - part)) + HYPER_SPREAD**-2
        hessian = np.array(
            [
                [a * slope_a + a**2 * curve_a - HYPER_RATE * a - HYPER_SPREAD**-2, mixed],
                [mixed, -(a + p / 2) * float(np.sum(part * (1 - part))) - HYPER_SPREAD**-2],
            ]
        )
        values, vectors = np.linalg.eigh(hessian)
        # Uphill along every axis, whatever the sign of its curvature, and not too far.
        step = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), 1e-8))
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-7:
            return self  # at the optimum, where rounding would decide
        here = self._profile(squared_norm, p)
        for _ in range(10):
            shape, rate = np.clip([a * np.exp(step[0]), b * np.exp(step[1])], 1e-6, 1e6)
            there = replace(self, shape=float(shape), rate=float(rate))
            if there._profile(squared_norm, p) >= here:
                return there
            step /= 2
        return self

    def _profile(self, squared_norm: Array, p: int) -> float:
        return float(np.sum(self.log_density(squared_norm, p))) + self.log_hyperprior()


# The weak hyper-prior of a pooled slab, chosen by the table of errors in docs/defaults.md.
HYPER_RATE, HYPER_SCALE, HYPER_SPREAD = 0.02, 0.2, 1.5


def _log_hyperprior(u: Array, w: Array) -> Array:
    """Log density of u = log a and w = log b."""
    spread = (w - u - np.log(HYPER_SCALE)) / HYPER_SPREAD
    normal = -0.5 * spread**2 - np.log(HYPER_SPREAD) - 0.5 * LOG_2PI
    return np.asarray(2 * (u + np.log(HYPER_RATE)) - HYPER_RATE * np.exp(u) + normal)


@dataclass(frozen=True)
class EmpiricalBayesSlab:
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
        if not isinstance(self.shared, (bool, np.bool_)):
            raise must_be("slab shared", "True or False", self.shared)

    def variance(self, squared_norm: Array, p: int) -> Array:
        """The best θ_h ≥ `SMALLEST`: E_h/p, or the mean of these over the columns."""
        if self.shared:
            return np.full(
                len(squared_norm),
                max(np.mean(squared_norm) / p, SMALLEST) if len(squared_norm) else 1.0,
            )
        return np.maximum(squared_norm / p, SMALLEST)

    def log_density(self, squared_norm: Array, p: int) -> Array:
        """φ at the plug-in variance."""
        variance = self.variance(squared_norm, p)
        return np.asarray(-0.5 * p * (LOG_2PI + np.log(variance)) - 0.5 * squared_norm / variance)

    def precision(self, squared_norm: Array, p: int) -> Array:
        """1/θ_h."""
        return 1.0 / self.variance(squared_norm, p)

    def px_scale(self, eigenvalues: Array, n: float, p: int) -> Array:
        """Whitened scores; or, for a common t, the t with Σ_h x_h = nK."""
        k = len(eigenvalues)
        if not self.shared:
            return np.full(k, float(n))

        def excess(log_t: float) -> float:
            return float(np.sum(_fixed_px_scale(eigenvalues, n, p, np.exp(log_t)))) / (n * k) - 1

        # x² − (n − p) x = t l at x = n gives t = np/l: the answer lies between the extremes.
        low, high = np.log(n * p / eigenvalues.max()), np.log(n * p / eigenvalues.min())
        log_t = brentq(excess, low - 1e-6, high + 1e-6, xtol=1e-12) if k > 1 else low
        return _fixed_px_scale(eigenvalues, n, p, float(np.exp(log_t)))

    def log_hyperprior(self) -> float:
        """Nothing is learned about all columns together."""
        return 0.0

    def update_hyperparameters(self, squared_norm: Array, p: int) -> EmpiricalBayesSlab:
        """Itself."""
        return self
