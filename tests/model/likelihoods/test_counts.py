"""Counts by log rates: integrals by a fine grid, numerical derivatives, bad input."""

import numpy as np
import pytest
from scipy import special, stats

from cuspfa.errors import DataError
from cuspfa.inference.cellwise.information import louis_information, with_positive_blocks
from cuspfa.inference.cellwise.marginal import propagate
from cuspfa.model.likelihoods import counts as counts_module
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood
from cuspfa.model.likelihoods.counts import (
    LARGEST_LOG_DISPERSION,
    LOG_DISPERSION_MEAN,
    LOG_DISPERSION_SD,
    SMALLEST_LOG_DISPERSION,
    CountLikelihood,
    CountParameters,
)
from cuspfa.model.likelihoods.kinds import COUNT_KINDS

DISPERSIONS = {"poisson": np.inf, "negative_binomial": 1.7}


def log_density(x, f, r):
    """Of a count with the log rate f, by scipy."""
    if np.isinf(r):
        return stats.poisson.logpmf(x, np.exp(f))
    return stats.nbinom.logpmf(x, r, r / (r + np.exp(f)))


def moments_on_a_grid(x, log_rate, m, v, r):
    """log ∫ p(x | f) N(f; m, v) df, and mean and variance of f, by a sum over a fine grid."""
    sd, peak = np.sqrt(v), np.log(x + 0.5) - log_rate
    f = np.linspace(min(m, peak) - 9 * sd, max(m, peak) + 9 * sd, 30_001)
    logs = log_density(x, f + log_rate, r) + stats.norm.logpdf(f, m, sd)
    shares = np.exp(logs - special.logsumexp(logs))
    mean = shares @ f
    total = special.logsumexp(logs) + np.log(f[1] - f[0])
    return total, mean, shares @ (f - mean) ** 2, shares @ (f - mean) ** 3


def one_cell(family, x, log_rate, r):
    one = CountLikelihood(("a",), family, (0.0,))
    known = CountParameters(np.array([log_rate]), np.array([r]))
    return one, np.array([[x, 0.0]]), known


@pytest.mark.parametrize("family", COUNT_KINDS)
@pytest.mark.parametrize("rate", [0.1, 2.0, 100.0, 10_000.0])
@pytest.mark.parametrize("v", [0.001, 0.3, 1.2, 4.0])
def test_expected_densities_are_integrals(family, rate, v):
    r = DISPERSIONS[family]
    for away in (-1.5, 0.0, 1.0):
        m = away * np.sqrt(v)
        for x in {0.0, round(rate), round(3 * rate)}:
            one, values, known = one_cell(family, x, np.log(rate), r)
            at = np.array([[m]]), np.array([[v]])
            found = one.tilted(values, *at, known)
            total, mean, variance, third = moments_on_a_grid(x, np.log(rate), m, v, r)
            assert found.log_normalizer[0, 0] == pytest.approx(total, abs=2e-5)
            assert m + v * found.slope[0, 0] == pytest.approx(mean, abs=1e-4 * np.sqrt(v))
            own = v * (1 + v * found.curvature[0, 0])
            assert own == pytest.approx(variance, rel=2e-3)
            if variance < 0.5 * v and away == 0.0:
                cubed = one.tilted_further(values, *at, known)[0][0, 0] * v**3
                assert cubed == pytest.approx(third, abs=0.02 * variance**1.5)


@pytest.mark.parametrize("family", COUNT_KINDS)
@pytest.mark.parametrize("x", [0.0, 4.0])
def test_expectations_are_integrals_over_the_log_rate(family, x):
    """Of the log density and of its first two derivatives, which are differences here."""
    m, v, log_rate, r, step = -0.3, 0.4, 0.9, DISPERSIONS[family], 1e-3
    one, rows, parameters = one_cell(family, x, log_rate, r)
    f = np.linspace(m - 9 * np.sqrt(v), m + 9 * np.sqrt(v), 20_001)
    share = stats.norm.pdf(f, m, np.sqrt(v)) * (f[1] - f[0])
    up, here, down = (log_density(x, f + log_rate + s * step, r) for s in (1, 0, -1))
    derivatives = here, (up - down) / (2 * step), (up - 2 * here + down) / step**2
    found = one.expectations(rows, np.full((1, 1), m), np.full((1, 1), v), parameters)
    for part, values in zip(found, derivatives, strict=True):
        assert part[0, 0] == pytest.approx(share @ values, rel=1e-4)
    missing = one.expectations(
        np.array([[np.nan, rows[0, 1]]]), np.full((1, 1), m), np.full((1, 1), v), parameters
    )
    assert all(part[0, 0] == 0.0 for part in missing)


def test_an_uncentred_quadrature_would_be_noticed():
    # The control of the test above: fixed nodes miss a sharp peak.
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    m, v, x, rate = 0.0, 1.2, 10_000.0, 3000.0
    density = np.exp(log_density(x, m + np.sqrt(v) * nodes + np.log(rate), np.inf))
    fixed = np.log(density @ weights / weights.sum())
    assert abs(fixed - moments_on_a_grid(x, np.log(rate), m, v, np.inf)[0]) > 0.1


def small_table(family):
    rng = np.random.default_rng(3)
    values = np.column_stack([rng.poisson(3.0, (5, 3)), rng.normal(size=5)]).astype(float)
    values[1, 2] = np.nan
    one = CountLikelihood.of(values, family=family)
    dispersion = np.full(3, np.inf) if family == "poisson" else np.array([0.4, 2.0, 30.0])
    return one, values, CountParameters(np.array([0.8, 1.2, 0.3]), dispersion)


@pytest.mark.parametrize("family", COUNT_KINDS)
def test_a_row_is_an_integral_over_its_scores(family):
    one, values, known = small_table(family)
    loadings = np.array([[0.7], [-0.4], [0.9]])
    found = propagate(values, one, known, loadings).log_probability
    eta = np.linspace(-9, 9, 4001)
    for row, own in zip(values, found, strict=True):
        logs = stats.norm.logpdf(eta)
        for j in range(3):
            if not np.isnan(row[j]):
                f = known.location[j] + row[3] + loadings[j, 0] * eta
                logs = logs + log_density(row[j], f, known.dispersion[j])
        want = special.logsumexp(logs) + np.log(eta[1] - eta[0])
        assert own == pytest.approx(want, abs=0.01)  # the error of EP
        assert abs(own - want) < 0.2 * abs(found.max() - found.min())


@pytest.mark.parametrize("family", COUNT_KINDS)
def test_derivatives_are_differences(family):
    one, values, known = small_table(family)
    rng, h = np.random.default_rng(0), 1e-5
    f, v = rng.normal(size=(5, 3)), np.full((5, 3), 0.4)

    def difference(of, at):
        return (of(at + h) - of(at - h)) / (2 * h)

    own = one.tangents(values, f, known)
    assert own.slope == pytest.approx(
        difference(lambda at: one.tangents(values, at, known).value, f), abs=1e-6
    )
    assert own.weight == pytest.approx(
        difference(lambda at: -one.tangents(values, at, known).slope, f), abs=1e-6
    )
    tilted = one.tilted(values, f, v, known)
    assert tilted.slope == pytest.approx(
        difference(lambda at: one.tilted(values, at, v, known).log_normalizer, f), abs=1e-6
    )
    assert tilted.curvature == pytest.approx(
        difference(lambda at: one.tilted(values, at, v, known).slope, f), abs=1e-6
    )
    third, fourth = one.tilted_further(values, f, v, known)
    assert third == pytest.approx(
        difference(lambda at: one.tilted(values, at, v, known).curvature, f), abs=1e-5
    )
    assert fourth == pytest.approx(
        difference(lambda at: one.tilted_further(values, at, v, known)[0], f), abs=1e-5
    )
    expected = one.expectations(values, f, v, known)
    assert expected.slope == pytest.approx(
        difference(lambda at: one.expectations(values, at, v, known).value, f), abs=1e-6
    )
    assert expected.curvature == pytest.approx(
        difference(lambda at: one.expectations(values, at, v, known).slope, f), abs=1e-6
    )
    packed = one.pack(known)
    gradient = one.tilted_gradient(values, f, v, known)
    for s in range(len(packed)):
        step = h * (np.arange(len(packed)) == s)
        ends = [
            one.tilted(values, f, v, one.unpack(packed + sign * step)).log_normalizer.sum(axis=1)
            for sign in (1, -1)
        ]
        assert gradient[:, s] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-6)
    # Where f is known, derivatives are in closed form.
    known_f = one.tilted_gradient(values, f, np.full_like(v, 1e-9), known)
    assert known_f == pytest.approx(
        one.tilted_gradient(values, f, np.full_like(v, 1e-7), known), abs=1e-5
    )
    slope, curvature = one.packed_prior_derivatives(packed)
    for s in range(len(packed)):
        step = h * (np.arange(len(packed)) == s)
        ends = [one.log_packed_prior(packed + sign * step) for sign in (1, -1)]
        assert slope[s] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-6)
    assert np.all(np.diag(curvature) > 0)


@pytest.mark.parametrize("family", COUNT_KINDS)
def test_log_densities_are_those_of_scipy(family):
    one, values, known = small_table(family)
    f = np.random.default_rng(1).normal(size=(5, 3))
    found = one.log_density(values, f, known)
    for i, j in np.ndindex(5, 3):
        if np.isnan(values[i, j]):
            assert found[i, j] == 0
            continue
        want = log_density(
            values[i, j], f[i, j] + known.location[j] + values[i, 3], known.dispersion[j]
        )
        assert found[i, j] == pytest.approx(want, abs=1e-9)


def test_counts_have_their_mean_and_variance():
    one = CountLikelihood(("a",), "negative_binomial", (0.0,))
    known = CountParameters(np.array([np.log(4.0)]), np.array([2.0]))
    drawn = one.sample(np.zeros((40_000, 1)), known, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(4.0, rel=0.03)
    assert drawn.var() == pytest.approx(4.0 + 16.0 / 2.0, rel=0.06)
    logs = np.log(np.random.default_rng(0).gamma(2.0, size=200_000) / 2.0)
    assert one.response_variance(known)[0] == pytest.approx(logs.var(), rel=0.02)
    expected = one.mean(np.zeros((1, 1)), np.full((1, 1), 0.5), known)
    assert expected[0, 0] == pytest.approx(4.0 * np.exp(0.25))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1.0, "whole numbers from 0"),
        (0.5, "whole numbers from 0"),
        (2e9, "at most 1e"),
        (0.0, "above zero"),
    ],
)
def test_columns_that_are_no_counts_are_refused(value, message):
    rows = np.array([[value, 0.0], [0.0, 0.0], [np.nan, 0.0]])
    with pytest.raises(DataError, match=message):
        CountLikelihood.of(rows, ("plums",))
    with pytest.raises(DataError, match="plums"):
        CountLikelihood.of(rows, ("plums",))


def test_the_information_of_continuous_columns_is_the_curvature():
    rng, (n, p, k) = np.random.default_rng(0), (60, 4, 2)
    loadings, noise = rng.normal(size=(p, k)), np.array([0.5, 0.8, 1.0, 0.6])
    values = rng.normal(size=(n, k)) @ loadings.T + np.sqrt(noise) * rng.normal(size=(n, p))
    one = ContinuousLikelihood(tuple("abcd"))
    packed = np.concatenate([np.zeros(p), np.log(noise)])

    def log_likelihood(numbers):
        own, mu = numbers[: p * k].reshape(p, k), numbers[p * k :]
        return stats.multivariate_normal.logpdf(values, mu, own @ own.T + np.diag(noise)).sum()

    scores = propagate(values, one, one.unpack(packed), loadings).scores
    given = values, np.ones(n), one, one.unpack(packed), loadings, scores
    size = p * k + p  # loadings and locations
    found = louis_information(*given)[:size, :size]
    at, h = np.concatenate([loadings.ravel(), np.zeros(p)]), 1e-3
    numeric, steps = np.empty((size, size)), h * np.eye(size)
    for a, b in np.ndindex(size, size):
        ends = [
            log_likelihood(at + s * steps[a] + t * steps[b])
            for s, t in ((1, 1), (1, -1), (-1, 1), (-1, -1))
        ]
        numeric[a, b] = -(ends[0] - ends[1] - ends[2] + ends[3]) / (4 * h**2)
    assert found == pytest.approx(numeric, abs=1e-3 * np.abs(numeric).max())
    known = louis_information(*given, known_scores=True)[:size, :size]
    assert np.abs(known - numeric).max() > 0.1 * np.abs(numeric).max()


def test_blocks_that_are_not_positive_have_absolute_eigenvalues() -> None:
    owner = np.array([0, 1, 0, 1, 2])
    matrix = np.diag([2.0, 1.0, 3.0, -0.5, 4.0])
    matrix[0, 2] = matrix[2, 0] = 1.0
    matrix[1, 3] = matrix[3, 1] = 2.0
    found = with_positive_blocks(matrix, owner)
    assert np.array_equal(found[np.ix_([0, 2, 4], [0, 2, 4])], matrix[np.ix_([0, 2, 4], [0, 2, 4])])
    block = matrix[np.ix_([1, 3], [1, 3])]
    raised = found[np.ix_([1, 3], [1, 3])]
    assert raised @ raised == pytest.approx(block @ block)
    assert np.linalg.eigvalsh(raised).min() > 0.1
    assert np.all(found[np.ix_([1, 3], [0, 2, 4])] == 0)


def test_dispersions_are_drawn_from_their_posterior():
    """Given the rates the posterior of log r is an integral in one dimension."""
    rng, chains = np.random.default_rng(1), 400
    x = rng.negative_binomial(2.0, 2.0 / (2.0 + 3.0), 50).astype(float)
    one, rows = CountLikelihood(("a",), "negative_binomial", (0.0,)), np.column_stack([x, 0 * x])
    at = np.linspace(SMALLEST_LOG_DISPERSION, LARGEST_LOG_DISPERSION, 4001)
    logs = stats.norm.logpdf(at, LOG_DISPERSION_MEAN, LOG_DISPERSION_SD)
    logs += sum(stats.nbinom.logpmf(count, np.exp(at), 1 / (1 + 3.0 * np.exp(-at))) for count in x)
    share = np.exp(logs - special.logsumexp(logs))
    mean = share @ at
    sd = np.sqrt(share @ (at - mean) ** 2)
    known = CountParameters(np.full((chains, 1), np.log(3.0)), np.full((chains, 1), np.exp(2.5)))
    for _ in range(60):
        known, _ = one.draw(rows, np.zeros((chains, len(x), 1)), known, rng)
    drawn = np.log(known.dispersion[:, 0])
    assert abs(drawn.mean() - mean) < 4 * sd / np.sqrt(chains)
    assert drawn.std() == pytest.approx(sd, rel=0.15)


def test_a_fit_begins_at_the_dispersion_that_rates_leave():
    """The squared coefficient of variation beyond Poisson is (1 + 1/r) exp(variance) − 1."""
    rng, r, share = np.random.default_rng(2), 2.0, 0.3
    x = rng.negative_binomial(r, r / (r + 20.0), 20_000).astype(float)
    rows = np.column_stack([x, 0 * x])
    one = CountLikelihood.of(rows, ("a",), "negative_binomial")
    alone, _ = one.start(rows, np.zeros(1))
    assert alone.dispersion == pytest.approx(r, rel=0.05)
    beside, sd = one.start(rows, np.full(1, share))
    common = share * sd**2
    assert (1 + 1 / beside.dispersion) * np.exp(common) == pytest.approx(1 + 1 / r, rel=0.03)
    assert beside.location == pytest.approx(alone.location - common / 2)


@pytest.mark.parametrize("missing", [False, True])
def test_derivatives_by_the_dispersion_are_differences(missing):
    """Of SciPy's log probabilities, summed over the rows that were observed."""
    rng, step = np.random.default_rng(5), 1e-4
    counts = rng.poisson(3.0, (1, 12, 3)).astype(float)
    if missing:
        counts[0, [0, 3, 4], [1, 1, 2]] = np.nan
    log_rate, logs = rng.normal(0.5, 1.0, counts.shape), np.array([[-0.7, 0.4, 2.0]])

    def value(at):
        r = np.exp(at)[:, None, :]
        return np.nansum(stats.nbinom.logpmf(counts, r, r / (r + np.exp(log_rate))), axis=1)

    up, here, down = value(logs + step), value(logs), value(logs - step)
    tally = counts_module._Tally.of(counts)
    found, first, second = counts_module._dispersion_sums(tally, counts, log_rate, logs)
    # Without what does not depend on the dispersion.
    far = counts_module._dispersion_sums(tally, counts, log_rate, logs + 1.0)[0]
    assert found - far == pytest.approx(here - value(logs + 1.0), rel=1e-9)
    assert first == pytest.approx((up - down) / (2 * step), rel=1e-6)
    assert second == pytest.approx((up - 2 * here + down) / step**2, rel=1e-4)


def test_each_column_begins_at_its_own_spread():
    rng = np.random.default_rng(6)
    log_rates = rng.normal(size=(4000, 2)) * [0.4, 1.1] + [3.0, 4.0]
    rows = np.column_stack([rng.poisson(np.exp(log_rates)), np.zeros(4000)])
    one = CountLikelihood.of(rows, ("a", "b"), "poisson")
    _, sd = one.start(rows, np.zeros(2))
    assert sd == pytest.approx(np.log(rows[:, :2] + 0.5).std(axis=0), rel=1e-12)
