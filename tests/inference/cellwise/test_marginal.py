"""Probabilities of rows against integrals, closed forms and maximum likelihood fits of LSAT 6, 7.

The estimates are those of maximum likelihood with one factor, found by 101-node quadrature without
code of the package. One of their log-likelihoods is computed again here, by adaptive integration.
"""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from cuspfa import CuspPrior, GaussianSlab
from cuspfa.inference.cellwise.marginal import (
    corrections,
    propagate,
    row_gradients,
)
from cuspfa.inference.cellwise.prediction import FittedCells
from cuspfa.inference.cellwise.search import fit_cells
from cuspfa.inference.cellwise.state import RowScores
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood, ContinuousParameters
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from lsat import LSAT6, LSAT7, answers
from oracles import cellwise as literal
from oracles.cell_variational import CellModel, run_cells, start_at
from oracles.cumulants import best_slopes
from oracles.row_sampling import sample_rows

REFERENCE = {
    ("6", "probit"): (
        [0.4169, 0.4333, 0.5373, 0.4044, 0.3587],
        [1.5520, 0.5999, 0.1512, 0.7723, 1.1966],
        -2466.685,
    ),
    ("6", "logit"): (
        [0.8257, 0.7227, 0.8909, 0.6884, 0.6569],
        [2.7732, 0.9902, 0.2492, 1.2848, 2.0533],
        -2466.653,
    ),
    ("7", "probit"): (
        [0.5601, 0.6478, 0.9860, 0.4623, 0.4114],
        [1.0843, 0.4852, 1.0462, 0.2956, 1.0888],
        -2658.785,
    ),
    ("7", "logit"): (
        [0.9876, 1.0808, 1.7075, 0.7650, 0.7357],
        [1.8559, 0.8080, 1.8052, 0.4860, 1.8544],
        -2658.805,
    ),
}
"""Slopes, intercepts and log-likelihood."""
DATA = {"6": LSAT6, "7": LSAT7}


def small_problem(k=1, n=25):
    rng = np.random.default_rng(0)
    loadings = np.array([[0.5, 0.8], [1.0, -0.3], [-0.7, 0.4], [1.5, 0.2], [0.2, 1.1]])[:, :k]
    cuts = np.tile([-0.6, 0.5], (5, 1))
    f = rng.normal(size=(n, k)) @ loadings.T + rng.normal(size=(n, 5))
    rows = np.sum(f[:, :, None] > cuts, axis=2).astype(float)
    rows[2, 3] = np.nan
    one = OrdinalLikelihood(((0, 1, 2),) * 5, tuple("abcde"))
    return one, one.check(rows), cuts, loadings


def test_both_ways_give_the_integral_for_one_factor():
    one, values, cuts, loadings = small_problem()
    exact = literal.log_marginal(values, loadings, cuts)
    found = propagate(values, one, cuts, loadings)
    assert found.converged
    assert found.log_probability.sum() == pytest.approx(exact, abs=0.05)
    drawn = sample_rows(values, one, cuts, loadings, found.scores, np.random.default_rng(0), 10)
    total, error = drawn.total()
    assert error < 0.02
    assert total == pytest.approx(exact, abs=4 * error)
    # The proposal matters for the error alone: from the prior it is unbiased too.
    n = len(values)
    prior = RowScores(np.zeros((n, 1)), np.ones((n, 1, 1)), np.zeros(n))
    total, worse = sample_rows(
        values, one, cuts, loadings, prior, np.random.default_rng(1), 10
    ).total()
    assert total == pytest.approx(exact, abs=4 * worse)
    # The control: other loadings are several errors away.
    assert abs(literal.log_marginal(values, 1.3 * loadings, cuts) - exact) > 10 * error


def test_both_ways_give_the_integral_for_two_factors():
    one, values, cuts, loadings = small_problem(2, 6)

    def density(y, x, row):
        f = loadings @ np.array([x, y])
        logs = sum(
            literal.log_probability(int(code), f[j], cuts[j])
            for j, code in enumerate(row)
            if not np.isnan(code)
        )
        return np.exp(logs - 0.5 * (x * x + y * y)) / (2 * np.pi)

    grid = np.linspace(-6, 6, 61)
    exact = np.array(
        [
            np.log(sum(density(y, x, row) for x in grid for y in grid) * (grid[1] - grid[0]) ** 2)
            for row in values
        ]
    )
    found = propagate(values, one, cuts, loadings)
    np.testing.assert_allclose(found.log_probability, exact, atol=0.01)
    drawn = sample_rows(values, one, cuts, loadings, found.scores, np.random.default_rng(2), 10)
    assert np.all(np.abs(drawn.log_probability - exact) < 6 * drawn.error + 1e-6)
    assert np.max(drawn.error) < 0.01


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_the_gradient_of_propagation_is_a_derivative(link):
    one, values, cuts, loadings = small_problem(2)
    one = OrdinalLikelihood(one.levels, one.names, link)
    at = propagate(values, one, cuts, loadings)
    got, step = row_gradients(at, values, one, cuts, loadings).sum(axis=0), 1e-3
    for j, h in ((0, 0), (1, 1), (3, 0), (4, 1)):
        around = []
        for sign in (-step, step):
            moved = loadings.copy()
            moved[j, h] += sign
            around.append(propagate(values, one, cuts, moved, at).log_probability.sum())
        assert got[j, h] == pytest.approx((around[1] - around[0]) / (2 * step), abs=2e-3)


def test_for_continuous_columns_propagation_is_exact():
    rng = np.random.default_rng(3)
    loadings, noise = rng.normal(size=(4, 2)), np.array([0.3, 0.8, 1.2, 0.5])
    location = rng.normal(size=4)
    one = ContinuousLikelihood(tuple("abcd"))
    parameters = ContinuousParameters(location, Noise(np.ones(4), noise))
    rows = rng.normal(size=(6, 4))
    rows[1, 2] = rows[3, 0] = rows[3, 1] = np.nan
    omega = loadings @ loadings.T + np.diag(noise)
    want = []
    for row in rows:
        seen = ~np.isnan(row)
        normal = stats.multivariate_normal(location[seen], omega[np.ix_(seen, seen)])
        want.append(normal.logpdf(row[seen]))
    found = propagate(rows, one, parameters, loadings)
    np.testing.assert_allclose(found.log_probability, want, atol=1e-6)
    precision = np.eye(2) + (loadings[2:].T / noise[2:]) @ loadings[2:]
    np.testing.assert_allclose(np.linalg.inv(found.scores.covariance[3]), precision, rtol=1e-4)


def test_a_column_without_loadings_is_independent():
    one, values, cuts, loadings = small_problem()
    for link in ("probit", "logit"):
        same = OrdinalLikelihood(one.levels, one.names, link)
        zero = np.zeros_like(loadings)
        found = propagate(values, same, cuts, zero).log_probability
        logs = same.log_density(values, np.zeros(values.shape), cuts).sum(axis=1)
        np.testing.assert_allclose(found, logs, atol=1e-6)
        none = propagate(values, same, cuts, loadings[:, :0])
        np.testing.assert_allclose(none.log_probability, logs, atol=1e-6)
        rng = np.random.default_rng(0)
        drawn = sample_rows(values, same, cuts, loadings[:, :0], none.scores, rng, 2)
        np.testing.assert_allclose(drawn.log_probability, logs, atol=1e-6)


@pytest.mark.parametrize("case", REFERENCE)
def test_lsat_log_likelihoods(case):
    number, link = case
    slopes, intercepts, want = REFERENCE[case]
    patterns, counts = answers(DATA[number])
    assert counts.sum() == 1000
    one = OrdinalLikelihood.of(patterns, link=link)
    loadings, cuts = np.array(slopes)[:, None], -np.array(intercepts)[:, None]
    found = propagate(patterns, one, cuts, loadings)
    who = np.repeat(np.arange(len(patterns)), counts.astype(int))
    scores = RowScores(*(part[who] for part in found.scores))
    drawn = sample_rows(patterns[who], one, cuts, loadings, scores, np.random.default_rng(0), 7)
    total, error = drawn.total()
    assert error < 0.02
    assert total == pytest.approx(want, abs=0.01 + 2 * error)
    # EP has an error of its own, as five items say little about a score; its corrections end it.
    plain = found.log_probability @ counts
    assert 0.05 < abs(plain - want) < (0.4 if number == "6" else 2.0)
    more = corrections(found, patterns, one, cuts, loadings)
    assert plain + more @ counts == pytest.approx(want, abs=0.05)
    fit = FittedCells(one, loadings, cuts)
    assert fit.log_probability(patterns) @ counts == pytest.approx(want, abs=0.005)


@pytest.mark.parametrize("case", REFERENCE)
def test_lsat_slopes_by_propagation(case):
    # In the limit of a flat prior, by the function that fits.
    number, link = case
    slopes, intercepts, want = REFERENCE[case]
    patterns, counts = answers(DATA[number])
    rows = np.repeat(patterns, counts.astype(int), axis=0)
    one = OrdinalLikelihood.of(rows, link=link, cut_sd=1e3)
    mode = fit_cells(one.check(rows), one, CuspPrior(slab=GaussianSlab(1e6)), 1).mode
    sign = np.sign(mode.loadings.sum())
    np.testing.assert_allclose(sign * mode.loadings[:, 0], slopes, atol=0.005)
    np.testing.assert_allclose(-mode.parameters[:, 0], intercepts, atol=0.005)
    assert mode.log_likelihood == pytest.approx(want, abs=0.05)


def test_without_its_corrections_propagation_has_other_slopes():
    # The control: LSAT 7 has a steep item.
    slopes, _, _ = REFERENCE["7", "probit"]
    patterns, counts = answers(LSAT7)
    one = OrdinalLikelihood.of(patterns)

    def loss(at):
        return -counts @ propagate(patterns, one, -at[5:, None], at[:5, None]).log_probability

    found = optimize.minimize(loss, np.full(10, 0.6), method="BFGS", options={"gtol": 0.01}).x
    assert found[2] - slopes[2] == pytest.approx(-0.024, abs=0.003)


@pytest.mark.parametrize("number", ["6", "7"])
def test_lsat_slopes_by_the_variational_engine(number):
    # Flat prior. The engine is at the maximum of its bound, as an optimiser without code of the
    # package finds it.
    patterns, counts = answers(DATA[number])
    slopes, bound = best_slopes(patterns, counts, second=False)
    rows = np.repeat(patterns, counts.astype(int), axis=0)
    one = OrdinalLikelihood.of(rows, cut_sd=1e3)
    model = CellModel(one.check(rows), one, CuspPrior(slab=GaussianSlab(1e6)), point_loadings=True)
    run = run_cells(start_at(np.full((5, 1), 0.5), model), model, tol=1e-5)
    assert run.falls == 0
    np.testing.assert_allclose(run.state.loadings.mean[:, 0], slopes, atol=0.002)
    assert run.bound.likelihood + run.bound.scores == pytest.approx(bound, abs=0.001)
    assert bound < REFERENCE[number, "probit"][2]


@pytest.mark.parametrize(("number", "off"), [("6", 0.010), ("7", 0.080)])
def test_the_second_cumulant_is_what_the_bound_lacks(number, off):
    # Where scores have a normal distribution, and five items say little about them.
    want, _, log_likelihood = REFERENCE[number, "probit"]
    given = answers(DATA[number])
    slopes, _ = best_slopes(*given, second=False)
    assert np.abs(slopes / want - 1).max() == pytest.approx(off, abs=0.002)
    slopes, value = best_slopes(*given, second=True)
    assert np.abs(slopes / want - 1).max() < 0.005
    assert value == pytest.approx(log_likelihood, abs=0.02)


def test_the_reference_integral_has_the_reference_value():
    # The control of the references: a likelihood without quadrature nodes of the package.
    slopes, intercepts, want = REFERENCE["6", "probit"]
    patterns, counts = answers(LSAT6)
    total = 0.0
    for pattern, count in zip(patterns, counts, strict=True):

        def density(eta, pattern=pattern):
            chance = stats.norm.cdf(np.array(slopes) * eta + np.array(intercepts))
            return np.prod(np.where(pattern > 0, chance, 1 - chance)) * stats.norm.pdf(eta)

        total += count * np.log(integrate.quad(density, -8, 8)[0])
    assert total == pytest.approx(want, abs=0.002)
