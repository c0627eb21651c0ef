"""The likelihood of rows with few missing values each, by the precision Ω^{-1} of complete rows.

With P = Ω^{-1}, the observed part of a row has the precision P_oo − P_om P_mm^{-1} P_mo. So a
pattern needs a matrix of the size of its missing values, not of its factors. The column means are
integrated out exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa._utils.linalg import upper_half
from cuspfa.inference._kernels import kernel
from cuspfa.missing.patterns import IncompleteRows, packed_inverses, times

FEW_MISSING_COLUMNS, FEW_MISSING_VALUES = 500, 10
"""Columns, and cubic mean of the missing values of a row, up to which this is faster."""


GROUP_WIDTHS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512])
"""Numbers of missing values to which patterns are padded, so that there are few groups."""


class Group(NamedTuple):
    """Patterns with about the same number of missing values, and their rows."""

    missing: Indices
    """(h, u) missing columns, padded with independent columns of variance 1, numbered from p on."""
    sizes: Array
    """(u,) number of rows of each pattern in the data."""
    rows: Indices
    """(r,) the rows."""
    of_row: Indices
    """(r,) pattern of each row in this group."""


class FewMissing:
    """Log-likelihoods of rows sorted by pattern, each column centred at its observed mean."""

    def __init__(self, data: IncompleteRows) -> None:
        self.rows, self.ones, self.n = data.rows, data.ones[:, 0], data.n
        self.observed = data.counts
        self.gram = data.rows.T @ data.rows
        self.there = np.repeat(data.patterns, np.diff(data.starts), axis=0)
        self.groups = _pattern_groups(data)
        self.sizes, self.starts = data.sizes.astype(float), data.starts.astype(np.intp)
        at, columns = np.nonzero(~data.patterns)
        self.missing = np.ascontiguousarray(columns)
        self.first = np.searchsorted(at, np.arange(len(data.patterns) + 1))
        """First place of each pattern in `missing`, its columns without values."""
        self.wide = data.rows.shape[1] + max((len(one.missing) for one in self.groups), default=0)
        """Number of columns with the padding."""

    @classmethod
    def of(cls, data: IncompleteRows) -> FewMissing | None:
        """None if there are many missing values."""
        missing = np.sum(~data.patterns, axis=1)
        worth_it = (
            data.rows.shape[1] <= FEW_MISSING_COLUMNS
            and np.mean(missing**3.0) <= FEW_MISSING_VALUES**3
        )
        return cls(data) if worth_it else None

    def work(self, k: int) -> float:
        """Approximate number of multiplications of a log-likelihood."""
        p = self.rows.shape[1]
        small = sum(3.0 * len(one.missing) ** 3 * len(one.sizes) for one in self.groups)
        return float(len(self.rows) * p * (k + 1.0) + small + p**3)

    def log_likelihood(self, loadings: Array, noise_variance: Array, *, flat_mean: bool) -> float:
        """Σ_i log N(y_i; m, ΛΛᵀ + Σ) of the observed values; m is integrated out if `flat_mean`."""
        found = self.log_likelihoods(loadings[None], noise_variance[None], flat_mean=flat_mean)
        return float(found[0])

    def log_likelihoods(self, loadings: Array, noise: Array, *, flat_mean: bool) -> Array:
        """(B,) log-likelihoods of loadings (B, p, K) and noise variances (B, p)."""
        given, size = _precisions(loadings, noise), loadings.shape[:2]
        precision = np.stack([one.matrix for one in given])
        log_dets, explained = np.zeros(size[0]), np.zeros(size[0])
        spread, sums = np.zeros(precision.shape), np.zeros(size)
        for number, one in enumerate(given):
            log_dets[number], explained[number], filled, spread[number] = self._fill(one, self.rows)
            sums[number] = self.ones @ filled
        squares = np.sum(precision * self.gram, axis=(1, 2)) - explained
        constant = float(self.observed.sum()) * float(np.log(2 * np.pi))
        value = np.asarray(-0.5 * (constant + log_dets + squares))
        if not flat_mean:
            return value
        root = np.linalg.cholesky(self.n * precision - precision @ spread @ precision)
        gain = np.linalg.solve(root, precision @ sums[:, :, None])
        # The n_j of the determinant are left out, as in the bound: a flat prior has no constant.
        freedom = size[1] * np.log(2 * np.pi) + np.sum(np.log(self.observed))
        freedom = freedom - 2 * np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1)
        return np.asarray(value + 0.5 * (np.sum(gain**2, axis=(1, 2)) + freedom))

    def expected_gram(self, loadings: Array, noise_variance: Array, *, flat_mean: bool) -> Array:
        """E[Σ_i (y_i − ȳ)(y_i − ȳ)ᵀ] given the observed values, (p, p), as in a step of EM.

        The likelihood of complete data with these cross-products has the gradient of the
        observed-data likelihood at these parameters.
        """
        (given,) = _precisions(loadings[None], noise_variance[None])
        found = self._fill(given, self.rows)
        whole = self.rows + found.filled
        if flat_mean:
            own = given.matrix
            information = self.n * own - own @ found.spread @ own  # on the means, of observed parts
            mean = np.linalg.solve(information, own @ (self.ones @ found.filled))
            centred = np.where(self.there, self.rows - np.outer(self.ones, mean), 0.0)
            found = self._fill(given, centred)
            whole = centred + found.filled
            level = self.ones @ whole / self.n
            whole -= np.outer(self.ones, level)
        return np.asarray(whole.T @ whole + found.spread)

    def _fill(self, given: _Precision, rows: Array) -> _Filled:
        """The missing values of `rows` under a model; compiled, or by `_by_groups`."""
        precision, scaled, side, log_det = given
        projected, found = rows @ scaled, None  # −P y at missing values, where y is 0, by `side`
        if (core := kernel("missing")) is not None:
            filled, spread = np.zeros(rows.shape), np.zeros(precision.shape)
            failed, explained, log_dets = core.fill(
                *(precision, projected, np.ascontiguousarray(side.T), self.sizes, self.starts),
                *(self.first, self.missing, filled, spread),
            )
            if not failed:
                found = _Filled(log_dets, explained, filled, spread)
        if found is None:
            found = self._by_groups(precision, projected @ side)
        return found._replace(log_dets=self.n * log_det + found.log_dets)

    def _by_groups(self, own: Array, own_pulls: Array) -> _Filled:
        """The missing values where −P y is `own_pulls`; log-determinants are those of P_mm."""
        (r, p), wide = own_pulls.shape, self.wide
        precision, pulls = np.eye(wide), np.zeros((r, wide))
        precision[:p, :p], pulls[:, :p] = own, own_pulls
        filled, spread = np.zeros((r, wide)), np.zeros(wide * wide)
        explained, log_dets = 0.0, 0.0
        for missing, sizes, chosen, of_row in self.groups:
            first, second = (missing[half] for half in upper_half(len(missing)))
            covariance, log_det = packed_inverses(precision[first, second], len(missing))
            log_dets += float(sizes @ log_det)
            columns = missing[:, of_row]
            pull = pulls[chosen, columns]
            filled[chosen, columns] = values = times(covariance[:, of_row], pull)
            explained += float(np.sum(values * pull))
            places = (wide * first + second).ravel()
            spread += np.bincount(places, (sizes * covariance).ravel(), minlength=wide**2)
        half = spread.reshape(wide, wide)[:p, :p]
        whole = half + half.T - np.diag(np.diag(half))
        return _Filled(log_dets, explained, filled[:, :p], whole)


class _Precision(NamedTuple):
    """The precision of a complete row under a model."""

    matrix: Array
    """(p, p) P = Ω^{-1}."""
    scaled: Array
    """(p, K) Σ^{-1}Λ."""
    side: Array
    """(K, p) (I + ΛᵀΣ^{-1}Λ)^{-1}ΛᵀΣ^{-1}."""
    log_det: float
    """log|Ω|."""


def _precisions(loadings: Array, noise: Array) -> list[_Precision]:
    """Of loadings (B, p, K) and noise variances (B, p)."""
    scaled = loadings / noise[:, :, None]
    inner = np.eye(loadings.shape[2]) + loadings.transpose(0, 2, 1) @ scaled
    side = np.linalg.solve(inner, scaled.transpose(0, 2, 1))
    matrices, diagonal = -(scaled @ side), np.arange(noise.shape[1])
    matrices[:, diagonal, diagonal] += 1.0 / noise
    log_dets = np.sum(np.log(noise), axis=1) + np.linalg.slogdet(inner)[1]
    every = zip(matrices, scaled, side, log_dets.tolist(), strict=True)
    return [_Precision(*one) for one in every]


class _Filled(NamedTuple):
    """The distribution of the missing values under a model."""

    log_dets: float
    """Σ_i log|Ω_i| of the observed parts of rows."""
    explained: float
    """Excess of Σ_i y_iᵀPy_i with zeros for missing values over the observed-data form."""
    filled: Array
    """(r, p) expected values of missing values, zero elsewhere."""
    spread: Array
    """(p, p) Σ_i of the conditional covariances of missing values."""


def _pattern_groups(data: IncompleteRows) -> list[Group]:
    counts, p = np.sum(~data.patterns, axis=1), data.rows.shape[1]
    of_row = np.repeat(np.arange(len(counts)), np.diff(data.starts))
    widths = np.where(counts > 0, GROUP_WIDTHS[np.searchsorted(GROUP_WIDTHS, counts)], 0)
    found = []
    for h in np.unique(widths[widths > 0]):
        patterns = np.flatnonzero(widths == h)
        missing = np.tile(np.arange(p, p + h), (len(patterns), 1))
        at, columns = np.nonzero(~data.patterns[patterns])
        first = np.concatenate([[0], np.cumsum(counts[patterns])[:-1]])
        missing[at, np.arange(len(at)) - first[at]] = columns
        rows = np.flatnonzero(widths[of_row] == h)
        place = np.searchsorted(patterns, of_row[rows])
        sizes = data.sizes[patterns].astype(float)
        found.append(Group(np.ascontiguousarray(missing.T), sizes, rows, place))
    return found
