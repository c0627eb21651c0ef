"""Where walks over K go, on curves of the bound that are given: no data and no fit."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuspfa.inference.variational import search_given_k, search_over_k, walk
from cuspfa.inference.variational.candidates import Candidates
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.search_settings import SearchSettings


def state_of(k, origin):
    return SimpleNamespace(n_factors=k, active=np.ones(k), origin=f"{origin} {k}")


class Curve:
    """A search whose runs have the bound of a function of where they began."""

    def __init__(self, bound, *, max_factors=400, spike=None, stays=(), **settings) -> None:
        self.settings = SearchSettings(**settings)
        self.candidates = Candidates(0.05, 0.0, self.settings)
        self.tol, self.max_factors, self.bound, self.stays = 0.05, max_factors, bound, stays
        self.tried: list[str] = []
        self.prior = SimpleNamespace(spike=spike)
        self.source = SimpleNamespace(p=max_factors + 9)
        self.surrogate_searched = False

    def try_state(self, state, **_) -> Any:
        self.tried.append(state.origin)
        if state.n_factors in self.stays:  # the labels of a finite spike do not have so many
            state = state_of(state.n_factors - 1, state.origin)
        run: Any = SimpleNamespace(
            state=state, total=self.bound(state), status=Status.CONVERGED, n_iter=1
        )
        self.candidates.add(run)
        return run

    def larger(self, state, number=1):
        return state_of(state.n_factors + number, "larger")

    def smaller(self, state, number=1):
        return state_of(state.n_factors - number, "smaller")

    def spectral_state(self, k=None):
        k = 2 if k is None else k
        return state_of(k, "spectral")

    def random_state(self, k, rng):
        return state_of(k, "random")

    def restated(self, state):
        return state_of(state.n_factors, "again")

    def surrogate_at(self, state):
        return None


@pytest.mark.parametrize("upwards", [True, False])
@pytest.mark.parametrize("way", [5, 11, 23, 64, 150])
def test_long_steps_end_where_no_step_of_two_is_better_after_few_runs(way, upwards):
    """Single steps, and those in the other direction, are for the walk that follows."""
    top = 60 + way if upwards else 250 - way

    def bound(state):
        return -abs(state.n_factors - top)

    search: Any = Curve(bound, large=20)
    search.try_state(state_of(60 if upwards else 250, "first"))
    walk.take_long_steps(search, upwards=upwards)
    best = search.candidates.best.state
    further = search.larger(best, 2) if upwards else search.smaller(best, 2)
    assert bound(further) <= bound(best)
    assert abs(best.n_factors - top) < way / 2 + 1
    assert len(search.tried) < 12 + 4 * np.log2(way)


def test_few_factors_and_limits_have_no_long_steps():
    search: Any = Curve(lambda state: state.n_factors, large=20, max_factors=63)
    search.try_state(state_of(20, "first"))
    walk.take_long_steps(search, upwards=True)
    assert len(search.tried) == 1
    search.try_state(state_of(60, "first"))
    walk.take_long_steps(search, upwards=True)
    assert max(search.candidates.curve) <= 63
    assert search.candidates.best.state.n_factors in (62, 63)


@pytest.mark.parametrize(
    ("curve", "random"),
    [
        ({3: -100.0, 4: -50.0, 5: -55.0}, [4] * 2 + [5] * 4),
        ({3: -55.0, 4: -50.0, 5: -55.0}, [4] * 2 + [3, 5] * 4),
        # Where two are close, their neighbours too, further below, and twice as often.
        ({4: -50.0, 5: -51.0, 6: -65.0, 7: -51.0}, [4] * 4 + [5, 6, 7] * 8),
        ({3: -75.0, 4: -50.0, 5: -51.0, 6: -65.0}, [4] * 4 + [5, 6] * 8),
        ({3: -75.0, 4: -50.0, 5: -75.0}, []),
    ],
)
def test_random_starts_where_the_curve_is_flat(curve, random):
    search: Any = Curve(
        lambda state: curve[state.n_factors] - state.origin.startswith("random"),
        converge_within=2.0,
        random_starts_within=10.0,
        random_starts=4,
    )
    for k in curve:
        search.try_state(state_of(k, "first"))
    walk._try_random_neighbours(search)
    assert search.tried[len(curve) :] == [f"random {k}" for k in random]


@pytest.mark.parametrize(
    ("best", "better"), [("larger 3", True), ("smaller 3", True), ("spectral 3", False)]
)
def test_neighbours_of_a_given_number_are_those_beside_it(best, better):
    search: Any = Curve(lambda state: 0.0 if state.origin == best else -1.0)
    search.try_state(search.spectral_state(3))
    assert search_given_k._neighbours_are_better(search, 3) is better
    assert search.tried[1:] == ["spectral 2", "larger 3", "spectral 4", "smaller 3"]


def test_neighbours_above_the_limit_are_not_tried_and_without_a_run_none_is():
    search: Any = Curve(lambda state: 0.0, max_factors=3)
    search.try_state(search.spectral_state(3))
    assert not search_given_k._neighbours_are_better(search, 3)
    assert search.tried[1:] == ["spectral 2", "larger 3"]
    none: Any = Curve(lambda state: 0.0)
    assert not search_given_k._neighbours_are_better(none, 3)
    assert not none.tried


@pytest.mark.parametrize(
    ("k", "stays", "tried"),
    [
        (4, (), ["spectral 2", "larger 3", "larger 4"]),
        (1, (), ["spectral 2", "smaller 1"]),
        (2, (), ["spectral 2"]),
        (5, (4,), ["spectral 2", "larger 3", "larger 4"]),  # four become three again
    ],
)
def test_a_given_number_is_reached_one_factor_at_a_time(k, stays, tried):
    search: Any = Curve(lambda state: 0.0, stays=stays, random_starts=3)
    search_given_k._try_other_starts(search, k)
    assert search.tried == [*tried, *[f"random {k}"] * 3]


def test_what_a_surrogate_finds_is_tried_on_the_data(monkeypatch):
    """Numbers close to the best, and those beside it however far behind they are."""
    curve = {1: -90.0, 2: -80.0, 3: -60.0, 4: -10.0, 5: -55.0, 6: -12.0, 7: -70.0}
    search: Any = Curve(lambda state: 0.0, surrogate_refreshes=1, restart_within=20.0)
    scouts = []

    def anew(surrogate):
        scouts.append(Curve(lambda state: curve[state.n_factors]))
        return scouts[-1]

    def walked(scout):
        for k in curve:
            scout.try_state(state_of(k, "walk"))

    search.anew = anew
    monkeypatch.setattr(search_over_k, "walk", walked)
    monkeypatch.setattr(search_over_k, "_converge_alternatives", lambda scout: None)
    search_over_k._explore_surrogate(search, object())
    assert search.surrogate_searched
    assert scouts[0].tried == ["spectral 2"]
    assert search.tried == ["again 4", "again 6", "again 5", "again 3"]
