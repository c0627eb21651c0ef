"""Rows with a t distribution, against SciPy's and its representation as a mixture."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from cuspfa.model.row_tails import NORMAL_TAILS, RowTails

TAILS, P = RowTails(5.0), 3
SHAPE = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
ROWS = np.array([[0.1, -0.4, 0.2], [3.0, 1.0, -2.0], [0.0, 0.0, 0.0]])
SQUARES = np.sum(ROWS * np.linalg.solve(SHAPE, ROWS.T).T, axis=1)
LOG_DET = float(np.log(np.linalg.det(2 * np.pi * SHAPE)))


def test_the_density_is_that_of_the_t_distribution():
    want = stats.multivariate_t(shape=SHAPE, df=5.0).logpdf(ROWS)
    assert_allclose(TAILS.log_density(LOG_DET, SQUARES, P), want, rtol=1e-12)
    want = stats.multivariate_normal(cov=SHAPE).logpdf(ROWS)
    assert_allclose(NORMAL_TAILS.log_density(LOG_DET, SQUARES, P), want, rtol=1e-12)


@pytest.mark.parametrize("square", [0.0, 3.0, 40.0])
def test_weights_are_means_given_the_row(square):
    """u ~ Ga(ν/2, ν/2) and y | u ~ N(0, Ω/u): by an integral over u."""

    def density(u):
        return stats.gamma(2.5, scale=1 / 2.5).pdf(u) * u ** (P / 2) * np.exp(-u * square / 2)

    total, moment = (integrate.quad(lambda u, k=k: u**k * density(u), 0, np.inf)[0] for k in (0, 1))
    assert TAILS.weights(np.array([square]), P)[0] == pytest.approx(moment / total, rel=1e-8)
    assert NORMAL_TAILS.weights(np.array([square]), P)[0] == 1.0
    drawn = TAILS.draw_weights(np.full(40_000, square), P, np.random.default_rng(0))
    error = drawn.std() / 200
    assert abs(drawn.mean() - moment / total) < 4.5 * error
    assert abs(drawn.mean() - 1.05 * moment / total) > 4.5 * error


def test_rows_with_heavy_tails_count_less():
    assert TAILS.effective_rows(100.0, P) == pytest.approx(100 * (5 + 3) / (5 + 3 + 2))
    assert NORMAL_TAILS.effective_rows(100.0, P) == 100.0
