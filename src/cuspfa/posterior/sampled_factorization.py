"""The posterior of a Poisson factorization by the draws of a sampler."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from cuspfa._typing import Array, Indices, PosteriorKind, RandomState
from cuspfa._utils.arguments import generator, true_or_false, whole
from cuspfa.diagnostics.mcmc import convergence
from cuspfa.errors import InputError
from cuspfa.posterior.factorization import N_COUNT_DRAWS, FactorizationPosterior
from cuspfa.posterior.factorization_entries import SampledFactorizationEntries
from cuspfa.posterior.factorization_results import (
    MONITORED_RATES,
    FactorizationDraws,
    monitored_columns,
)
from cuspfa.posterior.sampled import Diagnostics


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SampledFactorizationPosterior(FactorizationPosterior):
    """The posterior of x_ij ~ Po(s_i Σ_h θ_ih β_jh) by the draws of a sampler.

    Means, intervals and files are those of the draws with the most probable number of factors, K.
    `loading_shape` and `loading_rate` are of gamma distributions with the means and variances of
    these draws.

    Attributes
    ----------
    count_draws : ndarray (S,)
        Factors of each draw that was kept, chain after chain.
    log_likelihood : ndarray (S,)
        log p(x | scores, loadings) of each, without what only depends on x.
    monitored : ndarray (S, Q)
        Logs of the mean over the rows of λ_ij λ_ik, for j ≤ k of up to 6 columns, λ the rates.
    n_chains : int
        Chains.
    engine : EngineSettings
        Settings of the sampler.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from cuspfa import CuspPoissonFactorization, Gibbs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.5, 2, (30, 1)) @ rng.gamma(0.5, 2, (1, 8)))
    >>> method = Gibbs(n_draws=20, n_chains=2, burn_in=20, thin=1)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # so few draws give reason for one
    ...     posterior = CuspPoissonFactorization(method=method, random_state=0).fit(X).posterior_
    >>> round(float(posterior.count_probabilities.sum()), 6)
    1.0
    >>> posterior.draw(average_over_k=True).rates().shape
    (40, 30, 8)
    """

    kind: ClassVar[PosteriorKind] = "poisson_factorization_gibbs"
    layout: ClassVar[SampledFactorizationEntries] = SampledFactorizationEntries()
    count_draws: Indices
    log_likelihood: Array
    monitored: Array
    all_draws: FactorizationDraws | None = None
    """Draws of any number of factors, filled up with zeros; None of a loaded posterior."""

    @cached_property
    def count_probabilities(self) -> Array:
        """P(K = 0), P(K = 1), ...: shares of draws by their number of factors."""
        counts = np.bincount(self.count_draws)
        return np.asarray(counts / counts.sum())

    @property
    def expected_active_factors(self) -> float:
        """E[H*]."""
        return float(self.count_draws.mean())

    @property
    def chain_log_likelihood(self) -> Array:
        """(chains, draws) log-likelihood of the draws, given scores and loadings."""
        return self.log_likelihood.reshape(self.n_chains, -1)

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """R-hat and effective sizes of rates, log-likelihood and number of factors.

        Rates are seen by their products, λ_ij λ_ik, as means over all rows, for up to 6 columns. No
        order of the factors changes these.
        """
        return diagnose_counts(
            self.monitored, self.log_likelihood, self.count_draws, self.n_chains, self.column_names
        )

    def draw(
        self,
        n_draws: int = N_COUNT_DRAWS,
        *,
        thin: int = 2,
        random_state: RandomState = 0,
        average_over_k: bool = False,
    ) -> FactorizationDraws:
        """Draws that were kept: some at random, or all of them.

        Parameters
        ----------
        n_draws : int, default=200
            Number of draws; if fewer were kept, these are all given.
        thin : int, default=2
            Of no effect: the sampler has its own.
        random_state : None, int, numpy.random.Generator or RandomState, default=0
            Which ones; None gives others each time.
        average_over_k : bool, default=False
            False takes draws with the most probable number of factors, matched to each other. True
            takes draws with any number, filled up with columns of zeros: their rates are averages
            over the number of factors, and their factors are in any order. A saved fit has none.

        Returns
        -------
        FactorizationDraws
        """
        asked, found = whole("n_draws", n_draws, 1), self.stored
        if true_or_false("average_over_k", average_over_k):
            if self.all_draws is None:
                raise InputError(
                    "A saved fit has the draws with the most probable number of factors alone. Use "
                    "average_over_k=True with the posterior of the fit itself."
                )
            found = self.all_draws
        assert found is not None
        if asked >= len(found):
            return found
        return found.some(np.sort(generator(random_state).choice(len(found), asked, replace=False)))

    @cached_property
    def kept(self) -> FactorizationDraws:
        """The draws that summaries, reports and files are made of: some, evenly spread."""
        assert self.stored is not None
        most, size = self._kept_number()[0], len(self.stored)
        if size <= most:
            return self.stored
        return self.stored.some(np.linspace(0, size - 1, most).round().astype(int))


def diagnose_counts(
    monitored: Array, log_likelihood: Array, counts: Indices, n_chains: int, names: list[str]
) -> Diagnostics:
    """R-hat and effective sizes; see `SampledFactorizationPosterior.diagnostics`."""
    chosen = monitored_columns(len(names))
    pairs = zip(*(chosen[one] for one in np.triu_indices(len(chosen))), strict=True)
    watched = [f"{MONITORED_RATES} of {names[j]} and {names[k]}" for j, k in pairs]
    values = np.column_stack([monitored, log_likelihood, counts])
    values = values.reshape(n_chains, -1, values.shape[1])
    return Diagnostics([*watched, "log-likelihood", "number of factors"], *convergence(values))
