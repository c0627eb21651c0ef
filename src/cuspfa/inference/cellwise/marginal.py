"""The probability of a row with its scores integrated out, log p(x_i | Λ, parameters).

Expectation propagation (EP) replaces the density of each cell by a normal factor in λ_jᵀη_i,
exp{νf − ½τf²}, whose moments agree with those of the cell given all other factors. It is quick and
nearly exact. With one or two factors there is quadrature too.
"""

from __future__ import annotations

from itertools import product
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from cuspfa._typing import Array, Indices
from cuspfa.inference._kernels import kernel
from cuspfa.inference.cellwise.state import RowScores, flat, outer
from cuspfa.model.likelihoods.base import (
    Intervals,
    Likelihood,
    TiltedMoments,
    hermite_nodes,
)

EP_ITERATIONS, EP_TOLERANCE = 200, 1e-10
"""Most iterations, and the change of a row's log probability at which they end."""
DAMPING = 0.9
"""The part of the way to its new value that a factor moves in an iteration."""
LEAST_DAMPING = 0.1
"""It is halved for rows that do not converge, down to this."""
PATIENCE = 10
"""Iterations after which the damping of rows that have not converged is halved."""
INTEGRATION_NODES, INTEGRATION_WIDTH = 31, 1.15
"""Nodes of quadrature for a factor, and the width of their normal distribution."""
NUMBERS_AT_ONCE = 2_000_000
"""Nodes times cells that are held at once."""


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


class DistinctRows(NamedTuple):
    """Rows that occur several times, once each."""

    values: Array
    """(m, p)"""
    counts: Array
    """(m,) how often each occurs."""
    place: Indices
    """(n,) where the rows of the table are."""

    @classmethod
    def of(cls, values: Array) -> DistinctRows:
        """The rows of this table; missing values are equal to each other."""
        coded = np.where(np.isnan(values), np.inf, values)
        _, first, place, counts = np.unique(
            coded, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        return cls(values[first], counts.astype(float), place.reshape(-1).astype(np.intp))


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
    tolerance: float = EP_TOLERANCE,
) -> Propagated:
    """EP for each row, all cells at once, for loadings (p, K).

    `start` gives factors to begin at, those of similar loadings. A row ends where its log
    probability changes by less than `tolerance`, which is of second order in the factors.
    """
    shape, k = (len(values), len(loadings)), loadings.shape[1]
    tau, nu = np.zeros(shape), np.zeros(shape)
    if start is not None:
        tau, nu = start.precision.copy(), start.shift.copy()
    core = kernel("cells")
    cells = None if core is None else likelihood.intervals(values, parameters)
    if core is not None and cells is not None:
        return _compiled(core, cells, loadings, tau, nu, tolerance)
    logs, scores = np.full(len(values), np.inf), _prior_scores(len(values), k)
    damping, rows = DAMPING, np.arange(len(values))  # the rows that have not converged
    for number in range(EP_ITERATIONS):
        own_tau, own_nu = tau[rows], nu[rows]
        there = _scores_of(own_tau, own_nu, loadings)
        cavities = _cavities_of(there, own_tau, own_nu, loadings)
        tilted = likelihood.tilted(values[rows], *cavities, parameters)
        found = _log_probability(own_tau, own_nu, cavities, tilted, there, loadings)
        going = ~(np.abs(found - logs[rows]) < tolerance * (1.0 + np.abs(found)))
        logs[rows] = found
        for whole, piece in zip(scores, there, strict=True):
            whole[rows] = piece
        if not np.any(going):
            rows = rows[:0]
            break
        if number and number % PATIENCE == 0:
            damping = max(damping / 2, LEAST_DAMPING)
        rest = 1.0 + cavities.variance * tilted.curvature
        new_tau = np.maximum(-tilted.curvature / rest, 0.0)
        new_nu = (tilted.slope - cavities.mean * tilted.curvature) / rest
        rows = rows[going]
        tau[rows] += damping * (new_tau - own_tau)[going]
        nu[rows] += damping * (new_nu - own_nu)[going]
    return Propagated(logs, scores, tau, nu, not len(rows))


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


def corrections(
    at: Propagated, values: Array, likelihood: Likelihood, parameters: Any, loadings: Array
) -> Array:
    """(n,) what log p(x_i) has beyond EP, to the first order that is not zero.

    With c_l the cumulants of f_ij given all factors but the cell's own, and the cell, and C the
    covariance of f_i under EP it is Σ_{j<k} Σ_l c_lj c_lk (C_jk/C_jj C_kk)^l / l!, of which l = 3
    and 4 are kept (Opper, Paquet & Winther, 2013).
    """
    core, found = kernel("cells"), np.zeros(len(values))
    cells = None if core is None else likelihood.intervals(values, parameters)
    if core is not None and cells is not None:
        given = [np.ascontiguousarray(part) for part in (*cells, loadings, at.precision, at.shift)]
        core.corrections(*given, at.scores.mean, np.ascontiguousarray(at.scores.covariance), found)
        return found
    mean, variance = cavities_of(at, loadings)
    third, fourth = likelihood.tilted_further(values, mean, variance, parameters)
    own = np.maximum(_linear(at.scores, loadings)[1], 1e-300)
    # Of counts, the last column of the values has the offsets.
    ratio = np.where(np.isnan(values[:, : len(loadings)]), 0.0, variance / own)
    third, fourth = third * ratio**3, fourth * ratio**4
    p = len(loadings)
    step = max(NUMBERS_AT_ONCE // p**2, 1)
    for first in range(0, len(values), step):
        rows = slice(first, first + step)
        together = loadings @ at.scores.covariance[rows] @ loadings.T
        together[:, np.arange(p), np.arange(p)] = 0.0
        for power, cumulant, orders in ((3, third[rows], 12.0), (4, fourth[rows], 48.0)):
            moved = (together**power @ cumulant[:, :, None])[:, :, 0]
            found[rows] += np.sum(cumulant * moved, axis=1) / orders
    return found


def cavities_of(at: Propagated, loadings: Array) -> tuple[Array, Array]:
    """Mean and variance of each f_ij under all factors of the row but its own, (n, p) each."""
    return _cavities_of(at.scores, at.precision, at.shift, loadings)


def integrate_rows(
    values: Array, likelihood: Likelihood, parameters: Any, loadings: Array, scores: RowScores
) -> Array:
    """(n,) log p(x_i | Λ, parameters) by Gauss–Hermite quadrature around the moments of EP.

    For one or two factors: the nodes are a product.
    """
    n, k = scores.mean.shape
    one, weights = hermite_nodes(INTEGRATION_NODES)
    nodes = np.array(list(product(one, repeat=k))).reshape(-1, k)
    logs_of = np.array([sum(part) for part in product(np.log(weights), repeat=k)])
    logs_of = logs_of.reshape(-1) + 0.5 * np.sum(nodes**2, axis=1)
    found = np.empty(n)
    step = max(NUMBERS_AT_ONCE // (len(nodes) * values.shape[1]), 1)
    for first in range(0, n, step):
        at = slice(first, first + step)
        # Wider than the distribution of EP, so that tails that are not normal are covered.
        root = INTEGRATION_WIDTH * np.linalg.cholesky(scores.covariance[at])
        eta = scores.mean[at] + np.einsum("rab,sb->sra", root, nodes)
        logs = likelihood.log_density(values[at], eta @ loadings.T, parameters).sum(axis=2)
        logs += logs_of[:, None] - 0.5 * np.sum(eta**2, axis=2)
        own = 0.5 * scores.log_det[at] + k * np.log(INTEGRATION_WIDTH)
        found[at] = logsumexp(logs, axis=0) + own
    return found


def _compiled(
    core: ModuleType,
    cells: Intervals,
    loadings: Array,
    tau: Array,
    nu: Array,
    tolerance: float,
) -> Propagated:
    """EP by the compiled core, for cells of normal responses; τ and ν are changed."""
    (n, k), logs = (len(tau), loadings.shape[1]), np.empty(len(tau))
    scores = RowScores(np.empty((n, k)), np.empty((n, k, k)), np.empty(n))
    settings = (EP_ITERATIONS, tolerance, DAMPING, LEAST_DAMPING, PATIENCE)
    given = [np.ascontiguousarray(part) for part in (*cells, loadings)]
    left = core.propagate(*given, tau, nu, logs, *scores, *settings)
    return Propagated(logs, scores, tau, nu, not left)


def _prior_scores(n: int, k: int) -> RowScores:
    return RowScores(np.zeros((n, k)), np.tile(np.eye(k), (n, 1, 1)), np.zeros(n))


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
