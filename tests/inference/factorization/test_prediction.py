"""Residual dispersion by loops over the cells, and for counts of known dispersion; densities."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import gamma, poisson

from cuspfa import CuspPoissonFactorization
from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.prediction import count_totals, new_scores, row_log_densities
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
    observed = np.where(absent, 0, x)
    np.testing.assert_array_equal(found.by_column, observed.sum(axis=0))
    assert found.n_positive == np.count_nonzero(observed)


def test_log_densities_of_rows_are_integrals_over_the_scores() -> None:
    """Of two factors, by a product of Gauss–Legendre rules."""
    x, a, s = np.array([[3.0, 0.0, 2.0], [0.0, 1.0, 0.0]]), 1.7, np.array([1.0, 0.6])
    beta = np.array([[1.2, 0.3], [0.2, 0.9], [0.8, 0.5]])
    data = Counts(sparse.csr_matrix(x), s)
    q = new_scores(data, gammas(1e6 * beta, np.full(beta.shape, 1e6)), a)
    nodes, weights = np.polynomial.legendre.leggauss(80)
    at, weight = 8.0 * (nodes + 1.0), 8.0 * weights * gamma.pdf(8.0 * (nodes + 1.0), a, scale=1 / a)
    theta = np.stack(np.meshgrid(at, at, indexing="ij"), axis=-1)
    rates = s[:, None, None, None] * (theta @ beta.T)
    rows = np.prod(poisson.pmf(x[:, None, None], rates), axis=-1)
    wanted = np.log(np.einsum("a,b,nab->n", weight, weight, rows))
    found = row_log_densities(data, q, beta, a)
    np.testing.assert_allclose(found, wanted, atol=0.05)


def test_dispersion_is_one_for_poisson_counts_and_larger_for_others() -> None:
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.5, 2, (200, 3)) @ rng.gamma(0.5, 2, (3, 40))
    own = rng.poisson(rates)
    # Negative binomial with variance λ + λ²/2.
    other = rng.poisson(rates * rng.gamma(2.0, 0.5, rates.shape))
    excess = 1 + float(np.sum(rates**2) / np.sum(rates)) / 2
    found = []
    for x in (own, other):
        model = CuspPoissonFactorization(n_factors=3, random_state=0).fit(x)
        found.append(model.posterior_.totals.dispersion_of_all)
    assert 0.9 < found[0] < 1.1
    assert found[1] == pytest.approx(excess, rel=0.25)
    assert found[1] > 2
