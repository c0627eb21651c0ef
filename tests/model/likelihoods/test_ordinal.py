"""The ordinal likelihood against integrals, many digits and numerical derivatives."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from cuspfa.errors import DataError, InputError
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood

CUMULATIVE = {"probit": special.ndtr, "logit": special.expit}
CUTS = np.array([[-1.0, 0.3, 1.7], [0.4, np.inf, np.inf]])
LINKS = ("probit", "logit")


def family(link="probit", cut_sd=5.0):
    return OrdinalLikelihood(((0, 1, 2, 3), (0, 1)), ("agree", "correct"), link, cut_sd)


def log_probability(link, code, f, cuts):
    """Of one cell, by the distribution function."""
    ends = np.concatenate([[-np.inf], cuts[np.isfinite(cuts)], [np.inf]])
    below = CUMULATIVE[link]
    if ends[code] - f > 0:  # both distributions are symmetric
        return np.log(below(f - ends[code]) - below(f - ends[code + 1]))
    return np.log(below(ends[code + 1] - f) - below(ends[code] - f))


def normal_density(x, mean, sd):
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


def numerical_derivatives(function, at, step=1e-3):
    below, here, above = (function(at + d) for d in (-step, 0.0, step))
    return (above - below) / (2 * step), (above + below - 2 * here) / step**2


def cells():
    for code in range(4):
        yield code, 0
    yield 0, 1
    yield 1, 1


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("mean", "variance"), [(0.2, 0.3), (-1.5, 1.0), (2.5, 0.05)])
def test_expectations_are_integrals(link, mean, variance):
    sd = np.sqrt(variance)
    for code, j in cells():
        values = np.full((1, 2), np.nan)
        values[0, j] = code
        spread = np.full((1, 2), variance)
        got = family(link).expectations(values, np.full((1, 2), mean), spread, CUTS)

        def expected(of, code=code, j=j):
            def integrand(x):
                return of(lambda f: log_probability(link, code, f, CUTS[j]), x) * normal_density(
                    x, mean, sd
                )

            return integrate.quad(integrand, mean - 9 * sd, mean + 9 * sd, epsabs=1e-12)[0]

        want = (
            expected(lambda log, x: log(x)),
            expected(lambda log, x: numerical_derivatives(log, x)[0]),
            expected(lambda log, x: numerical_derivatives(log, x)[1]),
        )
        np.testing.assert_allclose([part[0, j] for part in got], want, atol=2e-6)
        assert all(part[0, 1 - j] == 0 for part in got)  # the other cell is missing


@pytest.mark.parametrize("link", LINKS)
def test_slope_and_curvature_are_derivatives_of_the_expected_value(link):
    # Negative control: the curvature is not the derivative by the variance, but twice it.
    values, spread = np.array([[2.0, 1.0]]), np.array([[0.4, 0.8]])
    mean = np.array([[0.5, -0.7]])
    one = family(link)

    def value(shift=0.0, wider=0.0):
        return one.expectations(values, mean + shift, spread + wider, CUTS).value

    got = one.expectations(values, mean, spread, CUTS)
    step = 1e-4
    slope = (value(step) - value(-step)) / (2 * step)
    np.testing.assert_allclose(got.slope, slope, rtol=1e-7)
    by_variance = (value(wider=step) - value(wider=-step)) / (2 * step)
    np.testing.assert_allclose(got.curvature / 2, by_variance, rtol=1e-4)
    assert np.all(np.abs(got.curvature / by_variance - 1) > 0.5)


@pytest.mark.parametrize("f", [-300.0, -40.0, -9.0, 0.0, 9.0, 40.0, 300.0])
@pytest.mark.parametrize("link", LINKS)
def test_far_out_cells_keep_their_digits(link, f):
    mpmath.mp.dps = 400 if link == "logit" else 60

    def cumulative(x):
        if mpmath.isinf(x):
            return mpmath.mpf(0) if x < 0 else mpmath.mpf(1)
        return mpmath.ncdf(x) if link == "probit" else 1 / (1 + mpmath.exp(-x))

    def exact(code, at):
        ends = [mpmath.mpf("-inf"), *map(mpmath.mpf, CUTS[0].tolist()), mpmath.mpf("inf")]
        low, high = ends[code] - at, ends[code + 1] - at
        if low + high > 0:
            low, high = -high, -low  # both distributions are symmetric
        return mpmath.log(cumulative(high) - cumulative(low))

    for code in range(4):
        values = np.array([[float(code), np.nan]])
        got = family(link).expectations(values, np.full((1, 2), f), np.full((1, 2), 1e-30), CUTS)
        at = mpmath.mpf(f)
        want = [float(mpmath.diff(lambda x, c=code: exact(c, x), at, order)) for order in range(3)]
        np.testing.assert_allclose([part[0, 0] for part in got], want, rtol=1e-9, atol=1e-13)
    # The chance of the outermost category is nearly one or nearly zero: both are finite.
    assert np.all(np.isfinite([part[0, 0] for part in got]))


def test_levels_are_those_that_were_observed():
    rows = np.array([[1, 0], [5, 1], [3, 1], [np.nan, 0], [5, np.nan]])
    one = OrdinalLikelihood.of(rows, ("x", "y"))
    assert one.levels == ((1, 3, 5), (0, 1))
    np.testing.assert_array_equal(
        one.check(rows), [[0, 0], [2, 1], [1, 1], [np.nan, 0], [2, np.nan]]
    )
    drawn = one.sample(np.zeros((50, 2)), one.initial(one.check(rows)), np.random.default_rng(0))
    assert set(drawn[:, 0]) == {1, 3, 5}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([0, 1, -1], "Values of y must be categories coded as whole numbers from 0 on. Got -1"),
        ([0, 1, 0.5], "Got 0.5 instead"),
        ([0, 1, np.inf], "Got inf instead"),
        ([2, 2, np.nan], "Values of y must have at least two categories. Got only the value 2"),
        ([np.nan] * 3, "Got no value instead"),
    ],
)
def test_columns_that_are_not_ordinal_are_named(column, message):
    rows = np.column_stack([[0.0, 1.0, 2.0], column])
    with pytest.raises(DataError, match=message):
        OrdinalLikelihood.of(rows, ("x", "y"))


def test_too_many_levels_and_unseen_categories_are_named():
    with pytest.raises(DataError, match="income must have at most 20 categories. Got 21 instead"):
        OrdinalLikelihood.of(np.arange(21.0)[:, None], ("income",))
    one = OrdinalLikelihood.of([[0, 1], [1, 2], [2, 1]], ("x", "y"))
    with pytest.raises(DataError, match="Values of y must be categories .* 1, 2. Got 3 instead"):
        one.check([[0, 3]])
    with pytest.raises(InputError, match="link must be one of"):
        OrdinalLikelihood(((0, 1),), ("x",), "cauchit")


@pytest.mark.parametrize("link", LINKS)
def test_probabilities_means_and_samples_agree_with_integrals(link):
    rng = np.random.default_rng(3)
    one = family(link)
    mean, variance = np.array([[0.4, -0.2]]), np.array([[0.5, 0.9]])
    got = one.probabilities(mean, variance, CUTS)
    for code, j in cells():

        def integrand(x, code=code, j=j):
            density = normal_density(x, mean[0, j], np.sqrt(variance[0, j]))
            return np.exp(log_probability(link, code, x, CUTS[j])) * density

        want = integrate.quad(integrand, -12, 12, epsabs=1e-11)[0]
        assert got[0, j, code] == pytest.approx(want, abs=1e-6)
        values = np.array([[code if j == 0 else np.nan, code if j == 1 else np.nan]])
        tilted = one.tilted(values, mean, variance, CUTS)
        assert tilted.log_normalizer[0, j] == pytest.approx(np.log(want), abs=1e-6)
    np.testing.assert_allclose(got.sum(axis=2), 1.0, atol=1e-12)
    expected = one.mean(mean, variance, CUTS)
    assert expected[0, 0] == pytest.approx(got[0, 0] @ np.arange(4))
    f = mean + np.sqrt(variance) * rng.normal(size=(20_000, 2))
    drawn = one.sample(f, CUTS, rng)
    np.testing.assert_allclose(drawn.mean(axis=0), expected[0], atol=0.03)


@pytest.mark.parametrize("link", LINKS)
def test_tilted_moments_are_derivatives_of_the_normalizer(link):
    values, spread = np.array([[1.0, 1.0]]), np.array([[0.6, 1.5]])
    mean, step, one = np.array([[0.9, -1.1]]), 1e-3, family(link)
    low, here, high = (one.tilted(values, mean + d, spread, CUTS) for d in (-step, 0, step))
    slope = (high.log_normalizer - low.log_normalizer) / (2 * step)
    np.testing.assert_allclose(here.slope, slope, rtol=1e-5)
    np.testing.assert_allclose(here.curvature, (high.slope - low.slope) / (2 * step), rtol=1e-4)


@pytest.mark.parametrize("link", LINKS)
def test_slopes_of_the_normalizer_by_the_cut_points(link):
    values, spread = np.array([[1.0, 1.0]]), np.array([[0.6, 1.5]])
    mean, step, one = np.array([[0.9, -1.1]]), 1e-4, family(link)
    above, below = one.tilted_cut_slopes(values, mean, spread, CUTS)
    for j, c, got in ((0, 1, above[0, 0]), (0, 0, below[0, 0]), (1, 0, below[0, 1])):
        around = []
        for sign in (-step, step):
            cuts = CUTS.copy()
            cuts[j, c] += sign
            around.append(one.tilted(values, mean, spread, cuts).log_normalizer[0, j])
        assert got == pytest.approx((around[1] - around[0]) / (2 * step), rel=1e-5)
    assert above[0, 1] == pytest.approx(0.0, abs=1e-12)  # no cut-point above the last level


def test_the_prior_of_the_cut_points_is_a_density():
    one = OrdinalLikelihood(((0, 1, 2), (0, 1)), ("x", "y"), cut_sd=1.3, gap_shape=1.0)

    def density(high, low, single):
        return np.exp(one.log_cut_density(np.array([[low, high], [single, np.inf]])).sum())

    grid = np.linspace(-8, 8, 81)
    width = grid[1] - grid[0]
    single = sum(density(0.1, -0.2, x) for x in grid) * width / density(0.1, -0.2, 0.0)
    total = single * sum(
        density(high, low, 0.0) * (0.5 if high == low else 1.0)
        for low in grid
        for high in grid[grid >= low]
    ) * width**2  # fmt: skip
    assert total == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("shape", [0.0, 0.6, 1.0])
def test_the_prior_of_packed_cut_points_is_that_of_the_cut_points(shape):
    one = OrdinalLikelihood(((0, 1, 2, 3), (0, 1)), ("x", "y"), cut_sd=1.3, gap_shape=shape)
    packed, step = one.pack(CUTS), 1e-5
    there = np.isfinite(CUTS)
    jacobian = np.array(
        [
            (one.unpack(packed + move)[there] - one.unpack(packed - move)[there]) / (2 * step)
            for move in step * np.eye(len(packed))
        ]
    )
    want = one.log_cut_density(CUTS).sum() + np.linalg.slogdet(jacobian)[1]
    assert one.log_packed_prior(packed) == pytest.approx(want)
    slopes = [
        (one.log_packed_prior(packed + move) - one.log_packed_prior(packed - move)) / (2 * step)
        for move in step * np.eye(len(packed))
    ]
    np.testing.assert_allclose(one.packed_prior_derivatives(packed)[0], slopes, atol=1e-6)
    # In the scale of a column that has s times the standard deviation.
    own, s = one.response_prior(CUTS), 1.3
    change = (
        one.log_cut_density(s * CUTS) - one.log_cut_density(CUTS) + np.array([3, 1]) * np.log(s)
    )
    np.testing.assert_allclose(change, own.power * np.log(s) - 0.5 * (s**2 - 1) * own.squares)
    np.testing.assert_allclose(own.power, [1 + 2 * shape, 1])


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_drawn_cut_points_have_the_density_of_the_prior_and_the_answers(shape):
    one = OrdinalLikelihood(((0, 1, 2),), ("x",), gap_shape=shape)
    values = np.repeat([0.0, 1.0, 2.0], [12, 2, 6])[:, None]
    first, gap = np.meshgrid(np.linspace(-2, 2, 201), np.linspace(-7, 1, 321), indexing="ij")
    top = first + np.exp(gap)
    logs = 12 * stats.norm.logcdf(first) + 6 * stats.norm.logsf(top) + shape * gap
    logs += 2 * np.log(stats.norm.cdf(top) - stats.norm.cdf(first)) - (first**2 + top**2) / 50
    weights = np.exp(logs - logs.max())
    want = float(np.sum(weights * np.exp(gap)) / weights.sum())
    rng, chains = np.random.default_rng(0), 2000
    cuts = np.tile([[[0.2, 0.5]]], (chains, 1, 1))
    linear = np.zeros((chains, len(values), 1))
    for _ in range(60):
        cuts, _ = one.draw(values, linear, cuts, rng)
    gaps = cuts[:, 0, 1] - cuts[:, 0, 0]
    error = gaps.std() / np.sqrt(chains)
    assert gaps.mean() == pytest.approx(want, abs=4 * error)
    # The control: the other prior has another mean.
    other = np.sum(weights * np.exp((2.0 - 2.0 * shape) * gap)) / np.sum(
        weights * np.exp((1.0 - 2.0 * shape) * gap)
    )
    assert abs(other - want) > 8 * error


def test_a_shift_of_predictors_and_cut_points_changes_nothing():
    one = family("logit", 3.0)
    shifted = one.shifted(CUTS, np.array([1.0, -1.0]))
    values, zero = np.array([[2.0, 0.0]]), np.zeros((1, 2))
    np.testing.assert_allclose(
        one.log_density(values, zero + np.array([1.0, -1.0]), shifted),
        one.log_density(values, zero, CUTS),
    )
    assert all(low < high for low, high in pairwise(shifted[0]))
