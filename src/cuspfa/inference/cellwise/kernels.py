"""Exact conditional draws for ordinal columns with the probit link.

The model has normal responses z_ij = λ_jᵀη_i + ε_ij, ε_ij ~ N(0, 1), which the cut-points divide
into categories. Given z the kernels of the Gaussian model apply, with a noise variance of one. A
sweep draws

1. cut-points given scores and loadings, with z integrated out (Metropolis), then z itself;
2. for each column, z_j, κ_j and λ_j times a common factor, and for all columns κ and z with the
   mean of the scores: moves along which the categories do not change (Liu & Sabatti, 2000);
3. rotation and scales of the loadings, the scores, the scale-rotation move, and the loadings.

Missing cells have responses without limits. Arrays of B chains are (p, B, K) for loadings, as in
`cuspfa.inference.kernels`, and (B, n, …) for scores and responses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be
from cuspfa.inference.cellwise.state import CellState
from cuspfa.inference.kernels import (
    Chains,
    Scales,
    Scores,
    draw_loadings,
    draw_scales,
    first_scales,
    flip,
    gram,
    rotate_loadings,
    scale_rotate_scores,
    score_weights,
    squared_norms,
)
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from cuspfa.model.slabs import Slab

CUT_MOVES = 2
"""Metropolis steps for the cut-points in each sweep."""
CUT_STEP = 1.5
"""Length of their proposals, in standard deviations of a cut-point given all else."""
DRAWN_BY_LOGS = -30.0
"""Truncated normal numbers below it are drawn by logarithms."""


class OrdinalChains(NamedTuple):
    """The state of B chains, without the responses."""

    loadings: Array
    """(p, B, K)"""
    scores: Array
    """(B, n, K)"""
    cuts: Array
    """(B, p, C − 1), +∞ where a column has fewer levels."""
    scales: Scales


class OrdinalData(NamedTuple):
    """What is given."""

    values: Array
    """(n, p) positions of the categories, or (B, n, p) where each chain has data of its own."""
    likelihood: OrdinalLikelihood
    cut_steps: Array
    """(p, C − 1) standard deviations of the proposals for cut-points."""

    @classmethod
    def of(cls, values: Array, likelihood: OrdinalLikelihood) -> OrdinalData:
        """With proposals as long as a cut-point is uncertain, from the counts of its column."""
        if likelihood.link != "probit":
            raise must_be("link", "'probit' for exact sweeps", likelihood.link)
        counts = np.maximum(np.sum(~np.isnan(values), axis=-2), 1)
        counts = counts if counts.ndim == 1 else counts.mean(axis=0)
        levels = likelihood.n_levels
        steps = CUT_STEP / np.sqrt(counts * np.maximum(levels - 1, 1) / 2.0)
        return cls(values, likelihood, np.tile(steps[:, None], (1, int(levels.max()) - 1)))


def begin_ordinal(
    state: CellState, slab: Slab, size: int, rng: np.random.Generator
) -> OrdinalChains:
    """Chains that begin at draws from q."""
    loadings, scores = state.loadings, state.scores
    p, k = loadings.mean.shape
    z = rng.standard_normal((size, p, k))
    certain = not np.any(loadings.covariance)
    drawn = loadings.mean + (np.zeros_like(z) if certain else loadings.deviations(z))
    chained = np.ascontiguousarray(flip(np.asarray(drawn)))
    root = np.linalg.cholesky(scores.covariance)
    spread = np.einsum("nab,snb->sna", root, rng.standard_normal((size, *scores.mean.shape)))
    scales = first_scales(squared_norms(gram(chained)), slab, p, rng)
    cuts = np.tile(state.parameters, (size, 1, 1))
    return OrdinalChains(chained, scores.mean + spread, cuts, scales)


def sweep_ordinal(
    at: OrdinalChains, data: OrdinalData, slab: Slab, rng: np.random.Generator
) -> OrdinalChains:
    """One draw of all unknowns."""
    linear = at.scores @ flip(at.loadings).transpose(0, 2, 1)
    cuts = draw_cuts(at.cuts, linear, data, rng)
    responses = draw_responses(linear, cuts, data, rng)
    at, responses = rescale_columns(at._replace(cuts=cuts), responses, linear, data, rng)
    at, responses = shift_scores(at, responses, data, rng)
    return draw_given_responses(at, responses, slab, rng)


def draw_cuts(cuts: Array, linear: Array, data: OrdinalData, rng: np.random.Generator) -> Array:
    """Metropolis steps for the cut-points of each column, given f (B, n, p), without z."""
    one, values = data.likelihood, _with_chains(data.values, linear)

    def log_target(at: Array) -> Array:
        cells = one.log_density(values, linear, at)
        return np.asarray(cells.sum(axis=1) + one.log_cut_density(at))

    here = log_target(cuts)
    for _ in range(CUT_MOVES):
        length = data.cut_steps * np.exp(rng.uniform(-1.5, 0.5, size=cuts.shape[:2]))[..., None]
        proposal = cuts + length * rng.standard_normal(cuts.shape)
        with np.errstate(invalid="ignore"):
            ordered = np.all(~(np.diff(proposal, axis=-1) <= 0.0), axis=-1)
        safe = np.where(ordered[..., None], proposal, cuts)
        there = log_target(safe)
        moved = ordered & (-rng.standard_exponential(here.shape) < there - here)
        cuts = np.where(moved[..., None], safe, cuts)
        here = np.where(moved, there, here)
    return cuts


def draw_responses(
    linear: Array, cuts: Array, data: OrdinalData, rng: np.random.Generator
) -> Array:
    """z_ij ~ N(f_ij, 1) between the cut-points of its category, (B, n, p)."""
    lower, upper = data.likelihood.limits(_with_chains(data.values, linear), cuts)
    return linear + truncated_normal(lower - linear, upper - linear, rng)


def rescale_columns(
    at: OrdinalChains,
    responses: Array,
    linear: Array,
    data: OrdinalData,
    rng: np.random.Generator,
) -> tuple[OrdinalChains, Array]:
    """Draw s of (z_j, κ_j, λ_j) → s(z_j, κ_j, λ_j) for each column.

    With the density of z, cut-points and loadings and the Jacobian s^{n+C−1+K}, s² has a gamma
    distribution. A column of a variance of zero has no loadings and does not count.
    """
    finite = np.isfinite(at.cuts)
    own = np.where(finite, at.cuts, 0.0) / data.likelihood.cut_sd
    variances = at.scales.variances
    there = variances > 0
    weights = np.where(there, 1.0 / np.where(there, variances, 1.0), 0.0)
    squares = np.sum((responses - linear) ** 2, axis=1) + np.sum(own**2, axis=2)
    squares += np.einsum("pbk,bk->bp", at.loadings**2, weights)
    power = responses.shape[1] + finite.sum(axis=2) + there.sum(axis=1)[:, None]
    s = np.sqrt(rng.standard_gamma(power / 2.0) / (squares / 2.0))
    moved = at._replace(loadings=at.loadings * s.T[:, :, None], cuts=at.cuts * s[:, :, None])
    return moved, responses * s[:, None, :]


def shift_scores(
    at: OrdinalChains, responses: Array, data: OrdinalData, rng: np.random.Generator
) -> tuple[OrdinalChains, Array]:
    """Draw c of η_i → η_i + c, z_i → z_i + Λc, κ_j → κ_j + λ_jᵀc: normal, and no cell changes."""
    finite = np.isfinite(at.cuts)
    cuts, shrink = np.where(finite, at.cuts, 0.0), data.likelihood.cut_sd**-2
    own = flip(at.loadings)
    n, k = at.scores.shape[1:]
    precision = own.transpose(0, 2, 1) @ (shrink * finite.sum(axis=2)[:, :, None] * own)
    precision += n * np.eye(k)
    towards = at.scores.sum(axis=1) + shrink * (cuts.sum(axis=2)[:, None, :] @ own)[:, 0]
    root = np.linalg.cholesky(precision)
    inverse = np.linalg.inv(root)
    mean = -(inverse.transpose(0, 2, 1) @ (inverse @ towards[:, :, None]))[:, :, 0]
    noise = rng.standard_normal(mean.shape)
    c = mean + (inverse.transpose(0, 2, 1) @ noise[:, :, None])[:, :, 0]
    shift = (own @ c[:, :, None])[:, :, 0]
    moved = at._replace(scores=at.scores + c[:, None, :], cuts=at.cuts + shift[:, :, None])
    return moved, responses + shift[:, None, :]


def draw_given_responses(
    at: OrdinalChains, responses: Array, slab: Slab, rng: np.random.Generator
) -> OrdinalChains:
    """Rotation, scales, scores and loadings, by the kernels of the Gaussian model."""
    p, size, k = at.loadings.shape
    n, every, noise = responses.shape[1], np.arange(k), np.ones((p, size))
    chains = rotate_loadings(Chains(at.loadings, noise, at.scales), every, slab, rng)
    squared_norm = squared_norms(gram(chains.loadings))
    chains = chains._replace(scales=draw_scales(squared_norm, chains.scales, slab, p, rng))
    weights, root = score_weights(chains.loadings, noise)
    scores = responses @ weights + rng.standard_normal((size, n, k)) @ root
    known = Scores(
        np.ascontiguousarray(flip(responses.transpose(0, 2, 1) @ scores)),
        scores.transpose(0, 2, 1) @ scores,
    )
    scales = chains.scales
    if k:
        r, known, scales = scale_rotate_scores(chains, known, every, slab, float(n), rng)
        scores = scores @ r.transpose(0, 2, 1)
    loadings = draw_loadings(scales.variances, noise, known, rng)
    return OrdinalChains(loadings, scores, at.cuts, scales)


def truncated_normal(lower: Array, upper: Array, rng: np.random.Generator) -> Array:
    """Standard normal numbers between the limits, by the inverse of their distribution function.

    The interval is reflected so that its end nearer to zero is the upper one.
    """
    reflected = lower + upper > 0.0
    low, high = np.where(reflected, -upper, lower), np.where(reflected, -lower, upper)
    uniform = rng.random(low.shape)
    below = ndtr(low)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = ndtri(below + uniform * (ndtr(high) - below))
    far = high < DRAWN_BY_LOGS
    if np.any(far):
        top, bottom, part = log_ndtr(high[far]), log_ndtr(low[far]), uniform[far]
        drawn[far] = ndtri_exp(top + np.log(part + (1.0 - part) * np.exp(bottom - top)))
    drawn = np.clip(drawn, low, high)
    return np.asarray(np.where(reflected, -drawn, drawn), dtype=float)


def latent_correlations(chains: OrdinalChains) -> Array:
    """Correlations of the responses, ΛΛᵀ + I scaled to a unit diagonal, (B, p, p)."""
    own = flip(chains.loadings)
    omega = own @ own.transpose(0, 2, 1) + np.eye(own.shape[1])
    sd = np.sqrt(np.diagonal(omega, axis1=1, axis2=2))
    return np.asarray(omega / (sd[:, :, None] * sd[:, None, :]))


def _with_chains(values: Array, linear: Array) -> Array:
    """Values of each chain, (B, n, p)."""
    return np.broadcast_to(values, linear.shape)
