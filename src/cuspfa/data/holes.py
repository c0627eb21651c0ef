"""Data with holes: rows by the pattern of what they have, and the source over them.

Rows with the same holes share their score covariance V = (I + Σ_j τ_j E[λ_jλ_jᵀ])^{-1}, j over the
columns they have. Sums over what is observed are products with the patterns' 0/1 matrix, K×K
matrices packed as K(K+1)/2 numbers, a block of rows at a time.

A Gaussian model does not see a rotation of rows with the same holes. Where they are more than
their columns, they are rotated into one row for their mean and p for the rest, and zeros that
nothing depends on: what a cycle costs is then a matter of the patterns, not of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from cuspfa._types import Array, BoolArray, Indices
from cuspfa.blocks import LoadingsLaw
from cuspfa.blocks_holes import HoleLoadings, HoleMoments
from cuspfa.data.arrays import GramMatrix, RowMatrix
from cuspfa.data.complete import Prepared, column_scale
from cuspfa.data.source import CompleteSource
from cuspfa.sweeps import Statistics

BLOCK = 1 << 19
"""Numbers of a block of rows, or of its K×K matrices: 4 MB."""
STARTS_BY_PAIRS = 1500
"""Columns up to which starts come from covariances of pairs of columns, in the rows with both."""
MEAN_STEPS = 4
"""Steps of conjugate gradients for the means; with few holes one or two are enough."""


EM_WORK = 4e9
"""Operations that covariances without a model may take, for measures of fit."""


class Block(NamedTuple):
    """Some patterns, and all rows that have them."""

    rows: Array
    """(r, p) zero in holes."""
    ones: Array
    """(r, 1) what a column of ones is for these rows: 1, unless they were rotated."""
    seen: Array
    """(u, p) 1 where a pattern has a value."""
    of_row: Indices
    """(r,) pattern of each row, in order."""
    first: Indices
    """(u,) first row of each pattern."""
    sizes: Array
    """(u,) rows of each pattern that there are in the data."""

    def by_pattern(self, values: Array) -> Array:
        """Sums over the rows of each pattern."""
        return values if len(values) == len(self.first) else np.add.reduceat(values, self.first)

    def of_rows(self, values: Array) -> Array:
        """What a pattern has, for each of its rows."""
        return values if len(self.of_row) == len(values) else values[self.of_row]


class HoleRows:
    """Rows sorted by pattern, zero in holes."""

    def __init__(self, rows: Array, seen: BoolArray) -> None:
        """`rows` must be zero where `seen` is not."""
        keys = np.ascontiguousarray(np.packbits(seen, axis=1))
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
        self.patterns: BoolArray = seen[first]
        self.sizes = np.bincount(of_row, minlength=len(first))
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        """Where the rows of each pattern begin, and the end."""
        self.counts = np.asarray(self.sizes @ self.patterns.astype(float))

    def rotated(self) -> HoleRows:
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

    def blocks(self, k: int) -> Iterator[Block]:
        """As many rows at a time as are worth it for K×K matrices beside them."""
        p = self.rows.shape[1]
        most = max(1, BLOCK // max(p, (k + 1) ** 2))
        begin = 0
        while begin < len(self.sizes):
            last = int(np.searchsorted(self.starts, self.starts[begin] + most, side="right")) - 1
            last = max(last, begin + 1)
            first = self.starts[begin : last + 1]
            chosen = slice(first[0], first[-1])
            yield Block(
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
    upper = np.triu_indices(matrices.shape[-1])
    return np.asarray(matrices[..., upper[0], upper[1]])


def unpacked(numbers: Array, k: int) -> Array:
    """And back."""
    place = np.empty((k, k), dtype=np.intp)
    upper = np.triu_indices(k)
    place[upper] = place[upper[::-1]] = np.arange(len(upper[0]))
    return np.asarray(numbers[..., place])


def score_covariances(seen: Array, signal: Array, k: int) -> tuple[Array, Array]:
    """V = (I + Σ_j E_j)^{-1} of each pattern (u, K, K) and log|V| (u,), E_j packed in `signal`."""
    precision = unpacked(seen @ signal, k)
    precision[:, np.arange(k), np.arange(k)] += 1.0
    covariance, log_det = _inverses(np.ascontiguousarray(precision.transpose(1, 2, 0)))
    return np.ascontiguousarray(covariance.transpose(2, 0, 1)), -log_det


def _inverses(a: Array) -> tuple[Array, Array]:
    """Of symmetric positive definite matrices (K, K, u), in place, and their log-determinants.

    Sweeps over the pivots, all matrices together: LAPACK takes twice as long for many small ones.
    """
    log_det = np.zeros(a.shape[2])
    for h in range(len(a)):
        pivot = a[h, h].copy()
        log_det += np.log(pivot)
        row = a[h] / pivot
        column = a[:, h].copy()
        column[h] = 0.0
        a -= column[:, None] * row
        a[:, h] = -column / pivot
        a[h] = row
        a[h, h] = 1.0 / pivot
    return a, log_det


def prepare_holes(rows: Any, *, scaling: str, flat_mean: bool) -> Prepared:
    """Rows with NaN, centred and scaled by what each column has."""
    seen = ~np.isnan(rows)
    counts = seen.sum(axis=0)
    filled = np.array(rows, dtype=float, order="C")
    filled[~seen] = 0.0
    center = filled.sum(axis=0) / counts
    filled -= center
    filled[~seen] = 0.0
    center += (shift := filled.sum(axis=0) / counts)  # what rounding left of large means
    filled -= shift
    filled[~seen] = 0.0
    scale = column_scale(np.einsum("ij,ij->j", filled, filled) / (counts - 1), scaling)
    filled /= scale
    source = HoleSource(HoleRows(filled, seen), flat_mean=flat_mean)
    return Prepared(source, center, scale, len(rows))


class HoleSource:
    """A `DataSource` over rows with holes, each column centred at the mean of what it has."""

    def __init__(self, data: HoleRows, *, flat_mean: bool = True) -> None:
        """`flat_mean` False takes the means of what was observed for those of the columns.

        That is biased unless holes are there for no reason at all; it is for comparison.
        """
        self.data, self.original, self._flat = data.rotated(), data, flat_mean
        n, self.p = data.n, data.rows.shape[1]
        self.n = n - 1.0 if flat_mean else float(n)
        self._part = self.n / n
        self.seen = data.counts
        self.counts: Array = data.counts - 1.0 if flat_mean else data.counts
        self.squares: Array = np.einsum("ij,ij->j", self.data.rows, self.data.rows)
        self._start: CompleteSource | None = None

    def inactive_scores(self, signal: Array) -> tuple[Array, float]:
        """One variance for each pattern; its sum over the rows that have a column, over n."""
        data = self.data
        v = 1.0 / (1.0 + data.patterns @ signal)
        sums = (data.sizes * v) @ data.patterns.astype(float)
        term = 0.5 * self._part * float(data.sizes @ (np.log(v) + 1.0 - v))
        return np.asarray(self._part * sums / self.n), term

    def expect_scores(self, loadings: LoadingsLaw, noise_precision: Array) -> HoleMoments:
        """Step 3, given the columns' means as q(λ_j) has them: m_i = V_i Σ_j τ_j(…)."""
        p, k = loadings.mean.shape
        anchor = loadings.anchor if isinstance(loadings, HoleLoadings) else np.zeros((p, k))
        outer = loadings.mean[:, :, None] * loadings.mean[:, None, :]
        second = noise_precision[:, None, None] * (outer + loadings.covariances())
        signal, pull = packed(second), (second @ anchor[:, :, None])[:, :, 0]
        weights = noise_precision[:, None] * loadings.mean
        upper = np.triu_indices(k)
        cross, sums, by_column = np.zeros((p, k)), np.zeros((p, k)), np.zeros_like(signal)
        total, spread, mean, log_det = np.zeros((k, k)), np.zeros(len(upper[0])), np.zeros(k), 0.0
        for block in self.data.blocks(k):
            covariance, log_dets = score_covariances(block.seen, signal, k)
            towards = block.rows @ weights + block.ones * block.of_rows(block.seen @ pull)
            scores = (block.of_rows(covariance) @ towards[:, :, None])[:, :, 0]
            own = self._part * block.sizes[:, None] * packed(covariance)
            products = block.by_pattern(scores[:, upper[0]] * scores[:, upper[1]])
            cross += block.rows.T @ scores
            level = block.ones * scores
            sums += block.seen.T @ block.by_pattern(level)
            by_column += block.seen.T @ (products + own)
            total += scores.T @ scores
            spread += own.sum(axis=0)
            mean += level.sum(axis=0)
            log_det += self._part * float(block.sizes @ log_dets)
        own_second, spread = unpacked(by_column, k), unpacked(spread, k)
        if not self._flat:
            return HoleMoments(
                cross, own_second, np.zeros((p, k)), total + spread, spread, log_det, self.n
            )
        n, at = self.data.n, sums / self.seen[:, None]
        own_second -= self.seen[:, None, None] * at[:, :, None] * at[:, None, :]
        total += spread - np.outer(mean, mean / n)
        return HoleMoments(cross, own_second, at - mean / n, total, spread, log_det, self.n)

    def likelihood_work(self, k: int) -> float:
        """The products with the patterns, and the small matrices."""
        rows, patterns = len(self.data.rows), len(self.data.patterns)
        small = patterns * (k + 1.0) ** 2
        return float((rows * (k + 1.0) + small / 2) * self.p + 3.0 * k * small)

    def log_likelihood(self, loadings: Array, noise_variance: Array) -> float:
        """Σ_i log N(y_i; m, ΛΛᵀ + Σ) of what was observed, m integrated out; from below.

        The law of m is N(m̂, D^{-1/2} Ω D^{-1/2}) with D = diag(n_j), exact without holes, and a
        lower bound with them.
        """
        p, k = loadings.shape
        tau = 1.0 / noise_variance
        scaled = tau[:, None] * loadings
        value = -0.5 * float(self.seen @ (np.log(2 * np.pi) + np.log(noise_variance)))
        signal = packed(scaled[:, :, None] * loadings[:, None, :])
        root_n = np.sqrt(self.seen)
        # What Ω^{-1}'s trace with the covariance of m needs, by the columns a row has.
        apart = packed((scaled / root_n[:, None])[:, :, None] * loadings[:, None, :])
        own = packed((scaled / self.seen[:, None])[:, :, None] * loadings[:, None, :])
        kept: list[Array] = []
        explained, cross, trace = 0.0, np.zeros((p, k)), 0.0
        for block in self.data.blocks(k):
            covariance, log_dets = score_covariances(block.seen, signal, k)
            towards = block.rows @ scaled
            scores = (block.of_rows(covariance) @ towards[:, :, None])[:, :, 0]
            explained += float(np.sum(towards * scores))
            value += 0.5 * float(block.sizes @ log_dets)
            if not self._flat:
                continue
            cross += block.seen.T @ block.by_pattern(block.ones * scores)
            spread = unpacked(block.seen @ apart, k)
            spread = spread @ spread + unpacked(block.seen @ own, k)
            trace += float(block.sizes @ np.sum(covariance * spread, axis=(1, 2)))
            kept.append(packed(covariance))
        value += 0.5 * (explained - float(tau @ self.squares))
        if not self._flat:
            return value
        variance = np.sum(loadings**2, axis=1) + noise_variance

        def information(m: Array) -> Array:
            """Σ_i Ω_i^{-1} m, of the columns that each row has."""
            found = np.zeros((p, k))
            for block, covariance in zip(self.data.blocks(k), kept, strict=True):
                towards = block.seen @ (scaled * m[:, None])
                scores = (unpacked(covariance, k) @ towards[:, :, None])[:, :, 0]
                found += block.seen.T @ (block.sizes[:, None] * scores)
            return np.asarray(self.seen * tau * m - np.sum(scaled * found, axis=1))

        def likely(m: Array) -> Array:
            """D^{-1/2} Ω D^{-1/2} m."""
            inner = m / root_n
            spread: Array = loadings @ (loadings.T @ inner) + noise_variance * inner
            return np.asarray(spread / root_n)

        gain = _largest(information, likely, -np.sum(scaled * cross, axis=1))
        inner_k = np.eye(k) + loadings.T @ scaled
        log_det = float(np.sum(np.log(noise_variance)) + np.linalg.slogdet(inner_k)[1])
        # The n_j of the determinant are left out, as in the bound: a flat prior has no constant.
        entropy = 0.5 * (p * (1 + float(np.log(2 * np.pi))) + log_det)
        return float(value + gain - 0.5 * (float(tau @ variance) - trace) + entropy)

    def statistics(self) -> Statistics | None:
        """None: rows with holes have no sufficient statistics."""
        return None

    def leading(
        self,
        k: int,
        noise_variance: Array,
        rng: np.random.Generator,
        *,
        near: Array | None = None,
    ) -> tuple[Array, Array]:
        """Of covariances of pairs, or of the rows with zeros in holes: good enough for starts."""
        if self._start is None:
            self._start = self._pairs() if self.p <= STARTS_BY_PAIRS else self._filled()
        return self._start.leading(k, noise_variance, rng, near=near)

    def _pairs(self) -> CompleteSource:
        data = self.data
        seen = data.patterns.astype(float)
        together = np.maximum(seen.T @ (data.sizes[:, None] * seen), 1.0)
        gram = data.rows.T @ data.rows
        return CompleteSource(GramMatrix(gram * (data.n / together), self.n))

    def _filled(self) -> CompleteSource:
        rows = self.data.rows * np.sqrt(self.data.n / self.seen)
        return CompleteSource(RowMatrix(rows, self.n))


def unrestricted_covariance(
    data: HoleRows, mean: Array, covariance: Array, steps: int
) -> Array | None:
    """(p, p) by steps of EM for a normal law without factors, from where a model has it.

    None where that would take long: each pattern takes a matrix of its own.
    """
    p = data.rows.shape[1]
    if len(data.patterns) * float(p) ** 3 * steps > EM_WORK:
        return None
    for _ in range(steps):
        sums, products = np.zeros(p), np.zeros((p, p))
        for u, seen in enumerate(data.patterns):
            chosen = slice(data.starts[u], data.starts[u + 1])
            rows, ones, hole = data.rows[chosen].copy(), data.ones[chosen], ~seen
            if hole.any():
                weights = np.linalg.solve(
                    covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, hole)]
                )
                rows[:, hole] = ones * mean[hole] + (rows[:, seen] - ones * mean[seen]) @ weights
                left = covariance[np.ix_(hole, hole)] - covariance[np.ix_(hole, seen)] @ weights
                products[np.ix_(hole, hole)] += data.sizes[u] * left
            sums += np.sum(ones * rows, axis=0)
            products += rows.T @ rows
        mean = sums / data.n
        covariance = products / data.n - np.outer(mean, mean)
    return covariance


def _largest(information: Any, likely: Any, slope: Array) -> float:
    """The most that slope·m − ½ mᵀHm can be, by a few preconditioned conjugate gradients."""
    m, residual = np.zeros_like(slope), slope
    direction = np.zeros_like(slope)
    before = 1.0
    for _ in range(MEAN_STEPS):
        towards = likely(residual)
        now = float(residual @ towards)
        if not now > 1e-12:
            break
        direction = towards + (now / before) * direction
        product = information(direction)
        step = now / float(direction @ product)
        m = m + step * direction
        residual, before = residual - step * product, now
    return 0.5 * float(m @ (slope + residual))
