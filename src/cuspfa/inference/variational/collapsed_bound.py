"""A score for the number of factors that is honest about what mean field loses.

The bound of q(Λ)q(η)q(σ²) lies below log p(y | K) by an amount that grows like K², because it
keeps loadings and scores apart and sees one of the many rotations of Λ that are as good. Here the
scores are integrated out and both losses are given back:

    L(K) = E_q̃[log p(Y | Λ, Σ) + log p(Λ) + log p(Σ) − log q̃(Λ) − log q(Σ)] + orbit + log P(H* = K)

q̃(Λ) = N(μ, blockdiag(V_j) + U C Uᵀ) widens q along the K(K+1)/2 scale directions vec(μX), X
symmetric, by what mean field misses of their uncertainty. The expectation is a mean over draws.

Orbit: if q̃ is replaced by its average over copies of itself, E[log p] stays (or falls by a known
loss) and the entropy grows. The copies are either the 2^K K! signed permutations of the columns,
far apart from each other, gain log 2^K K!; or all rotations and reflections, gain
log vol O(K) + ½ log|J| − ¼K(K−1) log 2πe with J the information of q̃ about the angles, less what
the slab loses when columns mix; or rotations of the m strongest columns and signed permutations of
the others. Each gives a lower bound of log p(y), so the largest one counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpotrf
from scipy.sparse import csr_array
from scipy.special import gammaln

from cuspfa._typing import Array, Indices
from cuspfa.data.protocols import DataSource
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.model.likelihoods.gaussian import log_noise_ratio
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import LOG_2PI, Slab

SURROGATE_PAIRS, SURROGATE_ERROR = 100, 0.3
"""Pairs of draws for a surrogate of the data, and the error of its difference to them, in nats,
that is small enough."""
ROTATIONS = 100
"""Random rotations for the loss of the slab when columns mix."""


class Evidence(NamedTuple):
    """Estimate of log p(y, K), from below, and the Monte Carlo error of that bound."""

    value: float
    error: float
    n_draws: int = 0
    """The most that the data themselves were to be asked for."""


def evidence(
    state: VariationalState,
    source: DataSource,
    prior: CuspPrior,
    rng: np.random.Generator,
    n_draws: int,
    before_each: Callable[[], None] = lambda: None,
) -> Evidence:
    """Collapsed bound of a converged state; for a spike at zero.

    Where there is a surrogate of the data, it is quick, and varies with Λ and σ² nearly as the data
    do: few draws find the difference of the two, and many the surrogate itself. What is called
    before each draw may raise, to stop it.
    """
    k = state.n_factors
    constant = prior.log_count_probability(k)
    constant += state.slab.log_hyper_evidence(state.loadings.column_squared_norm, source.p)
    widened = Widened(state)
    like = source.surrogate(state.loadings.mean, 1.0 / state.noise.precision)
    values, shadows = [], []
    for number in range(max(n_draws // 2, 2)):
        before_each()
        drawn = _Pair.draw(state, widened, prior, rng)
        values.append(drawn.value(source))
        shadows.append(0.0 if like is None else drawn.value(like))
        if like is not None and number >= 2 and _error(values, shadows) < SURROGATE_ERROR:
            break
    average, error = float(np.mean(np.subtract(values, shadows))), _error(values, shadows)
    if like is not None:
        more = [_Pair.draw(state, widened, prior, rng).value(like) for _ in range(SURROGATE_PAIRS)]
        average += float(np.mean(shadows + more))
        error = float(np.hypot(error, _error(shadows + more)))
    value = average + constant + _orbit(state, widened)
    return Evidence(value, error, n_draws)


def _error(values: list[float], known: list[float] | None = None) -> float:
    """Standard error of the mean of values, or of differences to known ones."""
    array = np.array(values) if known is None else np.subtract(values, known)
    return float(np.std(array, ddof=1) / np.sqrt(len(array)))


class _Pair(NamedTuple):
    """Two draws of Λ from q̃ on opposite sides of its mean, and one of the noise.

    What is linear in the draws has mean zero and cancels.
    """

    loadings: tuple[Array, Array]
    noise: Array
    rest: float
    """The mean over both of log p(Λ, σ²) − log q̃."""

    @classmethod
    def draw(
        cls, state: VariationalState, widened: Widened, prior: CuspPrior, rng: np.random.Generator
    ) -> _Pair:
        noise = state.noise.rate / rng.standard_gamma(state.noise.shape)
        delta, log_q = widened.draw(rng)
        both = (widened.mean + delta, widened.mean - delta)
        slab = [state.slab.log_density(np.sum(one**2, axis=0), len(noise)) for one in both]
        log_prior = 0.5 * float(np.sum(slab))
        return cls(both, noise, log_noise_ratio(noise, state.noise, prior) + log_prior - log_q)

    def value(self, source: DataSource) -> float:
        """The mean of log p(y, Λ, σ²) − log q̃(Λ, σ²)."""
        likely = [source.log_likelihood(one, self.noise) for one in self.loadings]
        return 0.5 * sum(likely) + self.rest


class Widened:
    """q̃(Λ), with the linear algebra of its scale directions in K² dimensions."""

    def __init__(self, state: VariationalState) -> None:
        self.distribution = state.loadings
        self.mean, self.log_det = self.distribution.mean, self.distribution.log_det
        k = self.mean.shape[1]
        self.metric = metric = self.distribution.metric()
        self.directions = symmetric(k)
        gram = self.directions @ metric @ self.directions.T
        known = np.maximum(np.diag(gram), 1e-100)  # a dead factor's directions have no length
        self.widths = np.maximum(_scale_variances(state) - 1.0 / known, 1e-12)
        inner = np.diag(1.0 / self.widths) + gram
        self.inner = cholesky(inner, lower=True) if k else inner
        if k:
            self.log_det += float(np.sum(np.log(self.widths)))
            self.log_det += 2.0 * float(np.sum(np.log(np.diag(self.inner))))
        turns = antisymmetric(k)
        across = self.directions @ metric @ turns.T
        # What q̃ knows of the angles: its inverse covariance along the rotations μA.
        self.information = turns @ metric @ turns.T
        if across.size:  # older SciPy refuses to solve for nothing
            explained = solve_triangular(self.inner, across, lower=True)
            self.information -= explained.T @ explained

    def draw(self, rng: np.random.Generator) -> tuple[Array, float]:
        """Λ − μ and log q̃(Λ), the same for both signs."""
        p, k = self.mean.shape
        delta = self.distribution.deviations(rng.standard_normal((p, k)))
        x = np.sqrt(self.widths) * rng.standard_normal(len(self.widths))
        delta += self.mean @ (x @ self.directions).reshape(k, k)
        whitened = self.distribution.whitened(delta)
        along = self.directions @ (self.mean.T @ whitened).ravel()
        explained = solve_triangular(self.inner, along, lower=True) if k else along
        quadratic = float(np.sum(delta * whitened) - explained @ explained)
        return delta, -0.5 * (p * k * LOG_2PI + self.log_det + quadratic)


def _scale_variances(state: VariationalState) -> Array:
    """Variances of X_hk (h ≤ k) when Λ(I + X) follows the matched Wishart distribution of its
    scale.
    """
    squared_norm, n, p = state.loadings.column_squared_norm, state.scores.n, len(state.noise.rate)
    freedom = state.slab.scale_freedom(squared_norm, n, p)
    # Off the diagonal the slab adds its precision times the squared norm that is moved.
    moved = np.outer(squared_norm, state.slab.precision(squared_norm, p))
    freedom_of_pairs = n - p + moved + moved.T
    np.fill_diagonal(freedom_of_pairs, freedom)
    rows, columns = np.triu_indices(len(squared_norm))
    pairs = np.maximum(freedom_of_pairs[rows, columns], 1.0)
    return np.asarray(np.where(rows == columns, 0.5, 0.25) / pairs)


def symmetric(k: int) -> csr_array:
    """The K(K+1)/2 symmetric directions, as rows of K² numbers, of which one or two are not 0."""
    rows, columns = np.triu_indices(k)
    return _directions(k, rows, columns, np.where(rows == columns, 0.0, 1.0))


def antisymmetric(k: int) -> csr_array:
    """The K(K−1)/2 rotations of two columns, as rows of K² numbers, of which two are not 0."""
    rows, columns = np.triu_indices(k, 1)
    return _directions(k, rows, columns, np.full(len(rows), -1.0))


def _directions(k: int, rows: Indices, columns: Indices, mirrored: Array) -> csr_array:
    """1 at (row, column) and `mirrored` at (column, row)."""
    number = np.arange(len(rows))
    values = np.concatenate([np.ones(len(rows)), mirrored])
    places = np.concatenate([rows * k + columns, columns * k + rows])
    kept = values != 0.0
    at = (np.tile(number, 2)[kept], places[kept])
    return csr_array((values[kept], at), shape=(len(rows), k * k))


def _orbit(state: VariationalState, widened: Widened) -> float:
    """The best choice of m: rotate the m strongest columns, permute and reflect the others."""
    p, k = state.loadings.mean.shape
    second = state.loadings.weighted_gram(np.ones(p))
    order = np.argsort(-np.diag(second))
    second = second[np.ix_(order, order)]
    rank = np.argsort(order)
    first, other = np.triu_indices(k, 1)
    by_strength = np.argsort(np.maximum(rank[first], rank[other]), kind="stable")
    log_dets = _nested_log_dets(widened.information[np.ix_(by_strength, by_strength)])
    gains = [float(k * np.log(2) + gammaln(k + 1))]  # m = 0: signed permutations alone
    for m in range(2, k + 1):
        angles = m * (m - 1) // 2  # those of the m strongest columns come first
        if angles > len(log_dets):
            break  # nothing is known of an angle: no gain of a finite size
        gain = log_volume(m) + 0.5 * float(log_dets[angles - 1])
        gain -= 0.25 * m * (m - 1) * (1.0 + float(np.log(2 * np.pi)))
        gain -= _mixing_loss(second[:m, :m], state.slab, p)
        others = float(gammaln(k + 1) - gammaln(m + 1) + (k - m) * np.log(2))
        gains.append(gain + others)
    return max(gains)


def _nested_log_dets(matrix: Array) -> Array:
    """Log determinants of the leading 1×1, 2×2, ... blocks, as long as they are positive."""
    if not matrix.size:
        return np.zeros(0)
    root, failed = dpotrf(matrix, lower=1)
    good = failed - 1 if failed else len(matrix)
    return np.asarray(2.0 * np.cumsum(np.log(np.diag(root)[:good])))


def log_volume(k: int) -> float:
    """Of all rotations and reflections O(K)."""
    orders = np.arange(1, k + 1)
    return float(np.sum(np.log(2) + orders / 2 * np.log(np.pi) - gammaln(orders / 2)))


def _mixing_loss(second: Array, slab: Slab, p: int) -> float:
    """What Σ_h φ(E_h) loses on average when the columns are rotated at random."""
    if slab.capabilities.rotation_invariant:
        return 0.0
    rng = np.random.default_rng(0)  # the same rotations every time: an average, not a draw
    rotations = np.linalg.qr(rng.standard_normal((ROTATIONS, len(second), len(second))))[0]
    squared_norms = np.einsum("rah,rah->rh", rotations, second @ rotations)
    mixed = [float(np.sum(slab.log_density(squared_norm, p))) for squared_norm in squared_norms]
    return float(np.sum(slab.log_density(np.diag(second), p))) - float(np.mean(mixed))
