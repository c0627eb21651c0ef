"""Which runs are kept and which is best: runs made by hand, without a fit."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuspfa.inference.variational import error_curve, model_selection, settings
from cuspfa.inference.variational.candidates import Candidates, Point, weights_of_k
from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_settings import SearchSettings
from cuspfa.posterior.error_curve import CurvePoint


def run(k, total, *, weakest=5.0, status=Status.CONVERGED, n_iter=3) -> Any:
    """A run with k factors, the last of which has this signal."""
    signal = np.append(np.full(k - 1, 5.0), weakest) if k else np.zeros(0)
    return SimpleNamespace(
        state=SimpleNamespace(
            n_factors=k,
            active=np.ones(k),
            noise=SimpleNamespace(precision=np.array([0.5, 0.5])),
            loadings=SimpleNamespace(mean=np.sqrt(np.tile(signal, (2, 1)))),
        ),
        total=total,
        status=status,
        n_iter=n_iter,
    )


def candidates(*runs, prefer_nonempty=False):
    made = Candidates(0.05, 0.0, SearchSettings(forget_beyond=100.0, empty_signal=0.1))
    made.prefer_nonempty = prefer_nonempty
    for one in runs:
        made.add(one)
    return made


def test_the_higher_bound_of_a_number_is_kept():
    made = candidates(run(2, -50.0), run(2, -40.0, n_iter=5), run(2, -45.0, n_iter=7))
    assert made.best_by_k[2].total == made.curve[2].lower_bound == made.best.total == -40.0
    assert made.curve[2].n_iter == 3 + 5 + 7  # of all its runs


def test_a_run_with_an_empty_factor_is_not_preferred():
    full, empty = run(2, -50.0), run(2, -40.0, weakest=0.01)
    assert candidates(full, empty).best is empty
    for order in ((full, empty), (empty, full)):
        made = candidates(*order, prefer_nonempty=True)
        assert made.best is full
        assert made.curve[2].lower_bound == -50.0
        assert made.has_nonempty(2)
    assert not candidates(empty).has_nonempty(2)
    assert not candidates(full).has_nonempty(3)
    # One that was given up does not count as one without empty factors.
    given_up = run(2, -30.0, status=Status.PRUNED)
    assert candidates(full, given_up, prefer_nonempty=True).best is full
    # Of two without empty factors, and of two with one, the higher bound.
    assert candidates(full, run(2, -45.0), prefer_nonempty=True).best.total == -45.0
    assert candidates(empty, run(2, -39.0, weakest=0.0), prefer_nonempty=True).best.total == -39.0


def test_runs_far_behind_the_best_are_forgotten_but_not_their_bounds():
    made = candidates(run(1, -500.0), run(2, -450.0))
    assert set(made.best_by_k) == {1, 2}
    made.add(run(3, -401.0))
    assert set(made.best_by_k) == {1, 2, 3}
    made.add(run(4, -350.0))
    assert set(made.best_by_k) == {2, 3, 4}
    assert set(made.curve) == {1, 2, 3, 4}
    # A run of a forgotten number has to be better than the one that was forgotten.
    made.prefer_nonempty = True
    made.add(run(1, -510.0))
    assert made.curve[1].lower_bound == -500.0
    given = candidates()
    given.given_k = 1
    for one in (run(1, -900.0), run(2, -100.0)):
        given.add(one)
    assert set(given.best_by_k) == {1, 2}
    given.keep_only(1)
    assert given.best.total == -900.0
    assert set(given.curve) == {1}
    given.keep_only(None)
    assert not given.curve
    assert not given.best_by_k


def test_bounds_closer_than_rounding_are_tied():
    made = candidates(run(1, -10.2), run(2, -10.0), run(3, -10.09))
    assert made.tied == [3]  # within twice the tolerance of 0.05


@pytest.mark.parametrize(
    ("values", "left", "rise"),
    [
        ({2: -50.0, 3: -10.0}, True, 40.0),
        ({2: -50.0, 3: -10.0}, False, None),  # noise alone is left
        ({2: -50.0, 3: -10.0, 4: -30.0}, True, None),  # one more was scored
        ({1: -50.0, 3: -10.0}, True, None),  # one less was not
        ({2: -12.15, 3: -10.0}, True, None),  # two nats and two errors
        ({2: -12.35, 3: -10.0}, True, 2.35),
        ({}, True, None),
    ],
)
def test_when_the_evidence_still_rose(values, left, rise, monkeypatch):
    monkeypatch.setattr(model_selection, "signal_left", lambda search, state, part: left)
    made = candidates(*(run(k, value) for k, value in values.items()))
    made.evidence_by_k = {k: Evidence(value, 0.1) for k, value in values.items()}
    search: Any = SimpleNamespace(candidates=made, settings=SearchSettings())
    assert model_selection.evidence_rising(search) == pytest.approx(rise)


def test_the_rise_is_not_measured_over_a_single_factor():
    good = Status.CONVERGED
    made = candidates()
    made.curve = {
        1: Point(-90.0, 1, good, 1.0),
        4: Point(-60.0, 1, good, 3.0),
        6: Point(-40.0, 1, good, 7.0),
    }
    assert made.rise_per_factor() == (10.0, 2.0)  # from 4 to 6: a third is more than a tenth
    made.curve[5] = Point(-45.0, 1, good, 6.0)
    assert made.rise_per_factor() == (10.0, 2.0)
    del made.curve[4], made.curve[1]
    assert all(map(math.isnan, made.rise_per_factor()))


def test_weights_are_averaged_over_the_errors_of_the_scores():
    assert weights_of_k([-3.0, -2.0], [0.0, 0.0], 10) == pytest.approx(
        [1 / (1 + math.e), math.e / (1 + math.e)]
    )
    # With a wide error either is the best about as often, and then nearly certain.
    assert weights_of_k([-3.0, -2.0], [300.0, 300.0], 20_000) == pytest.approx([0.5, 0.5], abs=0.02)
    one, other = weights_of_k([0.0, 1.0], [0.0, 2.0], 100_000)
    z = np.random.default_rng(3).standard_normal(400_000)
    assert other == pytest.approx(np.mean(1 / (1 + np.exp(-1.0 - 2.0 * z))), abs=0.005)
    assert one + other == pytest.approx(1.0)


@pytest.mark.parametrize(("error", "positive"), [("auto", False), (0.0, False), (0.05, True)])
def test_which_errors_are_given(error, positive):
    assert settings._positive(error) is positive


@pytest.mark.parametrize(
    ("work", "draws", "statistics", "pays"),
    [(2.0, 5, object(), True), (2.1, 5, object(), False), (2.0, 5, None, False)],
)
def test_a_bridge_on_a_surrogate_needs_one_and_quick_likelihoods(work, draws, statistics, pays):
    search: Any = SimpleNamespace(
        settings=SearchSettings(ratio_draws=draws, draw_cost=10.0),
        candidates=candidates(run(2, -10.0)),
        source=SimpleNamespace(likelihood_work=lambda k: work if k == 2 else math.inf),
        scored=lambda k: SimpleNamespace(statistics=statistics),
    )
    assert model_selection._surrogate_pays(search) is pays


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, (0.05, 2, (3,), -40.0, 0.2)),
        ({"number_given": True}, None),
        ({"method": "gibbs"}, None),
        ({"converged": False}, None),
        ({"n_active": 4}, None),  # which is not in the table
        ({"fit_info": None}, None),
    ],
)
def test_a_fit_that_chose_its_number_is_a_point_of_the_curve(changes, found):
    entries = [
        SimpleNamespace(n_factors=2, tied=False, evidence=-40.0, evidence_error=0.2),
        SimpleNamespace(n_factors=3, tied=True, evidence=-41.0, evidence_error=0.2),
    ]
    given = {"method": "variational", "converged": True, "search": entries}
    own = {key: value for key, value in changes.items() if key in given}
    posterior: Any = SimpleNamespace(
        fit_info=SimpleNamespace(**{**given, **own}),
        n_active=2,
        number_given=False,
        model_error=0.05,
        column_counts=np.array([9.0, 9.0]),
        n_rows=9,
    )
    vars(posterior).update({key: value for key, value in changes.items() if key not in given})
    point = error_curve._own_point(posterior)
    assert point == (None if found is None else CurvePoint(*found))


def test_progress_names_the_best_bound_so_far():
    heard: list[Any] = []
    search: Any = SimpleNamespace(
        callback=heard.append,
        candidates=candidates(run(2, -30.0), run(3, -20.0)),
        max_factors=9,
        deadline=math.inf,
        began=0.0,
    )
    for bound, best in ((-25.0, -20.0), (-15.0, -15.0)):
        Search._report(search, 4, bound, search.candidates.best.state)
        assert (heard[-1].lower_bound, heard[-1].best_lower_bound) == (bound, best)
        assert (heard[-1].iteration, heard[-1].n_factors) == (4, 3)
    search.candidates = candidates()
    Search._report(search, 1, -50.0, run(1, -50.0).state)
    assert heard[-1].best_lower_bound == -50.0
