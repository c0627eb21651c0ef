"""Points with intervals: loadings of factors, communalities."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from cuspfa._typing import Array, Indices, RandomState
from cuspfa._utils.arguments import whole
from cuspfa.posterior.base import Posterior, check_posterior
from cuspfa.posterior.draws import Draws, Interval
from cuspfa.reporting.figures.canvas import (
    DARK,
    LONGEST_NAME,
    ManyAxes,
    label_rows,
    panels,
    room_for,
    say,
    shown_names,
    together,
)
from cuspfa.reporting.figures.values import grouped_order
from cuspfa.reporting.figures.variables import FIGURE_ROWS, draw_communality, draw_dots
from cuspfa.reporting.labels import shortened
from cuspfa.reporting.plots._numbers import check_factors, make_draws
from cuspfa.reporting.summary import factor_shares

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_forest(
    posterior: Posterior,
    factor: Any = 1,
    ax: Any = None,
    *,
    prob: float = 0.95,
    most: int = FIGURE_ROWS,
    draws: Draws | None = None,
    n_draws: int | None = None,
    random_state: RandomState = 0,
) -> Axes | ManyAxes:
    """Draw loadings with credible intervals.

    Points are posterior mean loadings on the correlation scale, as `model.loadings_` has them, on
    principal axes or those of its rotation. For the intervals draws are aligned to these
    (`posterior.align`): with a rotation they include the uncertainty of the axes, without one
    only that of the loadings.

    Parameters
    ----------
    posterior : Posterior
        Of a fitted model: `model.posterior_`.
    factor : int, list of int or "all", default=1
        The number of a factor, from 1 on, or several, side by side. One factor's variables are
        sorted by loading; with several the order is that of `plot_loadings`.
    ax : matplotlib Axes, as many as factors, or None, default=None
        Where to draw; None makes a figure.
    prob : float, default=0.95
        Probability of the intervals.
    most : int, default=40
        Variables to show: where there are more, those of largest absolute loading, as many for
        each factor.
    draws : Draws or None, default=None
        Draws to use, or make them.
    n_draws : int or None, default=None
        Draws to make. None means 1000, and fewer where they would need more than 512 MB.
    random_state : default=0
        Seed of the draws.

    Returns
    -------
    matplotlib Axes, or ndarray of them where several factors are asked for

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, plots
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> ax = plots.plot_forest(CuspFactorAnalysis().fit(X).posterior_, 2, n_draws=200)
    >>> ax.get_title().split(",")[0]
    'Factor 2'
    """
    check_posterior(posterior)
    most = whole("most", most, 1)
    p, k = len(posterior.noise_variance), posterior.n_active
    chosen = check_factors(factor, k)
    number, rows = len(chosen), min(p, most)
    names = shown_names(posterior)
    width = room_for(names) + (5.0 if number == 1 else 1.4 + 1.3 * number)
    axes = panels(ax, number, (width, _height(rows)), sharex=True, sharey=True)
    single = isinstance(factor, Integral)
    if k == 0:
        for one in axes:
            one.set_title("Loadings")
            say(one, "no factors")
        return axes[0] if single else together(axes)
    loadings = posterior.rotated_solution.loadings
    variables = _variables_to_show(loadings, chosen, most)
    found = make_draws(posterior, draws, n_draws, random_state)
    interval = posterior.align(draws=found).table(prob, columns=variables)
    share, _ = factor_shares(posterior, found)
    share = np.pad(share, (0, max(k - len(share), 0)))  # draws may have fewer factors
    titles = [shortened(one, LONGEST_NAME) for one in posterior.factor_names]
    for one, h in zip(axes, chosen, strict=True):
        ends = Interval(interval.lower[:, h], interval.upper[:, h])
        draw_dots(one, loadings[variables, h], ends, 22 if number == 1 else 10)
        one.axvline(0, color=DARK, lw=0.8, zorder=0)
        title = _factor_title(share[h], titles[h], alone=number == 1)
        one.set_title(title, parse_math=False)
    label_rows(axes[0], [names[j] for j in variables])
    if p > most:
        which = "strongest" if number == 1 else "strongest of each factor:"
        axes[0].set_ylabel(f"{which} {rows} of {p} variables")
    _explain(axes, prob, own=ax is None)
    return axes[0] if single else together(axes)


def _factor_title(share: float, name: str, *, alone: bool) -> str:
    """The title of a factor, with the median of its share of the variance."""
    part = f"{100 * share:.1f} %"
    return f"{name}, {part} of the variance" if alone else f"{name}\n{part}"


def _height(rows: int) -> float:
    """Height in inches of a figure of so many rows, with its title and axis."""
    return max(2.8, 1.3 + 0.2 * rows)


def _variables_to_show(loadings: Array, factors: list[int], most: int) -> Indices:
    """Variables to show, as many of each factor, in the order to show them in."""
    size = np.abs(loadings[:, factors])
    rank = np.argsort(np.argsort(-size, axis=0, kind="stable"), axis=0).min(axis=1)
    kept = np.sort(np.lexsort((-size.max(axis=1), rank))[:most])
    if len(factors) == 1:
        return np.asarray(kept[np.argsort(-loadings[kept, factors[0]], kind="stable")])
    return np.asarray(kept[grouped_order(loadings[kept])[0]])


def _explain(axes: list[Axes], prob: float, *, own: bool) -> None:
    words = f"loading, {100 * prob:g} % interval (hollow if it contains 0)"
    if len(axes) == 1:
        axes[0].set_xlabel(words)
        return
    for one in axes:
        one.locator_params(axis="x", nbins=4)
    if own:
        axes[0].figure.supxlabel(words, fontsize="medium")
    else:  # the caller labels the whole figure
        for one in axes:
            one.set_xlabel("loading")


def plot_communality(
    posterior: Posterior,
    ax: Any = None,
    *,
    prob: float = 0.95,
    most: int = FIGURE_ROWS,
    draws: Draws | None = None,
    n_draws: int | None = None,
    random_state: RandomState = 0,
) -> Axes:
    """Draw the part of each variable's variance that the factors explain, with intervals.

    Medians of draws, the largest first.

    Parameters
    ----------
    posterior : Posterior
        Of a fitted model: `model.posterior_`.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.
    prob : float, default=0.95
        Probability of the intervals.
    most : int, default=40
        Variables to show, at least 2: where there are more, half of them are those of the highest
        communality and half those of the lowest.
    draws, n_draws, random_state
        As in `plot_forest`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, plots
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> ax = plots.plot_communality(CuspFactorAnalysis().fit(X).posterior_, n_draws=200)
    >>> ax.get_xlabel()
    'communality, median and 95 % interval'
    """
    check_posterior(posterior)
    most = whole("most", most, 2)
    p, k = len(posterior.noise_variance), posterior.n_active
    names = shown_names(posterior)
    (axes,) = panels(ax, 1, (5.0 + room_for(names), _height(min(p, most))))
    axes.set_title("Variance explained by the factors")
    if k == 0:
        say(axes, "no factors")
        return axes
    found = make_draws(posterior, draws, n_draws, random_state)
    # If no factor explains a variable, the communality by mean loadings is below that of any draw.
    middle = np.median(found.communality, axis=0)
    ends = posterior.interval("communality", prob, draws=found)
    draw_communality(axes, names, middle, ends, prob=prob, most=most)
    return axes
