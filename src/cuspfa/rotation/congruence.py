"""Congruence of the factors of two fits, such as those of halves of the data, groups or years."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cuspfa._typing import Array, Indices, RandomState
from cuspfa._utils.arguments import generator, true_or_false, whole
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa.diagnostics.retention import ALIKE_CONGRUENCE, EQUAL_CONGRUENCE, match_factors
from cuspfa.errors import DataError
from cuspfa.posterior.base import Posterior, check_posterior
from cuspfa.posterior.draws import N_DRAWS, Draws
from cuspfa.posterior.quantiles import tails
from cuspfa.rotation.align import align_draws
from cuspfa.rotation.gpa import RotatedLoadings

PERMUTATIONS = 100
"""Random orders of the variables that a congruence by chance comes from."""


@dataclass(frozen=True, eq=False, repr=False)
class FactorCongruence(TabularResult):
    """Pairs of factors of two fits; `print` it, or read its fields.

    Attributes
    ----------
    congruence : ndarray (m,)
        Tucker's congruence of the mean loadings of each pair; NaN for a factor of the first fit
        that the second does not have.
    lower, upper : ndarray (m,)
        Its interval, by draws of both fits. Uncertain loadings lower the congruence of draws: for
        weak factors the interval lies below the congruence of the means.
    chance : ndarray (m,)
        The 95 % quantile over a hundred random orders of the variables: the congruence that
        rotation alone finds in noise.
    pairs : ndarray (m, 2)
        Numbers of the factors of the first and of the second fit, from 0; after the rotation, of a
        fit that was rotated.
    first, second : ndarray (p, m)
        Mean loadings on the correlation scale, pair by pair.
    names : list of str
        The variables.
    """

    congruence: Array
    lower: Array
    upper: Array
    chance: Array
    pairs: Indices
    first: Array
    second: Array
    names: list[str]

    def __str__(self) -> str:
        lines = ["factors  congruence   interval        chance"]
        for (a, b), value, low, high, by_chance in zip(
            self.pairs, self.congruence, self.lower, self.upper, self.chance, strict=True
        ):
            pair = f"{a + 1} and {b + 1}"
            if np.isnan(value):
                lines.append(f"{pair:>8}  no such factor in the second fit")
                continue
            word = "alike" if value >= ALIKE_CONGRUENCE else "different"
            word = "equal" if value >= EQUAL_CONGRUENCE else word
            lines.append(
                f"{pair:>8}  {value:9.2f}   {low:4.2f} – {high:4.2f}   {by_chance:11.2f}   {word}"
            )
        return "\n".join(lines)

    def _columns(self) -> Columns:
        return {
            "first": (self.pairs[:, 0] + 1).tolist(),
            "second": (self.pairs[:, 1] + 1).tolist(),
            "congruence": self.congruence.tolist(),
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "chance": self.chance.tolist(),
        }

    def __repr__(self) -> str:
        return f"<FactorCongruence of {len(self.congruence)} pairs of factors>"


def factor_congruence(
    first: Any,
    second: Any,
    *,
    procrustes: bool = True,
    prob: float = 0.95,
    n_draws: int = N_DRAWS,
    random_state: RandomState = 0,
) -> FactorCongruence:
    """Compare the factors of two fits of the same variables.

    Parameters
    ----------
    first, second : fitted CuspFactorAnalysis or Posterior
        Fits of two halves, groups or years. Variables are matched by name where both have names.
    procrustes : bool, default=True
        Put the second fit on the axes of the first (orthogonal Procrustes), since rotations change
        no model; the pairs are then the factors of the first. False compares the factors as each
        fit has them, and pairs those that are most alike.
    prob : float, default=0.95
        Probability of the intervals.
    n_draws : int, default=1000
        Draws of each fit for the intervals.
    random_state : default=0
        Seed of draws and of random orders.

    Returns
    -------
    FactorCongruence
        Intervals are of congruences of draws, each of which has noise of its own that makes it
        smaller: they may lie below the congruence of the two means.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, factor_congruence
    >>> X = datasets.load_bfi(subset="items", as_frame=True).data.dropna()
    >>> odd, even = (
    ...     CuspFactorAnalysis(n_factors=5, rotation="varimax").fit(part)
    ...     for part in (X[::2], X[1::2])
    ... )
    >>> bool(factor_congruence(odd, even, n_draws=100).congruence.min() > 0.95)
    True
    """
    one, other = (
        check_posterior(
            getattr(fit, "posterior_", fit), name, "a fitted CuspFactorAnalysis or a posterior"
        )
        for name, fit in (("first", first), ("second", second))
    )
    true_or_false("procrustes", procrustes)
    ends, size, rng = tails(prob), whole("n_draws", n_draws, 2), generator(random_state)
    order = _same_variables(one, other)
    mean = other.standardized_loadings[order]
    drawn = [posterior.draw(size, random_state=rng) for posterior in (one, other)]
    size = min(map(len, drawn))  # a sampler has only those that it kept
    # In another order, or draws of the same chains would be compared with themselves.
    drawn = [draws.some(rng.permutation(len(draws))[:size]) for draws in drawn]
    drawn[1] = drawn[1].only(order)
    if procrustes:
        reference = one.rotated_solution
        rotated = _on_axes_of(mean, reference)
        pairs = np.repeat(np.arange(reference.loadings.shape[1])[:, None], 2, axis=1)
        sides = reference.loadings, rotated
        goals = reference, reference._replace(loadings=rotated)
    else:
        own = other.rotated_solution
        own = own._replace(loadings=own.loadings[order])
        match = match_factors(one.rotated_solution.loadings, own.loadings, procrustes=False)
        pairs, sides = match.columns, (match.first, match.second)
        goals = one.rotated_solution, own
    alike = _paired_congruence(*sides)
    each = [
        _aligned(draws, goal)[:, :, pairs[:, side]]
        for side, (draws, goal) in enumerate(zip(drawn, goals, strict=True))
    ]
    found = np.abs(_paired_congruence(*each))
    lower, upper = np.full((2, len(pairs)), np.nan)
    known = np.isfinite(alike)
    if known.any():
        lower[known], upper[known] = np.nanquantile(found[:, known], ends, axis=0)
    permuted = [
        _by_chance(one.rotated_solution, mean[rng.permutation(len(mean))], procrustes)
        for _ in range(PERMUTATIONS)
    ]
    chance = np.quantile(permuted, 0.95, axis=0)[: len(pairs)] if len(pairs) else np.zeros(0)
    return FactorCongruence(alike, lower, upper, chance, pairs, *sides, one.column_names)


def _same_variables(one: Posterior, other: Posterior) -> Indices:
    """Where the first fit's variables are in the second."""
    p, q = len(one.noise_variance), len(other.noise_variance)
    if one.names is not None and other.names is not None:
        missing = [name for name in one.names if name not in set(other.names)]
        extra = [name for name in other.names if name not in set(one.names)]
        if missing or extra:
            side, name = ("second", missing[0]) if missing else ("first", extra[0])
            raise DataError(
                f"first and second must be fits of the same variables. The {side} has no {name!r}."
            )
        places = {name: j for j, name in enumerate(other.names)}
        return np.array([places[name] for name in one.names])
    if p != q:
        raise DataError(
            f"first and second must be fits of the same variables. Got {p} and {q} of them."
        )
    return np.arange(p)


def _on_axes_of(mean: Array, reference: RotatedLoadings) -> Array:
    """Mean loadings on the axes of a reference; NaN for factors of it without a match."""
    noise = np.maximum(1.0 - np.sum(mean**2, axis=1), 1e-12)
    single = Draws(mean[None], noise[None])
    found = align_draws(single, reference, None, "procrustes")
    # On the correlation scale already: not divided once more.
    return np.where(found.present[0], mean @ found.rotations[0], np.nan)


def _aligned(draws: Draws, goal: RotatedLoadings) -> Array:
    """(n_draws, p, K); zeros where a draw has no such factor."""
    there = goal._replace(loadings=np.nan_to_num(goal.loadings))
    found = align_draws(draws, there, None, "procrustes")
    return np.asarray(draws.standardized_loadings @ found.rotations)


def _paired_congruence(a: Array, b: Array) -> Array:
    """Congruence of columns, along the last axis but one; NaN where there is none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.sqrt(np.sum(a**2, axis=-2) * np.sum(b**2, axis=-2))
        return np.asarray(np.sum(a * b, axis=-2) / size)


def _by_chance(reference: RotatedLoadings, mean: Array, procrustes: bool) -> Array:
    pattern = reference.loadings
    if procrustes:
        return np.abs(np.nan_to_num(_paired_congruence(pattern, _on_axes_of(mean, reference))))
    found = match_factors(pattern, mean, procrustes=False).congruence
    return np.asarray(found)
