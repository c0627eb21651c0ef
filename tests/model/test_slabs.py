"""Slabs and the scale-rotation step: closed forms against numerical optimisation."""

from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize, minimize_scalar

import bridge
from cuspfa import CuspFactorAnalysis
from cuspfa.datasets import simulate
from cuspfa.errors import CuspWarning, InputError
from cuspfa.inference.variational import steps
from cuspfa.inference.variational.elbo import lower_bound
from cuspfa.inference.variational.init import draw_start
from cuspfa.inference.variational.px_step import best_scale_rotation, px_step
from cuspfa.inference.variational.run import ITERATION
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import EmpiricalBayesSlab, GaussianSlab, InverseGammaSlab
from cuspfa.model.slabs.inverse_gamma import HYPER_RATE, HYPER_SCALE
from support import factor_rows

SLABS = {
    "gaussian": GaussianSlab(0.7),
    "inverse gamma": InverseGammaSlab(1.3, 0.4),
    "pooled": InverseGammaSlab(2.0, 0.5, pooled=True),
    "learned": EmpiricalBayesSlab(),
    "common": EmpiricalBayesSlab(shared=True),
}
SHAPES = [(40, 8), (6, 15), (9, 9), (400, 5)]


@pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS)
def test_precision_is_the_slope_of_the_density(slab):
    squared_norm, step = np.array([0.3, 2.0, 7.0]), 1e-5
    for h in range(3):
        move = step * np.eye(3)[h]
        up, down = (np.sum(slab.log_density(squared_norm + s * move, 6)) for s in (1, -1))
        assert slab.precision(squared_norm, 6)[h] == pytest.approx(
            -2 * (up - down) / (2 * step), rel=1e-6
        )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["gaussian", "inverse gamma", "learned"])
def test_stretch_maximises_its_objective(name, shape):
    slab, (n, p) = SLABS[name], shape
    for eigenvalue in (1e-6, 0.5, 30.0, 1e5):
        x = slab.px_scale(np.array([eigenvalue]), n, p)[0]

        def loss(log_x, slab=slab, eigenvalue=eigenvalue):
            x = np.exp(log_x)
            density = slab.log_density(np.array([eigenvalue / x]), p)[0]
            return -(0.5 * (n - p) * log_x - 0.5 * x + density)

        best = minimize_scalar(loss, bracket=(np.log(x) - 1, np.log(x) + 1), tol=1e-12)
        assert loss(np.log(x)) <= best.fun + 1e-9 * abs(best.fun)
        assert loss(np.log(1.05 * x)) > loss(np.log(x))
        assert loss(np.log(0.95 * x)) > loss(np.log(x))


def test_a_step_that_lowers_the_bound_is_not_made():
    """And one that raises it is, also where the log densities are positive."""

    class Wrong(GaussianSlab):
        def px_scale(self, eigenvalues, n, p):
            return 1.3 * super().px_scale(eigenvalues, n, p)

    rng, n, p = np.random.default_rng(1), 40, 8
    for size in (1.0, 1e-4):
        root, other = rng.normal(size=(2, 3, 30))
        total, second = root @ root.T, size**2 * other @ other.T
        variance = float(np.trace(second)) / p
        density = GaussianSlab(variance).log_density(np.diag(second), p)
        assert np.all(density < 0.0) if size == 1.0 else np.all(density > 0.0)
        best = best_scale_rotation(total, second, GaussianSlab(variance), n, p)
        assert best is not None
        assert_allclose(best.r @ total @ best.r.T, np.diag(best.total), atol=1e-9 * n)
        assert_allclose(best.r @ best.r_inverse, np.eye(3), atol=1e-9)
        # At its best place there is nothing to gain, and a wrong length loses.
        there = np.diag(best.total), best.r_inverse.T @ second @ best.r_inverse
        again = best_scale_rotation(*there, GaussianSlab(variance), n, p)
        assert again is not None
        assert_allclose(again.total, best.total)
        assert best_scale_rotation(*there, Wrong(variance), n, p) is None


def test_a_common_variance_stretches_to_n_on_average():
    eigenvalues = np.array([50.0, 8.0, 0.3])
    for n, p in SHAPES:
        x = EmpiricalBayesSlab(shared=True).px_scale(eigenvalues, n, p)
        assert x.sum() == pytest.approx(3 * n, rel=1e-9)
        variance = np.mean(eigenvalues / x) / p
        assert_allclose(x**2 - (n - p) * x, eigenvalues / variance, rtol=1e-6)
        for alike in (np.full(3, 8.0), np.array([0.7])):
            assert_allclose(EmpiricalBayesSlab(shared=True).px_scale(alike, n, p), n, rtol=1e-9)


def state_after(slab, shape, k=3, iterations=2):
    n, p = shape
    rng = np.random.default_rng(7)
    y = factor_rows(n, p, k, rng)
    source, prior = bridge.source_of(y), CuspPrior(slab=slab, spike=None, noise_rate=0.3)
    state = draw_start(source, prior, p + 1, rng, n_factors=k)
    for _ in range(iterations):
        for step in ITERATION:
            if step is not px_step:
                state = step(state, source, prior)
    return state, source, prior


def rotated(state, matrix):
    log_det = float(np.linalg.slogdet(matrix)[1])
    return state._replace(
        loadings=state.loadings.rotated(np.linalg.inv(matrix), log_det),
        scores=state.scores.rotated(matrix, log_det),
    )


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
@pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS)
def test_no_other_scale_or_rotation_is_better(slab, shape):
    state, source, prior = state_after(slab, shape)
    expanded = px_step(state, source, prior)

    def loss(flat):
        matrix = np.eye(3) + flat.reshape(3, 3)
        if np.linalg.det(matrix) <= 1e-6:
            return np.inf
        return -lower_bound(rotated(expanded, matrix), source, prior).total

    here = loss(np.zeros(9))
    assert -here > lower_bound(state, source, prior).total  # it was worth it
    rng = np.random.default_rng(8)
    for _ in range(20):
        direction = rng.normal(size=9)
        slope = (loss(1e-5 * direction) - loss(-1e-5 * direction)) / 2e-5
        beside = (loss(0.05 * direction + 1e-5 * direction) - loss(0.05 * direction)) / 1e-5
        assert abs(slope) < 1e-3 * max(1.0, abs(beside))
        assert loss(0.05 * direction) >= here - 1e-9 * abs(here)
    # A global maximum over all invertible R, not only a stationary point.
    for _ in range(3):
        start = 0.5 * rng.normal(size=9)
        found = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 4000})
        assert found.fun >= here - 1e-6 * abs(here)


@pytest.mark.parametrize("slab", SLABS.values(), ids=SLABS)
def test_the_likelihood_does_not_see_the_step(slab):
    state, source, prior = state_after(slab, (40, 8))
    before, after = (lower_bound(s, source, prior) for s in (state, px_step(state, source, prior)))
    assert after.likelihood == pytest.approx(before.likelihood, rel=1e-10)
    assert after.noise == before.noise


def test_pooled_slab_learns_its_parameters():
    slab, p = SLABS["pooled"], 30
    squared_norm = np.array([3.0, 4.0, 3.5, 12.0])
    learned: Any = slab
    for _ in range(60):
        learned = learned.update_hyperparameters(squared_norm, p)

    def loss(logs):
        shape, rate = np.exp(logs)
        at = InverseGammaSlab(shape, rate, pooled=True)
        return -float(np.sum(at.log_density(squared_norm, p))) - at.log_hyperprior()

    best = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    assert loss(np.log([learned.shape, learned.rate])) == pytest.approx(best.fun, abs=1e-8)
    assert_allclose([learned.shape, learned.rate], np.exp(best.x), rtol=1e-3)
    # Alike factors share a variance, unlike ones do not.
    alike: Any = slab
    unlike: Any = slab
    for _ in range(100):
        alike = alike.update_hyperparameters(np.full(8, 5.0), p)
        unlike = unlike.update_hyperparameters(np.geomspace(0.1, 50.0, 8), p)
    assert alike.shape > 30 * unlike.shape
    assert InverseGammaSlab(2.0, 0.5).update_hyperparameters(squared_norm, p) == InverseGammaSlab(
        2.0, 0.5
    )


@pytest.mark.long
def test_hyperprior_is_a_density():
    u, w = np.meshgrid(np.linspace(-6, 8, 500), np.linspace(-16, 16, 900), indexing="ij")
    values = np.array(
        [
            InverseGammaSlab(a, b, pooled=True).log_hyperprior()
            for a, b in zip(np.exp(u).ravel(), np.exp(w).ravel(), strict=True)
        ]
    )
    cell = (u[1, 0] - u[0, 0]) * (w[0, 1] - w[0, 0])
    assert np.sum(np.exp(values)) * cell == pytest.approx(1.0, abs=0.01)


def test_bad_slabs():
    for make in (
        lambda: InverseGammaSlab(shape=0),
        lambda: InverseGammaSlab(rate=-1),
        lambda: InverseGammaSlab(pooled="yes"),
        lambda: EmpiricalBayesSlab(shared=1),
        lambda: GaussianSlab("1"),
    ):
        with pytest.raises(InputError, match="slab "):
            make()


def test_expansion_waits_until_labels_are_certain():
    state, source, _ = state_after(GaussianSlab(1.0), (40, 8))
    prior = CuspPrior(slab=GaussianSlab(1.0), spike=1e-6)
    doubtful = state._replace(labels=state.labels._replace(active=np.array([1.0, 1.0, 0.9])))
    assert px_step(doubtful, source, prior) is doubtful
    assert steps.step_slab(state, source, prior).slab == GaussianSlab(1.0)


def test_a_plugged_in_variance_survives_a_dying_factor():
    """A surplus factor's squared norm goes to zero, where its density and entropy both diverge."""
    y = simulate(100, 20, 5, random_state=1).X
    model = CuspFactorAnalysis(prior=CuspPrior(slab=EmpiricalBayesSlab())).fit(y)
    assert model.n_factors_ == 5
    assert all(np.isfinite(entry.lower_bound) for entry in model.search_)
    with pytest.warns(CuspWarning, match="4 of them have no loadings"):
        surplus = CuspFactorAnalysis(n_factors=9, prior=CuspPrior(slab=EmpiricalBayesSlab())).fit(y)
    assert np.all(np.isfinite(surplus.get_covariance()))


@pytest.mark.parametrize("name", ["gaussian", "inverse gamma", "pooled"])
def test_the_curvature_in_the_scale_is_that_of_differences(name):
    """φ as a function of the logarithm of the scale of a column, at its squared norm l/x."""
    slab, squared_norm = SLABS[name], np.array([0.05, 0.7, 9.0])
    n, p, step = 40.0, 8, 1e-4

    def objective(log_x):
        """Twice the bound, where x = 1 has this squared norm and is the best x."""
        density = slab.log_density(squared_norm * np.exp(-log_x), p)
        return 2 * density + slope * log_x - first * np.exp(log_x)

    # n − p and the weight of x, of which only their sum with −2φ′ matters: the best x is 1.
    slope, first = n - p, n - p + slab.precision(squared_norm, p) * squared_norm
    assert np.all(np.abs((objective(step) - objective(-step)) / (2 * step)) < 1e-6)
    curvature = -(objective(step) + objective(-step) - 2 * objective(0.0)) / step**2
    np.testing.assert_allclose(slab.scale_freedom(squared_norm, n, p), curvature, rtol=1e-5)


def test_the_mass_of_a_pooled_hyper_prior_is_laplaces():
    """By a Hessian from differences of the public densities, with another step."""
    slab, norms, p = InverseGammaSlab(2.2, 0.5, pooled=True), np.array([0.4, 1.1, 2.5, 3.0]), 7
    at, h = np.log([slab.shape, slab.rate]), 0.02

    def log_density(u, w):
        moved = InverseGammaSlab(float(np.exp(u)), float(np.exp(w)), pooled=True)
        return np.sum(moved.log_density(norms, p)) + moved.log_hyperprior()

    def second(i, j):
        total = 0.0
        for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            point = at + h * (a * np.eye(2)[i] + b * np.eye(2)[j])
            total += a * b * log_density(*point)
        return total / (4 * h * h)

    hessian = np.array([[second(i, j) for j in range(2)] for i in range(2)])
    want = slab.log_hyperprior() + np.log(2 * np.pi) - 0.5 * np.log(np.linalg.det(-hessian))
    assert slab.log_hyper_evidence(norms, p) == pytest.approx(want, abs=2e-3)
    assert InverseGammaSlab(2.2, 0.5).log_hyper_evidence(norms, p) == 0.0


def test_the_mass_of_a_pooled_hyper_prior_is_not_wider_than_the_prior():
    """A column that says little of a and b leaves the curvature of the prior at its mode."""
    mode, h = np.log([2 / HYPER_RATE, 2 / HYPER_RATE * HYPER_SCALE]), 1e-3

    def prior(u, w):
        return InverseGammaSlab(float(np.exp(u)), float(np.exp(w)), pooled=True).log_hyperprior()

    unit, signs = h * np.eye(2), ((1, 1), (1, -1), (-1, 1), (-1, -1))
    hessian = [
        [sum(a * b * prior(*(mode + a * one + b * two)) for a, b in signs) for two in unit]
        for one in unit
    ]
    assert prior(*mode) > max(prior(*(mode + step)) for step in (*unit, *-unit))
    determinant = np.linalg.det(np.array(hessian) / (4 * h * h))
    slab = InverseGammaSlab(2.0, 0.4, pooled=True)
    want = slab.log_hyperprior() + np.log(2 * np.pi) - 0.5 * np.log(determinant)
    assert slab.log_hyper_evidence(np.array([0.001]), 5) == pytest.approx(want, abs=1e-4)
    assert slab.log_hyper_evidence(np.array([1e6]), 5) < want - 0.5  # which says much


class OwnSlab(GaussianSlab):
    """A slab of a user, whose formulas may be others."""


@pytest.mark.parametrize(
    ("slab", "words"),
    [
        (GaussianSlab(0.5), "normal with variance 0.5"),
        (
            InverseGammaSlab(2.0, 0.4),
            "normal with a variance of the factor's own, which is inverse gamma (2, 0.4)",
        ),
        (
            InverseGammaSlab(2.0, 0.4, pooled=True),
            "normal with a variance of the factor's own, which is inverse gamma with parameters "
            "estimated from all factors",
        ),
        (
            EmpiricalBayesSlab(),
            "normal with a variance of the factor's own, which is estimated",
        ),
        (
            EmpiricalBayesSlab(shared=True),
            "normal with a variance that all factors share, which is estimated",
        ),
        (OwnSlab(0.5), "distributed as OwnSlab(variance=0.5)"),
    ],
)
def test_words_for_the_methods_of_a_paper(slab, words):
    assert slab.in_words == words


@pytest.mark.parametrize(("a", "b"), [(2.0, 0.4), (0.7, 3.0), (30.0, 10.0)])
def test_the_average_of_a_pair_of_columns_is_the_hypergeometric_function(a, b):
    """At all differences of the columns, not at the nodes of the interpolation alone."""
    rng = np.random.default_rng(4)
    one, two = rng.gamma(1.0, 20.0, (2, 60))
    p = 9
    t = np.log((b + one / 2) / (b + two / 2))
    values = (mpmath.hyp2f1(0.5, a + p / 2, 1, -(mpmath.sinh(x / 2) ** 2)) for x in t)
    wanted = [float(mpmath.log(value)) for value in values]
    found = InverseGammaSlab(a, b).log_pair_average(one, two, p)
    assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


def test_the_average_of_a_pair_of_which_one_is_nearly_zero():
    """So far apart that the hypergeometric series is at its limit."""
    a, b, p = 1.3, 0.4, 4
    one, two = np.array([1e14, 1e18, 1e30]), np.zeros(3)
    sizes = (mpmath.log((b + x / 2) / b) for x in one)
    values = (mpmath.hyp2f1(0.5, a + p / 2, 1, -(mpmath.sinh(t / 2) ** 2)) for t in sizes)
    wanted = [float(mpmath.log(value)) for value in values]
    found = InverseGammaSlab(a, b).log_pair_average(one, two, p)
    assert_allclose(found, wanted, rtol=1e-6)


def test_pooled_parameters_are_found_as_quickly_as_newton_finds_them():
    """Near the optimum the error of a step is that of the second order."""
    norms, p = np.array([0.5, 4.0, 9.0, 30.0]), 8
    best = InverseGammaSlab(2.0, 0.4, pooled=True)
    for _ in range(50):
        best = best.update_hyperparameters(norms, p)
    for da, db in ((1e-3, 0.0), (0.0, 1e-3), (1e-3, -1e-3)):
        near = replace(best, shape=best.shape * np.exp(da), rate=best.rate * np.exp(db))
        after = near.update_hyperparameters(norms, p)
        away = np.log([after.shape / best.shape, after.rate / best.rate])
        assert np.abs(away).max() < 10 * 1e-3**2


def test_a_step_of_pooled_parameters_is_not_too_long():
    far = InverseGammaSlab(0.002, 5e3, pooled=True)
    after = far.update_hyperparameters(np.array([1e-3, 2e-3, 5e-3]), 6)
    moved = np.log([after.shape / far.shape, after.rate / far.rate])
    assert 0.1 < np.abs(moved).max() <= 2.0 + 1e-9
