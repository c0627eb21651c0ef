"""The search for the number of factors.

Up: columns are added one at a time from what the others leave unexplained, while the bound of short
runs rises, and a few more. The gap of the bound grows with K, so on sparse counts this may end too
early or too late.

Down: exact sweeps with all these columns, and half as many again where a sweep is little work,
settle which of them are needed. Columns move far more easily while there are too many. Then the
smallest is taken away, sweeps go on, and so forth. For each K the log evidence is estimated by a
path from a run that begins there (`evidence.py`), until it has clearly fallen, and at least down to
the K of the highest bound. If it is highest at the top, more columns are added first.

Thinned counts give a second opinion (`thinning.py`). Where the evidence for the last column is not
large, it has to predict events that were held out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from cuspfa._typing import Array
from cuspfa.data.count_blocks import scratch
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.evidence import EvidenceSettings, EvidenceValue, log_evidence
from cuspfa.inference.factorization.kernels import CountDraw, draw_from_q, sweep
from cuspfa.inference.factorization.run import CountRun, RunLimits, run_iterations
from cuspfa.inference.factorization.split import expected_split
from cuspfa.inference.factorization.state import CountState, gammas, state_of
from cuspfa.inference.factorization.thinning import held_out_gains, thinned
from cuspfa.inference.variational.run import Status
from cuspfa.model.poisson_factorization import Hyperparameters, PoissonFactorizationPrior


class CountSearchSettings(NamedTuple):
    """How the search goes."""

    tol: float = 0.1
    """A run has converged when two iterations raise the bound by less, in nats."""
    max_iter: int = 2000
    """Most iterations of a run."""
    polish: float = 0.1
    """Times `tol`, for the last run."""
    rough_tol: float = 5.0
    """Times `tol`, for the runs of the search."""
    rough_iterations: int = 60
    """Most iterations of one of these."""
    up_iterations: int = 12
    """The same on the way up, where a sweep of `many` columns is much work."""
    many: int = 20
    """Columns for which it is decided whether a sweep on the way up is much work."""
    patience: int = 3
    """Columns in a row that do not raise the bound, after which none is added."""
    sweeps: int = 300
    """Exact sweeps with too many columns; a third as many after one was taken away. With fewer, the
    evidence is that of a poor maximum, and K is too small."""
    averaged: int = 10
    """Draws whose means a run begins at."""
    least_gain: float = 10.0
    """Nats of evidence, besides a standard error, by which more columns must be better. Where
    columns are alike they exchange their places on a path, and log K! counts them too often."""
    fallen: float = 10.0
    """Nats below the highest evidence at which the way down ends, and three standard errors."""
    doubtful: float = 1.0
    """Standard errors from a decision, below which evidence is estimated again."""
    most_repeats: int = 3
    """Times that this is done."""
    path: EvidenceSettings = EvidenceSettings()
    """The path by which the evidence of one K is estimated."""
    quick_path: EvidenceSettings = EvidenceSettings(steps=12, n_sweeps=4, n_burn=2)
    """Instead of `path`, where a sweep is much work."""
    quick_sweeps: int = 24
    """Instead of `sweeps`, where a sweep is much work."""
    quick_iterations: int = 20
    """Instead of `rough_iterations`, where a sweep is much work."""
    quick_work: float = 4e6
    """Counts × K above which a sweep is much work. Evidence grows with the data, and its standard
    error with the square root."""
    large: float = 40.0
    """Nats of evidence below which a column must also predict events held out: where shapes are
    learned, columns that are alike have nearly the same evidence."""
    least_held_out: float = 2.0
    """Nats by which such a column must raise the log-likelihood of events held out."""
    splits: int = 4
    """Thinned tables for the second opinion; one where a sweep is much work."""
    kept: float = 0.75
    """Part of the events that are not held out."""
    exact_work: float = 4e8
    """Most counts × K of a sweep; beyond it the way up alone chooses K."""
    given_work: float = 1e7
    """The same for a K that is given."""
    given_iterations: int = 6
    """Of each number of columns on the way to a given one."""
    spare: int = 2
    """Columns more than a given K that sweeps begin with."""
    directions: int = 10
    """Power iterations for the direction of a new column."""
    deadline: float = math.inf
    """When the search ends, on the clock of `time.monotonic`."""


DEFAULT_COUNT_SEARCH = CountSearchSettings()


class CountScore(NamedTuple):
    """What speaks for K columns against K − 1."""

    evidence: float
    """log p(x | K) − log p(x | K − 1), with the prior of K."""
    error: float
    """Its Monte Carlo standard error."""
    held_out: float = math.nan
    """Gain of the log-likelihood of events held out; NaN where it was not asked for."""


class CountSearchResult(NamedTuple):
    """What a search found."""

    run: CountRun
    """The run of the chosen K."""
    runs: dict[int, CountRun]
    """The best run of each K that was tried."""
    scores: dict[int, CountScore]
    """What speaks for each K against K − 1, where it was estimated."""


def state_at(
    scores: Array, loadings: Array, data: Counts, prior: PoissonFactorizationPrior
) -> CountState:
    """A start with these means."""
    known = 10.0
    q = [
        gammas(np.full(one.shape, known), known / np.maximum(one, 1e-12))
        for one in (scores, loadings)
    ]
    return state_of(q[0], q[1], data, prior.start(), prior)


def first_state(data: Counts, prior: PoissonFactorizationPrior, k: int) -> CountState:
    """One factor from the margins, or none."""
    if k == 0:
        return state_at(np.zeros((data.n, 0)), np.zeros((data.p, 0)), data, prior)
    seen = data.loading_totals(np.ones((data.p, 1)))
    scores = (np.asarray(data.x.sum(axis=1)) + 0.5) / np.maximum(seen, 1e-12)
    scores = scores / scores.mean()
    totals = np.broadcast_to(data.score_totals(scores), (data.p, 1))
    loadings = (np.asarray(data.x.sum(axis=0)).T + 0.5) / np.maximum(totals, 1e-12)
    return state_at(scores, loadings, data, prior)


def larger(
    state: CountState, data: Counts, prior: PoissonFactorizationPrior, settings: CountSearchSettings
) -> CountState:
    """The state with one column more, from the leading direction of the residuals.

    They are (x_ij/λ_ij − 1) √(r_i c_j), r and c the margins; the positive parts of the direction's
    vectors make a column of half the mean size.
    """
    scores, loadings = state.scores.mean, state.loadings.mean
    k = state.n_factors
    if k == 0:
        return first_state(data, prior, 1)
    rates = data.rates(scores, loadings, scratch(data))
    ratio = sparse.csr_matrix(
        (np.divide(data.x.data, rates, out=rates), data.x.indices, data.x.indptr), data.x.shape
    )
    r = np.sqrt(np.asarray(data.x.sum(axis=1)).ravel() + 0.5)
    c = np.sqrt(np.asarray(data.x.sum(axis=0)).ravel() + 0.5)
    r, c = r / np.linalg.norm(r), c / np.linalg.norm(c)
    rng = np.random.default_rng(k)
    v = rng.standard_normal(data.p)
    s = data.exposure
    for _ in range(settings.directions):
        v = v / np.linalg.norm(v)
        u = r * (ratio @ (c * v)) / s - r * (c @ v)
        v = c * (ratio.T @ (r * u / s)) - c * (r @ u)
    del rates, ratio  # a number for each count, not needed where the new state is made
    u_parts, v_parts = (u / r, -u / r), (v / c, -v / c)
    best = max(
        (0, 1),
        key=lambda i: (
            float(np.sum(np.maximum((u, -u)[i], 0) ** 2))
            * float(np.sum(np.maximum((v, -v)[i], 0) ** 2))
        ),
    )
    new_score, new_loading = np.maximum(u_parts[best], 0), np.maximum(v_parts[best], 0) * c**2
    share = 0.5 / (k + 1)
    sizes = float(state.sizes.sum())
    new_score = 0.05 + new_score / max(new_score.mean(), 1e-12)
    new_loading = new_loading + 0.05 * new_loading.mean() + 1e-12
    new_loading *= share * sizes / (new_score.sum() * new_loading.sum())
    return state_at(
        np.column_stack([scores, new_score]),
        np.column_stack([(1 - share) * loadings, new_loading]),
        data,
        prior,
    )._replace(hyper=state.hyper)


def of_means(
    state: CountState, data: Counts, prior: PoissonFactorizationPrior, number: int
) -> CountState:
    """A start after iterations of the means, with the parts of the counts in their proportions.

    Those of q are in the proportions of geometric means, which are near zero where a shape is
    small: a column that is small in a row soon has no part of it, and iterations and sweeps are
    long in such a maximum of the bound. Means leave columns room to take their place.
    """
    scores, loadings, (a, c, _, _) = state.scores.mean, state.loadings.mean, state.hyper
    for _ in range(number):
        split = expected_split(data.x, scores, loadings)
        scores = (a + split.by_row) / (a + data.loading_totals(loadings))
        own = state.hyper.column_rate(loadings.sum(axis=0), data.p)
        loadings = (c + split.by_column) / (own + data.score_totals(scores))
    return state_at(scores, loadings, data, prior)._replace(hyper=state.hyper)


class CountSearch:
    """Data, prior and settings, and what was found for each K so far."""

    def __init__(
        self,
        data: Counts,
        prior: PoissonFactorizationPrior,
        settings: CountSearchSettings,
        rng: np.random.Generator,
        max_factors: int,
        callback: Callable[[int, int, float], None] | None = None,
    ) -> None:
        self.data, self.prior, self.settings, self.rng = data, prior, settings, rng
        self.max_factors, self.callback = max_factors, callback
        self.runs: dict[int, CountRun] = {}
        self.evidence: dict[int, EvidenceValue] = {}
        self.states: dict[int, CountState] = {}
        """Of the highest evidence."""

    def run(
        self,
        state: CountState,
        *,
        fixed: bool = False,
        rough: bool = False,
        max_iter: int | None = None,
    ) -> CountRun:
        """Run from a state, with its hyperparameters if fixed; keep the best run of each K."""
        settings, k = self.settings, state.n_factors
        few = settings.quick_iterations if self.quick(k) else settings.rough_iterations
        most = few if rough else settings.max_iter
        limits = RunLimits(
            settings.tol * (settings.rough_tol if rough else settings.polish),
            min(most, settings.max_iter) if max_iter is None else min(max_iter, most),
            deadline=settings.deadline,
        )

        def report(number: int, bound: float, _: CountState) -> None:
            if self.callback is not None:
                self.callback(k, number, bound)

        prior = self.prior.at(state.hyper) if fixed else self.prior
        run = run_iterations(state, self.data, prior, limits, report)
        if fixed:
            run = run.with_hyperprior(self.prior.log_hyperprior(state.hyper))
        if k not in self.runs or run.total > self.runs[k].total:
            self.runs[k] = run
        if run.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return run

    @property
    def best(self) -> CountRun:
        """The run of highest bound."""
        return max(self.runs.values(), key=lambda one: one.total)

    @property
    def out_of_time(self) -> bool:
        """Is the time up?"""
        return time.monotonic() >= self.settings.deadline

    def add_columns(self) -> CountState:
        """Add columns while the bound rises, and `patience` more; the last of these starts."""
        misses, state = 0, self.best.state
        while misses < self.settings.patience and state.n_factors < self.max_factors:
            before = self.best.total
            state = self.with_columns(state, state.n_factors + 1)
            most = self.settings.up_iterations if self.quick(self.settings.many) else None
            run = self.run(state, rough=True, max_iter=most)
            misses = 0 if run.total > before else misses + 1
            if self.out_of_time:
                break
        return state

    def with_columns(self, state: CountState, k: int) -> CountState:
        """Add columns up to k, with a few iterations of the means each; no runs of their own."""
        few = self.settings.given_iterations
        while state.n_factors < k:
            state = larger(state, self.data, self.prior, self.settings)
            state = of_means(state, self.data, self.prior, few)
        return state

    def quick(self, k: int) -> bool:
        """Is one sweep so much work that fewer have to do?"""
        return bool(self.data.x.nnz * k > self.settings.quick_work)

    def after_sweeps(self, state: CountState) -> CountDraw:
        """Exact sweeps from a state."""
        number = self.settings.quick_sweeps if self.quick(state.n_factors) else self.settings.sweeps
        return self.sweeps(draw_from_q(state, self.prior, self.rng), number)

    def sweeps(self, at: CountDraw, number: int) -> CountDraw:
        """Exact sweeps."""
        for _ in range(number):
            at = sweep(at, self.data, self.prior, self.rng)
        return at

    def without_smallest(self, at: CountDraw) -> CountDraw:
        """Exact sweeps without the smallest column."""
        number = self.settings.quick_sweeps if self.quick(at.n_factors) else self.settings.sweeps
        return self.sweeps(at.without(int(np.argmin(at.sizes))), number // 3)

    def mean_state(self, at: CountDraw) -> tuple[CountState, CountDraw]:
        """A start for a run: means of a few more draws, with the mean of their hyperparameters."""
        number = self.settings.averaged
        scores, loadings = np.zeros_like(at.scores), np.zeros_like(at.loadings)
        logs = np.zeros(len(Hyperparameters._fields))
        for _ in range(number):
            at = sweep(at, self.data, self.prior, self.rng)
            scores += at.scores / number
            loadings += at.loadings / number
            logs += np.log(at.hyper) / number
        hyper = Hyperparameters(*map(float, np.exp(logs)))
        start = state_at(scores, loadings, self.data, self.prior)._replace(hyper=hyper)
        return start, at

    def estimate_evidence(self, at: CountDraw) -> CountDraw:
        """Estimate the evidence of this number of columns, from where the sweeps are."""
        start, at = self.mean_state(at)
        k = at.n_factors
        state = self.run(start, fixed=True, rough=True).state
        settings = self.settings.quick_path if self.quick(k) else self.settings.path
        found = log_evidence(state, self.data, self.prior, self.rng, settings)
        if k not in self.evidence or found.value > self.evidence[k].value:
            self.evidence[k], self.states[k] = found, state
        return at

    @property
    def best_by_evidence(self) -> int:
        """The least number of columns over which none has clearly more evidence."""
        numbers = sorted(self.evidence)
        for k in numbers:
            if not any(self.lead(more, k) > 0 for more in numbers if more > k):
                return k
        return numbers[-1]  # not reached

    def lead(self, more: int, fewer: int) -> float:
        """Nats by which more columns are better than they must be."""
        one, other = self.evidence[more], self.evidence[fewer]
        least = self.settings.least_gain + math.hypot(one.error, other.error)
        return one.value - other.value - least

    def remove_columns(self, at: CountDraw, least: int) -> None:
        """Take columns away until the evidence has clearly fallen, at least to `least`."""
        while True:
            at = self.estimate_evidence(at)
            k, best = at.n_factors, self.best_by_evidence
            top, here = self.evidence[best], self.evidence[k]
            far = self.settings.fallen + 3 * math.hypot(top.error, here.error)
            clear = k < best and here.value < top.value - far
            if k == 1 or (k <= least and clear) or self.out_of_time:
                return
            at = self.without_smallest(at)

    def choose_by_evidence(self, top: CountState) -> int:
        """Choose K by the evidence."""
        least = self.best.state.n_factors  # by the bound, which finds too few rather than too many
        more = min(top.n_factors + top.n_factors // 2, self.max_factors)
        if not self.quick(more):
            top = self.with_columns(top, more)
        self.remove_columns(self.after_sweeps(top), least)
        while not self.out_of_time:
            k, most = self.best_by_evidence, max(self.evidence)
            more = min(k + max(self.settings.patience, k // 4), self.max_factors)
            if most >= min(k + self.settings.spare, self.max_factors) or not self.affordable(more):
                break
            self.remove_columns(self.after_sweeps(self.with_columns(self.states[k], more)), k)
        for _ in range(self.settings.most_repeats):
            if self.out_of_time or not self.estimate_again():
                break
        return self.best_by_evidence

    def estimate_again(self) -> bool:
        """Estimate the evidence of the chosen K and of its closest rival again if it is close."""
        k = self.best_by_evidence
        errors = {
            other: abs(self.lead(max(k, other), min(k, other)))
            / max(math.hypot(self.evidence[k].error, self.evidence[other].error), 1e-9)
            for other in self.evidence
            if other != k
        }
        if not errors or min(errors.values()) > self.settings.doubtful:
            return False
        for one in (k, min(errors, key=lambda other: errors[other])):
            settings = self.settings.quick_path if self.quick(one) else self.settings.path
            longer = settings._replace(n_sweeps=4 * settings.n_sweeps)
            again = log_evidence(self.states[one], self.data, self.prior, self.rng, longer)
            self.evidence[one] = combined(self.evidence[one], again)
        return True

    def affordable(self, k: int) -> bool:
        """Are exact sweeps short enough for a search?"""
        return self.data.x.nnz * k <= self.settings.exact_work and self.prior.spike is None

    def score(self, k: int) -> CountScore | None:
        """What the evidence says of K against K − 1."""
        if k not in self.evidence or k - 1 not in self.evidence:
            return None
        one, other = self.evidence[k], self.evidence[k - 1]
        return CountScore(one.value - other.value, math.hypot(one.error, other.error))

    def checked_on_held_out(self, k: int) -> tuple[int, dict[int, CountScore]]:
        """The K that thinned counts do not speak against, and what speaks for each."""
        held_out: dict[int, float] = {}
        refused = -1
        while True:
            for number, gain in self.gains_on_held_out(k).items():
                held_out[number] = (held_out.get(number, gain) + gain) / 2  # of two opinions
            if held_out.get(k + 1, -math.inf) >= self.settings.least_held_out and refused == k + 1:
                k += 1
                break
            last = self.score(k)
            if last is None or last.evidence >= self.settings.large:
                break
            if not held_out.get(k, math.inf) < self.settings.least_held_out:
                break
            refused, k = k, k - 1
        found = {}
        for number in sorted(self.evidence):
            score = self.score(number)
            if score is not None:
                found[number] = score._replace(held_out=held_out.get(number, math.nan))
        return k, found

    def gains_on_held_out(self, k: int) -> dict[int, float]:
        """Gains of the log-likelihood of events held out by columns K and K + 1: means of splits.

        Nothing of a split's start knows the events held out but the K − 1 largest columns.
        """
        if k not in self.states or self.out_of_time:
            return {}
        quick, settings = self.quick(k), self.settings
        number = settings.quick_sweeps if quick else settings.sweeps // 5
        state, gains = self.states[k], []
        kept = np.argsort(-state.sizes)[: k - 1]
        for _ in range(1 if quick else settings.splits):
            train, held = thinned(self.data, self.settings.kept, self.rng)
            start = state_at(
                state.scores.mean[:, kept], state.loadings.mean[:, kept], train, self.prior
            )
            for _ in range(2):
                start = larger(start, train, self.prior, self.settings)
                start = of_means(start, train, self.prior, self.settings.given_iterations)
            at = draw_from_q(start._replace(hyper=state.hyper), self.prior, self.rng)
            n_gains = min(k, 2)  # none over no column
            gains.append(held_out_gains(at, train, held, self.prior, self.rng, number, n_gains))
        return {k + 1 - j: float(np.mean(one)) for j, one in enumerate(zip(*gains, strict=True))}

    def run_given(self, k: int) -> CountRun:
        """A run of k columns."""
        state = first_state(self.data, self.prior, min(k, 1))
        if k > 1 and self.data.x.nnz * k <= self.settings.given_work and self.prior.spike is None:
            most = min(k + self.settings.spare, self.data.n, self.data.p)
            at = self.after_sweeps(self.with_columns(state, most))
            while at.n_factors > k:
                at = self.without_smallest(at)
            return self.run(self.mean_state(at)[0], fixed=True)
        return self.run(self.with_columns(state, k))


def combined(one: EvidenceValue, other: EvidenceValue) -> EvidenceValue:
    """The mean of two estimates, weighted by their precision."""
    weights = [1 / max(each.error, 1e-6) ** 2 for each in (one, other)]
    value = (weights[0] * one.value + weights[1] * other.value) / sum(weights)
    return EvidenceValue(value, 1 / math.sqrt(sum(weights)))


def search_over_k(
    data: Counts,
    prior: PoissonFactorizationPrior,
    rng: np.random.Generator,
    *,
    max_factors: int,
    settings: CountSearchSettings = DEFAULT_COUNT_SEARCH,
    callback: Callable[[int, int, float], None] | None = None,
) -> CountSearchResult:
    """The whole search."""
    search = CountSearch(data, prior, settings, rng, max_factors, callback)
    search.run(first_state(data, prior, 0))
    if not (max_factors and data.x.nnz):
        return CountSearchResult(search.runs[0], search.runs, {})
    search.run(first_state(data, prior, 1), rough=True)
    top = search.add_columns()
    if not search.affordable(top.n_factors):
        chosen = search.best.state
        return CountSearchResult(search.run(chosen), search.runs, {})
    k, scores = search.checked_on_held_out(search.choose_by_evidence(top))
    run = search.run(search.states[k], fixed=True)
    search.runs[k] = run
    return CountSearchResult(run, search.runs, scores)


def fit_given_k(
    data: Counts,
    prior: PoissonFactorizationPrior,
    rng: np.random.Generator,
    k: int,
    *,
    settings: CountSearchSettings = DEFAULT_COUNT_SEARCH,
    callback: Callable[[int, int, float], None] | None = None,
) -> CountSearchResult:
    """A run of a given K."""
    search = CountSearch(data, prior, settings, rng, k, callback)
    return CountSearchResult(search.run_given(k), search.runs, {})
