"""The compiled parts of the evidence against their definitions in NumPy."""

import numpy as np
import pytest

from cuspfa.inference._kernels import kernel
from cuspfa.inference.updates import Loadings
from cuspfa.inference.variational import collapsed_bound

pytestmark = pytest.mark.skipif(
    kernel("evidence") is None, reason="the compiled core is not built here"
)


@pytest.mark.parametrize("k", [0, 1, 2, 5, 13])
def test_metrics_of_directions(k, both_ways):
    rng, p = np.random.default_rng(k), 20
    distribution = Loadings(
        rng.normal(size=(p, k)), rng.normal(size=(k, k)), rng.uniform(1, 2, p), np.ones(k), 0.0
    )
    turns = collapsed_bound._turns_by_strength(distribution.column_squared_norm)
    metric = distribution.metric()
    compiled, expected = both_ways(
        collapsed_bound, lambda: collapsed_bound.direction_metrics(metric, k, turns)
    )
    for one, two in zip(compiled, expected, strict=True):
        assert one.shape == two.shape
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-10)
