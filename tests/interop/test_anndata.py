"""AnnData in, scores and loadings written into it, or nothing."""

import sys

import anndata
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import cuspfa
from cuspfa import CuspFactorAnalysis, datasets
from cuspfa.errors import CuspWarning, DataError, InputError


def example(kind=np.asarray):
    rows = datasets.simulate(120, 15, 2, random_state=2).X
    rows[np.abs(rows) < 0.3] = 0.0
    genes = pd.DataFrame(
        {"highly_variable": np.arange(15) < 10}, index=[f"g{j}" for j in range(15)]
    )
    return anndata.AnnData(kind(rows), var=genes, layers={"log": kind(2 * rows)})


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_scores_and_loadings_are_written(kind, tmp_path):
    adata = example(kind)
    model = cuspfa.fit_anndata(adata)
    dense = np.asarray(example().X)
    direct = CuspFactorAnalysis().fit(dense)
    assert_allclose(adata.obsm["X_cusp"], direct.transform(dense), atol=1e-6)
    assert_allclose(adata.varm["cusp_loadings"], direct.loadings_, atol=1e-6)
    assert adata.uns["cusp"]["n_factors"] == direct.n_factors_ == 2
    assert model.feature_names_in_.tolist() == adata.var_names.tolist()
    path = tmp_path / "cells.h5ad"
    adata.write_h5ad(path)
    again = anndata.read_h5ad(path)
    assert_allclose(again.obsm["X_cusp"], adata.obsm["X_cusp"])
    assert again.uns["cusp"]["params"]["layer"] == "X"


def test_layer_mask_and_model():
    adata = example()
    model = CuspFactorAnalysis(standardize=False)
    assert cuspfa.fit_anndata(adata, layer="log", mask_var="highly_variable", model=model) is model
    part = np.asarray(adata.layers["log"])[:, :10]
    direct = CuspFactorAnalysis(standardize=False).fit(part)
    assert_allclose(adata.varm["cusp_loadings"][:10], direct.loadings_, atol=1e-8)
    assert np.all(adata.varm["cusp_loadings"][10:] == 0)
    assert_allclose(adata.obsm["X_cusp"], direct.transform(part), atol=1e-8)
    other = example()
    cuspfa.fit_anndata(other, mask_var=np.arange(15) < 10)
    assert other.uns["cusp"]["params"]["mask_var"] == ""


def test_nothing_is_written_when_it_fails():
    adata = example()
    adata.X[:, 4] = 1.0
    with pytest.raises(DataError, match=r"column 'g4' \(index 4\) is constant"):
        cuspfa.fit_anndata(adata)
    assert not adata.obsm
    assert not adata.varm
    assert not adata.uns


def test_wrong_arguments(tmp_path):
    adata = example()
    for settings, message in (
        ({"layer": "raw"}, r"layer must be None or one of adata.layers \('log'\). Got 'raw'"),
        ({"layer": 3}, r"one of adata.layers \('log'\). Got 3"),
        ({"layer": ["log"]}, r"one of adata.layers \('log'\). Got \['log'\]"),
        ({"mask_var": "hv"}, r"column of adata.var \('highly_variable'\). Got 'hv'"),
        ({"mask_var": np.ones(3, bool)}, "for each of 15 genes"),
        ({"mask_var": np.zeros(15, bool)}, "at least one gene"),
        ({"model": "gibbs"}, "model must be a CuspFactorAnalysis"),
    ):
        with pytest.raises(InputError, match=message):
            cuspfa.fit_anndata(adata, **settings)
    with pytest.raises(InputError, match="adata must be an AnnData object. Got 'ndarray'"):
        cuspfa.fit_anndata(np.ones((3, 3)))
    for call in (CuspFactorAnalysis().fit, CuspFactorAnalysis().fit(adata.X).transform):
        with pytest.raises(
            DataError, match="Got an AnnData object instead: use cuspfa.fit_anndata"
        ):
            call(adata)
    path = tmp_path / "cells.h5ad"
    adata.write_h5ad(path)
    backed = anndata.read_h5ad(path, backed="r")
    with pytest.raises(InputError, match="backed by a file"):
        cuspfa.fit_anndata(backed)
    backed.file.close()


def test_a_mask_with_an_index_is_brought_into_order():
    adata, wanted = example(), pd.Series(np.arange(15) < 10, index=[f"g{j}" for j in range(15)])
    cuspfa.fit_anndata(adata, mask_var=wanted[::-1])
    used = np.any(adata.varm["cusp_loadings"] != 0, axis=1)
    assert used.tolist() == wanted.tolist()
    assert used.tolist() != wanted[::-1].tolist()  # what its values alone would have said
    for other in (wanted.reset_index(drop=True), wanted[:14], wanted.rename({"g0": "g1"})):
        with pytest.raises(InputError, match=r"adata.var_names as its index.*mask_var.to_numpy"):
            cuspfa.fit_anndata(adata, mask_var=other)


def test_genes_of_the_same_name():
    adata = example()
    adata.var_names = ["g0", "g0", *adata.var_names[2:]]
    with pytest.raises(DataError, match="'g0' more than once: call adata.var_names_make_unique"):
        cuspfa.fit_anndata(adata)
    assert not adata.obsm
    assert cuspfa.fit_anndata(adata, mask_var=np.arange(15) > 0).n_features_in_ == 14


def test_without_anndata_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(InputError, match=r"needs pip install 'cuspfa\[anndata\]'"):
        cuspfa.fit_anndata(np.ones((3, 3)))


def test_warnings_point_at_the_call():
    adata, method = example(), cuspfa.Variational(max_factors=1)
    with pytest.warns(CuspWarning, match="max_factors") as caught:
        cuspfa.fit_anndata(adata, model=CuspFactorAnalysis(method=method))
    assert [one.filename for one in caught] == [__file__]


def test_counts_of_a_layer(tmp_path):
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 2, 80)
    counts = rng.poisson(s[:, None] * (rng.gamma(0.5, 2, (80, 2)) @ rng.gamma(0.5, 2, (2, 9))))
    adata = anndata.AnnData(sparse.csr_matrix(np.log1p(counts)))
    adata.layers["counts"] = sparse.csr_matrix(counts)
    adata.obs["size"] = s
    adata.var["variable"] = np.arange(9) != 4
    model = cuspfa.CuspPoissonFactorization(n_factors=2, random_state=0)
    found = cuspfa.fit_anndata(
        adata, layer="counts", model=model, mask_var="variable", exposure="size"
    )
    assert found is model
    used = np.arange(9) != 4
    plain = cuspfa.CuspPoissonFactorization(n_factors=2, random_state=0)
    plain.fit(counts[:, used], exposure=s)
    np.testing.assert_allclose(adata.varm["cusp_loadings"][used], plain.components_.T, rtol=1e-9)
    assert np.all(adata.varm["cusp_loadings"][4] == 0)
    scores = plain.transform(counts[:, used], exposure=s)
    np.testing.assert_allclose(adata.obsm["X_cusp"], scores, rtol=1e-9)
    np.testing.assert_allclose(scores, plain.posterior_.scores, rtol=0.05, atol=0.02)
    assert np.isnan(adata.var["cusp_dispersion"].iloc[4])
    assert list(model.feature_names_in_) == [name for name in adata.var_names if name != "4"]
    assert adata.uns["cusp"]["params"] == {
        "layer": "counts", "mask_var": "variable", "exposure": "size",
    }  # fmt: skip
    adata.write_h5ad(tmp_path / "a.h5ad")
    again = anndata.read_h5ad(tmp_path / "a.h5ad")
    assert again.uns["cusp"]["n_factors"] == 2


def test_wrong_counts_write_nothing():
    adata = anndata.AnnData(np.full((20, 4), 0.5))
    model = cuspfa.CuspPoissonFactorization(n_factors=1)
    with pytest.raises(DataError, match="not whole numbers"):
        cuspfa.fit_anndata(adata, model=model)
    with pytest.raises(InputError, match="exposure must be a column of adata.obs"):
        cuspfa.fit_anndata(adata, model=model, exposure="size")
    with pytest.raises(InputError, match="exposure must be None for a CuspFactorAnalysis"):
        cuspfa.fit_anndata(adata, exposure="size")  # type: ignore[call-overload]
    assert not adata.obsm
