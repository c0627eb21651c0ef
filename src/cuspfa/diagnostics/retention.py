"""Classical rules for the number of factors, and congruence of two solutions.

Parallel analysis and the minimum average partial are to be compared with the evidence. Congruence
compares the loadings of two halves, samples or methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from cuspfa._typing import Array, Indices, RandomState
from cuspfa._utils.arguments import generator, must_be, one_of, positive, true_or_false, whole
from cuspfa._utils.linalg import polar_factor
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa.diagnostics.matrices import correlation_matrix, loading_matrix
from cuspfa.errors import DataError

__all__ = [
    "FactorMatch",
    "MinimumAveragePartial",
    "ParallelAnalysis",
    "congruence",
    "match_factors",
    "minimum_average_partial",
    "parallel_analysis",
]

# --- parallel analysis ---

MAX_SIMULATED_ENTRIES = 4_000_000
"""Entries of simulated matrices that are held at once."""
HEYWOOD_LIMIT = np.sqrt(0.995)
"""Bound of a loading of the single factor, as in the R package psych (a uniqueness of 0.005)."""
LOADING_TOLERANCE, NOISE_TOLERANCE = 1e-6, 1e-4
"""Change of a loading of the single factor at which iterations end, for data and for noise.
Quantiles over a hundred draws of noise have two digits."""
MAX_SWEEPS = 1000
EIGENVALUE_ROUNDING = 1e-6
"""Least difference of an eigenvalue above its reference: both may be zero up to rounding."""


@dataclass(frozen=True, eq=False)
class ParallelAnalysis(TabularResult):
    """Eigenvalues of the data beside those of noise."""

    observed: Array
    """(p,) eigenvalues of the data's matrix, falling."""
    reference: Array
    """(p,) the same of uncorrelated normal data with as many rows: their quantile or mean."""
    n_factors: int
    """How many leading eigenvalues exceed their reference, up to the first that does not."""

    def _columns(self) -> Columns:
        return {
            "number": list(range(1, len(self.observed) + 1)),
            "observed": self.observed.tolist(),
            "reference": self.reference.tolist(),
        }


def parallel_analysis(
    correlation: Any,
    n: int,
    *,
    n_draws: int = 100,
    quantile: float | None = 0.95,
    kind: Literal["factors", "components"] = "factors",
    random_state: RandomState = 0,
) -> ParallelAnalysis:
    """Horn's parallel analysis: the eigenvalues that are larger than those of noise.

    Correlation matrices of noise are drawn from their distribution, by the Bartlett decomposition
    of a Wishart matrix, so that the number of rows costs nothing.

    Parameters
    ----------
    correlation : array (p, p)
        Correlation matrix of the data.
    n : int
        Number of rows behind it, at least 3.
    n_draws : int, default=100
        Number of simulated matrices.
    quantile : float or None, default=0.95
        Of the simulated eigenvalues, one by one; None for their mean, as Horn (1965) had it and
        `fa.parallel` of the R package psych has it unless told otherwise.
    kind : {"factors", "components"}, default="factors"
        "components" compares eigenvalues of the correlation matrix. "factors" puts communalities
        in its diagonal first, those of a single factor fitted by least squares (minres), as
        `fa.parallel` does. It tends to keep a few more; but with few rows and variables the single
        factor of noise often is one variable alone (a Heywood case), which lifts the first
        reference to about 1, and "components" is the better choice.
    random_state : None, int, numpy.random.Generator or RandomState, default=0
        Seed of the simulation; None gives another each time.

    Returns
    -------
    ParallelAnalysis
        `observed`, `reference` and `n_factors`.

    Examples
    --------
    >>> import numpy as np
    >>> from cuspfa import datasets
    >>> X = datasets.simulate(300, 12, 3, random_state=2).X
    >>> R = np.corrcoef(X, rowvar=False)
    >>> parallel_analysis(R, 300, random_state=0).n_factors
    3
    >>> parallel_analysis(R, 300, kind="components", random_state=0).n_factors
    3
    """
    r = correlation_matrix("correlation", correlation)
    n = whole("n", n, 3)
    draws = whole("n_draws", n_draws, 1)
    if quantile is not None and positive("quantile", quantile) >= 1:
        raise must_be("quantile", "None or between 0 and 1", quantile)
    one_of("kind", kind, ("factors", "components"))
    rng = generator(random_state)
    p = len(r)
    block = max(1, MAX_SIMULATED_ENTRIES // p**2)
    sizes = [min(block, draws - start) for start in range(0, draws, block)]
    noise = np.concatenate(
        [_eigenvalues(_noise(n, p, k, rng), kind, NOISE_TOLERANCE) for k in sizes]
    )
    reference = noise.mean(axis=0) if quantile is None else np.quantile(noise, quantile, axis=0)
    observed = _eigenvalues(r[None], kind, LOADING_TOLERANCE)[0]
    beaten = observed > reference + EIGENVALUE_ROUNDING
    return ParallelAnalysis(observed, reference, p if beaten.all() else int(np.argmin(beaten)))


def _noise(n: int, p: int, size: int, rng: np.random.Generator) -> Array:
    """Correlation matrices (size, p, p) of n rows of independent normal variables."""
    rows = n - 1  # What centring leaves.
    if rows < p:
        root = rng.standard_normal((size, p, rows))
    else:
        root = np.tril(rng.standard_normal((size, p, p)), -1)
        diagonal = np.arange(p)
        root[:, diagonal, diagonal] = np.sqrt(rng.chisquare(rows - diagonal, size=(size, p)))
    root /= np.linalg.norm(root, axis=2, keepdims=True)
    return np.asarray(root @ root.transpose(0, 2, 1))


def _eigenvalues(correlations: Array, kind: str, settled: float) -> Array:
    """(B, p), falling, of a stack (B, p, p)."""
    if kind == "factors":
        reduced = correlations.copy()
        diagonal = np.arange(correlations.shape[1])
        reduced[:, diagonal, diagonal] = _single_factor(correlations, settled) ** 2
        correlations = reduced
    return np.asarray(np.linalg.eigvalsh(correlations)[:, ::-1])


def _single_factor(correlations: Array, settled: float) -> Array:
    """Loadings (B, p) that minimise Σ_{i<j}(r_ij − l_i l_j)² of each matrix, |l_j| bounded.

    One loading at a time, which is a parabola in it, so that the sum never grows and the bound is
    met exactly; all matrices of the stack together.
    """
    p = correlations.shape[1]
    others = correlations.transpose(1, 0, 2).copy()
    others[np.arange(p), :, np.arange(p)] = 0.0
    values, vectors = np.linalg.eigh(correlations)
    loadings = np.sqrt(np.maximum(values[:, -1:] - 1.0, 0.0)) * vectors[:, :, -1]
    for _ in range(MAX_SWEEPS):
        before = loadings.copy()
        squared_norm = np.sum(loadings**2, axis=1)
        for j in range(p):
            rest = np.maximum(squared_norm - loadings[:, j] ** 2, np.finfo(float).tiny)
            best = np.einsum("bi,bi->b", others[j], loadings) / rest
            np.clip(best, -HEYWOOD_LIMIT, HEYWOOD_LIMIT, out=best)
            loadings[:, j] = best
            squared_norm = rest + best**2
        if np.max(np.abs(loadings - before)) < settled:
            break
    return np.asarray(loadings)


# --- minimum average partial ---


class MinimumAveragePartial(NamedTuple):
    """Velicer's criterion by number of components."""

    values: Array
    """(p,) average power of the partial correlations given K = 0, 1, ..., p − 1 components; NaN
    where the components leave nothing of a variable."""
    n_factors: int
    """The K with the smallest value."""


def minimum_average_partial(correlation: Any, *, power: int = 2) -> MinimumAveragePartial:
    """Velicer's minimum average partial: the number of components with the least correlation left.

    Parameters
    ----------
    correlation : array (p, p)
        Correlation matrix.
    power : {2, 4}, default=2
        Of the partial correlations: 2 is Velicer (1976), 4 its revision by Velicer, Eaton &
        Fava (2000).

    Returns
    -------
    MinimumAveragePartial
        `values` and `n_factors`.

    Examples
    --------
    >>> import numpy as np
    >>> L = np.kron(np.eye(3), np.full((4, 1), 0.7))
    >>> minimum_average_partial(L @ L.T + 0.51 * np.eye(12)).n_factors
    3
    """
    if whole("power", power, 2) not in (2, 4):
        raise must_be("power", "2 or 4", power)
    r = correlation_matrix("correlation", correlation)
    p = len(r)
    variances, vectors = np.linalg.eigh(r)
    left = r.copy()
    values = np.full(p, np.nan)
    for k in range(p):
        remains = np.diag(left)
        # Rounding errors of a variable that components explain in full are no correlations.
        if np.any(remains < 1e-10):
            break
        root = np.sqrt(remains)
        partial = left / np.outer(root, root)
        values[k] = (np.sum(partial**power) - p) / (p * (p - 1))
        last = vectors[:, p - 1 - k]
        left -= variances[p - 1 - k] * np.outer(last, last)
    return MinimumAveragePartial(values, int(np.nanargmin(values)))


# --- congruence ---

EQUAL_CONGRUENCE, ALIKE_CONGRUENCE = 0.95, 0.85
"""From which on two factors are called equal, and alike (Lorenzo-Seva & ten Berge, 2006)."""


def congruence(loadings_a: Any, loadings_b: Any) -> Array:
    """Tucker's congruence of each factor of one solution with each of another.

    The cosine of two columns of loadings. Above 0.95 two factors are called equal, from 0.85 on
    alike (Lorenzo-Seva & ten Berge, 2006). It depends on rotation and sign: see `match_factors`.

    Parameters
    ----------
    loadings_a : array (p, A)
        One set of loadings.
    loadings_b : array (p, B)
        Another, of the same variables.

    Returns
    -------
    ndarray (A, B)
        Zero for a column of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> congruence([[1.0], [1.0]], [[1.0, 1.0], [0.0, -1.0]]).round(3)
    array([[0.707, 0.   ]])
    """
    a, b = _two_loadings(loadings_a, loadings_b)
    return _congruence(a, b)


class FactorMatch(NamedTuple):
    """Pairs of factors of two solutions."""

    congruence: Array
    """(m,) Tucker's congruence of each pair, not below zero."""
    first: Array
    """(p, m) loadings of the first solution, pair by pair."""
    second: Array
    """(p, m) of the second."""
    columns: Indices
    """(m, 2) the columns of the first and of the second that make a pair; after the rotation, of
    a solution that was rotated."""


def match_factors(loadings_a: Any, loadings_b: Any, *, procrustes: bool = True) -> FactorMatch:
    """Pair the factors of two solutions, each with at most one of the other's.

    With `procrustes` the solution with more factors, or else the second, is rotated orthogonally
    towards the other (Procrustes), since a rotation changes no model. Then the pairs are chosen
    for the largest sum of absolute congruences, and signs are made to agree. There are as many
    pairs as the smaller solution has factors, in its order; what is left over of the larger one
    is not reported.

    Procrustes rotation finds some of a target in noise, more with many factors and few variables:
    compare with the congruence after permuting the rows of one side.

    Parameters
    ----------
    loadings_a, loadings_b : array (p, A) and (p, B)
        Loadings of uncorrelated factors, of the same variables.
    procrustes : bool, default=True
        False to compare the columns as they are.

    Returns
    -------
    FactorMatch
        `congruence`, `first`, `second` and `columns`.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.random.default_rng(0).normal(size=(8, 2))
    >>> rotation = np.array([[0.6, 0.8], [-0.8, 0.6]])
    >>> match_factors(a, a @ rotation).congruence.round(6)
    array([1., 1.])
    >>> match_factors(a, -a[:, ::-1], procrustes=False).columns
    array([[0, 1],
           [1, 0]])
    """
    a, b = _two_loadings(loadings_a, loadings_b)
    true_or_false("procrustes", procrustes)
    swapped = a.shape[1] > b.shape[1]
    target, other = (b, a) if swapped else (a, b)
    if procrustes:  # missing columns of the target count as zeros
        missing = other.shape[1] - target.shape[1]
        other = other @ polar_factor(other.T @ np.pad(target, ((0, 0), (0, missing))))
    cosines = _congruence(target, other)
    rows, columns = linear_sum_assignment(-np.abs(cosines))
    found = cosines[rows, columns]
    sides = target[:, rows], other[:, columns] * np.where(found < 0, -1.0, 1.0)
    pairs = np.stack([rows, columns], axis=1)
    if swapped:
        return FactorMatch(np.abs(found), sides[1], sides[0], pairs[:, ::-1])
    return FactorMatch(np.abs(found), sides[0], sides[1], pairs)


def _congruence(a: Array, b: Array) -> Array:
    size = np.outer(np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=0))
    return np.divide(a.T @ b, size, out=np.zeros(size.shape), where=size > 0)


def _two_loadings(loadings_a: Any, loadings_b: Any) -> tuple[Array, Array]:
    a, b = loading_matrix("loadings_a", loadings_a), loading_matrix("loadings_b", loadings_b)
    if len(a) != len(b):
        raise DataError(
            "loadings_a and loadings_b must be of the same variables. Got "
            f"{len(a)} and {len(b)} rows."
        )
    return a, b
