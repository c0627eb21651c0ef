"""Exact conditional draws for columns of any likelihood that gives Gaussian pseudo-data.

Given pseudo-data z_ij ~ N(λ_jᵀη_i, 1/w_ij) the kernels of the Gaussian model apply. A sweep draws

1. parameters given scores and loadings, with z integrated out, then z itself: `Likelihood.draw`;
2. for each column whose z is latent, z_j, its parameters and λ_j times a common factor, and for all
   columns parameters and z with the mean of the scores: moves along which the values do not change
   (Liu & Sabatti, 2000);
3. rotation and scales of the loadings, the scores, the scale-rotation move, and the loadings.

Where all cells of a column have one precision, all rows share one score covariance; otherwise each
row and column has its own. Counts have no pseudo-data, and `direct.py` has the third step. Missing
cells have responses of their own, which no value limits.
Arrays of B chains are (p, B, K) for loadings, as in `cuspfa.inference.kernels`, and (B, n, …) for
scores and responses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.inference.cellwise.direct import draw_all_directly
from cuspfa.inference.cellwise.state import CellChains as CellChains
from cuspfa.inference.cellwise.state import CellState, RowScores, flat, outer
from cuspfa.inference.kernels import (
    Chains,
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
from cuspfa.model.likelihoods.base import Likelihood, PseudoData
from cuspfa.model.slabs import Slab


def begin_cells(
    state: CellState, likelihood: Likelihood, slab: Slab, size: int, rng: np.random.Generator
) -> CellChains:
    """Chains that begin at draws from q."""
    loadings = state.loadings
    z = rng.standard_normal((size, *loadings.mean.shape))
    certain = not np.any(loadings.covariance)
    drawn = loadings.mean + (np.zeros_like(z) if certain else loadings.deviations(z))
    packed = np.tile(likelihood.pack(state.parameters), (size, 1))
    return begin_at(np.asarray(drawn), packed, state.scores, likelihood, slab, rng)


def begin_at(
    loadings: Array,
    packed: Array,
    scores: RowScores,
    likelihood: Likelihood,
    slab: Slab,
    rng: np.random.Generator,
) -> CellChains:
    """Chains that begin at loadings (B, p, K), packed parameters (B, m) and draws of the scores."""
    chained = np.ascontiguousarray(flip(loadings))
    root, shape = np.linalg.cholesky(scores.covariance), (len(loadings), *scores.mean.shape)
    spread = np.einsum("nab,snb->sna", root, rng.standard_normal(shape))
    scales = first_scales(squared_norms(gram(chained)), slab, len(chained), rng)
    return CellChains(chained, scores.mean + spread, likelihood.unpack(packed), scales)


def sweep_cells(
    at: CellChains, values: Array, likelihood: Likelihood, slab: Slab, rng: np.random.Generator
) -> CellChains:
    """One draw of all unknowns; values (n, p), or (B, n, p) where each chain has its own."""
    linear = at.scores @ flip(at.loadings).transpose(0, 2, 1)
    parameters, pseudo = likelihood.draw(values, linear, at.parameters, rng)
    at = at._replace(parameters=parameters)
    at, pseudo = rescale_columns(at, pseudo, linear, likelihood, rng)
    at, pseudo = shift_scores(at, pseudo, likelihood, rng)
    if np.any(likelihood.direct):
        return draw_all_directly(at, pseudo, values, likelihood, slab, rng)
    return draw_given_pseudo_data(at, pseudo, slab, rng)


def rescale_columns(
    at: CellChains,
    pseudo: PseudoData,
    linear: Array,
    likelihood: Likelihood,
    rng: np.random.Generator,
) -> tuple[CellChains, PseudoData]:
    """Draw s of (z_j, ψ_j, λ_j) → s(z_j, ψ_j, λ_j) for each column whose z is latent.

    With the density of z, parameters ψ and loadings and the Jacobian, s² has a gamma distribution.
    A column of a variance of zero has no loadings and does not count.
    """
    law = likelihood.response_prior(at.parameters)
    if not np.any(law.scaled):
        return at, pseudo
    variances = at.scales.variances
    there = variances > 0
    weights = np.where(there, 1.0 / np.where(there, variances, 1.0), 0.0)
    squares = np.sum((pseudo.values - linear) ** 2 * _by_cell(pseudo), axis=1) + law.squares
    squares += np.einsum("pbk,bk->bp", at.loadings**2, weights)
    power = pseudo.values.shape[1] + law.power + there.sum(axis=1)[:, None]
    s = np.sqrt(rng.standard_gamma(power / 2.0) / (squares / 2.0))
    s = np.where(law.scaled, s, 1.0)
    moved = at._replace(
        loadings=at.loadings * s.T[:, :, None], parameters=likelihood.rescaled(at.parameters, s)
    )
    return moved, pseudo._replace(values=pseudo.values * s[:, None, :])


def shift_scores(
    at: CellChains, pseudo: PseudoData, likelihood: Likelihood, rng: np.random.Generator
) -> tuple[CellChains, PseudoData]:
    """Draw c of η_i → η_i + c, z_i → z_i + Λc and the parameters with it: c is normal."""
    law, own = likelihood.response_prior(at.parameters), flip(at.loadings)
    if np.any(np.isinf(law.precision)):
        return at, pseudo
    n, k = at.scores.shape[1:]
    precision = own.transpose(0, 2, 1) @ (law.precision[:, :, None] * own)
    precision += n * np.eye(k)
    towards = at.scores.sum(axis=1) + (law.towards[:, None, :] @ own)[:, 0]
    root = np.linalg.cholesky(precision)
    inverse = np.linalg.inv(root)
    mean = -(inverse.transpose(0, 2, 1) @ (inverse @ towards[:, :, None]))[:, :, 0]
    noise = rng.standard_normal(mean.shape)
    c = mean + (inverse.transpose(0, 2, 1) @ noise[:, :, None])[:, :, 0]
    shift = (own @ c[:, :, None])[:, :, 0]
    moved = at._replace(
        scores=at.scores + c[:, None, :], parameters=likelihood.shifted(at.parameters, shift)
    )
    return moved, pseudo._replace(values=pseudo.values + shift[:, None, :])


def draw_given_pseudo_data(
    at: CellChains, pseudo: PseudoData, slab: Slab, rng: np.random.Generator
) -> CellChains:
    """Rotation, scales, scores and loadings, by the kernels of the Gaussian model."""
    p, size, k = at.loadings.shape
    every = np.arange(k)
    chains = rotate_loadings(Chains(at.loadings, np.ones((p, size)), at.scales), every, slab, rng)
    squared_norm = squared_norms(gram(chains.loadings))
    chains = chains._replace(scales=draw_scales(squared_norm, chains.scales, slab, p, rng))
    return draw_scores_and_loadings(chains, at.parameters, pseudo, every, slab, rng)


def draw_scores_and_loadings(
    chains: Chains,
    parameters: Any,
    pseudo: PseudoData,
    moved: Indices,
    slab: Slab,
    rng: np.random.Generator,
) -> CellChains:
    """Scores, the scale-rotation move of the columns `moved`, and loadings, given the scales."""
    p, size, k = chains.loadings.shape
    shared, n = pseudo.precision.ndim == 2, pseudo.values.shape[1]
    noise = 1.0 / pseudo.precision.T if shared else np.ones((p, size))
    chains = chains._replace(noise=noise)
    if shared:
        weights, root = score_weights(chains.loadings, noise)
        scores = pseudo.values @ weights + rng.standard_normal((size, n, k)) @ root
        cross = np.ascontiguousarray(flip(pseudo.values.transpose(0, 2, 1) @ scores))
    else:
        scores, cross = draw_scores_by_row(chains.loadings, pseudo, rng), np.zeros((p, size, k))
    known, scales = Scores(cross, scores.transpose(0, 2, 1) @ scores), chains.scales
    if len(moved):
        r, known, scales = scale_rotate_scores(chains, known, moved, slab, float(n), rng)
        scores = scores @ r.transpose(0, 2, 1)
    if shared:
        loadings = draw_loadings(scales.variances, noise, known, rng)
    else:
        loadings = draw_loadings_by_column(scales.variances, scores, pseudo, rng)
    return CellChains(loadings, scores, parameters, scales)


def draw_scores_by_row(loadings: Array, pseudo: PseudoData, rng: np.random.Generator) -> Array:
    """η | Λ, pseudo-data, (B, n, K), each row with a precision of its own."""
    own = flip(loadings)
    size, n, _ = pseudo.values.shape
    k = own.shape[2]
    precision = (pseudo.precision @ flat(outer(own))).reshape(size, n, k, k) + np.eye(k)
    towards = (pseudo.precision * pseudo.values) @ own
    return _normal(precision, towards, rng)


def draw_loadings_by_column(
    variances: Array, scores: Array, pseudo: PseudoData, rng: np.random.Generator
) -> Array:
    """Λ | η, θ, pseudo-data, (p, B, K); a column of a variance of zero is zero."""
    size, _, k = scores.shape
    p, root = pseudo.values.shape[2], np.sqrt(variances)
    turned = pseudo.precision.transpose(0, 2, 1)
    scaled = scores * root[:, None, :]
    precision = (turned @ flat(outer(scaled))).reshape(size, p, k, k) + np.eye(k)
    towards = (pseudo.precision * pseudo.values).transpose(0, 2, 1) @ scaled
    drawn = _normal(precision, towards, rng) * root[:, None, :]
    return np.ascontiguousarray(flip(drawn))


def _normal(precision: Array, towards: Array, rng: np.random.Generator) -> Array:
    """Draws from N(P⁻¹t, P⁻¹), (B, m, K)."""
    inverse = np.linalg.inv(np.linalg.cholesky(precision))
    mean = inverse @ towards[..., None]
    drawn = inverse.swapaxes(-1, -2) @ (mean + rng.standard_normal(mean.shape))
    return np.asarray(drawn[..., 0], dtype=float)


def _by_cell(pseudo: PseudoData) -> Array:
    """Precisions that can be multiplied with values."""
    shared = pseudo.precision.ndim == 2
    return pseudo.precision[:, None, :] if shared else pseudo.precision
