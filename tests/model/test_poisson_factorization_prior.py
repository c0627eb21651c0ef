"""The prior of Poisson factorization: its scale, its start and the density of its parameters."""

import math

import numpy as np
import pytest
from scipy import stats

from cuspfa import PoissonFactorizationPrior
from cuspfa.model.poisson_factorization import (
    LARGEST_SHAPE,
    POOLING_RATE,
    POOLING_SHAPE,
    SHAPE_CENTER,
    SHAPE_SPREAD,
    SIZE_SPREAD,
    SMALLEST_SHAPE,
    Hyperparameters,
    moved,
)


def test_the_size_is_that_of_the_data_unless_it_is_given():
    assert PoissonFactorizationPrior().for_data(3.0).size == 3.0
    assert PoissonFactorizationPrior().for_data(0.0).size == 1.0
    assert PoissonFactorizationPrior(size=2.0).for_data(3.0).size == 2.0


@pytest.mark.parametrize(("alpha", "in_a_column"), [(4.0, 1.5), (0.5, 6.0)])
def test_a_fit_begins_at_the_size_of_the_prior(alpha, in_a_column):
    """The mean c f / e of a loading is the size, shared by the columns that are expected."""
    prior = PoissonFactorizationPrior(alpha=alpha, size=6.0)
    start = prior.start()
    assert prior.column_size == in_a_column
    c, e, f = start.loading_shape, start.rate_shape, start.rate_scale
    assert c * f / e == pytest.approx(in_a_column, rel=1e-12)
    given = PoissonFactorizationPrior(
        score_shape=0.4, loading_shape=0.6, rate_shape=3.0, rate_scale=0.2
    )
    assert given.start() == Hyperparameters(0.4, 0.6, 3.0, 0.2)


def test_the_density_of_the_parameters_is_that_of_scipy():
    prior = PoissonFactorizationPrior(alpha=2.0, rate_shape=None, size=3.0)
    a, c, e, f = hyper = Hyperparameters(0.7, 0.2, 4.0, 1.3)
    wanted = (
        stats.norm.logpdf(math.log(a), math.log(SHAPE_CENTER), SHAPE_SPREAD)
        + stats.norm.logpdf(math.log(c), math.log(SHAPE_CENTER), SHAPE_SPREAD)
        + stats.gamma.logpdf(e, POOLING_SHAPE, scale=1.0 / POOLING_RATE)
        + math.log(e)  # a density of log e
        + stats.norm.logpdf(math.log(c * f / e), math.log(3.0 / 2.0), SIZE_SPREAD)
    )
    assert prior.log_hyperprior(hyper) == pytest.approx(wanted, rel=1e-12)
    known = PoissonFactorizationPrior(
        score_shape=0.7, loading_shape=0.2, rate_shape=4.0, rate_scale=1.3
    )
    assert known.log_hyperprior(hyper) == 0.0


@pytest.mark.parametrize(
    ("at", "direction", "step", "allowed"),
    [
        ((0.5, 0.5, 1.0, 1.0), (1, 0, 0, 0), np.log(2 * LARGEST_SHAPE), True),
        ((0.5, 0.5, 1.0, 1.0), (1, 0, 0, 0), np.log(2.01 * LARGEST_SHAPE), False),
        ((0.5, 0.5, 1.0, 1.0), (0, 1, 0, 0), np.log(2.01 * LARGEST_SHAPE), False),
        ((0.5, 0.5, 1.0, 1.0), (0, 1, 0, 0), np.log(1.99 * SMALLEST_SHAPE), False),
        ((0.5, 0.5, 1.0, 1.0), (1, 0, 0, 0), np.log(2.01 * SMALLEST_SHAPE), True),
        ((0.5, 0.5, 1.0, 1.0), (0, 0, 1, 1), np.log(0.051), True),
        ((0.5, 0.5, 1.0, 1.0), (0, 0, 1, 0), np.log(0.049), False),
        ((0.5, 0.5, 1.0, 1.0), (0, 0, 1, 0), np.log(1.01e4), False),
        ((0.5, 0.5, 1.0, 1.0), (0, 0, 0, 1), np.log(1.01e12), False),
        ((0.5, 0.5, 1.0, 1.0), (0, 0, 0, 1), np.log(0.99e-12), False),
    ],
)
def test_steps_of_hyperparameters_stay_within_their_limits(at, direction, step, allowed):
    found = moved(Hyperparameters(*at), direction, float(step))
    if not allowed:
        assert found is None
        return
    np.testing.assert_allclose(found, np.array(at) * np.exp(step * np.array(direction)))
