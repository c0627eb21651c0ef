"""The loop: when it stops, and what it says."""

import numpy as np
import pytest

import bridge
from cuspfa.inference.variational import run as run_module
from cuspfa.inference.variational.compiled_run import Limits
from cuspfa.inference.variational.elbo import Bound, lower_bound
from cuspfa.inference.variational.init import draw_start
from cuspfa.inference.variational.result import _without_negative
from cuspfa.inference.variational.run import iteration
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import GaussianSlab
from support import factor_rows

PRIOR = CuspPrior.variational_paper()


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    y = factor_rows(60, 6, 2, rng)
    source = bridge.source_of(y - y.mean(axis=0))
    return source, draw_start(source, PRIOR, 7, np.random.default_rng(1), n_factors=3)


def test_stops_when_the_bound_grows_by_less_than_tol(problem):
    source, start = problem
    run = run_module.run_iterations(start, source, PRIOR, tol=0.05, max_iter=1000)
    growth = np.diff(run.trace)
    assert run.status is run_module.Status.CONVERGED
    assert np.all(growth[:-1] >= 0.05)
    # The last iteration added less, and settling labels and sticks after it little.
    before, last = run.trace[-2], run.trace[-1]
    assert 0 <= last - before < 0.1
    assert run.n_iter == len(run.trace)
    assert run.bound.total == last == lower_bound(run.state, source, PRIOR).total


def test_a_candidate_that_cannot_catch_up_is_given_up(problem):
    source, start = problem
    whole = run_module.run_iterations(start, source, PRIOR, tol=1e-6, max_iter=1000)
    hopeless = run_module.run_iterations(
        start, source, PRIOR, tol=1e-6, max_iter=1000, target=whole.total + 50
    )
    assert hopeless.status is run_module.Status.PRUNED
    assert hopeless.n_iter < whole.n_iter
    hopeful = run_module.run_iterations(
        start, source, PRIOR, tol=1e-6, max_iter=1000, target=whole.total - 1
    )
    assert hopeful.total == pytest.approx(whole.total, abs=1e-6)


def test_an_interrupt_keeps_the_best_state(problem, monkeypatch):
    source, start = problem
    calls = []

    def interrupted(state, source, prior):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return iteration(state, source, prior)

    monkeypatch.setattr(run_module, "quick_iteration", interrupted)
    run = run_module.run_iterations(start, source, PRIOR, tol=1e-12, max_iter=100)
    assert run.status is run_module.Status.INTERRUPTED
    assert run.n_iter == 3
    assert run.total == lower_bound(run.state, source, PRIOR).total


def test_a_tight_tolerance_ends_at_a_fixed_point(problem):
    source, start = problem
    run = run_module.run_iterations(start, source, PRIOR, tol=1e-9, max_iter=5000)
    state = run.state
    for _ in range(100):
        state = iteration(state, source, PRIOR)
    assert lower_bound(state, source, PRIOR).total == pytest.approx(run.bound.total, abs=1e-6)
    loose = run_module.run_iterations(start, source, PRIOR, tol=0.5, max_iter=5000)
    assert loose.bound.total < run.bound.total - 1e-3


def test_stops_at_max_iter(problem):
    source, start = problem
    run = run_module.run_iterations(start, source, PRIOR, tol=1e-12, max_iter=3)
    assert run.status is run_module.Status.MAX_ITER
    assert run.n_iter == 3


def test_a_cycle_that_lowers_the_bound_is_refused(problem, monkeypatch):
    source, start = problem
    calls = []

    def broken(state, source, prior):
        calls.append(1)
        after = iteration(state, source, prior)
        if len(calls) < 3:
            return after
        return after._replace(noise=after.noise._replace(rate=2.0 * after.noise.rate))

    monkeypatch.setattr(run_module, "quick_iteration", broken)
    run = run_module.run_iterations(start, source, PRIOR, tol=1e-12, max_iter=10)
    assert run.status is run_module.Status.ELBO_DECREASED
    assert run.n_iter == 2
    assert run.bound.total == lower_bound(run.state, source, PRIOR).total


def test_random_starts_are_drawn_from_the_prior():
    rng = np.random.default_rng(2)
    source = bridge.source_of(rng.normal(size=(50, 30)))
    prior = CuspPrior(alpha=3.0, slab=GaussianSlab(4.0), spike=1e-6)
    starts = [draw_start(source, prior, 31, stream) for stream in rng.spawn(400)]
    counts = np.array([start.n_factors for start in starts])
    assert counts.mean() == pytest.approx(3.0, abs=4 * np.sqrt(3 / 400))
    assert counts.mean() != pytest.approx(3.5, abs=4 * np.sqrt(3 / 400))
    loadings = np.concatenate([start.loadings.mean.ravel() for start in starts])
    assert loadings.var() == pytest.approx(4.0, rel=0.05)
    variances = source.squares / source.n
    np.testing.assert_allclose(1 / starts[0].noise.precision, variances)


def test_a_start_without_a_bound_ends_at_once(problem, monkeypatch):
    source, start = problem
    limits = Limits(0.05, 9, -np.inf, 10.0, 1e-9, np.inf)
    nothing = Bound(np.nan, 1.0, 1.0, 1.0, 1.0, 1.0)
    monkeypatch.setattr(run_module, "lower_bound", lambda *_, **__: nothing)
    run = run_module.run_numpy(start, source, PRIOR, limits)
    assert run.status is run_module.Status.ELBO_DECREASED
    assert run.trace.tolist() == [-np.inf]
    assert run.bound == (-np.inf, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_sums_of_squares_that_rounding_made_negative_are_zero():
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
    for least, values in ((-1e-3, [0.0, 0.5, 2.0, 7.0]), (1e-3, [1e-3, 0.5, 2.0, 7.0])):
        given = (turn * [least, 0.5, 2.0, 7.0]) @ turn.T
        found = _without_negative((given + given.T) / 2)
        np.testing.assert_allclose(found, (turn * values) @ turn.T, atol=1e-12)
        np.testing.assert_array_equal(found, found.T)
    assert _without_negative(np.zeros((0, 0))).shape == (0, 0)
