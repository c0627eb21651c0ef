"""Incomplete rows, sorted by the pattern of what they have.

A Gaussian likelihood is invariant to a rotation of rows with the same missing columns. Where they
are more than their columns, they are rotated into one row for their mean and p for the rest, and
zeros that nothing depends on: what an iteration costs is then a matter of the patterns, not of the
rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, BoolArray, Indices

PATTERN_BLOCK_SIZE = 1 << 19
"""Numbers of a block of rows, or of its K×K matrices: 4 MB."""
FEW_MATRICES = 50
"""Matrices that are not worth a sweep of their own."""


class PatternBlock(NamedTuple):
    """Some patterns, and all rows that have them."""

    rows: Array
    """(r, p) zero where missing."""
    ones: Array
    """(r, 1) what a column of ones is for these rows: 1, unless they were rotated."""
    observed: Array
    """(u, p) 1 where a pattern has a value."""
    of_row: Indices
    """(r,) pattern of each row, in order."""
    first: Indices
    """(u,) first row of each pattern."""
    sizes: Array
    """(u,) rows of each pattern that there are in the data."""

    def by_pattern(self, values: Array) -> Array:
        """Sums (..., u) over the rows (..., r) of each pattern."""
        if values.shape[-1] == len(self.first):
            return values
        return np.asarray(np.add.reduceat(values, self.first, axis=-1))

    def of_rows(self, values: Array) -> Array:
        """What a pattern has (u, ...), for each of its rows (r, ...)."""
        return values if len(self.of_row) == len(values) else values[self.of_row]

    def to_rows(self, values: Array) -> Array:
        """The same with patterns last: (..., u) for rows (..., r)."""
        if values.shape[-1] == len(self.of_row):
            return values
        return np.asarray(np.take(values, self.of_row, axis=-1))


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
        """Which of the given rows each sorted one is."""
        self.rows = rows[self.order]
        self.ones = np.ones((len(rows), 1))
        self.patterns: BoolArray = observed[first]
        self.sizes = np.bincount(of_row, minlength=len(first))
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        """Where the rows of each pattern begin, and the end."""
        self.counts = observed.sum(axis=0).astype(float)

    @cached_property
    def missing(self) -> tuple[Indices, Indices]:
        """Rows, in their sorted order, and columns of the missing values; not for rotated rows."""
        of_row = np.repeat(np.arange(len(self.sizes)), self.sizes)
        rows, columns = np.nonzero(~self.patterns[of_row])
        return rows, columns

    def rotated(self) -> IncompleteRows:
        """The same to a Gaussian model, with at most p + 1 rows for a pattern."""
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
        """As many rows at a time as are worth it for K×K matrices beside them."""
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


def packed(matrices: Array) -> Array:
    """(..., K, K) symmetric matrices as (..., K(K+1)/2)."""
    first, second = upper_half(matrices.shape[-1])
    return np.asarray(matrices[..., first, second])


def unpacked(numbers: Array, k: int) -> Array:
    """And back."""
    return np.asarray(numbers[..., _places(k)])


def score_covariances(observed: Array, signal: Array, k: int) -> tuple[Array, Array]:
    """V = (I + Σ_j E_j)^{-1} of each pattern (u, K, K) and log|V| (u,), E_j packed in `signal`."""
    covariance, log_det = packed_covariances(observed, signal, k)
    return unpacked(covariance.T, k), log_det


def packed_covariances(observed: Array, signal: Array, k: int) -> tuple[Array, Array]:
    """The same as (K(K+1)/2, u), patterns last: what is done to all is done to long rows."""
    precision = signal.T @ observed.T
    precision[_places(k).diagonal()] += 1.0
    covariance, log_det = packed_inverses(precision, k)
    return covariance, -log_det


def packed_inverses(a: Array, k: int) -> tuple[Array, Array]:
    """Of positive definite matrices (K(K+1)/2, u), in place, and their log-determinants.

    Sweeps over the pivots, all matrices together: LAPACK takes three times as long for many small
    ones, but less for a few.
    """
    if a.shape[1] < FEW_MATRICES:
        matrices = unpacked(a.T, k)
        a[...] = packed(np.asarray(np.linalg.inv(matrices), dtype=float)).T
        return a, np.asarray(np.linalg.slogdet(matrices)[1], dtype=float)
    places, log_det = _places(k), np.zeros(a.shape[1])
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
    places, result = _places(len(vectors)), np.empty_like(vectors)
    for h, place in enumerate(places):
        np.einsum("kr,kr->r", matrices[place], vectors, out=result[h])
    return result


@lru_cache
def upper_half(k: int) -> tuple[Indices, Indices]:
    """Rows and columns of the entries that are packed, in their order; not to be changed."""
    return np.triu_indices(k)


@lru_cache
def _places(k: int) -> Indices:
    """(K, K) where each entry of a symmetric matrix is packed; not to be changed."""
    place = np.empty((k, k), dtype=np.intp)
    upper = upper_half(k)
    place[upper] = place[upper[::-1]] = np.arange(len(upper[0]))
    return place
