"""The summary of a Poisson factorization, as text and as plain values."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cuspfa._utils.wording import capitalized, counted, listed, minus
from cuspfa.posterior.factorization_results import (
    CountFitInfo,
    CountSearchPath,
    FactorItem,
    FactorizationDraws,
)
from cuspfa.reporting.headline import PAGE_WIDTH
from cuspfa.reporting.labels import short_names, shortened, width

if TYPE_CHECKING:
    from cuspfa.posterior.factorization import FactorizationPosterior

COUNT_SUMMARY_FORMAT, COUNT_SUMMARY_VERSION = "cuspfa-count-summary", 1
SUMMARY_ITEMS, REPORT_ITEMS = 5, 15
"""Columns of each factor in a text, and in a report or JSON."""
FACTORS_OF_COUNTS = 20
"""Factors in the text of a summary, if there are more."""
LONGEST_COUNT_NAME = 18
OVERDISPERSED, DISPERSED_COLUMN = 1.5, 2.0
"""Residual dispersion of all columns, and of one, from which on a summary says so."""
SHOWN_DISPERSED = 4
SHOWN_NUMBERS = 5
"""Numbers of factors that a summary gives with their probabilities."""


class CountFactor(NamedTuple):
    """One factor."""

    name: str
    share: float
    """The part of all expected counts, the median of draws."""
    lower: float
    upper: float
    """Its 95 % interval."""
    items: list[FactorItem]
    """The columns with the largest loadings."""


@dataclass(frozen=True)
class CountSummary:
    """The summary of a fit to counts: `print` it, or read its fields."""

    headline: str
    n_rows: int
    n_columns: int
    n_events: float
    zero_share: float
    """Part of the cells seen that are zero."""
    n_missing: int
    factors: list[CountFactor]
    dispersion: float
    """Residual dispersion of all columns; about 1 for Poisson variables."""
    most_dispersed: list[tuple[str, float]]
    """Columns with a residual dispersion above 2, largest first."""
    exact: bool
    """Are the intervals those of exact draws?"""
    n_draws: int
    fit_info: CountFitInfo | None
    probabilities: tuple[float, ...] = ()
    """P(K = 0), P(K = 1), ... where a sampler drew the number of factors; else empty."""
    n_chains: int = 0
    """Chains of the sampler; 0 of a variational fit."""

    @property
    def search(self) -> CountSearchPath:
        """What was found for each number of factors."""
        return CountSearchPath() if self.fit_info is None else self.fit_info.search

    @property
    def size_text(self) -> str:
        """Rows, columns, events and zeros in a sentence."""
        missing = f", {counted(self.n_missing, 'missing cell')}" if self.n_missing else ""
        return (
            f"{counted(self.n_rows, 'row')}, {counted(self.n_columns, 'column')}, "
            f"{self.n_events:,.0f} events{missing}; {100 * self.zero_share:.0f} % of the cells are "
            "zero."
        )

    @property
    def dispersion_text(self) -> str:
        """Residual dispersion in a sentence or two."""
        text = f"Residual dispersion {self.dispersion:.2f} (1 for Poisson counts)"
        if self.most_dispersed:
            named = [
                f"{shortened(name, LONGEST_COUNT_NAME)} {value:.1f}"
                for name, value in self.most_dispersed
            ]
            text += f"; largest: {listed(named, SHOWN_DISPERSED)}"
        if self.dispersion >= OVERDISPERSED:
            return (
                f"{text}. Counts vary more than a Poisson distribution around these rates, and "
                "small factors may only describe that: take the number of factors as an upper "
                "limit."
            )
        return f"{text}."

    @property
    def search_text(self) -> str:
        """Evidence for this number of factors in a sentence; empty if it was given."""
        if self.n_chains:
            return probability_text(self.probabilities)
        return search_text(self.search, len(self.factors))

    @property
    def interval_text(self) -> str:
        """What the intervals are made of."""
        if self.exact:
            return f"95 % intervals of {self.n_draws} exact draws."
        return (
            f"95 % intervals of {self.n_draws} draws from the mean-field distribution, which are "
            "too narrow: exact draws would take long, or values are not whole numbers."
        )

    @property
    def convergence_text(self) -> str:
        """How the fit ended."""
        info = self.fit_info
        if info is None:
            return ""
        if self.n_chains:
            chains, sweeps = counted(self.n_chains, "chain"), counted(info.n_iter, "sweep")
            return f"{chains} of {sweeps}; {info.status}."
        ended = "Converged" if info.converged else f"Ended ({info.status})"
        bound = (
            "" if math.isnan(info.lower_bound) else f"; bound {minus(f'{info.lower_bound:.1f}')}"
        )
        return f"{ended} after {counted(info.n_iter, 'iteration')}{bound}."

    def __str__(self) -> str:
        lines = [*textwrap.wrap(self.headline, PAGE_WIDTH), *_wrapped(self.size_text), ""]
        if self.factors:
            lines += [*factor_lines(self), ""]
            lines += _wrapped(self.interval_text)
        for text in (self.dispersion_text, self.search_text, self.convergence_text):
            lines += _wrapped(text)
        return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, PAGE_WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def factor_lines(summary: CountSummary) -> list[str]:
    """The table of factors, 80 characters wide."""
    shown = summary.factors[:FACTORS_OF_COUNTS]
    names = short_names([one.name for one in shown], 12)
    wide = max(width(name) for name in names)
    lines = [f"{'':{wide}}  share  95 %       part of the factor's events, by column"]
    for name, one in zip(names, shown, strict=True):
        share = f"{100 * one.share:4.0f} %  {100 * one.lower:2.0f} – {100 * one.upper:2.0f} %"
        head = f"{name}{' ' * (wide - width(name))} {share}".ljust(wide + 20)
        room, items = PAGE_WIDTH - len(head) - 2, ""
        for item in one.items[:SUMMARY_ITEMS]:
            text = f"{shortened(item.name, LONGEST_COUNT_NAME)} {item.share:.2f}"
            if width(items) + width(text) + 2 > room:
                break
            items += f"{', ' if items else ''}{text}"
        lines.append(f"{head}  {items}")
    if len(summary.factors) > len(shown):
        lines.append(f"and {len(summary.factors) - len(shown)} more factors")
    return lines


def summarise_counts(posterior: FactorizationPosterior, draws: FactorizationDraws) -> CountSummary:
    """The summary of a posterior, from these draws."""
    totals, k = posterior.totals, posterior.n_active
    lower, middle, upper = np.quantile(draws.shares, [0.025, 0.5, 0.975], axis=0)
    items = posterior.top_items(REPORT_ITEMS, draws=draws)
    factors = [
        CountFactor(
            name,
            float(middle[h]),
            float(lower[h]),
            float(upper[h]),
            [one for one in items if one.factor == h + 1],
        )
        for h, name in enumerate(posterior.factor_names)
    ]
    cells = posterior.n_rows * posterior.n_columns - totals.n_missing
    order = np.argsort(-totals.dispersion, kind="stable")
    names = posterior.column_names
    noun = capitalized(counted(k, "factor"))
    return CountSummary(
        headline=f"{noun} {'asked for' if posterior.number_given else 'in the counts'}",
        n_rows=posterior.n_rows,
        n_columns=posterior.n_columns,
        n_events=totals.n_events,
        zero_share=1 - totals.n_positive / cells if cells else 0.0,
        n_missing=totals.n_missing,
        factors=factors,
        dispersion=totals.dispersion_of_all,
        most_dispersed=[
            (names[j], float(totals.dispersion[j]))
            for j in order
            if totals.dispersion[j] > DISPERSED_COLUMN
        ],
        exact=posterior.has_exact_draws,
        n_draws=len(draws),
        fit_info=posterior.fit_info,
        probabilities=probabilities_of(posterior),
        n_chains=posterior.n_chains,
    )


def probabilities_of(posterior: FactorizationPosterior) -> tuple[float, ...]:
    """P(K = 0), P(K = 1), ... where a sampler drew the number of factors; else nothing."""
    found = posterior.count_probabilities
    if found is None or posterior.number_given:
        return ()
    return tuple(map(float, found))


def probability_text(probabilities: tuple[float, ...]) -> str:
    """The most probable numbers of factors in a sentence; nothing for a given number."""
    if not probabilities:
        return ""
    order = sorted(range(len(probabilities)), key=lambda k: (-probabilities[k], k))
    shown = [f"{k} ({100 * probabilities[k]:.0f} %)" for k in order if probabilities[k] > 0]
    return f"Number of factors, by probability: {listed(shown, SHOWN_NUMBERS)}."


def search_text(search: CountSearchPath, k: int) -> str:
    """Scores of k factors against k − 1 and k + 1, by evidence and by events held out."""
    by_number = {one.n_factors: one for one in search}
    said = []
    for number, ordinal in ((k, "last"), (k + 1, "next")):
        one = by_number.get(number)
        if one is None:
            continue
        evidence, held_out = one.evidence_gain, one.held_out_gain
        parts = []
        if not math.isnan(held_out):
            parts.append(
                f"{_changes(held_out)} the log-likelihood of events held out by "
                f"{abs(held_out):.1f} nats"
            )
        if not math.isnan(evidence):
            error = f" ± {one.evidence_error:.1f}"
            parts.append(
                f"{_changes(evidence)} the log evidence by {abs(evidence):.1f}{error} nats"
            )
        if parts:
            said.append(f"the {ordinal} factor {' and '.join(parts)}")
    if said:
        return f"Number of factors: {'; '.join(said)}."
    if len(by_number) > 1:
        return (
            "Number of factors: by the bound alone, which finds too few in sparse tables. Exact "
            "sweeps would take long, or values are not whole numbers."
        )
    return ""


def _changes(gain: float) -> str:
    return "raises" if gain > 0 else "lowers"


def counts_as_dict(
    posterior: FactorizationPosterior, draws: FactorizationDraws, scores: Any = None
) -> dict[str, Any]:
    """Plain values for JSON, without values of single rows unless scores are given."""
    found, info = summarise_counts(posterior, draws), posterior.fit_info
    content: dict[str, Any] = {
        "format": COUNT_SUMMARY_FORMAT,
        "version": COUNT_SUMMARY_VERSION,
        "model": "poisson-factorization",
        "headline": found.headline,
        "n_rows": found.n_rows,
        "columns": posterior.column_names,
        "n_events": found.n_events,
        "zero_share": found.zero_share,
        "n_missing": found.n_missing,
        "n_factors": posterior.n_active,
        "factors": [
            {
                "name": one.name,
                "share": one.share,
                "interval": [one.lower, one.upper],
                "items": [item._asdict() for item in one.items],
            }
            for one in found.factors
        ],
        "exact_draws": found.exact,
        "n_draws": found.n_draws,
        "loadings": posterior.components.tolist(),
        "hyperparameters": posterior.hyperparameters._asdict(),
        "dispersion": found.dispersion,
        "dispersion_by_column": posterior.totals.dispersion.tolist(),
        "search": [one._asdict() for one in found.search],
        "number_probabilities": list(found.probabilities) or None,
        "lower_bound": None if info is None else info.lower_bound,
        "converged": None if info is None else info.converged,
        "status": None if info is None else info.status,
        "n_iter": None if info is None else info.n_iter,
    }
    if scores is not None:
        content["scores"] = np.asarray(scores, dtype=float).tolist()
    return content
