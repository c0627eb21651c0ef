"""Scores of incomplete rows given loadings and noise, and the sums over rows that updates need.

Rows with the same pattern share their covariance V. Sums over observed values are products with the
0/1 matrix of patterns, with K×K matrices packed as K(K+1)/2 numbers, one block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.linalg import unpacked, upper_half
from cuspfa.inference._kernels import kernel
from cuspfa.missing.patterns import IncompleteRows, PatternBlock, packed_covariances, times


class ScoresBySignal(NamedTuple):
    """What the scores of a row depend on: its precision and its mean are sums of these."""

    signal: Array
    """(p, K(K+1)/2) τ_j E[λ_jλ_jᵀ], packed."""
    weights: Array
    """(p, K) τ_j E[λ_j], by which values are multiplied."""
    pull: Array | None = None
    """(p, K) what the columns' own means add, if they have any."""


class ScoreSums(NamedTuple):
    """Sums over rows of η_i ~ N(m_i, V_i); f is the part that the covariances count."""

    cross: Array
    """(p, K) Σ_i y_ij m_i."""
    sums: Array
    """(p, K) Σ_i m_i over the rows that have column j."""
    by_column: Array
    """(p, K, K) Σ_i (m_i m_iᵀ + f V_i) over the rows that have column j."""
    total: Array
    """(K, K) Σ_i (m_i m_iᵀ + f V_i) over all rows."""
    spread: Array
    """(K, K) f Σ_i V_i over all rows."""
    mean: Array
    """(K,) Σ_i m_i over all rows."""
    log_det: float
    """f Σ_i log|V_i|."""


def score_blocks(
    data: IncompleteRows, given: ScoresBySignal
) -> Iterator[tuple[PatternBlock, Array, Array, Array, Array]]:
    """By blocks: Σ_j τ_j y_ij λ_j and the means m_i of the scores, (K, r); V and log|V|.

    V is that of the patterns, packed, (K(K+1)/2, u).
    """
    signal, weights, pull = given
    k = weights.shape[1]
    for block in data.blocks(k):
        covariance, log_dets = packed_covariances(block.observed, signal, k)
        towards = weights.T @ block.rows.T
        if pull is not None:
            towards += block.ones[:, 0] * block.to_rows(pull.T @ block.observed.T)
        scores = times(block.to_rows(covariance), towards)
        yield block, towards, scores, covariance, log_dets


def sum_scores(data: IncompleteRows, given: ScoresBySignal, part: float) -> ScoreSums:
    """The sums over all rows, f = `part`; compiled, or by `numpy_sums`."""
    core, (p, k) = kernel("missing"), given.weights.shape
    if core is None or k == 0:
        return numpy_sums(data, given, part)
    half = given.signal.shape[1]
    pull = np.zeros((p, k)) if given.pull is None else given.pull
    cross, sums, by_column = np.zeros((k, p)), np.zeros((k, p)), np.zeros((half, p))
    total, spread, mean = np.zeros(half), np.zeros(half), np.zeros(k)
    log_det = core.sum_scores(
        *(data.rows, data.ones[:, 0], data.patterns.view(np.uint8)),
        *(data.sizes.astype(float), data.starts.astype(np.intp), part),
        *(np.ascontiguousarray(one.T) for one in (given.signal, given.weights, pull)),
        *(cross, sums, by_column, total, spread, mean),
    )
    of_columns, of_all, of_covariances = (unpacked(one, k) for one in (by_column.T, total, spread))
    return ScoreSums(cross.T, sums.T, of_columns, of_all, of_covariances, mean, log_det)


def numpy_sums(data: IncompleteRows, given: ScoresBySignal, part: float) -> ScoreSums:
    """`sum_scores` without the compiled core."""
    p, k = given.weights.shape
    left, right = upper_half(k)
    cross, sums, by_column = np.zeros((p, k)), np.zeros((p, k)), np.zeros((p, len(left)))
    total, spread, mean, log_det = np.zeros((k, k)), np.zeros(len(left)), np.zeros(k), 0.0
    for block, _, scores, covariance, log_dets in score_blocks(data, given):
        own = part * block.sizes * covariance
        products = block.by_pattern(scores[left] * scores[right])
        cross += (scores @ block.rows).T
        level = block.ones[:, 0] * scores
        sums += (block.by_pattern(level) @ block.observed).T
        by_column += ((products + own) @ block.observed).T
        total += scores @ scores.T
        spread += own.sum(axis=1)
        mean += level.sum(axis=1)
        log_det += part * float(block.sizes @ log_dets)
    whole = unpacked(spread, k)
    return ScoreSums(cross, sums, unpacked(by_column, k), total + whole, whole, mean, log_det)
