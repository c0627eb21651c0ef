"""Ordinal items: curves of categories, and information by score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cuspfa._typing import Array
from cuspfa.diagnostics.item_response import category_probabilities, item_information
from cuspfa.reporting.figures.canvas import (
    BLUE,
    CHAIN_COLOURS,
    DARK,
    GREY,
    grid,
    say,
)
from cuspfa.reporting.labels import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cuspfa.posterior.base import Posterior

SCORES: Array = np.linspace(-4.0, 4.0, 161)
"""Scores of a factor, in its standard deviations."""
NAMED_ITEMS = 4
"""Items with a line of their own in a figure of information."""
LONGEST_CATEGORY = 18


def ordinal_items(posterior: Posterior) -> list[int]:
    """Positions of the ordinal columns."""
    return [j for j, one in enumerate(posterior.likelihoods) if one.kind == "ordinal"]


def response_curves(posterior: Posterior, j: int, h: int) -> Array:
    """(C, G) probabilities of the categories of column j by the score of factor h, others at 0."""
    slope, thresholds, link = _item(posterior, j, h)
    return category_probabilities(slope * SCORES, thresholds, link)


def information_curve(posterior: Posterior, j: int, h: int) -> Array:
    """(G,) information of column j on the score of factor h, the others at 0."""
    slope, thresholds, link = _item(posterior, j, h)
    return slope**2 * item_information(slope * SCORES, thresholds, link)


def _item(posterior: Posterior, j: int, h: int) -> tuple[float, Array, str]:
    """Slope, thresholds and link, in units in which the noise is that of the link."""
    sd = float(np.sqrt(np.sum(posterior.loadings[j] ** 2) + posterior.noise_variance[j]))
    slope = float(posterior.components[h, j])
    return slope, posterior.thresholds[j] * sd, posterior.likelihoods[j].link


def draw_item(ax: Axes, curves: Array, labels: Sequence[str], factor: str) -> None:
    """Probabilities of categories, each by a line with its label at its highest point."""
    grid(ax, "y")
    colours = _shades(len(curves))
    for curve, label, colour in zip(curves, labels, colours, strict=True):
        ax.plot(SCORES, curve, color=colour, lw=1.6)
        top = int(np.argmax(curve))
        side = "left" if top == 0 else "right" if top == len(curve) - 1 else "center"
        ax.annotate(
            shortened(label, LONGEST_CATEGORY),
            (SCORES[top], curve[top]),
            xytext=(0, 3),
            textcoords="offset points",
            ha=side,
            fontsize="small",
            color=DARK,
            parse_math=False,
        )
    ax.set(xlabel=factor, ylabel="probability", ylim=(0, 1.1), xlim=(SCORES[0], SCORES[-1]))
    ax.xaxis.label.set_parse_math(False)


def draw_information(ax: Axes, curves: Sequence[Array], names: Sequence[str], factor: str) -> None:
    """Information of all items together, and of those with most."""
    if not len(curves):
        say(ax, "no ordinal columns")
        return
    grid(ax, "y")
    total = np.sum(curves, axis=0)
    ax.plot(SCORES, total, color=DARK, lw=2.0, label="all items")
    order = np.argsort([-float(np.max(one)) for one in curves], kind="stable")[:NAMED_ITEMS]
    for place, i in enumerate(order):
        name = shortened(names[i], LONGEST_CATEGORY).replace("$", r"\$")
        ax.plot(SCORES, curves[i], color=CHAIN_COLOURS[place], lw=1.2, label=name)
    if len(curves) > len(order):
        for i in set(range(len(curves))) - set(order.tolist()):
            ax.plot(SCORES, curves[i], color=GREY, lw=0.6, alpha=0.6)
    ax.set(xlabel=factor, ylabel="information", xlim=(SCORES[0], SCORES[-1]))
    ax.set_ylim(bottom=0)
    ax.xaxis.label.set_parse_math(False)
    ax.legend(fontsize="small", frameon=False)


def _shades(number: int) -> list[str]:
    """Blue for the highest category, grey for the lowest, and between."""
    ends = [np.array([int(one[i : i + 2], 16) for i in (1, 3, 5)]) for one in (GREY, BLUE)]
    parts = np.linspace(0.0, 1.0, number)
    mixed = [((1 - part) * ends[0] + part * ends[1]).round().astype(int) for part in parts]
    return ["#" + "".join(f"{value:02x}" for value in one) for one in mixed]
