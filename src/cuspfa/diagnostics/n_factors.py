"""The number of factors by the evidence, other rules, held-out rows and halves of the data."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from sklearn.base import clone

from cuspfa._typing import Array, RandomState
from cuspfa._utils.arguments import generator, is_whole, must_be, one_of, whole
from cuspfa._utils.tables import Columns, data_frame, html_table
from cuspfa.data.validate import check_table
from cuspfa.diagnostics.fit_measures import WIDEST_BY_FACTORS
from cuspfa.diagnostics.resampling import (
    HeldOut,
    choose,
    held_out_by_number,
    random_parts,
    replicate_in_halves,
)
from cuspfa.diagnostics.retention import ALIKE_CONGRUENCE, parallel_analysis
from cuspfa.errors import DataError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.inference.engine import engine_of
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.error_curve import MORE_TOLERABLE, TOLERABLE, ModelErrorCurve
from cuspfa.reporting.headline import PAGE_WIDTH, LargeShare, curve_lines
from cuspfa.reporting.summary import Summary, size_text

Tables = Literal["numbers", "factors", "rules", "model_error"]
MIN_ROWS_TO_DIVIDE = 10
"""Fewest rows: with fewer the number of factors is unreliable, in half of them still more."""
FURTHER_NUMBERS = 3
"""Numbers of factors above that of the model which are tried on held-out rows."""


class Replication(NamedTuple):
    """One factor of the whole fit: its strength, and its congruence between halves of the rows."""

    share: float
    """Share of the variables' variance."""
    lower: float
    upper: float
    """95 % interval of the share."""
    congruence: float
    """Tucker's congruence between two random halves, mean over the splits."""
    lowest: float
    highest: float
    """Its range over the splits."""
    chance: float
    """The mean congruence after the variables of one half were permuted: by rotation alone."""


@dataclass(frozen=True)
class FactorSelection:
    """The number of factors by several rules; `print` it, or read its fields.

    Attributes
    ----------
    headline : str
        K, and the number that remains if the model may be a little wrong.
    n_rows, n_columns : int
        Size of the data.
    n_factors : int
        K of the model fitted to all rows.
    n_large : int
        How many of them explain more than `large_share.value` of the variance.
    factors : tuple of Replication
        By factor, strongest first: share, its interval, congruence of halves.
    weights : dict
        Evidence weight by number of factors, where it was computed. Not a probability.
    parallel_factors, parallel_components : int or None
        Horn's parallel analysis; None where there are too few rows or too many columns.
    minimum_average_partial : int or None
        Velicer's rule; None as above.
    held_out : tuple of HeldOut
        By number of factors.
    best_held_out : int
        The number with the highest held-out log-likelihood (the smallest, if several have it), of
        those whose factors all have loadings.
    one_standard_error : int
        The smallest number that is behind the best by no more than one standard error.
    n_replicated : int
        Factors whose mean congruence exceeds 0.85.
    n_unconverged : int
        Fits to parts of the rows that stopped before they had converged.
    remark : str
        Why K and not a larger number that has more weight; empty if there is none.
    large_share : LargeShare
        The share of the variance above which a factor is called large, and the rule.
    curve : ModelErrorCurve
        The number of factors by tolerated model error, from all rows.
    """

    headline: str
    n_rows: int
    n_columns: int
    n_factors: int
    n_large: int
    factors: tuple[Replication, ...]
    weights: dict[int, float]
    parallel_factors: int | None
    parallel_components: int | None
    minimum_average_partial: int | None
    held_out: tuple[HeldOut, ...]
    best_held_out: int
    one_standard_error: int
    n_replicated: int
    n_unconverged: int
    remark: str
    large_share: LargeShare
    curve: ModelErrorCurve

    def __str__(self) -> str:
        lines = textwrap.wrap(self.headline, PAGE_WIDTH)
        lines += textwrap.wrap(self.remark, PAGE_WIDTH, subsequent_indent="  ")
        lines += [size_text(self.n_rows, self.n_columns), ""]
        lines += [*curve_lines(self.curve), ""]
        if self.factors:
            lines += [*_replication_lines(self.factors), ""]
        lines += [*_number_lines(self.held_out, self.weights), ""]
        lines += [f"{what:<46}{count:4d}" for what, count in self.rules()]
        if self.n_unconverged:
            lines += ["", f"{self.n_unconverged} fits to parts of the rows did not converge"]
        return "\n".join(line.rstrip() for line in lines)

    def rules(self) -> list[tuple[str, int]]:
        """The number of factors by each rule that has one, with the name of the rule."""
        tolerated = [
            one for one in map(self.curve.find, (TOLERABLE, MORE_TOLERABLE)) if one is not None
        ]
        answers = [
            ("evidence", self.n_factors),
            *(
                (f"evidence, model off by RMSEA {one.model_error:g}", one.n_factors)
                for one in tolerated
            ),
            (f"more than {self.large_share.short} of the variance each", self.n_large),
            ("parallel analysis, factors", self.parallel_factors),
            ("parallel analysis, components", self.parallel_components),
            ("Velicer's minimum average partial", self.minimum_average_partial),
            ("held-out likelihood, the best", self.best_held_out),
            ("held-out likelihood, within a standard error", self.one_standard_error),
            (f"congruence of halves above {ALIKE_CONGRUENCE}", self.n_replicated),
        ]
        return [(what, count) for what, count in answers if count is not None]

    def to_frame(self, what: Tables = "numbers") -> Any:
        """One of its tables as a data frame of pandas or, without it, polars.

        Parameters
        ----------
        what : {"numbers", "factors", "rules", "model_error"}, default="numbers"
            Evidence weights and held-out likelihoods by number of factors; shares and congruences
            by factor; the number of factors by each rule; or by tolerated model error.
        """
        one_of("what", what, get_args(Tables))
        return data_frame(self._tables()[what])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        tables = self._tables()
        captions = {"rules": self.headline, "numbers": "By number of factors"}
        if self.factors:
            captions["factors"] = "By factor"
        if self.curve.points:
            captions["model_error"] = "By tolerated model error"
        return "".join(html_table(tables[name], text) for name, text in captions.items())

    def _tables(self) -> dict[str, Columns]:
        tried = {one.n_factors: one for one in self.held_out}
        numbers = sorted({*tried, *self.weights})
        held_out = {
            name: [getattr(tried[k], name) if k in tried else math.nan for k in numbers]
            for name in HeldOut._fields[1:]
        }
        answers = self.rules()
        by_factor = {
            name: [getattr(one, name) for one in self.factors] for name in Replication._fields
        }
        return {
            "numbers": {
                "n_factors": numbers,
                "weight": [self.weights.get(k, math.nan) for k in numbers],
                **held_out,
            },
            "factors": {"factor": list(range(1, len(self.factors) + 1)), **by_factor},
            "rules": {"rule": [what for what, _ in answers], "n_factors": [k for _, k in answers]},
            "model_error": self.curve.columns(),
        }


def select_n_factors(
    model: CuspFactorAnalysis,
    X: Any,
    *,
    numbers: Iterable[int] | None = None,
    n_folds: int = 5,
    n_splits: int = 10,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> FactorSelection:
    """The number of factors by every rule at once, and how many of them are large.

    Fits all rows once, each number of factors once for each fold, and two halves for each split.

    Parameters
    ----------
    model : CuspFactorAnalysis
        The settings to fit with; it is copied and not changed.
    X : array, sparse matrix or data frame (n, p)
        Numeric data, at least 10 rows; missing values as in `CuspFactorAnalysis.fit`, the
        held-out likelihood being that of the values that are there.
    numbers : iterable of int or None, default=None
        Numbers of factors to try on held-out rows. None means 1 to K + 3, where K is what the
        model finds, from 0 on if K is 0 or 1.
    n_folds : int, default=5
        Parts of the rows, each held out once; the same for all numbers.
    n_splits : int, default=10
        Times the rows are split into two random halves.
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState, default=0
        Seed of folds and halves, and of the fits if the model has none of its own.
    n_jobs : int or None, default=None
        Processes for the fits, as in joblib.

    Returns
    -------
    FactorSelection
        Print it for a page of text; `to_frame` gives its tables.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets, select_n_factors
    >>> X = datasets.simulate(200, 8, 2, random_state=1).X
    >>> found = select_n_factors(CuspFactorAnalysis(), X, n_folds=2, n_splits=2)
    >>> print(found.headline)
    2 factors can be told from chance, also if the model may be off by RMSEA 0.07
    >>> found.best_held_out, found.one_standard_error, found.n_replicated
    (2, 2, 2)
    """
    table = check_table(X, allow_missing=True)
    rows, (n, p) = table.rows, table.rows.shape
    folds = whole("n_folds", n_folds, 2)
    splits = whole("n_splits", n_splits, 1)
    if n < MIN_ROWS_TO_DIVIDE:
        raise DataError(
            f"X must have at least {MIN_ROWS_TO_DIVIDE} rows to be divided. Got {n} instead."
        )
    if folds > n:
        raise must_be("n_folds", f"at most the {n} rows", n_folds)
    jobs = _jobs(n_jobs)
    rng = generator(random_state)
    template = _template(model, rng)
    most = _most(template, p)
    tried = None if numbers is None else _check_numbers(numbers, most)
    fitted = clone(template).fit(X)
    k = int(fitted.n_factors_)
    if tried is None:
        tried = list(range(0 if k < 2 else 1, min(k + FURTHER_NUMBERS, most) + 1))

    held_out, unconverged = held_out_by_number(
        template, rows, tried, random_parts(n, folds, rng), jobs
    )
    halves = [random_parts(n, 2, rng)[0] for _ in range(splits if k else 0)]
    orders = [rng.permutation(p) for _ in halves]
    congruent, chance, more = replicate_in_halves(
        template, rows, fitted.loadings_, halves, orders, jobs
    )
    summary = fitted.posterior_.summary()
    by_factors, by_components = _parallel(summary, fitted.posterior_)
    best, near = choose(held_out)
    return FactorSelection(
        headline=summary.headline,
        n_rows=n,
        n_columns=p,
        n_factors=k,
        n_large=summary.n_large,
        factors=_by_factor(summary, congruent, chance),
        weights={one.n_factors: float(one.weight) for one in fitted.search_ if one.weight > 0},
        parallel_factors=by_factors,
        parallel_components=by_components,
        minimum_average_partial=summary.partial,
        held_out=tuple(held_out),
        best_held_out=best,
        one_standard_error=near,
        n_replicated=int(np.sum(congruent.mean(axis=0) > ALIKE_CONGRUENCE)) if k else 0,
        n_unconverged=unconverged + more,
        remark=summary.remark,
        large_share=summary.large_share,
        curve=summary.curve,
    )


# --- arguments ---


def _template(model: CuspFactorAnalysis, rng: np.random.Generator) -> CuspFactorAnalysis:
    """An unfitted copy, with a seed of its own if it had none."""
    if not isinstance(model, CuspFactorAnalysis):
        raise must_be("model", "a CuspFactorAnalysis", type(model).__name__)
    if not isinstance(model.n_factors, str):
        raise must_be(
            "model", "one that finds the number of factors itself, with n_factors='auto'", model
        )
    # On principal axes: how many factors there are does not depend on a rotation.
    template: CuspFactorAnalysis = clone(model).set_params(rotation=None)
    if template.random_state is None:
        template.set_params(random_state=int(rng.integers(2**31)))
    return template


def _most(model: CuspFactorAnalysis, p: int) -> int:
    """The largest number of factors that may be asked for."""
    limit = engine_of(model.method).max_factors
    return p if limit is None else min(p, int(limit))


def _check_numbers(numbers: Any, most: int) -> list[int]:
    if not isinstance(numbers, Iterable):
        raise must_be("numbers", "None or several numbers of factors, as in range(1, 9)", numbers)
    chosen = sorted({whole("numbers", one, 0) for one in numbers})
    if not chosen:
        raise must_be("numbers", "None or at least one number of factors", numbers)
    if chosen[-1] > most:
        raise must_be(
            "numbers", f"at most {most}, the largest number that can be fitted", chosen[-1]
        )
    return chosen


def _jobs(n_jobs: Any) -> int | None:
    if n_jobs is None:
        return None
    if not is_whole(n_jobs) or n_jobs == 0:
        raise must_be("n_jobs", "None or a whole number other than 0, as in joblib", n_jobs)
    return int(n_jobs)


def _by_factor(summary: Summary, found: Array, chance: Array) -> tuple[Replication, ...]:
    return tuple(
        Replication(
            line.share,
            line.lower,
            line.upper,
            float(found[:, h].mean()),
            float(found[:, h].min()),
            float(found[:, h].max()),
            float(chance[:, h].mean()),
        )
        for h, line in enumerate(summary.factors)
    )


def _parallel(summary: Summary, posterior: Posterior) -> tuple[int | None, int | None]:
    """Parallel analysis by factors and by components; the summary has one of the two."""
    correlation, n = posterior.sample_correlation, posterior.correlation_rows
    if summary.parallel is None or correlation is None or n is None:
        return None, None
    if len(correlation) > WIDEST_BY_FACTORS:
        return None, summary.parallel
    components = parallel_analysis(correlation, n, kind="components", random_state=0)
    return summary.parallel, components.n_factors


# --- the page ---


def _replication_lines(factors: Sequence[Replication]) -> list[str]:
    lines = [
        "                                 congruence of random halves",
        "factor   share   95 % interval   mean  lowest  highest  by chance",
    ]
    for number, one in enumerate(factors, 1):
        span = f"{100 * one.lower:.1f} – {100 * one.upper:.1f} %"
        lines.append(
            f"{number:6d} {100 * one.share:5.1f} % {span:>15} {one.congruence:6.2f} "
            f"{one.lowest:7.2f} {one.highest:8.2f} {one.chance:10.2f}"
        )
    return lines


def _number_lines(held_out: Sequence[HeldOut], weights: dict[int, float]) -> list[str]:
    lines = [
        "         evidence   held-out log-likelihood a row",
        "factors    weight          mean    behind   s.e.    kept",
    ]
    tried = {one.n_factors: one for one in held_out}
    for number in sorted({*tried, *weights}):
        weight = f"{weights[number]:9.3f}" if number in weights else f"{'–':>9}"
        line = f"{number:7d} {weight}"
        if number in tried:
            one = tried[number]
            line += f" {one.log_likelihood:13.3f} {one.behind:z9.3f} {one.standard_error:6.3f}"
            line += f" {one.kept:7.1f}"
        lines.append(line)
    return lines
