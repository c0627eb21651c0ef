"""Which engine fits, and what comes out of it: a posterior, whichever it was."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cuspfa._threads import one_blas_thread
from cuspfa.data.complete import Prepared
from cuspfa.data.holes import HoleSource
from cuspfa.gibbs import result as sampled
from cuspfa.gibbs.method import Gibbs, GibbsStart
from cuspfa.gibbs.method import default_prior as gibbs_prior
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.posterior.variational import VariationalPosterior
from cuspfa.prior import CuspPrior
from cuspfa.variational import result as variational
from cuspfa.variational.method import Variational

Method = Variational | Gibbs
ENGINES: dict[str, type[Method]] = {"variational": Variational, "gibbs": Gibbs}


def default_prior(method: Method) -> CuspPrior:
    """What `prior=None` means."""
    return CuspPrior() if isinstance(method, Variational) else gibbs_prior()


class Outcome(NamedTuple):
    """What an estimator stores, and what it has to say."""

    posterior: VariationalPosterior | SampledPosterior
    interrupted: bool
    crowded: bool
    """Are there more factors than the columns can tell apart?"""


def infer(
    method: Method,
    prepared: Prepared,
    prior: CuspPrior,
    *,
    n_factors: int | None,
    rng: np.random.Generator,
    n_jobs: int | None,
    names: list[str] | None,
) -> Outcome:
    """Fit, and put the result into the user's units."""
    source = prepared.source
    with one_blas_thread(source.p * min(prepared.n, source.p)):
        if isinstance(method, Variational):
            fit = method.infer(source, prior, n_factors=n_factors, rng=rng, n_jobs=n_jobs)
            posterior = variational.posterior_of(fit, prepared, prior, names)
            return Outcome(posterior, fit.interrupted, fit.crowded)
        method.check_possible(prior)
        start = None
        if method.init == "variational":
            start = _start(prepared, prior, n_factors, rng)
        drawn = method.infer(
            source, prior, n_factors=n_factors, rng=rng, n_jobs=n_jobs, start=start
        )
        return Outcome(
            sampled.posterior_of(drawn, prepared, prior, names), drawn.interrupted, crowded=False
        )


def _start(
    prepared: Prepared, prior: CuspPrior, n_factors: int | None, rng: np.random.Generator
) -> GibbsStart:
    """The law of the factors that a variational fit with the same slab finds, spike at zero."""
    found = Variational(score="collapsed").infer(
        prepared.source, replace(prior, spike=None), n_factors=n_factors, rng=rng
    )
    if found.interrupted:
        raise KeyboardInterrupt
    state = found.best.state
    location = None
    if isinstance(prepared.source, HoleSource):
        location = state.scores.location(state.loadings)
    return GibbsStart(state.loadings, state.noise, location)
