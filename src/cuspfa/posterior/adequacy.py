"""Is there anything to factor, does a factor model fit, and how good are its scores and scales.

Functions of correlation matrices, loadings and the number of rows: they know no data and no
engine, so that they judge a published matrix or another program's loadings as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.sparse import issparse
from scipy.stats import chi2, ncx2

from cuspfa._checks import must_be, positive, whole
from cuspfa._types import Array
from cuspfa.data.checks import check_columns, check_rows
from cuspfa.errors import DataError
from cuspfa.rotation import LARGEST

SINGULAR = 1e-10
"""A correlation matrix with an eigenvalue below this has no inverse worth the name."""


# --- is there anything to factor ---


class Kmo(NamedTuple):
    """Kaiser, Meyer and Olkin's measure of sampling adequacy."""

    overall: float
    """Σr² / (Σr² + Σa²) over all pairs, a the partial correlation given all other variables."""
    by_variable: Array
    """(p,) the same over the pairs of each variable."""


def kmo(correlation: Any) -> Kmo:
    """Kaiser, Meyer and Olkin's measure of sampling adequacy (Kaiser & Rice, 1974).

    Near 1 where correlations vanish once all other variables are given, as common factors of
    many variables would have it; 0.5 where they do not shrink at all. Below 0.5 is commonly
    called unacceptable, above 0.8 good.

    Parameters
    ----------
    correlation : array (p, p)
        Correlation matrix of at least two variables.

    Returns
    -------
    Kmo
        `overall` and `by_variable`; NaN for a variable that correlates with no other.

    Raises
    ------
    DataError
        If the matrix is singular. Then some variables are given by the others, and partial
        correlations given all others do not exist. A pseudo-inverse would still return numbers,
        but not of what KMO is about, so the matrix is refused.

    Examples
    --------
    >>> import numpy as np
    >>> R = np.full((6, 6), 0.5) + 0.5 * np.eye(6)
    >>> round(kmo(R).overall, 3)
    0.9
    >>> round(kmo(R[:2, :2]).overall, 3)
    0.5
    """
    r = correlation_matrix("correlation", correlation)
    _check_definite("correlation", r)
    inverse = np.linalg.inv(r)
    root = np.sqrt(np.diag(inverse))
    partial = inverse / np.outer(root, root)
    shared = np.sum(_off_diagonal(r) ** 2, axis=0)
    own = np.sum(_off_diagonal(partial) ** 2, axis=0)
    total = shared + own
    by_variable = np.divide(shared, total, out=np.full(len(r), np.nan), where=total > 0)
    overall = float(shared.sum() / total.sum()) if total.sum() > 0 else float("nan")
    return Kmo(overall, by_variable)


class Bartlett(NamedTuple):
    """Bartlett's test that nothing correlates."""

    statistic: float
    """−(n − 1 − (2p + 5)/6) log|R|."""
    df: int
    """p(p − 1)/2."""
    p_value: float
    """Probability of a larger statistic where all correlations are zero."""


def bartlett(correlation: Any, n: int) -> Bartlett:
    """Bartlett's test of sphericity: are all correlations zero (Bartlett, 1951).

    With some hundred rows it rejects for almost any real data; it is a check that there is
    something to factor, not that factors are worth having.

    Parameters
    ----------
    correlation : array (p, p)
        Correlation matrix of at least two variables.
    n : int
        Number of rows behind it, more than p.

    Returns
    -------
    Bartlett
        `statistic`, `df` and `p_value`.

    Raises
    ------
    DataError
        If the matrix is singular, when log|R| is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> R = np.array([[1.0, 0.3], [0.3, 1.0]])
    >>> test = bartlett(R, n=100)
    >>> round(test.statistic, 2), test.df, round(test.p_value, 4)
    (9.2, 1, 0.0024)
    """
    r = correlation_matrix("correlation", correlation)
    p = len(r)
    weight = _bartlett_weight(n, p, 0)
    log_det = float(np.sum(np.log(_check_definite("correlation", r))))
    statistic, df = -weight * log_det, p * (p - 1) // 2
    return Bartlett(statistic, df, float(chi2.sf(statistic, df)))


# --- does a factor model fit ---


def srmr(correlation: Any, model_correlation: Any) -> float:
    """Root mean square of the residual correlations, off the diagonal.

    The mean is over the p(p − 1)/2 pairs of variables, as in the RMSR of the R package psych.
    Hu & Bentler's standardised root mean square residual also counts the p residuals on the
    diagonal, which are zero for correlation matrices: theirs is this one times
    √((p − 1)/(p + 1)). Values up to about 0.05, some say 0.08, are called good.

    Parameters
    ----------
    correlation : array (p, p)
        Sample correlations.
    model_correlation : array (p, p)
        Those of the model.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> round(srmr([[1.0, 0.5], [0.5, 1.0]], np.eye(2)), 3)
    0.5
    """
    r, model = _two_correlations(correlation, model_correlation)
    return float(np.sqrt(np.mean((r - model)[np.triu_indices(len(r), 1)] ** 2)))


class Rmsea(NamedTuple):
    """Root mean square error of approximation, and the likelihood ratio behind it."""

    value: float
    """√(max(T/df − 1, 0) / m), T = mF, m = n − 1 − (2p + 5)/6 − 2K/3; NaN without df."""
    lower: float
    """Lower end of the interval."""
    upper: float
    """Upper end."""
    statistic: float
    """T, about χ² with `df` degrees of freedom if the model holds and was fitted by ML."""
    df: int
    """((p − K)² − (p + K))/2."""
    p_value: float
    """Probability of a larger T then."""
    reason: str
    """Why values are NaN; empty if they are not."""


def rmsea(
    correlation: Any, model_correlation: Any, n: int, n_factors: int, *, level: float = 0.9
) -> Rmsea:
    """Root mean square error of approximation with its interval (Steiger; Browne & Cudeck).

    From the maximum likelihood discrepancy F = log|M| − log|R| + tr(RM⁻¹) − p of the model M,
    times Bartlett's multiplier m, as `factanal` in R and the R package psych have it. The
    interval inverts the noncentral χ² law of T = mF. Values up to about 0.05 are called close,
    above 0.1 poor.

    A model that was fitted otherwise, say by its posterior mean, has a larger F than the best
    model with as many factors. Then the RMSEA is too large by a little, never too small.

    Parameters
    ----------
    correlation : array (p, p)
        Sample correlations.
    model_correlation : array (p, p)
        Those of the model.
    n : int
        Number of rows.
    n_factors : int
        K, the number of factors of the model, for its degrees of freedom.
    level : float, default=0.9
        Of the interval.

    Returns
    -------
    Rmsea
        Where a model with K factors has no degrees of freedom left it fits any matrix, and there
        is no error to speak of: `value`, `lower`, `upper` and `p_value` are NaN and `reason`
        says so.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets
    >>> import numpy as np
    >>> X = datasets.simulate(500, 10, 2, random_state=0).X
    >>> def fit_of(k):
    ...     model = CuspFactorAnalysis(n_factors=k).fit(X)
    ...     sd = np.sqrt(np.diag(model.get_covariance()))
    ...     R = np.corrcoef(X, rowvar=False)
    ...     return rmsea(R, model.get_covariance() / np.outer(sd, sd), len(X), k)
    >>> fit_of(2).value < 0.05 < fit_of(1).lower
    True
    """
    r, model = _two_correlations(correlation, model_correlation)
    p = len(r)
    k = whole("n_factors", n_factors, 0)
    if k > p:
        raise must_be("n_factors", f"at most the {p} variables", n_factors)
    coverage = _fraction("level", level)
    weight = _bartlett_weight(n, p, k)
    statistic = weight * _discrepancy(r, model)
    df = ((p - k) ** 2 - (p + k)) // 2
    if df <= 0:
        reason = f"{k} factors of {p} variables leave {df} degrees of freedom"
        nan = float("nan")
        return Rmsea(nan, nan, nan, statistic, df, nan, reason)
    excess = max(statistic - df, 0.0)
    low = _noncentrality(statistic, df, (1 + coverage) / 2)
    high = _noncentrality(statistic, df, (1 - coverage) / 2)
    value, lower, upper = (float(np.sqrt(x / (df * weight))) for x in (excess, low, high))
    return Rmsea(value, lower, upper, statistic, df, float(chi2.sf(statistic, df)), "")


def _discrepancy(r: Array, model: Array) -> float:
    """F of the eigenvalues e of RM⁻¹: Σ(e − 1 − log e), a sum of terms that are not negative."""
    _check_definite("correlation", r)
    _check_definite("model_correlation", model)
    excess = eigh(r, model, eigvals_only=True) - 1.0
    return max(float(np.sum(excess - np.log1p(excess))), 0.0)


def _noncentrality(statistic: float, df: int, probability: float) -> float:
    """λ ≥ 0 with P(χ²_df(λ) ≤ statistic) = probability; zero if that is too much to ask."""
    if chi2.cdf(statistic, df) <= probability:
        return 0.0

    def gap(noncentrality: float) -> float:
        # At λ = 0 the law is the central one, of which SciPy's noncentral one need not know.
        if noncentrality == 0:
            return float(chi2.cdf(statistic, df)) - probability
        return float(ncx2.cdf(statistic, df, noncentrality)) - probability

    high = max(statistic, 1.0)
    while gap(high) > 0:
        high *= 2.0
    return float(brentq(gap, 0.0, high, xtol=1e-10 * high))


def _bartlett_weight(n: int, p: int, k: int) -> float:
    """Bartlett's n − 1 − (2p + 5)/6 − 2K/3, which brings the statistic nearest to χ²."""
    weight = whole("n", n, 2) - 1 - (2 * p + 5) / 6 - 2 * k / 3
    if weight <= 0:
        least = int(np.floor(n - weight)) + 1
        raise must_be("n", f"at least {least} rows for {p} variables and {k} factors", n)
    return weight


# --- how good are scores and scales ---


def omega_total(loadings: Any, noise_share: Any, *, columns: Any = None, keys: Any = None) -> float:
    """McDonald's ω of a sum score: the part of its variance that common factors make.

    Parameters
    ----------
    loadings : array (p, K)
        Of uncorrelated factors, on the correlation scale.
    noise_share : array (p,)
        The part of each variable's variance that the factors do not explain; one less the row
        sums of squared loadings. (In the units of the data both describe the raw sum.)
    columns : None, or indices, slice or mask of some variables
        Those that are added up; None means all.
    keys : None or array (p,) of 1 and -1
        -1 for a variable that is reversed before it is added. A scale with items of both kinds
        makes no sense without.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> L = np.array([[0.8], [0.7], [0.6], [0.5]])
    >>> round(omega_total(L, 1 - np.sum(L**2, axis=1)), 4)
    0.7494
    >>> L[0] *= -1
    >>> round(omega_total(L, 1 - np.sum(L**2, axis=1), keys=[-1, 1, 1, 1]), 4)
    0.7494
    """
    rows, noise = _loadings_and_noise(loadings, "noise_share", noise_share)
    return _omega(rows, noise, _weights(columns, keys, len(rows)))


def omega_by_group(
    loadings: Any, noise_share: Any, groups: Mapping[str, Any], *, keys: Any = None
) -> dict[str, float]:
    """`omega_total` of the sum score of each group of variables.

    Parameters
    ----------
    loadings, noise_share, keys
        As in `omega_total`.
    groups : mapping from name to indices, slice or mask of variables
        The scales.

    Returns
    -------
    dict of float

    Examples
    --------
    >>> import numpy as np
    >>> L = np.kron(np.eye(2), np.array([[0.8], [0.7], [0.6]]))
    >>> shares = 1 - np.sum(L**2, axis=1)
    >>> scales = omega_by_group(L, shares, {"first": [0, 1, 2], "second": slice(3, 6)})
    >>> {name: round(value, 3) for name, value in scales.items()}
    {'first': 0.745, 'second': 0.745}
    """
    rows, noise = _loadings_and_noise(loadings, "noise_share", noise_share)
    if not isinstance(groups, Mapping):
        raise must_be("groups", "a mapping from names to columns", groups)
    return {name: _omega(rows, noise, _weights(c, keys, len(rows))) for name, c in groups.items()}


def _omega(loadings: Array, noise: Array, weights: Array) -> float:
    common = float(np.sum((weights @ loadings) ** 2))
    total = common + float(weights**2 @ noise)
    if total <= 0:
        raise DataError("the sum of these variables does not vary; ω is not defined.")
    return common / total


def cronbach_alpha(correlation: Any, *, columns: Any = None, keys: Any = None) -> float:
    """Cronbach's α of the sum of standardised variables, for comparison with ω.

    Of a model's own correlations it is at most ω, and equal to it only if all variables load alike
    on one factor.

    Parameters
    ----------
    correlation : array (p, p)
        Correlation matrix.
    columns, keys
        As in `omega_total`; at least two variables.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> L = np.array([0.8, 0.7, 0.6, 0.5])
    >>> R = np.outer(L, L) + np.diag(1 - L**2)
    >>> round(cronbach_alpha(R), 4)
    0.7421
    """
    r = correlation_matrix("correlation", correlation)
    weights = _weights(columns, keys, len(r))
    size = int(np.sum(weights**2))
    if size < 2:
        raise must_be("columns", "at least two variables", columns)
    total = float(weights @ r @ weights)
    if total <= 0:
        raise DataError("the sum of these variables does not vary; α is not defined.")
    return size / (size - 1) * (1 - size / total)


def determinacy(loadings: Any, noise_variance: Any, *, factor_correlations: Any = None) -> Array:
    """Correlation of each factor with its best linear estimate, the regression score.

    √diag(ΦΛᵀΩ⁻¹ΛΦ) with Ω = ΛΦΛᵀ + Σ; its square is the reliability of the scores. Scores are often
    called usable for single people above 0.9; two sets of scores that fit equally well correlate
    by as little as 2 × determinacy² − 1.

    Parameters
    ----------
    loadings : array (p, K)
        On any scale; `components_.T` or `loadings_`.
    noise_variance : array (p,)
        On the scale of the loadings, above zero.
    factor_correlations : array (K, K) or None, default=None
        Φ; None for uncorrelated factors.

    Returns
    -------
    ndarray (K,)

    Examples
    --------
    >>> import numpy as np
    >>> L = np.array([[0.8], [0.7], [0.6], [0.5]])
    >>> determinacy(L, 1 - np.sum(L**2, axis=1)).round(3)
    array([0.886])
    """
    rows, noise = _loadings_and_noise(loadings, "noise_variance", noise_variance)
    if np.any(noise <= 0):
        j = int(np.argmin(noise))
        raise DataError(
            f"noise_variance must be above zero. Got {noise[j]:g} at index {j}: a variable without "
            "noise tells its factors exactly."
        )
    # ΛᵀΩ⁻¹Λ = (I + B)⁻¹B with B = ΛᵀΣ⁻¹Λ (Woodbury): no p×p matrix, no small difference.
    # Correlated factors are Tᵀη with TᵀT = Φ and Λ = (ΛTᵀ)T^{-T}: B of η, turned at the end.
    turn: Array = np.eye(rows.shape[1])
    if factor_correlations is not None and rows.shape[1] > 1:
        phi = correlation_matrix("factor_correlations", factor_correlations)
        if len(phi) != rows.shape[1]:
            raise must_be("factor_correlations", f"of {rows.shape[1]} factors", phi.shape)
        _check_definite("factor_correlations", phi)
        turn = np.asarray(np.linalg.cholesky(phi).T)
    with np.errstate(over="ignore", invalid="ignore"):
        b = turn @ ((rows.T / noise) @ rows) @ turn.T
    if not np.all(np.isfinite(b)):
        raise DataError("loadings squared, divided by noise_variance, are too large for a number.")
    # By eigenvalues, since I + B is singular to rounding error where loadings differ much in size.
    values, vectors = np.linalg.eigh(b)
    shares = np.maximum(values, 0.0) / (1.0 + np.maximum(values, 0.0))
    squared = np.diag(turn.T @ (vectors * shares) @ vectors.T @ turn)
    return np.asarray(np.sqrt(np.clip(squared, 0.0, 1.0)))


# --- what comes in ---


def correlation_matrix(name: str, value: Any) -> Array:
    """A symmetric matrix of at least two variables with a unit diagonal, or a DataError."""
    rows = check_rows(value).rows
    r = np.asarray(rows.toarray() if issparse(rows) else rows, dtype=float)
    if r.shape[0] != r.shape[1] or len(r) < 2:
        raise DataError(
            f"{name} must be a square matrix of two or more variables. Got shape {r.shape} "
            "instead; of rows of data, pass numpy.corrcoef(X, rowvar=False)."
        )
    if np.any(np.abs(r - r.T) > 1e-6):
        raise DataError(f"{name} must be symmetric. Got a matrix that is not.")
    off = np.abs(np.diag(r) - 1.0)
    if np.any(off > 1e-6):
        j = int(np.argmax(off))
        raise DataError(
            f"{name} must have a unit diagonal. Got {r[j, j]:g} at index {j} instead; divide a "
            "covariance matrix by its standard deviations first."
        )
    if np.any(np.abs(r) > 1 + 1e-6):
        raise DataError(f"{name} must have entries between -1 and 1.")
    return np.asarray((r + r.T) / 2)


def loading_matrix(name: str, value: Any) -> Array:
    """A finite matrix (p, K), K = 0 included, or a DataError."""
    rows = check_rows(value).rows
    result = np.asarray(rows.toarray() if issparse(rows) else rows, dtype=float)
    if not len(result):
        raise DataError(f"{name} must have a row for each variable. Got none.")
    if np.any(np.abs(result) > LARGEST):
        raise DataError(f"{name} must be at most {LARGEST:g}. Divide them by a common number.")
    return result


def _two_correlations(correlation: Any, model_correlation: Any) -> tuple[Array, Array]:
    r = correlation_matrix("correlation", correlation)
    model = correlation_matrix("model_correlation", model_correlation)
    if r.shape != model.shape:
        raise DataError(
            "correlation and model_correlation must be of the same variables. Got "
            f"{len(r)} and {len(model)} variables."
        )
    return r, model


def _loadings_and_noise(loadings: Any, name: str, noise: Any) -> tuple[Array, Array]:
    rows = loading_matrix("loadings", loadings)
    try:
        values = np.asarray(noise, dtype=float)
    except (TypeError, ValueError):
        values = np.full(0, np.nan)
    if values.shape != (len(rows),) or not np.all(np.isfinite(values)) or np.any(values < 0):
        raise must_be(name, f"{len(rows)} numbers not below zero, one a row of loadings", noise)
    return rows, values


def _weights(columns: Any, keys: Any, p: int) -> Array:
    """1, -1 or 0 for each variable: what the sum score does with it."""
    chosen = np.arange(p) if columns is None else check_columns(columns, p, None)
    if not len(chosen):
        raise must_be("columns", "at least one variable", columns)
    signs = np.ones(p) if keys is None else np.asarray(keys, dtype=object)
    if signs.shape != (p,) or any(sign not in (-1, 1) for sign in signs.tolist()):
        raise must_be("keys", f"None or 1 or -1 for each of the {p} variables", keys)
    weights = np.zeros(p)
    weights[chosen] = signs[chosen]
    return weights


def _fraction(name: str, value: Any) -> float:
    result = positive(name, value)
    if result >= 1:
        raise must_be(name, "between 0 and 1", value)
    return result


def _check_definite(name: str, matrix: Array) -> Array:
    """The eigenvalues, if none is at or below zero."""
    values = np.linalg.eigvalsh(matrix)
    if values[0] < SINGULAR:
        raise DataError(
            f"{name} must be positive definite. Got {values[0]:.3g} as its smallest eigenvalue: "
            "some variables are given by others, there are no more rows than variables, or the "
            "entries come from different rows. Drop variables, or use complete rows."
        )
    return np.asarray(values)


def _off_diagonal(matrix: Array) -> Array:
    return matrix - np.diag(np.diag(matrix))
