"""The loop: iterations until the bound converges, each pair of them extrapolated.

Two iterations give the differences r and v of the logarithms of all shapes and rates; the state
moved along them by SQUAREM's step is kept if its bound is higher. So the bound never falls.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.state import (
    CountBound,
    CountState,
    StateParameters,
    gammas,
    iteration,
    lower_bound,
    state_of,
    step_converge_labels,
)
from cuspfa.inference.variational.run import BOUND_ROUNDING, Status
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior

LONGEST = 64.0
"""The longest extrapolation, in iterations."""
ROWS = 1 << 13
"""Rows of distributions that are extrapolated at a time: their logarithms take memory."""


class CountRun(NamedTuple):
    """One run from one start."""

    state: CountState
    bound: CountBound
    trace: Array
    """The bound after each iteration."""
    status: Status

    @property
    def total(self) -> float:
        """The bound."""
        return self.bound.total

    def with_hyperprior(self, log_density: float) -> CountRun:
        """The run with the log density of hyperparameters that it took as given."""
        bound = self.bound._replace(loadings=self.bound.loadings + log_density)
        return self._replace(bound=bound, trace=self.trace + log_density)


class RunLimits(NamedTuple):
    """When a run ends."""

    tol: float
    """It has converged when two iterations raise the bound by less, in nats."""
    max_iter: int = 2000
    """Most iterations."""
    deadline: float = math.inf
    """When it ends, on the clock of `time.monotonic`."""
    accelerate: bool = True
    """Are iterations extrapolated?"""


def run_iterations(
    state: CountState,
    data: Counts,
    prior: PoissonFactorizationPrior,
    limits: RunLimits,
    on_iteration: Callable[[int, float, CountState], None] | None = None,
) -> CountRun:
    """Iterate until the bound grows by less than `tol`."""
    constant, trace, status = data.constant, [], Status.MAX_ITER

    def bound_of(one: CountState) -> CountBound:
        return lower_bound(one, data, prior, constant)

    def step(one: CountState, before: CountBound) -> tuple[CountState, CountBound]:
        after = iteration(one, data, prior)
        bound = bound_of(after)
        trace.append(bound.total)
        if not bound.total - before.total >= -BOUND_ROUNDING * sum(map(abs, bound)):
            raise _FellError
        if on_iteration is not None:
            on_iteration(len(trace), bound.total, after)
        return after, bound

    bound, longest = bound_of(state), 4.0
    if not math.isfinite(bound.total):  # no factor, and counts
        return CountRun(state, bound, np.array([bound.total]), Status.CONVERGED)
    try:
        while len(trace) < limits.max_iter:
            # Of the states before, no more is kept than what is extrapolated.
            start, began = state.parameters, bound
            state, bound = step(state, bound)
            middle = state.parameters
            state, bound = step(state, bound)
            growth = bound.total - began.total
            if growth < limits.tol:
                state = step_converge_labels(state, data, prior)
                better = bound_of(state)
                growth, bound = growth + better.total - bound.total, better
                if growth < limits.tol:
                    status = Status.CONVERGED
                    break
            if time.monotonic() >= limits.deadline:
                status = Status.OUT_OF_TIME
                break
            if limits.accelerate:
                jumped, length = extrapolated(start, middle, state, data, prior, longest)
                if jumped is not None:
                    there = bound_of(jumped)
                    if there.total > bound.total:
                        state, bound = jumped, there
                        if length >= longest:
                            longest = min(2 * longest, LONGEST)
                    else:
                        longest = max(longest / 2, 2.0)
    except _FellError:
        trace.pop()
        status = Status.ELBO_DECREASED
    except KeyboardInterrupt:
        if not trace:
            raise
        status = Status.INTERRUPTED
    return CountRun(state, bound, np.array(trace), status)


class _FellError(Exception):
    pass


def extrapolated(
    start: StateParameters,
    middle: StateParameters,
    end: CountState,
    data: Counts,
    prior: PoissonFactorizationPrior,
    longest: float,
) -> tuple[CountState | None, float]:
    """The state that SQUAREM's step leads to, and its length; None if the step is short.

    Logarithms are weighted by the shape: the larger it is, the smaller is the variance of the
    logarithm of a gamma variable.
    """
    squared_r = squared_v = 0.0
    for name in ("scores", "loadings"):
        one, two, three = getattr(start, name), getattr(middle, name), getattr(end, name)
        for part in ("shape", "rate"):
            a, b, c = (getattr(gamma, part) for gamma in (one, two, three))
            one_rate = max(map(len, (a, b, c))) < len(three.shape)
            weight = three.shape.sum(axis=0)[None, :] if one_rate else three.shape
            for rows, _, _, r, v in _logarithms(a, b, c):
                squared_r += float(np.sum(weight[rows] * r**2))
                squared_v += float(np.sum(weight[rows] * v**2))
    length = math.sqrt(squared_r / squared_v) if squared_v > 0 else 1.0
    length = min(length, longest)
    if length <= 1.0:
        return None, length

    def along(a: Array, b: Array, c: Array) -> Array:
        out = np.empty((max(map(len, (a, b, c))), a.shape[1]))
        for rows, first, last, r, v in _logarithms(a, b, c):
            moved = first + 2 * length * r + length**2 * v
            out[rows] = np.exp(np.clip(moved, last - 3.0, last + 3.0))
        return out

    parts = []
    for name in ("scores", "loadings"):
        three = [getattr(one, name) for one in (start, middle, end)]
        shape = along(*(one.shape for one in three))
        parts.append(gammas(shape, along(*(one.rate for one in three))))
    jumped = state_of(parts[0], parts[1], data, end.hyper, prior)
    if prior.spike is not None:
        jumped = jumped._replace(labels=end.labels, sticks=end.sticks, active=end.active)
    return jumped, length


def _logarithms(a: Array, b: Array, c: Array) -> Iterator[tuple[slice, Array, Array, Array, Array]]:
    """By blocks of rows: those of a and of c, the first difference, and the second.

    One row of one of them belongs to all rows of the others.
    """
    for i in range(0, max(map(len, (a, b, c))), ROWS):
        rows = slice(i, i + ROWS)
        first, middle, last = (np.log(one if len(one) == 1 else one[rows]) for one in (a, b, c))
        yield rows, first, last, middle - first, last - 2 * middle + first
