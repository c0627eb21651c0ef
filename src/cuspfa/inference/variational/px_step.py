"""The scale-rotation step: the direction in which coordinate ascent is slow, solved at once.

The likelihood does not change when η becomes Rη and λ_j becomes R^{-T}λ_j; only priors and
entropies do. With M = E[ηᵀη] = G Gᵀ, Gᵀ E[ΛᵀΛ] G = diag(l) and RᵀR = G^{-T} diag(x) G^{-1}, the
bound is a sum over h of ½(n − p) log x_h − ½x_h + φ(l_h/x_h), which `Slab.px_scale` maximises over
x. R = diag(√x) G^{-1} makes M and E[ΛᵀΛ] diagonal, which is best for every slab here: φ is linear
or convex in the squared norm, so that more unequal squared norms can only raise Σ_h φ.
"""

from __future__ import annotations

import numpy as np

from cuspfa.data.protocols import DataSource
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.model.prior import CuspPrior

ACTIVE_TOLERANCE = 1e-6
"""The closed form assumes that every explicit factor is active: the largest probability that one is
not."""


def px_step(state: VariationalState, source: DataSource, prior: CuspPrior) -> VariationalState:
    """Rescale and rotate the explicit factors to the best bound."""
    uncertain = prior.spike is not None and np.any(state.active < 1 - ACTIVE_TOLERANCE)
    if state.n_factors == 0 or uncertain:
        return state
    n, p = state.scores.n, source.p
    lower = np.linalg.cholesky(state.scores.total)
    second = state.loadings.weighted_gram(np.ones(p))
    eigenvalues, u = np.linalg.eigh(lower.T @ second @ lower)
    order = slice(None, None, -1)  # strongest factor first
    eigenvalues, u = np.maximum(eigenvalues[order], np.finfo(float).tiny), u[:, order]
    x = state.slab.px_scale(eigenvalues, n, p)
    root = np.sqrt(x)
    log_det = float(np.sum(np.log(root)) - np.sum(np.log(np.diag(lower))))
    after = np.sum(state.slab.log_density(eigenvalues / x, p)) - 0.5 * np.sum(x)
    before = np.sum(state.slab.log_density(np.diag(second), p))
    before -= 0.5 * np.trace(state.scores.total)
    if not after + (n - p) * log_det > before:
        return state  # at the optimum, or at a limit of the slab: only rounding would change it
    r = root[:, None] * (u.T @ np.linalg.inv(lower))
    r_inverse = (lower @ u) / root
    return state._replace(
        loadings=state.loadings.rotated(r_inverse, log_det),
        scores=state.scores.rotated(r, log_det).with_total(x),
    )
