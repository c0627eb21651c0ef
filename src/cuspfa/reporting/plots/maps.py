"""Heat maps: loadings, and correlations of the data and of the model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa._utils.wording import minus
from cuspfa.diagnostics.fit_indices import srmr
from cuspfa.posterior.base import Posterior, check_posterior
from cuspfa.reporting.figures.canvas import (
    DARK,
    DIVERGING,
    ManyAxes,
    label_factors,
    label_rows,
    ordinal,
    panels,
    room_for,
    say,
    shown_names,
    together,
)
from cuspfa.reporting.figures.values import fitted_correlation, grouped_order
from cuspfa.reporting.figures.variables import LARGEST_DRAWN_MATRIX, draw_matrix
from cuspfa.reporting.labels import axes_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_INCHES, TALLEST_INCHES = 0.21, 9.0
"""Inches of a row with a name, and of the tallest figure."""
CELL_INCHES = (0.3, 0.13)
"""Width and height in inches of a cell that has room for its value."""
SOLID_DIAGONAL = 150
"""Variables above which the diagonal is drawn as a line: single cells would look like dots."""


def plot_loadings(posterior: Posterior, ax: Any = None) -> Axes:
    """Draw loadings as a heat map, variables grouped by the factor they load on most.

    Posterior mean loadings on the correlation scale, as `model.loadings_` has them, on principal
    axes or those of its rotation. Within a group variables go from the largest loading on its
    factor down to the most negative; lines separate the groups. Where not all names fit, only every
    second, third, ... row is named, and the label of the axis says so.

    Parameters
    ----------
    posterior : Posterior
        Of a fitted model: `model.posterior_`.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure that is high enough for the names.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, plots
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> ax = plots.plot_loadings(CuspFactorAnalysis().fit(X).posterior_)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['1', '2']
    """
    check_posterior(posterior)
    loadings = posterior.rotated_solution.loadings
    p, k = loadings.shape
    names = shown_names(posterior)
    width = 2.3 + room_for(names) + 0.42 * min(max(k, 3), 24)
    (axes,) = panels(ax, 1, (width, float(np.clip(1.3 + ROW_INCHES * p, 2.8, TALLEST_INCHES))))
    axes.set_title("Mean loadings")
    if k == 0:
        say(axes, "no factors")
        return axes
    order, groups = grouped_order(loadings)
    shown = loadings[order]
    image = draw_matrix(axes, shown, 1.0)
    step = label_rows(axes, [names[j] for j in order])
    axes.set_ylabel(_thinned(step, p))
    label_factors(axes, posterior)
    axes.set_xlabel(f"factor ({axes_name(posterior.rotation)})")
    for edge in _edges(groups):
        axes.axhline(edge, color=DARK, lw=0.8)
    _write(axes, shown)
    axes.figure.colorbar(image, ax=axes, label="loading, correlation scale", aspect=30)
    return axes


def _write(ax: Axes, values: Array) -> None:
    """Write values into the cells, where these are large enough."""
    box = ax.get_window_extent()
    cell = box.width / values.shape[1] / ax.figure.dpi, box.height / len(values) / ax.figure.dpi
    if cell[0] < CELL_INCHES[0] or cell[1] < CELL_INCHES[1]:
        return
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if abs(value) > 0.85 else DARK  # the one with more contrast
        text = minus(f"{value:z.2f}".replace("0.", ".", 1))
        ax.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)


def _edges(groups: Indices) -> Array:
    """Between the last row of a group and the first of the next."""
    return np.asarray(np.flatnonzero(np.diff(groups)) + 0.5, dtype=float)


def _thinned(step: int, p: int) -> str:
    return "" if step == 1 else f"{p} variables, every {ordinal(step)} is named"


def plot_correlation(posterior: Posterior, ax: Any = None) -> ManyAxes:
    """Draw correlations of the data, those of the model, and the residuals, side by side.

    Variables are in the order of `plot_loadings`, so that groups stand along the diagonal. The
    residuals have a colour scale of their own, up to the largest of them.

    Parameters
    ----------
    posterior : Posterior
        Of a fitted model: `model.posterior_`.
    ax : three matplotlib Axes or None, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    ndarray of three matplotlib Axes
        Sample, fitted, residual. For wide or sparse data whose correlations are not kept, two of
        them say so. Of more than 1000 variables every second, third, ... is drawn.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, plots
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> axes = plots.plot_correlation(CuspFactorAnalysis().fit(X).posterior_)
    >>> [ax.get_title() for ax in axes]
    ['sample', 'fitted', 'residual']
    """
    check_posterior(posterior)
    loadings = posterior.rotated_solution.loadings
    order, groups = grouped_order(loadings)
    thin = math.ceil(len(order) / LARGEST_DRAWN_MATRIX)
    shown, edges = order[::thin], _edges(groups[::thin])
    every = shown_names(posterior)
    names = [every[j] for j in shown]
    axes = panels(ax, 3, (11.6 + room_for(names), 5.2))
    flat = posterior.standardized_loadings  # on any axes, of uncorrelated factors
    fitted, sample = fitted_correlation(flat[shown]), posterior.sample_correlation
    for one, title in zip(axes, ("sample", "fitted", "residual"), strict=True):
        one.set_title(title)
    drawn = [(axes[1], fitted, 1.0, "correlation")]
    if sample is None:
        for one in (axes[0], axes[2]):
            say(one, "correlations of the data\nwere not kept")
    else:
        part = sample[np.ix_(shown, shown)]
        residual, limit = part - fitted, float(np.max(np.abs(part - fitted)))
        drawn.insert(0, (axes[0], part, 1.0, "correlation"))
        label = _missed(sample, fitted_correlation(flat))
        drawn.append((axes[2], residual, limit or 1.0, label))
    for number, (one, values, scale, label) in enumerate(drawn):
        step = _draw_square(one, values, scale, names, edges, label)
        one.set_xlabel(_thinned(step * thin, len(order)))
        if number:  # rows are the same in all panels
            one.tick_params(labelleft=False)
    if thin > 1:
        axes[1].set_title(f"fitted, every {ordinal(thin)} of {len(order)} variables")
    return together(axes)


def _missed(sample: Array, fitted: Array) -> str:
    if len(sample) == 1:
        return "sample − fitted"
    return f"sample − fitted (root mean square {srmr(sample, fitted):.3f})"


def _draw_square(
    ax: Axes, values: Array, limit: float, names: list[str], edges: Array, label: str
) -> int:
    """A matrix with a colour bar and names. Returns the step of `label_rows`."""
    from matplotlib.ticker import MaxNLocator

    image = draw_matrix(ax, values, limit)
    if len(values) > SOLID_DIAGONAL and np.allclose(np.diag(values), 1.0):
        # There are fewer pixels than cells, and only some of them would be on the diagonal.
        ax.plot([0, len(values) - 1], [0, len(values) - 1], color=DIVERGING[-1], lw=0.8)
    for edge in edges:
        ax.axhline(edge, color=DARK, lw=0.6)
        ax.axvline(edge, color=DARK, lw=0.6)
    ticks = MaxNLocator(nbins=4)
    ax.figure.colorbar(image, ax=ax, label=label, location="bottom", shrink=0.8, ticks=ticks)
    return label_rows(ax, names, square=True)
