"""The optimal q, in the user's units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuspfa._checks import generator, whole
from cuspfa._types import Array, RandomState
from cuspfa.blocks import Loadings, Noise
from cuspfa.posterior.draws import Draws


@dataclass(frozen=True, eq=False)
class VariationalPosterior:
    """q*(Λ) q*(σ²) of the active factors.

    Factors that the spike takes, at most a few with mean loadings other than zero, enter the
    variances alone. Holds nothing of the data's rows.

    Attributes
    ----------
    loadings : Loadings
        q(λ_j) = N(μ_j, V_j) of the K factors, on the scale the engine saw.
    noise : Noise
        q(σ²_j) = InvGa(A_j, B_j) on that scale.
    active : ndarray (K,)
        Probability that a factor is modelled by the slab, above one half.
    expected_active_factors : float
        E[H*] over all H columns.
    tail_variance : ndarray (p,)
        What all inactive factors together add to each variance, on that scale.
    center, scale : ndarray (p,)
        The user's value is center + scale × the engine's.
    """

    loadings: Loadings
    noise: Noise
    active: Array
    expected_active_factors: float
    tail_variance: Array
    center: Array
    scale: Array

    @property
    def mean_loadings(self) -> Array:
        """E[Λ], (p, K), in the user's units."""
        return self.scale[:, None] * self.loadings.mean

    @property
    def noise_variance(self) -> Array:
        """E[Ω] less the part explained by the mean loadings, a diagonal, (p,).

        It is E[σ²_j] + tr V_j: under q the rows of Λ are independent, so their spread adds to the
        variances only, and E[Ω] = E[Λ] E[Λ]ᵀ + diag(noise_variance) exactly.
        """
        own = self.noise.variance + self.loadings.row_variance + self.tail_variance
        return np.asarray(self.scale**2 * own)

    @property
    def covariance(self) -> Array:
        """E[Ω], (p, p)."""
        mean = self.mean_loadings
        omega: Array = mean @ mean.T
        omega[np.diag_indices_from(omega)] += self.noise_variance
        return omega

    def draw(self, n_draws: int = 2000, *, random_state: RandomState = None) -> Draws:
        """Draw from q, as the paper does: the mean-field approximation.

        Mean field loses the uncertainty that loadings and scores share, so intervals made of
        these draws are too narrow, often by a lot. Inactive factors, whose loadings have a
        variance of about θ_∞, enter the noise by their expectation.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(100, 8, 2, random_state=0).X
        >>> draws = CuspFactorAnalysis(random_state=0).fit(X).posterior_.draw(50, random_state=0)
        >>> draws.covariance.shape
        (50, 8, 8)
        """
        size = whole("n_draws", n_draws, 1)
        rng = generator(random_state)
        law = self.loadings
        z = rng.standard_normal((size, *law.spread.shape))
        loadings = law.mean + (np.sqrt(law.spread) * z) @ law.basis.T
        noise = self.noise.rate / rng.standard_gamma(self.noise.shape, size=(size, len(self.scale)))
        return Draws(self.scale[:, None] * loadings, self.scale**2 * (noise + self.tail_variance))
