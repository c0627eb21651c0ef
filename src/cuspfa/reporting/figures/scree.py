"""Eigenvalues of the data beside those of uncorrelated data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cuspfa._typing import Array
from cuspfa.reporting.figures.canvas import BLUE, GREY, ORANGE, count_ticks, grid, set_tooltips

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST_EIGENVALUES = 40
"""Eigenvalues that are drawn at least, where there are so many."""


def draw_scree(
    ax: Axes, observed: Array, reference: Array | None, n_above: int, chosen: int
) -> None:
    """Eigenvalues, falling; the first `n_above` are filled. The model's K is a dashed line."""
    shown = min(len(observed), max(FEWEST_EIGENVALUES, chosen + 5))
    at, values = np.arange(1, shown + 1), observed[:shown]
    grid(ax, "y")
    ax.axvline(chosen, color=ORANGE, ls="--", lw=1.4, label=f"this model: {chosen}")
    if reference is not None:
        label = "uncorrelated data, 95 % quantile"
        ax.plot(at, reference[:shown], ":", color=GREY, lw=1.6, zorder=2, label=label)
    ax.plot(at, values, "-", color=BLUE, lw=1.2, zorder=2)
    face = list(np.where(at <= n_above, BLUE, "white"))
    points = ax.scatter(at, values, s=30, c=face, edgecolors=BLUE, zorder=3)
    set_tooltips(points, [f"{h}: {value:.2f}" for h, value in zip(at, values, strict=True)])
    filled = "data (filled: above uncorrelated data)" if reference is not None else "data"
    ax.plot([], [], "o-", color=BLUE, label=filled)
    count_ticks(ax.xaxis, shown)
    ax.set_xlim(min(chosen, 1) - 0.6, shown + 0.6)
    first = "" if shown == len(observed) else f" (the first {shown} of {len(observed)})"
    ax.set(xlabel=f"number{first}", ylabel="eigenvalue")
    ax.legend(fontsize="small", frameon=False)
