"""Runs from random starts, the best one kept, as published."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from joblib import Parallel, delayed

from cuspfa.inference.variational.init import draw_start
from cuspfa.inference.variational.progress import SearchStopped, raise_if_stopped
from cuspfa.inference.variational.run import Run
from cuspfa.inference.variational.search import Search


def random_restarts(
    search: Search,
    rng: np.random.Generator,
    *,
    n_init: int,
    n_factors: int | None = None,
    n_jobs: int | None = None,
) -> None:
    """`n_init` runs from random starts, each on a random stream of its own.

    The result does not depend on the number of jobs.
    """
    alone = n_jobs in (None, 1)
    work = (
        delayed(_run_once)(search.anew(silent=not alone), n_factors, stream)
        for stream in rng.spawn(n_init)
    )
    for runs in Parallel(n_jobs=n_jobs, return_as="generator")(work):
        for run in runs:
            search.candidates.add(run)
            raise_if_stopped(run)


def _run_once(search: Search, n_factors: int | None, rng: np.random.Generator) -> list[Run]:
    n_terms = search.max_factors + 1
    start = draw_start(search.source, search.prior, n_terms, rng, n_factors)
    # The run of a search that was stopped is kept too: its status tells the caller.
    with suppress(SearchStopped):
        search.try_state(start, patient=True)
    return list(search.candidates.best_by_k.values())
