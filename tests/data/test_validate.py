"""What comes in: names, frames, sparse matrices, and columns that hardly vary."""

import subprocess
import sys

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from cuspfa import CuspFactorAnalysis, Moments, datasets
from cuspfa._utils.fit_warning import ColumnRef, NearConstant
from cuspfa.data import frames
from cuspfa.data.screening.near_constant import near_constant
from cuspfa.data.validate import CheckedRows, check_rows
from cuspfa.errors import CuspWarning, DataError

X = datasets.simulate(150, 8, 2, random_state=3).X
THIN = np.where(np.abs(X) < 0.7, 0.0, X)
NAMES = list("abcdefgh")


def fit(data, **settings):
    return CuspFactorAnalysis(**settings).fit(data)


# --- names ---


def test_only_text_makes_names():
    assert fit(pd.DataFrame(X, columns=NAMES)).feature_names_in_.tolist() == NAMES
    for columns in (range(8), pd.date_range("2020", periods=8), [(1, j) for j in range(8)]):
        assert not hasattr(fit(pd.DataFrame(X, columns=columns)), "feature_names_in_")
    with pytest.raises(TypeError, match=r"only supported if all .* has \['int', 'str'\]") as caught:
        fit(pd.DataFrame(X, columns=[*NAMES[:7], 7]))
    assert isinstance(caught.value, DataError)


def test_messages_know_columns_by_names_that_are_no_text():
    frame = pd.DataFrame(X, columns=range(100, 108))
    frame[103] = 1.0
    with pytest.raises(DataError, match=r"column 103 \(index 3\) is constant"):
        fit(frame)


def test_names_of_moments():
    frame = pd.DataFrame(X, columns=range(8))
    assert Moments.from_rows(frame).names is None
    assert not hasattr(
        CuspFactorAnalysis().fit_moments(Moments.from_rows(frame)), "feature_names_in_"
    )
    numbered = Moments.from_rows(X, names=list(range(8)))
    assert not hasattr(CuspFactorAnalysis().fit_moments(numbered), "feature_names_in_")
    named = CuspFactorAnalysis().fit_moments(Moments.from_rows(X, names=pd.Index(NAMES)))
    assert named.feature_names_in_.tolist() == NAMES
    with pytest.raises(DataError, match="names must be different. Got 'a' 2 times"):
        Moments.from_rows(X, names=["a", "a", *NAMES[2:]])
    with pytest.raises(ValueError, match="names must be a list of 8 names. Got 'abcdefgh'"):
        Moments.from_rows(X, names="abcdefgh")
    with pytest.raises(DataError, match="at least one column"):
        Moments.from_rows(X[:, :0])
    with pytest.raises(DataError, match="at least one column"):
        Moments(3, [], np.zeros((0, 0)))


# --- frames ---

ALIKE = {
    "pandas": lambda: pd.DataFrame(X, columns=NAMES),
    "pandas nullable": lambda: pd.DataFrame(X, columns=NAMES).astype("Float64"),
    "pandas of arrow": lambda: pd.DataFrame(X, columns=NAMES).astype("float64[pyarrow]"),
    "pandas objects": lambda: pd.DataFrame(X, columns=NAMES).astype(object),
    "polars": lambda: pl.DataFrame(X, schema=NAMES),
    "pyarrow": lambda: pa.table(dict(zip(NAMES, X.T, strict=True))),
    "record batch": lambda: pa.record_batch(dict(zip(NAMES, X.T, strict=True))),
}


@pytest.mark.parametrize("make", ALIKE.values(), ids=ALIKE)
def test_frames_alike(make):
    rows, names, labels, has_missing, *_ = check_rows(make())
    assert not has_missing
    assert_allclose(rows, X, rtol=0)
    assert names == labels == NAMES
    model = fit(make())
    assert model.feature_names_in_.tolist() == NAMES
    assert_allclose(model.transform(make()), fit(X).transform(X))


MIXED = {
    "floats": {"a": [1.5, 2.0, 3.0], "b": [1.0, 2.0, 4.0]},
    "whole numbers": {"a": [1, 2, 3], "b": [1, 2, 4]},
    "both": {"a": [1, 2, 3], "b": [1.5, 2.0, 4.0]},
    "truth": {"a": [True, False, True], "b": [1.5, 2.0, 4.0]},
}


@pytest.mark.parametrize("columns", MIXED.values(), ids=MIXED)
@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_mixed_columns_are_read_the_same_at_once_and_one_by_one(columns, library, monkeypatch):
    expected = np.column_stack([np.array(column, float) for column in columns.values()])
    assert_allclose(check_rows(library(columns)).rows, expected, rtol=0)
    monkeypatch.setattr(nw.DataFrame, "to_numpy", lambda self: np.empty((3, 2), object))
    assert_allclose(check_rows(library(columns)).rows, expected, rtol=0)


def test_missing_values_in_whole_numbers_are_found():
    for frame in (
        pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [1.0, 2.0, 4.0]}),
        pl.DataFrame({"a": [1, None, 3], "b": [1.0, 2.0, 4.0]}),
        pa.table({"a": [1, None, 3], "b": [1.0, 2.0, 4.0]}),
        pl.DataFrame({"a": [True, None, True], "b": [1.0, 2.0, 4.0]}),
        pd.DataFrame({"a": [1, None, 3], "b": [1.0, 2.0, 4.0]}, dtype=object),
    ):
        with pytest.raises(DataError, match=r"contains NaN: column 'a' \(index 0\).*row 1"):
            check_rows(frame)
        table = check_rows(frame, allow_missing=True)
        assert table.has_missing
        assert np.isnan(table.rows[1, 0])


WORDS = {
    "Null": lambda: pl.DataFrame({"a": [1.0, 2.0], "b": [None, None]}),
    "null": lambda: pa.table({"a": [1.0, 2.0], "b": [None, None]}),
    "period": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": pd.period_range("2020", periods=2)}),
    "interval": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": pd.interval_range(0, 2)}),
    "complex128": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": [1j, 2j]}),
    "Datetime": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": pd.to_datetime(["2020", "2021"])}),
}


@pytest.mark.parametrize("word", WORDS)
def test_columns_that_are_no_numbers_are_called_what_they_are(word):
    with pytest.raises(DataError, match=rf"column 'b' \(index 1\) has type {word}.*not numeric"):
        fit(WORDS[word]())


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_wide_frames_are_read_at_once(library, monkeypatch):
    """Thousands of columns took seconds when each was read by itself."""
    read = []
    original = frames._column_values

    def counted(*args):
        read.append(args)
        return original(*args)

    monkeypatch.setattr(frames, "_column_values", counted)
    wide = np.random.default_rng(0).normal(size=(20, 400))
    columns = {f"v{j}": wide[:, j] for j in range(400)}
    assert_allclose(check_rows(library(columns)).rows, wide, rtol=0)
    assert not read
    with pytest.raises(DataError, match="column 'text' .index 400. has type String"):
        check_rows(library({**columns, "text": ["a"] * 20}))
    assert len(read) == 401  # negative control


def test_sparse_columns_of_pandas_stay_sparse():
    thin = pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(THIN), columns=NAMES)
    rows, names, *_ = check_rows(thin)
    assert sparse.issparse(rows)
    assert names == NAMES
    model, plain = fit(thin), fit(THIN)
    assert_allclose(model.get_covariance(), plain.get_covariance(), rtol=1e-9)
    assert_allclose(model.transform(thin), plain.transform(THIN), atol=1e-8)
    assert sparse.issparse(check_rows(thin > 0).rows)
    filled = pd.DataFrame(
        {name: pd.arrays.SparseArray(THIN[:, j], fill_value=1.0) for j, name in enumerate(NAMES)}
    )
    partly = thin.assign(b=THIN[:, 1])
    for frame in (filled, partly):
        assert_allclose(check_rows(frame).rows, THIN, rtol=0)
    lacking = pd.DataFrame({"a": pd.arrays.SparseArray([np.nan, 1.0, 2.0])})
    with pytest.raises(DataError, match="contains NaN: column 'a'"):
        check_rows(lacking)
    assert np.isnan(check_rows(lacking, allow_missing=True).rows[0, 0])


# --- sparse matrices ---


def disordered(kind):
    """Rows whose indices are not sorted, and one entry in two parts."""
    tidy = kind(THIN)
    data, indices, indptr = tidy.data.copy(), tidy.indices.copy(), tidy.indptr.copy()
    first = slice(indptr[0], indptr[1])
    data[first], indices[first] = data[first][::-1].copy(), indices[first][::-1].copy()
    data[-1] /= 2
    data, indices = np.append(data, data[-1]), np.append(indices, indices[-1])
    indptr[-1] += 1
    return kind((data, indices, indptr), shape=tidy.shape)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("n", [150, 6])
def test_the_users_matrix_is_not_touched(kind, n):
    matrix = disordered(kind)
    matrix = matrix if n == 150 else matrix[144:]
    expected = fit(THIN[-n:], n_factors=1)
    parts = matrix.data, matrix.indices, matrix.indptr
    before = [part.copy() for part in parts]
    for part in parts:
        part.flags.writeable = False
    model = fit(matrix, n_factors=1)
    assert_allclose(model.get_covariance(), expected.get_covariance(), rtol=1e-8, atol=1e-10)
    assert_allclose(model.score_samples(matrix), expected.score_samples(THIN[-n:]), rtol=1e-8)
    assert_allclose(model.transform(matrix), expected.transform(THIN[-n:]), atol=1e-8)
    for now, then in zip((matrix.data, matrix.indices, matrix.indptr), before, strict=True):
        assert np.array_equal(now, then)
    assert matrix.data is parts[0]
    tidy = kind(THIN)
    if kind is not sparse.csc_array:  # and nothing is copied where nothing need be
        assert np.shares_memory(check_rows(tidy).rows.data, tidy.data)


@pytest.mark.parametrize("common", [0.0, 1.0, -2.5])
def test_nearly_constant_columns_are_the_same_dense_and_sparse(common):
    rng = np.random.default_rng(0)
    data = rng.poisson(1.0, size=(300, 6)).astype(float)
    data[:, 1] = data[:, 4] = common
    data[[3, 9, 200], 1] = [5.0, 6.0, 7.0]
    data[:4, 4] = 9.0  # one row too many
    data[:, 5] = rng.normal(size=300)  # no zero, no value twice
    dense = near_constant(CheckedRows(data, None, None))
    assert dense == NearConstant((ColumnRef(1),), 3, 300)
    for kind in (sparse.csr_matrix, sparse.csr_array):
        assert near_constant(check_rows(kind(data))) == dense
    explicit = sparse.csr_matrix(np.where(data == 0, 99.0, data))
    explicit.data[explicit.data == 99.0] = 0.0  # zeros that are stored
    assert near_constant(check_rows(explicit)) == dense
    with pytest.warns(CuspWarning, match="column 1 is nearly constant"):
        fit(sparse.csr_matrix(data), n_factors=1)


# --- loading the package ---


def test_errors_are_loaded_without_scikit_learn():
    program = (
        "import sys, cuspfa, cuspfa.errors\n"
        "cuspfa.errors.CuspWarning, cuspfa.errors.DataError\n"
        "assert 'sklearn' not in sys.modules\n"
        "from sklearn.exceptions import ConvergenceWarning\n"
        "assert issubclass(cuspfa.errors.ConvergenceWarning, ConvergenceWarning)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
