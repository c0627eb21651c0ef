"""Draws from the posterior of single cells, with correlations of the latent responses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa.inference.cellwise.kernels import CellChains, begin_cells, sweep_cells
from cuspfa.inference.cellwise.state import CellState
from cuspfa.inference.kernels import flip
from cuspfa.model.likelihoods.base import Likelihood

POSTERIOR_CHAINS, POSTERIOR_BURN_IN, SWEEPS_BETWEEN_DRAWS = 8, 20, 2
"""Chains from q, sweeps before the first draw, and sweeps between two draws of a chain."""


def latent_correlations(chains: CellChains, likelihood: Likelihood) -> Array:
    """(B, p, p) correlations of the responses: ΛΛᵀ plus their variances given f, scaled."""
    own = flip(chains.loadings)
    omega = own @ own.transpose(0, 2, 1)
    diagonal = np.arange(own.shape[1])
    omega[:, diagonal, diagonal] += likelihood.response_variance(chains.parameters)
    sd = np.sqrt(omega[:, diagonal, diagonal])
    return np.asarray(omega / (sd[:, :, None] * sd[:, None, :]))


class CellDraws(NamedTuple):
    """Draws from the posterior, by exact sweeps."""

    loadings: Array
    """(size, p, K)"""
    packed: Array
    """(size, m) parameters of the likelihood, as `Likelihood.pack` makes them."""
    correlations: Array
    """(size, p, p) of the latent responses."""


def draw_from_posterior(
    state: CellState,
    values: Array,
    likelihood: Likelihood,
    n_draws: int,
    rng: np.random.Generator,
) -> CellDraws:
    """Draws by exact sweeps from a fit."""
    slab = state.slab.with_fixed_hyperparameters()
    size = min(POSTERIOR_CHAINS, n_draws)
    chains, drawn = begin_cells(state, likelihood, slab, size, rng), []
    for number in range(-(-n_draws // size)):
        for _ in range(SWEEPS_BETWEEN_DRAWS if number else POSTERIOR_BURN_IN):
            chains = sweep_cells(chains, values, likelihood, slab, rng)
        drawn.append(
            (
                flip(chains.loadings),
                likelihood.pack(chains.parameters),
                latent_correlations(chains, likelihood),
            )
        )
    return CellDraws(*(np.concatenate(parts)[:n_draws] for parts in zip(*drawn, strict=True)))
