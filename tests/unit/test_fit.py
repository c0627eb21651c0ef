"""The loop: when it stops, and what it says."""

import numpy as np
import pytest

import bridge
from cuspfa.prior import CuspPrior
from cuspfa.variational import fit
from cuspfa.variational.bound import lower_bound
from cuspfa.variational.cycle import cycle
from cuspfa.variational.starts import draw_start

PRIOR = CuspPrior()


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(60, 6))
    source = bridge.source_of(y - y.mean(axis=0))
    return source, draw_start(source, PRIOR, 7, np.random.default_rng(1))


def test_stops_when_the_bound_grows_by_less_than_tol(problem):
    source, start = problem
    run = fit.run(start, source, PRIOR, tol=0.05, max_iter=1000)
    growth = np.diff(run.trace)
    assert run.status is fit.Status.CONVERGED
    assert growth[-1] < 0.05
    assert np.all(growth[:-1] >= 0.05)
    assert run.n_iter == len(run.trace)
    assert run.bound.total == run.trace[-1] == lower_bound(run.state, source, PRIOR).total


def test_a_tight_tolerance_ends_at_a_fixed_point(problem):
    source, start = problem
    run = fit.run(start, source, PRIOR, tol=1e-9, max_iter=5000)
    state = run.state
    for _ in range(100):
        state = cycle(state, source, PRIOR)
    assert lower_bound(state, source, PRIOR).total == pytest.approx(run.bound.total, abs=1e-6)
    loose = fit.run(start, source, PRIOR, tol=0.5, max_iter=5000)
    assert loose.bound.total < run.bound.total - 1e-3


def test_stops_at_max_iter(problem):
    source, start = problem
    run = fit.run(start, source, PRIOR, tol=1e-12, max_iter=3)
    assert run.status is fit.Status.MAX_ITER
    assert run.n_iter == 3


def test_a_cycle_that_lowers_the_bound_is_refused(problem, monkeypatch):
    source, start = problem
    calls = []

    def broken(state, source, prior):
        calls.append(1)
        after = cycle(state, source, prior)
        if len(calls) < 3:
            return after
        return after._replace(noise=after.noise._replace(rate=2.0 * after.noise.rate))

    monkeypatch.setattr(fit, "cycle", broken)
    run = fit.run(start, source, PRIOR, tol=1e-12, max_iter=10)
    assert run.status is fit.Status.BOUND_FELL
    assert run.n_iter == 2
    assert run.bound.total == lower_bound(run.state, source, PRIOR).total


def test_random_starts_differ_in_their_number_of_factors(problem):
    source, _ = problem
    rng = np.random.default_rng(2)
    counts = [
        np.sum(draw_start(source, PRIOR, 30, stream).labels.active > 0.5)
        for stream in rng.spawn(300)
    ]
    assert np.mean(counts) == pytest.approx(5.0, abs=0.6)  # α
    assert len(set(counts)) > 5
