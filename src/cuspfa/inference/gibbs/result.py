"""From the draws of the chains to a posterior in the user's units."""

from __future__ import annotations

import math

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.fit_warning import (
    ChainsNotConverged,
    ColumnLimitReached,
    FitWarning,
    SamplerOutOfTime,
    TooFewDraws,
)
from cuspfa.data.complete import Prepared
from cuspfa.diagnostics.mcmc import r_hat_text
from cuspfa.inference.gibbs.chain import Kept
from cuspfa.inference.gibbs.settings import Gibbs, GibbsFit
from cuspfa.missing.patterns import IncompleteRows
from cuspfa.missing.saturated import Unrestricted, too_long, unrestricted
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.fit_info import FitInfo, SearchEntry, SearchPath
from cuspfa.posterior.kept_draws import count_probabilities
from cuspfa.posterior.provenance import Provenance, with_warnings
from cuspfa.posterior.sampled import Diagnostics, SampledPosterior, diagnose
from cuspfa.rotation.gpa import Rotation

CONVERGED_R_HAT, ENOUGH_DRAWS = 1.05, 100.0
"""Chains have converged with no R-hat above and no effective size below these."""


def sampled_posterior(
    fit: GibbsFit,
    prepared: Prepared,
    prior: CuspPrior,
    method: Gibbs,
    n_factors: int | None,
    rotation: Rotation | None,
    provenance: Provenance,
) -> SampledPosterior:
    """The posterior of the draws; it contains no row of the data."""
    loadings, noise = _chain_after_chain(fit.kept)
    length, chains, width = fit.kept.active.shape
    rows, means = prepared.source.incomplete_rows, fit.kept.mean
    drawn = counts = None
    if rows is not None and means is not None:
        counts = rows.counts
        drawn = prepared.center + prepared.scale * means.transpose(1, 0, 2).reshape(len(noise), -1)
    correlation = _unrestricted(rows, loadings, noise, means)
    loadings, noise = loadings * prepared.scale[:, None], noise * prepared.scale**2
    active = fit.kept.active.transpose(1, 0, 2).reshape(length * chains, width)
    log_likelihood = fit.kept.log_likelihood.T.ravel()
    found = diagnose(loadings, noise, active, log_likelihood, chains, prepared.names)
    fit_info = sampler_fit_info(fit, found, active, log_likelihood)
    warned = sampler_warnings(fit, found, fit_info, method, n_factors)
    return SampledPosterior(
        loadings_draws=loadings,
        noise_variance_draws=noise,
        active_draws=active,
        log_likelihood=log_likelihood,
        n_chains=chains,
        spike=fit.spike,
        prior=prior,
        statistics=prepared.source.statistics(),
        center=prepared.center,
        scale=prepared.scale,
        n_rows=prepared.n,
        names=prepared.names,
        tails=prepared.tails,
        row_weights=prepared.row_weights,
        model_error=fit.model_error,
        mean_draws=drawn,
        counts=counts,
        correlation=None if correlation is None else correlation.correlation,
        effective=None if correlation is None else correlation.effective,
        rotation=rotation,
        provenance=with_warnings(provenance, warned),
        fit_info=fit_info,
    )


def sampler_warnings(
    fit: GibbsFit, found: Diagnostics, fit_info: FitInfo, method: Gibbs, n_factors: int | None
) -> tuple[FitWarning, ...]:
    """What chains warn of: too few columns, and that they have not converged."""
    number = _limit_reached(fit_info, fit.kept.noise.shape[2], method, n_factors)
    ended = None
    if not (fit_info.converged or fit.interrupted):
        ended = convergence_warning(found, method, out_of_time=fit.out_of_time)
    return tuple(one for one in (number, ended) if one is not None)


def _limit_reached(
    fit_info: FitInfo, p: int, method: Gibbs, n_factors: int | None
) -> FitWarning | None:
    most = method.max_columns
    found = max(fit_info.search, key=lambda entry: entry.weight).n_factors
    if n_factors is not None or most is None or most > p or found < most - 1:
        return None
    return ColumnLimitReached(int(most))


def convergence_warning(found: Diagnostics, method: Gibbs, *, out_of_time: bool) -> FitWarning:
    """What to say of chains that have not converged, or have too few draws."""
    if out_of_time:
        return SamplerOutOfTime(None if method.max_time is None else float(method.max_time))
    length = int(method.n_draws), int(method.thin)
    worst = found.worst_r_hat
    if math.isnan(worst):
        return ChainsNotConverged(None, None, *length)
    if worst > CONVERGED_R_HAT:
        at = int(np.nanargmax(found.r_hat))
        return ChainsNotConverged(float(worst), found.names[at], *length)
    at = int(np.nanargmin(found.effective_size))
    return TooFewDraws(float(found.smallest_size), found.names[at], *length)


def _unrestricted(
    rows: IncompleteRows | None, loadings: Array, noise: Array, means: Array | None
) -> Unrestricted | None:
    """Correlations of incomplete data without a factor model, for measures of fit.

    All on the engine's scale, from the mean of the draws.
    """
    if rows is None or means is None or too_long(rows):
        return None
    flat = loadings.transpose(1, 0, 2).reshape(len(rows.counts), -1)
    start = flat @ flat.T / len(loadings) + np.diag(noise.mean(axis=0))
    return unrestricted(rows, means.mean(axis=(0, 1)), start)


def _chain_after_chain(kept: Kept) -> tuple[Array, Array]:
    """Loadings (S, p, H) and noise (S, p)."""
    d, b, p, h = kept.loadings.shape
    loadings = kept.loadings.transpose(1, 0, 2, 3).reshape(b * d, p, h)
    return loadings, kept.noise.transpose(1, 0, 2).reshape(b * d, p)


def sampler_fit_info(
    fit: GibbsFit, found: Diagnostics, active: BoolArray, log_likelihood: Array
) -> FitInfo:
    """How the chains ended, and the share of draws with each number of factors."""
    status, converged = chain_status(found, interrupted=fit.interrupted, late=fit.out_of_time)
    entries = [
        SearchEntry(k, math.nan, math.nan, math.nan, False, float(weight), fit.n_sweeps, "drawn")
        for k, weight in enumerate(count_probabilities(active))
        if weight > 0
    ]
    path = SearchPath(entries)
    return FitInfo("gibbs", math.nan, status, converged, fit.n_sweeps, log_likelihood, path)


def chain_status(
    found: Diagnostics, *, interrupted: bool = False, late: bool = False
) -> tuple[str, bool]:
    """How chains ended in words, and whether they have converged."""
    worst, size = found.worst_r_hat, found.smallest_size
    if interrupted:
        return "interrupted: these are the draws made by then", False
    if late:
        return "out of time: these are the draws made by then", False
    if worst <= CONVERGED_R_HAT and size >= ENOUGH_DRAWS:
        return f"chains have converged: R-hat at most {worst:.3f}", True
    if math.isnan(worst):
        return "too few draws to assess convergence", False
    if worst <= CONVERGED_R_HAT:
        at = int(np.nanargmin(found.effective_size))
        return f"too few draws: worth {size:.0f} independent ones ({found.names[at]})", False
    at = int(np.nanargmax(found.r_hat))
    return f"chains have not converged: R-hat {r_hat_text(worst, 2)} ({found.names[at]})", False
