"""Incomplete rows, sorted by the pattern of their missing values.

A Gaussian likelihood is invariant to a rotation of rows with the same pattern. If a pattern has
more rows than columns, they are rotated into one row for their mean, p rows for the rest, and
zeros, which are dropped. The cost of an iteration then depends on the patterns, not on the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.linalg import packed, pair_places, symmetric_root, unpacked
from cuspfa.inference._kernels import kernel

PATTERN_BLOCK_SIZE = 1 << 19
"""Numbers of a block of rows, or of its K×K matrices: 4 MB."""
FEW_MATRICES = 50
"""Number of matrices below which LAPACK is faster than sweeps over all together."""


class PatternBlock(NamedTuple):
    """Some patterns, and all rows that have them."""

    rows: Array
    """(r, p) zero where missing."""
    ones: Array
    """(r, 1) the column of ones, rotated as the rows are."""
    observed: Array
    """(u, p) 1 where a pattern has a value."""
    of_row: Indices
    """(r,) pattern of each row, in order."""
    first: Indices
    """(u,) first row of each pattern."""
    sizes: Array
    """(u,) number of rows of each pattern in the data."""

    def by_pattern(self, values: Array) -> Array:
        """Sums (..., u) over the rows (..., r) of each pattern."""
        if values.shape[-1] == len(self.first):
            return values
        return np.asarray(np.add.reduceat(values, self.first, axis=-1))

    def of_rows(self, values: Array) -> Array:
        """Values of patterns (u, ...) repeated for their rows (r, ...)."""
        return values if len(self.of_row) == len(values) else values[self.of_row]

    def to_rows(self, values: Array) -> Array:
        """Values of patterns (..., u) repeated for their rows (..., r)."""
        if values.shape[-1] == len(self.of_row):
            return values
        return np.asarray(np.take(values, self.of_row, axis=-1))


class RowsToFill(NamedTuple):
    """Rows with missing values as they are, and complete rows rotated into few."""

    rows: Array
    """(r, p) zero where missing."""
    ones: Array
    """(r, 1) the column of ones, rotated as the rows are."""
    missing: tuple[Indices, Indices]
    """Rows and columns of the missing values, in the order of `IncompleteRows.missing`."""
    n_zero: int
    """Complete rows that the rotation has made zero, which are left out."""


class IncompleteRows:
    """Rows sorted by pattern, zero where missing."""

    def __init__(self, rows: Array, observed: BoolArray) -> None:
        """`rows` must be zero where `observed` is False."""
        keys = np.ascontiguousarray(np.packbits(observed, axis=1))
        _, first, of_row = np.unique(
            keys.view(np.dtype((np.void, keys.shape[1]))).ravel(),
            return_index=True,
            return_inverse=True,
        )
        of_row = of_row.ravel()
        self.n = len(rows)
        self.order = np.argsort(of_row, kind="stable")
        """Positions of the sorted rows among the given ones."""
        self.rows = np.ascontiguousarray(rows[self.order])
        self.ones = np.ones((len(rows), 1))
        self.patterns: BoolArray = np.ascontiguousarray(observed[first])
        self.sizes = np.bincount(of_row, minlength=len(first))
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        """First row of each pattern, and the number of rows."""
        self.counts = observed.sum(axis=0).astype(float)

    @cached_property
    def missing(self) -> tuple[Indices, Indices]:
        """Rows, in their sorted order, and columns of the missing values; not for rotated rows."""
        of_row = np.repeat(np.arange(len(self.sizes)), self.sizes)
        rows, columns = np.nonzero(~self.patterns[of_row])
        return rows, columns

    @cached_property
    def to_fill(self) -> RowsToFill:
        """The rows that a sweep needs one by one; not for rotated rows."""
        complete = np.repeat(self.patterns.all(axis=1), self.sizes)
        p, n_complete = self.rows.shape[1], int(complete.sum())
        if n_complete < 2 * (p + 1):  # the zero rows have to be more than the factors
            return RowsToFill(self.rows, self.ones, self.missing, 0)
        columns = np.hstack([self.rows, self.ones])[complete]
        whole = symmetric_root(columns.T @ columns)  # W with WᵀW = YᵀY, whatever the processor
        others = self.with_missing
        return RowsToFill(
            np.vstack([others.rows, whole[:, :p]]),
            np.vstack([others.ones, whole[:, p:]]),
            others.missing,
            n_complete - (p + 1),
        )

    @cached_property
    def with_missing(self) -> IncompleteRows:
        """The rows that have missing values, in the same order; not for rotated rows."""
        lacking = ~self.patterns.all(axis=1)
        observed = np.repeat(self.patterns[lacking], self.sizes[lacking], axis=0)
        return IncompleteRows(self.rows[np.repeat(lacking, self.sizes)], observed)

    def rotated(self) -> IncompleteRows:
        """Rows with the same Gaussian likelihood, at most p + 1 for each pattern."""
        p = self.rows.shape[1]
        if self.sizes.max() <= p + 1:
            return self
        rows, ones = [], []
        for begin, end in zip(self.starts[:-1], self.starts[1:], strict=True):
            part, size = self.rows[begin:end], end - begin
            if size > p + 1:
                mean = part.mean(axis=0)
                part = np.vstack([np.sqrt(size) * mean, np.linalg.qr(part - mean, mode="r")])
            rows.append(part)
            ones.append(np.ones(size) if size <= p + 1 else np.sqrt(size) * (np.arange(p + 1) == 0))
        result = copy(self)
        result.rows, result.ones = np.vstack(rows), np.concatenate(ones)[:, None]
        result.starts = np.concatenate([[0], np.cumsum([len(part) for part in rows])])
        return result

    def blocks(self, k: int) -> Iterator[PatternBlock]:
        """Blocks of patterns, of a size that suits K×K matrices of each."""
        p = self.rows.shape[1]
        most = max(1, PATTERN_BLOCK_SIZE // max(p, (k + 1) ** 2))
        begin = 0
        while begin < len(self.sizes):
            last = int(np.searchsorted(self.starts, self.starts[begin] + most, side="right")) - 1
            last = max(last, begin + 1)
            first = self.starts[begin : last + 1]
            chosen = slice(first[0], first[-1])
            yield PatternBlock(
                self.rows[chosen],
                self.ones[chosen],
                self.patterns[begin:last].astype(float),
                np.repeat(np.arange(last - begin), np.diff(first)),
                first[:-1] - first[0],
                self.sizes[begin:last].astype(float),
            )
            begin = last


def score_covariances(observed: Array, signal: Array, k: int) -> tuple[Array, Array]:
    """V = (I + Σ_j E_j)^{-1} of each pattern (u, K, K) and log|V| (u,), E_j packed in `signal`."""
    covariance, log_det = packed_covariances(observed, signal, k)
    return unpacked(covariance.T, k), log_det


def packed_covariances(observed: Array, signal: Array, k: int) -> tuple[Array, Array]:
    """V packed as (K(K+1)/2, u), patterns last, so that operations run over long rows."""
    precision = signal.T @ observed.T
    precision[pair_places(k).diagonal()] += 1.0
    covariance, log_det = packed_inverses(precision, k)
    return covariance, -log_det


def packed_inverses(a: Array, k: int) -> tuple[Array, Array]:
    """Inverses of positive definite matrices (K(K+1)/2, u), in place, and log-determinants.

    The pivots of all matrices are swept together. LAPACK takes three times as long for many small
    matrices, but less for a few.
    """
    if a.shape[1] < FEW_MATRICES:
        matrices = unpacked(a.T, k)
        a[...] = packed(np.asarray(np.linalg.inv(matrices), dtype=float)).T
        return a, np.asarray(np.linalg.slogdet(matrices)[1], dtype=float)
    places, log_det = pair_places(k), np.zeros(a.shape[1])
    if (core := kernel("missing")) is not None and a.flags.c_contiguous:
        core.invert_packed(a, k, log_det)
        return a, log_det
    for h in range(k):
        column = a[places[h]]
        pivot = column[h].copy()
        log_det += np.log(pivot)
        row = column / pivot
        for i in range(k):
            a[places[i, i] : places[i, i] + k - i] -= column[i] * row[i:]
        a[places[h]] = row
        a[places[h, h]] = -1.0 / pivot
    return np.negative(a, out=a), log_det


def times(matrices: Array, vectors: Array) -> Array:
    """Products of matrices (K(K+1)/2, r) and vectors (K, r)."""
    places, result = pair_places(len(vectors)), np.empty_like(vectors)
    for h, place in enumerate(places):
        np.einsum("kr,kr->r", matrices[place], vectors, out=result[h])
    return result
