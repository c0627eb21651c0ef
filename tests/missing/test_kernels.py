"""Sweeps over incomplete rows leave the posterior as it is, and their draws cover."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from cuspfa import CuspFactorAnalysis, CuspPrior, InverseGammaSlab, datasets
from cuspfa.inference.kernels import Chains, Scales, draw_loadings
from cuspfa.missing import kernels as module
from cuspfa.missing.kernels import FilledChains, RowsInMemory, draw_observed_scores, sweep_filled
from cuspfa.missing.patterns import IncompleteRows
from joint_draws import smallest_p_value

PRIOR = CuspPrior(noise_shape=4.0, noise_rate=2.0)
SLAB = InverseGammaSlab(3.0, 1.5)
SETS, P, K = 900, 4, 2
FEW, MANY = 3, 14
"""Complete rows that a sweep takes one by one, and rotated into p + 1 of them."""


def joint_draw(rng, n_complete):
    """Parameters from the prior, means of zero, incomplete data; all from the model alone."""
    theta = stats.invgamma(3.0, scale=1.5).rvs((1, K), random_state=rng)
    loadings = np.sqrt(theta) * rng.standard_normal((P, 1, K))
    noise = 2.0 / rng.gamma(4.0, size=(P, 1))
    n = n_complete + 5
    scores = rng.standard_normal((n, K))
    y = scores @ loadings[:, 0].T + rng.standard_normal((n, P)) * np.sqrt(noise[:, 0])
    seen = rng.random((n, P)) > 0.3
    seen[:n_complete] = True
    chains = Chains(loadings, noise, Scales(theta, (np.array([3.0]), np.array([1.5]))))
    rows = RowsInMemory(IncompleteRows(np.where(seen, y, 0.0), seen))
    filled = y[rows.data.order][rows.missing][None]
    return FilledChains(chains, filled, np.zeros((P, 1))), rows, y


def features(at, y, seen_square):
    """Nothing here depends on where the means are: their prior is flat."""
    loadings, noise = at.chains.loadings[:, 0], at.chains.noise[:, 0]
    omega = loadings @ loadings.T + np.diag(noise)
    centred = y - y.mean(axis=0)
    return [
        np.log(np.trace(omega)),
        omega[0, 1] / np.sqrt(omega[0, 0] * omega[1, 1]),
        np.log(noise[0]),
        np.linalg.slogdet(omega)[1],
        np.arcsinh(omega[0, 1] * seen_square),
        np.log(at.chains.scales.variances[0, 0]),
        np.trace(np.linalg.solve(omega, centred.T @ centred)),
    ]


def one_step(n_complete=FEW, steps=2, seed=0):
    rng = np.random.default_rng(seed)
    before, after = [], []
    for i in range(SETS):
        at, rows, y = joint_draw(rng, n_complete)
        square = np.cov(y[:3, :2], rowvar=False)[0, 1]
        if i % 2:
            before.append(features(at, y, square))
            continue
        for _ in range(steps):
            at = sweep_filled(at, rows, SLAB, PRIOR, rng)
        table = rows.data.rows.copy()
        table[rows.missing] = at.filled[0]
        after.append(features(at, table, square))
    return smallest_p_value(before, after)


@pytest.mark.parametrize("n_complete", [FEW, MANY])
def test_a_sweep_leaves_the_joint_law_as_it_is(n_complete):
    assert one_step(n_complete) > 1e-4


def test_a_wrong_sweep_is_found_out(monkeypatch):
    monkeypatch.setattr(module, "draw_loadings", lambda *args: 0.8 * draw_loadings(*args))
    assert one_step(steps=5) < 1e-4


def test_rotated_rows_that_are_left_out_count(monkeypatch):
    monkeypatch.setattr(module, "wishart_root", lambda df, size, k, rng: np.zeros((size, k, k)))
    assert one_step(MANY, steps=5) < 1e-4


def test_complete_rows_are_rotated_into_few():
    rng = np.random.default_rng(0)
    y, seen = rng.normal(size=(30, P)), np.ones((30, P), dtype=bool)
    seen[::10, 1] = False
    data = IncompleteRows(np.where(seen, y, 0.0), seen)
    found = data.to_fill
    assert found.rows.shape == (3 + P + 1, P)
    assert found.n_zero == 30 - 3 - (P + 1)
    assert_allclose(found.rows.T @ found.rows, data.rows.T @ data.rows, atol=1e-12)
    assert_allclose(found.ones.T @ found.rows, data.rows.sum(axis=0)[None], atol=1e-12)
    assert_allclose(found.ones.T @ found.ones, [[30.0]], atol=1e-12)
    np.testing.assert_array_equal(found.rows[found.missing], 0.0)
    assert len(found.missing[0]) == 3


def test_scores_given_what_is_observed():
    rng = np.random.default_rng(0)
    loadings, noise = rng.normal(size=(4, 2)), rng.uniform(0.3, 1.0, 4)
    mean = rng.normal(size=4)
    y = rng.normal(size=(3, 4))
    seen = np.array([[True] * 4, [False] * 4, [True, False, True, False]])
    data = IncompleteRows(np.where(seen, y, 0.0), seen)
    drawn = np.array([draw_observed_scores(data, loadings, noise, mean, rng) for _ in range(8_000)])
    place = np.argsort(data.order)
    for i in range(3):
        o = seen[i]
        omega = loadings[o] @ loadings[o].T + np.diag(noise[o])
        weights = loadings[o].T @ np.linalg.inv(omega)
        assert_allclose(drawn[:, place[i]].mean(axis=0), weights @ (y[i] - mean)[o], atol=0.05)
        covariance = np.eye(2) - weights @ loadings[o]
        assert_allclose(np.cov(drawn[:, place[i]], rowvar=False), covariance, atol=0.05)


def test_few_sweeps_have_the_spread_of_many_and_mean_field_has_not():
    x = datasets.simulate(80, 6, 2, random_state=0).X
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    posterior = CuspFactorAnalysis(n_factors=2).fit(x).posterior_

    def spread(**settings):
        return posterior.draw(1500, random_state=0, **settings).covariance.std(axis=0)

    many, few, plain = spread(sweeps=60), spread(), spread(mean_field=True)
    assert_allclose(np.mean(few / many), 1.0, atol=0.08)
    assert np.mean(plain / many) < 0.85


@pytest.mark.parametrize("size", [1, 3, 41, 60])
def test_any_number_of_draws(size):
    x = datasets.simulate(40, 5, 1, random_state=1).X
    x[::5, 2] = np.nan
    posterior = CuspFactorAnalysis(n_factors=1).fit(x).posterior_
    draws = posterior.draw(size, random_state=0)
    assert draws.loadings.shape == (size, 5, 1)
    assert np.all(draws.noise_variance > 0)
    assert len(np.unique(draws.noise_variance[:, 0])) == size
    again = posterior.draw(size, random_state=0)
    assert_allclose(draws.mean, again.mean, rtol=0)
