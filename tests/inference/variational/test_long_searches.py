"""Searches whose bound rises for long: they take long steps, end, and say so."""

import itertools
import math
import time
import warnings
from typing import Any

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, Gibbs, Variational, datasets
from cuspfa._utils.fit_warning_text import rounded
from cuspfa.data.complete import prepare_rows
from cuspfa.errors import ConvergenceWarning, CuspWarning, InputError
from cuspfa.inference.variational import candidates as candidates_module
from cuspfa.inference.variational import compiled_run, model_selection
from cuspfa.inference.variational import run as fit_module
from cuspfa.inference.variational import search as search_module
from cuspfa.inference.variational import settings as method_module
from cuspfa.inference.variational.candidates import Candidates, Point
from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.inference.variational.progress import SearchTimeout, VariationalProgress
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_over_k import search_over_k
from cuspfa.inference.variational.search_settings import SearchSettings
from cuspfa.inference.variational.walk import walk_down
from cuspfa.model.prior import CuspPrior
from support import random_walks, with_missing

X = datasets.simulate(150, 8, 2, random_state=3).X
OUT_OF_TIME = "out of time: stopped at max_time, with the best of what was tried by then"


def set_search(monkeypatch, **values):
    """Change tuning values of the searches that a fit makes."""
    monkeypatch.setattr(method_module, "DEFAULT_SEARCH", SearchSettings(**values))


@pytest.fixture
def ticking(monkeypatch):
    """A clock that is a second later whenever it is looked at; how often that was."""
    looks = itertools.count()
    seen = []

    class Clock:
        def monotonic(self):
            seen.append(next(looks))
            return float(seen[-1])

        def __getattr__(self, name):
            return getattr(time, name)

    clock = Clock()
    modules = (fit_module, compiled_run, method_module, search_module, candidates_module)
    for module in modules:
        monkeypatch.setattr(module, "time", clock)
    return seen


# --- max_time ---


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (X, {}),
        (X, {"criterion": "collapsed"}),
        (X, {"init": "random", "n_init": 4}),
        (X, {"n_factors": 3}),
        (X, {"n_factors": 0}),
        (with_missing(X, 0.05), {}),
        (X, {"prior": CuspPrior.variational_paper()}),
    ],
    ids=["search", "collapsed", "random", "given", "none", "missing values", "finite spike"],
)
def test_time_that_is_over_at_once_leaves_a_usable_fit(data, settings):
    outer = {name: settings[name] for name in ("n_factors", "prior") if name in settings}
    inner = {name: value for name, value in settings.items() if name not in outer}
    model = CuspFactorAnalysis(method=Variational(max_time=1e-9, **inner), random_state=0, **outer)
    with pytest.warns(ConvergenceWarning, match="Out of time: .* max_time=1e-09 seconds") as caught:
        model.fit(data)
    assert len(caught) == 1
    assert model.status_ == OUT_OF_TIME
    assert not model.converged_
    assert [entry.n_iter for entry in model.search_] == [1]
    assert [entry.n_factors for entry in model.search_] == [model.n_factors_]
    assert model.n_factors_ == outer.get("n_factors", model.n_factors_)
    assert np.linalg.eigvalsh(model.get_covariance()).min() > 0
    assert model.transform(data).shape == (150, model.n_factors_)
    assert ("give the number of factors" in str(caught[0].message)) == ("n_factors" not in outer)


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "score"),
    [(X, "evidence"), (datasets.simulate(60, 12, 3, random_state=0).X, "collapsed")],
    ids=["evidence", "collapsed"],
)
def test_time_that_is_over_at_any_moment_leaves_a_usable_fit(ticking, rows, score):
    """The first runs, walks, restarts, bridges, polish: whatever was going on."""

    def fit(seconds):
        start = len(ticking)
        model = CuspFactorAnalysis(method=Variational(max_time=seconds, criterion=score))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(rows)
        return model, [str(one.message) for one in caught], len(ticking) - start

    whole, said, looks = fit(1e9)
    assert whole.converged_
    assert said == []
    assert looks > 50
    scored = 0
    for seconds in np.linspace(2, looks - 4, 40):
        model, said, _ = fit(seconds)
        assert model.status_ == OUT_OF_TIME
        assert not model.converged_
        (message,) = said
        assert message.startswith("Out of time")
        by_k = {entry.n_factors: entry for entry in model.search_}
        best = max(model.search_, key=lambda entry: entry.lower_bound)
        evidences = [entry.evidence for entry in model.search_ if not math.isnan(entry.evidence)]
        if evidences:  # then the K of the best bound is among those that were weighed
            scored += 1
            assert not math.isnan(best.evidence)
            assert by_k[model.n_factors_].evidence > max(evidences) - 2.0
        else:
            assert model.n_factors_ == best.n_factors
        assert model.lower_bound_ == by_k[model.n_factors_].lower_bound
        assert np.all(np.isfinite(model.loadings_))
    assert scored > 0
    enough, said, _ = fit(looks + 1)
    assert enough.converged_
    assert said == []
    assert enough.lower_bound_ == whole.lower_bound_


def test_evidence_of_other_numbers_alone_decides_nothing():
    for step, left in ((-1, 0), (0, 1)):
        source = prepare_rows(X, scaling="columns", flat_mean=True).source
        made = Search(source, CuspPrior(), tol=0.05, max_iter=2000, max_factors=100)

        def score_candidates(search, step=step):
            k = search.candidates.best.state.n_factors
            assert k == 2
            search.candidates.evidence_by_k[k + step] = Evidence(0.0, 0.1)
            raise SearchTimeout

        with pytest.raises(SearchTimeout):
            search_over_k(made, score_candidates)
        assert len(made.candidates.evidence_by_k) == left
        assert made.candidates.chosen.state.n_factors == 2


def test_a_given_number_is_kept_when_time_is_over_on_the_way_to_it(ticking, monkeypatch):
    """Other numbers are steps on the way, and may have a higher bound."""
    set_search(monkeypatch, slow_iterations=0)
    for seconds in (5, 20, 40, 80):
        with pytest.warns(ConvergenceWarning, match="Out of time"):
            model = CuspFactorAnalysis(n_factors=4, method=Variational(max_time=seconds)).fit(X)
        assert model.n_factors_ == 4
        assert [entry.n_factors for entry in model.search_] == [4]


def test_time_that_is_over_in_a_search_of_a_surrogate(monkeypatch):
    """Rows with missing values are searched by a surrogate first: its best is taken over."""
    rows = with_missing(datasets.simulate(1500, 12, 2, random_state=0).X, 0.2)
    tried = []
    original = Search.try_state

    def spy(self, *args, **kwargs):
        tried.append(type(self.source).__name__)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Search, "try_state", spy)
    with pytest.warns(ConvergenceWarning, match="Out of time"):
        model = CuspFactorAnalysis(method=Variational(max_time=1e-9)).fit(rows)
    assert tried == ["CompleteSource", "MissingDataSource"]
    assert model.n_factors_ == 2
    assert not model.converged_


def test_a_given_number_of_seconds_is_about_what_it_takes():
    began = time.monotonic()
    with pytest.warns(ConvergenceWarning, match="Out of time"):
        CuspFactorAnalysis(method=Variational(max_time=0.5)).fit(random_walks(1000, 300))
    assert 0.5 < time.monotonic() - began < 10  # the whole search takes many seconds


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan, "soon"])
def test_seconds_that_are_none(seconds):
    with pytest.raises(InputError, match="max_time"):
        CuspFactorAnalysis(method=Variational(max_time=seconds)).fit(X)


def test_the_start_of_a_sampler_has_half_of_its_time(monkeypatch):
    given = []
    original = Variational.infer

    def spy(self, *args, **kwargs):
        given.append(self.max_time)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Variational, "infer", spy)
    small = {"n_draws": 20, "n_chains": 2, "burn_in": 10, "thin": 1}
    with pytest.warns(ConvergenceWarning, match="Too few draws|have not converged"):
        CuspFactorAnalysis(method=Gibbs(**small), random_state=0).fit(X)
    with pytest.warns(ConvergenceWarning, match=r"Out of time.*raise max_time=1e-06 or"):
        model = CuspFactorAnalysis(method=Gibbs(max_time=1e-6, **small), random_state=0).fit(X)
    assert given == [None, 5e-7]
    assert np.all(np.isfinite(model.get_covariance()))


# --- the most factors ---


def test_the_usual_limit_is_told_with_the_rise_of_the_bound(monkeypatch):
    rows = datasets.simulate(2000, 30, 6, random_state=0).X
    assert CuspFactorAnalysis().fit(rows).n_factors_ == 6
    monkeypatch.setattr(method_module, "DEFAULT_MAX_FACTORS", 5)
    set_search(monkeypatch, large=2)
    with pytest.warns(CuspWarning) as caught:
        model = CuspFactorAnalysis().fit(rows)
    (message,) = (str(one.message) for one in caught)
    assert model.n_factors_ == 5
    assert model.converged_
    assert "as max_factors=5 (the default) allows" in message
    assert "raise it: method=Variational(max_factors=10)" in message
    bounds = {entry.n_factors: entry.lower_bound for entry in model.search_}
    rise = (bounds[5] - bounds[3]) / 2
    assert f"rose by about {rounded(rise)} nats with each factor" in message
    assert "logarithms of counts" in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # more were asked for, and six are there
        assert CuspFactorAnalysis(method=Variational(max_factors=20)).fit(rows).n_factors_ == 6


def test_a_limit_is_not_told_where_it_was_not_reached(monkeypatch):
    monkeypatch.setattr(method_module, "DEFAULT_MAX_FACTORS", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CuspFactorAnalysis().fit(X).n_factors_ == 2
    paper = CuspFactorAnalysis(prior=CuspPrior.variational_paper())
    rows = datasets.simulate(2000, 30, 6, random_state=0).X
    assert paper.fit(rows).n_factors_ > 3  # a finite spike has the paper's H = p + 1


def test_many_factors_are_chosen_by_the_bound(monkeypatch):
    """Their evidence would take K⁴ numbers."""
    rows = datasets.simulate(60, 12, 3, random_state=0).X

    def evidences():
        model = CuspFactorAnalysis(method=Variational(criterion="collapsed")).fit(rows)
        return model, [one.evidence for one in model.search_ if not math.isnan(one.evidence)]

    assert len(evidences()[1]) > 0
    monkeypatch.setattr(model_selection, "_close_below", lambda search: True)
    set_search(monkeypatch, heaviest=1)
    model, found = evidences()
    assert found == []
    best = max(model.search_, key=lambda entry: entry.lower_bound)
    assert model.n_factors_ == best.n_factors > 1


# --- long steps ---


def test_long_steps_come_to_where_single_ones_do(monkeypatch):
    rows = random_walks(1000, 100)
    method = Variational(criterion="bound")
    set_search(monkeypatch, large=20)
    long = CuspFactorAnalysis(method=method).fit(rows)
    set_search(monkeypatch, large=10**9)
    single = CuspFactorAnalysis(method=method).fit(rows)
    assert single.n_factors_ > 44
    assert long.n_factors_ == single.n_factors_
    assert long.lower_bound_ == pytest.approx(single.lower_bound_, abs=0.5)
    iterations = [sum(entry.n_iter for entry in model.search_) for model in (long, single)]
    assert iterations[0] < iterations[1]


@pytest.mark.long
def test_long_steps_down():
    """From far too many factors, as the spectrum of series suggests."""
    rows = datasets.simulate(400, 60, 4, random_state=0).X
    prepared = prepare_rows(rows, scaling="columns", flat_mean=True)

    def search(large):
        made: Any = Search(
            prepared.source,
            CuspPrior().for_counts(400),
            tol=0.05,
            max_iter=2000,
            max_factors=50,
            settings=SearchSettings(large=large),
        )
        made.try_state(made.spectral_state(50))
        walk_down(made)
        return made.candidates

    long, single = search(8), search(10**9)
    assert set(range(4, 50)) < set(single.curve)
    assert len(long.curve) < 0.35 * len(single.curve)
    assert long.best.state.n_factors == single.best.state.n_factors == 4
    assert long.best.total == pytest.approx(single.best.total, abs=0.5)


# --- progress ---


def candidates_with(curve):
    made = Candidates(0.05, 0.0, SearchSettings())
    made.curve = curve
    return made


def test_the_rise_of_the_bound_is_measured_over_the_last_tenth():
    good, given_up = Status.CONVERGED, Status.PRUNED
    curve = {
        50: Point(-9000.0, 5, good, 1.0),
        80: Point(-5000.0, 5, good, 10.0),
        84: Point(-4600.0, 5, good, 12.0),
        90: Point(-4000.0, 5, good, 30.0),
        87: Point(-9999.0, 5, given_up, 31.0),
    }
    assert candidates_with(curve).rise_per_factor() == (100.0, 2.0)  # from 80 to 90
    assert candidates_with(curve).outlook(100, math.inf) == (100.0, 20.0)
    assert candidates_with(curve).outlook(100, 5.0) == (100.0, 5.0)
    beyond = candidates_with(curve | {91: Point(-4100.0, 5, given_up, 32.0)})
    assert all(math.isnan(value) for value in beyond.rise_per_factor())  # it does not rise any more
    alone = candidates_with({90: curve[90], 89: Point(-4300.0, 5, good, 1.0)})
    assert all(math.isnan(value) for value in alone.rise_per_factor())  # one factor says little
    assert all(math.isnan(value) for value in candidates_with({}).rise_per_factor())


def test_a_callback_is_told_of_the_rise():
    heard: list[VariationalProgress] = []
    method = Variational(callback=heard.append, max_factors=60, criterion="bound")
    CuspFactorAnalysis(method=method).fit(random_walks(1000, 100))
    assert {at.max_factors for at in heard} == {60}
    seconds = [at.seconds for at in heard]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[0] < seconds[-1]
    rising = [at for at in heard if at.rise > 0]
    assert rising
    assert all(at.seconds_left >= 0 for at in rising)
    assert math.isnan(heard[0].rise)


@pytest.mark.parametrize(
    ("value", "text"),
    [(387.2, "390"), (12345.0, "12000"), (9.96, "10.0"), (0.123, "0.12"), (7.0, "7.0"), (0, "0")],
)
def test_figures_have_two_digits(value, text):
    assert rounded(value) == text
