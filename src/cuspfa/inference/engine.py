"""The protocol of engines, the choice of one, and its posterior."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from cuspfa._typing import Array, EngineName, MeanTreatment
from cuspfa._utils.fit_warning import LongFit
from cuspfa._utils.spelling import EngineSettings
from cuspfa._utils.threads import one_blas_thread
from cuspfa.data.cells import CellTable, PreparedCells
from cuspfa.data.complete import Prepared
from cuspfa.data.protocols import DataSource
from cuspfa.inference.cellwise.engine import infer_cells
from cuspfa.inference.cellwise.result import (
    cell_warnings,
    latent_posterior,
    sampled_latent_posterior,
)
from cuspfa.inference.cellwise.sampler import sample_cells
from cuspfa.inference.gibbs.result import sampled_posterior
from cuspfa.inference.gibbs.settings import START_TIME_SHARE, Gibbs, GibbsStart
from cuspfa.inference.variational.error_curve import model_error_curve
from cuspfa.inference.variational.error_grid import ErrorPath
from cuspfa.inference.variational.result import variational_posterior, variational_warnings
from cuspfa.inference.variational.settings import Variational
from cuspfa.model.likelihoods.kinds import LikelihoodTable
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.files import AnyPosterior
from cuspfa.posterior.provenance import Provenance, with_warnings
from cuspfa.rotation.gpa import Rotation

ENGINES: dict[EngineName, type[Variational | Gibbs]] = {
    one.name: one for one in (Variational, Gibbs)
}
"""Classes of settings, by the word that `method` may be."""
SETTINGS_WITHOUT_EFFECT = ("callback", "checkpoint_dir")
"""Settings on which no result depends."""


class Engine(Protocol):
    """What the estimator asks of an engine: the settings, with the answers that depend on them."""

    mean: MeanTreatment
    """"flat" or "plug-in": how the means of the columns are treated."""

    @property
    def name(self) -> EngineName:
        """The word that `method` may be."""

    @property
    def max_factors(self) -> int | None:
        """The most factors that are looked for; None without a limit of its own."""

    def check(self) -> None:
        """Raise an InputError that names the setting which is out of range, if any is."""

    def check_n_factors(self, n_factors: int) -> None:
        """Raise an InputError where the settings exclude a given number of factors."""

    def default_prior(self) -> CuspPrior:
        """What `prior=None` means."""

    def long_fit(self, source: DataSource, n_factors: int | None) -> LongFit | None:
        """The warning that a fit will take long; None if it will not, or that is unknown."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name."""


class Outcome(NamedTuple):
    """A posterior, and whether the user interrupted the fit."""

    posterior: AnyPosterior
    interrupted: bool


def engine_of(method: EngineName | Engine) -> Engine:
    """The engine of a word, with its default settings, or the engine that was given."""
    return ENGINES[method]() if isinstance(method, str) else method


class FitTask(NamedTuple):
    """What an engine is to fit, and what its posterior is to keep."""

    prepared: Prepared
    prior: CuspPrior
    n_factors: int | None
    """None where the number of factors is to be found."""
    rng: np.random.Generator
    n_jobs: int | None
    rotation: Rotation | None
    provenance: Provenance
    model_error: float | Literal["auto"] = 0.0
    path: ErrorPath | None = None
    """Of fits with other errors to the same data, to go on from; of the variational engine."""


class LatentTask(NamedTuple):
    """What is fitted, and how, for columns that are not all Gaussian."""

    prepared: PreparedCells
    columns: LikelihoodTable
    prior: CuspPrior
    n_factors: int | None
    rotation: Rotation | None
    provenance: Provenance
    rng: np.random.Generator
    n_jobs: int | None
    model_error: float = 0.0
    offset: Array | None = None
    """(n,) of the log rates of counts."""


def infer_latent(method: Engine, task: LatentTask) -> Outcome:
    """Fit to single cells; the posterior is on the scale of latent responses."""
    table = CellTable.of(task.prepared.rows, task.columns, task.offset)
    n, p = table.rows.shape
    with one_blas_thread(p * min(n, p)):
        return _LATENT_RUNS[method.name](method, task, table)


def _fit_latent(method: Variational, task: LatentTask, table: CellTable) -> Outcome:
    n_factors, seconds = task.n_factors, method.max_time
    fit = infer_cells(
        table,
        task.prior,
        n_factors=n_factors,
        max_factors=method.max_factors,
        bridge=method.criterion != "collapsed",
        model_error=task.model_error,
        seconds=seconds,
        allowed=task.prepared.allowed,
    )
    warned = cell_warnings(fit, n_factors, len(table.rows), seconds)
    provenance = with_warnings(task.provenance, warned)
    found = latent_posterior(
        fit, task.prepared, table, task.prior, task.rotation, provenance, task.model_error
    )
    return Outcome(found, interrupted=False)


def _sample_latent(method: Gibbs, task: LatentTask, table: CellTable) -> Outcome:
    method.check_slab(task.prior)
    cells = sample_cells(
        table,
        task.prior,
        method,
        n_factors=task.n_factors,
        rng=task.rng,
        n_jobs=task.n_jobs,
        allowed=task.prepared.allowed,
    )
    found = sampled_latent_posterior(
        cells,
        task.prepared,
        table,
        task.prior,
        method,
        task.n_factors,
        task.rotation,
        task.provenance,
    )
    return Outcome(found, cells.drawn.interrupted)


_LATENT_RUNS: dict[str, Callable[[Any, LatentTask, CellTable], Outcome]] = {
    Variational.name: _fit_latent,
    Gibbs.name: _sample_latent,
}


def infer(method: Engine, task: FitTask) -> Outcome:
    """Fit with this engine; the posterior is in the user's units and has the engine's warnings."""
    p = task.prepared.source.p
    with one_blas_thread(p * min(task.prepared.n, p)):
        return _RUNS[method.name](method, task)


def _run_variational(method: Variational, task: FitTask) -> Outcome:
    prepared, prior, n_factors = task.prepared, task.prior, task.n_factors
    method.check_model_error(prior, task.model_error)
    fit = method.infer(
        prepared.source,
        prior,
        n_factors=n_factors,
        rng=task.rng,
        n_jobs=task.n_jobs,
        model_error=task.model_error,
        path=task.path,
    )
    warned = variational_warnings(fit, prepared, prior, method, n_factors, task.model_error)
    provenance = with_warnings(task.provenance, warned)
    found = variational_posterior(fit, prepared, prior, task.rotation, provenance)
    return Outcome(found, fit.interrupted)


def _run_gibbs(method: Gibbs, task: FitTask) -> Outcome:
    model_error = method.check_possible(task.prepared.source, task.prior, task.model_error)
    start, sampler = None, method
    if method.init == "variational":
        began = time.monotonic()
        seconds = None if method.max_time is None else START_TIME_SHARE * method.max_time
        start = _start(task, seconds)
        sampler = method.with_time_left(began)
    drawn = sampler.infer(
        task.prepared.source,
        task.prior,
        n_factors=task.n_factors,
        rng=task.rng,
        n_jobs=task.n_jobs,
        start=start,
        model_error=model_error,
    )
    posterior = sampled_posterior(
        drawn, task.prepared, task.prior, method, task.n_factors, task.rotation, task.provenance
    )
    # The two engines do not know each other.
    return Outcome(replace(posterior, curve_maker=model_error_curve), drawn.interrupted)


_RUNS: dict[str, Callable[[Any, FitTask], Outcome]] = {
    Variational.name: _run_variational,
    Gibbs.name: _run_gibbs,
}


def engine_settings(method: Engine) -> EngineSettings:
    """Its name, and the settings that differ from the defaults and have an effect on the result."""
    usual = type(method)().get_params(deep=False)
    changed = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in method.get_params(deep=False).items()
        if name not in SETTINGS_WITHOUT_EFFECT and value != usual[name]
    }
    return EngineSettings(method.name, changed)


def _start(task: FitTask, seconds: float | None) -> GibbsStart:
    """The distribution of the factors by a variational fit with the same slab, spike at zero."""
    found = Variational(criterion="collapsed", max_time=seconds).infer(
        task.prepared.source,
        replace(task.prior, spike=None),
        n_factors=task.n_factors,
        rng=task.rng,
        model_error=task.model_error,
    )
    if found.interrupted:
        raise KeyboardInterrupt
    state = found.best.state
    return GibbsStart(state.loadings, state.noise, state.scores.location(state.loadings))
