"""After the one pass over the rows an iteration does not depend on their number."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.problems import shaped
from benchmarks.record import row, save
from benchmarks.timing import interleaved
from cuspfa import Moments
from cuspfa.data.complete import prepare_moments
from cuspfa.inference.variational.elbo import lower_bound
from cuspfa.inference.variational.run import iteration
from cuspfa.inference.variational.search import Search
from cuspfa.model.prior import CuspPrior

ROWS, P, K = (10_000, 100_000, 1_000_000), 100, 5
FIRST, MANY = 12, 200
"""Iterations of a usual fit, and iterations that go on long after it has converged."""


def iterations_of(n: int) -> Callable[[int], None]:
    moments = Moments.from_rows(shaped(n, P, K).X)
    source = prepare_moments(moments, scaling="columns", flat_mean=True).source
    prior = CuspPrior()
    search = Search(source, prior, tol=0.05, max_iter=MANY, max_factors=50)
    start = search.spectral_state(K)

    def some_iterations(number: int) -> None:
        state = start
        for _ in range(number):
            state = iteration(state, source, prior)
            lower_bound(state, source, prior)

    return some_iterations


def flat() -> list[dict[str, Any]]:
    began = time.perf_counter()
    runs = [iterations_of(n) for n in ROWS]
    rows = []
    for number, repeats, required in ((FIRST, 200, "flat within 20 %"), (MANY, 10, None)):
        calls = [partial(one, number) for one in runs]
        times = [1000 * t / number for t in interleaved(calls, repeats)]
        spread = max(times) / min(times) - 1
        by_size = ", ".join(f"{t:.3f} ms" for t in times)
        rows.append(
            row(
                f"an iteration at n = {', '.join(f'{n:,}' for n in ROWS)} (p = {P}, K = {K}), "
                f"the first "
                f"{number} iterations",
                f"{by_size}; slowest over fastest +{100 * spread:.1f} %",
                "each other",
                required,
                spread <= 0.2,
            )
        )
    return save(
        "flat",
        "Time of an iteration against the number of rows",
        rows,
        notes=[
            "Default prior. An iteration with its bound is measured, after Moments.from_rows. "
            f"Most fits take at most {FIRST} iterations; {MANY} iterations include many after "
            "convergence.",
        ],
        began=began,
    )
