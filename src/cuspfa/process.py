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
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, digamma

from cuspfa._checks import generator, must_be, positive, whole
from cuspfa._types import Array, BoolArray, RandomState


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
        positive("alpha", self.alpha)
        positive("stick_shape", self.stick_shape)
        if self.n_terms is not None:
            whole("n_terms", self.n_terms, 1)

    def _truncation(self, n_terms: int | None) -> int:
        if n_terms is None:
            if self.n_terms is None:
                raise must_be(
                    "n_terms", "given for a countable process, to say where to stop", None
                )
            return self.n_terms
        if self.n_terms is not None and n_terms > self.n_terms:
            raise must_be("n_terms", f"at most the process's own {self.n_terms}", n_terms)
        return whole("n_terms", n_terms, 1)

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


def _sample(name: str, law: Any, like: BoolArray, rng: np.random.Generator) -> Array:
    if np.isscalar(law) and np.isreal(law):
        return np.full(like.shape, float(law))  # type: ignore[arg-type]
    if not hasattr(law, "rvs"):
        raise must_be(name, "a number or a frozen scipy.stats distribution", law)
    return np.asarray(law.rvs(size=like.shape, random_state=rng), dtype=float)


# --- Variational labels and sticks (Algorithm 1, steps 4 and 5) --------------------------------


class Sticks(NamedTuple):
    """q(v_l) = Beta(a_l, b_l) for l < H; the last stick is v_H = 1.  Both arrays (H−1,)."""

    a: Array
    b: Array


class Labels(NamedTuple):
    """What is ever needed of q(z_h) = Mult(κ_h), h = 1..H, without the H×H matrix κ."""

    active: Array
    """(H,) P(z_h > h) = Σ_{l>h} κ_hl, the slab."""
    inactive: Array
    """(H,) P(z_h ≤ h) = Σ_{l≤h} κ_hl, the spike (kept apart: 1 − active loses digits)."""
    stick_counts: Array
    """(H,) Σ_h κ_hl, how many labels are expected to point at stick l."""
    entropy: float
    """Σ_h entropy of κ_h."""


def prior_sticks(process: CumulativeShrinkage) -> Sticks:
    """q(v) at its prior, the natural start."""
    size = process._truncation(None) - 1
    return Sticks(np.full(size, process.stick_shape), np.full(size, process.alpha))


def expected_log_weights(sticks: Sticks) -> Array:
    """E[log ω_l], l = 1..H (the formula after step 4)."""
    total = digamma(sticks.a + sticks.b)
    log_weights = np.zeros(len(sticks.a) + 1)
    log_weights[:-1] = digamma(sticks.a) - total
    log_weights[1:] += np.cumsum(digamma(sticks.b) - total)
    return log_weights


def update_labels(log_odds: Array, log_weights: Array) -> Labels:
    """Best q(z) given E[log ω] and, for each term, log slab − log spike (step 4).

    κ_hl ∝ exp(E log ω_l) × (spike if l ≤ h, slab if l > h), so sums of exp(E log ω) from both
    ends give every row's normaliser, and sums of the normalised weights every column's total.
    """
    spike, slab = np.minimum(-log_odds, 0.0), np.minimum(log_odds, 0.0)
    below = np.logaddexp.accumulate(log_weights)
    above = np.append(np.logaddexp.accumulate(log_weights[:0:-1])[::-1], -np.inf)
    normaliser = np.logaddexp(spike + below, slab + above)
    log_counts = log_weights + np.logaddexp(
        np.logaddexp.accumulate((spike - normaliser)[::-1])[::-1],
        np.append(-np.inf, np.logaddexp.accumulate(slab - normaliser)[:-1]),
    )
    active = np.exp(slab + above - normaliser)
    inactive = np.exp(spike + below - normaliser)
    counts = np.exp(log_counts)
    # Σ_h {log Z_h − E[score]}; a term with zero probability has no score to subtract.
    score = np.where(active > 0, active * slab, 0.0) + np.where(inactive > 0, inactive * spike, 0.0)
    entropy = float(np.sum(normaliser - score) - counts @ log_weights)
    return Labels(active, inactive, counts, entropy)


def update_sticks(labels: Labels, process: CumulativeShrinkage) -> Sticks:
    """Best q(v) given the labels (step 5)."""
    counts = labels.stick_counts
    beyond = np.cumsum(counts[:0:-1])[::-1]
    return Sticks(process.stick_shape + counts[:-1], process.alpha + beyond)


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
    return float(np.sum(terms))
