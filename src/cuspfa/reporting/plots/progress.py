"""The search over the number of factors, and convergence of the fit."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from cuspfa._typing import RandomState
from cuspfa._utils.arguments import true_or_false
from cuspfa._utils.fit_warning_text import HIGHEST_R_HAT
from cuspfa._utils.wording import counted
from cuspfa.diagnostics.fit_measures import WIDEST_BY_FACTORS, eigenvalues_beside_noise
from cuspfa.diagnostics.mcmc import r_hat_text
from cuspfa.errors import InputError
from cuspfa.posterior.base import Posterior, check_posterior
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.fit_info import FitInfo
from cuspfa.reporting.figures.canvas import ManyAxes, panels, say, together
from cuspfa.reporting.figures.error_curve import draw_error_curve
from cuspfa.reporting.figures.search import (
    draw_bound,
    draw_chains,
    draw_scree,
    draw_search,
    draw_shares,
)
from cuspfa.reporting.headline import curve_notes, large_share
from cuspfa.reporting.plots._numbers import make_draws
from cuspfa.reporting.summary import factor_shares

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

    On the left, how many nats each number of factors is below the best one, by the bound and, where
    it was computed, by the evidence; the scale is logarithmic below −1. Hollow points are runs that
    did not converge. Of a sampler, the probability of each number. On the right the factors' shares
    of the variance on the posterior's axes, as in a summary: medians of draws with 95 % intervals.

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
    entries = _checked_fit_info(posterior).search
    left, right = panels(ax, 2, (9.0, 4.2))
    draw_search(
        left, entries, posterior.n_active, sampled=posterior.chain_log_likelihood is not None
    )
    left.set_title("How many factors?")
    right.set_title("How strong is each?")
    if posterior.n_active == 0:
        say(right, "no factors")
    else:
        found = make_draws(posterior, draws, n_draws, random_state)
        large = large_share(len(posterior.scale), posterior.n_rows)
        draw_shares(right, *factor_shares(posterior, found), large)
    return together([left, right])


def plot_model_error(posterior: Posterior, ax: Any = None) -> Axes:
    """Draw the number of factors by tolerated model error, `posterior.model_error_curve`.

    Hollow points are numbers that are as good within the Monte Carlo error of the evidence. The
    error of the fit itself is orange.

    Parameters
    ----------
    posterior : Posterior
        Of a fitted model: `model.posterior_`.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, plots
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> plots.plot_model_error(CuspFactorAnalysis().fit(X).posterior_).get_ylabel()
    'number of factors'
    """
    check_posterior(posterior)
    (axes,) = panels(ax, 1, (5.6, 3.6))
    curve = posterior.model_error_curve
    draw_error_curve(axes, curve, posterior.model_error)
    axes.set_title("How wrong may the model be?")
    if curve.gap is not None:
        axes.set_title("\n".join(textwrap.wrap(curve_notes(curve)[0], 60)), fontsize="small")
    return axes


def plot_scree(posterior: Posterior, ax: Any = None) -> Axes:
    """Draw the eigenvalues of the sample correlations beside those of uncorrelated data.

    Parallel analysis counts the leading eigenvalues that are above the 95 % quantile of
    uncorrelated data with as many rows; these points are filled. It is the analysis of the summary:
    of up to 60 columns the eigenvalues are those of `kind="factors"` in `parallel_analysis`, with
    communalities in the diagonal, of more columns those of the correlations themselves. A dashed
    line is the number of factors of the fit.

    Parameters
    ----------
    posterior : Posterior
        Of a fitted model: `model.posterior_`.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, plots
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> plots.plot_scree(CuspFactorAnalysis().fit(X).posterior_).get_title()
    'Parallel analysis: 2 factors'
    """
    check_posterior(posterior)
    (axes,) = panels(ax, 1, (5.6, 3.6))
    correlation = posterior.sample_correlation
    if correlation is None:
        axes.set_title("Eigenvalues of the correlations")
        say(axes, "the sample correlations are not kept")
        return axes
    found = eigenvalues_beside_noise(correlation, posterior.correlation_rows)
    if found is None:
        axes.set_title("Eigenvalues of the correlations, without parallel analysis")
        values = np.asarray(np.linalg.eigvalsh(correlation)[::-1], dtype=float)
        draw_scree(axes, values, None, 0, posterior.n_active)
    else:
        axes.set_title(f"Parallel analysis: {counted(found.n_factors, 'factor')}")
        draw_scree(axes, found.observed, found.reference, found.n_factors, posterior.n_active)
        if len(correlation) <= WIDEST_BY_FACTORS:
            axes.set_ylabel("eigenvalue,\ncommunalities in the diagonal")
    return axes


def _checked_fit_info(posterior: Posterior) -> FitInfo:
    if posterior.fit_info is None:
        raise InputError(
            "posterior must have a record of its fit. Got one without: use model.posterior_ of a "
            "fitted model, not one of its alternatives."
        )
    return posterior.fit_info


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
    true_or_false("log", log)
    fit_info = _checked_fit_info(posterior)
    (axes,) = panels(ax, 1, (5.6, 3.6))
    chains, found = posterior.chain_log_likelihood, posterior.diagnostics
    if chains is not None and found is not None:
        worst = r_hat_text(found.worst_r_hat, 3)
        worst = worst if found.worst_r_hat > HIGHEST_R_HAT else f"at most {worst}"
        known = f"R-hat {worst}, effective size at least {found.smallest_size:.0f}"
        axes.set_title("Too few draws for R-hat" if np.isnan(found.worst_r_hat) else known)
        draw_chains(axes, chains)
    else:
        iterations = counted(fit_info.n_iter, "iteration")
        ending = "converged" if fit_info.converged else "not converged"
        axes.set_title(f"Bound: {iterations}, {ending}")
        draw_bound(axes, fit_info, log=log)
    return axes
