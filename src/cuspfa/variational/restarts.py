"""As published: many runs from random starts, the best one kept."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from joblib import Parallel, delayed

from cuspfa._types import Array
from cuspfa.data.source import DataSource
from cuspfa.prior import CuspPrior
from cuspfa.slabs import GaussianSlab, InverseGammaSlab
from cuspfa.variational.cycle import State
from cuspfa.variational.fit import Run, Status
from cuspfa.variational.search import Interrupted, Search
from cuspfa.variational.starts import state_at


def draw_start(
    source: DataSource,
    prior: CuspPrior,
    n_terms: int,
    rng: np.random.Generator,
    n_factors: int | None = None,
) -> State:
    """A random start: loadings drawn from the prior itself.

    The process draws how many columns are active (unless K is given) and the slab their loadings,
    so the starts differ in their number of factors, which matters more than where the factors
    point: the number seldom changes by much during a run. Noise starts at the sample variances.
    """
    if n_factors is None:
        n_factors = int(prior.process(n_terms).draw(1.0, 0.0, random_state=rng).active.sum())
    variances = np.asarray(source.squares / source.n)
    theta = _draw_variances(prior, n_factors, float(np.mean(variances)), rng)
    mean = rng.standard_normal((source.p, n_factors)) * np.sqrt(theta)
    return state_at(mean, variances, source, prior, n_terms)


def _draw_variances(
    prior: CuspPrior, k: int, mean_variance: float, rng: np.random.Generator
) -> Array:
    if isinstance(prior.slab, GaussianSlab):
        return np.full(k, prior.slab.variance)
    if isinstance(prior.slab, InverseGammaSlab):
        return np.asarray(prior.slab.rate / rng.standard_gamma(prior.slab.shape, size=k))
    return np.full(k, mean_variance / (k + 1))  # a plugged-in variance has no law to draw from


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
            if done.status is Status.INTERRUPTED:
                raise Interrupted


def _one_restart(search: Search, n_factors: int | None) -> list[Run]:
    n_terms = search.max_factors + 1
    start = draw_start(search.source, search.prior, n_terms, search.rng, n_factors)
    # What an interrupt has left is remembered too: the caller sees it by its status.
    with suppress(Interrupted):
        search.try_state(start, patient=True)
    return list(search.best_by_k.values())
