"""How many factors: a walk over K, each candidate started from its neighbour.

The spectrum suggests where to begin; from there the walk goes both ways until `patience` steps in
a row have not raised the bound. A candidate is given up as soon as it cannot catch up. The two
best K are then started anew from elsewhere, since the bound at one K may have several maxima, and
the winner is polished.

Above `large` factors the walk takes several at once: twice as many after each step that raised the
bound, half as many after one that did not, down to one. Where the data do not have a small number
of factors the bound rises for long, and `Progress` says by how much.

The bound falls behind log p(y | K) more and more as K grows, so the walk may stop too early;
`model_selection.py` goes on from there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
from joblib import Parallel, delayed

from cuspfa._typing import Array, Indices
from cuspfa.data.protocols import DataSource
from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.inference.variational.init import draw_start, principal_axes, state_at
from cuspfa.inference.variational.progress import (
    Callback,
    OutOfTime,
    Point,
    Progress,
    Stopped,
    climb,
    outlook,
    stop_if_stopped,
)
from cuspfa.inference.variational.run import Run, Status, run
from cuspfa.inference.variational.search_settings import SearchSettings
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.model.likelihoods.gaussian import spectral_loadings
from cuspfa.model.prior import CuspPrior

DEFAULTS = SearchSettings()


class Search:
    """The best run for each K so far, and the means to make more."""

    def __init__(
        self,
        source: DataSource,
        prior: CuspPrior,
        *,
        tol: float,
        max_iter: int,
        max_factors: int,
        rng: np.random.Generator,
        callback: Callback | None = None,
        began: float | None = None,
        deadline: float = math.inf,
        settings: SearchSettings = DEFAULTS,
    ) -> None:
        self.source, self.prior, self.settings = source, prior, settings
        self.began = time.monotonic() if began is None else began
        self.deadline = deadline
        """When to stop, on the clock of `time.monotonic`, which processes of a machine share."""
        self.tol, self.max_iter, self.max_factors = tol, max_iter, max_factors
        self.rng, self.callback = rng, callback
        self.best_by_k: dict[int, Run] = {}
        """The best run for each K, as long as it is not far behind: its state takes memory."""
        self.curve: dict[int, Point] = {}
        """What is worth knowing of every K that was tried."""
        self.evidence_by_k: dict[int, Evidence] = {}
        small = source.p * min(source.p, source.n) <= self.settings.exact_sweep_size
        self.statistics = source.statistics() if small else None
        """What exact sweeps need, where they are quick."""
        self.wanted: int | None = None
        """A given K, kept however far behind it is."""
        self.alive_first = False
        """Is of each K the best run with all factors alive kept, if there is one?"""
        self._axes: Array | None = None
        """Axes that random numbers of a start belong to, when there are any."""
        self.followed = False
        """Has it followed a search of a surrogate of the data?"""

    @property
    def best(self) -> Run:
        """The run of highest bound."""
        return max(self.best_by_k.values(), key=lambda one: one.total)

    @property
    def chosen(self) -> Run:
        """The run to report: of highest bound, or by the evidence where it was weighed.

        Then it is the smallest K whose evidence is not below the highest by more than `parsimony`
        and `parsimony_errors` of the difference.
        """
        if not self.evidence_by_k:
            return self.best
        found = self.evidence_by_k
        top = max(found, key=lambda k: found[k].value)
        return self.best_by_k[
            min(k for k in found if self.lead(top, k) <= self.settings.parsimony_errors)
        ]

    @property
    def tied(self) -> list[int]:
        """Other K that another set of draws, or another rounding, might have chosen."""
        if not self.evidence_by_k:
            bounds = {k: point.lower_bound for k, point in self.curve.items()}
            top = max(bounds, key=lambda k: bounds[k])
            near = bounds[top] - 2 * self.tol
            return sorted(k for k, value in bounds.items() if k != top and value > near)
        found, chosen = self.evidence_by_k, self.chosen.state.n_factors
        top = max(found, key=lambda k: found[k].value)
        possible = [
            k
            for k in found
            if k != chosen
            and self.lead(top, k) <= self.settings.parsimony_errors + self.settings.tie_errors
        ]
        # More factors could have been chosen only if these few had been too far behind.
        safe = (
            max(self.lead(k, chosen) for k in found)
            < self.settings.parsimony_errors - self.settings.tie_errors
        )
        return sorted(k for k in possible if k < chosen or not safe)

    def lead(self, k: int, other: int) -> float:
        """How many errors the evidence of k is more than `parsimony` nats above another's."""
        one, two = self.evidence_by_k[k], self.evidence_by_k[other]
        error = max(float(np.hypot(one.error, two.error)), 1e-6)
        return (one.value - two.value - self.settings.parsimony) / error

    def fresh(self, rng: np.random.Generator, *, silent: bool) -> Search:
        """Another search of the same problem that remembers nothing yet."""
        return Search(
            self.source,
            self.prior,
            tol=self.tol,
            max_iter=self.max_iter,
            max_factors=self.max_factors,
            rng=rng,
            callback=None if silent else self.callback,
            began=self.began,
            deadline=self.deadline,
            settings=self.settings,
        )

    # --- one run ---

    def try_state(
        self, state: VariationalState, *, tol: float | None = None, patient: bool = False
    ) -> Run:
        """Run from a state and remember it; unless `patient`, give up what cannot catch up."""
        done = run(
            state,
            self.source,
            self.prior,
            tol=self.tol if tol is None else tol,
            max_iter=self.max_iter,
            target=self.best.total if self.best_by_k and not patient else -np.inf,
            on_iteration=self._report,
            deadline=self.deadline,
        )
        self.remember(done)
        stop_if_stopped(done)
        alive = done.state.active > 0.5
        if not np.all(alive):  # explicit factors that the labels call inactive join the others
            mean = done.state.loadings.mean[:, alive]
            return self.try_state(self.state_at(mean, noise_variance(done.state)), patient=patient)
        return done

    def remember(self, done: Run) -> None:
        """Keep a run if it is the best of its K, and its state if it is not far behind."""
        k = int(np.sum(done.state.active > 0.5))
        known = self.curve.get(k)
        iterations = done.n_iter + (known.n_iter if known else 0)
        if known is None or self._is_better(done, k, known):
            seconds = known.seconds if known else time.monotonic() - self.began
            known = Point(done.total, iterations, done.status, seconds)
            self.best_by_k[k] = done
        self.curve[k] = known._replace(n_iter=iterations)
        floor = self.best.total - self.settings.forget_beyond
        self.best_by_k = {
            k: one for k, one in self.best_by_k.items() if one.total >= floor or k == self.wanted
        }

    def _is_better(self, done: Run, k: int, known: Point) -> bool:
        """Is it better than the best run of k so far?"""
        if not self.alive_first or k not in self.best_by_k:
            return done.total > known.lower_bound
        alive, was_alive = (
            one.status is not Status.PRUNED and self.is_alive(one.state)
            for one in (done, self.best_by_k[k])
        )
        return (alive, done.total) > (was_alive, known.lower_bound)

    def is_alive(self, state: VariationalState) -> bool:
        """Has every factor of a state some signal? With one that has none, K is K − 1."""
        return weakest_signal(state) > self.settings.dead_signal

    def _report(self, number: int, bound: float, at: VariationalState) -> None:
        if self.callback is not None:
            so_far = max(bound, self.best.total) if self.best_by_k else bound
            now = time.monotonic()
            rise, left = outlook(
                self.curve, self.settings.look_back, self.max_factors, self.deadline - now
            )
            self.callback(
                Progress(
                    *(at.n_factors, number, bound, so_far, self.max_factors),
                    *(rise, now - self.began, left),
                )
            )

    def climb(self) -> tuple[float, float]:
        """Nats and seconds of a factor, up to the best K if none above it was tried; or NaN."""
        return climb(self.curve, self.settings.look_back)

    def check_time(self) -> None:
        """Stop if time is over; for work between runs."""
        if time.monotonic() >= self.deadline:
            raise OutOfTime

    def state_at(self, mean: Array, noise_variance: Array) -> VariationalState:
        """A state with these loadings and noise, otherwise like the best run so far."""
        like = self.best.state if self.best_by_k else None
        return state_at(mean, noise_variance, self.source, self.prior, self.max_factors + 1, like)

    # --- starts ---

    def spectral_state(self, k: int | None = None) -> VariationalState:
        """The leading directions of the data, k of them or as many as rise above the noise.

        Principal factor iterations: directions for the present noise, then the noise they leave.
        A direction counts when its eigenvalue is above the edge (1 + √(p/n))² of pure noise.
        """
        n, p = self.source.n, self.source.p
        variances = np.asarray(self.source.squares / self.source.counts)
        edge, limit = (1 + np.sqrt(p / n)) ** 2, min(self.max_factors, p)
        noise, mean, found = variances, np.zeros((p, 0)), -1
        for _ in range(2 if k is not None else 6):
            size = k if k is not None else max(found + self.settings.patience, 12)
            while True:
                near = mean if mean.size else None
                values, vectors = self.source.leading(size, noise, near=near)
                above = int(np.sum(values > n * edge))
                if k is not None or above < len(values) or len(values) >= limit:
                    break
                size = 2 * len(values)
            last, found = found, min(limit, above) if k is None else k
            mean = spectral_loadings(values[:found], vectors[:, :found], noise, n)
            noise = np.maximum(variances - np.sum(mean**2, axis=1), 0.05 * variances)
            if found == last:
                break
        return self.state_at(mean, noise)

    def random_state(self, k: int, rng: np.random.Generator) -> VariationalState:
        """A start of k random factors, the same for any order and signs of the columns."""
        if self._axes is None:
            self._axes = principal_axes(self.source, self.settings.most_axes)
        n_terms, like = self.max_factors + 1, self.best.state
        return draw_start(self.source, self.prior, n_terms, rng, k, like, self._axes)

    def smaller(self, state: VariationalState, less: int = 1) -> VariationalState:
        """Without its weakest factors."""
        return self.without(state, _from_weakest(state)[:less])

    def without(self, state: VariationalState, which: Indices) -> VariationalState:
        """Without these factors, whose variance goes to the noise."""
        mean = state.loadings.mean
        noise = noise_variance(state) + np.sum(mean[:, which] ** 2, axis=1)
        return self.state_at(np.delete(mean, which, axis=1), noise)

    def larger(self, state: VariationalState, extra: Array) -> VariationalState:
        """With a factor more, or several."""
        mean = np.column_stack([state.loadings.mean, extra])
        return self.state_at(mean, noise_variance(state))

    def left_over(self, state: VariationalState, size: int) -> Array:
        """The `size` leading directions that a state leaves unexplained, as loadings (p, size)."""
        noise, mean = noise_variance(state), state.loadings.mean
        k = mean.shape[1]
        values, vectors = self.source.leading(k + size, noise, near=mean)
        chosen = slice(k, k + size)
        return spectral_loadings(values[chosen], vectors[:, chosen], noise, self.source.n)

    # --- the search ---

    def walk_up(self) -> None:
        """Add factors to the best run until `patience` in a row were no better."""
        self.take_long_steps(upwards=True)
        state, misses = self.best.state, 0
        directions = np.zeros((self.source.p, 0))
        while misses < self.settings.patience and state.n_factors < self.max_factors:
            if directions.shape[1] == 0:
                directions = self.left_over(state, self.settings.patience)
            before = self.best.total
            state = self.try_state(self.larger(state, directions[:, :1])).state
            directions = directions[:, 1:]
            if self.best.total > before:
                state, misses, directions = self.best.state, 0, directions[:, :0]
            else:
                misses += self.cost_of_miss(state)

    def walk_down(self) -> None:
        """Take factors from the best run until `patience` in a row were no better."""
        self.take_long_steps(upwards=False)
        state, misses = self.best.state, 0
        while misses < self.settings.patience and state.n_factors > 0:
            before = self.best.total
            state = self.try_state(self.smaller(state)).state
            misses = 0 if self.best.total > before else misses + self.cost_of_miss(state)

    def take_long_steps(self, *, upwards: bool) -> None:
        """Several factors at a time from the best run, where it has more than `large`.

        Steps grow as long as they raise the bound, then shrink to one, so that the number of runs
        grows like the logarithm of the way. Runs end early while each step gains much.
        """
        k = self.best.state.n_factors
        step, grows, tol = (
            int(self.settings.first_long_step * k) if k > self.settings.large else 1,
            True,
            self.tol,
        )
        while step > 1:
            state, before = self.best.state, self.best.total
            room = (
                self.max_factors - state.n_factors
                if upwards
                else state.n_factors - self.settings.large
            )
            step = min(step, room)
            if step < 2:
                break
            if upwards:
                start = self.larger(state, self.left_over(state, step))
            else:
                start = self.smaller(state, step)
            self.try_state(start, tol=tol)
            gain = self.best.total - before
            if self.best.state.n_factors == state.n_factors:
                gain = 0.0  # a finite spike may take back what was added
            if gain > 0.0 and grows:
                tol = max(self.tol, self.settings.rough_part * gain)
                step = min(2 * step, max(int(self.settings.longest_step * state.n_factors), step))
            elif gain <= 0.0:
                self._converge_best(tol)
                step, grows, tol = step // 2, False, self.tol
        self._converge_best(tol)

    def _converge_best(self, tol: float) -> None:
        """Run the best one on to `tol` of the search if it ended at another."""
        if tol > self.tol:
            self.try_state(self.best.state)

    def cost_of_miss(self, state: VariationalState) -> int:
        """What a miss counts: one, and one more for every `dent_depth` that it is behind."""
        behind = self.best.total - self.curve[state.n_factors].lower_bound
        return 1 + int(min(behind / self.settings.dent_depth, self.settings.patience))

    def restart(self) -> bool:
        """Start the K that are near the best anew, from their neighbours and the spectrum."""
        before = self.best.total
        self.drop_each()
        near = [
            k
            for k, one in self.best_by_k.items()
            if one.total > before - self.settings.restart_within
        ]
        for k in sorted(near, key=lambda k: -self.best_by_k[k].total)[:3]:
            if k + 1 in self.best_by_k:
                self.try_state(self.smaller(self.best_by_k[k + 1].state))
            if k - 1 in self.best_by_k and len(near) > 1:
                below = self.best_by_k[k - 1].state
                self.try_state(self.larger(below, self.left_over(below, 1)))
            if len(near) > 1:
                self.try_state(self.spectral_state(k))
        if (
            self.best.state.n_factors <= self.settings.large
        ):  # a random start with more is never near
            self.random_neighbours()
        return self.best.total > before + self.tol

    def drop_each(self) -> None:
        """Try one factor less than the best, without each of its factors in turn.

        The walk down drops the weakest one. If another factor can take over its part, the best run
        with one less may be without a strong one.
        """
        state = self.best.state
        for which in _from_weakest(state)[1 : self.settings.most_dropped]:
            self.try_state(self.without(state, np.array([which])))

    def random_neighbours(self) -> None:
        """A few random starts at the best K and beside it, where the curve is flat.

        There another K may have a maximum that no start from a neighbour leads to. If several K
        are rivals, each has its neighbours looked at, and further down.
        """
        top, height = self.best.state.n_factors, self.best.total
        alternatives = [
            k
            for k, point in self.curve.items()
            if point.lower_bound > height - self.settings.converge_within
        ]
        beside = {k + step for k in alternatives for step in (-1, 0, 1)} - {top}
        for k in sorted(beside):
            one = self.best_by_k.get(k)
            if one is None or one.status is not Status.PRUNED:
                continue
            if one.total > height - self.settings.finish_neighbours_within:
                self.try_state(one.state, patient=True)
        doubled = 1 if len(alternatives) == 1 else 2
        reach = doubled * self.settings.random_starts_within
        flat = [
            k
            for k in sorted(beside)
            if k in self.curve and self.curve[k].lower_bound > self.best.total - reach
        ]
        if not flat or self.best.state.n_factors != top:
            return
        # The same starts every time: which maximum is found should not differ from fit to fit.
        rng = np.random.default_rng(0)
        starts = doubled * self.settings.random_starts
        for k in [top] * (starts // 2) + flat * starts:
            self.try_state(self.random_state(k, rng))
        if self.prior.spike is not None:
            # A wide spike has maxima in which an inactive factor carries signal.
            for k in sorted({top, top + 1, *flat}) * self.settings.random_starts_of_spike:
                self.try_state(self.random_state(k, rng), patient=True)

    def walk(self) -> None:
        """Walks and restarts until they find nothing better."""
        for _ in range(5):
            self.walk_up()
            self.walk_down()
            if not self.restart():
                break

    def follow(self, like: DataSource) -> None:
        """Search where it is quick, and go on here from the best of what was found there.

        The surrogate is made anew of what a fit to it says, a few times, before it is searched.
        """
        for _ in range(self.settings.surrogate_refreshes):
            first = self._beside(like)
            with self._keeping(first):
                found = first.try_state(first.spectral_state()).state
            like = self.source.surrogate(found.loadings.mean, noise_variance(found)) or like
        scout, self.followed = self._beside(like), True
        with self._keeping(scout):
            scout.try_state(scout.spectral_state())
            scout.walk()
            scout.converge_alternatives()
        top, height = scout.best.state.n_factors, scout.best.total
        near = [
            k
            for k, one in scout.best_by_k.items()
            if one.total > height - self.settings.restart_within or abs(k - top) <= 1
        ]
        for k in sorted(near, key=lambda k: -scout.best_by_k[k].total):
            self.try_state(self._at_home(scout.best_by_k[k].state))

    @contextmanager
    def _keeping(self, scout: Search) -> Iterator[None]:
        """If time ends during a search of other data, keep its best by an iteration on these."""
        try:
            yield
        except OutOfTime:
            self.try_state(self._at_home(scout.best.state))
            raise

    def _beside(self, like: DataSource) -> Search:
        """The same search of other data."""
        return Search(
            like,
            self.prior,
            tol=self.tol,
            max_iter=self.max_iter,
            max_factors=self.max_factors,
            rng=self.rng,
            began=self.began,
            deadline=self.deadline,
            settings=self.settings,
        )

    def _at_home(self, found: VariationalState) -> VariationalState:
        return self.state_at(found.loadings.mean, noise_variance(found))

    def grow(self, k: int) -> None:
        """Try k factors from k − 1, to the end; where iterations are quick first, if anywhere."""
        below = self.best_by_k[k - 1].state
        like = self.source.surrogate(below.loadings.mean, noise_variance(below))
        home = self if like is None else self._beside(like)
        start = home.larger(below, home.left_over(below, 1))
        if like is not None:
            start = self._at_home(home.try_state(start, patient=True).state)
        self.try_state(start, patient=True)

    def over_k(self, score_candidates: Callable[[Search], None] | None) -> None:
        """The whole search: spectral start, walks, restarts, scoring if any, polish."""
        self._explore()
        self.converge_alternatives()
        self._measure_rise()
        if score_candidates is not None:
            self.alive_first = True
            try:
                score_candidates(self)
            except (Stopped, KeyboardInterrupt):
                if self.best.state.n_factors not in self.evidence_by_k:
                    self.evidence_by_k.clear()  # of other K alone it decides nothing
                raise
        self.polish()

    def _explore(self) -> None:
        """Spectral start, walks and restarts; on a surrogate of the data first, if there is one."""
        start = self.spectral_state()
        like = self.source.surrogate(start.loadings.mean, noise_variance(start))
        if like is not None:
            self.follow(like)
        else:
            self.try_state(start)
            self.walk()

    def _measure_rise(self) -> None:
        """At a limit above `large`, run fewer factors to their end if none were, for `climb`."""
        k = self.best.state.n_factors
        if self.settings.large < k == self.max_factors and math.isnan(self.climb()[0]):
            fewer = self.smaller(self.best.state, max(2, math.ceil(self.settings.look_back * k)))
            self.try_state(fewer, patient=True)

    def converge_alternatives(self) -> None:
        """Run on whatever comes close to the best: on a plateau `tol` may have stopped it early."""
        close = [
            one
            for one in self.best_by_k.values()
            if one.total > self.best.total - self.settings.converge_within
        ]
        if len(close) > 1:
            for rival in close:
                self.try_state(rival.state, tol=0.1 * self.tol, patient=True)

    def at_k(self, k: int) -> None:
        """K given: a spectral start, the path of the search where others may be better; polish."""
        self.wanted = k
        try:
            first = self.try_state(self.spectral_state(k))
            slow = first.n_iter > self.settings.slow_iterations
            if k and (slow or not self.is_alive(first.state) or self._neighbours_are_better(k)):
                self._random_starts_at(k)
                self._approach(k)
        finally:  # also when it is stopped: other K were steps on the way
            # A finite spike may call a given factor inactive: then the most that stayed count.
            kept = k if k in self.best_by_k else max(self.best_by_k, default=None)
            self.curve = {} if kept is None else {kept: self.curve[kept]}
            self.best_by_k = {} if kept is None else {kept: self.best_by_k[kept]}
        self.polish()

    def _neighbours_are_better(self, k: int) -> bool:
        """Does a start from k + 1 or k − 1 factors of the spectrum lead to a higher bound?"""
        if k not in self.best_by_k:
            return False  # labels of a finite spike would not have so many
        before = self.best_by_k[k].total
        fewer = self.try_state(self.spectral_state(k - 1), patient=True).state
        self.try_state(self.larger(fewer, self.left_over(fewer, 1)), patient=True)
        if k < min(self.max_factors, self.source.p):
            more = self.try_state(self.spectral_state(k + 1), patient=True).state
            self.try_state(self.smaller(more), patient=True)
        return self.best_by_k[k].total > before + 2 * self.tol

    def _random_starts_at(self, k: int) -> None:
        """Reach k one factor at a time from where the spectrum suggests, and by random starts."""
        state = self.try_state(self.spectral_state(), patient=True).state
        while state.n_factors != k:
            more = state.n_factors > k
            start = self.smaller(state) if more else self.larger(state, self.left_over(state, 1))
            after = self.try_state(start, patient=True).state
            if not more and after.n_factors <= state.n_factors:
                break  # the labels of a finite spike would not have one more
            state = after
        rng = np.random.default_rng(0)
        for _ in range(self.settings.random_starts):
            self.try_state(self.random_state(k, rng), patient=True)

    def _approach(self, k: int) -> None:
        """Take k from a search over K of its own, where all starts so far leave empty factors.

        Where there are many maxima, a start with all factors at once seldom finds the best, and may
        end with factors without signal. If the search has k with all alive, these come first.
        """
        if k in self.best_by_k and self.is_alive(self.best_by_k[k].state):
            return
        path = self.fresh(self.rng, silent=False)
        path.wanted = k
        try:
            path._explore()
            path.alive_first = True
            path._walk_to(k)
        finally:
            if k in path.best_by_k:
                self.alive_first = path.is_alive(path.best_by_k[k].state)
                self.remember(path.best_by_k[k])

    def _walk_to(self, k: int) -> None:
        """Try k from the nearest K below and above, one factor at a time."""
        fewer = max((one for one in self.best_by_k if one < k), default=k)
        more = min((one for one in self.best_by_k if one > k), default=k)
        for grown in range(fewer + 1, k + 1):
            if grown - 1 not in self.best_by_k:
                break  # the labels of a finite spike would not have one more
            self.grow(grown)
        state = self.best_by_k[more].state if more in self.best_by_k else self.best.state
        while state.n_factors > k:
            state = self.try_state(self.smaller(state), patient=True).state
        if k in self.best_by_k and self.best_by_k[k].status is Status.PRUNED:
            self.try_state(self.best_by_k[k].state, patient=True)

    def random_restarts(
        self, *, n_init: int, n_factors: int | None = None, n_jobs: int | None = None
    ) -> None:
        """As published: `n_init` runs from random starts, each on a random stream of its own.

        The result does not depend on the number of jobs.
        """
        alone = n_jobs in (None, 1)
        work = (
            delayed(_one_restart)(self.fresh(stream, silent=not alone), n_factors)
            for stream in self.rng.spawn(n_init)
        )
        for runs in Parallel(n_jobs=n_jobs, return_as="generator")(work):
            for done in runs:
                self.remember(done)
                stop_if_stopped(done)

    def polish(self) -> None:
        """Run the winner to a tighter tolerance; where iterations are quick first, if anywhere."""
        tol, state = self.settings.polish * self.tol, self.chosen.state
        like = self.source.surrogate(state.loadings.mean, noise_variance(state))
        if like is not None:
            tol *= 10  # what is left to gain is little, and takes long
            beside = self._beside(like)
            near = beside.try_state(beside._at_home(state), tol=tol, patient=True).state
            state = self._at_home(near) if near.n_factors == state.n_factors else state
        self.try_state(state, tol=tol, patient=True)


def _one_restart(search: Search, n_factors: int | None) -> list[Run]:
    n_terms = search.max_factors + 1
    start = draw_start(search.source, search.prior, n_terms, search.rng, n_factors)
    # What a run that was stopped has left is remembered too: the caller sees it by its status.
    with suppress(Stopped):
        search.try_state(start, patient=True)
    return list(search.best_by_k.values())


def _from_weakest(state: VariationalState) -> Indices:
    """Factors of a state, the smallest squared norm first."""
    return np.argsort(np.sum(state.loadings.mean**2, axis=0), kind="stable")


def weakest_signal(state: VariationalState) -> float:
    """Σ_j μ_jh² E[1/σ²_j] of the weakest factor, by which its scores differ from noise."""
    signal = state.noise.precision @ state.loadings.mean**2
    return float(np.min(signal, initial=np.inf))


def noise_variance(state: VariationalState) -> Array:
    """1/E[1/σ²_j] of a state."""
    return np.asarray(1.0 / state.noise.precision)
