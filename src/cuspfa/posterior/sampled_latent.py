"""Draws of a sampler for columns that are not all Gaussian, with any number of factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from cuspfa._typing import Array, BoolArray, PosteriorKind
from cuspfa.diagnostics.mcmc import convergence
from cuspfa.model.likelihoods.kinds import LikelihoodTable
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.kept_draws import KeptDraws, count_probabilities
from cuspfa.posterior.latent import LatentDraws, LatentParameters, LatentPosterior
from cuspfa.posterior.latent_entries import SampledLatentEntries
from cuspfa.posterior.sampled import MONITORED_COLUMNS, Diagnostics

LARGEST_COMMUNALITY = 1.0 - 1e-6
"""Of the point that stands for draws: noise variances are above zero."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SampledLatentPosterior(KeptDraws, LatentPosterior):
    """Draws that a sampler kept, chain after chain, on the scale of latent responses.

    `loadings_mode` and `parameters` are means: leading directions of the mean of ΛΛᵀ on the
    correlation scale, and thresholds of responses of variance one.

    Attributes
    ----------
    active_draws : ndarray (S, H)
        Which columns are active. Their number has the posterior distribution of the number of
        factors.
    log_likelihood : ndarray (S,)
        Of the data given the scores of the draw.
    spike : float
        θ_∞ of the chains.
    """

    kind: ClassVar[PosteriorKind] = "latent_gibbs"
    layout: ClassVar = SampledLatentEntries()

    active_draws: BoolArray
    log_likelihood: Array
    spike: float

    @property
    def draws(self) -> Draws:
        """All draws that were kept, chain after chain, whatever their number of factors."""
        return self.as_draws(self.kept, self.active_draws)

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """R-hat and effective sizes of correlations and thresholds of latent responses.

        They are those of up to 20 columns, evenly spread; also of the log-likelihood and the number
        of factors.
        """
        return diagnose_latent(self.kept, self.active_draws, self.log_likelihood, self.columns)


def point_of_draws(
    drawn: LatentDraws, active: BoolArray, columns: LikelihoodTable
) -> tuple[Array, LatentParameters]:
    """(p, K) loadings and parameters that stand for draws of any number of factors.

    Correlations and probabilities of categories are near to their means over draws: leading
    directions of the mean of ΛΛᵀ on the correlation scale, and the mean of standardised thresholds.
    """
    k, (loadings, known, _) = int(np.argmax(count_probabilities(active))), drawn
    variance = np.sum(loadings**2, axis=2) + known.noise_variance
    scaled = loadings / np.sqrt(variance)[:, :, None]
    common = np.einsum("sjh,skh->jk", scaled, scaled, optimize=True) / len(scaled)
    values, vectors = np.linalg.eigh(common)
    own = vectors[:, ::-1][:, :k] * np.sqrt(np.maximum(values[::-1][:k], 0.0))
    shares = np.minimum(np.sum(own**2, axis=1), LARGEST_COMMUNALITY)
    ordinal = np.array([bool(one.levels) for one in columns])
    # The noise of a latent response is given; of other columns it is the rest of their variance.
    total = np.where(
        ordinal, known.noise_variance.mean(axis=0) / (1.0 - shares), variance.mean(axis=0)
    )
    owner = np.repeat(np.arange(len(columns)), [max(len(one.levels) - 1, 0) for one in columns])
    thresholds = (known.thresholds / np.sqrt(variance)[:, owner]).mean(axis=0)
    parameters = LatentParameters(
        known.mean.mean(axis=0),
        total * (1.0 - shares),
        thresholds * np.sqrt(total)[owner],
        np.zeros(0),
    )
    return np.asarray(np.sqrt(total)[:, None] * own), parameters


def diagnose_latent(
    drawn: LatentDraws, active: BoolArray, log_likelihood: Array, columns: LikelihoodTable
) -> Diagnostics:
    """R-hat and effective sizes of draws, chain after chain."""
    p, labels = len(columns), [one.column for one in columns]
    chosen = np.unique(np.linspace(0, p - 1, min(p, MONITORED_COLUMNS)).round().astype(int))
    first, second = np.triu_indices(len(chosen), 1)
    every = Draws(drawn.loadings, drawn.parameters.noise_variance)
    parts = [batch.correlation[:, first, second] for batch in every.only(chosen).batches()]
    names = [
        f"correlation of {labels[i]} and {labels[j]}"
        for i, j in zip(chosen[first], chosen[second], strict=True)
    ]
    owner, place = [], []
    for j, one in enumerate(columns):
        owner += [j] * max(len(one.levels) - 1, 0)
        place += [f"threshold {c} of {one.column}" for c in range(1, len(one.levels))]
    kept = np.flatnonzero(np.isin(owner, chosen))
    variance = np.sum(drawn.loadings**2, axis=2) + drawn.parameters.noise_variance
    thresholds = drawn.parameters.thresholds / np.sqrt(variance)[:, np.array(owner, dtype=int)]
    values = np.column_stack(
        [*np.vstack(parts).T, thresholds[:, kept], log_likelihood, active.sum(axis=1)]
    )
    values = values.reshape(drawn.n_chains, -1, values.shape[1])
    named = [*names, *(place[i] for i in kept), "log-likelihood", "number of factors"]
    return Diagnostics(named, *convergence(values))
