"""What a person wants to know of a fit: a page of text, and the same as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cuspfa._checks import generator
from cuspfa._types import Array
from cuspfa.errors import DataError
from cuspfa.posterior.adequacy import bartlett, determinacy, kmo, omega_total, rmsea, srmr
from cuspfa.posterior.axes import principal_axes
from cuspfa.posterior.base import Interval, Posterior
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.retention import minimum_average_partial, parallel_analysis

FORMAT, VERSION = "cuspfa-summary", 1
MIN_SHARE = 0.03
"""A factor that explains less of the variance is called small."""
QUICK, WIDE = 60, 400
"""Columns up to which parallel analysis is by factors, and up to which it is made at all."""
CHECKS = 200
"""Replicated data sets of the predictive check."""


class FactorLine(NamedTuple):
    """One factor, on the posterior's axes."""

    share: float
    """Share of the variables' variance, the median of draws."""
    lower: float
    upper: float
    """95 % interval of the share."""
    determinacy: float
    """Correlation of the factor with its scores."""
    strongest: list[tuple[str, float]]
    """Variables of largest loading."""


class FitMeasures(NamedTuple):
    """How the model fits the sample correlations; NaN where it cannot be said."""

    srmr: float
    rmsea: float
    rmsea_lower: float
    rmsea_upper: float
    predictive_p: float
    """Share of replicated data further from the model than the data are."""
    kmo: float
    bartlett_p: float
    omega: float
    """ω total of all variables, keyed by the first factor."""


@dataclass(frozen=True)
class Summary:
    """`print` it, or read its fields."""

    headline: str
    n_rows: int
    n_columns: int
    factors: list[FactorLine]
    fit: FitMeasures | None
    parallel: int | None
    """Parallel analysis."""
    partial: int | None
    """Velicer's minimum average partial."""

    def __str__(self) -> str:
        lines = [self.headline, f"{self.n_rows} rows, {self.n_columns} columns", ""]
        if self.factors:
            lines.append("factor  share   95 % interval  determinacy  largest loadings")
        for number, line in enumerate(self.factors, 1):
            span = f"{100 * line.lower:.1f} – {100 * line.upper:.1f} %"
            top = ", ".join(f"{name[:9]} {value:+.2f}" for name, value in line.strongest[:2])
            lines.append(
                f"{number:6d} {100 * line.share:5.1f} % {span:>15}  {line.determinacy:11.2f}  {top}"
            )
        if self.fit is not None:
            lines += ["", *_fit_lines(self.fit)]
        others = [
            f"{name} {count}"
            for name, count in (("parallel analysis", self.parallel), ("MAP", self.partial))
            if count is not None
        ]
        if others:
            lines.append(f"number of factors by other rules: {', '.join(others)}")
        return "\n".join(line[:80].rstrip() for line in lines)


def _fit_lines(fit: FitMeasures) -> list[str]:
    close = f"RMSEA {fit.rmsea:.3f} ({fit.rmsea_lower:.3f} – {fit.rmsea_upper:.3f})"
    bartlett_p = "< 0.001" if fit.bartlett_p < 0.001 else f"{fit.bartlett_p:.3f}"
    words = [
        (fit.srmr, f"SRMR {fit.srmr:.3f}"),
        (fit.rmsea, close),
        (fit.predictive_p, f"predictive p {fit.predictive_p:.2f}"),
        (fit.kmo, f"KMO {fit.kmo:.2f}"),
        (fit.bartlett_p, f"Bartlett p {bartlett_p}"),
        (fit.omega, f"omega total {fit.omega:.2f}"),
    ]
    said = [word for value, word in words if not math.isnan(value)]
    return [", ".join(said[:3]), ", ".join(said[3:])] if len(said) > 3 else [", ".join(said)]


def headline(n_factors: int, large: int, parallel: int | None) -> str:
    """The first line of every summary: never the number of factors alone."""
    percent = f"{100 * MIN_SHARE:.0f} %"
    beside = "" if parallel is None else f" (parallel analysis: {parallel})"
    if n_factors == 0:
        return f"No factors{beside}"
    noun = "1 factor" if n_factors == 1 else f"{n_factors} factors"
    if n_factors == 1:
        what = "which explains more" if large else "which explains less"
        return f"{noun}, {what} than {percent} of the variance{beside}"
    which = "all" if large == n_factors else "none" if large == 0 else str(large)
    return f"{noun}, {which} of which explain more than {percent} each{beside}"


def summarise(posterior: Posterior, draws: Draws) -> Summary:
    """The summary of a posterior, with intervals from these draws."""
    names = column_names(posterior)
    solution, flat = posterior.solution, posterior.standard_loadings
    loadings = solution.loadings
    share, (lower, upper) = _shares(posterior, draws)
    noise = 1.0 - np.sum(flat**2, axis=1)
    determined = np.zeros(0)
    if len(share):
        determined = determinacy(loadings, noise, factor_correlations=solution.correlations)
    factors = [
        FactorLine(
            float(share[h]),
            float(lower[h]),
            float(upper[h]),
            float(determined[h]),
            _strongest(loadings[:, h], names),
        )
        for h in range(len(share))
    ]
    correlation = posterior.sample_correlation
    parallel = partial = None
    fit = None
    if correlation is not None and len(names) > 1:
        fit = fit_measures(posterior, correlation, draws)
        parallel, partial = other_rules(correlation, posterior.n_rows)
    # How many are large should not depend on the axes they are shown on.
    large = int(np.sum(np.median(draws.variance_share, axis=0) > MIN_SHARE))
    line = headline(len(share), large, parallel)
    return Summary(line, posterior.n_rows, len(names), factors, fit, parallel, partial)


def _shares(posterior: Posterior, draws: Draws) -> tuple[Array, Interval]:
    """Of the variance, by factor: medians and intervals of draws."""
    if posterior.rotation is None:
        found = posterior.interval("variance_share", draws=draws)
        return np.median(draws.variance_share, axis=0)[: posterior.n_shown(draws)], found
    drawn = posterior.align(draws=draws).variance_share
    return np.median(drawn, axis=0), Interval(*np.quantile(drawn, [0.025, 0.975], axis=0))


def other_rules(correlation: Array, n: int) -> tuple[int | None, int | None]:
    """Parallel analysis and Velicer's MAP, where they make sense; the same every time."""
    p = len(correlation)
    if n <= p + 1 or p > WIDE:
        return None, None
    kind = "factors" if p <= QUICK else "components"
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
    model, n, p = omega / sd[:, None] / sd, posterior.n_rows, len(sd)
    nan = math.nan
    values = dict.fromkeys(("value", "lower", "upper", "kmo", "p"), nan)
    if n > p + 1:
        try:
            close = rmsea(correlation, model, n, posterior.n_active)
            values |= {"value": close.value, "lower": close.lower, "upper": close.upper}
            values |= {"kmo": kmo(correlation).overall, "p": bartlett(correlation, n).p_value}
        except DataError:
            pass  # a singular matrix: these do not exist
    loadings = principal_axes(posterior.standard_loadings)
    total = nan
    if loadings.shape[1] and p > 1:
        keys = np.where(loadings[:, 0] < 0, -1.0, 1.0)
        total = omega_total(loadings, 1.0 - np.sum(loadings**2, axis=1), keys=keys)
    return FitMeasures(
        srmr(correlation, model),
        values["value"],
        values["lower"],
        values["upper"],
        predictive_p(correlation, n, draws) if p <= WIDE else nan,
        values["kmo"],
        values["p"],
        total,
    )


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


def _strongest(column: Array, names: list[str], number: int = 4) -> list[tuple[str, float]]:
    order = np.argsort(-np.abs(column))[:number]
    return [(names[j], float(column[j])) for j in order]


def column_names(posterior: Posterior) -> list[str]:
    """The data's own, or numbers."""
    p = len(posterior.noise_variance)
    return list(posterior.names) if posterior.names is not None else [f"x{j}" for j in range(p)]


def as_dict(posterior: Posterior, draws: Draws, scores: Any = None) -> dict[str, Any]:
    """Plain values for JSON; of the rows nothing, unless scores are given."""
    found = summarise(posterior, draws)
    communality = posterior.interval("communality", draws=draws)
    noise = posterior.interval("noise_variance", draws=draws)
    solution, rotation = posterior.solution, posterior.rotation
    table = posterior.align(draws=draws).table()
    large = np.median(draws.variance_share, axis=0) > MIN_SHARE
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "headline": found.headline,
        "n_rows": found.n_rows,
        "columns": column_names(posterior),
        "n_factors": len(found.factors),
        "n_large_factors": int(np.sum(large)),
        "large_share": MIN_SHARE,
        "factors": [
            {
                "share": line.share,
                "interval": [line.lower, line.upper],
                "determinacy": line.determinacy,
            }
            for line in found.factors
        ],
        "rotation": None if rotation is None else rotation.method,
        "loadings": solution.loadings.tolist(),
        "loadings_interval": [table.lower.tolist(), table.upper.tolist()],
        "loadings_false_sign_rate": table.false_sign_rate.tolist(),
        "factor_correlations": solution.correlations.tolist(),
        "communality": np.median(draws.communality, axis=0).tolist(),
        "communality_interval": [communality.lower.tolist(), communality.upper.tolist()],
        "noise_variance": posterior.noise_variance.tolist(),
        "noise_variance_interval": [noise.lower.tolist(), noise.upper.tolist()],
        "fit": None
        if found.fit is None
        else {key: _plain(value) for key, value in found.fit._asdict().items()},
        "other_rules": {
            "parallel_analysis": found.parallel,
            "minimum_average_partial": found.partial,
        },
    }
    if scores is not None:
        content["scores"] = np.asarray(scores, dtype=float).tolist()
    return content


def _plain(value: float) -> float | None:
    """JSON knows no NaN."""
    return None if math.isnan(value) else float(value)
