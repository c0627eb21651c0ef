"""log p(y, K) by a bridge between q̃ and the posterior: what the collapsed bound still misses.

Rotations of Λ change neither likelihood nor, once it is averaged over them, the prior. So both
ends of the bridge are made blind to rotations:

    target    p(Y | Λ, Σ) Z(Λ) p(Σ),    Z(Λ) the average of the slab's density over all ΛQ,
    proposal  the average of q̃(ΛQ) over all Q, times q(Σ), both a little wider than at their best.

With draws from the proposal, and as many from the posterior (chains of exact sweeps from q),
Bennett's ratio gives the integral of the target. Unlike a bound it has no gap that grows with K.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import brentq
from scipy.special import expit, gammaln

from cuspfa._typing import Array
from cuspfa.inference.kernels import Statistics, begin_at, flip, gram, sweep_complete
from cuspfa.inference.variational.collapsed_bound import (
    Evidence,
    Widened,
    antisymmetric,
    log_volume,
)
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.model.likelihoods.gaussian import (
    log_noise_density,
    log_noise_prior,
    marginal_log_likelihoods,
)
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import LOG_2PI, Slab

WIDER, FLATTER = 1.3, 0.7
"""The proposal's loadings have so many times q's variance, its noise so many times q's shape."""
BURN_IN_SWEEPS, DRAWS_OF_A_CHAIN, SWEEPS_BETWEEN_DRAWS = 8, 8, 2
"""Sweeps of a chain before its first draw, draws that are kept of it, and sweeps between these."""
NODES = 48
"""Of the integral over the angle of two columns; it is even, so that half of them do."""


def bridged_evidence(
    state: VariationalState,
    data: Statistics,
    prior: CuspPrior,
    rng: np.random.Generator,
    n_draws: int,
) -> Evidence:
    """Estimate log p(y, K) for K ≥ 1, a spike at zero and a slab with a density of its own."""
    slab = state.slab.with_fixed_hyperparameters()
    proposal = _Proposal(state)
    above = _log_weights(proposal.draw(n_draws, rng), proposal, data, slab, prior)
    chains = _draw_posterior(state, data, slab, prior, -(-n_draws // DRAWS_OF_A_CHAIN), rng)
    # All draws together: of a few at a time the calls would take longer than the numbers.
    loadings, noise = (np.concatenate(parts, axis=1) for parts in zip(*chains, strict=True))
    below = (
        _log_weights((loadings, noise), proposal, data, slab, prior).reshape(DRAWS_OF_A_CHAIN, -1).T
    )
    value, error = bennett(above, below)
    constant = prior.log_count_probability(state.n_factors)
    constant += state.slab.log_hyper_evidence(state.loadings.column_squared_norm, len(noise))
    return Evidence(value + constant, error)


def bennett(above: Array, below: Array) -> tuple[float, float]:
    """Log ratio of normalising constants from log weights at draws of proposal and target.

    `above` (draws,) is of the proposal, `below` (chains, draws of a chain) of the target. The error
    is that of independent proposals and chains or, where that is more, half of what the later
    draws of the chains give beyond the earlier ones: chains that are still on their way.
    """
    value = _root(above, below)
    half = below.shape[1] // 2
    drift = _root(above, below[:, half:]) - _root(above, below[:, :half]) if half else 0.0
    parts = (expit(above - value), np.mean(expit(value - below), axis=1))
    relative = [float(np.mean(f**2) / np.mean(f) ** 2 - 1.0) / len(f) for f in parts]
    return value, max(float(np.sqrt(sum(relative))), abs(drift) / 2)


def _root(above: Array, below: Array) -> float:
    """Bennett's equation solved."""

    def excess(value: float) -> float:
        return float(np.mean(expit(above - value)) - np.mean(expit(value - below)))

    both = np.concatenate([above, below.ravel()])
    return float(brentq(excess, both.min() - 1.0, both.max() + 1.0, xtol=1e-6))


class _Proposal:
    """q̃ averaged over rotations, and q(Σ), both widened."""

    def __init__(self, state: VariationalState) -> None:
        distribution, noise = state.loadings, state.noise
        k = distribution.mean.shape[1]
        wider = distribution.widened(WIDER)
        flatter = noise._replace(shape=FLATTER * noise.shape, rate=FLATTER * noise.rate)
        state = state._replace(loadings=wider, noise=flatter)
        self.noise = flatter
        self.widened = Widened(state)
        # Rows count by what is known of them when a draw is rotated towards the mean.
        self.rows = state.scores.n * flatter.precision + 1.0
        self.turns = antisymmetric(k)
        self.across = self.turns @ self.widened.metric @ self.widened.directions.T
        values, vectors = np.linalg.eigh(self.widened.information)
        values = np.maximum(values, 1e-10 * max(float(values.max(initial=0.0)), 1e-200))
        self.angle_root = vectors / np.sqrt(values)
        # The integral of q̃(ΛQ) over Q is that of a normal distribution of the angles, but where
        # these are
        # not known at all it is no more than the volume.
        volume, angles = log_volume(k), len(values)
        peaks = 0.5 * np.log(2 * np.pi / values)
        self.log_copies = volume - float(np.sum(np.minimum(peaks, volume / max(angles, 1))))

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Loadings (p, size, K) and noise variances (p, size); unrotated, which nothing sees."""
        wide = self.widened
        p, k = wide.mean.shape
        z = flip(rng.standard_normal((p, size, k)))
        x = np.sqrt(wide.widths) * rng.standard_normal((size, len(wide.widths)))
        moves = (x @ wide.directions).reshape(size, k, k)
        loadings = flip(wide.distribution.deviations(z) + wide.mean @ (np.eye(k) + moves))
        return loadings, self.noise.draw(size, rng)

    def log_density(self, loadings: Array) -> Array:
        """Of loadings (p, size, K), averaged over rotations, (size,)."""
        wide, (p, size, k) = self.widened, loadings.shape
        towards = flip(loadings).transpose(0, 2, 1) @ (self.rows[:, None] * wide.mean)
        u, _, v = np.linalg.svd(towards)
        delta = flip(loadings) @ (u @ v) - wide.mean
        whitened = wide.distribution.whitened(delta)
        quadratic = np.sum(delta * whitened, axis=(1, 2))
        moved = (wide.mean.T @ whitened).reshape(size, k * k)
        along = moved @ wide.directions.T
        explained = cho_solve((wide.inner, True), along.T).T
        quadratic -= np.sum(along * explained, axis=1)
        # What is left of the angles belongs to the average over them.
        left = (moved @ self.turns.T - explained @ self.across.T) @ self.angle_root
        quadratic -= np.sum(left**2, axis=1)
        return np.asarray(
            -0.5 * (p * k * LOG_2PI + wide.log_det + quadratic) - self.log_copies, dtype=float
        )


def _log_weights(
    draws: tuple[Array, Array],
    proposal: _Proposal,
    data: Statistics,
    slab: Slab,
    prior: CuspPrior,
) -> Array:
    loadings, noise = draws
    columns = gram(loadings)
    log_target = marginal_log_likelihoods(loadings, noise, data)
    log_target += log_average_slab(columns, slab, len(noise))
    log_target += log_noise_prior(noise, prior)
    log_proposal = proposal.log_density(loadings) + log_noise_density(noise, proposal.noise)
    return np.asarray(log_target - log_proposal)


def log_average_slab(columns: Array, slab: Slab, p: int) -> Array:
    """Log Z: the slab's density averaged over rotations of Λ with ΛᵀΛ = columns, (size,).

    On principal axes the density is at its highest; from there each pair of columns is turned by
    itself, through a cell of π/2, one of 2^K K! alike. Where columns are so different that only
    angles near zero count, the cells leave out or count twice some of the volume of O(K), which a
    last term puts right in proportion. Good to about 0.15 K nats.
    """
    squared_norm = np.maximum(np.linalg.eigvalsh(columns), 1e-300)
    k = squared_norm.shape[1]
    log_best = np.sum(slab.log_density(squared_norm, p), axis=1)
    if k < 2 or slab.capabilities.rotation_invariant:
        return np.asarray(log_best)
    part, weights = _angles()
    log_scale_rotations, apart = np.zeros(len(squared_norm)), np.zeros(len(squared_norm))
    for h in range(k):
        for other in range(h + 1, k):
            one, two = squared_norm[:, h, None], squared_norm[:, other, None]
            change = slab.log_density(one * part + two * (1 - part), p)
            change = change + slab.log_density(one * (1 - part) + two * part, p)
            change = change - slab.log_density(one, p) - slab.log_density(two, p)
            mean = np.exp(change) @ weights
            log_scale_rotations += np.log(mean)
            apart += 1.0 - mean
    pairs = k * (k - 1) / 2
    cells = k * np.log(2) + gammaln(k + 1) + pairs * np.log(np.pi / 2) - log_volume(k)
    return np.asarray(log_best + log_scale_rotations + cells * apart / pairs)


@cache
def _angles() -> tuple[Array, Array]:
    """Squared cosines of angles in (0, π/4), and the weights of an average over them."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return np.cos(nodes[NODES // 2 :] * np.pi / 4) ** 2, weights[NODES // 2 :]


def _draw_posterior(
    state: VariationalState,
    data: Statistics,
    slab: Slab,
    prior: CuspPrior,
    size: int,
    rng: np.random.Generator,
) -> Iterator[tuple[Array, Array]]:
    """`DRAWS_OF_A_CHAIN` draws of each of `size` chains that begin at q."""
    chains = begin_at(state.loadings, state.noise, slab, size, rng)
    for number in range(DRAWS_OF_A_CHAIN):
        for _ in range(SWEEPS_BETWEEN_DRAWS if number else BURN_IN_SWEEPS):
            chains = sweep_complete(chains, data, slab, prior, rng)
        yield chains.loadings, chains.noise
