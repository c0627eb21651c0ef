"""The HTML that a notebook shows for a posterior, made without draws."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from cuspfa.reporting.summary import MIN_SHARE, headline
from cuspfa.rotation.axes import shares

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

SHOWN, ITEMS = 12, 3
"""Factors, and variables of each, that are shown."""
LONGEST = 30
"""Characters of a name."""


def repr_html(posterior: Posterior) -> str:
    """HTML with inline styles, in the colours of the notebook."""
    rotated_solution = posterior.rotated_solution
    share = shares(rotated_solution)
    names = posterior.column_names
    large = int(np.sum(posterior.explained_variance_ratio > MIN_SHARE))
    size = f"{posterior.n_rows} rows, {len(names)} columns"
    axes = "principal axes" if posterior.rotation is None else posterior.rotation.method
    lines = [
        '<div style="font-family:system-ui,sans-serif;line-height:1.45;max-width:46em">',
        f"<div><strong>{escape(headline(len(share), large, None))}</strong></div>",
        f'<div style="opacity:.7">{size}; {escape(axes)}; {_ending(posterior)}</div>',
    ]
    if len(share):
        lines.append('<table style="border-collapse:collapse;margin-top:.5em">')
        lines += [
            _row(h, float(part), rotated_solution.loadings[:, h], names, float(share.max()))
            for h, part in enumerate(share[:SHOWN])
        ]
        lines.append("</table>")
    if len(share) > SHOWN:
        lines.append(f'<div style="opacity:.7">and {len(share) - SHOWN} more</div>')
    lines.append("</div>")
    return "".join(lines)


def _ending(posterior: Posterior) -> str:
    fit_info = posterior.fit_info
    if fit_info is None:
        return "no record of the fit"
    return "converged" if fit_info.converged else escape(fit_info.status)


def _row(h: int, part: float, column: np.ndarray, names: list[str], top: float) -> str:
    best = np.argsort(-np.abs(column), kind="stable")[:ITEMS]
    items = ", ".join(f"{escape(_cut(names[j]))} {_signed(float(column[j]))}" for j in best)
    width = 100 * max(part, 0.0) / (top or 1.0)
    bar = (
        '<div style="background:#0072b2;height:.65em;border-radius:2px;min-width:2px;'
        f'width:{width:.0f}%"></div>'
    )
    left = "text-align:left;padding:.1em .8em .1em 0"
    return (
        f'<tr><td style="{left}">{h + 1}</td>'
        f'<td style="padding:.1em .8em .1em 0;text-align:right">{100 * part:.1f} %</td>'
        f'<td style="width:9em;padding:.1em .8em .1em 0">{bar}</td>'
        f'<td style="{left}">{items}</td></tr>'
    )


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
