"""Sentences of a report: the findings, and cautions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from cuspfa._utils.wording import listed, signed
from cuspfa.reporting.headline import strength
from cuspfa.reporting.html.content import LoadingsOnAxes, ReportContent
from cuspfa.reporting.provenance_text import caution_text, warning_texts
from cuspfa.reporting.summary import LOW_DETERMINACY, measure_texts, of_the_model

MEASURES = {
    "srmr": (
        "SRMR",
        "Typical size of a correlation that the model misses. Below 0.08 is often called good, "
        "below 0.05 close.",
    ),
    "rmsea": (
        "RMSEA",
        "Misfit for each degree of freedom, with its 90 % interval. Below 0.06 is often called "
        "good.",
    ),
    "chi_square_p": (
        "χ²",
        "Likelihood ratio against the saturated model. In large samples the smallest deviation is "
        "significant: look at SRMR and residuals too.",
    ),
    "predictive_p": (
        "Predictive p",
        "Share of data sets simulated from the model that are further from it than the data. Near "
        "0 the model misses correlations; near 1 the data are closer to it than new data would be.",
    ),
    "kmo": (
        "KMO",
        "How much of the correlation is shared by more than two variables. Above 0.8 the data suit "
        "factor analysis, below 0.5 they do not.",
    ),
    "bartlett_p": (
        "Bartlett p",
        "Probability of such correlations if all variables were uncorrelated.",
    ),
    "omega": (
        "ω total",
        "Reliability of the sum of all variables, those with negative loadings on the first "
        "factor reversed.",
    ),
}
"""Measures of fit by their fields in `FitMeasures`: names, and what they mean."""
LISTED_VARIABLES = 4
"""Names of variables in a sentence."""


class Measure(NamedTuple):
    """A measure of fit, with what it means."""

    name: str
    value: str
    meaning: str


def answer(content: ReportContent) -> str:
    """The sentences beside the number of factors: by tolerated error, and how many are large."""
    summary = content.summary
    strong = strength(content.n_factors, summary.n_large, summary.large_share)
    if content.n_factors == 0 and content.number_given:
        strong = "their number was given, so none was looked for"
    elif content.n_factors == 0:
        strong = "no correlation that factors would explain was found"
    return f"{summary.headline}. {strong[:1].upper()}{strong[1:]}."


def agreement(content: ReportContent) -> str:
    """One or two sentences on whether the rules agree."""
    numbers = [rule.number for rule in content.rules]
    if len(numbers) == 1:
        return "Other rules need the sample correlations, which are not kept."
    low, high = min(numbers), max(numbers)
    if low == high:
        rules = "Both" if len(numbers) == 2 else f"All {len(numbers)}"
        return f"{rules} rules say {low}."
    ours = content.n_factors
    text = f"The rules differ, from {low} to {high}."
    if ours == high and content.summary.n_large < ours:
        text += (
            " In large samples small factors can be estimated well, though they explain little. "
            "Whether they matter is a question of the subject, not of the data."
        )
    elif ours == low:
        text += (
            " This model keeps fewer factors than other rules. Look at the residual correlations; "
            "there may also be too few rows."
        )
    return text


def sureness(content: ReportContent) -> tuple[str, str]:
    """How certain the number of factors is: a figure, and a sentence."""
    fit_info = content.fit_info
    if fit_info is None or not fit_info.search:
        return "–", "How the number was found is not recorded."
    if content.number_given:
        return "given", "The number of factors was given, not found."
    if len(fit_info.search) == 1 and fit_info.method != "gibbs":
        return "–", "No other number of factors was tried."
    weights = {entry.n_factors: entry.weight for entry in fit_info.search}
    own = weights.get(content.n_factors, math.nan)
    tried = f"{min(weights)} to {max(weights)} factors"
    others = sorted(
        ((weight, k) for k, weight in weights.items() if k != content.n_factors and weight >= 0.01),
        reverse=True,
    )
    rest = ", ".join(f"{weight:.2f} for {k}" for weight, k in others[:3])
    if fit_info.method == "gibbs":
        beside = f"; {rest}" if rest else ""
        return f"{own:.2f}", f"Posterior probability of this number{beside}."
    beside = f"; {rest}" if rest else "; all others below 0.01"
    return f"{own:.2f}", (
        f"Weight of evidence among {tried}{beside}. It ranks the numbers and is not a calibrated "
        "probability."
    )


def measures(content: ReportContent) -> list[Measure]:
    """Measures of fit that exist for these data."""
    fit = content.summary.fit
    texts = {} if fit is None else measure_texts(fit)
    return [
        Measure(name, texts[field], meaning)
        for field, (name, meaning) in MEASURES.items()
        if field in texts
    ]


def measured(content: ReportContent) -> str:
    """Which covariance the measures of fit are about."""
    return of_the_model(content.posterior.model_error) or (
        "These measures compare the correlations of the data with those of the factor model, Ω."
    )


def left_over(content: ReportContent) -> str:
    """The largest residual correlations."""
    pairs = [
        f"{one.first} and {one.second} {signed(one.value)}" for one in content.summary.residuals
    ]
    return f"Largest residuals: {', '.join(pairs)}." if pairs else ""


# --- cautions ---


def caution_sentences(content: ReportContent) -> list[str]:
    """What to know before the result is used, most important first."""
    provenance = content.provenance
    told = [] if provenance is None else warning_texts(provenance)
    return [
        *told,
        *(caution_text(one, provenance) for one in content.summary.cautions),
        *content.notes,
        *_about_fit(content),
        *_about_data(content),
        *_about_scores(content),
    ]


def _about_fit(content: ReportContent) -> Iterator[str]:
    fit_info, k = content.fit_info, content.n_factors
    if fit_info is not None and not fit_info.converged and not _warned(content):
        yield (
            f"The fit ended before it had converged ({fit_info.status}). More iterations may "
            "change its numbers."
        )
    if 0 < content.summary.n_large < k:
        small = k - content.summary.n_large
        noun = "factor explains" if small == 1 else "factors explain"
        yield (
            f"{small} {noun} less than {content.summary.large_share.words} of the variance. Look "
            "at which variables load on them before naming them."
        )


def _about_scores(content: ReportContent) -> Iterator[str]:
    factors = enumerate(content.summary.factors, 1)
    unsure = [h for h, line in factors if line.determinacy < LOW_DETERMINACY]
    if unsure:
        noun = "factor" if len(unsure) == 1 else "factors"
        yield (
            f"Scores of {noun} {listed(unsure, 2 * LISTED_VARIABLES)} are uncertain for single "
            f"rows: determinacy is below {LOW_DETERMINACY:.2f}."
        )


def _warned(content: ReportContent) -> bool:
    """Is there a warning that the fit did not converge?"""
    found = () if content.provenance is None else content.provenance.warnings
    return any(one.not_converged for one in found)


def _about_data(content: ReportContent) -> Iterator[str]:
    if content.missing is not None and not content.posterior.has_exact_draws:
        provenance = content.provenance
        by_program = provenance is not None and provenance.command
        code = "cuspfa fit … --report" if by_program else "model.fit(X).posterior_.report(…)"
        yield (
            "The data had missing values, and a saved fit does not keep their rows: the intervals "
            "here are made without them and are too narrow. A report that is written with the fit "
            f"has the right ones: {code}."
        )
    if content.summary.fit is None and content.summary.n_columns > 1:
        yield (
            "The sample correlations are not kept, because of the size or kind of the data or on "
            "request. So there are no measures of fit and no residuals."
        )
    hidden = content.summary.n_columns - len(content.names)
    if hidden:
        yield (
            f"Of {content.summary.n_columns} variables, this report shows the "
            f"{len(content.names)} that load most; {hidden} are not shown."
        )


def axes_note(axes: LoadingsOnAxes) -> str:
    """A note on a set of axes and its intervals."""
    what = {
        "principal": "Uncorrelated; each explains as much as possible after those before it. Often "
        "hard to interpret, but unique.",
    }.get(
        axes.key,
        "Factors may be correlated; loadings are the pattern."
        if axes.oblique
        else "Uncorrelated, rotated to few large loadings.",
    )
    how = (
        "Intervals are given the axes."
        if axes.given
        else "Intervals include the uncertainty of the axes."
    )
    return f"{what} {how} Agreement of draws {axes.quality:.2f}."
