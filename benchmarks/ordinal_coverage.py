"""Intervals of latent correlations and thresholds: how often they contain the truth.

`CUSPFA_COVERAGE_SETS` changes how many data sets of each design are made. One of all six designs
takes about 15 s of processor time. Sets are stored as they are done: a run that was cut off goes
on.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from scipy import special

from benchmarks.ordinal_designs import DESIGNS_NOTE, FIRST_SEED, Answers, simulated
from benchmarks.record import codes_note, row, save, stored_sets
from cuspfa import CuspFactorAnalysis
from cuspfa._utils.warn import silent
from cuspfa.inference.cellwise.state import principal_factors

SETS = int(os.environ.get("CUSPFA_COVERAGE_SETS", "200"))
DESIGNS = (
    ("five points, skewed", 200),
    ("five points, skewed", 1000),
    ("binary, 50 %", 500),
    ("binary, 15 %", 2000),
    ("mixed", 200),
    ("mixed", 600),
)
P, K = 10, 2
FIELD_DRAWS = 400


def inside(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean((low <= truth) & (truth <= high)))


def present_cuts(data: Answers) -> np.ndarray:
    """Of all columns, without those of categories that no row has."""
    found = []
    for column, own in zip(data.rows.T, data.cuts, strict=True):
        if len(own):
            found.append(own[np.unique(column)[1:].astype(int) - 1])
    return np.concatenate(found)


def mean_field_intervals(rows: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of correlations drawn from q(z) q(η) q(λ) of binary columns: the negative control."""
    n, sign = len(rows), 2 * rows - 1
    intercept, loadings = special.ndtri(rows.mean(axis=0)), principal_factors(rows, k)
    for _ in range(200):
        v = np.linalg.inv(np.eye(k) + loadings.T @ loadings)
        m = np.zeros((n, k))
        for _ in range(3):
            f = intercept + m @ loadings.T
            tail = np.exp(-0.5 * f**2 - special.log_ndtr(sign * f)) / np.sqrt(2 * np.pi)
            z = f + sign * tail
            m = (z - intercept) @ loadings @ v
        intercept = (z - m @ loadings.T).mean(axis=0)
        precision = m.T @ m + n * v
        loadings = (z - intercept).T @ m @ np.linalg.inv(precision)
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    drawn = loadings + rng.normal(size=(FIELD_DRAWS, *loadings.shape)) @ root.T
    omega = drawn @ drawn.transpose(0, 2, 1) + np.eye(len(loadings))
    sd = np.sqrt(np.diagonal(omega, axis1=1, axis2=2))
    low, high = np.quantile(omega / (sd[:, :, None] * sd[:, None, :]), [0.025, 0.975], axis=0)
    return low, high


def covered(kind: str, n: int, number: int) -> dict[str, Any]:
    """Shares of one data set, if K is right in it."""
    seed = 10_000 * (DESIGNS.index((kind, n)) + 1) + number
    data, pairs = simulated(kind, n, P, K, seed), np.triu_indices(P, 1)
    with silent():
        posterior = CuspFactorAnalysis(likelihood="auto", random_state=0).fit(data.rows).posterior_
        if posterior.n_active != K:
            return {"found": posterior.n_active}
        low, high = posterior.interval("correlation")
        own = posterior.interval("thresholds")
    true = data.correlations[pairs]
    found = {
        "found": K,
        "correlations": inside(low[pairs], high[pairs], true),
        "thresholds": inside(*own, present_cuts(data)),
    }
    if kind.startswith("binary"):
        low, high = mean_field_intervals(data.rows, K, FIRST_SEED + seed)
        found["mean field"] = inside(low[pairs], high[pairs], true)
    return found


def mean_interval(shares: list[float]) -> tuple[float, float, float]:
    """A mean and its 95 % interval over data sets."""
    mean = float(np.mean(shares))
    error = float(np.std(shares, ddof=1) / np.sqrt(len(shares)))
    return mean, mean - 1.96 * error, mean + 1.96 * error


def ordinal_coverage() -> list[dict[str, Any]]:
    began = time.perf_counter()
    # All designs of one set, then the next: a run that is cut off has as many of each.
    keys = [(kind, n, number) for number in range(SETS) for kind, n in DESIGNS]
    sets = stored_sets("ordinal_coverage", keys, covered)
    rows = []
    for kind, n in DESIGNS:
        every = [one for one in sets if tuple(one["key"][:2]) == (kind, n)]
        right = [one for one in every if one["found"] == K]
        shares = {
            name: mean_interval([one[name] for one in right])
            for name in ("correlations", "thresholds")
        }
        control = [one["mean field"] for one in right if "mean field" in one]
        rows.append(
            row(
                f"{kind}, n = {n}: 95 % intervals, K right in {len(right)} of {len(every)} sets",
                "; ".join(
                    f"{'latent ' * (name == 'correlations')}{name} {100 * mean:.1f} % "
                    f"[{100 * low:.1f}, {100 * high:.1f}]"
                    for name, (mean, low, high) in shares.items()
                ),
                f"mean field with z: {100 * np.mean(control):.1f} %" if control else "nominal",
                "interval of coverage meets 93–97 %",
                all(low <= 0.97 and high >= 0.93 for _, low, high in shares.values()),
            )
        )
    return save(
        "ordinal_coverage",
        "Intervals of ordinal, binary and mixed columns",
        rows,
        notes=[
            DESIGNS_NOTE,
            f"{P} items, {K} factors, likelihood='auto' and all other defaults. Sets in which K is "
            "right count. The interval in brackets is that of the mean over sets. Mean field with "
            "z is a normal q of loadings and scores over truncated normal responses, the negative "
            "control.",
            codes_note(sets),
        ],
        began=began,
        details=sets,
    )
