"""The estimator: check parameters → prepare data → infer → posterior → attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, estimator_html_repr

from cuspfa._typing import Array, EngineName, RandomState
from cuspfa._utils.arguments import generator, must_be, one_of, true_or_false
from cuspfa._utils.sklearn_compat import Interval, StrOptions, check_parameters
from cuspfa._utils.spelling import EngineSettings
from cuspfa.data.cells import PreparedCells, prepare_cells
from cuspfa.data.complete import Prepared, Scaling
from cuspfa.data.moments import Moments
from cuspfa.data.offsets import check_offset, library_sizes, without_offset
from cuspfa.data.prepare import prepare
from cuspfa.data.screening.likelihood_choice import choose_likelihoods
from cuspfa.errors import DataError
from cuspfa.estimator.fitted import (
    given_number,
    issue_warnings,
    kept_seed,
    set_at_once,
    store_course,
    warn_if_not_built,
)
from cuspfa.estimator.prediction import PredictionMixin
from cuspfa.inference.engine import (
    ENGINES,
    Engine,
    FitTask,
    LatentTask,
    Outcome,
    engine_of,
    engine_settings,
    infer,
    infer_latent,
)
from cuspfa.inference.gibbs.settings import Gibbs
from cuspfa.inference.variational.error_grid import ErrorPath
from cuspfa.inference.variational.settings import Variational
from cuspfa.model.likelihoods.kinds import (
    COUNT_KINDS,
    GIVEN_OFFSET,
    LIBRARY_SIZE,
    KindName,
    LikelihoodTable,
    Ordinal,
    as_setting,
    check_likelihood,
    from_setting,
)
from cuspfa.model.model_error import LARGEST_MODEL_ERROR, SMALLEST_MODEL_ERROR
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.base import Posterior, check_posterior
from cuspfa.posterior.files import AnyPosterior
from cuspfa.posterior.provenance import (
    FitSettings,
    Origin,
    Provenance,
    versions,
)
from cuspfa.reporting.repr_html import with_result
from cuspfa.rotation.gpa import ROTATION_METHODS, Rotation, RotationMethod, as_rotation

LARGEST_COLUMN_SD = 1e30
"""Standard deviations, on the scale of the prior, beyond which its numbers would mean nothing."""
UNKNOWN_ORIGIN = Origin()
LikelihoodName = KindName | Literal["auto"]
SETTINGS_OF_CELLS = ("criterion", "max_factors", "max_time")
"""Settings of `Variational` with an effect for columns that are not Gaussian."""


class CuspFactorAnalysis(PredictionMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian factor analysis under the cumulative shrinkage process.

    y = center + Λη + ε with η ~ N(0, I) and ε ~ N(0, diag σ²); the number of factors is estimated.

    Parameters
    ----------
    n_factors : "auto" or int, default="auto"
        The number of factors; "auto" finds it.
    method : "variational", "gibbs", Variational or Gibbs, default="variational"
        The engine, a word or an object with its settings. To set these by `set_params` or search
        over them (`method__tol`), pass `method=Variational()`: a word has no settings.
    prior : CuspPrior or None, default=None
        None means `CuspPrior()`: a slab with a scale for each factor, a spike at zero and a
        weak noise prior, all on the scale of the data. For `Gibbs` it means the same with
        `InverseGammaSlab(2, 0.4)` and a spike so narrow that it makes no factors. Priors cannot
        be changed: a search goes over whole ones, as in
        `{"prior": [CuspPrior(alpha=1), CuspPrior(alpha=5)]}`.
    standardize : bool, default=True
        Scale each column to unit sample variance before fitting. Results are in the user's units
        all the same. If False, a prior that is given is taken as it is, on the data's own scale;
        with `prior=None` all columns are divided by one common number, the root of their median
        variance, and columns of very different size are better standardised.
    model_error : float or "auto", default=0.0
        How far the population may be from a factor model, as a population RMSEA. 0, or less than
        0.0001, takes the model to be exact. With 0.05, factors that an error of that size could
        produce are not counted, however many rows there are. "auto" learns the error with the
        number of factors, which takes many times as long; with fewer rows than columns, or missing
        values, it means 0.
        Covariances, intervals of correlations, densities and imputed values are those of the
        population. `Gibbs` needs a number, complete data and no fewer rows than columns.
    likelihood : str, Ordinal or mapping from columns to these, default="gaussian"
        What kind of numbers the columns hold. "ordinal": whole numbers as ordered categories,
        which divide a normal latent response; "binary": the same with two categories;
        "gaussian": measurements; "normal_scores": measurements in any unit, of which only the
        order counts; "poisson" and "negative_binomial": counts, whose log rates the factors change
        (see docs/log_rates.md). "auto" decides by a rule (see docs/ordinal.md) and says in
        `likelihoods_` what it decided. In a mapping, columns that are not named are decided as by
        "auto".
    offset : None or str, default=None
        Offsets of the log rates of counts, on the log scale: "library_size" is the logarithm of the
        sum of the counts of a row, another word the name of a column that has the offsets and is
        not analysed. Numbers are passed to `fit` and to the methods for new rows as `offset=`.
    robust : bool, default=False
        Take the rows as t distributed instead of normal: rows that are far from the others count
        less, by weights in `row_weights_`, and the number of degrees of freedom is estimated. For
        complete dense rows, more of them than columns; with fewer than two rows for each column
        outlying rows may not be recognised. The fit then is that of the weighted moments, counted
        as n (ν + p)/(ν + p + 2) rows.
    rotation : None, str or Rotation, default=None
        Axes of the factors. None leaves them on principal axes. "varimax", "quartimax" and
        "equamax" keep them uncorrelated; "promax", "oblimin", "quartimin" and "geomin" do not. A
        `Rotation` has settings, and a target. Done on the correlation scale, whatever the units.
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState
        Seed of random starts and of a sampler. A search from the spectrum does not depend on it.
    n_jobs : int or None, default=None
        Processes for random starts, and threads or processes for chains of large data, as in
        joblib. The result does not depend on it.

    Attributes
    ----------
    n_factors_ : int
        Number of active factors; of a sampler the most probable one.
    expected_active_factors_ : float
        E[H*], under q or over draws.
    lower_bound_ : float
        The evidence lower bound of the chosen run, for the centred and scaled data. Comparable
        between fits of the same data with the same `standardize` and the same `mean` setting; NaN
        of a sampler, and with model error, which have none.
    search_ : SearchPath, a list of SearchEntry
        By number of factors: n_factors, lower_bound, evidence with its Monte Carlo
        evidence_error, tied (might another set of draws have chosen this number?), weight,
        n_iter, status. The weights of a sampler are probabilities.
    model_error_ : float
        ε, the model error of the fit: that of `model_error`, or the one that was learned.
    trace_ : ndarray (n_iter_,)
        The bound after each of the last run's iterations; of a sampler the log-likelihood of each
        draw, chain after chain.
    components_ : ndarray (n_factors_, p)
        Posterior mean loadings in the user's units; `components_.T @ factor_correlations_ @
        components_ + diag(noise_variance_)` is `get_covariance()`. Signs are those of
        `loadings_`, where a factor's largest entry is positive; here another may be larger.
    loadings_ : ndarray (p, n_factors_)
        The loadings on the correlation scale, `components_.T` divided by each variable's standard
        deviation. Without a rotation the factors are rotated to the principal axes of
        this matrix (its columns are orthogonal), so that they do not depend on the units of the
        data; with one, this is the pattern matrix. Strongest first, the largest loading of each
        positive (the first of them, where several are largest). `components_`, scores and names
        have the same factors in the same order.
    factor_correlations_ : ndarray (n_factors_, n_factors_)
        Φ, the correlations of the factors: the identity unless a rotation is oblique.
    structure_ : ndarray (p, n_factors_)
        Correlations of variables with factors, `loadings_ @ factor_correlations_`.
    rotation_matrix_ : ndarray (n_factors_, n_factors_)
        T, from principal axes to these: `loadings_` is principal loadings @ inv(T).T, scores are
        principal scores @ T, and Φ = TᵀT.
    noise_variance_ : ndarray (p,)
        The part of each variable's expected variance that mean loadings do not explain, in the
        user's units.
    mean_ : ndarray (p,)
        Sample means; with missing values, the posterior means of the columns' means; of a robust
        fit weighted means.
    row_weights_ : ndarray (n,) or None
        Weights of the rows of a robust fit, in their order and with mean 1; NaN for rows without
        any value. None of a fit that is not robust, or was saved without statistics.
    degrees_of_freedom_ : float
        ν of a robust fit; infinite for normal rows, and of a fit that is not robust.
    likelihoods_ : LikelihoodTable
        The likelihood of each column, and why it has it.
    thresholds_ : tuple of ndarray
        Of ordinal columns: thresholds of latent responses of variance one, one fewer than the
        categories of the column. Empty for other columns.
    posterior_ : Posterior
        The fitted distribution, for draws.
    status_, converged_, n_iter_
        How the best run ended, or whether chains have converged, and the sweeps of each.
    n_features_in_, feature_names_in_
        As in scikit-learn: names are kept if all of them are text.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_factors": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "method": [StrOptions(set(ENGINES)), *ENGINES.values()],
        "prior": [CuspPrior, None],
        "standardize": ["boolean"],
        "model_error": [
            StrOptions({"auto"}),
            Interval(Real, 0, LARGEST_MODEL_ERROR, closed="both"),
        ],
        "likelihood": [str, Ordinal, Mapping],
        "offset": [str, None],
        "robust": ["boolean"],
        "rotation": [StrOptions(set(ROTATION_METHODS) - {"target"}), Rotation, None],
        "random_state": [
            None,
            Interval(Integral, 0, None, closed="left"),
            np.random.Generator,
            np.random.RandomState,
        ],
        "n_jobs": [
            None,
            Interval(Integral, None, -1, closed="right"),
            Interval(Integral, 1, None, closed="left"),
        ],
    }

    def __init__(
        self,
        *,
        n_factors: int | Literal["auto"] = "auto",
        method: EngineName | Engine = "variational",
        prior: CuspPrior | None = None,
        standardize: bool = True,
        model_error: float | Literal["auto"] = 0.0,
        likelihood: LikelihoodName | Ordinal | Mapping[Any, Any] = "gaussian",
        offset: str | None = None,
        robust: bool = False,
        rotation: RotationMethod | Rotation | None = None,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_factors = n_factors
        self.method = method
        self.prior = prior
        self.standardize = standardize
        self.model_error = model_error
        self.likelihood = likelihood
        self.offset = offset
        self.robust = robust
        self.rotation = rotation
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def as_published(
        cls,
        method: EngineName = "variational",
        *,
        search: bool = False,
        random_state: RandomState = None,
        n_jobs: int | None = None,
        callback: Callable[[Any], None] | None = None,
    ) -> Self:
        """The application of the paper: prior, treatment of the data, starts and tolerance.

        Parameters
        ----------
        method : {"variational", "gibbs"}
            "variational" is §4 of Legramanti (2020): columns centred and not scaled, sample means
            taken as known, H = p + 1, 20 random starts, each stopped when its bound grows by less
            than 0.05. "gibbs" is the adaptive sampler it is compared with: 15 000 sweeps, of which
            every fifth is kept after the first 5000.
        search : bool, default=False
            Find the number of factors by search instead of random starts, with the paper's bound
            as score and everything else as above; of "variational" only.
        random_state : None, int, numpy.random.Generator or numpy.random.RandomState
            Seed of the random starts.
        n_jobs : int or None
            Processes for the random starts.
        callback : callable or None
            Told of progress after each iteration or sweep.

        Returns
        -------
        CuspFactorAnalysis
            Not fitted yet.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.load_bfi(subset="paper").data
        >>> model = CuspFactorAnalysis.as_published("variational", search=True).fit(X)
        >>> model.n_factors_, round(model.lower_bound_, 2)
        (3, -5310.92)
        """
        one_of("method", method, tuple(ENGINES))
        true_or_false("search", search)
        engine: Engine
        if method == "gibbs":
            if search:
                raise must_be("search", "False with method='gibbs', which has none", search)
            prior = CuspPrior.gibbs_paper()
            engine = Gibbs(
                n_draws=2000,
                n_chains=1,
                burn_in=5000,
                thin=5,
                scale_rotation_every=0,
                init="random",
                mean="plug-in",
                callback=callback,
            )
        else:
            prior = CuspPrior.variational_paper()
            engine = Variational(
                tol=0.05,
                init="spectral" if search else "random",
                criterion="bound",
                n_init=20,
                mean="plug-in",
                callback=callback,
            )
        return cls(
            method=engine,
            prior=prior,
            standardize=False,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    @classmethod
    def from_posterior(cls, posterior: Posterior) -> Self:
        """Make a fitted model from a posterior, such as one that `cuspfa.load` has read.

        It gives the same scores, densities and imputed rows as the model that made the posterior.
        Its parameters are those of that fit, the settings of the engine among them. Not kept are
        `n_jobs`, callbacks, the folder of checkpoints, and the state of a generator that was given
        as `random_state`.

        Parameters
        ----------
        posterior : Posterior
            The posterior of a fit.

        Returns
        -------
        CuspFactorAnalysis
            Fitted.

        Examples
        --------
        >>> import os, tempfile
        >>> import cuspfa
        >>> X = cuspfa.datasets.simulate(200, 10, 2, random_state=1).X
        >>> model = cuspfa.CuspFactorAnalysis(rotation="varimax").fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "fit.cusp")
        ...     model.posterior_.save(path)
        ...     again = cuspfa.CuspFactorAnalysis.from_posterior(cuspfa.load(path))
        >>> bool((again.transform(X) == model.transform(X)).all())
        True
        """
        check_posterior(posterior)
        if posterior.fit_info is None:
            raise must_be("posterior", "of a fit, with its fit_info", "one without")
        model = cls(**_parameters(posterior))
        model._store(cast(AnyPosterior, posterior))
        return model

    # --- fitting ---

    def fit(self, X: Any, y: Any = None, *, offset: Any = None) -> Self:
        """Fit to rows of data.

        Parameters
        ----------
        X : array, sparse matrix, data frame (n, p), path, Table, iterator, RowStream or Dask
            Numeric data, rows are observations. NaN, null or masked values of dense data are
            missing: they are neither filled nor dropped, and taken as missing at random; a row
            without any value is left out, with a warning. Infinity is an error. Files and
            folders (Parquet, Feather, CSV, TSV, npy, Zarr, h5ad) and iterators are read block by
            block, with memory for a block and p×p numbers; `RowStream` has the settings. Text, ID
            and constant columns of files are dropped, with a warning; `read_table` shows them.
            `dask.array` and `dask.dataframe` are summed up, or held, where they are.
        y : ignored
            For scikit-learn's pipelines.
        offset : array (n,) or None, default=None
            Offsets of the log rates of counts, such as the logarithms of areas; in place of the
            parameter `offset`.

        Returns
        -------
        self

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> CuspFactorAnalysis(rotation="oblimin").fit(X).loadings_.shape
        (10, 2)
        """
        return self._fit(X, offset=offset)

    def fit_moments(self, moments: Moments) -> Self:
        """Fit to sufficient statistics: count, means and cross-products.

        Parameters
        ----------
        moments : Moments
            Of at least two rows, from `Moments.from_rows`, `from_covariance` or
            `from_correlation`.

        Returns
        -------
        self
            As if fitted to the rows themselves.

        Examples
        --------
        >>> import numpy as np
        >>> from cuspfa import CuspFactorAnalysis, Moments
        >>> R = 0.7 * np.ones((6, 6)) + 0.3 * np.eye(6)
        >>> CuspFactorAnalysis().fit_moments(Moments.from_correlation(R, n=200)).n_factors_
        1
        """
        if not isinstance(moments, Moments):
            raise must_be("moments", "a Moments object", moments)
        return self._fit(moments)

    def _fit(
        self,
        X: Any,
        names: list[str] | None = None,
        origin: Origin = UNKNOWN_ORIGIN,
        offset: Any = None,
        path: ErrorPath | None = None,
    ) -> Self:
        """Check, prepare, infer, store, warn.

        `names` are for data that have none of their own, and `origin` is what is known of them.
        `path` is of fits to these data that differ in `model_error` alone.
        """
        method = self._check_parameters()

        def check_width(p: int) -> None:
            self._check_n_factors(p, method)

        cells = None
        if self.likelihood != "gaussian":
            cells = self._prepare_cells(X, names, check_width, offset)
        elif offset is not None or self.offset is not None:
            raise must_be("offset", "None with likelihood='gaussian': it is for counts", "one")
        if cells is not None and cells.columns is not None:
            outcome = self._infer_cells(cells, cells.columns, method, origin)
        else:
            prepared = prepare(
                X if cells is None else cells.prepared.rows,
                names if cells is None else cells.prepared.names,
                scaling=self._scaling,
                flat_mean=method.mean == "flat",
                check_width=check_width,
                robust=bool(self.robust),
            )
            if cells is not None:
                told = tuple(dict.fromkeys(cells.prepared.warnings + prepared.warnings))
                known = cells.prepared.provenance
                prepared = prepared._replace(warnings=told, provenance=known)
            outcome = self._infer(prepared, method, origin, path)
        self._store(outcome.posterior)
        if outcome.interrupted:
            raise KeyboardInterrupt
        provenance = outcome.posterior.provenance
        assert provenance is not None
        issue_warnings(provenance.warnings, provenance.settings.engine)
        warn_if_not_built()
        return self

    # --- scikit-learn's own ---

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def _html_repr(self) -> str:
        """scikit-learn's diagram, and the answer below it once there is one."""
        page: str = estimator_html_repr(self)
        return with_result(page, self) if hasattr(self, "components_") else page

    # scikit-learn 1.6 does not ask `_html_repr` for either of these.
    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._html_repr()
        return bundle

    # --- inside ---

    def _check_n_factors(self, p: int, method: Engine) -> None:
        target = getattr(self.rotation, "target", None)
        if target is not None and (len(target), len(target[0])) != (p, self.n_factors):
            raise must_be(
                "the target of rotation",
                f"of {p} rows, one a column of the data, and n_factors columns",
                f"{len(target)} × {len(target[0])} with n_factors={self.n_factors!r}",
            )
        if isinstance(self.n_factors, str):
            return
        if self.n_factors > p:
            raise must_be("n_factors", f"at most the {p} columns", self.n_factors)
        method.check_n_factors(self.n_factors)

    def _check_parameters(self) -> Engine:
        """The engine, checked like all parameters."""
        check_parameters(self)
        method = engine_of(self.method)
        method.check()
        check_likelihood(self.likelihood)
        return method

    @property
    def _scaling(self) -> Scaling:
        """What columns are divided by, as `data.prepare` takes it."""
        if self.standardize:
            return "columns"
        return "common" if self.prior is None else "none"

    def _prepare_cells(
        self,
        X: Any,
        names: list[str] | None,
        check_width: Callable[[int], None],
        offset: Any = None,
    ) -> _Cells:
        """Rows in memory and the likelihood of each column; None for these if all are Gaussian."""
        if self.likelihood not in ("auto",) and not isinstance(self.likelihood, Mapping):
            self._check_for_cells(engine_of(self.method))
        if offset is not None and self.offset is not None:
            raise must_be("offset of fit", f"None with offset={self.offset!r}", "numbers")
        prepared = prepare_cells(X, names, check_width=check_width)
        offsets = None
        if offset is not None:
            n = len(prepared.rows) + len(prepared.empty)
            offsets = np.delete(check_offset(offset, n), prepared.empty)
        elif self.offset not in (None, LIBRARY_SIZE):
            prepared, offsets = without_offset(prepared, self.offset)
            check_width(prepared.rows.shape[1])
        columns = choose_likelihoods(
            as_setting(self.likelihood, prepared.column_names),
            prepared.rows,
            prepared.column_names,
            prepared.kinds,
            prepared.labelled,
        )
        counts = np.array([one.kind in COUNT_KINDS for one in columns])
        if self.offset == LIBRARY_SIZE and counts.any():
            offsets = library_sizes(prepared.rows, counts)
        if (offset is not None or self.offset is not None) and not counts.any():
            raise must_be("offset", "None without columns of counts", self.offset or "numbers")
        if all(one.kind == "gaussian" for one in columns):
            return _Cells(prepared, None)
        method = engine_of(self.method)
        self._check_for_cells(method)
        if method.name == "gibbs" and counts.any():
            named = next(one for one in columns if one.kind in COUNT_KINDS)
            raise must_be(
                "method", f"'variational' for counts ({named.column} is {named.kind})", "gibbs"
            )
        return _Cells(prepared, columns, offsets)

    def _check_for_cells(self, method: Engine) -> None:
        """Raise an InputError for settings that are those of Gaussian columns."""
        columns = "for columns that are not Gaussian"
        if self.robust:
            raise must_be("robust", f"False {columns}", self.robust)
        if self._model_error == "auto":
            raise must_be("model_error", f"a number {columns}, such as 0.05", self.model_error)
        changed, sampled = engine_settings(method).values, method.name == "gibbs"
        if sampled and self._model_error:
            raise must_be("model_error", f"0 with method='gibbs' {columns}", self.model_error)
        if not sampled and self.prior is not None and self.prior.spike is not None:
            raise must_be("the spike of prior", f"None {columns}", self.prior.spike)
        for name, value in changed.items():
            if name == "mean" or not (sampled or name in SETTINGS_OF_CELLS):
                raise must_be(name, f"left at its default {columns}", value)
        if changed.get("criterion") == "bound":
            raise must_be("criterion", f"'evidence' or 'collapsed' {columns}", "bound")

    def _infer_cells(
        self, cells: _Cells, columns: LikelihoodTable, method: Engine, origin: Origin
    ) -> Outcome:
        prepared = cells.prepared
        prior = method.default_prior() if self.prior is None else self.prior
        settings = self._settings(method, prepared.column_names)
        if self.offset is None and cells.offset is not None:
            settings = replace(settings, offset=GIVEN_OFFSET)
        return infer_latent(
            method,
            LatentTask(
                prepared,
                columns,
                prior,
                given_number(self.n_factors),
                settings.rotation,
                _provenance(settings, prepared, origin),
                rng=generator(self.random_state),
                n_jobs=None if self.n_jobs is None else int(self.n_jobs),
                model_error=cast(float, settings.model_error),
                offset=cells.offset,
            ),
        )

    def _infer(
        self, prepared: Prepared, method: Engine, origin: Origin, path: ErrorPath | None = None
    ) -> Outcome:
        prior = method.default_prior() if self.prior is None else self.prior
        n_factors = given_number(self.n_factors)
        expected = method.long_fit(prepared.source, n_factors)
        if expected is not None:
            issue_warnings([expected], EngineSettings(method.name))
        sizes = np.sqrt(prepared.source.squares / prepared.source.counts)
        if sizes.max() > LARGEST_COLUMN_SD:
            raise self._out_of_digits(prepared, "columns are too large for the prior's scale")
        names = prepared.names or [f"x{j}" for j in range(prepared.source.p)]
        settings = self._settings(method, names)
        try:
            return infer(
                method,
                FitTask(
                    prepared,
                    prior.for_counts(float(prepared.source.counts.min())),
                    n_factors,
                    rng=generator(self.random_state),
                    n_jobs=None if self.n_jobs is None else int(self.n_jobs),
                    rotation=settings.rotation,
                    provenance=_provenance(settings, prepared, origin),
                    model_error=settings.model_error,
                    path=path,
                ),
            )
        except np.linalg.LinAlgError as error:
            raise self._out_of_digits(prepared, str(error)) from error

    @property
    def _model_error(self) -> float | Literal["auto"]:
        """`model_error`, with 0 for an error that is too small to have an effect."""
        if isinstance(self.model_error, str):
            return "auto"
        size = float(self.model_error)
        return size if size >= SMALLEST_MODEL_ERROR else 0.0

    def _settings(self, method: Engine, names: Sequence[str]) -> FitSettings:
        """The parameters, as a posterior keeps them."""
        return FitSettings(
            engine=engine_settings(method),
            n_factors="auto" if isinstance(self.n_factors, str) else int(self.n_factors),
            prior=self.prior,
            standardize=bool(self.standardize),
            model_error=self._model_error,
            likelihood=as_setting(self.likelihood, names),
            offset=self.offset,
            robust=bool(self.robust),
            rotation=as_rotation(self.rotation),
            random_state=kept_seed(self.random_state),
        )

    def _out_of_digits(self, prepared: Prepared, reason: str) -> DataError:
        advice = "Drop columns that are copies or sums of others."
        if not self.standardize:
            sizes = np.sqrt(prepared.source.squares / prepared.source.counts) * prepared.scale
            advice = (
                f"The columns' sizes reach from {sizes.min():.3g} to {sizes.max():.3g}: use "
                "standardize=True, or columns of like size."
            )
        return DataError(f"The numbers do not have the digits for this fit ({reason}). {advice}")

    def _store(self, posterior: AnyPosterior) -> None:
        """All attributes together, and last, so that a fit that fails leaves the old ones."""
        set_at_once(self, posterior, type(self)._set_attributes)

    def _set_attributes(self, posterior: AnyPosterior) -> None:
        fit_info = posterior.fit_info
        assert fit_info is not None
        rotated_solution = posterior.rotated_solution

        self.posterior_ = posterior
        self.likelihoods_ = posterior.likelihoods
        self.thresholds_ = posterior.thresholds
        self.expected_active_factors_ = posterior.expected_active_factors
        self.n_factors_ = posterior.n_active
        self.model_error_ = posterior.model_error
        self.mean_ = posterior.mean
        self.row_weights_ = posterior.row_weights
        self.degrees_of_freedom_ = posterior.tails.degrees_of_freedom
        self.noise_variance_ = posterior.noise_variance
        self.loadings_ = rotated_solution.loadings
        self.factor_correlations_ = rotated_solution.correlations
        self.structure_ = rotated_solution.structure
        self.rotation_matrix_ = rotated_solution.matrix
        self.components_ = posterior.components
        store_course(self, fit_info, len(posterior.center), posterior.names)


class _Cells(NamedTuple):
    """Rows, and the likelihoods of their columns; None if all are Gaussian."""

    prepared: PreparedCells
    columns: LikelihoodTable | None
    offset: Array | None = None
    """(n,) of the log rates of counts."""


def _provenance(
    settings: FitSettings, prepared: Prepared | PreparedCells, origin: Origin
) -> Provenance:
    """What a posterior keeps of the settings, and of data that are prepared for a fit."""
    return Provenance(
        settings,
        origin.data or prepared.provenance,
        origin.command,
        origin.warnings + prepared.warnings,
        versions(),
        prepared.kinds,
    )


def _parameters(posterior: Posterior) -> dict[str, Any]:
    """Parameters of the model that made a posterior, as far as they are known."""
    assert posterior.fit_info is not None
    if posterior.provenance is None:
        return {
            "method": posterior.fit_info.method,
            "prior": posterior.prior,
            "rotation": posterior.rotation,
        }
    settings = posterior.provenance.settings
    engine, seed = settings.engine, settings.random_state
    return {
        "n_factors": settings.n_factors,
        "method": ENGINES[engine.name](**engine.values) if engine.values else engine.name,
        "prior": settings.prior,
        "standardize": settings.standardize,
        "model_error": settings.model_error,
        "likelihood": from_setting(settings.likelihood),
        "offset": None if settings.offset == GIVEN_OFFSET else settings.offset,
        "robust": settings.robust,
        "rotation": posterior.rotation,
        "random_state": None if seed == "generator" else seed,
    }
