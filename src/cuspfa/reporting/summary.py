"""The summary of a fit, as text and as plain values."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from cuspfa._typing import Array
from cuspfa.diagnostics.fit_measures import (
    FitMeasures,
    Residual,
    fit_measures,
    largest_residuals,
    other_rules,
)
from cuspfa.diagnostics.reliability import determinacy
from cuspfa.posterior.draws import N_DRAWS, Draws, Interval
from cuspfa.posterior.fit_info import SearchEntry
from cuspfa.reporting.labels import short_names, width

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior
    from cuspfa.posterior.variational import VariationalPosterior

FORMAT, VERSION = "cuspfa-summary", 1
MIN_SHARE = 0.03
"""A factor that explains less of the variance is called small."""
UNSURE = math.sqrt(0.5)
"""With a smaller determinacy two sets of scores may both be right and correlate negatively."""
ODDS = 7
"""The smallest number of factors within these odds of the best, and two errors, is taken."""
SHOWN = 12
"""Factors in the text of a summary; of one more than that all are shown."""
DEAD = 1e-8
"""A factor with a smaller share of the variance than this has no loadings worth the name."""
FEWEST, NUMBERS = 100, 4e6
"""Draws behind the intervals of a summary: with many loadings fewer, for memory and time."""
MANY, N_DRAWS_OF_MANY = 40, 200
"""Of more factors than the first there are at most so many draws, with one exact sweep each."""


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
    remark: str = ""
    """Why this number of factors, where another has more weight."""
    residuals: tuple[Residual, ...] = ()
    """Largest differences of the sample correlations from the model's."""

    columns: tuple[str, ...] = ()
    """Names of all variables."""

    def __str__(self) -> str:
        lines = [self.headline]
        lines += textwrap.wrap(self.remark, 80, subsequent_indent="  ")
        lines += [f"{self.n_rows} rows, {self.n_columns} columns", ""]
        lines += _factor_lines(self.factors, self.columns)
        if self.fit is not None:
            lines += ["", *_fit_lines(self.fit)]
        if self.residuals:
            lines.append(_residual_line(self.residuals, self.columns))
        others = [
            f"{name} {count}"
            for name, count in (("parallel analysis", self.parallel), ("MAP", self.partial))
            if count is not None
        ]
        if others:
            lines.append(f"number of factors by other rules: {', '.join(others)}")
        return "\n".join(line.rstrip() for line in lines)


def _factor_lines(factors: list[FactorLine], columns: tuple[str, ...]) -> list[str]:
    if not factors:
        return []
    lines = ["factor  share %  95 % interval  cum. %  determ.  largest loadings"]
    number, room = (2, 9) if max(map(width, columns), default=0) <= 9 else (1, 25)
    names = dict(zip(columns, short_names(columns, room), strict=True))
    total = 0.0
    shown = factors if len(factors) <= SHOWN + 1 else factors[:SHOWN]
    for place, line in enumerate(shown, 1):
        total += 100 * line.share
        span = f"{100 * line.lower:.1f} – {100 * line.upper:.1f}"
        sign = "*" if line.determinacy < UNSURE else " "
        top = [f"{names.get(name, name)} {value:+.2f}" for name, value in line.strongest[:number]]
        lines.append(
            f"{place:6d} {100 * line.share:8.1f} {span:>14} {total:7.1f} {line.determinacy:8.2f}"
            f"{sign} {', '.join(top)}"
        )
    if rest := factors[len(shown) :]:
        together = 100 * sum(line.share for line in rest)
        lines.append(f"   and {len(rest)} more, together {together:.1f} % of the variance")
    if any(line.determinacy < UNSURE for line in shown):
        lines.append(f"* below {UNSURE:.2f}: too little is known of a row's score to rely on it")
    return lines


def _fit_lines(fit: FitMeasures) -> list[str]:
    close = f"RMSEA {fit.rmsea:.3f} (90 %: {fit.rmsea_lower:.3f} – {fit.rmsea_upper:.3f})"
    ratio = f"chi² {fit.chi_square:.1f}, df {fit.df:.0f}, p {_p(fit.chi_square_p)}"
    check = f"predictive p {fit.predictive_p:.2f} (0 is bad)"
    lines = [
        [(fit.srmr, f"SRMR {fit.srmr:.3f}"), (fit.rmsea, close), (fit.predictive_p, check)],
        [
            (fit.chi_square_p, ratio),
            (fit.kmo, f"KMO {fit.kmo:.2f}"),
            (fit.bartlett_p, f"Bartlett p {_p(fit.bartlett_p)}"),
            (fit.omega, f"omega total {fit.omega:.2f}"),
        ],
    ]
    said = [", ".join(word for value, word in line if not math.isnan(value)) for line in lines]
    return [line for line in said if line]


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _residual_line(residuals: tuple[Residual, ...], columns: tuple[str, ...]) -> str:
    short_ones = max(map(width, columns), default=0) <= 7
    names = dict(zip(columns, short_names(columns, 7 if short_ones else 26), strict=True))
    shown = residuals if short_ones else residuals[:1]
    pairs = [f"{names[one.first]} & {names[one.second]} {one.value:+.2f}" for one in shown]
    return f"largest residual{'s' * (len(pairs) > 1)}: {', '.join(pairs)}"


def headline(n_factors: int, large: int, parallel: int | None, alive: int | None = None) -> str:
    """The first line of every summary: never the number of factors alone.

    `alive` is how many of a number that was asked for have loadings.
    """
    percent = f"{100 * MIN_SHARE:.0f} %"
    beside = "" if parallel is None else f" (parallel analysis: {parallel})"
    if n_factors == 0:
        return f"No factors{beside}"
    noun = "1 factor" if n_factors == 1 else f"{n_factors} factors"
    if alive is not None and alive < n_factors:
        return f"{noun} asked for, {alive or 'none'} with loadings{beside}"
    if n_factors == 1:
        what = "which explains more" if large else "which explains less"
        return f"{noun}, {what} than {percent} of the variance{beside}"
    which = "all" if large == n_factors else "none" if large == 0 else str(large)
    return f"{noun}, {which} of which explain more than {percent} each{beside}"


def summarise(posterior: Posterior, draws: Draws) -> Summary:
    """The summary of a posterior, with intervals from these draws."""
    names = posterior.column_names
    rotated_solution, flat = posterior.rotated_solution, posterior.standardized_loadings
    loadings = rotated_solution.loadings
    share, (lower, upper) = factor_shares(posterior, draws)
    noise = 1.0 - np.sum(flat**2, axis=1)
    determined = np.zeros(0)
    if len(share):
        determined = determinacy(loadings, noise, factor_correlations=rotated_solution.correlations)
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
        parallel, partial = other_rules(correlation, posterior.correlation_rows)
    # How many are large should not depend on the axes they are shown on.
    large = int(np.sum(np.median(draws.explained_variance_ratio, axis=0) > MIN_SHARE))
    alive = int(np.sum(posterior.explained_variance_ratio > DEAD))
    line = headline(len(share), large, parallel, alive)
    return Summary(
        line,
        posterior.n_rows,
        len(names),
        factors,
        fit,
        parallel,
        partial,
        why_not_more(posterior),
        largest_residuals(posterior, names),
        tuple(names),
    )


def summary_draws(posterior: Posterior) -> Draws:
    """The draws behind the intervals of the program and of a report, the same every time."""
    size = max(len(posterior.noise_variance) * posterior.n_active, 1)
    number = int(np.clip(NUMBERS / size, FEWEST, N_DRAWS))
    if posterior.n_active <= MANY:
        return posterior.draw(number, random_state=0)
    number = min(number, N_DRAWS_OF_MANY)
    if posterior.kind == "gibbs" or posterior.statistics is None:
        return posterior.draw(number, random_state=0)
    return cast("VariationalPosterior", posterior).draw(number, random_state=0, sweeps=1)


def factor_shares(posterior: Posterior, draws: Draws) -> tuple[Array, Interval]:
    """Shares of the variance by factor on the posterior's axes: medians and 95 % intervals."""
    if posterior.rotation is None:
        found = posterior.interval("explained_variance_ratio", draws=draws)
        return np.median(draws.explained_variance_ratio, axis=0)[: posterior.n_shown(draws)], found
    drawn = posterior.align(draws=draws).explained_variance_ratio
    return np.median(drawn, axis=0), Interval(*np.quantile(drawn, [0.025, 0.975], axis=0))


def why_not_more(posterior: Posterior) -> str:
    """Why this number of factors, where another has more weight or might have been chosen."""
    search = [] if posterior.fit_info is None else posterior.fit_info.search
    weights = {one.n_factors: one.weight for one in search if one.weight > 0}
    k = posterior.n_active
    best = max(weights, key=lambda number: weights[number], default=k)
    rule = f"the smallest number within 2 nats (odds of {ODDS} to 1) and two errors of the best"
    if tied := [one for one in search if one.tied]:
        own = next(one for one in search if one.n_factors == k)
        others = " or ".join(f"{one.n_factors} ({_evidence(one)})" for one in tied)
        if math.isnan(own.evidence):
            return (
                f"The bound is highest for {k} factors ({_evidence(own)}). It differs by less than "
                f"twice the tolerance from that for {others}."
            )
        return (
            f"By its log evidence, {k} ({_evidence(own)}) is {rule}. Other draws might choose "
            f"{others}: that limit is less than three errors away."
        )
    if k in weights and best > k:
        return (
            f"The weight of evidence is {weights[best]:.2f} for {best} and {weights[k]:.2f} for "
            f"{k}, which is {rule}."
        )
    return ""


def _evidence(entry: SearchEntry) -> str:
    """Its evidence with the error, or its bound."""
    if math.isnan(entry.evidence):
        return f"{entry.lower_bound:.1f}"
    return f"{entry.evidence:.1f} ± {entry.evidence_error:.1f}"


def _strongest(column: Array, names: list[str], number: int = 4) -> list[tuple[str, float]]:
    order = np.argsort(-np.abs(column))[:number]
    return [(names[j], float(column[j])) for j in order]


def as_dict(posterior: Posterior, draws: Draws, scores: Any = None) -> dict[str, Any]:
    """Plain values for JSON. They hold nothing of single rows, unless scores are given."""
    found = summarise(posterior, draws)
    communality = posterior.interval("communality", draws=draws)
    noise = posterior.interval("noise_variance", draws=draws)
    rotated_solution, rotation = posterior.rotated_solution, posterior.rotation
    table = posterior.align(draws=draws).table()
    large = np.median(draws.explained_variance_ratio, axis=0) > MIN_SHARE
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "headline": found.headline,
        "remark": found.remark,
        "n_rows": found.n_rows,
        "columns": posterior.column_names,
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
        "loadings": rotated_solution.loadings.tolist(),
        "loadings_interval": [table.lower.tolist(), table.upper.tolist()],
        "loadings_false_sign_rate": table.false_sign_rate.tolist(),
        "factor_correlations": rotated_solution.correlations.tolist(),
        "communality": np.median(draws.communality, axis=0).tolist(),
        "communality_interval": [communality.lower.tolist(), communality.upper.tolist()],
        "noise_variance": posterior.noise_variance.tolist(),
        "noise_variance_interval": [noise.lower.tolist(), noise.upper.tolist()],
        "fit": None
        if found.fit is None
        else {key: _plain(value) for key, value in found.fit._asdict().items()},
        "largest_residuals": [one._asdict() for one in found.residuals],
        "other_rules": {
            "parallel_analysis": found.parallel,
            "minimum_average_partial": found.partial,
        },
    }
    if scores is not None:
        content["scores"] = np.asarray(scores, dtype=float).tolist()
    return content


def _plain(value: float) -> float | None:
    """None in place of NaN, which JSON does not have."""
    return None if math.isnan(value) else float(value)
