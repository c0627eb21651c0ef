"""What a fitted model says of new rows, and of the law they come from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from cuspfa._checks import generator, must_be, whole
from cuspfa._threads import one_blas_thread
from cuspfa._types import Array, RandomState
from cuspfa.data.checks import check_columns, check_rows, column_names
from cuspfa.data.names import check_same_names, check_same_width
from cuspfa.errors import DataError
from cuspfa.posterior.predict import MarginalGaussian


class FactorScores(NamedTuple):
    """Normal law of each row's scores."""

    mean: Array
    """(n, K) E[η_i | y_i]."""
    covariance: Array
    """(K, K) their covariance, the same for all rows without missing values."""


class NewRows(TransformerMixin):  # type: ignore[misc]
    """Scores, densities, samples and covariance, from the attributes that a fit has set."""

    n_factors_: int
    components_: Array
    noise_variance_: Array
    rotation_matrix_: Array
    mean_: Array
    n_features_in_: int

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

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, p)
            Rows with the columns of the fit.

        Returns
        -------
        FactorScores
            `mean` (n, n_factors_), what `transform` gives, and `covariance` (n_factors_,
            n_factors_), the same for all rows.

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
            Scores, one column for each factor, in their order.

        Returns
        -------
        ndarray (n, p)
        """
        check_is_fitted(self)
        scores, names, _ = check_rows(X)
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
            Rows with the columns of the fit.

        Returns
        -------
        ndarray (n,)
            −inf for a row with values too large to be squared.
        """
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
        """
        check_is_fitted(self)
        size = whole("n_samples", n_samples, 1)
        return self._marginal().sample(size, generator(random_state))

    def get_covariance(self, columns: Any = None) -> Array:
        """E[Ω] = E[ΛΛᵀ + Σ], the posterior mean of the covariance, in the user's units.

        Parameters
        ----------
        columns : None, or names, indices, slice or mask of some columns
            The block of these columns alone: for tens of thousands of columns the whole matrix
            does not fit into memory. Whole numbers are positions from 0, also for a frame whose
            names are numbers.

        Returns
        -------
        ndarray (p, p), or as many rows and columns as were asked for, in their order

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
        chosen = check_columns(columns, self.n_features_in_, self._names())
        return self._marginal().covariance(chosen)

    def get_precision(self) -> Array:
        """The inverse of `get_covariance()`, by Woodbury's formula.

        Returns
        -------
        ndarray (p, p)
        """
        check_is_fitted(self)
        return self._marginal().precision()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: factor1, factor2, ... (strongest first)."""
        check_is_fitted(self)
        return np.array([f"factor{k}" for k in range(1, self.n_factors_ + 1)], dtype=object)

    # --- inside ---

    def _marginal(self) -> MarginalGaussian:
        return MarginalGaussian(
            self.mean_, self.components_, self.noise_variance_, self.rotation_matrix_
        )

    def _law(self, X: Any) -> tuple[MarginalGaussian, Any]:
        check_is_fitted(self)
        own = type(self).__name__
        check_same_names(own, self._names(), column_names(X))
        rows = check_rows(X).rows
        check_same_width(own, self.n_features_in_, rows.shape[1])
        return self._marginal(), rows

    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(names)
