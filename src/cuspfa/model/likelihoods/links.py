"""Probabilities of intervals under the two links of ordinal columns, with their derivatives.

P = F(u) − F(l) for the interval (l, u) = (κ below − f, κ above − f), F normal (probit) or logistic
(logit). Both are accurate however far out the interval is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

from cuspfa._typing import Array, BoolArray

Link = Literal["probit", "logit"]
"""Names of F."""

OUTERMOST = 1e6
"""Stands for an infinite cut-point, so that products with a density of zero are zero."""
FAR_OUT = -25.0
"""Intervals beyond have probabilities near the smallest numbers."""
ROOT_HALF_PI, LOG_ROOT_2PI = math.sqrt(math.pi / 2), 0.5 * math.log(2 * math.pi)


class IntervalTerms(NamedTuple):
    """Log probability of the interval (l, u), and derivatives: a = ∂/∂u, b = −∂/∂l."""

    log_probability: Array
    a: Array
    b: Array
    slope: Array
    """∂ℓ/∂f = b − a."""


class LinkFunctions(NamedTuple):
    """The formulas of a link, as functions of l, u and the `terms` at these."""

    terms: Callable[[Array, Array], IntervalTerms]
    curvature: Callable[[Array, Array, IntervalTerms], Array]
    """∂²ℓ/∂f²."""


def _probit_terms(lower: Array, upper: Array) -> IntervalTerms:
    """P = Φ(u) − Φ(l), φ(u)/P and φ(l)/P.

    The interval is reflected so that u is the end nearer to zero: then no subtraction loses
    digits. Where Φ would underflow, P = φ(u){R(−u) − e^{(u²−l²)/2} R(−l)} with Mills' ratio R.
    """
    reflected: BoolArray = lower + upper > 0.0
    low = np.where(reflected, -upper, lower)
    high = np.where(reflected, -lower, upper)
    below = 0.0 if np.all(low <= -OUTERMOST / 2) else ndtr(low)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = ndtr(high) - below
        log_probability = np.log(total)
        at_high = np.exp(-0.5 * high * high - LOG_ROOT_2PI) / total
        at_low = np.exp(-0.5 * low * low - LOG_ROOT_2PI) / total
    far: BoolArray = high < FAR_OUT
    if np.any(far):
        u, v = high[far], low[far]
        ratio = np.exp(0.5 * (u - v) * (u + v))
        scaled = ROOT_HALF_PI * (erfcx(-u / math.sqrt(2)) - ratio * erfcx(-v / math.sqrt(2)))
        log_probability[far] = np.log(scaled) - 0.5 * u**2 - LOG_ROOT_2PI
        at_high[far], at_low[far] = 1.0 / scaled, ratio / scaled
    a, b = np.where(reflected, at_low, at_high), np.where(reflected, at_high, at_low)
    return IntervalTerms(log_probability, a, b, b - a)


def _probit_curvature(lower: Array, upper: Array, at: IntervalTerms) -> Array:
    """∂²ℓ/∂f² = lb − ua − (b − a)²."""
    return np.clip(lower * at.b - upper * at.a - at.slope**2, -1.0, 0.0)


def probit_further(lower: Array, upper: Array) -> tuple[Array, Array]:
    """∂³ℓ/∂f³ and ∂⁴ℓ/∂f⁴."""
    at = _probit_terms(lower, upper)
    first = at.slope
    a1, b1 = at.a * (upper - first), at.b * (lower - first)
    second = b1 - a1
    a2 = a1 * (upper - first) - at.a * (1.0 + second)
    b2 = b1 * (lower - first) - at.b * (1.0 + second)
    third = b2 - a2
    a3 = a2 * (upper - first) - 2.0 * a1 * (1.0 + second) - at.a * third
    b3 = b2 * (lower - first) - 2.0 * b1 * (1.0 + second) - at.b * third
    return third, b3 - a3


def _logit_terms(lower: Array, upper: Array) -> IntervalTerms:
    """P = σ(u) − σ(l) = σ(u) σ(−l) {1 − e^{l−u}}."""
    (above, log_below), (below, log_above) = _logistic(-upper), _logistic(lower)
    between = np.exp(lower - upper)
    ratio = between / (1.0 - between)
    log_probability = log_below + log_above + np.log1p(-between)
    return IntervalTerms(log_probability, above + ratio, below + ratio, below - above)


def _logistic(x: Array) -> tuple[Array, Array]:
    """σ(x) and log σ(−x)."""
    small = np.exp(-np.abs(x))
    share = np.where(x > 0.0, 1.0, small) / (1.0 + small)
    return share, -np.maximum(x, 0.0) - np.log1p(small)


def _logit_curvature(lower: Array, upper: Array, at: IntervalTerms) -> Array:
    """∂²ℓ/∂f² = −σ(u)σ(−u) − σ(l)σ(−l)."""
    above, below = _logistic(-upper)[0], _logistic(lower)[0]
    return np.asarray(-above * (1.0 - above) - below * (1.0 - below))


PROBIT = LinkFunctions(_probit_terms, _probit_curvature)
LOGIT = LinkFunctions(_logit_terms, _logit_curvature)
LINKS = {"probit": PROBIT, "logit": LOGIT}
"""By their names."""
