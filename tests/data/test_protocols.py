"""Every layout of the data gives an engine the same numbers as the dense definition."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from cuspfa import CuspFactorAnalysis, CuspPrior, EmpiricalBayesSlab, GaussianSlab, Moments
from cuspfa.data import complete
from cuspfa.data.complete import prepare_moments, prepare_rows
from cuspfa.data.in_memory import GramMatrix, RowMatrix, SparseMatrix
from cuspfa.data.protocols import CompleteMatrix, CompleteSource
from cuspfa.errors import DataError
from support import factor_rows, matrix_of


def sparse_rows(n, p, seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.poisson(0.5, size=(n, 2)) @ rng.poisson(0.7, size=(2, p))
    return (rng.poisson(0.3, size=(n, p)) + shared).astype(float)


SHAPES = [(60, 9), (12, 30), (15, 15)]
LAYOUTS: dict[str, Callable[[np.ndarray], CompleteMatrix]] = {
    "gram": lambda y: GramMatrix(y.T @ y, float(len(y))),
    "rows": lambda y: RowMatrix(y, float(len(y))),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", [*LAYOUTS, "sparse"])
def test_products_and_squares(layout, shape):
    x = sparse_rows(*shape)
    center, scale = x.mean(axis=0), x.std(axis=0) + 1.0
    y = (x - center) / scale
    matrix: CompleteMatrix
    if layout == "sparse":
        matrix = SparseMatrix(sparse.csr_array(x), center, scale, float(len(x)))
    else:
        matrix = LAYOUTS[layout](y)
    w = np.random.default_rng(1).normal(size=(shape[1], 3))
    cross, inner = matrix.products(w)
    assert_allclose(cross, y.T @ (y @ w), rtol=1e-9, atol=1e-9)
    assert_allclose(inner, (y @ w).T @ (y @ w), rtol=1e-9, atol=1e-9)
    assert_allclose(matrix.sum_of_squares, (y**2).sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("p", [12, 450])
def test_leading_directions_are_those_of_the_dense_matrix(p):
    rng = np.random.default_rng(2)
    y = factor_rows(200, p, 3, rng)
    noise = rng.uniform(0.5, 2.0, size=p)
    whitened = y / np.sqrt(noise)
    values, vectors = CompleteSource(RowMatrix(y, 200.0)).leading(3, noise)
    expected, basis = np.linalg.eigh(whitened.T @ whitened)
    assert_allclose(values[:3], expected[::-1][:3], rtol=1e-4)
    overlap = np.linalg.svd(basis[:, ::-1][:, :3].T @ vectors[:, :3], compute_uv=False)
    assert overlap.min() > 0.999
    near = vectors[:, :3] * np.sqrt(noise)[:, None]
    again, _ = CompleteSource(RowMatrix(y, 200.0)).leading(3, noise, near=near)
    assert_allclose(again[:3], expected[::-1][:3], rtol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("p", "k", "least"), [(30, 4, 30), (250, 4, 4), (250, 200, 250)])
def test_leading_directions_of_few_columns_are_exact(layout, p, k, least):
    """All of them, or those that are asked for."""
    rng = np.random.default_rng(3)
    y, noise = factor_rows(300, p, 3, rng), rng.uniform(0.5, 2.0, size=p)
    values, vectors = CompleteSource(LAYOUTS[layout](y)).leading(k, noise)
    assert len(values) == vectors.shape[1] == least
    whitened = y / np.sqrt(noise)
    gram = whitened.T @ whitened
    assert_allclose(values, np.linalg.eigvalsh(gram)[::-1][:least], rtol=1e-9, atol=1e-8)
    assert_allclose(gram @ vectors, vectors * values, atol=1e-8 * values[0])
    assert_allclose(vectors.T @ vectors, np.eye(least), atol=1e-10)


FITS = {
    "published": {"prior": CuspPrior.variational_paper(), "standardize": False},
    "default": {},
    "gaussian": {"prior": CuspPrior(slab=GaussianSlab(1.0))},
    "common": {"prior": CuspPrior(slab=EmpiricalBayesSlab(shared=True))},
}


@pytest.mark.parametrize("settings", FITS.values(), ids=FITS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_layouts_give_the_same_fit(shape, settings):
    x = sparse_rows(*shape)
    x = x[:, np.ptp(x, axis=0) > 0]
    reference = CuspFactorAnalysis(**settings, random_state=0).fit(x)
    fits = {
        "sparse": CuspFactorAnalysis(**settings, random_state=0).fit(sparse.csc_matrix(x)),
        "moments": CuspFactorAnalysis(**settings, random_state=0).fit_moments(Moments.from_rows(x)),
        "sparse float32": CuspFactorAnalysis(**settings, random_state=0).fit(
            sparse.csr_array(x.astype(np.float32))
        ),
        "float32": CuspFactorAnalysis(**settings, random_state=0).fit(x.astype(np.float32)),
        "fortran": CuspFactorAnalysis(**settings, random_state=0).fit(np.asfortranarray(x)),
        "integers": CuspFactorAnalysis(**settings, random_state=0).fit(x.astype(int)),
    }
    for name, model in fits.items():
        assert model.n_factors_ == reference.n_factors_, name
        close: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}
        assert_allclose(model.get_covariance(), reference.get_covariance(), err_msg=name, **close)
        assert model.lower_bound_ == pytest.approx(reference.lower_bound_, rel=1e-9)


def test_permutations_and_signs_do_not_matter():
    x = sparse_rows(80, 8)
    rng = np.random.default_rng(3)
    rows, columns = rng.permutation(80), rng.permutation(8)
    signs = rng.choice([-1.0, 1.0], size=8)
    plain = CuspFactorAnalysis().fit(x).get_covariance()
    moved = CuspFactorAnalysis().fit((x * signs)[rows][:, columns]).get_covariance()
    assert_allclose(moved, (plain * np.outer(signs, signs))[np.ix_(columns, columns)], rtol=1e-6)


# --- moments -----------------------------------------------------------------------------------


def test_moments_keep_their_digits_far_from_zero():
    """Mean/sd = 1e8: Σy² − nȳ² has no digit left, centred blocks have."""
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(50_000, 3))
    far = noise + 1e8
    moments = Moments.from_rows(far)
    assert_allclose(moments.covariance, np.cov(noise, rowvar=False), atol=1e-6)
    naive = (far.T @ far - len(far) * np.outer(far.mean(0), far.mean(0))) / (len(far) - 1)
    assert not np.allclose(naive, np.cov(noise, rowvar=False), atol=1e-2)


def test_moments_of_parts_add_up():
    x = np.random.default_rng(5).normal(size=(90, 4)) * 3 + 7
    whole = Moments.from_rows(x, names=list("abcd"))
    parts = [Moments.from_rows(part, names=list("abcd")) for part in (x[:1], x[1:40], x[40:])]
    merged = parts[0] + parts[1] + parts[2]
    assert merged.n == 90
    assert merged.names == list("abcd")
    assert_allclose(merged.mean, whole.mean)
    assert_allclose(merged.cross_products, whole.cross_products, atol=1e-9)
    assert_allclose(whole.covariance, np.cov(x, rowvar=False))
    with pytest.raises(DataError, match="different columns"):
        whole + Moments.from_rows(x)
    other: Any = 1
    with pytest.raises(TypeError):
        whole + other


def test_the_fit_of_a_covariance_is_the_fit_of_its_rows():
    x = sparse_rows(100, 6)
    rows = CuspFactorAnalysis().fit(x)
    covariance = np.cov(x, rowvar=False)
    given = Moments.from_covariance(covariance, 100, mean=x.mean(axis=0), names=list("abcdef"))
    model = CuspFactorAnalysis().fit_moments(given)
    assert_allclose(model.get_covariance(), rows.get_covariance(), rtol=1e-9)
    assert model.feature_names_in_.tolist() == list("abcdef")
    correlation = np.corrcoef(x, rowvar=False)
    model = CuspFactorAnalysis().fit_moments(Moments.from_correlation(correlation, 100))
    assert_allclose(model.loadings_, rows.loadings_, atol=1e-6)


def test_a_correlation_matrix_that_is_none_is_repaired_loudly():
    broken = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    with pytest.warns(UserWarning, match="not positive semi-definite.*eigenvalue -0.8"):
        moments = Moments.from_correlation(broken, 50)
    assert np.linalg.eigvalsh(moments.covariance)[0] >= -1e-9
    assert_allclose(np.diag(moments.covariance), 1.0)
    assert CuspFactorAnalysis().fit_moments(moments).converged_


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Moments.from_correlation(np.diag([1.0, 2.0]), 10),
            "unit diagonal. Got 2 at index 1",
        ),
        (lambda: Moments.from_correlation([[1, 2], [2, 1]], 10), "between -1 and 1"),
        (lambda: Moments.from_correlation([[1, 0.5], [0.1, 1]], 10), "symmetric"),
        (lambda: Moments.from_correlation(np.ones((2, 3)), 10), "square matrix"),
        (lambda: Moments.from_correlation([[1, np.nan], [np.nan, 1]], 10), "NaN"),
        (lambda: Moments.from_correlation(np.eye(2), 1), "n must be a whole number not below 2"),
        (lambda: Moments.from_covariance(np.diag([1.0, 0.0]), 9), "positive diagonal.*index 1"),
        (lambda: Moments.from_covariance(np.eye(2), 9, names=["a"]), "names must be"),
        (lambda: Moments.from_covariance(np.eye(2), 9, mean=[0.0]), "cross_products must be"),
        (lambda: CuspFactorAnalysis().fit_moments(np.eye(3)), "moments must be a Moments object"),
        (
            lambda: CuspFactorAnalysis().fit_moments(Moments(5, np.zeros(2), np.diag([1.0, 0.0]))),
            "column 1 of the moments is constant",
        ),
        (
            lambda: CuspFactorAnalysis().fit_moments(Moments(1, np.zeros(2), np.eye(2))),
            "at least 2 rows",
        ),
    ],
)
def test_bad_moments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_sparse_single_precision_is_summed_in_double():
    x = (sparse_rows(200, 5) + 300).astype(np.float32)
    dense, thin = CuspFactorAnalysis().fit(x), CuspFactorAnalysis().fit(sparse.csr_matrix(x))
    assert thin.lower_bound_ == pytest.approx(dense.lower_bound_, abs=1e-5)
    assert_allclose(thin.get_covariance(), dense.get_covariance(), rtol=1e-7)
    huge = sparse.csr_matrix(sparse_rows(200, 5) * 1e150)
    assert np.all(np.isfinite(CuspFactorAnalysis().fit(huge).loadings_))


def test_moments_of_data_frames_keep_names_and_bad_rows_are_refused():
    frame = pd.DataFrame(sparse_rows(30, 3), columns=["a", "b", "c"])
    assert Moments.from_rows(frame).names == ["a", "b", "c"]
    assert Moments.from_correlation(frame.corr(), 30).names == ["a", "b", "c"]
    assert Moments.from_rows(frame.to_numpy().tolist()).n == 30
    assert len(Moments(5, [0, 0], [[1, 0], [0, 1]]).mean) == 2
    for bad, message in (
        (np.zeros(3), "Expected 2D"),
        (sparse.csr_matrix(frame.to_numpy()), "dense rows"),
        ([[1.0, np.nan]], "contains NaN"),
    ):
        with pytest.raises(DataError, match=message):
            Moments.from_rows(bad)
    constant = Moments.from_rows(np.c_[frame.to_numpy(), np.full(30, 0.1)])
    with pytest.raises(DataError, match="column 3 of the moments is constant"):
        CuspFactorAnalysis().fit_moments(constant)
    indefinite = 50 * np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    with pytest.raises(DataError, match="not positive semi-definite.*from_covariance"):
        CuspFactorAnalysis().fit_moments(Moments(50, np.zeros(3), indefinite))
    with pytest.raises(ValueError, match="cross_products must be symmetric"):
        Moments(50, np.zeros(2), np.array([[1.0, 0.5], [0.0, 1.0]]))


def test_no_copy_of_tall_data_and_one_of_wide():
    """The Gram layout keeps no rows; the row layout keeps one centred copy."""
    tall = np.random.default_rng(6).normal(size=(500, 5))
    prepared = prepare_rows(tall, scaling="columns", flat_mean=True)
    assert isinstance(matrix_of(prepared.source), GramMatrix)
    wide = prepare_rows(tall.T[:, :50], scaling="none", flat_mean=False)
    assert isinstance(matrix_of(wide.source), RowMatrix)
    assert wide.source.n == 5
    kept = prepare_rows(sparse.csr_matrix(tall.T), scaling="none", flat_mean=True)
    assert isinstance(matrix_of(kept.source), SparseMatrix)
    common = prepare_moments(
        Moments.from_rows(tall * [1, 2, 3, 4, 5]), scaling="common", flat_mean=True
    )
    assert_allclose(common.scale, common.scale[0])
    assert np.median(common.source.squares) / (len(tall) - 1) == pytest.approx(1.0)


def test_sparse_rows_have_a_gram_matrix_only_where_it_is_small(monkeypatch):
    """30 000 columns of sparse rows would have one of 7 GB, whatever the number of rows."""

    def layout(rows):
        return type(matrix_of(prepare_rows(rows, scaling="columns", flat_mean=True).source))

    thin = sparse.csr_matrix(sparse_rows(60, 9))
    assert layout(thin) is GramMatrix
    monkeypatch.setattr(complete, "SMALL_GRAM", 8)
    assert thin.nnz > 9**2 / 4
    assert layout(thin) is GramMatrix
    monkeypatch.setattr(complete, "GRAM_TO_NONZEROS", 0.01)
    assert layout(thin) is SparseMatrix
    assert layout(sparse.csr_matrix(sparse_rows(12, 30))) is SparseMatrix


@pytest.mark.parametrize("settings", FITS.values(), ids=FITS)
def test_both_layouts_of_tall_sparse_rows_give_the_same_fit(monkeypatch, settings):
    rows = sparse.csr_matrix(sparse_rows(60, 9))
    gram = CuspFactorAnalysis(**settings, random_state=0).fit(rows)
    monkeypatch.setattr(complete, "SMALL_GRAM", 0)
    monkeypatch.setattr(complete, "GRAM_TO_NONZEROS", 0)
    thin = CuspFactorAnalysis(**settings, random_state=0).fit(rows)
    assert thin.n_factors_ == gram.n_factors_
    assert thin.lower_bound_ == pytest.approx(gram.lower_bound_, rel=1e-9)
    assert_allclose(thin.get_covariance(), gram.get_covariance(), rtol=1e-9, atol=1e-9)
    assert_allclose(thin.transform(rows), gram.transform(rows), atol=1e-7)


def test_a_sparse_column_far_from_zero_is_refused():
    x = sparse_rows(100, 4)
    x[:, 2] = 1e6 + np.random.default_rng(0).normal(size=100)
    with pytest.raises(DataError, match="column 2 of the sparse matrix.*Subtract a constant"):
        CuspFactorAnalysis().fit(sparse.csr_matrix(x))
