"""How many iterations a fit takes, and how much more a whole search costs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.problems import SHAPES, shaped
from benchmarks.record import row, save
from benchmarks.timing import interleaved
from cuspfa import CuspFactorAnalysis
from cuspfa.data.complete import prepare_rows
from cuspfa.inference.variational.run import run_iterations
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.settings import Variational, most_identified
from cuspfa.model.prior import CuspPrior

PRIORS = ("published", "default")


def to_the_limit(data: np.ndarray, k: int, prior: str) -> tuple[int, int]:
    """Iterations of the first run until 0.05 short of its limit, and iterations to the limit."""
    published = prior == "published"
    scaling = "none" if published else "columns"
    source = prepare_rows(data, scaling=scaling, flat_mean=not published).source
    distribution = CuspPrior.variational_paper() if published else CuspPrior()
    limit = source.p if published else max(most_identified(source.p, source.n), k)
    search = Search(source, distribution, tol=1e-8, max_iter=3000, max_factors=limit)
    start = search.spectral_state(k)
    trace = run_iterations(start, source, distribution, tol=1e-8, max_iter=3000).trace
    return int(np.argmax(trace >= trace.max() - 0.05)) + 1, len(trace)


def fit(data: np.ndarray, prior: str, n_factors: int | str) -> CuspFactorAnalysis:
    published = prior == "published"
    return CuspFactorAnalysis(
        n_factors=n_factors,
        method=Variational(mean="plug-in" if published else "flat"),
        prior=CuspPrior.variational_paper() if published else None,
        standardize=not published,
        random_state=0,
    ).fit(data)


def iterations() -> list[dict[str, Any]]:
    began = time.perf_counter()
    counted, timed, details = [], [], []
    for shape in SHAPES:
        n, p, k = shape
        data = shaped(*shape).X
        for prior in PRIORS:
            near, whole = to_the_limit(data, k, prior)
            required = "≤ 12" if prior == "published" else None
            counted.append(
                row(
                    f"{shape}, {prior} prior, iterations",
                    str(near),
                    f"within 0.05 of the limit (reached in {whole})",
                    required,
                    near <= 12,
                )
            )
            found = fit(data, prior, "auto")
            alone, search = interleaved(
                [lambda: fit(data, prior, k), lambda: fit(data, prior, "auto")],  # noqa: B023
                15 if n * p < 1e5 else 5,
            )
            timed.append(
                row(
                    f"{shape}, {prior} prior, time of the whole search, K = {found.n_factors_}",
                    f"{1000 * search:.0f} ms: {search / alone:.2f}×",
                    f"the fit of K = {k} alone: {1000 * alone:.0f} ms",
                    "≤ 3×" if prior == "published" else None,
                    search <= 3 * alone,
                )
            )
            spent = sum(entry.n_iter for entry in found.search_)
            details.append(
                {
                    "n": n,
                    "p": p,
                    "k": k,
                    "prior": prior,
                    "k_search": found.n_factors_,
                    "k_tried": len(found.search_),
                    "iterations_of_search": spent,
                    "iterations_alone": sum(e.n_iter for e in fit(data, prior, k).search_),
                    "search_seconds": search,
                    "alone_seconds": alone,
                }
            )
    return save(
        "iterations",
        "Iterations of a fit, and the time of the search relative to one fit",
        counted + timed,
        notes=[
            "Λ ~ N(0, 1), σ² ~ U(0.3, 1). Published prior: H = p + 1, columns not standardised. "
            "Iterations are those of the run from the spectral start at the true K. Its limit "
            "is the bound at which it stops with tol 1e-8. Times are from raw data to the "
            "fitted estimator.",
        ],
        began=began,
        details=details,
    )
