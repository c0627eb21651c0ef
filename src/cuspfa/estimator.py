"""The scikit-learn face: check → source → engine → posterior → attributes."""

from __future__ import annotations

import html
import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from cuspfa._checks import generator, must_be, one_of, whole
from cuspfa._threads import one_blas_thread
from cuspfa._types import Array, RandomState
from cuspfa.data.checks import check_columns, check_rows, check_table, nearly_constant
from cuspfa.data.complete import Prepared, prepare_moments, prepare_rows
from cuspfa.data.moments import Moments
from cuspfa.errors import ConvergenceWarning, CuspWarning, DataError
from cuspfa.posterior.predict import MarginalGaussian
from cuspfa.posterior.variational import VariationalPosterior
from cuspfa.prior import CuspPrior
from cuspfa.variational.fit import Status
from cuspfa.variational.method import Variational, VariationalFit
from cuspfa.variational.search import Callback


class FactorScores(NamedTuple):
    """Normal law of each row's scores."""

    mean: Array
    """(n, K) E[η_i | y_i]."""
    covariance: Array
    """(K, K) their covariance, the same for all rows without missing values."""


class CuspFactorAnalysis(TransformerMixin, BaseEstimator):  # type: ignore[misc]
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
    components_ : ndarray (n_factors_, p)
        Posterior mean loadings in the user's units; `components_.T @ components_ +
        diag(noise_variance_)` is `get_covariance()`.
    loadings_ : ndarray (p, n_factors_)
        The same factors on the correlation scale, `components_.T` divided by each variable's
        standard deviation. The factors are uncorrelated and turned to the principal axes of this
        matrix (its columns are orthogonal), so that they do not depend on the units of the data;
        strongest first, the largest loading of each positive. `components_`, scores and names
        have the same factors in the same order.
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

    # --- fitting ---

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
        self._check_n_factors(table.rows.shape[1], method)
        validate_data(self, X, skip_check_array=True)
        prepared = prepare_rows(table.rows, scaling=scaling, flat_mean=method.mean == "flat")
        return self._fit(prepared, method, nearly_constant(table))

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
        self._check_n_factors(len(moments.mean), method)
        self._set_columns(len(moments.mean), moments.names)
        flat = method.mean == "flat"
        return self._fit(prepare_moments(moments, scaling=scaling, flat_mean=flat), method)

    def _fit_named(self, rows: Any, names: list[str]) -> Self:
        """For `cuspfa.anndata`: an array or sparse matrix whose columns have names."""
        method, scaling = self._check_parameters()
        table = check_table(rows, names)
        self._check_n_factors(len(names), method)
        self._set_columns(len(names), names)
        prepared = prepare_rows(table.rows, scaling=scaling, flat_mean=method.mean == "flat")
        return self._fit(prepared, method, nearly_constant(table))

    # --- new rows ---

    def transform(self, X: Any) -> Array:
        """Factor scores: E[η | y] of each row, given the expected loadings and noise.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Rows with the columns of the fit.

        Returns
        -------
        ndarray (n, n_factors_), or a data frame after `set_output(transform="pandas")`

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> CuspFactorAnalysis().fit(X[:150]).transform(X[150:]).shape
        (50, 2)
        """
        law, rows = self._law(X)
        with one_blas_thread(law.components.size):
            return law.scores(rows)

    def factor_scores(self, X: Any) -> FactorScores:
        """Mean and covariance of each row's scores.

        The uncertainty is that of the scores given expected loadings and noise.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> scores = CuspFactorAnalysis().fit(X).factor_scores(X)
        >>> scores.mean.shape, scores.covariance.shape
        ((200, 2), (2, 2))
        """
        law, rows = self._law(X)
        with one_blas_thread(law.components.size):
            return FactorScores(law.scores(rows), law.score_covariance)

    def inverse_transform(self, X: Any) -> Array:
        """Rows as the factors alone would have them: mean_ + scores @ components_.

        Parameters
        ----------
        X : array or data frame (n, n_factors_)
            Scores, one column for each factor.
        """
        check_is_fitted(self)
        scores = check_rows(X).rows
        if scores.shape[1] != self.n_factors_:
            raise must_be(
                "X", f"scores with {self.n_factors_} columns (one a factor)", scores.shape
            )
        return np.asarray(scores @ self.components_ + self.mean_)

    def score_samples(self, X: Any) -> Array:
        """Log density of each row under N(mean_, get_covariance()), (n,)."""
        law, rows = self._law(X)
        with one_blas_thread(law.components.size):
            return law.log_density(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows: what `GridSearchCV` and `cross_val_score` compare.

        Examples
        --------
        >>> from sklearn.model_selection import cross_val_score
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> cross_val_score(CuspFactorAnalysis(), X, cv=3).shape
        (3,)
        """
        values = self.score_samples(X)
        if not len(values):
            raise DataError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return float(np.mean(values))

    def sample(self, n_samples: int = 1, *, random_state: RandomState = None) -> Array:
        """New rows from N(mean_, get_covariance()), (n_samples, p)."""
        check_is_fitted(self)
        size = whole("n_samples", n_samples, 1)
        return self._marginal().sample(size, generator(random_state))

    def get_covariance(self, columns: Any = None) -> Array:
        """E[Ω] = E[ΛΛᵀ + Σ], the posterior mean of the covariance, in the user's units.

        Parameters
        ----------
        columns : None, or names, indices, slice or mask of some columns
            The block of these columns alone: for tens of thousands of columns the whole matrix
            does not fit into memory.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> bfi = datasets.load_bfi(subset="paper", as_frame=True)
        >>> model = CuspFactorAnalysis().fit(bfi.data)
        >>> model.get_covariance(columns=["A1", "A2", "A3"]).shape
        (3, 3)
        """
        check_is_fitted(self)
        if columns is None:
            return self._marginal().covariance()
        names = getattr(self, "feature_names_in_", None)
        chosen = check_columns(
            columns, self.n_features_in_, None if names is None else names.tolist()
        )
        return self._marginal().covariance(chosen)

    def get_precision(self) -> Array:
        """The inverse of `get_covariance()`, by Woodbury's formula, (p, p)."""
        check_is_fitted(self)
        return self._marginal().precision()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: factor1, factor2, ... (strongest first)."""
        check_is_fitted(self)
        return np.array([f"factor{k}" for k in range(1, self.n_factors_ + 1)], dtype=object)

    # --- scikit-learn's own ---

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _html_repr(self) -> str:
        """scikit-learn's diagram, and the answer below it once there is one."""
        page: str = estimator_html_repr(self)
        return page + result_table(self) if hasattr(self, "components_") else page

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    # --- inside ---

    def _marginal(self) -> MarginalGaussian:
        return MarginalGaussian(self.mean_, self.components_, self.noise_variance_)

    def _law(self, X: Any) -> tuple[MarginalGaussian, Any]:
        check_is_fitted(self)
        rows = check_rows(X).rows
        validate_data(self, X, skip_check_array=True, reset=False)
        return self._marginal(), rows

    def _check_n_factors(self, p: int, method: Variational) -> None:
        if isinstance(self.n_factors, str):
            return
        if self.n_factors > p:
            raise must_be("n_factors", f"at most the {p} columns", self.n_factors)
        if method.max_factors is not None and self.n_factors > method.max_factors:
            raise must_be("n_factors", f"at most max_factors={method.max_factors}", self.n_factors)

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

    def _set_columns(self, p: int, names: list[str] | None) -> None:
        """What scikit-learn's `validate_data` does for a data frame."""
        self.n_features_in_ = p
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _fit(self, prepared: Prepared, method: Variational, concern: str | None = None) -> Self:
        source, center, scale, n = prepared
        if concern is not None:
            _warn(concern)
        prior = CuspPrior() if self.prior is None else self.prior
        n_factors = None if isinstance(self.n_factors, str) else int(self.n_factors)
        with one_blas_thread(source.p * min(n, source.p)):
            fit = method.infer(
                source,
                prior,
                n_factors=n_factors,
                rng=generator(self.random_state),
                n_jobs=self.n_jobs,
            )
        self._store(fit, center, scale)
        if fit.interrupted:
            raise KeyboardInterrupt
        if n_factors is not None and self.n_factors_ != n_factors:
            _warn(
                f"n_factors={n_factors} was asked for, but the prior's spike of {prior.spike} "
                f"leaves {self.n_factors_} of them active. Use a narrower spike, or spike=None."
            )
        if n_factors is None and self.n_factors_ == method.max_factors != 0:
            _warn(
                f"As many factors were found as max_factors={method.max_factors} allows, and more "
                "may be there. Raise max_factors, or leave it None; if this number is what you "
                "want, say n_factors instead."
            )
        if not self.converged_:
            _warn(self.status_, ConvergenceWarning)
        return self

    def _store(self, fit: VariationalFit, center: Array, scale: Array) -> None:
        run, state = fit.best, fit.best.state
        active = state.active > 0.5
        # Factors that the labels call inactive count as noise, with those that have no mean.
        others = state.loadings.only(~active)
        unexplained = np.sum(others.mean**2, axis=1) + others.row_variance
        self.posterior_ = VariationalPosterior(
            state.loadings.only(active),
            state.noise,
            state.active[active],
            state.expected_active,
            state.tail.size * state.tail.loading_variance + unexplained,
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
        self.n_factors_ = int(active.sum())
        self.mean_ = center
        self.noise_variance_ = self.posterior_.noise_variance
        mean = self.posterior_.mean_loadings
        sd = np.sqrt(np.sum(mean**2, axis=1) + self.noise_variance_)
        self.loadings_ = principal_axes(mean / sd[:, None])
        self.components_ = (sd[:, None] * self.loadings_).T


def _warn(message: str, kind: type[CuspWarning] = CuspWarning) -> None:
    """To the caller of `fit`: past the method and `_fit`."""
    warnings.warn(message, kind, stacklevel=4)


def principal_axes(loadings: Array) -> Array:
    """Rotate so that ΛᵀΛ is diagonal, strongest column first, its largest entry positive."""
    u, s, _ = np.linalg.svd(loadings, full_matrices=False)
    turned: Array = u * s
    if turned.size:
        largest = np.argmax(np.abs(turned), axis=0)
        turned *= np.where(turned[largest, np.arange(turned.shape[1])] < 0, -1.0, 1.0)
    return turned


def result_table(model: CuspFactorAnalysis) -> str:
    """What a notebook shows below the diagram of a fitted model."""
    strengths = np.sum(model.loadings_**2, axis=0) / model.n_features_in_
    shares = ", ".join(f"{100 * share:.1f}" for share in strengths[:12])
    more = ", …" if len(strengths) > 12 else ""
    lines = [
        ("number of factors", str(model.n_factors_)),
        ("share of variance, % by factor", shares + more if len(strengths) else "–"),
        ("evidence lower bound", f"{model.lower_bound_:.2f}"),
        ("status", html.escape(model.status_)),
    ]
    cells = "".join(
        f'<tr><td style="text-align:left">{name}</td><td style="text-align:left">{value}</td></tr>'
        for name, value in lines
    )
    return f"<table>{cells}</table>"
