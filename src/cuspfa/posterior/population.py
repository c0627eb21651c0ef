"""The population covariance Σ̃ of a fit with model error: its mean, draws, intervals, new rows.

Given the data and Ω, Σ̃ ~ IW(ν + m, A + mΩ) (`cuspfa.model.model_error`). The loadings describe Ω;
everything about the population, such as correlations and new rows, is about Σ̃.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.errors import InputError
from cuspfa.model.likelihoods.gaussian import MarginalGaussian
from cuspfa.model.model_error import ModelError, Sample, draw_population
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.quantiles import INTERVAL_BLOCK_SIZE, sorted_quantiles

MOST_KEPT = 1 << 26
"""Numbers of the population covariances of all draws, and of what one more draw takes: 512 MB."""
PER_DRAW = 5
"""Matrices that are in memory while one is drawn."""
POPULATION_BLOCK_ENTRIES = 1 << 18
"""Entries of matrices that are drawn together."""


@dataclass(frozen=True)
class Population:
    """What is known of Σ̃, apart from Ω; in the user's units."""

    rows: Array
    """(r, p) R with RᵀR = A, the cross-products of the data."""
    n: float
    """ν."""
    error: ModelError

    @property
    def freedom(self) -> float:
        """ν + m − p − 1: E[Σ̃] = (A + mE[Ω]) / freedom."""
        return float(self.n + self.error.degrees - self.rows.shape[1] - 1)

    @property
    def sample(self) -> Sample:
        """The cross-products, (p, p)."""
        return Sample(self.rows.T @ self.rows, self.n)

    def draw(self, draws: Draws, rng: np.random.Generator) -> Array:
        """Σ̃ for each draw of Ω, (n_draws, p, p)."""
        size, p = draws.noise_variance.shape
        if (size + PER_DRAW) * p * p > MOST_KEPT:
            raise InputError(
                f"Population covariance matrices of {p} columns, {size} of them, take more than "
                f"{MOST_KEPT:,} numbers. Ask for fewer draws or columns: interval(..., "
                "columns=...) needs no whole matrix."
            )
        result, sample = np.empty((size, p, p)), self.sample
        step = max(POPULATION_BLOCK_ENTRIES // (p * p), 1)
        for first in range(0, size, step):
            some = slice(first, first + step)
            omega = draws.some(some).covariance
            result[some] = draw_population(omega, sample, self.error, rng)
        return result

    def matrix_quantiles(
        self,
        draws: Draws,
        at: list[float],
        rng: np.random.Generator,
        columns: Indices | slice,
        *,
        standardized: bool,
    ) -> Array:
        """Quantiles of each entry of Σ̃, or of its correlations, (2, q, q) for q of the columns.

        A pair of columns of Σ̃ has an inverse Wishart distribution of its own. So each entry is
        drawn by itself, with two degrees of freedom fewer for each pair of columns left out, and
        no matrix of a draw is made.
        """
        p, m = self.rows.shape[1], self.error.degrees
        some = draws.only(columns)
        rows = self.rows[:, columns]
        # b11, b22, b12 of A + mΩ.
        diagonal = np.einsum("ij,ij->j", rows, rows) + m * (
            np.sum(some.loadings**2, axis=2) + some.noise_variance
        )
        size, q = diagonal.shape
        found = np.empty((2, q, q))
        freedom = self.n + m - p + 2
        for j in range(q):
            step = max(1, INTERVAL_BLOCK_SIZE // size)
            for first in range(j, q, step):
                last = min(first + step, q)
                cross = rows[:, j] @ rows[:, first:last] + m * np.einsum(
                    "sk,sqk->sq", some.loadings[:, j], some.loadings[:, first:last]
                )
                values = _draw_entries(
                    diagonal[:, [j]],
                    diagonal[:, first:last],
                    cross,
                    freedom,
                    rng,
                    standardized=standardized,
                )
                if first == j and not standardized:
                    values[:, 0] = diagonal[:, j] / rng.chisquare(freedom - 1, size)
                ends = sorted_quantiles(np.sort(values.T, axis=1), at)
                found[:, j, first:last] = ends
                found[:, first:last, j] = ends
        if standardized:
            found[:, np.arange(q), np.arange(q)] = 1.0
        return found


def _draw_entries(
    first: Array,
    second: Array,
    cross: Array,
    freedom: float,
    rng: np.random.Generator,
    *,
    standardized: bool,
) -> Array:
    """σ₁₂, or the correlation, of draws from IW₂(freedom, [[b₁₁, b₁₂], [b₁₂, b₂₂]]).

    σ₁₁ = b₁₁/χ²(freedom − 1), σ₂₂.₁ = b₂₂.₁/χ²(freedom), and σ₁₂/σ₁₁ ~ N(b₁₂/b₁₁, σ₂₂.₁/b₁₁).
    """
    slope = cross / first
    rest = np.maximum(second - slope * cross, 0.0) / rng.chisquare(freedom, cross.shape)
    variance = first / rng.chisquare(freedom - 1, cross.shape)
    slope = slope + rng.standard_normal(cross.shape) * np.sqrt(rest / first)
    if not standardized:
        return np.asarray(slope * variance)
    explained = slope**2 * variance
    with np.errstate(invalid="ignore"):  # on the diagonal, which is not used
        return np.asarray(slope * np.sqrt(variance / (explained + rest)))


class PopulationGaussian(MarginalGaussian):
    """The distribution N(m, E[Σ̃]) of a row, and the regression of its factor scores on it.

    E[Σ̃] = (RᵀR + mCᵀC + mΨ)/d is a product and a diagonal again, with K + r components. With
    Cov(η, y) = Λᵀ the scores are ΛᵀE[Σ̃]⁻¹(y − m), √(d/m) times those of the first K of these
    components, and their covariance is I − ΛᵀE[Σ̃]⁻¹Λ.
    """

    def __init__(self, model: MarginalGaussian, population: Population) -> None:
        part = population.error.degrees / population.freedom
        stacked = np.vstack(
            [np.sqrt(part) * model.components, population.rows / np.sqrt(population.freedom)]
        )
        super().__init__(model.mean, stacked, part * model.noise_variance, tails=model.tails)
        axes = np.eye(len(model.components)) if model.rotation is None else model.rotation
        others = np.zeros((len(population.rows), axes.shape[1]))
        self.rotation = np.vstack([axes / np.sqrt(part), others])
        self.score_offset = (1.0 - 1.0 / part) * axes.T @ axes
