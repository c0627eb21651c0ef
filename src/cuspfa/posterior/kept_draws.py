"""What the posteriors of samplers share: draws that were kept, of any number of factors."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from cuspfa._typing import Array, BoolArray, RandomState
from cuspfa._utils.arguments import generator, true_or_false, whole
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.draws import N_DRAWS, Draws


class KeptDraws(Posterior):
    """Draws that a sampler kept, chain after chain, with the columns that were active in each."""

    active_draws: BoolArray
    log_likelihood: Array

    def __repr__(self) -> str:
        """Short, without its arrays."""
        return f"{super().__repr__()[:-1]}, {len(self.active_draws)} draws>"

    @property
    @abstractmethod
    def draws(self) -> Draws:
        """All draws that were kept, chain after chain, whatever their number of factors."""

    @cached_property
    def count_probabilities(self) -> Array:
        """P(K = 0), P(K = 1), ...: shares of draws by their number of active factors."""
        return count_probabilities(self.active_draws)

    @cached_property
    def active(self) -> Array:
        """(K,) the share of draws with at least 1, 2, ..., K active factors."""
        counts = self.active_draws.sum(axis=1)
        return np.array([np.mean(counts >= k) for k in range(1, self.n_active + 1)])

    @property
    def expected_active_factors(self) -> float:
        """E[H*]."""
        return float(self.active_draws.sum(axis=1).mean())

    def n_shown(self, draws: Draws) -> int:
        """As many as are most probable: the columns behind are of the spike, or in few draws."""
        return int(min(self.n_active, draws.loadings.shape[2]))

    def draw(
        self,
        n_draws: int = N_DRAWS,
        *,
        random_state: RandomState = 0,
        average_over_k: bool = False,
        population: bool = False,
    ) -> Draws:
        """Draws that were kept: all of them, or some at random.

        Parameters
        ----------
        n_draws : int, default=1000
            Number of draws; if fewer were kept, these are all given, chain after chain.
        random_state : None, int, numpy.random.Generator or RandomState, default=0
            Which ones, where fewer than all are asked for; None gives others each time.
        average_over_k : bool, default=False
            False takes the draws with the most probable number of active factors, True takes draws
            with any number.
        population : bool, default=False
            Also draw the population covariance of each draw, with model error: p×p numbers each.
            Must be False for columns that are not all Gaussian.

        Returns
        -------
        Draws
            With all columns of Λ, those of the spike too, so that Ω is exact, and with thresholds
            of ordinal columns.

        Examples
        --------
        >>> import warnings
        >>> from cuspfa import CuspFactorAnalysis, Gibbs, datasets
        >>> X = datasets.simulate(100, 8, 2, random_state=0).X
        >>> method = Gibbs(n_draws=50, n_chains=2, burn_in=50)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # so few draws give reason for one
        ...     posterior = CuspFactorAnalysis(method=method, random_state=0).fit(X).posterior_
        >>> posterior.draw(average_over_k=True).covariance.shape
        (100, 8, 8)
        >>> bool(len(posterior.draw()) <= 100)
        True
        """
        rng = generator(random_state)
        found = self.chosen_draws(n_draws, rng, average_over_k)
        return (
            self.with_population(found, rng) if true_or_false("population", population) else found
        )

    def draws_by_chain(self, n_draws: int = N_DRAWS, random_state: RandomState = 0) -> Draws:
        """All draws that were kept: R-hat is of chains as they were."""
        return self.draws

    @property
    def chain_log_likelihood(self) -> Array:
        """(chains, draws) log-likelihood of the draws.

        Scores are integrated out where all columns are Gaussian, and given where they are not.
        """
        return self.log_likelihood.reshape(self.n_chains, -1)

    def chosen_draws(self, n_draws: Any, rng: np.random.Generator, average_over_k: Any) -> Draws:
        """All draws of K factors, or of any number of them; at most `n_draws`, taken at random."""
        asked, every = whole("n_draws", n_draws, 1), self.draws
        chosen = np.arange(len(every))
        if not true_or_false("average_over_k", average_over_k):
            chosen = np.flatnonzero(self.active_draws.sum(axis=1) == self.n_active)
        if asked < len(chosen):
            chosen = np.sort(rng.choice(chosen, asked, replace=False))
        return every if len(chosen) == len(every) else every.some(chosen)


def count_probabilities(active: BoolArray) -> Array:
    """P(K = 0), P(K = 1), ... of draws (S, H) of which columns are active."""
    counts = np.bincount(active.sum(axis=1))
    return np.asarray(counts / counts.sum())
