"""Exact conditional draws of all unknowns, from incomplete rows.

A sweep holds a value for every missing entry, so that all rows share one score covariance and the
kernels of `cuspfa.inference.kernels` apply. At its end the missing values are drawn again, given
scores, loadings, noise and means. The means are integrated out while scores, loadings and noise are
drawn. Complete rows enter by their cross-products alone, so they are rotated into few rows first.

`fill` draws the missing values given the observed entries, with scores integrated out. It starts a
chain. A sampler that keeps no values of rows between sweeps starts every sweep with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa._utils.linalg import packed
from cuspfa._utils.wishart import wishart_root
from cuspfa.inference.kernels import (
    Chains,
    Scores,
    begin_at,
    draw_loadings,
    draw_scales,
    flip,
    gram,
    rotate_loadings,
    scale_rotate_scores,
    squared_norms,
)
from cuspfa.inference.updates import LoadingsDistribution
from cuspfa.missing.patterns import IncompleteRows, score_covariances
from cuspfa.model.likelihoods.gaussian import Noise, draw_noise
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import Slab


class RowsInMemory:
    """The rows that sweeps need, kept in the process that fitted them and never saved.

    Pickled or copied it becomes None, so that a pickled model holds no rows of the data.
    """

    def __init__(self, data: IncompleteRows) -> None:
        self.data = data

    @property
    def missing(self) -> tuple[Indices, Indices]:
        """Rows and columns of the missing values."""
        return self.data.missing

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return nothing, ()

    @property
    def work(self) -> float:
        """Cost of a sweep of one chain for each factor, in numbers processed."""
        rows = self.data.to_fill.rows
        return 4.0 * rows.size + 30.0 * len(rows) + 40.0 * len(self.missing[0])


def nothing() -> None:
    """Stands for rows that were pickled."""


class FilledChains(NamedTuple):
    """B draws of all unknowns, with a value for every missing entry."""

    chains: Chains
    filled: Array
    """(B, m) in the order of `RowsInMemory.missing`."""
    mean: Array
    """(p, B) of the columns, on the scale of the rows."""


def draw_observed_scores(
    data: IncompleteRows, loadings: Array, noise: Array, mean: Array, rng: np.random.Generator
) -> Array:
    """η_i | observed entries of row i, (n, K), in the order of the sorted rows.

    For loadings (p, K), noise variances (p,) and means (p,).
    """
    k = loadings.shape[1]
    scaled = loadings / noise[:, None]
    signal = packed(scaled[:, :, None] * loadings[:, None, :])
    found = [np.empty((0, k))]
    for block in data.blocks(k):
        covariance, _ = score_covariances(block.observed, signal, k)
        towards = block.rows @ scaled - block.of_rows(block.observed @ (scaled * mean[:, None]))
        z = rng.standard_normal(towards.shape)
        root = block.of_rows(np.asarray(np.linalg.cholesky(covariance), dtype=float))
        moved = block.of_rows(covariance) @ towards[:, :, None] + root @ z[:, :, None]
        found.append(moved[:, :, 0])
    return np.concatenate(found)


def fill(
    data: IncompleteRows, loadings: Array, noise: Array, mean: Array, rng: np.random.Generator
) -> Array:
    """Draw the missing values given the observed ones, (B, m).

    For loadings (p, B, K), noise (p, B) and mean (p, B). The scores are drawn too and not kept.
    """
    lacking = data.with_missing
    row, column = lacking.missing
    filled = np.empty((loadings.shape[1], len(row)))
    for b, values in enumerate(filled):
        own, variance, level = loadings[:, b], noise[:, b], mean[:, b]
        scores = draw_observed_scores(lacking, own, variance, level, rng)
        values[:] = level[column] + np.sum(own[column] * scores[row], axis=1)
        values += np.sqrt(variance[column]) * rng.standard_normal(len(column))
    return filled


def begin_filled(
    loadings: LoadingsDistribution,
    noise: Noise,
    location: Array,
    rows: RowsInMemory,
    slab: Slab,
    size: int,
    rng: np.random.Generator,
) -> FilledChains:
    """Chains that start at draws from q, with missing values drawn given these."""
    chains = begin_at(loadings, noise, slab, size, rng)
    mean = np.tile(location[:, None], (1, size))
    return FilledChains(chains, fill(rows.data, chains.loadings, chains.noise, mean, rng), mean)


def sweep_filled(
    at: FilledChains, rows: RowsInMemory, slab: Slab, prior: CuspPrior, rng: np.random.Generator
) -> FilledChains:
    """One draw of all unknowns, each block given the others."""
    every = np.arange(at.chains.loadings.shape[2])
    chains = rotate_loadings(at.chains, every, slab, rng)
    squared_norm = squared_norms(gram(chains.loadings))
    scales = draw_scales(squared_norm, chains.scales, slab, len(chains.noise), rng)
    chains, scores, level = draw_given_filled(
        chains._replace(scales=scales), every, rows.data, at.filled, slab, prior, rng
    )
    row, column = rows.data.to_fill.missing
    filled, sd = np.empty_like(at.filled), np.sqrt(chains.noise)
    for b, values in enumerate(filled):
        values[:] = level[column, b]
        values += np.sum(chains.loadings[column, b] * scores[b][row], axis=1)
        values += sd[column, b] * rng.standard_normal(len(column))
    mean = draw_mean(chains.loadings, level, len(rows.data.rows), rng)
    return FilledChains(chains, filled, mean)


def draw_given_filled(
    chains: Chains,
    moved: Indices,
    data: IncompleteRows,
    filled: Array,
    slab: Slab,
    prior: CuspPrior,
    rng: np.random.Generator,
) -> tuple[Chains, Array, Array]:
    """Scores, loadings and noise given the scales and a value for every missing entry.

    Between scores and loadings, `scale_rotation_move` of these columns. Also returned are the
    scores of the rows of `to_fill` less their mean, (B, r, K), and the levels of the columns where
    scores are zero, (p, B).
    """
    (p, size, k), n = chains.loadings.shape, data.n
    rows, ones, missing, n_zero = data.to_fill
    table = rows.copy()
    scores, cross = np.empty((size, len(rows), k)), np.empty((p, size, k))
    inner = np.zeros((size, k, k))
    averages, squares = np.empty((p, size)), np.empty((p, size))
    of_zero = wishart_root(n_zero, size, k, rng) if n_zero else inner.copy()
    weights, roots = _score_weights(flip(chains.loadings), chains.noise.T)
    for b in range(size):
        table[missing] = filled[b]
        averages[:, b] = (ones.T @ table)[0] / n
        # Observed values are centred, so that squares lose no digits by subtraction.
        squares[:, b] = np.einsum("ij,ij->j", table, table) - n * averages[:, b] ** 2
        drawn = table @ weights[b] - ones @ (averages[:, b] @ weights[b])[None]
        drawn += rng.standard_normal(drawn.shape) @ roots[b]
        scores[b] = drawn - ones @ (ones.T @ drawn / n)
        cross[:, b] = table.T @ scores[b]
        # Rows of zeros have scores of variance rootᵀroot, of which only the products matter.
        zero = of_zero[b].T @ roots[b]
        inner[b] = scores[b].T @ scores[b] + zero.T @ zero
    known, scales = Scores(cross, inner), chains.scales
    if len(moved):
        root, known, scales = scale_rotate_scores(chains, known, moved, slab, n - 1.0, rng)
        scores = scores @ root.transpose(0, 2, 1)
    loadings = draw_loadings(scales.variances, chains.noise, known, rng)
    noise = draw_noise(loadings, *known, squares, n - 1.0, prior, rng)
    level = averages + np.sqrt(noise / n) * rng.standard_normal((p, size))
    return Chains(loadings, noise, scales), scores, level


def draw_mean(loadings: Array, level: Array, n: int, rng: np.random.Generator) -> Array:
    """The means of the columns, (p, B), given their levels where the scores were centred.

    The level belongs to centred scores. The mean, at scores of zero, adds the draw of their
    average.
    """
    _, size, k = loadings.shape
    shift = rng.standard_normal((size, k)) / np.sqrt(n)
    return np.asarray(level + np.sum(loadings * shift, axis=2))


def _score_weights(loadings: Array, noise: Array) -> tuple[Array, Array]:
    """W (B, p, K) and R (B, K, K) of loadings (B, p, K) and noise variances (B, p).

    η | Λ, σ², a centred row y has mean yW and variance RᵀR.
    """
    scaled = loadings / noise[:, :, None]
    precision = np.eye(loadings.shape[2]) + loadings.transpose(0, 2, 1) @ scaled
    root = np.linalg.inv(np.linalg.cholesky(precision))
    return np.asarray(scaled @ (root.transpose(0, 2, 1) @ root)), np.asarray(root)
