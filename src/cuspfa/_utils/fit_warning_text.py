"""Warnings of a fit in words: with advice in Python, or in options of the program."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from cuspfa._utils.fit_warning import (
    AtLedermannBound,
    BoundDecreased,
    ChainsNotConverged,
    Column,
    ColumnLimitReached,
    EmptyFactors,
    EmptyRows,
    EngineSettings,
    EvidenceRising,
    FactorLimitReached,
    FitWarning,
    InactiveFactors,
    IterationLimit,
    LongFit,
    NearConstant,
    NeverCoObserved,
    OutOfTime,
    PossibleMissingCode,
    ReadingNote,
    SamplerOutOfTime,
    SingleValueRows,
    TooFewDraws,
)

CLASSES = {"variational": "Variational", "gibbs": "Gibbs"}
"""Public names of the engines."""
MUCH = 20.0
"""Nats that each further factor adds where there is no small number of them."""
FEW_DRAWS, USUAL_DRAWS = 100, 500
"""Draws of a chain below which more of them are advised, and how many."""
HIGHEST_R_HAT = 100.0
SHOWN_COLUMNS, SHOWN_NAMES = 5, 4


DEFAULT = EngineSettings("variational")


def python_text(warning: FitWarning, engine: EngineSettings = DEFAULT) -> str:
    """One or more sentences, with advice to be typed in Python."""
    return _TEXTS[type(warning)](warning, _Python(engine))


def terminal_text(warning: FitWarning, engine: EngineSettings = DEFAULT) -> str:
    """One or more sentences, with advice to be typed as options of the program."""
    return _TEXTS[type(warning)](warning, _Program(engine))


def engine_code(engine: EngineSettings, **changed: Any) -> str:
    """The engine as Python code, with these settings changed and all others as they are."""
    values = {**engine.values, **changed}
    arguments = ", ".join(f"{name}={values[name]!r}" for name in sorted(values))
    return f"{CLASSES[engine.name]}({arguments})"


def rounded(value: float) -> str:
    """To two digits, without an exponent; NaN as it is."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):.{max(digits, 0)}f}"


# --- how settings are written, in Python and on the command line ---


class _Form(Protocol):
    def column(self, column: Column) -> str:
        """How a column is called."""

    def n_factors(self, number: int) -> str:
        """A given number of factors."""

    def limit(self, name: str, value: float) -> str:
        """`max_factors` or `max_time` with a value."""

    def change(self, name: str, value: float) -> str:
        """How a setting of the engine is changed."""

    free_number: str
    """How the number of factors is left to the fit."""
    cost_advice: tuple[str, str]
    """Against a long fit, with the number of factors to be found and given."""


class _Python:
    free_number = "n_factors='auto'"
    cost_advice = (
        "A given n_factors takes a tenth of it; method=Variational(callback=print) shows progress.",
        "method=Variational(callback=print) shows progress.",
    )

    def __init__(self, engine: EngineSettings) -> None:
        self.engine = engine

    def column(self, column: Column) -> str:
        if column.name is None:
            return f"column {column.index}"
        return f"column {column.name!r} (index {column.index})"

    def n_factors(self, number: int) -> str:
        return f"n_factors={number}"

    def limit(self, name: str, value: float) -> str:
        return f"{name}={value:g}"

    def change(self, name: str, value: float) -> str:
        return f"method={engine_code(self.engine, **{name: value})}"


class _Program:
    free_number = "no --factors"
    cost_advice = ("--factors takes a tenth of it.", "")

    def __init__(self, engine: EngineSettings) -> None:
        self.engine = engine

    def column(self, column: Column) -> str:
        name = f"number {column.index + 1}" if column.name is None else repr(column.name)
        return f"column {name}"

    def n_factors(self, number: int) -> str:
        return f"--factors {number}"

    def limit(self, name: str, value: float) -> str:
        return f"{_OPTIONS[name]} {value:g}"

    def change(self, name: str, value: float) -> str:
        if name in _OPTIONS:
            return f"{_OPTIONS[name]} {value:g}"
        return f"in Python, method={engine_code(self.engine, **{name: value})}"


_OPTIONS = {"max_factors": "--max-factors", "max_time": "--max-time"}
"""Settings of an engine that are options of the program."""


# --- the data ---


def _reading_note(warning: ReadingNote, form: _Form) -> str:
    return warning.text


def _possible_missing_code(warning: PossibleMissingCode, form: _Form) -> str:
    value = None if warning.value is None else f"{warning.value:g}"
    where = " in the first rows" if warning.by_blocks else ""
    advice = f"add: --missing {value or 'and the number'}"
    return (
        f"{value or 'A number'} occurs {warning.count} times{where}, far from all other values, "
        f"in {_listed(warning.columns, SHOWN_NAMES)}. If it stands for missing values, {advice}"
    )


def _empty_rows(warning: EmptyRows, form: _Form) -> str:
    one = warning.n_dropped == 1
    rows = "1 row has" if one else f"{warning.n_dropped} rows have"
    verb = "is" if one else "are"
    return f"{rows} no value at all and {verb} left out: {warning.n_rows} rows are analysed."


def _near_constant(warning: NearConstant, form: _Form) -> str:
    columns = tuple(form.column(one) for one in warning.columns)
    verb = "is" if len(columns) == 1 else "are"
    return (
        f"{_listed(columns, SHOWN_COLUMNS)} {verb} nearly constant: at most {warning.n_differ} of "
        f"{warning.n_rows} rows differ from the others. Such columns carry little information on "
        "common factors and may make a factor of their own. Drop them, or expect that."
    )


def _never_co_observed(warning: NeverCoObserved, form: _Form) -> str:
    pair = f"{form.column(warning.first)} and {form.column(warning.second)}"
    many = "a pair" if warning.n_pairs == 1 else f"{warning.n_pairs} pairs"
    return (
        f"There is no row with both of {many} of columns (such as {pair}). Their correlations are "
        "known from the prior and the other columns alone: their intervals may be wrong, and so "
        "may the number of factors. Analyse columns that were observed together."
    )


def _single_value_rows(warning: SingleValueRows, form: _Form) -> str:
    return (
        f"{warning.n_single} of {warning.n_rows} rows have one value only. They inform on means "
        "and variances, not on correlations, and with many of them fewer factors may be found. "
        "Compare with a fit without these rows."
    )


def _long_fit(warning: LongFit, form: _Form) -> str:
    return _joined(
        f"With missing values in {warning.n_columns} columns and {warning.n_patterns} different "
        f"patterns of them this fit takes about {warning.seconds_per_iteration:.1g} s an iteration "
        f"and {max(warning.seconds / 60, 1):.0f} minutes in all.",
        form.cost_advice[warning.n_factors_given],
    )


# --- the number of factors ---


def _inactive_factors(warning: InactiveFactors, form: _Form) -> str:
    return (
        f"{form.n_factors(warning.n_factors)} was asked for, but the prior's spike of "
        f"{warning.spike} leaves {warning.n_active} of them active. Use a narrower spike, or none: "
        "prior=CuspPrior(spike=None)."
    )


def _empty_factors(warning: EmptyFactors, form: _Form) -> str:
    has = "has" if warning.n_empty == 1 else "have"
    return (
        f"{form.n_factors(warning.n_factors)} was asked for, but {warning.n_empty} of them {has} "
        f"no loadings: the data support {warning.n_factors - warning.n_empty} of these. Ask for "
        f"fewer, or have the number found: {form.free_number}."
    )


def _at_ledermann_bound(warning: AtLedermannBound, form: _Form) -> str:
    k = warning.n_factors
    return (
        f"{k} factor(s) leave correlation unexplained, but no more than {k} can be told apart by "
        f"{warning.n_columns} columns (Ledermann's bound). To have more all the same, raise the "
        f"limit: {form.change('max_factors', k + 1)}."
    )


def _factor_limit_reached(warning: FactorLimitReached, form: _Form) -> str:
    most = warning.limit
    usual = "" if warning.given else " (the default)"
    more = ", or leave it out" if most < warning.default_limit else ""
    return _joined(
        f"As many factors were found as {form.limit('max_factors', most)}{usual} allows, and there "
        "may be more.",
        _rising(warning.rise),
        f"To look for more, raise it: {form.change('max_factors', 2 * most)}{more}. To keep this "
        f"number, give it: {form.n_factors(most)}.",
    )


def _evidence_rising(warning: EvidenceRising, form: _Form) -> str:
    return (
        f"The evidence still rose by about {rounded(warning.rise)} nats with the last factor, and "
        "was not computed for more: there may be more factors, or no small number of them. The "
        "weights of the numbers of factors do not take this into account."
    )


def _column_limit_reached(warning: ColumnLimitReached, form: _Form) -> str:
    most = warning.max_columns
    return (
        f"As many factors were found as max_columns={most} allows, and there may be more. Raise "
        f"max_columns: {form.change('max_columns', 2 * most)}, or leave it out."
    )


def _rising(rise: float | None) -> str:
    """What the bound says of more factors, if it rose by much."""
    if rise is None or not rise > MUCH:
        return ""
    return (
        f"The bound still rose by about {rounded(rise)} nats with each factor, as it does where "
        "there is no small number of factors: analyse logarithms of counts, differences of random "
        "walks, or fewer columns."
    )


# --- how it ended ---


def _iteration_limit(warning: IterationLimit, form: _Form) -> str:
    return (
        f"Not converged: the fit stopped at max_iter={warning.max_iter} iterations. To go on, "
        f"raise max_iter: {form.change('max_iter', 2 * warning.max_iter)}; or accept less "
        f"precision, by a tol above {warning.tol:g}."
    )


def _out_of_time(warning: OutOfTime, form: _Form) -> str:
    seconds = float(f"{10 * warning.max_time:.6g}")  # no 0.30000000000000004
    given = "" if warning.n_factors_given else "; or give the number of factors"
    return _joined(
        f"Out of time: the fit stopped at {form.limit('max_time', warning.max_time)} seconds, with "
        "the best of what was tried by then.",
        _rising(warning.rise),
        f"To go on, raise it: {form.change('max_time', seconds)}, or leave it out{given}.",
    )


def _bound_decreased(warning: BoundDecreased, form: _Form) -> str:
    return (
        "Stopped: the bound fell by more than rounding error, which a right computation cannot do. "
        "Rescale the data, and please report it."
    )


def _sampler_out_of_time(warning: SamplerOutOfTime, form: _Form) -> str:
    limit = "max_time" if warning.max_time is None else form.limit("max_time", warning.max_time)
    return (
        "Out of time: the posterior has the draws made by then. To make them all, raise "
        f"{limit} or leave it out."
    )


def _chains_not_converged(warning: ChainsNotConverged, form: _Form) -> str:
    if warning.r_hat is None:
        found = "Too few draws to tell whether the chains have converged."
    else:
        high = warning.r_hat > HIGHEST_R_HAT  # its digits mean nothing then
        size = f"above {HIGHEST_R_HAT:.0f}" if high else f"= {warning.r_hat:.2f}"
        found = f"R-hat {size} ({warning.quantity}): the chains have not converged."
    return f"{found} {_longer(warning, form)}"


def _too_few_draws(warning: TooFewDraws, form: _Form) -> str:
    return (
        f"Too few draws: they are worth {warning.effective_size:.0f} independent ones "
        f"({warning.quantity}). {_longer(warning, form)}"
    )


def _longer(warning: ChainsNotConverged | TooFewDraws, form: _Form) -> str:
    name, value = "thin", 4 * warning.thin
    if warning.n_draws < FEW_DRAWS:  # thinning alone does not make these enough
        name, value = "n_draws", USUAL_DRAWS
    return f"For longer chains, {name}={value}: {form.change(name, value)}."


def _listed(names: tuple[str, ...], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


_TEXTS: dict[type[FitWarning], Callable[[Any, _Form], str]] = {
    ReadingNote: _reading_note,
    PossibleMissingCode: _possible_missing_code,
    EmptyRows: _empty_rows,
    NearConstant: _near_constant,
    NeverCoObserved: _never_co_observed,
    SingleValueRows: _single_value_rows,
    LongFit: _long_fit,
    InactiveFactors: _inactive_factors,
    EmptyFactors: _empty_factors,
    AtLedermannBound: _at_ledermann_bound,
    FactorLimitReached: _factor_limit_reached,
    EvidenceRising: _evidence_rising,
    ColumnLimitReached: _column_limit_reached,
    IterationLimit: _iteration_limit,
    OutOfTime: _out_of_time,
    BoundDecreased: _bound_decreased,
    SamplerOutOfTime: _sampler_out_of_time,
    ChainsNotConverged: _chains_not_converged,
    TooFewDraws: _too_few_draws,
}
