"""What should be known of a fit besides its result: one small value for each kind of warning.

They are made where the reason is found, in the data or in an engine. `fit_warning_text` turns them
into sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class EngineSettings:
    """An engine and those of its settings that differ from the defaults."""

    name: str
    """"variational" or "gibbs"."""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of the data."""

    index: int
    name: str | None = None
    """What the data call it; None if they have no names."""


def column(index: int, labels: list[Any] | None) -> Column:
    """A column with its label, unless that is its index again, as in data frames without names."""
    label = index if labels is None else labels[index]
    return Column(index, None if label == index else str(label))


class FitWarning:
    """Root of all kinds. Each is a frozen dataclass of plain values."""

    code: ClassVar[str]
    """The name of the kind, in files and in JSON."""
    not_converged: ClassVar[bool] = False
    """Did the fit end before it had converged?"""

    def to_dict(self) -> dict[str, Any]:
        """Code and fields, ready for `json.dumps`."""
        return {"code": self.code, **_plain(self)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


# --- the data ---


@dataclass(frozen=True)
class ReadingNote(FitWarning):
    """What a reader of files had to assume."""

    code = "reading_note"
    text: str


@dataclass(frozen=True)
class PossibleMissingCode(FitWarning):
    """A number far from all others, such as -99, that may stand for missing values."""

    code = "possible_missing_code"
    columns: tuple[str, ...]
    count: int
    """How often it occurs, in all of these columns together."""
    by_blocks: bool
    """Was the file read by blocks, so that the first rows alone were looked at?"""
    value: float | None = None
    """None in files and JSON, which hold no cell of the data."""


@dataclass(frozen=True)
class EmptyRows(FitWarning):
    """Rows without any value were dropped."""

    code = "empty_rows"
    n_dropped: int
    n_rows: int
    """Rows that are analysed."""


@dataclass(frozen=True)
class NearConstant(FitWarning):
    """Columns in which hardly a row differs from the others."""

    code = "near_constant"
    columns: tuple[Column, ...]
    n_differ: int
    """The most rows that differ in any of them."""
    n_rows: int


@dataclass(frozen=True)
class NeverCoObserved(FitWarning):
    """Pairs of columns of which no row has both."""

    code = "never_co_observed"
    n_pairs: int
    first: Column
    second: Column
    """One of the pairs."""


@dataclass(frozen=True)
class SingleValueRows(FitWarning):
    """Many rows have one observed value only."""

    code = "single_value_rows"
    n_single: int
    n_rows: int


@dataclass(frozen=True)
class LongFit(FitWarning):
    """A fit to incomplete data will take long."""

    code = "long_fit"
    n_columns: int
    n_patterns: int
    seconds_per_iteration: float
    seconds: float
    n_factors_given: bool


# --- the number of factors ---


@dataclass(frozen=True)
class InactiveFactors(FitWarning):
    """The number of factors was given, and the prior's spike took some of them."""

    code = "inactive_factors"
    n_factors: int
    n_active: int
    spike: float | None


@dataclass(frozen=True)
class EmptyFactors(FitWarning):
    """The number of factors was given, and some of them have no loadings."""

    code = "empty_factors"
    n_factors: int
    n_empty: int


@dataclass(frozen=True)
class AtLedermannBound(FitWarning):
    """Correlation is left over, but the columns cannot tell more factors apart."""

    code = "at_ledermann_bound"
    n_factors: int
    n_columns: int


@dataclass(frozen=True)
class FactorLimitReached(FitWarning):
    """As many factors were found as were looked for."""

    code = "factor_limit_reached"
    limit: int
    default_limit: int
    given: bool
    """Was the limit given?"""
    rise: float | None
    """Nats that each of the last factors added to the bound; None if unknown."""


@dataclass(frozen=True)
class EvidenceRising(FitWarning):
    """The evidence still rose with the number of factors where its computation ended."""

    code = "evidence_rising"
    rise: float
    """Nats that the last factor added."""


@dataclass(frozen=True)
class ColumnLimitReached(FitWarning):
    """A sampler used all the columns of loadings that it had."""

    code = "column_limit_reached"
    max_columns: int


# --- how it ended ---


@dataclass(frozen=True)
class IterationLimit(FitWarning):
    """The bound still grew at `max_iter`."""

    code = "iteration_limit"
    not_converged = True
    max_iter: int
    tol: float


@dataclass(frozen=True)
class OutOfTime(FitWarning):
    """A variational fit stopped at `max_time`."""

    code = "out_of_time"
    not_converged = True
    max_time: float
    n_factors_given: bool
    rise: float | None
    """As in `FactorLimitReached`."""


@dataclass(frozen=True)
class BoundDecreased(FitWarning):
    """The evidence lower bound fell by more than rounding error."""

    code = "bound_decreased"
    not_converged = True


@dataclass(frozen=True)
class SamplerOutOfTime(FitWarning):
    """Chains stopped at `max_time`."""

    code = "sampler_out_of_time"
    not_converged = True
    max_time: float | None


@dataclass(frozen=True)
class ChainsNotConverged(FitWarning):
    """An R-hat is too large, or unknown because there are too few draws."""

    code = "chains_not_converged"
    not_converged = True
    r_hat: float | None
    quantity: str | None
    """What has this R-hat."""
    n_draws: int
    thin: int


@dataclass(frozen=True)
class TooFewDraws(FitWarning):
    """Chains have converged, but their draws are worth few independent ones."""

    code = "too_few_draws"
    not_converged = True
    effective_size: float
    quantity: str
    """What has this effective size."""
    n_draws: int
    thin: int
