"""Figures of a posterior: each function takes one and returns the Axes it drew on.

Needs matplotlib: `pip install 'cuspfa[cli]'`. A figure is made without pyplot, so nothing is shown,
kept open or changed globally: `axes.figure` is the figure, to display or to `savefig`. To draw on
axes of your own, pass them as `ax`.
"""

from collections.abc import Callable
from typing import Any

from cuspfa.reporting.plots.intervals import plot_communality, plot_forest
from cuspfa.reporting.plots.items import plot_information, plot_item
from cuspfa.reporting.plots.maps import plot_correlation, plot_loadings
from cuspfa.reporting.plots.progress import plot_model_error, plot_scree, plot_search, plot_trace

PLOTS: dict[str, Callable[..., Any]] = {
    "search": plot_search,
    "model_error": plot_model_error,
    "scree": plot_scree,
    "loadings": plot_loadings,
    "forest": plot_forest,
    "correlation": plot_correlation,
    "communality": plot_communality,
    "trace": plot_trace,
}
"""By the word that the command line knows a figure by."""

__all__ = [
    "PLOTS",
    "plot_communality",
    "plot_correlation",
    "plot_forest",
    "plot_information",
    "plot_item",
    "plot_loadings",
    "plot_model_error",
    "plot_scree",
    "plot_search",
    "plot_trace",
]
