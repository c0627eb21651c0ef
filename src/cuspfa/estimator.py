"""The scikit-learn face: check → source → engine → posterior → attributes."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cuspfa._checks import generator, must_be, one_of, whole
from cuspfa._threads import one_blas_thread
from cuspfa._types import Array, RandomState
from cuspfa.data.checks import check_table
from cuspfa.data.complete import Prepared, prepare_moments, prepare_rows
from cuspfa.data.moments import Moments
from cuspfa.errors import ConvergenceWarning, CuspWarning, DataError
from cuspfa.posterior.variational import VariationalPosterior
from cuspfa.prior import CuspPrior
from cuspfa.variational.fit import Status
from cuspfa.variational.method import Variational, VariationalFit
from cuspfa.variational.search import Callback


class CuspFactorAnalysis(BaseEstimator):  # type: ignore[misc]
    """Gaussian factor analysis under the cumulative shrinkage process.

    y = center + Λη + ε with η ~ N(0, I) and ε ~ N(0, diag σ²); the number of factors is learned.

    Parameters
    ----------
    n_factors : "auto" or int, default="auto"
        The number of factors, or that it is to be found.
    method : "variational" or Variational, default="variational"
        The engine, a word or an object with its settings.
    prior : CuspPrior or None, default=None
        None means `CuspPrior()`: a slab that learns each factor's scale, a spike at zero and a
        weak noise prior, all on the scale of the data.
    standardize : bool, default=True
        Scale each column to unit sample variance before fitting. Results are in the user's units
        all the same. If False, a prior that is given is taken as it is, on the data's own scale;
        with `prior=None` all columns are divided by one common number, the root of their median
        variance, and columns of very different size are better standardised.
    random_state : None, int or numpy.random.Generator
        Seed. A search from the spectrum needs it only for p > 400; random starts always.
    n_jobs : int or None, default=None
        Processes for random starts, as in joblib.

    Attributes
    ----------
    n_factors_ : int
        Number of active factors.
    expected_active_factors_ : float
        E_q[H*].
    lower_bound_ : float
        The evidence lower bound of the chosen run, for the data as the engine saw them. Comparable
        between fits of the same data with the same `standardize` and the same `mean` setting.
    search_ : list of SearchEntry
        By number of factors: n_factors, lower_bound, evidence, weight, n_iter, status.
    trace_ : ndarray (n_iter_,)
        The bound after each of the last run's cycles.
    loadings_ : ndarray (p, n_factors_)
        Posterior mean loadings on the correlation scale (the loading of a variable divided by its
        standard deviation), turned to principal axes, strongest first, the largest entry of each
        column positive.
    noise_variance_ : ndarray (p,)
        The part of each variable's expected variance that mean loadings do not explain, in the
        user's units.
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
    >>> model = CuspFactorAnalysis().fit(X)
    >>> model.n_factors_
    2
    >>> model.get_covariance().shape
    (10, 10)
    """

    def __init__(
        self,
        *,
        n_factors: int | str = "auto",
        method: str | Variational = "variational",
        prior: CuspPrior | None = None,
        standardize: bool = True,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_factors = n_factors
        self.method = method
        self.prior = prior
        self.standardize = standardize
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def as_published(
        cls,
        method: str = "variational",
        *,
        search: bool = False,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """The application of the paper: prior, treatment of the data, starts and tolerance.

        Parameters
        ----------
        method : {"variational"}
            "variational" is §4 of Legramanti (2020): columns centred and not scaled, sample means
            taken as known, H = p + 1, 20 random starts, each stopped when its bound grows by less
            than 0.05.
        search : bool, default=False
            Find the number of factors by search instead of random starts, with the paper's bound
            as score and everything else as above.
        random_state : None, int or numpy.random.Generator
            Seed of the random starts.
        n_jobs : int or None
            Processes for the random starts.
        callback : callable or None
            Told of progress after each cycle.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.load_bfi(subset="paper").data
        >>> model = CuspFactorAnalysis.as_published("variational", search=True).fit(X)
        >>> model.n_factors_, round(model.lower_bound_, 2)
        (3, -5310.92)
        """
        one_of("method", method, ("variational",))
        if not isinstance(search, (bool, np.bool_)):
            raise must_be("search", "True or False", search)
        return cls(
            method=Variational(
                tol=0.05,
                init="spectral" if search else "random",
                score="bound",
                n_init=20,
                mean="plugged-in",
                callback=callback,
            ),
            prior=CuspPrior.variational_paper(),
            standardize=False,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to rows of data.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Complete numeric data, rows are observations.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self
        """
        method, scaling = self._check_parameters()
        table = check_table(X)
        prepared = prepare_rows(table.rows, scaling=scaling, flat_mean=method.mean == "flat")
        return self._fit(prepared, table.names, method)

    def fit_moments(self, moments: Moments) -> Self:
        """Fit to sufficient statistics: count, means and cross-products.

        Examples
        --------
        >>> import numpy as np
        >>> from cuspfa import CuspFactorAnalysis, Moments
        >>> R = 0.7 * np.ones((6, 6)) + 0.3 * np.eye(6)
        >>> CuspFactorAnalysis().fit_moments(Moments.from_correlation(R, n=200)).n_factors_
        1
        """
        method, scaling = self._check_parameters()
        if not isinstance(moments, Moments):
            raise must_be("moments", "a Moments object", moments)
        if moments.n < 2:
            raise DataError(f"moments must be of at least 2 rows. Got {moments.n} instead.")
        moments.check_usable()
        flat = method.mean == "flat"
        return self._fit(
            prepare_moments(moments, scaling=scaling, flat_mean=flat), moments.names, method
        )

    def get_covariance(self) -> Array:
        """E[Ω] = E[ΛΛᵀ + Σ], the posterior mean of the covariance, in the user's units."""
        check_is_fitted(self)
        covariance: Array = self.posterior_.covariance
        return covariance

    # --- inside ---

    def _check_parameters(self) -> tuple[Variational, str]:
        method = self.method
        if isinstance(method, str) and method == "variational":
            method = Variational()
        if not isinstance(method, Variational):
            raise must_be("method", "'variational' or a Variational object", self.method)
        method.check()
        if not isinstance(self.n_factors, str):
            whole("n_factors", self.n_factors, 0)
        elif self.n_factors != "auto":
            raise must_be("n_factors", "'auto' or a whole number", self.n_factors)
        if self.n_jobs is not None and (
            isinstance(self.n_jobs, bool) or not isinstance(self.n_jobs, int) or self.n_jobs == 0
        ):
            raise must_be("n_jobs", "None or a whole number other than 0", self.n_jobs)
        if self.prior is not None and not isinstance(self.prior, CuspPrior):
            raise must_be("prior", "None or a CuspPrior", self.prior)
        if not isinstance(self.standardize, (bool, np.bool_)):
            raise must_be("standardize", "True or False", self.standardize)
        if self.standardize:
            return method, "columns"
        return method, "common" if self.prior is None else "none"

    def _fit(self, prepared: Prepared, names: list[str] | None, method: Variational) -> Self:
        source, center, scale, n = prepared
        prior = CuspPrior() if self.prior is None else self.prior
        n_factors = None if isinstance(self.n_factors, str) else int(self.n_factors)
        if n_factors is not None and n_factors > source.p:
            raise must_be("n_factors", f"at most the {source.p} columns", self.n_factors)
        with one_blas_thread(source.p * min(n, source.p)):
            fit = method.infer(
                source,
                prior,
                n_factors=n_factors,
                rng=generator(self.random_state),
                n_jobs=self.n_jobs,
            )
        self._store(fit, names, center, scale)
        if fit.interrupted:
            raise KeyboardInterrupt
        if n_factors is not None and self.n_factors_ != n_factors:
            warnings.warn(
                f"n_factors={n_factors} was asked for, but the prior's spike of {prior.spike} "
                f"leaves {self.n_factors_} of them active. Use a narrower spike, or spike=None.",
                CuspWarning,
                stacklevel=3,
            )
        if not self.converged_:
            warnings.warn(self.status_, ConvergenceWarning, stacklevel=3)
        return self

    def _store(
        self, fit: VariationalFit, names: list[str] | None, center: Array, scale: Array
    ) -> None:
        run, state = fit.best, fit.best.state
        self.n_features_in_ = len(center)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.posterior_ = VariationalPosterior(
            state.loadings,
            state.noise,
            state.active,
            state.expected_active,
            state.tail.size * state.tail.loading_variance,
            center,
            scale,
        )
        self.lower_bound_ = run.total
        self.search_ = fit.entries
        self.trace_ = run.trace
        status = Status.INTERRUPTED if fit.interrupted else run.status
        self.status_ = status.value
        self.converged_ = status is Status.CONVERGED
        self.n_iter_ = run.n_iter
        self.expected_active_factors_ = state.expected_active
        active = state.active > 0.5
        self.n_factors_ = int(active.sum())
        self.mean_ = center
        self.noise_variance_ = self.posterior_.noise_variance
        mean = self.posterior_.mean_loadings
        sd = np.sqrt(np.sum(mean**2, axis=1) + self.noise_variance_)
        self.loadings_ = principal_axes(mean[:, active] / sd[:, None])


def principal_axes(loadings: Array) -> Array:
    """Rotate so that ΛᵀΛ is diagonal, strongest column first, its largest entry positive."""
    u, s, _ = np.linalg.svd(loadings, full_matrices=False)
    turned: Array = u * s
    if turned.size:
        largest = np.argmax(np.abs(turned), axis=0)
        turned *= np.where(turned[largest, np.arange(turned.shape[1])] < 0, -1.0, 1.0)
    return turned
