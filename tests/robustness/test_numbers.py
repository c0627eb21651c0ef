"""Rounding: the bound in fifty digits, ill-conditioned data, float32 beside float64."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import bridge
from cuspfa import CuspFactorAnalysis, Moments, datasets
from cuspfa.errors import CuspWarning
from cuspfa.inference.variational.elbo import lower_bound
from oracles import algorithm1 as oracle
from oracles import many_digits
from oracles.algorithm1 import MILD, PAPER
from support import factor_rows


def small_problem(n, p, n_terms, hyper, iterations, scale=1.0):
    rng = np.random.default_rng(n + p)
    y = factor_rows(n, p, 2, rng, noise=0.5)
    y = scale * (y - y.mean(axis=0))
    state = oracle.random_state(n, p, n_terms, rng)
    for _ in range(iterations):
        state = oracle.iteration(y, state, hyper)
    return y, oracle.step1_loadings(y, state, hyper)


@pytest.mark.parametrize(
    ("n", "p", "n_terms", "hyper", "iterations", "scale"),
    [
        (6, 3, 3, MILD, 0, 1.0),
        (6, 3, 3, PAPER, 3, 1.0),
        (4, 5, 4, PAPER, 30, 1.0),
        (8, 2, 2, PAPER, 5, 1e4),
        (8, 2, 2, MILD, 5, 1e-4),
    ],
)
def test_bound_has_the_digits_of_mpmath(n, p, n_terms, hyper, iterations, scale):
    y, state = small_problem(n, p, n_terms, hyper, iterations, scale)
    state = bridge.share_covariance(state)
    exact = many_digits.bound(y, state, hyper)
    ours = lower_bound(
        bridge.package_state(y, state, hyper), bridge.source_of(y), bridge.prior_of(hyper)
    ).total
    size = max(abs(float(exact)), 1.0)
    assert abs(ours - float(exact)) < 1e-10 * size
    # another state is another bound
    other = replace(state, B_sigma=state.B_sigma * (1 + 1e-4))
    assert abs(float(many_digits.bound(y, other, hyper)) - ours) > 1e-10 * size


def fitted(rows, **settings):
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        return CuspFactorAnalysis(random_state=0, **settings).fit(rows)


def with_condition(condition, n=200, p=8):
    """Rows whose sample correlation matrix has about this condition number."""
    rng = np.random.default_rng(5)
    q, _ = np.linalg.qr(rng.standard_normal((p, p)))
    values = np.geomspace(1.0, 1.0 / condition, p)
    rows = rng.standard_normal((n, p)) @ (q * np.sqrt(values)) @ q.T
    return rows - rows.mean(axis=0)


@pytest.mark.parametrize("condition", [1e2, 1e6, 1e9, 1e12])
def test_ill_conditioned_data(condition):
    rows = with_condition(condition)
    model = fitted(rows)
    covariance, sample = model.get_covariance(), np.cov(rows, rowvar=False)
    sd = np.sqrt(np.diag(sample))
    assert np.linalg.cond(sample / sd / sd[:, None]) > condition / 30
    identity = model.get_precision() @ covariance
    np.testing.assert_allclose(identity, np.eye(len(sd)), atol=1e-7)
    np.testing.assert_allclose(covariance / sd / sd[:, None], sample / sd / sd[:, None], atol=0.2)
    direct = -0.5 * np.einsum("ij,jk,ik->i", rows, np.linalg.inv(covariance), rows)
    direct -= 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    np.testing.assert_allclose(model.score_samples(rows), direct, rtol=1e-6, atol=1e-6)
    # the same from moments and from columns in another order
    moments = fitted_moments(Moments.from_rows(rows))
    np.testing.assert_allclose(moments.get_covariance(), covariance, atol=1e-6 * covariance.max())
    turned = fitted(rows[:, ::-1])
    assert turned.n_factors_ == model.n_factors_
    np.testing.assert_allclose(turned.get_covariance()[::-1, ::-1], covariance, atol=1e-3)


def fitted_moments(moments):
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        return CuspFactorAnalysis(random_state=0).fit_moments(moments)


@pytest.mark.parametrize(("n", "p"), [(300, 10), (20, 40)])
def test_float32_gives_the_answer_of_float64(n, p):
    rows = datasets.simulate(n, p, 2, random_state=4).X
    single = rows.astype(np.float32)
    one, two = fitted(single), fitted(rows)
    exact = fitted(single.astype(float))
    # the same numbers: the same answer; rounded numbers: an answer as near as these
    np.testing.assert_array_equal(one.get_covariance(), exact.get_covariance())
    assert one.n_factors_ == two.n_factors_
    np.testing.assert_allclose(one.get_covariance(), two.get_covariance(), atol=1e-5)
    assert one.get_covariance().dtype == np.float64
    assert not np.array_equal(one.get_covariance(), two.get_covariance())


@pytest.mark.parametrize("power", [-400, -40, 40, 400])
def test_powers_of_two_change_no_bit_of_the_loadings(power):
    rows = datasets.simulate(60, 6, 2, random_state=4).X
    one, two = fitted(rows), fitted(np.ldexp(rows, power))
    np.testing.assert_array_equal(one.loadings_, two.loadings_)
    np.testing.assert_array_equal(np.ldexp(one.noise_variance_, 2 * power), two.noise_variance_)
