"""The estimator of counts: check parameters → check counts → search → posterior → attributes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from cuspfa._typing import Array, EngineName, RandomState
from cuspfa._utils.arguments import generator, must_be
from cuspfa._utils.fit_warning import CountsNotConverged, FitWarning
from cuspfa._utils.fit_warning_text import DEFAULT
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
from cuspfa.inference.engine import engine_settings
from cuspfa.inference.factorization.prediction import new_scores, row_log_densities
from cuspfa.inference.factorization.result import sampled_posterior, search_posterior
from cuspfa.inference.factorization.sampler import count_model, sample_counts
from cuspfa.inference.factorization.search import (
    CountSearchResult,
    CountSearchSettings,
    fit_given_k,
    search_over_k,
)
from cuspfa.inference.factorization.state import Gammas, gammas
from cuspfa.inference.gibbs.settings import START_TIME_SHARE, Gibbs
from cuspfa.inference.variational.run import Status
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior
from cuspfa.posterior.factorization import FactorizationPosterior, check_factorization
from cuspfa.posterior.factorization_results import CountProvenance, CountSettings
from cuspfa.posterior.provenance import versions

COUNT_ENGINES: tuple[EngineName, ...] = get_args(EngineName)
"""Words that `method` may be."""


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
        None means `PoissonFactorizationPrior()`. A spike above zero needs `method="gibbs"`.
    method : "variational", "gibbs" or Gibbs, default="variational"
        A search with a variational fit; or chains of exact sweeps that also draw the number of
        factors, with the settings of `Gibbs`. Of these `scale_rotation_every` and `mean` have no
        effect, and `checkpoint_dir` must be None.
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
        Seed of the exact sweeps, by which "auto" decides, and of the chains.

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
        number is chosen by the evidence. With `method="gibbs"` the numbers that were drawn, whose
        probabilities are `posterior_.count_probabilities`; the most probable is chosen.
    posterior_ : FactorizationPosterior or SampledFactorizationPosterior
        Means, and exact draws with intervals of rates, loadings and shares.
    trace_, n_iter_, status_, converged_
        The course of the chosen run, and how it ended; the log-likelihood of the draws, and
        whether the chains have converged.
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
        "method": [StrOptions(set(COUNT_ENGINES)), Gibbs],
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
        method: EngineName | Gibbs = "variational",
        max_factors: int = 50,
        tol: float = 0.1,
        max_iter: int = 2000,
        fractions: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.n_factors = n_factors
        self.prior = prior
        self.method = method
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
        self._check_parameters()
        return self._fit(load_counts(X, exposure, missing, fractions=self.fractions), exposure)

    def _fit(
        self,
        given_counts: CountInput,
        exposure: Any = None,
        *,
        column: str = "",
    ) -> Self:
        """Fit to counts that are loaded; `column` has their exposures."""
        warned = self._infer(given_counts, exposure, column=column)
        sampler = self._sampler
        issue_warnings(warned, DEFAULT if sampler is None else engine_settings(sampler))
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
            what = f"at most {min(n, p)}, the smaller number of the {n} rows and {p} columns"
            raise must_be("n_factors", what, given)
        if n < 2:
            raise DataError(f"A fit needs two rows or more. Got {n} row: n_samples={n}.")
        if given == 0 and data.x.nnz:
            raise DataError("n_factors=0 cannot explain counts above zero. Use 1 or more.")
        prior = (self.prior or PoissonFactorizationPrior()).for_data(data.mean_rate)
        settled = self._settings(exposure is not None, column)
        provenance = CountProvenance(settled, given_counts.provenance, command, versions())
        rng, sampler = generator(self.random_state), self._sampler
        if sampler is not None:
            task = _ChainsTask(data, prior, given, names, provenance)
            return given_counts.warnings + self._sample(sampler, task, rng, callback)
        if prior.spike is not None:
            what = "None with method='variational', which counts factors exactly"
            raise must_be("spike of the prior", what, prior.spike)
        settings = self._search_settings()
        if self.fractions:
            settings = settings._replace(exact_work=0.0, given_work=0.0)  # no sweeps
        found = self._search(data, prior, given, settings, rng, callback)
        self._store(search_posterior(found, data, prior, names, provenance))
        if found.run.status is Status.CONVERGED:
            return given_counts.warnings
        return (*given_counts.warnings, CountsNotConverged(settings.max_iter, settings.tol))

    def _search_settings(self) -> CountSearchSettings:
        return CountSearchSettings(tol=float(self.tol), max_iter=int(self.max_iter))

    def _search(
        self,
        data: Counts,
        prior: PoissonFactorizationPrior,
        given: int | None,
        settings: CountSearchSettings,
        rng: np.random.Generator,
        callback: Callable[[int, int, float], None] | None,
    ) -> CountSearchResult:
        if given is not None:
            return fit_given_k(data, prior, rng, given, settings=settings, callback=callback)
        most = min(int(self.max_factors), data.n, data.p)
        return search_over_k(
            data, prior, rng, max_factors=most, settings=settings, callback=callback
        )

    def _sample(
        self,
        method: Gibbs,
        task: _ChainsTask,
        rng: np.random.Generator,
        callback: Callable[[int, int, float], None] | None,
    ) -> tuple[FitWarning, ...]:
        """Run the chains, store their posterior, and say what they warn of."""
        began, (data, prior, given, names, provenance), state = time.monotonic(), task, None
        if method.init == "variational":
            settings = self._search_settings()
            if method.max_time is not None:
                settings = settings._replace(deadline=began + START_TIME_SHARE * method.max_time)
            plain = replace(prior, spike=None)
            state = self._search(data, plain, given, settings, rng, callback).run.state
        most = min(int(self.max_factors), data.n, data.p)
        model = count_model(data, prior, method, n_factors=given, max_factors=most)
        left = method.with_time_left(began)
        chains = sample_counts(model, left, rng, n_factors=given, state=state)
        engine = engine_settings(method)
        posterior, warned = sampled_posterior(
            chains, model, prior, method, engine, names, provenance
        )
        self._store(posterior)
        return warned

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
        if posterior.engine is not None:
            changed = posterior.engine.values
            given["method"] = Gibbs(**changed) if changed else "gibbs"
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

    @property
    def _sampler(self) -> Gibbs | None:
        """The sampler's settings; None for the variational fit."""
        if isinstance(self.method, str):
            return Gibbs() if self.method == "gibbs" else None
        return self.method

    def _check_parameters(self) -> None:
        check_parameters(self)
        sampler = self._sampler
        if sampler is None:
            return
        sampler.check()
        if self.fractions:
            raise must_be("fractions", "False with method='gibbs', which needs whole numbers", True)
        if sampler.checkpoint_dir is not None:
            raise must_be("checkpoint_dir", "None for counts", sampler.checkpoint_dir)

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


class _ChainsTask(NamedTuple):
    """What chains are run for."""

    data: Counts
    prior: PoissonFactorizationPrior
    n_factors: int | None
    names: Sequence[str] | None
    provenance: CountProvenance
