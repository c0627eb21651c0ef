"""Real data: a default fit against cross-validated K and against the code before it."""

from __future__ import annotations

import cProfile
import os
import pstats
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import FactorAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from benchmarks.record import row, save
from benchmarks.speed import LONG, PUBLISHED_CHAINS, compare, iteration_case, tables
from benchmarks.timing import median_seconds, seconds
from cuspfa import CuspFactorAnalysis, Gibbs
from cuspfa.datasets import simulate

BASE = os.environ.get("BASE", "9364c97")
"""The last revision without the compiled core, whose figures are the column "before"."""
FOLDS, LARGEST_K = 5, 20
LEAST = {"wine": 30, "paper": 30, "bfi": 30, "breast cancer": 30, "digits": 6}
ITERATION = {(13, 5): 100, (25, 10): 40, (30, 18): 25, (53, 34): 10, (200, 10): 8}
SHORT_CHAINS = "Gibbs, four chains"
"""1000 sweeps by default settings: a part of the time is the first fit and the diagnostics."""
FRESH = 86_251_409
"""Seed of the shapes drawn at random."""
SHAPES = 40
CHAINS_OF = (1000, 250, 6)
"""n, p and K of the data whose chains are timed in threads."""


PARTS = {
    "evidence of the candidates": ("model_selection.py", "score_candidates"),
    "runs of the search": ("search_over_k.py", "explore"),
    "checks of the data": ("prepare.py", "prepare"),
}
"""What a fit consists of, and the function that does it."""


def cross_validated(data: np.ndarray) -> GridSearchCV:
    grid = {"n_components": list(range(1, min(LARGEST_K, data.shape[1]) + 1))}
    return GridSearchCV(FactorAnalysis(), grid, cv=FOLDS).fit(data)


def against_cross_validation() -> list[dict[str, Any]]:
    rows = []
    for name, make in tables().items():
        data = StandardScaler().fit_transform(make())
        CuspFactorAnalysis().fit(data)
        mine = median_seconds(partial(CuspFactorAnalysis().fit, data), 5)
        theirs = seconds(partial(cross_validated, data))
        rows.append(
            row(
                f"{name} {data.shape[0]} × {data.shape[1]}: default fit",
                f"{mine:.3f} s, {theirs / mine:.0f} times faster",
                f"GridSearchCV(FactorAnalysis), K = 1..{LARGEST_K}, {FOLDS} folds: {theirs:.2f} s",
                f"≥ {LEAST[name]} times",
                theirs / mine >= LEAST[name],
            )
        )
    return rows


def profile_of_a_fit() -> list[dict[str, Any]]:
    """The shares of the parts of a default fit."""
    rows = []
    for name, make in tables().items():
        data = StandardScaler().fit_transform(make())
        CuspFactorAnalysis().fit(data)  # imports
        profile = cProfile.Profile(time.process_time)
        profile.runcall(CuspFactorAnalysis().fit, data)
        found = pstats.Stats(profile)
        spent = {
            (os.path.basename(file), function): together
            for (file, _, function), (_, _, _, together, _) in found.stats.items()  # type: ignore[attr-defined]
        }
        shares = {what: 100 * spent[where] / found.total_tt for what, where in PARTS.items()}  # type: ignore[attr-defined]
        shares["the rest"] = 100 - sum(shares.values())
        said = ", ".join(f"{what} {share:.0f} %" for what, share in shares.items())
        rows.append(row(f"{name}: profile of the fit", said, "–"))
    return rows


def one_iteration() -> list[dict[str, Any]]:
    """One iteration with its bound, from a spectral start, against the NumPy code before."""
    rows = []
    names = [iteration_case(p, k) for p, k in ITERATION]
    for one, least in zip(compare(BASE, names), ITERATION.values(), strict=True):
        times = one["before"] / one["after"]
        rows.append(
            row(
                one["case"],
                f"{one['after'] / one['is']['iterations'] * 1e6:.0f} µs, {times:.0f} times faster",
                f"revision before: {one['before'] / one['was']['iterations'] * 1e6:.0f} µs",
                f"≥ {least} times",
                times >= least,
            )
        )
    return rows


def before_and_after() -> list[dict[str, Any]]:
    names = ["fit wine", "fit paper", "fit bfi", "fit breast cancer", "fit digits"]
    least = {"2000 draws, bfi": 4, PUBLISHED_CHAINS: 10, LONG: 10}
    names += [*least, SHORT_CHAINS]
    return [
        row(
            one["case"],
            f"{one['after']:.3f} s, {one['before'] / one['after']:.1f} times faster, {one['is']}",
            f"revision before: {one['before']:.3f} s, {one['was']}",
            *(
                (None, None)
                if one["case"] == SHORT_CHAINS
                else (
                    f"≥ {least.get(one['case'], 6)} times",
                    one["before"] / one["after"] >= least.get(one["case"], 6),
                )
            ),
        )
        for one in compare(BASE, names)
    ]


def threads() -> list[dict[str, Any]]:
    """Four chains of data whose chains run by themselves, in one thread and in two."""
    data = simulate(*CHAINS_OF, random_state=0).X
    elapsed: dict[int, list[float]] = {1: [], 2: []}
    drawn = {}
    for _ in range(5):
        for n_jobs, times in elapsed.items():
            method = Gibbs(n_draws=100, burn_in=3000, n_chains=4)
            model = CuspFactorAnalysis(method=method, random_state=0, n_jobs=n_jobs)
            begin = time.perf_counter()
            model.fit(data)
            times.append(time.perf_counter() - begin)
            drawn[n_jobs] = model.posterior_.loadings_draws
    one, two = (float(np.median(times)) for times in elapsed.values())
    same = np.array_equal(drawn[1], drawn[2])
    n, p, k = CHAINS_OF
    return [
        row(
            f"four chains, {n} × {p}, K = {k}, in two threads ({os.cpu_count()} cores)",
            f"{two:.2f} s elapsed, {one / two:.1f} times faster, "
            + ("same draws" if same else "other draws"),
            f"in one thread: {one:.2f} s",
            "same draws",
            same,
        )
    ]


def random_shapes() -> list[dict[str, Any]]:
    """Simulated shapes that were not looked at before: the search against one fit at the true K."""
    rng = np.random.default_rng(FRESH)
    ratios, times, details = [], [], []
    for _ in range(SHAPES):
        n, p = (int(np.exp(rng.uniform(*np.log(ends)))) for ends in ((50, 20_000), (10, 800)))
        k = min(int(rng.integers(1, 26)), p // 3)
        design, strength = rng.choice(["dense", "sparse"]), float(rng.choice([1.0, 0.4]))
        seed = int(rng.integers(1 << 30))
        data = simulate(n, p, k, design=design, strength=strength, random_state=seed).X
        begin = time.process_time()
        FactorAnalysis(n_components=k).fit(data)
        theirs = time.process_time() - begin
        begin = time.process_time()
        found = CuspFactorAnalysis().fit(data).n_factors_
        mine = time.process_time() - begin
        details.append(
            {"shape": (n, p, k), "design": str(design), "strength": strength, "found": found,
             "seconds": round(mine, 4), "FactorAnalysis": round(theirs, 4)}
        )  # fmt: skip
        if found:
            ratios.append(mine / theirs)
            times.append(mine)
    share = float(np.mean((np.array(ratios) <= 10) | (np.array(times) < 0.03)))
    middle = float(np.median(ratios))
    first = row(
        f"{SHAPES} shapes drawn at random (n 50–20 000, p 10–800, K 1–25): whole search, median",
        f"{middle:.1f} times one FactorAnalysis fit at the true K",
        f"largest {max(ratios):.0f} times; {SHAPES - len(ratios)} sets with K = 0 left out",
        "≤ 3 times",
        middle <= 3,
    )
    second = row(
        "the same: sets within 10 times, or under 30 ms",
        f"{100 * share:.0f} %",
        f"K found in {sum(d['found'] == d['shape'][2] for d in details)} of {SHAPES}",
        "≥ 90 %",
        share >= 0.9,
    )
    return [first | {"details": details}, second]


def real_speed() -> list[dict[str, Any]]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = random_shapes()
        details = shapes[0].pop("details")
        rows = against_cross_validation() + profile_of_a_fit()
        rows += one_iteration() + before_and_after()
        rows += threads() + shapes
    return save(
        "real_speed",
        "Real data: time of a fit",
        rows,
        notes=[
            "Processor seconds of one thread; data standardised; medians of five fits. "
            "GridSearchCV is run once.",
            "The revision before the compiled core is unpacked beside this one, and both are timed "
            "by turns in processes of their own.",
            "Times of threads are elapsed seconds by turns, medians of five fits, the first fit by "
            "variational inference and the diagnostics included.",
        ],
        began=began,
        details=details,
    )
