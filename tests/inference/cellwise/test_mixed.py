"""Tables of several kinds of columns: evidence, the choice of K, missing values, and no factor."""

import numpy as np
import pytest

from cuspfa import CuspPrior, GaussianSlab
from cuspfa.inference.cellwise.evidence import bridged_evidence
from cuspfa.inference.cellwise.search import fit_cells, search_cells, share_of_rows
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood
from cuspfa.model.likelihoods.mixed import MixedLikelihood, Part
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from oracles.cell_draws import draw_from_posterior

PRIOR = CuspPrior(slab=GaussianSlab(0.8))


def mixed_rows(n, seed=0, missing=0.05):
    """Three continuous columns, three of four points and three binary ones; two factors."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((9, 2))
    loadings[:5, 0], loadings[4:, 1] = rng.uniform(0.9, 1.4, size=5), rng.uniform(0.9, 1.4, size=5)
    f = rng.normal(size=(n, 2)) @ loadings.T + rng.normal(size=(n, 9))
    rows = np.column_stack(
        [
            50 + 10 * f[:, [0, 4, 8]],
            np.sum(f[:, [1, 5, 6], None] > [-1.0, 0.0, 1.2], axis=2),
            f[:, [2, 3, 7]] > 0.5,
        ]
    ).astype(float)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def likelihood_of(rows, link="probit"):
    return MixedLikelihood(
        (
            Part(ContinuousLikelihood.of(rows[:, :3], tuple("abc")), np.arange(3)),
            Part(OrdinalLikelihood.of(rows[:, 3:6], tuple("def")), np.arange(3, 6)),
            Part(OrdinalLikelihood.of(rows[:, 6:], tuple("ghi"), link), np.arange(6, 9)),
        )
    )


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_the_factors_of_mixed_columns_are_found(link):
    rows = mixed_rows(250)
    one = likelihood_of(rows, link)
    values = one.check(rows)
    found = search_cells(values, one, CuspPrior())
    assert found.best.n_factors == 2
    best = found.best
    if link == "logit":  # sweeps and bridge
        rng = np.random.default_rng(0)
        bridged = bridged_evidence(best.mode, best.state, values, one, CuspPrior(), rng, 6)
        assert bridged.error < 3.0
        assert best.laplace == pytest.approx(bridged.value, abs=3.0 + 3 * bridged.error)
    drawn = draw_from_posterior(best.state, values, one, 16, np.random.default_rng(1))
    assert drawn.loadings.shape == (16, 9, 2)
    assert drawn.packed.shape == (16, one.n_packed)
    assert np.all(np.abs(drawn.correlations) < 1 + 1e-12)


def test_independent_mixed_columns_have_no_factor():
    rng = np.random.default_rng(1)
    rows = mixed_rows(300, missing=0.1)
    for column in rows.T:
        rng.shuffle(column)
    one = likelihood_of(rows)
    values = one.check(rows)
    found = search_cells(values, one, CuspPrior(), bridge=True, rng=rng)
    assert found.best.n_factors == 0
    assert found.best.bridged.error < 1.0
    drawn = draw_from_posterior(found.best.state, values, one, 4, rng)
    np.testing.assert_allclose(drawn.correlations, np.tile(np.eye(9), (4, 1, 1)), atol=1e-12)


def average_over_prior(rows, k, prior, size, rng):
    """log p(y | K) of continuous columns and its error, by draws from the prior.

    The flat prior of the means is integrated out: n − 1 rows are left, and n^(−p/2).
    """
    n, p = rows.shape
    products = (rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0))
    loadings = np.sqrt(prior.slab.variance) * rng.normal(size=(size, p, k))
    noise = prior.noise_rate / rng.gamma(prior.noise_shape, size=(size, p))
    omega = loadings @ loadings.transpose(0, 2, 1)
    omega[:, np.arange(p), np.arange(p)] += noise
    logs = -0.5 * (n - 1) * (p * np.log(2 * np.pi) + np.linalg.slogdet(omega)[1])
    logs -= 0.5 * np.trace(np.linalg.solve(omega, products), axis1=1, axis2=2)
    ratio = np.exp(logs - logs.max())
    error = ratio.std() / ratio.mean() / np.sqrt(size)
    return np.log(ratio.mean()) + logs.max() - 0.5 * p * np.log(n), error


@pytest.mark.parametrize("k", [0, 1, 2])
def test_continuous_columns_have_the_average_over_the_prior(k):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(14, 1)) @ np.ones((1, 3)) + 0.8 * rng.normal(size=(14, 3))
    one = ContinuousLikelihood(tuple("abc"), 2.0, 1.0)
    prior = CuspPrior(slab=GaussianSlab(0.8), noise_shape=2.0, noise_rate=1.0)
    candidate = fit_cells(rows, one, prior, k)
    got = bridged_evidence(candidate.mode, candidate.state, rows, one, prior, rng, 30)
    want, error = average_over_prior(rows, k, prior, 200_000, rng)
    want += prior.log_count_probability(k)
    assert got.error < 0.5
    assert got.value == pytest.approx(want, abs=4 * np.hypot(got.error, error))
    assert candidate.laplace == pytest.approx(want, abs=3.0)  # 14 rows


def test_model_error_asks_for_more_of_each_factor():
    rows = mixed_rows(400, missing=0.0)
    one = likelihood_of(rows)
    values = one.check(rows)
    assert share_of_rows(400, 0.0) == 1.0
    assert share_of_rows(401, 0.05) == pytest.approx(0.5)
    exact, rough = (fit_cells(values, one, PRIOR, 2, share=share) for share in (1.0, 0.5))
    assert exact.mode.log_likelihood > rough.mode.log_likelihood > exact.mode.log_likelihood - 20
    assert np.trace(rough.mode.precision) < 0.7 * np.trace(exact.mode.precision)
    gains = [
        fit_cells(values, one, PRIOR, 2, share=share).laplace
        - fit_cells(values, one, PRIOR, 1, share=share).laplace
        for share in (1.0, 0.5)
    ]
    assert gains[0] > gains[1] + 10
    found = search_cells(values, one, PRIOR, bridge=True, model_error=0.05)
    assert all(candidate.bridged is None for candidate in found.candidates)
