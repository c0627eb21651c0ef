"""Features of the data that make factors of their own: skewed items, outlying rows, doublets."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from cuspfa._typing import Array, Indices
from cuspfa._utils.arguments import must_be
from cuspfa._utils.warn import warn
from cuspfa._utils.wording import listed
from cuspfa.data.names import check_same_names, check_same_width
from cuspfa.data.screening.column_kinds import FEW_VALUES, LARGE_SKEWNESS
from cuspfa.data.validate import check_table
from cuspfa.diagnostics.cautions import MIN_SKEWED_ITEMS
from cuspfa.diagnostics.outliers import item_columns, outlying_rows
from cuspfa.diagnostics.resampling import quiet_fit
from cuspfa.errors import DataError, InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.rotation.axes import principal_axes
from cuspfa.rotation.gpa import Rotation, rotate

MOST_NAMED = 5
"""Most columns or rows that a message names."""
MIN_COLUMNS = 3
"""Fewest columns that a factor can be told from noise with."""
MOST_QUICK_WORK = 3e7
"""Multiplications for the cross-products of the rows, up to which a check takes a second or so."""


class RowNames(NamedTuple):
    """What the rows are called in messages."""

    names: Sequence[str]
    """Of each row."""
    counted: str = ""
    """How they are counted, such as "counted from 0"; empty for names."""

    def listed(self, rows: Sequence[int]) -> str:
        """The names of the first of these rows, how many more there are, and how they count."""
        shown = listed([self.names[row] for row in rows], MOST_NAMED)
        return ", ".join(filter(None, (shown, self.counted)))


@dataclass(frozen=True)
class Finding:
    """One feature of the data that may have made factors of its own.

    Attributes
    ----------
    kind : str
        "skewed items", "outlying rows" or "doublet".
    message : str
        The numbers, and what to do.
    columns : tuple of int
        Positions of the columns it is about; none for rows.
    rows : tuple of int
        Positions of the rows it is about, the worst first; none for columns.
    n_factors_without : int or None
        The number of factors found without these rows, these columns, or the second column of a
        doublet. None if too few columns would be left, or the model was given its number.
    """

    kind: str
    message: str
    columns: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    n_factors_without: int | None = None

    def __str__(self) -> str:
        return textwrap.fill(f"{self.kind}: {self.message}", width=80, subsequent_indent="  ")


def check_assumptions(model: CuspFactorAnalysis, X: Any) -> list[Finding]:
    """Find features of the data that make factors of their own, and the number of factors without.

    Parameters
    ----------
    model : CuspFactorAnalysis
        A fitted model; it is not changed.
    X : array or data frame (n, p)
        The rows it was fitted to.

    Returns
    -------
    list of Finding
        Empty if nothing was found. The model is fitted again, by the same settings, once for each.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> check_assumptions(CuspFactorAnalysis().fit(X), X)
    []
    >>> X[:3] += [4, -4] * 5
    >>> found = check_assumptions(CuspFactorAnalysis().fit(X), X)
    >>> found[0].kind, sorted(found[0].rows), found[0].n_factors_without
    ('outlying rows', [0, 1, 2], 2)
    """
    return findings_with_refits(model, X)


def findings_with_refits(
    model: CuspFactorAnalysis, X: Any, row_names: RowNames | None = None
) -> list[Finding]:
    """The work of `check_assumptions`; `row_names` are of all rows of X."""
    rows, places = _fitted_rows(model, X)
    names = _column_labels(model)
    return [
        *_skewed_finding(model, rows, names),
        *_outlying_finding(model, rows, places, row_names),
        *_doublet_findings(model, rows, names),
    ]


def quick_findings(
    model: CuspFactorAnalysis, rows: Array, row_names: RowNames | None = None
) -> list[Finding]:
    """Outlying rows and doublets of the rows of a fit, without the fits that leave them out.

    Skewed items are among the cautions of a summary.
    """
    names = _column_labels(model)
    outlying = _outlying_finding(model, rows, np.arange(len(rows)), row_names, refit=False)
    return [*outlying, *_doublet_findings(model, rows, names, refit=False)]


def with_row_names(finding: Finding, n: int, row_names: RowNames) -> Finding:
    """A quick finding on some of `n` rows with other names of the rows in its message."""
    if not finding.rows:
        return finding
    return replace(finding, message=_outlying_message(finding.rows, n, row_names))


def is_quick(n: int, p: int) -> bool:
    """Can outlying rows of so many rows and columns be found in about a second?"""
    return n * p * min(n, p) <= MOST_QUICK_WORK


def warn_of_assumptions(model: CuspFactorAnalysis, X: Any) -> list[Finding]:
    """Check as `check_assumptions` does, and issue one warning with all findings.

    Parameters
    ----------
    model, X
        See `check_assumptions`.

    Returns
    -------
    list of Finding

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, datasets
    >>> X = datasets.simulate(200, 10, 2, random_state=1).X
    >>> warn_of_assumptions(CuspFactorAnalysis().fit(X), X)
    []
    """
    found = check_assumptions(model, X)
    if found:
        warn(" ".join(f"{one.kind.capitalize()}: {one.message}" for one in found))
    return found


# --- arguments, and the fit without ---


def _fitted_rows(model: Any, X: Any) -> tuple[Array, Indices]:
    """The rows as a dense array, if they are those of the fit, and which of X they are."""
    if not isinstance(model, CuspFactorAnalysis):
        raise must_be("model", "a fitted CuspFactorAnalysis", model)
    check_is_fitted(model)
    if any(one.kind != "gaussian" for one in model.likelihoods_):
        raise InputError(
            "check_assumptions is for Gaussian columns. The model must have likelihood='gaussian'."
        )
    table = check_table(X, allow_missing=True)
    if issparse(table.rows):
        raise DataError(
            "X must be dense, for outlying rows are looked for in it. Got a sparse matrix instead: "
            "pass X.toarray() if that fits into memory."
        )
    own = type(model).__name__
    check_same_names(own, model._names(), table.names)
    check_same_width(own, model.n_features_in_, table.rows.shape[1])
    rows = np.asarray(table.rows, dtype=float)
    n = model.posterior_.n_rows
    if len(rows) != n:
        raise DataError(
            f"X must be the rows that the model was fitted to. Got {len(rows)} rows instead of {n}."
        )
    known = model.posterior_.center  # the means of what was observed
    shift = np.abs(np.nanmean(rows, axis=0) - known)
    if np.any(shift > 1e-6 * (np.nanstd(rows, axis=0) + np.abs(known))):
        raise DataError(
            "X must be the rows that the model was fitted to. Got other means in column "
            f"{int(np.argmax(shift))} than the model has in mean_: fit it to X first."
        )
    places = np.arange(len(rows) + len(table.empty))
    return rows, np.delete(places, table.empty)


def _column_labels(model: CuspFactorAnalysis) -> list[str]:
    """Names of the columns in messages."""
    return model._names() or [f"column {j}" for j in range(model.n_features_in_)]


def _number_without(model: CuspFactorAnalysis, rows: Array) -> int | None:
    """The number of factors of these rows and columns, where there is one to be found."""
    if not isinstance(model.n_factors, str) or rows.shape[1] < MIN_COLUMNS:
        return None
    try:
        return int(quiet_fit(model, rows, rotation=None).n_factors_)
    except DataError:  # only the rows that are left out kept a column from being constant
        return None


def _becomes(model: CuspFactorAnalysis, without: int | None, what: str) -> str:
    if without is None:
        return ""
    have = "1 factor was" if model.n_factors_ == 1 else f"{model.n_factors_} factors were"
    if without == model.n_factors_:
        return f" {have} found, and as many without {what}."
    there = "there is 1" if without == 1 else f"there are {without}"
    return f" {have} found; without {what} {there}."


# --- skewed items ---


def skewed_items(rows: Array) -> tuple[Indices, Array]:
    """Positions of columns with few values and much skewness, and their skewness.

    Examples
    --------
    >>> import numpy as np
    >>> answers = np.array([[1.0, 1, 0.1], [1, 2, 0.2], [1, 2, 0.3], [1, 3, 0.4], [5, 3, 99]])
    >>> skewed_items(np.tile(answers, (2, 1)))[0]
    array([0, 2])
    """
    few = [j for j in range(rows.shape[1]) if _few_values(rows[:, j])]
    chosen = np.array(few, dtype=np.intp)
    centred = rows[:, chosen] - np.nanmean(rows[:, chosen], axis=0)
    spread = np.sqrt(np.nanmean(centred**2, axis=0))
    skewness = np.nanmean((centred / spread) ** 3, axis=0)
    large = np.abs(skewness) > LARGE_SKEWNESS
    return chosen[large], skewness[large]


def _few_values(column: Array) -> bool:
    column = column[~np.isnan(column)]
    # A look at some rows spares the sorting of columns that are clearly continuous.
    return len(np.unique(column[:100])) <= FEW_VALUES and len(np.unique(column)) <= FEW_VALUES


def _skewed_finding(model: CuspFactorAnalysis, rows: Array, names: Sequence[str]) -> list[Finding]:
    columns, skewness = skewed_items(rows)
    if len(columns) < MIN_SKEWED_ITEMS or not model.n_factors_:
        return []
    order = np.argsort(-np.abs(skewness), kind="stable")
    others = np.setdiff1d(np.arange(rows.shape[1]), columns)
    without = _number_without(model, rows[:, others])
    largest = skewness[order[0]]
    named = listed([names[columns[j]] for j in order], MOST_NAMED)
    message = (
        f"{len(columns)} of {rows.shape[1]} columns have at most {FEW_VALUES} values and a "
        f"skewness beyond ±{LARGE_SKEWNESS:g} ({named}; the largest is {largest:+.1f})."
        f"{_becomes(model, without, 'these columns')} Items that are skewed alike make factors of "
        "their own: join rare categories, add such items up to scales, use polychoric "
        "correlations, or do not interpret a factor on which items load by their skewness."
    )
    return [Finding("skewed items", message, columns=_as_ints(columns), n_factors_without=without)]


def _as_ints(positions: Indices) -> tuple[int, ...]:
    return tuple(int(one) for one in positions)


# --- outlying rows ---


def _outlying_finding(
    model: CuspFactorAnalysis,
    rows: Array,
    places: Indices,
    row_names: RowNames | None,
    *,
    refit: bool = True,
) -> list[Finding]:
    # Values drawn from the model's own distribution leave the distances of usual rows as they are.
    allow_missing = bool(np.isnan(rows).any())
    filled = model._filled(rows) if allow_missing else rows
    worst = outlying_rows(filled, item_columns(rows))
    if not len(worst):
        return []
    n = len(rows)
    without = _number_without(model, np.delete(rows, worst, axis=0)) if refit else None
    found = _as_ints(places[worst])
    if row_names is None:
        row_names = RowNames([str(row) for row in range(int(places[-1]) + 1)], "counted from 0")
    becomes = _becomes(model, without, "these rows")
    message = _outlying_message(found, n, row_names, becomes)
    return [Finding("outlying rows", message, rows=found, n_factors_without=without)]


def _outlying_message(rows: Sequence[int], n: int, row_names: RowNames, becomes: str = "") -> str:
    verb = "lies" if len(rows) == 1 else "lie"
    order = "" if len(rows) == 1 else "; the worst first"
    return (
        f"{len(rows)} of {n} rows {verb} further from the others than normal data would have any "
        f"({row_names.listed(rows)}{order}).{becomes} Look at them; correct what is wrong, or "
        "leave them out and report both numbers."
    )


# --- doublets ---

DOUBLET_PART = 0.7
"""Part of a rotated factor's sum of squares that is on two variables. Three variables with equal
loadings have two thirds on two."""
SALIENT_LOADING = 0.3
"""Least size of both loadings of a doublet."""
THIRD_PART = 0.5
"""The third loading of a doublet is smaller than this part of the second, else three are one
factor."""


def doublets(loadings: Array) -> list[tuple[int, int]]:
    """Pairs of variables that have a rotated factor to themselves, the stronger first.

    Examples
    --------
    >>> import numpy as np
    >>> three = np.kron(np.eye(2), np.full((3, 1), 0.7))
    >>> doublets(three)
    []
    >>> doublets(three[:5])
    [(3, 4)]
    """
    p, k = loadings.shape
    if p < MIN_COLUMNS or not k:
        return []
    size = np.abs(rotate(loadings, Rotation("varimax", n_starts=1)).loadings)
    order = np.argsort(-size, axis=0, kind="stable")
    found = []
    for h in range(k):
        first, second, third = size[order[:3, h], h]
        part = (first**2 + second**2) / np.sum(size[:, h] ** 2)
        if part > DOUBLET_PART and second >= SALIENT_LOADING and third < THIRD_PART * second:
            found.append((int(order[0, h]), int(order[1, h])))
    return found


def _doublet_findings(
    model: CuspFactorAnalysis, rows: Array, names: Sequence[str], *, refit: bool = True
) -> list[Finding]:
    findings = []
    for pair in doublets(principal_axes(model.posterior_.standardized_loadings)):
        first, second = (names[j] for j in pair)
        both = rows[:, pair][~np.isnan(rows[:, pair]).any(axis=1)]
        correlation = float(np.corrcoef(both[:, 0], both[:, 1])[0, 1])
        without = _number_without(model, np.delete(rows, pair[1], axis=1)) if refit else None
        message = (
            f"{first} and {second} have a factor to themselves; they correlate {correlation:+.2f}."
            f"{_becomes(model, without, second)} Two variables determine a factor badly: if one "
            "repeats the other, leave one out or add the two up; else measure it by a third."
        )
        findings.append(Finding("doublet", message, columns=pair, n_factors_without=without))
    return findings
