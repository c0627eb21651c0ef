"""Chains of exact sweeps that also draw the number of factors.

With a spike at zero columns come and go by exact jumps (`jumps.py`): the posterior of their number
is that of the process, without a truncation. With a spike above zero there are H columns with
labels and sticks as in the Gaussian model, all the time or, where the sampler adapts, as many as
are active and one more; the adaptation becomes ever rarer.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.data.counts import Counts
from cuspfa.errors import InputError
from cuspfa.inference.factorization.jumps import SWEEPS_PER_JUMP, jump
from cuspfa.inference.factorization.kernels import CountDraw, adapt, draw_from_q, gamma, sweep
from cuspfa.inference.factorization.state import CountState
from cuspfa.inference.gibbs.chain import GibbsProgress, SweepPlan
from cuspfa.inference.gibbs.labels import first_columns
from cuspfa.inference.gibbs.settings import Gibbs
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior
from cuspfa.posterior.factorization_results import monitored_columns

MOST_KEPT_OF_CHAINS = 5e7
"""Numbers of scores and loadings that draws may have together; beyond it fewer draws are kept."""


class ChainDraws(NamedTuple):
    """What is kept of one chain."""

    draws: list[CountDraw]
    """The active columns first."""
    n_factors: Indices
    """(D,) active columns"""
    log_likelihood: Array
    """(D,) given scores and loadings"""
    monitored: Array
    """(D, Q) see `products`"""
    n_sweeps: int


class CountModel(NamedTuple):
    """What does not change from sweep to sweep."""

    data: Counts
    prior: PoissonFactorizationPrior
    most: int
    """The most columns a chain may hold, those of the spike included."""
    varies: bool
    """Is the number of factors drawn?"""
    start_adapt: int | None
    """Sweep from which the number of columns adapts, with a spike above zero; None: never."""
    adapt_rate: tuple[float, float]
    """α_0 and α_1: it does at sweep t with probability exp(α_0 + α_1 t)."""


def count_model(
    data: Counts,
    prior: PoissonFactorizationPrior,
    method: Gibbs,
    *,
    n_factors: int | None,
    max_factors: int,
) -> CountModel:
    """The model of these settings; a given number of factors has no inactive columns."""
    varies = n_factors is None
    if not varies:
        prior = replace(prior, spike=None)
    most = max_factors
    if method.max_factors is not None:
        most = min(most, method.max_factors)
    adapts = method.adaptive and varies and prior.spike is not None
    if prior.spike is not None and prior.n_terms is not None:
        most = prior.n_terms if method.max_columns is None else min(prior.n_terms, most + 1)
    rate = (float(method.adapt_rate[0]), float(method.adapt_rate[1]))
    return CountModel(data, prior, most, varies, method.start_adapt if adapts else None, rate)


def step(at: CountDraw, number: int, model: CountModel, rng: np.random.Generator) -> CountDraw:
    """The state after sweep `number` (from 1 on)."""
    at = sweep(at, model.data, model.prior, rng)
    if not model.varies:
        return at
    if model.prior.spike is None:
        if number % SWEEPS_PER_JUMP == 0:
            at = jump(at, model.data, model.prior, model.most, rng)
    elif model.start_adapt is not None and number >= model.start_adapt:
        rate = math.exp(min(model.adapt_rate[0] + model.adapt_rate[1] * number, 0.0))
        if rng.random() < rate:
            at = adapt(at, model.prior, model.most, rng)
    return at


def start_at_fit(state: CountState, model: CountModel, rng: np.random.Generator) -> CountDraw:
    """A draw of q, with inactive columns from the spike if there is one."""
    at = draw_from_q(state, replace(model.prior, spike=None), rng)
    return with_inactive(at, model, rng)


def start_at_random(
    model: CountModel, n_factors: int | None, rng: np.random.Generator
) -> CountDraw:
    """A draw of the prior at typical hyperparameters, with one factor or more."""
    data, prior = model.data, model.prior
    k = n_factors
    if k is None:
        least = int(data.x.nnz > 0)
        k = int(np.clip(rng.poisson(prior.alpha), least, model.most - (prior.spike is not None)))
    a, c, e, f = hyper = prior.start()
    scores = gamma(np.full((data.n, k), a), np.array(a), rng)
    rates = gamma(np.full(k, e), np.array(f), rng)
    loadings = gamma(np.full((data.p, k), c), rates, rng)
    return with_inactive(CountDraw(scores, loadings, rates, hyper), model, rng)


def with_inactive(at: CountDraw, model: CountModel, rng: np.random.Generator) -> CountDraw:
    """Columns drawn from the spike behind those that are there: all H, or one to adapt."""
    prior, k = model.prior, at.n_factors
    if prior.spike is None:
        return at
    width = model.most if model.start_adapt is None else min(k + 1, model.most)
    kept, (a, c, _, _) = min(k, width - 1), at.hyper
    spare = width - kept
    n, p = model.data.n, model.data.p
    columns = first_columns(
        (np.arange(width) < kept)[None, :],
        prior,  # type: ignore[arg-type]
        rng,
    )
    return CountDraw(
        np.hstack([at.scores[:, :kept], gamma(np.full((n, spare), a), np.array(a), rng)]),
        np.hstack(
            [
                at.loadings[:, :kept],
                gamma(np.full((p, spare), c), np.array(c / prior.spike), rng),
            ]
        ),
        np.append(at.rates[:kept], np.ones(spare)),
        at.hyper,
        columns,
    )


def run_chain(
    at: CountDraw,
    plan: SweepPlan,
    model: CountModel,
    rng: np.random.Generator,
    *,
    chain: int,
    kept_every: int = 1,
    seconds: float | None = None,
    method: Gibbs,
) -> ChainDraws:
    """Sweep from a state; of every `kept_every`-th draw scores and loadings are kept."""
    end = math.inf if seconds is None else time.monotonic() + seconds
    kept: list[CountDraw] = []
    numbers: list[int] = []
    logs: list[float] = []
    values: list[Array] = []

    def keep(at: CountDraw) -> None:
        if len(numbers) % kept_every == 0:
            kept.append(active_first(at))
        numbers.append(int(at.active.sum()))
        logs.append(log_likelihood(at, model.data))
        values.append(products(at, model.data))

    number = 0
    while number < plan.sweeps and time.monotonic() < end:
        number += 1
        at = step(at, number, model, rng)
        if plan.keeps(number):
            keep(at)
        if method.callback is not None:
            found = float(at.active.sum())
            method.callback(GibbsProgress(number, plan.sweeps, found, (chain, chain + 1)))
    if not numbers:  # the start is no draw, and what is known of it no result
        raise InputError(
            f"max_time ended before a chain had its first draw, after {number} sweeps, of which "
            f"the first {method.burn_in} do not count. Raise max_time, lower burn_in, or fit with "
            "method='variational'."
        )
    return ChainDraws(kept, np.array(numbers), np.array(logs), np.array(values), number)


def active_first(at: CountDraw) -> CountDraw:
    """The state with its inactive columns behind the others."""
    if at.columns is None:
        return at
    order = np.argsort(~at.active, kind="stable")
    return CountDraw(
        at.scores[:, order],
        at.loadings[:, order],
        at.rates[order],
        at.hyper,
        at.columns._replace(active=at.columns.active[:, order]),
    )


def log_likelihood(at: CountDraw, data: Counts) -> float:
    """Log p(x | θ, β), without what only depends on x."""
    with np.errstate(divide="ignore"):
        fit = float(data.x.data @ np.log(data.rates(at.scores, at.loadings)))
    return fit - float(np.sum(data.loading_totals(at.loadings) * at.scores))


def products(at: CountDraw, data: Counts) -> Array:
    """Logs of the mean over rows of λ_ij λ_ik, j ≤ k of the monitored columns; λ all rates."""
    some = at.loadings[monitored_columns(data.p)]
    means = some @ (at.scores.T @ at.scores / data.n) @ some.T
    return np.asarray(np.log(np.maximum(means[np.triu_indices(len(some))], 1e-300)))


def run_chains(
    starts: list[CountDraw],
    model: CountModel,
    method: Gibbs,
    streams: list[np.random.Generator],
) -> list[ChainDraws]:
    """All chains, one after the other, of equal length."""
    plan = SweepPlan(method.n_draws, method.burn_in, method.thin)
    width = max(at.n_factors for at in starts) + 1
    numbers = float(method.n_draws * len(starts) * (model.data.n + model.data.p) * width)
    kept_every = max(1, math.ceil(numbers / MOST_KEPT_OF_CHAINS))
    seconds = None if method.max_time is None else method.max_time / len(starts)
    chains = [
        run_chain(
            at,
            plan,
            model,
            rng,
            chain=number,
            kept_every=kept_every,
            seconds=seconds,
            method=method,
        )
        for number, (at, rng) in enumerate(zip(starts, streams, strict=True))
    ]
    length = min(len(one.n_factors) for one in chains)
    return [
        ChainDraws(
            one.draws[: -(-length // kept_every)],
            one.n_factors[:length],
            one.log_likelihood[:length],
            one.monitored[:length],
            one.n_sweeps,
        )
        for one in chains
    ]


def sample_counts(
    model: CountModel,
    method: Gibbs,
    rng: np.random.Generator,
    *,
    n_factors: int | None,
    state: CountState | None,
) -> list[ChainDraws]:
    """Chains with random numbers of their own, from the state of a fit or from random starts."""
    streams = rng.spawn(method.n_chains)
    starts = [
        start_at_random(model, n_factors, one) if state is None else start_at_fit(state, model, one)
        for one in streams
    ]
    return run_chains(starts, model, method, streams)
