"""Figures, colours and labels; all that is known of matplotlib by more than one figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cuspfa._utils.arguments import must_be
from cuspfa.posterior.base import Posterior
from cuspfa.reporting.labels import short, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap

ManyAxes = NDArray[np.object_]

BLUE, ORANGE, GREY, DARK = "#0072b2", "#d55e00", "#7a7a7a", "#222222"
"""Of Okabe & Ito, told apart with any colour vision, and two greys."""
DIVERGING = (
    *("#0172b2", "#568cc1", "#84a6cf", "#adc2de", "#d4deed", "#fbfbfb"),
    *("#f5d7c8", "#eab597", "#db9268", "#c97039", "#b54e00"),
)
"""Blue, white, orange. Each side is a straight line in CIELAB, so that equal steps look equal, and
the same distance from zero has the same lightness on both: signs are told apart by blue and orange,
sizes even in print without colours."""
LONGEST = 24
"""Characters of a name that is not shortened."""
SMALLEST, LARGEST = 6.0, 9.0
"""Sizes of names, in points; names that would need to be smaller are thinned out."""


def panels(ax: Any, number: int, size: tuple[float, float], **grid: Any) -> list[Axes]:
    """The axes that were given, or so many of a new figure of this size in inches."""
    try:
        from matplotlib.axes import Axes
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "cuspfa.reporting.plots needs matplotlib, which is not installed. "
            "Install it with pip install 'cuspfa[cli]'."
        ) from error
    if ax is None:
        # Not by pyplot, which would keep the figure alive until it is told to close it.
        figure = Figure(figsize=size, layout="constrained")
        return list(figure.subplots(1, number, squeeze=False, **grid)[0])
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) != number or not all(isinstance(one, Axes) for one in given):
        what = "None or matplotlib Axes" if number == 1 else f"None or {number} matplotlib Axes"
        raise must_be("ax", what, ax)
    return given


def together(axes: Sequence[Axes]) -> ManyAxes:
    """As an array of Axes, which is what matplotlib's own `subplots` gives."""
    found = np.empty(len(axes), dtype=object)
    found[:] = axes
    return found


def colours() -> Colormap:
    """Blue for negative, white for zero, orange for positive."""
    from matplotlib.colors import LinearSegmentedColormap

    # An odd number of colours, so that there is one for zero.
    return LinearSegmentedColormap.from_list("cuspfa_diverging", DIVERGING, N=257)


def say(ax: Axes, words: str) -> None:
    """Words where there is nothing to draw."""
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", color=DARK)


def shown_names(posterior: Posterior) -> list[str]:
    """Short names, all different."""
    return short_names(posterior.column_names, LONGEST)


def room_for(names: Sequence[str]) -> float:
    """Inches that the longest name takes beside a figure."""
    return 0.07 * max(map(len, names), default=0)


def label_rows(ax: Axes, names: Sequence[str], *, square: bool = False) -> int:
    """Name rows 0, 1, ... at the left, as many as can be read; every which one it was.

    With `square` the columns too, turned by a right angle; they have even shorter names, as there
    is no need to say in full what stands at the left already.
    """
    box = ax.get_window_extent()
    length = min(box.width, box.height) if square else box.height
    step, size = _room(length / ax.figure.dpi, len(names))
    at = list(range(0, len(names), step))
    # Names are text: a dollar sign in one is not the beginning of a formula.
    look: dict[str, Any] = {"fontsize": size, "parse_math": False}
    ax.set_yticks(at, [names[j] for j in at], **look)
    if square:
        ax.set_xticks(at, [short(names[j], LONGEST // 2) for j in at], rotation=90, **look)
    return step


def count_ticks(axis: Axis, last: int) -> None:
    """Ticks at whole numbers, at each of them where these are few."""
    from matplotlib.ticker import MaxNLocator, MultipleLocator

    few = last <= 15
    axis.set_major_locator(MultipleLocator(1) if few else MaxNLocator(integer=True, min_n_ticks=1))


def _room(length: float, number: int) -> tuple[int, float]:
    """Every which of so many lines fits into so many inches, and the size of its letters."""
    points = 72 * length / 1.25  # with a quarter of a line between lines
    step = max(1, math.ceil(number * SMALLEST / points))
    return step, min(LARGEST, max(SMALLEST, points * step / max(number, 1)))


def ordinal(number: int) -> str:
    """'2nd', '3rd', '4th': "every ... one".

    Examples
    --------
    >>> [ordinal(number) for number in (2, 3, 11, 21, 112)]
    ['2nd', '3rd', '11th', '21st', '112th']
    """
    last = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"
