"""The number of factors by tolerated model error, from what a posterior keeps of its data.

A fit does not compute it. Each error is searched from where the search with the error before it
ended. The point of the fit's own error is that of the fit.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from cuspfa._utils.threads import one_blas_thread
from cuspfa.data.in_memory import GramMatrix
from cuspfa.data.protocols import CompleteSource
from cuspfa.inference.variational.error_grid import Start, starts_of, try_starts
from cuspfa.inference.variational.model_selection import score_candidates
from cuspfa.inference.variational.progress import SearchTimeout
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_over_k import explore, search_over_k
from cuspfa.inference.variational.search_settings import DEFAULT_SEARCH, SearchSettings
from cuspfa.inference.variational.settings import Variational
from cuspfa.inference.variational.tolerance import ToleratedError
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.error_curve import (
    TOLERABLE,
    TOLERATED,
    CurveGap,
    CurvePoint,
    ModelErrorCurve,
    surely_rises,
)

CURVE_SEARCH = replace(
    DEFAULT_SEARCH,
    more_draws=DEFAULT_SEARCH.draws,
    most_bridge_draws=2 * DEFAULT_SEARCH.bridge_draws,
)
"""Numbers that are close to each other are shown as tied: no more draws are made to tell them
apart, which would take most of the time."""


def model_error_curve(posterior: Posterior) -> ModelErrorCurve:
    """The curve of a posterior, or the reason why there is none."""
    gap = _gap(posterior)
    if gap is not None:
        return ModelErrorCurve((), gap)
    p = len(posterior.scale)
    with one_blas_thread(p * p):
        return _Curve(posterior).made()


def _gap(posterior: Posterior) -> CurveGap | None:
    if posterior.prior.spike is not None or _method(posterior).init == "random":
        return CurveGap.SPIKE
    if not _is_complete(posterior):
        return CurveGap.MISSING_VALUES if posterior.correlation_rows is None else None
    statistics, p = posterior.statistics, len(posterior.scale)
    if statistics is None:
        return CurveGap.NO_STATISTICS
    if len(statistics.rows) < p or statistics.n <= p:
        return CurveGap.FEW_ROWS
    return None


def _is_complete(posterior: Posterior) -> bool:
    return bool(np.all(posterior.column_counts >= posterior.n_rows))


def _cross_products(posterior: Posterior) -> GramMatrix:
    """The data by their cross-products, on the scale of the engine.

    With missing values, those of complete rows with the correlations of a normal distribution
    without factors, as many rows as have the same likelihood ratio.
    """
    if _is_complete(posterior):
        assert posterior.statistics is not None
        rows = posterior.statistics.rows
        return GramMatrix(rows.T @ rows, posterior.statistics.n)
    correlation, effective = posterior.sample_correlation, posterior.effective
    assert correlation is not None
    assert effective is not None
    sd = np.sqrt(np.diag(posterior.covariance)) / posterior.scale
    return GramMatrix(effective.discrepancy * sd[:, None] * sd * correlation, effective.discrepancy)


def _method(posterior: Posterior) -> Variational:
    """The settings of the fit; those by default where another engine made it."""
    provenance = posterior.provenance
    if provenance is None or provenance.settings.engine.name != Variational.name:
        return Variational()
    return Variational(**provenance.settings.engine.values)


class _Curve:
    """The points found so far, and where the next search begins."""

    def __init__(self, posterior: Posterior) -> None:
        self.source = CompleteSource(_cross_products(posterior))
        self.rows = None if _is_complete(posterior) else float(self.source.n)
        """Rows that incomplete data count as; None where nothing is missing."""
        self.posterior, self.method = posterior, _method(posterior)
        self.began = time.monotonic()
        self.points: list[CurvePoint] = []
        self.before: Search | None = None
        """The search of the last point; None if that is the fit's own."""
        self.starts: list[Start] = []

    def made(self) -> ModelErrorCurve:
        """All points, or those that there was time and data for."""
        own = _own_point(self.posterior)
        sizes = {*TOLERATED} if own is None else {*TOLERATED, own.model_error}
        try:
            for size in sorted(sizes):
                if size and self._tolerated(size).sample is None:
                    return ModelErrorCurve(tuple(self.points), CurveGap.FEW_ROWS, self.rows)
                if own is not None and size == own.model_error:
                    self._add_own(own)
                else:
                    self._add(size)
        except SearchTimeout:
            return ModelErrorCurve(tuple(self.points), CurveGap.OUT_OF_TIME, self.rows)
        return ModelErrorCurve(tuple(self.points), None, self.rows)

    def _tolerated(self, size: float) -> ToleratedError:
        return ToleratedError(self.source, size)

    def _add_own(self, own: CurvePoint) -> None:
        """The point of the fit, whose factors further searches begin at."""
        self.points.append(own)
        self.before = None
        if own.model_error == 0.0:  # the fit keeps few of the numbers of factors that it tried
            search = self._new_search(None, DEFAULT_SEARCH)
            explore(search)
            self.starts = starts_of(search)
        self.starts = [*_own_starts(self.posterior), *self.starts]

    def _add(self, size: float) -> None:
        tolerated = self._tolerated(size) if size else None
        # A fit with one of these errors is suggested, and should have the same number of factors.
        as_a_fit = size in (0.0, TOLERABLE)
        search = self._new_search(tolerated, DEFAULT_SEARCH if as_a_fit else CURVE_SEARCH)
        if size:
            try_starts(search, self.starts)
            search.candidates.prefer_nonempty = True
            score_candidates(search)
        else:
            search_over_k(search, score_candidates)
        point = _point(size, search)
        if self.before is not None and surely_rises(self.points[-1], point):
            self._mend(search)
        self.points.append(point)
        self.before, self.starts = search, starts_of(search)

    def _new_search(self, tolerated: ToleratedError | None, settings: SearchSettings) -> Search:
        return self.method.new_search(
            self.source, self.posterior.prior, tolerated, began=self.began, settings=settings
        )

    def _mend(self, after: Search) -> None:
        """Begin the last search again at the factors that the search after it has found."""
        assert self.before is not None
        try_starts(self.before, starts_of(after))
        score_candidates(self.before)
        self.points[-1] = _point(self.points[-1].model_error, self.before)


def _own_starts(posterior: Posterior) -> list[Start]:
    """Loadings and noise of a posterior and of its alternatives, on the scale of the engine."""
    every = (posterior, *getattr(posterior, "alternatives", ()))
    return [(one.loadings / one.scale[:, None], one.noise_variance / one.scale**2) for one in every]


def _own_point(posterior: Posterior) -> CurvePoint | None:
    """The point of the fit; None where it did not choose the number of factors by evidence."""
    fit_info, k = posterior.fit_info, posterior.n_active
    if fit_info is None or fit_info.method != Variational.name or posterior.number_given:
        return None
    own = next((one for one in fit_info.search if one.n_factors == k), None)
    if own is None or not fit_info.converged:
        return None
    tied = tuple(one.n_factors for one in fit_info.search if one.tied)
    if not _is_complete(posterior):  # that of other data, as far as the curve is concerned
        return CurvePoint(posterior.model_error, k, tied, math.nan, math.nan)
    return CurvePoint(posterior.model_error, k, tied, own.evidence, own.evidence_error)


def _point(size: float, search: Search) -> CurvePoint:
    candidates = search.candidates
    k = candidates.chosen.state.n_factors
    scored = candidates.evidence_by_k.get(k)
    value, error = (math.nan, math.nan) if scored is None else (scored.value, scored.error)
    return CurvePoint(size, k, tuple(candidates.tied), value, error)
