"""As published: many runs from random starts, the best one kept."""

from __future__ import annotations

from contextlib import suppress

from joblib import Parallel, delayed

from cuspfa.inference.variational.init import draw_start
from cuspfa.inference.variational.run import Run
from cuspfa.inference.variational.search import Search, Stopped, stop_if_stopped


def random_restarts(
    search: Search, *, n_init: int, n_factors: int | None = None, n_jobs: int | None = None
) -> None:
    """Make `n_init` runs, each on a random stream of its own, whatever the number of jobs."""
    alone = n_jobs in (None, 1)
    work = (
        delayed(_one_restart)(search.fresh(stream, silent=not alone), n_factors)
        for stream in search.rng.spawn(n_init)
    )
    for runs in Parallel(n_jobs=n_jobs, return_as="generator")(work):
        for done in runs:
            search.remember(done)
            stop_if_stopped(done)


def _one_restart(search: Search, n_factors: int | None) -> list[Run]:
    n_terms = search.max_factors + 1
    start = draw_start(search.source, search.prior, n_terms, search.rng, n_factors)
    # What a run that was stopped has left is remembered too: the caller sees it by its status.
    with suppress(Stopped):
        search.try_state(start, patient=True)
    return list(search.best_by_k.values())
