"""log p(x, K) of ordinal columns: Laplace's method with the scores integrated out, and a bridge.

The log-likelihood Σ_i log p(x_i | Λ, κ) is that of EP. Rotations of Λ change neither it nor, once
it is averaged over them, the prior. So target and proposal are averages over rotations:

    target    p(x | Λ, κ) Z(Λ) p(κ),   Z(Λ) the average of the slab's density over all ΛQ,
    proposal  N(mode, P⁻¹) of (Λ, κ), P the information Σ_i g_i g_iᵀ of the gradients g_i of the
              rows, plus that of the prior; averaged over rotations.

Laplace's value is their quotient at the mode. With draws from the proposal and, by exact sweeps,
from the posterior, Bennett's ratio removes what the posterior differs from a normal distribution.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, logsumexp

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.linalg import polar_factor
from cuspfa.inference.cellwise.kernels import OrdinalData, begin_ordinal, sweep_ordinal
from cuspfa.inference.cellwise.marginal import Propagated, cavities_of, propagate, row_gradients
from cuspfa.inference.cellwise.run import principal_factors
from cuspfa.inference.cellwise.state import CellModel, CellState, linear_moments
from cuspfa.inference.kernels import flip, gram
from cuspfa.inference.variational.bridge_sampling import bennett, log_average_slab
from cuspfa.inference.variational.collapsed_bound import Evidence, log_volume
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import LOG_2PI, Slab

MODE_STEPS, MODE_TOLERANCE, MODE_HALVINGS = 30, 0.01, 8
"""Most steps to the mode, the expected gain in nats at which they end, and halvings of each."""
PROPOSAL_WIDTH = 1.15
"""The proposal of a bridge has so many times the covariance of Laplace's method."""
MOST_REFLECTED = 5
"""Columns, the weakest ones, whose reflections are counted one by one."""
BRIDGE_BURN_IN, BRIDGE_DRAWS_OF_A_CHAIN, BRIDGE_SWEEPS = 10, 4, 4
"""Sweeps of a chain before its first draw, draws that are kept of it, and sweeps between these."""


class OrdinalMode(NamedTuple):
    """The mode of the posterior of (Λ, κ) with the scores integrated out, and its curvature."""

    loadings: Array
    """(p, K), on principal axes."""
    cuts: Array
    """(p, C − 1)"""
    slab: Slab
    propagated: Propagated
    precision: Array
    """(d, d) P of the numbers of Λ, row by row, and then of the cut-points; angles included."""
    rotations: Array
    """(d, K(K − 1)/2) directions in which a rotation of Λ moves them."""

    @property
    def log_likelihood(self) -> float:
        """Σ_i log p(x_i | Λ, κ)."""
        return float(np.sum(self.propagated.log_probability))


class ProposedDensity:
    """N(mode, P⁻¹) averaged over rotations of Λ."""

    def __init__(self, mode: OrdinalMode, width: float = 1.0) -> None:
        self.mode, self.finite = mode, np.isfinite(mode.cuts)
        self.precision = mode.precision / width
        self.root = np.linalg.cholesky(self.precision)
        self.center = np.concatenate([mode.loadings.ravel(), mode.cuts[self.finite]])
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
        """Loadings (size, p, K) and cut-points (size, p, C − 1); these may be out of order."""
        z = rng.standard_normal((len(self.center), size))
        moved = self.center[:, None] + np.linalg.solve(self.root.T, z)
        (p, k), cuts = self.mode.loadings.shape, np.full((size, *self.finite.shape), np.inf)
        cuts[:, self.finite] = moved[p * k :].T
        return moved[: p * k].T.reshape(size, p, k), cuts

    def log_density(self, loadings: Array, cuts: Array) -> Array:
        """(size,), of loadings in any rotation."""
        p, k = self.mode.loadings.shape
        # Rows are weighted as the proposal does, so that the rotation is nearly its best.
        weights = np.diag(self.precision)[: p * k].reshape(p, k).mean(axis=1) if k else np.ones(p)
        towards = loadings.transpose(0, 2, 1) @ (weights[:, None] * self.mode.loadings)
        turned = loadings @ polar_factor(towards) if k else loadings
        return np.asarray(
            logsumexp([self._nearby(turned * sign, cuts) for sign in self.signs], axis=0)
        )

    def _nearby(self, loadings: Array, cuts: Array) -> Array:
        """What rotations near to the identity contribute, (size,)."""
        size, d = len(loadings), self.mode.loadings.size
        numbers = np.concatenate([loadings.reshape(size, d), cuts[:, self.finite]], axis=1)
        delta = numbers - self.center
        whitened = delta @ self.precision
        along = np.linalg.solve(self.angle_root, (whitened @ self.mode.rotations).T)
        quadratic = np.sum(delta * whitened, axis=1) - np.sum(along**2, axis=0)
        return np.asarray(self.constant - 0.5 * quadratic)


def start_of_mode(values: Array, likelihood: OrdinalLikelihood, k: int) -> tuple[Array, Array]:
    """Loadings (p, k) and cut-points to start from, by correlations and shares of the values."""
    loadings, cuts = principal_factors(values, k), likelihood.initial(values)
    return loadings, cuts * np.sqrt(1.0 + np.sum(loadings**2, axis=1, keepdims=True))


def find_mode(
    loadings: Array, cuts: Array, slab: Slab, values: Array, likelihood: OrdinalLikelihood
) -> OrdinalMode:
    """Scoring steps from a start, each halved until the posterior rises.

    After each step the slab's hyperparameters are updated, where they are learned.
    """
    p, size = len(loadings), loadings.size
    loadings = loadings @ _axes(loadings)
    at = propagate(values, likelihood, cuts, loadings)

    def log_posterior(loadings: Array, cuts: Array, at: Propagated) -> float:
        own = slab.log_density(np.sum(loadings**2, axis=0), p)
        return float(np.sum(at.log_probability) + np.sum(own)) + likelihood.log_prior(cuts)

    for _ in range(MODE_STEPS):
        gradient, precision, _ = _curvature(loadings, cuts, at, values, likelihood, slab)
        step, here = np.linalg.solve(precision, gradient), log_posterior(loadings, cuts, at)
        if 0.5 * float(gradient @ step) < MODE_TOLERANCE:
            break
        for halved in range(MODE_HALVINGS):
            moved_loadings, moved_cuts = _moved(loadings, cuts, step / 2**halved)
            if not np.all(_in_order(moved_cuts)):
                continue
            there_at = propagate(values, likelihood, moved_cuts, moved_loadings, at)
            if log_posterior(moved_loadings, moved_cuts, there_at) > here:
                break
        else:
            break
        axes = _axes(moved_loadings)
        loadings, cuts = moved_loadings @ axes, moved_cuts
        at = there_at._replace(scores=there_at.scores.rotated(axes.T, 0.0))
        spread = np.diag(np.linalg.inv(precision))[:size].reshape(loadings.shape)
        slab = slab.update_hyperparameters(np.sum(loadings**2 + spread, axis=0), p)
    _, precision, rotations = _curvature(loadings, cuts, at, values, likelihood, slab)
    return OrdinalMode(loadings, cuts, slab, at, precision, rotations)


def state_of_mode(mode: OrdinalMode, model: CellModel) -> CellState:
    """Q with the mode as its mean, its curvature column by column, and the scores of EP."""
    p, k = mode.loadings.shape
    whole = np.linalg.inv(mode.precision)[: p * k, : p * k].reshape(p, k, p, k)
    own = np.ascontiguousarray(whole[np.arange(p), :, np.arange(p), :])
    log_det = float(np.sum(np.linalg.slogdet(own)[1]))
    loadings = RowwiseLoadings(mode.loadings, own, np.zeros((p, k)), log_det)
    cells = model.expectations(*linear_moments(loadings, mode.propagated.scores), mode.cuts)
    return CellState(loadings, mode.propagated.scores, mode.cuts, mode.slab, cells)


def laplace_evidence(mode: OrdinalMode, likelihood: OrdinalLikelihood, prior: CuspPrior) -> float:
    """Log p(x, K) by Laplace's method."""
    own = mode.log_likelihood + _log_prior(mode.loadings[None], mode.cuts, mode.slab, likelihood)[0]
    density = ProposedDensity(mode).log_density(mode.loadings[None], mode.cuts[None])[0]
    return float(own - density) + _constant(mode, prior)


def bridged_ordinal_evidence(
    mode: OrdinalMode,
    state: CellState,
    values: Array,
    likelihood: OrdinalLikelihood,
    prior: CuspPrior,
    rng: np.random.Generator,
    n_chains: int = 16,
) -> Evidence:
    """Log p(x, K) by Bennett's ratio, with exact sweeps from q; probit link."""
    proposal, slab = ProposedDensity(mode, PROPOSAL_WIDTH), mode.slab.with_fixed_hyperparameters()

    def log_weights(loadings: Array, cuts: Array) -> Array:
        found = np.full(len(loadings), -np.inf)
        for b in np.flatnonzero(np.all(_in_order(cuts), axis=1)):
            # Factors are functions of λ_jᵀη_i: they suit the loadings in any rotation.
            at = propagate(values, likelihood, cuts[b], loadings[b], mode.propagated)
            rows = at.log_probability
            own = _log_prior(loadings[b : b + 1], cuts[b], slab, likelihood)[0]
            found[b] = float(np.sum(rows)) + own
        return found - proposal.log_density(loadings, cuts)

    above = log_weights(*proposal.draw(n_chains * BRIDGE_DRAWS_OF_A_CHAIN, rng))
    if not np.any(np.isfinite(above)):
        return Evidence(-np.inf, np.inf, len(above))
    above = np.maximum(above, above[np.isfinite(above)].min() - 1e3)  # cut-points out of order
    chains, data = begin_ordinal(state, slab, n_chains, rng), OrdinalData.of(values, likelihood)
    below = []
    for number in range(BRIDGE_DRAWS_OF_A_CHAIN):
        for _ in range(BRIDGE_SWEEPS if number else BRIDGE_BURN_IN):
            chains = sweep_ordinal(chains, data, slab, rng)
        below.append(log_weights(flip(chains.loadings), chains.cuts))
    value, error = bennett(above, np.array(below).T)
    return Evidence(value + _constant(mode, prior), error, len(above))


def _log_prior(loadings: Array, cuts: Array, slab: Slab, likelihood: OrdinalLikelihood) -> Array:
    """Of loadings (size, p, K), averaged over rotations, and cut-points."""
    columns, p = gram(flip(loadings)), loadings.shape[1]
    own = log_average_slab(columns, slab, p) if loadings.shape[2] else np.zeros(len(loadings))
    return np.asarray(own + likelihood.log_prior(cuts))


def _constant(mode: OrdinalMode, prior: CuspPrior) -> float:
    """Of the number of factors and of the slab's hyperparameters."""
    p, k = mode.loadings.shape
    squared_norm = np.sum(mode.loadings**2, axis=0)
    return prior.log_count_probability(k) + mode.slab.log_hyper_evidence(squared_norm, p)


def _curvature(
    loadings: Array,
    cuts: Array,
    at: Propagated,
    values: Array,
    likelihood: OrdinalLikelihood,
    slab: Slab,
) -> tuple[Array, Array, Array]:
    """Gradient and precision of the posterior, and the directions of rotations."""
    (p, k), finite = loadings.shape, np.isfinite(cuts)
    rows = np.concatenate(
        [
            row_gradients(at, values, likelihood, cuts, loadings).reshape(len(values), p * k),
            _cut_gradients(at, values, likelihood, cuts, loadings),
        ],
        axis=1,
    )
    t = slab.precision(np.sum(loadings**2, axis=0), p)
    shrink = likelihood.cut_sd**-2
    gradient = rows.sum(axis=0)
    gradient[: p * k] -= (t * loadings).ravel()
    gradient[p * k :] -= shrink * cuts[finite]
    precision = rows.T @ rows
    counted = float(np.mean(np.sum(~np.isnan(values), axis=0)))
    precision *= _wishart_factor(counted, len(gradient) - k * (k - 1) // 2)
    precision[np.diag_indices_from(precision)] += np.concatenate(
        [np.tile(t, p), np.full(int(finite.sum()), shrink)]
    )
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


def _wishart_factor(n: float, rank: int) -> float:
    """What a sum of n products of `rank` normal numbers must be multiplied by, so that the
    logarithm of its determinant has the right mean.

    Without it Laplace's method gains about d²/4n nats from noise, more with each factor.
    """
    counted = min(rank, int(n) - 1)
    orders = (n - np.arange(counted)) / 2.0
    bias = float(np.sum(digamma(orders) - np.log(n / 2.0)))
    return float(np.exp(-bias / max(counted, 1)))


def _cut_gradients(
    at: Propagated, values: Array, likelihood: OrdinalLikelihood, cuts: Array, loadings: Array
) -> Array:
    """(n, number of cut-points) derivatives of log p(x_i)."""
    finite, size = np.isfinite(cuts), cuts.shape[1]
    above, below = likelihood.tilted_cut_slopes(values, *cavities_of(at, loadings), cuts)
    codes = np.where(np.isnan(values), -2.0, values)
    found = np.zeros((*values.shape, size))
    for c in range(size):
        found[:, :, c] = np.where(codes == c, above, 0.0) + np.where(codes == c + 1, below, 0.0)
    return np.asarray(found[:, finite])


def _moved(loadings: Array, cuts: Array, step: Array) -> tuple[Array, Array]:
    size, moved = loadings.size, cuts.copy()
    moved[np.isfinite(cuts)] += step[size:]
    return loadings + step[:size].reshape(loadings.shape), moved


def _in_order(cuts: Array) -> BoolArray:
    """(…, p) whether the cut-points of a column are."""
    finite = np.where(np.isfinite(cuts), cuts, np.finfo(float).max)
    return np.asarray(np.all(finite[..., 1:] >= finite[..., :-1], axis=-1), dtype=np.bool_)


def _axes(loadings: Array) -> Array:
    """(K, K) principal axes, strongest first."""
    _, _, axes = np.linalg.svd(loadings, full_matrices=False)
    return np.asarray(axes.T, dtype=float)
