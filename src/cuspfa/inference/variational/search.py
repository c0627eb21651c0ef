"""One search over K: the problem, the runs made so far, and the starts of further candidates.

The order in which candidates are tried is in `walk.py`, `search_over_k.py` and `search_given_k.py`.
A run is pruned as soon as it cannot reach the best bound so far.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array, Indices
from cuspfa.data.protocols import DataSource
from cuspfa.inference.kernels import Statistics
from cuspfa.inference.variational.candidates import Candidates
from cuspfa.inference.variational.init import draw_start, principal_directions, state_at
from cuspfa.inference.variational.progress import (
    SearchTimeout,
    VariationalCallback,
    VariationalProgress,
    raise_if_stopped,
)
from cuspfa.inference.variational.run import Run, run_iterations
from cuspfa.inference.variational.search_settings import DEFAULT_SEARCH, SearchSettings
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.inference.variational.tolerance import ToleratedError
from cuspfa.model.likelihoods.gaussian import spectral_loadings
from cuspfa.model.prior import CuspPrior


class Scored(NamedTuple):
    """A run whose evidence is computed, and the data that it is a fit to."""

    run: Run
    source: DataSource
    statistics: Statistics | None
    """Sufficient statistics, where exact sweeps over them are quick."""
    approximate: bool = False
    """Are these the statistics of Gaussian rows whose likelihood is only close to the source's?"""


class Search:
    """Data and prior, the candidates tried so far, and the means to try more."""

    def __init__(
        self,
        source: DataSource,
        prior: CuspPrior,
        *,
        tol: float,
        max_iter: int,
        max_factors: int,
        callback: VariationalCallback | None = None,
        began: float | None = None,
        deadline: float = math.inf,
        settings: SearchSettings = DEFAULT_SEARCH,
        tolerated: ToleratedError | None = None,
    ) -> None:
        self.source, self.prior, self.settings = source, prior, settings
        self.began = time.monotonic() if began is None else began
        self.deadline = deadline
        """When to stop, on the clock of `time.monotonic`, which processes of a machine share."""
        self.tol, self.max_iter, self.max_factors = tol, max_iter, max_factors
        self.callback = callback
        self.candidates = Candidates(tol, self.began, settings)
        small = source.p * min(source.p, source.n) <= settings.exact_sweep_size
        self._small = small
        self.statistics = source.statistics() if small else None
        """Sufficient statistics, where exact sweeps over them are quick."""
        self.surrogate_searched = False
        """Was a surrogate of the data searched first?"""
        self.tolerated = tolerated
        """The error of the model that is tolerated; `source` is then the tempered data."""
        self._nearest: dict[int, tuple[Run, Scored]] = {}
        self._directions: Array | None = None
        """Principal directions that random starts are made of, once there are any."""

    def anew(self, source: DataSource | None = None, *, silent: bool = True) -> Search:
        """A search with the same settings and no candidates yet, of these data or of others."""
        return Search(
            self.source if source is None else source,
            self.prior,
            tol=self.tol,
            max_iter=self.max_iter,
            max_factors=self.max_factors,
            callback=None if silent else self.callback,
            began=self.began,
            deadline=self.deadline,
            settings=self.settings,
            tolerated=self.tolerated,
        )

    # --- runs ---

    def try_state(
        self,
        state: VariationalState,
        *,
        tol: float | None = None,
        patient: bool = False,
        behind: float = 0.0,
    ) -> Run:
        """Run from a state and keep the run among the candidates.

        It is pruned when it cannot reach the best bound, or `behind` nats below; `patient` prevents
        pruning.
        """
        candidates = self.candidates
        target = -np.inf
        if candidates.best_by_k and not patient:
            target = candidates.best.total - behind
        run = run_iterations(
            state,
            self.source,
            self.prior,
            tol=self.tol if tol is None else tol,
            max_iter=self.max_iter,
            target=target,
            on_iteration=None if self.callback is None else self._report,
            deadline=self.deadline,
        )
        candidates.add(run)
        raise_if_stopped(run)
        active = run.state.active > 0.5
        if not np.all(active):  # explicit factors that the labels call inactive join the tail
            mean = run.state.loadings.mean[:, active]
            start = self.state_at(mean, run.state.noise_variance)
            return self.try_state(start, patient=patient, behind=behind)
        return run

    def grow(self, k: int) -> None:
        """Try k factors from k − 1 without pruning; on a surrogate of the data first, if any."""
        below = self.candidates.best_by_k[k - 1].state
        surrogate = self.surrogate_at(below)
        first = self if surrogate is None else self.anew(surrogate)
        start = first.larger(below)
        if surrogate is not None:
            start = self.restated(first.try_state(start, patient=True).state)
        self.try_state(start, patient=True)

    def polish(self) -> None:
        """Run the chosen K to a tighter tolerance; on a surrogate of the data first, if any."""
        tol, state = self.settings.polish * self.tol, self.candidates.chosen.state
        surrogate = self.surrogate_at(state)
        if surrogate is not None:
            # What is left to gain is little, and takes long.
            tol *= self.settings.polish_after_surrogate
            first = self.anew(surrogate)
            near = first.try_state(first.restated(state), tol=tol, patient=True).state
            state = self.restated(near) if near.n_factors == state.n_factors else state
        self.try_state(state, tol=tol, patient=True)

    def scored(self, k: int) -> Scored:
        """The run of k factors whose evidence counts, and the data that it is a fit to.

        Where an error of the model is tolerated, the candidate is run on the nearest Gaussian rows,
        which are found anew from where it ends, `relinearizations` times.
        """
        run = self.candidates.best_by_k[k]
        if self.tolerated is None:
            return self._as_it_is(run)
        known = self._nearest.get(k)
        if known is None or known[0] is not run:
            found = self._as_it_is(run)
            for _ in range(self.settings.relinearizations):
                found = self._nearer(found, self.tol)
            known = self._nearest[k] = (run, found)
        return known[1]

    def _as_it_is(self, run: Run) -> Scored:
        """A run on the data themselves; incomplete data have the statistics of a surrogate."""
        if self.statistics is not None or not self._small:
            return Scored(run, self.source, self.statistics)
        surrogate = self.surrogate_at(run.state)
        statistics = None if surrogate is None else surrogate.statistics()
        return Scored(run, self.source, statistics, approximate=True)

    def _nearer(self, scored: Scored, tol: float) -> Scored:
        """Run on the Gaussian rows that are nearest where the last run ended."""
        assert self.tolerated is not None
        state = scored.run.state
        mean, noise = state.loadings.mean, state.noise_variance
        near = self.tolerated.near(mean, noise)
        if near is None:
            return scored
        start = state_at(mean, noise, near, self.prior, self.max_factors + 1, state)
        run = run_iterations(
            *(start, near, self.prior), tol=tol, max_iter=self.max_iter, deadline=self.deadline
        )
        statistics = near.statistics() if self._small else None
        return Scored(run, near, statistics, approximate=True)

    def finish(self) -> None:
        """Where an error is tolerated, run the chosen K on the nearest rows to a tighter tolerance.

        The result is a fit to the rows that its own mean determines.
        """
        if self.tolerated is None:
            return
        run = self.candidates.chosen
        k = run.state.n_factors
        found = self.scored(k)
        for _ in range(self.settings.relinearizations):
            found = self._nearer(found, self.settings.polish * self.tol)
        self._nearest[k] = (run, found)

    @property
    def chosen(self) -> Run:
        """The run to report."""
        run = self.candidates.chosen
        if self.tolerated is None:
            return run
        known = self._nearest.get(run.state.n_factors)
        return run if known is None else known[1].run

    def check_time(self) -> None:
        """Raise `SearchTimeout` at the deadline; for work between runs."""
        if time.monotonic() >= self.deadline:
            raise SearchTimeout

    def _report(self, number: int, bound: float, at: VariationalState) -> None:
        if self.callback is None:
            return
        candidates, now = self.candidates, time.monotonic()
        best = max(bound, candidates.best.total) if candidates.best_by_k else bound
        rise, left = candidates.outlook(self.max_factors, self.deadline - now)
        self.callback(
            VariationalProgress(
                n_factors=at.n_factors,
                iteration=number,
                lower_bound=bound,
                best_lower_bound=best,
                max_factors=self.max_factors,
                rise=rise,
                seconds=now - self.began,
                seconds_left=left,
            )
        )

    # --- starts ---

    def state_at(self, mean: Array, noise_variance: Array) -> VariationalState:
        """A state with these loadings and noise, otherwise like the best run so far."""
        like = self.candidates.best.state if self.candidates.best_by_k else None
        return state_at(mean, noise_variance, self.source, self.prior, self.max_factors + 1, like)

    def restated(self, state: VariationalState) -> VariationalState:
        """The state of these data with the loadings and noise of one that other data led to."""
        return self.state_at(state.loadings.mean, state.noise_variance)

    def surrogate_at(self, state: VariationalState) -> DataSource | None:
        """A surrogate of the data that a fit with this state suggests; None if there is none."""
        return self.source.surrogate(state.loadings.mean, state.noise_variance)

    def spectral_state(self, k: int | None = None) -> VariationalState:
        """The leading directions of the data, k of them or as many as rise above the noise.

        Principal factor iterations: directions for the present noise, then the noise they leave.
        A direction counts when its eigenvalue is above the edge (1 + √(p/n))² of pure noise.
        """
        n, p, settings = self.source.n, self.source.p, self.settings
        variances = np.asarray(self.source.squares / self.source.counts)
        edge, limit = (1 + np.sqrt(p / n)) ** 2, min(self.max_factors, p)
        noise, mean, found = variances, np.zeros((p, 0)), -1
        iterations = settings.spectral_iterations
        for _ in range(settings.spectral_iterations_given_k if k is not None else iterations):
            size = k if k is not None else max(found + settings.patience, settings.fewest_leading)
            while True:
                near = mean if mean.size else None
                values, vectors = self.source.leading(size, noise, near=near)
                above = int(np.sum(values > n * edge))
                if k is not None or above < len(values) or len(values) >= limit:
                    break
                size = 2 * len(values)
            last, found = found, min(limit, above) if k is None else k
            mean = spectral_loadings(values[:found], vectors[:, :found], noise, n)
            floor = settings.least_noise * variances
            noise = np.maximum(variances - np.sum(mean**2, axis=1), floor)
            if found == last:
                break
        return self.state_at(mean, noise)

    def random_state(self, k: int, rng: np.random.Generator) -> VariationalState:
        """A start of k random factors, the same for any order and signs of the columns."""
        if self._directions is None:
            self._directions = principal_directions(self.source, self.settings.most_directions)
        n_terms, like = self.max_factors + 1, self.candidates.best.state
        return draw_start(self.source, self.prior, n_terms, rng, k, like, self._directions)

    def smaller(self, state: VariationalState, less: int = 1) -> VariationalState:
        """The state without its `less` weakest factors."""
        return self.without(state, from_weakest(state)[:less])

    def without(self, state: VariationalState, which: Indices) -> VariationalState:
        """The state without these factors, whose variance goes to the noise."""
        mean = state.loadings.mean
        noise = state.noise_variance + np.sum(mean[:, which] ** 2, axis=1)
        return self.state_at(np.delete(mean, which, axis=1), noise)

    def larger(self, state: VariationalState, more: int = 1) -> VariationalState:
        """The state with `more` factors from the leading directions that it leaves unexplained."""
        return self.with_loadings(state, self.unexplained(state, more))

    def with_loadings(self, state: VariationalState, extra: Array) -> VariationalState:
        """The state with further columns of loadings (p, m)."""
        mean = np.column_stack([state.loadings.mean, extra])
        return self.state_at(mean, state.noise_variance)

    def unexplained(self, state: VariationalState, size: int) -> Array:
        """The `size` leading directions that a state leaves unexplained, as loadings (p, size)."""
        noise, mean = state.noise_variance, state.loadings.mean
        k = mean.shape[1]
        values, vectors = self.source.leading(k + size, noise, near=mean)
        chosen = slice(k, k + size)
        return spectral_loadings(values[chosen], vectors[:, chosen], noise, self.source.n)


def from_weakest(state: VariationalState) -> Indices:
    """Factors of a state, the smallest squared norm first."""
    return np.argsort(np.sum(state.loadings.mean**2, axis=0), kind="stable")
