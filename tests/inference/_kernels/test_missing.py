"""The compiled code of incomplete rows against its definitions in NumPy."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cuspfa import CuspFactorAnalysis
from cuspfa._utils.linalg import packed, unpacked
from cuspfa.inference._kernels import kernel
from cuspfa.missing import likelihood, patterns, score_sums
from cuspfa.missing.likelihood import FewMissing, _precisions
from cuspfa.missing.patterns import packed_inverses
from cuspfa.missing.score_sums import ScoresBySignal, numpy_sums, sum_scores
from support import factor_rows, incomplete_rows

pytestmark = pytest.mark.skipif(kernel("missing") is None, reason="the compiled core is not built")


@pytest.fixture
def by_numpy(monkeypatch):
    """What a call gives without the kernel."""

    def answer(call):
        with monkeypatch.context() as patch:
            for module in (likelihood, patterns, score_sums):
                patch.setattr(module, "kernel", lambda name: None)
            return call()

    return answer


def rows_of(n, p, k, part, seed=0):
    """Incomplete rows: some with a pattern of their own, many alike, one without values."""
    rng = np.random.default_rng([n, p, k, seed])
    y = factor_rows(n, p, k, rng)
    y[rng.random(y.shape) < part] = np.nan
    alike = 2 * n // 5
    y[:alike] = factor_rows(alike, p, k, rng)
    y[:alike, p // 2] = np.nan
    y[-1] = np.nan
    return incomplete_rows(y)


def scores_of(p, k, seed=0):
    rng = np.random.default_rng([p, k, seed])
    precision, loadings = rng.uniform(0.5, 3.0, p), rng.normal(size=(p, k))
    root = 0.3 * rng.normal(size=(p, k, k))
    second = loadings[:, :, None] * loadings[:, None, :] + root @ root.transpose(0, 2, 1)
    signal = packed(precision[:, None, None] * second)
    pull = 0.2 * rng.normal(size=(p, k))
    return ScoresBySignal(signal, precision[:, None] * loadings, pull)


SHAPES = [(7, 3, 1, 0.5), (60, 5, 2, 0.1), (150, 12, 5, 0.3), (90, 40, 11, 0.1), (50, 60, 33, 0.6)]


def assert_same_sums(one, two, tolerance=1e-10):
    for name, value, other in zip(one._fields, one, two, strict=True):
        size = np.max(np.abs(other), initial=0.0)
        assert_allclose(value, other, rtol=tolerance, atol=tolerance * size, err_msg=name)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rotated", [False, True])
def test_sums_over_scores(shape, rotated, by_numpy):
    n, p, k, part = shape
    data = rows_of(n, p, k, part)
    data = data.rotated() if rotated else data
    given = scores_of(p, k)
    for one in (given, given._replace(pull=None)):
        assert_same_sums(
            sum_scores(data, one, 1 - 1 / n),
            by_numpy(lambda one=one: numpy_sums(data, one, 1 - 1 / n)),
        )


def test_sums_of_one_pattern_and_of_no_factors(by_numpy):
    data = incomplete_rows(np.random.default_rng(0).normal(size=(300, 4)))
    for one in (data, data.rotated()):
        assert len(one.sizes) == 1
        for given in (scores_of(4, 3), scores_of(4, 0)):
            assert_same_sums(
                sum_scores(one, given, 1.0),
                by_numpy(lambda one=one, given=given: numpy_sums(one, given, 1.0)),
            )


def test_rows_that_must_not_be_written():
    """As those that joblib maps into other processes."""
    data, given = rows_of(60, 5, 2, 0.2), scores_of(5, 2)
    expected: Any = sum_scores(data, given, 1.0)
    few = FewMissing(data)
    for array in (data.rows, data.ones, data.patterns, data.starts, few.sizes, few.missing):
        array.flags.writeable = False
    assert_same_sums(sum_scores(data, given, 1.0), expected)
    assert np.isfinite(few.log_likelihood(np.ones((5, 1)), np.ones(5), flat_mean=True))


def test_sums_row_by_row():
    """Against the formulas, a row at a time."""
    n, p, k, part = 40, 6, 3, 0.9
    data, given = rows_of(n, p, k, 0.3), scores_of(p, k)
    second = unpacked(given.signal, k)
    found = sum_scores(data, given, part)
    of_row = np.repeat(np.arange(len(data.sizes)), data.sizes)
    cross, by_column = np.zeros((p, k)), np.zeros((p, k, k))
    total, log_det = np.zeros((k, k)), 0.0
    for row, seen in zip(data.rows, data.patterns[of_row], strict=True):
        v = np.linalg.inv(np.eye(k) + second[seen].sum(axis=0))
        m = v @ (given.weights.T @ row + given.pull[seen].sum(axis=0))
        cross += np.outer(row, m)
        by_column[seen] += np.outer(m, m) + part * v
        total += np.outer(m, m) + part * v
        log_det += part * np.log(np.linalg.det(v))
    assert_allclose(found.cross, cross, rtol=1e-10, atol=1e-10)
    assert_allclose(found.by_column, by_column, rtol=1e-10, atol=1e-10)
    assert_allclose(found.total, total, rtol=1e-10, atol=1e-10)
    assert found.log_det == pytest.approx(log_det, rel=1e-11)


@pytest.mark.parametrize("change", ["signal", "weights", "pull", "part"])
def test_a_changed_formula_is_seen(change, by_numpy):
    """The control: one entry that differs by a thousandth, or covariances that count as 1."""
    data, given, part = rows_of(150, 12, 5, 0.3), scores_of(12, 5), 1 - 1 / 150
    right: Any = by_numpy(lambda: numpy_sums(data, given, part))
    if change == "part":
        part = 1.0
    else:
        changed = np.array(getattr(given, change))
        changed[3, 2] += 1e-3
        given = given._replace(**{change: changed})
    with pytest.raises(AssertionError):
        assert_same_sums(sum_scores(data, given, part), right, 1e-6)


@pytest.mark.parametrize("k", [1, 2, 5, 20])
@pytest.mark.parametrize("u", [64, 65, 95, 100])
def test_inverses_of_packed_matrices(k, u):
    rng = np.random.default_rng([k, u])
    root = rng.normal(size=(u, k, k + 3)) * 10.0 ** rng.uniform(-2, 2, (u, 1, 1))
    matrices = root @ root.transpose(0, 2, 1)
    found, log_det = packed_inverses(np.ascontiguousarray(packed(matrices).T), k)
    inverses = unpacked(found.T, k)
    assert_allclose(inverses @ matrices, np.tile(np.eye(k), (u, 1, 1)), atol=1e-8)
    assert_allclose(log_det, np.linalg.slogdet(matrices)[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("part", [0.02, 0.2, 0.5])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_missing_values_of_a_row(part, k, by_numpy):
    """One, a few, and so many in a row that LAPACK inverts their matrix."""
    data = rows_of(150, 24, 3, part).rotated()
    rng = np.random.default_rng(k)
    few, loadings, noise = FewMissing(data), rng.normal(size=(24, k)), rng.uniform(0.2, 1.0, 24)
    counts = (~data.patterns).sum(axis=1)
    assert counts.max() == 24
    (given,) = _precisions(loadings[None], noise[None])
    one: Any = few._fill(given, few.rows)
    two: Any = by_numpy(lambda: few._fill(given, few.rows))
    for name, value, other in zip(one._fields, one, two, strict=True):
        assert_allclose(value, other, rtol=1e-9, atol=1e-10, err_msg=name)
    for flat in (True, False):
        exact = few.log_likelihood(loadings, noise, flat_mean=flat)
        plain = by_numpy(lambda flat=flat: few.log_likelihood(loadings, noise, flat_mean=flat))
        assert exact == pytest.approx(plain, rel=1e-11)
        assert_allclose(
            few.expected_gram(loadings, noise, flat_mean=flat),
            by_numpy(lambda flat=flat: few.expected_gram(loadings, noise, flat_mean=flat)),
            rtol=1e-9, atol=1e-9,
        )  # fmt: skip


@pytest.mark.parametrize("missing", [1, 20])
def test_a_matrix_that_is_not_positive_definite_is_reported(missing):
    """Then NumPy code answers, as it does without the core."""
    core: Any = kernel("missing")
    matrix = np.eye(20)
    matrix[0, 0] = -1.0
    failed, _, _ = core.fill(
        *(matrix, np.ones((1, 1)), np.ones((20, 1)), np.ones(1), np.array([0, 1])),
        *(np.array([0, missing]), np.arange(missing), np.zeros((1, 20)), np.zeros((20, 20))),
    )
    assert failed != 0


def test_a_fit_is_the_same_without_the_kernel(by_numpy):
    rng = np.random.default_rng(5)
    rows = factor_rows(150, 10, 2, rng)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    one, two = CuspFactorAnalysis().fit(rows), by_numpy(lambda: CuspFactorAnalysis().fit(rows))
    assert one.n_factors_ == two.n_factors_
    bounds = (model.posterior_.fit_info.lower_bound for model in (one, two))
    assert next(bounds) == pytest.approx(next(bounds), abs=1e-8)
    assert_allclose(one.impute(rows), two.impute(rows), rtol=1e-8, atol=1e-8)
