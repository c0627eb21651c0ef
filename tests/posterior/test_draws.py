"""Draws from q, the covariance they imply, and the paper's MSE."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cuspfa import CuspPrior, GaussianSlab
from cuspfa.errors import InputError
from cuspfa.inference.updates import Loadings
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.posterior.distributions import ScoreDistribution
from cuspfa.posterior.draws import Draws, correlation_mse
from cuspfa.posterior.variational import VariationalPosterior


def make_posterior(p=4, k=3, seed=0):
    rng = np.random.default_rng(seed)
    return VariationalPosterior(
        loadings_distribution=Loadings(
            rng.normal(size=(p, k)),
            rng.normal(size=(k, k)),
            rng.uniform(0.5, 2, size=p),
            rng.uniform(3, 10, size=k),
            0.0,
        ),
        noise_distribution=Noise(np.full(p, 8.0), rng.uniform(2, 5, size=p)),
        score_distribution=ScoreDistribution(np.eye(k), np.eye(k), 16.0),
        slab_probability=np.ones(k),
        expected_active=float(k),
        tail_variance=rng.uniform(0, 0.1, size=p),
        slab=GaussianSlab(1.0),
        prior=CuspPrior(),
        statistics=None,
        n_rows=16,
        center=rng.normal(size=p),
        scale=rng.uniform(0.5, 2, size=p),
    )


def test_draws_have_the_moments_of_q():
    posterior = make_posterior()
    draws = posterior.draw(mean_field=True, n_draws=60_000, random_state=1)
    basis, spread, scale = (
        posterior.loadings_distribution.basis,
        posterior.loadings_distribution.spread,
        posterior.scale,
    )
    for j in range(4):
        expected = scale[j] ** 2 * (basis * spread[j]) @ basis.T
        observed = np.cov(draws.loadings[:, j], rowvar=False)
        assert_allclose(observed, expected, atol=0.04 * np.abs(expected).max())
        assert not np.allclose(observed, 1.2 * expected, atol=0.04 * np.abs(expected).max())
    assert_allclose(draws.loadings.mean(axis=0), posterior.loadings, atol=0.03)
    own = posterior.noise_distribution.rate / (posterior.noise_distribution.shape - 1)
    expected = scale**2 * (own + posterior.tail_variance)
    assert_allclose(draws.noise_variance.mean(axis=0), expected, rtol=0.02)
    # Rows of Λ are independent under q.
    a, b = draws.loadings[:, 0, 0], draws.loadings[:, 1, 0]
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.02


def test_expected_covariance_is_the_mean_of_the_draws():
    posterior = make_posterior()
    omega = posterior.draw(mean_field=True, n_draws=60_000, random_state=2).covariance
    error = 4.5 * omega.std(axis=0) / np.sqrt(len(omega))
    assert np.all(np.abs(omega.mean(axis=0) - posterior.covariance) < error)
    plugged_in = posterior.loadings @ posterior.loadings.T
    plugged_in += np.diag(posterior.scale**2 * posterior.noise_distribution.variance)
    assert not np.all(np.abs(omega.mean(axis=0) - plugged_in) < error)


def test_covariance_and_correlation_are_as_defined():
    draws = make_posterior().draw(mean_field=True, n_draws=5, random_state=3)
    for i in range(5):
        omega = draws.loadings[i] @ draws.loadings[i].T + np.diag(draws.noise_variance[i])
        assert_allclose(draws.covariance[i], omega)
        root = np.diag(1 / np.sqrt(np.diag(omega)))
        assert_allclose(draws.correlation[i], root @ omega @ root)


def test_mse_is_the_papers_formula():
    draws = make_posterior().draw(mean_field=True, n_draws=250, random_state=4)
    target = np.corrcoef(np.random.default_rng(5).normal(size=(9, 4)), rowvar=False)
    total = 0.0
    for j in range(4):
        for q in range(j, 4):
            total += float(np.mean((draws.correlation[:, j, q] - target[j, q]) ** 2))
    assert correlation_mse(draws, target) == pytest.approx(total / (4 * 5 / 2))


def test_batches_are_the_same_draws():
    draws = make_posterior().draw(mean_field=True, n_draws=25, random_state=6)
    parts = list(draws.batches(10))
    assert [len(part) for part in parts] == [10, 10, 5]
    assert_allclose(np.concatenate([part.loadings for part in parts]), draws.loadings)


def test_same_seed_same_draws():
    posterior = make_posterior()
    a, b = (
        posterior.draw(mean_field=True, n_draws=3, random_state=7),
        posterior.draw(mean_field=True, n_draws=3, random_state=7),
    )
    assert np.array_equal(a.loadings, b.loadings)
    assert isinstance(a, Draws)
    with pytest.raises(InputError, match=r"n_draws must be a whole number not below 1\. Got 0"):
        posterior.draw(mean_field=True, n_draws=0)
