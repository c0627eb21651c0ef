"""Data that are not what the model says: how many factors, and whether `check_assumptions` sees
why."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm

from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis
from cuspfa.datasets import simulate
from cuspfa.diagnostics.assumptions import check_assumptions as look

SETS, N, P, K = 40, 500, 15, 3
CUTS = norm.ppf([0.60, 0.75, 0.87, 0.95])
SKEWED_OF_MANY, OUTLYING, SHIFT, DOUBLED = 6, 0.01, 6.0, 0.3
DEGREES = 4


def gaussian(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X


def items(X: np.ndarray, rng: np.random.Generator, number: int = P) -> np.ndarray:
    """Five-point items of which 60 % say the lowest, or the highest, by turns."""
    cut = X.copy()
    signs = np.where(np.arange(number) % 2, -1.0, 1.0)
    for j, sign in enumerate(signs):
        cut[:, j] = sign * np.searchsorted(CUTS, sign * X[:, j])
    return cut


def some_items(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return items(X, rng, SKEWED_OF_MANY)


def outliers(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some rows shifted together, by so many standard deviations along a random direction."""
    direction = rng.standard_normal(P)
    direction /= np.linalg.norm(direction)
    shifted = X.copy()
    shifted[: round(OUTLYING * len(X))] += SHIFT * (X @ direction).std() * direction
    return shifted


def doublet(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two columns share a part of their variance with each other alone."""
    pair = X.copy()
    shared = rng.standard_normal((len(X), 1))
    pair[:, :2] = np.sqrt(1 - DOUBLED) * X[:, :2] + np.sqrt(DOUBLED) * shared
    return pair


def heavy_tails(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of a t distribution."""
    return X / np.sqrt(rng.chisquare(DEGREES, (len(X), 1)) / DEGREES)


Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]
CASES: dict[str, tuple[str, Change, str | None, str]] = {
    "as the model has it": ("dense", gaussian, None, ""),
    "all 15 columns skewed items": ("dense", items, "skewed items", "no column is left"),
    "6 of 15 columns skewed items": ("dense", some_items, "skewed items", "without these columns"),
    "1 % outlying rows": ("dense", outliers, "outlying rows", "without these rows"),
    "one doublet, dense loadings": ("dense", doublet, "doublet", "without one of the two"),
    "one doublet, simple structure": ("simple", doublet, "doublet", "without one of the two"),
}


def standardised(design: str, seed: int) -> tuple[np.ndarray, np.random.Generator]:
    """Rows of variables with variance 1, and a generator for what is done to them.

    Dense: all loadings normal, σ² ~ U(0.3, 1). Simple: each variable loads on one factor alone,
    with 0.6 to 0.8.
    """
    rng = np.random.default_rng(20_000 + seed)
    if design == "dense":
        sim = simulate(N, P, K, random_state=rng)
        return sim.X / np.sqrt(np.diag(sim.covariance)), rng
    loadings = np.kron(np.eye(K), np.ones((P // K, 1))) * rng.uniform(0.6, 0.8, (P, 1))
    noise = rng.standard_normal((N, P)) * np.sqrt(1 - np.sum(loadings**2, axis=1))
    return rng.standard_normal((N, K)) @ loadings.T + noise, rng


def one(name: str, seed: int) -> dict[str, Any]:
    design, change, kind, _ = CASES[name]
    X = change(*standardised(design, seed))
    model = CuspFactorAnalysis(random_state=0).fit(X)
    findings = look(model, X)
    right = [one for one in findings if one.kind == kind]
    return {
        "data": name,
        "seed": seed,
        "k": model.n_factors_,
        "found": len(right),
        "other": len(findings) - len(right),
        "without": right[0].n_factors_without if right else None,
    }


def counted(numbers: list[int]) -> str:
    return ", ".join(f"{k} ({times}×)" for k, times in sorted(Counter(numbers).items()))


def assumptions() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows, details = [], []
    for name, (_, _, kind, what) in CASES.items():
        done = Parallel(n_jobs=2, batch_size=1)(delayed(one)(name, seed) for seed in range(SETS))
        details += done
        seen, other = sum(d["found"] > 0 for d in done), sum(d["other"] > 0 for d in done)
        numbers = [d["k"] for d in done]
        without = [d["without"] for d in done if d["without"] is not None]
        measured = f"K = {counted(numbers)}"
        if kind is None:
            required, ok = f"K = {K} in ≥ 90 %, findings in ≤ 5 %", other <= 0.05 * SETS
            ok = ok and numbers.count(K) >= 0.9 * SETS
            measured += f"; findings in {other} of {SETS}"
        else:
            required, ok = "found in ≥ 80 %", seen >= 0.8 * SETS
            measured += f"; found in {seen} of {SETS}, other findings in {other}"
            if without:
                measured += f"; K {what} = {counted(without)}"
                required += f", then K = {K} in ≥ 80 %"
                ok = ok and without.count(K) >= 0.8 * len(without)
            else:
                measured += f" ({what})"
        rows.append(row(name, measured, f"truth {K}", required, ok))
        print(f"  {name}: {measured}", flush=True)
    return save(
        "assumptions",
        "Data that violate the assumptions",
        rows,
        notes=[
            f"There are {SETS} data sets in each line, of {N} × {P} values with {K} factors. "
            "Loadings are dense, with σ² ~ U(0.3, 1), except in the last line, where each "
            "variable loads on one factor with 0.6 to 0.8. Skewed items have five categories; "
            "60 % of the answers are in the lowest or, in every second column, in the highest. "
            f"Outlying rows are shifted by {SHIFT:g} standard deviations along one random "
            f"direction. A doublet is two columns that share {100 * DOUBLED:.0f} % of their "
            "variance only with each other. CuspFactorAnalysis() has its default settings.",
        ],
        began=began,
        details=details,
    )
