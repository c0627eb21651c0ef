"""The package's iteration and bound against the literal Algorithm 1, from the same state."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bridge
from cuspfa.inference.variational.elbo import lower_bound
from oracles import algorithm1 as oracle
from support import factor_rows

SHAPES = [(30, 6, 7), (6, 15, 16), (40, 5, 3), (12, 4, 1), (9, 1, 2), (2, 3, 4)]
HYPERS = {
    "paper": oracle.PAPER,
    "mild": oracle.Hyper(alpha=1.7, theta_0=2.5, theta_inf=0.2, a_sigma=2.2, b_sigma=0.9),
}
CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}


def problem(shape, seed=0):
    n, p, n_terms = shape
    rng = np.random.default_rng(seed)
    k = min(3, p)
    y = factor_rows(n, p, k, rng, noise=0.6)
    return y, bridge.share_covariance(oracle.random_state(n, p, n_terms, rng))


def assert_same(state, literal, y):
    loadings, noise, scores, _, labels, sticks, _ = state
    assert_allclose(loadings.mean, literal.mu_lambda, **CLOSE)
    ours, theirs = bridge.row_covariances(loadings), literal.V_lambda
    sd = np.sqrt(np.einsum("jhh->jh", theirs))  # spike entries are 1e-6: compare as correlations
    relative = (ours - theirs) / sd[:, :, None] / sd[:, None, :]
    assert np.abs(relative).max() < 1e-9
    log_det = np.linalg.slogdet(literal.V_lambda)[1].sum()
    assert_allclose(loadings.log_det, log_det, rtol=1e-9)
    assert_allclose(noise.shape, literal.A_sigma, **CLOSE)
    assert_allclose(noise.rate, literal.B_sigma, **CLOSE)
    expected = bridge.scores_of(y, literal.mu_eta, literal.V_eta)
    assert_allclose(scores.cross, expected.cross, rtol=1e-9, atol=1e-10)
    assert_allclose(scores.second, expected.second, rtol=1e-9, atol=1e-10)
    assert_allclose(scores.log_det, expected.log_det, rtol=1e-9, atol=1e-10)
    expected = bridge.labels_of(literal.kappa)
    assert_allclose(labels.active, expected.active, **CLOSE)
    assert_allclose(labels.inactive, expected.inactive, **CLOSE)
    assert_allclose(labels.stick_counts, expected.stick_counts, **CLOSE)
    assert_allclose(labels.entropy, expected.entropy, rtol=1e-9, atol=1e-9)
    assert_allclose(sticks.a, literal.A_v, **CLOSE)
    assert_allclose(sticks.b, literal.B_v, **CLOSE)


@pytest.mark.parametrize("hyper", HYPERS.values(), ids=HYPERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_step_equals_the_literal_one(shape, hyper):
    y, literal = problem(shape)
    source, prior = bridge.source_of(y), bridge.prior_of(hyper)
    state = bridge.package_state(y, literal, hyper)
    for _ in range(3):
        for step, literal_step in zip(bridge.STEPS, oracle.STEPS, strict=True):
            state, literal = step(state, source, prior), literal_step(y, literal, hyper)
            assert_same(state, literal, y)
            bound = lower_bound(state, source, prior)
            assert_allclose(bound.total, oracle.bound(y, literal, hyper), rtol=1e-9, atol=1e-9)
    assert_allclose(state.expected_active, oracle.expected_active(literal), **CLOSE)


@pytest.mark.parametrize("hyper", HYPERS.values(), ids=HYPERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_term_of_the_bound_at_an_arbitrary_state(shape, hyper):
    y, literal = problem(shape, seed=1)
    state = bridge.package_state(y, literal, hyper)
    ours = lower_bound(state, bridge.source_of(y), bridge.prior_of(hyper))
    terms = oracle.bound_terms(y, literal, hyper)
    assert_allclose(ours.likelihood, terms["likelihood"], rtol=1e-10)
    for block in ("loadings", "scores", "noise", "labels", "sticks"):
        expected = terms[f"{block}_prior"] + terms[f"{block}_entropy"]
        assert_allclose(getattr(ours, block), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(126, 25, 26), (20, 60, 61)], ids=str)
def test_still_together_after_25_cycles(shape):
    y, literal = problem(shape, seed=2)
    hyper = HYPERS["paper"]
    source, prior = bridge.source_of(y), bridge.prior_of(hyper)
    state = bridge.package_state(y, literal, hyper)
    for _ in range(25):
        literal = oracle.iteration(y, literal, hyper)
        for step in bridge.STEPS:
            state = step(state, source, prior)
    ours = lower_bound(state, source, prior).total
    assert_allclose(ours, oracle.bound(y, literal, hyper), rtol=1e-9)
    assert_allclose(state.labels.active, bridge.labels_of(literal.kappa).active, atol=1e-9)
