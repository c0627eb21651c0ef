"""The Gibbs sampler: state, sweep and loop.

A sweep draws scores given (Λ, σ²), loadings and noise given them (`data_kernels.py`), then labels,
sticks and the variances θ_h (`labels.py`). In an adaptive sampler the number of columns changes at
the end of a sweep.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa.inference.gibbs.compiled_chain import can_sweep, sweep_compiled
from cuspfa.inference.gibbs.data_kernels import DataKernel, Rest
from cuspfa.inference.gibbs.labels import (
    ProcessColumns,
    adapt,
    draw_labels,
    draw_sticks,
    first_columns,
    log_odds,
)
from cuspfa.inference.kernels import (
    HYPER_STEPS,
    Chains,
    Scales,
    draw_scales,
    flip,
    rotate_loadings,
)
from cuspfa.model.prior import CuspPrior

if TYPE_CHECKING:
    from cuspfa.inference.gibbs.checkpoints import GroupFiles

NO_COLUMNS = np.zeros(0, dtype=np.intp)


class Model(NamedTuple):
    """What does not change from sweep to sweep."""

    data: DataKernel
    prior: CuspPrior
    spike: float
    """θ_∞."""
    most: int
    """The most columns a chain may hold."""
    start_adapt: int | None
    """Sweep from which the number of columns changes; None: never."""
    adapt_rate: tuple[float, float]
    """α_0 and α_1: it changes at sweep t with probability exp(α_0 + α_1 t)."""
    scale_rotation_every: int
    """Sweeps between scale-rotation moves; 0: none."""


class GibbsState(NamedTuple):
    """B chains; `columns` is None where the number of factors is given."""

    chains: Chains
    columns: ProcessColumns | None
    rest: Rest = ()
    """What the data need beside these."""


def sweep(state: GibbsState, at: int, model: Model, rng: np.random.Generator) -> GibbsState:
    """The state after sweep number `at` (from 1 on)."""
    chains, columns, rest = state
    moved = NO_COLUMNS
    if model.scale_rotation_every and at % model.scale_rotation_every == 0:
        free = chains.scales.free if columns is not None else None
        width = chains.loadings.shape[2]
        moved = np.arange(width) if free is None else np.flatnonzero(free.any(axis=0))
    chains, rest = model.data.draw(chains, rest, moved, model.prior, rng)
    if len(moved) > 1:
        chains = rotate_loadings(chains, moved, model.prior.slab, rng)
    squared_norm = np.einsum("jbh,jbh->bh", chains.loadings, chains.loadings)
    p, slab = len(chains.noise), model.prior.slab
    if columns is None:
        scales = draw_scales(squared_norm, chains.scales, slab, p, rng)
        return GibbsState(chains._replace(scales=scales), None, rest)
    odds = log_odds(squared_norm, chains.scales, model.prior, model.spike, p)
    active, counts = draw_labels(odds, columns, rng)
    log_s = draw_sticks(counts, active.shape[1], model.prior, rng)
    columns = ProcessColumns(active, log_s, columns.terms)
    scales = draw_scales(squared_norm, with_labels(chains.scales, columns, model), slab, p, rng)
    chains = chains._replace(scales=scales)
    if model.start_adapt is not None and at >= model.start_adapt:
        rate = math.exp(min(model.adapt_rate[0] + model.adapt_rate[1] * at, 0.0))
        chosen = rng.random(len(active)) < rate
        chains, columns = adapt(chains, columns, chosen, model.spike, model.most, model.prior, rng)
    return GibbsState(chains, columns, rest)


def sweep_repeatedly(
    state: GibbsState, first: int, number: int, model: Model, rng: np.random.Generator
) -> GibbsState:
    """The state after `number` sweeps, the first of them of number `first`.

    They are compiled where the core knows the problem.
    """
    if can_sweep(state, model):
        return sweep_compiled(state, first, number, model, rng)
    for at in range(first, first + number):
        state = sweep(state, at, model, rng)
    return state


def with_labels(scales: Scales, columns: ProcessColumns, model: Model) -> Scales:
    """Scales whose inactive columns have the spike's variance; active ones are drawn next."""
    given = model.prior.slab.active_variances(scales.variances)
    variances = np.where(columns.active, given, model.spike)
    variances[np.arange(variances.shape[1]) >= columns.terms[:, None]] = 0.0
    return scales._replace(variances=variances, free=columns.active)


def begin(
    loadings: Array,
    noise: Array,
    active: BoolArray | None,
    model: Model,
    rng: np.random.Generator,
    location: Array | None = None,
) -> GibbsState:
    """A state from loadings (p, B, H), noise (p, B) and the active columns (B, H).

    `active` None means that the number of factors is given, and all columns are. `location` (p,)
    are the means of incomplete columns; None means those of what was observed.
    """
    p, size, _ = loadings.shape
    slab = model.prior.slab
    squared_norm = np.einsum("jbh,jbh->bh", loadings, loadings)
    variances = slab.active_variances(np.ones_like(squared_norm))
    scales = Scales(variances, slab.start_hyperparameters(size))
    columns = None
    if active is not None:
        columns = first_columns(active, model.prior, rng)
        scales = with_labels(scales, columns, model)
    scales = draw_scales(squared_norm, scales, slab, p, rng, steps=10 * HYPER_STEPS)
    rest = model.data.start(size, location, rng)
    return GibbsState(Chains(loadings, noise, scales), columns, rest)


class SweepPlan(NamedTuple):
    """How many sweeps, and which of them are kept."""

    n_draws: int
    burn_in: int
    thin: int

    @property
    def sweeps(self) -> int:
        """Sweeps of each chain, burn-in included."""
        return self.burn_in + self.thin * self.n_draws

    def next_stop(self, at: int) -> int:
        """The next sweep after `at` that is kept, or has a checkpoint, or is the last."""
        checkpoint = (at // SWEEPS_PER_CHECKPOINT + 1) * SWEEPS_PER_CHECKPOINT
        after = max(at - self.burn_in, 0)
        kept = self.burn_in + (after // self.thin + 1) * self.thin
        return min(checkpoint, kept, self.sweeps)

    def keeps(self, at: int) -> bool:
        """Is the state after this sweep kept as a draw?"""
        return at > self.burn_in and (at - self.burn_in) % self.thin == 0


class Kept(NamedTuple):
    """D draws of B chains, on the scale of the engine."""

    loadings: Array
    """(D, B, p, H)"""
    noise: Array
    """(D, B, p)"""
    active: BoolArray
    """(D, B, H)"""
    log_likelihood: Array
    """(D, B) with the scores integrated out; given the scores where columns are not all Gaussian.
    """
    mean: Array | None = None
    """(D, B, p) of the columns, where values are missing or columns are not all Gaussian."""
    thresholds: Array | None = None
    """(D, B, T) of ordinal columns."""


class GibbsProgress(NamedTuple):
    """The argument of a callback, after each sweep."""

    sweep: int
    n_sweeps: int
    n_factors: float
    """Active factors, mean over the chains."""
    chains: tuple[int, int]
    """First chain of the group that is drawn now, and the first of the next group."""


GibbsCallback = Callable[[GibbsProgress], object]


SWEEPS_PER_CHECKPOINT = 250
"""Sweeps between checkpoints."""
SECONDS_OF_A_CALL = 0.05
"""As many sweeps are made in one call as take about so long: between calls time and keyboard count.
"""


def run_chains(
    state: GibbsState,
    plan: SweepPlan,
    model: Model,
    rng: np.random.Generator,
    *,
    chains: tuple[int, int],
    seconds: float | None = None,
    callback: GibbsCallback | None = None,
    checkpoints: GroupFiles | None = None,
    caller: int | None = None,
    stop: threading.Event | None = None,
) -> tuple[list[Kept], int, bool]:
    """Sweep from `state`, or from the last checkpoint; draws, last sweep, and was it interrupted?

    Checkpoints use no random numbers, so the chains are the same with and without them. Where time
    ends before the first draw, the last state is the only draw. `caller` is the process that
    started this one, if any: a child process exits when its caller has ended. `stop` is set to
    interrupt a run in another thread.
    """
    child = os.getppid() == caller
    at, kept, drawn = 0, [], []
    if checkpoints is not None and (last := checkpoints.found()) is not None:
        state, at, rng.bit_generator.state = last
        kept = checkpoints.all_kept()
    end = math.inf if seconds is None else time.monotonic() + seconds
    interrupted, together = False, 1
    try:
        while at < plan.sweeps and time.monotonic() < end:
            if stop is not None and stop.is_set():
                raise KeyboardInterrupt
            number = 1 if callback is not None else min(plan.next_stop(at) - at, together)
            began = time.monotonic()
            state = sweep_repeatedly(state, at + 1, number, model, rng)
            at += number
            if time.monotonic() - began < SECONDS_OF_A_CALL:
                together = min(2 * together, SWEEPS_PER_CHECKPOINT)
            else:
                together = max(together // 2, 1)
            if child and os.getppid() != caller:
                os._exit(1)  # the caller has ended
            if plan.keeps(at):
                drawn.append(_draw_of(state, model.data))
            if at % SWEEPS_PER_CHECKPOINT == 0 or at == plan.sweeps:
                new = [join_draws(drawn)] if drawn else []
                if checkpoints is not None:
                    last_state = rng.bit_generator.state
                    checkpoints.write(new[0] if new else None, state, at, dict(last_state))
                kept, drawn = kept + new, []
            if callback is not None:
                callback(GibbsProgress(at, plan.sweeps, _mean_active(state), chains))
    except KeyboardInterrupt:
        interrupted = True
    if not kept and not drawn:
        drawn.append(_draw_of(state, model.data))
    return kept + ([join_draws(drawn)] if drawn else []), at, interrupted


def _mean_active(state: GibbsState) -> float:
    if state.columns is None:
        return float(state.chains.loadings.shape[2])
    return float(state.columns.active.sum(axis=1).mean())


def _draw_of(state: GibbsState, data: DataKernel) -> Kept:
    chains, columns, rest = state
    loadings = np.ascontiguousarray(flip(chains.loadings))
    size, _, width = loadings.shape
    active = np.ones((size, width), dtype=bool) if columns is None else columns.active
    noise, logs, *others = data.measured(chains, rest)
    further = (None if one is None else one[None] for one in others)
    return Kept(loadings[None], noise[None], active[None], logs[None], *further)


def join_draws(parts: list[Kept], axis: int = 0) -> Kept:
    """Draws one after the other (axis 0) or chains side by side (1), filled up with zeros."""
    width = max(part.active.shape[2] for part in parts)

    def joined(arrays: list[Any]) -> Any:
        ends = np.cumsum([array.shape[axis] for array in arrays])
        shape = list(arrays[0].shape)
        shape[axis], shape[-1] = int(ends[-1]), width
        found = np.zeros(shape, dtype=arrays[0].dtype)
        along = np.moveaxis(found, axis, 0)
        for array, end in zip(arrays, ends, strict=True):
            own = np.moveaxis(array, axis, 0)
            along[end - len(own) : end, ..., : own.shape[-1]] = own
        return found

    def beside(arrays: list[Array | None]) -> Array | None:
        given = [one for one in arrays if one is not None]
        return np.concatenate(given, axis=axis) if given else None

    return Kept(
        joined([part.loadings for part in parts]),
        np.concatenate([part.noise for part in parts], axis=axis),
        joined([part.active for part in parts]),
        np.concatenate([part.log_likelihood for part in parts], axis=axis),
        beside([part.mean for part in parts]),
        beside([part.thresholds for part in parts]),
    )
