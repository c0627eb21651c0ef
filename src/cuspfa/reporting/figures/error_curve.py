"""The number of factors by tolerated model error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuspfa._utils.wording import counted
from cuspfa.posterior.error_curve import ModelErrorCurve
from cuspfa.reporting.figures.canvas import (
    BLUE,
    GREY,
    ORANGE,
    count_ticks,
    grid,
    say,
    set_tooltips,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_error_curve(ax: Axes, curve: ModelErrorCurve, own: float | None = None) -> None:
    """K by tolerated error as steps; numbers that are as good are hollow, the fit's own orange."""
    points = curve.points
    if not points:
        say(ax, "not available")
        return
    grid(ax, "y")
    sizes, numbers = [one.model_error for one in points], [one.n_factors for one in points]
    ax.step(sizes, numbers, where="post", color=BLUE, lw=1.4, zorder=2)
    ties = [(one.model_error, k) for one in points for k in one.tied]
    if ties:
        at, tied = zip(*ties, strict=True)
        hollow = ax.scatter(at, tied, s=24, c="white", edgecolors=GREY, zorder=3)
        set_tooltips(hollow, [f"RMSEA {size:g}: {k} as good" for size, k in ties])
        hollow.set_label("as good, within the error of the evidence")
    colours = [ORANGE if size == own else BLUE for size in sizes]
    marks = ax.scatter(sizes, numbers, s=36, c=colours, zorder=4)
    set_tooltips(
        marks,
        [f"RMSEA {size:g}: {counted(k, 'factor')}" for size, k in zip(sizes, numbers, strict=True)],
    )
    shown = [k for one in points for k in (one.n_factors, *one.tied)]
    highest, room = max(shown), 0.04 * (max(shown) + 1)
    ax.set(xlabel="tolerated error of the model (RMSEA)", ylabel="number of factors")
    ax.set_xticks(sizes, [f"{size:g}" for size in sizes], rotation=45)
    ax.set_ylim(-room if 0 in shown else 0, highest + max(room, 0.6))  # whole points
    count_ticks(ax.yaxis, highest)
    if ties:
        ax.legend(fontsize="small", frameon=False)
