"""The estimator of counts: check parameters → check counts → search → posterior → attributes."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from cuspfa._typing import Array, RandomState
from cuspfa._utils.arguments import generator, must_be
from cuspfa._utils.fit_warning import CountsNotConverged, FitWarning
from cuspfa._utils.sklearn_compat import Interval, StrOptions, check_parameters
from cuspfa.data.count_input import CountInput, load_counts
from cuspfa.data.counts import Counts
from cuspfa.data.names import check_same_names, check_same_width
from cuspfa.data.validate import check_rows, column_names
from cuspfa.errors import DataError
from cuspfa.estimator.fitted import (
    given_number,
    issue_warnings,
    kept_seed,
    set_at_once,
    store_course,
    warn_if_not_built,
)
from cuspfa.inference.factorization.prediction import (
    ExactDraws,
    count_totals,
    new_scores,
    row_log_densities,
)
from cuspfa.inference.factorization.run import CountRun
from cuspfa.inference.factorization.search import (
    CountSearchResult,
    CountSearchSettings,
    fit_given_k,
    search_over_k,
)
from cuspfa.inference.factorization.state import Gammas, gammas
from cuspfa.inference.variational.run import Status
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior
from cuspfa.posterior.factorization import (
    FactorizationPosterior,
    FittedRows,
    check_factorization,
)
from cuspfa.posterior.factorization_results import (
    CountFitInfo,
    CountProvenance,
    CountSearchEntry,
    CountSearchPath,
    CountSettings,
    Sampler,
)
from cuspfa.posterior.provenance import versions


class CuspPoissonFactorization(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Poisson factorization of counts under the cumulative shrinkage process.

    x_ij ~ Po(s_i Σ_h θ_ih β_jh) with gamma scores θ and loadings β; the number of factors is
    estimated. It is an alternative to NMF with the Kullback–Leibler loss and to LDA.

    Parameters
    ----------
    n_factors : "auto" or int, default="auto"
        The number of factors; "auto" finds it.
    prior : PoissonFactorizationPrior or None, default=None
        None means `PoissonFactorizationPrior()`.
    max_factors : int, default=50
        The most factors that "auto" tries.
    tol : float, default=0.1
        A fit has converged when two iterations raise the bound by less, in nats.
    max_iter : int, default=2000
        Most iterations of one run.
    fractions : bool, default=False
        Accept values that are not whole numbers. There are then no exact draws, and "auto" chooses
        the number of factors by the bound alone, which finds too few in sparse data.
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState
        Seed of the exact sweeps, by which "auto" decides.

    Attributes
    ----------
    n_factors_ : int
        Number of factors.
    components_ : ndarray (n_factors_, p)
        Posterior mean loadings, not negative; the largest factor first.
    lower_bound_ : float
        The evidence lower bound of the chosen run.
    search_ : CountSearchPath, a list of CountSearchEntry
        By number of factors: n_factors, lower_bound, evidence_gain with its evidence_error and
        held_out_gain (over one factor less, where they were estimated), n_iter and status. The
        number is chosen by the evidence.
    posterior_ : FactorizationPosterior
        Means, and exact draws with intervals of rates, loadings and shares.
    trace_, n_iter_, status_, converged_
        The course of the chosen run, and how it ended.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Counts that vary more than Poisson variables lead to small factors. Look at the residual
    dispersion in `posterior_.summary()`, and if it is above 1.5 give a smaller `n_factors`.

    Examples
    --------
    >>> import numpy as np
    >>> from cuspfa import CuspPoissonFactorization
    >>> rng = np.random.default_rng(1)
    >>> X = rng.poisson(rng.gamma(0.3, 3, (150, 3)) @ rng.gamma(0.3, 3, (3, 30)))
    >>> model = CuspPoissonFactorization(random_state=0).fit(X)
    >>> model.n_factors_
    3
    >>> model.transform(X).shape
    (150, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_factors": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "prior": [PoissonFactorizationPrior, None],
        "max_factors": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 2, None, closed="left")],
        "fractions": ["boolean"],
        "random_state": [
            None,
            Interval(Integral, 0, None, closed="left"),
            np.random.Generator,
            np.random.RandomState,
        ],
    }

    def __init__(
        self,
        *,
        n_factors: int | Literal["auto"] = "auto",
        prior: PoissonFactorizationPrior | None = None,
        max_factors: int = 50,
        tol: float = 0.1,
        max_iter: int = 2000,
        fractions: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.n_factors = n_factors
        self.prior = prior
        self.max_factors = max_factors
        self.tol = tol
        self.max_iter = max_iter
        self.fractions = fractions
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, exposure: Any = None, missing: Any = None) -> Self:
        """Fit to counts.

        Parameters
        ----------
        X : array, sparse matrix, data frame (n, p), path, Table, iterator, RowStream or Dask
            Whole numbers, not negative. Sparse data stay sparse. NaN in dense data is a missing
            cell. Files are those of `RowStream`, MatrixMarket (.mtx, also .gz) and sparse npz.
            Text, ID and constant columns of files are dropped. Rows that are read block by block
            become sparse rows, in memory or, where they are many, in a temporary file.
        y : ignored
            For scikit-learn's pipelines.
        exposure : array (n,) or None
            s_i, such as the size of a plot or the length of a text; None is 1 for all rows.
        missing : array or sparse matrix (n, p) of bool, or None
            True where a cell is missing: that is how sparse data say so.

        Returns
        -------
        self
        """
        check_parameters(self)
        return self._fit(load_counts(X, exposure, missing, fractions=self.fractions), exposure)

    def _fit(
        self,
        given_counts: CountInput,
        exposure: Any = None,
        *,
        column: str = "",
    ) -> Self:
        """Fit to counts that are loaded; `column` has their exposures."""
        issue_warnings(self._infer(given_counts, exposure, column=column))
        warn_if_not_built()
        return self

    def _infer(
        self,
        given_counts: CountInput,
        exposure: Any,
        *,
        column: str,
        command: str = "",
        callback: Callable[[int, int, float], None] | None = None,
    ) -> tuple[FitWarning, ...]:
        """Fit, and store the posterior. `callback` receives K, the iteration and the bound."""
        data, names = given_counts.counts, given_counts.names
        n, p = data.n, data.p
        given = given_number(self.n_factors)
        if given is not None and given > min(n, p):
            raise must_be("n_factors", f"at most {min(n, p)}, the rows or columns", given)
        if given == 0 and data.x.nnz:
            raise DataError("n_factors=0 cannot explain counts above zero. Use 1 or more.")
        prior = (self.prior or PoissonFactorizationPrior()).for_data(data.mean_rate)
        if prior.spike is not None:
            raise must_be(
                "spike of the prior", "None: the estimator counts factors exactly", prior.spike
            )
        rng = generator(self.random_state)
        settings = CountSearchSettings(tol=float(self.tol), max_iter=int(self.max_iter))
        if self.fractions:
            settings = settings._replace(exact_work=0.0, given_work=0.0)  # no sweeps
        if given is None:
            most = min(int(self.max_factors), n, p)
            found = search_over_k(
                data, prior, rng, max_factors=most, settings=settings, callback=callback
            )
        else:
            found = fit_given_k(data, prior, rng, given, settings=settings, callback=callback)
        settled = self._settings(exposure is not None, column)
        provenance = CountProvenance(settled, given_counts.provenance, command, versions())
        self._store(_posterior(found, data, prior, names, provenance))
        if found.run.status is Status.CONVERGED:
            return given_counts.warnings
        return (*given_counts.warnings, CountsNotConverged(settings.max_iter, settings.tol))

    def _store(self, posterior: FactorizationPosterior) -> Self:
        """Keep a posterior, and take the attributes of the fit from it."""
        set_at_once(self, posterior, type(self)._set_attributes)
        return self

    def _set_attributes(self, posterior: FactorizationPosterior) -> None:
        info = posterior.fit_info
        assert info is not None
        self.posterior_ = posterior
        self.components_ = posterior.components
        self.n_factors_ = posterior.n_active
        self._n_features_out = self.n_factors_
        store_course(self, info, posterior.n_columns, posterior.names)

    @classmethod
    def from_posterior(cls, posterior: FactorizationPosterior) -> Self:
        """Make a fitted model from a posterior, such as one that `cuspfa.load` has read.

        It gives the same scores and densities as the model that made the posterior.

        Parameters
        ----------
        posterior : FactorizationPosterior
            The posterior of a fit.

        Returns
        -------
        CuspPoissonFactorization
            Fitted.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import cuspfa
        >>> X = np.random.default_rng(0).poisson(2.0, (50, 8))
        >>> model = cuspfa.CuspPoissonFactorization(n_factors=1, random_state=0).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "fit.cusp")
        ...     model.posterior_.save(path)
        ...     again = cuspfa.CuspPoissonFactorization.from_posterior(cuspfa.load(path))
        >>> bool((again.transform(X) == model.transform(X)).all())
        True
        """
        check_factorization(posterior)
        given: dict[str, Any] = {"prior": posterior.prior}
        if posterior.provenance is not None:
            settings = posterior.provenance.settings
            given |= {
                name: getattr(settings, name)
                for name in ("n_factors", "max_factors", "tol", "max_iter", "fractions")
            }
            seed = settings.random_state
            given["random_state"] = None if isinstance(seed, str) else seed
        return cls(**given)._store(posterior)

    def transform(self, X: Any, *, exposure: Any = None, missing: Any = None) -> Array:
        """Scores E[θ | x] of each row, given the distribution of the loadings.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
        exposure, missing : as in `fit`

        Returns
        -------
        ndarray (n, n_factors_)
        """
        return self._scores(self._check(X, exposure, missing)).mean

    def inverse_transform(self, X: Any) -> Array:
        """Rates Σ_h θ_ih β_jh of scores, for an exposure of 1.

        Parameters
        ----------
        X : array (n, n_factors_)
            Scores, as `transform` returns them.

        Returns
        -------
        ndarray (n, p)
        """
        check_is_fitted(self)
        scores = np.asarray(check_rows(X).rows, dtype=float)
        if scores.shape[1] != self.n_factors_:
            raise must_be("X", f"scores with {self.n_factors_} columns", scores.shape)
        return np.asarray(scores @ self.components_)

    def score_samples(self, X: Any, *, exposure: Any = None, missing: Any = None) -> Array:
        """Log density of each row, scores integrated out and loadings at their mean.

        By importance sampling from q(θ_i), with the same 64 random numbers in each call.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
        exposure, missing : as in `fit`

        Returns
        -------
        ndarray (n,)
        """
        data, posterior = self._check(X, exposure, missing), self.posterior_
        q = self._scores(data)
        a = posterior.hyperparameters.score_shape
        return row_log_densities(data, q, self.components_.T, a)

    def score(self, X: Any, y: Any = None, *, exposure: Any = None, missing: Any = None) -> float:
        """Mean log density of a row; see `score_samples`."""
        return float(np.mean(self.score_samples(X, exposure=exposure, missing=missing)))

    # --- inside ---

    def _settings(self, exposure: bool, column: str) -> CountSettings:
        return CountSettings(
            n_factors="auto" if isinstance(self.n_factors, str) else int(self.n_factors),
            max_factors=int(self.max_factors),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            fractions=bool(self.fractions),
            random_state=kept_seed(self.random_state),
            exposure=exposure,
            exposure_column=column,
        )

    def _check(self, X: Any, exposure: Any, missing: Any) -> Counts:
        check_is_fitted(self)
        own = type(self).__name__
        names = getattr(self, "feature_names_in_", None)
        check_same_names(own, None if names is None else list(names), column_names(X))
        found = load_counts(X, exposure, missing, fractions=self.fractions)
        if found.provenance is not None:  # of a file
            check_same_names(own, None if names is None else list(names), found.names)
        check_same_width(own, self.n_features_in_, found.counts.p)
        return found.counts

    def _scores(self, data: Counts) -> Gammas:
        """q(θ) of these rows."""
        posterior = self.posterior_
        loadings = gammas(posterior.loading_shape, posterior.loading_rate)
        return new_scores(data, loadings, posterior.hyperparameters.score_shape)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.positive_only = True
        return tags


def _posterior(
    found: CountSearchResult,
    data: Counts,
    prior: PoissonFactorizationPrior,
    names: list[str] | None,
    provenance: CountProvenance,
) -> FactorizationPosterior:
    """The posterior of a search, its largest factor first."""
    run, state = found.run, found.run.state
    order = np.argsort(-state.sizes, kind="stable")
    shapes, rates = [], []
    for one in (state.scores, state.loadings):
        shapes.append(one.shape[:, order])
        rates.append(np.broadcast_to(one.rate, one.shape.shape)[:, order])
    draws = ExactDraws(state, data, prior)
    return FactorizationPosterior(
        n_rows=data.n,
        loading_shape=shapes[1],
        loading_rate=np.ascontiguousarray(rates[1]),
        score_totals=np.asarray(data.exposure @ (shapes[0] / rates[0])),
        hyperparameters=state.hyper,
        prior=prior,
        totals=count_totals(data, state.scores, state.loadings),
        names=None if names is None else tuple(names),
        rows=FittedRows(shapes[0], rates[0], data.exposure),
        sampler=None
        if provenance.settings.fractions
        else Sampler(draws, float(data.x.nnz * state.n_factors)),
        fit_info=CountFitInfo(
            lower_bound=run.total,
            status=run.status.value,
            converged=run.status is Status.CONVERGED,
            n_iter=len(run.trace),
            trace=run.trace,
            search=CountSearchPath(_entries(found)),
        ),
        provenance=provenance,
    )


def _entries(found: CountSearchResult) -> list[CountSearchEntry]:
    entries = []
    for k in sorted(found.runs.keys() | found.scores.keys()):
        run: CountRun | None = found.runs.get(k)
        score = found.scores.get(k)
        entries.append(
            CountSearchEntry(
                n_factors=k,
                lower_bound=float("nan") if run is None else run.total,
                evidence_gain=float("nan") if score is None else score.evidence,
                evidence_error=float("nan") if score is None else score.error,
                held_out_gain=float("nan") if score is None else score.held_out,
                n_iter=0 if run is None else len(run.trace),
                status="" if run is None else run.status.value,
            )
        )
    return entries
