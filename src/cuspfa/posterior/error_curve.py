"""The number of factors by tolerated model error: the curve that a posterior shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from cuspfa._utils.tables import Columns, TabularResult
from cuspfa.errors import InputError

if TYPE_CHECKING:
    from cuspfa.posterior.base import Posterior

TOLERABLE, MORE_TOLERABLE = 0.05, 0.07
"""RMSEA up to which a fit is often called close, and fair: the errors of the headline."""
TOLERATED = (0.0, 0.015, 0.025, 0.035, 0.05, 0.07, 0.1)
"""Model errors of the curve, in units of RMSEA."""


class CurvePoint(NamedTuple):
    """The number of factors with one tolerated error."""

    model_error: float
    """ε, a population RMSEA."""
    n_factors: int
    tied: tuple[int, ...]
    """Other numbers that another set of Monte Carlo draws might have chosen."""
    log_evidence: float
    """Log p(y, K | ε); NaN where it was not needed to choose the number, and of a fit to data with
    missing values, to whose evidence the others cannot be compared."""
    error: float
    """Its Monte Carlo standard error, or NaN."""


class CurveGap(Enum):
    """Why there is no curve, or not the whole of it."""

    NO_SEARCH = "no search"
    """The posterior is not that of a fit, but one of its alternatives."""
    NO_STATISTICS = "no statistics"
    """The cross-products of the data are not kept."""
    MISSING_VALUES = "missing values"
    """Values are missing, and there are too few for correlations without a model."""
    FEW_ROWS = "few rows"
    """Rows, less one for the means, are not more than columns, or effective rows from some error on
    are fewer."""
    SPIKE = "spike"
    """The prior has a finite spike, or starts were random: K is not chosen by evidence."""
    OUT_OF_TIME = "out of time"
    """`max_time` of the fit has passed for the curve, too."""
    SAMPLED = "sampled"
    """The posterior is that of a sampler, and the curve is that of the variational engine."""
    LIKELIHOOD = "likelihood"
    """Columns are ordinal, and the curve is for Gaussian ones."""


GAP_WORDS = {
    CurveGap.NO_SEARCH: "this posterior is one of the alternatives of a fit",
    CurveGap.NO_STATISTICS: "no statistics of the data are kept",
    CurveGap.MISSING_VALUES: "values are missing, and too few are there or columns depend on each "
    "other",
    CurveGap.FEW_ROWS: "the rows, less one for the means, are not more than the columns",
    CurveGap.SPIKE: "the number of factors was not chosen by the evidence",
    CurveGap.OUT_OF_TIME: "max_time has passed",
    CurveGap.SAMPLED: "they are computed for variational fits only",
    CurveGap.LIKELIHOOD: "they are computed for Gaussian columns only",
}
FEW_EFFECTIVE_ROWS = "with a larger error the rows count as fewer than the columns"


@dataclass(frozen=True)
class ModelErrorCurve(TabularResult):
    """The number of factors by tolerated model error, as computed.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> curve = CuspFactorAnalysis().fit(X).posterior_.model_error_curve
    >>> [point.n_factors for point in curve.points][:2]
    [2, 2]
    >>> list(curve.to_frame().columns)
    ['model_error', 'n_factors', 'tied', 'log_evidence', 'error']
    """

    points: tuple[CurvePoint, ...] = ()
    """In ascending order of the error."""
    gap: CurveGap | None = None
    """Why points are missing; None if there are none missing."""
    rows: float | None = None
    """Complete rows that data with missing values count as. The curve is then an approximation,
    from correlations without a factor model. None where nothing is missing."""

    def at(self, model_error: float) -> CurvePoint:
        """The point with this error; an InputError names those of the curve if it has none."""
        found = self.find(model_error)
        if found is not None:
            return found
        known = ", ".join(f"{one.model_error:g}" for one in self.points)
        reason = "" if self.gap is None else f", because {self.gap_words}"
        if not known:
            raise InputError(f"model_error: the curve has no points{reason}.")
        ends = f" The curve ends at {self.points[-1].model_error:g}{reason}." if reason else ""
        raise InputError(
            f"model_error must be on the curve: {known}. Got {model_error!r} instead.{ends}"
        )

    def find(self, model_error: float) -> CurvePoint | None:
        """The point with this error; None if it is not on the curve."""
        return next((one for one in self.points if one.model_error == model_error), None)

    @property
    def gap_words(self) -> str:
        """Why points are missing, as the end of a sentence; empty if there are none missing."""
        if self.gap is CurveGap.FEW_ROWS and self.points:
            return FEW_EFFECTIVE_ROWS
        return "" if self.gap is None else GAP_WORDS[self.gap]

    @property
    def rises(self) -> tuple[tuple[CurvePoint, CurvePoint], ...]:
        """Neighbours of which the second has surely more factors: a search missed a solution.

        The more error is tolerated, the fewer factors can be told from it.
        """
        pairs = zip(self.points, self.points[1:], strict=False)
        return tuple((one, two) for one, two in pairs if surely_rises(one, two))

    def columns(self) -> Columns:
        """The table by column; tied numbers are a text."""
        columns = {name: [getattr(one, name) for one in self.points] for name in CurvePoint._fields}
        return columns | {"tied": [", ".join(map(str, one.tied)) for one in self.points]}

    def _columns(self) -> Columns:
        return self.columns()


def surely_rises(one: CurvePoint, two: CurvePoint) -> bool:
    """Has the second point more factors than the first, and than all that are tied with it?"""
    return min(two.n_factors, *two.tied, two.n_factors) > max(one.n_factors, *one.tied, 0)


CurveMaker = Callable[["Posterior"], ModelErrorCurve]
"""Makes the curve of a posterior; an engine gives it, as a function of a module."""
