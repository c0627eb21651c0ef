"""log p(y, K) by bridge sampling between q̃ and the posterior, without the gap of a bound.

Rotations of Λ change neither the likelihood nor, once it is averaged over them, the prior. So both
target and proposal are averaged over rotations:

    target    p(Y | Λ, Σ) Z(Λ) p(Σ),    Z(Λ) the average of the slab's density over all ΛQ,
    proposal  a normal distribution of log σ² and, given σ², the average of q̃(ΛQ) over all Q.

With draws from the proposal, and as many from the posterior (chains of exact sweeps from q),
Bennett's ratio gives the integral of the target. Unlike a bound it has no gap that grows with K.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from cuspfa._typing import Array, Indices
from cuspfa.inference._kernels import kernel
from cuspfa.inference.compiled_sweeps import log_likelihoods, sweep_chains
from cuspfa.inference.kernels import Statistics, begin_at, gram
from cuspfa.inference.variational.bridge_proposal import Proposal
from cuspfa.inference.variational.collapsed_bound import Evidence, log_volume
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.model.likelihoods.gaussian import log_noise_prior
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import Slab

BURN_IN_SWEEPS, DRAWS_OF_A_CHAIN, SWEEPS_BETWEEN_DRAWS = 8, 8, 2
"""Sweeps of a chain before its first draw, draws that are kept of it, and sweeps between these."""
MOST_ARRANGED = 3e8
"""Multiplications for the order of columns, at most: 700 columns, or 250 rows of 5000."""
ROOT_TOLERANCE, MOST_ROOT_STEPS = 1e-8, 200
"""Tolerance of the root of Bennett's equation, and the most steps towards it."""


class LikelihoodRatios(NamedTuple):
    """The likelihood of data that those of a bridge only approximate."""

    exact: Callable[[Array, Array], Array]
    """Log-likelihoods of loadings (p, B, K) and noise variances (p, B)."""
    statistics: Statistics
    """The approximation."""
    most: int
    """Draws at which the two are compared, at most: each may take long."""

    def at(self, loadings: Array, noise: Array) -> Array:
        """Log ratios of draws, (B,)."""
        own = log_likelihoods(loadings, noise, self.statistics)
        return np.asarray(self.exact(loadings, noise) - own)


class Bridge:
    """Estimate of log p(y, K), from a proposal and draws of one state, to which more can be added.

    It is for K ≥ 1, a spike at zero and a slab with a density of its own. With `ratios` it is the
    evidence of the data that `data` approximate.
    """

    def __init__(
        self,
        state: VariationalState,
        data: Statistics,
        prior: CuspPrior,
        rng: np.random.Generator,
        ratios: LikelihoodRatios | None = None,
    ) -> None:
        self._state, self._data, self._prior, self._rng = state, data, prior, rng
        self._slab = state.slab.with_fixed_hyperparameters()
        self._proposal = Proposal(state, data)
        self._likelihoods = ratios
        self._above, self._below = np.zeros(0), np.zeros((0, DRAWS_OF_A_CHAIN))
        self._ratios = np.zeros((0, DRAWS_OF_A_CHAIN))
        """Of the exact likelihood to that of the data, in logarithms, at draws of the posterior."""
        self._constant = prior.log_count_probability(state.n_factors)
        squared_norm = state.loadings.column_squared_norm
        self._constant += state.slab.log_hyper_evidence(squared_norm, len(state.noise.rate))

    def with_draws(self, n_draws: int) -> Evidence:
        """The estimate from so many draws of each kind: those made so far, and further ones.

        Draws of the posterior are whole chains, and so no less than `n_draws`.
        """
        new = n_draws - len(self._above)
        if new > 0:
            self._add(new)
        value, error = bennett(self._above, self._below)
        if self._likelihoods is not None:
            change, change_error = log_mean_ratio(self._ratios)
            value, error = value + change, float(np.hypot(error, change_error))
        return Evidence(value + self._constant, error, len(self._above))

    def _add(self, size: int) -> None:
        chains = -(-size // DRAWS_OF_A_CHAIN)
        drawn = [self._proposal.draw(size, self._rng), *self._posterior(chains)]
        # All draws at once: with a few at a time the overhead of the calls would dominate.
        loadings, noise = (np.concatenate(parts, axis=1) for parts in zip(*drawn, strict=True))
        weights = _log_weights(
            (loadings, noise), self._proposal, self._data, self._slab, self._prior
        )
        self._above = np.concatenate([self._above, weights[:size]])
        below = weights[size:].reshape(DRAWS_OF_A_CHAIN, chains).T
        self._below = np.concatenate([self._below, below])
        if self._likelihoods is not None:
            room = max(self._likelihoods.most - self._ratios.size, 0) // DRAWS_OF_A_CHAIN
            # Draws of the posterior are ordered by their number in the chain.
            some = size + np.add.outer(
                chains * np.arange(DRAWS_OF_A_CHAIN), np.arange(chains)[:room]
            )
            at = some.ravel()
            ratios = self._likelihoods.at(np.ascontiguousarray(loadings[:, at]), noise[:, at])
            self._ratios = np.concatenate([self._ratios, ratios.reshape(some.shape).T])

    def _posterior(self, size: int) -> Iterator[tuple[Array, Array]]:
        """`DRAWS_OF_A_CHAIN` draws of each of `size` chains that begin at q."""
        state, slab, rng = self._state, self._slab, self._rng
        chains = begin_at(state.loadings, state.noise, slab, size, rng)
        for number in range(DRAWS_OF_A_CHAIN):
            count = SWEEPS_BETWEEN_DRAWS if number else BURN_IN_SWEEPS
            chains = sweep_chains(chains, self._data, slab, self._prior, count, rng)
            yield chains.loadings, chains.noise


def arrangement(data: Statistics) -> tuple[Indices, Array]:
    """An order of the columns and their signs, by which draws do not depend on those of the data.

    Columns are ordered by their sum of squared correlations. Each has the sign by which it
    correlates with the sum of those before it. Many columns stay as they are: the products would
    take longer than the bridge.
    """
    size, p = data.rows.shape
    if size**2 * p > MOST_ARRANGED:
        return np.arange(p), np.ones(p)
    rows = data.rows / np.sqrt(data.squares)
    squared = np.einsum("ij,ij->j", rows, (rows @ rows.T) @ rows)
    order = np.argsort(-squared, kind="stable")
    signs, before = np.ones(len(order)), np.zeros(len(rows))
    for place, column in enumerate(rows.T[order]):
        signs[place] = -1.0 if column @ before < 0 else 1.0
        before += signs[place] * column
    return order, signs


def bennett(above: Array, below: Array) -> tuple[float, float]:
    """Log ratio of normalising constants from log weights at draws of proposal and target.

    `above` (draws,) is of the proposal, `below` (chains, draws of a chain) of the target. The error
    is that of independent proposals and chains or, where that is more, half of what the later
    draws of the chains differ from the earlier ones: such chains have not converged.
    """
    if not (np.all(np.isfinite(above)) and np.all(np.isfinite(below))):
        return 0.0, np.inf  # a weight that cannot be computed: the error says that this failed
    value, half = _solve_bennett(above, below), below.shape[1] // 2
    drift = 0.0
    if half:
        later, earlier = below[:, half:], below[:, :half]
        drift = _solve_bennett(above, later, value) - _solve_bennett(above, earlier, value)
    parts = (expit(above - value), np.mean(expit(value - below), axis=1))
    if any(np.mean(f) ** 2 == 0.0 for f in parts):
        return value, np.inf  # proposal and target have nothing in common
    relative = [float(np.mean(f**2) / np.mean(f) ** 2 - 1.0) / len(f) for f in parts]
    return value, max(float(np.sqrt(sum(relative))), abs(drift) / 2)


def log_mean_ratio(log_ratios: Array) -> tuple[float, float]:
    """Log E[exp(r)] by cumulants of r, and its error; `log_ratios` (chains, draws of a chain).

    A mean of exp(r) would depend on the few largest r. The cumulants are those of mean, variance
    and, by half, skewness: without the third the value is on one side of the truth, with the whole
    of it on the other. That half is part of the error.
    """
    mean, variance = float(np.mean(log_ratios)), float(np.var(log_ratios))
    third = float(np.mean((log_ratios - mean) ** 3)) / 12
    # What each chain contributes to the first two cumulants.
    parts = np.mean((log_ratios - mean) + 0.5 * (log_ratios - mean) ** 2, axis=1)
    spread = float(np.std(parts, ddof=1)) / np.sqrt(len(parts)) if len(parts) > 1 else np.inf
    return mean + 0.5 * variance + third, float(np.hypot(spread, third))


def _solve_bennett(above: Array, below: Array, start: float | None = None) -> float:
    """The root of Bennett's equation by Newton's steps, or halves where these leave the bracket."""
    below, core = below.ravel(), kernel("bridge")
    if core is not None:
        begin = math.nan if start is None else start
        return float(core.bennett_root(above, below, begin, ROOT_TOLERANCE, MOST_ROOT_STEPS))
    return root_by_definition(above, below, start)


def root_by_definition(above: Array, below: Array, start: float | None = None) -> float:
    """The root without the compiled core, `below` (draws,)."""
    low = min(float(above.min()), float(below.min())) - 1.0
    high = max(float(above.max()), float(below.max())) + 1.0
    # The mean of either kind is a bound of the root, on one side each.
    value = 0.5 * float(above.mean() + below.mean()) if start is None else start
    for _ in range(MOST_ROOT_STEPS):
        up, down = expit(above - value), expit(value - below)
        rising, falling = float(up.sum()) / len(up), float(down.sum()) / len(down)
        slope = rising - float(up @ up) / len(up) + falling - float(down @ down) / len(down)
        if rising > falling:
            low = value
        else:
            high = value
        new = value + (rising - falling) / slope if slope > 0.0 else low
        new = new if low < new < high else 0.5 * (low + high)
        if abs(new - value) < ROOT_TOLERANCE:
            return new
        value = new
    return value


def _log_weights(
    draws: tuple[Array, Array],
    proposal: Proposal,
    data: Statistics,
    slab: Slab,
    prior: CuspPrior,
) -> Array:
    loadings, noise = draws
    columns = gram(loadings)
    log_target = log_likelihoods(loadings, noise, data)
    log_target += log_average_slab(columns, slab, len(noise))
    log_target += log_noise_prior(noise, prior)
    return np.asarray(log_target - proposal.log_density(loadings, noise))


def log_average_slab(columns: Array, slab: Slab, p: int) -> Array:
    """Log Z: the slab's density averaged over rotations of Λ with ΛᵀΛ = columns, (size,).

    On principal axes the density is at its highest; from there each pair of columns is turned by
    itself, through a cell of π/2, one of 2^K K! equal ones. Where columns are so different that
    only angles near zero count, the cells omit or count twice some of the volume of O(K), which a
    last term corrects in proportion. The error is about 0.15 K nats.
    """
    squared_norm = np.maximum(principal_norms(columns), 1e-300)
    k = squared_norm.shape[1]
    log_best = np.sum(slab.log_density(squared_norm, p), axis=1)
    if k < 2 or slab.capabilities.rotation_invariant:
        return np.asarray(log_best)
    first, other = np.triu_indices(k, 1)
    log_means = slab.log_pair_average(squared_norm[:, first], squared_norm[:, other], p)
    log_scale_rotations = np.sum(log_means, axis=1)
    apart = np.sum(1.0 - np.exp(log_means), axis=1)
    pairs = k * (k - 1) / 2
    cells = k * np.log(2) + gammaln(k + 1) + pairs * np.log(np.pi / 2) - log_volume(k)
    return np.asarray(log_best + log_scale_rotations + cells * apart / pairs)


def principal_norms(columns: Array) -> Array:
    """Squared norms of the columns of Λ on principal axes, in any order, (size, K)."""
    core = kernel("bridge")
    if core is not None and columns.size:
        found = np.empty(columns.shape[:2])
        if core.eigenvalues(np.ascontiguousarray(columns), found) == 0:
            return found
    return np.asarray(np.linalg.eigvalsh(columns))
