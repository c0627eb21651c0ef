"""How the fit went: the search over the number of factors, and the bound of the last run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cuspfa._typing import Array, RandomState
from cuspfa._utils.arguments import must_be
from cuspfa.diagnostics.mcmc import HIGHEST, r_hat_text
from cuspfa.errors import InputError
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.fit_info import FitInfo, SearchEntry
from cuspfa.posterior.sampled import SampledPosterior
from cuspfa.reporting.plots._canvas import (
    BLUE,
    DARK,
    GREY,
    ORANGE,
    ManyAxes,
    count_ticks,
    panels,
    say,
    together,
)
from cuspfa.reporting.plots._numbers import check_posterior, make_draws
from cuspfa.reporting.summary import MIN_SHARE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_search(
    posterior: Posterior,
    ax: Any = None,
    *,
    draws: Draws | None = None,
    n_draws: int | None = None,
    random_state: RandomState = 0,
) -> ManyAxes:
    """Draw how many factors: bound and evidence by number, and how strong each factor is.

    On the left, how many nats each number of factors is below the best one, by the bound and, for
    numbers that were weighed, by the evidence; the scale is logarithmic below −1. Hollow points are
    runs that were given up or cut short, whose bound might have risen further. Of a sampler, the
    probability of each number. On the right the factors' shares of the variance, medians of draws
    with 95 % intervals.

    Parameters
    ----------
    posterior : Posterior
        Of a fitted model: `model.posterior_`.
    ax : two matplotlib Axes or None, default=None
        Where to draw; None makes a figure.
    draws, n_draws, random_state
        For the shares, as in `plot_forest`.

    Returns
    -------
    ndarray of two matplotlib Axes

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, plots
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> left, right = plots.plot_search(CuspFactorAnalysis().fit(X).posterior_, n_draws=200)
    >>> left.get_xlabel(), right.get_xlabel()
    ('number of factors', 'factor')
    """
    check_posterior(posterior)
    entries = _fit_info(posterior).search
    left, right = panels(ax, 2, (9.0, 4.2))
    if isinstance(posterior, SampledPosterior):
        _probabilities(left, entries, posterior.n_active)
    else:
        _curves(left, entries, posterior.n_active)
    right.set_title("How strong is each?")
    if posterior.n_active == 0:
        say(right, "no factors")
    else:
        _shares(right, posterior, make_draws(posterior, draws, n_draws, random_state))
    return together([left, right])


def _fit_info(posterior: Posterior) -> FitInfo:
    if posterior.fit_info is None:
        raise InputError(
            "posterior must have a record of its fit. Got one without: use model.posterior_ of a "
            "fitted model, not one of its alternatives."
        )
    return posterior.fit_info


def _curves(ax: Axes, entries: list[SearchEntry], chosen: int) -> None:
    from matplotlib.ticker import FuncFormatter

    numbers = np.array([entry.n_factors for entry in entries])
    bound = np.array([entry.lower_bound for entry in entries])
    evidence = np.array([entry.evidence for entry in entries])
    done = np.array([entry.status.startswith("converged") for entry in entries])
    ax.axvline(chosen, color=ORANGE, ls="--", lw=1.4, label=f"chosen: {chosen}")
    _curve(ax, numbers, bound, done, "o", GREY, "evidence lower bound")
    _curve(ax, numbers, evidence, np.ones_like(done), "D", BLUE, "evidence, scores integrated out")
    if not done.all():
        ax.plot([], [], "o", mec=GREY, mfc="white", label="not run to convergence")
    ax.set_yscale("symlog", linthresh=1.0)
    lowest = min(ax.dataLim.y0, -1.0)
    ax.set_ylim(3 * lowest, 0.6)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}".replace("-", "−")))
    count_ticks(ax.xaxis, numbers.max() - numbers.min())
    ax.set_xlim(numbers.min() - 0.6, numbers.max() + 0.6)
    ax.set(xlabel="number of factors", ylabel="nats below the best", title="How many factors?")
    # Below, for there is no corner that curves of every shape leave free.
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=8, frameon=False)


def _probabilities(ax: Axes, entries: list[SearchEntry], chosen: int) -> None:
    numbers = np.array([entry.n_factors for entry in entries])
    colours = [ORANGE if number == chosen else BLUE for number in numbers]
    ax.bar(numbers, [100 * entry.weight for entry in entries], width=0.6, color=colours)
    count_ticks(ax.xaxis, numbers.max() - numbers.min())
    ax.set_xlim(numbers.min() - 1, numbers.max() + 1)
    ax.set(xlabel="number of factors", ylabel="posterior probability (%)")
    ax.set_title("How many factors?")


def _chains(ax: Axes, posterior: SampledPosterior) -> None:
    """The log-likelihood of each chain's draws, one line a chain."""
    chains = posterior.log_likelihood.reshape(posterior.n_chains, -1)
    at = np.arange(1, chains.shape[1] + 1)
    for number, values in enumerate(chains, 1):
        ax.plot(at, values, lw=0.7, label=f"chain {number}")
    found = posterior.diagnostics
    worst, size = found.worst_r_hat, found.smallest_size
    shown = r_hat_text(worst, 3)
    shown = shown if worst > HIGHEST else f"at most {shown}"
    known = f"R-hat {shown}, effective size at least {size:.0f}"
    ax.set_title("Too few draws for R-hat" if np.isnan(worst) else known)
    ax.set(xlabel="draw", ylabel="log-likelihood, scores integrated out")
    ax.ticklabel_format(axis="y", useOffset=False)
    count_ticks(ax.xaxis, chains.shape[1])
    if 1 < len(chains) <= 8:
        ax.legend(fontsize=8, frameon=False)


def _curve(
    ax: Axes, numbers: Array, values: Array, done: Array, marker: str, colour: str, label: str
) -> None:
    """Distance to the best, where there is a value; hollow where a run did not end."""
    known = np.isfinite(values)
    if not known.any():
        return
    below = values[known] - values[known].max()
    ax.plot(numbers[known], below, "-", color=colour, lw=1.2, zorder=2)
    face = np.where(done[known], colour, "white")
    ax.scatter(
        numbers[known], below, s=32, marker=marker, c=list(face), edgecolors=colour, zorder=3
    )
    ax.plot([], [], f"{marker}-", color=colour, label=label)


def _shares(ax: Axes, posterior: Posterior, draws: Draws) -> None:
    middle = 100 * np.median(draws.explained_variance_ratio, axis=0)[: posterior.n_shown(draws)]
    lower, upper = (
        100 * end for end in posterior.interval("explained_variance_ratio", draws=draws)
    )
    at = np.arange(1, len(middle) + 1)
    ax.vlines(at, lower, upper, color=BLUE, lw=1.6)
    ax.plot(at, middle, "o", color=BLUE, ms=5)
    ax.axhline(100 * MIN_SHARE, color=DARK, lw=0.9, ls=":")
    ax.annotate(
        f"{100 * MIN_SHARE:.0f} %",
        (1, 100 * MIN_SHARE),
        xycoords=("axes fraction", "data"),
        xytext=(-3, 2),
        textcoords="offset points",
        ha="right",
        fontsize=8,
    )
    ax.set_ylim(bottom=0)
    ax.set_xlim(0.4, len(middle) + 0.6)
    count_ticks(ax.xaxis, len(middle))
    ax.set(xlabel="factor", ylabel="share of the variance (%),\nmedian and 95 % interval")


def plot_trace(posterior: Posterior, ax: Any = None, *, log: bool = True) -> Axes:
    """Draw the bound after each iteration of the run that was kept, or the chains of a sampler.

    Chains are shown by the log-likelihood of their draws, the scores integrated out.

    Parameters
    ----------
    posterior : Posterior
        Of a fitted model: `model.posterior_`.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.
    log : bool, default=True
        How far the bound still was below its last value, on a logarithmic scale, where a straight
        line is convergence at a steady rate; the last iteration itself is not on it. False for the
        bound as it is. Of no effect on chains.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, plots
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> plots.plot_trace(CuspFactorAnalysis().fit(X).posterior_).get_xlabel()
    'iteration'
    """
    check_posterior(posterior)
    if not isinstance(log, (bool, np.bool_)):
        raise must_be("log", "True or False", log)
    fit_info = _fit_info(posterior)
    (axes,) = panels(ax, 1, (5.6, 3.6))
    if isinstance(posterior, SampledPosterior):
        _chains(axes, posterior)
        return axes
    trace = np.asarray(fit_info.trace, dtype=float)
    count = f"{fit_info.n_iter} iteration{'s' if fit_info.n_iter != 1 else ''}"
    axes.set_title(f"Bound: {count}, {fit_info.status.split(':')[0]}")
    last = f"{fit_info.lower_bound:,.2f}".replace("-", "−")
    values = trace[-1] - trace[:-1] if log and len(trace) else trace
    iterations = np.arange(1, len(values) + 1)
    # A bound that has stopped to rise differs from its last value by rounding error of any sign.
    kept = values > 0 if log else np.isfinite(values)
    if not kept.any():
        say(axes, f"bound {last}\nfrom the first iteration on")
        return axes
    axes.plot(iterations[kept], values[kept], "o-", color=BLUE, ms=3.5, lw=1.2)
    if log:
        axes.set_yscale("log")
    else:
        axes.ticklabel_format(axis="y", useOffset=False)
    axes.set(xlabel="iteration", ylabel=f"nats below the last ({last})" if log else "bound (nats)")
    axes.set_xlim(0.5 - 0.02 * len(trace), 0.5 + 1.02 * len(trace))
    count_ticks(axes.xaxis, len(trace))
    return axes
