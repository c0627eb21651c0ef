"""The HTML that a notebook shows for a posterior, made without draws, and for a fitted model."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.wording import capitalized, counted, signed
from cuspfa.reporting.headline import headline, large_share, strength
from cuspfa.reporting.labels import axes_name, shortened
from cuspfa.reporting.summary import LISTED_FACTORS, count_of, size_text
from cuspfa.rotation.axes import shares

if TYPE_CHECKING:
    from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
    from cuspfa.posterior.base import Posterior
    from cuspfa.posterior.factorization import FactorizationPosterior

NOTEBOOK_ITEMS, NOTEBOOK_NAME = 3, 30
"""Variables of each factor that are shown, and characters of a name."""
MOST_SHARES_SHOWN = 12
"""Most factors whose shares are shown."""


def repr_html(posterior: Posterior) -> str:
    """HTML with inline styles, in the colours of the notebook."""
    rotated_solution = posterior.rotated_solution
    share = shares(rotated_solution)
    names = posterior.column_names
    rule = large_share(len(names), posterior.n_rows)
    strong = strength(len(share), int(np.sum(share > rule.value)), rule)
    size = size_text(posterior.n_rows, len(names)) + (f"; {strong}" if strong else "")
    axes = axes_name(posterior.rotation)
    heads = posterior.presentation.heads(len(share), "{}")
    items = [
        _items(column, names, [signed(float(value)) for value in column])
        for column in rotated_solution.loadings[:, :LISTED_FACTORS].T
    ]
    about = f"{size}; {escape(axes)}; {_convergence(posterior)}"
    return _page(headline(count_of(posterior)), about, heads, share, items)


def count_repr_html(posterior: FactorizationPosterior) -> str:
    """What a notebook shows of a fit to counts; items are parts of a factor's events."""
    k, names = posterior.n_active, posterior.column_names
    size = size_text(posterior.n_rows, posterior.n_columns)
    items = [
        _items(own, names, [f"{value:.2f}" for value in own])
        for own in posterior.column_shares.T[:LISTED_FACTORS]
    ]
    title = capitalized(counted(k, "factor")) + " of counts"
    about = f"{size}; {_convergence(posterior)}"
    return _page(title, about, posterior.presentation.heads(k, "{}"), posterior.shares, items)


def _page(title: str, about: str, heads: list[str], share: Array, items: list[str]) -> str:
    lines = [
        '<div style="font-family:system-ui,sans-serif;line-height:1.45;max-width:46em">',
        f"<div><strong>{escape(title)}</strong></div>",
        f'<div style="opacity:.7">{about}</div>',
    ]
    if len(share):
        lines.append('<table style="border-collapse:collapse;margin-top:.5em">')
        lines += [
            _row(heads[h], float(part), items[h], float(share.max()))
            for h, part in enumerate(share[:LISTED_FACTORS])
        ]
        lines.append("</table>")
    if len(share) > LISTED_FACTORS:
        lines.append(f'<div style="opacity:.7">and {len(share) - LISTED_FACTORS} more</div>')
    lines.append("</div>")
    return "".join(lines)


def _convergence(posterior: Posterior | FactorizationPosterior) -> str:
    fit_info = posterior.fit_info
    if fit_info is None:
        return "no record of the fit"
    return "converged" if fit_info.converged else escape(fit_info.status)


def _items(column: Array, names: list[str], values: list[str]) -> str:
    best = np.argsort(-np.abs(column), kind="stable")[:NOTEBOOK_ITEMS]
    return ", ".join(f"{escape(shortened(names[j], NOTEBOOK_NAME))} {values[j]}" for j in best)


def _row(head: str, part: float, items: str, top: float) -> str:
    width = 100 * max(part, 0.0) / (top or 1.0)
    bar = (
        '<div style="background:#0072b2;height:.65em;border-radius:2px;min-width:2px;'
        f'width:{width:.0f}%"></div>'
    )
    left = "text-align:left;padding:.1em .8em .1em 0"
    return (
        f'<tr><td style="{left}">{escape(shortened(head, NOTEBOOK_NAME))}</td>'
        f'<td style="padding:.1em .8em .1em 0;text-align:right">{100 * part:.1f} %</td>'
        f'<td style="width:9em;padding:.1em .8em .1em 0">{bar}</td>'
        f'<td style="{left}">{items}</td></tr>'
    )


# --- a fitted model ---


def with_result(page: str, model: CuspFactorAnalysis) -> str:
    """scikit-learn's diagram with the answer below it, inside the page's body."""
    before, end, after = page.rpartition("</body>")
    table = result_table(model)
    return before + table + end + after if end else page + table


def _how_sure(model: CuspFactorAnalysis) -> list[tuple[str, str]]:
    """The bound, or of a sampler the probabilities of the number of factors."""
    if not np.isnan(model.lower_bound_):
        return [("evidence lower bound", f"{model.lower_bound_:.2f}")]
    info = model.posterior_.fit_info
    if info is None or info.method == "variational":  # with model error there is no bound
        return []
    likely = sorted(model.search_, key=lambda entry: -entry.weight)[:MOST_SHARES_SHOWN]
    words = ", ".join(f"{entry.n_factors}: {entry.weight:.2f}" for entry in likely)
    return [("probability by number of factors", words)]


def result_table(model: CuspFactorAnalysis) -> str:
    """Number of factors, their strengths, bound and status."""
    strengths = np.sum(model.loadings_ * model.structure_, axis=0) / model.n_features_in_
    shares = ", ".join(f"{100 * share:.1f}" for share in strengths[:MOST_SHARES_SHOWN])
    more = ", …" if len(strengths) > MOST_SHARES_SHOWN else ""
    lines = [
        ("number of factors", str(model.n_factors_)),
        ("share of variance, % by factor", shares + more if len(strengths) else "–"),
        *([("model error (RMSEA)", f"{model.model_error_:g}")] if model.model_error_ else []),
        *_how_sure(model),
        ("status", escape(model.status_)),
    ]
    cells = "".join(
        f'<tr><td style="text-align:left">{name}</td><td style="text-align:left">{value}</td></tr>'
        for name, value in lines
    )
    return f"<table>{cells}</table>"
