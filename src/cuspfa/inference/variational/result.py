"""From the last state of the variational engine to a posterior in the user's units."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from cuspfa._typing import Array, BoolArray
from cuspfa._utils.fit_warning import (
    AtLedermannBound,
    BoundDecreased,
    EmptyFactors,
    EvidenceRising,
    FactorLimitReached,
    FitWarning,
    InactiveFactors,
    IterationLimit,
    ModelErrorNotLearned,
    TemperedLikelihood,
    VariationalOutOfTime,
)
from cuspfa.data.complete import Prepared
from cuspfa.data.in_memory import LARGEST_KEPT_DATA
from cuspfa.inference.variational.error_curve import model_error_curve
from cuspfa.inference.variational.error_grid import GRID
from cuspfa.inference.variational.run import Status
from cuspfa.inference.variational.settings import DEFAULT_MAX_FACTORS, Variational, VariationalFit
from cuspfa.inference.variational.steps import VariationalState
from cuspfa.inference.variational.tolerance import no_marginal
from cuspfa.missing.kernels import RowsInMemory
from cuspfa.model.model_error import ModelError
from cuspfa.model.prior import CuspPrior
from cuspfa.posterior.distributions import Means, ScoreDistribution
from cuspfa.posterior.fit_info import FitInfo, ModelErrorPath, SearchPath
from cuspfa.posterior.provenance import Provenance
from cuspfa.posterior.variational import VariationalPosterior
from cuspfa.rotation.axes import EMPTY_SHARE
from cuspfa.rotation.gpa import Rotation


def variational_posterior(
    fit: VariationalFit,
    prepared: Prepared,
    prior: CuspPrior,
    rotation: Rotation | None,
    provenance: Provenance,
) -> VariationalPosterior:
    """The posterior of a fit. Rows with missing values are kept for draws, not for files."""
    source = prepared.source
    shared: dict[str, Any] = {
        "prior": prior,
        "model_error": fit.model_error,
        "statistics": source.statistics(),
        "center": prepared.center,
        "scale": prepared.scale,
        "n_rows": prepared.n,
        "names": prepared.names,
        "tails": prepared.tails,
        "row_weights": prepared.row_weights,
    }
    counts = None
    if (rows := source.incomplete_rows) is not None:
        counts = rows.counts
        if rows.rows.size <= LARGEST_KEPT_DATA:
            shared["rows"] = RowsInMemory(rows)
    alternatives = tuple(
        VariationalPosterior(**_distributions(state, counts), **shared, weight=weight)
        for weight, state in fit.alternatives
    )
    weight = 1.0 - sum(rival.weight for rival in alternatives)
    return VariationalPosterior(
        **_distributions(fit.best.state, counts),
        **shared,
        weight=weight,
        alternatives=alternatives,
        fit_info=_variational_fit_info(fit),
        rotation=rotation,
        provenance=provenance,
        curve_maker=model_error_curve,
    )


def variational_warnings(
    fit: VariationalFit,
    prepared: Prepared,
    prior: CuspPrior,
    method: Variational,
    n_factors: int | None,
    model_error: float | Literal["auto"],
) -> tuple[FitWarning, ...]:
    """Warnings about the number of factors, the model error, and how the fit ended."""
    number = _number_found(fit, prepared, method)
    if n_factors is not None:
        number = _number_given(fit.best.state, prepared, prior, n_factors)
    error = _model_error_warning(prepared, model_error)
    found = number, error, _end_warning(fit, method, n_factors)
    return tuple(one for one in found if one is not None)


def _model_error_warning(
    prepared: Prepared, model_error: float | Literal["auto"]
) -> FitWarning | None:
    source = prepared.source
    if model_error == "auto":
        reason = no_marginal(source, min(GRID))
        return None if reason is None else ModelErrorNotLearned(reason, prepared.n, source.p)
    reason = no_marginal(source, model_error) if model_error > 0 else None
    if reason is None:
        return None
    rows = ModelError.of_size(model_error, source.p).effective_rows(source.n)
    known = source.statistics() is not None
    return TemperedLikelihood(float(model_error), reason, rows, source.p, known)


def _number_found(
    fit: VariationalFit, prepared: Prepared, method: Variational
) -> FitWarning | None:
    if fit.at_ledermann_bound:
        return AtLedermannBound(int(np.sum(fit.best.state.active > 0.5)), prepared.source.p)
    if not fit.limit:
        rising = fit.evidence_rising
        return None if rising is None else EvidenceRising(float(rising))
    rise = (
        None if fit.out_of_time else _finite_or_none(fit.rise)
    )  # the warning of the time limit reports it
    given = method.max_factors is not None
    return FactorLimitReached(fit.limit, DEFAULT_MAX_FACTORS, given, rise)


def _number_given(
    state: VariationalState, prepared: Prepared, prior: CuspPrior, n_factors: int
) -> FitWarning | None:
    active = state.active > 0.5
    if np.sum(active) != n_factors:
        return InactiveFactors(n_factors, int(np.sum(active)), prior.spike)
    source = prepared.source
    loadings = state.loadings.only(active).mean / np.sqrt(source.squares / source.counts)[:, None]
    shares = np.linalg.eigvalsh(loadings.T @ loadings) / source.p
    empty = int(np.sum(shares < EMPTY_SHARE))
    return EmptyFactors(n_factors, empty) if empty else None


def _end_warning(
    fit: VariationalFit, method: Variational, n_factors: int | None
) -> FitWarning | None:
    if fit.out_of_time:
        assert method.max_time is not None
        rise = None if n_factors is not None else _finite_or_none(fit.rise)
        return VariationalOutOfTime(float(method.max_time), n_factors is not None, rise)
    if fit.best.status is Status.MAX_ITER:
        return IterationLimit(int(method.max_iter), float(method.tol))
    return BoundDecreased() if fit.best.status is Status.ELBO_DECREASED else None


def _finite_or_none(rise: float) -> float | None:
    return float(rise) if math.isfinite(rise) else None


def _variational_fit_info(fit: VariationalFit) -> FitInfo:
    """Bound, convergence and search path.

    With model error the bounds are those of tempered data, or of Gaussian rows in place of the
    data. They can be compared with nothing, and are left out.
    """
    run, bound, entries = fit.best, fit.best.total, fit.entries
    if fit.model_error:
        bound = math.nan
        entries = [one._replace(lower_bound=bound) for one in entries]
    status = Status.OUT_OF_TIME if fit.out_of_time else run.status
    status = Status.INTERRUPTED if fit.interrupted else status
    return FitInfo(
        "variational",
        bound,
        status.value,
        status is Status.CONVERGED,
        run.n_iter,
        run.trace,
        SearchPath(entries),
        ModelErrorPath(fit.errors),
    )


def _distributions(state: VariationalState, counts: Array | None) -> dict[str, Any]:
    """The part of a posterior that a state determines; `counts` where values are missing."""
    active = state.active > 0.5
    # Factors that the labels call inactive count as noise, with those that have no mean.
    others = state.loadings.only(~active)
    unexplained = np.sum(others.mean**2, axis=1) + others.row_variance
    return {
        "loadings_distribution": state.loadings.only(active),
        "noise_distribution": state.noise,
        "score_distribution": _score_distribution(state, active),
        "slab_probability": state.active[active],
        "expected_active": state.expected_active,
        "tail_variance": state.tail.size * state.tail.loading_variance + unexplained,
        "slab": state.slab,
        "means": None if counts is None else Means(state.scores.location(state.loadings), counts),
    }


def _score_distribution(state: VariationalState, active: BoolArray) -> ScoreDistribution:
    chosen, scores = np.ix_(active, active), state.scores
    covariance = scores.covariance(state.loadings, state.noise.precision)[chosen]
    inner = scores.total[chosen] - scores.n * covariance
    return ScoreDistribution(_without_negative(inner), covariance, scores.n)


def _without_negative(inner: Array) -> Array:
    """Σ_i m_i m_iᵀ without negative eigenvalues.

    It is a difference, which for a nearly empty factor is less than the last iteration's change.
    """
    values, vectors = np.linalg.eigh(inner)
    if not len(values) or values[0] >= 0:
        return inner
    repaired = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return np.asarray((repaired + repaired.T) / 2)
