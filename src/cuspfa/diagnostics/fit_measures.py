"""How a model fits the sample correlations, and what other rules make of these."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import generator
from cuspfa.diagnostics.fit_indices import Rmsea, bartlett, discrepancy, kmo, rmsea, rmsea_of, srmr
from cuspfa.diagnostics.reliability import omega_total
from cuspfa.diagnostics.retention import minimum_average_partial, parallel_analysis
from cuspfa.errors import DataError
from cuspfa.posterior.draws import Draws
from cuspfa.rotation.axes import principal_axes

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

QUICK, WIDE = 60, 400
"""Columns up to which parallel analysis is by factors, and up to which it is made at all."""
CHECKS = 200
"""Replicated data sets of the predictive check."""
RESIDUALS = 3
"""Largest residual correlations that are named."""


class FitMeasures(NamedTuple):
    """How the model fits the sample correlations; NaN where it cannot be said."""

    srmr: float
    rmsea: float
    rmsea_lower: float
    rmsea_upper: float
    predictive_p: float
    """Share of replicated data further from the model than the data are."""
    chi_square: float
    """The likelihood ratio behind the RMSEA."""
    df: float
    chi_square_p: float
    kmo: float
    bartlett_p: float
    omega: float
    """ω total of all variables, keyed by the first factor."""


class Residual(NamedTuple):
    """A pair of variables, and the sample's correlation less the model's."""

    first: str
    second: str
    value: float


def other_rules(correlation: Array, n: int | None) -> tuple[int | None, int | None]:
    """Parallel analysis and Velicer's MAP, where they make sense; the same every time."""
    p = len(correlation)
    if n is None or n <= p + 1 or p > WIDE:
        return None, None
    kind: Literal["factors", "components"] = "factors" if p <= QUICK else "components"
    try:
        parallel = parallel_analysis(correlation, n, n_draws=40, kind=kind, random_state=0)
        partial = minimum_average_partial(correlation)
    except DataError:  # columns that depend on each other
        return None, None
    return parallel.n_factors, partial.n_factors


def fit_measures(posterior: Posterior, correlation: Array, draws: Draws) -> FitMeasures:
    """All that needs only the sample correlations."""
    omega = posterior.covariance
    sd = np.sqrt(np.diag(omega))
    model, n, p = omega / sd[:, None] / sd, posterior.correlation_rows, len(sd)
    nan = math.nan
    values = dict.fromkeys(("value", "lower", "upper", "chi", "df", "chi_p", "kmo", "p"), nan)
    if n is not None and n > p + 1:
        try:
            close = _close(posterior, correlation, model, n)
            values |= {"value": close.value, "lower": close.lower, "upper": close.upper}
            values |= {"chi": close.statistic, "df": float(close.df), "chi_p": close.p_value}
            values |= {"kmo": kmo(correlation).overall, "p": bartlett(correlation, n).p_value}
        except DataError:
            pass  # a singular matrix: these do not exist
    loadings = principal_axes(posterior.standardized_loadings)
    total = nan
    if loadings.shape[1] and p > 1:
        keys = np.where(loadings[:, 0] < 0, -1.0, 1.0)
        total = omega_total(loadings, 1.0 - np.sum(loadings**2, axis=1), keys=keys)
    return FitMeasures(
        srmr(correlation, model),
        values["value"],
        values["lower"],
        values["upper"],
        predictive_p(correlation, n, draws) if n is not None and n > 2 and p <= WIDE else nan,
        values["chi"],
        values["df"],
        values["chi_p"],
        values["kmo"],
        values["p"],
        total,
    )


def _close(posterior: Posterior, correlation: Array, model: Array, n: int) -> Rmsea:
    """With missing values by the likelihood of what was observed, else by that of n rows."""
    k = posterior.n_active
    if posterior.effective is None:
        return rmsea(correlation, model, n, k)
    return rmsea_of(discrepancy(correlation, model), posterior.effective.discrepancy, len(model), k)


def predictive_p(correlation: Array, n: int, draws: Draws) -> float:
    """Posterior predictive check of the correlation matrix.

    For each draw of Ω, the sum of squared differences between correlations of n new rows and those
    of Ω is compared with that of the data: near 0 means that the model misses correlations, near 1
    that data were used twice and fit is closer than new data would be.
    """
    rng = generator(0)
    worse, size = 0, min(CHECKS, len(draws))
    upper = np.triu_indices(len(correlation), 1)
    for number in range(size):
        loadings, noise = draws.loadings[number], draws.noise_variance[number]
        omega = loadings @ loadings.T
        omega[np.diag_indices_from(omega)] += noise
        model = _correlation(omega)[upper]
        replicated = _replicate(loadings, noise, n - 1, omega, rng)[upper]
        observed = np.sum((correlation[upper] - model) ** 2)
        worse += bool(np.sum((replicated - model) ** 2) >= observed)
    return worse / size


def _replicate(
    loadings: Array, noise: Array, freedom: int, omega: Array, rng: np.random.Generator
) -> Array:
    """Sample correlations of new data: rows, or Bartlett's triangle where rows are many."""
    p, k = loadings.shape
    if freedom <= p:
        rows = rng.standard_normal((freedom, k)) @ loadings.T
        rows += rng.standard_normal((freedom, p)) * np.sqrt(noise)
        return _correlation(rows.T @ rows)
    lower = np.tril(rng.standard_normal((p, p)), -1)
    lower[np.diag_indices(p)] = np.sqrt(rng.chisquare(freedom - np.arange(p)))
    root = np.linalg.cholesky(omega) @ lower
    return _correlation(root @ root.T)


def _correlation(covariance: Array) -> Array:
    sd = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / sd[:, None] / sd)


def largest_residuals(posterior: Posterior, names: list[str]) -> tuple[Residual, ...]:
    """Pairs of variables whose correlation the model misses most."""
    correlation = posterior.sample_correlation
    if correlation is None or len(names) < 3:
        return ()
    difference = np.triu(correlation - _correlation(posterior.covariance), 1)
    chosen = np.argsort(-np.abs(difference), axis=None, kind="stable")[:RESIDUALS]
    places = zip(*np.unravel_index(chosen, difference.shape), strict=True)
    return tuple(Residual(names[i], names[j], float(difference[i, j])) for i, j in places)
