"""The part of a sweep that depends on the data where the model may be off by an error.

With the population covariance integrated out (`cuspfa.model.model_error`) the cross-products A of
the data are, given Ω, those of

    G ~ W(ν, Ω),    A | G ~ IW(m, mG),

so that G are the cross-products of ν rows of the exact model, which were not observed. A sweep
draws them,

    G | A, Ω ~ W(ν + m, (Ω⁻¹ + mA⁻¹)⁻¹),

and then scores, loadings and noise given these rows. That is exact. G depends on the last Ω, so
that draws have an autocorrelation of about ν/(ν + m) from sweep to sweep: the more rows there are
for an error of this size, the longer chains must be.

It needs an invertible A, and so no fewer rows than columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa._utils.wishart import wishart_root
from cuspfa.data.in_memory import DEPENDENT
from cuspfa.data.protocols import DataSource
from cuspfa.errors import DataError
from cuspfa.inference.gibbs.data_kernels import Measured, Rest, StatisticsKernel
from cuspfa.inference.kernels import (
    Chains,
    covariances,
    draw_given_scores,
    draw_scores_by_chain,
)
from cuspfa.model.model_error import ModelError, Sample, log_marginal_density
from cuspfa.model.prior import CuspPrior


@dataclass(frozen=True)
class ModelErrorKernel(StatisticsKernel):
    """Draws with model error, given the sufficient statistics of complete data."""

    error: ModelError

    @cached_property
    def sample(self) -> Sample:
        """The cross-products A."""
        rows = self.statistics.rows
        return Sample(rows.T @ rows, self.statistics.n)

    @cached_property
    def root(self) -> Array:
        """(p, p) U, upper triangular, with UᵀU = A."""
        return np.ascontiguousarray(np.linalg.cholesky(self.sample.cross_products).T)

    @property
    def size(self) -> int:
        """Entries of A."""
        return len(self.statistics.squares) ** 2

    def draw(
        self,
        chains: Chains,
        rest: Rest,
        moved: Indices,
        prior: CuspPrior,
        rng: np.random.Generator,
    ) -> tuple[Chains, Rest]:
        """Rows of the exact model; scores, loadings and noise given these and the scales."""
        (loadings, noise, _), n = chains, self.statistics.n
        rows = draw_exact_rows(covariances(loadings, noise), self.root, n, self.error, rng)
        scores = draw_scores_by_chain(loadings, noise, rows, n, rng)
        squares = np.einsum("bij,bij->jb", rows, rows)
        return draw_given_scores(chains, scores, squares, n, moved, prior.slab, prior, rng), ()

    def measured(self, chains: Chains, rest: Rest) -> Measured:
        """Noise, and the log-likelihood with the population covariance integrated out."""
        omega = covariances(chains.loadings, chains.noise)
        logs = log_marginal_density(omega, self.sample, self.error)
        return Measured(np.ascontiguousarray(chains.noise.T), logs)


def draw_exact_rows(
    covariance: Array, root: Array, n: float, error: ModelError, rng: np.random.Generator
) -> Array:
    """R (B, p, p) with RᵀR = G | A, Ω, for Ω (B, p, p) and A = UᵀU by its `root` U.

    With UΩ⁻¹Uᵀ + mI = CCᵀ the scale matrix of G is (C⁻¹U)ᵀ(C⁻¹U), so that R = TᵀC⁻¹U with TTᵀ a
    standard Wishart matrix. All roots are Cholesky factors.
    """
    size, p, _ = covariance.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), root.T)
    precision = white.transpose(0, 2, 1) @ white
    precision[:, np.arange(p), np.arange(p)] += error.degrees
    standard = wishart_root(n + error.degrees, size, p, rng)
    scaled = np.linalg.solve(np.linalg.cholesky(precision), root)
    return np.asarray(standard.transpose(0, 2, 1) @ scaled)


def check_model_error_data(source: DataSource, size: float) -> None:
    """Raise a DataError where an error of this size cannot be sampled, with what to do instead."""
    needed, instead = _needed(size)
    if source.incomplete_rows is not None:
        raise DataError(
            f"{needed} data without missing values. Got some that are missing. {instead}"
        )
    if source.n < source.p:
        raise DataError(
            f"{needed} at least as many rows as columns; a flat mean takes one row. Got "
            f"{source.n:g} rows without it and {source.p} columns. {instead}"
        )
    if source.statistics() is None:
        raise DataError(
            f"{needed} the cross-products of the columns. Got {source.p} columns, for which they "
            f"are too large to keep. {instead}"
        )


def model_error_kernel(source: DataSource, size: float) -> ModelErrorKernel:
    """The kernel for this source and an error of this size; a DataError where there is none."""
    check_model_error_data(source, size)
    statistics = source.statistics()
    assert statistics is not None
    kernel = ModelErrorKernel(statistics, ModelError.of_size(size, source.p))
    try:
        independent = np.diag(kernel.root) ** 2 > DEPENDENT * kernel.statistics.squares
    except np.linalg.LinAlgError:
        independent = np.zeros(source.p, dtype=bool)
    if not np.all(independent):
        needed, instead = _needed(size)
        raise DataError(
            f"{needed} linearly independent columns. Got some that are copies or sums of others: "
            f"drop these. {instead}"
        )
    return kernel


def _needed(size: float) -> tuple[str, str]:
    """The beginning and the end of an error message."""
    return (
        f"model_error={size:g} with method='gibbs' needs",
        "Use method='variational', or model_error=0.",
    )
