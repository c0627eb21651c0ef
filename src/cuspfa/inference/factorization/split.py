"""Each count split among the factors: in expectation, and at random.

Given θ and β, the parts of x_ij are multinomial with probabilities ∝ θ_ih β_jh. The engines need
only their sums over the cells of a row and of a column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.counts import BLOCK, row_of
from cuspfa.inference._kernels import kernel

LARGEST_SINGLE = 8
"""Counts up to this one are split event by event, larger ones by binomials."""


class Split(NamedTuple):
    """Sums of the parts x_ijh."""

    by_row: Array
    """(n, K) Σ_j x_ijh"""
    by_column: Array
    """(p, K) Σ_i x_ijh"""
    log_rates: float
    """Σ_ij x_ij log Σ_h θ_ih β_jh"""


def expected_split(x: Any, scores: Array, loadings: Array) -> Split:
    """Split in the proportions θ_ih β_jh, in O(nnz · K)."""
    core = kernel("factorization")
    k = scores.shape[1]
    if k == 0:
        return Split(np.zeros_like(scores), np.zeros_like(loadings), -np.inf if x.nnz else 0.0)
    scores, loadings = np.ascontiguousarray(scores), np.ascontiguousarray(loadings)
    by_row, by_column = np.zeros_like(scores), np.zeros_like(loadings)
    if core is not None:
        log_rates = core.expected_split(
            x.indptr, x.indices, x.data, scores, loadings, by_row, by_column
        )
        return Split(by_row, by_column, log_rates)
    rows, log_rates = row_of(x), 0.0
    for start in range(0, x.nnz, BLOCK):
        block = slice(start, start + BLOCK)
        i, j, counts = rows[block], x.indices[block], x.data[block]
        weights = scores[i] * loadings[j]
        total = weights.sum(axis=1)
        log_rates += float(counts @ np.log(total))
        weights *= (counts / total)[:, None]
        np.add.at(by_row, i, weights)
        np.add.at(by_column, j, weights)
    return Split(by_row, by_column, log_rates)


def draw_split(x: Any, scores: Array, loadings: Array, rng: np.random.Generator) -> Split:
    """Split at random: first the small counts, each event by a uniform number, then the others."""
    core = kernel("factorization")
    scores, loadings = np.ascontiguousarray(scores), np.ascontiguousarray(loadings)
    by_row, by_column = np.zeros_like(scores), np.zeros_like(loadings)
    if scores.shape[1] == 0:
        return Split(by_row, by_column, -np.inf if x.nnz else 0.0)
    if core is not None:
        log_rates = core.draw_split(
            x.indptr, x.indices, x.data, scores, loadings, by_row, by_column, LARGEST_SINGLE, rng
        )
        return Split(by_row, by_column, log_rates)
    rows, log_rates, large = row_of(x), 0.0, []
    for start in range(0, x.nnz, BLOCK):
        block = slice(start, start + BLOCK)
        i, j, counts = rows[block], x.indices[block], x.data[block]
        cumulative = np.cumsum(scores[i] * loadings[j], axis=1)
        log_rates += float(counts @ np.log(cumulative[:, -1]))
        small = counts <= LARGEST_SINGLE
        large.append(start + np.flatnonzero(~small))
        event = np.repeat(np.flatnonzero(small), counts[small].astype(int))
        target = rng.random(len(event)) * cumulative[event, -1]
        part = np.sum(cumulative[event, :-1] <= target[:, None], axis=1)
        np.add.at(by_row, (i[event], part), 1.0)
        np.add.at(by_column, (j[event], part), 1.0)
    for cell in np.concatenate([np.zeros(0, dtype=int), *large]):
        i, j = rows[cell], x.indices[cell]
        weights = scores[i] * loadings[j]
        left, rest = int(x.data[cell]), float(np.cumsum(weights)[-1])
        for h in range(len(weights)):
            drawn = left
            if h < len(weights) - 1 and left:
                drawn = int(rng.binomial(left, min(max(weights[h] / rest, 0.0), 1.0)))
            by_row[i, h] += drawn
            by_column[j, h] += drawn
            left -= drawn
            rest -= weights[h]
    return Split(by_row, by_column, log_rates)
