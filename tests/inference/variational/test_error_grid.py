"""The choice of K and ε from evidences that are known."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from cuspfa import CuspFactorAnalysis, CuspPrior, Variational, datasets
from cuspfa.data.in_memory import GramMatrix
from cuspfa.data.protocols import CompleteSource
from cuspfa.inference.variational import error_grid
from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.inference.variational.model_selection import score_k
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_over_k import search_over_k
from cuspfa.inference.variational.search_settings import SearchSettings

X = datasets.simulate(120, 8, 2, random_state=3).X
BEST = 0.05


def choice(monkeypatch, evidence):
    """K, ε and the ridge of a fit whose evidence (K, ε) is replaced."""

    def score(search, k, *, bridge):
        size = 0.0 if search.tolerated is None else search.tolerated.error.size
        prior = -0.5 * (size / error_grid.PRIOR_SD) ** 2
        value, error = evidence(k, size)
        search.candidates.evidence_by_k[k] = Evidence(value - prior, error)
        return search.candidates.evidence_by_k[k]

    monkeypatch.setattr(error_grid, "score_k", score)
    monkeypatch.setattr(error_grid, "_close", lambda _: [1, 2])
    model = CuspFactorAnalysis(model_error="auto").fit(X)
    return model.n_factors_, model.model_error_, model.posterior_.fit_info.model_errors


def peaked(k, size):
    return -100.0 - 50.0 * (k != 2) - 1e4 * (size - BEST) ** 2, 0.1


def integral(evidence, k):
    """Log ∫ exp(evidence) dε, by a fine sum over straight lines between the errors of the grid."""
    grid = np.array([0.0, *error_grid.GRID])
    heights = np.exp([evidence(k, size)[0] + 100.0 for size in grid])
    fine = np.linspace(0.0, grid[-1], 200_001)
    return np.log(np.mean(np.interp(fine, grid, heights)) * grid[-1]) - 100.0


def test_the_best_pair_and_its_ridge(monkeypatch):
    k, size, ridge = choice(monkeypatch, peaked)
    assert (k, size) == (2, BEST)
    within = {one for one in error_grid.GRID if 1e4 * (one - BEST) ** 2 <= error_grid.RIDGE}
    assert {(one.n_factors, one.model_error) for one in ridge} == {(2, one) for one in within}
    assert [one.chosen for one in ridge].count(True) == 1
    values = [one.log_posterior for one in ridge]
    assert values == sorted(values, reverse=True)


def test_each_error_has_its_prior(monkeypatch):
    """The positive half of a normal distribution; apart from a constant."""

    def score(search, k, *, bridge):
        search.candidates.evidence_by_k[k] = Evidence(-10.0 * k, 0.1)
        return search.candidates.evidence_by_k[k]

    monkeypatch.setattr(error_grid, "score_k", score)
    monkeypatch.setattr(error_grid, "can_bridge", lambda _: True)
    by_size: Any = {
        size: SimpleNamespace(
            candidates=SimpleNamespace(evidence_by_k={}), settings=SearchSettings()
        )
        for size in (0.0, 0.02, 0.1)
    }
    found = error_grid._scored(by_size, [1, 2])
    prior = norm(0.0, error_grid.PRIOR_SD)
    for (k, size), (value, error) in found.items():
        expected = -10.0 * k + prior.logpdf(size) - prior.logpdf(0.0)
        assert value == pytest.approx(expected)
        assert error == 0.1
    assert set(found) == {(k, size) for k in (1, 2) for size in by_size}


def test_evidence_is_integrated_over_the_error():
    grid = (0.0, *error_grid.GRID)
    pairs = {(k, size): peaked(k, size) for k in (1, 2) for size in grid}
    found = error_grid._integrated(pairs)
    for k in (1, 2):
        assert found[k].value == pytest.approx(integral(peaked, k), abs=1e-3)
        assert sum(found[k].shares.values()) == pytest.approx(1.0)
        weights = np.array(list(found[k].shares.values()))
        assert found[k].error == pytest.approx(0.1 * np.sqrt(np.sum(weights**2)))


@pytest.mark.parametrize(("behind", "expected"), [(1.5, 1), (4.0, 2)])
def test_fewer_factors_that_are_hardly_behind(monkeypatch, behind, expected):
    def evidence(k, size):
        return -100.0 - behind * (k != 2) - 1e4 * (size - BEST) ** 2, 0.1

    assert choice(monkeypatch, evidence)[:2] == (expected, BEST)


def test_a_single_pair_does_not_decide(monkeypatch):
    """The best pair has one factor, but what is left of the errors speaks for two."""

    def evidence(k, size):
        if k == 1:
            return (-98.0 if size == 0.1 else -150.0), 0.1
        return -98.1, 0.1

    assert integral(evidence, 2) - integral(evidence, 1) > 2.2
    assert choice(monkeypatch, evidence)[0] == 2


@pytest.mark.parametrize("value", [-115.0, -90.0])
def test_an_evidence_with_a_large_error_decides_nothing(monkeypatch, value):
    """Neither is it excused by its error where it is behind, nor is it the best by chance."""
    k, size, ridge = choice(
        monkeypatch, lambda k, size: (value, 10.0) if (k, size) == (1, 0.2) else peaked(k, size)
    )
    assert (k, size) == (2, BEST)
    assert all(one.error <= 2.0 for one in ridge)
    # With a small error it would be the best.
    sure = choice(
        monkeypatch, lambda k, size: (-90.0, 0.1) if (k, size) == (1, 0.2) else peaked(k, size)
    )
    assert sure[:2] == (1, 0.2)


def test_evidences_that_decide_are_computed_with_more_draws(monkeypatch):
    calls = []

    def evidence(k, size):
        calls.append((k, size))
        return -100.0 - 2.5 * (k != 2) - 1e4 * (size - BEST) ** 2, 0.5

    choice(monkeypatch, evidence)
    again = {pair for pair in calls if calls.count(pair) > 1}
    assert {k for k, _ in again} == {1, 2}
    assert (2, BEST) in again
    assert (2, 0.2) not in again


def test_where_all_errors_are_large_there_is_a_choice(monkeypatch):
    k, size, _ = choice(monkeypatch, lambda k, size: (peaked(k, size)[0], 5.0))
    assert (k, size) == (2, BEST)


def test_an_empty_factor_without_a_neighbour_below_is_not_scored(monkeypatch):
    """Runs far below the best are not kept, so that K may have no K − 1 to grow from."""
    source = CompleteSource(GramMatrix(np.cov(X.T) * 119, 119.0))
    search = Search(source, CuspPrior(), tol=0.05, max_iter=200, max_factors=4)
    search_over_k(search, None)
    assert score_k(search, 2, bridge=True) is not None
    search.candidates.evidence_by_k.clear()
    del search.candidates.best_by_k[1]
    monkeypatch.setattr(type(search.candidates), "has_nonempty", lambda *_: False)
    assert score_k(search, 2, bridge=True) is None


def test_the_grid_covers_small_and_large_errors():
    grid = np.array(error_grid.GRID)
    assert np.all(np.diff(grid) > 0)
    assert np.all(grid[1:] / grid[:-1] < 1.55)
    assert grid[0] <= 0.005
    assert -0.5 * (grid[-1] / error_grid.PRIOR_SD) ** 2 < -2 * error_grid.RIDGE


# --- fits that go on from others ---


def with_gaps():
    rows = datasets.simulate(150, 9, 3, random_state=4).X.copy()
    rows[np.random.default_rng(0).random(rows.shape) < 0.05] = np.nan
    return rows


def fits(rows, sizes, path_of):
    """Fits with these errors, one after the other."""
    found = {}
    for size in sizes:
        model = CuspFactorAnalysis(model_error=size)
        found[size] = model._fit(rows, path=path_of()).posterior_
    return found


def differs(one, two):
    same = np.array_equal(one.loadings, two.loadings)
    return not same or one.fit_info.search != two.fit_info.search


@pytest.mark.filterwarnings("ignore:With missing values model_error")
@pytest.mark.parametrize("rows", [X, with_gaps()], ids=["complete", "with gaps"])
@pytest.mark.parametrize(
    "order", [(0.0, 0.025, 0.05, 0.1, 0.06), (0.06, 0.1, 0.0, 0.025, 0.05, 0.025)]
)
def test_a_fit_that_goes_on_from_others_is_the_same_as_one_by_itself(rows, order):
    path = error_grid.ErrorPath()
    going_on, alone = fits(rows, order, lambda: path), fits(rows, order, lambda: None)
    assert not any(differs(going_on[size], alone[size]) for size in order)
    assert differs(going_on[0.0], going_on[0.05])


def test_searches_are_not_made_twice(monkeypatch):
    made = []
    before = error_grid.searches

    def counted(starts, make, sizes, score):
        made.extend(sizes)
        return before(starts, make, sizes, score)

    monkeypatch.setattr(error_grid, "searches", counted)
    path = error_grid.ErrorPath()
    fits(X, [0.035, 0.015, 0.07, 0.05], lambda: path)
    assert made == [0.015, 0.025, 0.035, 0.05, 0.07]
    made.clear()
    fits(X, [0.035, 0.015], lambda: None)
    assert made == [0.015, 0.025, 0.035, 0.015]


def test_a_given_number_and_a_limit_of_time_begin_anew():
    path = error_grid.ErrorPath()
    model = CuspFactorAnalysis(n_factors=1, model_error=0.05)
    model._fit(X, path=path)
    assert not path.has_begun
    model = CuspFactorAnalysis(method=Variational(max_time=60.0), model_error=0.05)
    model._fit(X, path=path)
    assert not path.has_begun
