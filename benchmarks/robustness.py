"""Thousands of random tables through every entry point; a thousand fits.

The tables and the oracle are those of tests/robustness. `CUSPFA_CASES` and `CUSPFA_SEED` change how
many and which.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis
from cuspfa.errors import CuspWarning

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from robustness.entry_points import PATIENCE, SHARES, RobustnessError, check
from robustness.tables import random_recipe

CASES = int(os.environ.get("CUSPFA_CASES", "12000"))
SEED = int(os.environ.get("CUSPFA_SEED", "1"))
FITS, GROWTH = 1000, 10.0
"""Fits in one process, and the megabytes by which it may grow after the first hundred."""
ENTRY_POINTS = [entry_point for entry_point, share in SHARES.items() for _ in range(share)]


def one(number: int) -> tuple[str, str, float]:
    """Entry point, answer or what went wrong, and seconds."""
    rng = np.random.default_rng([SEED, number])
    entry_point, recipe = ENTRY_POINTS[rng.integers(len(ENTRY_POINTS))], random_recipe(rng)
    began = time.process_time()
    try:
        answer = check(entry_point, recipe)
    except RobustnessError as error:
        answer = f"WRONG: {error}"
    return entry_point, answer, time.process_time() - began


def memory() -> float:
    """Megabytes that this process holds now; the most it ever held where that is not told."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * resource.getpagesize() / 2**20


def growth() -> float:
    """Megabytes between the hundredth and the last of many fits in one process."""
    at_hundred = 0.0
    for seed in range(FITS):
        rows = np.random.default_rng(seed).standard_normal((30, 5))
        CuspFactorAnalysis(n_factors=1).fit(rows + rows[:, :1]).transform(rows)
        if seed == 99:
            gc.collect()
            at_hundred = memory()
    gc.collect()
    return memory() - at_hundred


def robustness() -> list[dict[str, Any]]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuspWarning)
        grown = growth()
    counts: Counter[tuple[str, str]] = Counter()
    wrong, slowest = [], 0.0
    tasks = (delayed(one)(number) for number in range(CASES))
    answers = Parallel(n_jobs=2, batch_size=10, return_as="generator")(tasks)
    for number, (entry_point, answer, seconds) in enumerate(answers):
        slowest = max(slowest, seconds)
        if answer.startswith("WRONG"):
            wrong.append({"number": number, "entry_point": entry_point, "what": answer})
            print(f"  {number}: {answer}", flush=True)
            answer = "wrong"
        counts[entry_point, answer] += 1
        if number % 500 == 499:
            print(f"  {number + 1} cases, {len(wrong)} wrong", flush=True)
    total, right = sum(counts.values()), 0
    for (_, answer), count in counts.items():
        right += count * (answer == "right")
    rows = [
        row(
            "tables through every entry point: neither a correct result nor a documented error",
            f"{len(wrong)} of {total}",
            f"{right} correct results, {total - right - len(wrong)} documented errors; the slowest "
            f"took {slowest:.0f} s of processor time",
            "0 of 10 000 or more",
            not wrong and total >= 10_000,
        ),
        row(
            f"{FITS} fits in one process: growth after the first hundred",
            f"{grown:.1f} MB",
            "30 × 5 numbers, a new model each",
            f"< {GROWTH:.0f} MB",
            grown < GROWTH,
        ),
    ]
    details: list[dict[str, Any]] = [
        {"entry_point": entry_point, "answer": answer, "cases": count}
        for (entry_point, answer), count in sorted(counts.items())
    ]
    return save(
        "robustness",
        "Robustness: random tables and repeated fits",
        rows,
        notes=[
            "Random tables of 0 to 50 rows and columns (tests/robustness/tables.py): all types; "
            "containers of NumPy, SciPy, pandas, polars and pyarrow; missing and infinite "
            "values; sizes from 1e-308 to 1e300; columns that are copies, sums, constant or "
            "near-constant; unusual names. A result must be finite, consistent and the same as "
            "for a plain array. An error must be an error class of cuspfa. No call may issue a "
            "warning of another library, change its input, change global random numbers or take "
            f"more than {PATIENCE} s.",
        ],
        began=began,
        details=details + wrong,
    )
