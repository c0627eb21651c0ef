"""Sweeps with model error: the rows of the exact model, and the joint distribution of everything.

Densities, prior and data are written from the model alone; scipy's distributions are the oracle.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp, multigammaln

from cuspfa import CuspPrior, InverseGammaSlab
from cuspfa.data.in_memory import RotatedRows
from cuspfa.inference.gibbs import model_error
from cuspfa.inference.gibbs.chain import GibbsState, Model, sweep
from cuspfa.inference.gibbs.model_error import ModelErrorKernel, draw_exact_rows
from cuspfa.inference.kernels import Chains, Scales
from cuspfa.model.model_error import ModelError, Sample, log_marginal_density
from joint_draws import covariance_features, largest_difference

# --- the identity ---


def mean_over_exact_rows(products, rows, model, scale, error, rng, size=40_000):
    """log p(A | Ω) and its error, as a mean of IW(A; m, scale · G) over draws G ~ W(ν, Ω)."""
    p, m = len(model), error.degrees
    drawn = scale * stats.wishart(df=rows, scale=model).rvs(size, random_state=rng)
    inverse = np.linalg.inv(products)
    log_det = np.linalg.slogdet(drawn)[1]
    terms = 0.5 * (m * log_det - np.einsum("sij,ji->s", drawn, inverse))
    weights = np.exp(terms - terms.max())
    constant = -0.5 * m * p * np.log(2) - multigammaln(m / 2, p)
    constant -= 0.5 * (m + p + 1) * np.linalg.slogdet(products)[1]
    value = constant + logsumexp(terms) - np.log(size)
    return value, weights.std() / weights.mean() / np.sqrt(size)


def test_marginal_density_is_the_mean_over_exact_rows():
    rng = np.random.default_rng(0)
    p, rows = 2, 6
    model, error = np.array([[1.0, 0.4], [0.4, 2.0]]), ModelError.of_size(0.25, p)
    y = rng.standard_normal((rows, p)) * [1.0, 1.5]
    products = y.T @ y
    # From the density of the rows to that of their cross-products.
    found = float(log_marginal_density(model, Sample(products, float(rows)), error))
    found += 0.5 * rows * p * np.log(np.pi) - multigammaln(rows / 2, p)
    found += 0.5 * (rows - p - 1) * np.linalg.slogdet(products)[1]
    value, standard_error = mean_over_exact_rows(products, rows, model, error.degrees, error, rng)
    assert standard_error < 0.03
    assert found == pytest.approx(value, abs=4 * standard_error)
    # With the scale matrix (m − p − 1)G, whose mean is G, it is another density.
    other, other_error = mean_over_exact_rows(
        products, rows, model, error.degrees - p - 1, error, rng
    )
    assert abs(found - other) > 4 * other_error


# --- the draw ---

MODELS = np.array([[[1.0, 0.3, 0.2], [0.3, 2.0, -0.4], [0.2, -0.4, 0.7]], np.eye(3)])


def smallest_p_value(rows, extra_freedom=0.0, factor=1.0):
    """Of entries and log determinant of drawn cross-products against scipy's Wishart draws.

    Chains of two models are drawn together.
    """
    rng, size = np.random.default_rng(1), 3000
    error = ModelError.of_size(0.2, 3)
    y = rng.standard_normal((rows, 3)) @ np.linalg.cholesky(MODELS[0]).T
    products = y.T @ y
    both = np.concatenate([MODELS] * size)
    root = np.linalg.cholesky(products).T
    drawn = draw_exact_rows(both, root, float(rows), error, rng)
    gram = drawn.transpose(0, 2, 1) @ drawn
    found = []
    for which, model in enumerate(MODELS):
        scale = np.linalg.inv(np.linalg.inv(model) + error.degrees * np.linalg.inv(products))
        exact = stats.wishart(df=rows + error.degrees + extra_freedom, scale=factor * scale)
        others, ours = exact.rvs(size, random_state=rng), gram[which::2]
        for i, j in ((0, 0), (0, 1), (1, 2), (2, 2)):
            found.append(stats.ks_2samp(ours[:, i, j], others[:, i, j]).pvalue)
        log_dets = (np.linalg.slogdet(one)[1] for one in (ours, others))
        found.append(stats.ks_2samp(*log_dets).pvalue)
    return min(found)


def test_exact_rows_have_their_wishart_distribution():
    assert smallest_p_value(12) > 1e-3
    # Other degrees of freedom, and another scale matrix, are told apart.
    assert smallest_p_value(12, extra_freedom=3.0) < 1e-4
    assert smallest_p_value(12, factor=1.1) < 1e-4


# --- the joint distribution (Geweke's test) ---

SLAB = InverseGammaSlab(3.0, 1.5)
PRIOR = CuspPrior(slab=SLAB, noise_shape=4.0, noise_rate=2.0)
K = 2


def from_prior(p, rng):
    """A state of K given factors."""
    theta = 1.5 / rng.gamma(3.0, size=(1, K))
    loadings = np.sqrt(theta) * rng.standard_normal((p, 1, K))
    hyper = (np.array([SLAB.shape]), np.array([SLAB.rate]))
    chains = Chains(loadings, 2.0 / rng.gamma(4.0, size=(p, 1)), Scales(theta, hyper))
    return GibbsState(chains, None)


def rows_given(state, n, error, rng):
    """Rows of a population that is drawn around the model."""
    loadings, noise = state.chains.loadings[:, 0], state.chains.noise[:, 0]
    omega = loadings @ loadings.T + np.diag(noise)
    population = stats.invwishart(df=error.degrees, scale=error.degrees * omega)
    drawn = population.rvs(random_state=rng)
    return rng.multivariate_normal(np.zeros(len(noise)), drawn, size=n, method="cholesky")


def features(state, y):
    loadings, noise = state.chains.loadings[:, 0], state.chains.noise[:, 0]
    norms = np.log(np.sum(loadings**2, axis=0))
    return [
        *covariance_features(loadings, noise, y.T @ y / len(y)),
        norms[0],
        norms[0] * norms[1],
        np.log(state.chains.scales.variances[0, 0]),
    ]


def geweke(n, p, scale_rotation_every, length=1600, seed=1):
    """The largest |z| of features along sweeps with new data in turn, against the prior."""
    rng, error = np.random.default_rng(seed), ModelError.of_size(0.3, p)
    state, visited, independent = from_prior(p, rng), [], []
    for at in range(1, length + 1):
        y = rows_given(state, n, error, rng)
        data = ModelErrorKernel(RotatedRows(y.T @ y, None, float(n)), error)
        model = Model(data, PRIOR, 0.02, p + 1, None, (-1.0, -5e-4), scale_rotation_every)
        state = sweep(state, at, model, rng)
        visited.append(features(state, y))
    for _ in range(length // 2):
        fresh = from_prior(p, rng)
        independent.append(features(fresh, rows_given(fresh, n, error, rng)))
    return largest_difference(visited, independent)


@pytest.mark.parametrize(("n", "p", "scale_rotation_every"), [(6, 3, 2), (4, 4, 0)])
def test_sweeps_and_new_data_in_turn_visit_the_prior(n, p, scale_rotation_every):
    assert geweke(n, p, scale_rotation_every) < 4.5


def too_free(covariance, root, n, error, rng):
    return draw_exact_rows(covariance, root, n + len(root), error, rng)


def without_the_model(covariance, root, n, error, rng):
    """Exact rows drawn from the data alone, as if Ω were A/ν."""
    own = np.broadcast_to(root.T @ root / n, covariance.shape)
    return draw_exact_rows(own, root, n, error, rng)


def of_another_scale(covariance, root, n, error, rng):
    """With E[Σ̃] = Ω, and so m − p − 1 in the scale matrix, in place of m."""
    part = (error.degrees - len(root) - 1) / error.degrees
    return draw_exact_rows(covariance, root / np.sqrt(part), n, error, rng)


@pytest.mark.parametrize("broken", [too_free, without_the_model, of_another_scale])
def test_wrong_exact_rows_are_found_out(monkeypatch, broken):
    monkeypatch.setattr(model_error, "draw_exact_rows", broken)
    assert geweke(6, 3, scale_rotation_every=2) > 4.5
