"""The score for K: log p(x | K) with scores, loadings, rates and the split of the counts integrated
out, at given hyperparameters.

A path leads from q to the posterior. With z the parts of the counts, π_s ∝ q^{1−s} p^s of
(z, θ, β, d), and ℓ = log p(x, z, θ, β, d) − log q(z, θ, β, d),

    log p(x) = ∫₀¹ E_s ℓ ds,   E_0 ℓ = the bound.

All of π_s is conjugate: z is multinomial with the proportions {g_ih g_jh}^{1−s} {θ_ih β_jh}^s, g
the geometric means under q, and θ, β and d are gamma variables, whose shapes and rates are the
mixtures of those of q and of the conditional distributions. So exact sweeps give E_s ℓ. Both ends
lie at the same maximum of the posterior, and no column appears or vanishes on the way. E_s ℓ rises
steeply near s = 1, where scores near zero are far below what q allows; s = 1 − (1 − u)^r makes the
integrand vanish at both ends.

The columns can be exchanged. A path meets one of K! copies, so log K! is added.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from cuspfa._typing import Array
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.kernels import gamma
from cuspfa.inference.factorization.split import Split, draw_split
from cuspfa.inference.factorization.state import CountState, lower_bound
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior


class EvidenceSettings(NamedTuple):
    """How a path is walked."""

    steps: int = 16
    """Steps of u from 0 to 1."""
    n_sweeps: int = 6
    """Sweeps at each u that are averaged."""
    n_burn: int = 3
    """Sweeps at each u before those that are averaged."""
    power: float = 4.0
    """r of s = 1 − (1 − u)^r."""


class EvidenceValue(NamedTuple):
    """An estimate of log p(x | K) + log P(H* = K)."""

    value: float
    error: float
    """Monte Carlo standard error."""


class PathDraw(NamedTuple):
    """A draw of π_s."""

    scores: Array
    loadings: Array
    rates: Array


class EvidencePath:
    """The distributions π_s between q and the posterior."""

    def __init__(self, state: CountState, data: Counts) -> None:
        self.state, self.data = state, data
        self.score_rate = np.broadcast_to(state.scores.rate, state.scores.shape.shape)
        self.loading_rate = np.broadcast_to(state.loadings.rate, state.loadings.shape.shape)
        hyper, p = state.hyper, data.p
        self.rate_shape = hyper.rate_shape + hyper.loading_shape * p
        self.rate_rate = hyper.rate_scale + state.loadings.totals
        self.log_scores = np.log(state.scores.geometric)
        self.log_loadings = np.log(state.loadings.geometric)
        self.constant = data.constant + state.split.log_rates + self._normalizers()

    def start(self, rng: np.random.Generator) -> PathDraw:
        """A draw of q."""
        scores, loadings = self.state.scores, self.state.loadings
        shape = np.full(self.state.n_factors, self.rate_shape)
        return PathDraw(
            gamma(scores.shape, self.score_rate, rng),
            gamma(loadings.shape, self.loading_rate, rng),
            gamma(shape, self.rate_rate, rng),
        )

    def sweep(self, at: PathDraw, s: float, rng: np.random.Generator) -> tuple[PathDraw, Split]:
        """All parts in turn, each from its conditional distribution under π_s."""
        state, data, (a, c, e, f) = self.state, self.data, self.state.hyper
        split = draw_split(
            data.x,
            proportions((1 - s) * self.log_scores + s * np.log(at.scores)),
            proportions((1 - s) * self.log_loadings + s * np.log(at.loadings)),
            rng,
        )
        scores = gamma(
            (1 - s) * state.scores.shape + s * (a + split.by_row),
            (1 - s) * self.score_rate + s * (a + data.loading_totals(at.loadings)),
            rng,
        )
        loadings = gamma(
            (1 - s) * state.loadings.shape + s * (c + split.by_column),
            (1 - s) * self.loading_rate + s * (at.rates + data.score_totals(scores)),
            rng,
        )
        rates = gamma(
            np.full(state.n_factors, (1 - s) * self.rate_shape + s * (e + c * data.p)),
            (1 - s) * self.rate_rate + s * (f + loadings.sum(axis=0)),
            rng,
        )
        return PathDraw(scores, loadings, rates), split

    def log_ratio(self, at: PathDraw, split: Split) -> float:
        """ℓ, without log P(H* = K) and the hyper-prior."""
        state, data, (a, c, _, f) = self.state, self.data, self.state.hyper
        log_scores, log_loadings = np.log(at.scores), np.log(at.loadings)
        total = self.constant - float(np.sum(data.loading_totals(at.loadings) * at.scores))
        total += float(np.sum(split.by_row * (log_scores - self.log_scores)))
        total += float(np.sum(split.by_column * (log_loadings - self.log_loadings)))
        total += float(np.sum((a - state.scores.shape) * log_scores))
        total -= float(np.sum((a - self.score_rate) * at.scores))
        total += float(np.sum((c - state.loadings.shape) * log_loadings))
        total -= float(np.sum((at.rates - self.loading_rate) * at.loadings))
        # The powers of d_h are those of q: its shape is that of the conditional distribution.
        return total - float(np.sum((f - self.rate_rate) * at.rates))

    def _normalizers(self) -> float:
        """Constants of the densities of p, less those of q."""
        state, (a, c, e, f) = self.state, self.state.hyper
        n, p, k = self.data.n, self.data.p, self.state.n_factors
        ours = n * k * (a * math.log(a) - math.lgamma(a)) - p * k * math.lgamma(c)
        ours += k * (e * math.log(f) - math.lgamma(e))
        pairs = (
            (state.scores.shape, self.score_rate),
            (state.loadings.shape, self.loading_rate),
            (np.full(k, self.rate_shape), self.rate_rate),
        )
        return ours - sum(
            float(np.sum(shape * np.log(rate) - gammaln(shape))) for shape, rate in pairs
        )


def proportions(logs: Array) -> Array:
    """Exponentials, with the largest of each row 1: only their proportions count."""
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def log_evidence(
    state: CountState,
    data: Counts,
    prior: PoissonFactorizationPrior,
    rng: np.random.Generator,
    settings: EvidenceSettings,
) -> EvidenceValue:
    """Log p(x | K) + log P(H* = K) at the hyperparameters of a state, by a path from its q."""
    bound = lower_bound(state, data, prior, data.constant).total
    fixed = prior.log_count_probability(state.n_factors) + prior.log_hyperprior(state.hyper)
    if state.n_factors == 0 or not math.isfinite(bound):
        return EvidenceValue(bound, 0.0)
    path, integral, variance = EvidencePath(state, data), 0.0, 0.0
    at = path.start(rng)
    for number in range(1, settings.steps):
        v = 1 - number / settings.steps
        s, weight = 1 - v**settings.power, settings.power * v ** (settings.power - 1)
        values = []
        for sweep_number in range(settings.n_burn + settings.n_sweeps):
            at, split = path.sweep(at, s, rng)
            if sweep_number >= settings.n_burn:
                values.append(path.log_ratio(at, split) + fixed - bound)
        mean, own = mean_and_variance(values)
        integral += weight / settings.steps * mean
        variance += (weight / settings.steps) ** 2 * own
    value = bound + integral + math.lgamma(state.n_factors + 1)
    return EvidenceValue(value, math.sqrt(variance))


def mean_and_variance(values: list[float]) -> tuple[float, float]:
    """The mean of draws and the variance of that mean, with the autocorrelation of neighbours."""
    x: Array = np.array(values)
    deviations = x - x.mean()
    variance = float(deviations @ deviations) / max(len(x) - 1, 1)
    lag = float(deviations[1:] @ deviations[:-1]) / max(len(x) - 1, 1)
    rho = min(max(lag / variance, 0.0), 0.8) if variance > 0 else 0.0
    return float(x.mean()), variance * (1 + rho) / (1 - rho) / len(x)
