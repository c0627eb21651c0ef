"""From a fit to single cells to a posterior, in the user's units."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.fit_warning import (
    FewRowsForCounts,
    FewRowsForFactors,
    FitWarning,
    ModeNotFound,
    VariationalOutOfTime,
)
from cuspfa.data.cells import CellTable, PreparedCells
from cuspfa.inference.cellwise.engine import CellFit, FittedSweeps, parameters_by_column
from cuspfa.inference.cellwise.sampler import SampledCells
from cuspfa.inference.gibbs.result import sampler_fit_info, sampler_warnings
from cuspfa.inference.gibbs.settings import Gibbs
from cuspfa.missing.kernels import nothing
from cuspfa.model.likelihoods.kinds import LikelihoodTable
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.fit_info import FitInfo, SearchPath
from cuspfa.posterior.latent import LatentDraws, LatentParameters, LatentPosterior
from cuspfa.posterior.provenance import Provenance, with_warnings
from cuspfa.posterior.sampled_latent import (
    SampledLatentPosterior,
    diagnose_latent,
    point_of_draws,
)
from cuspfa.rotation.gpa import Rotation


def latent_posterior(
    fit: CellFit,
    prepared: PreparedCells,
    table: CellTable,
    prior: CuspPrior,
    rotation: Rotation | None,
    provenance: Provenance,
    model_error: float,
) -> LatentPosterior:
    """The posterior of a fit; the rows are kept for draws, not for files."""
    path = SearchPath(fit.entries)
    info = FitInfo("variational", np.nan, fit.status, fit.converged, 0, np.zeros(0), path)
    return LatentPosterior(
        **_of_table(prepared, table),
        prior=prior,
        model_error=model_error,
        fit_info=info,
        rotation=rotation,
        provenance=provenance,
        loadings_mode=fit.mode.loadings,
        parameters=parameters_by_column(fit.likelihood, fit.mode.parameters),
        exact=fit.is_exact,
        cells=FittedSweeps(fit, table),
    )


def sampled_latent_posterior(
    cells: SampledCells,
    prepared: PreparedCells,
    table: CellTable,
    prior: CuspPrior,
    method: Gibbs,
    n_factors: int | None,
    rotation: Rotation | None,
    provenance: Provenance,
) -> SampledLatentPosterior:
    """The posterior of the draws of a sampler; no row is in it but for measures of fit."""
    fit = cells.drawn
    length, chains, _ = fit.kept.active.shape

    def by_chain(array: Array | BoolArray | None) -> Array:
        assert array is not None
        turned = array.swapaxes(0, 1)
        return np.ascontiguousarray(turned.reshape(length * chains, *turned.shape[2:]))

    kept = fit.kept
    none = np.zeros((length * chains, 0))
    own = LatentParameters(
        by_chain(kept.mean), by_chain(kept.noise), by_chain(kept.thresholds), none
    )
    drawn = LatentDraws(by_chain(kept.loadings), own, chains)
    active, logs = by_chain(kept.active) > 0, by_chain(kept.log_likelihood)
    loadings, parameters = point_of_draws(drawn, active, table.columns)
    found = diagnose_latent(drawn, active, logs, table.columns)
    fit_info = sampler_fit_info(fit, found, active, logs)
    warned = sampler_warnings(fit, found, fit_info, method, n_factors)
    return SampledLatentPosterior(
        **_of_table(prepared, table),
        prior=prior,
        fit_info=fit_info,
        rotation=rotation,
        provenance=with_warnings(provenance, warned),
        loadings_mode=loadings,
        parameters=parameters,
        stored=drawn,
        cells=RowsOfDraws(table.rows, drawn),
        n_chains=chains,
        active_draws=active,
        log_likelihood=logs,
        spike=fit.spike,
    )


def _of_table(prepared: PreparedCells, table: CellTable) -> dict[str, Any]:
    """Fields of a posterior that depend on the data alone."""
    return {
        "n_rows": len(table.rows),
        "center": table.center,
        "scale": table.scale,
        "statistics": None,
        "names": prepared.names,
        "columns": table.columns,
        "frequencies": frequencies(table.rows, table.columns),
        "counts": np.sum(~np.isnan(table.rows), axis=0).astype(float),
        "categories": prepared.categories,
        "transforms": table.transforms,
        "mean_offset": mean_offset(table),
    }


class RowsOfDraws:
    """The rows behind draws, in the process of the fit; pickled or copied it becomes None."""

    is_exact = True

    def __init__(self, rows: Array, drawn: LatentDraws) -> None:
        self.rows, self._drawn = rows, drawn

    def draw(self) -> LatentDraws:
        """The draws."""
        return self._drawn

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return nothing, ()


def mean_offset(table: CellTable) -> float:
    """Of the rows of a fit; 0 without counts."""
    return 0.0 if table.offset is None else float(np.mean(table.offset))


def frequencies(rows: Array, columns: LikelihoodTable) -> Array:
    """Number of values in each category of the ordinal columns, column after column."""
    found = [
        np.sum(column == level)
        for column, one in zip(rows.T, columns, strict=True)
        for level in one.levels
    ]
    return np.array(found, dtype=float)


def cell_warnings(
    fit: CellFit, n_factors: int | None, n_rows: int, max_time: float | None
) -> tuple[FitWarning, ...]:
    """What a fit warns of."""
    if fit.out_of_time and max_time is not None:
        return (VariationalOutOfTime(max_time, n_factors is not None, None),)
    found: list[FitWarning] = [ModeNotFound(fit.not_found)] if fit.not_found else []
    if n_factors is None and fit.limit is not None:
        kind = FewRowsForCounts if np.any(fit.likelihood.direct) else FewRowsForFactors
        found.append(kind(fit.limit, n_rows))
    return tuple(found)
