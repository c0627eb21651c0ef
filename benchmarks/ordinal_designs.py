"""Simulated answers: five points, binary and mixed columns with known latent correlations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

FIRST_SEED = 7_300_000
"""No other simulation of the project has these."""
FIVE_POINTS = special.ndtri([0.5, 0.75, 0.9, 0.97])
KINDS = ("five points, skewed", "binary, 50 %", "binary, 10–90 %", "binary, 15 %")
DESIGNS_NOTE = (
    "Simulated items belong to one factor each, with a standardised loading of 0.5 to 0.8. Five "
    "points, skewed: 50, 25, 15, 7 and 3 % of the answers. Fits have the default prior and the "
    "probit link."
)


class Answers(NamedTuple):
    rows: np.ndarray
    correlations: np.ndarray
    """Of the latent responses."""
    cuts: list[np.ndarray]
    """Of each column, for responses of a variance of one; none where a column is continuous."""


def cuts_of(kind: str, p: int) -> list[np.ndarray]:
    if kind == "five points, skewed":
        return [FIVE_POINTS] * p
    if kind == "binary, 50 %":
        return [np.zeros(1)] * p
    if kind == "binary, 15 %":
        return [special.ndtri([0.85])] * p
    if kind == "binary, 10–90 %":
        return [special.ndtri([share]) for share in np.linspace(0.1, 0.9, p)]
    every = [np.array([]), FIVE_POINTS, np.zeros(1)]  # mixed: one kind after the other
    return [every[j % 3] for j in range(p)]


def simulated(kind: str, n: int, p: int, k: int, seed: int) -> Answers:
    """Each item belongs to one factor, with a standardised loading of 0.5 to 0.8."""
    rng = np.random.default_rng(FIRST_SEED + seed)
    loadings = np.zeros((p, k))
    loadings[np.arange(p), np.arange(p) * k // p] = rng.uniform(0.5, 0.8, size=p)
    noise = np.sqrt(1 - np.sum(loadings**2, axis=1))
    response = rng.normal(size=(n, k)) @ loadings.T + rng.normal(size=(n, p)) * noise
    cuts, correlations = cuts_of(kind, p), loadings @ loadings.T
    np.fill_diagonal(correlations, 1.0)
    rows = response.copy()
    for j, own in enumerate(cuts):
        if len(own):
            rows[:, j] = np.sum(response[:, [j]] > own, axis=1)
    return Answers(rows, correlations, cuts)
