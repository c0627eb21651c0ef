"""The inverse gamma slab in samplers: draws and densities against SciPy's distributions."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from cuspfa.model.slabs import InverseGammaSlab
from cuspfa.model.slabs.base import Slab
from cuspfa.model.slabs.inverse_gamma import HYPER_RATE, HYPER_SCALE, HYPER_SPREAD

A, B, P = 1.3, 0.4, 5


def own(size=1):
    return np.full(size, A), np.full(size, B)


def p_value(drawn, distribution):
    return stats.kstest(drawn, distribution.cdf).pvalue


def test_kernel_and_normalizer_are_the_density_without_the_variance():
    slab, norms = InverseGammaSlab(A, B), np.array([[0.05, 2.0, 11.0]])
    found = slab.log_kernel(norms, own(), P) + slab.log_normalizer(own(), P)
    prior = stats.invgamma(A, scale=B)
    for norm, value in zip(norms[0], found[0], strict=True):

        def mixture(log_theta, norm=norm):
            theta = np.exp(log_theta)
            return theta ** (1 - P / 2) * np.exp(-norm / (2 * theta)) * prior.pdf(theta)

        assert value == pytest.approx(np.log(integrate.quad(mixture, -12, 14)[0]), abs=1e-7)
    assert_allclose(found - 0.5 * P * np.log(2 * np.pi), [slab.log_density(norms[0], P)])


def test_variances_are_inverse_gamma_given_the_columns():
    norms = np.tile([0.3, 6.0], (4000, 1))
    slab, rng = InverseGammaSlab(A, B), np.random.default_rng(1)
    drawn, kept = slab.draw_variances(norms, own(4000), P, rng, active=None, steps=3)
    for column, norm in zip(drawn.T, norms[0], strict=True):
        given = stats.invgamma(A + P / 2, scale=B + norm / 2)
        assert p_value(column, given) > 1e-3
        for other in (stats.invgamma(A + P / 3, scale=B + norm / 2), stats.invgamma(A + P / 2)):
            assert p_value(column, other) < 1e-6
    assert_allclose(kept, own(4000))  # which are not pooled


def test_the_scale_of_a_column_is_gamma():
    size, scores, variance, n = 6000, 3.0, 0.2, 9.0
    rng = np.random.default_rng(2)
    column = np.full(size, scores), np.full(size, variance)
    drawn = InverseGammaSlab(A, B).draw_px_scale(*column, own(size), n, rng)
    rate = scores / 2 + B / variance
    assert p_value(drawn, stats.gamma(n / 2 + A, scale=1 / rate)) > 1e-3
    assert p_value(drawn, stats.gamma(n / 2, scale=1 / rate)) < 1e-6


def test_pooled_draws_keep_the_joint_distribution():
    """Parameters from the hyper-prior and columns given them: after steps they have it still."""
    size, k = 12_000, 3
    rng = np.random.default_rng(3)
    hyper_shape = stats.gamma(2, scale=1 / HYPER_RATE)
    hyper_ratio = stats.norm(np.log(HYPER_SCALE), HYPER_SPREAD)
    a = hyper_shape.rvs(size, random_state=rng)
    b = a * np.exp(hyper_ratio.rvs(size, random_state=rng))
    norms = b[:, None] / rng.gamma(a[:, None], size=(size, k)) * rng.chisquare(P, (size, k))
    slab = InverseGammaSlab(2.0, 0.4, pooled=True)
    drawn, (new_a, new_b) = slab.draw_variances(norms, (a, b), P, rng, active=None, steps=5)
    assert np.mean(new_a != a) > 0.5
    assert p_value(new_a, hyper_shape) > 1e-3
    assert p_value(np.log(new_b / new_a), hyper_ratio) > 1e-3
    # A variance given its parameters is inverse gamma: b/θ is gamma with shape a.
    quantiles = stats.gamma.cdf(new_b[:, None] / drawn, new_a[:, None])
    assert p_value(quantiles.ravel(), stats.uniform()) > 1e-3
    # Columns of another distribution move them.
    wider = slab.draw_variances(30 * norms, (a, b), P, rng, active=None, steps=5)[1]
    assert p_value(np.log(wider[1] / wider[0]), hyper_ratio) < 1e-6


def test_only_active_columns_tell_of_pooled_parameters():
    size = 3000
    slab, rng = InverseGammaSlab(2.0, 0.4, pooled=True), np.random.default_rng(5)
    norms = np.tile([4.0, 5.0, 1e-4], (size, 1))
    start = np.full(size, 2.0), np.full(size, 0.4)
    active = np.tile([True, True, False], (size, 1))
    found = {}
    for name, columns, which in [
        ("two", norms[:, :2], None),
        ("active", norms, active),
        ("all", norms, None),
    ]:
        _, (a, b) = slab.draw_variances(columns, start, P, rng, active=which, steps=40)
        found[name] = np.log(b / a)
    assert stats.ks_2samp(found["active"], found["two"]).pvalue > 1e-3
    assert stats.ks_2samp(found["all"], found["two"]).pvalue < 1e-6


@pytest.mark.parametrize("norms", [(3.0, 0.1), (20.0, 20.0), (50.0, 1e-6)], ids=str)
def test_the_default_average_of_a_pair_is_over_all_rotations(norms):
    slab = InverseGammaSlab(A, B)
    one, two = norms

    def turned(angle):
        c, s = np.cos(angle) ** 2, np.sin(angle) ** 2
        density = slab.log_density(np.array([one * c + two * s, one * s + two * c]), P)
        return np.exp(density.sum() - slab.log_density(np.array(norms), P).sum())

    parts = np.linspace(0.0, 2 * np.pi, 9)
    total = sum(integrate.quad(turned, *part)[0] for part in itertools.pairwise(parts))
    found = Slab.log_pair_average(slab, np.array([one]), np.array([two]), P)
    assert found[0] == pytest.approx(np.log(total / (2 * np.pi)), abs=1e-6)


def test_the_mode_and_the_spike_that_is_below_it():
    assert InverseGammaSlab(3.0, 2.0).mode == pytest.approx(0.5)
    theta = np.linspace(0.3, 0.8, 501)
    assert theta[np.argmax(stats.invgamma(3.0, scale=2.0).pdf(theta))] == pytest.approx(0.5)
    # Each of the limits is the least somewhere.
    assert InverseGammaSlab(3.0, 2.0).automatic_spike(100, 5) == pytest.approx(2.0 / 20)
    assert InverseGammaSlab(19.0, 2.0).automatic_spike(100, 5) == pytest.approx(0.05)
    wide = 0.2 * np.e * 2.0 / 40
    assert InverseGammaSlab(3.0, 2.0).automatic_spike(100, 40) == pytest.approx(wide)
    pooled = InverseGammaSlab(3.0, 2.0, pooled=True)
    edge = 1 / (40 + 2 * np.sqrt(100 * 40))
    assert pooled.automatic_spike(100, 40) == pytest.approx(edge / 4)
    assert replace(pooled, rate=1e-12).automatic_spike(100, 40) == 1e-12


def test_a_start_of_pooled_parameters_is_within_its_range():
    for shape, rate in ((1e-3, 1.0), (1e4, 1.0), (1.0, 1e-3), (1.0, 1e4)):
        InverseGammaSlab(shape, rate, pooled=True).check_start()
    for shape, rate in ((0.9e-3, 1.0), (1.1e4, 1.0), (1.0, 0.9e-3), (1.0, 1.1e4)):
        InverseGammaSlab(shape, rate).check_start()  # of one that is not pooled: anything
        with pytest.raises(ValueError, match="start of a pooled slab"):
            InverseGammaSlab(shape, rate, pooled=True).check_start()
