"""The only loop: cycles until the bound settles, from one start or from many."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from cuspfa._types import Array
from cuspfa.data.source import DataSource
from cuspfa.prior import CuspPrior
from cuspfa.variational.bound import Bound, lower_bound
from cuspfa.variational.cycle import State, cycle
from cuspfa.variational.starts import draw_start

ROUNDING = 1e-10
"""A fall of the bound by less than this part of its size is rounding error."""


class Status(Enum):
    """How a run ended; the value is what to tell the user."""

    CONVERGED = "converged: the bound grew by less than tol in the last cycle"
    MAX_ITER = "not converged: stopped at max_iter cycles; raise max_iter, or tol"
    BOUND_FELL = (
        "stopped: the bound fell by more than rounding error, which a right computation cannot "
        "do; rescale the data, and please report it"
    )


class Progress(NamedTuple):
    """What a callback is told after each cycle."""

    start: int
    n_starts: int
    cycle: int
    lower_bound: float
    expected_active_factors: float


Callback = Callable[[Progress], None]


class Run(NamedTuple):
    """One run from one start."""

    state: State
    bound: Bound
    trace: Array
    """(n_iter,) the bound after each cycle."""
    status: Status

    @property
    def n_iter(self) -> int:
        """Number of cycles."""
        return len(self.trace)


def run(
    state: State,
    source: DataSource,
    prior: CuspPrior,
    *,
    tol: float,
    max_iter: int,
    on_cycle: Callable[[int, float, State], None] | None = None,
) -> Run:
    """Cycle until the bound grows by less than `tol`; a cycle that lowers it is refused."""
    trace: list[float] = []
    bound, status = None, Status.MAX_ITER
    for number in range(1, max_iter + 1):
        proposal = cycle(state, source, prior)
        proposed = lower_bound(proposal, source, prior)
        growth = proposed.total - bound.total if bound is not None else np.inf
        if not growth >= -ROUNDING * abs(proposed.total) and bound is not None:
            status = Status.BOUND_FELL
            break
        state, bound = proposal, proposed
        trace.append(bound.total)
        if on_cycle is not None:
            on_cycle(number, bound.total, state)
        if growth < tol:
            status = Status.CONVERGED
            break
    assert bound is not None  # max_iter >= 1
    return Run(state, bound, np.array(trace), status)


def fit_random_starts(
    source: DataSource,
    prior: CuspPrior,
    *,
    n_terms: int,
    n_init: int,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> list[Run]:
    """As published: `n_init` runs from random starts; the best is the one of highest bound."""
    runs = []
    for start, stream in enumerate(rng.spawn(n_init), start=1):

        def report(number: int, bound: float, state: State, start: int = start) -> None:
            if callback is not None:
                callback(Progress(start, n_init, number, bound, state.expected_active))

        state = draw_start(source, prior, n_terms, stream)
        runs.append(run(state, source, prior, tol=tol, max_iter=max_iter, on_cycle=report))
    return runs


def best(runs: list[Run]) -> Run:
    """The run of highest bound."""
    return max(runs, key=lambda one: one.bound.total)
