"""Item response functions of ordinal columns: probabilities of categories, and information.

As functions of the linear predictor f: P(x ≤ c | f) = F(κ_c − f), F normal (probit) or logistic.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtr

from cuspfa._typing import Array

LEAST_CHANCE = 1e-12
"""Categories of a smaller probability carry no information."""


def category_probabilities(linear: Array, thresholds: Array, link: str) -> Array:
    """(C, G) probability of each category at f (G,), for thresholds (C − 1,)."""
    below = _below(linear, thresholds, link)
    return np.asarray(np.diff(below, axis=0))


def item_information(linear: Array, thresholds: Array, link: str) -> Array:
    """(G,) Fisher information on f, Σ_c (∂P_c/∂f)² / P_c."""
    chances = category_probabilities(linear, thresholds, link)
    inner = thresholds[:, None] - linear
    if link == "probit":
        density = np.exp(-0.5 * inner**2) / np.sqrt(2.0 * np.pi)
    else:
        density = expit(inner) * expit(-inner)
    edge = np.zeros((1, len(linear)))
    slopes = -np.diff(np.concatenate([edge, density, edge]), axis=0)
    parts = np.where(chances > LEAST_CHANCE, slopes**2 / np.maximum(chances, LEAST_CHANCE), 0.0)
    return np.asarray(parts.sum(axis=0))


def _below(linear: Array, thresholds: Array, link: str) -> Array:
    inner = thresholds[:, None] - linear
    below = ndtr(inner) if link == "probit" else expit(inner)
    ends = np.zeros((1, len(linear)))
    return np.concatenate([ends, below, ends + 1.0])
