"""The settings of the sampling engine, and the engine behind them."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, clone

from cuspfa._typing import Array, MeanTreatment
from cuspfa._utils.arguments import is_fresh, must_be
from cuspfa._utils.fit_warning import LongFit
from cuspfa._utils.sklearn_compat import Interval, StrOptions, check_parameters
from cuspfa.data.protocols import DataSource
from cuspfa.errors import DataError, InputError
from cuspfa.inference.gibbs.chain import (
    GibbsCallback,
    GibbsState,
    Kept,
    Model,
    SweepPlan,
    begin,
    join_draws,
    run_chains,
)
from cuspfa.inference.gibbs.checkpoints import Store, settings_of
from cuspfa.inference.gibbs.compiled_chain import can_sweep
from cuspfa.inference.gibbs.data_kernels import DataKernel, data_kernel
from cuspfa.inference.gibbs.model_error import check_model_error_data, model_error_kernel
from cuspfa.inference.kernels import draw_from_q
from cuspfa.inference.updates import LoadingsDistribution
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import InverseGammaSlab

LARGEST_JOINT_DATA = 40_000
"""Numbers of the data up to which all chains are drawn together in one process: there most of a
sweep's time is the overhead of calls, and several chains cost little more than one."""
START_TIME_SHARE = 0.5
"""The share of `max_time` that the fit which chains start from may take."""
SECONDS_OF_A_WAIT = 0.1
"""How long the chains in threads are waited for between looks at the keyboard."""


class GibbsStart(NamedTuple):
    """Where chains begin: the variational distribution of the active factors."""

    loadings: LoadingsDistribution
    noise: Noise
    location: Array | None = None
    """(p,) the means of incomplete columns."""


class GibbsFit(NamedTuple):
    """All draws that were kept, and how the chains ended."""

    kept: Kept
    spike: float
    n_sweeps: int
    """Sweeps of each chain, the fewest of any."""
    interrupted: bool
    out_of_time: bool
    model_error: float = 0.0


class Gibbs(BaseEstimator):  # type: ignore[misc]
    """Gibbs sampling (Legramanti, Durante & Dunson, 2020), exact and independent of n.

    With model error (`model_error` of the estimator) each sweep also draws the cross-products of
    rows of the exact model. Draws are then autocorrelated by about n/(n + m) from sweep to sweep,
    m ≈ 1/ε²: many rows need long chains, and R-hat warns. That needs complete data, no fewer rows
    than columns, and a number for the error.

    `CuspPoissonFactorization` takes these settings too: its sampler is another one, and its page
    says which of them have an effect.

    Parameters
    ----------
    n_draws : int, default=500
        Draws of each chain that are kept.
    n_chains : int, default=4
        Chains, each with random numbers of its own.
    burn_in : int, default=1000
        Sweeps before the first draw.
    thin : int, default=5
        Sweeps from one draw that is kept to the next.
    adaptive : bool, default=True
        Change the number of columns during sampling, as in the paper: from sweep `start_adapt`
        on, with probability exp(α_0 + α_1 t) at sweep t, keep the active columns and one from the
        spike, or add one. False: H = `max_columns` columns all the time.
    start_adapt : int, default=500
        See `adaptive`.
    adapt_rate : tuple of two floats, default=(-1.0, -5e-4)
        α_0 and α_1.
    max_columns : int or None, default=None
        H, the columns of a sampler that is not adaptive, and the most of one that is. None means
        p + 1.
    scale_rotation_every : int, default=5
        Sweeps from one exact scale-rotation move to the next; 0 for none, as in the paper. Without
        them the scale of a factor is autocorrelated over about p sweeps.
    init : {"variational", "random"}, default="variational"
        Where chains begin: at draws from a variational fit, or at random loadings in all
        `max_columns` columns.
    mean : {"flat", "plug-in"}, default="flat"
        As in `Variational`.
    max_time : float or None, default=None
        Seconds after which the chains stop. How many draws they have by then depends on the
        machine.
    checkpoint_dir : str, path or None, default=None
        A folder for the draws, written while the chains run. A run that was stopped or killed
        continues from there and gives the same chains; a finished one is read. With
        the same settings and more `n_draws` it is made longer; with fewer, the first `n_draws` of
        each chain are returned and the folder stays as it is. Another `random_state` is an error;
        None continues with the random numbers of the folder.
    callback : callable or None, default=None
        Called after each sweep with a `GibbsProgress` tuple: sweep, n_sweeps, n_factors, chains.
        Not called where chains are in threads or processes of their own (`n_jobs`).

    Examples
    --------
    >>> Gibbs(n_chains=2, burn_in=500)
    Gibbs(burn_in=500, n_chains=2)
    """

    name: ClassVar[Literal["gibbs"]] = "gibbs"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_draws": [Interval(Integral, 1, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "adaptive": ["boolean"],
        "start_adapt": [Interval(Integral, 1, None, closed="left")],
        "adapt_rate": [tuple, list],
        "max_columns": [Interval(Integral, 1, None, closed="left"), None],
        "scale_rotation_every": [Interval(Integral, 0, None, closed="left")],
        "init": [StrOptions({"variational", "random"})],
        "mean": [StrOptions(set(get_args(MeanTreatment)))],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "checkpoint_dir": [str, os.PathLike, None],
        "callback": [callable, None],
    }

    def __init__(
        self,
        *,
        n_draws: int = 500,
        n_chains: int = 4,
        burn_in: int = 1000,
        thin: int = 5,
        adaptive: bool = True,
        start_adapt: int = 500,
        adapt_rate: tuple[float, float] = (-1.0, -5e-4),
        max_columns: int | None = None,
        scale_rotation_every: int = 5,
        init: Literal["variational", "random"] = "variational",
        mean: MeanTreatment = "flat",
        max_time: float | None = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        callback: GibbsCallback | None = None,
    ) -> None:
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.burn_in = burn_in
        self.thin = thin
        self.adaptive = adaptive
        self.start_adapt = start_adapt
        self.adapt_rate = adapt_rate
        self.max_columns = max_columns
        self.scale_rotation_every = scale_rotation_every
        self.init = init
        self.mean = mean
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.callback = callback

    def check(self) -> None:
        """Raise an InputError that names the setting which is out of range, if any is."""
        check_parameters(self)
        rate = self.adapt_rate
        if len(rate) != 2 or not all(isinstance(one, Real) and np.isfinite(one) for one in rate):
            raise must_be("adapt_rate", "two finite numbers", rate)
        if rate[1] > 0:
            raise must_be(
                "adapt_rate", "a number and one not above 0, so that the rate falls", rate
            )

    @property
    def max_factors(self) -> int | None:
        """The most factors there can be; the last column always has the spike."""
        return None if self.max_columns is None else self.max_columns - 1

    def check_n_factors(self, n_factors: int) -> None:
        """Accept any number: with a given one `max_columns` has no effect."""

    @staticmethod
    def default_prior() -> CuspPrior:
        """What `prior=None` means: a scale for each factor and an automatic spike.

        The slab is not pooled: where a and b are estimated too, a slab can become the better
        distribution of empty columns, and then all columns are active.
        """
        return CuspPrior(slab=InverseGammaSlab(2.0, 0.4))

    @staticmethod
    def long_fit(source: DataSource, n_factors: int | None) -> LongFit | None:
        """None: the duration of a sampler is not predicted."""

    def with_time_left(self, began: float) -> Gibbs:
        """The settings with what is left of `max_time` since a time of `time.monotonic`.

        Even without time left chains are started, and their start is the only draw.
        """
        if self.max_time is None:
            return self
        left = self.max_time - (time.monotonic() - began)
        found: Gibbs = clone(self).set_params(max_time=max(left, 1e-9))
        return found

    def infer(
        self,
        source: DataSource,
        prior: CuspPrior,
        *,
        n_factors: int | None,
        rng: np.random.Generator,
        n_jobs: int | None = None,
        start: GibbsStart | None = None,
        model_error: float = 0.0,
    ) -> GibbsFit:
        """Run the chains; `n_factors` None means that the number of factors is drawn too.

        With a given number of factors every column has the slab, and there are no others.
        """
        model = self._model(source, prior, model_error)
        return self.run(
            model, n_factors=n_factors, rng=rng, n_jobs=n_jobs, start=start, model_error=model_error
        )

    def run(
        self,
        model: Model,
        *,
        n_factors: int | None,
        rng: np.random.Generator,
        n_jobs: int | None = None,
        start: GibbsStart | None = None,
        model_error: float = 0.0,
    ) -> GibbsFit:
        """Run the chains of a model; see `infer`."""
        groups = _groups(self.n_chains, model.data.size)
        streams = rng.spawn(len(groups))
        plan = SweepPlan(self.n_draws, self.burn_in, self.thin)
        folder = None if self.checkpoint_dir is None else Store(Path(self.checkpoint_dir))
        if folder is not None:
            settings = settings_of(self, model, n_factors, model_error, streams)
            folder.open(settings, any_seed=is_fresh(rng))
        workers = min(effective_n_jobs(n_jobs), len(groups))
        seconds = None
        if self.max_time is not None:
            seconds = self.max_time * workers / len(groups)

        jobs: list[dict[str, Any]] = [
            {
                "state": self._begin(model, group[1] - group[0], n_factors, start, stream),
                "plan": plan,
                "model": model,
                "rng": stream,
                "chains": group,
                "seconds": seconds,
                "checkpoints": None if folder is None else folder.group(number),
            }
            for number, (group, stream) in enumerate(zip(groups, streams, strict=True))
        ]
        if workers == 1:
            done = []
            for job in jobs:
                done.append(run_chains(**job, callback=self.callback))
                if done[-1][2]:
                    break
        elif can_sweep(jobs[0]["state"], model):
            done = _in_threads(jobs, workers)
        else:
            tasks = (delayed(run_chains)(**job, caller=os.getpid()) for job in jobs)
            done = Parallel(n_jobs=workers)(tasks)
        draws = [join_draws(kept) for kept, _, _ in done]
        length = min(self.n_draws, *(len(part.noise) for part in draws))
        kept = join_draws([_first(part, length) for part in draws], axis=1)
        sweeps = min(plan.sweeps, *(at for _, at, _ in done))
        interrupted = any(stopped for _, _, stopped in done)
        late = sweeps < plan.sweeps and not interrupted
        return GibbsFit(kept, model.spike, sweeps, interrupted, late, model_error)

    def check_possible(
        self, source: DataSource, prior: CuspPrior, model_error: float | Literal["auto"]
    ) -> float:
        """The model error; an InputError or DataError if slab or model error cannot be sampled."""
        if isinstance(model_error, str):
            raise InputError(
                "model_error must be a number with method='gibbs', which does not learn it. Got "
                f"{model_error!r} instead: fit with method='variational' first and pass its "
                "model_error_."
            )
        self.check_slab(prior)
        if model_error > 0:
            check_model_error_data(source, model_error)
        return model_error

    @staticmethod
    def check_slab(prior: CuspPrior) -> None:
        """Raise an InputError for a slab that cannot be sampled."""
        if not prior.slab.capabilities.sampled:
            raise InputError(
                "The slab of prior must have a distribution that can be drawn from for "
                "method='gibbs'. Got "
                f"{prior.slab!r}, whose variances cannot be drawn: use InverseGammaSlab or "
                "GaussianSlab, or method='variational'."
            )

    def _model(self, source: DataSource, prior: CuspPrior, model_error: float) -> Model:
        data: DataKernel | None
        rows = source.n
        if model_error > 0:
            data = model_error_kernel(source, model_error)
            rows = float(data.error.effective_rows(rows))
            prior = prior.for_counts(rows)
        else:
            data = data_kernel(source)
        if data is None:
            raise DataError(
                "method='gibbs' needs the data as a dense matrix. Got a sparse one with many "
                "columns: pass X.toarray() if that fits into memory, or use method='variational'."
            )
        return self.model_of(data, prior, rows)

    def model_of(self, data: DataKernel, prior: CuspPrior, rows: float) -> Model:
        """What does not change from sweep to sweep, for data that count as so many rows."""
        p = len(data.variances)
        most = p + 1 if self.max_columns is None else min(self.max_columns, p + 1)
        return Model(
            data,
            prior,
            prior.slab.automatic_spike(rows, p) if prior.spike is None else prior.spike,
            most,
            self.start_adapt if self.adaptive else None,
            (float(self.adapt_rate[0]), float(self.adapt_rate[1])),
            self.scale_rotation_every,
        )

    def _begin(
        self,
        model: Model,
        size: int,
        n_factors: int | None,
        start: GibbsStart | None,
        rng: np.random.Generator,
    ) -> GibbsState:
        """Chains at draws from the start, or at random; spare columns are drawn from the spike."""
        variance = model.data.variances
        p = len(variance)
        if start is None:
            width = model.most if n_factors is None else n_factors
            loadings = rng.standard_normal((p, size, width))
            noise = np.repeat(variance[:, None], size, axis=1)
            none = np.zeros((size, width), dtype=bool)
            return begin(loadings, noise, none if n_factors is None else None, model, rng)
        loadings, noise = draw_from_q(start.loadings, start.noise, size, rng)
        found = loadings.shape[2]
        if n_factors is not None:
            return begin(loadings, noise, None, model, rng, start.location)
        width = model.most if model.start_adapt is None else min(found + 1, model.most)
        kept = min(found, width - 1)
        spare = np.sqrt(model.spike) * rng.standard_normal((p, size, width - kept))
        loadings = np.concatenate([loadings[:, :, :kept], spare], axis=2)
        active = np.zeros((size, width), dtype=bool)
        active[:, :kept] = True
        return begin(loadings, noise, active, model, rng, start.location)


def _groups(n_chains: int, size: int) -> list[tuple[int, int]]:
    """Chains that are drawn together: all where the data are small, else each by itself.

    The groups depend on the data alone, so the number of processes does not change the draws.
    """
    step = n_chains if size <= LARGEST_JOINT_DATA else 1
    return [(first, min(first + step, n_chains)) for first in range(0, n_chains, step)]


def _in_threads(jobs: list[dict[str, Any]], workers: int) -> list[tuple[list[Kept], int, bool]]:
    """`run_chains` of each job, in threads: compiled sweeps release the interpreter lock.

    After an interruption or an error all stop; groups that have not begun are left out.
    """
    stop, pool = threading.Event(), ThreadPoolExecutor(workers)
    runs: list[Future[tuple[list[Kept], int, bool]]] = []
    try:
        runs.extend(pool.submit(run_chains, **job, stop=stop) for job in jobs)
        failed = False
        while not failed and not all(run.done() for run in runs):
            # Not without end: on some systems a wait does not see the keyboard.
            ended = wait(runs, SECONDS_OF_A_WAIT, return_when=FIRST_EXCEPTION).done
            failed = any(run.exception() for run in ended)
    except KeyboardInterrupt:
        pass
    finally:  # before the pool is waited for, whatever ended the loop
        stop.set()
        pool.shutdown(cancel_futures=True)
    return [run.result() for run in runs if not run.cancelled()]


def _first(part: Kept, length: int) -> Kept:
    """The first `length` draws, without columns that only later draws have."""
    if length == len(part.noise):
        return part
    used = np.flatnonzero(part.loadings[:length].any(axis=(0, 1, 2)))
    width = int(used[-1]) + 1 if len(used) else 0
    return Kept(
        part.loadings[:length, ..., :width],
        part.noise[:length],
        part.active[:length, :, :width],
        part.log_likelihood[:length],
        None if part.mean is None else part.mean[:length],
        None if part.thresholds is None else part.thresholds[:length],
    )
