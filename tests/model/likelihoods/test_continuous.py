"""Continuous columns, and columns of two kinds side by side."""

import numpy as np
import pytest
from scipy import integrate, stats

from cuspfa.errors import DataError
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood, ContinuousParameters
from cuspfa.model.likelihoods.counts import CountLikelihood
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.likelihoods.mixed import MixedLikelihood, Part
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood

NOISE = Noise(np.array([30.0, 8.0]), np.array([12.0, 20.0]))
PARAMETERS = ContinuousParameters(np.array([0.5, -1.0]), NOISE)


def test_expectations_are_integrals_over_predictor_and_noise():
    one = ContinuousLikelihood(("x", "y"))
    values = np.array([[1.2, np.nan], [0.1, -2.0]])
    mean, variance = np.full((2, 2), 0.3), np.full((2, 2), 0.7)
    got = one.expectations(values, mean, variance, PARAMETERS)
    assert all(part[0, 1] == 0 for part in got)
    drawn = NOISE.draw(200_000, np.random.default_rng(0))
    f = 0.3 + np.sqrt(0.7) * np.random.default_rng(1).normal(size=200_000)
    for i, j in ((0, 0), (1, 0), (1, 1)):
        logs = stats.norm.logpdf(values[i, j], PARAMETERS.location[j] + f, np.sqrt(drawn[j]))
        assert got.value[i, j] == pytest.approx(logs.mean(), abs=5 * logs.std() / np.sqrt(2e5))
    step = 1e-4
    high, low = (one.expectations(values, mean + d, variance, PARAMETERS) for d in (step, -step))
    np.testing.assert_allclose(got.slope, (high.value - low.value) / (2 * step), atol=1e-8)
    np.testing.assert_allclose(got.curvature, (high.slope - low.slope) / (2 * step), atol=1e-8)


def test_the_expected_density_is_an_integral():
    one = ContinuousLikelihood(("x", "y"))
    values, mean, variance = np.array([[1.2, -0.4]]), np.full((1, 2), 0.3), np.full((1, 2), 0.7)
    got = one.tilted(values, mean, variance, PARAMETERS)
    for j in range(2):

        def integrand(f, j=j):
            logs = one.log_density(values, np.full((1, 2), f), PARAMETERS)[0, j]
            return np.exp(logs) * stats.norm.pdf(f, 0.3, np.sqrt(0.7))

        want = np.log(integrate.quad(integrand, -9, 9)[0])
        assert got.log_normalizer[0, j] == pytest.approx(want, abs=1e-8)
    step = 1e-4
    high, low = (one.tilted(values, mean + d, variance, PARAMETERS) for d in (step, -step))
    slope = (high.log_normalizer - low.log_normalizer) / (2 * step)
    np.testing.assert_allclose(got.slope, slope, rtol=1e-6)
    np.testing.assert_allclose(got.curvature, (high.slope - low.slope) / (2 * step), rtol=1e-6)


def mixed():
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.integers(0, 3, 30), rng.normal(size=30), rng.integers(0, 2, 30)])
    rows[0, 0] = rows[1, 1] = np.nan
    ordinal = OrdinalLikelihood.of(rows[:, [0, 2]], ("a", "c"))
    parts = (
        Part(ordinal, np.array([0, 2])),
        Part(ContinuousLikelihood(("b",)), np.array([1])),
    )
    return MixedLikelihood(parts), rows


def test_mixed_columns_are_their_parts():
    one, rows = mixed()
    values = one.check(rows)
    parameters = one.initial(values)
    rng = np.random.default_rng(4)
    mean, variance = rng.normal(size=(30, 3)), rng.uniform(0.1, 1, size=(30, 3))
    for method in ("expectations", "tilted"):
        whole = getattr(one, method)(values, mean, variance, parameters)
        for part, own in zip(one.parts, parameters, strict=True):
            at = (slice(None), part.columns)
            alone = getattr(part.likelihood, method)(values[at], mean[at], variance[at], own)
            for a, b in zip(whole, alone, strict=True):
                np.testing.assert_array_equal(a[at], b)
    drawn = one.sample(np.zeros((500, 3)), parameters, rng)
    assert set(drawn[:, 0]) == {0.0, 1.0, 2.0}
    assert len(set(drawn[:, 1])) == 500
    np.testing.assert_allclose(
        drawn.mean(0), one.mean(0 * drawn, 0 * drawn, parameters)[0], atol=0.3
    )
    moved = one.shifted(parameters, np.array([0.3, -0.2, 0.1]))
    np.testing.assert_allclose(
        one.log_density(values, mean + np.array([0.3, -0.2, 0.1]), moved),
        one.log_density(values, mean, parameters),
    )


def test_counts_among_other_columns_have_their_offsets():
    rng = np.random.default_rng(7)
    counts, offset = rng.poisson(2.0, (25, 2)), rng.normal(size=25)
    table = np.column_stack([counts[:, 0], rng.normal(size=25), counts[:, 1], offset])
    own = CountLikelihood.of(table[:, [0, 2, 3]], ("a", "c"), "poisson")
    one = MixedLikelihood(
        (Part(own, np.array([0, 2])), Part(ContinuousLikelihood(("b",)), np.array([1])))
    )
    values = one.check(table)
    np.testing.assert_array_equal(values, table)
    rates, noise = one.initial(values)
    linear = rng.normal(size=(25, 3))
    found = one.log_density(values, linear, (rates, noise))
    log_rate = rates.location + offset[:, None] + linear[:, [0, 2]]
    np.testing.assert_allclose(found[:, [0, 2]], stats.poisson.logpmf(counts, np.exp(log_rate)))
    # The rates begin where the expected totals are those observed, with the offsets.
    np.testing.assert_allclose(
        np.exp(rates.location) * np.exp(offset).sum(), counts.sum(axis=0), rtol=0.05
    )


@pytest.mark.parametrize("fixed", [False, True])
def test_variances_and_locations_are_drawn_from_their_posterior(fixed):
    """Given f, of many chains: σ² is inverse gamma, and the location normal around its mean."""
    rng, size = np.random.default_rng(8), 4000
    values, f = rng.normal((0.7, 0.0), 1.0, (7, 2)), rng.normal(size=(7, 2))
    values[2, 0] = np.nan
    one = ContinuousLikelihood(("x", "y"), 1.5, 0.8, fixed)
    noise = Noise(np.ones((size, 2)), np.ones((size, 2)))
    start = ContinuousParameters(np.zeros((size, 2)), noise)
    drawn, pseudo = one.draw(values, np.broadcast_to(f, (size, 7, 2)), start, rng)
    variance = drawn.noise.rate / drawn.noise.shape
    for j, count in enumerate((6, 7)):
        residual = (values - f)[:, j]
        residual = residual[~np.isnan(residual)]
        mean = 0.0 if fixed else residual.mean()
        shape = 1.5 + (count if fixed else count - 1) / 2
        scale = 0.8 + np.sum((residual - mean) ** 2) / 2
        own = stats.invgamma(shape, scale=scale)
        assert stats.kstest(variance[:, j], own.cdf).pvalue > 1e-3
        other = stats.invgamma(shape + 0.5, scale=scale)
        assert stats.kstest(variance[:, j], other.cdf).pvalue < 1e-3
        if fixed:
            assert np.all(drawn.location == 0.0)
            continue
        away = (drawn.location[:, j] - mean) / np.sqrt(variance[:, j] / count)
        assert stats.kstest(away, stats.norm.cdf).pvalue > 1e-3
        assert stats.kstest(1.2 * away, stats.norm.cdf).pvalue < 1e-3
    # What is missing is drawn beside it; what is known is the value without its location.
    gone = (pseudo.values[:, 2, 0] - f[2, 0]) / np.sqrt(variance[:, 0])
    assert stats.kstest(gone, stats.norm.cdf).pvalue > 1e-3
    np.testing.assert_allclose(pseudo.values[:, 3], values[3] - drawn.location)


def test_fixed_locations_stay_where_they_are():
    one = ContinuousLikelihood(("x", "y"), 1.0, 0.3, True)
    assert one.shifted(PARAMETERS, np.ones(2)) is PARAMETERS


def test_infinite_values_are_named():
    with pytest.raises(DataError, match="Values of y must be finite"):
        ContinuousLikelihood(("x", "y")).check([[0.0, np.inf], [1.0, 2.0]])
