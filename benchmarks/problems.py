"""The data sets, by name."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import KFold

from cuspfa.datasets import Simulation, load_bfi, simulate

SHAPES = ((100, 100, 15), (1000, 500, 20), (500, 5000, 20), (100_000, 200, 10))
WIDE = (1000, 20_000, 30)
FRESH = 20_261_118
"""Seed of the sets of the section `optimum`, changed with the search: its results are of sets that
nobody had looked at."""


def shaped(n: int, p: int, k: int, seed: int = 0) -> Simulation:
    """Λ ~ N(0, 1), σ² ~ U(0.3, 1)."""
    return simulate(n, p, k, design="dense", noise=(0.3, 1.0), random_state=seed)


class Case(NamedTuple):
    """One of the simulated sets of the section `optimum`."""

    seed: int
    n: int
    p: int
    k: int
    design: str
    strength: float

    def simulate(self) -> Simulation:
        return simulate(
            self.n,
            self.p,
            self.k,
            design=self.design,
            strength=self.strength,
            noise=(0.3, 1.0),
            random_state=self.seed,
        )


def cases(number: int = 200) -> list[Case]:
    """K 0–20, n/p 0.1–100, strong and weak, sparse and dense, by turns.

    n ≥ 10 and n ≥ 4K, for the noise edge is about K small against n and p: where n/p is small, p
    is as large as that takes.
    """
    rng = np.random.default_rng(FRESH)
    ratios = rng.permutation(np.geomspace(0.1, 100, number))
    factors = rng.permutation(np.arange(number) % 21)
    found = []
    for seed, (ratio, k) in enumerate(zip(ratios, factors, strict=True)):
        p = int(rng.choice([p for p in (10, 20, 40, 60) if p >= 2 * k]))
        design = ("dense", "sparse")[seed % 2]
        strength = (1.0, 0.4)[seed // 2 % 2]
        rows = max(10, 4 * int(k))
        p = max(p, math.ceil(rows / ratio))
        found.append(Case(FRESH + seed, max(rows, round(ratio * p)), p, int(k), design, strength))
    return found


def real() -> dict[str, np.ndarray]:
    """Breast cancer, wine, digits (columns with at least 30 non-zero values), complete bfi."""
    digits = load_digits().data
    bfi = load_bfi(subset="items").data
    return {
        "breast cancer": load_breast_cancer().data,
        "wine": load_wine().data,
        "digits": digits[:, (digits != 0).sum(axis=0) >= 30],
        "bfi": bfi[~np.isnan(bfi).any(axis=1)],
    }


def folds(data: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Five pairs of training and test rows, both standardised by the training rows."""
    pairs = []
    for train, test in KFold(5, shuffle=True, random_state=0).split(data):
        center, scale = data[train].mean(axis=0), data[train].std(axis=0, ddof=1)
        pairs.append(((data[train] - center) / scale, (data[test] - center) / scale))
    return pairs
