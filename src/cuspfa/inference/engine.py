"""Which engine fits, and what comes out of it: a posterior, whichever it was."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from cuspfa._utils.threads import one_blas_thread
from cuspfa.data.complete import Prepared
from cuspfa.inference.gibbs import result as sampled
from cuspfa.inference.gibbs.settings import Gibbs, GibbsStart, gibbs_prior
from cuspfa.inference.variational import result as variational
from cuspfa.inference.variational.settings import Variational
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.posterior.variational import VariationalPosterior

Method = Variational | Gibbs
START_PART = 0.5
"""The most of a sampler's `max_time` that goes into finding where chains begin."""
ENGINES: dict[str, type[Method]] = {"variational": Variational, "gibbs": Gibbs}


def default_prior(method: Method) -> CuspPrior:
    """What `prior=None` means."""
    return CuspPrior() if isinstance(method, Variational) else gibbs_prior()


class Outcome(NamedTuple):
    """What an estimator stores, and what it has to say."""

    posterior: VariationalPosterior | SampledPosterior
    interrupted: bool
    at_ledermann_bound: bool = False
    """Are there more factors than the columns can tell apart?"""
    limit: int | None = None
    """The most factors that were looked for, if so many were found."""
    rise: float = math.nan
    """Nats that each of the last factors added to the bound, where more were not tried."""
    evidence_rising: float | None = None
    """Nats that the last factor added to the evidence, if it was rising where the scoring ended."""


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
            return Outcome(
                posterior,
                fit.interrupted,
                fit.at_ledermann_bound,
                fit.limit,
                fit.rise,
                fit.evidence_rising,
            )
        method.check_possible(prior)
        start, sampler = None, method
        if method.init == "variational":
            began = time.monotonic()
            seconds = None if method.max_time is None else START_PART * method.max_time
            start = _start(prepared, prior, n_factors, rng, seconds)
            if method.max_time is not None:
                left = method.max_time - (time.monotonic() - began)
                # However late it is, chains are begun; one that has no time keeps its start.
                sampler = clone(method).set_params(max_time=max(left, 1e-9))
        drawn = sampler.infer(
            source, prior, n_factors=n_factors, rng=rng, n_jobs=n_jobs, start=start
        )
        return Outcome(sampled.posterior_of(drawn, prepared, prior, names), drawn.interrupted)


def _start(
    prepared: Prepared,
    prior: CuspPrior,
    n_factors: int | None,
    rng: np.random.Generator,
    seconds: float | None,
) -> GibbsStart:
    """The distribution of the factors that a variational fit with the same slab finds, spike at
    zero.
    """
    found = Variational(criterion="collapsed", max_time=seconds).infer(
        prepared.source, replace(prior, spike=None), n_factors=n_factors, rng=rng
    )
    if found.interrupted:
        raise KeyboardInterrupt
    state = found.best.state
    return GibbsStart(state.loadings, state.noise, state.scores.location(state.loadings))
