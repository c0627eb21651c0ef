"""The summary of a fit, as text and as plain values."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import (
    FewRowsForCounts,
    FewRowsForFactors,
    FitWarning,
    ModelErrorNotLearned,
)
from cuspfa._utils.wording import capitalized, counted, p_value
from cuspfa.data.screening.column_kinds import KindGroup
from cuspfa.diagnostics.cautions import cautions
from cuspfa.diagnostics.fit_measures import (
    FitMeasures,
    Residual,
    fit_measures,
    largest_residuals,
    other_rules,
)
from cuspfa.diagnostics.reliability import determinacy
from cuspfa.model.likelihoods.kinds import LikelihoodTable
from cuspfa.posterior.draws import N_DRAWS, Draws, Interval
from cuspfa.posterior.error_curve import TOLERABLE, ModelErrorCurve
from cuspfa.posterior.fit_info import ModelErrorPath, SearchEntry
from cuspfa.reporting.headline import (
    PAGE_WIDTH,
    Count,
    LargeShare,
    curve_lines,
    headline,
    large_share,
    strength,
)
from cuspfa.reporting.kinds_text import kinds_as_json, kinds_text, likelihood_text, model_text
from cuspfa.reporting.labels import short_names, shortened, width
from cuspfa.reporting.outlying_rows import OutlyingRows, rows_of_small_weight
from cuspfa.reporting.provenance_text import caution_text
from cuspfa.reporting.recipe import NextStep, next_step
from cuspfa.rotation.axes import EMPTY_SHARE

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior
    from cuspfa.posterior.category_tables import CountTable
    from cuspfa.posterior.variational import VariationalPosterior
    from cuspfa.rotation.aligned import AlignedDraws

SUMMARY_FORMAT, SUMMARY_VERSION = "cuspfa-summary", 1
LOW_DETERMINACY = math.sqrt(0.5)
"""Below this determinacy, two valid sets of scores may correlate negatively."""
EVIDENCE_ODDS = 7
"""The smallest number of factors within these odds of the best, and two Monte Carlo standard
errors, is chosen."""
LISTED_FACTORS = 12
"""Factors in the text of a summary, if there are at least two more."""
ITEMS_FROM = 48
"""Columns before the largest loadings of a factor."""
FEWEST_SUMMARY_DRAWS, MOST_SUMMARY_LOADINGS = 100, 4e6
"""Draws behind the intervals of a summary: with many loadings fewer, for memory and time."""
MANY_FACTORS, DRAWS_OF_MANY_FACTORS = 40, 200
"""Above this number of factors there are at most so many draws, with one exact sweep each."""
FIT_LINES = (
    {"srmr": "SRMR {}", "rmsea": "RMSEA {}", "predictive_p": "predictive p {} (0: poor fit)"},
    {
        "chi_square_p": "chi² {}",
        "kmo": "KMO {}",
        "bartlett_p": "Bartlett p {}",
        "omega": "omega total {}",
    },
)
"""Measures of fit in each line of a summary."""


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
    name: str = ""
    """The name of the factor, if it was given one."""


@dataclass(frozen=True)
class Summary:
    """The summary of a fit: `print` it, or read its fields."""

    headline: str
    n_rows: int
    n_columns: int
    factors: list[FactorLine]
    fit: FitMeasures | None
    parallel: int | None
    """Parallel analysis."""
    partial: int | None
    """Velicer's minimum average partial."""
    remark: str
    """Why this number of factors, where another has more weight."""
    residuals: tuple[Residual, ...]
    """Largest differences of the sample correlations from the model's."""

    columns: tuple[str, ...]
    """Names of all variables."""
    n_large: int
    """Factors that explain more than `large_share` of the variance, as they are shown."""
    large_share: LargeShare
    """The share above which a factor is called large, and the rule."""
    model_error: float
    """ε of the fit."""
    curve: ModelErrorCurve
    """The number of factors by tolerated model error."""
    ridge: ModelErrorPath
    """Numbers of factors and model errors within 3 nats of the best, where ε was learned."""
    next_step: NextStep | None
    """How to fit the factors that remain if the model may be off by RMSEA 0.05."""
    kinds: tuple[KindGroup, ...] = ()
    """Columns by kind; empty where rows were not seen, or are too few."""
    likelihoods: LikelihoodTable = field(default_factory=LikelihoodTable)
    """The likelihood of each column."""
    answers_omega: float = math.nan
    """ω of the sum of the answers, of ordinal columns."""
    outlying_rows: OutlyingRows | None = None
    """Rows that count less than others; None of a fit that is not robust."""
    cautions: tuple[FitWarning, ...] = ()
    """What the result, or the kinds of its columns, warn of."""
    caution_texts: tuple[str, ...] = ()
    """The sentences of `cautions`."""

    @property
    def kinds_text(self) -> str:
        """The kinds of columns, and what the model makes of them; empty if they are not known."""
        if not self.kinds:
            return ""
        if told := likelihood_text(self.likelihoods):
            return f"{kinds_text(self.kinds)}. {told}"
        return f"{kinds_text(self.kinds)}. {model_text(self.kinds, self.columns)}"

    @property
    def size(self) -> str:
        """Rows, columns and the number of large factors."""
        found = strength(len(self.factors), self.n_large, self.large_share)
        return size_text(self.n_rows, self.n_columns) + (f"; {found}" if found else "")

    def __str__(self) -> str:
        return self.text()

    def text(self, *, with_next_step: bool = True) -> str:
        """The page; without the next step, where that is shown at another place."""
        lines = headline_lines(self.headline)
        lines += textwrap.wrap(self.remark, PAGE_WIDTH, subsequent_indent="  ")
        lines += textwrap.wrap(self.size, PAGE_WIDTH)
        lines += textwrap.wrap(self.kinds_text, PAGE_WIDTH, break_on_hyphens=False)
        if self.outlying_rows is not None:
            lines += textwrap.wrap(str(self.outlying_rows), PAGE_WIDTH)
        parts = (
            lines,
            self._lines_of_errors() + (self._lines_of_next_step() if with_next_step else []),
            _lines_of_factors(self.factors, self.columns),
            self._lines_of_fit(),
            self._lines_of_cautions(),
        )
        texts = ("\n".join(line.rstrip() for line in part) for part in parts)
        return "\n\n".join(text for text in texts if text)

    def _lines_of_fit(self) -> list[str]:
        """Measures of fit, residuals and other rules."""
        lines = []
        if self.fit is not None:
            lines += _fit_lines(self.fit)
            if not math.isnan(self.answers_omega):
                lines[-1] += f" (latent responses), {self.answers_omega:.2f} (sum of the answers)"
            lines += textwrap.wrap(of_the_model(self.model_error), PAGE_WIDTH)
        lines += _residual_lines(self.residuals, self.columns)
        others = [
            f"{name} {count}"
            for name, count in (("parallel analysis", self.parallel), ("MAP", self.partial))
            if count is not None
        ]
        if others:
            lines.append(f"number of factors by other rules: {', '.join(others)}")
        return lines

    def _lines_of_cautions(self) -> list[str]:
        wrapped = (
            textwrap.wrap(f"Caution: {one}", PAGE_WIDTH, subsequent_indent="  ")
            for one in self.caution_texts
        )
        return [line for lines in wrapped for line in lines]

    def _lines_of_errors(self) -> list[str]:
        """The curve and the ridge."""
        lines = curve_lines(self.curve)
        lines += textwrap.wrap(ridge_text(self.ridge), PAGE_WIDTH)
        return lines

    def _lines_of_next_step(self) -> list[str]:
        if self.next_step is None:
            return []
        return [next_words(self.curve), f"  {self.next_step.command or self.next_step.model}"]


def size_text(n_rows: int, n_columns: int) -> str:
    """Rows and columns of the data."""
    return f"{counted(n_rows, 'row')}, {counted(n_columns, 'column')}"


def next_words(curve: ModelErrorCurve) -> str:
    """What the next step fits."""
    point = curve.at(TOLERABLE)
    noun = "factor" if point.n_factors == 1 else f"{point.n_factors} factors"
    return f"The {noun} at RMSEA {TOLERABLE}, with loadings to interpret:"


def ridge_text(ridge: ModelErrorPath) -> str:
    """The pairs of K and ε that are nearly as good, by K; empty where ε was not learned."""
    parts = []
    for k in sorted({one.n_factors for one in ridge}):
        sizes = [one.model_error for one in ridge if one.n_factors == k]  # the best first
        span = f"{min(sizes):g}"
        if len(sizes) > 1:
            span = f"{min(sizes):g} to {max(sizes):g}, best {sizes[0]:g}"
        parts.append(f"{k} ({span})")
    if not parts:
        return ""
    return f"Factors, with model errors, within 3 nats of the best: {', '.join(parts)}."


def of_the_model(model_error: float) -> str:
    """Which covariance the measures of fit are about; empty without model error."""
    if model_error == 0.0:
        return ""
    return (
        "SRMR, RMSEA, chi² and residuals are those of the factor model alone; predictive p allows "
        f"for its error of RMSEA {model_error:g}."
    )


def _lines_of_factors(factors: list[FactorLine], columns: tuple[str, ...]) -> list[str]:
    if not factors:
        return []
    lines = ["factor  share %  95 % interval  cum. %  determ.  largest loadings"]
    number, room = (2, 9) if max(map(width, columns), default=0) <= 9 else (1, 25)
    if any(line.name for line in factors):
        number, room = 1, min(room, 10)
    names = dict(zip(columns, short_names(columns, room), strict=True))
    total = 0.0
    shown = factors if len(factors) <= LISTED_FACTORS + 1 else factors[:LISTED_FACTORS]
    for place, line in enumerate(shown, 1):
        total += 100 * line.share
        span = f"{100 * line.lower:.1f} – {100 * line.upper:.1f}"
        sign = "*" if line.determinacy < LOW_DETERMINACY else " "
        top = [f"{names.get(name, name)} {value:+.2f}" for name, value in line.strongest[:number]]
        if line.name:
            left = PAGE_WIDTH - ITEMS_FROM - 2 - width("".join(top))
            top.insert(0, f"{shortened(line.name, left)}:")
        lines.append(
            f"{place:6d} {100 * line.share:8.1f} {span:>14} {total:7.1f} {line.determinacy:8.2f}"
            f"{sign} {(' ' if line.name else ', ').join(top)}"
        )
    if rest := factors[len(shown) :]:
        together = 100 * sum(line.share for line in rest)
        lines.append(f"   and {len(rest)} more, together {together:.1f} % of the variance")
    if any(line.determinacy < LOW_DETERMINACY for line in shown):
        lines.append(f"* below {LOW_DETERMINACY:.2f}: scores of single rows are not reliable")
    return lines


def measure_texts(fit: FitMeasures) -> dict[str, str]:
    """Measures that exist for these data, by their fields, as they are printed."""
    texts = {
        "srmr": f"{fit.srmr:.3f}",
        "rmsea": f"{fit.rmsea:.3f} (90 %: {fit.rmsea_lower:.3f} – {fit.rmsea_upper:.3f})",
        "chi_square_p": f"{fit.chi_square:.1f}, df {fit.df:.0f}, p {p_value(fit.chi_square_p)}",
        "predictive_p": f"{fit.predictive_p:.2f}",
        "kmo": f"{fit.kmo:.2f}",
        "bartlett_p": p_value(fit.bartlett_p),
        "omega": f"{fit.omega:.2f}",
    }
    return {name: text for name, text in texts.items() if not math.isnan(getattr(fit, name))}


def _fit_lines(fit: FitMeasures) -> list[str]:
    texts = measure_texts(fit)
    found = [
        ", ".join(words.format(texts[name]) for name, words in line.items() if name in texts)
        for line in FIT_LINES
    ]
    return [line for line in found if line]


def _residual_lines(residuals: tuple[Residual, ...], columns: tuple[str, ...]) -> list[str]:
    """The pairs with the largest residuals; none is broken between two lines."""
    if not residuals:
        return []
    short_ones = max(map(width, columns), default=0) <= 7
    names = dict(zip(columns, short_names(columns, 7 if short_ones else 26), strict=True))
    shown = residuals if short_ones else residuals[:1]
    pairs = [f"{names[one.first]} & {names[one.second]} {one.value:+.2f}" for one in shown]
    lines = [f"largest residual{'s' * (len(pairs) > 1)}: {pairs[0]}"]
    for pair in pairs[1:]:
        if width(f"{lines[-1]}, {pair},") <= PAGE_WIDTH:
            lines[-1] += f", {pair}"
        else:
            lines[-1] += ","
            lines.append(f"  {pair}")
    return lines


def headline_of(posterior: Posterior) -> str:
    """The first sentence on a posterior, which needs its curve and no draws."""
    return headline(count_of(posterior), posterior.model_error_curve)


def headline_lines(text: str) -> list[str]:
    """A headline in lines of at most 80 characters."""
    return textwrap.wrap(text, PAGE_WIDTH)


def summarise(posterior: Posterior, draws: Draws, aligned: AlignedDraws | None = None) -> Summary:
    """The summary of a posterior, with intervals from these draws.

    `aligned` are the same draws on the axes of the posterior, where they are known.
    """
    names = posterior.column_names
    rotated_solution, flat = posterior.rotated_solution, posterior.standardized_loadings
    loadings = rotated_solution.loadings
    if aligned is None and posterior.rotation is not None:
        aligned = posterior.align(draws=draws)
    share, (lower, upper) = factor_shares(posterior, draws, aligned)
    given = posterior.presentation.factor_names
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
            _top_variables(loadings[:, h], names),
            given[h] if given else "",
        )
        for h in range(len(share))
    ]
    correlation = posterior.sample_correlation
    parallel = partial = None
    fit = None
    if correlation is not None and len(names) > 1:
        fit = fit_measures(posterior, correlation, draws)
        parallel, partial = other_rules(correlation, posterior.correlation_rows)
    rule = large_share(len(names), posterior.n_rows)
    curve, provenance = posterior.model_error_curve, posterior.provenance
    agreement = 1.0 if aligned is None else aligned.quality
    found = cautions(posterior, np.median(draws.communality, axis=0), fit, agreement)
    return Summary(
        headline_of(posterior),
        posterior.n_rows,
        len(names),
        factors,
        fit,
        parallel,
        partial,
        why_not_more(posterior),
        largest_residuals(posterior, names),
        tuple(names),
        n_large=int(np.sum(share > rule.value)),
        large_share=rule,
        model_error=posterior.model_error,
        curve=curve,
        ridge=ModelErrorPath() if posterior.fit_info is None else posterior.fit_info.model_errors,
        next_step=next_step(provenance, curve.find(0.0), curve.find(TOLERABLE)),
        kinds=() if provenance is None else provenance.kinds,
        likelihoods=posterior.likelihoods,
        answers_omega=posterior.answers_omega,
        outlying_rows=rows_of_small_weight(posterior),
        cautions=found,
        caution_texts=tuple(caution_text(one, provenance) for one in found),
    )


def _finite(rows: CountTable) -> list[dict[str, Any]]:
    """Rows with None in place of infinite dispersions, which JSON does not have."""
    return [{key: None if one == math.inf else one for key, one in row.items()} for row in rows]


def count_of(posterior: Posterior) -> Count:
    """The number of factors of a fit, and how it came about."""
    provenance, fit_info = posterior.provenance, posterior.fit_info
    to_learn = provenance is not None and provenance.settings.model_error == "auto"
    pairs = None if fit_info is None else fit_info.model_errors
    learned = to_learn and (bool(pairs) or posterior.model_error > 0)
    known = () if provenance is None else provenance.warnings
    reasons = [one.reason for one in known if isinstance(one, ModelErrorNotLearned)]
    limits = [one for one in known if isinstance(one, FewRowsForFactors | FewRowsForCounts)]
    too_few = next((one for one in limits if one.n_factors == posterior.n_active), None)
    values = np.linalg.svd(posterior.standardized_loadings, compute_uv=False) ** 2
    n_nonempty = int(np.sum(values > EMPTY_SHARE * len(posterior.scale)))
    return Count(
        posterior.n_active,
        given=posterior.number_given or n_nonempty < posterior.n_active,
        n_nonempty=n_nonempty,
        model_error=posterior.model_error,
        learned=learned,
        not_learned=to_learn and pairs is not None and not learned,
        reason=next(iter(reasons), None),
        rows_too_few=None if too_few is None else too_few.n_rows,
        has_categories=isinstance(too_few, FewRowsForFactors),
    )


def summary_draws(posterior: Posterior) -> Draws:
    """The draws behind the intervals of the program and of a report, the same every time."""
    size = max(len(posterior.noise_variance) * posterior.n_active, 1)
    number = int(np.clip(MOST_SUMMARY_LOADINGS / size, FEWEST_SUMMARY_DRAWS, N_DRAWS))
    if posterior.n_active <= MANY_FACTORS:
        return posterior.draw(number, random_state=0)
    number = min(number, DRAWS_OF_MANY_FACTORS)
    if posterior.kind == "gibbs" or posterior.statistics is None:
        return posterior.draw(number, random_state=0)
    return cast("VariationalPosterior", posterior).draw(number, random_state=0, sweeps=1)


def factor_shares(
    posterior: Posterior, draws: Draws, aligned: AlignedDraws | None = None
) -> tuple[Array, Interval]:
    """Shares of the variance by factor on the posterior's axes: medians and 95 % intervals."""
    drawn = posterior.share_draws(draws, aligned)
    return np.median(drawn, axis=0), Interval(*np.quantile(drawn, [0.025, 0.975], axis=0))


def why_not_more(posterior: Posterior) -> str:
    """Why this number of factors, where another has more weight or might have been chosen."""
    search = [] if posterior.fit_info is None else posterior.fit_info.search
    weights = {one.n_factors: one.weight for one in search if one.weight > 0}
    k = posterior.n_active
    best = max(weights, key=lambda number: weights[number], default=k)
    rule = (
        f"the smallest number within 2 nats (odds of {EVIDENCE_ODDS} to 1) and two Monte Carlo "
        "standard errors of the best"
    )
    if tied := [one for one in search if one.tied]:
        own = next(one for one in search if one.n_factors == k)
        others = " or ".join(f"{one.n_factors} ({_evidence(one)})" for one in tied)
        noun = capitalized(counted(k, "factor"))
        if math.isnan(own.evidence):
            return (
                f"The bound is highest for {counted(k, 'factor')} ({_evidence(own)}). It differs "
                f"by less than twice the tolerance from that for {others}."
            )
        return (
            f"{noun} (log evidence {_evidence(own)}) {'is' if k == 1 else 'are'} {rule}. Other "
            f"draws might choose {others}, less than three Monte Carlo standard errors from that "
            "limit."
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
        return f"{entry.lower_bound:.1f}" if not math.isnan(entry.lower_bound) else "not computed"
    return f"{entry.evidence:.1f} ± {entry.evidence_error:.1f}"


def _top_variables(column: Array, names: list[str], number: int = 4) -> list[tuple[str, float]]:
    order = np.argsort(-np.abs(column))[:number]
    return [(names[j], float(column[j])) for j in order]


def as_dict(
    posterior: Posterior,
    draws: Draws,
    scores: Any = None,
    *,
    aligned: AlignedDraws | None = None,
) -> dict[str, Any]:
    """Plain values for JSON, without values of single rows unless scores are given."""
    aligned = aligned or posterior.align(draws=draws)
    found = summarise(posterior, draws, aligned)
    communality = posterior.interval("communality", draws=draws)
    noise = posterior.interval("noise_variance", draws=draws)
    rotated_solution, rotation = posterior.rotated_solution, posterior.rotation
    table = aligned.table()
    content: dict[str, Any] = {
        "format": SUMMARY_FORMAT,
        "version": SUMMARY_VERSION,
        "headline": found.headline,
        "remark": found.remark,
        "n_rows": found.n_rows,
        "columns": posterior.column_names,
        "labels": [label or None for label in posterior.column_labels],
        "value_labels": {
            name: {f"{value:g}": label for value, label in values.items()}
            for name, values in posterior.value_labels.items()
        },
        "column_kinds": kinds_as_json(found.kinds, posterior.column_names),
        "column_kinds_text": found.kinds_text,
        "row_weights": None if found.outlying_rows is None else found.outlying_rows.as_json(),
        "cautions": [
            {**one.to_dict(), "message": text}
            for one, text in zip(found.cautions, found.caution_texts, strict=True)
        ],
        "likelihoods": [{**one._asdict(), "levels": list(one.levels)} for one in found.likelihoods],
        "thresholds": list(posterior.threshold_table(draws=draws)),
        "counts": _finite(posterior.count_table(draws=draws)),
        "categories": list(posterior.category_probabilities(draws=draws)),
        "answers_omega": _none_for_nan(found.answers_omega),
        "n_factors": len(found.factors),
        "n_large_factors": found.n_large,
        "large_share": found.large_share.value,
        "model_error": found.model_error,
        "model_error_curve": curve_as_dict(found.curve),
        "model_error_ridge": [one._asdict() for one in found.ridge],
        "next_step": None if found.next_step is None else found.next_step._asdict(),
        "factors": [
            {
                "name": line.name or None,
                "share": line.share,
                "interval": [line.lower, line.upper],
                "determinacy": line.determinacy,
            }
            for line in found.factors
        ],
        "rotation": None if rotation is None else rotation.method,
        "reversed_factors": list(posterior.presentation.reversed_factors),
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
        else {key: _none_for_nan(value) for key, value in found.fit._asdict().items()},
        "largest_residuals": [one._asdict() for one in found.residuals],
        "other_rules": {
            "parallel_analysis": found.parallel,
            "minimum_average_partial": found.partial,
        },
    }
    if scores is not None:
        content["scores"] = np.asarray(scores, dtype=float).tolist()
    return content


def curve_as_dict(curve: ModelErrorCurve) -> dict[str, Any]:
    """The number of factors by tolerated model error, as plain values for JSON."""
    return {
        "points": [
            {key: _none_for_nan(value) for key, value in one._asdict().items()}
            for one in curve.points
        ],
        "rows": curve.rows,
        "gap": None if curve.gap is None else curve.gap.value,
    }


def _none_for_nan(value: Any) -> Any:
    """None in place of NaN, which JSON does not have, and a list in place of a tuple."""
    if isinstance(value, tuple):
        return list(value)
    return None if math.isnan(value) else value
