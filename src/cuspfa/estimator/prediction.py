"""Methods of the estimator for new rows: scores, densities, imputation, samples, covariance."""

from __future__ import annotations

from typing import Any, cast

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
from cuspfa.data.categories import with_categories, with_numbers
from cuspfa.data.column_choice import check_columns
from cuspfa.data.names import check_same_names, check_same_width
from cuspfa.data.offsets import offsets_of_new_rows
from cuspfa.data.validate import CheckedRows, check_rows, column_names
from cuspfa.errors import CuspWarning, DataError
from cuspfa.estimator.latent_prediction import LatentRows
from cuspfa.missing.prediction import ObservedRows
from cuspfa.model.likelihoods.gaussian import MarginalGaussian
from cuspfa.model.likelihoods.kinds import COUNT_KINDS
from cuspfa.posterior.files import AnyPosterior
from cuspfa.posterior.latent import LatentPosterior
from cuspfa.posterior.population import PopulationGaussian
from cuspfa.posterior.predictive import (
    FactorScores,
    covariance_of_scores,
    log_densities,
    scores_of,
)

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
    posterior_: AnyPosterior

    def transform(self, X: Any, *, offset: Any = None) -> Array:
        """Factor scores: E[η | y] of each row, given the expected loadings and noise.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Rows with the columns of the fit. Missing values of dense rows (NaN) are left out of
            account; a row without any value has scores of zero, their prior mean. Ordinal
            columns must have categories that the fit has seen.
        offset : number, array (n,) or None, default=None
            Offsets of the log rates of counts. None takes them as the fit did: from the counts of
            the row, or from their column.

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
        return self._scores(self._new_rows(X, offset))

    def factor_scores(self, X: Any, *, offset: Any = None) -> FactorScores:
        """Mean and covariance of each row's scores.

        The uncertainty is that of the scores given expected loadings and noise.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Rows with the columns of the fit.
        offset : number, array (n,) or None, default=None
            Offsets of the log rates of counts. None takes them as the fit did: from the counts of
            the row, or from their column.

        Returns
        -------
        FactorScores
            `mean` (n, n_factors_), what `transform` gives, and `covariance` (n_factors_,
            n_factors_), the same for all rows; where values are missing, for ordinal columns and
            in a robust fit (n, n_factors_, n_factors_), one for each row, given its weight.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets
        >>> X = datasets.simulate(200, 10, 2, random_state=1).X
        >>> scores = CuspFactorAnalysis().fit(X).factor_scores(X)
        >>> scores.mean.shape, scores.covariance.shape
        ((200, 2), (2, 2))
        """
        table = self._new_rows(X, offset)
        if (latent := self._latent()) is not None:
            with one_blas_thread(self.components_.size):
                return latent.scores(latent.check(table))
        distribution = self._population()
        with one_blas_thread(distribution.components.size):
            if table.has_missing:
                observed = ObservedRows(distribution, table.rows)
                mean, covariance = observed.scores(), observed.score_covariances()
            else:
                mean = scores_of(distribution, table.rows)
                covariance = covariance_of_scores(distribution, table.rows)
            if np.linalg.eigvalsh(covariance).min(initial=np.inf) > 0:
                return FactorScores(mean, covariance)
            warn(NOT_DETERMINED, CuspWarning)
            own = self._marginal()
            if table.has_missing:
                return FactorScores(mean, ObservedRows(own, table.rows).score_covariances())
            return FactorScores(mean, covariance_of_scores(own, table.rows))

    def inverse_transform(self, X: Any) -> Array:
        """Rows reconstructed from factor scores: mean_ + scores @ components_.

        Of ordinal columns these are latent responses, not categories.

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

    def score_samples(self, X: Any, *, offset: Any = None) -> Array:
        """Log density of each row under N(mean_, get_covariance()), or t in a robust fit.

        In a robust fit it has `degrees_of_freedom_`, and `get_covariance()` is its scale matrix.

        Of ordinal columns it is the log probability of the categories, by expectation propagation,
        or by quadrature with one or two factors; there is no Monte Carlo error. In a table of
        several kinds it is the sum of this and of the log density of the measurements; of columns
        by normal scores it is the density of these scores.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Rows with the columns of the fit. Of a row with missing values it is the density of
            those it has, so that rows with different missing values are not to be compared.
        offset : number, array (n,) or None, default=None
            Offsets of the log rates of counts. None takes them as the fit did: from the counts of
            the row, or from their column.

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
        return self._log_densities(self._new_rows(X, offset))

    def impute(
        self,
        X: Any,
        *,
        return_std: bool = False,
        return_proba: bool = False,
        n_draws: int | None = None,
        random_state: RandomState = 0,
        offset: Any = None,
    ) -> Any:
        """Rows with their missing values filled: expected values, or most probable categories.

        Under the model, and for values missing at random: see docs/missing_data.md.

        Parameters
        ----------
        X : array or data frame (n, p)
            Rows with the columns of the fit, NaN where values are missing.
        return_std : bool, default=False
            Also give the standard deviation of each missing value given what its row has, and
            the row's weight in a robust fit; 0 for values that are there. For Gaussian columns.
        return_proba : bool, default=False
            Also give the probabilities of the categories, given what the row has. For ordinal
            columns.
        n_draws : int or None, default=None
            None fills in expected values: best for prediction, but too regular to be analysed as
            if they were data. A number gives this number of tables with values drawn from their
            distribution, each with loadings, noise and means drawn from the posterior: analyse each
            and pool by Rubin's rules.
        random_state : None, int, numpy.random.Generator or RandomState, default=0
            Seed of the draws; None gives others each time.
        offset : number, array (n,) or None, default=None
            Offsets of the log rates of counts. None takes them as the fit did: from the counts of
            the row, or from their column.

        Returns
        -------
        ndarray (n, p), or (values, std) with `return_std`, or ndarray (n_draws, n, p)
            With `return_proba`, (values, probabilities): a mapping from columns to arrays (n,
            number of categories), which are 0 and 1 where a value is there.
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
        true_or_false("return_proba", return_proba)
        table = self._new_rows(X, offset)
        if (latent := self._latent()) is not None:
            if return_std:
                wanted = "False unless all columns are Gaussian: use return_proba or n_draws"
                raise must_be("return_std", wanted, True)
            with one_blas_thread(self.components_.size):
                return self._impute_latent(latent, X, table, return_proba, n_draws, random_state)
        if return_proba:
            raise must_be("return_proba", "False for Gaussian columns: use return_std", True)
        distribution = self._population()
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
                if population is not None:
                    covariances = (population.draw(one, rng)[0] for one in draws.batches(1))
                    drawn = observed.draw_given(covariances, means, rng)
                elif not distribution.tails.are_normal:
                    covariances = (one.covariance[0] for one in draws.batches(1))
                    drawn = observed.draw_given(covariances, means, rng)
                else:
                    drawn = observed.draw(draws, means, rng)
                for place, filled in zip(result, drawn, strict=True):
                    place[...] = filled
        if isinstance(frame_like(rows, X), np.ndarray):
            return result
        return [frame_like(one, X) for one in result]

    def score(self, X: Any, y: Any = None, *, offset: Any = None) -> float:
        """Mean log density of the rows: what `GridSearchCV` and `cross_val_score` compare.

        Rows without any value have no density and do not count: with missing values, compare only
        scores of the same rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Rows with the columns of the fit, as in `score_samples`.
        y : None
            Ignored; scikit-learn passes it.
        offset : number, array (n,) or None, default=None
            Offsets of the log rates of counts. None takes them as the fit did: from the counts of
            the row, or from their column.

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
        table = self._new_rows(X, offset)
        values = self._log_densities(table)
        if not len(values):
            raise DataError("Found array with 0 sample(s) while a minimum of 1 is required.")
        if table.has_missing:
            values = values[~np.isnan(table.rows).all(axis=1)]
            if not len(values):
                raise DataError("X must have at least one value. Got missing values only.")
        return float(np.mean(values))

    def sample(
        self, n_samples: int = 1, *, random_state: RandomState = None, offset: Any = None
    ) -> Array:
        """New rows from N(mean_, get_covariance()), or t in a robust fit; or categories.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : None, int, numpy.random.Generator or numpy.random.RandomState
            Seed of these rows. The model's own `random_state` is for its fit and is not used
            here: None gives other rows each time.
        offset : number, array (n_samples,) or None, default=None
            Offsets of the log rates of counts; None is the mean offset of the fit.

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
        if (latent := self._latent()) is not None:
            return latent.sample(size, generator(random_state), offset)
        if offset is not None:
            raise must_be("offset", "None: no column is one of counts", offset)
        return self._population().sample(size, generator(random_state))

    def get_covariance(self, columns: Any = None, *, as_frame: bool | None = None) -> Any:
        """The posterior mean of the covariance, in the user's units.

        That is E[Ω] = E[ΛΛᵀ + Σ] or, with model error, the mean of the population covariance. In a
        robust fit it is the covariance of rows of weight 1, the scale matrix of their t
        distribution. Of ordinal columns it is the covariance ΛΛᵀ + Σ of their latent responses at
        the mode, with noise variances of one.

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
            self.mean_,
            self.components_,
            self.noise_variance_,
            self.rotation_matrix_,
            self.posterior_.tails,
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

    def _latent(self) -> LatentRows | None:
        """New rows on the scale of latent responses; None for Gaussian columns."""
        posterior = self._latent_posterior()
        if posterior is None:
            return None
        return LatentRows(posterior, self.components_, self.rotation_matrix_)

    def _latent_posterior(self) -> LatentPosterior | None:
        found = self.posterior_
        return cast(LatentPosterior, found) if found.has_latent_responses else None

    def _impute_latent(
        self,
        latent: LatentRows,
        X: Any,
        table: CheckedRows,
        return_proba: bool,
        n_draws: int | None,
        random_state: RandomState,
    ) -> Any:
        rows, given = latent.check(table), _as_passed(table, np.asarray(table.rows, dtype=float))
        categories, lacking = latent.posterior.categories, np.isnan(given)
        if n_draws is None:
            found = latent.impute(rows)
            complete = np.where(lacking, _as_passed(table, found.rows), given)
            filled = with_categories(frame_like(complete, X), categories)
            return (filled, found.probabilities) if return_proba else filled
        if return_proba:
            raise must_be("return_proba", "False with n_draws, whose tables show the spread", True)
        drawn = latent.drawn(rows, whole("n_draws", n_draws, 1), generator(random_state))
        drawn = np.where(lacking, _as_passed(table, drawn), given)
        if isinstance(frame_like(given, X), np.ndarray):
            return drawn
        return [with_categories(frame_like(one, X), categories) for one in drawn]

    def _log_densities(self, table: CheckedRows) -> Array:
        if (latent := self._latent()) is not None:
            with one_blas_thread(self.components_.size):
                return latent.log_probability(latent.check(table))
        distribution = self._population()
        with one_blas_thread(distribution.components.size):
            if table.has_missing:
                return ObservedRows(distribution, table.rows).log_density()
            return log_densities(distribution, table.rows)

    def _scores(self, table: CheckedRows) -> Array:
        if (latent := self._latent()) is not None:
            with one_blas_thread(self.components_.size):
                return latent.scores(latent.check(table)).mean
        distribution = self._population()
        with one_blas_thread(distribution.components.size):
            if table.has_missing:
                return ObservedRows(distribution, table.rows).scores()
            return scores_of(distribution, table.rows)

    def _new_rows(self, X: Any, offset: Any = None) -> CheckedRows:
        check_is_fitted(self)
        own, rule = type(self).__name__, self._offset_rule()
        names = column_names(X)
        check_same_names(own, self._names(), _without(names, rule))
        latent = self._latent_posterior()
        if latent is not None:
            X = with_numbers(X, latent.categories).data
        table = check_rows(X, allow_missing=True)
        if latent is not None and issparse(table.rows):
            raise DataError("X must be dense for columns that are not Gaussian. Pass X.toarray().")
        table = self._with_offset(table, offset)
        check_same_width(own, self.n_features_in_, table.rows.shape[1])
        return table

    def _with_offset(self, table: CheckedRows, offset: Any) -> CheckedRows:
        """New rows with the offsets of the log rates of counts."""
        counts = np.array([one.kind in COUNT_KINDS for one in self.posterior_.likelihoods])
        if counts.any():
            return offsets_of_new_rows(table, self._offset_rule(), offset, counts)
        if offset is not None:
            raise must_be("offset", "None: no column is one of counts", "numbers")
        return table

    def _offset_rule(self) -> str | None:
        """The offset of the fit."""
        provenance = self.posterior_.provenance
        return None if provenance is None else provenance.settings.offset

    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)


def _without(names: list[str] | None, rule: str | None) -> list[str] | None:
    """Names of columns but that of the offsets."""
    return None if names is None else [name for name in names if name != rule]


def _as_passed(table: CheckedRows, rows: Array) -> Array:
    """Rows (…, n, p) with the column of offsets where they were passed with one."""
    if table.offset_column is None or table.offset is None:
        return rows
    return np.insert(rows, table.offset_column, table.offset, axis=-1)
