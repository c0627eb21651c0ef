"""Exact conditional draws of all unknowns, from sufficient statistics.

A Gaussian model does not see a rotation of the rows of Y. So the data enter as R (r×p) with
RᵀR = YᵀY, r = min(n, p), as if they were r rows followed by n − r rows of zeros; what a sweep
costs does not depend on n. The scores of the rows of zeros are needed only by their second
moments, a Wishart draw.

Scores and loadings hold each other fast: given the scores the scale of Λ is known to 1/√(np), yet
a posteriori only to 1/√n. `turn` frees them: it moves along η → Rη, Λ → ΛR^{-1}, which the data
do not see, one elementary R after the other, each drawn from its exact law (Liu & Sabatti, 2000).

Many chains move together: arrays are (p, B, K), one chain for each of the B, so that the products
with the data are one large matrix product.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from cuspfa._types import Array
from cuspfa.blocks import LoadingsLaw, Noise
from cuspfa.prior import CuspPrior
from cuspfa.slabs import InverseGammaSlab, Slab

HYPER_STEPS = 10
"""Metropolis steps for what a pooled slab learns, in each sweep; ten times as many to begin."""


class Statistics(Protocol):
    """What the model can know of n rows: R with RᵀR = YᵀY, and n."""

    @property
    def rows(self) -> Array:
        """(r, p) R."""

    @property
    def n(self) -> float:
        """Rows the likelihood counts, n ≥ r."""

    @property
    def squares(self) -> Array:
        """(p,) Σ_i y_ij²."""


class Scales(NamedTuple):
    """Variances θ_h of the columns of Λ, and a, b of their inverse gamma law if they have one."""

    variances: Array
    """(B, K)"""
    shape: Array | None
    """(B,) a; None where variances are given."""
    rate: Array | None
    """(B,) b."""


class Scores(NamedTuple):
    """All that loadings and noise may know of a draw of the scores."""

    cross: Array
    """(p, B, K) Yᵀη."""
    second: Array
    """(B, K, K) ηᵀη."""


class Chains(NamedTuple):
    """B draws of what there is to know."""

    loadings: Array
    """(p, B, K)"""
    noise: Array
    """(p, B) variances."""
    scales: Scales


def begin_at(
    loadings: LoadingsLaw, noise: Noise, slab: Slab, size: int, rng: np.random.Generator
) -> Chains:
    """Chains that begin at draws from q."""
    p = len(noise.rate)
    z = flip(rng.standard_normal((p, size, loadings.directions)))
    drawn = np.ascontiguousarray(flip(loadings.deviations(z) + loadings.mean))
    gamma = rng.standard_gamma(noise.shape[:, None], size=(p, size))
    scales = first_scales(energies(gram(drawn)), slab, p, rng)
    return Chains(drawn, noise.rate[:, None] / gamma, scales)


def sweep(
    chains: Chains, data: Statistics, slab: Slab, prior: CuspPrior, rng: np.random.Generator
) -> Chains:
    """One draw of everything, each block given the others."""
    p = len(chains.noise)
    loadings = flip(flip(chains.loadings) @ rotate(gram(chains.loadings), chains.scales, p, rng))
    columns = gram(loadings)
    scales = draw_scales(energies(columns), chains.scales, slab, p, rng)
    scores = draw_scores(loadings, chains.noise, data, rng)
    root, second, scales = turn(columns, scores.second, scales, data.n, p, rng)
    scores = Scores(flip(flip(scores.cross) @ root.transpose(0, 2, 1)), second)
    loadings = draw_loadings(scales.variances, chains.noise, scores, rng)
    return Chains(loadings, draw_noise(loadings, scores, data, prior, rng), scales)


def rotate(columns: Array, scales: Scales, p: int, rng: np.random.Generator) -> Array:
    """Draw Q of Λ → ΛQ from pairs of columns, (B, K, K), with ΛᵀΛ = `columns` before it.

    Only the slab can see a rotation of Λ; θ and η are integrated out.

    A posteriori columns of like strength are rotated at random, and `turn` would find that out in
    steps of 1/√(n + p).
    """
    size, k, _ = columns.shape
    c = np.ascontiguousarray(columns.transpose(1, 2, 0))
    root = np.zeros_like(c)
    root[np.arange(k), np.arange(k)] = 1.0
    a, b = scales.shape, scales.rate
    if a is None or b is None:  # given variances: what they prefer is left to `turn`
        return np.asarray(root.transpose(2, 0, 1))
    for h in range(k):
        for other in range(h + 1, k):
            angle = np.pi * rng.uniform(-1, 1, size) * np.exp(-4 * rng.uniform(0, 1, size))
            cos, sin = np.cos(angle), np.sin(angle)
            mixed = 2 * cos * sin * c[h, other]
            first = cos**2 * c[h, h] + mixed + sin**2 * c[other, other]
            second = sin**2 * c[h, h] - mixed + cos**2 * c[other, other]
            before = np.log(b + c[h, h] / 2) + np.log(b + c[other, other] / 2)
            after = np.log(b + first / 2) + np.log(b + second / 2)
            moved = rng.standard_exponential(size) > (a + p / 2) * (after - before)
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
    scaled = loadings / noise[:, :, None]
    precision = flip(loadings).transpose(0, 2, 1) @ flip(scaled)
    precision[:, np.arange(k), np.arange(k)] += 1.0
    root = np.linalg.inv(np.linalg.cholesky(precision))  # V = rootᵀ root
    weights = np.ascontiguousarray(flip(flip(scaled) @ (root.transpose(0, 2, 1) @ root)))
    scores = (data.rows @ weights.reshape(p, size * k)).reshape(-1, size, k)
    scores += flip(rng.standard_normal((size, len(scores), k)) @ root)
    cross = (data.rows.T @ scores.reshape(-1, size * k)).reshape(p, size, k)
    second = gram(scores)
    rest = round(data.n) - len(scores)
    if rest > 0:
        second += root.transpose(0, 2, 1) @ standard_wishart(rest, size, k, rng) @ root
    return Scores(cross, second)


def turn(
    columns: Array,
    second: Array,
    scales: Scales,
    n: float,
    p: int,
    rng: np.random.Generator,
) -> tuple[Array, Array, Scales]:
    """Draw R of η → Rη, Λ → ΛR^{-1}; give R (B, K, K), ηᵀη and the scales after it.

    Elementary moves, with C = ΛᵀΛ and M = ηᵀη. Shears η_h += xη_k, λ_k −= xλ_h, for which

        −½(M_kk + C_hh/θ_k) x² + (C_kh/θ_k − M_kh) x

    is the log density of x: normal. Scales η_h → √u η_h, λ_h → λ_h/√u and, where θ_h is unknown,
    θ_h → θ_h/u, for which the law of u is Gamma(n/2 + a, M_hh/2 + b/θ_h); where θ_h is given it
    is the generalised inverse Gaussian law u^{(n−p)/2−1} exp{−½(uM_hh + C_hh/(θ_h u))}.
    """
    k = second.shape[1]
    # Chains last: a row of these is contiguous.
    m, c = (np.ascontiguousarray(part.transpose(1, 2, 0)) for part in (second, columns))
    root = np.zeros_like(m)
    root[np.arange(k), np.arange(k)] = 1.0
    theta = np.ascontiguousarray(scales.variances.T)
    for h in range(k):
        for other in range(k):
            if other == h:
                continue
            precision = m[other, other] + c[h, h] / theta[other]
            x = (c[other, h] / theta[other] - m[other, h]) / precision
            x += rng.standard_normal(len(x)) / np.sqrt(precision)
            m[h] += x * m[other]
            m[:, h] += x * m[:, other]
            c[other] -= x * c[h]
            c[:, other] -= x * c[:, h]
            root[h] += x * root[other]
        if scales.shape is not None and scales.rate is not None:
            u = rng.standard_gamma(n / 2 + scales.shape)
            u /= m[h, h] / 2 + scales.rate / theta[h]
            theta[h] /= u
        else:
            u = _generalised_inverse_gaussian((n - p) / 2, m[h, h], c[h, h] / theta[h], rng)
        s = np.sqrt(u)
        m[h] *= s
        m[:, h] *= s
        c[h] /= s
        c[:, h] /= s
        root[h] *= s
    back = (2, 0, 1)
    return root.transpose(back), m.transpose(back), scales._replace(variances=theta.T)


def draw_loadings(
    variances: Array, noise: Array, scores: Scores, rng: np.random.Generator
) -> Array:
    """Λ | η, σ², θ, (p, B, K): all rows of a chain share one eigenbasis, as in `blocks.py`."""
    root = np.sqrt(variances)
    d, u = np.linalg.eigh(root[:, :, None] * scores.second * root[:, None, :])
    basis = root[:, :, None] * u
    spread = 1.0 / (1.0 + np.maximum(d, 0.0) / noise[:, :, None])
    coordinates = flip(flip(scores.cross) @ basis) * spread / noise[:, :, None]
    coordinates += np.sqrt(spread) * rng.standard_normal(spread.shape)
    return np.ascontiguousarray(flip(flip(coordinates) @ basis.transpose(0, 2, 1)))


def draw_noise(
    loadings: Array, scores: Scores, data: Statistics, prior: CuspPrior, rng: np.random.Generator
) -> Array:
    """σ² | Λ, η, Y, (p, B)."""
    fitted = flip(flip(loadings) @ scores.second) - 2.0 * scores.cross
    rss = np.maximum(data.squares[:, None] + np.sum(loadings * fitted, axis=2), 0.0)
    gamma = rng.standard_gamma(prior.noise_shape + data.n / 2, size=rss.shape)
    return np.asarray((prior.noise_rate + rss / 2) / gamma)


def draw_scales(
    energy: Array,
    scales: Scales,
    slab: Slab,
    p: int,
    rng: np.random.Generator,
    steps: int = HYPER_STEPS,
) -> Scales:
    """θ | Λ, where it is unknown, and before it a and b where a pooled slab learns them."""
    if scales.shape is None or scales.rate is None:
        return scales
    a, b = scales.shape, scales.rate
    if isinstance(slab, InverseGammaSlab) and slab.pooled:
        a, b = _draw_pooled(a, b, energy, slab, p, rng, steps)
    gamma = rng.standard_gamma((a + p / 2)[:, None], size=energy.shape)
    return Scales((b[:, None] + energy / 2) / gamma, a, b)


def _draw_pooled(
    a: Array,
    b: Array,
    energy: Array,
    slab: InverseGammaSlab,
    p: int,
    rng: np.random.Generator,
    steps: int,
) -> tuple[Array, Array]:
    """Metropolis steps of many sizes for (log a, log b), with θ integrated out."""
    u, w = np.log(a), np.log(b)
    here = slab.pooled_log_density(u, w, energy, p)
    for _ in range(steps):
        size = np.exp(rng.uniform(-2.5, 0.7, size=len(u)))
        along, apart = size * rng.standard_normal((2, len(u)))
        new_u, new_w = u + along, w + along + 0.5 * apart
        there = slab.pooled_log_density(new_u, new_w, energy, p)
        moved = -rng.standard_exponential(len(u)) < there - here
        u, w = np.where(moved, new_u, u), np.where(moved, new_w, w)
        here = np.where(moved, there, here)
    return np.exp(u), np.exp(w)


def first_scales(energy: Array, slab: Slab, p: int, rng: np.random.Generator) -> Scales:
    """Scales to begin with, for columns of these energies (B, K).

    A slab without a law for its variances (given, or plugged in) keeps those of the mean energy.
    """
    size, k = energy.shape
    if isinstance(slab, InverseGammaSlab):
        given = Scales(np.ones((size, k)), np.full(size, slab.shape), np.full(size, slab.rate))
        return draw_scales(energy, given, slab, p, rng, steps=10 * HYPER_STEPS)
    variances = 1.0 / slab.precision(energy.mean(axis=0), p)
    return Scales(np.broadcast_to(variances, (size, k)).copy(), None, None)


def _generalised_inverse_gaussian(
    power: float, linear: Array, inverse: Array, rng: np.random.Generator
) -> Array:
    """A step from u = 1 that keeps u^{power−1} exp{−½(linear u + inverse/u)}.

    In v = log u the density is log-concave with thinner tails than the normal law at its mode, so
    that a few Metropolis steps with proposals from there (a little widened) are nearly a draw.
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
    """(p, B, K) seen as (B, p, K), and back."""
    return array.transpose(1, 0, 2)


def gram(array: Array) -> Array:
    """Of (p, B, K), each chain's K×K products of columns, (B, K, K)."""
    return np.asarray(flip(array).transpose(0, 2, 1) @ flip(array))


def energies(columns: Array) -> Array:
    """‖λ_·h‖², (B, K), from ΛᵀΛ."""
    return np.asarray(np.diagonal(columns, axis1=1, axis2=2))


def standard_wishart(freedom: int, size: int, k: int, rng: np.random.Generator) -> Array:
    """Wishart(freedom, I_k), (size, k, k): Bartlett's triangle, or plain rows if they are few."""
    if freedom < k:
        rows = rng.standard_normal((size, freedom, k))
        return np.asarray(rows.transpose(0, 2, 1) @ rows)
    lower = np.tril(rng.standard_normal((size, k, k)), -1)
    own = np.sqrt(rng.chisquare(freedom - np.arange(k), size=(size, k)))
    lower[:, np.arange(k), np.arange(k)] = own
    return np.asarray(lower @ lower.transpose(0, 2, 1))
