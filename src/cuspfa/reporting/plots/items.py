"""Ordinal items: response curves and information."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuspfa._utils.arguments import must_be, whole
from cuspfa.data.column_choice import check_columns
from cuspfa.errors import InputError
from cuspfa.posterior.base import Posterior, check_posterior
from cuspfa.reporting.figures.canvas import LONGEST_NAME, panels
from cuspfa.reporting.figures.items import (
    draw_information,
    draw_item,
    information_curve,
    ordinal_items,
    response_curves,
)
from cuspfa.reporting.labels import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_item(posterior: Posterior, column: Any, factor: int = 1, ax: Any = None) -> Axes:
    """Draw the probability of each category of an ordinal column by the score of a factor.

    The other factors are at 0, their mean. Curves are those of the mode.

    Parameters
    ----------
    posterior : Posterior
        Of a fitted model with ordinal columns: `model.posterior_`.
    column : str or int
        Name or position of the column.
    factor : int, default=1
        Number of the factor, from 1 on.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, plots
    >>> X = datasets.load_bfi(subset="items").data[:300, :5]
    >>> model = CuspFactorAnalysis(n_factors=1, likelihood="ordinal").fit(X)
    >>> plots.plot_item(model.posterior_, 0).get_ylabel()
    'probability'
    """
    h = _factor(posterior, factor)
    (j,) = check_columns([column], len(posterior.scale), posterior.names, "column").tolist()
    if j not in ordinal_items(posterior):
        raise must_be("column", "an ordinal column", posterior.column_names[j])
    (axes,) = panels(ax, 1, (6.0, 3.6))
    labels = posterior.level_labels(j)
    name = posterior.factor_names[h]
    draw_item(axes, response_curves(posterior, j, h), labels, name)
    axes.set_title(shortened(posterior.column_names[j], LONGEST_NAME), parse_math=False)
    return axes


def plot_information(
    posterior: Posterior, factor: int = 1, ax: Any = None, *, columns: Any = None
) -> Axes:
    """Draw how much the answers tell about each score of a factor.

    Information is the inverse of the squared standard error of a score by maximum likelihood, the
    other factors at 0. The four items with most information have colours.

    Parameters
    ----------
    posterior : Posterior
        Of a fitted model with ordinal columns: `model.posterior_`.
    factor : int, default=1
        Number of the factor, from 1 on.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.
    columns : None, or names, indices, slice or mask of some columns
        The items; None means all ordinal columns.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, plots
    >>> X = datasets.load_bfi(subset="items").data[:300, :5]
    >>> model = CuspFactorAnalysis(n_factors=1, likelihood="ordinal").fit(X)
    >>> plots.plot_information(model.posterior_).get_ylabel()
    'information'
    """
    h = _factor(posterior, factor)
    p = len(posterior.scale)
    chosen = range(p) if columns is None else check_columns(columns, p, posterior.names).tolist()
    items = [j for j in ordinal_items(posterior) if j in set(chosen)]
    (axes,) = panels(ax, 1, (6.0, 3.6))
    curves = [information_curve(posterior, j, h) for j in items]
    names = [posterior.column_names[j] for j in items]
    draw_information(axes, curves, names, posterior.factor_names[h])
    axes.set_title("Information")
    return axes


def _factor(posterior: Posterior, factor: int) -> int:
    check_posterior(posterior)
    if not ordinal_items(posterior):
        raise InputError(
            "posterior must have ordinal columns. Fit with likelihood='ordinal' for such figures."
        )
    number = whole("factor", factor, 1)
    if number > posterior.n_active:
        raise must_be("factor", f"at most {posterior.n_active}", factor)
    return number - 1
