"""The HTML that a notebook shows for a posterior, made without draws."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from cuspfa._utils.wording import signed
from cuspfa.reporting.headline import headline, large_share, strength
from cuspfa.reporting.labels import axes_name, shortened
from cuspfa.reporting.summary import LISTED_FACTORS, count_of, size_text
from cuspfa.rotation.axes import shares

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

NOTEBOOK_ITEMS, NOTEBOOK_NAME = 3, 30
"""Variables of each factor that are shown, and characters of a name."""


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
    lines = [
        '<div style="font-family:system-ui,sans-serif;line-height:1.45;max-width:46em">',
        f"<div><strong>{escape(headline(count_of(posterior)))}</strong></div>",
        f'<div style="opacity:.7">{size}; {escape(axes)}; {_convergence(posterior)}</div>',
    ]
    if len(share):
        lines.append('<table style="border-collapse:collapse;margin-top:.5em">')
        lines += [
            _row(heads[h], float(part), rotated_solution.loadings[:, h], names, float(share.max()))
            for h, part in enumerate(share[:LISTED_FACTORS])
        ]
        lines.append("</table>")
    if len(share) > LISTED_FACTORS:
        lines.append(f'<div style="opacity:.7">and {len(share) - LISTED_FACTORS} more</div>')
    lines.append("</div>")
    return "".join(lines)


def _convergence(posterior: Posterior) -> str:
    fit_info = posterior.fit_info
    if fit_info is None:
        return "no record of the fit"
    return "converged" if fit_info.converged else escape(fit_info.status)


def _row(head: str, part: float, column: np.ndarray, names: list[str], top: float) -> str:
    best = np.argsort(-np.abs(column), kind="stable")[:NOTEBOOK_ITEMS]
    items = ", ".join(
        f"{escape(shortened(names[j], NOTEBOOK_NAME))} {signed(float(column[j]))}" for j in best
    )
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
