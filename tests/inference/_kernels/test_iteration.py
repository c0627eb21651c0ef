"""The compiled iteration against its definition in NumPy, state by state."""

from typing import Any

import numpy as np
import pytest

from cuspfa.data.in_memory import GramMatrix, RowMatrix
from cuspfa.data.protocols import CompleteSource
from cuspfa.inference._kernels import kernel
from cuspfa.inference.updates import Loadings
from cuspfa.inference.variational import compiled_run
from cuspfa.inference.variational.compiled_run import (
    Ending,
    Limits,
    can_run,
    run_compiled,
    scores_at,
)
from cuspfa.inference.variational.elbo import lower_bound
from cuspfa.inference.variational.init import state_at
from cuspfa.inference.variational.run import (
    BOUND_ROUNDING,
    REMAINING_GROWTH,
    Status,
    iteration,
    run_iterations,
    run_numpy,
    with_sign_rule,
)
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import EmpiricalBayesSlab, GaussianSlab, InverseGammaSlab

pytestmark = pytest.mark.skipif(
    kernel("iteration") is None, reason="the compiled core is not built here"
)

SLABS = {
    "pooled": InverseGammaSlab(2.0, 0.4, pooled=True),
    "inverse gamma": InverseGammaSlab(3.0, 1.0),
    "gaussian": GaussianSlab(0.5),
    "plug-in": EmpiricalBayesSlab(),
}
SHAPES = [
    (40, 2, 1),
    (60, 6, 2),
    (200, 13, 5),
    (30, 12, 12),
    (25, 40, 3),
    (300, 30, 14),
    (20, 9, 1),
]


def problem(n, p, k, *, seed=0, layout="gram"):
    rng = np.random.default_rng([n, p, k, seed])
    y = rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) + rng.normal(size=(n, p))
    y -= y.mean(axis=0)
    y /= y.std(axis=0)
    matrix = GramMatrix(y.T @ y, n - 1.0) if layout == "gram" else RowMatrix(y, n - 1.0)
    return CompleteSource(matrix), 0.3 * rng.normal(size=(p, k))


UNTIL_CONVERGED = Limits(0.05, 1000, -np.inf, REMAINING_GROWTH, BOUND_ROUNDING, np.inf)


def without_end(n_iter):
    return Limits(-np.inf, n_iter, -np.inf, 40.0, np.inf, np.inf)


def assert_same(one, two, tolerance):
    """Equal up to the signs of factors, which an eigendecomposition leaves open."""
    sign = np.sign(np.sum(one.loadings.mean * two.loadings.mean, axis=0))
    np.testing.assert_allclose(
        one.loadings.mean * sign, two.loadings.mean, atol=tolerance, rtol=tolerance
    )
    np.testing.assert_allclose(
        one.loadings.covariances() * np.outer(sign, sign),
        two.loadings.covariances(), atol=tolerance, rtol=tolerance,
    )  # fmt: skip
    np.testing.assert_allclose(one.noise.rate, two.noise.rate, rtol=tolerance)
    np.testing.assert_allclose(
        one.scores.cross * sign, two.scores.cross, rtol=tolerance, atol=tolerance * 1e3
    )
    np.testing.assert_allclose(
        one.scores.second * np.outer(sign, sign), two.scores.second,
        rtol=tolerance, atol=tolerance * 1e3,
    )  # fmt: skip
    assert one.loadings.log_det == pytest.approx(two.loadings.log_det, rel=tolerance, abs=1e-8)
    assert one.scores.log_det == pytest.approx(two.scores.log_det, rel=tolerance, abs=1e-8)
    for value, other in zip(vars(one.slab).values(), vars(two.slab).values(), strict=True):
        assert value == pytest.approx(other, rel=max(tolerance, 1e-8))


@pytest.mark.parametrize("layout", ["gram", "rows"])
@pytest.mark.parametrize("slab", SLABS)
@pytest.mark.parametrize("shape", SHAPES)
def test_states_and_bounds_are_those_of_the_definition(shape, slab, layout):
    prior = CuspPrior(slab=SLABS[slab])
    source, mean = problem(*shape, layout=layout)
    state = state_at(mean, np.full(source.p, 0.5), source, prior, 50)
    state = state._replace(scores=source.expect_scores(state.loadings, state.noise.precision))
    assert can_run(state, source, prior)
    # After 30 iterations rounding may decide whether a step is kept that gains nothing. It moves
    # loadings by about the root of rounding; so does a start that differs in its last digit.
    for n_iter, tolerance in ((1, 1e-10), (30, 1e-7)):
        expected, totals = state, []
        for _ in range(n_iter):
            expected = iteration(expected, source, prior)
            totals.append(lower_bound(expected, source, prior).total)
        made = run_compiled(state, source, prior, without_end(n_iter), None)
        assert made.ending is Ending.MAX_ITER
        np.testing.assert_allclose(made.trace, totals, rtol=1e-11, atol=1e-9)
        own = lower_bound(expected, source, prior)
        np.testing.assert_allclose(made.bound, own, rtol=1e-9, atol=1e-7)
        assert_same(made.state, expected, tolerance)
        # The rule that reflects factors is that of the definition too.
        of_rule = with_sign_rule(made.state)
        np.testing.assert_array_equal(of_rule.loadings.mean, made.state.loadings.mean)
        assert lower_bound(made.state, source, prior).total == pytest.approx(totals[-1], abs=1e-7)


@pytest.mark.parametrize("slab", SLABS)
def test_many_iterations_are_those_of_the_definition(slab):
    """Towards the optimum matrices become diagonal, and eigenvectors are found by corrections."""
    prior = CuspPrior(slab=SLABS[slab])
    rng = np.random.default_rng(3)
    strength = np.linspace(1.6, 0.5, 10)
    y = rng.normal(size=(400, 10)) @ (strength[:, None] * rng.normal(size=(10, 24)))
    y += rng.normal(size=y.shape)
    y = (y - y.mean(axis=0)) / y.std(axis=0)
    source = CompleteSource(GramMatrix(y.T @ y, 399.0))
    state = state_at(0.3 * rng.normal(size=(24, 10)), np.full(24, 0.5), source, prior, 50)
    expected = state
    totals: list[float] = []
    for n_iter in (20, 60, 150):
        while len(totals) < n_iter:
            expected = iteration(expected, source, prior)
            totals.append(lower_bound(expected, source, prior).total)
        made = run_compiled(state, source, prior, without_end(n_iter), None)
        np.testing.assert_allclose(made.trace, totals, rtol=1e-11)
        assert_same(made.state, expected, 1e-7)
        second = made.state.scores.total
        np.testing.assert_array_equal(second, np.diag(second.diagonal()))


@pytest.mark.parametrize("layout", ["gram", "rows"])
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_of_a_start(shape, layout):
    """For loadings without spread, as starts have them, and with it."""
    source, mean = problem(*shape, layout=layout)
    p, k = mean.shape
    rng = np.random.default_rng(1)
    precision = rng.uniform(0.5, 3.0, p)
    for d in (np.full(k, np.inf), rng.uniform(0.1, 9.0, k)):
        loadings = Loadings(
            mean, np.eye(k) + 0.1 * rng.normal(size=(k, k)), precision[::-1], d, 0.0
        )
        found: Any = scores_at(loadings, precision, source)
        expected = source.expect_scores(loadings, precision)
        np.testing.assert_allclose(found.cross, expected.cross, rtol=1e-10, atol=1e-9)
        np.testing.assert_allclose(found.second, expected.second, rtol=1e-10, atol=1e-9)
        assert found.log_det == pytest.approx(expected.log_det, rel=1e-11)


def test_an_empty_factor_and_a_rejected_step_are_those_of_the_definition():
    """With K far above the truth factors die; at the optimum the scale-rotation step is refused."""
    prior = CuspPrior()
    source, _ = problem(80, 8, 1, seed=1)
    mean = np.random.default_rng(0).normal(size=(8, 6)) * 0.2
    state = state_at(mean, np.full(8, 0.5), source, prior, 50)
    expected = state
    for _ in range(400):
        expected = iteration(expected, source, prior)
    made = run_compiled(state, source, prior, without_end(400), None)
    assert np.min(np.sum(expected.loadings.mean**2, axis=0)) < 1e-6
    assert made.trace[-1] == pytest.approx(lower_bound(expected, source, prior).total, abs=1e-7)


@pytest.mark.parametrize(
    "broken", [{"HYPER_SPREAD": 1.4}, {"HYPER_RATE": 0.03}], ids=["spread", "rate"]
)
def test_a_wrong_constant_is_seen(broken, monkeypatch):
    """The control: the comparison above notices a small change of the hyper-prior."""
    for name, value in broken.items():
        monkeypatch.setattr(compiled_run, name, value)
    prior = CuspPrior()
    source, mean = problem(60, 6, 2)
    state = state_at(mean, np.full(6, 0.5), source, prior, 50)
    expected = iteration(state, source, prior)
    made = run_compiled(state, source, prior, without_end(1), None)
    assert abs(made.trace[0] - lower_bound(expected, source, prior).total) > 1e-4


def test_a_run_ends_as_it_does_without_the_kernel():
    prior = CuspPrior()
    source, mean = problem(100, 10, 3)
    state = state_at(mean, np.full(10, 0.5), source, prior, 50)
    cases: list[dict[str, Any]] = [
        {"tol": 0.05, "max_iter": 1000},
        {"tol": 1e-6, "max_iter": 7},
        {"tol": 0.05, "max_iter": 1000, "target": 1e6},
        {"tol": 0.05, "max_iter": 1000, "deadline": 0.0},
    ]
    for case in cases:
        seen: list[Any] = []
        plain: list[Any] = []
        one = run_iterations(
            state, source, prior, **case, on_iteration=lambda *a, s=seen: s.append(a[:2])
        )
        limits = UNTIL_CONVERGED._replace(**case)
        two = run_numpy(state, source, prior, limits, lambda *a, s=plain: s.append(a[:2]))
        assert one.status is two.status
        np.testing.assert_allclose(one.trace, two.trace, rtol=1e-11)
        np.testing.assert_allclose(seen, plain, rtol=1e-11)
        assert_same(one.state, two.state, 1e-7)


def test_an_interrupt_keeps_what_was_found():
    prior = CuspPrior()
    source, mean = problem(100, 10, 3)
    state = state_at(mean, np.full(10, 0.5), source, prior, 50)

    def stop(number, bound, at):
        if number == 5:
            raise KeyboardInterrupt

    done = run_iterations(state, source, prior, tol=1e-9, max_iter=100, on_iteration=stop)
    assert done.status is Status.INTERRUPTED
    assert done.n_iter == 5


def test_a_bound_that_falls_ends_the_run(monkeypatch):
    """The growth that counts as a fall is set so that every iteration is one."""
    prior = CuspPrior()
    source, mean = problem(100, 10, 3)
    state = state_at(mean, np.full(10, 0.5), source, prior, 50)
    monkeypatch.setattr("cuspfa.inference.variational.run.BOUND_ROUNDING", -1e3)
    done = run_iterations(state, source, prior, tol=1e-9, max_iter=100)
    assert done.status is Status.ELBO_DECREASED
    assert done.n_iter == 1


def test_what_the_kernel_does_not_know_is_left_to_numpy():
    source, mean = problem(60, 6, 2)
    for prior in (CuspPrior(slab=EmpiricalBayesSlab(shared=True)), CuspPrior.variational_paper()):
        state = state_at(mean, np.full(6, 0.5), source, prior, 7)
        assert not can_run(state, source, prior)
    prior = CuspPrior()
    assert not can_run(state_at(mean[:, :0], np.full(6, 0.5), source, prior, 7), source, prior)


@pytest.mark.parametrize("apart", [0.0, 1e-13, 1e-9, 1e-3])
def test_factors_of_equal_strength(apart):
    """Eigenvalues that are equal, or nearly so, leave their eigenvectors open, not the result."""
    k, n = 12, 200.0
    correlation = np.kron(np.eye(k), [[1.0, 0.6], [0.6, 1.0]])
    noise = np.random.default_rng(0).normal(size=correlation.shape)
    source = CompleteSource(GramMatrix(n * (correlation + apart * (noise + noise.T)), n))
    prior = CuspPrior(slab=SLABS["inverse gamma"])
    state = state_at(np.kron(np.eye(k), [[0.7], [0.7]]), np.full(2 * k, 0.5), source, prior, 50)
    for n_iter in (1, 30):
        expected, totals = state, []
        for _ in range(n_iter):
            expected = iteration(expected, source, prior)
            totals.append(lower_bound(expected, source, prior).total)
        made = run_compiled(state, source, prior, without_end(n_iter), None)
        np.testing.assert_allclose(made.trace, totals, rtol=1e-11)
        one, two = made.state.loadings.mean, expected.loadings.mean
        np.testing.assert_allclose(one @ one.T, two @ two.T, rtol=1e-8, atol=1e-9)
