"""The state of q where each cell has a weight of its own, and its objective.

q has a normal distribution for the scores of each row, N(m_i, V_i), and for the loadings of each
column, N(μ_j, V_λj). The linear predictor f_ij = λ_jᵀη_i is taken as normal, with

    E[f_ij] = μ_jᵀm_i,   var(f_ij) = μ_jᵀV_iμ_j + m_iᵀV_λj m_i + tr(V_λj V_i).

For loadings without uncertainty (V_λ = 0) this is exact, and the objective is a lower bound of
log p(x, Λ). For uncertain loadings f_ij is not normal. Only its first two moments are right: the
objective is then a surrogate of the bound, exact for continuous columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.inference.variational.elbo import Bound
from cuspfa.missing.updates import RowwiseLoadings
from cuspfa.model.likelihoods.base import CellExpectations, Likelihood
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import LOG_2PI, Slab


class CellModel(NamedTuple):
    """The data and what is given."""

    values: Array
    """(n, p), as `Likelihood.check` returns them."""
    likelihood: Likelihood
    prior: CuspPrior
    """With its spike at zero. The noise of continuous columns is that of the likelihood."""
    point_loadings: bool = False
    """Loadings have no uncertainty: V_λ = 0."""

    def expectations(
        self, mean: Array, variance: Array, parameters: Any, rows: Indices | None = None
    ) -> CellExpectations:
        """Of the cells of all rows, or of some."""
        values = self.values if rows is None else self.values[rows]
        return self.likelihood.expectations(values, mean, variance, parameters)


class RowScores(NamedTuple):
    """q(η_i) = N(m_i, V_i) of each row."""

    mean: Array
    """(n, K) m_i."""
    covariance: Array
    """(n, K, K) V_i."""
    log_det: Array
    """(n,) log|V_i|."""

    @property
    def total(self) -> Array:
        """(K, K) Σ_i E[η_i η_iᵀ]."""
        return np.asarray(self.mean.T @ self.mean + self.covariance.sum(axis=0))

    @property
    def divergence(self) -> Array:
        """(n,) KL of each row from the prior N(0, I)."""
        k = self.mean.shape[1]
        trace = np.trace(self.covariance, axis1=1, axis2=2)
        return np.asarray(0.5 * (trace + np.sum(self.mean**2, axis=1) - k - self.log_det))

    def rotated(self, r: Array, log_det_r: float) -> RowScores:
        """The distribution of Rη."""
        return RowScores(self.mean @ r.T, r @ self.covariance @ r.T, self.log_det + 2.0 * log_det_r)


class CellState(NamedTuple):
    """q and the parameters of the likelihood: all that the next iteration needs."""

    loadings: RowwiseLoadings
    scores: RowScores
    parameters: Any
    """Of the likelihood."""
    slab: Slab
    """The prior's slab, with its hyperparameters as updated so far."""
    cells: CellExpectations
    """Expectations at this state."""

    @property
    def n_factors(self) -> int:
        """K."""
        return int(self.loadings.mean.shape[1])


def flat(matrices: Array) -> Array:
    """(…, K, K) as (…, K²)."""
    k = matrices.shape[-1]
    return matrices.reshape(*matrices.shape[:-2], k * k)


def outer(vectors: Array) -> Array:
    """xxᵀ of each vector x, (…, K, K)."""
    return np.asarray(vectors[..., :, None] * vectors[..., None, :])


def linear_moments(loadings: RowwiseLoadings, scores: RowScores) -> tuple[Array, Array]:
    """Mean and variance of f_ij, (n, p) each."""
    mean = scores.mean @ loadings.mean.T
    second = outer(loadings.mean) + loadings.covariance
    variance = flat(scores.covariance) @ flat(second).T
    if np.any(loadings.covariance):
        variance += flat(outer(scores.mean)) @ flat(loadings.covariance).T
    return mean, np.maximum(variance, 0.0)


def evaluated(state: CellState, model: CellModel) -> CellState:
    """The state with the expectations that belong to it."""
    mean, variance = linear_moments(state.loadings, state.scores)
    return state._replace(cells=model.expectations(mean, variance, state.parameters))


def objective(state: CellState, model: CellModel) -> Bound:
    """The bound or its surrogate as named terms; `noise` is the term of all parameters.

    For loadings without uncertainty their term is the log density of the prior.
    """
    p, k = state.loadings.mean.shape
    density = state.slab.log_density(state.loadings.column_squared_norm, p)
    loadings = float(np.sum(density)) + state.slab.log_hyperprior()
    if not model.point_loadings:
        loadings += 0.5 * (state.loadings.log_det + p * k * (1.0 + LOG_2PI))
    return Bound(
        likelihood=float(np.sum(state.cells.value)),
        loadings=loadings,
        scores=-float(np.sum(state.scores.divergence)),
        noise=model.likelihood.log_prior(state.parameters),
        labels=model.prior.log_count_probability(k),
        sticks=0.0,
    )
