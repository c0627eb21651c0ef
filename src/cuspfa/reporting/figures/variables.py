"""Points with intervals, and matrices in colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa.posterior.draws import Interval
from cuspfa.reporting.figures.canvas import (
    BLUE,
    DARK,
    GREY,
    ORANGE,
    colours,
    grid,
    label_rows,
    set_tooltips,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURE_ROWS = 40
"""Rows of a figure."""
LARGEST_DRAWN_MATRIX = 1000
"""Variables up to which a matrix of all pairs is drawn whole."""


def draw_dots(ax: Axes, values: Array, ends: Interval, size: float = 22) -> Any:
    """One row for each value, from above: blue if positive, orange if negative.

    Hollow and grey where the interval contains zero.
    """
    grid(ax, "x")
    at = np.arange(len(values))
    clear: BoolArray = (ends.lower > 0) | (ends.upper < 0)
    tone = np.where(clear, np.where(values > 0, BLUE, ORANGE), GREY).tolist()
    face = np.where(clear, tone, "white").tolist()
    ax.hlines(at, ends.lower, ends.upper, colors=tone, lw=1.6, zorder=2)
    ax.set_ylim(len(values) - 0.3, -0.7)
    return ax.scatter(values, at, s=size, c=face, edgecolors=tone, linewidths=1.1, zorder=3)


def draw_communality(
    ax: Axes,
    names: list[str],
    middle: Array,
    ends: Interval,
    *,
    prob: float = 0.95,
    most: int = FIGURE_ROWS,
) -> None:
    """Communalities with intervals; of more than `most` variables the highest and the lowest."""
    p, half = len(middle), most // 2
    order = np.argsort(-middle, kind="stable")
    if p > most:
        order = np.concatenate([order[: most - half], order[-half:]])
        ax.axhline(most - half - 0.5, color=DARK, lw=0.8, ls=":")
        ax.set_ylabel(f"highest {most - half} and lowest {half} of {p} variables")
    lower, upper = ends.lower[order], ends.upper[order]
    points = draw_dots(ax, middle[order], Interval(lower, upper))
    rows = zip(order, middle[order], lower, upper, strict=True)
    set_tooltips(points, [f"{names[j]}: {m:.2f} ({a:.2f} – {b:.2f})" for j, m, a, b in rows])
    label_rows(ax, [names[j] for j in order])
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel(f"communality, median and {100 * prob:g} % interval")


def draw_matrix(ax: Axes, values: Array, limit: float, interpolation: str = "nearest") -> Any:
    """A matrix in colours from −limit to limit."""
    # Not aspect="equal", with which a colour bar below pushes titles out of the figure.
    return ax.imshow(
        values, cmap=colours(), vmin=-limit, vmax=limit, aspect="auto", interpolation=interpolation
    )
