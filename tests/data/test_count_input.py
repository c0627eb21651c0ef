"""Counts from files, streams and Dask are those of the array."""

from __future__ import annotations

import mmap

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import mmwrite

import cuspfa
from cuspfa import CuspPoissonFactorization, RowStream
from cuspfa.data.count_blocks import CountBlocks, counts_of_blocks, scratch
from cuspfa.data.count_input import load_counts
from cuspfa.data.counts import check_counts
from cuspfa.errors import DataError, InputError

RNG = np.random.default_rng(2)
X = RNG.poisson(RNG.gamma(0.4, 2, (90, 2)) @ RNG.gamma(0.4, 2, (2, 8)))
NAMES = [f"word {j}" for j in range(8)]


def same(found, other=None):
    expected = check_counts(X if other is None else other)[0]
    np.testing.assert_array_equal(found.x.toarray(), expected.x.toarray())
    if expected.missing is None:
        assert found.missing is None
    else:
        np.testing.assert_array_equal(found.missing.toarray(), expected.missing.toarray())
    np.testing.assert_array_equal(found.exposure, expected.exposure)


def owner(array):
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def test_files_are_read(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    frame.insert(0, "site", [f"site {i}" for i in range(90)])
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = load_counts(tmp_path / "a.csv")
    same(found.counts)
    assert found.names == NAMES
    assert [one.name for one in found.provenance.dropped] == ["site"]
    same(load_counts(cuspfa.read_table(tmp_path / "a.csv")).counts)
    mmwrite(tmp_path / "a.mtx", sparse.csr_matrix(X))
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_matrix(X))
    for name in ("a.mtx", "a.npz"):
        found = load_counts(str(tmp_path / name))
        same(found.counts)
        assert found.provenance.n_rows == 90
    np.save(tmp_path / "a.npy", X)
    same(load_counts(tmp_path / "a.npy").counts)
    same(load_counts(RowStream(tmp_path / "a.npy", batch_rows=7)).counts)
    same(load_counts(iter([X[:50], sparse.csr_matrix(X[50:])])).counts)


def test_missing_cells_and_exposures_of_blocks(tmp_path):
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    np.save(tmp_path / "a.npy", holes)
    s = np.linspace(1, 2, 90)
    found = load_counts(RowStream(tmp_path / "a.npy", batch_rows=7), s).counts
    np.testing.assert_array_equal(found.exposure, s)
    same(found._replace(exposure=np.ones(90)), holes)
    with pytest.raises(InputError, match="exposure must be 90"):
        load_counts(RowStream(tmp_path / "a.npy"), s[:3])


def test_wrong_counts_of_blocks_name_their_row(tmp_path):
    wrong = X.astype(float)
    wrong[70, 3] = -1
    np.save(tmp_path / "a.npy", wrong)
    with pytest.raises(DataError, match="-1 in row 70 of column 3"):
        load_counts(RowStream(tmp_path / "a.npy", batch_rows=7))
    with pytest.raises(InputError, match="sums are not enough"):
        load_counts(cuspfa.Moments.from_rows(X))
    pd.DataFrame(X, columns=NAMES).to_csv(tmp_path / "a.csv", index=False)
    summed = cuspfa.read_table(tmp_path / "a.csv", memory_limit="100MB")
    with pytest.raises(DataError, match="summed up"):
        load_counts(summed)


def test_rows_in_a_file_give_the_same_fit_to_the_bit():
    blocks = [X[:40], X[40:]]
    memory = counts_of_blocks(blocks, None)
    disk = counts_of_blocks(blocks, None, allowed=100)
    assert not memory.on_disk
    assert disk.on_disk
    for one in (disk.x.data, disk.x.indices):
        assert isinstance(owner(one), mmap.mmap)
    same(disk)
    assert isinstance(scratch(disk), np.memmap)
    assert not isinstance(scratch(memory), np.memmap)
    model = CuspPoissonFactorization(random_state=0)
    fitted = model.fit(X)
    components, search = fitted.components_, str(fitted.search_)
    model._fit(load_counts(X)._replace(counts=disk))
    np.testing.assert_array_equal(model.components_, components)
    assert str(model.search_) == search


def test_blocks_must_be_alike():
    table = CountBlocks()
    table.add(X[:3])
    with pytest.raises(DataError, match="must have 8 columns"):
        table.add(X[:3, :4])
    with pytest.raises(DataError, match="minimum of 1"):
        CountBlocks().counts()


def test_dask_gives_the_same_counts():
    array = pytest.importorskip("dask.array")
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    same(load_counts(array.from_array(holes, chunks=(17, 3))).counts, holes)
    rows = array.from_array(X, chunks=(17, 8))
    same(load_counts(rows).counts)
    fitted = CuspPoissonFactorization(n_factors=2, random_state=0).fit(rows)
    expected = CuspPoissonFactorization(n_factors=2, random_state=0).fit(X)
    np.testing.assert_array_equal(fitted.components_, expected.components_)
    np.testing.assert_array_equal(fitted.transform(rows), expected.transform(X))
