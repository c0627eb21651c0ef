"""Exact conditional draws of all unknowns, from rows with holes.

A sweep knows a value for every hole, so that all rows share one score covariance and the moves of
`sweeps.py` serve; at its end the holes are drawn anew, given scores, loadings, noise and means.
The means are integrated out where scores, loadings and noise are drawn.

`draw_scores` is the draw of scores given the observed entries alone, which begins a chain.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from cuspfa._types import Array, Indices
from cuspfa.blocks import LoadingsLaw, Noise
from cuspfa.data.patterns import HoleRows, packed, score_covariances
from cuspfa.prior import CuspPrior
from cuspfa.slabs import Slab
from cuspfa.sweeps import (
    Chains,
    Scores,
    begin_at,
    draw_loadings,
    draw_scales,
    energies,
    flip,
    gram,
    rotate,
    turn,
)


class RowsInMemory:
    """The rows that sweeps need, for the process that fitted them: never saved or sent on.

    Pickled or copied it becomes None, so that a model that travels has no row of the data in it.
    """

    def __init__(self, data: HoleRows) -> None:
        self.data = data

    @cached_property
    def holes(self) -> tuple[Indices, Indices]:
        """Rows and columns of the holes."""
        of_row = np.repeat(np.arange(len(self.data.sizes)), self.data.sizes)
        rows, columns = np.nonzero(~self.data.patterns[of_row])
        return rows, columns

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return nothing, ()

    @property
    def work(self) -> float:
        """Numbers that a sweep of one chain goes through, for each factor."""
        return 4.0 * self.data.rows.size + 30.0 * len(self.data.rows) + 40.0 * len(self.holes[0])


def nothing() -> None:
    """What is left of rows that were pickled."""


class FilledChains(NamedTuple):
    """B draws of what there is to know, with a value for every hole."""

    chains: Chains
    filled: Array
    """(B, m) in the order of `RowsInMemory.holes`."""
    mean: Array
    """(p, B) of the columns, on the scale of the rows."""


def draw_scores(
    data: HoleRows, loadings: Array, noise: Array, mean: Array, rng: np.random.Generator
) -> Array:
    """η_i | observed entries of row i, (n, K), in the order of the sorted rows.

    For loadings (p, K), noise variances (p,) and means (p,).
    """
    k = loadings.shape[1]
    scaled = loadings / noise[:, None]
    signal = packed(scaled[:, :, None] * loadings[:, None, :])
    found = []
    for block in data.blocks(k):
        covariance, _ = score_covariances(block.seen, signal, k)
        towards = block.rows @ scaled - block.of_rows(block.seen @ (scaled * mean[:, None]))
        z = rng.standard_normal(towards.shape)
        root = block.of_rows(np.asarray(np.linalg.cholesky(covariance), dtype=float))
        moved = block.of_rows(covariance) @ towards[:, :, None] + root @ z[:, :, None]
        found.append(moved[:, :, 0])
    return np.concatenate(found)


def begin_filled(
    loadings: LoadingsLaw,
    noise: Noise,
    location: Array,
    rows: RowsInMemory,
    slab: Slab,
    size: int,
    rng: np.random.Generator,
) -> FilledChains:
    """Chains that begin at draws from q, with holes drawn given these."""
    chains = begin_at(loadings, noise, slab, size, rng)
    row, column = rows.holes
    filled = np.empty((size, len(row)))
    for b in range(size):
        own, variance = chains.loadings[:, b], chains.noise[:, b]
        scores = draw_scores(rows.data, own, variance, location, rng)
        filled[b] = location[column] + np.sum(own[column] * scores[row], axis=1)
        filled[b] += np.sqrt(variance[column]) * rng.standard_normal(len(column))
    return FilledChains(chains, filled, np.tile(location[:, None], (1, size)))


def sweep_filled(
    at: FilledChains, rows: RowsInMemory, slab: Slab, prior: CuspPrior, rng: np.random.Generator
) -> FilledChains:
    """One draw of everything, each block given the others."""
    (p, size, k), n = at.chains.loadings.shape, len(rows.data.rows)
    loadings, noise = at.chains.loadings, at.chains.noise
    loadings = flip(flip(loadings) @ rotate(gram(loadings), at.chains.scales, p, rng))
    columns = gram(loadings)
    scales = draw_scales(energies(columns), at.chains.scales, slab, p, rng)
    table = rows.data.rows.copy()
    scores, cross = np.empty((size, n, k)), np.empty((p, size, k))
    averages, squares = np.empty((p, size)), np.empty((p, size))
    for b in range(size):
        table[rows.holes] = at.filled[b]
        averages[:, b] = table.mean(axis=0)
        # About zero but for the holes, so that squares lose no digits by subtraction.
        squares[:, b] = np.einsum("ij,ij->j", table, table) - n * averages[:, b] ** 2
        scores[b] = _centred_scores(table, averages[:, b], loadings[:, b], noise[:, b], rng)
        cross[:, b] = table.T @ scores[b]
    second = scores.transpose(0, 2, 1) @ scores
    root, second, scales = turn(columns, second, scales, n - 1.0, p, rng)
    scores = scores @ root.transpose(0, 2, 1)
    moved = Scores(flip(flip(cross) @ root.transpose(0, 2, 1)), second)
    loadings = draw_loadings(scales.variances, noise, moved, rng)
    fitted = flip(flip(loadings) @ second) - 2.0 * moved.cross
    rss = np.maximum(squares + np.sum(loadings * fitted, axis=2), 0.0)
    gamma = rng.standard_gamma(prior.noise_shape + (n - 1) / 2, size=rss.shape)
    noise = (prior.noise_rate + rss / 2) / gamma
    # The scores are centred, so the level of a column is its average, up to noise; its mean, the
    # level at scores of zero, also lacks what the average of n scores may be.
    sd = np.sqrt(noise)
    level = averages + sd * rng.standard_normal((p, size)) / np.sqrt(n)
    shift = rng.standard_normal((size, k)) / np.sqrt(n)
    row, column = rows.holes
    filled = np.empty_like(at.filled)
    for b in range(size):
        own = loadings[:, b]
        filled[b] = level[column, b] + np.sum(own[column] * scores[b][row], axis=1)
        filled[b] += sd[column, b] * rng.standard_normal(len(column))
    mean = level + np.sum(loadings * shift, axis=2)
    return FilledChains(Chains(loadings, noise, scales), filled, mean)


def _centred_scores(
    table: Array, average: Array, loadings: Array, noise: Array, rng: np.random.Generator
) -> Array:
    """η | Λ, σ², all values, less its mean over the rows, (n, K)."""
    scaled = loadings / noise[:, None]
    precision = np.eye(loadings.shape[1]) + loadings.T @ scaled
    root = np.linalg.inv(np.linalg.cholesky(precision))
    weights = scaled @ (root.T @ root)
    scores = table @ weights - average @ weights
    scores += rng.standard_normal(scores.shape) @ root
    return np.asarray(scores - scores.mean(axis=0))
