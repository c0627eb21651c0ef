"""Counts: the number of factors by several rules, and missing values. Drawn in the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cuspfa._utils.wording import counted
from cuspfa.reporting.figures.canvas import (
    BLUE,
    FAINT,
    ORANGE,
    count_ticks,
    grid,
    label_rows,
    set_tooltips,
)
from cuspfa.reporting.labels import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME_BESIDE, NAME_BELOW = 22, 12
"""Characters of names that are not shortened, beside and below a figure of a report."""
CELL_POINTS, LEAST_COLUMNS = 20.0, 16
"""Largest width in points of a cell, and columns that a figure has room for at least."""


def draw_rules(ax: Axes, names: Sequence[str], numbers: Sequence[int]) -> None:
    """The number of factors by each rule, one a row; the first is the model's own."""
    grid(ax, "x")
    colours = [ORANGE] + [BLUE] * (len(names) - 1)
    points = ax.scatter(numbers, range(len(names)), s=110, c=colours, zorder=3)
    set_tooltips(points, [f"{name}: {number}" for name, number in zip(names, numbers, strict=True)])
    low, high = max(min(numbers) - 1, 0), max(numbers) + 1
    ax.set(xlim=(low - 0.2, high + 0.2), ylim=(len(names) - 0.4, -0.6))
    count_ticks(ax.xaxis, high - low)
    label_rows(ax, names)


def draw_missing(ax: Axes, counts: Sequence[tuple[str, int]], n_rows: int, n_more: int) -> None:
    """Missing values by column, and how many more columns have some."""
    grid(ax, "x")
    names = [name for name, _ in counts]
    for row, (name, number) in enumerate(counts):
        bars = ax.barh(row, 100 * number / n_rows, height=0.6, color=BLUE)
        set_tooltips(bars[0], [f"{name}: {number} of {n_rows}"])
        ax.bar_label(bars, [str(number)], padding=3)
    ax.set_ylim(len(counts) - 0.4, -0.6)
    ax.margins(x=0.08)
    label_rows(ax, names)
    ax.set_xlabel("missing values (%)" + (f"; {n_more} more columns have some" if n_more else ""))


def draw_patterns(
    ax: Axes, columns: Sequence[str], patterns: Sequence[tuple[list[str], int]]
) -> None:
    """Columns that are missing together: one pattern a row, with its number of rows."""
    missing = np.array([[name in names for name in columns] for names, _ in patterns])
    row, column = (place.ravel() for place in np.indices(missing.shape))
    room = max(len(columns), LEAST_COLUMNS)
    side = min(CELL_POINTS, CELL_POINTS * LEAST_COLUMNS / room) - 2
    colours = list(np.where(missing.ravel(), BLUE, FAINT))
    points = ax.scatter(column, row, s=side**2, c=colours, marker="s", linewidths=0)
    words = [f"{', '.join(names)}: {counted(number, 'row')}" for names, number in patterns]
    set_tooltips(points, [words[i] for i in row])
    ax.set(xlim=(-0.5, room - 0.5), ylim=(len(patterns) - 0.4, -0.6))
    label_rows(ax, [counted(number, "row") for _, number in patterns])
    ax.set_xticks(
        range(len(columns)),
        [shortened(name, NAME_BELOW) for name in columns],
        rotation=90,
        rotation_mode="anchor",
        ha="right",
        va="center",
        parse_math=False,
    )
