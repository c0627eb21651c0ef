"""The cumulative shrinkage process, apart from any model it may serve as a prior.

    θ_h | π_h ~ (1 − π_h) P_0 + π_h P_∞        slab P_0, spike P_∞
    π_h = Σ_{l≤h} ω_l,   ω_l = v_l Π_{m<l} (1 − v_m),   v_l ~ Beta(s, α)

The paper has s = 1. The finite process of H terms sets v_H = 1, so that π_H = 1 and the last
term always comes from the spike; the countable one goes on for ever and is looked at up to a
truncation.

The lower half of this file is what variational inference needs of it: the labels z_h (θ_h comes
from the spike when z_h ≤ h) and the sticks v_l, in O(H) time and memory and in logarithms.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, digamma
from scipy.stats import poisson

from cuspfa._typing import Array, BoolArray, RandomState
from cuspfa._utils.arguments import generator, must_be, store_positive, whole


class ProcessDraws(NamedTuple):
    """Draws of the process: `theta` (n_draws, H), `active` (n_draws, H), True for the slab."""

    theta: Array
    active: BoolArray


@dataclass(frozen=True)
class CumulativeShrinkage:
    """The cumulative shrinkage process CUSP(α, P_0, P_∞).

    Parameters
    ----------
    alpha : float, default=5.0
        Shrinkage parameter α; the expected number of slab terms of the countable process.
    n_terms : int or None, default=None
        Number of terms H of the finite process (Definition 1 of the paper: v_H = 1), or None for
        the countable process.
    stick_shape : float, default=1.0
        First parameter s of the sticks v_l ~ Beta(s, α).

    Examples
    --------
    >>> from scipy.stats import invgamma
    >>> process = CumulativeShrinkage(alpha=5.0, n_terms=20)
    >>> draws = process.draw(invgamma(2, scale=2), 0.05, n_draws=3, random_state=0)
    >>> draws.theta.shape
    (3, 20)
    >>> bool(draws.active[:, -1].any())  # the last term is always from the spike
    False
    """

    alpha: float = 5.0
    n_terms: int | None = None
    stick_shape: float = 1.0

    def __post_init__(self) -> None:
        store_positive(self, "alpha", "stick_shape")
        if self.n_terms is not None:
            whole("n_terms", self.n_terms, 1)

    def _truncation(self, n_terms: int | None) -> int:
        if n_terms is None:
            if self.n_terms is None:
                raise must_be(
                    "n_terms", "given for a countable process, to say where to stop", None
                )
            return self.n_terms
        whole("n_terms", n_terms, 1)
        if self.n_terms is not None and n_terms > self.n_terms:
            raise must_be("n_terms", f"at most the process's own {self.n_terms}", n_terms)
        return int(n_terms)

    def expected_spike_probabilities(self, n_terms: int | None = None) -> Array:
        """E[π_h] = 1 − {α/(s+α)}^h for the first `n_terms` terms (1 for the last finite one)."""
        h = np.arange(1, self._truncation(n_terms) + 1)
        expected = -np.expm1(-h * math.log1p(self.stick_shape / self.alpha))
        return np.where(h == self.n_terms, 1.0, expected)

    def draw_spike_probabilities(
        self, n_draws: int, *, n_terms: int | None = None, random_state: RandomState = None
    ) -> Array:
        """Draw π_1, ..., π_H: an array (n_draws, n_terms), non-decreasing along each row."""
        size = (whole("n_draws", n_draws, 1), self._truncation(n_terms))
        v = generator(random_state).beta(self.stick_shape, self.alpha, size=size)
        if size[1] == self.n_terms:
            v[:, -1] = 1.0
        # 1 − π_h = Π_{m≤h} (1 − v_m): a product keeps π monotone where a sum of ω would not.
        return np.asarray(1.0 - np.cumprod(1.0 - v, axis=1))

    def draw(
        self,
        slab: Any,
        spike: Any,
        *,
        n_draws: int = 1,
        n_terms: int | None = None,
        random_state: RandomState = None,
    ) -> ProcessDraws:
        """Draw θ_1, ..., θ_H from the prior.

        Parameters
        ----------
        slab, spike : frozen scipy.stats distribution or float
            P_0 and P_∞; a number is a point mass.
        n_draws : int, default=1
            Number of independent draws of the whole sequence.
        n_terms : int or None, default=None
            How many terms; by default all of a finite process.
        random_state : None, int or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ProcessDraws
            `theta` and `active`, both (n_draws, n_terms).
        """
        rng = generator(random_state)
        probabilities = self.draw_spike_probabilities(n_draws, n_terms=n_terms, random_state=rng)
        active: BoolArray = rng.random(probabilities.shape) >= probabilities
        theta = np.where(active, _sample("slab", slab, active, rng), 0.0)
        theta = np.where(active, theta, _sample("spike", spike, active, rng))
        return ProcessDraws(theta, active)

    def active_count_pmf(self, counts: ArrayLike) -> Array:
        """P(H* = k), the exact prior of the number of slab terms, for each k in `counts`.

        With sticks Beta(1, α) the survivors 1 − π_h = exp(−t_h) are read off a Poisson process of
        rate α, which thinned by exp(−t) has Poisson(α) points: H* ~ Poisson(α). In general the
        factorial moments are known: with e_m = E[(1 − v)^m] and f_m = E[H*(H*−1)...(H*−m+1)]/m!,
        f_m = Π_{i≤m} e_i / (1 − e_i) for the countable process, and H terms more of a finite one
        obey f_m ← e_m (f_m + f_{m−1}). P(H* = k) = Σ_{m≥k} (−1)^{m−k} C(m, k) f_m alternates, so it
        is summed in decimal numbers of enough digits.

        Examples
        --------
        >>> CumulativeShrinkage(alpha=5.0).active_count_pmf([0, 5]).round(4).tolist()
        [0.0067, 0.1755]
        """
        wanted = np.atleast_1d(np.asarray(counts))
        if wanted.size == 0:
            return np.zeros(0)
        if wanted.dtype.kind not in "iu" or wanted.ndim != 1 or np.any(wanted < 0):
            raise must_be("counts", "whole numbers not below 0", counts)
        if self.stick_shape < SMALLEST_COUNTED_SHAPE:
            raise must_be(
                "stick_shape",
                f"at least {SMALLEST_COUNTED_SHAPE} for the exact number of active terms",
                self.stick_shape,
            )
        plain = self.n_terms is None and self.stick_shape == 1.0
        largest = int(wanted.max(initial=0))
        if (
            not plain
            and max(largest, self.alpha / min(self.stick_shape, 1.0)) > LARGEST_EXACT_COUNT
        ):
            raise must_be(
                "counts and alpha",
                f"at most {LARGEST_EXACT_COUNT} unless the process is countable with stick_shape 1",
                (largest, self.alpha),
            )
        if plain:
            return np.asarray(poisson.pmf(wanted, self.alpha))
        pmf = _count_pmf(self.alpha, self.stick_shape, self.n_terms, largest)
        return np.array([pmf[k] for k in wanted])

    def log_active_count(self, count: int) -> float:
        """Log P(H* = count)."""
        if self.n_terms is None and self.stick_shape == 1.0:
            return count * math.log(self.alpha) - self.alpha - math.lgamma(count + 1)
        probability = float(self.active_count_pmf([count])[0])
        return math.log(probability) if probability > 0 else -math.inf


LARGEST_EXACT_COUNT = 200
"""Beyond it the alternating sum takes too many digits to be quick."""
SMALLEST_COUNTED_SHAPE = 0.5
"""Below it the factorial moments grow too long for their alternating sum."""


@lru_cache(maxsize=32)
def _count_pmf(alpha: float, shape: float, n_terms: int | None, largest: int) -> tuple[float, ...]:
    with localcontext() as context:
        # Terms grow like exp(mean): keep that many digits more than a float has.
        context.prec = 60 + 2 * largest + int(2 * alpha / min(shape, 1.0))
        a, b, one = Decimal(shape), Decimal(alpha), Decimal(1)
        powers, moments = [one], [one]  # e_m and the countable f_m
        while len(moments) < 40 + 2 * largest or moments[-1] > Decimal(10) ** -context.prec:
            j = len(powers) - 1
            powers.append(powers[-1] * (b + j) / (a + b + j))
            moments.append(moments[-1] * powers[-1] / (1 - powers[-1]))
        if n_terms is not None:
            moments = [one] + [Decimal(0)] * min(len(moments) - 1, n_terms - 1)
            for _ in range(n_terms - 1):
                for m in range(len(moments) - 1, 0, -1):
                    moments[m] = powers[m] * (moments[m] + moments[m - 1])
        pmf = []
        for k in range(largest + 1):
            total, sign = Decimal(0), 1
            for m in range(k, len(moments)):
                total += sign * comb(m, k) * moments[m]
                sign = -sign
            pmf.append(max(float(total), 0.0))
    return tuple(pmf)


def _sample(name: str, distribution: Any, like: BoolArray, rng: np.random.Generator) -> Array:
    if (
        isinstance(distribution, numbers.Real)
        and not isinstance(distribution, bool)
        and math.isfinite(distribution)
    ):
        return np.full(like.shape, float(distribution))
    if not hasattr(distribution, "rvs") or not hasattr(distribution, "dist"):
        raise must_be(name, "a finite number or a frozen scipy.stats distribution", distribution)
    values = np.asarray(distribution.rvs(size=like.shape, random_state=rng), dtype=float)
    if values.shape != like.shape:
        raise must_be(name, "a distribution of single numbers", distribution)
    return values


# --- Variational labels and sticks (Algorithm 1, steps 4 and 5) --------------------------------


class Sticks(NamedTuple):
    """q(v_l) = Beta(a_l, b_l) for l < H; the last stick is v_H = 1.  Both arrays (H−1,)."""

    a: Array
    b: Array


class Labels(NamedTuple):
    """The parts of q(z_h) = Mult(κ_h) that are needed, without the H×H matrix κ.

    Far behind the last active term all rows κ_h are the same to rounding error and the sticks are
    at their prior, so the arrays may end at some L < H, whose row then stands for `last` terms.
    """

    active: Array
    """(L,) P(z_h > h) = Σ_{l>h} κ_hl, the slab."""
    inactive: Array
    """(L,) P(z_h ≤ h) = Σ_{l≤h} κ_hl, the spike (kept apart: 1 − active loses digits)."""
    stick_counts: Array
    """(L,) Σ_h κ_hl, how many labels are expected to point at stick l."""
    entropy: float
    """Σ_h entropy of κ_h, over all H terms."""
    last: int = 1
    """H − L + 1, the terms for which the last row stands."""

    def total(self, by_row: Array) -> float:
        """Σ over all H terms of what is given for each row."""
        return float(by_row.sum() + (self.last - 1) * by_row[-1])


def rows_needed(n_terms: int, n_active: int, process: CumulativeShrinkage) -> int:
    """L such that the sticks behind it, decaying at least like exp(−l s/α), hold nothing."""
    return min(n_terms, n_active + 60 + int(40 * process.alpha / min(process.stick_shape, 1.0)))


def prior_sticks(process: CumulativeShrinkage, rows: int) -> Sticks:
    """q(v) at its prior, the natural start."""
    return Sticks(np.full(rows - 1, process.stick_shape), np.full(rows - 1, process.alpha))


def expected_log_weights(sticks: Sticks) -> Array:
    """E[log ω_l], l = 1..L (the formula after step 4)."""
    total = digamma(sticks.a + sticks.b)
    log_weights = np.zeros(len(sticks.a) + 1)
    log_weights[:-1] = digamma(sticks.a) - total
    log_weights[1:] += (digamma(sticks.b) - total).cumsum()
    return log_weights


def update_labels(log_odds: Array, log_weights: Array, last: int = 1) -> Labels:
    """Best q(z) given E[log ω] and, for each row, log slab − log spike (step 4).

    κ_hl ∝ exp(E log ω_l) × (spike if l ≤ h, slab if l > h), so sums of exp(E log ω) from both
    ends give every row's normaliser, and sums of the normalised weights every column's total.
    """
    spike, slab = np.minimum(-log_odds, 0.0), np.minimum(log_odds, 0.0)
    below = np.logaddexp.accumulate(log_weights)
    above = np.append(np.logaddexp.accumulate(log_weights[:0:-1])[::-1], -np.inf)
    normaliser = np.logaddexp(spike + below, slab + above)
    from_spike = spike - normaliser
    from_spike[-1] += np.log(last)
    log_counts = log_weights + np.logaddexp(
        np.logaddexp.accumulate(from_spike[::-1])[::-1],
        np.append(-np.inf, np.logaddexp.accumulate(slab - normaliser)[:-1]),
    )
    active = np.exp(slab + above - normaliser)
    inactive = np.exp(spike + below - normaliser)
    counts = np.exp(log_counts)
    # Σ_h {log Z_h − E[score]}; a term with zero probability has no score to subtract.
    score = np.where(active > 0, active * slab, 0.0) + np.where(inactive > 0, inactive * spike, 0.0)
    by_row = normaliser - score
    entropy = float(by_row.sum() + (last - 1) * by_row[-1] - counts @ log_weights)
    return Labels(active, inactive, counts, entropy, last)


def update_sticks(labels: Labels, process: CumulativeShrinkage) -> Sticks:
    """Best q(v) given the labels (step 5)."""
    counts = labels.stick_counts
    beyond = counts[:0:-1].cumsum()[::-1]
    return Sticks(process.stick_shape + counts[:-1], process.alpha + beyond)


def converge_labels(
    log_odds: Array, sticks: Sticks, process: CumulativeShrinkage, last: int = 1
) -> tuple[Labels, Sticks]:
    """Repeat steps 4 and 5 to their fixed point, where Λ and σ² do not wait for them.

    Plain repetition takes O(H) sweeps, so every two of them are extrapolated (SQUAREM) and the
    longer step is kept when it raises the bound.
    """

    def sweep(log_weights: Array) -> tuple[Labels, Sticks, Array]:
        labels = update_labels(log_odds, log_weights, last)
        after = update_sticks(labels, process)
        return labels, after, expected_log_weights(after)

    def bound(at: tuple[Labels, Sticks, Array]) -> float:
        return _converged_bound(*at, log_odds, process)

    x = expected_log_weights(sticks)
    here = sweep(x)
    for _ in range(10_000):
        if np.max(np.abs(here[2] - x), initial=0.0) < LABELS_TOLERANCE:
            break
        x, first = here[2], sweep(here[2])
        second = sweep(first[2])
        r, v = first[2] - x, second[2] - 2 * first[2] + x
        here, length = second, float(np.linalg.norm(v))
        if length > 0:
            step = max(float(np.linalg.norm(r)) / length, 1.0)
            jump = x + 2 * step * r + step**2 * v
            tried = sweep(jump)
            if bound(tried) > bound(second):
                x, here = jump, tried
                continue
        x = first[2]
    return here[0], here[1]


LABELS_TOLERANCE = 1e-7
"""Labels and sticks have converged when no E[log ω] changes by more than this in an update."""


def _converged_bound(
    labels: Labels,
    sticks: Sticks,
    log_weights: Array,
    log_odds: Array,
    process: CumulativeShrinkage,
) -> float:
    """The part of the bound that labels and sticks can change."""
    slab = np.where(labels.active > 0, labels.active * np.minimum(log_odds, 0), 0.0)
    spike = np.where(labels.inactive > 0, labels.inactive * np.maximum(log_odds, 0), 0.0)
    odds = labels.total(slab - spike)
    to_labels = float(labels.stick_counts @ log_weights) + labels.entropy
    return odds + to_labels + sticks_bound(sticks, process)


def labels_bound(labels: Labels, sticks: Sticks) -> float:
    """E[log p(z | v)] − E[log q(z)]."""
    return float(labels.stick_counts @ expected_log_weights(sticks)) + labels.entropy


def sticks_bound(sticks: Sticks, process: CumulativeShrinkage) -> float:
    """E[log p(v)] − E[log q(v)], that is −KL(q(v) ‖ Beta(s, α))."""
    total = digamma(sticks.a + sticks.b)
    extra_a, extra_b = process.stick_shape - sticks.a, process.alpha - sticks.b
    terms = (
        betaln(sticks.a, sticks.b)
        - betaln(process.stick_shape, process.alpha)
        + extra_a * (digamma(sticks.a) - total)
        + extra_b * (digamma(sticks.b) - total)
    )
    return float(terms.sum())
