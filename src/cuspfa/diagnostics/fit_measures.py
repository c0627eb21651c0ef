"""Measures of fit to the sample correlations, and the number of factors by other rules."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import generator
from cuspfa._utils.wishart import wishart_root
from cuspfa.diagnostics.fit_indices import (
    Rmsea,
    bartlett,
    bartlett_weight,
    discrepancy,
    kmo,
    rmsea,
    rmsea_of,
    srmr,
)
from cuspfa.diagnostics.reliability import omega_total
from cuspfa.diagnostics.retention import (
    ParallelAnalysis,
    minimum_average_partial,
    parallel_analysis,
)
from cuspfa.errors import DataError
from cuspfa.model.model_error import ModelError, Sample, draw_population
from cuspfa.posterior.draws import Draws
from cuspfa.rotation.axes import principal_axes

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

WIDEST_BY_FACTORS, WIDEST_ANALYSED = 60, 400
"""Columns up to which parallel analysis is by factors, and up to which it is made at all."""
PREDICTIVE_CHECKS = 200
"""Replicated data sets of the predictive check."""
RESIDUALS_NAMED = 3
"""Largest residual correlations that are named."""


class FitMeasures(NamedTuple):
    """Measures of fit of the model to the sample correlations; NaN where one is not defined.

    They are about Ω, the covariance of the factor model, also where an error of the model is
    tolerated; only `predictive_p` then allows for that error.
    """

    srmr: float
    rmsea: float
    rmsea_lower: float
    rmsea_upper: float
    predictive_p: float
    """Share of replicated data sets that are further from the model than the data."""
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


def eigenvalues_beside_noise(correlation: Array, n: int | None) -> ParallelAnalysis | None:
    """Parallel analysis by factors or, of many columns, by components; None if not defined."""
    p = len(correlation)
    if n is None or n <= p + 1 or p > WIDEST_ANALYSED:
        return None
    kind: Literal["factors", "components"] = "factors" if p <= WIDEST_BY_FACTORS else "components"
    try:
        return parallel_analysis(correlation, n, n_draws=40, kind=kind, random_state=0)
    except DataError:  # columns that depend on each other
        return None


def other_rules(correlation: Array, n: int | None) -> tuple[int | None, int | None]:
    """The number of factors by parallel analysis and by Velicer's MAP, where they are defined."""
    parallel = eigenvalues_beside_noise(correlation, n)
    if parallel is None:
        return None, None
    return parallel.n_factors, minimum_average_partial(correlation).n_factors


def fit_measures(posterior: Posterior, correlation: Array, draws: Draws) -> FitMeasures:
    """Measures of fit from the sample correlations and draws of the posterior."""
    model, n = _correlation(posterior.covariance), posterior.correlation_rows
    p = len(model)
    measures = dict.fromkeys(FitMeasures._fields, math.nan)
    measures["srmr"] = srmr(correlation, model)
    if n is not None and n > p + 1:
        try:
            close = _close(posterior, correlation, model, n)
            measures |= {"rmsea": close.value, "chi_square": close.statistic, "df": float(close.df)}
            measures |= {"rmsea_lower": close.lower, "rmsea_upper": close.upper}
            measures["chi_square_p"] = close.p_value
            measures["kmo"] = kmo(correlation).overall
            measures["bartlett_p"] = bartlett(correlation, n).p_value
        except DataError:
            pass  # a singular matrix: these do not exist
    if n is not None and n > 2 and p <= WIDEST_ANALYSED:
        error = ModelError.of_size(posterior.model_error, p) if posterior.model_error else None
        measures["predictive_p"] = predictive_p(correlation, n, draws, error)
    loadings = principal_axes(posterior.standardized_loadings)
    if loadings.shape[1] and p > 1:
        keys = np.where(loadings[:, 0] < 0, -1.0, 1.0)
        noise = 1.0 - np.sum(loadings**2, axis=1)
        measures["omega"] = omega_total(loadings, noise, keys=keys)
    return FitMeasures(**measures)


def _close(posterior: Posterior, correlation: Array, model: Array, n: int) -> Rmsea:
    """The RMSEA, with missing values by the likelihood of the observed values.

    The effective rows are such that the statistic has the mean of n complete rows, which Bartlett's
    multiplier of n rows corrects.
    """
    k, p = posterior.n_active, len(model)
    if posterior.effective is None:
        return rmsea(correlation, model, n, k)
    rows = int(posterior.n_rows)
    weight = posterior.effective.discrepancy * bartlett_weight(rows, p, k) / rows
    return rmsea_of(discrepancy(correlation, model), weight, p, k)


def predictive_p(
    correlation: Array, n: int, draws: Draws, error: ModelError | None = None
) -> float:
    """Posterior predictive check of the correlation matrix.

    For each draw of Ω, the sum of squared differences between correlations of n new rows and those
    of Ω is compared with that of the data. Near 0 the model misses correlations. Near 1 it fits the
    data, which were used twice, more closely than it would fit new data. With model error the rows
    are those of a new population, Σ̃ ~ IW(m, mΩ).
    """
    rng = generator(0)
    worse, size = 0, min(PREDICTIVE_CHECKS, len(draws))
    upper = np.triu_indices(len(correlation), 1)
    for number in range(size):
        loadings, noise = draws.loadings[number], draws.noise_variance[number]
        omega = loadings @ loadings.T
        omega[np.diag_indices_from(omega)] += noise
        model = _correlation(omega)[upper]
        if error is not None:
            nothing = Sample(np.zeros_like(omega), 0.0)
            population = draw_population(omega[None], nothing, error, rng)[0]
            # The roots of the population as loadings, and no noise.
            replicated = _replicated_correlation(
                np.linalg.cholesky(population), np.zeros(len(omega)), n - 1, population, rng
            )[upper]
        else:
            replicated = _replicated_correlation(loadings, noise, n - 1, omega, rng)[upper]
        observed = np.sum((correlation[upper] - model) ** 2)
        worse += bool(np.sum((replicated - model) ** 2) >= observed)
    return worse / size


def _replicated_correlation(
    loadings: Array, noise: Array, freedom: int, omega: Array, rng: np.random.Generator
) -> Array:
    """Sample correlations of new data: rows, or Bartlett's triangle where rows are many."""
    p, k = loadings.shape
    if freedom <= p:
        rows = rng.standard_normal((freedom, k)) @ loadings.T
        rows += rng.standard_normal((freedom, p)) * np.sqrt(noise)
        return _correlation(rows.T @ rows)
    root = np.linalg.cholesky(omega) @ wishart_root(freedom, 1, p, rng)[0]
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
    chosen = np.argsort(-np.abs(difference), axis=None, kind="stable")[:RESIDUALS_NAMED]
    places = zip(*np.unravel_index(chosen, difference.shape), strict=True)
    return tuple(Residual(names[i], names[j], float(difference[i, j])) for i, j in places)
