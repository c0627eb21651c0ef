"""The variational run over single cells against loops, integrals and the engine of missing data."""

import numpy as np
import pytest

from cuspfa import CuspPrior, GaussianSlab, InverseGammaSlab
from cuspfa.inference.cellwise.state import principal_factors
from cuspfa.inference.variational import steps as complete_steps
from cuspfa.inference.variational.elbo import lower_bound
from cuspfa.inference.variational.init import state_at as complete_state_at
from cuspfa.inference.variational.px_step import px_step
from cuspfa.missing.source import MissingDataSource
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood, ContinuousParameters
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.likelihoods.mixed import MixedLikelihood, Part
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from oracles import cell_variational as steps
from oracles import cellwise as literal
from oracles.cell_variational import (
    CellModel,
    cell_iteration,
    evaluated,
    objective,
    run_cells,
    start_at,
)
from support import factor_rows, incomplete_rows, with_missing

SLAB = InverseGammaSlab(2.0, 0.4)


def ordinal_rows(n, p, k, seed, levels=3, strength=0.8):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(n, k)) @ (strength * rng.normal(size=(k, p)))
    cuts = np.linspace(-0.8, 0.9, levels - 1)
    return np.sum((f + rng.normal(size=(n, p)))[:, :, None] > cuts, axis=2).astype(float)


def ordinal_model(rows, *, point=False, slab=SLAB, link="probit"):
    one = OrdinalLikelihood.of(rows, link=link)
    return CellModel(one.check(rows), one, CuspPrior(slab=slab), point)


# --- continuous columns are the engine of missing data ---


@pytest.mark.parametrize("slab", [GaussianSlab(0.7), SLAB, InverseGammaSlab(2, 0.4, pooled=True)])
def test_continuous_columns_are_the_engine_of_missing_data(slab):
    rows = with_missing(factor_rows(60, 7, 2, np.random.default_rng(0)), 0.2)
    rows -= np.nanmean(rows, axis=0)
    prior = CuspPrior(slab=slab, noise_shape=1.0, noise_rate=0.3)
    source = MissingDataSource(incomplete_rows(rows), flat_mean=False)
    start, variance = np.random.default_rng(1).normal(size=(7, 2)), np.full(7, 0.8)
    want = complete_state_at(start, variance, source, prior, 3)

    one = ContinuousLikelihood(tuple("abcdefg"), 1.0, 0.3, fixed_location=True)
    model = CellModel(one.check(rows), one, prior)
    noise = Noise(*want.noise)
    got = start_at(start, model, ContinuousParameters(np.zeros(7), noise))
    got = steps.step_row_scores(got, model)
    for _ in range(4):
        want = complete_steps.step_loadings(want, source, prior)
        want = complete_steps.step_noise(want, source, prior)
        want = complete_steps.step_scores(want, source, prior)
        want = px_step(want, source, prior)
        want = complete_steps.step_slab(want, source, prior)
        got = steps.step_parameters(steps.step_column_loadings(got, model), model)
        got = steps.step_hyperparameters(
            steps.step_px(steps.step_row_scores(got, model), model), model
        )
        np.testing.assert_allclose(got.loadings.mean, want.loadings.mean, atol=1e-8)
        np.testing.assert_allclose(got.loadings.covariance, want.loadings.covariances(), atol=1e-8)
        np.testing.assert_allclose(
            steps.total_of(got.scores), want.scores.total, rtol=1e-8, atol=1e-8
        )
        np.testing.assert_allclose(got.parameters.noise.rate, want.noise.rate, rtol=1e-8)
        bound = lower_bound(want, source, prior)
        np.testing.assert_allclose(objective(got, model), bound, rtol=1e-8, atol=1e-8)


# --- ordinal columns are the loops ---


@pytest.mark.parametrize("point", [True, False])
def test_steps_are_the_loops(point):
    rows = ordinal_rows(7, 4, 2, 0)
    rows[:3, 3], rows[5, 1] = [0, 1, 2], np.nan
    model = ordinal_model(rows, point=point)
    x = model.values
    state = start_at(0.6 * np.random.default_rng(2).normal(size=(4, 2)), model)
    for _ in range(2):
        mean, covariance = state.loadings.mean, state.loadings.covariance
        e = literal.all_expectations(x, state.parameters, mean, covariance, *state.scores[:2])
        np.testing.assert_allclose(state.cells, e, atol=1e-5)
        m, v = literal.scores(e[1], e[2], mean, covariance, state.scores.mean)
        state = steps.step_row_scores(state, model)
        np.testing.assert_allclose(state.scores.mean, m, atol=1e-5)
        np.testing.assert_allclose(state.scores.covariance, v, atol=1e-5)
        e = literal.all_expectations(x, state.parameters, mean, covariance, m, v)
        t = SLAB.precision(np.sum(mean**2 + np.diagonal(covariance, 0, 1, 2), axis=0), 4)
        new, spread = literal.loadings(e[1], e[2], m, v, mean, t)
        state = steps.step_column_loadings(state, model)
        np.testing.assert_allclose(state.loadings.mean, new, atol=1e-4)
        np.testing.assert_allclose(state.loadings.covariance, 0 if point else spread, atol=1e-5)


def test_the_loops_notice_a_wrong_sign():
    # The negative control of the test above: a gradient without the part of V_i.
    rows = ordinal_rows(7, 4, 2, 0)
    rows[:3, 3] = [0, 1, 2]
    model = ordinal_model(rows, point=True)
    state = steps.step_row_scores(start_at(np.full((4, 2), 0.6), model), model)
    e1, e2 = state.cells.slope, state.cells.curvature
    t = SLAB.precision(np.sum(state.loadings.mean**2, axis=0), 4)
    m, v = state.scores.mean, state.scores.covariance
    wrong, _ = literal.loadings(e1, e2, m, np.zeros_like(v), state.loadings.mean, t)
    right = steps.step_column_loadings(state, model).loadings.mean
    assert np.max(np.abs(right - wrong)) > 0.02


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("point", [True, False])
def test_the_objective_is_stationary_where_a_run_ends(point, link):
    model = ordinal_model(ordinal_rows(40, 4, 1, 3), point=point, link=link)
    run = run_cells(start_at(principal_factors(model.values, 1), model), model, tol=1e-9)
    assert run.converged
    assert run.falls == 0
    state, best = run.state, run.bound.total

    def value(**changed):
        return objective(evaluated(state._replace(**changed), model), model).total

    size = 0.05
    for sign in (-size, size):
        loadings = state.loadings
        moved = loadings._replace(mean=loadings.mean + sign * np.eye(4, 1))
        assert value(loadings=moved) < best
        scores = state.scores._replace(mean=state.scores.mean + sign * np.eye(40, 1))
        assert value(scores=scores) < best
        wider = state.scores._replace(
            covariance=state.scores.covariance * (1 + sign),
            log_det=state.scores.log_det + np.log1p(sign),
        )
        assert value(scores=wider) < best
        cuts = state.parameters.copy()
        cuts[2, 0] += sign
        assert value(parameters=cuts) < best
        if not point:
            widened = loadings._replace(
                covariance=loadings.covariance * (1 + sign),
                log_det=loadings.log_det + 4 * np.log1p(sign),
            )
            assert value(loadings=widened) < best


def test_the_objective_of_certain_loadings_is_a_lower_bound():
    rows = ordinal_rows(12, 4, 1, 4)
    rows[:3] = np.arange(3)[:, None]
    rows[4, 2] = np.nan
    model = ordinal_model(rows, point=True)
    state = start_at(0.9 * np.ones((4, 1)), model)
    prior = SLAB.log_density(np.sum(state.loadings.mean**2, axis=0), 4).sum()
    prior += steps.log_prior(model.likelihood, state.parameters)
    prior += model.prior.log_count_probability(1)
    exact = literal.log_marginal(model.values, state.loadings.mean, state.parameters) + prior
    values = [objective(state, model).total]
    for _ in range(15):
        state = steps.step_row_scores(state, model)
        values.append(objective(state, model).total)
    assert np.all(np.diff(values) >= -1e-9)
    assert values[-1] < exact
    assert exact - values[-1] < 0.1  # the posterior of a row's score is nearly normal
    # The control: mean field over truncated normal responses has a gap of many nats here.
    wider = state.scores._replace(covariance=2 * state.scores.covariance)
    loose = objective(evaluated(state._replace(scores=wider), model), model).total
    assert exact - loose > 0.1


@pytest.mark.parametrize("point", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_never_falls(point, seed):
    # From starts far away, where whole steps fall.
    rows = ordinal_rows(50, 6, 2, seed, levels=2, strength=2.5)
    model = ordinal_model(rows, point=point)
    start = 6.0 * np.random.default_rng(seed).normal(size=(6, 2))
    state = steps.step_column_loadings(steps.step_row_scores(start_at(start, model), model), model)
    values = [objective(state, model).total]
    for _ in range(12):
        for step in (
            steps.step_row_scores,
            steps.step_px,
            steps.step_shift,
            steps.step_column_loadings,
            steps.step_parameters,
            steps.step_hyperparameters,
        ):
            state = step(state, model)
            values.append(objective(state, model).total)
    assert np.all(np.diff(values) >= -1e-8)


def far_from_its_optimum(link):
    """A state with scores that are certain and wrong: the cells have nearly no curvature."""
    rows = ordinal_rows(50, 6, 1, 0, levels=2, strength=2.5)
    model = ordinal_model(rows, point=True, slab=GaussianSlab(100.0), link=link)
    state = start_at(np.full((6, 1), 8.0), model)
    scores = state.scores._replace(
        mean=4.0 * np.random.default_rng(0).normal(size=(50, 1)),
        covariance=state.scores.covariance * 1e-4,
        log_det=np.full(50, np.log(1e-4)),
    )
    return evaluated(state._replace(scores=scores), model), model


def test_steps_are_halved_where_whole_ones_would_fall(monkeypatch):
    state, model = far_from_its_optimum("logit")
    before = objective(state, model).total
    for step in (steps.step_row_scores, steps.step_column_loadings):
        assert objective(step(state, model), model).total > before
    monkeypatch.setattr(steps, "STEP_HALVINGS", 1)  # and what falls stays where it was
    assert objective(steps.step_column_loadings(state, model), model).total >= before - 1e-9
    monkeypatch.setattr(steps, "STEP_ROUNDING", np.inf)  # the control: whole steps
    assert objective(steps.step_column_loadings(state, model), model).total < before


def test_missing_cells_have_no_weight():
    rows = ordinal_rows(30, 5, 1, 5)
    rows[4] = np.nan
    rows[7, 2] = np.nan
    model = ordinal_model(rows)
    state = run_cells(start_at(np.full((5, 1), 0.5), model), model).state
    state = steps.step_row_scores(state, model)
    assert np.all(state.cells.weights[np.isnan(rows)] == 0)
    assert np.all(state.cells.weights[~np.isnan(rows)] > 0)
    np.testing.assert_allclose(state.scores.covariance[4], 1.0)  # the prior
    np.testing.assert_allclose(state.scores.mean[4], 0.0, atol=1e-12)


def test_columns_of_two_kinds_share_their_factors():
    rng = np.random.default_rng(6)
    eta = rng.normal(size=(1000, 1))
    response = 1.0 * eta + rng.normal(size=(1000, 6))
    rows = response.copy()
    rows[:, :3] = response[:, :3] > 0.4
    rows[rng.random(rows.shape) < 0.05] = np.nan
    ordinal = OrdinalLikelihood.of(rows[:, :3], tuple("abc"))
    both = MixedLikelihood(
        (Part(ordinal, np.arange(3)), Part(ContinuousLikelihood(tuple("def")), np.arange(3, 6)))
    )
    model = CellModel(both.check(rows), both, CuspPrior(slab=SLAB))
    run = run_cells(start_at(principal_factors(model.values, 1), model), model)
    assert run.falls == 0
    found = run.state.loadings.mean[:, 0] * np.sign(run.state.loadings.mean[0, 0])
    np.testing.assert_allclose(found, 1.0, atol=0.3)
    scores = run.state.scores.mean[:, 0] * np.sign(run.state.loadings.mean[0, 0])
    assert np.corrcoef(scores, eta[:, 0])[0, 1] > 0.85
    np.testing.assert_allclose(1 / run.state.parameters[1].noise.precision, 1.0, atol=0.3)


def test_an_iteration_is_a_function_of_its_state():
    model = ordinal_model(ordinal_rows(20, 4, 1, 7))
    state = start_at(np.full((4, 1), 0.5), model)
    kept = [np.array(part) for part in (*state.scores, *state.cells, state.parameters)]
    once, again = cell_iteration(state, model), cell_iteration(state, model)
    np.testing.assert_array_equal(once.loadings.mean, again.loadings.mean)
    for before, after in zip(kept, (*state.scores, *state.cells, state.parameters), strict=True):
        np.testing.assert_array_equal(before, after)
