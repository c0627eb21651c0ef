"""Moments in which outlying rows count less: rows with a multivariate t distribution.

    y_i ~ t_ν(μ, S),  that is  y_i | u_i ~ N(μ, S/u_i),  u_i ~ Ga(ν/2, ν/2).

Mean μ, scale matrix S and degrees of freedom ν are estimated by maximum likelihood. A row at the
squared Mahalanobis distance d_i has the weight E[u_i | y_i] = (ν + p)/(ν + d_i) in μ and S. With
ν = ∞ all weights are 1, and the moments are those of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize_scalar
from scipy.sparse import issparse

from cuspfa._typing import Array, Indices
from cuspfa._utils.arguments import between
from cuspfa._utils.fit_warning import EmptyRows, FewRowsForWeights, FitWarning, WeightsNotConverged
from cuspfa._utils.fit_warning_text import python_text
from cuspfa._utils.sklearn_compat import ConvergenceWarning
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa._utils.warn import warn
from cuspfa._utils.wording import listed
from cuspfa.data.in_memory import DEPENDENT, row_blocks
from cuspfa.data.moments import Moments
from cuspfa.data.names import NAMES_IN_MESSAGE, column_label
from cuspfa.data.validate import CheckedRows, check_table
from cuspfa.errors import CuspWarning, DataError
from cuspfa.model.row_tails import RowTails

__all__ = ["RobustMoments", "robust_moments"]

LARGEST_INVERSE, SMALLEST_INVERSE = 1.0, 1e-4
"""Of 1/ν, from rows of a Cauchy distribution to those that are taken as normal."""
MAX_ITERATIONS = 1000
SMALL_GAIN = 1e-7
"""Gain of the log-likelihood by an iteration, in nats, at which the estimate ends."""
TOLERANCE_OF_INVERSE = 1e-7
"""Tolerance of 1/ν."""
FEW_ROWS_PER_COLUMN, TWO_STARTS_BELOW = 2, 5
"""With fewer rows for each column than the first, the likelihood does not tell outlying rows from
others (docs/robust.md). With fewer than the second there are two starts."""
FIRST_ITERATIONS = 10
"""Iterations with heavy tails of the second start."""
COLLAPSED = 1e-8
"""Variance of a column, in units of its typical squared deviation, below which it goes to 0: the
likelihood has no maximum."""
COLLAPSING = 1e-4
"""Variance in these units below which further columns are named in the message."""
TYPICAL_ROWS = 10_000
"""Rows of which medians are taken."""
STRAYING = 0.3
"""Rows with a smaller weight are called outlying."""


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
    warnings: tuple[FitWarning, ...] = ()
    """What may be wrong with the weights."""

    @property
    def effective_rows(self) -> float:
        """Normal rows with as much information on the correlations: n (ν + p)/(ν + p + 2)."""
        n = int(np.sum(~np.isnan(self.weights)))
        return RowTails(self.degrees_of_freedom).effective_rows(n, len(self.mean))

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

    def outlying(self, weight: float = STRAYING) -> Indices:
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
        return lowest_weights(self.weights, between("weight", weight, 0.0, 1.0))

    def _columns(self) -> Columns:
        return {
            "row": list(range(len(self.weights))),
            "weight": self.weights.tolist(),
            "distance": self.distances.tolist(),
        }


def lowest_weights(weights: Array, below: float = STRAYING) -> Indices:
    """Positions of rows with smaller weights than this, the smallest first."""
    order = np.argsort(weights, kind="stable")
    return np.asarray(order[weights[order] < below])


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
    in each of many rows is another matter: too many rows are then outlying. With fewer than about
    two rows for each column outlying rows may not be recognised.

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
    found = of_table(table)
    told: list[FitWarning] = [EmptyRows(len(table.empty), len(table.rows))] if table.empty else []
    told += found.warnings
    if told:
        kind = ConvergenceWarning if any(one.not_converged for one in told) else CuspWarning
        warn(" ".join(map(python_text, told)), kind)
    return found


def of_table(table: CheckedRows) -> RobustMoments:
    """Robust moments of complete rows in memory; weights of rows that were left out are NaN."""
    if issparse(table.rows):
        raise DataError("Robust moments are made of dense rows. Got a sparse matrix instead.")
    check_more_rows(*table.rows.shape)
    moments = Moments.from_checked_rows(table.rows, table.names)
    return estimate(partial(passes_in_memory, table.rows), moments, table.empty)


def check_more_rows(n: int, p: int) -> None:
    """Refuse rows of which no distances can be computed."""
    if n < p + 2:
        raise DataError(
            f"Robust moments need more rows than columns, at least {p + 2} here. Got {n} rows "
            "instead: choose fewer columns, or make a fit that is not robust."
        )


# --- passes over rows ---


class Passes(Protocol):
    """Complete rows that can be gone through several times, block by block."""

    def __call__(self, function: Callable[..., Array], *values: Array) -> Iterator[Array]:
        """`function(block, *parts)` of each block of rows, in their order.

        `values` are arrays (n, ...), of which a block is given the part of its rows.
        """


def passes_in_memory(
    rows: Array, function: Callable[..., Array], *values: Array
) -> Iterator[Array]:
    """One pass over an array."""
    first = 0
    for block in row_blocks(rows):
        here = slice(first, first + len(block))
        first += len(block)
        yield function(block, *(one[here] for one in values))


# --- the estimate ---


class _Maximum(NamedTuple):
    """Where an ascent of the likelihood ended."""

    log_likelihood: float
    mean: Array
    scatter: Array
    tails: RowTails
    distances: Array
    weights: Array
    converged: bool


def estimate(
    passes: Passes, moments: Moments, empty: tuple[int, ...] | Indices = ()
) -> RobustMoments:
    """Maximum likelihood; rows of NaN have distances and weights of NaN.

    The ascent begins with the moments of all rows. Where there are few rows for the columns, these
    follow outlying rows so closely that no row is far out, and ν = ∞ is a local maximum. Then a
    second ascent begins with heavy tails. `empty` are positions of rows that were left out of the
    passes.
    """
    n, p = moments.n, len(moments.mean)
    best = _ascend(passes, moments)
    if best.tails.are_normal and n < TWO_STARTS_BELOW * p:
        with suppress(DataError):  # no scale matrix is best for so few rows
            other = _ascend(passes, moments, first=RowTails(1.0))
            best = other if other.log_likelihood > best.log_likelihood else best
    told: tuple[FitWarning, ...] = ()
    if n < FEW_ROWS_PER_COLUMN * p:
        told += (FewRowsForWeights(n, p),)
    if not best.converged:
        told += (WeightsNotConverged(MAX_ITERATIONS),)
    weights, distances = best.weights, best.distances
    if len(empty):
        places = np.asarray(empty) - np.arange(len(empty))
        weights, distances = (np.insert(one, places, np.nan) for one in (weights, distances))
    degrees = best.tails.degrees_of_freedom
    return RobustMoments(best.mean, best.scatter, degrees, weights, distances, moments.names, told)


def _ascend(passes: Passes, moments: Moments, first: RowTails | None = None) -> _Maximum:
    """ECME, with the weights' sum as divisor (Kent, Tyler & Vardi 1994).

    Each iteration takes ν by the likelihood at the present distances, then the weights, then μ and
    S: two passes over the rows. None of the three lowers the likelihood. Where it is highest the
    mean weight is 1. With `first` the first iterations have this ν.

    Rows that are farther out than others by many digits leave the moments no digits for the others.
    The ascent then begins with medians.
    """
    n, p = moments.n, len(moments.mean)
    mean, scatter, before = moments.mean, moments.cross_products / n, -np.inf
    typical = cache(partial(_medians, passes, moments))
    lowest = COLLAPSED * np.diag(scatter)
    if _root(scatter) is None:
        mean, spread = typical()
        scatter = np.diag(spread**2)
    for number in range(MAX_ITERATIONS):
        distances, log_det = _distances(passes, mean, scatter)
        seen = distances[~np.isnan(distances)]
        if len(seen) != n:
            raise DataError(f"The rows have changed: {len(seen)} were read, and {n} before.")
        if not np.all(np.isfinite(seen)):
            raise DataError(
                "The weights of rows cannot be estimated: distances of rows are not finite. Are "
                "there values above 1e100?"
            )
        begins = number < FIRST_ITERATIONS
        tails = first if first is not None and begins else _best_tails(seen, p)
        value = float(np.sum(tails.log_density(log_det, seen, p)))
        weights = tails.weights(distances, p)
        converged = tails is not first and value - before < SMALL_GAIN
        if converged:
            break
        before = value
        mean, scatter = _weighted(passes, weights, mean)
        if np.any(np.diag(scatter) <= lowest):  # one far row can make the first moments so large
            spread = typical()[1]
            lowest = COLLAPSED * spread**2
            if np.any(np.diag(scatter) <= lowest):
                raise _same_values(passes, moments, mean, scatter, spread)
    return _Maximum(value, mean, scatter, tails, distances, weights, converged)


def _distances(passes: Passes, mean: Array, scatter: Array) -> tuple[Array, float]:
    """Squared Mahalanobis distances (n,), and log|2πS|."""
    root = _root(scatter)
    if root is None:
        raise DataError(
            "The columns are linearly dependent, in all rows or in most: no distances of rows can "
            "be computed. Drop columns that are copies or sums of others."
        )
    found = np.concatenate(list(passes(partial(_block_distances, mean, root))))
    log_det = 2.0 * float(np.sum(np.log(np.diag(root)))) + len(mean) * np.log(2 * np.pi)
    return found, log_det


def _root(scatter: Array) -> Array | None:
    """The Cholesky factor; None where columns depend on others."""
    try:
        root = np.asarray(np.linalg.cholesky(scatter), dtype=float)
    except np.linalg.LinAlgError:
        return None
    return root if np.all(np.diag(root) ** 2 > DEPENDENT * np.diag(scatter)) else None


def _block_distances(mean: Array, root: Any, block: Array) -> Array:
    centred = np.asarray(block, dtype=float) - mean
    scaled = solve_triangular(root, centred.T, lower=True, check_finite=False)
    return np.asarray(np.sum(scaled**2, axis=0))


def _medians(passes: Passes, moments: Moments) -> tuple[Array, Array]:
    """Medians of columns (p,), and of the absolute deviations from them that are not 0 (p,).

    A column that is one value in most rows has the deviations of the others. Medians are those of
    every so many rows.
    """
    step = -(-moments.n // TYPICAL_ROWS)
    rows = np.concatenate(list(passes(partial(_block_every, step))))
    center = np.median(rows, axis=0)
    spread = np.sqrt(np.diag(moments.cross_products) / moments.n)
    for j, column in enumerate(rows.T):
        apart = np.abs(column - center[j])
        if np.any(apart > 0):
            spread[j] = np.median(apart[apart > 0])
    return center, spread


def _block_every(step: int, block: Array) -> Array:
    rows = np.asarray(block, dtype=float)[::step]
    return np.asarray(rows[~np.isnan(rows).any(axis=1)])


def _same_values(
    passes: Passes, moments: Moments, mean: Array, scatter: Array, spread: Array
) -> DataError:
    """The error for columns whose variance goes to 0, as many rows have their mean."""
    near = np.sqrt(COLLAPSED) * 10 * spread
    counts = reduce(np.add, passes(partial(_block_same, mean, near)))
    columns = np.flatnonzero(np.diag(scatter) <= COLLAPSING * spread**2)
    said = [f"{column_label(int(j), moments.names)} in {counts[j]}" for j in columns]
    which = "it" if len(said) == 1 else "such columns or rows"
    return DataError(
        f"Many of {moments.n} rows have (nearly) the same value: "
        f"{listed(said, NAMES_IN_MESSAGE)}. The weights of rows cannot be estimated: leave {which} "
        "out, or make a fit that is not robust."
    )


def _block_same(mean: Array, near: Array, block: Array) -> Array:
    return np.asarray(np.sum(np.abs(np.asarray(block, dtype=float) - mean) <= near, axis=0))


def _weighted(passes: Passes, weights: Array, near: Array) -> tuple[Array, Array]:
    """Weighted mean, and weighted covariance with the sum of the weights as divisor.

    Sums are about `near`, the mean of the iteration before, so that they keep their digits.
    """
    sums = reduce(np.add, passes(partial(_block_sums, near), weights))
    total, shift = sums[0, 0], sums[0, 1:] / sums[0, 0]
    return near + shift, sums[1:, 1:] / total - np.outer(shift, shift)


def _block_sums(near: Array, block: Array, weights: Array) -> Array:
    """Σ_i w_i (1, y_i − near)(1, y_i − near)ᵀ, (p + 1, p + 1)."""
    seen = ~np.isnan(weights)
    extended = np.ones((int(seen.sum()), len(near) + 1))
    np.subtract(block[seen], near, out=extended[:, 1:])
    extended *= np.sqrt(weights[seen])[:, None]
    return np.asarray(extended.T @ extended)


def _best_tails(distances: Array, p: int) -> RowTails:
    """ν of the highest likelihood; ∞ where no finite one is better than the normal distribution."""

    def minus(inverse: float) -> float:
        return -float(np.sum(RowTails(1.0 / inverse).log_density(0.0, distances, p)))

    found = minimize_scalar(
        minus,
        bounds=(SMALLEST_INVERSE, LARGEST_INVERSE),
        method="bounded",
        options={"xatol": TOLERANCE_OF_INVERSE},
    )
    normal = RowTails()
    best = -float(found.fun) > float(np.sum(normal.log_density(0.0, distances, p)))
    return RowTails(1.0 / float(found.x)) if best else normal
