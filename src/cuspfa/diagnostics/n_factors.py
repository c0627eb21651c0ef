"""How many factors? The evidence beside what other rules, new rows and halves of the data say."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from cuspfa._typing import Array, Indices, RandomState
from cuspfa._utils.arguments import generator, must_be, one_of, whole
from cuspfa._utils.tables import Columns, data_frame, html_table
from cuspfa._utils.warn import silent
from cuspfa.data.validate import check_table
from cuspfa.diagnostics.fit_measures import QUICK
from cuspfa.diagnostics.retention import match_factors, parallel_analysis
from cuspfa.errors import DataError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.posterior.base import Posterior
from cuspfa.reporting.summary import MIN_SHARE, Summary

Tables = Literal["numbers", "factors", "rules"]
ALIKE = 0.85
"""Congruence from which on two factors are called alike (Lorenzo-Seva & ten Berge, 2006)."""
MIN_ROWS = 10
"""With fewer rows there is no number of factors to be relied on, still less in half of them."""
FURTHER = 3
"""So many factors more than the model has are tried on held-out rows."""
EQUAL = 5e-4
"""Held-out log-likelihoods a row this close print as the same, and count as such."""
ALIVE = 1e-6
"""A factor with a smaller share of the variance than this found nothing to explain and died."""


class Replication(NamedTuple):
    """One factor of the whole fit, with its strength and whether halves of the rows find it."""

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
    """The same mean after the variables of one half were permuted: what turning alone achieves."""


class HeldOut(NamedTuple):
    """One number of factors, judged by rows it was not fitted to."""

    n_factors: int
    log_likelihood: float
    """Mean log density of a held-out row."""
    behind: float
    """How much less that is than the best number has."""
    standard_error: float
    """Of `behind`, from the paired differences row by row."""
    kept: float
    """How many of the factors had any loadings, mean over the folds; the others died."""

    @property
    def real(self) -> bool:
        """That, on average, less than one of the factors died.

        Else the fit has fewer factors than it was asked for, and should not speak for so many: the
        dead ones add a trifle to the noise variances, which may well predict a trifle better.
        """
        return self.kept > self.n_factors - 1


@dataclass(frozen=True)
class FactorSelection:
    """`print` it, or read its fields.

    Attributes
    ----------
    headline : str
        K, how many of these are large, and parallel analysis, in one line.
    n_rows, n_columns : int
        Size of the data.
    n_factors : int
        K of the model fitted to all rows.
    n_large : int
        How many of them explain more than 3 % of the variance.
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
        those whose factors did not die.
    one_standard_error : int
        The smallest number that is behind the best by no more than one standard error.
    n_replicated : int
        Factors whose mean congruence exceeds 0.85.
    n_unconverged : int
        Fits to parts of the rows that stopped before they had converged.
    remark : str
        Why K and not a larger number that has more weight; empty if there is none.
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
    remark: str = ""

    def __str__(self) -> str:
        lines = [self.headline, *textwrap.wrap(self.remark, 80, subsequent_indent="  ")]
        lines += [f"{self.n_rows} rows, {self.n_columns} columns", ""]
        if self.factors:
            lines += [*_factor_lines(self.factors), ""]
        lines += [*_number_lines(self.held_out, self.weights), ""]
        lines += [f"{what:<46}{count:4d}" for what, count in _answers(self)]
        if self.n_unconverged:
            lines += ["", f"{self.n_unconverged} fits to parts of the rows did not converge"]
        return "\n".join(line.rstrip() for line in lines)

    def to_frame(self, what: Tables = "numbers") -> Any:
        """One of its tables as a data frame of pandas or, without it, polars.

        Parameters
        ----------
        what : {"numbers", "factors", "rules"}, default="numbers"
            Evidence weights and held-out likelihoods by number of factors; shares and congruences
            by factor; or the number of factors by each rule.
        """
        one_of("what", what, get_args(Tables))
        return data_frame(self._tables()[what])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        tables = self._tables()
        captions = {"rules": self.headline, "numbers": "By number of factors"}
        if self.factors:
            captions["factors"] = "By factor"
        return "".join(html_table(tables[name], text) for name, text in captions.items())

    def _tables(self) -> dict[str, Columns]:
        tried = {one.n_factors: one for one in self.held_out}
        numbers = sorted({*tried, *self.weights})
        held_out = {
            name: [getattr(tried[k], name) if k in tried else math.nan for k in numbers]
            for name in HeldOut._fields[1:]
        }
        answers = _answers(self)
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
    """How many factors there are, and how many of them matter, by every rule at once.

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
    2 factors, all of which explain more than 3 % each (parallel analysis: 2)
    >>> found.best_held_out, found.one_standard_error, found.n_replicated
    (2, 2, 2)
    """
    table = check_table(X, allow_missing=True)
    rows, (n, p) = table.rows, table.rows.shape
    folds = whole("n_folds", n_folds, 2)
    splits = whole("n_splits", n_splits, 1)
    if n < MIN_ROWS:
        raise DataError(f"X must have at least {MIN_ROWS} rows to be divided. Got {n} instead.")
    if folds > n:
        raise must_be("n_folds", f"at most the {n} rows", n_folds)
    jobs = _jobs(n_jobs)
    rng = generator(random_state)
    template = _template(model, rng)
    most = _most(template, p)
    tried = None if numbers is None else _numbers(numbers, most)
    fitted = clone(template).fit(X)
    k = int(fitted.n_factors_)
    if tried is None:
        tried = list(range(0 if k < 2 else 1, min(k + FURTHER, most) + 1))

    held_out, unconverged = _held_out(template, rows, tried, _parts(n, folds, rng), jobs)
    halves = [_parts(n, 2, rng)[0] for _ in range(splits if k else 0)]
    orders = [rng.permutation(p) for _ in halves]
    congruent, chance, more = _replicate(template, rows, fitted.loadings_, halves, orders, jobs)
    summary = fitted.posterior_.summary()
    by_factors, by_components = _parallel(summary, fitted.posterior_)
    best, near = choose(held_out)
    return FactorSelection(
        headline=summary.headline,
        n_rows=n,
        n_columns=p,
        n_factors=k,
        n_large=sum(line.share > MIN_SHARE for line in summary.factors),
        factors=_by_factor(summary, congruent, chance),
        weights={one.n_factors: float(one.weight) for one in fitted.search_ if one.weight > 0},
        parallel_factors=by_factors,
        parallel_components=by_components,
        minimum_average_partial=summary.partial,
        held_out=tuple(held_out),
        best_held_out=best,
        one_standard_error=near,
        n_replicated=int(np.sum(congruent.mean(axis=0) > ALIKE)) if k else 0,
        n_unconverged=unconverged + more,
        remark=summary.remark,
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
    limit = getattr(model.method, "max_factors", None)
    return p if limit is None else min(p, int(limit))


def _numbers(numbers: Any, most: int) -> list[int]:
    if not isinstance(numbers, Iterable):
        raise must_be("numbers", "None or several numbers of factors, as in range(1, 9)", numbers)
    chosen = sorted({whole("numbers", one, 0) for one in numbers})
    if not chosen:
        raise must_be("numbers", "None or at least one number of factors", numbers)
    if chosen[-1] > most:
        raise must_be("numbers", f"at most {most}, for so many may be fitted", chosen[-1])
    return chosen


def _jobs(n_jobs: Any) -> int | None:
    if n_jobs is None:
        return None
    if isinstance(n_jobs, (bool, np.bool_)) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise must_be("n_jobs", "None or a whole number other than 0, as in joblib", n_jobs)
    return int(n_jobs)


# --- fits to parts of the rows ---


def _parts(n: int, number: int, rng: np.random.Generator) -> list[Indices]:
    """Row numbers of so many random parts whose sizes differ by one at most."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n), number)]


def _fit(model: CuspFactorAnalysis, rows: Any, k: int) -> CuspFactorAnalysis:
    """A copy with k factors.

    What the fit would warn of, such as factors that have nothing to explain, is no concern of the
    user's here: the numbers are tried for that very reason.
    """
    with silent():
        try:
            fitted: CuspFactorAnalysis = clone(model).set_params(n_factors=k).fit(rows)
        except DataError as error:
            raise DataError(
                f"X cannot be divided: {rows.shape[0]} of its rows by themselves cannot be "
                f"fitted. {error} Or use fewer parts, or more rows."
            ) from error
    return fitted


def _outside(n: int, part: Indices) -> Indices:
    return np.setdiff1d(np.arange(n), part, assume_unique=True)


class _Fold(NamedTuple):
    densities: Array
    """Log densities of the rows held out."""
    kept: int
    converged: bool


def _one_fold(model: CuspFactorAnalysis, rows: Any, part: Indices, k: int) -> _Fold:
    """A part of the rows under the fit to all the others."""
    fitted = _fit(model, rows[_outside(rows.shape[0], part)], k)
    kept = int(np.sum(np.mean(fitted.loadings_**2, axis=0) > ALIVE))
    return _Fold(fitted.score_samples(rows[part]), kept, bool(fitted.converged_))


def _held_out(
    model: CuspFactorAnalysis,
    rows: Any,
    numbers: Sequence[int],
    parts: Sequence[Indices],
    n_jobs: int | None,
) -> tuple[list[HeldOut], int]:
    """Held-out log-likelihood by number of factors, and how many fits did not converge."""
    done: list[_Fold] = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(model, rows, part, k) for k in numbers for part in parts
    )
    densities = np.empty((len(numbers), rows.shape[0]))
    kept = np.empty((len(numbers), len(parts)))
    for task, fold in enumerate(done):
        number, place = divmod(task, len(parts))
        densities[number, parts[place]] = fold.densities
        kept[number, place] = fold.kept
    unconverged = sum(not fold.converged for fold in done)
    return compare_held_out(numbers, densities, kept.mean(axis=1)), unconverged


def compare_held_out(numbers: Sequence[int], densities: Array, kept: Array) -> list[HeldOut]:
    """Means of log densities (numbers, rows), with paired differences to the best of them.

    `kept` is how many factors of each number were alive.
    """
    means = densities.mean(axis=1)
    real = kept > np.array(numbers) - 1
    # A prior with a finite spike may leave fewer of every number; then all are alike in that.
    among = np.where(real | ~real.any(), means, -np.inf)
    best = int(np.argmax(among >= among.max() - EQUAL))
    differences = densities[best] - densities
    errors = differences.std(axis=1, ddof=1) / np.sqrt(densities.shape[1])
    return [
        HeldOut(k, float(mean), float(behind), float(error), float(alive))
        for k, mean, behind, error, alive in zip(
            numbers, means, differences.mean(axis=1), errors, kept, strict=True
        )
    ]


def choose(held_out: Sequence[HeldOut]) -> tuple[int, int]:
    """The best number, and the smallest that is no more than a standard error behind it."""
    best = next(one for one in held_out if one.behind == 0.0)
    near = next(one for one in held_out if one.behind <= one.standard_error)
    return best.n_factors, near.n_factors


def _one_split(
    model: CuspFactorAnalysis, rows: Any, target: Array, half: Indices, order: Indices
) -> tuple[Array, Array, int]:
    """Congruence of two halves by factor of the target, by chance, and fits not converged.

    The first half is turned towards the target, so that its factors have the names of those of the
    whole fit; the second is turned towards the first, and never sees the target.
    """
    k = target.shape[1]
    fits = [_fit(model, rows[part], k) for part in (half, _outside(rows.shape[0], half))]
    # A finite spike may have left fewer factors: those that are missing agree with nothing.
    first, second = (
        np.pad(fit.loadings_, ((0, 0), (0, k - fit.loadings_.shape[1]))) for fit in fits
    )
    named = match_factors(target, first).second
    return (
        match_factors(named, second).congruence,
        match_factors(named, second[order]).congruence,
        sum(not fit.converged_ for fit in fits),
    )


def _replicate(
    model: CuspFactorAnalysis,
    rows: Any,
    target: Array,
    halves: Sequence[Indices],
    orders: Sequence[Indices],
    n_jobs: int | None,
) -> tuple[Array, Array, int]:
    """Congruences (splits, K), those by chance, and how many fits did not converge."""
    done = Parallel(n_jobs=n_jobs)(
        delayed(_one_split)(model, rows, target, half, order)
        for half, order in zip(halves, orders, strict=True)
    )
    shape = len(halves), target.shape[1]
    found, chance = (np.reshape([one[side] for one in done], shape) for side in (0, 1))
    return found, chance, sum(one[2] for one in done)


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
    if len(correlation) > QUICK:
        return None, summary.parallel
    components = parallel_analysis(correlation, n, kind="components", random_state=0)
    return summary.parallel, components.n_factors


# --- the page ---


def _factor_lines(factors: Sequence[Replication]) -> list[str]:
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


def _answers(found: FactorSelection) -> list[tuple[str, int]]:
    """The number of factors by each rule that has one."""
    answers = [
        ("evidence", found.n_factors),
        (f"more than {100 * MIN_SHARE:.0f} % of the variance each", found.n_large),
        ("parallel analysis, factors", found.parallel_factors),
        ("parallel analysis, components", found.parallel_components),
        ("Velicer's minimum average partial", found.minimum_average_partial),
        ("held-out likelihood, the best", found.best_held_out),
        ("held-out likelihood, within a standard error", found.one_standard_error),
        (f"congruence of halves above {ALIKE}", found.n_replicated),
    ]
    return [(what, count) for what, count in answers if count is not None]
