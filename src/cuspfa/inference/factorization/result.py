"""From a search, or from the draws of chains, to a posterior."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.fit_warning import ColumnLimitReached, FitWarning
from cuspfa._utils.spelling import EngineSettings
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.kernels import CountDraw
from cuspfa.inference.factorization.prediction import ExactDraws, count_totals
from cuspfa.inference.factorization.run import CountRun
from cuspfa.inference.factorization.sampler import ChainDraws, CountModel
from cuspfa.inference.factorization.search import CountSearchResult
from cuspfa.inference.factorization.state import Gammas, gammas
from cuspfa.inference.gibbs.result import chain_status, convergence_warning
from cuspfa.inference.gibbs.settings import Gibbs
from cuspfa.inference.variational.run import Status
from cuspfa.model.poisson_factorization import (
    SMALLEST_SHAPE,
    Hyperparameters,
    PoissonFactorizationPrior,
)
from cuspfa.posterior.factorization import FactorizationPosterior, FittedRows
from cuspfa.posterior.factorization_results import (
    CountFitInfo,
    CountProvenance,
    CountSearchEntry,
    CountSearchPath,
    FactorizationDraws,
    RawDraws,
    Sampler,
    matched_draws,
)
from cuspfa.posterior.sampled_factorization import (
    SampledFactorizationPosterior,
    diagnose_counts,
)

LEAST_SPREAD = 1e-6
"""Least coefficient of variation of a score or loading, for the gamma distribution of few draws."""


def search_posterior(
    found: CountSearchResult,
    data: Counts,
    prior: PoissonFactorizationPrior,
    names: Sequence[str] | None,
    provenance: CountProvenance,
) -> FactorizationPosterior:
    """The posterior of a search, its largest factor first."""
    run, state = found.run, found.run.state
    order = np.argsort(-state.sizes, kind="stable")
    shapes, rates = [], []
    for one in (state.scores, state.loadings):
        shapes.append(one.shape[:, order])
        rates.append(np.broadcast_to(one.rate, one.shape.shape)[:, order])
    draws = ExactDraws(state, data, prior)
    return FactorizationPosterior(
        n_rows=data.n,
        loading_shape=shapes[1],
        loading_rate=np.ascontiguousarray(rates[1]),
        score_totals=np.asarray(data.exposure @ (shapes[0] / rates[0])),
        hyperparameters=state.hyper,
        prior=prior,
        totals=count_totals(data, state.scores, state.loadings),
        names=None if names is None else tuple(names),
        rows=FittedRows(shapes[0], rates[0], data.exposure),
        sampler=None
        if provenance.settings.fractions
        else Sampler(draws, float(data.x.nnz * state.n_factors)),
        fit_info=CountFitInfo(
            lower_bound=run.total,
            status=run.status.value,
            converged=run.status is Status.CONVERGED,
            n_iter=len(run.trace),
            trace=run.trace,
            search=CountSearchPath(_entries(found)),
        ),
        provenance=provenance,
    )


def _entries(found: CountSearchResult) -> list[CountSearchEntry]:
    entries = []
    for k in sorted(found.runs.keys() | found.scores.keys()):
        run: CountRun | None = found.runs.get(k)
        score = found.scores.get(k)
        entries.append(
            CountSearchEntry(
                n_factors=k,
                lower_bound=float("nan") if run is None else run.total,
                evidence_gain=float("nan") if score is None else score.evidence,
                evidence_error=float("nan") if score is None else score.error,
                held_out_gain=float("nan") if score is None else score.held_out,
                n_iter=0 if run is None else len(run.trace),
                status="" if run is None else run.status.value,
            )
        )
    return entries


def sampled_posterior(
    chains: list[ChainDraws],
    model: CountModel,
    prior: PoissonFactorizationPrior,
    method: Gibbs,
    engine: EngineSettings,
    names: Sequence[str] | None,
    provenance: CountProvenance,
) -> tuple[SampledFactorizationPosterior, tuple[FitWarning, ...]]:
    """The posterior of the draws of all chains, and what they warn of."""
    data = model.data
    counts = np.concatenate([one.n_factors for one in chains])
    logs = np.concatenate([one.log_likelihood for one in chains])
    monitored = np.concatenate([one.monitored for one in chains])
    k = int(np.argmax(np.bincount(counts)))
    every = [one for chain in chains for one in chain.draws]
    numbers = np.array([int(one.active.sum()) for one in every])
    if not np.any(numbers == k):  # draws of few were kept
        k = int(np.argmax(np.bincount(numbers)))
    stored = at_number([one for one, own in zip(every, numbers, strict=True) if own == k], k, data)
    assert stored.scores is not None
    scores, loadings = matched_gammas(stored.scores), matched_gammas(stored.loadings)
    columns = list(names) if names is not None else [f"x{j}" for j in range(data.p)]
    found = diagnose_counts(monitored, logs, counts, len(chains), columns)
    sweeps = min(one.n_sweeps for one in chains)
    late = sweeps < method.burn_in + method.thin * method.n_draws
    status, converged = chain_status(found, late=late)
    warned: list[FitWarning] = []
    if model.varies and method.max_factors is not None and k >= method.max_factors:
        warned.append(ColumnLimitReached(method.max_factors + 1))
    if not converged:
        warned.append(convergence_warning(found, method, out_of_time=late))
    posterior = SampledFactorizationPosterior(
        n_rows=data.n,
        loading_shape=loadings.shape,
        loading_rate=loadings.rate,
        score_totals=np.asarray(data.exposure @ scores.mean),
        hyperparameters=geometric_mean(stored.hyperparameters),
        prior=prior,
        totals=count_totals(data, *of_unit_loadings(stored)),
        names=None if names is None else tuple(names),
        rows=FittedRows(scores.shape, scores.rate, data.exposure),
        stored=stored,
        fit_info=CountFitInfo(
            lower_bound=math.nan,
            status=status,
            converged=converged,
            n_iter=sweeps,
            trace=logs,
            search=CountSearchPath(
                CountSearchEntry(int(one), math.nan, math.nan, math.nan, math.nan, sweeps, "drawn")
                for one in np.unique(counts)
            ),
        ),
        provenance=provenance,
        count_draws=counts,
        log_likelihood=logs,
        monitored=monitored,
        n_chains=len(chains),
        engine=engine,
        all_draws=filled_up(every, numbers, data),
    )
    return posterior, tuple(warned)


def at_number(draws: list[CountDraw], k: int, data: Counts) -> FactorizationDraws:
    """Draws with k factors, matched to each other, the largest factor first.

    They are matched to the last draw, then to the mean of what that gives.
    """
    raw = filled_up(draws, np.full(len(draws), k), data)
    scores = raw.scores
    assert scores is not None
    width = scores.shape[2]
    inactive = None
    if width > k:
        inactive = scores[:, :, k:], raw.loadings[:, :, k:]
    own = RawDraws(
        np.array(raw.loadings[:, :, :k]),
        np.array(raw.shares[:, :k]),
        list(raw.hyperparameters),
        np.array(scores[:, :, :k]),
        inactive,
    )
    if k == 0:
        return matched_draws(own, np.zeros((0, data.p)))
    first = matched_draws(own, own.loadings[-1].T.copy())
    order = np.argsort(-first.shares.mean(axis=0), kind="stable")
    return matched_draws(own, first.column_shares.mean(axis=0)[:, order].T)


def filled_up(draws: list[CountDraw], numbers: Array, data: Counts) -> FactorizationDraws:
    """Draws in arrays, with columns of zeros behind those with fewer columns than others.

    Columns of a spike above zero have no part in the shares of the factors.
    """
    size, width = len(draws), max(one.n_factors for one in draws)
    scores, loadings = np.zeros((size, data.n, width)), np.zeros((size, data.p, width))
    shares = np.zeros((size, width))
    for s, (one, own) in enumerate(zip(draws, numbers, strict=True)):
        scores[s, :, : one.n_factors] = one.scores
        loadings[s, :, : one.n_factors] = one.loadings
        sizes = (data.exposure @ one.scores[:, :own]) * one.loadings[:, :own].sum(axis=0)
        shares[s, :own] = sizes / sizes.sum() if own else sizes
    return FactorizationDraws(loadings, shares, tuple(one.hyper for one in draws), scores)


def matched_gammas(values: Array) -> Gammas:
    """Gamma distributions (m, K) with the means and variances of draws (S, m, K)."""
    mean = np.maximum(values.mean(axis=0), np.finfo(float).tiny ** 0.25)
    variance = np.clip(values.var(axis=0), (LEAST_SPREAD * mean) ** 2, mean**2 / SMALLEST_SHAPE)
    return gammas(mean**2 / variance, mean / variance)


def of_unit_loadings(draws: FactorizationDraws) -> tuple[Gammas, Gammas]:
    """Scores and loadings with loadings that sum to 1 in each draw.

    Without the scale that a score and its loadings have in common, they hardly depend on each
    other.
    """
    assert draws.scores is not None
    totals = draws.loadings.sum(axis=1, keepdims=True)
    return matched_gammas(draws.scores * totals), matched_gammas(draws.loadings / totals)


def geometric_mean(hyper: Sequence[Hyperparameters]) -> Hyperparameters:
    """Of each number over draws."""
    return Hyperparameters(*map(float, np.exp(np.log(np.array(hyper)).mean(axis=0))))
