"""Compiled runs for complete data in memory and a spike at zero; the compiled step of scores."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from cuspfa._typing import Array
from cuspfa.data.protocols import DataSource
from cuspfa.inference._kernels import kernel
from cuspfa.inference.updates import KnownScores, Loadings, LoadingsDistribution, ScoreMoments
from cuspfa.inference.variational.elbo import Bound
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs.base import SlabKernel
from cuspfa.model.slabs.empirical_bayes import SMALLEST_VARIANCE
from cuspfa.model.slabs.inverse_gamma import HYPER_RATE, HYPER_SCALE, HYPER_SPREAD
from cuspfa.rotation.gpa import TIED_PART

CALL_WORK = 2e7
"""Multiplications of one call of the kernel where no clock or callback is watched: between calls
the keyboard is."""


class Ending(Enum):
    """Why a run ended; the first five are those of the kernel, which goes on after MAX_ITER."""

    MAX_ITER = 0
    CONVERGED = 1
    PRUNED = 2
    FELL = 3
    FAILED = 4
    """A matrix was not positive definite to rounding error."""
    OUT_OF_TIME = 5
    INTERRUPTED = 6


class Limits(NamedTuple):
    """When a run ends; see `run_iterations`."""

    tol: float
    """Growth of the bound in an iteration, in nats, below which it has converged."""
    max_iter: int
    """Most iterations."""
    target: float
    """The bound that must be in reach; else the run is pruned."""
    remaining_growth: float
    """Times the last growth that may remain at most."""
    rounding: float
    """Part of the bound's terms by which it may fall, as rounding error."""
    deadline: float
    """When the run ends, on the clock of `time.monotonic`."""


class CompiledRun(NamedTuple):
    """What `run_iterations` makes its result of."""

    state: VariationalState
    bound: Bound | None
    """None if no iteration has a finite bound."""
    trace: list[float]
    ending: Ending


def can_run(state: VariationalState, source: DataSource, prior: CuspPrior) -> bool:
    """Does the kernel know this problem?"""
    return (
        prior.spike is None
        and state.n_factors > 0
        and state.slab.kernel_form() is not None
        and source.dense is not None
        and isinstance(state.loadings, Loadings)
        and kernel("iteration") is not None
    )


def run_compiled(
    state: VariationalState,
    source: DataSource,
    prior: CuspPrior,
    limits: Limits,
    on_iteration: Callable[[int, float, VariationalState], None] | None,
) -> CompiledRun:
    """The iterations of `run_iterations`, many in one call of the kernel."""
    calls = _Calls(state, source, prior)
    work = state.loadings.mean.size * (min(source.p, source.n) + 4.0 * state.n_factors)
    watched = on_iteration is not None or limits.deadline < math.inf
    length = 1 if watched else max(1, int(CALL_WORK / work))
    trace: list[float] = []
    ending = Ending.MAX_ITER
    try:
        while ending is Ending.MAX_ITER and len(trace) < limits.max_iter:
            part = np.zeros(min(length, limits.max_iter - len(trace)))
            made, ending = calls.iterate(part, limits, begun=bool(trace))
            trace += part[:made].tolist()
            if on_iteration is not None and made:
                on_iteration(len(trace), trace[-1], calls.state())
            if ending is Ending.MAX_ITER and time.monotonic() >= limits.deadline:
                ending = Ending.OUT_OF_TIME
    except KeyboardInterrupt:
        if not trace:
            raise
        ending = Ending.INTERRUPTED
    bound = Bound(*calls.terms.tolist()) if trace else None
    return CompiledRun(calls.state(), bound, trace, ending)


class _Calls:
    """The arrays of a state, which the kernel overwrites."""

    def __init__(self, state: VariationalState, source: DataSource, prior: CuspPrior) -> None:
        loadings, scores, dense = state.loadings, state.scores, source.dense
        assert isinstance(loadings, Loadings)
        assert isinstance(scores, ScoreMoments)
        assert dense is not None
        self._like = state
        shape = _copy(state.noise.shape)
        constant = float(np.sum(prior.log_noise_constant + gammaln(shape)))
        self._problem = (
            *(dense.values, dense.is_gram, source.n, _copy(source.squares)),
            *(shape, digamma(shape), prior.noise_shape, prior.noise_rate, constant),
            prior.log_count_probability(state.n_factors),
        )
        self._arrays = [
            _copy(part)
            for part in (
                *(loadings.mean, loadings.basis, loadings.weights, loadings.eigenvalues),
                *(state.noise.rate, scores.cross, scores.second),
            )
        ]
        self._norms = np.zeros(state.n_factors)
        form = state.slab.kernel_form()
        assert form is not None
        self._form: SlabKernel = form
        self._log_dets = (loadings.log_det, scores.log_det)
        self.terms = np.zeros(6)

    def iterate(self, trace: Array, limits: Limits, *, begun: bool) -> tuple[int, Ending]:
        """Iterations into `trace`: how many were made, and why they ended."""
        form, compiled = self._form, kernel("iteration")
        assert compiled is not None
        slab = (form.kind, form.pooled, form.a, form.b, SMALLEST_VARIANCE)
        hyperprior = (HYPER_RATE, HYPER_SCALE, HYPER_SPREAD)
        made, ending, a, b, *log_dets = compiled.iterate(
            *(*self._problem, *slab, *hyperprior, *self._arrays, self._norms, *self._log_dets),
            *(self.terms, begun, limits.tol, limits.target),
            *(limits.remaining_growth, limits.rounding, 1.0 - TIED_PART, trace),
        )
        self._form = form._replace(a=a, b=b)
        self._log_dets = (log_dets[0], log_dets[1])
        return made, Ending(ending)

    def state(self) -> VariationalState:
        """The state as it is now, with arrays of its own."""
        mean, basis, weights, eigenvalues, rate, cross, second = map(np.copy, self._arrays)
        like, (of_loadings, of_scores) = self._like, self._log_dets
        return like._replace(
            loadings=Loadings(mean, basis, weights, eigenvalues, of_loadings),
            noise=like.noise._replace(rate=rate),
            scores=ScoreMoments(cross, second, of_scores, like.scores.n),
            slab=like.slab.with_kernel_values(self._form.a, self._form.b),
        )


def scores_at(
    loadings: LoadingsDistribution, noise_precision: Array, source: DataSource
) -> KnownScores:
    """`DataSource.expect_scores`, compiled for complete data in memory."""
    core, dense, k = kernel("iteration"), source.dense, loadings.mean.shape[1]
    if core is None or dense is None or k == 0 or not isinstance(loadings, Loadings):
        return source.expect_scores(loadings, noise_precision)
    cross, second = np.empty((source.p, k)), np.empty((k, k))
    info, log_det = core.expect_scores(
        *(dense.values, dense.is_gram, source.n),
        *(np.ascontiguousarray(part) for part in (noise_precision, *loadings[:4])),
        *(cross, second),
    )
    if info != 0:
        return source.expect_scores(loadings, noise_precision)
    return ScoreMoments(cross, second, log_det, source.n)


def _copy(array: Array) -> Array:
    return np.array(array, dtype=float, order="C")
