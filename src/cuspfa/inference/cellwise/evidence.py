"""log p(x, K) with the scores integrated out: Laplace's method, and a bridge.

The log-likelihood Σ_i log p(x_i | Λ, ψ) is that of EP, ψ the packed parameters of the likelihood.
Rotations of Λ change neither it nor, once it is averaged over them, the prior. So target and
proposal are averages over rotations:

    target    p(x | Λ, ψ) Z(Λ) p(ψ),   Z(Λ) the average of the slab's density over all ΛQ,
    proposal  N(mode, P⁻¹) of (Λ, ψ), P the information Σ_i g_i g_iᵀ of the gradients g_i of the
              rows, plus that of the prior; averaged over rotations.

Laplace's value is their quotient at the mode. With draws from the proposal and, by exact sweeps,
from the posterior, Bennett's ratio removes what the posterior differs from a normal distribution.

With model error the log-likelihood counts `share` times, n_eff/n for a normal distribution whose
covariance has an error of its own. Exact sweeps are for a share of one.
"""

from __future__ import annotations

import math
import time
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, logsumexp

from cuspfa._typing import Array
from cuspfa._utils.linalg import polar_factor
from cuspfa.inference.cellwise.information import (
    BlockPrecision,
    InformationWay,
    Precision,
    with_positive_blocks,
)
from cuspfa.inference.cellwise.kernels import begin_cells, sweep_cells
from cuspfa.inference.cellwise.marginal import (
    DistinctRows,
    Propagated,
    corrections,
    propagate,
)
from cuspfa.inference.cellwise.row_sums import (
    PropagatedRows,
    RowBlocks,
    RowsAt,
    propagated_at,
)
from cuspfa.inference.cellwise.state import CellState, RowScores, principal_factors
from cuspfa.inference.kernels import flip, gram
from cuspfa.inference.variational.bridge_sampling import bennett, log_average_slab
from cuspfa.inference.variational.collapsed_bound import Evidence, log_volume
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.likelihoods.base import Likelihood
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import LOG_2PI, Slab

MODE_STEPS, MODE_TOLERANCE, MODE_HALVINGS = 300, 0.01, 8
"""Most steps to the mode, the expected gain in nats at which they end, and halvings of each."""
LARGEST_GAIN_LEFT = 0.5
"""Expected gain in nats of one more step, up to which the mode counts as found."""
MODE_MEMORY = 8
"""Earlier steps that correct the curvature."""
LONGEST_STEP = 2.0
"""Of a packed parameter."""
LEAST_KEPT = 0.01
"""Least part of the information with known scores that is kept in any direction where scores are
not known."""
MOST_CORRECTED = 5e4
"""Numbers that are learned times cells, for which slopes of the corrections of EP are computed."""
CORRECTION_STEPS, CORRECTION_DIFFERENCE = 3, 1e-3
"""Steps to the mode with these corrections, and the difference that gives a slope."""
MOST_LEARNED_SHARE = 0.5
"""Numbers that are learned, for each value of a column. With more of them products of gradients are
a poor estimate of the information: the two scores disagree by 8 nats with 60 rows of 15 binary
columns and 3 factors. Louis' information is used then. Of counts each column has a share of its
own, without a bridge beyond it."""
PROPOSAL_WIDTH = 1.15
"""The proposal of a bridge has so many times the covariance of Laplace's method."""
MOST_REFLECTED = 5
"""Columns, the weakest ones, whose reflections are counted one by one."""
MODE_EP_TOLERANCE, BRIDGE_EP_TOLERANCE = 1e-7, 1e-6
"""Changes of the log probability of a row at which EP ends: sums over rows need no more."""
BRIDGE_BURN_IN, BRIDGE_DRAWS_OF_A_CHAIN, BRIDGE_SWEEPS = 10, 4, 4
"""Sweeps of a chain before its first draw, draws that are kept of it, and sweeps between these."""


class CellMode(NamedTuple):
    """The mode of the posterior of (Λ, ψ) with the scores integrated out, and its curvature."""

    loadings: Array
    """(p, K), on principal axes."""
    packed: Array
    """(m,) parameters of the likelihood, as `Likelihood.pack` makes them."""
    parameters: Any
    """The parameters of the likelihood, unpacked."""
    slab: Slab
    squared_norm: Array
    """(K,) expected, of the columns of Λ; the precision of the slab belongs to them."""
    rows: DistinctRows | RowBlocks
    share: float
    """How often a row counts."""
    at: RowsAt
    """The rows at the mode."""
    log_likelihood: float
    """Σ_i log p(x_i | Λ, ψ), each row counted once, corrected by its cumulants."""
    precision: Array
    """(d, d) P of the numbers of Λ, row by row, and then of ψ; angles included."""
    rotations: Array
    """(d, K(K − 1)/2) directions in which a rotation of Λ moves them."""
    reached: bool = True
    """False where time ended before the last step."""
    found: bool = True
    """False where steps ended although one more was expected to gain more than a little."""

    @property
    def held(self) -> PropagatedRows | None:
        """The rows with their factors; None where they come by blocks."""
        return self.at if isinstance(self.at, PropagatedRows) else None


class ProposedDensity:
    """N(mode, P⁻¹) averaged over rotations of Λ."""

    def __init__(self, mode: CellMode, width: float = 1.0) -> None:
        self.mode = mode
        self.precision = mode.precision / width
        self.root = np.linalg.cholesky(self.precision)
        self.center = np.concatenate([mode.loadings.ravel(), mode.packed])
        information = mode.rotations.T @ self.precision @ mode.rotations
        self.angle_root = np.linalg.cholesky(information)
        angles, d = len(information), len(self.center)
        # Reflected, a column near zero is as near to the mode as it was: these copies count too.
        weak = np.arange(mode.loadings.shape[1]) >= mode.loadings.shape[1] - MOST_REFLECTED
        choices = [(1.0, -1.0) if one else (1.0,) for one in weak]
        self.signs = np.array(list(product(*choices)))
        # The integral over angles is that of a normal distribution, as a share of all of O(K).
        self.constant = 0.5 * (angles - d) * LOG_2PI - log_volume(mode.loadings.shape[1])
        self.constant += float(np.sum(np.log(np.diag(self.root))))
        self.constant -= float(np.sum(np.log(np.diag(self.angle_root))))

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Loadings (size, p, K) and packed parameters (size, m)."""
        z = rng.standard_normal((len(self.center), size))
        moved = self.center[:, None] + np.linalg.solve(self.root.T, z)
        p, k = self.mode.loadings.shape
        return moved[: p * k].T.reshape(size, p, k), moved[p * k :].T

    def log_density(self, loadings: Array, packed: Array) -> Array:
        """(size,), of loadings in any rotation."""
        p, k = self.mode.loadings.shape
        # Rows are weighted as the proposal does, so that the rotation is nearly its best.
        weights = np.diag(self.precision)[: p * k].reshape(p, k).mean(axis=1) if k else np.ones(p)
        towards = loadings.transpose(0, 2, 1) @ (weights[:, None] * self.mode.loadings)
        turned = loadings @ polar_factor(towards) if k else loadings
        return np.asarray(
            logsumexp([self._nearby(turned * sign, packed) for sign in self.signs], axis=0)
        )

    def _nearby(self, loadings: Array, packed: Array) -> Array:
        """What rotations near to the identity contribute, (size,)."""
        size, d = len(loadings), self.mode.loadings.size
        numbers = np.concatenate([loadings.reshape(size, d), packed], axis=1)
        delta = numbers - self.center
        whitened = delta @ self.precision
        along = np.linalg.solve(self.angle_root, (whitened @ self.mode.rotations).T)
        quadratic = np.sum(delta * whitened, axis=1) - np.sum(along**2, axis=0)
        return np.asarray(self.constant - 0.5 * quadratic)


def start_of_mode(values: Array, likelihood: Likelihood, k: int) -> tuple[Array, Any]:
    """Loadings (p, k) and parameters to start from, by correlations and shares of the values."""
    loadings = principal_factors(likelihood.start_values(values), k)
    common = np.sum(loadings**2, axis=1)
    parameters, scale = likelihood.start(values, common / (1.0 + common))
    return loadings * (scale / np.sqrt(1.0 + common))[:, None], parameters


def find_mode(
    loadings: Array,
    parameters: Any,
    slab: Slab,
    rows: DistinctRows | RowBlocks,
    likelihood: Likelihood,
    share: float = 1.0,
    deadline: float = math.inf,
) -> CellMode:
    """Scoring steps from a start, each halved until the posterior rises.

    Where the model is only approximately true the information of the gradients is not the
    curvature, and scoring alone oscillates: earlier steps correct it (BFGS). After each step
    the slab's hyperparameters are updated, where they are learned. No step begins after `deadline`,
    a time of `time.monotonic`.

    The slab counts as the normal distribution that touches its log density at the expected squared
    norms, the variance of the loadings included. Its own mode is no place for Laplace's method:
    with many columns and few rows it has factors at zero, where the density is high and has no
    volume.

    The products of gradients are no curvature where rows differ in few ways, as those of columns
    with two values: a step that does not rise however often it is halved is followed by steps with
    the information of known scores, which rise slowly and surely.
    """
    p, size = len(loadings), loadings.size
    loadings, packed = loadings @ _axes(loadings), likelihood.pack(parameters)
    counted = counted_values(rows, p)
    direct = bool(np.any(likelihood.direct))
    owner = np.concatenate([np.repeat(np.arange(p), loadings.shape[1]), likelihood.packed_owner])
    few = len(owner) > MOST_LEARNED_SHARE * counted
    way: InformationWay = "known scores" if few else "products"
    at = propagated_at(rows, likelihood, parameters, loadings, way=way)

    def curvature(loadings: Array, packed: Array, at: RowsAt, t: Array) -> tuple[Array, Precision]:
        given = likelihood, t, share, way
        gradient, matrix, _ = _curvature(loadings, packed, at, counted, *given)
        known = way == "known scores"
        return gradient, BlockPrecision(matrix, owner) if known else Precision(matrix)

    def log_posterior(loadings: Array, packed: Array, at: RowsAt) -> float:
        own = _log_own(loadings, packed, likelihood, t)
        return share * at.log_likelihood + own

    def prior_slope(loadings: Array, t: Array) -> Array:
        return np.concatenate([(t * loadings).ravel(), np.zeros(len(packed))])

    past: list[tuple[Array, Array]] = []
    part = before = np.zeros(size + len(packed))
    moved = loadings
    expected = np.sum(loadings**2, axis=0)
    t = slab.precision(expected, p)
    reached, left = True, 0.0
    for number in range(MODE_STEPS):
        if time.monotonic() > deadline:
            reached = False
            break
        gradient, precision = curvature(loadings, packed, at, t)
        # Without the slab, whose precision changes between steps.
        slope = gradient + prior_slope(loadings, t)
        if number:
            change = before - slope + prior_slope(moved, t)
            if change @ part > 0.0:
                past = [*past[1 - MODE_MEMORY :], (part, change)]
        step, here = _quasi_newton(gradient, precision, past), log_posterior(loadings, packed, at)
        left = 0.5 * float(gradient @ step)
        if left < MODE_TOLERANCE:
            break
        step = _limited(step, size)
        for halved in range(MODE_HALVINGS):
            part = step / 2**halved
            there_loadings = loadings + part[:size].reshape(loadings.shape)
            there = packed + part[size:]
            there_at = propagated_at(
                rows,
                likelihood,
                likelihood.unpack(there),
                there_loadings,
                at,
                MODE_EP_TOLERANCE,
                way,
            )
            if log_posterior(there_loadings, there, there_at) > here:
                break
        else:
            if not past and way == "known scores":
                break
            if isinstance(rows, RowBlocks) and way != "known scores":
                parameters = likelihood.unpack(packed)
                at = rows.propagated(parameters, loadings, MODE_EP_TOLERANCE, "known scores")
            past, part, way = [], np.zeros_like(part), "known scores"
            continue
        axes = _axes(there_loadings)
        loadings, packed = there_loadings @ axes, there
        # What is remembered turns with the loadings.
        moved = part[:size].reshape(loadings.shape) @ axes
        part, before = _turned(part, axes, size), _turned(slope, axes, size)
        past = [(_turned(s, axes, size), _turned(y, axes, size)) for s, y in past]
        at = there_at.rotated(axes)
        spread = precision.inverse_diagonal()[:size].reshape(loadings.shape)
        expected = np.sum(loadings**2 + spread, axis=0)
        slab = slab.update_hyperparameters(expected, p)
        t = slab.precision(expected, p)
    given = likelihood, t, share
    if reached and isinstance(at, PropagatedRows) and not direct:
        at, loadings, packed = _corrected(at, loadings, packed, *given)
    parameters = likelihood.unpack(packed)
    louis = direct or few or bool(np.any(likelihood.exact_information))
    last: InformationWay = "louis" if louis else "products"
    if isinstance(rows, RowBlocks) and last != way:
        at = rows.propagated(parameters, loadings, MODE_EP_TOLERANCE, last)
    if louis:
        whole, rotations = _louis_curvature(loadings, packed, at, rows, counted, *given)
    else:
        _, whole, rotations = _curvature(loadings, packed, at, counted, *given)
    if isinstance(rows, RowBlocks):
        beyond = rows.corrections(parameters, loadings)
    else:
        assert isinstance(at, PropagatedRows)
        own = corrections(at.found, rows.values, likelihood, parameters, loadings)
        beyond = float(rows.counts @ own)
    return CellMode(
        loadings,
        packed,
        parameters,
        slab,
        expected,
        rows,
        share,
        at,
        at.log_likelihood + beyond,
        whole,
        rotations,
        reached,
        left <= LARGEST_GAIN_LEFT,
    )


def counted_values(rows: DistinctRows | RowBlocks, p: int) -> float:
    """Mean number of values of the p columns."""
    if isinstance(rows, RowBlocks):
        return rows.counted
    return float(np.mean(rows.counts @ ~np.isnan(rows.values[:, :p])))


def _corrected(
    at: PropagatedRows,
    loadings: Array,
    packed: Array,
    likelihood: Likelihood,
    t: Array,
    share: float,
) -> tuple[PropagatedRows, Array, Array]:
    """The mode with the corrections of EP, whose slopes are differences; for small tables.

    With many items of a factor the scores are nearly normal, and EP needs no correction.
    """
    numbers: Array = np.concatenate([loadings.ravel(), packed])
    size, shape, rows = loadings.size, loadings.shape, at.rows
    counted = counted_values(rows, len(loadings))
    if len(numbers) * rows.values.size > MOST_CORRECTED:
        return at, loadings, packed

    def propagated(there: Array) -> tuple[Propagated, float]:
        own, parameters = there[:size].reshape(shape), likelihood.unpack(there[size:])
        found = propagate(rows.values, likelihood, parameters, own, at.found)
        return found, float(
            rows.counts @ corrections(found, rows.values, likelihood, parameters, own)
        )

    def log_posterior(there: Array, found: tuple[Propagated, float]) -> float:
        own = found[1] + float(rows.counts @ found[0].log_probability)
        return share * own + _log_own(there[:size].reshape(shape), there[size:], likelihood, t)

    for _ in range(CORRECTION_STEPS):
        now, packed = numbers[:size].reshape(shape), numbers[size:]
        own, here = found = propagated(numbers)
        at = PropagatedRows(rows, own)
        gradient, precision, _ = _curvature(now, packed, at, counted, likelihood, t, share)
        for i in range(len(numbers)):
            moved = numbers.copy()
            moved[i] += CORRECTION_DIFFERENCE
            gradient[i] += share * (propagated(moved)[1] - here) / CORRECTION_DIFFERENCE
        step = _limited(np.asarray(np.linalg.solve(precision, gradient)), size)
        least = log_posterior(numbers, found) - MODE_TOLERANCE
        for halved in range(MODE_HALVINGS):
            there: Array = numbers + step / 2**halved
            if log_posterior(there, propagated(there)) > least:
                break
        else:
            break
        numbers = there
    loadings = numbers[:size].reshape(shape)
    axes = _axes(loadings)
    at = PropagatedRows(rows, propagated(numbers)[0])
    return at.rotated(axes), loadings @ axes, numbers[size:]


def _quasi_newton(gradient: Array, precision: Precision, past: list[tuple[Array, Array]]) -> Array:
    """P⁻¹ applied to the gradient, with P corrected by earlier steps s and changes y of the slope.

    The two loops of L-BFGS (Nocedal, 1980).
    """
    step, parts = gradient.copy(), []
    for s, y in reversed(past):
        part = (s @ step) / (s @ y)
        parts.append(part)
        step -= part * y
    step = precision.solve(step)
    for (s, y), part in zip(past, reversed(parts), strict=True):
        step += s * (part - (y @ step) / (s @ y))
    return np.asarray(step)


def _limited(step: Array, size: int) -> Array:
    """A step whose packed parameters, after `size` loadings, move by no more than is allowed."""
    return step * min(1.0, LONGEST_STEP / float(np.max(np.abs(step[size:]))))


def _log_own(loadings: Array, packed: Array, likelihood: Likelihood, t: Array) -> float:
    """Log density of the priors of loadings, of precisions t, and packed parameters.

    Without what does not depend on them.
    """
    own = -0.5 * float(np.sum(t * loadings**2))
    return own + float(likelihood.log_packed_prior(packed))


def _turned(numbers: Array, axes: Array, size: int) -> Array:
    """Numbers of which the first belong to loadings, in other axes."""
    if not size:
        return numbers
    own = numbers[:size].reshape(-1, len(axes)) @ axes
    return np.concatenate([own.ravel(), numbers[size:]])


def state_of_mode(mode: CellMode) -> CellState:
    """Q with the mode as its mean, its curvature column by column, and the scores of EP."""
    p, k = mode.loadings.shape
    whole = np.linalg.inv(mode.precision)[: p * k, : p * k].reshape(p, k, p, k)
    own = np.ascontiguousarray(whole[np.arange(p), :, np.arange(p), :])
    log_det = float(np.sum(np.linalg.slogdet(own)[1]))
    loadings = RowwiseLoadings(mode.loadings, own, np.zeros((p, k)), log_det)
    assert mode.held is not None
    rows, found = mode.held
    scores = RowScores(*(part[rows.place] for part in found.scores))
    return CellState(loadings, scores, mode.parameters, mode.slab)


def laplace_evidence(mode: CellMode, likelihood: Likelihood, prior: CuspPrior) -> float:
    """Log p(x, K) by Laplace's method.

    The slab's log density is φ(E) − ½t(‖λ‖² − E), with the expected squared norm E and its
    precision t there: it is convex in ‖λ‖², and nowhere below.
    """
    loadings, packed, p = mode.loadings[None], mode.packed[None], len(mode.loadings)
    own = mode.share * mode.log_likelihood + float(likelihood.log_packed_prior(mode.packed))
    own += float(_log_average(np.diag(mode.squared_norm)[None], mode.slab, p)[0])
    spread = mode.squared_norm - np.sum(mode.loadings**2, axis=0)
    own += 0.5 * float(mode.slab.precision(mode.squared_norm, p) @ spread)
    density = ProposedDensity(mode).log_density(loadings, packed)[0]
    return float(own - density) + _constant(mode, prior)


def log_beyond_normal(squared_norm: Array, slab: Slab, p: int, prior: CuspPrior) -> float:
    """Log of what the prior of Λ and K has beyond normal loadings with the slab's precisions.

    The slab's log density is that of these at the squared norms, and nowhere below by more.
    """
    t = slab.precision(squared_norm, p)
    normal = 0.5 * p * (np.log(t) - LOG_2PI) - 0.5 * t * squared_norm
    own = float(np.sum(slab.log_density(squared_norm, p) - normal))
    own += prior.log_count_probability(len(squared_norm))
    return own + slab.log_hyper_evidence(squared_norm, p)


def bridged_evidence(
    mode: CellMode,
    state: CellState,
    values: Array,
    likelihood: Likelihood,
    prior: CuspPrior,
    rng: np.random.Generator,
    n_chains: int = 16,
) -> Evidence:
    """Log p(x, K) by Bennett's ratio, with exact sweeps from q."""
    proposal, slab = ProposedDensity(mode, PROPOSAL_WIDTH), mode.slab.with_fixed_hyperparameters()
    assert mode.held is not None
    rows, propagated = mode.held

    def log_weights(loadings: Array, packed: Array) -> Array:
        found = _log_prior(loadings, packed, slab, likelihood)
        for b, numbers in enumerate(packed):
            # Factors are functions of λ_jᵀη_i: they suit the loadings in any rotation.
            at = propagate(
                rows.values,
                likelihood,
                likelihood.unpack(numbers),
                loadings[b],
                propagated,
                BRIDGE_EP_TOLERANCE,
            )
            logs = at.log_probability + corrections(
                at, rows.values, likelihood, likelihood.unpack(numbers), loadings[b]
            )
            found[b] += float(rows.counts @ logs)
        return found - proposal.log_density(loadings, packed)

    above = log_weights(*proposal.draw(n_chains * BRIDGE_DRAWS_OF_A_CHAIN, rng))
    if not np.any(np.isfinite(above)):
        return Evidence(-np.inf, np.inf, len(above))
    chains = begin_cells(state, likelihood, slab, n_chains, rng)
    below = []
    for number in range(BRIDGE_DRAWS_OF_A_CHAIN):
        for _ in range(BRIDGE_SWEEPS if number else BRIDGE_BURN_IN):
            chains = sweep_cells(chains, values, likelihood, slab, rng)
        below.append(log_weights(flip(chains.loadings), likelihood.pack(chains.parameters)))
    value, error = bennett(above, np.array(below).T)
    return Evidence(value + _constant(mode, prior), error, len(above))


def _log_prior(loadings: Array, packed: Array, slab: Slab, likelihood: Likelihood) -> Array:
    """Of loadings (size, p, K), averaged over rotations, and packed parameters."""
    own = _log_average(gram(flip(loadings)), slab, loadings.shape[1])
    return np.asarray(own + likelihood.log_packed_prior(packed))


def _log_average(columns: Array, slab: Slab, p: int) -> Array:
    """Of the slab over rotations, for ΛᵀΛ = columns (size, K, K)."""
    return log_average_slab(columns, slab, p) if columns.shape[1] else np.zeros(len(columns))


def _constant(mode: CellMode, prior: CuspPrior) -> float:
    """Of the number of factors and of the slab's hyperparameters."""
    p, k = mode.loadings.shape
    return prior.log_count_probability(k) + mode.slab.log_hyper_evidence(mode.squared_norm, p)


def _curvature(
    loadings: Array,
    packed: Array,
    at: RowsAt,
    counted: float,
    likelihood: Likelihood,
    t: Array,
    share: float,
    way: InformationWay = "products",
) -> tuple[Array, Array, Array]:
    """Gradient and precision of the posterior, and the directions of rotations.

    Columns of Λ have the precisions t (K,) of their prior.
    """
    p, k = loadings.shape
    known = likelihood.unpack(packed)
    total, information = at.sums(likelihood, known, loadings, way)
    prior_gradient, prior_precision = likelihood.packed_prior_derivatives(packed)
    gradient = share * total
    gradient[: p * k] -= (t * loadings).ravel()
    gradient[p * k :] += prior_gradient
    precision = share * information
    if way == "products":
        precision *= _wishart_factor(counted, len(gradient) - k * (k - 1) // 2)
    precision[np.diag_indices(p * k)] += np.tile(t, p)
    precision[p * k :, p * k :] += prior_precision
    if way == "known scores":
        owner = np.concatenate([np.repeat(np.arange(p), k), likelihood.packed_owner])
        precision = with_positive_blocks(precision, owner)
        return gradient, precision, np.zeros((len(gradient), 0))
    first, other = np.triu_indices(k, 1)
    rotations = np.zeros((len(gradient), len(first)))
    for number, (h, l) in enumerate(zip(first, other, strict=True)):  # noqa: E741
        moved = np.zeros((p, k))
        moved[:, h], moved[:, l] = -loadings[:, l], loadings[:, h]
        rotations[: p * k, number] = moved.ravel()
    # The likelihood has no information on angles. A typical one keeps steps and draws from turning;
    # averages over rotations do not depend on it.
    typical = float(np.median(np.diag(precision)[: p * k])) if k else 0.0
    scaled = rotations / np.maximum(np.linalg.norm(rotations, axis=0), 1e-12)
    precision += typical * scaled @ scaled.T
    return gradient, precision, rotations


def _louis_curvature(
    loadings: Array,
    packed: Array,
    at: RowsAt,
    rows: DistinctRows | RowBlocks,
    counted: float,
    likelihood: Likelihood,
    t: Array,
    share: float,
) -> tuple[Array, Array]:
    """The precision at the mode, and the directions of rotations, by Louis' information.

    It is exact for continuous columns, whatever their distribution. Products of gradients are not:
    those of a column with two values are singular.
    Where it is not positive, as at a mode that was not quite reached, it is raised to a part of the
    information with known scores.
    """
    given = likelihood, t, share
    _, precision, rotations = _curvature(loadings, packed, at, counted, *given, "louis")
    try:
        np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        if isinstance(rows, RowBlocks):
            parameters = likelihood.unpack(packed)
            at = rows.propagated(parameters, loadings, MODE_EP_TOLERANCE, "known scores")
        _, known, _ = _curvature(loadings, packed, at, counted, *given, "known scores")
        root = np.linalg.cholesky(known)
        inner = np.linalg.solve(root, np.linalg.solve(root, precision).T)
        parts, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
        scaled = root @ (vectors * np.sqrt(np.maximum(parts, LEAST_KEPT)))
        precision = scaled @ scaled.T
    return precision, rotations


def _wishart_factor(n: float, rank: int) -> float:
    """What a sum of n products of `rank` normal numbers must be multiplied by, so that the
    logarithm of its determinant has the right mean.

    Without it Laplace's method gains about d²/4n nats from noise, more with each factor.
    """
    counted = min(rank, int(n) - 1)
    orders = (n - np.arange(counted)) / 2.0
    bias = float(np.sum(digamma(orders) - np.log(n / 2.0)))
    return float(np.exp(-bias / max(counted, 1)))


def _axes(loadings: Array) -> Array:
    """(K, K) principal axes, strongest first."""
    _, _, axes = np.linalg.svd(loadings, full_matrices=False)
    return np.asarray(axes.T, dtype=float)
