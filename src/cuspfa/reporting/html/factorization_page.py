"""The report on a Poisson factorization: one page without a script."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from cuspfa._utils.wording import minus
from cuspfa.posterior.draws import Interval
from cuspfa.posterior.provenance import versions
from cuspfa.reporting.factorization_methods import count_again, count_methods, count_references
from cuspfa.reporting.factorization_summary import CountSummary
from cuspfa.reporting.figures.search import draw_shares
from cuspfa.reporting.html.page import policy, resource, templates
from cuspfa.reporting.html.svg import as_svg

if TYPE_CHECKING:
    from cuspfa.posterior.factorization import FactorizationPosterior

MOST_DISPERSED = 30
"""Columns of large residual dispersion that are listed."""


def render_counts(posterior: FactorizationPosterior, title: str | None = None) -> str:
    """The whole page."""
    style, summary = resource("style.css"), posterior.summary()
    return (
        templates()
        .get_template("factorization.html")
        .render(
            whole=True,
            title=title or "Poisson factorization",
            summary=summary,
            factors=summary.factors,
            dispersed=summary.most_dispersed[:MOST_DISPERSED],
            search=[_search_row(one, len(summary.factors)) for one in summary.search],
            probabilities=[
                {"n_factors": k, "chosen": k == len(summary.factors), "probability": one}
                for k, one in enumerate(summary.probabilities)
                if one > 0
            ],
            shares=_shares(summary),
            methods=count_methods(posterior),
            again=count_again(posterior),
            citations=[one.text for one in count_references(posterior)],
            style=Markup(style),
            policy=policy(style, ""),
            version=dict(versions())["cuspfa"],
        )
    )


def _shares(summary: CountSummary) -> Any:
    """The figure of the sizes of the factors."""
    if not summary.factors:
        return None
    middle, lower, upper = np.array(
        [[one.share, one.lower, one.upper] for one in summary.factors]
    ).T
    draw = partial(
        draw_shares, middle=middle, ends=Interval(lower, upper), large=None, of="expected counts"
    )
    return as_svg("shares", "Share of the expected counts by factor", draw, height=220)


def _search_row(entry: Any, chosen: int) -> dict[str, Any]:
    return {
        "n_factors": entry.n_factors,
        "chosen": entry.n_factors == chosen,
        "bound": _nats(entry.lower_bound),
        "evidence": _nats(entry.evidence_gain, entry.evidence_error),
        "held_out": _nats(entry.held_out_gain),
        "status": entry.status,
    }


def _nats(value: float, error: float = math.nan) -> str:
    if not math.isfinite(value):
        return "–"
    text = minus(f"{value:.1f}")
    return text if math.isnan(error) else f"{text} ± {error:.1f}"
