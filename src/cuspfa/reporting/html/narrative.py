"""Sentences of a report: what was found, and what to be careful about."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cuspfa.reporting.html.content import Axes, Content
from cuspfa.reporting.labels import minus
from cuspfa.reporting.provenance_text import warning_texts
from cuspfa.reporting.summary import MIN_SHARE, UNSURE

FEW_ROWS, ROWS_A_FACTOR = 10, 4
"""Below these the number of factors is not to be relied on."""
ALL_EXPLAINED = 0.98
"""A communality above this is a Heywood case, or nearly one."""
LOOSE = 0.9
"""Draws whose congruence is lower have no axes in common."""


class Measure(NamedTuple):
    """A measure of fit, with what it means."""

    name: str
    value: str
    meaning: str


def answer(content: Content) -> str:
    """The headline's second half, beside the number."""
    k, large = content.n_factors, content.n_large
    percent = f"{100 * MIN_SHARE:.0f} %"
    # How many are large does not depend on the axes they are shown on, so it needs its own.
    where = "" if content.posterior.rotation is None else "On principal axes "
    if k == 0 and content.number_given:
        return "Their number was given, so none was looked for."
    if k == 0:
        return "No correlation that factors would explain was found."
    if k == 1:
        what = "more" if large else "less"
        return f"It explains {what} than {percent} of the variance."
    if large == k:
        return f"{where}all of them explain more than {percent} of the variance each.".capitalize()
    if large == 0:
        return f"{where}none of them explains more than {percent} of the variance.".capitalize()
    verb = "explains" if large == 1 else "explain"
    text = f"{where}{large} of them {verb} more than {percent} of the variance each"
    return f"{text}, the others less."


def agreement(content: Content) -> str:
    """Do the rules agree? One or two sentences."""
    numbers = [rule.number for rule in content.rules]
    if len(numbers) == 1:
        return "No other rule can be asked: the sample correlations are not kept."
    low, high = min(numbers), max(numbers)
    if low == high:
        return f"All {len(numbers)} rules say {low}."
    ours = content.n_factors
    text = f"The rules differ, from {low} to {high}."
    if ours == high and content.n_large < ours:
        text += (
            " In large samples small factors are real and can be measured, though they explain "
            "little: whether they matter is a question about the subject, not about the data."
        )
    elif ours == low:
        text += (
            " This model keeps fewer than others do: look at what correlation is left, and at how "
            "few rows there may be."
        )
    return text


def sureness(content: Content) -> tuple[str, str]:
    """How sure the number is: a short figure, and a sentence."""
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
        f"Weight of evidence among {tried}{beside}. It ranks numbers, and is not a calibrated "
        "probability."
    )


def measures(content: Content) -> list[Measure]:
    """Measures of fit that exist for these data."""
    fit = content.summary.fit
    if fit is None:
        return []
    rmsea = f"{fit.rmsea:.3f} ({fit.rmsea_lower:.3f} – {fit.rmsea_upper:.3f})"
    listed = [
        (
            fit.srmr,
            Measure(
                "SRMR",
                f"{fit.srmr:.3f}",
                "Typical size of a correlation that the model misses. Below 0.08 is often called "
                "good, 0.05 close.",
            ),
        ),
        (
            fit.rmsea,
            Measure(
                "RMSEA",
                rmsea,
                "Misfit for each degree of freedom, with its 90 % interval. Below 0.06 is often "
                "called good.",
            ),
        ),
        (
            fit.chi_square_p,
            Measure(
                "χ²",
                f"{fit.chi_square:.1f}, df {fit.df:.0f}, p {_p(fit.chi_square_p)}",
                "Likelihood ratio against any covariance at all. In large samples the smallest "
                "misfit is significant: look at SRMR and residuals too.",
            ),
        ),
        (
            fit.predictive_p,
            Measure(
                "Predictive p",
                f"{fit.predictive_p:.2f}",
                "Share of data sets simulated from the model that are further from it than the "
                "data. Near 0 the model misses correlations; near 1 the data lie closer to it "
                "than new data would.",
            ),
        ),
        (
            fit.kmo,
            Measure(
                "KMO",
                f"{fit.kmo:.2f}",
                "How much of the correlation is shared by more than two variables. Above 0.8 is "
                "good ground for factors, below 0.5 is none.",
            ),
        ),
        (
            fit.bartlett_p,
            Measure(
                "Bartlett p",
                _p(fit.bartlett_p),
                "Chance of such correlations if all variables were unrelated.",
            ),
        ),
        (
            fit.omega,
            Measure(
                "ω total",
                f"{fit.omega:.2f}",
                "Reliability of the sum of all variables, those with negative loadings on the "
                "first factor reversed.",
            ),
        ),
    ]
    return [measure for value, measure in listed if not math.isnan(value)]


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def left_over(content: Content) -> str:
    """The largest residual correlations."""
    pairs = [
        f"{one.first} and {one.second} {minus(f'{one.value:+.2f}')}"
        for one in content.summary.residuals
    ]
    return f"Largest residuals: {', '.join(pairs)}." if pairs else ""


# --- what to be careful about ---


def cautions(content: Content) -> list[str]:
    """All that should be known before the result is used, most important first."""
    provenance = content.provenance
    told = [] if provenance is None else warning_texts(provenance)
    return [
        *told,
        *_about_fit(content),
        *_about_data(content),
        *_about_scores(content),
        *_about_axes(content.axes),
    ]


def _about_fit(content: Content) -> Iterator[str]:
    fit_info, fit, k = content.fit_info, content.summary.fit, content.n_factors
    if fit_info is not None and not fit_info.converged and not _warned(content):
        yield (
            f"The fit did not converge: {fit_info.status}. Its numbers may still change; fit again "
            "with more iterations."
        )
    n = content.summary.n_rows
    if n < FEW_ROWS or n < ROWS_A_FACTOR * k:
        yield (
            f"{n} rows are few for {k or 'any'} factors: the number of factors is not to be "
            "relied on."
        )
    if fit is not None and fit.predictive_p < 0.01:
        yield (
            "Correlations are left that the model does not explain: fewer than 1 in 100 data sets "
            "simulated from it look as far from it as these data. Outliers, skewed items or too "
            "few factors may be the reason; cuspfa.check_assumptions looks for them."
        )
    if fit is not None and fit.kmo < 0.5:
        yield f"KMO is {fit.kmo:.2f}: the variables share little with more than one other."
    if 0 < content.n_large < k:
        small = k - content.n_large
        noun = "factor explains" if small == 1 else "factors explain"
        where = "" if content.posterior.rotation is None else "On principal axes "
        yield (
            f"{where}{small} {noun} less than {100 * MIN_SHARE:.0f} % of the variance. Look at "
            "which variables load there before giving a name."
        )


def _about_scores(content: Content) -> Iterator[str]:
    unsure = [h for h, row in enumerate(content.factors, 1) if row.determinacy < UNSURE]
    if unsure:
        noun = "factor" if len(unsure) == 1 else "factors"
        yield (
            f"Scores of {noun} {listed([str(h) for h in unsure], 8)} say little of a single row: "
            f"determinacy is below {UNSURE:.2f}."
        )


def _warned(content: Content) -> bool:
    """Is there a warning that the fit did not converge?"""
    found = () if content.provenance is None else content.provenance.warnings
    return any(one.not_converged for one in found)


def _about_data(content: Content) -> Iterator[str]:
    drawn = content.posterior.kind == "gibbs"  # its draws are those of the fit
    if (
        content.missing is not None
        and not drawn
        and getattr(content.posterior, "rows", None) is None
    ):
        yield (
            "The data had missing values, and a saved fit does not keep their rows: intervals here "
            "are made without them and are narrower than they should be. A report that is made "
            "with the fit has the right ones: cuspfa fit … --report."
        )
    explained = content.communality[0]
    full = [content.names[j] for j in np.flatnonzero(explained > ALL_EXPLAINED)]
    if full:
        yield (
            f"Nearly all variance of {listed(full)} is explained (Heywood case): a variable that "
            "another one repeats, or a factor of a single variable."
        )
    if content.summary.fit is None and content.summary.n_columns > 1:
        yield (
            "The sample correlations are not kept, either because of the size or kind of the data "
            "or because they were left out on request, so there are no measures of fit and no "
            "residuals."
        )
    hidden = content.summary.n_columns - len(content.names)
    if hidden:
        yield (
            f"Of {content.summary.n_columns} variables the {len(content.names)} that load most "
            f"are in this report; {hidden} are not."
        )


def _about_axes(axes: list[Axes]) -> Iterator[str]:
    own = axes[0]
    if own.quality < LOOSE:
        yield (
            f"The factors have no firm axes of their own ({own.label.lower()}, agreement of draws "
            f"{own.quality:.2f}): intervals of loadings are wide, or have two centres. "
            "Communalities, correlations and the number of factors do not depend on this."
        )


def axes_note(axes: Axes) -> str:
    """What a reader has to know of a set of axes."""
    what = {
        "principal": "Uncorrelated, each as strong as can be after those before it. Often hard to "
        "read, but the same in every program.",
    }.get(
        axes.key,
        "Factors may be correlated; loadings are the pattern."
        if axes.oblique
        else "Uncorrelated, rotated to few large loadings.",
    )
    how = (
        "Intervals are given the axes."
        if axes.given
        else "Intervals hold the uncertainty of the axes too."
    )
    return f"{what} {how} Agreement of draws {axes.quality:.2f}."


def listed(names: list[str], most: int = 4) -> str:
    """Some names, and how many more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
