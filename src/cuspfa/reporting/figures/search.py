"""The search over the number of factors, their shares of the variance, and convergence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.wording import counted, minus
from cuspfa.posterior.draws import Interval
from cuspfa.posterior.fit_info import FitInfo, SearchEntry
from cuspfa.reporting.figures.canvas import (
    BLUE,
    CHAIN_COLOURS,
    DARK,
    GREY,
    ORANGE,
    count_ticks,
    grid,
    say,
    set_tooltips,
)
from cuspfa.reporting.headline import LargeShare

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_search(ax: Axes, entries: list[SearchEntry], chosen: int, *, sampled: bool) -> None:
    """Bound and evidence by number of factors, or of a sampler their probabilities."""
    numbers = np.array([entry.n_factors for entry in entries])
    grid(ax, "y")
    if sampled:
        _probabilities(ax, entries, chosen)
    else:
        _curves(ax, entries, chosen)
    count_ticks(ax.xaxis, numbers.max() - numbers.min())
    ax.set_xlim(numbers.min() - 0.6, numbers.max() + 0.6)
    ax.set_xlabel("number of factors")


def _curves(ax: Axes, entries: list[SearchEntry], chosen: int) -> None:
    from matplotlib.ticker import FuncFormatter

    numbers = np.array([entry.n_factors for entry in entries])
    bound = np.array([entry.lower_bound for entry in entries])
    evidence = np.array([entry.evidence for entry in entries])
    done = np.array([entry.converged for entry in entries])
    ax.axvline(chosen, color=ORANGE, ls="--", lw=1.4, label=f"chosen: {chosen}")
    _curve(ax, numbers, bound, done, "o", GREY, "evidence lower bound")
    _curve(ax, numbers, evidence, np.ones_like(done), "D", BLUE, "evidence")
    if not done[np.isfinite(bound)].all():
        ax.plot([], [], "o", mec=GREY, mfc="white", label="not run to convergence")
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set_ylim(3 * min(ax.dataLim.y0, -1.0), 0.6)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: minus(f"{value:,.0f}")))
    ax.set_ylabel("nats below the best")
    # Below the axes, as curves may pass through any corner.
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize="small", frameon=False
    )


def _curve(
    ax: Axes, numbers: Array, values: Array, done: BoolArray, marker: str, colour: str, label: str
) -> None:
    """Difference from the best, where there is a value. Runs that did not converge are hollow."""
    known = np.isfinite(values)
    if not known.any():
        return
    below = values[known] - values[known].max()
    ax.plot(numbers[known], below, "-", color=colour, lw=1.2, zorder=2)
    face = np.where(done[known], colour, "white")
    points = ax.scatter(
        numbers[known], below, s=32, marker=marker, c=list(face), edgecolors=colour, zorder=3
    )
    pairs = zip(numbers[known], below, strict=True)
    set_tooltips(
        points,
        [f"{counted(k, 'factor')}: {minus(f'{nats:.1f}')} nats, {label}" for k, nats in pairs],
    )
    ax.plot([], [], f"{marker}-", color=colour, label=label)


def _probabilities(ax: Axes, entries: list[SearchEntry], chosen: int) -> None:
    for entry in entries:
        number, percent = entry.n_factors, 100 * entry.weight
        colour = ORANGE if number == chosen else BLUE
        (bar,) = ax.bar(number, percent, width=0.6, color=colour)
        set_tooltips(bar, [f"{counted(number, 'factor')}: {percent:.1f} %"])
    ax.set_ylabel("posterior probability (%)")


def draw_shares(
    ax: Axes, middle: Array, ends: Interval, large: LargeShare | None, of: str = "variance"
) -> None:
    """Shares by factor, with intervals; grey where a factor is not large."""
    grid(ax, "y")
    at = np.arange(1, len(middle) + 1)
    colour = list(np.where(middle > (large.value if large else 0.0), BLUE, GREY))
    ax.vlines(at, 100 * ends.lower, 100 * ends.upper, colors=colour, lw=1.6)
    points = ax.scatter(at, 100 * middle, s=28, c=colour, zorder=3)
    rows = zip(at, middle, ends.lower, ends.upper, strict=True)
    set_tooltips(
        points,
        [f"Factor {h}: {100 * m:.1f} % ({100 * a:.1f} – {100 * b:.1f} %)" for h, m, a, b in rows],
    )
    if large is not None:
        ax.axhline(100 * large.value, color=DARK, lw=0.9, ls=":")
        ax.annotate(
            large.short,
            (1, 100 * large.value),
            xycoords=("axes fraction", "data"),
            xytext=(-3, 2),
            textcoords="offset points",
            ha="right",
            fontsize="small",
        )
    ax.set_ylim(bottom=0)
    ax.set_xlim(0.4, len(middle) + 0.6)
    count_ticks(ax.xaxis, len(middle))
    ax.set(xlabel="factor", ylabel=f"share of the {of} (%),\nmedian and 95 % interval")


def draw_chains(ax: Axes, chains: Array) -> None:
    """Log-likelihood of the draws, one line a chain."""
    grid(ax, "y")
    at = np.arange(1, chains.shape[1] + 1)
    for number, values in enumerate(chains):
        (line,) = ax.plot(at, values, lw=0.7, color=CHAIN_COLOURS[number % len(CHAIN_COLOURS)])
        line.set_label(f"chain {number + 1}")
        set_tooltips(line, [f"chain {number + 1}"])
    ax.set(xlabel="draw", ylabel="log-likelihood, scores integrated out")
    ax.ticklabel_format(axis="y", useOffset=False)
    count_ticks(ax.xaxis, chains.shape[1])
    if 1 < len(chains) <= 8:
        ax.legend(fontsize="small", frameon=False)


def draw_bound(ax: Axes, fit_info: FitInfo, *, log: bool = True) -> None:
    """The bound by iteration: how far below its last value on a log scale, or as it is."""
    grid(ax, "y")
    from matplotlib.ticker import FuncFormatter

    trace = np.asarray(fit_info.trace, dtype=float)
    end = trace[-1] if len(trace) else fit_info.lower_bound  # which is NaN with model error
    last = minus(f"{end:,.2f}")
    values = trace[-1] - trace[:-1] if log and len(trace) else trace
    iterations = np.arange(1, len(values) + 1)
    # After convergence, differences are rounding errors of either sign.
    kept = values > 0 if log else np.isfinite(values)
    if not kept.any():
        say(ax, f"bound {last}\nfrom the first iteration on")
        return
    ax.plot(iterations[kept], values[kept], "o-", color=BLUE, ms=3.5, lw=1.2)
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: minus(f"{value:g}")))
    else:
        ax.ticklabel_format(axis="y", useOffset=False)
    ax.set(xlabel="iteration", ylabel=f"nats below the last ({last})" if log else "bound (nats)")
    ax.set_xlim(0.5 - 0.02 * len(trace), 0.5 + 1.02 * len(trace))
    count_ticks(ax.xaxis, len(trace))


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
