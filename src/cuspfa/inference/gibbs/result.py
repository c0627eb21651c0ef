"""From the chains to a posterior in the user's units."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.complete import Prepared
from cuspfa.diagnostics.mcmc import r_hat_text
from cuspfa.inference.gibbs.chain import Kept
from cuspfa.inference.gibbs.settings import GibbsFit
from cuspfa.missing.patterns import IncompleteRows
from cuspfa.missing.saturated import Unrestricted, too_long, unrestricted
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.fit_info import FitInfo, SearchEntry, SearchPath
from cuspfa.posterior.sampled import SampledPosterior

MET, ENOUGH = 1.05, 100.0
"""Chains count as met with no R-hat above and no effective size below these."""


def posterior_of(
    fit: GibbsFit, prepared: Prepared, prior: CuspPrior, names: list[str] | None
) -> SampledPosterior:
    """What is kept of the chains; nothing in it is a row of the data."""
    loadings, noise = _chain_after_chain(fit.kept)
    length, chains, width = fit.kept.active.shape
    rows, means = prepared.source.incomplete_rows, fit.kept.mean
    drawn = counts = None
    if rows is not None and means is not None:
        counts = rows.counts
        drawn = prepared.center + prepared.scale * means.transpose(1, 0, 2).reshape(len(noise), -1)
    posterior = SampledPosterior(
        loadings_draws=loadings * prepared.scale[:, None],
        noise_variance_draws=noise * prepared.scale**2,
        active_draws=fit.kept.active.transpose(1, 0, 2).reshape(length * chains, width),
        log_likelihood=fit.kept.log_likelihood.T.ravel(),
        n_chains=chains,
        spike=fit.spike,
        prior=prior,
        statistics=prepared.source.statistics(),
        center=prepared.center,
        scale=prepared.scale,
        n_rows=prepared.n,
        names=names,
        mean_draws=drawn,
        counts=counts,
    )
    if rows is not None:
        known = _unrestricted(rows, posterior)
        if known is not None:
            posterior = replace(posterior, correlation=known[0], effective=known[1])
    return replace(posterior, fit_info=_fit_info(fit, posterior))


def _unrestricted(rows: IncompleteRows, posterior: SampledPosterior) -> Unrestricted | None:
    """Correlations of incomplete data without a factor model, for measures of fit."""
    if too_long(rows):
        return None
    location = (posterior.mean - posterior.center) / posterior.scale
    start = posterior.covariance / posterior.scale[:, None] / posterior.scale
    return unrestricted(rows, location, start)


def _chain_after_chain(kept: Kept) -> tuple[Array, Array]:
    """Loadings (S, p, H) and noise (S, p)."""
    d, b, p, h = kept.loadings.shape
    loadings = kept.loadings.transpose(1, 0, 2, 3).reshape(b * d, p, h)
    return loadings, kept.noise.transpose(1, 0, 2).reshape(b * d, p)


def _fit_info(fit: GibbsFit, posterior: SampledPosterior) -> FitInfo:
    found = posterior.diagnostics
    worst, size = found.worst_r_hat, found.smallest_size
    met = worst <= MET and size >= ENOUGH
    if fit.interrupted:
        status = "interrupted: these are the draws made by then"
    elif fit.out_of_time:
        status = "out of time: these are the draws made by then"
    elif met:
        status = f"chains have met: R-hat at most {worst:.3f}"
    else:
        at = 0 if math.isnan(worst) else int(np.nanargmax(found.r_hat))
        status = f"chains have not met: R-hat {r_hat_text(worst, 2)} ({found.names[at]})"
        if worst <= MET:
            at = int(np.nanargmin(found.effective_size))
            status = f"too few draws: worth {size:.0f} independent ones ({found.names[at]})"
        elif math.isnan(worst):
            status = "too few draws to tell whether chains have met"
    entries = [
        SearchEntry(k, math.nan, math.nan, math.nan, False, float(weight), fit.n_sweeps, "drawn")
        for k, weight in enumerate(posterior.count_probabilities)
        if weight > 0
    ]
    converged = met and not (fit.interrupted or fit.out_of_time)
    trace = posterior.log_likelihood
    return FitInfo("gibbs", math.nan, status, converged, fit.n_sweeps, trace, SearchPath(entries))
