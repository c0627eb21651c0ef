"""The candidates for K that a search has tried, which of them is chosen, and the table over K."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.inference.variational.run import Run, Status
from cuspfa.inference.variational.search_settings import SearchSettings
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.posterior.fit_info import SearchEntry


class Point(NamedTuple):
    """The bound of one K, and what it took to find it."""

    lower_bound: float
    n_iter: int
    """Iterations of all its runs."""
    status: Status
    """How its best run ended."""
    seconds: float
    """From the start of the search until K was first tried."""


class Candidates:
    """The best run for each K, the curve of the bound over K, and the evidences."""

    def __init__(self, tol: float, began: float, settings: SearchSettings) -> None:
        self.tol, self.began, self.settings = tol, began, settings
        self.best_by_k: dict[int, Run] = {}
        """The best run for each K, unless it is far behind the best: its state takes memory."""
        self._best: Run | None = None
        """The run of highest bound, until `best_by_k` changes."""
        self.curve: dict[int, Point] = {}
        """The bound of every K that was tried."""
        self.evidence_by_k: dict[int, Evidence] = {}
        """The evidence of every K that was scored."""
        self.given_k: int | None = None
        """A given K, whose run is kept however far behind it is."""
        self.selected: int | None = None
        """The K that is reported whatever its evidence; it was chosen with the model error."""
        self.prefer_nonempty = False
        """Does a run without empty factors replace one with an empty factor and a higher
        bound?"""

    @property
    def best(self) -> Run:
        """The run of highest bound."""
        if self._best is None:
            self._best = max(self.best_by_k.values(), key=lambda one: one.total)
        return self._best

    @property
    def chosen(self) -> Run:
        """The run to report: the one of highest bound, or by the evidence where K were scored.

        By the evidence it is the smallest K whose evidence is not below the highest by more than
        `parsimony` and `parsimony_errors` of the difference.
        """
        if self.selected is not None:
            return self.best_by_k[self.selected]
        if not self.evidence_by_k:
            return self.best
        top = self.top_evidence
        return self.best_by_k[
            min(
                k for k in self.evidence_by_k if self.lead(top, k) <= self.settings.parsimony_errors
            )
        ]

    @property
    def top_evidence(self) -> int:
        """The K of the highest evidence."""
        return max(self.evidence_by_k, key=lambda k: self.evidence_by_k[k].value)

    @property
    def tied(self) -> list[int]:
        """Other K that another set of draws, or another rounding, might have chosen."""
        if not self.evidence_by_k:
            bounds = {k: point.lower_bound for k, point in self.curve.items()}
            top = max(bounds, key=lambda k: bounds[k])
            near = bounds[top] - 2 * self.tol
            return sorted(k for k, value in bounds.items() if k != top and value > near)
        scored, chosen, top = self.evidence_by_k, self.chosen.state.n_factors, self.top_evidence
        possible = [
            k
            for k in scored
            if k != chosen
            and self.lead(top, k) <= self.settings.parsimony_errors + self.settings.tie_errors
        ]
        # More factors could have been chosen only if these few had been too far behind.
        safe = (
            max(self.lead(k, chosen) for k in scored)
            < self.settings.parsimony_errors - self.settings.tie_errors
        )
        return sorted(k for k in possible if k < chosen or not safe)

    def lead(self, k: int, other: int) -> float:
        """Monte Carlo errors by which the evidence of k is more than `parsimony` above another."""
        one, two = self.evidence_by_k[k], self.evidence_by_k[other]
        error = max(float(np.hypot(one.error, two.error)), self.settings.least_error)
        return (one.value - two.value - self.settings.parsimony) / error

    def add(self, run: Run) -> None:
        """Keep a run if it is the best of its K and not far behind the best of all."""
        k = int(np.sum(run.state.active > 0.5))
        known = self.curve.get(k)
        iterations = run.n_iter + (known.n_iter if known else 0)
        if known is None or self._is_better(run, k, known):
            seconds = known.seconds if known else time.monotonic() - self.began
            known = Point(run.total, iterations, run.status, seconds)
            self.best_by_k[k] = run
            self._best = None
        self.curve[k] = known._replace(n_iter=iterations)
        floor = self.best.total - self.settings.forget_beyond
        self.best_by_k = {
            k: one for k, one in self.best_by_k.items() if one.total >= floor or k == self.given_k
        }

    def keep_only(self, k: int | None) -> None:
        """Drop every other K; None drops all."""
        self.curve = {} if k is None else {k: self.curve[k]}
        self.best_by_k = {} if k is None else {k: self.best_by_k[k]}
        self._best = None

    def _is_better(self, run: Run, k: int, known: Point) -> bool:
        """Is a run better than the best run of k so far?"""
        if not self.prefer_nonempty or k not in self.best_by_k:
            return run.total > known.lower_bound
        nonempty, was_nonempty = (
            one.status is not Status.PRUNED and self.all_nonempty(one.state)
            for one in (run, self.best_by_k[k])
        )
        return (nonempty, run.total) > (was_nonempty, known.lower_bound)

    def all_nonempty(self, state: VariationalState) -> bool:
        """Has every factor a signal Σ_j μ_jh² E[1/σ²_j] above `empty_signal`?

        A state with a factor of no signal is one of K − 1 factors.
        """
        signal = state.noise.precision @ state.loadings.mean**2
        return float(np.min(signal, initial=np.inf)) > self.settings.empty_signal

    def has_nonempty(self, k: int) -> bool:
        """Is there a run of k factors of which none is empty?"""
        return k in self.best_by_k and self.all_nonempty(self.best_by_k[k].state)

    def rise_per_factor(self) -> tuple[float, float]:
        """Nats and seconds per factor up to the best K if none above it was tried; else NaN.

        Measured over the part `look_back` of K, or two factors. Pruned runs do not count.
        """
        curve = self.curve
        if not curve:
            return math.nan, math.nan
        top = max(curve, key=lambda k: curve[k].lower_bound)
        below = [
            k
            for k, point in sorted(curve.items())
            if k < top - 1 and point.status is not Status.PRUNED
        ]
        if max(curve) > top or not below:
            return math.nan, math.nan
        far = [k for k in below if top - k >= self.settings.look_back * top]
        start = far[-1] if far else below[0]
        here, there = curve[top], curve[start]
        rise = (here.lower_bound - there.lower_bound) / (top - start)
        return rise, (here.seconds - there.seconds) / (top - start)

    def outlook(self, max_factors: int, seconds_to_deadline: float) -> tuple[float, float]:
        """The rise of the bound per factor, and seconds to `max_factors` at the present pace."""
        rise, pace = self.rise_per_factor()
        if math.isnan(rise):
            return math.nan, math.nan
        top = max(self.curve, key=lambda k: self.curve[k].lower_bound)
        return rise, min(pace * (max_factors - top), max(seconds_to_deadline, 0.0))


def search_entries(candidates: Candidates) -> list[SearchEntry]:
    """The table over K, with weights by the evidence or, where no K was scored, by the bound."""
    evidences = candidates.evidence_by_k
    values = {k: one.value for k, one in evidences.items()}
    values = values or {k: point.lower_bound for k, point in candidates.curve.items()}
    errors = [evidences[k].error if evidences else 0.0 for k in values]
    draws = candidates.settings.weight_draws
    weights = dict(zip(values, weights_of_k(list(values.values()), errors, draws), strict=True))
    tied = candidates.tied
    return [
        SearchEntry(
            n_factors=k,
            lower_bound=point.lower_bound,
            evidence=evidences[k].value if k in evidences else math.nan,
            evidence_error=evidences[k].error if k in evidences else math.nan,
            tied=k in tied,
            weight=weights.get(k, 0.0),
            n_iter=point.n_iter,
            status=point.status.value,
        )
        for k, point in sorted(candidates.curve.items())
    ]


def weights_of_k(scores: list[float], errors: list[float], n_draws: int) -> list[float]:
    """exp(score), normalised, and averaged over normal errors of the scores.

    Without the average the highest of a few noisy scores would seem nearly certain.
    """
    z = np.random.default_rng(0).standard_normal((n_draws, len(scores)))
    values = np.array(scores) + np.array(errors) * z
    parts = np.exp(values - values.max(axis=1, keepdims=True))
    return [float(one) for one in np.mean(parts / parts.sum(axis=1, keepdims=True), axis=0)]
