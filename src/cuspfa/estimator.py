"""The scikit-learn face: check → source → engine → posterior → attributes."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from cuspfa._checks import generator, must_be, one_of
from cuspfa._types import Array, RandomState
from cuspfa.data.arrays import complete_matrix
from cuspfa.data.checks import check_table
from cuspfa.data.source import CompleteSource
from cuspfa.errors import ConvergenceWarning
from cuspfa.posterior.variational import VariationalPosterior
from cuspfa.prior import CuspPrior
from cuspfa.variational.fit import Callback, Status, best, fit_random_starts
from cuspfa.variational.method import Variational


class SearchEntry(NamedTuple):
    """One candidate the engine tried."""

    n_factors: int
    lower_bound: float
    n_iter: int
    status: str


class CuspFactorAnalysis(BaseEstimator):  # type: ignore[misc]
    """Gaussian factor analysis under the cumulative shrinkage process.

    y = center + Λη + ε with η ~ N(0, I) and ε ~ N(0, diag σ²); the number of factors is learned.

    Parameters
    ----------
    method : "variational" or Variational, default="variational"
        The engine, a word or an object with its settings.
    prior : CuspPrior or None, default=None
        None means `CuspPrior()`.
    standardize : bool, default=True
        Scale each column to unit sample variance before fitting. Results are in the user's units
        all the same.
    random_state : None, int or numpy.random.Generator
        Seed of the random starts.

    Attributes
    ----------
    n_factors_ : int
        Number of factors more likely active than not.
    expected_active_factors_ : float
        E_q[H*].
    lower_bound_ : float
        The evidence lower bound of the best run, for the data as the engine saw them.
    search_ : list of SearchEntry
        What each run ended at: n_factors, lower_bound, n_iter, status.
    trace_ : ndarray (n_iter_,)
        The best run's bound after each cycle.
    loadings_ : ndarray (p, n_factors_)
        Posterior mean loadings on the correlation scale (the loading of a variable divided by its
        standard deviation), turned to principal axes, strongest first, the largest entry of each
        column positive.
    noise_variance_ : ndarray (p,)
        The part of each variable's expected variance that mean loadings do not explain.
    mean_ : ndarray (p,)
        Sample means.
    posterior_ : VariationalPosterior
        The fitted distribution, for draws.
    status_, converged_, n_iter_
        How the best run ended.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> model = CuspFactorAnalysis(random_state=0).fit(X)
    >>> model.n_factors_
    2
    >>> model.get_covariance().shape
    (10, 10)
    """

    def __init__(
        self,
        *,
        method: str | Variational = "variational",
        prior: CuspPrior | None = None,
        standardize: bool = True,
        random_state: RandomState = None,
    ) -> None:
        self.method = method
        self.prior = prior
        self.standardize = standardize
        self.random_state = random_state

    @classmethod
    def as_published(
        cls,
        method: str = "variational",
        *,
        random_state: RandomState = None,
        callback: Callback | None = None,
    ) -> Self:
        """The application of the paper: prior, treatment of the data, starts and tolerance.

        Parameters
        ----------
        method : {"variational"}
            "variational" is §4 of Legramanti (2020): columns centred and not scaled, sample means
            taken as known, H = p + 1, 20 random starts, each stopped when its bound grows by less
            than 0.05.
        random_state : None, int or numpy.random.Generator
            Seed of the random starts.
        callback : callable or None
            Told of progress after each cycle.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.load_bfi(subset="paper").data
        >>> model = CuspFactorAnalysis.as_published("variational", random_state=0).fit(X)
        >>> model.n_factors_
        3
        """
        one_of("method", method, ("variational",))
        return cls(
            method=Variational(
                tol=0.05, init="random", n_init=20, mean="plugged-in", callback=callback
            ),
            prior=CuspPrior.variational_paper(),
            standardize=False,
            random_state=random_state,
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows of data.

        Parameters
        ----------
        X : array or data frame (n, p)
            Complete numeric data, rows are observations.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
        """
        method = self._checked_method()
        settings = method.checked()
        prior = self._checked_prior()
        rng = generator(self.random_state)
        if not isinstance(self.standardize, (bool, np.bool_)):
            raise must_be("standardize", "True or False", self.standardize)

        table = check_table(X)
        n, p = table.rows.shape
        center = table.rows.mean(axis=0)
        rows = table.rows - center
        scale = rows.std(axis=0, ddof=1) if self.standardize else np.ones(p)
        rows /= scale
        source = CompleteSource(complete_matrix(rows, n - 1.0 if settings.flat_mean else float(n)))
        max_factors = p if settings.max_factors is None else settings.max_factors

        # Matrices here are small: many BLAS threads would make them 10 to 50 times slower.
        with threadpool_limits(limits=1, user_api="blas"):
            runs = fit_random_starts(
                source,
                prior,
                n_terms=max_factors + 1,
                n_init=settings.n_init,
                tol=settings.tol,
                max_iter=settings.max_iter,
                rng=rng,
                callback=settings.callback,
            )
        winner = best(runs)
        if winner.status is not Status.CONVERGED:
            warnings.warn(winner.status.value, ConvergenceWarning, stacklevel=2)

        self.n_features_in_ = p
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        state = winner.state
        self.posterior_ = VariationalPosterior(
            state.loadings, state.noise, state.labels.active, center, scale
        )
        self.lower_bound_ = winner.bound.total
        self.search_ = [
            SearchEntry(
                int(np.sum(one.state.labels.active > 0.5)),
                one.bound.total,
                one.n_iter,
                one.status.value,
            )
            for one in runs
        ]
        self.trace_ = winner.trace
        self.status_ = winner.status.value
        self.converged_ = winner.status is Status.CONVERGED
        self.n_iter_ = winner.n_iter
        self.expected_active_factors_ = self.posterior_.expected_active_factors
        active = self.posterior_.active > 0.5
        self.n_factors_ = int(active.sum())
        self.mean_ = center
        self.noise_variance_ = self.posterior_.noise_variance
        sd = np.sqrt(np.diag(self.posterior_.covariance))
        self.loadings_ = principal_axes(self.posterior_.mean_loadings[:, active] / sd[:, None])
        return self

    def get_covariance(self) -> Array:
        """E[Ω] = E[ΛΛᵀ + Σ], the posterior mean of the covariance, in the user's units."""
        check_is_fitted(self)
        covariance: Array = self.posterior_.covariance
        return covariance

    def _checked_method(self) -> Variational:
        if isinstance(self.method, Variational):
            return self.method
        if isinstance(self.method, str) and self.method == "variational":
            return Variational()
        raise must_be("method", "'variational' or a Variational object", self.method)

    def _checked_prior(self) -> CuspPrior:
        if self.prior is None:
            return CuspPrior()
        if isinstance(self.prior, CuspPrior):
            return self.prior
        raise must_be("prior", "None or a CuspPrior", self.prior)


def principal_axes(loadings: Array) -> Array:
    """Rotate so that ΛᵀΛ is diagonal, strongest column first, its largest entry positive."""
    u, s, _ = np.linalg.svd(loadings, full_matrices=False)
    turned: Array = u[:, : loadings.shape[1]] * s
    if turned.size:
        largest = np.argmax(np.abs(turned), axis=0)
        turned *= np.where(turned[largest, np.arange(turned.shape[1])] < 0, -1.0, 1.0)
    return turned
