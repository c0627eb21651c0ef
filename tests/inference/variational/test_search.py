"""The search over K: one number of factors, however it is arrived at."""

import math
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

import bridge
import cuspfa
from cuspfa import CuspFactorAnalysis, CuspPrior, EmpiricalBayesSlab, Variational, datasets
from cuspfa.data.in_memory import RotatedRows
from cuspfa.errors import CuspWarning
from cuspfa.inference.variational import settings as settings_module
from cuspfa.inference.variational import walk as walk_module
from cuspfa.inference.variational.init import principal_directions
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_settings import SearchSettings
from cuspfa.inference.variational.walk import restart
from support import complete_rows, random_walks

# --- a given K ---


def bfi_items():
    rows = np.asarray(datasets.load_bfi(subset="items").data, dtype=float)
    return complete_rows(rows)


@pytest.mark.parametrize(
    "rows", [load_breast_cancer().data, bfi_items()], ids=["breast cancer", "bfi"]
)
def test_the_number_that_was_found_can_be_given(rows):
    """No factor is empty, and the fit is as good as the one that found the number."""
    found = CuspFactorAnalysis().fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none is without loadings
        given = CuspFactorAnalysis(n_factors=found.n_factors_).fit(rows)
    assert given.n_factors_ == found.n_factors_
    assert given.lower_bound_ > found.lower_bound_ - 0.1
    assert given.score(rows) == pytest.approx(found.score(rows), abs=0.01)


def test_a_number_that_the_data_do_not_support_is_told():
    with pytest.warns(CuspWarning, match="have no loadings"):
        CuspFactorAnalysis(n_factors=8).fit(load_wine().data)


# --- runs that cannot win ---


def test_a_run_is_pruned_when_it_cannot_come_within_reach():
    """With a factor too many the bound is tens of nats lower: pruned, unless that is allowed."""
    sim = datasets.simulate(400, 60, 4, random_state=3)
    source = bridge.source_of((sim.X - sim.X.mean(axis=0)) / sim.X.std(axis=0))
    search = Search(source, CuspPrior(), tol=0.05, max_iter=1000, max_factors=20)
    best = search.try_state(search.spectral_state(4), patient=True)
    start = search.larger(best.state)
    whole = search.try_state(start, patient=True)
    assert whole.status is Status.CONVERGED
    lower = best.total - whole.total
    assert lower > 20
    assert search.try_state(start).status is Status.PRUNED
    assert search.try_state(start, behind=0.5 * lower).status is Status.PRUNED
    assert search.try_state(start, behind=lower + 1).status is Status.CONVERGED


@pytest.mark.parametrize(("times", "runs"), [(10.0, 3), (math.inf, 5)])
def test_tries_without_a_factor_end_where_they_are_hopeless(times, runs):
    """Of six strong factors in wide data none can be spared; three runs show it."""
    sim = datasets.simulate(300, 1500, 6, random_state=1)
    source = bridge.source_of((sim.X - sim.X.mean(axis=0)) / sim.X.std(axis=0))
    settings = SearchSettings(hopeless_times=times)
    search = Search(source, CuspPrior(), tol=0.05, max_iter=1000, max_factors=20, settings=settings)
    search.try_state(search.spectral_state(6), patient=True)
    before = search.candidates.best.total
    restart(search)
    tried = search.candidates.curve[5].n_iter
    assert tried == 2 * runs  # each is pruned after its second iteration
    assert search.candidates.best.total == before


def test_restarts_at_the_maximum_that_is_known_do_not_lead_to_another_walk(monkeypatch):
    """On wine a best run that had not converged let every restart seem better."""
    walks = []
    monkeypatch.setattr(walk_module, "restart", lambda search: walks.append(restart(search)))
    CuspFactorAnalysis().fit(load_wine().data)
    assert walks == [False]


# --- where scoring ends ---


def evidences(model):
    found = {one.n_factors: one.evidence for one in model.search_}
    return {k: value for k, value in found.items() if not math.isnan(value)}


def test_scoring_goes_on_while_the_evidence_rises():
    """A K whose evidence was the best so far was once compared with itself, which ended it."""
    model = CuspFactorAnalysis(method=Variational(criterion="collapsed"))
    scored = evidences(model.fit(random_walks(150, 30)))
    top = max(scored, key=scored.get)
    assert max(scored) >= top + 2
    assert scored[max(scored)] < scored[top] - 2


def test_evidence_that_rises_at_a_limit_is_told(monkeypatch):
    model = CuspFactorAnalysis(method=Variational(criterion="collapsed"))
    rows = random_walks(150, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free = evidences(model.fit(rows))
    limit = min(free) + 1
    monkeypatch.setattr(settings_module, "DEFAULT_SEARCH", SearchSettings(heaviest=limit))
    with pytest.warns(CuspWarning, match="evidence still rose by about .* nats"):
        model.fit(rows)
    assert max(evidences(model)) == model.n_factors_ == limit


def test_evidence_that_rises_to_the_last_factor_there_is_is_not_told():
    """Three factors explain all correlation; that the third adds much says nothing of a fourth."""
    rows = datasets.simulate(200, 12, 3, random_state=1).X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CuspFactorAnalysis().fit(rows).n_factors_ == 3


# --- which maximum is found ---


def shuffled(rows, seed):
    """The same data with their columns in another order, some of them mirrored."""
    rng, p = np.random.default_rng(seed), rows.shape[1]
    return rows[:, rng.permutation(p)] * rng.choice([-1.0, 1.0], p)


def test_order_and_signs_of_columns_do_not_matter():
    """Under a plug-in slab the bound is flat in K and has many maxima: random starts decide."""
    rng = np.random.default_rng(27)
    rows = rng.standard_normal((70, 3)) @ (0.5 * rng.standard_normal((3, 10)))
    rows = rows + rng.standard_normal((70, 10))
    model = CuspFactorAnalysis(
        prior=CuspPrior(slab=EmpiricalBayesSlab()), method=Variational(criterion="bound")
    )
    first = model.fit(rows)
    number, bound = first.n_factors_, first.lower_bound_
    for seed in (1, 2):
        again = model.fit(shuffled(rows, seed))
        assert again.n_factors_ == number
        assert again.lower_bound_ == pytest.approx(bound, abs=0.01)


def test_random_starts_do_not_depend_on_the_order_and_signs_of_columns():
    rows = datasets.simulate(60, 8, 2, random_state=0).X
    rng = np.random.default_rng(1)
    order, sign = rng.permutation(8), rng.choice([-1.0, 1.0], 8)
    axes = principal_directions(bridge.source_of(rows), 8)
    other = principal_directions(bridge.source_of(rows[:, order] * sign), 8)
    np.testing.assert_allclose(axes.T @ axes, np.eye(8), atol=1e-10)
    expected = axes[order] * sign[:, None]
    mirrored = np.sign(np.sum(expected[:, 0] * other[:, 0]))
    np.testing.assert_allclose(other, mirrored * expected, atol=1e-8)


def panel():
    """Six units over fifteen years, in units of very different size."""
    rng = np.random.default_rng(0)
    grid = np.meshgrid(np.arange(1.0, 7.0), np.arange(1.0, 16.0), indexing="ij")
    unit, year = (one.ravel() for one in grid)
    errors = rng.standard_normal((4, 90))
    output = np.exp(0.8 - 0.6 * unit + 0.05 * year + 0.1 * errors[0])
    price = 1e5 * np.exp(0.16 * year + 0.1 * errors[1])
    cost = 1e6 * output**0.9 * (price / 5e5) ** 0.4 * np.exp(0.1 * errors[2])
    load = 0.5 + 0.01 * year + 0.03 * errors[3]
    return np.column_stack([unit, year, cost, output, price, load])


def test_one_factor_less_may_be_without_a_strong_one():
    """Of two factors the weaker one goes on alone: without it the bound is 50 nats lower."""
    rows = panel()
    random = CuspFactorAnalysis.as_published("variational", random_state=0).fit(rows)
    searched = CuspFactorAnalysis.as_published("variational", search=True).fit(rows)
    assert searched.n_factors_ == random.n_factors_ == 1
    assert searched.lower_bound_ > random.lower_bound_ - 0.05


# --- columns that depend on each other ---


def test_rounding_errors_of_dependent_columns_change_nothing():
    """Whether a singular matrix has a triangular root is rounding; draws must not depend on it."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 6))
    rows = np.column_stack([rows, rows[:, :3].sum(axis=1)])
    rows -= rows.mean(axis=0)
    gram = rows.T @ rows
    root = RotatedRows(gram, None, 60.0).rows
    np.testing.assert_allclose(root.T @ root, gram, atol=1e-10)
    for size in (-1e-12, -1e-13, 1e-13, 1e-12):  # the smallest eigenvalue below zero, or above
        again = RotatedRows(gram + size * np.eye(7), None, 60.0).rows
        np.testing.assert_allclose(again, root, atol=1e-5)
    independent = RotatedRows(gram[:6, :6], None, 60.0).rows
    np.testing.assert_allclose(independent, np.triu(independent))


def test_a_wide_spike_has_starts_in_which_inactive_factors_carry_signal():
    """Without these starts the search ends at three factors and -4569.89."""
    X = cuspfa.datasets.load_bfi(subset="paper").data
    prior = cuspfa.CuspPrior(slab=cuspfa.GaussianSlab(1.0), spike=0.01)
    assert cuspfa.CuspFactorAnalysis(prior=prior).fit(X).lower_bound_ > -4561.5


def test_more_factors_than_columns_can_tell_apart_are_told():
    """Two pairs of columns have two factors, but four columns can tell one."""
    rng = np.random.default_rng(0)
    pairs, common = rng.normal(size=(400, 2)), rng.normal(size=(400, 1))
    noise = 0.5 * rng.normal(size=(400, 4))
    with pytest.warns(CuspWarning, match="no more than 1 can be told apart by 4 columns"):
        assert CuspFactorAnalysis().fit(np.repeat(pairs, 2, axis=1) + noise).n_factors_ == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CuspFactorAnalysis().fit(common + noise).n_factors_ == 1
        assert CuspFactorAnalysis(method=Variational(max_factors=3)).fit(noise).n_factors_ == 0
