"""Warnings of a fit as values: one small class for each kind, with its fields and its words.

They are made where the reason is found, in the data or in an engine, and become text where they
are shown. `fit_warning_text` has the two forms of their advice, in Python and for the program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cuspfa._utils.fit_warning_text import HIGHEST_R_HAT, Form, rounded
from cuspfa._utils.wording import counted, listed

if TYPE_CHECKING:
    from cuspfa.data.tables.notes import DroppedColumn, Note

MUCH = 20.0
"""A rise of the bound by each further factor, in nats, that suggests no small number of them."""
FEW_DRAWS, USUAL_DRAWS = 100, 500
"""Draws of a chain below which more of them are advised, and how many."""
SHOWN_COLUMNS, SHOWN_NAMES = 5, 4
NoMarginal = Literal["missing", "rows", "size"]
"""Why the density of data whose model has an error is not used: values are missing; the rows, by
the information that they have, are fewer than the columns; or cross-products are too large to be
kept."""


@dataclass(frozen=True)
class ColumnRef:
    """A column of the data."""

    index: int
    name: str | None = None
    """Its name in the data; None if they have no names."""


def column(index: int, labels: list[Any] | None) -> ColumnRef:
    """A column with its label, unless the label is its index, as in data frames without names."""
    label = index if labels is None else labels[index]
    return ColumnRef(index, None if label == index else str(label))


class FitWarning(ABC):
    """Base of all kinds of warnings. Each is a frozen dataclass of plain values."""

    code: ClassVar[str]
    """The name of the kind, in files and in JSON."""
    not_converged: ClassVar[bool] = False
    """Did the fit end before convergence?"""
    kept: ClassVar[bool] = True
    """Does the posterior keep it?"""

    @abstractmethod
    def message(self, form: Form) -> str:
        """One or more sentences, with advice in this form."""

    def to_dict(self) -> dict[str, Any]:
        """Code and fields, ready for `json.dumps`."""
        return {"code": self.code, **_plain_value(self)}


def _plain_value(value: Any) -> Any:
    if is_dataclass(value):
        kept = (one.name for one in fields(value) if one.metadata.get("in_files", True))
        return {name: _plain_value(getattr(value, name)) for name in kept}
    return [_plain_value(one) for one in value] if isinstance(value, tuple) else value


# --- sentences that several kinds share ---


def _rising_bound(rise: float | None) -> str:
    """A sentence on the rise of the bound with more factors, if it was large."""
    if rise is None or not rise > MUCH:
        return ""
    return (
        f"The bound still rose by about {rounded(rise)} nats with each factor, as it does where "
        "there is no small number of factors: analyse logarithms of counts, differences of random "
        "walks, or fewer columns."
    )


def _longer_chains(n_draws: int, thin: int, form: Form) -> str:
    name, value = "thin", 4 * thin
    if n_draws < FEW_DRAWS:  # more thinning would not be enough
        name, value = "n_draws", USUAL_DRAWS
    return f"For longer chains, {name}={value}: {form.change(name, value)}."


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


# --- the data ---


@dataclass(frozen=True)
class ReadingNote(FitWarning):
    """Something that a reader of files assumed and that may be wrong."""

    code = "reading_note"
    note: Note

    def message(self, form: Form) -> str:
        return self.note.message(form.spell)


@dataclass(frozen=True)
class ColumnsDropped(FitWarning):
    """Columns of a file that are not analysed, without examples of their cells."""

    code = "columns_dropped"
    columns: tuple[DroppedColumn, ...]

    def message(self, form: Form) -> str:
        first = self.columns[:SHOWN_COLUMNS]
        shown = "; ".join(f"{one.name!r}: {one.message(form.spell)}" for one in first)
        left = len(self.columns) - SHOWN_COLUMNS
        more = f"; and {left} more" if left > 0 else ""
        return f"Dropped {counted(len(self.columns), 'column')} ({shown}{more})."


@dataclass(frozen=True)
class PossibleMissingCode(FitWarning):
    """A number far from all others, such as -99, that may stand for missing values."""

    code = "possible_missing_code"
    columns: tuple[str, ...]
    count: int
    """How often it occurs in all these columns together."""
    by_blocks: bool
    """Was the file read by blocks, so that only its first rows were checked?"""
    value: float | None = None
    """None in files and JSON, which contain no cell of the data."""

    def message(self, form: Form) -> str:
        value = None if self.value is None else f"{self.value:g}"
        where = " in the first rows" if self.by_blocks else ""
        known = form.spell("missing", None if value is None else (value,))
        advice = known if value else f"{known} and the number"
        return (
            f"{value or 'A number'} occurs {self.count} times{where}, far from all other values, "
            f"in {listed(self.columns, SHOWN_NAMES)}. If it stands for missing values, add: "
            f"{advice}"
        )


@dataclass(frozen=True)
class EmptyRows(FitWarning):
    """Rows without any value were dropped."""

    code = "empty_rows"
    n_dropped: int
    n_rows: int
    """Rows that are analysed."""

    def message(self, form: Form) -> str:
        one = self.n_dropped == 1
        rows = "1 row has" if one else f"{self.n_dropped} rows have"
        verb = "is" if one else "are"
        return f"{rows} no value at all and {verb} left out: {self.n_rows} rows are analysed."


@dataclass(frozen=True)
class NearConstant(FitWarning):
    """Columns in which very few rows differ from the others."""

    code = "near_constant"
    columns: tuple[ColumnRef, ...]
    n_differ: int
    """The largest number of rows that differ in one of them."""
    n_rows: int

    def message(self, form: Form) -> str:
        columns = tuple(form.column(one) for one in self.columns)
        verb = "is" if len(columns) == 1 else "are"
        return (
            f"{listed(columns, SHOWN_COLUMNS)} {verb} nearly constant: at most {self.n_differ} of "
            f"{self.n_rows} rows differ from the others. Such columns carry little information on "
            "common factors and may make a factor of their own. Drop them, or expect that."
        )


@dataclass(frozen=True)
class DependentColumns(FitWarning):
    """Columns of which one is a sum, a difference or a copy of the others."""

    code = "dependent_columns"
    columns: tuple[ColumnRef, ...]
    """The first set of them."""
    n_extra: int
    """Columns that are determined by others."""
    n_columns: int

    def message(self, form: Form) -> str:
        shown = listed([form.column(one) for one in self.columns], SHOWN_COLUMNS)
        more = (
            f" In all, {self.n_extra} of the {self.n_columns} columns are determined by others."
            if self.n_extra > 1
            else ""
        )
        return (
            f"{shown} are linearly dependent: one is a sum, a difference or a copy of the others, "
            f"up to units and signs, and makes a factor by itself. Leave it out.{more}"
        )


@dataclass(frozen=True)
class DeterminedColumns(FitWarning):
    """Columns of answers that follow from another column, such as copies of it."""

    code = "determined_columns"
    pairs: tuple[tuple[ColumnRef, ColumnRef], ...]
    """Each such column, and the one that it follows from."""

    def message(self, form: Form) -> str:
        shown = listed(
            [f"{form.column(one)} from {form.column(other)}" for one, other in self.pairs],
            SHOWN_COLUMNS,
        )
        return (
            "The answers in some columns follow from those in another, as in a copy: "
            f"{shown}. Such columns make a factor by themselves, and the number of factors is "
            "uncertain. Leave them out."
        )


@dataclass(frozen=True)
class NeverCoObserved(FitWarning):
    """Pairs of columns that are never observed in the same row."""

    code = "never_co_observed"
    n_pairs: int
    first: ColumnRef
    second: ColumnRef
    """One of the pairs."""

    def message(self, form: Form) -> str:
        pair = f"{form.column(self.first)} and {form.column(self.second)}"
        many = "a pair" if self.n_pairs == 1 else f"{self.n_pairs} pairs"
        return (
            f"There is no row with both of {many} of columns (such as {pair}). Their correlations "
            "are known from the prior and the other columns alone: their intervals may be wrong, "
            "and so may the number of factors. Analyse columns that were observed together."
        )


@dataclass(frozen=True)
class SingleValueRows(FitWarning):
    """Many rows have one observed value only."""

    code = "single_value_rows"
    n_single: int
    n_rows: int

    def message(self, form: Form) -> str:
        return (
            f"{self.n_single} of {self.n_rows} rows have one value only. They inform on means "
            "and variances, not on correlations, and with many of them fewer factors may be found. "
            "Compare with a fit without these rows."
        )


@dataclass(frozen=True)
class LongFit(FitWarning):
    """A fit to incomplete data will take long; announced before it begins."""

    code = "long_fit"
    kept = False
    n_columns: int
    n_patterns: int
    seconds_per_iteration: float
    seconds: float
    n_factors_given: bool

    def message(self, form: Form) -> str:
        return _joined(
            f"With missing values in {self.n_columns} columns and {self.n_patterns} different "
            f"patterns of them this fit takes about {self.seconds_per_iteration:.1g} s an "
            f"iteration and {max(self.seconds / 60, 1):.0f} minutes in all.",
            form.cost_advice[self.n_factors_given],
        )


@dataclass(frozen=True)
class FewRowsForWeights(FitWarning):
    """A robust fit to few rows for so many columns."""

    code = "few_rows_for_weights"
    n_rows: int
    n_columns: int

    def message(self, form: Form) -> str:
        return (
            f"{self.n_rows} rows are few for the weights of rows of {self.n_columns} columns: "
            "outlying rows may not be recognised. Choose fewer columns, or look for outlying rows "
            f"by {form.outlier_check}."
        )


@dataclass(frozen=True)
class WeightsNotConverged(FitWarning):
    """The weights of the rows of a robust fit still changed at the last iteration."""

    code = "weights_not_converged"
    not_converged = True
    n_iter: int

    def message(self, form: Form) -> str:
        return (
            f"The weights of rows have not converged after {self.n_iter} iterations. Are some "
            "columns nearly the same, or most rows?"
        )


# --- the number of factors ---


@dataclass(frozen=True)
class InactiveFactors(FitWarning):
    """The number of factors was given, and the prior's spike made some of them inactive."""

    code = "inactive_factors"
    n_factors: int
    n_active: int
    spike: float | None

    def message(self, form: Form) -> str:
        return (
            f"{form.n_factors(self.n_factors)} was asked for, but the prior's spike of "
            f"{self.spike} leaves {self.n_active} of them active. Use a narrower spike, or none: "
            "prior=CuspPrior(spike=None)."
        )


@dataclass(frozen=True)
class EmptyFactors(FitWarning):
    """The number of factors was given, and some of them have no loadings."""

    code = "empty_factors"
    n_factors: int
    n_empty: int

    def message(self, form: Form) -> str:
        has = "has" if self.n_empty == 1 else "have"
        return (
            f"{form.n_factors(self.n_factors)} was asked for, but {self.n_empty} of them {has} "
            f"no loadings: the data support {self.n_factors - self.n_empty} of these. Ask for "
            f"fewer, or have the number found: {form.free_number}."
        )


@dataclass(frozen=True)
class AtLedermannBound(FitWarning):
    """Correlation is left, but more factors are not identified by so many columns."""

    code = "at_ledermann_bound"
    n_factors: int
    n_columns: int

    def message(self, form: Form) -> str:
        k = self.n_factors
        leave = "leaves" if k == 1 else "leave"
        return (
            f"{counted(k, 'factor')} {leave} correlation unexplained, but no more than {k} can be "
            f"told apart by {self.n_columns} columns (Ledermann's bound). To have more all the "
            f"same, raise the limit: {form.change('max_factors', k + 1)}."
        )


@dataclass(frozen=True)
class FactorLimitReached(FitWarning):
    """As many factors were found as the limit of the search allows."""

    code = "factor_limit_reached"
    limit: int
    default_limit: int
    given: bool
    """Was the limit given?"""
    rise: float | None
    """Nats that each of the last factors added to the bound; None if unknown."""

    def message(self, form: Form) -> str:
        most = self.limit
        usual = "" if self.given else " (the default)"
        more = ", or leave it out" if most < self.default_limit else ""
        return _joined(
            f"As many factors were found as {form.limit('max_factors', most)}{usual} allows, and "
            "there may be more.",
            _rising_bound(self.rise),
            f"To look for more, raise it: {form.change('max_factors', 2 * most)}{more}. To keep "
            f"this number, give it: {form.n_factors(most)}.",
        )


@dataclass(frozen=True)
class EvidenceRising(FitWarning):
    """The evidence still rose with the number of factors where its computation ended."""

    code = "evidence_rising"
    rise: float
    """Nats that the last factor added."""

    def message(self, form: Form) -> str:
        return (
            f"The evidence still rose by about {rounded(self.rise)} nats with the last factor, and "
            "was not computed for more: there may be more factors, or no small number of them. The "
            "weights of the numbers of factors do not take this into account."
        )


def _tried(n_factors: int) -> str:
    """How many factors were the most."""
    if not n_factors:
        return "No factors were tried"
    return f"More than {counted(n_factors, 'factor')} were not tried"


@dataclass(frozen=True)
class FewRowsForFactors(FitWarning):
    """More factors were not tried for columns not all Gaussian, as the rows are too few."""

    code = "few_rows_for_factors"
    n_factors: int
    """The most that were tried."""
    n_rows: int

    def message(self, form: Form) -> str:
        return (
            f"{_tried(self.n_factors)}: {self.n_rows} rows are "
            "too few for this many columns and categories, as their evidence would not be right. "
            f"Join categories that few rows have, use {form.spell('likelihood', 'gaussian')}, or "
            f"give the number: {form.n_factors(self.n_factors + 1)}."
        )


@dataclass(frozen=True)
class FewRowsForCounts(FitWarning):
    """More factors of log rates were not tried, as the rows are too few."""

    code = "few_rows_for_counts"
    n_factors: int
    """The most that were tried."""
    n_rows: int

    def message(self, form: Form) -> str:
        return (
            f"{_tried(self.n_factors)}: {self.n_rows} rows are "
            "too few for this many columns, as their evidence would not be right. Leave out "
            "columns with counts above zero in few rows, or give the number: "
            f"{form.n_factors(self.n_factors + 1)}."
        )


@dataclass(frozen=True)
class ColumnLimitReached(FitWarning):
    """A sampler used all its columns of loadings."""

    code = "column_limit_reached"
    max_columns: int

    def message(self, form: Form) -> str:
        most = self.max_columns
        return (
            f"As many factors were found as max_columns={most} allows, and there may be more. "
            f"Raise max_columns: {form.change('max_columns', 2 * most)}, or leave it out."
        )


# --- the error of the model ---


@dataclass(frozen=True)
class ModelErrorNotLearned(FitWarning):
    """The error of the model was to be learned, and is 0 as these data do not allow that."""

    code = "model_error_not_learned"
    reason: NoMarginal
    n_rows: int
    n_columns: int

    def message(self, form: Form) -> str:
        known: dict[NoMarginal, str] = {
            "missing": "with missing values",
            "rows": f"from {self.n_rows} rows of {self.n_columns} columns",
            "size": f"from {self.n_columns} columns, whose covariances are too large to keep",
        }
        return (
            f"The model error cannot be learned {known[self.reason]}: "
            f"{form.model_error('auto')} means 0 here. A number, such as {form.model_error(0.05)}, "
            "reduces what the rows count."
        )


@dataclass(frozen=True)
class TemperedLikelihood(FitWarning):
    """A model error was given, and all that was done about it is that rows count less."""

    code = "tempered_likelihood"
    model_error: float
    reason: NoMarginal
    effective_rows: int
    n_columns: int
    has_population: bool
    """Is the population covariance known?"""

    def message(self, form: Form) -> str:
        known: dict[NoMarginal, str] = {
            "missing": "With missing values",
            "rows": f"With {self.n_columns} columns",
            "size": f"With {self.n_columns} columns, whose covariances are too large to keep,",
        }
        told = (
            f"{known[self.reason]} {form.model_error(self.model_error)} only makes the rows count "
            f"as {self.effective_rows}: evidence and weights of the numbers of factors are those "
            "of a likelihood to a power."
        )
        if self.has_population:
            return told
        return (
            f"{told} Covariances, their intervals, densities and imputed values are those of "
            "the factor model, not of a population that differs from it."
        )


# --- what the result shows ---


@dataclass(frozen=True)
class FewRows(FitWarning):
    """Rows are too few for the number of factors."""

    code = "few_rows"
    kept = False
    n_rows: int
    n_factors: int

    def message(self, form: Form) -> str:
        k = self.n_factors
        for_them = counted(k, "factor") if k else "any factors"
        return f"{self.n_rows} rows are few for {for_them}: the number of factors is not reliable."


@dataclass(frozen=True)
class HeywoodCases(FitWarning):
    """Nearly all variance of some columns is explained."""

    code = "heywood_cases"
    kept = False
    columns: tuple[str, ...]

    def message(self, form: Form) -> str:
        return (
            f"Nearly all variance of {listed(self.columns, SHOWN_NAMES)} is explained (Heywood "
            "case): a variable that another one repeats, or a factor of a single variable."
        )


@dataclass(frozen=True)
class SkewedItems(FitWarning):
    """Several items with few points are strongly skewed."""

    code = "skewed_items"
    kept = False
    columns: tuple[str, ...]
    n_columns: int
    """All columns."""

    def message(self, form: Form) -> str:
        return (
            f"{len(self.columns)} of {self.n_columns} columns are items that are strongly skewed "
            f"({listed(self.columns, SHOWN_NAMES)}). Items that are skewed alike can make a factor "
            f"of their own. Compare with {form.spell('likelihood', 'ordinal')}, or with a fit "
            "without them."
        )


@dataclass(frozen=True)
class RareCategories(FitWarning):
    """Categories of ordinal columns that few rows have, or none."""

    code = "rare_categories"
    kept = False
    rare: tuple[str, ...]
    """Column and category of each, such as "Q1: 6"."""
    empty: tuple[str, ...]
    fewest: int
    """Rows below which a category is called rare."""

    def message(self, form: Form) -> str:
        parts = []
        if self.rare:
            parts.append(
                f"Fewer than {self.fewest} rows have {listed(self.rare, SHOWN_NAMES)}: such "
                "categories have little information, and their thresholds are uncertain. To join "
                "one with its neighbour, give both the same number."
            )
        if self.empty:
            parts.append(
                f"No row has {listed(self.empty, SHOWN_NAMES)}: such a category is no part of the "
                "model, and a new row with it is an error."
            )
        return " ".join(parts)


@dataclass(frozen=True)
class CorrelationsUnexplained(FitWarning):
    """Data sets simulated from the model are hardly ever as far from it as the data."""

    code = "correlations_unexplained"
    kept = False
    predictive_p: float

    def message(self, form: Form) -> str:
        return (
            "The model leaves correlations unexplained: fewer than 1 in 100 data sets simulated "
            "from it are as far from it as these data. Outliers, skewed items or too few factors "
            f"may be the reason; {form.outlier_check} looks for them."
        )


@dataclass(frozen=True)
class LowKmo(FitWarning):
    """The columns have little in common."""

    code = "low_kmo"
    kept = False
    kmo: float

    def message(self, form: Form) -> str:
        return (
            f"KMO is {self.kmo:.2f}: few correlations are shared by more than two variables, so "
            "that these columns hardly suit a factor analysis."
        )


@dataclass(frozen=True)
class UncertainAxes(FitWarning):
    """Draws disagree on where the axes of a rotation are."""

    code = "uncertain_axes"
    kept = False
    rotation: str
    agreement: float

    def message(self, form: Form) -> str:
        return (
            f"The rotation is not well determined ({self.rotation}, agreement of draws "
            f"{self.agreement:.2f}): intervals of loadings are wide, or cover two modes. "
            "Communalities, correlations and the number of factors do not depend on it."
        )


# --- how it ended ---


@dataclass(frozen=True)
class IterationLimit(FitWarning):
    """The bound still grew at `max_iter`."""

    code = "iteration_limit"
    not_converged = True
    max_iter: int
    tol: float

    def message(self, form: Form) -> str:
        return (
            f"Not converged: the fit stopped at max_iter={self.max_iter} iterations. To go on, "
            f"raise max_iter: {form.change('max_iter', 2 * self.max_iter)}; or accept less "
            f"precision, by a tol above {self.tol:g}."
        )


@dataclass(frozen=True)
class CountsNotConverged(FitWarning):
    """The bound of a Poisson factorization still grew at `max_iter`."""

    code = "counts_not_converged"
    not_converged = True
    kept = False
    max_iter: int
    tol: float

    def message(self, form: Form) -> str:
        return (
            f"Not converged: the fit stopped at max_iter={self.max_iter} iterations. To go on, "
            f"raise max_iter of CuspPoissonFactorization, or its tol above {self.tol:g}."
        )


@dataclass(frozen=True)
class ModeNotFound(FitWarning):
    """Steps to the mode of a posterior over single cells ended before it."""

    code = "mode_not_found"
    not_converged = True
    numbers: tuple[int, ...]
    """Of factors."""

    def message(self, form: Form) -> str:
        numbers = ", ".join(map(str, self.numbers))
        return (
            f"Not converged: the mode of the posterior was not found for K = {numbers} factors, "
            "and the number of factors may be wrong. Drop columns that are not what the "
            "likelihood says, such as identifiers or coordinates as counts, and copies of others."
        )


@dataclass(frozen=True)
class VariationalOutOfTime(FitWarning):
    """A variational fit stopped at `max_time`."""

    code = "out_of_time"
    not_converged = True
    max_time: float
    n_factors_given: bool
    rise: float | None
    """As in `FactorLimitReached`."""

    def message(self, form: Form) -> str:
        seconds = float(f"{10 * self.max_time:.6g}")  # 3, not 3.0000000000000004
        given = "" if self.n_factors_given else "; or give the number of factors"
        return _joined(
            f"Out of time: the fit stopped at {form.limit('max_time', self.max_time)} seconds, "
            "with the best of what was tried by then.",
            _rising_bound(self.rise),
            f"To go on, raise it: {form.change('max_time', seconds)}, or leave it out{given}.",
        )


@dataclass(frozen=True)
class BoundDecreased(FitWarning):
    """The evidence lower bound fell by more than rounding error."""

    code = "bound_decreased"
    not_converged = True

    def message(self, form: Form) -> str:
        return (
            "Stopped: the bound fell by more than rounding error, which a right computation "
            "cannot do. Rescale the data, and please report it."
        )


@dataclass(frozen=True)
class SamplerOutOfTime(FitWarning):
    """Chains stopped at `max_time`."""

    code = "sampler_out_of_time"
    not_converged = True
    max_time: float | None

    def message(self, form: Form) -> str:
        limit = "max_time" if self.max_time is None else form.limit("max_time", self.max_time)
        return (
            "Out of time: the posterior has the draws made by then. To make them all, raise "
            f"{limit} or leave it out."
        )


@dataclass(frozen=True)
class ChainsNotConverged(FitWarning):
    """An R-hat is too large, or unknown as there are too few draws."""

    code = "chains_not_converged"
    not_converged = True
    r_hat: float | None
    quantity: str | None
    """The quantity with this R-hat."""
    n_draws: int
    thin: int

    def message(self, form: Form) -> str:
        if self.r_hat is None:
            found = "Too few draws to tell whether the chains have converged."
        else:
            high = self.r_hat > HIGHEST_R_HAT  # so large an R-hat has no meaningful digits
            size = f"above {HIGHEST_R_HAT:.0f}" if high else f"= {self.r_hat:.2f}"
            found = f"R-hat {size} ({self.quantity}): the chains have not converged."
        return f"{found} {_longer_chains(self.n_draws, self.thin, form)}"


@dataclass(frozen=True)
class TooFewDraws(FitWarning):
    """Chains have converged, but the effective sample size is small."""

    code = "too_few_draws"
    not_converged = True
    effective_size: float
    quantity: str
    """The quantity with this effective size."""
    n_draws: int
    thin: int

    def message(self, form: Form) -> str:
        return (
            f"Too few draws: they are worth {self.effective_size:.0f} independent ones "
            f"({self.quantity}). {_longer_chains(self.n_draws, self.thin, form)}"
        )
