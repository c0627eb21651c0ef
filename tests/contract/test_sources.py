"""Every home of the data gives an engine the same numbers as the dense definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cuspfa.data.arrays import GramMatrix, RowMatrix, complete_matrix
from cuspfa.data.source import CompleteSource
from cuspfa.prior import CuspPrior
from cuspfa.variational.cycle import cycle
from cuspfa.variational.starts import draw_start

HOMES = {"gram": lambda y, n: GramMatrix(y.T @ y, n), "rows": RowMatrix}


@pytest.fixture(params=[(30, 7), (5, 12), (6, 6)], ids=str)
def y(request):
    rows = np.random.default_rng(0).normal(size=request.param)
    return rows - rows.mean(axis=0)


@pytest.mark.parametrize("home", HOMES)
def test_products(home, y):
    matrix = HOMES[home](y, float(len(y)))
    w = np.random.default_rng(1).normal(size=(y.shape[1], 3))
    cross, inner = matrix.products(w)
    assert_allclose(cross, y.T @ (y @ w), rtol=1e-10, atol=1e-10)
    assert_allclose(inner, (y @ w).T @ (y @ w), rtol=1e-10, atol=1e-10)
    assert_allclose(matrix.sum_of_squares, (y**2).sum(axis=0))


def test_the_homes_give_the_same_fit(y):
    prior = CuspPrior()
    ends = []
    for home in HOMES.values():
        source = CompleteSource(home(y, float(len(y))))
        state = draw_start(source, prior, y.shape[1] + 1, np.random.default_rng(2))
        for _ in range(10):
            state = cycle(state, source, prior)
        ends.append(state)
    assert_allclose(ends[0].loadings.mean, ends[1].loadings.mean, rtol=1e-9, atol=1e-10)
    assert_allclose(ends[0].noise.rate, ends[1].noise.rate, rtol=1e-9)


def test_the_cheaper_home_is_chosen():
    assert isinstance(complete_matrix(np.ones((5, 3)), 5.0), GramMatrix)
    assert isinstance(complete_matrix(np.ones((3, 5)), 3.0), RowMatrix)
