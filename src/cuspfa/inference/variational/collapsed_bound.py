"""A score for the number of factors: a bound without the two losses of mean field.

The bound of q(Λ)q(η)q(σ²) lies below log p(y | K) by an amount that grows like K²: loadings and
scores are independent under q, and q covers one of many equivalent rotations of Λ. Here the scores
are integrated out, and both losses are corrected:

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

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotrf
from scipy.special import gammaln

from cuspfa._typing import Array, Indices
from cuspfa._utils.linalg import pair_places, solve_lower, upper_half
from cuspfa.data.protocols import DataSource
from cuspfa.inference._kernels import kernel
from cuspfa.inference.kernels import flip
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.model.likelihoods.gaussian import log_noise_density, log_noise_prior
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import LOG_2PI, Slab

SURROGATE_PAIRS, SURROGATE_ERROR = 100, 0.3
"""Pairs of draws for a surrogate of the data, and the error of its difference to them, in nats,
that is small enough."""
MIXING_DIRECTIONS = 3000
"""Random directions for the loss of the slab when columns mix."""
BATCH_SIZE = 2_000_000
"""Most loadings that are drawn at a time, in numbers."""


class Evidence(NamedTuple):
    """Estimate of log p(y, K), from below, and the Monte Carlo error of that bound."""

    value: float
    error: float
    n_draws: int = 0
    """The most draws for which the likelihood of the data was to be computed."""


def evidence(
    state: VariationalState,
    source: DataSource,
    prior: CuspPrior,
    rng: np.random.Generator,
    n_draws: int,
    before_each: Callable[[], None] = lambda: None,
) -> Evidence:
    """Collapsed bound of a converged state; for a spike at zero."""
    return CollapsedBound(state, source, prior, rng).with_draws(n_draws, before_each)


class CollapsedBound:
    """The bound of one state, with draws to which more can be added.

    Where there is a surrogate of the data, its likelihood is quick and nearly the same function of
    Λ and σ². So the mean of the difference takes few draws, and the mean for the surrogate many.
    """

    def __init__(
        self,
        state: VariationalState,
        source: DataSource,
        prior: CuspPrior,
        rng: np.random.Generator,
    ) -> None:
        self._state, self._source, self._prior, self._rng = state, source, prior, rng
        self._widened, self._values = Widened(state), np.zeros(0)
        self._constant = prior.log_count_probability(state.n_factors) + _orbit(state, self._widened)
        squared_norm = state.loadings.column_squared_norm
        self._constant += state.slab.log_hyper_evidence(squared_norm, source.p)
        self._surrogate = source.surrogate(state.loadings.mean, state.noise_variance)

    def with_draws(self, n_draws: int, before_each: Callable[[], None] = lambda: None) -> Evidence:
        """The estimate from so many draws, those made before among them.

        `before_each` is called before each likelihood of the data, or those of a batch, and may
        raise, to stop.
        """
        n_pairs = max(n_draws // 2, 2)
        if self._surrogate is None:
            new = [
                pairs.values(self._source)
                for pairs in self._batches(n_pairs - len(self._values), before_each)
            ]
            self._values = np.concatenate([self._values, *new])
            average, error = float(np.mean(self._values)), _error(self._values)
        else:
            average, error = self._by_surrogate(self._surrogate, n_pairs, before_each)
        return Evidence(average + self._constant, error, n_draws)

    def _by_surrogate(
        self, surrogate: DataSource, n_pairs: int, before_each: Callable[[], None]
    ) -> tuple[float, float]:
        """Mean and error from new draws."""
        differences: list[float] = []
        shadows: list[Array] = []
        for pairs in self._batches(n_pairs + SURROGATE_PAIRS, before_each):
            shadows.append(pairs.values(surrogate))
            for number, shadow in enumerate(shadows[-1]):
                if len(differences) >= n_pairs or (
                    len(differences) > 2 and _error(np.array(differences)) < SURROGATE_ERROR
                ):
                    break
                before_each()
                differences.append(float(pairs.only(number).values(self._source)[0] - shadow))
        average = float(np.mean(differences) + np.mean(np.concatenate(shadows)))
        error = float(np.hypot(_error(np.array(differences)), _error(np.concatenate(shadows))))
        return average, error

    def _batches(self, n_pairs: int, before_each: Callable[[], None]) -> Iterator[_Pairs]:
        """Pairs of draws, as many at a time as fit into `BATCH_SIZE` numbers."""
        most = max(BATCH_SIZE // max(self._state.loadings.mean.size, 1), 1)
        for first in range(0, n_pairs, most):
            before_each()
            size = min(most, n_pairs - first)
            yield _draw_pairs(self._state, self._widened, self._prior, self._rng, size)


def _error(values: Array) -> float:
    """Standard error of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


class _Pairs(NamedTuple):
    """Draws of Λ from q̃, two at a time on opposite sides of its mean, with one of the noise.

    What is linear in the draws has mean zero and cancels.
    """

    loadings: tuple[Array, Array]
    """(p, size, K) each."""
    noise: Array
    """(p, size) variances."""
    rest: Array
    """(size,) the mean over both of log p(Λ, σ²) − log q̃."""

    def only(self, number: int) -> _Pairs:
        """The pair at this position."""
        at = slice(number, number + 1)
        one, other = self.loadings
        return _Pairs((one[:, at], other[:, at]), self.noise[:, at], self.rest[at])

    def values(self, source: DataSource) -> Array:
        """(size,) the means of log p(y, Λ, σ²) − log q̃(Λ, σ²)."""
        likely = [source.log_likelihoods(one, self.noise) for one in self.loadings]
        return np.asarray(0.5 * (likely[0] + likely[1]) + self.rest)


def _draw_pairs(
    state: VariationalState,
    widened: Widened,
    prior: CuspPrior,
    rng: np.random.Generator,
    size: int,
) -> _Pairs:
    noise = state.noise.draw(size, rng)
    delta, log_q = widened.draw(size, rng)
    both = (widened.mean + delta, widened.mean - delta)
    slab = [
        np.sum(state.slab.log_density(np.sum(one**2, axis=1), len(noise)), axis=1) for one in both
    ]
    rest = log_noise_prior(noise, prior) - log_noise_density(noise, state.noise)
    rest += 0.5 * (slab[0] + slab[1]) - log_q
    return _Pairs((flip(both[0]), flip(both[1])), noise, rest)


class Widened:
    """q̃(Λ), with the linear algebra of its scale directions in K² dimensions.

    A scale direction is a pair of columns h ≤ k, X = e_h e_kᵀ + e_k e_hᵀ (or e_h e_hᵀ); a rotation
    is a pair h < k, A = e_h e_kᵀ − e_k e_hᵀ. Rotations are ordered by the weaker column of the
    pair, so that those of the m strongest columns come first.
    """

    def __init__(self, state: VariationalState) -> None:
        self.distribution = state.loadings
        self.mean, self.log_det = self.distribution.mean, self.distribution.log_det
        k = self.mean.shape[1]
        self.pairs = upper_half(k)
        self.turns = _turns_by_strength(self.distribution.column_squared_norm)
        metric = direction_metrics(self.distribution.metric(), k, self.turns)
        inner, across, self.information = metric
        known = np.maximum(np.diag(inner), 1e-100)  # directions of a factor without signal are 0
        self.widths = np.maximum(_scale_variances(state) - 1.0 / known, 1e-12)
        inner[np.diag_indices_from(inner)] += 1.0 / self.widths
        self.inner = cholesky(inner, lower=True, check_finite=False) if k else inner
        if k:
            self.log_det += float(np.sum(np.log(self.widths)))
            self.log_det += 2.0 * float(np.sum(np.log(np.diag(self.inner))))
        # Information of q̃ about the angles: its inverse covariance along the rotations μA.
        self.explained = self.solve(across)
        self.information -= self.explained.T @ self.explained

    def solve(self, along: Array) -> Array:
        """L^{-1} of columns of numbers along the scale directions, L the Cholesky factor of the
        inverse covariance of X given the draws of q.
        """
        return solve_lower(self.inner, along)

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Λ − μ, (size, p, K), and log q̃(Λ), (size,), the same for both signs."""
        p, k = self.mean.shape
        delta = self.draw_moves(rng.standard_normal((size, p, k)), rng)
        whitened = self.distribution.whitened(delta)
        along = along_pairs(self.mean.T @ whitened, self.pairs)
        explained = self.solve(along.T)
        quadratic = np.sum(delta * whitened, axis=(1, 2)) - np.sum(explained**2, axis=0)
        return delta, np.asarray(-0.5 * (p * k * LOG_2PI + self.log_det + quadratic))

    def draw_moves(self, z: Array, rng: np.random.Generator) -> Array:
        """Λ − μ of standard normal numbers z (size, p, K) and a draw of X for each."""
        size, (h, other), k = len(z), self.pairs, self.mean.shape[1]
        moves = np.zeros((size, k, k))
        x = np.sqrt(self.widths) * rng.standard_normal((size, len(self.widths)))
        moves[:, h, other] = x
        moves[:, other, h] = x
        return np.asarray(self.distribution.deviations(z) + self.mean @ moves)


def along_pairs(products: Array, pairs: tuple[Indices, Indices]) -> Array:
    """Inner products of matrices (size, K, K) with the scale directions, (size, K(K+1)/2)."""
    h, other = pairs
    return products[:, h, other] + np.where(h == other, 0.0, products[:, other, h])


def along_turns(products: Array, turns: tuple[Indices, Indices]) -> Array:
    """Inner products of matrices (size, K, K) with the rotations, (size, K(K−1)/2)."""
    h, other = turns
    return np.asarray(products[:, h, other] - products[:, other, h])


def _turns_by_strength(squared_norm: Array) -> tuple[Indices, Indices]:
    """Pairs of columns h < k by the rank of the weaker one."""
    rank = np.argsort(np.argsort(-squared_norm, kind="stable"))
    h, other = np.triu_indices(len(squared_norm), 1)
    order = np.argsort(np.maximum(rank[h], rank[other]), kind="stable")
    return h[order], other[order]


def direction_metrics(
    metric: Array, k: int, turns: tuple[Indices, Indices]
) -> tuple[Array, Array, Array]:
    """The metric between scale directions, between these and rotations, and between rotations.

    `metric` is that of `LoadingsDistribution`: Σ_j μ_jr μ_jr' (V_j^{-1})_cc' is in the row of the
    pair r, r' and the column of the pair c, c'. Of two directions (h, k) and (h', k') each number
    is a sum of four such, with signs: rc = hk and kh, r'c' = h'k' and k'h'.
    """
    (h, other), place, at = upper_half(k), pair_places(k), pair_places(k)[turns]
    compiled = kernel("evidence")
    if compiled is not None:
        turn = np.full(len(h), -1)
        turn[at] = np.arange(len(at))
        shapes = ((len(h), len(h)), (len(h), len(at)), (len(at), len(at)))
        filled = tuple(np.empty(shape) for shape in shapes)
        compiled.direction_metrics(metric, place, turn, *filled)
        return filled[0], filled[1], filled[2]
    first, second = place[h][:, h], place[other][:, other]
    across = place[other][:, h]
    straight, mirrored, crossed = (
        metric[first, second],
        metric[second, first],
        metric[across, across.T],
    )
    half = np.where(h == other, 0.5, 1.0)  # on the diagonal both parts of a direction are the same
    same, swapped = straight + mirrored, crossed + crossed.T
    scales = (same + swapped) * half * half[:, None]
    between = (straight - mirrored + crossed - crossed.T)[:, at] * half[:, None]
    return scales, between, (same - swapped)[np.ix_(at, at)]


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


def _orbit(state: VariationalState, widened: Widened) -> float:
    """The best choice of m: rotate the m strongest columns, permute and reflect the others."""
    p, k = state.loadings.mean.shape
    second = state.loadings.weighted_gram(np.ones(p))
    order = np.argsort(-np.diag(second), kind="stable")
    losses = _mixing_losses(second[np.ix_(order, order)], state.slab, p)
    log_dets = _nested_log_dets(widened.information)
    gains = [float(k * np.log(2) + gammaln(k + 1))]  # m = 0: signed permutations alone
    for m in range(2, k + 1):
        angles = m * (m - 1) // 2  # those of the m strongest columns come first
        if angles > len(log_dets):
            break  # no information about an angle: the gain is not finite
        gain = log_volume(m) + 0.5 * float(log_dets[angles - 1]) - float(losses[m - 1])
        gain -= 0.25 * m * (m - 1) * (1.0 + float(np.log(2 * np.pi)))
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
    """Log volume of O(K), all rotations and reflections."""
    orders = np.arange(1, k + 1)
    return float(np.sum(np.log(2) + orders / 2 * np.log(np.pi) - gammaln(orders / 2)))


def _mixing_losses(second: Array, slab: Slab, p: int) -> Array:
    """The mean fall of Σ_h φ(E_h), E_h a squared norm, when the first m columns are rotated at
    random, for m = 1..K, (K,).

    Each column of a random rotation has a direction u of uniform distribution, so that the mean is
    m E φ(uᵀS_m u), S_m the first m rows and columns of E[ΛᵀΛ]. With z standard normal, zᵀS_m z and
    zᵀz are sums that grow by one term with m. The mean of uᵀS_m u is known: what φ has of it to
    first order is not averaged over draws.
    """
    k = len(second)
    if slab.capabilities.rotation_invariant or k < 2:
        return np.zeros(k)
    rng = np.random.default_rng(0)  # the same directions every time: an average, not a draw
    z = rng.standard_normal((MIXING_DIRECTIONS, k))
    rows = z @ (2.0 * np.triu(second, 1) + np.diag(np.diag(second)))
    squared_norms = np.cumsum(z * rows, axis=1) / np.cumsum(z**2, axis=1)
    sizes = np.arange(1, k + 1)
    means = np.cumsum(np.diag(second)) / sizes
    first_order = -0.5 * slab.precision(means, p) * (squared_norms - means)
    mixed = np.mean(slab.log_density(squared_norms, p) - first_order, axis=0)
    return np.asarray(np.cumsum(slab.log_density(np.diag(second), p)) - sizes * mixed)
