"""The probability of a row with its scores integrated out, log p(x_i | Λ, parameters).

Two ways. Expectation propagation (EP) replaces the density of each cell by a normal factor in
λ_jᵀη_i, exp{νf − ½τf²}, whose moments agree with those of the cell given all other factors. It is
quick and nearly exact. Importance sampling draws η_i from q(η_i), mixed with the prior so that the
weights are bounded; it is unbiased, with an error that is known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

from cuspfa._typing import Array
from cuspfa.inference.cellwise.state import RowScores, flat, outer
from cuspfa.model.likelihoods.base import Likelihood, TiltedMoments

EP_ITERATIONS, EP_TOLERANCE = 200, 1e-8
"""Most iterations, and the change of a row's log probability at which they end."""
DAMPING = 0.9
"""The part of the way to its new value that a factor moves in an iteration."""
LEAST_DAMPING = 0.1
"""It is halved for rows that do not converge, down to this."""
PATIENCE = 10
"""Iterations after which the damping of rows that have not converged is halved."""
REPLICATES = 8
"""Independent sets of draws of importance sampling, which its error is found from."""
DRAWS_POWER = 8
"""A set has 2 to this power draws from q."""
PRIOR_POWER = 1
"""And one from the prior for 2 to this power draws from q: in one dimension fewer have an error
several times as large."""
NUMBERS_AT_ONCE = 2_000_000
"""Draws times cells that are held at once."""


class Propagated(NamedTuple):
    """The factors of EP where they have converged."""

    log_probability: Array
    """(n,) log p(x_i | Λ, parameters)."""
    scores: RowScores
    """The normal distribution of the scores that has the moments of EP."""
    precision: Array
    """(n, p) τ of each cell's factor."""
    shift: Array
    """(n, p) ν of each cell's factor."""
    converged: bool


class SampledRows(NamedTuple):
    """log p(x_i | Λ, parameters) by importance sampling."""

    log_probability: Array
    """(n,)"""
    sets: Array
    """(R, n) the same of each of R independent sets of draws."""

    @property
    def error(self) -> Array:
        """(n,) Monte Carlo error of each row."""
        return np.asarray(self.sets.std(axis=0, ddof=1) / np.sqrt(len(self.sets)))

    def total(self, counts: Array | None = None) -> tuple[float, float]:
        """Σ_i log p(x_i), with counts of the rows if these stand for several, and its error."""
        weights = np.ones(len(self.log_probability)) if counts is None else counts
        error = (self.sets @ weights).std(ddof=1) / np.sqrt(len(self.sets))
        return float(weights @ self.log_probability), float(error)


class _Cavities(NamedTuple):
    """All factors of a row but one, as a distribution of that factor's f, (n, p)."""

    mean: Array
    variance: Array


def propagate(
    values: Array,
    likelihood: Likelihood,
    parameters: Any,
    loadings: Array,
    start: Propagated | None = None,
) -> Propagated:
    """EP for each row, all cells at once, for loadings (p, K).

    `start` gives factors to begin at, those of similar loadings.
    """
    shape = values.shape
    tau, nu = np.zeros(shape), np.zeros(shape)
    if start is not None:
        tau, nu = start.precision.copy(), start.shift.copy()
    before = np.full(len(values), np.inf)
    damping, going = np.full((len(values), 1), DAMPING), np.ones(len(values), dtype=bool)
    for number in range(EP_ITERATIONS):
        scores = _scores_of(tau, nu, loadings)
        cavities = _cavities_of(scores, tau, nu, loadings)
        tilted = likelihood.tilted(values, *cavities, parameters)
        found = _log_probability(tau, nu, cavities, tilted, scores, loadings)
        going = ~(np.abs(found - before) < EP_TOLERANCE * (1.0 + np.abs(found)))
        if number and not np.any(going):
            break
        before = found
        if number and number % PATIENCE == 0:
            damping[going] = np.maximum(damping[going] / 2, LEAST_DAMPING)
        rest = 1.0 + cavities.variance * tilted.curvature
        new_tau = -tilted.curvature / rest
        new_nu = (tilted.slope - cavities.mean * tilted.curvature) / rest
        tau = tau + damping * (np.maximum(new_tau, 0.0) - tau)
        nu = nu + damping * (new_nu - nu)
    return Propagated(found, scores, tau, nu, not bool(np.any(going)))


def row_gradients(
    at: Propagated, values: Array, likelihood: Likelihood, parameters: Any, loadings: Array
) -> Array:
    """(n, p, K) derivatives of log p(x_i) by EP, by the loadings.

    At the fixed point the factors may be held: what is left is E[∂ℓ/∂f η_i] under the cavity times
    the cell, d1·m_c + (d1² + d2)·V_cλ_j with the derivatives d1, d2 of the tilted normalizer.
    """
    cavities = cavities_of(at, loadings)
    tilted = likelihood.tilted(values, *cavities, parameters)
    linear, variance = _linear(at.scores, loadings)
    rest = 1.0 - at.precision * variance
    # m_c = m + Vλ(τf − ν)/(1 − τv) and V_cλ = Vλ/(1 − τv).
    along = tilted.slope * (at.precision * linear - at.shift) + tilted.slope**2 + tilted.curvature
    spread = np.einsum("iab,jb->ija", at.scores.covariance, loadings)
    found = (along / rest)[:, :, None] * spread
    found += tilted.slope[:, :, None] * at.scores.mean[:, None, :]
    return np.asarray(found)


def cavities_of(at: Propagated, loadings: Array) -> tuple[Array, Array]:
    """Mean and variance of each f_ij under all factors of the row but its own, (n, p) each."""
    return _cavities_of(at.scores, at.precision, at.shift, loadings)


def sample_rows(
    values: Array,
    likelihood: Likelihood,
    parameters: Any,
    loadings: Array,
    scores: RowScores,
    rng: np.random.Generator,
    power: int = DRAWS_POWER,
) -> SampledRows:
    """Importance sampling from q(η_i), mixed with the prior."""
    n, k = scores.mean.shape
    found = np.empty((REPLICATES, n))
    sizes = (2**power, 2 ** max(power - PRIOR_POWER, 0))
    share = sizes[0] / sum(sizes)
    step = max(NUMBERS_AT_ONCE // (sum(sizes) * values.shape[1]), 1)
    for first in range(0, n, step):
        at = slice(first, first + step)
        own = RowScores(*(part[at] for part in scores))
        root = np.linalg.cholesky(own.covariance)
        inverse = np.linalg.inv(root)
        for rows in found[:, at]:
            near = own.mean + np.einsum("rab,srb->sra", root, _normal(sizes[0], len(root), k, rng))
            eta = np.concatenate([near, _normal(sizes[1], len(root), k, rng)])
            logs = likelihood.log_density(values[at], eta @ loadings.T, parameters).sum(axis=2)
            prior = -0.5 * np.sum(eta**2, axis=2)
            white = np.einsum("rab,srb->sra", inverse, eta - own.mean)
            own_q = -0.5 * np.sum(white**2, axis=2) - 0.5 * own.log_det
            mixture = np.logaddexp(np.log(share) + own_q, np.log1p(-share) + prior)
            rows[:] = logsumexp(logs + prior - mixture, axis=0) - np.log(sum(sizes))
    return SampledRows(np.asarray(logsumexp(found, axis=0) - np.log(REPLICATES)), found)


def _normal(size: int, rows: int, k: int, rng: np.random.Generator) -> Array:
    """(size, rows, k) standard normal numbers, by Sobol points with a random shift for each row."""
    if not k:
        return np.zeros((size, rows, 0))
    points = qmc.Sobol(k, scramble=False).random(size)[:, None, :]
    shifted = (points + rng.random((rows, k))) % 1.0
    uniform = 1.0 - np.abs(2.0 * shifted - 1.0)  # a periodic integrand has a smaller error
    return np.asarray(ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12)))


def _scores_of(tau: Array, nu: Array, loadings: Array) -> RowScores:
    """The product of the prior N(0, I) and all factors."""
    k = loadings.shape[1]
    precision = (tau @ flat(outer(loadings))).reshape(len(tau), k, k) + np.eye(k)
    covariance = np.asarray(np.linalg.inv(precision), dtype=float)
    mean = (covariance @ (nu @ loadings)[:, :, None])[:, :, 0]
    return RowScores(mean, covariance, -np.linalg.slogdet(precision)[1])


def _linear(scores: RowScores, loadings: Array) -> tuple[Array, Array]:
    """Mean and variance of λ_jᵀη_i, (n, p)."""
    return scores.mean @ loadings.T, flat(scores.covariance) @ flat(outer(loadings)).T


def _cavities_of(scores: RowScores, tau: Array, nu: Array, loadings: Array) -> _Cavities:
    mean, variance = _linear(scores, loadings)
    rest = 1.0 - tau * variance
    return _Cavities((mean - nu * variance) / rest, variance / rest)


def _log_probability(
    tau: Array,
    nu: Array,
    cavities: _Cavities,
    tilted: TiltedMoments,
    scores: RowScores,
    loadings: Array,
) -> Array:
    """Log of the normalizer of EP, of each row."""
    mean, variance = cavities
    rest = 1.0 + tau * variance
    by_cell = tilted.log_normalizer + 0.5 * np.log(rest)
    by_cell += 0.5 * (mean**2 * tau - 2.0 * mean * nu - nu**2 * variance) / rest
    own = 0.5 * (scores.log_det + np.sum(scores.mean * (nu @ loadings), axis=1))
    return np.asarray(by_cell.sum(axis=1) + own)
