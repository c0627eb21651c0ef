"""The loop of the variational engine: iterations until the bound converges."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.protocols import DataSource
from cuspfa.inference.variational.compiled_run import (
    Ending,
    Limits,
    can_run,
    run_compiled,
    scores_at,
)
from cuspfa.inference.variational.elbo import Bound, lower_bound
from cuspfa.inference.variational.px_step import px_step
from cuspfa.inference.variational.steps import (
    VariationalState,
    step_converge_labels,
    step_loadings,
    step_overrelaxed_noise,
    step_scores,
    step_slab,
    step_uncertain_labels,
)
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.fit_info import CONVERGED_STATUS
from cuspfa.rotation.gpa import signs

BOUND_ROUNDING = 1e-10
"""A fall of the bound by less than this part of the sum of its terms' absolute values is rounding
error."""

REMAINING_GROWTH = 40.0
"""The bound converges geometrically, and a rate above 1 − 1/40 is rare: the growth that remains is
seldom more than so many times the last one."""

ITERATION = (
    step_loadings,
    step_overrelaxed_noise,
    step_scores,
    px_step,
    step_slab,
    step_uncertain_labels,
)
"""Algorithm 1 with overrelaxed noise, the scale-rotation step after the scores, and the update of
the slab's hyperparameters."""


def iteration(state: VariationalState, source: DataSource, prior: CuspPrior) -> VariationalState:
    """One whole iteration, by its definition."""
    for step in ITERATION:
        state = step(state, source, prior)
    return state


def quick_iteration(
    state: VariationalState, source: DataSource, prior: CuspPrior
) -> VariationalState:
    """An iteration with compiled scores, for priors that the compiled loop does not have."""
    for step in ITERATION:
        if step is step_scores:
            state = step_scores(state, source, prior, scores_at)
        else:
            state = step(state, source, prior)
    return state


def with_sign_rule(state: VariationalState) -> VariationalState:
    """Factors reflected so that the largest mean loading of each is positive.

    Draws that begin at a state assign random numbers to its factors. With this rule the draws do
    not depend on the signs that an eigendecomposition returns.
    """
    sign = signs(state.loadings.mean)
    if np.all(sign > 0):
        return state
    return state._replace(
        loadings=state.loadings.rotated(np.diag(sign), 0.0),
        scores=state.scores.rotated(np.diag(sign), 0.0),
    )


class Status(Enum):
    """How a run ended; the value is the sentence that users see."""

    CONVERGED = CONVERGED_STATUS
    MAX_ITER = "not converged: stopped at max_iter iterations; raise max_iter, or tol"
    INTERRUPTED = "interrupted: the best state so far is kept"
    OUT_OF_TIME = "out of time: stopped at max_time, with the best of what was tried by then"
    PRUNED = "stopped early: its bound could not reach the best one"
    ELBO_DECREASED = (
        "stopped: the bound fell by more than rounding error, which a right computation cannot "
        "do; rescale the data, and please report it"
    )


class Run(NamedTuple):
    """One run from one start."""

    state: VariationalState
    bound: Bound
    trace: Array
    """(n_iter,) the bound after each iteration."""
    status: Status

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.trace)

    @property
    def total(self) -> float:
        """The bound."""
        return self.bound.total


STATUS_OF_ENDING = {
    Ending.MAX_ITER: Status.MAX_ITER,
    Ending.CONVERGED: Status.CONVERGED,
    Ending.PRUNED: Status.PRUNED,
    Ending.FELL: Status.ELBO_DECREASED,
    Ending.OUT_OF_TIME: Status.OUT_OF_TIME,
    Ending.INTERRUPTED: Status.INTERRUPTED,
}


def run_iterations(
    state: VariationalState,
    source: DataSource,
    prior: CuspPrior,
    *,
    tol: float,
    max_iter: int,
    target: float = -np.inf,
    on_iteration: Callable[[int, float, VariationalState], None] | None = None,
    deadline: float = math.inf,
) -> Run:
    """Iterate until the bound grows by less than `tol`; an iteration that lowers it is rejected.

    A run is pruned when `REMAINING_GROWTH` times its last growth would not bring it to `target`. It
    ends after the iteration in which the clock of `time.monotonic` reaches the deadline. Where the
    compiled iteration knows the problem, it makes the run; it computes the same to rounding error.
    """
    limits = Limits(tol, max_iter, target, REMAINING_GROWTH, BOUND_ROUNDING, deadline)
    if can_run(state, source, prior):
        quick = run_compiled(state, source, prior, limits, on_iteration)
        if quick.bound is not None and quick.ending is not Ending.FAILED:
            status = STATUS_OF_ENDING[quick.ending]
            return Run(quick.state, quick.bound, np.array(quick.trace), status)
    return run_numpy(state, source, prior, limits, on_iteration)


def run_numpy(
    state: VariationalState,
    source: DataSource,
    prior: CuspPrior,
    limits: Limits,
    on_iteration: Callable[[int, float, VariationalState], None] | None = None,
) -> Run:
    """`run_iterations` for all data and priors, step by step."""
    trace: list[float] = []
    bound, status = None, Status.MAX_ITER
    try:
        for number in range(1, limits.max_iter + 1):
            proposal = quick_iteration(state, source, prior)
            proposed = lower_bound(proposal, source, prior, after=(state, bound))
            growth = proposed.total - bound.total if bound is not None else np.inf
            if bound is None and not np.isfinite(proposed.total):
                bound, status = Bound(-np.inf, 0.0, 0.0, 0.0, 0.0, 0.0), Status.ELBO_DECREASED
                trace.append(-np.inf)
                break
            if bound is not None and not growth >= -limits.rounding * sum(map(abs, proposed)):
                status = Status.ELBO_DECREASED
                break
            state, bound = proposal, proposed
            trace.append(bound.total)
            if on_iteration is not None:
                on_iteration(number, bound.total, state)
            if growth < limits.tol:
                # Labels and sticks converge slowly but cheaply: here the bound is to be exact.
                state = step_converge_labels(state, source, prior)
                bound = lower_bound(state, source, prior)
                growth, trace[-1] = bound.total - trace[-1], bound.total
                if growth < limits.tol:
                    status = Status.CONVERGED
                    break
            if bound.total + limits.remaining_growth * growth < limits.target:
                status = Status.PRUNED
                break
            if time.monotonic() >= limits.deadline:
                status = Status.OUT_OF_TIME
                break
    except KeyboardInterrupt:
        if bound is None:
            raise
        status = Status.INTERRUPTED
    assert bound is not None  # max_iter >= 1
    return Run(with_sign_rule(state), bound, np.array(trace), status)
