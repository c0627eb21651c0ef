"""Moments in which outlying rows count less: rows with a multivariate t distribution.

    y_i ~ t_ν(μ, S),  that is  y_i | u_i ~ N(μ, S/u_i),  u_i ~ Ga(ν/2, ν/2).

Mean μ, scale matrix S and degrees of freedom ν are estimated by maximum likelihood. A row at the
squared Mahalanobis distance d_i has the weight E[u_i | y_i] = (ν + p)/(ν + d_i) in μ and S. With
ν = ∞ all weights are 1, and the moments are those of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize_scalar
from scipy.sparse import issparse
from scipy.special import gammaln

from cuspfa._typing import Array, Indices
from cuspfa._utils.arguments import between
from cuspfa._utils.fit_warning import EmptyRows
from cuspfa._utils.fit_warning_text import python_text
from cuspfa._utils.sklearn_compat import ConvergenceWarning
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa._utils.warn import warn
from cuspfa.data.in_memory import row_blocks
from cuspfa.data.moments import Moments
from cuspfa.data.validate import check_table
from cuspfa.errors import DataError

__all__ = ["RobustMoments", "robust_moments"]

LARGEST_INVERSE, SMALLEST_INVERSE = 1.0, 1e-4
"""Of 1/ν, from rows of a Cauchy distribution to those that are taken as normal."""
MAX_ITERATIONS = 1000
SMALL_GAIN = 1e-7
"""Gain of the log-likelihood by an iteration, in nats, at which the estimate ends."""
TOLERANCE_OF_INVERSE = 1e-7
"""Tolerance of 1/ν."""


@dataclass(frozen=True, eq=False)
class RobustMoments(TabularResult):
    """Mean, scale matrix and degrees of freedom of rows with a t distribution."""

    mean: Array
    """(p,) μ."""
    scale_matrix: Array
    """(p, p) S. The covariance of the rows is S ν/(ν − 2); the correlations of both are the
    same."""
    degrees_of_freedom: float
    """ν; infinity where a normal distribution is best."""
    weights: Array
    """(n,) of the rows, with mean 1. NaN for rows without any value."""
    distances: Array
    """(n,) squared Mahalanobis distances of the rows. NaN for rows without any value."""
    names: list[str] | None = None
    """Names of the columns."""

    @property
    def effective_rows(self) -> float:
        """Normal rows with as much information on the correlations: n (ν + p)/(ν + p + 2)."""
        n = int(np.sum(~np.isnan(self.weights)))
        if np.isinf(self.degrees_of_freedom):
            return float(n)
        both = self.degrees_of_freedom + len(self.mean)
        return n * both / (both + 2.0)

    def moments(self) -> Moments:
        """Moments for `CuspFactorAnalysis.fit_moments`, counted as the effective rows.

        Examples
        --------
        >>> from cuspfa import CuspFactorAnalysis, datasets, robust_moments
        >>> X = datasets.simulate(300, 10, 2, random_state=1).X
        >>> X[:6] += 20.0
        >>> CuspFactorAnalysis().fit_moments(robust_moments(X).moments()).n_factors_
        2
        """
        n = int(np.sum(~np.isnan(self.weights)))
        rows = max(round(self.effective_rows), 2)
        cross = self.scale_matrix * (n / (n - 1) * (rows - 1))
        return Moments(rows, self.mean, cross, self.names)

    def outlying(self, weight: float = 0.3) -> Indices:
        """Positions of rows with a smaller weight, the smallest first.

        Parameters
        ----------
        weight : float, default=0.3
            Between 0 and 1.

        Examples
        --------
        >>> from cuspfa import datasets, robust_moments
        >>> X = datasets.simulate(300, 10, 2, random_state=1).X
        >>> X[[3, 5]] += 20.0
        >>> sorted(robust_moments(X).outlying().tolist())
        [3, 5]
        """
        between("weight", weight, 0.0, 1.0)
        order = np.argsort(self.weights, kind="stable")
        return np.asarray(order[self.weights[order] < weight])

    def _columns(self) -> Columns:
        return {
            "row": list(range(len(self.weights))),
            "weight": self.weights.tolist(),
            "distance": self.distances.tolist(),
        }


def robust_moments(X: Any) -> RobustMoments:
    """Estimate mean and scale matrix with less weight for outlying rows.

    Parameters
    ----------
    X : array or data frame of shape (n, p)
        Numbers without missing values, with more rows than columns.

    Returns
    -------
    RobustMoments
        The estimates, the weights of the rows, and moments to fit.

    Notes
    -----
    The degrees of freedom are estimated. With normal rows they are large or infinite, and hardly
    anything is lost. The weights protect against rows that are outlying as a whole. One wrong value
    in each of many rows is another matter: too many rows are then outlying.

    Examples
    --------
    >>> from cuspfa import datasets, robust_moments
    >>> X = datasets.simulate(300, 10, 2, random_state=1).X
    >>> X[:3] += 20.0
    >>> found = robust_moments(X)
    >>> bool(found.weights[:3].max() < 0.1 < found.weights[3:].min())
    True
    """
    table = check_table(X)
    if issparse(table.rows):
        raise DataError("Robust moments are made of dense rows. Got a sparse matrix instead.")
    n, p = table.rows.shape
    if n < p + 2:
        raise DataError(
            f"Robust moments need more rows than columns, at least {p + 2} here. Got {n} rows "
            "instead: choose fewer columns."
        )
    if table.empty:
        warn(python_text(EmptyRows(len(table.empty), n)))
    found = _estimate(table.rows)
    weights, distances = (
        np.insert(values, np.array(table.empty) - np.arange(len(table.empty)), np.nan)
        if table.empty
        else values
        for values in (found.weights, found.distances)
    )
    return RobustMoments(
        found.mean, found.scale_matrix, found.degrees_of_freedom, weights, distances, table.names
    )


def _estimate(rows: Array) -> RobustMoments:
    """Maximum likelihood by ECME, with the weights' sum as divisor (Kent, Tyler & Vardi 1994).

    Each iteration takes ν by the likelihood at the present distances, then the weights, then μ and
    S. None of the three lowers the likelihood. Where it is highest the mean weight is 1.
    """
    n, p = rows.shape
    moments = Moments.from_checked_rows(rows)
    mean, scatter = moments.mean, moments.cross_products / n
    before = -np.inf
    for _ in range(MAX_ITERATIONS):
        distances, log_det = _distances(rows, mean, scatter)
        inverse = _best_inverse(distances, p)
        value = _log_likelihood(distances, inverse, p) - 0.5 * n * log_det
        weights = _weights(distances, inverse, p)
        if value - before < SMALL_GAIN:
            break
        before = value
        mean, scatter = _weighted(rows, weights)
    else:
        warn(
            f"The weights of rows have not converged after {MAX_ITERATIONS} iterations. Are some "
            "columns nearly the same, or most rows?",
            ConvergenceWarning,
        )
    degrees = np.inf if inverse == 0.0 else 1.0 / inverse
    return RobustMoments(mean, scatter, float(degrees), weights, distances)


def _distances(rows: Array, mean: Array, scatter: Array) -> tuple[Array, float]:
    """Squared Mahalanobis distances (n,), and log|S|."""
    try:
        root = np.linalg.cholesky(scatter)
    except np.linalg.LinAlgError:
        raise DataError(
            "The columns are linearly dependent, or most rows are the same: no distances of rows "
            "can be computed. Drop columns that are copies or sums of others."
        ) from None
    found = [
        np.sum(solve_triangular(root, (block - mean).T, lower=True) ** 2, axis=0)
        for block in row_blocks(rows)
    ]
    return np.concatenate(found), 2.0 * float(np.sum(np.log(np.diag(root))))


def _weights(distances: Array, inverse: float, p: int) -> Array:
    """(ν + p)/(ν + d_i), in terms of 1/ν."""
    return np.asarray((1.0 + p * inverse) / (1.0 + distances * inverse))


def _weighted(rows: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted mean, and weighted covariance with the sum of the weights as divisor."""
    total = float(weights.sum())
    mean, first = np.zeros(rows.shape[1]), 0
    for block in row_blocks(rows):
        mean += weights[first : first + len(block)] @ block
        first += len(block)
    mean /= total
    sums, first = np.zeros((rows.shape[1],) * 2), 0
    for block in row_blocks(rows):
        part = (block - mean) * np.sqrt(weights[first : first + len(block)])[:, None]
        sums += part.T @ part
        first += len(block)
    return mean, np.asarray(sums / total)


def _log_likelihood(distances: Array, inverse: float, p: int) -> float:
    """Σ_i log t_ν(y_i), apart from −(n/2) log|S|, in terms of 1/ν."""
    n = len(distances)
    if inverse == 0.0:
        return -0.5 * float(n * p * np.log(2 * np.pi) + distances.sum())
    half = 0.5 / inverse
    constant = float(gammaln(half + p / 2) - gammaln(half)) + 0.5 * p * np.log(inverse / np.pi)
    return float(n * constant) - (half + p / 2) * float(np.sum(np.log1p(distances * inverse)))


def _best_inverse(distances: Array, p: int) -> float:
    """1/ν of the highest likelihood; 0 where no finite ν is better than the normal distribution."""
    found = minimize_scalar(
        lambda inverse: -_log_likelihood(distances, inverse, p),
        bounds=(SMALLEST_INVERSE, LARGEST_INVERSE),
        method="bounded",
        options={"xatol": TOLERANCE_OF_INVERSE},
    )
    best = float(found.x)
    better = -float(found.fun) > _log_likelihood(distances, 0.0, p)
    return best if better else 0.0
