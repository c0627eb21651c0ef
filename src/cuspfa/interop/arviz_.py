"""Aligned draws for ArviZ: InferenceData with ArviZ 0.x, a DataTree with 1.x."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be, whole
from cuspfa.data.column_choice import check_columns
from cuspfa.data.names import check_same_width
from cuspfa.data.validate import check_rows
from cuspfa.errors import InputError
from cuspfa.rotation.aligned import AlignedDraws

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

DIMS = {
    "loadings": ["feature", "factor"],
    "factor_correlations": ["factor", "other_factor"],
    "communality": ["feature"],
    "noise_variance": ["feature"],
    "explained_variance_ratio": ["factor"],
    "present": ["factor"],
    "thresholds": ["threshold"],
    "dispersion": ["dispersed_feature"],
    "observed": ["observation", "feature"],
}


def for_arviz(
    posterior: Posterior, aligned: AlignedDraws, observed: Any, columns: Any, chains: int | None
) -> Any:
    """See `Posterior.to_arviz`."""
    az = _arviz()
    number = posterior.n_chains if chains is None else whole("chains", chains, 1)
    if len(aligned) % number:
        raise must_be("chains", f"a divisor of the {len(aligned)} draws", number)
    p, k = len(aligned.names), aligned.present.shape[1]
    chosen = np.arange(p) if columns is None else check_columns(columns, p, posterior.names)
    values = _values(aligned, chosen)
    coords: dict[str, Any] = {}
    kept, names = posterior.thresholds_of(chosen)
    if names and aligned.draws.thresholds is not None:
        values["thresholds"] = posterior.standardized_thresholds(aligned.draws)[:, kept]
        coords["threshold"] = names
    own = [j for j in posterior.dispersed if j in chosen]
    if own and aligned.draws.dispersion is not None:
        kept = np.searchsorted(posterior.dispersed, own)
        values["dispersion"] = aligned.draws.dispersion[:, kept]
        coords["dispersed_feature"] = [aligned.names[j] for j in own]
    groups = {"posterior": _by_chain(values, number)}
    coords |= {
        "feature": [aligned.names[j] for j in chosen],
        "factor": list(aligned.factor_names) or [f"factor{h}" for h in range(1, k + 1)],
    }
    coords["other_factor"] = coords["factor"]
    if observed is not None:
        rows = check_rows(observed).rows
        check_same_width("to_arviz", p, rows.shape[1])
        rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=float)
        groups["observed_data"] = {"observed": rows[:, chosen]}
        coords["observation"] = np.arange(len(rows))
    if int(az.__version__.partition(".")[0]) < 1:
        return az.from_dict(**groups, coords=coords, dims=DIMS)
    return az.from_dict(groups, coords=coords, dims=DIMS)


def _values(aligned: AlignedDraws, chosen: Any) -> dict[str, Array]:
    """(n_draws, ...) of each quantity; NaN where a draw has no such factor."""
    draws, here = aligned.draws, aligned.present
    loadings = np.concatenate([block for _, block in aligned.blocks(columns=chosen)], axis=1)
    found: dict[str, Any] = {
        "loadings": np.where(here[:, None, :], loadings, np.nan),
        "explained_variance_ratio": np.where(here, aligned.explained_variance_ratio, np.nan),
        "communality": draws.only(chosen).communality,
        "noise_variance": draws.noise_variance[:, chosen],
        "n_factors": np.count_nonzero(draws.factors, axis=1),
    }
    if not np.allclose(aligned.reference.correlations, np.eye(here.shape[1])):
        found["factor_correlations"] = aligned.factor_correlations
    if not here.all():
        found["present"] = here
    return found


def _by_chain(values: dict[str, Array], chains: int) -> dict[str, Array]:
    return {
        name: one.reshape(chains, len(one) // chains, *one.shape[1:])
        for name, one in values.items()
    }


def _arviz() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # 0.x warns of 1.x at every import
            import arviz
    except ImportError:
        raise InputError("to_arviz needs the package arviz: pip install 'cuspfa[arviz]'.") from None
    return arviz
