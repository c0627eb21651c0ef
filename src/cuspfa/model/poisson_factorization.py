"""The prior of Poisson factorization under the cumulative shrinkage process.

    x_ij ~ Po(s_i Σ_h θ_ih β_jh),   θ_ih ~ Ga(a, a)
    β_jh | z_h, d_h ~ Ga(c, d_h) if z_h > h (active),  Ga(c, c/ϑ) if z_h ≤ h (inactive), of mean ϑ
    d_h ~ Ga(e, f),   z_h and its weights as in the Gaussian factor model

d_h is integrated out of everything here: the loadings of an active column then have the density

    Π_j {β_jh^{c−1} / Γ(c)} × {f^e Γ(e + cp) / Γ(e)} × (f + Σ_j β_jh)^{−(e + cp)}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import between, store_positive, whole
from cuspfa.model.process import CumulativeShrinkage
from cuspfa.model.slabs import LOG_2PI

SMALLEST_SHAPE, LARGEST_SHAPE = 0.02, 1e4
"""Of scores and loadings; below it, exp(E log θ) is too small for a float."""
SHAPE_CENTER, SHAPE_SPREAD = 0.3, 1.0
"""log a and log c ~ N(log 0.3, 1) where they are learned."""
POOLING_SHAPE, POOLING_RATE = 4.0, 1.0
"""e ~ Ga(4, 1) where it is learned."""
SIZE_SPREAD = 1.5
"""log(c f / e), the size of a column, has this standard deviation about the data's own scale."""


class Hyperparameters(NamedTuple):
    """The numbers that all rows and columns share."""

    score_shape: float
    """a"""
    loading_shape: float
    """c"""
    rate_shape: float
    """e"""
    rate_scale: float
    """f"""

    def column_rate(self, totals: Array, p: int) -> Array:
        """E[d_h] = (e + cp) / (f + Σ_j β_jh) of active columns."""
        own = self.rate_shape + self.loading_shape * p
        return np.asarray(own / (self.rate_scale + totals))

    def slab_log_density(self, totals: Array, logs: Array, p: int) -> Array:
        """The log density above; `totals` are Σ_j β_jh, and `logs` Σ_j log β_jh or its mean."""
        _, c, e, f = self
        own = e + c * p
        constant = math.lgamma(own) - math.lgamma(e) - p * math.lgamma(c)
        return np.asarray(constant + e * math.log(f) + (c - 1) * logs - own * np.log(f + totals))

    def spike_log_density(self, totals: Array, logs: Array, p: int, spike: float) -> Array:
        """Log density of the loadings of inactive columns."""
        c = self.loading_shape
        constant = p * (c * math.log(c / spike) - math.lgamma(c))
        return np.asarray(constant + (c - 1) * logs - c / spike * totals)

    def score_log_density(self, totals: Array, logs: Array, n: int) -> Array:
        """Log density of the scores, by column; sums over rows as above."""
        a = self.score_shape
        return np.asarray(n * (a * math.log(a) - math.lgamma(a)) + (a - 1) * logs - a * totals)


@dataclass(frozen=True)
class PoissonFactorizationPrior:
    """The prior of x_ij ~ Po(s_i Σ_h θ_ih β_jh) under the cumulative shrinkage process.

        θ_ih ~ Ga(a, a),   β_jh | d_h ~ Ga(c, d_h) in an active column,   d_h ~ Ga(e, f)

    Parameters
    ----------
    alpha : float, default=5.0
        α, the number of factors expected before the data are seen.
    score_shape, loading_shape : float or None, default=None
        a and c. Below 1, most scores and loadings are near zero. None learns them.
    rate_shape : float or None, default=5.0
        e. The larger it is, the more similar are the sizes of the columns. None learns it; a tiny
        column then costs little.
    rate_scale : float or None, default=None
        f, on the scale of the data. None learns it from all columns, under a weak hyper-prior.
    size : float or None, default=None
        The mean rate of a cell that the hyper-prior of f expects. None takes it from the data.
    spike : float or None, default=None
        The mean loading in an inactive column. None is the limit zero: inactive columns vanish, and
        the number of active ones has its exact prior, Poisson(α) for a countable process.
    n_terms : int or None, default=None
        H, the columns of a finite process; None is the countable one. A spike above zero needs it.
    stick_shape : float, default=1.0
        s of the sticks Beta(s, α).

    Examples
    --------
    >>> PoissonFactorizationPrior(alpha=3.0).alpha
    3.0
    """

    alpha: float = 5.0
    score_shape: float | None = None
    loading_shape: float | None = None
    rate_shape: float | None = 5.0
    rate_scale: float | None = None
    size: float | None = None
    spike: float | None = None
    n_terms: int | None = None
    stick_shape: float = 1.0

    def __post_init__(self) -> None:
        optional = ("score_shape", "loading_shape", "rate_shape", "rate_scale", "size", "spike")
        given = [name for name in optional if getattr(self, name) is not None]
        store_positive(self, "alpha", "stick_shape", *given)
        for name in ("score_shape", "loading_shape"):
            if name in given:
                between(name, getattr(self, name), SMALLEST_SHAPE, LARGEST_SHAPE)
        if self.n_terms is not None:
            object.__setattr__(self, "n_terms", whole("n_terms", self.n_terms, 1))
        elif self.spike is not None:
            whole("n_terms with a spike", self.n_terms, 1)
        if self.spike is None:
            self.log_count_probability(0)  # refuses what it cannot count

    def process(self) -> CumulativeShrinkage:
        """The process of the columns."""
        return CumulativeShrinkage(self.alpha, self.n_terms, self.stick_shape)

    def log_count_probability(self, n_factors: int) -> float:
        """Log P(H* = K), exactly."""
        return self.process().log_active_count(n_factors)

    def for_data(self, mean_rate: float) -> PoissonFactorizationPrior:
        """The prior on the scale of data with this mean rate."""
        return self if self.size else replace(self, size=mean_rate if mean_rate > 0 else 1.0)

    def start(self) -> Hyperparameters:
        """Hyperparameters at which a fit begins."""
        c = self.loading_shape or SHAPE_CENTER
        e = self.rate_shape or POOLING_SHAPE / POOLING_RATE
        f = self.rate_scale or e / c * self.column_size
        return Hyperparameters(self.score_shape or SHAPE_CENTER, c, e, f)

    def at(self, hyper: Hyperparameters) -> PoissonFactorizationPrior:
        """The prior with these hyperparameters given."""
        return replace(self, **hyper._asdict())

    @property
    def column_size(self) -> float:
        """The mean loading that is expected in a column."""
        return (self.size or 1.0) / max(self.alpha, 1.0)

    def log_hyperprior(self, hyper: Hyperparameters) -> float:
        """Log density of the logarithms of the hyperparameters that are learned."""
        a, c, e, f = hyper
        density = 0.0
        for given, value in ((self.score_shape, a), (self.loading_shape, c)):
            if given is None:
                density += _normal(math.log(value / SHAPE_CENTER), SHAPE_SPREAD)
        if self.rate_shape is None:
            scaled, shape = POOLING_RATE * e, POOLING_SHAPE
            density += shape * math.log(scaled) - scaled - math.lgamma(shape)
        if self.rate_scale is None:
            density += _normal(math.log(c * f / e / self.column_size), SIZE_SPREAD)
        return density

    def directions(self) -> list[tuple[float, ...]]:
        """Directions of (log a, log c, log e, log f) along which hyperparameters are learned."""
        scale = 1.0 if self.rate_scale is None else 0.0
        axes = [
            (self.score_shape, (1.0, 0.0, 0.0, 0.0)),
            # The size c f / e stays.
            (self.loading_shape, (0.0, 1.0, 0.0, -scale)),
            (self.rate_shape, (0.0, 0.0, 1.0, scale)),
            (self.rate_scale, (0.0, 0.0, 0.0, 1.0)),
        ]
        return [axis for given, axis in axes if given is None]


def _normal(x: float, spread: float) -> float:
    return -0.5 * (x / spread) ** 2 - math.log(spread) - 0.5 * LOG_2PI


def climb(
    density: Callable[[Hyperparameters], float],
    hyper: Hyperparameters,
    directions: list[tuple[float, ...]],
) -> Hyperparameters:
    """One Newton step along each direction in logarithms; none that lowers the density."""
    here, step = density(hyper), 1e-3
    for direction in directions:
        beside = moved(hyper, direction, step), moved(hyper, direction, -step)
        if beside[0] is None or beside[1] is None:
            continue  # at a limit
        above, below = density(beside[0]), density(beside[1])
        slope, curvature = (above - below) / (2 * step), (above + below - 2 * here) / step**2
        length = max(-1.0, min(1.0, slope / max(abs(curvature), 1e-6)))
        if abs(length) < 1e-6:
            continue  # rounding would decide
        for _ in range(6):
            tried = moved(hyper, direction, length)
            there = -math.inf if tried is None else density(tried)
            if tried is not None and there >= here:
                hyper, here = tried, there
                break
            length /= 4
    return hyper


def moved(
    hyper: Hyperparameters, direction: tuple[float, ...], step: float
) -> Hyperparameters | None:
    """Hyperparameters with this step of their logarithms; None beyond their limits."""
    a, c, e, f = (x * math.exp(step * d) for x, d in zip(hyper, direction, strict=True))
    if not (
        min(a, c) >= SMALLEST_SHAPE
        and max(a, c) <= LARGEST_SHAPE
        and 0.05 <= e <= 1e4
        and 1e-12 < f < 1e12
    ):
        return None
    return Hyperparameters(a, c, e, f)
