"""Sampling adequacy, fit of a factor model, and reliability of its scores and scales.

Functions of correlation matrices, loadings and the number of rows. They need no data and no fitted
model, so that they also serve for a published matrix or the loadings of another program. Those of
scores and scales are in `reliability.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from cuspfa._typing import Array
from cuspfa._utils.arguments import fraction, must_be, whole
from cuspfa.diagnostics.matrices import check_definite, correlation_matrix
from cuspfa.diagnostics.reliability import cronbach_alpha, determinacy, omega_by_group, omega_total
from cuspfa.errors import DataError

__all__ = [
    "Bartlett",
    "Kmo",
    "Rmsea",
    "bartlett",
    "cronbach_alpha",
    "determinacy",
    "kmo",
    "omega_by_group",
    "omega_total",
    "rmsea",
    "srmr",
]

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
    check_definite("correlation", r)
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

    With some hundred rows it rejects for almost any real data; it checks that variables
    correlate at all, not that factors are useful.

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
    weight = bartlett_weight(n, p, 0)
    log_det = float(np.sum(np.log(check_definite("correlation", r))))
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
    """Probability of a larger T if the model holds."""
    reason: str
    """Why values are NaN; empty if they are not."""


def rmsea(
    correlation: Any, model_correlation: Any, n: int, n_factors: int, *, prob: float = 0.9
) -> Rmsea:
    """Root mean square error of approximation with its interval (Steiger; Browne & Cudeck).

    From the maximum likelihood discrepancy F = log|M| − log|R| + tr(RM⁻¹) − p of the model M,
    times Bartlett's multiplier m, as `factanal` in R and the R package psych have it. The
    interval inverts the noncentral χ² distribution of T = mF. Values up to about 0.05 are called
    close, above 0.1 poor.

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
    prob : float, default=0.9
        Of the interval.

    Returns
    -------
    Rmsea
        A model with K factors that has no degrees of freedom left fits any matrix, and the error is
        not defined: `value`, `lower`, `upper` and `p_value` are NaN and `reason`
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
    coverage = fraction("prob", prob)
    weight = bartlett_weight(n, p, k)
    return rmsea_of(discrepancy(r, model), weight, p, k, coverage)


def rmsea_of(apart: float, weight: float, p: int, k: int, coverage: float = 0.9) -> Rmsea:
    """The RMSEA of a discrepancy F (`apart`) and the m (`weight`) that makes mF about χ²."""
    statistic = weight * apart
    df = ((p - k) ** 2 - (p + k)) // 2
    reason = ""
    if df <= 0:
        reason = f"{k} factors of {p} variables leave {df} degrees of freedom"
    elif weight <= 0:
        reason = "no row has values of two variables"
    if reason:
        nan = float("nan")
        return Rmsea(nan, nan, nan, statistic, df, nan, reason)
    excess = max(statistic - df, 0.0)
    low = _noncentrality(statistic, df, (1 + coverage) / 2)
    high = _noncentrality(statistic, df, (1 - coverage) / 2)
    value, lower, upper = (float(np.sqrt(x / (df * weight))) for x in (excess, low, high))
    return Rmsea(value, lower, upper, statistic, df, float(chi2.sf(statistic, df)), "")


def discrepancy(r: Array, model: Array) -> float:
    """F of the eigenvalues e of RM⁻¹: Σ(e − 1 − log e), a sum of terms that are not negative."""
    check_definite("correlation", r)
    check_definite("model_correlation", model)
    excess = eigh(r, model, eigvals_only=True) - 1.0
    return max(float(np.sum(excess - np.log1p(excess))), 0.0)


def _noncentrality(statistic: float, df: int, probability: float) -> float:
    """λ ≥ 0 with P(χ²_df(λ) ≤ statistic) = probability; 0 if there is none."""
    if chi2.cdf(statistic, df) <= probability:
        return 0.0

    def gap(noncentrality: float) -> float:
        # At λ = 0 the distribution is the central one; SciPy's noncentral one may fail there.
        if noncentrality == 0:
            return float(chi2.cdf(statistic, df)) - probability
        return float(ncx2.cdf(statistic, df, noncentrality)) - probability

    high = max(statistic, 1.0)
    while gap(high) > 0:
        high *= 2.0
    return float(brentq(gap, 0.0, high, xtol=1e-10 * high))


def bartlett_weight(n: int, p: int, k: int) -> float:
    """Bartlett's n − 1 − (2p + 5)/6 − 2K/3, which brings the statistic nearest to χ²."""
    weight = whole("n", n, 2) - 1 - (2 * p + 5) / 6 - 2 * k / 3
    if weight <= 0:
        least = int(np.floor(n - weight)) + 1
        raise must_be("n", f"at least {least} rows for {p} variables and {k} factors", n)
    return weight


# --- inside ---


def _two_correlations(correlation: Any, model_correlation: Any) -> tuple[Array, Array]:
    r = correlation_matrix("correlation", correlation)
    model = correlation_matrix("model_correlation", model_correlation)
    if r.shape != model.shape:
        raise DataError(
            "correlation and model_correlation must be of the same variables. Got "
            f"{len(r)} and {len(model)} variables."
        )
    return r, model


def _off_diagonal(matrix: Array) -> Array:
    return matrix - np.diag(np.diag(matrix))
