"""AnnData, the annotated matrices of genomics: cells in rows, genes in columns."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from scipy.sparse import issparse

from cuspfa._typing import BoolArray
from cuspfa._utils.arguments import must_be
from cuspfa.data.count_input import load_counts
from cuspfa.data.validate import check_rows
from cuspfa.errors import DataError, InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.estimator.poisson_factorization import CuspPoissonFactorization
from cuspfa.posterior.factorization_results import CountSearchEntry
from cuspfa.rotation.axes import shares

if TYPE_CHECKING:
    from anndata import AnnData

SEARCH_COLUMNS = ("n_factors", "lower_bound", "evidence", "evidence_error", "tied", "weight")
"""What is written of each number of factors that was tried."""


@overload
def fit_anndata(
    adata: AnnData,
    *,
    layer: str | None = None,
    mask_var: str | Any | None = None,
    model: CuspFactorAnalysis | None = None,
    exposure: None = None,
    offset: str | Any | None = None,
) -> CuspFactorAnalysis: ...


@overload
def fit_anndata(
    adata: AnnData,
    *,
    layer: str | None = None,
    mask_var: str | Any | None = None,
    model: CuspPoissonFactorization,
    exposure: str | Any | None = None,
    offset: str | Any | None = None,
) -> CuspPoissonFactorization: ...


def fit_anndata(
    adata: AnnData,
    *,
    layer: str | None = None,
    mask_var: str | Any | None = None,
    model: CuspFactorAnalysis | CuspPoissonFactorization | None = None,
    exposure: str | Any | None = None,
    offset: str | Any | None = None,
) -> CuspFactorAnalysis | CuspPoissonFactorization:
    """Fit to an AnnData object in memory and write the result into it.

    Needs the package anndata: `pip install 'cuspfa[anndata]'`.

    Written are `obsm["X_cusp"]` (cells × factors: scores), `varm["cusp_loadings"]` (genes ×
    factors: loadings, of a factor analysis on the correlation scale) and `uns["cusp"]` (a
    dictionary of plain values that `write_h5ad` accepts). Nothing is written unless the fit
    succeeds.

    Parameters
    ----------
    adata : anndata.AnnData
        In memory, not backed by a file. For a `CuspFactorAnalysis` values should be on a scale
        where a Gaussian model makes sense, for example log-normalised counts; for a
        `CuspPoissonFactorization` raw counts. Sparse matrices stay sparse.
    layer : str or None, default=None
        The layer to use; None means `adata.X`.
    mask_var : str, mask or None, default=None
        Genes to use: a boolean column of `adata.var` (such as "highly_variable"), or a mask, one
        value a gene. A pandas Series is brought into the order of `adata.var_names` by its index.
        The others have loadings of zero, as in scanpy. None means all genes.
    model : CuspFactorAnalysis, CuspPoissonFactorization or None, default=None
        The estimator to fit, with its settings; None means `CuspFactorAnalysis()`.
    exposure : str, array or None, default=None
        Exposures of the cells for a `CuspPoissonFactorization`: a column of `adata.obs`, or an
        array. None is 1 for all, so that scores say how much of each factor a cell has.
    offset : str, array or None, default=None
        Offsets of the log rates of counts, for a `CuspFactorAnalysis` with a likelihood of counts:
        a column of `adata.obs`, or an array. `CuspFactorAnalysis(offset="library_size")` takes
        them from the counts of a cell.

    Returns
    -------
    CuspFactorAnalysis or CuspPoissonFactorization
        The fitted model (`model` itself, if given).

    Examples
    --------
    >>> import anndata, cuspfa
    >>> from cuspfa import datasets
    >>> adata = anndata.AnnData(datasets.simulate(100, 12, 2, random_state=0).X)
    >>> cuspfa.fit_anndata(adata).n_factors_
    2
    >>> adata.obsm["X_cusp"].shape, adata.varm["cusp_loadings"].shape
    ((100, 2), (12, 2))

    Counts, in a layer:

    >>> import numpy as np
    >>> adata.layers["counts"] = np.random.default_rng(0).poisson(2.0, (100, 12))
    >>> model = cuspfa.CuspPoissonFactorization(n_factors=1, random_state=0)
    >>> cuspfa.fit_anndata(adata, layer="counts", model=model).components_.shape
    (1, 12)
    """
    _check_adata(adata)
    if layer is not None and not (isinstance(layer, str) and layer in adata.layers):
        # In newer releases X is the layer None.
        known = ", ".join(repr(name) for name in adata.layers if name is not None) or "none"
        raise InputError(
            f"layer must be None or one of adata.layers ({known}). Got {layer!r} instead."
        )
    model = CuspFactorAnalysis() if model is None else model
    if not isinstance(model, (CuspFactorAnalysis, CuspPoissonFactorization)):
        raise must_be("model", "a CuspFactorAnalysis, a CuspPoissonFactorization or None", model)
    values = adata.X if layer is None else adata.layers[layer]
    if values is None:
        raise InputError("adata.X is empty. Say which layer to use.")
    used = _mask(adata, mask_var)
    names = adata.var_names[used]
    if not names.is_unique:
        raise DataError(
            "adata.var_names must be different. Got "
            f"{names[names.duplicated()][0]!r} more than once: call adata.var_names_make_unique()."
        )
    genes = [str(name) for name in names]
    rows = values if used.all() else values[:, used]
    params = {
        "layer": "X" if layer is None else layer,
        "mask_var": mask_var if isinstance(mask_var, str) else "",
    }
    if isinstance(model, CuspPoissonFactorization):
        return _write_counts(adata, model, rows, genes, used, exposure, params)
    if exposure is not None:
        raise must_be("exposure", "None for a CuspFactorAnalysis: see offset", "one")
    column = offset if isinstance(offset, str) else ""
    if isinstance(offset, str):
        if offset not in adata.obs:
            known = ", ".join(map(repr, adata.obs.columns)) or "none"
            raise InputError(
                f"offset must be a column of adata.obs ({known}). Got {offset!r} instead."
            )
        offset = adata.obs[offset].to_numpy()
    if model.likelihood != "gaussian" and issparse(rows):
        rows = rows.toarray()
    model._fit(rows, genes, offset=offset)
    loadings = np.zeros((adata.n_vars, model.n_factors_))
    loadings[used] = model.loadings_
    adata.obsm["X_cusp"] = model._scores(
        model._with_offset(check_rows(rows, allow_missing=True), offset)
    )
    adata.varm["cusp_loadings"] = loadings
    adata.uns["cusp"] = {
        "n_factors": model.n_factors_,
        "expected_active_factors": float(model.expected_active_factors_),
        "lower_bound": float(model.lower_bound_),
        "converged": bool(model.converged_),
        "status": model.status_,
        "share_of_variance": shares(model.posterior_.rotated_solution),
        "factor_correlations": model.factor_correlations_,
        "search": {
            name: np.array([getattr(entry, name) for entry in model.search_])
            for name in SEARCH_COLUMNS
        },
        "params": {**params, "offset": column, "standardize": bool(model.standardize)},
    }
    return model


def _write_counts(
    adata: AnnData,
    model: CuspPoissonFactorization,
    rows: Any,
    genes: list[str],
    used: BoolArray,
    exposure: str | Any | None,
    params: dict[str, str],
) -> CuspPoissonFactorization:
    """Fit to counts, and write the result."""
    column = ""
    if isinstance(exposure, str):
        if exposure not in adata.obs:
            known = ", ".join(map(repr, adata.obs.columns)) or "none"
            raise InputError(
                f"exposure must be a column of adata.obs ({known}). Got {exposure!r} instead."
            )
        column, exposure = exposure, adata.obs[exposure].to_numpy()
    model._check_parameters()
    found = load_counts(rows, exposure, fractions=model.fractions)
    model._fit(found._replace(names=genes), exposure, column=column)
    posterior = model.posterior_
    loadings = np.zeros((adata.n_vars, model.n_factors_))
    loadings[used] = posterior.components.T
    dispersion = np.full(adata.n_vars, np.nan)
    dispersion[used] = posterior.totals.dispersion
    adata.obsm["X_cusp"] = model._scores(found.counts).mean
    adata.varm["cusp_loadings"] = loadings
    adata.var["cusp_dispersion"] = dispersion
    adata.uns["cusp"] = {
        "model": "poisson_factorization",
        "n_factors": model.n_factors_,
        "lower_bound": float(model.lower_bound_),
        "converged": bool(model.converged_),
        "status": model.status_,
        "share_of_counts": posterior.shares,
        "dispersion": posterior.totals.dispersion_of_all,
        "search": {
            name: np.array([getattr(entry, name) for entry in model.search_])
            for name in CountSearchEntry._fields
            if name != "status"
        },
        "params": {**params, "exposure": column},
    }
    return model


def _check_adata(adata: Any) -> None:
    if not all(hasattr(adata, name) for name in ("obsm", "varm", "uns", "layers", "var_names")):
        hint = "" if find_spec("anndata") else ", which needs pip install 'cuspfa[anndata]'"
        raise must_be("adata", f"an AnnData object{hint}", type(adata).__name__)
    if getattr(adata, "isbacked", False):
        raise InputError(
            "adata must be in memory. Got one backed by a file: call .to_memory(), or fit it "
            "from where it is, without results in it: CuspFactorAnalysis().fit(adata)."
        )


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
    elif hasattr(mask_var, "reindex"):  # a pandas Series, indexed by genes
        genes, given = adata.var_names, mask_var.index
        if not (given.is_unique and len(given) == len(genes) and genes.isin(given).all()):
            raise InputError(
                "mask_var must have adata.var_names as its index. Got other names instead; if its "
                "values are in the order of the genes, pass mask_var.to_numpy()."
            )
        mask_var = mask_var.reindex(genes)
    mask = np.asarray(mask_var)
    if mask.dtype != bool or mask.shape != (adata.n_vars,):
        raise InputError(
            f"mask_var must be true or false for each of {adata.n_vars} genes. Got an array of "
            f"{mask.dtype} with shape {mask.shape} instead."
        )
    if not mask.any():
        raise InputError("mask_var must leave at least one gene. Got none.")
    return np.asarray(mask)
