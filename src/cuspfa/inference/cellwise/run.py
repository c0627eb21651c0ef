"""The loop over single cells: a start, and iterations until the objective converges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.inference.cellwise.state import (
    CellModel,
    CellState,
    RowScores,
    linear_moments,
    objective,
)
from cuspfa.inference.cellwise.steps import (
    step_column_loadings,
    step_hyperparameters,
    step_parameters,
    step_px,
    step_row_scores,
    step_shift,
)
from cuspfa.inference.variational.elbo import Bound
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.slabs import Slab

CELL_STEPS = (
    step_row_scores,
    step_px,
    step_shift,
    step_column_loadings,
    step_parameters,
    step_hyperparameters,
)
"""Scores, then the direction in which scores and loadings move together, then the rest."""

START_SHARE = 0.95
"""Largest share of the variance of a column that a start gives to the factors."""
FALL_ROUNDING = 1e-10
"""A fall of the objective by less than this part of the sum of its terms' absolute values is
rounding error."""


class CellRun(NamedTuple):
    """One run from one start."""

    state: CellState
    bound: Bound
    """The objective; a lower bound for loadings without uncertainty, otherwise its surrogate."""
    trace: Array
    """(n_iter,) the objective after each iteration."""
    falls: int
    """Iterations that lowered the objective by more than rounding error."""
    converged: bool


def start_at(
    loadings: Array, model: CellModel, parameters: object = None, slab: Slab | None = None
) -> CellState:
    """The state with these loadings (p, K), without uncertainty, and scores at their prior."""
    (p, k), n = loadings.shape, len(model.values)
    known = model.likelihood.initial(model.values) if parameters is None else parameters
    certain = RowwiseLoadings(loadings, np.zeros((p, k, k)), np.zeros((p, k)), 0.0)
    scores = RowScores(np.zeros((n, k)), np.tile(np.eye(k), (n, 1, 1)), np.zeros(n))
    cells = model.expectations(*linear_moments(certain, scores), known)
    return CellState(certain, scores, known, model.prior.slab if slab is None else slab, cells)


def principal_factors(values: Array, k: int) -> Array:
    """(p, k) loadings of a start: principal factors of the correlations of the values.

    They are given for a noise of one, as the probit link has it.
    """
    centred = values - np.nanmean(values, axis=0)
    scaled = np.nan_to_num(centred / np.nanstd(values, axis=0))
    observed = (~np.isnan(values)).astype(float)
    together = np.maximum(observed.T @ observed, 1.0)
    correlation = scaled.T @ scaled / together
    shares = np.full(len(correlation), 0.5)
    for _ in range(3):
        np.fill_diagonal(correlation, shares)
        found, vectors = np.linalg.eigh(correlation)
        own = vectors[:, ::-1][:, :k] * np.sqrt(np.maximum(found[::-1][:k], 1e-3))
        shares = np.minimum(np.sum(own**2, axis=1), START_SHARE)
    own *= np.sqrt(shares / np.maximum(np.sum(own**2, axis=1), 1e-12))[:, None]
    return np.asarray(own / np.sqrt(1.0 - shares)[:, None])


def cell_iteration(state: CellState, model: CellModel) -> CellState:
    """One whole iteration."""
    for step in CELL_STEPS:
        state = step(state, model)
    return state


def run_cells(
    state: CellState, model: CellModel, *, tol: float = 0.01, max_iter: int = 500
) -> CellRun:
    """Iterate until the objective grows by less than `tol` nats."""
    trace: list[float] = []
    falls, converged, bound = 0, False, objective(state, model)
    for _ in range(max_iter):
        state = cell_iteration(state, model)
        bound = objective(state, model)
        growth = bound.total - trace[-1] if trace else np.inf
        trace.append(bound.total)
        if growth < -FALL_ROUNDING * sum(map(abs, bound)):
            falls += 1
        if abs(growth) < tol:
            converged = True
            break
    return CellRun(state, bound, np.array(trace), falls, converged)
