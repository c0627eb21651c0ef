"""Factors behind log rates: intervals of correlations, and the number of factors.

`CUSPFA_COVERAGE_SETS` changes how many data sets of each design are made, `CUSPFA_COUNT_SETS` in
how many of them the number of factors is searched for. Sets are stored as they are done: a run
that was cut off goes on.
"""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

import numpy as np
from scipy.special import polygamma

from benchmarks.ordinal_coverage import inside, mean_interval
from benchmarks.record import codes_note, row, save, stored_sets
from cuspfa import CuspFactorAnalysis
from cuspfa._utils.warn import silent

SETS = int(os.environ.get("CUSPFA_COVERAGE_SETS", "60"))
COUNT_SETS = int(os.environ.get("CUSPFA_COUNT_SETS", "20"))
MEANS = (0.5, 2.0, 10.0)
N, P, K, DISPERSION = 200, 8, 2, 3.0
FIRST_SEED = 90_000
"""No other simulation of the project has these."""
CONTROLS = 10
"""Sets of each design to which the negative control is fitted."""


class Counts(NamedTuple):
    rows: np.ndarray
    correlations: np.ndarray
    """Of the logarithms of the rates."""


def simulated(mean: float, seed: int) -> Counts:
    """Each column belongs to one factor, with a loading of 0.5 to 0.9 on the log scale."""
    rng = np.random.default_rng(FIRST_SEED + seed)
    while True:
        loadings = np.zeros((P, K))
        loadings[np.arange(P), np.arange(P) * K // P] = rng.uniform(0.5, 0.9, size=P)
        squares = np.sum(loadings**2, axis=1)
        rate = mean * np.exp(rng.normal(size=(N, K)) @ loadings.T - 0.5 * squares)
        rows = rng.poisson(rate * rng.gamma(DISPERSION, size=rate.shape) / DISPERSION)
        if np.all(rows.any(axis=0)):
            break
    omega = loadings @ loadings.T + np.diag(np.full(P, polygamma(1, DISPERSION)))
    sd = np.sqrt(np.diag(omega))
    return Counts(rows.astype(float), omega / np.outer(sd, sd))


def seed_of(mean: float, number: int) -> int:
    return 10_000 * (MEANS.index(mean) + 1) + number


def covered(mean: float, number: int) -> dict[str, Any]:
    """Shares of one data set, at the number of factors that made it."""
    data, pairs = simulated(mean, seed_of(mean, number)), np.triu_indices(P, 1)
    found: dict[str, Any] = {}
    kinds = ("negative_binomial", "poisson") if number < CONTROLS else ("negative_binomial",)
    for kind in kinds:
        with silent():
            model = CuspFactorAnalysis(n_factors=K, likelihood=kind).fit(data.rows)
        low, high = model.posterior_.interval("correlation")
        found[kind] = inside(low[pairs], high[pairs], data.correlations[pairs])
        if kind == "negative_binomial":
            low, high = model.posterior_.interval("dispersion")
            found["dispersion"] = inside(low, high, np.full(P, DISPERSION))
    return found


def number_found(mean: float, number: int) -> dict[str, Any]:
    """K by the evidence."""
    data = simulated(mean, seed_of(mean, number))
    with silent():
        model = CuspFactorAnalysis(likelihood="negative_binomial").fit(data.rows)
    return {"found": model.n_factors_}


def log_rates() -> list[dict[str, Any]]:
    began = time.perf_counter()
    # All designs of one set, then the next: a run that is cut off has as many of each.
    keys = [(mean, number) for number in range(SETS) for mean in MEANS]
    sets = stored_sets("log_rates", keys, covered)
    keys = [(mean, number) for number in range(COUNT_SETS) for mean in MEANS]
    counted = stored_sets("log_rates_count", keys, number_found)
    rows = []
    for mean in MEANS:
        own = [one for one in sets if one["key"][0] == mean]
        shares = {
            name: mean_interval([one[kind] for one in own])
            for name, kind in (
                ("correlations", "negative_binomial"),
                ("dispersions", "dispersion"),
            )
        }
        control = [one["poisson"] for one in own if "poisson" in one]
        rows.append(
            row(
                f"mean {mean:g}: 95 % intervals in {len(own)} sets, K given",
                "; ".join(
                    f"{name} {100 * share:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
                    for name, (share, low, high) in shares.items()
                ),
                f"Poisson fit: {100 * np.mean(control):.1f} %",
                "interval of coverage of correlations meets 93–97 %",
                shares["correlations"][1] <= 0.97 and shares["correlations"][2] >= 0.93,
            )
        )
    for mean in MEANS:
        numbers = [one["found"] for one in counted if one["key"][0] == mean]
        right = sum(number == K for number in numbers)
        rows.append(
            row(
                f"mean {mean:g}: K right",
                f"{right} of {len(numbers)} sets",
                f"found from {min(numbers)} to {max(numbers)}",
            )
        )
    return save(
        "log_rates",
        "Factors behind log rates",
        rows,
        notes=[
            f"{N} rows, {P} columns of negative binomial counts, dispersion {DISPERSION:g}, {K} "
            "factors; each column belongs to one, with a loading of 0.5 to 0.9. "
            "likelihood='negative_binomial' and all other defaults. Correlations are those of log "
            "rates, with the variance ψ′(r) of the gamma numbers in them. The interval in brackets "
            "is that of the mean over sets. A Poisson fit to the same counts is the negative "
            "control.",
            codes_note([*sets, *counted]),
        ],
        began=began,
        details=[*sets, *counted],
    )
