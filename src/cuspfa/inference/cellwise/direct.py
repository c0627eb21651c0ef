"""Exact draws where columns have no Gaussian pseudo-data: counts.

The density of a cell is log-concave in f. Given the loadings the scores of a row have a density
that is close to normal, and given the scores so have loadings and location of a column. Both are
drawn by Metropolis steps whose proposal does not depend on where the chain is: a multivariate t
distribution at the mode that a fixed number of scoring steps finds from the data. Its tails are
heavier than those of the density, so that no draw is kept for long.

Columns with pseudo-data, beside counts, enter the density of the scores by these, and their
loadings are drawn from a normal distribution.

As the scores are not drawn anew from a normal distribution, moves of the loadings take them along:
a rotation or scale of the factors, which changes no f.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.inference.cellwise.state import CellChains, flat, outer
from cuspfa.inference.kernels import (
    Chains,
    Scores,
    draw_rotation,
    draw_scales,
    flip,
    gram,
    scale_rotate_scores,
    squared_norms,
)
from cuspfa.model.likelihoods.base import Likelihood, PseudoData
from cuspfa.model.slabs import Slab

PROPOSAL_STEPS = 4
"""Scoring steps to the mode of a proposal."""
PROPOSAL_FREEDOM = 8.0
"""Degrees of freedom of the t distribution of a proposal."""
LONGEST_CHANGE = 4.0
"""Of f in one scoring step."""


class _Proposal(NamedTuple):
    """Normal distributions N(mean, precision⁻¹), (…, K) and (…, K, K)."""

    mean: Array
    precision: Array


def turn_jointly(
    at: CellChains, moved: Indices, slab: Slab, rng: np.random.Generator
) -> CellChains:
    """A rotation of the columns `moved` of the loadings, which the scores follow."""
    part = at.loadings[:, :, moved]
    turned = draw_rotation(gram(part), at.scales.only(moved), slab, len(part), rng)
    loadings, scores = at.loadings.copy(), at.scores.copy()
    loadings[:, :, moved] = flip(flip(part) @ turned)
    scores[:, :, moved] = scores[:, :, moved] @ turned
    return at._replace(loadings=loadings, scores=scores)


def draw_directly(
    at: CellChains,
    pseudo: PseudoData,
    values: Array,
    likelihood: Likelihood,
    moved: Indices,
    slab: Slab,
    rng: np.random.Generator,
) -> CellChains:
    """Scores, the scale-rotation move of the columns `moved`, and loadings, given the scales."""
    scores = _draw_scores(at, pseudo, values, likelihood, rng)
    at = at._replace(scores=scores)
    if len(moved):
        at = _scale_jointly(at, moved, slab, rng)
    return _draw_loadings(at, pseudo, values, likelihood, rng)


def draw_all_directly(
    at: CellChains,
    pseudo: PseudoData,
    values: Array,
    likelihood: Likelihood,
    slab: Slab,
    rng: np.random.Generator,
) -> CellChains:
    """Rotation, scales, scores and loadings."""
    p, _, k = at.loadings.shape
    every = np.arange(k)
    at = turn_jointly(at, every, slab, rng)
    norms = squared_norms(gram(at.loadings))
    at = at._replace(scales=draw_scales(norms, at.scales, slab, p, rng))
    return draw_directly(at, pseudo, values, likelihood, every, slab, rng)


def _scale_jointly(
    at: CellChains, moved: Indices, slab: Slab, rng: np.random.Generator
) -> CellChains:
    p, size, k = at.loadings.shape
    chains = Chains(at.loadings, np.ones((p, size)), at.scales)
    second = at.scores.transpose(0, 2, 1) @ at.scores
    known, n = Scores(np.zeros((p, size, k)), second), float(at.scores.shape[1])
    r, _, scales = scale_rotate_scores(chains, known, moved, slab, n, rng)
    loadings = np.ascontiguousarray(flip(flip(at.loadings) @ np.linalg.inv(r)))
    return at._replace(loadings=loadings, scores=at.scores @ r.transpose(0, 2, 1), scales=scales)


def _draw_scores(
    at: CellChains,
    pseudo: PseudoData,
    values: Array,
    likelihood: Likelihood,
    rng: np.random.Generator,
) -> Array:
    """A Metropolis step for the scores of each row."""
    own = flip(at.loadings)
    size, n, k = at.scores.shape
    if not k:
        return at.scores
    squares, w = flat(outer(own)), pseudo.precision
    w = w[:, None, :] if w.ndim == 2 else w
    known = _Proposal((w * pseudo.values) @ own, (w @ squares).reshape(size, -1, k, k) + np.eye(k))

    def tangents(f: Array) -> tuple[Array, Array, Array]:
        return likelihood.tangents(values, f, at.parameters)

    f = np.broadcast_to(likelihood.first_linear(values, at.parameters), (size, n, own.shape[1]))
    for number in range(PROPOSAL_STEPS):
        _, slope, weight = tangents(f)
        precision = known.precision + (weight @ squares).reshape(size, n, k, k)
        towards = known.mean + (weight * f + slope) @ own
        mean = np.linalg.solve(precision, towards[..., None])[..., 0]
        if number < PROPOSAL_STEPS - 1:
            f = f + np.clip(mean @ own.transpose(0, 2, 1) - f, -LONGEST_CHANGE, LONGEST_CHANGE)

    def log_target(eta: Array) -> Array:
        f = eta @ own.transpose(0, 2, 1)
        found = tangents(f)[0].sum(axis=2) - 0.5 * np.sum(eta**2, axis=2)
        return np.asarray(found - 0.5 * np.sum(w * (pseudo.values - f) ** 2, axis=2))

    proposal = _Proposal(np.asarray(mean, dtype=float), precision)
    drawn, log_ratio = _proposed(at.scores, proposal, rng)
    log_ratio += log_target(drawn) - log_target(at.scores)
    accepted = -rng.standard_exponential((size, n)) < log_ratio
    return np.where(accepted[..., None], drawn, at.scores)


def _draw_loadings(
    at: CellChains,
    pseudo: PseudoData,
    values: Array,
    likelihood: Likelihood,
    rng: np.random.Generator,
) -> CellChains:
    """Loadings of columns with pseudo-data, and a Metropolis step for those of the others."""
    direct, loadings = likelihood.direct, at.loadings.copy()
    if not np.all(direct):
        loadings[~direct] = _given_pseudo_data(at, pseudo, ~direct, rng)
    prior = likelihood.response_prior(at.parameters)
    root, k = np.sqrt(at.scales.variances), at.scores.shape[2]
    design = np.concatenate([at.scores * root[:, None, :], np.ones((*at.scores.shape[:2], 1))], 2)
    squares = flat(outer(design))
    size, p = len(root), len(direct)
    own = np.tile(np.eye(k + 1), (size, p, 1, 1))
    # Of the location, which moves against f. Other columns are not moved here.
    own[:, :, k, k] = np.where(direct, prior.precision, 1.0)
    pull = np.zeros((size, p, k + 1))
    pull[:, :, k] = np.where(direct, prior.towards, 0.0)

    shape = (size, at.scores.shape[1], p)
    f = np.broadcast_to(likelihood.first_linear(values, at.parameters), shape)
    for number in range(PROPOSAL_STEPS):
        _, slope, weight = likelihood.tangents(values, f, at.parameters)
        turned = weight.transpose(0, 2, 1)
        precision = own + (turned @ squares).reshape(size, p, k + 1, k + 1)
        towards = pull + (weight * f + slope).transpose(0, 2, 1) @ design
        mean = np.linalg.solve(precision, towards[..., None])[..., 0]
        if number < PROPOSAL_STEPS - 1:
            there = design @ mean.transpose(0, 2, 1)
            f = f + np.clip(there - f, -LONGEST_CHANGE, LONGEST_CHANGE)

    def log_target(beta: Array) -> Array:
        f = design @ beta.transpose(0, 2, 1)
        found = likelihood.tangents(values, f, at.parameters)[0].sum(axis=1)
        return np.asarray(
            found
            + np.sum(pull * beta, axis=2)
            - 0.5 * np.sum(beta * (own @ beta[..., None])[..., 0], axis=2)
        )

    scaled = flip(at.loadings) / root[:, None, :]
    here = np.concatenate([scaled, np.zeros((size, p, 1))], axis=2)
    drawn, log_ratio = _proposed(here, _Proposal(mean, precision), rng)
    log_ratio += log_target(drawn) - log_target(here)
    accepted = direct & (-rng.standard_exponential((size, p)) < log_ratio)
    kept = flip(np.where(accepted[..., None], drawn[..., :k] * root[:, None, :], flip(loadings)))
    moved = np.where(accepted, drawn[..., k], 0.0)
    return at._replace(
        loadings=np.ascontiguousarray(kept),
        parameters=likelihood.shifted(at.parameters, -moved),
    )


def _given_pseudo_data(
    at: CellChains, pseudo: PseudoData, columns: BoolArray, rng: np.random.Generator
) -> Array:
    """Loadings (q, B, K) of columns that have pseudo-data."""
    size, _, k = at.scores.shape
    root, z = np.sqrt(at.scales.variances), pseudo.values[:, :, columns]
    precision = pseudo.precision[..., columns]
    weights = precision if precision.ndim == 3 else np.broadcast_to(precision[:, None], z.shape)
    scaled = at.scores * root[:, None, :]
    turned = weights.transpose(0, 2, 1)
    q = z.shape[2]
    own = (turned @ flat(outer(scaled))).reshape(size, q, k, k) + np.eye(k)
    towards = (weights * z).transpose(0, 2, 1) @ scaled
    inverse = np.linalg.inv(np.linalg.cholesky(own))
    mean = inverse @ towards[..., None]
    drawn = inverse.swapaxes(-1, -2) @ (mean + rng.standard_normal(mean.shape))
    return np.asarray(flip(drawn[..., 0] * root[:, None, :]))


def _proposed(here: Array, at: _Proposal, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draws of t distributions, and log q(here) − log q(draw)."""
    freedom, k = PROPOSAL_FREEDOM, here.shape[-1]
    root = np.linalg.cholesky(at.precision)
    z = rng.standard_normal(here.shape)
    size = freedom / (2.0 * rng.standard_gamma(freedom / 2.0, here.shape[:-1]))
    z = z * np.sqrt(size)[..., None]
    drawn = at.mean + np.linalg.solve(root.swapaxes(-1, -2), z[..., None])[..., 0]
    away = ((here - at.mean)[..., None, :] @ root)[..., 0, :]
    squares = np.array([np.sum(away**2, axis=-1), np.sum(z**2, axis=-1)])
    logs = -0.5 * (freedom + k) * np.log1p(squares / freedom)
    return drawn, logs[0] - logs[1]
