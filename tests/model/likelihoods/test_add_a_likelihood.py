"""The likelihood of docs/dev/add_a_likelihood.md, as it is written there."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from cuspfa import CuspPrior
from cuspfa.inference.cellwise.search import search_cells
from support import module_of_page

LaplaceLikelihood = module_of_page("add_a_likelihood.md").LaplaceLikelihood
LIKELIHOOD = LaplaceLikelihood(("a", "b"), noise_shape=2.0, noise_rate=1.0)
PACKED = np.array([0.3, -0.5, np.log(0.8), np.log(2.5)])
"""Locations, then the logarithms of the noise variances."""


def cells(n=7, seed=0):
    """Values with one missing, means and variances of f."""
    rng = np.random.default_rng(seed)
    values = 2.0 * rng.normal(size=(n, 2))
    values[1, 0] = np.nan
    return values, rng.normal(size=(n, 2)), rng.uniform(0.1, 1.5, size=(n, 2))


def by_integral(function):
    """Of a function of log p(x | f), over f, for each observed cell."""
    values, mean, variance = cells()
    found = np.zeros(values.shape)
    for i, j in zip(*np.nonzero(~np.isnan(values)), strict=True):
        law = stats.norm(mean[i, j], np.sqrt(variance[i, j]))
        noise = stats.laplace(scale=np.sqrt(np.exp(PACKED[2 + j]) / 2))
        kink = values[i, j] - PACKED[j]

        def inside(f, law=law, noise=noise, kink=kink):
            return function(noise.logpdf(kink - f)) * law.pdf(f)

        low, high = law.ppf(1e-15), law.ppf(1 - 1e-15)
        middle = min(max(kink, low), high)
        found[i, j] = sum(
            integrate.quad(inside, *ends, epsabs=1e-13)[0]
            for ends in ((low, middle), (middle, high))
        )
    return found


def test_expectations_are_integrals_over_f():
    values, mean, variance = cells()
    one = LIKELIHOOD.expectations(values, mean, variance, LIKELIHOOD.unpack(PACKED))
    assert_allclose(one.value, by_integral(lambda log: log), atol=1e-9)
    assert np.all(one.curvature <= 0)


def test_normalizers_are_integrals_over_f():
    values, mean, variance = cells()
    one = LIKELIHOOD.tilted(values, mean, variance, LIKELIHOOD.unpack(PACKED)).log_normalizer
    observed = ~np.isnan(values)
    assert_allclose(one[observed], np.log(by_integral(np.exp)[observed]), atol=1e-9)
    assert np.all(one[~observed] == 0)


def derivative(function, step=1e-5):
    return (function(step) - function(-step)) / (2 * step)


@pytest.mark.parametrize(("method", "first"), [("expectations", "value"), ("tilted", None)])
def test_slopes_and_curvatures_are_derivatives(method, first):
    values, mean, variance = cells()
    known = LIKELIHOOD.unpack(PACKED)

    def at(shift):
        return getattr(LIKELIHOOD, method)(values, mean + shift, variance, known)

    name = first or "log_normalizer"
    assert_allclose(at(0.0).slope, derivative(lambda h: getattr(at(h), name)), atol=1e-8)
    assert_allclose(at(0.0).curvature, derivative(lambda h: at(h).slope), atol=1e-8)


def test_derivatives_by_packed_parameters():
    values, mean, variance = cells()

    def total(place, step):
        moved = PACKED + step * (np.arange(4) == place)
        return LIKELIHOOD.tilted(values, mean, variance, LIKELIHOOD.unpack(moved))

    found = LIKELIHOOD.tilted_gradient(values, mean, variance, LIKELIHOOD.unpack(PACKED))
    for place in range(4):
        want = derivative(lambda h, place=place: total(place, h).log_normalizer.sum(axis=1))
        assert_allclose(found[:, place], want, atol=1e-8)


def test_third_and_fourth_derivatives():
    values, mean, variance = cells()
    known = LIKELIHOOD.unpack(PACKED)
    h = 2e-3
    curvature = [
        LIKELIHOOD.tilted(values, mean + i * h, variance, known).curvature for i in range(-2, 3)
    ]
    third, fourth = LIKELIHOOD.tilted_further(values, mean, variance, known)
    want = (curvature[0] - 8 * curvature[1] + 8 * curvature[3] - curvature[4]) / (12 * h)
    assert_allclose(third, want, atol=1e-5)
    weights = (-1, 16, -30, 16, -1)
    want = sum(w * c for w, c in zip(weights, curvature, strict=True)) / (12 * h**2)
    assert_allclose(fourth, want, atol=1e-4)


def posterior_by_integral(x):
    """Mean and standard deviation of μ and log σ² given x alone, on a grid."""
    mu, log = np.meshgrid(np.linspace(-4, 4, 321), np.linspace(-4, 5, 361), indexing="ij")
    b = np.sqrt(np.exp(log) / 2)
    density = -2.0 * log - np.exp(-log)  # the prior InvGa(2, 1), of the logarithm
    for one in x:
        density = density - np.log(2 * b) - np.abs(one - mu) / b
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    means = [np.sum(weight * one) for one in (mu, log)]
    pairs = zip((mu, log), means, strict=True)
    sds = [np.sqrt(np.sum(weight * (one - m) ** 2)) for one, m in pairs]
    return np.array(means), np.array(sds)


def drawn(x, likelihood):
    """The same of chains of `draw`, with an error of the means."""
    rng = np.random.default_rng(4)
    chains = 3000
    values = np.broadcast_to(x[:, None], (chains, len(x), 1))
    linear = np.zeros((chains, len(x), 1))
    parameters = likelihood.unpack(np.zeros((chains, 2)))
    for _ in range(30):
        parameters, pseudo = likelihood.draw(values, linear, parameters, rng)
    assert pseudo.precision.shape == linear.shape
    packed = likelihood.pack(parameters)
    return packed.mean(axis=0), packed.std(axis=0), packed.std(axis=0) / np.sqrt(chains)


def test_draws_of_parameters_have_their_posterior():
    x = np.array([-1.3, -0.4, 0.0, 0.2, 0.3, 0.9, 2.5])
    one = LaplaceLikelihood(("a",), noise_shape=2.0, noise_rate=1.0)
    means, sds = posterior_by_integral(x)
    found, spread, error = drawn(x, one)
    assert np.all(np.abs(found - means) < 4.5 * error)
    assert_allclose(spread, sds, rtol=0.08)
    # With another shape of the prior the draws are of another posterior.
    found, _, error = drawn(x, LaplaceLikelihood(("a",), noise_shape=4.0, noise_rate=1.0))
    assert abs(found[1] - means[1]) > 4.5 * error[1]


def test_pseudo_data_of_missing_cells_have_laplace_noise():
    one = LaplaceLikelihood(("a",), fixed_location=True)
    values, linear = np.full((4000, 5, 1), 0.4), np.zeros((4000, 5, 1))
    values[:, 4] = np.nan
    parameters = one.unpack(np.zeros((4000, 1)))
    known, pseudo = one.draw(values, linear, parameters, np.random.default_rng(0))
    b = np.sqrt(0.5 / known.noise.precision[:, 0])
    scaled = pseudo.values[:, 4, 0] / b
    assert stats.kstest(scaled, stats.laplace.cdf).pvalue > 1e-4
    assert stats.kstest(scaled, stats.norm(scale=np.sqrt(2)).cdf).pvalue < 1e-4


def test_a_search_finds_the_factors():
    rng = np.random.default_rng(2)
    n, p, loadings = 100, 6, np.zeros((6, 2))
    loadings[:3, 0] = loadings[3:, 1] = 1.2
    rows = rng.normal(size=(n, 2)) @ loadings.T + rng.laplace(scale=0.5, size=(n, p)) + 3.0
    rows[3, 2] = np.nan
    likelihood = LaplaceLikelihood.of(rows)
    values = likelihood.check(rows)
    found = search_cells(values, likelihood, CuspPrior(), largest=3)
    assert found.best.n_factors == 2
    covariance = found.best.mode.loadings @ found.best.mode.loadings.T
    blocks = np.kron(np.eye(2), np.ones((3, 3))) > 0
    assert covariance[blocks].min() > 0.4
    assert np.abs(covariance[~blocks]).max() < 0.2
    noise = LaplaceLikelihood(tuple("abcdef"))
    none = search_cells(rng.laplace(size=(n, p)), noise, CuspPrior(), largest=1)
    assert none.best.n_factors == 0
