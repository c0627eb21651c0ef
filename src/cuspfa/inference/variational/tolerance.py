"""Data whose model may be off by an error: the likelihoods that a search uses.

The marginal density of `model_error.py` has no conjugate updates. A search therefore runs on
Gaussian likelihoods: on the data counted as `effective_rows`, to find candidates, and for the
evidence of a candidate on the Gaussian rows that are nearest to the marginal density where the
candidate is. The evidence is corrected for what is left between the two.
"""

from __future__ import annotations

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import NoMarginal
from cuspfa.data.in_memory import GramMatrix
from cuspfa.data.protocols import CompleteSource, DataSource
from cuspfa.inference.kernels import covariances
from cuspfa.model.model_error import ModelError, Sample, log_marginal_density, nearest_gaussian

DENSITY_BLOCK_ENTRIES = 1 << 20
"""Entries of covariance matrices whose densities are computed together: 8 MB."""


class ToleratedError:
    """The error that is tolerated in a fit to a source."""

    def __init__(self, source: DataSource, size: float) -> None:
        self.error = ModelError.of_size(size, source.p)
        self.rows = self.error.effective_rows(source.n)
        self.tempered = source.tempered(float(self.rows))
        """The data, counted as the effective rows."""
        self.sample: Sample | None = None
        """Cross-products of the data; None where the marginal density is not used."""
        if no_marginal(source, size) is None:
            statistics = source.statistics()
            assert statistics is not None
            self.sample = Sample(statistics.rows.T @ statistics.rows, statistics.n)

    def near(self, loadings: Array, noise_variance: Array) -> NearestSource | None:
        """The Gaussian rows nearest to the marginal density at ΛΛᵀ + Σ; None where not known."""
        if self.sample is None:
            return None
        return NearestSource(
            loadings @ loadings.T + np.diag(noise_variance), self.sample, self.error
        )


def no_marginal(source: DataSource, size: float) -> NoMarginal | None:
    """Why the marginal density is not used with an error of this size; None where it is.

    With fewer effective rows than columns, the cross-products do not determine a covariance matrix,
    and the nearest Gaussian rows do not exist.
    """
    if source.incomplete_rows is not None:
        return "missing"
    if ModelError.of_size(size, source.p).effective_rows(source.n) < source.p:
        return "rows"
    statistics = source.statistics()
    if statistics is None:
        return "size"
    return "rows" if len(statistics.rows) < source.p else None


class NearestSource(CompleteSource):
    """Gaussian rows near the marginal density at one Ω; its likelihood is the marginal density."""

    def __init__(self, covariance: Array, sample: Sample, error: ModelError) -> None:
        near = nearest_gaussian(covariance, sample, error)
        super().__init__(GramMatrix(near.cross_products, near.rows))
        self._sample, self._error = sample, error

    def log_likelihood(self, loadings: Array, noise_variance: Array) -> float:
        """Log p(Y | Ω), with the population covariance integrated out."""
        return float(self.log_likelihoods(loadings[:, None], noise_variance[:, None])[0])

    def log_likelihoods(self, loadings: Array, noise_variances: Array) -> Array:
        """`log_likelihood` of B draws, (B,)."""
        size = max(DENSITY_BLOCK_ENTRIES // self.p**2, 1)
        parts = [np.zeros(0)]
        for first in range(0, loadings.shape[1], size):
            some = slice(first, first + size)
            omega = covariances(loadings[:, some], noise_variances[:, some])
            parts.append(log_marginal_density(omega, self._sample, self._error))
        return np.concatenate(parts)
