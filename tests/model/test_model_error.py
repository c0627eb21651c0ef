"""The model with error against simulation, brute-force integration and numerical derivatives."""

import numpy as np
import pytest
from scipy.stats import invwishart, multivariate_normal

from cuspfa.model.model_error import (
    LEAST_PART,
    ModelError,
    Sample,
    draw_population,
    log_marginal_density,
    nearest_gaussian,
)
from cuspfa.posterior.population import Population


def covariance_of(p, seed=0):
    root = np.random.default_rng(seed).standard_normal((p, 2 * p))
    return root @ root.T / (2 * p)


def discrepancy(population, model):
    """The maximum-likelihood discrepancy, minimised over multiples of the model."""
    p = len(model)
    ratio = np.linalg.solve(model, population)
    best = np.trace(ratio) / p
    return p * np.log(best) - np.linalg.slogdet(ratio)[1]


@pytest.mark.parametrize(("size", "p"), [(0.05, 6), (0.1, 10), (0.2, 4)])
def test_size_is_the_rmsea_of_simulated_populations(size, p):
    error, model = ModelError.of_size(size, p), covariance_of(p)
    draws = invwishart(df=error.degrees, scale=error.degrees * model).rvs(4000, random_state=1)
    found = [discrepancy(one, model) for one in draws]
    # Ω is not fitted here but for its scale, which takes 1 of the p(p + 1)/2 degrees of freedom.
    free = p * (p + 1) / 2
    rmsea = np.sqrt(np.mean(found) / (free - 1))
    assert rmsea == pytest.approx(size, rel=0.02)


@pytest.mark.parametrize(("size", "p"), [(0.05, 6), (0.1, 75), (0.3, 40), (0.02, 500), (1e-6, 10)])
def test_degrees_exist_for_every_size_and_solve_the_equation(size, p):
    import mpmath

    m = mpmath.mpf(ModelError.of_size(size, p).degrees)
    assert m > p + 1
    value = sum(mpmath.digamma((m - i) / 2) for i in range(p)) + p * mpmath.log(2 / (m - p - 1))
    assert float(mpmath.sqrt(value / (p * (p + 1) / 2))) == pytest.approx(size, rel=1e-3)


def test_small_errors_are_a_number_of_rows():
    assert ModelError.of_size(0.01, 5).degrees == pytest.approx(1e4, rel=0.01)
    assert ModelError.of_size(0.05, 25).effective_rows(1e9) == pytest.approx(418, abs=1)
    assert ModelError.of_size(1e-6, 5).effective_rows(1000) == 1000


def brute_force(rows, model, error, rng, scale=None):
    """log p(Y | Ω) as a mean over simulated populations."""
    draws = invwishart(df=error.degrees, scale=error.degrees * model if scale is None else scale)
    terms = np.array(
        [
            multivariate_normal(np.zeros(len(model)), one).logpdf(rows).sum()
            for one in draws.rvs(20_000, random_state=rng)
        ]
    )
    top = terms.max()
    weights = np.exp(terms - top)
    value = top + np.log(weights.mean())
    return value, weights.std() / weights.mean() / np.sqrt(len(terms))


def test_marginal_density_is_the_mean_over_populations():
    rng = np.random.default_rng(3)
    model, error = np.array([[1.0, 0.4], [0.4, 2.0]]), ModelError.of_size(0.3, 2)
    rows = rng.standard_normal((5, 2)) * [1.0, 1.5]
    sample = Sample(rows.T @ rows, 5.0)
    value, standard_error = brute_force(rows, model, error, rng)
    assert standard_error < 0.05
    found = float(log_marginal_density(model, sample, error))
    assert found == pytest.approx(value, abs=4 * standard_error)
    # A scale matrix with E[Σ̃] = Ω is another density, which this comparison tells apart.
    other, other_error = brute_force(rows, model, error, rng, (error.degrees - 3) * model)
    assert abs(found - other) > 4 * other_error


def test_marginal_density_is_gaussian_without_error():
    rows = np.random.default_rng(0).standard_normal((30, 3))
    model = covariance_of(3, 1)
    expected = multivariate_normal(np.zeros(3), model).logpdf(rows).sum()
    sample = Sample(rows.T @ rows, 30.0)
    found = log_marginal_density(model, sample, ModelError(1e-4, 1e8))
    assert float(found) == pytest.approx(expected, abs=1e-3)
    assert abs(float(log_marginal_density(model, sample, ModelError(0.1, 100.0))) - expected) > 0.1


def gaussian(model, sample):
    _, log_det = np.linalg.slogdet(model)
    return -0.5 * (sample.rows * log_det + np.trace(np.linalg.solve(model, sample.cross_products)))


def directional(function, model, direction, step):
    """First and second derivative at `model`."""
    low, middle, high = (function(model + t * direction) for t in (-step, 0.0, step))
    return (high - low) / (2 * step), (high - 2 * middle + low) / step**2


@pytest.mark.parametrize("seed", range(5))
def test_nearest_gaussian_has_the_gradient_of_the_marginal_density(seed):
    rng = np.random.default_rng(seed)
    p = 4
    model = covariance_of(p, seed)
    rows = rng.multivariate_normal(np.zeros(p), model, size=300)
    error, sample = ModelError.of_size(0.08, p), Sample(rows.T @ rows, 300.0)
    near = nearest_gaussian(model, sample, error)
    assert near.rows == error.effective_rows(300.0)
    plain = Sample(sample.cross_products * near.rows / 300, near.rows)
    differs = False
    for _ in range(5):
        direction = rng.standard_normal((p, p))
        direction = (direction + direction.T) / 10
        slope, curvature = directional(
            lambda at: float(log_marginal_density(at, sample, error)), model, direction, 1e-4
        )
        own_slope, own_curvature = directional(
            lambda at: gaussian(at, near), model, direction, 1e-4
        )
        assert own_slope == pytest.approx(slope, rel=1e-3, abs=0.02)
        assert own_curvature == pytest.approx(curvature, rel=0.35)
        other, _ = directional(lambda at: gaussian(at, plain), model, direction, 1e-4)
        differs |= abs(other - slope) > 0.1
    assert differs  # the rows themselves, fewer of them, have another gradient


def test_density_is_highest_at_the_sample_with_the_curvature_of_the_effective_rows():
    p, rows = 3, 500.0
    truth = covariance_of(p, 2)
    error, sample = ModelError.of_size(0.05, p), Sample(rows * truth, rows)
    direction = np.array([[0.3, 0.1, 0.0], [0.1, -0.2, 0.2], [0.0, 0.2, 0.1]])
    slope, curvature = directional(
        lambda at: float(log_marginal_density(at, sample, error)), truth, direction, 1e-3
    )
    n = rows * error.degrees / (rows + error.degrees)
    expected = -0.5 * n * np.trace(np.linalg.matrix_power(np.linalg.solve(truth, direction), 2))
    assert slope == pytest.approx(0.0, abs=1e-2)
    assert curvature == pytest.approx(expected, rel=1e-3)


def test_nearest_gaussian_is_positive_definite_far_from_the_data():
    model, error = np.eye(3), ModelError.of_size(0.1, 3)
    sample = Sample(np.diag([1e-3, 1.0, 50.0]) * 200, 200.0)
    assert np.linalg.eigvalsh(nearest_gaussian(model, sample, error).cross_products).min() > 0


def test_population_given_the_data_against_scipy():
    p, rows = 3, 20.0
    error, sample = ModelError(0.2, 9.0), Sample(20 * covariance_of(p, 5), rows)
    model = covariance_of(p, 6)
    exact = invwishart(df=rows + 9.0, scale=sample.cross_products + 9.0 * model)
    population = Population(np.linalg.cholesky(sample.cross_products).T, rows, error)
    mean = (population.sample.cross_products + 9.0 * model) / population.freedom
    assert mean == pytest.approx(exact.mean())
    draws = draw_population(
        np.broadcast_to(model, (40_000, p, p)), sample, error, np.random.default_rng(0)
    )
    others = exact.rvs(40_000, random_state=1)
    for one in ((0, 0), (0, 1), (2, 2)):
        ours, theirs = draws[:, one[0], one[1]], others[:, one[0], one[1]]
        assert ours.mean() == pytest.approx(theirs.mean(), abs=5 * theirs.std() / 140)
        assert ours.std() == pytest.approx(theirs.std(), rel=0.03)
    # One degree of freedom more or less is seen.
    wrong = invwishart(df=rows + 10.0, scale=sample.cross_products + 9.0 * model).mean()
    assert abs(draws[:, 0, 0].mean() - wrong[0, 0]) > 5 * draws[:, 0, 0].std() / 200


def test_nearest_rows_have_nothing_where_the_data_have_nothing():
    """Nor do they become negative where the data have little of what the model has."""
    error, rows, p = ModelError.of_size(0.1, 4), 60.0, 4
    n = error.effective_rows(rows)
    ratio = np.array([0.0, 0.02, 1.0, 30.0])
    near = nearest_gaussian(np.eye(p), Sample(rows * np.diag(ratio), rows), error)
    found = np.diag(near.cross_products) / near.rows
    assert near.rows == n < rows
    assert found[0] == pytest.approx(0.0, abs=1e-12)
    assert found[1] == pytest.approx(LEAST_PART * 0.02)
    assert found[2] == pytest.approx(1.0)  # data that agree with the model agree with it still
    assert 1.0 < found[3] < 30.0
