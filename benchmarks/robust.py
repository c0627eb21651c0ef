"""Robust fits beside Gaussian ones: outlying rows, heavy tails, clean rows, few rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from benchmarks.assumptions import K, counted, heavy_tails, outliers
from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis
from cuspfa._utils.warn import silent
from cuspfa.datasets import simulate

SETS, FEW_SETS, P, N = 100, 40, 15, 500
FRESH = 41_000
"""Seeds of sets that nobody had looked at when the section was written."""
SHIFT, DRAWS = 6.0, 400
CLEAN = "as the model has it"


def scattered(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One row in a hundred with each value shifted by 6 standard deviations, up or down."""
    shifted = X.copy()
    some = max(1, len(X) // 100)
    shifted[:some] += SHIFT * X.std(axis=0) * rng.choice([-1.0, 1.0], (some, X.shape[1]))
    return shifted


def as_they_are(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return X


Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]
DESIGNS: dict[str, Change] = {
    CLEAN: as_they_are,
    "1 % of rows shifted along one direction": outliers,
    "1 % of rows shifted, each value by itself": scattered,
    "rows of a t distribution, 4 degrees of freedom": heavy_tails,
}
FEW = {
    f"{n} rows, {name}": (n, DESIGNS[name])
    for n in (20, 32, 47, 77)
    for name in ("1 % of rows shifted, each value by itself", list(DESIGNS)[-1])
}


class Found(NamedTuple):
    """What one fit found."""

    k: int
    error: float
    """Sum of squared errors of the correlations."""
    covered: float
    """Share of correlations in their 95 % intervals; NaN if K is wrong."""
    seconds: float


def fitted(X: np.ndarray, truth: np.ndarray, *, robust: bool, intervals: bool) -> Found:
    began = time.process_time()
    with silent():
        model = CuspFactorAnalysis(robust=robust).fit(X)
    seconds = time.process_time() - began
    omega = model.get_covariance()
    sd = np.sqrt(np.diag(omega))
    covered = np.nan
    if intervals and model.n_factors_ == K:
        lower, upper = model.posterior_.interval("correlation", n_draws=DRAWS)
        pairs = np.triu_indices(len(truth), 1)
        covered = float(np.mean(((lower <= truth) & (truth <= upper))[pairs]))
    error = float(np.sum((omega / sd[:, None] / sd - truth) ** 2))
    return Found(model.n_factors_, error, covered, seconds)


def one(n: int, change: Change, seed: int, *, intervals: bool) -> tuple[Found, Found]:
    """A robust and a Gaussian fit of the same rows."""
    rng = np.random.default_rng(FRESH + seed)
    sim = simulate(n, P, K, random_state=rng)
    sd = np.sqrt(np.diag(sim.covariance))
    X, truth = change(sim.X / sd, rng), sim.covariance / sd[:, None] / sd
    first, second = (
        fitted(X, truth, robust=robust, intervals=intervals) for robust in (True, False)
    )
    return first, second


def both(n: int, change: Change, sets: int, *, intervals: bool) -> tuple[list[Found], list[Found]]:
    work = (delayed(one)(n, change, seed, intervals=intervals) for seed in range(sets))
    robust, plain = zip(*Parallel(n_jobs=1)(work), strict=True)
    return list(robust), list(plain)


def described(found: list[Found]) -> str:
    text = f"K = {counted([one.k for one in found])}"
    covered = [one.covered for one in found if not np.isnan(one.covered)]
    if covered:
        text += f"; 95 % intervals of correlations cover {100 * np.mean(covered):.1f} %"
    return text


def robust() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows: list[dict[str, Any]] = []
    details: list[dict[str, Any]] = []

    def keep(name: str, found: tuple[list[Found], list[Found]]) -> None:
        for seed, (first, second) in enumerate(zip(*found, strict=True)):
            details.append(
                {"data": name, "seed": FRESH + seed, "k": first.k, "gaussian_k": second.k}
            )

    for name, change in DESIGNS.items():
        first, second = found = both(N, change, SETS, intervals=True)
        keep(name, found)
        right = sum(one.k == K for one in first)
        ratio = np.mean([one.error for one in first]) / np.mean([one.error for one in second])
        required, ok = f"K = {K} in ≥ 80 %", right >= 0.8 * SETS
        if name == CLEAN:
            required += ", no fewer than by the Gaussian fit, and errors ≤ 1.01 times as large"
            ok = bool(ok and right >= sum(one.k == K for one in second) and ratio <= 1.01)
        times = [np.median([one.seconds for one in each]) for each in found]
        rows.append(
            row(
                f"robust=True, {name}, {N} × {P}, {SETS} sets",
                f"{described(first)}; squared error of correlations {ratio:.3f} times that of the "
                f"Gaussian fit; {times[0]:.2f} s",
                f"truth {K}; Gaussian fit: {described(second)}; {times[1]:.2f} s",
                required,
                ok,
            )
        )
        print(f"  {name}: {rows[-1]['measured']} | {rows[-1]['against']}", flush=True)
    for name, (n, change) in FEW.items():
        first, second = found = both(n, change, FEW_SETS, intervals=False)
        keep(name, found)
        rows.append(
            row(
                f"robust=True, {name}, {P} columns, {FEW_SETS} sets",
                described(first),
                f"truth {K}; Gaussian fit: {described(second)}",
            )
        )
        print(f"  {name}: {rows[-1]['measured']} | {rows[-1]['against']}", flush=True)
    return save(
        "robust",
        "Robust fits: outlying rows and heavy tails",
        rows,
        notes=[
            f"{K} factors, dense loadings, σ² ~ U(0.3, 1), fresh seeds. Shifts are of {SHIFT:g} "
            "standard deviations. Intervals are from sets in which K is right; the truth is the "
            "correlation of the t distribution's scale matrix. Where there are about as many rows "
            "as columns, the likelihood does not tell outlying rows from others: from two rows for "
            "each column on it does.",
        ],
        began=began,
        details=details,
    )
