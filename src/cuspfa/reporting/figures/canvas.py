"""Axes, colours and labels that several figures share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cuspfa._utils.arguments import must_be
from cuspfa.reporting.labels import described_names, short_names, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap

    from cuspfa.posterior.base import Posterior

ManyAxes = NDArray[np.object_]

BLUE, ORANGE, GREY, DARK, FAINT = "#0072b2", "#d55e00", "#7a7a7a", "#222222", "#dddddd"
"""Two colours of Okabe & Ito, which differ for every kind of colour vision, and greys. The style
sheet of the report replaces them by those of its theme."""
CHAIN_COLOURS = (BLUE, ORANGE, "#009e73", "#cc79a7")
"""Colours of chains, in turn."""
DIVERGING = (
    *("#b54e00", "#c97039", "#db9268", "#eab597", "#f5d7c8", "#fbfbfb"),
    *("#d4deed", "#adc2de", "#84a6cf", "#568cc1", "#0172b2"),
)
"""Orange, white, blue. Each side is a straight line in CIELAB, so that equal steps look equal, and
values of equal size have the same lightness on both sides. Sizes can be read without colours."""
LONGEST_NAME, LONGEST_LABEL = 24, 44
"""Characters of a name, and of a name with its wording, that is not shortened."""
N_COLOURS = 81
"""Odd, so that zero has a colour of its own."""
SMALLEST_FONT, LARGEST_FONT = 6.0, 0.9
"""Smallest size of names in points, below which only some are shown, and the largest size as a
multiple of the figure's font size."""


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
        # Not by pyplot, which would keep the figure until it is closed.
        figure = Figure(figsize=size, layout="constrained")
        return list(figure.subplots(1, number, squeeze=False, **grid)[0])
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) != number or not all(isinstance(one, Axes) for one in given):
        what = "None or matplotlib Axes" if number == 1 else f"None or {number} matplotlib Axes"
        raise must_be("ax", what, ax)
    return given


def together(axes: Sequence[Axes]) -> ManyAxes:
    """An array of Axes, as `subplots` of matplotlib returns."""
    found = np.empty(len(axes), dtype=object)
    found[:] = axes
    return found


def colours() -> Colormap:
    """Orange for negative, white for zero, blue for positive.

    The colours are transparent near zero and give `DIVERGING` on white, so that they suit a dark
    background too.
    """
    from matplotlib.colors import LinearSegmentedColormap, ListedColormap

    at = np.linspace(-1, 1, N_COLOURS)
    on_white = LinearSegmentedColormap.from_list("", DIVERGING, N=N_COLOURS)(at / 2 + 0.5)[:, :3]
    opacity = np.abs(at)[:, None]
    solid = 1 - (1 - on_white) / np.maximum(opacity, 1 / N_COLOURS)
    return ListedColormap(np.hstack([np.clip(solid, 0, 1), opacity]), "cuspfa_diverging")


def grid(ax: Axes, axis: Literal["x", "y"]) -> None:
    """Faint lines across an axis, behind what is drawn."""
    ax.grid(axis=axis, color=FAINT, lw=0.8)
    ax.set_axisbelow(True)


def set_tooltips(artist: Any, words: Sequence[str]) -> None:
    """Give each mark of an artist the text that the report shows when it is pointed at."""
    artist.described = list(words)


def say(ax: Axes, words: str) -> None:
    """Write words where there is nothing to draw."""
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", color=DARK)


def shown_names(posterior: Posterior) -> list[str]:
    """Short names of the columns, all different, with their wording if there is any."""
    labels = posterior.column_labels
    names = described_names(posterior.column_names, labels)
    return short_names(names, LONGEST_LABEL if any(labels) else LONGEST_NAME)


def room_for(names: Sequence[str]) -> float:
    """Width in inches of the longest name."""
    return 0.07 * max(map(len, names), default=0)


def label_rows(ax: Axes, names: Sequence[str], *, square: bool = False) -> int:
    """Name rows 0, 1, ... on the left. Where there is no room for all, name every `step`-th.

    With `square` the columns are named too, rotated and with shorter names.

    Returns
    -------
    int
        The step.
    """
    box = ax.get_window_extent()
    length = min(box.width, box.height) if square else box.height
    step, size = _room(length / ax.figure.dpi, len(names))
    at = list(range(0, len(names), step))
    # A dollar sign in a name does not begin a formula.
    look: dict[str, Any] = {"fontsize": size, "color": DARK, "parse_math": False}
    ax.set_yticks(at, [names[j] for j in at], **look)
    if square:
        ax.set_xticks(at, [shortened(names[j], LONGEST_NAME // 2) for j in at], rotation=90, **look)
    return step


def label_factors(ax: Axes, posterior: Posterior) -> None:
    """Name or number the columns 0, 1, ..., one for each factor."""
    heads = posterior.presentation.heads(posterior.n_active, "{}")
    if not posterior.presentation.factor_names:
        ax.set_xticks(range(len(heads)), heads)
        return
    names = [shortened(one, LONGEST_NAME) for one in heads]
    ax.set_xticks(range(len(heads)), names, rotation=45, ha="right", parse_math=False)


def count_ticks(axis: Axis, last: int) -> None:
    """Ticks at whole numbers: at each of them where these are few."""
    from matplotlib.ticker import MaxNLocator, MultipleLocator

    few = last <= 15
    axis.set_major_locator(MultipleLocator(1) if few else MaxNLocator(integer=True, min_n_ticks=1))


def _room(length: float, number: int) -> tuple[int, float]:
    """The step at which so many lines fit into so many inches, and their font size."""
    from matplotlib import rcParams

    largest = LARGEST_FONT * rcParams["font.size"]
    points = 72 * length / 1.25  # with a quarter of a line between lines
    step = max(1, math.ceil(number * SMALLEST_FONT / points))
    return step, min(largest, max(SMALLEST_FONT, points * step / max(number, 1)))


def ordinal(number: int) -> str:
    """An ordinal number, such as '2nd' or '3rd'.

    Examples
    --------
    >>> [ordinal(number) for number in (2, 3, 11, 21, 112)]
    ['2nd', '3rd', '11th', '21st', '112th']
    """
    last = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"
