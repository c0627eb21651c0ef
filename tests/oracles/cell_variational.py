"""A variational run for columns of which each cell has a weight of its own: a reference.

It maximises over normal distributions of the scores of each row and the loadings of each column.
A fit of the package integrates scores out by expectation propagation instead. Without uncertainty
of the loadings the objective is a lower bound of log p(x, Λ). With it λ_jᵀη_i is not normal and
only its first two moments are right: the objective is a surrogate of the bound, exact for
continuous columns.

The steps are pure functions of state and model. Scores and loadings take a step along the natural
gradient: with w_ij = −e2_ij,

    V_i⁻¹ = I + Σ_j w_ij E[λ_jλ_jᵀ],      m_i += V_i {Σ_j (e1_ij μ_j − w_ij V_λj m_i) − m_i},
    V_λj⁻¹ = T + Σ_i w_ij E[η_iη_iᵀ],     μ_j += V_λj {Σ_i (e1_ij m_i − w_ij V_i μ_j) − Tμ_j}.

A row or column whose part of the objective would fall takes half of the step, and so on. For
continuous columns a whole step is the exact maximum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cuspfa import CuspPrior
from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.inference.cellwise.state import RowScores, flat, linear_moments, outer
from cuspfa.inference.variational.elbo import Bound
from cuspfa.inference.variational.px_step import best_scale_rotation
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.likelihoods.base import CellExpectations, Likelihood
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood, ContinuousParameters
from cuspfa.model.likelihoods.gaussian import noise_bound, update_noise
from cuspfa.model.likelihoods.mixed import MixedLikelihood
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from cuspfa.model.slabs import LOG_2PI, Slab

STEP_HALVINGS = 12
"""Of a step that would lower the objective; then the row or column stays as it is."""
LEAST_SHIFT = 1e-2
"""Twice the nats that a step of the locations must be worth."""
STEP_ROUNDING = 1e-11
"""A fall by less than this part of a row's or column's terms is rounding error."""
DIFFERENCE, SMALLEST_GAP = 1e-3, 1e-6
"""Of numerical derivatives by cut-points; the least difference of two cut-points."""
FALL_ROUNDING = 1e-10
"""A fall of the objective by less than this part of the sum of its terms' absolute values is
rounding error."""


class CellModel(NamedTuple):
    """The data and what is given."""

    values: Array
    """(n, p), as `Likelihood.check` returns them."""
    likelihood: Likelihood
    prior: CuspPrior
    """With its spike at zero. The noise of continuous columns is that of the likelihood."""
    point_loadings: bool = False
    """Loadings have no uncertainty: V_λ = 0."""

    def expectations(
        self, mean: Array, variance: Array, parameters: Any, rows: Indices | None = None
    ) -> CellExpectations:
        """Of the cells of all rows, or of some."""
        values = self.values if rows is None else self.values[rows]
        return self.likelihood.expectations(values, mean, variance, parameters)


class RunState(NamedTuple):
    """q and the parameters of the likelihood: all that the next iteration needs."""

    loadings: RowwiseLoadings
    scores: RowScores
    parameters: Any
    """Of the likelihood."""
    slab: Slab
    """The prior's slab, with its hyperparameters as updated so far."""
    cells: CellExpectations
    """Expectations at this state."""

    @property
    def n_factors(self) -> int:
        """K."""
        return int(self.loadings.mean.shape[1])


def divergence(scores: RowScores) -> Array:
    """(n,) KL of each row's scores from their prior N(0, I)."""
    k = scores.mean.shape[1]
    trace = np.trace(scores.covariance, axis1=1, axis2=2)
    return np.asarray(0.5 * (trace + np.sum(scores.mean**2, axis=1) - k - scores.log_det))


def total_of(scores: RowScores) -> Array:
    """(K, K) Σ_i E[η_i η_iᵀ]."""
    return np.asarray(scores.mean.T @ scores.mean + scores.covariance.sum(axis=0))


def evaluated(state: RunState, model: CellModel) -> RunState:
    """The state with the expectations that belong to it."""
    mean, variance = linear_moments(state.loadings, state.scores)
    return state._replace(cells=model.expectations(mean, variance, state.parameters))


def objective(state: RunState, model: CellModel) -> Bound:
    """The bound or its surrogate as named terms; `noise` is the term of all parameters.

    For loadings without uncertainty their term is the log density of the prior.
    """
    p, k = state.loadings.mean.shape
    density = state.slab.log_density(state.loadings.column_squared_norm, p)
    loadings = float(np.sum(density)) + state.slab.log_hyperprior()
    if not model.point_loadings:
        loadings += 0.5 * (state.loadings.log_det + p * k * (1.0 + LOG_2PI))
    return Bound(
        likelihood=float(np.sum(state.cells.value)),
        loadings=loadings,
        scores=-float(np.sum(divergence(state.scores))),
        noise=log_prior(model.likelihood, state.parameters),
        labels=model.prior.log_count_probability(k),
        sticks=0.0,
    )


def log_prior(likelihood: Likelihood, parameters: Any) -> float:
    """E[log p] − E[log q] of the parameters; the log density where these are numbers."""
    if isinstance(likelihood, MixedLikelihood):
        pairs = zip(likelihood.parts, parameters, strict=True)
        return sum(log_prior(part.likelihood, own) for part, own in pairs)
    if isinstance(likelihood, ContinuousLikelihood):
        return noise_bound(parameters.noise, noise_prior(likelihood))
    assert isinstance(likelihood, OrdinalLikelihood)
    return float(likelihood.log_packed_density(parameters).sum())


def noise_prior(likelihood: ContinuousLikelihood) -> CuspPrior:
    """The prior of the noise variances of continuous columns."""
    return CuspPrior(noise_shape=likelihood.noise_shape, noise_rate=likelihood.noise_rate)


def updated(
    likelihood: Likelihood, values: Array, mean: Array, variance: Array, parameters: Any
) -> Any:
    """Parameters with a larger Σ e0 + `log_prior`: the best of continuous columns."""
    if isinstance(likelihood, MixedLikelihood):
        cells = likelihood._cells(values, mean, variance, parameters)
        return tuple(updated(part, *own) for part, own in cells)
    if isinstance(likelihood, OrdinalLikelihood):
        return updated_cuts(likelihood, values, mean, variance, parameters)
    assert isinstance(likelihood, ContinuousLikelihood)
    observed = ~np.isnan(values)
    counts = observed.sum(axis=0)
    location = parameters.location
    if not likelihood.fixed_location:
        location = np.nansum(values - mean, axis=0) / counts
    squares = np.where(observed, (values - location - mean) ** 2 + variance, 0.0)
    noise = update_noise(squares.sum(axis=0), counts, noise_prior(likelihood))
    return ContinuousParameters(location, noise)


def updated_cuts(
    likelihood: OrdinalLikelihood, values: Array, mean: Array, variance: Array, cuts: Array
) -> Array:
    """A Newton step for κ_j1 and the logarithms of differences, by numerical derivatives.

    A column whose value would fall takes half of the step, and so on.
    """
    finite = np.isfinite(cuts)
    size = cuts.shape[1]

    def moved(step: Array) -> Array:
        safe = np.where(finite, cuts, 0.0)
        gaps = np.where(finite[:, 1:], np.diff(safe, axis=1), 1.0) * np.exp(step[:, 1:])
        first = safe[:, :1] + step[:, :1]
        places = np.cumsum(np.concatenate([first, np.maximum(gaps, SMALLEST_GAP)], axis=1), axis=1)
        return np.where(finite, places, np.inf)

    def value(step: Array) -> Array:
        at = moved(step)
        cells = likelihood.expectations(values, mean, variance, at)
        return np.asarray(cells.value.sum(axis=0) + likelihood.log_packed_density(at))

    unit = DIFFERENCE * np.eye(size)[:, None, :] * finite
    here = value(np.zeros(cuts.shape))
    up, down = ([value(sign * one) for one in unit] for sign in (1.0, -1.0))
    slope = (np.array(up) - np.array(down)).T / (2.0 * DIFFERENCE)
    bend = np.empty((len(cuts), size, size))
    for c, d in np.ndindex(size, size):
        corners = [value(s * unit[c] + t * unit[d]) * s * t for s in (1, -1) for t in (1, -1)]
        bend[:, c, d] = np.sum(corners, axis=0) / (4.0 * DIFFERENCE**2)
    # Of a bound that is not concave here, or hardly curved, the step is a bounded one uphill.
    curved, axes = np.linalg.eigh(-bend)
    curved = np.maximum(np.abs(curved), 1e-3 + np.abs(slope).max(axis=1, keepdims=True) / 2.0)
    step = np.einsum("jab,jb,jcb,jc->ja", axes, 1.0 / curved, axes, slope)
    for _ in range(STEP_HALVINGS):
        worse = ~(value(step) >= here)
        if not np.any(worse):
            break
        step[worse] /= 2.0
    step[worse] = 0.0
    return moved(step)


def step_row_scores(state: RunState, model: CellModel) -> RunState:
    """The scores of each row."""
    loadings, old, cells = state.loadings, state.scores, state.cells
    k, w = state.n_factors, cells.weights
    second = outer(loadings.mean) + loadings.covariance
    precision = (w @ flat(second)).reshape(len(w), k, k) + np.eye(k)
    gradient = cells.slope @ loadings.mean - old.mean
    if np.any(loadings.covariance):
        pull = (w @ flat(loadings.covariance)).reshape(len(w), k, k)
        gradient -= (pull @ old.mean[:, :, None])[:, :, 0]

    def part_of_way(rows: Indices, part: float) -> RowScores:
        target = precision[rows]
        if part < 1.0:
            before = np.linalg.inv(old.covariance[rows])
            target = (1.0 - part) * before + part * target
        covariance = _inverse(target)
        mean = old.mean[rows] + part * (covariance @ gradient[rows][:, :, None])[:, :, 0]
        return RowScores(mean, covariance, -np.linalg.slogdet(target)[1])

    before = cells.value.sum(axis=1) - divergence(old)
    slack = STEP_ROUNDING * (np.abs(cells.value).sum(axis=1) + divergence(old))
    found, values = _copies(old), _copies(cells)
    rows, part = np.arange(len(old.mean)), 1.0
    for _ in range(STEP_HALVINGS):
        trial = part_of_way(rows, part)
        mean, variance = linear_moments(loadings, trial)
        there = model.expectations(mean, variance, state.parameters, rows)
        after = there.value.sum(axis=1) - divergence(trial)
        good: BoolArray = after >= before[rows] - slack[rows]
        for whole, piece in zip((*found, *values), (*trial, *there), strict=True):
            whole[rows[good]] = piece[good]
        rows, part = rows[~good], part / 2
        if not len(rows):
            break
    return state._replace(scores=RowScores(*found), cells=CellExpectations(*values))


def step_column_loadings(state: RunState, model: CellModel) -> RunState:
    """The loadings of each column, with the slab at the precisions it has now."""
    old, scores, cells = state.loadings, state.scores, state.cells
    (p, k), w = old.mean.shape, cells.weights
    t = state.slab.precision(old.column_squared_norm, p)
    second = (w.T @ flat(outer(scores.mean) + scores.covariance)).reshape(p, k, k)
    precision = second + np.diag(t)
    spread = (w.T @ flat(scores.covariance)).reshape(p, k, k)
    gradient = cells.slope.T @ scores.mean - (spread @ old.mean[:, :, None])[:, :, 0]
    gradient -= t * old.mean
    certain = not np.any(old.covariance)

    def part_of_way(columns: Indices, part: float) -> tuple[Array, Array, Array]:
        """Means, covariances and their log-determinants."""
        target = precision[columns]
        if part < 1.0 and not certain:
            target = (1.0 - part) * np.linalg.inv(old.covariance[columns]) + part * target
        covariance = _inverse(target)
        mean = old.mean[columns] + part * (covariance @ gradient[columns][:, :, None])[:, :, 0]
        if model.point_loadings:
            return mean, np.zeros_like(covariance), np.zeros(len(mean))
        return mean, covariance, -np.linalg.slogdet(target)[1]

    def prior_part(mean: Array, covariance: Array, log_det: Array) -> Array:
        own = mean**2 + np.diagonal(covariance, axis1=1, axis2=2)
        return np.asarray(0.5 * (log_det - own @ t))

    # Loadings without uncertainty have no density: a start, which any distribution improves.
    starts = certain and not model.point_loadings
    with np.errstate(divide="ignore"):
        log_dets = np.zeros(p) if certain else np.linalg.slogdet(old.covariance)[1]
    before = cells.value.sum(axis=0) + prior_part(old.mean, old.covariance, log_dets)
    before = np.full(p, -np.inf) if starts else before
    slack = STEP_ROUNDING * np.abs(cells.value).sum(axis=0)
    found, values = (old.mean.copy(), old.covariance.copy(), log_dets.copy()), _copies(cells)
    columns, part = np.arange(p), 1.0
    for _ in range(STEP_HALVINGS):
        trial = part_of_way(columns, part)
        for whole, piece in zip(found, trial, strict=True):
            whole[columns] = piece
        loadings = RowwiseLoadings(found[0], found[1], np.zeros((p, k)), 0.0)
        mean, variance = linear_moments(loadings, scores)
        there = model.expectations(mean, variance, state.parameters)
        after = there.value.sum(axis=0)[columns] + prior_part(*trial)
        good: BoolArray = after >= before[columns] - slack[columns]
        for whole, piece in zip(values, there, strict=True):
            whole[:, columns[good]] = piece[:, columns[good]]
        columns, part = columns[~good], part / 2
        if not len(columns):
            break
    for whole, piece in zip(found, (old.mean, old.covariance, log_dets), strict=True):
        whole[columns] = piece[columns]
    loadings = RowwiseLoadings(found[0], found[1], np.zeros((p, k)), float(found[2].sum()))
    return state._replace(loadings=loadings, cells=CellExpectations(*values))


def step_parameters(state: RunState, model: CellModel) -> RunState:
    """The parameters of the likelihood: cut-points, locations, noise."""
    mean, variance = linear_moments(state.loadings, state.scores)
    parameters = updated(model.likelihood, model.values, mean, variance, state.parameters)
    return state._replace(
        parameters=parameters, cells=model.expectations(mean, variance, parameters)
    )


def step_px(state: RunState, model: CellModel) -> RunState:
    """Rescale and rotate the factors to the best objective; no cell changes."""
    if not state.n_factors:
        return state
    p, n = len(state.loadings.mean), float(len(model.values))
    second = state.loadings.weighted_gram(np.ones(p))
    # Without the entropy of the loadings the Jacobian of the scores stands alone.
    counted = n + p if model.point_loadings else n
    best = best_scale_rotation(total_of(state.scores), second, state.slab, counted, p)
    if best is None:
        return state
    loadings = state.loadings.rotated(best.r_inverse, best.log_det)
    if model.point_loadings:
        loadings = loadings._replace(log_det=0.0)
    return state._replace(loadings=loadings, scores=state.scores.rotated(best.r, best.log_det))


def step_shift(state: RunState, model: CellModel) -> RunState:
    """Scores less their mean over the rows, which goes to the locations of the columns.

    For loadings without uncertainty no cell changes. Otherwise the step is kept if the objective
    does not fall.
    """
    shift = state.scores.mean.mean(axis=0)
    if len(model.values) * float(shift @ shift) < LEAST_SHIFT:
        return state
    scores = state.scores._replace(mean=state.scores.mean - shift)
    amount = -state.loadings.mean @ shift
    parameters = model.likelihood.shifted(state.parameters, amount)
    moved = evaluated(state._replace(scores=scores, parameters=parameters), model)

    def total(at: RunState) -> float:
        own = float(np.sum(at.cells.value) - np.sum(divergence(at.scores)))
        return own + log_prior(model.likelihood, at.parameters)

    return moved if total(moved) >= total(state) else state


def step_hyperparameters(state: RunState, model: CellModel) -> RunState:
    """Update of the slab's hyperparameters, which all columns share."""
    squared_norm = state.loadings.column_squared_norm
    p = len(state.loadings.mean)
    return state._replace(slab=state.slab.update_hyperparameters(squared_norm, p))


def _inverse(matrices: Array) -> Array:
    found = np.linalg.inv(matrices)
    return np.asarray((found + found.swapaxes(-1, -2)) / 2, dtype=float)


def _copies(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(array.copy() for array in arrays)


CELL_STEPS = (
    step_row_scores,
    step_px,
    step_shift,
    step_column_loadings,
    step_parameters,
    step_hyperparameters,
)
"""Scores, then the direction in which scores and loadings move together, then the rest."""


class CellRun(NamedTuple):
    """One run from one start."""

    state: RunState
    bound: Bound
    """The objective; a lower bound for loadings without uncertainty, otherwise its surrogate."""
    trace: Array
    """(n_iter,) the objective after each iteration."""
    falls: int
    """Iterations that lowered the objective by more than rounding error."""
    converged: bool


def start_at(
    loadings: Array, model: CellModel, parameters: object = None, slab: Slab | None = None
) -> RunState:
    """The state with these loadings (p, K), without uncertainty, and scores at their prior."""
    (p, k), n = loadings.shape, len(model.values)
    known = model.likelihood.initial(model.values) if parameters is None else parameters
    certain = RowwiseLoadings(loadings, np.zeros((p, k, k)), np.zeros((p, k)), 0.0)
    scores = RowScores(np.zeros((n, k)), np.tile(np.eye(k), (n, 1, 1)), np.zeros(n))
    cells = model.expectations(*linear_moments(certain, scores), known)
    return RunState(certain, scores, known, model.prior.slab if slab is None else slab, cells)


def cell_iteration(state: RunState, model: CellModel) -> RunState:
    """One whole iteration."""
    for step in CELL_STEPS:
        state = step(state, model)
    return state


def run_cells(
    state: RunState, model: CellModel, *, tol: float = 0.01, max_iter: int = 500
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
