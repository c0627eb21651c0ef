"""A normal slab whose variances have inverse gamma distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy.special import digamma, gammaln, hyp2f1, polygamma

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.arguments import must_be, store_positive, true_or_false
from cuspfa.model.slabs.base import LOG_2PI, Slab, SlabCapabilities, SlabHyperparameters, SlabKernel

# The weak hyper-prior of a pooled slab, chosen by the table of errors in docs/defaults.md.
HYPER_RATE, HYPER_SCALE, HYPER_SPREAD = 0.02, 0.2, 1.5
SURE_STEP = 1e-4
"""Newton steps for log a and log b that are shorter are made without a comparison."""
PAIR_NODES, FEWEST_PAIR_NODES, MOST_PAIR_NODES = 16.0, 16, 4000
"""Where the mean density of two rotated columns is computed: nodes for a range of 1 and q = 1, by
which the cubics between them are off by 1e-7 (their error is about q² step⁴/450), and limits."""


@dataclass(frozen=True)
class InverseGammaSlab(Slab):
    """λ_jh | θ_h ~ N(0, θ_h), θ_h ~ InvGa(a, b): each factor has its own scale.

    The slab of Legramanti, Durante & Dunson (2020), a Student t for the loadings of a column.

    Parameters
    ----------
    shape, rate : float
        a and b; where a fit begins if they are pooled.
    pooled : bool, default=False
        Estimate a and b too, from all factors: when their scales are similar, a is large and they
        share one variance; when these differ, a is small and each factor has its own. The
        hyper-prior is weak: a ~ Gamma(2, 1/50) and log(b/a) ~ N(log 0.2, 1.5²), on the scale of
        standardised data.

    Examples
    --------
    >>> InverseGammaSlab(shape=2.0, rate=2.0)
    InverseGammaSlab(shape=2.0, rate=2.0, pooled=False)
    """

    shape: float = 2.0
    rate: float = 2.0
    pooled: bool = False

    capabilities: ClassVar[SlabCapabilities] = SlabCapabilities(sampled=True, scales_jointly=True)

    def __post_init__(self) -> None:
        store_positive(self, "shape", "rate", label="slab ")
        true_or_false("slab pooled", self.pooled)

    @property
    def in_words(self) -> str:
        """Normal, with a variance for each factor."""
        own = "normal with a variance of the factor's own, which is inverse gamma"
        if self.pooled:
            return f"{own} with parameters estimated from all factors"
        return f"{own} ({self.shape:g}, {self.rate:g})"

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
        """Log density of (log a, log b) where they are updated, 0 where they are given."""
        if not self.pooled:
            return 0.0
        return float(_log_hyperprior(np.log(self.shape), np.log(self.rate)))

    def pooled_log_density(
        self, u: Array, w: Array, squared_norm: Array, p: int, counted: BoolArray | None = None
    ) -> Array:
        """Log density of u = log a and w = log b given squared norms (B, K), (B,).

        `counted` (B, K) says which columns have this distribution; None: all.
        """
        a, b = np.exp(u), np.exp(w)
        own = a * w - gammaln(a) + gammaln(a + p / 2)
        logs = np.log(b[:, None] + squared_norm / 2)
        number: int | Array = squared_norm.shape[1]
        if counted is not None:
            logs, number = logs * counted, counted.sum(axis=1)
        return np.asarray(number * own - (a + p / 2) * logs.sum(axis=1) + _log_hyperprior(u, w))

    def update_hyperparameters(self, squared_norm: Array, p: int) -> Self:
        """One safeguarded Newton step for (log a, log b); iterations repeat it to the optimum."""
        if not self.pooled:
            return self
        if len(squared_norm) == 0:  # no factor: the hyper-prior's mode
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
        # Near the optimum rounding would decide whether the profile grows.
        sure = np.abs(step).max() < SURE_STEP
        here = -np.inf if sure else self._profile(squared_norm, p)
        for _ in range(10):
            shape, rate = np.clip([a * np.exp(step[0]), b * np.exp(step[1])], 1e-6, 1e6)
            there = replace(self, shape=float(shape), rate=float(rate))
            if sure or there._profile(squared_norm, p) >= here:
                return there
            step /= 2
        return self

    def _profile(self, squared_norm: Array, p: int) -> float:
        return float(np.sum(self.log_density(squared_norm, p))) + self.log_hyperprior()

    def with_fixed_hyperparameters(self) -> Self:
        """The slab with its a and b, not pooled."""
        return replace(self, pooled=False)

    def log_hyper_evidence(self, squared_norm: Array, p: int) -> float:
        """Log mass of the hyper-prior where a pooled slab's (a, b) are plausible (Laplace)."""
        if not self.pooled or not len(squared_norm):
            return 0.0
        here, step = np.log([self.shape, self.rate]), 1e-3

        def log_density(at: Array) -> Array:
            repeated = np.tile(squared_norm, (len(at), 1))
            return self.pooled_log_density(at[:, 0], at[:, 1], repeated, p)

        corners = np.array([(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1)])
        f = log_density(here + step * corners)
        own = (f[1] + f[2] - 2 * f[0], f[3] + f[4] - 2 * f[0])
        mixed = (f[5] + f[6] - 2 * f[0] - own[0] - own[1]) / 2
        determinant = (own[0] * own[1] - mixed**2) / step**4
        # Nowhere wider than the hyper-prior itself, whose curvatures these are at its mode.
        curvature = max(determinant, 2.0 / HYPER_SPREAD**2)
        return self.log_hyperprior() + float(np.log(2 * np.pi) - 0.5 * np.log(curvature))

    def scale_freedom(self, squared_norm: Array, n: float, p: int) -> Array:
        """In closed form, n + 2a − (p + 2a) {b/(b + E/2)}²."""
        part = self.rate / (self.rate + squared_norm / 2)
        return np.asarray(n + 2 * self.shape - (p + 2 * self.shape) * part**2)

    def kernel_form(self) -> SlabKernel:
        """Kind 1, inverse gamma variances, with its shape and rate."""
        return SlabKernel(1, self.shape, self.rate, bool(self.pooled))

    def with_kernel_values(self, a: float, b: float) -> Self:
        """The slab with this shape and rate where they are pooled."""
        if not self.pooled or (a, b) == (self.shape, self.rate):
            return self
        return replace(self, shape=a, rate=b)

    def log_pair_average(self, one: Array, two: Array, p: int) -> Array:
        """Log ₂F₁(½, a + p/2; 1; −sinh²(t/2)), t the difference of log(b + E/2) of the columns.

        That is −log cosh(t/2) + log ₂F₁(½, 1 − a − p/2; 1; tanh²(t/2)), which does not overflow. A
        function of one number: found for some of them, and between these by cubics.
        """
        t = np.abs(np.log((self.rate + one / 2) / (self.rate + two / 2)))
        q, most = self.shape + p / 2, max(float(np.max(t, initial=0.0)), 1e-6)
        nodes = int(np.clip(PAIR_NODES * most * np.sqrt(q), FEWEST_PAIR_NODES, MOST_PAIR_NODES))
        step = most / nodes
        at = step * np.arange(-1, nodes + 3)
        half = np.abs(at) / 2
        with np.errstate(invalid="ignore"):
            series = np.log(hyp2f1(0.5, 1.0 - q, 1.0, np.tanh(half) ** 2))
        limit = gammaln(q - 0.5) - gammaln(q) - gammaln(0.5)
        series = np.where(half > 15.0, limit, series)
        if not np.all(np.isfinite(series)):  # of a shape beyond what the series can sum
            return super().log_pair_average(one, two, p)
        known = series - (np.logaddexp(half, -half) - np.log(2.0))
        place = t / step
        before = place.astype(int)
        x = place - before
        # Lagrange's polynomial of the two nodes before and the two after.
        return np.asarray(
            known[before + 1] * (1 - x) * (1 + x) * (2 - x) / 2
            + known[before + 2] * x * (1 + x) * (2 - x) / 2
            - known[before] * x * (1 - x) * (2 - x) / 6
            - known[before + 3] * x * (1 - x) * (1 + x) / 6
        )

    def start_variances(self, k: int, mean_variance: float, rng: np.random.Generator) -> Array:
        """Draws of InvGa(a, b)."""
        return np.asarray(self.rate / rng.standard_gamma(self.shape, size=k))

    def check_start(self) -> None:
        """The start of a pooled slab must be well inside the range of its updates."""
        start = (self.shape, self.rate)
        if self.pooled and not all(1e-3 <= number <= 1e4 for number in start):
            raise must_be("start of a pooled slab", "between 0.001 and 10000", start)

    def check_spike(self, spike: float) -> None:
        """The spike must be below the mode; a pooled slab allows only a spike at zero."""
        if spike >= self.mode:
            raise must_be("spike", f"smaller than the mode {self.mode:g} of the slab", spike)
        if self.pooled:
            raise must_be("spike", "None with a slab whose scale depends on all factors", spike)

    def start_hyperparameters(self, size: int) -> SlabHyperparameters:
        """The a and b of each chain, (size,) each."""
        return np.full(size, self.shape), np.full(size, self.rate)

    def draw_variances(
        self,
        squared_norm: Array,
        hyperparameters: SlabHyperparameters,
        p: int,
        rng: np.random.Generator,
        *,
        active: BoolArray | None,
        steps: int,
    ) -> tuple[Array, SlabHyperparameters]:
        """θ_h | Λ ~ InvGa(a + p/2, b + ‖λ_·h‖²/2), after (a, b) where these are pooled."""
        a, b = hyperparameters
        if self.pooled:
            a, b = self._draw_pooled(a, b, squared_norm, p, rng, active, steps)
        gamma = rng.standard_gamma((a + p / 2)[:, None], size=squared_norm.shape)
        return (b[:, None] + squared_norm / 2) / gamma, (a, b)

    def _draw_pooled(
        self,
        a: Array,
        b: Array,
        squared_norm: Array,
        p: int,
        rng: np.random.Generator,
        active: BoolArray | None,
        steps: int,
    ) -> tuple[Array, Array]:
        """Metropolis steps of many sizes for (log a, log b), with θ integrated out."""
        u, w = np.log(a), np.log(b)
        here = self.pooled_log_density(u, w, squared_norm, p, active)
        for _ in range(steps):
            size = np.exp(rng.uniform(-2.5, 0.7, size=len(u)))
            along, apart = size * rng.standard_normal((2, len(u)))
            new_u, new_w = u + along, w + along + 0.5 * apart
            there = self.pooled_log_density(new_u, new_w, squared_norm, p, active)
            moved = -rng.standard_exponential(len(u)) < there - here
            u, w = np.where(moved, new_u, u), np.where(moved, new_w, w)
            here = np.where(moved, there, here)
        return np.exp(u), np.exp(w)

    def log_kernel(
        self, squared_norm: Array, hyperparameters: SlabHyperparameters, p: int
    ) -> Array:
        """−(a + p/2) log(b + ‖λ_·h‖²/2)."""
        a, b = hyperparameters
        return np.asarray(-(a + p / 2) * np.log(b + squared_norm / 2))

    def log_normalizer(self, hyperparameters: SlabHyperparameters, p: int) -> Array:
        """The normalizer a log b − log Γ(a) + log Γ(a + p/2)."""
        a, b = hyperparameters
        return np.asarray(a * np.log(b) - gammaln(a) + gammaln(a + p / 2))

    def draw_px_scale(
        self,
        scores: Array,
        variances: Array,
        hyperparameters: SlabHyperparameters,
        n: float,
        rng: np.random.Generator,
    ) -> Array:
        """Draw u ~ Gamma(n/2 + a, ‖η_h‖²/2 + b/θ_h)."""
        a, b = hyperparameters
        return np.asarray(rng.standard_gamma(n / 2 + a) / (scores / 2 + b / variances))

    def automatic_spike(self, n: float, p: int) -> float:
        """Narrow enough to make no factors, and not much narrower.

        As soon as θ_∞ > 2eb/p, a slab with a free variance is the better distribution of a column
        that the data draw to zero. A tenth of it leaves a column room to grow: from a much narrower
        spike a chain finds no factor that it has not begun with. Where a and b are pooled the slab
        may come nearer to zero, and the spike must lie below the edge of noise, 1/(p + 2√(np)).
        """
        widest = min(self.rate / 20, self.mode / 2, 0.2 * math.e * self.rate / p)
        if self.pooled:
            widest = min(widest, 0.25 / (p + 2.0 * np.sqrt(n * p)))
        return float(max(widest, 1e-12))


def _log_hyperprior(u: Array, w: Array) -> Array:
    """Log density of u = log a and w = log b."""
    spread = (w - u - np.log(HYPER_SCALE)) / HYPER_SPREAD
    normal = -0.5 * spread**2 - np.log(HYPER_SPREAD) - 0.5 * LOG_2PI
    return np.asarray(2 * (u + np.log(HYPER_RATE)) - HYPER_RATE * np.exp(u) + normal)
