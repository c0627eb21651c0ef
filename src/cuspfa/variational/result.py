"""From the engine's last state to a posterior in the user's units."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuspfa._types import BoolArray
from cuspfa.data.complete import Prepared
from cuspfa.posterior.record import FitRecord
from cuspfa.posterior.variational import ScoreLaw, VariationalPosterior
from cuspfa.prior import CuspPrior
from cuspfa.variational.cycle import State
from cuspfa.variational.fit import Status
from cuspfa.variational.method import VariationalFit


def posterior_of(
    fit: VariationalFit, prepared: Prepared, prior: CuspPrior, names: list[str] | None
) -> VariationalPosterior:
    """What is kept of a fit; nothing in it is a row of the data."""
    statistics = prepared.source.statistics()
    shared: dict[str, Any] = {
        "prior": prior,
        "statistics": statistics,
        "center": prepared.center,
        "scale": prepared.scale,
        "n_rows": prepared.n,
        "names": names,
    }
    rivals = tuple(
        VariationalPosterior(**_laws(state), **shared, weight=weight)
        for weight, state in fit.rivals
    )
    weight = 1.0 - sum(rival.weight for rival in rivals)
    return VariationalPosterior(
        **_laws(fit.best.state), **shared, weight=weight, rivals=rivals, record=record_of(fit)
    )


def record_of(fit: VariationalFit) -> FitRecord:
    """How the fit went."""
    run = fit.best
    status = Status.INTERRUPTED if fit.interrupted else run.status
    return FitRecord(
        "variational",
        run.total,
        status.value,
        status is Status.CONVERGED,
        run.n_iter,
        run.trace,
        fit.entries,
    )


def _laws(state: State) -> dict[str, Any]:
    """The part of a posterior that a state determines."""
    active = state.active > 0.5
    # Factors that the labels call inactive count as noise, with those that have no mean.
    others = state.loadings.only(~active)
    unexplained = np.sum(others.mean**2, axis=1) + others.row_variance
    return {
        "loadings": state.loadings.only(active),
        "noise": state.noise,
        "scores": _score_law(state, active),
        "active": state.active[active],
        "expected_active_factors": state.expected_active,
        "tail_variance": state.tail.size * state.tail.loading_variance + unexplained,
        "slab": state.slab,
    }


def _score_law(state: State, active: BoolArray) -> ScoreLaw:
    precision = state.loadings.weighted_gram(state.noise.precision)
    precision[np.diag_indices_from(precision)] += 1.0
    chosen = np.ix_(active, active)
    covariance = np.asarray(np.linalg.inv(precision)[chosen], dtype=float)
    second = state.scores.second[chosen]
    return ScoreLaw(second - state.scores.n * covariance, covariance, state.scores.n)
