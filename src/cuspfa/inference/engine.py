"""Which engine fits, and what comes out of it: a posterior, whichever it was."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from cuspfa._utils.fit_warning import EngineSettings
from cuspfa._utils.threads import one_blas_thread
from cuspfa.data.complete import Prepared
from cuspfa.inference.gibbs import result as sampled
from cuspfa.inference.gibbs.settings import Gibbs, GibbsStart, gibbs_prior
from cuspfa.inference.variational import result as variational
from cuspfa.inference.variational.settings import Variational
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.provenance import Provenance, with_warnings
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.posterior.variational import VariationalPosterior
from cuspfa.rotation.gpa import Rotation

Method = Variational | Gibbs
START_PART = 0.5
"""The most of a sampler's `max_time` that goes into finding where chains begin."""
ENGINES: dict[str, type[Method]] = {"variational": Variational, "gibbs": Gibbs}
NO_EFFECT = ("callback", "checkpoint_dir")
"""Settings on which no result depends."""


def default_prior(method: Method) -> CuspPrior:
    """What `prior=None` means."""
    return CuspPrior() if isinstance(method, Variational) else gibbs_prior()


class Outcome(NamedTuple):
    """A posterior, and whether the user interrupted the fit."""

    posterior: VariationalPosterior | SampledPosterior
    interrupted: bool


def infer(
    method: Method,
    prepared: Prepared,
    prior: CuspPrior,
    *,
    n_factors: int | None,
    rng: np.random.Generator,
    n_jobs: int | None,
    rotation: Rotation | None,
    provenance: Provenance,
) -> Outcome:
    """Fit, and put the result into the user's units, with the engine's warnings added."""
    source = prepared.source
    with one_blas_thread(source.p * min(prepared.n, source.p)):
        if isinstance(method, Variational):
            fit = method.infer(source, prior, n_factors=n_factors, rng=rng, n_jobs=n_jobs)
            warned = variational.warnings_of(fit, prepared, prior, method, n_factors)
            found = variational.posterior_of(
                fit, prepared, prior, rotation, with_warnings(provenance, warned)
            )
            return Outcome(found, fit.interrupted)
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
        posterior = sampled.posterior_of(
            drawn, prepared, prior, method, n_factors, rotation, provenance
        )
        return Outcome(posterior, drawn.interrupted)


def engine_settings(method: Method) -> EngineSettings:
    """Its name, and the settings that differ from the defaults and have an effect on the result."""
    usual = type(method)().get_params(deep=False)
    changed = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in method.get_params(deep=False).items()
        if name not in NO_EFFECT and value != usual[name]
    }
    (word,) = (word for word, engine in ENGINES.items() if engine is type(method))
    return EngineSettings(word, changed)


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
