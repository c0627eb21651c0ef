"""Parallel analysis, minimum average partial, congruence: published figures and definitions.

Published figures are of the 25 bfi items, printed by the R package psych:

KOPTUR  M. Koptur, "Factor Analysis" (2018), github.com/mrtkp9993/Statistical-Modeling-Examples,
        notebooks/Factor_Analysis.md: fa.parallel(bfi), all 2800 rows: 6 factors, 6 components.
TANAKA  Y. Tanaka, "因子分析に関して備忘録" (25 January 2021): fa.parallel and VSS of complete-case
        correlations with n.obs = 2800: 6 factors, 5 components, MAP by number of factors.
EASY    "Structural Models (EFA, CFA, SEM, ...)", easystats.github.io/parameters/articles/
        efa_cfa.html: Velicer's MAP of the complete rows has 5.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from bridge import pairwise_correlations
from cuspfa import datasets
from cuspfa.diagnostics import retention
from cuspfa.diagnostics.retention import (
    congruence,
    match_factors,
    minimum_average_partial,
    parallel_analysis,
)
from cuspfa.errors import InputError
from support import complete_rows

ITEMS = datasets.load_bfi(subset="items").data
ROWS = complete_rows(ITEMS)
COMPLETE = np.corrcoef(ROWS, rowvar=False)
ALL = pairwise_correlations(ITEMS)


def blocks(k, size, loading):
    """The correlation matrix of k factors with `size` variables each."""
    loadings = np.kron(np.eye(k), np.full((size, 1), loading))
    return loadings @ loadings.T + (1 - loading**2) * np.eye(k * size)


def draw(r, n, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, len(r))) @ np.linalg.cholesky(r).T


# --- parallel analysis ---


@pytest.mark.parametrize("quantile", [0.95, None])
def test_parallel_analysis_counts_as_published(quantile):
    def count(r, kind):
        return parallel_analysis(r, 2800, quantile=quantile, kind=kind, random_state=0).n_factors

    assert (count(ALL, "factors"), count(ALL, "components")) == (6, 6)  # KOPTUR
    assert (count(COMPLETE, "factors"), count(COMPLETE, "components")) == (6, 5)  # TANAKA


def test_noise_has_no_factors():
    shuffled = np.corrcoef(np.random.default_rng(0).permuted(ROWS, axis=0), rowvar=False)
    for kind in ("factors", "components"):
        found = parallel_analysis(shuffled, len(ROWS), kind=kind, random_state=0)
        assert found.n_factors == 0


@pytest.mark.parametrize("k", [1, 2, 4])
def test_parallel_analysis_finds_clear_factors(k):
    r = np.corrcoef(draw(blocks(k, 5, 0.6), 400, k), rowvar=False)
    for kind in ("factors", "components"):
        assert parallel_analysis(r, 400, kind=kind, random_state=0).n_factors == k
    # With a few rows behind it the same matrix says nothing.
    assert parallel_analysis(r, 7, kind="components", random_state=0).n_factors < k


def single_factor_loss(r, loadings):
    gap = r - np.outer(loadings, loadings)
    return np.sum(gap[np.triu_indices(len(r), 1)] ** 2)


def test_the_single_factor_is_the_least_squares_one():
    p = len(ALL)
    found = retention._single_factor(ALL[None], retention.LOADING_TOLERANCE)[0]
    best = min(
        (
            minimize(
                lambda x: single_factor_loss(ALL, x), np.random.default_rng(seed).normal(size=p)
            )
            for seed in range(3)
        ),
        key=lambda result: result.fun,
    )
    assert single_factor_loss(ALL, found) <= best.fun + 1e-10
    assert_allclose(found**2, best.x**2, atol=1e-4)
    reduced = ALL - np.diag(1 - best.x**2)
    observed = parallel_analysis(ALL, 2800, n_draws=1, random_state=0).observed
    assert_allclose(observed, np.linalg.eigvalsh(reduced)[::-1], atol=1e-4)
    # Negative control: squared multiple correlations are other communalities.
    multiple = 1 - 1 / np.diag(np.linalg.inv(ALL))
    assert np.abs(found**2 - multiple).max() > 0.1


def test_the_single_factor_of_noise_is_stationary_within_its_bound():
    stack = retention._noise(40, 8, 60, np.random.default_rng(3))
    found = retention._single_factor(stack, 1e-10)
    at_bound = np.abs(found) > retention.HEYWOOD_LIMIT - 1e-9
    assert 0 < at_bound.any(axis=1).mean() < 1  # Both kinds of optimum are there.
    step = 1e-5
    for r, loadings, fixed in zip(stack, found, at_bound, strict=True):
        for j in range(8):
            up, down = loadings.copy(), loadings.copy()
            up[j] += step
            down[j] -= step
            slope = (single_factor_loss(r, up) - single_factor_loss(r, down)) / (2 * step)
            if fixed[j]:
                assert slope * loadings[j] < 0  # It would go on if it could.
            else:
                assert abs(slope) < 1e-6


@pytest.mark.parametrize(("n", "p"), [(40, 6), (7, 6), (5, 8)])
def test_simulated_matrices_have_the_law_of_correlations(n, p):
    def moments(matrices):
        values = np.linalg.eigvalsh(matrices)[:, ::-1]
        return values.mean(axis=0), values.std(axis=0)

    rng = np.random.default_rng(0)
    found = moments(retention._noise(n, p, 4000, rng))

    def by_rows(rows):
        stack = [np.corrcoef(rng.normal(size=(rows, p)), rowvar=False) for _ in range(4000)]
        return moments(np.array(stack))

    def agree(a, b):
        error = np.sqrt((a[1] ** 2 + b[1] ** 2) / 4000) + 1e-12
        return np.all(np.abs(a[0] - b[0]) < 4.5 * error)

    assert agree(found, by_rows(n))
    assert not agree(found, by_rows(n + 1))  # Negative control: a row that centring took.


def test_the_reference_is_the_quantile_of_simulated_eigenvalues():
    n, p, size = 60, 5, 2000
    found = parallel_analysis(np.eye(p), n, n_draws=size, kind="components", random_state=1)
    rng = np.random.default_rng(7)
    values = np.array(
        [
            np.linalg.eigvalsh(np.corrcoef(rng.normal(size=(n, p)), rowvar=False))[::-1]
            for _ in range(size)
        ]
    )
    assert_allclose(found.reference, np.quantile(values, 0.95, axis=0), atol=0.02)
    assert not np.allclose(found.reference, np.quantile(values, 0.75, axis=0), atol=0.02)
    assert_allclose(found.observed, np.ones(p))
    average = parallel_analysis(
        np.eye(p), n, n_draws=size, quantile=None, kind="components", random_state=1
    )
    assert average.reference.sum() == pytest.approx(p)  # A mean of traces.


def test_the_same_seed_gives_the_same():
    r = blocks(2, 4, 0.5)
    first = parallel_analysis(r, 50, random_state=3)
    assert np.array_equal(first.reference, parallel_analysis(r, 50, random_state=3).reference)
    assert not np.array_equal(first.reference, parallel_analysis(r, 50, random_state=4).reference)


def test_simulation_in_blocks_is_as_good(monkeypatch):
    whole = parallel_analysis(np.eye(6), 80, n_draws=1000, random_state=0)
    monkeypatch.setattr(retention, "MAX_SIMULATED_ENTRIES", 300 * 36)
    parts = parallel_analysis(np.eye(6), 80, n_draws=1000, random_state=0)
    assert_allclose(parts.reference, whole.reference, atol=0.04)
    assert parts.n_factors == whole.n_factors == 0


def test_fewer_rows_than_variables():
    rows = datasets.simulate(20, 40, 2, noise=0.2, random_state=0).X
    found = parallel_analysis(np.corrcoef(rows, rowvar=False), 20, random_state=0)
    assert found.n_factors == 2
    assert np.isfinite(found.reference).all()


# --- minimum average partial ---


def average_partial(rows, k, power):
    """Correlations of what k principal components leave of standardised variables."""
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    scores = z @ np.linalg.svd(z, full_matrices=False)[2][:k].T
    left = z - scores @ np.linalg.lstsq(scores, z, rcond=None)[0] if k else z
    r = np.corrcoef(left, rowvar=False)
    p = len(r)
    return sum(r[i, j] ** power for i in range(p) for j in range(p) if i != j) / (p * (p - 1))


@pytest.mark.parametrize("power", [2, 4])
def test_map_is_the_average_of_partial_correlations(power):
    rows = datasets.simulate(80, 7, 2, random_state=1).X
    found = minimum_average_partial(np.corrcoef(rows, rowvar=False), power=power)
    expected = [average_partial(rows, k, power) for k in range(6)]
    assert_allclose(found.values[:6], expected, rtol=1e-8)
    assert found.values[6] == pytest.approx(1.0)  # One component is left of each variable.
    assert found.n_factors == np.argmin(expected)
    assert not np.allclose(
        found.values[:6], [average_partial(rows, k, 6 - power) for k in range(6)]
    )


def test_map_is_the_published_one():
    found = minimum_average_partial(COMPLETE)
    published = [0.025, 0.019, 0.018, 0.016, 0.015, 0.016, 0.019, 0.022]  # TANAKA, from K = 1
    assert found.values[1:9].round(3).tolist() == published
    assert found.n_factors == 5  # TANAKA, EASY
    assert minimum_average_partial(ALL).n_factors == 5
    assert minimum_average_partial(COMPLETE, power=4).n_factors == 5


@pytest.mark.parametrize("power", [2, 4])
def test_map_of_clear_and_of_no_factors(power):
    rows = draw(blocks(3, 6, 0.7), 500, 0)
    shuffled = np.random.default_rng(0).permuted(rows, axis=0)
    r, noise = np.corrcoef(rows, rowvar=False), np.corrcoef(shuffled, rowvar=False)
    assert minimum_average_partial(r, power=power).n_factors == 3
    assert minimum_average_partial(noise, power=power).n_factors == 0


def test_map_of_a_singular_matrix_stops_where_nothing_is_left():
    rows = np.random.default_rng(0).normal(size=(6, 9))
    found = minimum_average_partial(np.corrcoef(rows, rowvar=False))
    assert np.isfinite(found.values[:4]).all()
    assert np.isnan(found.values[5:]).all()
    assert minimum_average_partial(np.ones((3, 3))).n_factors == 0


# --- congruence ---


def test_congruence_by_loops():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(9, 2)), rng.normal(size=(9, 3))
    found = congruence(a, b)
    for i in range(2):
        for j in range(3):
            top = sum(x * y for x, y in zip(a[:, i], b[:, j], strict=True))
            size = np.sqrt(sum(a[:, i] ** 2) * sum(b[:, j] ** 2))
            assert found[i, j] == pytest.approx(top / size)
    assert_allclose(congruence(a, -5 * b), -found)
    # It is not a correlation: columns are not centred.
    assert abs(found[0, 0] - np.corrcoef(a[:, 0], b[:, 0])[0, 1]) > 0.01
    assert_allclose(congruence(a, np.zeros((9, 1))), np.zeros((2, 1)))
    assert congruence(a, np.zeros((9, 0))).shape == (2, 0)


def rotation(k, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(k, k)))[0]


def test_matching_undoes_order_signs_and_rotation():
    a = np.random.default_rng(1).normal(size=(20, 4))
    order, signs = [2, 0, 3, 1], np.array([1, -1, -1, 1])
    plain = match_factors(a, a[:, order] * signs, procrustes=False)
    assert_allclose(plain.congruence, np.ones(4))
    assert_allclose(plain.second, a)
    assert plain.columns.tolist() == [[0, 1], [1, 3], [2, 0], [3, 2]]
    turned = match_factors(a, a @ rotation(4, 0))
    assert_allclose(turned.congruence, np.ones(4))
    assert_allclose(turned.second, a, atol=1e-12)
    assert match_factors(a, a @ rotation(4, 0), procrustes=False).congruence.min() < 0.9


def test_the_turn_is_the_best_one():
    rng = np.random.default_rng(2)
    a = rng.normal(size=(12, 3))
    b = a @ rotation(3, 1) + 0.5 * rng.normal(size=(12, 3))
    found = match_factors(a, b)
    distance = np.sum((found.first - found.second) ** 2)
    for seed in range(200):
        assert distance <= np.sum((a - b @ rotation(3, seed)) ** 2) + 1e-12
    assert_allclose(found.second @ found.second.T, b @ b.T)  # The model is the same.


def test_the_assignment_is_the_best_one():
    from itertools import permutations

    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(6, 4)), rng.normal(size=(6, 4))
    cosines = np.abs(congruence(a, b))
    best = max(sum(cosines[i, j] for i, j in enumerate(order)) for order in permutations(range(4)))
    assert match_factors(a, b, procrustes=False).congruence.sum() == pytest.approx(best)


def test_solutions_with_different_numbers_of_factors():
    a = np.random.default_rng(4).normal(size=(15, 4)) * [3, 2, 2, 1]
    fewer = a[:, [2, 0]]
    whole = a @ rotation(4, 5)
    one = match_factors(fewer, whole)
    assert one.congruence.shape == (2,)
    assert one.first.shape == one.second.shape == (15, 2)
    assert_allclose(one.first, fewer)
    other = match_factors(whole, fewer)
    assert_allclose(other.second, fewer)
    assert_allclose(other.congruence, one.congruence)
    assert_allclose(other.columns, one.columns[:, ::-1])
    plain = match_factors(a, -fewer, procrustes=False)
    assert plain.columns.tolist() == [[2, 0], [0, 1]]
    assert_allclose(plain.first, -a[:, [2, 0]])
    # Columns that are orthogonal are found exactly.
    axes = np.linalg.qr(a)[0]
    assert_allclose(match_factors(axes[:, :2], axes @ rotation(4, 6)).congruence, np.ones(2))
    assert match_factors(a, np.zeros((15, 0))).congruence.shape == (0,)


def leading(rows, k):
    values, vectors = np.linalg.eigh(np.corrcoef(rows, rowvar=False))
    return vectors[:, -k:] * np.sqrt(values[-k:])


def test_halves_of_real_data_agree_and_mixed_up_variables_do_not():
    halves = leading(ROWS[::2], 5), leading(ROWS[1::2], 5)
    assert match_factors(*halves).congruence.min() > 0.95
    mixed = halves[1][np.random.default_rng(0).permutation(25)]
    assert match_factors(halves[0], mixed).congruence.max() < 0.8


# --- what is refused ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: parallel_analysis(np.eye(3), 2), "n must be a whole number not below 3. Got 2"),
        (lambda: parallel_analysis(np.eye(3), 9, n_draws=0), "n_draws"),
        (lambda: parallel_analysis(np.eye(3), 9, quantile=1.0), "None or between 0 and 1. Got 1"),
        (lambda: parallel_analysis(np.eye(3), 9, quantile="x"), "quantile must be a positive"),
        (lambda: parallel_analysis(np.eye(3), 9, kind="pca"), "one of 'factors', 'components'"),
        (lambda: parallel_analysis(np.ones((3, 2)), 9), "square matrix"),
        (lambda: parallel_analysis(np.eye(3), 9, random_state="a"), "random_state"),
        (lambda: minimum_average_partial(np.eye(3), power=3), "power must be 2 or 4. Got 3"),
        (lambda: congruence(np.ones((3, 1)), np.ones((4, 1))), "same variables. Got 3 and 4 rows"),
        (lambda: congruence(np.ones(3), np.ones((3, 1))), "2D"),
        (
            lambda: match_factors(np.ones((3, 1)), np.ones((3, 1)), procrustes=1),
            "procrustes must be True",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("r", [-0.9, 0.3, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("kind", ["factors", "components"])
def test_two_variables_have_one_factor_at_most(r, kind):
    matrix = np.array([[1.0, r], [r, 1.0]])
    assert parallel_analysis(matrix, 200, kind=kind).n_factors == 1
    assert parallel_analysis(np.eye(2), 200, kind=kind).n_factors == 0
