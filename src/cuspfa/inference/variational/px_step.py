"""The scale-rotation step: the direction in which coordinate ascent is slow, solved at once.

The likelihood does not change when η becomes Rη and λ_j becomes R^{-T}λ_j; only priors and
entropies do. With M = E[ηᵀη] = G Gᵀ, Gᵀ E[ΛᵀΛ] G = diag(l) and RᵀR = G^{-T} diag(x) G^{-1}, the
bound is a sum over h of ½(n − p) log x_h − ½x_h + φ(l_h/x_h), which `Slab.px_scale` maximises over
x. R = diag(√x) G^{-1} makes M and E[ΛᵀΛ] diagonal, which is best for every slab here: φ is linear
or convex in the squared norm, so that more unequal squared norms can only raise Σ_h φ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.protocols import DataSource
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import Slab

ACTIVE_TOLERANCE = 1e-6
"""The closed form assumes that every explicit factor is active: the largest probability that one is
not."""

STEP_ROUNDING = 1e-13
"""A fall of the bound by less than this part of its terms is rounding error. At the optimum the
step is made all the same: diagonal moments are quicker to go on with."""


class ScaleRotation(NamedTuple):
    """R of η → Rη, λ_j → R^{-T}λ_j."""

    r: Array
    """(K, K)"""
    r_inverse: Array
    """(K, K)"""
    log_det: float
    """log|det R|."""
    total: Array
    """(K,) x, the diagonal of E[ηᵀη] after it."""


def px_step(state: VariationalState, source: DataSource, prior: CuspPrior) -> VariationalState:
    """Rescale and rotate the explicit factors to the best bound."""
    uncertain = prior.spike is not None and np.any(state.active < 1 - ACTIVE_TOLERANCE)
    if state.n_factors == 0 or uncertain:
        return state
    second = state.loadings.weighted_gram(np.ones(source.p))
    best = best_scale_rotation(state.scores.total, second, state.slab, state.scores.n, source.p)
    if best is None:
        return state
    return state._replace(
        loadings=state.loadings.rotated(best.r_inverse, best.log_det),
        scores=state.scores.rotated(best.r, best.log_det).with_total(best.total),
    )


def best_scale_rotation(
    total: Array, second: Array, slab: Slab, n: float, p: int
) -> ScaleRotation | None:
    """The best R for E[ηᵀη] = `total` and E[ΛᵀΛ] = `second`; None if it lowers the bound."""
    lower = np.linalg.cholesky(total)
    eigenvalues, u = np.linalg.eigh(lower.T @ second @ lower)
    order = slice(None, None, -1)  # strongest factor first
    eigenvalues, u = np.maximum(eigenvalues[order], np.finfo(float).tiny), u[:, order]
    x = slab.px_scale(eigenvalues, n, p)
    root = np.sqrt(x)
    log_det = float(np.log(root).sum() - np.log(lower.diagonal()).sum())
    after = slab.log_density(eigenvalues / x, p).sum() - 0.5 * x.sum()
    before = slab.log_density(second.diagonal(), p).sum() - 0.5 * total.trace()
    if not after + (n - p) * log_det >= before - STEP_ROUNDING * (abs(after) + abs(before)):
        return None
    r = root[:, None] * (u.T @ np.linalg.inv(lower))
    return ScaleRotation(r, (lower @ u) / root, log_det, x)
