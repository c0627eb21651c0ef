"""Methods of the estimator for new rows: scores, densities, imputation, samples, covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from cuspfa._typing import Array, Indices, RandomState
from cuspfa._utils.arguments import generator, must_be, true_or_false, whole
from cuspfa._utils.tables import frame_like, square_frame
from cuspfa._utils.threads import one_blas_thread
from cuspfa._utils.warn import warn
from cuspfa.data.column_choice import check_columns
from cuspfa.data.names import check_same_names, check_same_width
from cuspfa.data.validate import CheckedRows, check_rows, column_names
from cuspfa.errors import CuspWarning, DataError
from cuspfa.missing.prediction import ObservedRows
from cuspfa.model.likelihoods.gaussian import MarginalGaussian
from cuspfa.posterior.population import PopulationGaussian
from cuspfa.posterior.predictive import FactorScores, log_densities, scores_of
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.posterior.variational import VariationalPosterior

NOT_DETERMINED = (
    "The population covariance leaves no variance to the scores of some rows. The covariances of "
    "scores are those of the factor model without error."
)


class PredictionMixin(TransformerMixin):  # type: ignore[misc]
    """Scores, densities, samples and covariance, from the attributes that a fit has set."""

    n_factors_: int
    components_: Array
    noise_variance_: Array
    rotation_matrix_: Array
    mean_: Array
    n_features_in_: int
    posterior_: VariationalPosterior | SampledPosterior

    def transform(self, X: Any) -> Array:
        """Factor scores: E[η | y] of each row, given the expected loadings and noise.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Rows with the columns of the fit. Missing values of dense rows (NaN) are left out of
            account; a row without any value has scores of zero, their prior mean.

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
        return self._scores(self._new_rows(X))

    def factor_scores(self, X: Any) -> FactorScores:
        """Mean and covariance of each row's scores.

        The uncertainty is that of the scores given expected loadings and noise.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Rows with the columns of the fit.

        Returns
        -------
        FactorScores
            `mean` (n, n_factors_), what `transform` gives, and `covariance` (n_factors_,
            n_factors_), the same for all rows; where values are missing (n, n_factors_,
            n_factors_), one for each row.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> scores = CuspFactorAnalysis().fit(X).factor_scores(X)
        >>> scores.mean.shape, scores.covariance.shape
        ((200, 2), (2, 2))
        """
        table, distribution = self._new_rows(X), self._population()
        with one_blas_thread(distribution.components.size):
            if table.has_missing:
                observed = ObservedRows(distribution, table.rows)
                mean, covariance = observed.scores(), observed.score_covariances()
            else:
                mean = scores_of(distribution, table.rows)
                covariance = distribution.score_covariance
            if np.linalg.eigvalsh(covariance).min(initial=np.inf) > 0:
                return FactorScores(mean, covariance)
            warn(NOT_DETERMINED, CuspWarning)
            own = self._marginal()
            if table.has_missing:
                return FactorScores(mean, ObservedRows(own, table.rows).score_covariances())
            return FactorScores(mean, own.score_covariance)

    def inverse_transform(self, X: Any) -> Array:
        """Rows reconstructed from factor scores: mean_ + scores @ components_.

        Parameters
        ----------
        X : array or data frame (n, n_factors_)
            Scores, one column for each factor, in their order.

        Returns
        -------
        ndarray (n, p)

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> model = CuspFactorAnalysis().fit(X)
        >>> model.inverse_transform(model.transform(X)).shape
        (200, 10)
        """
        check_is_fitted(self)
        scores, names, *_ = check_rows(X)
        if scores.shape[1] != self.n_factors_:
            raise must_be(
                "X", f"scores with {self.n_factors_} columns (one a factor)", scores.shape
            )
        own = self.get_feature_names_out().tolist()
        if names is not None and names != own and set(names) & set(own):
            raise DataError(f"X must have its columns in the order {own}. Got {names} instead.")
        return np.asarray(scores @ self.components_ + self.mean_)

    def score_samples(self, X: Any) -> Array:
        """Log density of each row under N(mean_, get_covariance()).

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Rows with the columns of the fit. Of a row with missing values it is the density of
            those it has, so that rows with different missing values are not to be compared.

        Returns
        -------
        ndarray (n,)
            −inf for a row with values too large to be squared; 0 for a row without any value.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> CuspFactorAnalysis().fit(X).score_samples(X).shape
        (200,)
        """
        return self._log_densities(self._new_rows(X))

    def impute(
        self,
        X: Any,
        *,
        return_std: bool = False,
        n_draws: int | None = None,
        random_state: RandomState = 0,
    ) -> Any:
        """Rows with their missing values filled.

        Under the model, and for values missing at random: see docs/missing_data.md.

        Parameters
        ----------
        X : array or data frame (n, p)
            Rows with the columns of the fit, NaN where values are missing.
        return_std : bool, default=False
            Also give the standard deviation of each missing value given what its row has; 0 for
            values that are there.
        n_draws : int or None, default=None
            None fills in expected values: best for prediction, but too regular to be analysed as
            if they were data. A number gives this number of tables with values drawn from their
            distribution, each with loadings, noise and means drawn from the posterior: analyse each
            and pool by Rubin's rules.
        random_state : None, int, numpy.random.Generator or RandomState, default=0
            Seed of the draws; None gives others each time.

        Returns
        -------
        ndarray (n, p), or (values, std) with `return_std`, or ndarray (n_draws, n, p)
            Of a data frame: frames of the same library, with its names and index, and a list of
            them with `n_draws`.

        Examples
        --------
        >>> import numpy as np
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
        >>> model = CuspFactorAnalysis().fit(X)
        >>> filled, std = model.impute(X, return_std=True)
        >>> bool(np.isnan(filled).any()), bool(np.all(std[~np.isnan(X)] == 0))
        (False, True)
        >>> model.impute(X, n_draws=5, random_state=0).shape
        (5, 200, 10)
        """
        true_or_false("return_std", return_std)
        table, distribution = self._new_rows(X), self._population()
        if issparse(table.rows):
            raise DataError(
                "X must be dense: in a sparse matrix what is left out is zero, not missing. Pass "
                "X.toarray(), with NaN where values are missing."
            )
        rows = np.asarray(table.rows, dtype=float)
        with one_blas_thread(distribution.components.size):
            observed = ObservedRows(distribution, rows) if len(rows) else None
            if n_draws is None:
                filled = rows.copy() if observed is None else observed.filled()
                if not return_std:
                    return frame_like(filled, X)
                std = rows.copy() if observed is None else observed.standard_deviations()
                return frame_like(filled, X), frame_like(std, X)
            if return_std:
                raise must_be(
                    "return_std", "False with n_draws, whose tables show the spread", True
                )
            size, rng = whole("n_draws", n_draws, 1), generator(random_state)
            result = np.empty((size, *rows.shape))
            if observed is not None:
                draws = self.posterior_.draw(size, random_state=rng)
                if len(draws) < size:  # of a sampler that kept fewer: some serve again
                    draws = draws.some(np.resize(rng.permutation(len(draws)), size))
                means = self.posterior_.draw_means(draws, rng)
                population = self.posterior_.population
                drawn = (
                    observed.draw(draws, means, rng)
                    if population is None
                    else observed.draw_given(
                        (population.draw(one, rng)[0] for one in draws.batches(1)), means, rng
                    )
                )
                for place, filled in zip(result, drawn, strict=True):
                    place[...] = filled
        if isinstance(frame_like(rows, X), np.ndarray):
            return result
        return [frame_like(one, X) for one in result]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows: what `GridSearchCV` and `cross_val_score` compare.

        Rows without any value have no density and do not count: with missing values, compare only
        scores of the same rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Rows with the columns of the fit, as in `score_samples`.
        y : None
            Ignored; scikit-learn passes it.

        Returns
        -------
        float

        Examples
        --------
        >>> from sklearn.model_selection import cross_val_score
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> cross_val_score(CuspFactorAnalysis(), X, cv=3).shape
        (3,)
        """
        table = self._new_rows(X)
        values = self._log_densities(table)
        if not len(values):
            raise DataError("Found array with 0 sample(s) while a minimum of 1 is required.")
        if table.has_missing:
            values = values[~np.isnan(table.rows).all(axis=1)]
            if not len(values):
                raise DataError("X must have at least one value. Got missing values only.")
        return float(np.mean(values))

    def sample(self, n_samples: int = 1, *, random_state: RandomState = None) -> Array:
        """New rows from N(mean_, get_covariance()).

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : None, int, numpy.random.Generator or numpy.random.RandomState
            Seed of these rows. The model's own `random_state` is for its fit and is not used
            here: None gives other rows each time.

        Returns
        -------
        ndarray (n_samples, p)

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> CuspFactorAnalysis().fit(X).sample(5, random_state=0).shape
        (5, 10)
        """
        check_is_fitted(self)
        size = whole("n_samples", n_samples, 1)
        return self._population().sample(size, generator(random_state))

    def get_covariance(self, columns: Any = None, *, as_frame: bool | None = None) -> Any:
        """The posterior mean of the covariance, in the user's units.

        That is E[Ω] = E[ΛΛᵀ + Σ] or, with model error, the mean of the population covariance.

        Parameters
        ----------
        columns : None, or names, indices, slice or mask of some columns
            The block of these columns alone: for tens of thousands of columns the whole matrix
            does not fit into memory. Whole numbers are positions from 0, also for a frame whose
            names are numbers.
        as_frame : bool or None, default=None
            True gives a data frame with the names of the columns, of pandas or, where that is not
            installed, of polars; in pandas they are those of the rows too. None gives an array, as
            in scikit-learn, or the kind of frame that `set_output` asks for.

        Returns
        -------
        ndarray (p, p), or as many rows and columns as were asked for, in their order
            A data frame with `as_frame`.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> bfi = datasets.load_bfi(subset="paper", as_frame=True)
        >>> model = CuspFactorAnalysis().fit(bfi.data)
        >>> model.get_covariance(columns=["A1", "A2", "A3"]).shape
        (3, 3)
        >>> list(model.get_covariance(columns=["A1", "A2", "A3"], as_frame=True).columns)
        ['A1', 'A2', 'A3']
        """
        check_is_fitted(self)
        if columns is None:
            return self._named_matrix(self._population().covariance(), as_frame)
        chosen = check_columns(columns, self.n_features_in_, self._names())
        return self._named_matrix(self._population().covariance(chosen), as_frame, chosen)

    def get_precision(self, *, as_frame: bool | None = None) -> Any:
        """The inverse of `get_covariance()`, by Woodbury's formula.

        Parameters
        ----------
        as_frame : bool or None, default=None
            True gives a data frame with the names of the columns, as in `get_covariance`.

        Returns
        -------
        ndarray (p, p), or a data frame as in `get_covariance`

        Examples
        --------
        >>> import numpy as np
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> model = CuspFactorAnalysis().fit(X)
        >>> bool(np.allclose(model.get_precision() @ model.get_covariance(), np.eye(10)))
        True
        """
        check_is_fitted(self)
        return self._named_matrix(self._population().precision(), as_frame)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: factor1, factor2, ..., or those that were given."""
        check_is_fitted(self)
        shown = self.posterior_.presentation
        return np.array(shown.heads(self.n_factors_, "factor{}"), dtype=object)

    # --- inside ---

    def _named_matrix(
        self, matrix: Array, as_frame: bool | None, chosen: Indices | None = None
    ) -> Any:
        """The matrix, or a frame if `as_frame` or, without that, `set_output` asks for one."""
        config = getattr(self, "_sklearn_output_config", {})
        library = config.get("transform", get_config()["transform_output"])
        wanted = library != "default" if as_frame is None else true_or_false("as_frame", as_frame)
        if not wanted:
            return matrix
        names = self.posterior_.column_names
        labels = names if chosen is None else [names[j] for j in chosen]
        return square_frame(matrix, labels, None if library == "default" else library)

    def _marginal(self) -> MarginalGaussian:
        return MarginalGaussian(
            self.mean_, self.components_, self.noise_variance_, self.rotation_matrix_
        )

    def _population(self) -> MarginalGaussian:
        """The distribution of new rows: that of the model or, with model error, around it."""
        population = self.posterior_.population
        model = self._marginal()
        return model if population is None else PopulationGaussian(model, population)

    def _filled(self, rows: Array) -> Array:
        """Rows of the fit with their missing values drawn once, the same every time."""
        rng = np.random.default_rng(0)
        draws = self.posterior_.draw(1, random_state=rng)
        means = self.posterior_.draw_means(draws, rng)
        return next(ObservedRows(self._marginal(), rows).draw(draws, means, rng))

    def _log_densities(self, table: CheckedRows) -> Array:
        distribution = self._population()
        with one_blas_thread(distribution.components.size):
            if table.has_missing:
                return ObservedRows(distribution, table.rows).log_density()
            return log_densities(distribution, table.rows)

    def _scores(self, table: CheckedRows) -> Array:
        distribution = self._population()
        with one_blas_thread(distribution.components.size):
            if table.has_missing:
                return ObservedRows(distribution, table.rows).scores()
            return scores_of(distribution, table.rows)

    def _new_rows(self, X: Any) -> CheckedRows:
        check_is_fitted(self)
        own = type(self).__name__
        check_same_names(own, self._names(), column_names(X))
        table = check_rows(X, allow_missing=True)
        check_same_width(own, self.n_features_in_, table.rows.shape[1])
        return table

    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)
