"""What both estimators do after a fit: warnings, and attributes of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from cuspfa._typing import RandomState
from cuspfa._utils.arguments import is_whole
from cuspfa._utils.fit_warning import FitWarning
from cuspfa._utils.fit_warning_text import DEFAULT, python_text
from cuspfa._utils.spelling import EngineSettings
from cuspfa._utils.warn import warn
from cuspfa.errors import ConvergenceWarning, CuspWarning, PerformanceWarning
from cuspfa.inference._kernels import NOT_BUILT, not_built
from cuspfa.posterior.factorization_results import CountFitInfo
from cuspfa.posterior.fit_info import FitInfo

Estimator = TypeVar("Estimator")
PosteriorOf = TypeVar("PosteriorOf")


def issue_warnings(warnings: Sequence[FitWarning], engine: EngineSettings = DEFAULT) -> None:
    """Issue one Python warning for all of them, if there are any."""
    if not warnings:
        return
    unfinished = any(one.not_converged for one in warnings)
    text = " ".join(python_text(one, engine) for one in warnings)
    warn(text, ConvergenceWarning if unfinished else CuspWarning)


def warn_if_not_built() -> None:
    """Warn without a compiled core. Python shows a warning once for each line of the user's."""
    if not_built():
        warn(NOT_BUILT, PerformanceWarning)


def set_at_once(
    model: Estimator,
    posterior: PosteriorOf,
    set_attributes: Callable[[Estimator, PosteriorOf], None],
) -> None:
    """Set all attributes of a fit in one step: an interrupt finds the old ones or the new ones."""
    whole = object.__new__(type(model))
    whole.__dict__.update(vars(model))
    set_attributes(whole, posterior)
    model.__dict__ = whole.__dict__


def store_course(
    model: Any, fit_info: FitInfo | CountFitInfo, n_columns: int, names: Sequence[str] | None
) -> None:
    """Set the attributes that say how a fit went, and what its columns are."""
    model.lower_bound_, model.trace_ = fit_info.lower_bound, fit_info.trace
    model.n_iter_, model.search_ = fit_info.n_iter, fit_info.search
    model.status_, model.converged_ = fit_info.status, fit_info.converged
    model.n_features_in_ = n_columns
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_


def kept_seed(random_state: RandomState) -> int | Literal["generator"] | None:
    """What a posterior keeps of `random_state`: the state of a generator is not kept."""
    if random_state is None:
        return None
    return int(random_state) if is_whole(random_state) else "generator"  # type: ignore[arg-type]


def given_number(n_factors: int | Literal["auto"]) -> int | None:
    """The number of factors, if it was given."""
    return None if isinstance(n_factors, str) else int(n_factors)
