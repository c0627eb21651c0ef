"""Residual dispersion by loops over the cells, and its value for counts of known dispersion."""

import numpy as np
import pytest
from scipy import sparse

from cuspfa import CuspPoissonFactorization
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.prediction import count_totals
from cuspfa.inference.factorization.state import gammas


@pytest.mark.parametrize("with_missing", [False, True])
def test_dispersion_is_that_of_loops_over_the_cells(with_missing: bool) -> None:
    rng = np.random.default_rng(3)
    n, p, k = 7, 4, 2
    x, s = rng.poisson(1.5, (n, p)).astype(float), rng.uniform(0.5, 3, n)
    absent = rng.random((n, p)) < (0.3 if with_missing else 0)
    scores = gammas(rng.gamma(2, 1, (n, k)) + 1, rng.gamma(2, 1, (n, k)) + 5)
    loadings = gammas(rng.gamma(2, 1, (p, k)) + 1, rng.gamma(2, 1, (p, k)) + 5)
    squares, due, counted = np.zeros(p), np.zeros(p), 0.0
    for i in range(n):
        for j in range(p):
            if absent[i, j]:
                continue
            counted += x[i, j]
            rate = variance = 0.0
            for h in range(k):
                t, b = (q.shape[m, h] / q.rate[m, h] for q, m in ((scores, i), (loadings, j)))
                tt = t * t + scores.shape[i, h] / scores.rate[i, h] ** 2
                bb = b * b + loadings.shape[j, h] / loadings.rate[j, h] ** 2
                rate += s[i] * t * b
                variance += s[i] ** 2 * (tt * bb - t * t * b * b)
            squares[j] += (x[i, j] - rate) ** 2
            due[j] += rate - variance
    missing = sparse.csr_matrix(absent.astype(float)) if with_missing else None
    data = Counts(sparse.csr_matrix(np.where(absent, 0, x)), s, missing)
    found = count_totals(data, scores, loadings)
    assert np.all(due > 0)
    np.testing.assert_allclose(found.dispersion, squares / due, rtol=1e-9)
    assert found.dispersion_of_all == pytest.approx(squares.sum() / due.sum())
    assert found.n_events == counted
    assert found.n_missing == absent.sum()


def test_dispersion_is_one_for_poisson_counts_and_larger_for_others() -> None:
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.5, 2, (200, 3)) @ rng.gamma(0.5, 2, (3, 40))
    poisson = rng.poisson(rates)
    # Negative binomial with variance λ + λ²/2.
    other = rng.poisson(rates * rng.gamma(2.0, 0.5, rates.shape))
    excess = 1 + float(np.sum(rates**2) / np.sum(rates)) / 2
    found = []
    for x in (poisson, other):
        model = CuspPoissonFactorization(n_factors=3, random_state=0).fit(x)
        found.append(model.posterior_.totals.dispersion_of_all)
    assert 0.9 < found[0] < 1.1
    assert found[1] == pytest.approx(excess, rel=0.25)
    assert found[1] > 2
