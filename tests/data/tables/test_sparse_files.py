"""Sparse matrices in files: what other programs wrote, and what is damaged."""

import gzip
import io
import struct
import zipfile

import numpy as np
import pytest
from scipy import sparse
from scipy.io import mmwrite

from cuspfa.data.tables.sparse_files import read_sparse, sparse_suffix
from cuspfa.errors import CuspError, DataError, InputError

X = np.random.default_rng(0).poisson(0.7, (6, 4)).astype(float)
MTX = b"""%%MatrixMarket matrix coordinate integer general
% written by hand
3 4 3
1 1 5
2 4 1
3 2 12
"""
BY_HAND = np.array([[5, 0, 0, 0], [0, 0, 0, 1], [0, 12, 0, 0]])


def test_suffixes():
    assert sparse_suffix("a/b.mtx") == ".mtx"
    assert sparse_suffix("matrix.mtx.gz") == ".mtx"
    assert sparse_suffix("x.npz") == ".npz"
    assert sparse_suffix("x.h5ad") == ".h5ad"
    assert sparse_suffix("x.csv.gz") == ""
    assert sparse_suffix("x.npz.gz") == ""


@pytest.mark.parametrize("name", ["a.mtx", "a.mtx.gz"])
def test_matrix_market_by_hand(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(MTX) if name.endswith("gz") else MTX)
    found = read_sparse(str(path))
    np.testing.assert_array_equal(found.x.toarray(), BY_HAND)
    np.testing.assert_array_equal(read_sparse(str(path), transpose=True).x.toarray(), BY_HAND.T)
    assert found.names is None


def test_files_of_10x_have_genes_in_rows(tmp_path):
    folder = tmp_path
    (folder / "pbmc_matrix.mtx.gz").write_bytes(gzip.compress(MTX))
    genes = "ENSG1\tCD3E\tGene Expression\nENSG2\tMS4A1\tGene Expression\nENSG3\tNKG7\tGene\n"
    (folder / "pbmc_features.tsv.gz").write_bytes(gzip.compress(genes.encode()))
    (folder / "pbmc_barcodes.tsv.gz").write_bytes(gzip.compress(b"AA-1\nCC-1\nGG-1\nTT-1\n"))
    found = read_sparse(str(folder / "pbmc_matrix.mtx.gz"))
    np.testing.assert_array_equal(found.x.toarray(), BY_HAND.T)
    assert found.names == ["CD3E", "MS4A1", "NKG7"]
    assert found.ids == ["AA-1", "CC-1", "GG-1", "TT-1"]
    assert "taken as columns" in str(found.notes[0])
    # Symbols that are not different: the first column.
    (folder / "pbmc_features.tsv.gz").write_bytes(gzip.compress(b"E1\tA\nE2\tA\nE3\tB\n"))
    assert read_sparse(str(folder / "pbmc_matrix.mtx.gz")).names == ["E1", "E2", "E3"]
    (folder / "pbmc_barcodes.tsv.gz").write_bytes(gzip.compress(b"AA-1\nCC-1\n"))
    with pytest.raises(DataError, match="3 and 2 names"):
        read_sparse(str(folder / "pbmc_matrix.mtx.gz"))


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix])
def test_npz_of_scipy(tmp_path, form):
    path = tmp_path / "a.npz"
    for compressed in (True, False):
        sparse.save_npz(path, form(X), compressed=compressed)
        found = read_sparse(str(path))
        np.testing.assert_array_equal(found.x.toarray(), X)
        assert found.x.dtype == float
    mmwrite(tmp_path / "a.mtx", form(X))
    np.testing.assert_array_equal(read_sparse(str(tmp_path / "a.mtx")).x.toarray(), X)


def test_h5ad_with_a_layer(tmp_path):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(np.log1p(X))
    adata.layers["counts"] = sparse.csr_matrix(X)
    adata.var_names, adata.obs_names = list("abcd"), [f"cell{i}" for i in range(6)]
    adata.obs["size"] = np.arange(1.0, 7.0)
    adata.write_h5ad(tmp_path / "a.h5ad")
    found = read_sparse(str(tmp_path / "a.h5ad"), layer="counts")
    np.testing.assert_array_equal(found.x.toarray(), X)
    assert found.names == list("abcd")
    assert found.ids[-1] == "cell5"
    np.testing.assert_array_equal(found.columns["size"], np.arange(1.0, 7.0))
    np.testing.assert_allclose(read_sparse(str(tmp_path / "a.h5ad")).x.toarray(), np.log1p(X))
    with pytest.raises(InputError, match="layer must be one of those in .*'counts'"):
        read_sparse(str(tmp_path / "a.h5ad"), layer="raw")
    with pytest.raises(InputError, match="layer is for h5ad"):
        read_sparse(str(tmp_path / "a.mtx"), layer="raw")


HEAD = b"%%MatrixMarket matrix coordinate integer general\n"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"1,2,3\n", "does not begin with"),
        (HEAD, "does not state how many"),
        (HEAD + b"3 x 1\n", "does not state how many"),
        (HEAD + b"3 3 1000000000000\n1 1 1\n", "cut off"),
        (HEAD + b"3 3 5\n1 1 1\n", "no right MatrixMarket"),
        (HEAD + b"3 3 1\n9 9 1\n", "no right MatrixMarket"),
        (HEAD + b"3 3 1\n1 1 one\n", "no right MatrixMarket"),
        (HEAD.replace(b"integer", b"complex") + b"3 3 1\n1 1 1 2\n", "complex"),
        (HEAD.replace(b"coordinate", b"array") + b"30000 30000\n1\n", "cut off"),
    ],
)
def test_damaged_matrix_market_is_refused(tmp_path, raw, message):
    (tmp_path / "a.mtx").write_bytes(raw)
    with pytest.raises(DataError, match=message):
        read_sparse(str(tmp_path / "a.mtx"))


def test_a_matrix_too_large_for_the_memory_is_refused(tmp_path):
    (tmp_path / "a.mtx").write_bytes(HEAD + b"2147483647 2147483647 1\n1 1 1\n")
    with pytest.raises(CuspError, match="needs about"):
        read_sparse(str(tmp_path / "a.mtx"))


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


GOOD = {
    "format": np.array(b"csr"),
    "shape": np.array([2, 2]),
    "data": np.ones(2),
    "indices": np.array([0, 1], dtype=np.int32),
    "indptr": np.array([0, 1, 2], dtype=np.int32),
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": np.array(b"bsr")}, "has the format 'bsr'"),
        ({"shape": np.array([2])}, "two dimensions"),
        ({"shape": np.array([2, 2**40])}, "two dimensions"),
        ({"indices": np.array([0, 7], dtype=np.int32)}, "damaged"),
        ({"indices": np.array([0, -1], dtype=np.int32)}, "damaged"),
        ({"indptr": np.array([0, 5, 2], dtype=np.int32)}, "damaged"),
        ({"indptr": np.array([0, 1], dtype=np.int32)}, "damaged"),
        ({"data": np.array(["a", "b"])}, "must hold numbers"),
        ({"data": np.array([None, 1], dtype=object)}, "damaged"),
        ({"data": np.ones(3)}, "damaged"),
    ],
)
def test_damaged_npz_is_refused(tmp_path, changed, message):
    path = tmp_path / "a.npz"
    path.write_bytes(npz(**GOOD))
    np.testing.assert_array_equal(read_sparse(str(path)).x.toarray(), np.eye(2))
    path.write_bytes(npz(**GOOD | changed))
    with pytest.raises(DataError, match=message):
        read_sparse(str(path))


def test_an_npz_that_states_a_wrong_size_is_refused(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    header = header.ljust(117) + b"\n"
    lying = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\0" * 8
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in GOOD.items():
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(f"{name}.npy", lying if name == "data" else stream.getvalue())
    with pytest.raises(DataError, match="sizes are wrong"):
        read_sparse(str(path))
    path.write_bytes(b"PK\x03\x04" + b"\0" * 50)
    with pytest.raises(DataError, match="damaged"):
        read_sparse(str(path))
    np.savez(path, a=np.ones(3))
    with pytest.raises(DataError, match="no sparse matrix as scipy.sparse.save_npz"):
        read_sparse(str(path))
    path.write_bytes(b"text")
    with pytest.raises(DataError, match="no npz file"):
        read_sparse(str(path))
