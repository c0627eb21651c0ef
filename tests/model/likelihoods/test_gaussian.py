"""Gaussian rows with their scores integrated out, against SciPy's dense densities."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cuspfa import CuspPrior
from cuspfa.data.in_memory import RotatedRows
from cuspfa.model.likelihoods.gaussian import (
    MarginalGaussian,
    draw_noise,
    marginal_log_likelihood,
    marginal_log_likelihoods,
)

RNG = np.random.default_rng(3)
P, K, N = 5, 2, 12
LOADINGS = RNG.normal(size=(P, K))
NOISE = RNG.uniform(0.3, 2.0, P)
Y = RNG.normal(size=(N, P)) * 1.5
OMEGA = LOADINGS @ LOADINGS.T + np.diag(NOISE)


def products(w):
    cross = Y.T @ (Y @ w)
    return cross, w.T @ cross


@pytest.mark.parametrize("k", [0, 1, 2])
def test_the_likelihood_of_all_rows_is_that_of_the_dense_covariance(k):
    loadings = LOADINGS[:, :k]
    dense = multivariate_normal(np.zeros(P), loadings @ loadings.T + np.diag(NOISE))
    found = marginal_log_likelihood(loadings, NOISE, (Y**2).sum(axis=0), N, products)
    assert found == pytest.approx(dense.logpdf(Y).sum(), rel=1e-12)


def test_the_likelihood_of_draws_is_that_of_each_dense_covariance():
    draws = np.stack([LOADINGS, 0.3 * LOADINGS], axis=1)
    noise = np.column_stack([NOISE, 2.0 * NOISE])
    found = marginal_log_likelihoods(draws, noise, RotatedRows(None, Y, float(N)))
    for b in range(2):
        omega = draws[:, b] @ draws[:, b].T + np.diag(noise[:, b])
        wanted = multivariate_normal(np.zeros(P), omega).logpdf(Y).sum()
        assert found[b] == pytest.approx(wanted, rel=1e-12)


def test_a_row_and_its_scores_are_those_of_the_joint_distribution():
    mean = np.arange(P) / 2.0
    one = MarginalGaussian(mean, LOADINGS.T, NOISE)
    np.testing.assert_allclose(one.covariance(), OMEGA, rtol=1e-12)
    np.testing.assert_allclose(one.precision(), np.linalg.inv(OMEGA), rtol=1e-9, atol=1e-12)
    dense = multivariate_normal(mean, OMEGA)
    np.testing.assert_allclose(one.log_density(Y), dense.logpdf(Y), rtol=1e-11)
    weights = np.linalg.solve(OMEGA, LOADINGS)
    np.testing.assert_allclose(one.scores(Y), (Y - mean) @ weights, rtol=1e-10)
    left = np.eye(K) - LOADINGS.T @ weights
    np.testing.assert_allclose(one.score_covariance, left, rtol=1e-10)
    np.testing.assert_allclose(one.score_covariances(Y), np.broadcast_to(left, (N, K, K)))


@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_noise_is_drawn_around_the_residual_sum_of_squares(size):
    """Its mean is (rate + RSS/2) / (shape + n/2 − 1), also where little is left."""
    rng = np.random.default_rng(0)
    scores, draws = rng.normal(size=(N, K)), 4000
    rows = scores @ LOADINGS.T + size * rng.normal(size=(N, P))
    rss = np.sum((rows - scores @ LOADINGS.T) ** 2, axis=0)
    prior = CuspPrior(noise_shape=1.0, noise_rate=1e-9)
    found = draw_noise(
        np.broadcast_to(LOADINGS[:, None], (P, draws, K)),
        np.broadcast_to((rows.T @ scores)[:, None], (P, draws, K)),
        np.broadcast_to(scores.T @ scores, (draws, K, K)),
        np.sum(rows**2, axis=0)[:, None],
        float(N),
        prior,
        rng,
    )
    wanted = (prior.noise_rate + rss / 2) / (prior.noise_shape + N / 2 - 1)
    # The standard deviation of InvGa(7, ·) is its mean over √5.
    np.testing.assert_allclose(found.mean(axis=1), wanted, rtol=5 / np.sqrt(5 * draws))
