"""The data source over incomplete rows.

Rows with the same pattern share their score covariance V = (I + Σ_j τ_j E[λ_jλ_jᵀ])^{-1}, with j
over the observed columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import SingleValueRows
from cuspfa._utils.linalg import packed, unpacked
from cuspfa.data.complete import SMALL_GRAM, Prepared, Scaling, column_scale
from cuspfa.data.in_memory import GramMatrix, RowMatrix, row_blocks
from cuspfa.data.protocols import CompleteSource, one_by_one
from cuspfa.data.screening.co_observed import never_co_observed
from cuspfa.inference.kernels import Statistics, flip
from cuspfa.inference.updates import LoadingsDistribution
from cuspfa.missing.likelihood import FewMissing
from cuspfa.missing.patterns import IncompleteRows, times
from cuspfa.missing.score_sums import ScoresBySignal, score_blocks, sum_scores
from cuspfa.missing.tempered import TemperedMissingData
from cuspfa.missing.updates import RowwiseLoadings, RowwiseScoreMoments

CO_OBSERVED_SHARE, LARGEST_PAIRED = 0.25, 2000
"""Share of rows below which a pair of columns is rarely co-observed, and the number of columns up
to which pairs are counted."""
SINGLE_VALUE_SHARE = 0.2
"""Share of rows with a single value from which on there is a warning."""
PRECISION_ENTRIES = 1 << 20
"""Entries of matrices of draws whose likelihoods are computed together: 8 MB."""
CONJUGATE_STEPS = 4
"""Conjugate gradient steps for the means; with few missing values one or two are enough."""


def prepare_incomplete(
    rows: Any, labels: list[Any] | None = None, *, scaling: Scaling, flat_mean: bool = True
) -> Prepared:
    """Rows with NaN, centred and scaled by the observed values of each column.

    `labels` name the columns in warnings; `scaling` is as in `prepare_rows`.
    """
    observed = ~np.isnan(rows)
    counts = observed.sum(axis=0)
    filled = np.array(rows, dtype=float, order="C")
    filled[~observed] = 0.0
    center = filled.sum(axis=0) / counts
    filled -= center
    filled[~observed] = 0.0
    center += (shift := filled.sum(axis=0) / counts)  # rounding error of large means
    filled -= shift
    filled[~observed] = 0.0
    scale = column_scale(np.einsum("ij,ij->j", filled, filled) / (counts - 1), scaling)
    filled /= scale
    source = MissingDataSource(IncompleteRows(filled, observed), flat_mean=flat_mean)
    counts = source.pairwise_counts
    apart = None if counts is None else never_co_observed(counts, labels)
    found = (apart, _find_single_values(source))
    warnings = tuple(one for one in found if one is not None)
    return Prepared(source, center, scale, len(rows), warnings=warnings)


class MissingDataSource:
    """A `DataSource` over incomplete rows, each column centred at its observed mean."""

    def __init__(self, data: IncompleteRows, *, flat_mean: bool = True) -> None:
        """`flat_mean=False` fixes the column means at the observed means, for comparison.

        That is biased unless values are missing completely at random.
        """
        self.data, self._flat = data.rotated(), flat_mean
        self.incomplete_rows: IncompleteRows | None = data
        n, self.p = data.n, data.rows.shape[1]
        self.n = n - 1.0 if flat_mean else float(n)
        self._part = self.n / n
        self.observed = data.counts
        self.counts: Array = data.counts - 1.0 if flat_mean else data.counts
        self.squares: Array = np.einsum("ij,ij->j", self.data.rows, self.data.rows)
        self._start: CompleteSource | None = None
        self._few = FewMissing.of(self.data)

    @cached_property
    def pairwise_counts(self) -> Array | None:
        """(p, p) rows in which both columns of a pair are observed; None for very many columns."""
        if self.p > LARGEST_PAIRED:
            return None
        total, first = np.zeros((self.p, self.p)), 0
        for observed in row_blocks(self.data.patterns):  # whole, they are as large as the data
            sizes = self.data.sizes[first : first + len(observed)]
            total += observed.T @ (sizes[:, None] * observed)
            first += len(observed)
        return total

    @property
    def has_sparse_pairs(self) -> bool:
        """Is a pair of columns rarely co-observed? Then rows must not be completed by a fit."""
        return (
            self.pairwise_counts is not None
            and float(self.pairwise_counts.min()) < CO_OBSERVED_SHARE * self.data.n
        )

    def inactive_scores(self, signal: Array) -> tuple[Array, float]:
        """(p,) variances summed over the rows that have a column, over n; the term of the bound."""
        sums, term = np.zeros(self.p), 0.0
        for block in self.data.blocks(0):
            v = 1.0 / (1.0 + block.observed @ signal)
            sums += (block.sizes * v) @ block.observed
            term += 0.5 * self._part * float(block.sizes @ (np.log(v) + 1.0 - v))
        return np.asarray(self._part * sums / self.n), term

    @property
    def dense(self) -> None:
        """None: rows with missing values are not a dense array of numbers."""

    def expect_scores(
        self, loadings: LoadingsDistribution, noise_precision: Array
    ) -> RowwiseScoreMoments:
        """Step 3, with the column means given by q(λ_j): m_i = V_i Σ_j τ_j(…)."""
        p, k = loadings.mean.shape
        anchor = loadings.anchor if isinstance(loadings, RowwiseLoadings) else np.zeros((p, k))
        outer = loadings.mean[:, :, None] * loadings.mean[:, None, :]
        second = noise_precision[:, None, None] * (outer + loadings.covariances())
        pull = (second @ anchor[:, :, None])[:, :, 0]
        given = ScoresBySignal(packed(second), noise_precision[:, None] * loadings.mean, pull)
        cross, sums, own_second, total, spread, mean, log_det = sum_scores(
            self.data, given, self._part
        )
        if not self._flat:
            return RowwiseScoreMoments(
                cross, own_second, np.zeros((p, k)), total, spread, log_det, self.n
            )
        n, at = self.data.n, sums / self.observed[:, None]
        own_second -= self.observed[:, None, None] * at[:, :, None] * at[:, None, :]
        total -= np.outer(mean, mean / n)
        return RowwiseScoreMoments(cross, own_second, at - mean / n, total, spread, log_det, self.n)

    def likelihood_work(self, k: int) -> float:
        """Multiplications of the products with the patterns and of the K×K matrices."""
        if self._few is not None:
            return self._few.work(k)
        rows, patterns = len(self.data.rows), len(self.data.patterns)
        small = patterns * (k + 1.0) ** 2
        return float((rows * (k + 1.0) + small / 2) * self.p + 3.0 * k * small)

    def log_likelihoods(self, loadings: Array, noise_variances: Array) -> Array:
        """Those of B draws, (B,); one by one where each takes long by itself."""
        if self._few is None:
            return one_by_one(self.log_likelihood, loadings, noise_variances)
        drawn, noise = flip(loadings), noise_variances.T
        step = max(1, PRECISION_ENTRIES // self.p**2)
        parts = [slice(first, first + step) for first in range(0, len(drawn), step)]
        found = [
            self._few.log_likelihoods(drawn[part], noise[part], flat_mean=self._flat)
            for part in parts
        ]
        return np.concatenate([np.zeros(0), *found])

    def log_likelihood(self, loadings: Array, noise_variance: Array) -> float:
        """Σ_i log N(y_i; m, ΛΛᵀ + Σ) of the observed values, m integrated out.

        Exact for few missing values, otherwise a lower bound: the distribution of m is then taken
        to be N(m̂, D^{-1/2} Ω D^{-1/2}) with D = diag(n_j), which is exact without missing values.
        """
        if self._few is not None:
            return self._few.log_likelihood(loadings, noise_variance, flat_mean=self._flat)
        p, k = loadings.shape
        tau = 1.0 / noise_variance
        scaled = tau[:, None] * loadings
        value = -0.5 * float(self.observed @ (np.log(2 * np.pi) + np.log(noise_variance)))
        given = ScoresBySignal(packed(scaled[:, :, None] * loadings[:, None, :]), scaled)
        root_n = np.sqrt(self.observed)
        # For the trace of Ω^{-1} times the covariance of m, over the observed columns of a row.
        apart = packed((scaled / root_n[:, None])[:, :, None] * loadings[:, None, :])
        own = packed((scaled / self.observed[:, None])[:, :, None] * loadings[:, None, :])
        kept: list[Array] = []
        explained, cross, trace = 0.0, np.zeros((p, k)), 0.0
        for block, towards, scores, covariance, log_dets in score_blocks(self.data, given):
            explained += float(np.sum(towards * scores))
            value += 0.5 * float(block.sizes @ log_dets)
            if not self._flat:
                continue
            cross += (block.by_pattern(block.ones[:, 0] * scores) @ block.observed).T
            spread = unpacked(block.observed @ apart, k)
            spread = spread @ spread + unpacked(block.observed @ own, k)
            inside = np.sum(unpacked(covariance.T, k) * spread, axis=(1, 2))
            trace += float(block.sizes @ inside)
            kept.append(covariance)
        value += 0.5 * (explained - float(tau @ self.squares))
        if not self._flat:
            return value
        variance = np.sum(loadings**2, axis=1) + noise_variance

        def information(m: Array) -> Array:
            """Σ_i Ω_i^{-1} m, of the columns that each row has."""
            found = np.zeros((p, k))
            for block, covariance in zip(self.data.blocks(k), kept, strict=True):
                scores = times(covariance, (scaled * m[:, None]).T @ block.observed.T)
                found += ((block.sizes * scores) @ block.observed).T
            return np.asarray(self.observed * tau * m - np.sum(scaled * found, axis=1))

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

    def statistics(self, largest: int | None = None) -> Statistics | None:
        """None: incomplete rows have no sufficient statistics."""
        return None

    def surrogate(self, loadings: Array, noise_variance: Array) -> CompleteSource | None:
        """Rows completed by a fit, with a weight of the share of observed values."""
        share = float(np.mean(self.observed)) / self.data.n
        if share == 1.0 or not loadings.shape[1] or self.has_sparse_pairs:
            return None
        if self._few is None:
            return self._completed(loadings, noise_variance, share)
        gram = self._few.expected_gram(loadings, noise_variance, flat_mean=self._flat)
        return CompleteSource(GramMatrix(share * gram, share * self.n))

    def tempered(self, n: float) -> TemperedMissingData:
        """The rows, counted as n."""
        return TemperedMissingData(self, n)

    def leading(
        self,
        k: int,
        noise_variance: Array,
        *,
        near: Array | None = None,
    ) -> tuple[Array, Array]:
        """Leading directions of rows with zeros for missing values, or completed by `near`.

        Zeros shrink the signal and do not add noise, so that the first decomposition finds too few
        directions rather than too many. Given loadings, missing values have their expected values.
        """
        if near is None or not near.shape[1]:
            if self._start is None:
                self._start = self._completed(None, noise_variance)
            return self._start.leading(k, noise_variance)
        return self._completed(near, noise_variance).leading(k, noise_variance, near=near)

    def _completed(
        self, near: Array | None, noise_variance: Array, share: float = 1.0
    ) -> CompleteSource:
        """Fitted rows plus the scaled residuals of observed values, as a complete source.

        `share` is the weight of the rows.
        """
        scale = np.sqrt(self.data.n / self.observed)
        small = self.p <= SMALL_GRAM
        gram, rows = np.zeros((self.p, self.p) if small else (0, 0)), []
        for part in self._filled(scale, near, noise_variance):
            if small:
                gram += part.T @ part
            else:
                rows.append(part)
        if small:
            return CompleteSource(GramMatrix(share * gram, share * self.n))
        return CompleteSource(RowMatrix(np.sqrt(share) * np.vstack(rows), share * self.n))

    def _filled(self, scale: Array, near: Array | None, noise_variance: Array) -> Iterator[Array]:
        """Completed rows by blocks; without missing values, the rows as they are."""
        if near is None:
            yield from (block.rows * scale for block in self.data.blocks(0))
            return
        scaled = near / noise_variance[:, None]
        given = ScoresBySignal(packed(scaled[:, :, None] * near[:, None, :]), scaled)
        sums, mean = np.zeros_like(near), np.zeros(near.shape[1])
        for block, _, scores, _, _ in score_blocks(self.data, given):
            level = block.ones[:, 0] * scores
            sums += (block.by_pattern(level) @ block.observed).T
            mean += level.sum(axis=1)
        off = np.sum(near * sums, axis=1) / self.observed  # fitted values, centred as the data are
        for block, _, scores, _, _ in score_blocks(self.data, given):
            fitted = scores.T @ near.T
            left = (block.rows - fitted + block.ones * off) * block.of_rows(block.observed)
            yield fitted - block.ones * (near @ (mean / self.data.n)) + scale * left


def _find_single_values(source: MissingDataSource) -> SingleValueRows | None:
    """The warning of rows with a single value, if there are many."""
    data = source.data
    alone = int(data.sizes[data.patterns.sum(axis=1) == 1].sum())
    if source.p < 2 or alone < SINGLE_VALUE_SHARE * data.n:
        return None
    return SingleValueRows(alone, data.n)


def _largest(information: Any, likely: Any, slope: Array) -> float:
    """The maximum of slope·m − ½ mᵀHm over m, by preconditioned conjugate gradients."""
    m, residual = np.zeros_like(slope), slope
    direction = np.zeros_like(slope)
    before = 1.0
    for _ in range(CONJUGATE_STEPS):
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
