"""Poisson factorization: the number of factors, intervals, real counts, time and memory.

Parts, chosen by `CUSPFA_COUNT_PARTS` (all without it; a page shows what is stored of the others):
`number`, `coverage`, `real`, `search`, `large`. `CUSPFA_K_SETS` and `CUSPFA_COVERAGE_SETS` are the
data sets of each design; `CUSPFA_COUNT_LARGE` is another size of `large`, as "20000 2000 20". One
of each of the eight designs of `number` takes about 100 s of processor time, one of `coverage`
0.5 s, `real` some minutes, `large` half an hour. Sets are stored as they are done: a run that was
cut off goes on. hpfrec takes part where it is installed, tables of R's vegan where
`CUSPFA_VEGAN_TABLES` is a folder of them as CSV.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.counts_designs import (
    CLEAR_NATS,
    DESIGNS,
    DESIGNS_NOTE,
    Design,
    clearness,
    simulated,
)
from benchmarks.counts_peers import ASKED, nmf_number
from benchmarks.counts_real import NOTE as REAL_NOTE
from benchmarks.counts_real import TABLES, VEGAN_TABLES, compared
from benchmarks.counts_time import LARGE_NOTE, large_fit, searched
from benchmarks.record import row, save, stored_sets
from cuspfa import CuspPoissonFactorization
from cuspfa._utils.warn import silent

PARTS = os.environ.get("CUSPFA_COUNT_PARTS", "number coverage real search large").split()
K_SETS = int(os.environ.get("CUSPFA_K_SETS", "25"))
COVERAGE_SETS = int(os.environ.get("CUSPFA_COVERAGE_SETS", "100"))
COVERAGE_DESIGNS = (Design(60, 20, 2, 2.0), Design(100, 30, 3, 1.0))
LARGE = (100_000, 10_000, 20)
LARGE_RUN = tuple(map(int, os.environ.get("CUSPFA_COUNT_LARGE", "100000 10000 20").split()))
REQUIRED = {
    "number": "right in ≥ 90 % of the clear ones of 8 × 25 sets",
    "coverage": "93–97 %, ≥ 200 sets",
    "real": "not lower than others by 2 standard errors",
    "search": "≤ 4 times a fit at this K",
    "large": "faster than the others, memory ≤ 3 times the CSR matrix",
}
Lines = list[dict[str, Any]]


def counts() -> Lines:
    began = time.perf_counter()
    parts: dict[str, tuple[list[tuple[Any, ...]], Callable[..., dict[str, Any]], Any]] = {
        "number": ([(d, s) for s in range(K_SETS) for d in range(len(DESIGNS))], number, of_number),
        "coverage": (
            [(d, s) for s in range(COVERAGE_SETS) for d in range(len(COVERAGE_DESIGNS))],
            covered,
            of_coverage,
        ),
        "real": ([(name,) for name in TABLES], compared, of_real),
        "search": ([(5000, 2000, 10)], searched, of_search),
        "large": ([LARGE_RUN], large_fit, of_large),
    }
    rows: Lines = []
    details: Lines = []
    for name, (keys, measure, lines_of) in parts.items():
        sets = stored_sets(f"counts_{name}", keys if name in PARTS else [], measure)
        if sets:
            rows += lines_of(sets)
            details += sets
        else:
            rows.append(row(name, "not run", "–", REQUIRED[name], False))
    return save(
        "counts",
        "Counts: Poisson factorization",
        rows,
        notes=[DESIGNS_NOTE, REAL_NOTE, LARGE_NOTE],
        began=began,
        details=details,
    )


# --- the number of factors -----------------------------------------------------------------------


def number(design: int, which: int) -> dict[str, Any]:
    """K of one data set by the search, by thinning alone, and by NMF."""
    seed = 1000 * design + which
    data = simulated(DESIGNS[design], seed)
    found: dict[str, Any] = {"clear": round(clearness(data, seed), 1)}
    began = time.process_time()
    with silent():
        model = CuspPoissonFactorization(random_state=0).fit(data.x)
    found |= {"found": model.n_factors_, "fit": round(time.process_time() - began, 2)}
    found["search"] = [
        [one.n_factors, round(one.evidence_gain, 1), round(one.held_out_gain, 1)]
        for one in model.search_
        if not np.isnan(one.evidence_gain)
    ]
    return found | nmf_number(data.x, DESIGNS[design].k, seed)


def of_number(sets: Lines) -> Lines:
    clear = [one for one in sets if one["clear"] > CLEAR_NATS]
    truth = {d: design.k for d, design in enumerate(DESIGNS)}

    def right(among: Lines, name: str) -> int:
        return sum(one[name] == truth[one["key"][0]] for one in among)

    short = "" if len(sets) >= 8 * 25 else f"; {len(sets)} of the 200 sets asked for"
    rows = [
        row(
            f"K of eight designs, {len(clear)} clear sets{short}",
            f"right in {right(clear, 'found')} of {len(clear)} "
            f"({100 * right(clear, 'found') / max(len(clear), 1):.0f} %)",
            f"thinning alone, with variational fits: {right(clear, 'thinning')}; "
            f"NMF, cross-validated: {right(clear, 'NMF')}",
            REQUIRED["number"],
            len(sets) >= 8 * 25 and right(clear, "found") >= 0.9 * len(clear),
        )
    ]
    for d, design in enumerate(DESIGNS):
        own = [one for one in sets if one["key"][0] == d]
        if own:
            values = sorted(one["found"] for one in own)
            rows.append(
                row(
                    f"{design.name}: K found",
                    f"{right(own, 'found')} of {len(own)} (from {values[0]} to {values[-1]}); "
                    f"{np.median([one['fit'] for one in own]):.1f} s",
                    f"thinning: {right(own, 'thinning')}; NMF: {right(own, 'NMF')}; "
                    f"clear by {min(one['clear'] for one in own):.0f} nats or more",
                )
            )
    return rows


# --- intervals -----------------------------------------------------------------------------------


def covered(design: int, which: int) -> dict[str, Any]:
    """Shares of rates and loadings inside their 95 % intervals, if K is right."""
    chosen = COVERAGE_DESIGNS[design]
    data = simulated(chosen, 50_000 + 1000 * design + which)
    with silent():
        posterior = CuspPoissonFactorization(random_state=0).fit(data.x).posterior_
    if posterior.n_active != chosen.k:
        return {"found": posterior.n_active}
    draws = posterior.draw(400)
    low, high = posterior.interval("rates", draws=draws)
    found = {"found": chosen.k, "rates": inside(low, high, data.rates)}
    one = data.loadings / np.linalg.norm(data.loadings, axis=0)
    other = posterior.loadings / np.linalg.norm(posterior.loadings, axis=0)
    order = linear_sum_assignment(-(other.T @ one))[1]
    low, high = posterior.interval("loadings", draws=draws)
    found["loadings"] = inside(low, high, data.loadings[:, order])
    rng, rows = np.random.default_rng(which), posterior.rows
    shape = (400, *rows.shape.shape)
    scores = rng.standard_gamma(rows.shape, shape) / rows.rate
    shape = (400, *posterior.loading_shape.shape)
    loadings = rng.standard_gamma(posterior.loading_shape, shape) / posterior.loading_rate
    low, high = np.quantile(scores @ loadings.transpose(0, 2, 1), [0.025, 0.975], axis=0)
    found["mean field"] = inside(low, high, data.rates)
    return found


def inside(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> float:
    return round(float(np.mean((low <= truth) & (truth <= high))), 4)


def of_coverage(sets: Lines) -> Lines:
    right = [one for one in sets if "rates" in one]
    rows = []
    for name, what in (("rates", "rates Σ θβ"), ("loadings", "loadings, of data from the prior")):
        shares = np.array([one[name] for one in right])
        error = 1.96 * shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.inf
        field = np.mean([one["mean field"] for one in right])
        rows.append(
            row(
                f"95 % intervals of {what}: {len(right)} sets with the right K, of {len(sets)}",
                f"{100 * shares.mean():.1f} ± {100 * error:.1f} %",
                f"mean field: {100 * field:.1f} %" if name == "rates" else "nominal",
                REQUIRED["coverage"],
                0.93 <= shares.mean() <= 0.97 and len(right) >= 200,
            )
        )
    return rows


# --- the rest ------------------------------------------------------------------------------------


def of_real(sets: Lines) -> Lines:
    rows = []
    missing = sorted({*TABLES, *VEGAN_TABLES} - {one["key"][0] for one in sets})
    if missing:
        rows.append(row("tables not run", ", ".join(missing), "–", REQUIRED["real"], False))
    for one in sets:
        others = {name: one[name] for name in ASKED if name in one}
        rows.append(
            row(
                f"{one['key'][0]}, {one['rows']} × {one['columns']}: held-out log-likelihood, "
                f"K = {one['found']}",
                f"{one['own']:.1f}",
                "; ".join(
                    [
                        *(
                            f"{name} (K = {peer['k']}) {difference_text(peer)}"
                            for name, peer in others.items()
                        ),
                        *by_search(one),
                    ]
                ),
                REQUIRED["real"],
                len(others) == len(ASKED)
                and all(peer["behind"] >= -2 * peer["error"] for peer in others.values()),
            )
        )
    return rows


def difference_text(peer: dict[str, Any]) -> str:
    """Log-likelihood over ours, with its error."""
    return f"{-peer['behind']:+.1f} ± {peer['error']:.1f}"


def by_search(one: dict[str, Any]) -> list[str]:
    """Our own draws with K by the search, where they were compared."""
    if "by_search" not in one:
        return []
    return [f"ours with K by the search {difference_text(one['by_search'])}"]


def of_search(sets: Lines) -> Lines:
    return [
        row(
            "search for K, 5000 × 2000, 5 % above zero, K = 10",
            f"{one['search']:.1f} s, K = {one['found']}: {one['search'] / one['fit']:.1f} times",
            f"a fit at this K: {one['fit']:.1f} s",
            REQUIRED["search"],
            one["search"] <= 4 * one["fit"],
        )
        for one in sets
    ]


def of_large(sets: Lines) -> Lines:
    rows = []
    for one in sets:
        n, p, k = one["key"]
        asked = (n, p, k) == LARGE  # of smaller tables there is no requirement
        peers = "; ".join(
            f"{name}: {peer['seconds']:.0f} s to {peer['held_out']:.4f}"
            for name, peer in one["peers"].items()
        )
        rows.append(
            row(
                f"one fit, {n:,} × {p:,}, {one['nonzeros']:,} above zero, K = {k}: seconds to the "
                "best held-out log-likelihood of the others",
                ", ".join(f"{name}: {value}" for name, value in one["reached"].items()),
                peers,
                "fewer than the others" if asked else None,
                one["faster"] and "hpfrec" in one["peers"],
            )
        )
        rows.append(
            row(
                "the same: peak memory, with the data",
                f"{one['peak'] / one['csr']:.1f} times the CSR matrix",
                f"{one['csr'] / 2**20:.0f} MiB",
                "≤ 3 times" if asked else None,
                one["peak"] <= 3 * one["csr"],
            )
        )
    return rows
