"""Exact conditional draws of all unknowns, from sufficient statistics.

A Gaussian likelihood is invariant to rotations of the rows of Y. So the data enter as R (r×p) with
RᵀR = YᵀY, r = min(n, p), as if they were r rows followed by n − r rows of zeros, and the cost of a
sweep does not depend on n. Of the scores of the rows of zeros only the second moments are needed, a
Wishart draw.

Drawn in turn, scores and loadings mix slowly: the standard deviation of the scale of Λ is of order
1/√(np) given the scores, and 1/√n a posteriori. `scale_rotation_move` moves along η → Rη,
Λ → ΛR^{-1}, which does not change the likelihood, by one elementary R after the other, each drawn
from its exact distribution (Liu & Sabatti, 2000).

B chains are drawn together: arrays are (p, B, K), so that the products with the data are one large
matrix product.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.wishart import wishart_root
from cuspfa.inference.updates import LoadingsDistribution
from cuspfa.model.likelihoods.gaussian import Noise, draw_noise
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import Slab
from cuspfa.model.slabs.base import SlabHyperparameters

HYPER_STEPS = 10
"""Metropolis steps for a slab's hyperparameters in each sweep; ten times as many at the start."""


class Statistics(Protocol):
    """Sufficient statistics of n rows: R with RᵀR = YᵀY, and n."""

    @property
    def rows(self) -> Array:
        """(r, p) R."""

    @property
    def gram(self) -> Array | None:
        """(p, p) YᵀY where that is kept, otherwise None."""

    @property
    def n(self) -> float:
        """Rows in the likelihood, n ≥ r."""

    @property
    def squares(self) -> Array:
        """(p,) Σ_i y_ij²."""

    def arranged(self, order: Indices, signs: Array) -> Statistics:
        """The statistics of the columns in this order, with these signs."""


class Scales(NamedTuple):
    """Variances θ_h of the columns of Λ, and the slab's hyperparameters."""

    variances: Array
    """(B, K)"""
    hyperparameters: SlabHyperparameters | None = None
    """Of the distribution of the variances, (B,) each; None where the variances are given."""
    free: BoolArray | None = None
    """(B, K) which of the columns have that distribution; None: all. The variances of the others
    are given, and a variance of zero marks a column that a chain does not have."""

    def only(self, columns: Indices) -> Scales:
        """The scales of some columns."""
        free = None if self.free is None else self.free[:, columns]
        return self._replace(variances=self.variances[:, columns], free=free)


class Scores(NamedTuple):
    """A draw of the scores, by the products that loadings and noise depend on."""

    cross: Array
    """(p, B, K) Yᵀη."""
    second: Array
    """(B, K, K) ηᵀη."""


class Chains(NamedTuple):
    """The state of B chains, without the scores."""

    loadings: Array
    """(p, B, K)"""
    noise: Array
    """(p, B) variances."""
    scales: Scales


def begin_at(
    loadings: LoadingsDistribution, noise: Noise, slab: Slab, size: int, rng: np.random.Generator
) -> Chains:
    """Chains that begin at draws from q."""
    drawn, variances = draw_from_q(loadings, noise, size, rng)
    scales = first_scales(squared_norms(gram(drawn)), slab, len(variances), rng)
    return Chains(drawn, variances, scales)


def draw_from_q(
    loadings: LoadingsDistribution, noise: Noise, size: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Loadings (p, size, K) and noise variances (p, size), drawn from q."""
    z = flip(rng.standard_normal((len(noise.rate), size, loadings.directions)))
    drawn = np.ascontiguousarray(flip(loadings.deviations(z) + loadings.mean))
    return drawn, noise.draw(size, rng)


def sweep_complete(
    chains: Chains, data: Statistics, slab: Slab, prior: CuspPrior, rng: np.random.Generator
) -> Chains:
    """One sweep: rotation of Λ, scales, scores, loadings and noise."""
    every = np.arange(chains.loadings.shape[2])
    chains = rotate_loadings(chains, every, slab, rng)
    p = len(chains.noise)
    scales = draw_scales(squared_norms(gram(chains.loadings)), chains.scales, slab, p, rng)
    return draw_given_scales(chains._replace(scales=scales), every, data, slab, prior, rng)


def rotate_loadings(chains: Chains, moved: Indices, slab: Slab, rng: np.random.Generator) -> Chains:
    """`draw_rotation` of these columns; θ must be drawn before it is used again."""
    part = chains.loadings[:, :, moved]
    turned = draw_rotation(gram(part), chains.scales.only(moved), slab, len(part), rng)
    loadings = chains.loadings.copy()
    loadings[:, :, moved] = flip(flip(part) @ turned)
    return chains._replace(loadings=loadings)


def draw_given_scales(
    chains: Chains,
    moved: Indices,
    data: Statistics,
    slab: Slab,
    prior: CuspPrior,
    rng: np.random.Generator,
) -> Chains:
    """Scores, loadings and noise given the scales.

    Between scores and loadings, `scale_rotation_move` of the columns `moved`.
    """
    scores = draw_scores(chains.loadings, chains.noise, data, rng)
    squares = data.squares[:, None]
    return draw_given_scores(chains, scores, squares, data.n, moved, slab, prior, rng)


def draw_given_scores(
    chains: Chains,
    scores: Scores,
    squares: Array,
    n: float,
    moved: Indices,
    slab: Slab,
    prior: CuspPrior,
    rng: np.random.Generator,
) -> Chains:
    """`scale_rotation_move` of the columns `moved`, then loadings and noise.

    `squares` are the sums of squares of the columns of n rows, (p, B) or (p, 1).
    """
    scales = chains.scales
    if len(moved):
        _, scores, scales = scale_rotate_scores(chains, scores, moved, slab, n, rng)
    loadings = draw_loadings(scales.variances, chains.noise, scores, rng)
    noise = draw_noise(loadings, *scores, squares, n, prior, rng)
    return Chains(loadings, noise, scales)


def scale_rotate_scores(
    chains: Chains, scores: Scores, moved: Indices, slab: Slab, n: float, rng: np.random.Generator
) -> tuple[Array, Scores, Scales]:
    """R (B, K, K), scores and scales after `scale_rotation_move` of these columns."""
    p, size, k = chains.loadings.shape
    block = np.ix_(np.arange(size), moved, moved)
    part = gram(chains.loadings[:, :, moved])
    own, _, after = scale_rotation_move(
        part, scores.second[block], chains.scales.only(moved), slab, n, p, rng
    )
    root = np.zeros((size, k, k))
    root[:, np.arange(k), np.arange(k)] = 1.0
    root[block] = own
    cross = flip(flip(scores.cross) @ root.transpose(0, 2, 1))
    second = root @ scores.second @ root.transpose(0, 2, 1)
    variances = chains.scales.variances.copy()
    variances[:, moved] = after.variances
    return root, Scores(cross, second), chains.scales._replace(variances=variances)


def draw_rotation(
    columns: Array, scales: Scales, slab: Slab, p: int, rng: np.random.Generator
) -> Array:
    """Draw Q of Λ → ΛQ from pairs of columns, (B, K, K), with ΛᵀΛ = `columns` before it.

    Only the slab depends on a rotation of Λ; θ and η are integrated out.

    A posteriori columns of similar norm are rotated at random, and `scale_rotation_move` explores
    rotations only in steps of order 1/√(n + p).
    """
    size, k, _ = columns.shape
    c = columns.transpose(1, 2, 0).copy()  # of one draw it would be a view of the argument
    root = np.zeros_like(c)
    root[np.arange(k), np.arange(k)] = 1.0
    hyper = scales.hyperparameters
    if hyper is None:  # given variances: `scale_rotation_move` draws their rotation
        return np.asarray(root.transpose(2, 0, 1))
    for h in range(k):
        for other in range(h + 1, k):
            angle = np.pi * rng.uniform(-1, 1, size) * np.exp(-4 * rng.uniform(0, 1, size))
            cos, sin = np.cos(angle), np.sin(angle)
            mixed = 2 * cos * sin * c[h, other]
            first = cos**2 * c[h, h] + mixed + sin**2 * c[other, other]
            second = sin**2 * c[h, h] - mixed + cos**2 * c[other, other]
            pair = (c[h, h], c[other, other], first, second)
            before_h, before_other, after_h, after_other = (
                slab.log_kernel(squared_norm, hyper, p) for squared_norm in pair
            )
            loss = before_h + before_other - after_h - after_other
            moved = rng.standard_exponential(size) > loss
            if scales.free is not None:
                moved &= scales.free[:, h] & scales.free[:, other]
            cos, sin = np.where(moved, cos, 1.0), np.where(moved, sin, 0.0)
            for part in (c, root):  # rows, then columns of the Gram matrix
                part[h], part[other] = (
                    cos * part[h] + sin * part[other],
                    cos * part[other] - sin * part[h],
                )
            c[:, h], c[:, other] = (
                cos * c[:, h] + sin * c[:, other],
                cos * c[:, other] - sin * c[:, h],
            )
    return np.asarray(root.transpose(2, 1, 0))


def draw_scores(
    loadings: Array, noise: Array, data: Statistics, rng: np.random.Generator
) -> Scores:
    """η | Λ, σ², Y, as moments: η_i ~ N(V Λᵀ Σ^{-1} y_i, V), V = (I + ΛᵀΣ^{-1}Λ)^{-1}."""
    p, size, k = loadings.shape
    weights, root = score_weights(loadings, noise)
    weights = np.ascontiguousarray(flip(weights))
    scores = (data.rows @ weights.reshape(p, size * k)).reshape(len(data.rows), size, k)
    scores += flip(rng.standard_normal((size, len(scores), k)) @ root)
    cross = (data.rows.T @ scores.reshape(len(scores), size * k)).reshape(p, size, k)
    second = gram(scores)
    second += _rows_of_zeros(round(data.n) - len(scores), root, rng)
    return Scores(cross, second)


def draw_scores_by_chain(
    loadings: Array, noise: Array, rows: Array, n: float, rng: np.random.Generator
) -> Scores:
    """`draw_scores` where each chain has data of its own: R (B, r, p) of n rows."""
    weights, root = score_weights(loadings, noise)
    scores = rows @ weights
    scores += rng.standard_normal(scores.shape) @ root
    second = scores.transpose(0, 2, 1) @ scores
    second += _rows_of_zeros(round(n) - rows.shape[1], root, rng)
    return Scores(flip(rows.transpose(0, 2, 1) @ scores), second)


def score_weights(loadings: Array, noise: Array) -> tuple[Array, Array]:
    """Σ^{-1}ΛV (B, p, K) and a root of V = rootᵀ root, (B, K, K); see `draw_scores`."""
    k = loadings.shape[2]
    scaled = loadings / noise[:, :, None]
    precision = flip(loadings).transpose(0, 2, 1) @ flip(scaled)
    precision[:, np.arange(k), np.arange(k)] += 1.0
    root = np.linalg.inv(np.linalg.cholesky(precision))
    return flip(scaled) @ (root.transpose(0, 2, 1) @ root), root


def _rows_of_zeros(number: int, root: Array, rng: np.random.Generator) -> Array | float:
    """ηᵀη of the scores of rows of zeros, (B, K, K)."""
    size, k, _ = root.shape
    if number <= 0:
        return 0.0
    return np.asarray(root.transpose(0, 2, 1) @ standard_wishart(number, size, k, rng) @ root)


def scale_rotation_move(
    columns: Array,
    second: Array,
    scales: Scales,
    slab: Slab,
    n: float,
    p: int,
    rng: np.random.Generator,
) -> tuple[Array, Array, Scales]:
    """Draw R of η → Rη, Λ → ΛR^{-1}; give R (B, K, K), ηᵀη and the scales after it.

    Elementary moves, with C = ΛᵀΛ and M = ηᵀη. Shears η_h += xη_k, λ_k −= xλ_h, for which

        −½(M_kk + C_hh/θ_k) x² + (C_kh/θ_k − M_kh) x

    is the log density of x: normal. Scales η_h → √u η_h, λ_h → λ_h/√u and, where the slab draws
    both together, θ_h → θ_h/u, with u from `Slab.draw_px_scale`; with θ_h held fixed u has the
    generalised inverse Gaussian distribution u^{(n−p)/2−1} exp{−½(uM_hh + C_hh/(θ_h u))}.
    """
    k = second.shape[1]
    # Chains last: the memory of a row is contiguous.
    m, c = (np.ascontiguousarray(part.transpose(1, 2, 0)) for part in (second, columns))
    root = np.zeros_like(m)
    root[np.arange(k), np.arange(k)] = 1.0
    theta = np.array(scales.variances.T, order="C")
    there = theta > 0
    theta[~there] = np.inf  # columns that a chain does not have
    whole = bool(there.all())
    joint = scales.hyperparameters is not None and slab.capabilities.scales_jointly
    for h in range(k):
        for other in range(k):
            if other == h:
                continue
            precision = m[other, other] + c[h, h] / theta[other]
            x = (c[other, h] / theta[other] - m[other, h]) / precision
            x += rng.standard_normal(len(x)) / np.sqrt(precision)
            if not whole:  # a column that the chain does not have stays at zero
                x *= there[other]
            m[h] += x * m[other]
            m[:, h] += x * m[:, other]
            c[other] -= x * c[h]
            c[:, other] -= x * c[:, h]
            root[h] += x * root[other]
        u = _draw_px_scale(m[h, h], c[h, h], theta[h], h, scales, slab, n, p, rng)
        if not whole:
            u = np.where(there[h], u, 1.0)
        if joint:
            theta[h] /= u if scales.free is None else np.where(scales.free[:, h], u, 1.0)
        s = np.sqrt(u)
        m[h] *= s
        m[:, h] *= s
        c[h] /= s
        c[:, h] /= s
        root[h] *= s
    back = (2, 0, 1)
    theta[~there] = 0.0
    return root.transpose(back), m.transpose(back), scales._replace(variances=theta.T)


def _draw_px_scale(
    scores: Array,
    squared_norm: Array,
    theta: Array,
    h: int,
    scales: Scales,
    slab: Slab,
    n: float,
    p: int,
    rng: np.random.Generator,
) -> Array:
    """Draw u of η_h → √u η_h, λ_h → λ_h/√u, (B,); see `scale_rotation_move`."""
    hyper, free = scales.hyperparameters, None if scales.free is None else scales.free[:, h]
    if not slab.capabilities.scales_jointly:
        hyper = None
    given = None
    if hyper is None or (free is not None and not free.all()):
        # The draw of a column that the chain does not have is not used.
        ratio = np.maximum(squared_norm / theta, np.finfo(float).tiny)
        safe = np.where(np.isinf(theta), 1.0, ratio)
        given = _generalised_inverse_gaussian((n - p) / 2, scores, safe, rng)
    if hyper is None:
        assert given is not None
        return given
    u = slab.draw_px_scale(scores, theta, hyper, n, rng)
    return u if given is None or free is None else np.where(free, u, given)


def draw_loadings(
    variances: Array, noise: Array, scores: Scores, rng: np.random.Generator
) -> Array:
    """Λ | η, σ², θ, (p, B, K): all rows of a chain share one eigenbasis, as in `updates.py`."""
    root = np.sqrt(variances)
    d, u = np.linalg.eigh(root[:, :, None] * scores.second * root[:, None, :])
    basis = root[:, :, None] * u
    spread = 1.0 / (1.0 + np.maximum(d, 0.0) / noise[:, :, None])
    coordinates = flip(flip(scores.cross) @ basis) * spread / noise[:, :, None]
    # U on both sides of the root of the spread: a symmetric root, independent of signs in U.
    coordinates += np.sqrt(spread) * flip(flip(rng.standard_normal(spread.shape)) @ u)
    return np.ascontiguousarray(flip(flip(coordinates) @ basis.transpose(0, 2, 1)))


def draw_scales(
    squared_norm: Array,
    scales: Scales,
    slab: Slab,
    p: int,
    rng: np.random.Generator,
    steps: int = HYPER_STEPS,
) -> Scales:
    """Draw θ | Λ where it is unknown, and before it the slab's hyperparameters."""
    if scales.hyperparameters is None:
        return scales
    free = scales.free
    drawn, hyper = slab.draw_variances(
        squared_norm, scales.hyperparameters, p, rng, active=free, steps=steps
    )
    return Scales(drawn if free is None else np.where(free, drawn, scales.variances), hyper, free)


def first_scales(squared_norm: Array, slab: Slab, p: int, rng: np.random.Generator) -> Scales:
    """Scales of a start, for columns of these squared norms (B, K).

    Variances that are given or plugged in are those of the mean squared norm.
    """
    size, k = squared_norm.shape
    hyper = slab.start_hyperparameters(size)
    if hyper is not None:
        given = Scales(np.ones((size, k)), hyper)
        return draw_scales(squared_norm, given, slab, p, rng, steps=10 * HYPER_STEPS)
    variances = 1.0 / slab.precision(squared_norm.mean(axis=0), p)
    return Scales(np.broadcast_to(variances, (size, k)).copy())


def _generalised_inverse_gaussian(
    power: float, linear: Array, inverse: Array, rng: np.random.Generator
) -> Array:
    """A step from u = 1 that keeps u^{power−1} exp{−½(linear u + inverse/u)}.

    In v = log u the density is log-concave with thinner tails than the normal distribution at its
    mode, so that a few Metropolis steps with proposals from there (a little widened) are nearly a
    draw.
    """
    root = np.sqrt(power**2 + linear * inverse)
    # Each form of the mode where it does not cancel.
    mode = np.log((power + root) / linear if power >= 0 else inverse / (root - power))
    width = 1.1 / np.sqrt(root)

    def log_ratio(v: Array) -> Array:
        target = power * v - 0.5 * (linear * np.exp(v) + inverse * np.exp(-v))
        return np.asarray(target + 0.5 * ((v - mode) / width) ** 2)

    v = np.zeros_like(mode)
    for _ in range(3):
        proposal = mode + width * rng.standard_normal(len(mode))
        moved = -rng.standard_exponential(len(mode)) < log_ratio(proposal) - log_ratio(v)
        v = np.where(moved, proposal, v)
    return np.asarray(np.exp(v))


def flip(array: Array) -> Array:
    """(p, B, K) as (B, p, K), and back."""
    return array.transpose(1, 0, 2)


def gram(array: Array) -> Array:
    """ΛᵀΛ of each chain, (B, K, K), for Λ (p, B, K)."""
    return np.asarray(flip(array).transpose(0, 2, 1) @ flip(array))


def covariances(loadings: Array, noise: Array) -> Array:
    """Ω = ΛΛᵀ + Σ of each chain, (B, p, p), for Λ (p, B, K) and noise (p, B)."""
    own = flip(loadings)
    omega: Array = own @ own.transpose(0, 2, 1)
    diagonal = np.arange(len(noise))
    omega[:, diagonal, diagonal] += noise.T
    return omega


def squared_norms(columns: Array) -> Array:
    """‖λ_·h‖², (B, K), from ΛᵀΛ."""
    return np.asarray(np.diagonal(columns, axis1=1, axis2=2))


def standard_wishart(freedom: int, size: int, k: int, rng: np.random.Generator) -> Array:
    """Wishart(freedom, I_k), (size, k, k): Bartlett's decomposition, or a few rows' products."""
    if freedom < k:
        rows = rng.standard_normal((size, freedom, k))
        return np.asarray(rows.transpose(0, 2, 1) @ rows)
    lower = wishart_root(freedom, size, k, rng)
    return np.asarray(lower @ lower.transpose(0, 2, 1))
