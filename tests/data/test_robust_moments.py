"""Moments of rows with a t distribution: against SciPy's density, and what outlying rows do."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from scipy.stats import multivariate_t

from cuspfa import CuspFactorAnalysis, Moments, datasets, robust_moments
from cuspfa.errors import CuspWarning, DataError, InputError


def t_rows(rng, n, covariance, degrees):
    """Rows of a t distribution: normal ones divided by the root of a chi-square."""
    normal = rng.multivariate_normal(np.zeros(len(covariance)), covariance, n)
    return normal / np.sqrt(rng.chisquare(degrees, n) / degrees)[:, None]


def log_likelihood(rows, mean, scale, degrees):
    return float(multivariate_t(mean, scale, df=degrees).logpdf(rows).sum())


def test_maximum_of_scipys_likelihood():
    rng = np.random.default_rng(3)
    rows = t_rows(rng, 80, np.array([[2.0, 0.8], [0.8, 1.0]]), 4.0)
    rows += [5.0, -3.0]
    found = robust_moments(rows)

    def negative(x):
        root = np.array([[np.exp(x[2]), 0.0], [x[3], np.exp(x[4])]])
        return -log_likelihood(rows, x[:2], root @ root.T, np.exp(x[5]))

    best = minimize(negative, [5.0, -3.0, 0.3, 0.5, 0.0, 1.0], options={"gtol": 1e-6})
    value = log_likelihood(rows, found.mean, found.scale_matrix, found.degrees_of_freedom)
    assert value == pytest.approx(-best.fun, abs=1e-4)
    assert_allclose(found.mean, best.x[:2], atol=1e-3)
    assert found.degrees_of_freedom == pytest.approx(np.exp(best.x[5]), rel=0.01)
    # Negative control: the moments of all rows are far below.
    plain = log_likelihood(rows, rows.mean(axis=0), np.cov(rows.T), found.degrees_of_freedom)
    assert plain < value - 1


def test_weights_are_those_of_the_distances_and_have_mean_one():
    rows = t_rows(np.random.default_rng(0), 200, np.eye(3), 5.0)
    found = robust_moments(rows)
    centred = rows - found.mean
    distances = np.sum(centred @ np.linalg.inv(found.scale_matrix) * centred, axis=1)
    assert_allclose(found.distances, distances, rtol=1e-9)
    degrees = found.degrees_of_freedom
    assert_allclose(found.weights, (degrees + 3) / (degrees + distances), rtol=1e-9)
    assert found.weights.mean() == pytest.approx(1.0, abs=1e-3)


def test_rows_with_thin_tails_have_the_moments_of_all_rows():
    rows = np.random.default_rng(1).uniform(size=(60, 4))
    found, plain = robust_moments(rows), Moments.from_rows(rows)
    assert np.isinf(found.degrees_of_freedom)
    assert_array_equal(found.weights, 1.0)
    assert found.moments().n == 60
    assert_allclose(found.moments().cross_products, plain.cross_products, rtol=1e-12)
    assert len(found.outlying()) == 0


def test_other_units_and_orders_give_the_same():
    rows = t_rows(np.random.default_rng(2), 100, np.eye(3), 3.0)
    found = robust_moments(rows)
    turned = np.array([[1.0, 2.0, 0.0], [0.0, -3.0, 1.0], [0.5, 0.0, 1e3]])
    order = np.random.default_rng(0).permutation(100)
    other = robust_moments((rows @ turned.T + 7.0)[order])
    assert_allclose(other.weights, found.weights[order], rtol=1e-5)
    assert_allclose(other.scale_matrix, turned @ found.scale_matrix @ turned.T, rtol=1e-4)


def test_information_on_correlations_is_that_of_the_effective_rows():
    """The variance of estimated correlations by simulation, against (1 − ρ²)²/n_eff."""
    rng, degrees, n, rho = np.random.default_rng(4), 3.0, 200, 0.5
    covariance = np.array([[1.0, rho], [rho, 1.0]])
    estimates, plain, effective = [], [], []
    for _ in range(120):
        rows = t_rows(rng, n, covariance, degrees)
        found = robust_moments(rows)
        scale = found.scale_matrix
        estimates.append(scale[0, 1] / np.sqrt(scale[0, 0] * scale[1, 1]))
        plain.append(np.corrcoef(rows.T)[0, 1])
        effective.append(found.effective_rows)
    ratio = np.var(estimates) * np.mean(effective) / (1 - rho**2) ** 2
    assert 0.61 < ratio < 1.39  # three standard errors of a variance of 120
    # Negative control: Pearson correlations of these rows are far worse.
    assert np.var(plain) * n / (1 - rho**2) ** 2 > 2


def test_outlying_rows_make_no_factors():
    rng = np.random.default_rng(11)
    rows = datasets.simulate(500, 15, 3, strength=0.8, random_state=5).X
    clean = CuspFactorAnalysis().fit_moments(robust_moments(rows).moments())
    rows[:5] += 6 * rows.std(axis=0) * rng.choice([-1.0, 1.0], (5, 15))
    found = robust_moments(rows)
    robust = CuspFactorAnalysis().fit_moments(found.moments())
    plain = CuspFactorAnalysis().fit(rows)
    assert clean.n_factors_ == robust.n_factors_ == 3
    assert plain.n_factors_ > 3
    assert set(found.outlying()) == set(range(5))


def test_frames_empty_rows_and_tables():
    frame = pd.DataFrame(t_rows(np.random.default_rng(0), 50, np.eye(3), 5.0), columns=list("abc"))
    whole = robust_moments(frame)
    assert whole.moments().names == ["a", "b", "c"]
    with_gap = pd.concat([frame[:10], frame[:1] * np.nan, frame[10:]])
    with pytest.warns(CuspWarning, match="1 row"):
        found = robust_moments(with_gap)
    assert np.isnan(found.weights[10])
    assert_array_equal(np.delete(found.weights, 10), whole.weights)
    assert found.moments().n == whole.moments().n
    assert 10 not in found.outlying(1.0)
    table = found.to_frame()
    assert list(table.columns) == ["row", "weight", "distance"]
    assert len(table) == 51


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.random.default_rng(0).normal(size=(5, 4)), "at least 6 here. Got 5 rows"),
        (np.array([[1.0, np.nan], [2.0, 3.0], [0.0, 1.0], [4.0, 4.0], [1.0, 9.0]]), "NaN"),
        (sparse.csr_matrix(np.random.default_rng(0).normal(size=(9, 2))), "sparse"),
        (np.random.default_rng(0).normal(size=(9, 2)) @ np.ones((2, 3)), "linearly dependent"),
    ],
)
def test_data_without_robust_moments(rows, message):
    with pytest.raises(DataError, match=message):
        robust_moments(rows)


def test_columns_of_one_value_in_nearly_all_rows_are_named():
    rng = np.random.default_rng(0)
    rare = np.c_[rng.normal(size=(500, 15)), (np.arange(500) < 5) * 1.0]
    with pytest.raises(DataError, match=r"same value: column 15 in 495\. .* leave it out"):
        robust_moments(rare)
    frame = pd.DataFrame(rare, columns=[f"q{j}" for j in range(1, 17)])
    with pytest.raises(DataError, match=r"Many of 500 rows .* column 'q16' \(index 15\) in 495"):
        CuspFactorAnalysis(robust=True).fit(frame)
    # Negative control: a tenth of the rows is enough.
    rare[:50, 15] = 1.0
    assert np.all(np.isfinite(robust_moments(rare).weights))


def test_zeros_and_equal_rows_without_a_maximum_are_refused():
    rng = np.random.default_rng(0)
    zeros = np.where(rng.random((300, 8)) < 0.85, 0, rng.exponential(size=(300, 8))).round(3)
    counts = (zeros == 0).sum(axis=0)
    said = rf"column 0 in {counts[0]}, column 1 in {counts[1]}, .* 3 more\. .* columns or rows out"
    with pytest.raises(DataError, match=said):
        robust_moments(zeros)
    equal = np.r_[np.zeros((100, 15)), rng.normal(size=(400, 15))]
    with pytest.raises(DataError, match=r"column 0 in 10\d, "):
        robust_moments(equal)


@pytest.mark.parametrize("far", [1e6, 1e7, 1e12])
def test_a_row_that_is_out_by_many_digits_is_no_dependence_of_columns(far):
    rng = np.random.default_rng(0)
    clean = t_rows(rng, 300, np.eye(6) + 0.5, 6.0)
    found = robust_moments(np.r_[clean, np.full((1, 6), far)])
    assert found.outlying()[0] == 300
    assert found.weights[300] < 1e-9
    assert_allclose(found.scale_matrix, robust_moments(clean).scale_matrix, rtol=0.2)
    # Negative control: with the same row, columns that are sums of others are still refused.
    wide = np.c_[clean, clean[:, 0] + clean[:, 1]]
    with pytest.raises(DataError, match="linearly dependent"):
        robust_moments(np.r_[wide, np.full((1, 7), far)])


def test_columns_that_are_the_same_in_most_rows_are_refused():
    rows = np.random.default_rng(0).normal(size=(300, 6))
    rows[:295, 5] = rows[:295, 0]
    with pytest.raises(DataError, match="in all rows or in most"):
        robust_moments(rows)


def test_a_weight_is_between_zero_and_one():
    found = robust_moments(np.random.default_rng(0).normal(size=(20, 2)))
    with pytest.raises(InputError, match="weight must be a number between 0 and 1. Got 2"):
        found.outlying(2)
