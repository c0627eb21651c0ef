"""Checks of the oracle itself: closed form, quadrature, brute force, and what must fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from oracles import thermodynamic as thermo

SLABS = [1.0, (2.0, 0.4)]
NOISE = (2.0, 0.8)


def data(n, p, k, seed, strength=1.0, noise=0.6):
    rng = np.random.default_rng(seed)
    y = strength * rng.normal(size=(n, k)) @ rng.normal(size=(k, p))
    y += noise * rng.normal(size=(n, p))
    return y - y.mean(axis=0)


def by_quadrature(y, slab, noise, size=31):
    """log p(y | K = 1) for p = 1 or 2, the scores integrated out, on a grid of the unknowns."""
    n, p = y.shape
    a, b = noise
    gram = y.T @ y
    sd = np.sqrt(np.diag(gram) / n)
    x, u = np.linspace(-4.5, 4.5, size), np.linspace(-6.0, 3.0, size)
    axes = [s * x for s in sd] + [u + 2 * np.log(s) for s in sd]
    volume = np.sum([np.log(axis[1] - axis[0]) for axis in axes])
    grid = np.meshgrid(*axes, indexing="ij", sparse=True)
    loadings, logs = grid[:p], grid[p:]
    diagonal = [one**2 + np.exp(v) for one, v in zip(loadings, logs, strict=True)]
    if p == 1:
        log_det, quadratic = np.log(diagonal[0]), gram[0, 0] / diagonal[0]
    else:
        across = loadings[0] * loadings[1]
        det = diagonal[0] * diagonal[1] - across**2
        log_det = np.log(det)
        quadratic = diagonal[1] * gram[0, 0] + diagonal[0] * gram[1, 1] - 2 * across * gram[0, 1]
        quadratic = quadratic / det
    value = -0.5 * (n * (p * np.log(2 * np.pi) + log_det) + quadratic)
    for v in logs:  # the density of log sigma^2
        value = value + a * np.log(b) - gammaln(a) - a * v - b * np.exp(-v)
    square = sum(one**2 for one in loadings)
    if isinstance(slab, tuple):  # theta integrated out: a multivariate t
        c, d = slab
        value = value + c * np.log(d) - gammaln(c) + gammaln(c + p / 2)
        value = value - p / 2 * np.log(2 * np.pi) - (c + p / 2) * np.log(d + square / 2)
    else:
        value = value - p / 2 * np.log(2 * np.pi * slab) - square / (2 * slab)
    return logsumexp(value) + volume


def by_prior_draws(y, model, size, rng):
    """log p(y | K), the mean likelihood over draws from the prior, and its error."""
    n, p = y.shape
    (a, b), k = model.noise, model.k
    variance = stats.invgamma(a, scale=b).rvs(size=(size, p), random_state=rng)
    theta = np.full((size, 1, k), model.slab)
    if isinstance(model.slab, tuple):
        distribution = stats.invgamma(model.slab[0], scale=model.slab[1])
        theta = distribution.rvs(size=(size, 1, k), random_state=rng)
    loadings = np.sqrt(theta) * rng.standard_normal((size, p, k))
    omega = loadings @ loadings.transpose(0, 2, 1)
    omega[:, range(p), range(p)] += variance
    _, log_det = np.linalg.slogdet(omega)
    quadratic = np.einsum("sij,ji->s", np.linalg.inv(omega), y.T @ y)
    logs = -0.5 * (n * (p * np.log(2 * np.pi) + log_det) + quadratic)
    weights = np.exp(logs - logs.max())
    return np.log(weights.mean()) + logs.max(), weights.std() / weights.mean() / np.sqrt(size)


def small(y, model, **options):
    """A path short enough for a small problem."""
    return thermo.log_evidence(y, model, size=12, step=1.0, sweeps=500, **options)


def far(estimate, truth):
    return abs(estimate.value - truth) > 0.2


# --- what must hold


@pytest.mark.parametrize("shape", [(20, 4), (3, 6)], ids=str)
def test_without_factors_it_is_the_closed_form(shape):
    n, p = shape
    y, (a, b) = data(n, p, 1, seed=1), (0.7, 0.2)
    n, square = len(y), np.sum(y**2, axis=0)
    terms = a * np.log(b) - gammaln(a) + gammaln(a + n / 2) - (a + n / 2) * np.log(b + square / 2)
    truth = np.sum(terms - n / 2 * np.log(2 * np.pi))
    found = thermo.log_evidence(y, thermo.Model(0, 1.0, (a, b)), sweeps=1000)
    assert found.value == pytest.approx(truth, abs=0.1)
    assert found.integral == pytest.approx(truth, abs=0.1)


@pytest.mark.parametrize("slab", SLABS, ids=str)
@pytest.mark.parametrize("p", [1, 2])
def test_one_factor_by_quadrature(p, slab):
    y = data(12, p, 1, seed=2)
    truth = by_quadrature(y, slab, NOISE)
    assert by_quadrature(y, slab, NOISE, size=26) == pytest.approx(truth, abs=0.01)
    found = small(y, thermo.Model(1, slab, NOISE))
    assert found.error < 0.05
    assert found.value == pytest.approx(truth, abs=0.1)
    assert found.integral == pytest.approx(truth, abs=0.1)
    assert found.bounds[0] < truth < found.bounds[1]


@pytest.mark.parametrize("slab", SLABS, ids=str)
def test_two_factors_by_brute_force(slab):
    y = data(6, 3, 1, seed=3)
    model = thermo.Model(2, slab, (2.0, 1.0))
    truth, error = by_prior_draws(y, model, 150_000, np.random.default_rng(4))
    assert error < 0.05
    found = small(y, model)
    assert found.value == pytest.approx(truth, abs=0.15)


@pytest.mark.long
@pytest.mark.parametrize("slab", SLABS, ids=str)
def test_another_path_gives_the_same(slab):
    """Weak noise prior: noise variances near 0 are part of this posterior."""
    y = data(30, 6, 2, seed=5, strength=0.7)
    model = thermo.Model(3, slab, (0.1, 0.003))
    one = thermo.log_evidence(y, model, sweeps=250)
    other = thermo.log_evidence(y, model, first=None, size=30, sweeps=250, seed=1)
    assert len(one.levels) > 20
    assert len(other.levels) == 30
    assert one.value == pytest.approx(other.value, abs=0.7)
    for found in (one, other):
        assert found.error < 0.3
        assert found.integral == pytest.approx(found.value, abs=0.1)
        assert found.exchanged.min() > 0.3


def test_rows_without_mean_have_the_centred_gram_matrix():
    y = np.random.default_rng(6).normal(3.0, 1.0, size=(9, 4))
    rows = thermo.rows_without_mean(y)
    assert rows.shape == (8, 4)
    centred = y - y.mean(axis=0)
    np.testing.assert_allclose(rows.T @ rows, centred.T @ centred, atol=1e-12)


def test_bennett_on_two_normal_laws():
    """pi = N(0, 1) and pi' = 3 N(1, 1): log pi'/pi = log 3 + x - 1/2."""
    x = np.random.default_rng(7).normal(size=(2, 20_000))
    found = thermo.bennett(np.log(3) + x[0] - 0.5, np.log(3) + (x[1] + 1) - 0.5)
    assert found == pytest.approx(np.log(3), abs=0.02)
    # even where the two hardly meet
    found = thermo.bennett(np.log(3) + 4 * x[0] - 8, np.log(3) + 4 * (x[1] + 4) - 8)
    assert found == pytest.approx(np.log(3), abs=0.3)


# --- what must fail: each of these is a mistake that the checks above would find


class ForgetsVolume(thermo.Sampler):
    """The scale move without its Jacobian c^(m-p)."""

    def rescale(self, loadings, eta):
        kept, self.m = self.m, np.full_like(self.m, self.p)
        moved = super().rescale(loadings, eta)
        self.m = kept
        return moved


class ColdScores(thermo.Sampler):
    """Scores drawn from their posterior whatever the temperature."""

    def scores(self, state):
        kept, self.t = self.t, np.ones_like(self.t)
        eta = super().scores(state)
        self.t = kept
        return eta


class ForgetsNoisePrior(thermo.Sampler):
    """Noise moves without scores that leave out the prior's rate."""

    def noise_without_scores(self, state):
        kept, self.model = self.model, thermo.Model(self.model.k, self.model.slab, (2.0, 1e-9))
        state = super().noise_without_scores(state)
        self.model = kept
        return state


@pytest.mark.parametrize("kind", [ForgetsVolume, ColdScores, ForgetsNoisePrior])
def test_a_broken_step_is_found(kind):
    y = data(12, 2, 1, seed=2)
    truth = by_quadrature(y, 1.0, NOISE)
    model = thermo.Model(1, 1.0, NOISE)
    assert far(small(y, model, first=None, kind=kind), truth)


def test_a_wrong_prior_or_weighting_is_found():
    y = data(12, 2, 1, seed=2)
    truth = by_quadrature(y, 1.0, NOISE)
    for model in (thermo.Model(1, 2.0, NOISE), thermo.Model(1, 1.0, (2.0, 1.2))):
        assert far(small(y, model), truth)
    # rectangles in place of trapezoids
    found = small(y, thermo.Model(1, 1.0, NOISE))
    assert not far(found, truth)
    assert min(abs(np.subtract(found.bounds, truth))) > 0.3
