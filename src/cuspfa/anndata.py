"""AnnData, the annotated matrices of genomics: cells in rows, genes in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cuspfa._checks import must_be
from cuspfa._types import BoolArray
from cuspfa.data.checks import check_rows
from cuspfa.errors import InputError
from cuspfa.estimator import CuspFactorAnalysis

if TYPE_CHECKING:
    from anndata import AnnData


def fit(
    adata: AnnData,
    *,
    layer: str | None = None,
    mask_var: str | Any | None = None,
    model: CuspFactorAnalysis | None = None,
) -> CuspFactorAnalysis:
    """Fit to an AnnData object in memory and write the result into it.

    Written are `obsm["X_cusp"]` (cells × factors: scores), `varm["cusp_loadings"]` (genes ×
    factors: loadings on the correlation scale) and `uns["cusp"]` (a dictionary of plain values
    that `write_h5ad` accepts). Nothing is written unless the fit succeeds.

    Parameters
    ----------
    adata : anndata.AnnData
        In memory, not backed by a file. Values should be on a scale where a Gaussian model makes
        sense, for example log-normalised counts. Sparse matrices stay sparse.
    layer : str or None, default=None
        The layer to use; None means `adata.X`.
    mask_var : str, mask or None, default=None
        Genes to use: a boolean column of `adata.var` (such as "highly_variable"), or a mask.
        The others have loadings of zero, as in scanpy. None means all genes.
    model : CuspFactorAnalysis or None, default=None
        The estimator to fit, with its settings; None means `CuspFactorAnalysis()`.

    Returns
    -------
    CuspFactorAnalysis
        The fitted model (`model` itself, if given).

    Examples
    --------
    >>> import anndata, cuspfa.anndata
    >>> from cuspfa import datasets
    >>> adata = anndata.AnnData(datasets.simulate(100, 12, 2, random_state=0).X)
    >>> cuspfa.anndata.fit(adata).n_factors_
    2
    >>> adata.obsm["X_cusp"].shape, adata.varm["cusp_loadings"].shape
    ((100, 2), (12, 2))
    """
    for name in ("obsm", "varm", "uns", "layers", "var_names"):
        if not hasattr(adata, name):
            raise must_be("adata", "an AnnData object", type(adata).__name__)
    if getattr(adata, "isbacked", False):
        raise InputError("adata must be in memory. Got one backed by a file: call .to_memory().")
    if layer is not None and layer not in adata.layers:
        known = ", ".join(map(repr, adata.layers)) or "none"
        raise InputError(f"layer must be one of adata.layers ({known}). Got {layer!r} instead.")
    model = CuspFactorAnalysis() if model is None else model
    if not isinstance(model, CuspFactorAnalysis):
        raise must_be("model", "a CuspFactorAnalysis or None", model)
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise InputError("adata.X is empty. Say which layer to use.")
    used = _mask(adata, mask_var)
    genes = [str(name) for name in adata.var_names[used]]
    rows = values if used.all() else values[:, used]
    model._fit_named(rows, genes)
    loadings = np.zeros((adata.n_vars, model.n_factors_))
    loadings[used] = model.loadings_
    adata.obsm["X_cusp"] = model._marginal().scores(check_rows(rows).rows)
    adata.varm["cusp_loadings"] = loadings
    adata.uns["cusp"] = {
        "n_factors": model.n_factors_,
        "expected_active_factors": float(model.expected_active_factors_),
        "lower_bound": float(model.lower_bound_),
        "converged": bool(model.converged_),
        "status": model.status_,
        "share_of_variance": np.sum(model.loadings_**2, axis=0) / len(genes),
        "search": {
            "n_factors": np.array([entry.n_factors for entry in model.search_]),
            "lower_bound": np.array([entry.lower_bound for entry in model.search_]),
            "evidence": np.array([entry.evidence for entry in model.search_]),
            "weight": np.array([entry.weight for entry in model.search_]),
        },
        "params": {
            "layer": "X" if layer is None else layer,
            "mask_var": mask_var if isinstance(mask_var, str) else "",
            "standardize": bool(model.standardize),
        },
    }
    return model


def _mask(adata: AnnData, mask_var: Any) -> BoolArray:
    if mask_var is None:
        return np.ones(adata.n_vars, dtype=bool)
    if isinstance(mask_var, str):
        if mask_var not in adata.var:
            known = ", ".join(map(repr, adata.var.columns)) or "none"
            raise InputError(
                f"mask_var must be a column of adata.var ({known}). Got {mask_var!r} instead."
            )
        mask_var = adata.var[mask_var]
    mask = np.asarray(mask_var)
    if mask.dtype != bool or mask.shape != (adata.n_vars,):
        raise InputError(
            f"mask_var must be true or false for each of {adata.n_vars} genes. Got an array of "
            f"{mask.dtype} with shape {mask.shape} instead."
        )
    if not mask.any():
        raise InputError("mask_var must leave at least one gene. Got none.")
    return np.asarray(mask)
