"""What in the data makes factors of its own: skewed items, outlying rows, doublets."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa._utils.arguments import must_be
from cuspfa._utils.warn import silent, warn
from cuspfa.data.names import check_same_names, check_same_width
from cuspfa.data.validate import check_table
from cuspfa.errors import DataError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.rotation.axes import principal_axes
from cuspfa.rotation.gpa import Rotation, rotate

SHOWN = 5
"""So many columns or rows are named in a message."""
MIN_COLUMNS = 3
"""With fewer columns left there is no factor to be told from noise."""


@dataclass(frozen=True)
class Finding:
    """One thing in the data that may have made factors of its own.

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
    """Things in the data that make factors of their own, and what the number is without them.

    Parameters
    ----------
    model : CuspFactorAnalysis
        A fitted model; it stays as it is.
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
    rows, places = _fitted_rows(model, X)
    names = _names(model)
    return [
        *_skewed_finding(model, rows, names),
        *_outlying_finding(model, rows, places),
        *_doublet_findings(model, rows, names),
    ]


def warn_of_assumptions(model: CuspFactorAnalysis, X: Any) -> list[Finding]:
    """The same, and one warning with all that was found, if anything was.

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
    table = check_table(X, allow_missing=True)
    if issparse(table.rows):
        raise DataError(
            "X must be dense, for outlying rows are looked for in it. Got a sparse matrix instead: "
            "pass X.toarray() if that fits into memory."
        )
    own = type(model).__name__
    check_same_names(own, _text_names(model), table.names)
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


def _text_names(model: CuspFactorAnalysis) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else list(names)


def _names(model: CuspFactorAnalysis) -> list[str]:
    """How columns are called in messages."""
    return _text_names(model) or [f"column {j}" for j in range(model.n_features_in_)]


def _quiet_fit(model: CuspFactorAnalysis, rows: Array) -> CuspFactorAnalysis:
    """A copy, fitted without its warnings: they would not be about the user's own fit."""
    with silent():
        fitted: CuspFactorAnalysis = clone(model).set_params(rotation=None).fit(rows)
    return fitted


def _number_without(model: CuspFactorAnalysis, rows: Array) -> int | None:
    """The number of factors of these rows and columns, where there is one to be found."""
    if not isinstance(model.n_factors, str) or rows.shape[1] < MIN_COLUMNS:
        return None
    try:
        return int(_quiet_fit(model, rows).n_factors_)
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


def _listed(words: Sequence[object]) -> str:
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(str(word) for word in words[:SHOWN]) + more


# --- skewed items ---

FEW_VALUES = 7
"""A column with no more distinct values is an item. Answer scales have up to seven points; a finer
scale loses little of a correlation, whatever its skewness."""
SKEWED = 1.0
"""Skewness from which on Pearson correlations of items depend on their skewness as much as on what
they measure: items skewed alike correlate more, items skewed against each other less."""
TOGETHER = 2
"""A single skewed item makes no factor of its own."""


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
    large = np.abs(skewness) > SKEWED
    return chosen[large], skewness[large]


def _few_values(column: Array) -> bool:
    column = column[~np.isnan(column)]
    # A look at some rows spares the sorting of columns that are clearly continuous.
    return len(np.unique(column[:100])) <= FEW_VALUES and len(np.unique(column)) <= FEW_VALUES


def _skewed_finding(model: CuspFactorAnalysis, rows: Array, names: Sequence[str]) -> list[Finding]:
    columns, skewness = skewed_items(rows)
    if len(columns) < TOGETHER or not model.n_factors_:
        return []
    order = np.argsort(-np.abs(skewness), kind="stable")
    others = np.setdiff1d(np.arange(rows.shape[1]), columns)
    without = _number_without(model, rows[:, others])
    largest = skewness[order[0]]
    message = (
        f"{len(columns)} of {rows.shape[1]} columns have at most {FEW_VALUES} values and a "
        f"skewness beyond ±{SKEWED:g} ({_listed([names[columns[j]] for j in order])}; the largest "
        f"is {largest:+.1f})."
        f"{_becomes(model, without, 'these columns')} Items that are skewed alike make factors of "
        "their own: join rare categories, add such items up to scales, use polychoric "
        "correlations, or do not interpret a factor on which items load by their skewness."
    )
    return [Finding("skewed items", message, columns=_whole(columns), n_factors_without=without)]


def _whole(positions: Indices) -> tuple[int, ...]:
    return tuple(int(one) for one in positions)


# --- outlying rows ---

MIN_ROWS = 20
"""With fewer rows no row is called outlying: the others do not say what is usual."""
CLIPPED = 2.5
"""Robust standard scores beyond this are pulled in for the first fit, so that a single large value
cannot make a factor. In normal data that is about one value in a hundred."""
KEPT = 0.75
"""Part of the rows that further fits are made to. Rows that are outlying together are found if they
are no more than about a tenth; a fifth of all rows is a group, and can hide as a factor."""
ROUNDS = 6
"""Most fits to the nearest rows; two or three are usual."""
USUAL = 2.0
"""Rows with a lower standard score of distance are what distances are judged by in the end."""
FOLDS = 5
"""Parts of the rows, each judged by the others: a row is never far from a fit to itself."""
FALSE_ALARM = 0.01
"""Probability that any row of clean data is called outlying."""
FARTHEST = 1e6
"""Robust standard scores are cut off here, where squares are still exact enough."""


def outlying_rows(rows: Array) -> Indices:
    """Positions of rows further out than normal data would have any, the worst first.

    Distances are Mahalanobis distances under a factor model. The model is fitted to clipped robust
    scores first, then to the nearest three quarters of the rows until these stay the same, so that
    outliers cannot hide behind a factor that they made. In the end each row is judged by a fit to
    usual rows of which it is none. The cube roots of squared distances are nearly normal; their
    spread is estimated by that of the rows, and at least what normal data have.

    Examples
    --------
    >>> from cuspfa import datasets
    >>> X = datasets.simulate(100, 6, 1, random_state=0).X
    >>> outlying_rows(X)
    array([], dtype=int64)
    >>> X[7] += [5, -5, 5, -5, 5, -5]
    >>> outlying_rows(X)
    array([7])
    """
    nothing = np.zeros(0, dtype=np.intp)
    n = len(rows)
    scores = robust_scores(rows)
    if n < MIN_ROWS or not scores.shape[1]:
        return nothing
    try:
        number, usual = _usual_rows(scores)
        distance, freedom = _by_the_others(scores, usual, number)
    except DataError:  # a column that hardly varies, and not at all in some of the rows
        return nothing
    standard = standard_distance(distance, scores.shape[1])
    order = np.argsort(-standard, kind="stable")
    # Centre and axes are estimated: Student's t is what the normal becomes for it.
    limit = student.isf(FALSE_ALARM / n, max(freedom, 1))
    return np.asarray(order[standard[order] > limit])


def robust_scores(rows: Array) -> Array:
    """Columns less their median, by their median absolute deviation, that of a normal being 1.

    If over half of the values are equal, the standard deviation takes its place; if so many are
    equal that the nearest rows might all be, the column is left out.
    """
    center = np.median(rows, axis=0)
    varies = np.mean(rows != center, axis=0) > 1.0 - KEPT
    rows, center = rows[:, varies], center[varies]
    mad = 1.4826 * np.median(np.abs(rows - center), axis=0)
    spread = np.where(mad > 1e-12 * np.abs(center), mad, rows.std(axis=0))
    return np.asarray(np.clip((rows - center) / spread, -FARTHEST, FARTHEST))


def standard_distance(distance: Array, p: int) -> Array:
    """Standard scores of squared distances, by their own median and spread.

    The cube root of a χ² with p degrees of freedom has mean 1 − 2/(9p) and variance 2/(9p), both
    in units of the cube root of p (Wilson & Hilferty). Items and heavy tails spread more than
    that; the rows' own spread stands for what is usual in them.
    """
    root = np.cbrt(distance)
    center = np.median(root)
    spread = 1.4826 * np.median(np.abs(root - center))
    normal = center * np.sqrt(2 / (9 * p)) / (1 - 2 / (9 * p))
    return np.asarray((root - center) / max(spread, normal))


def _usual_rows(scores: Array) -> tuple[int, BoolArray]:
    """The number of factors of the clipped scores, and which rows are near the centre."""
    n, p = scores.shape
    instrument = CuspFactorAnalysis(random_state=0)
    fitted = _quiet_fit(instrument, np.clip(scores, -CLIPPED, CLIPPED))
    number = int(fitted.n_factors_)
    instrument.set_params(n_factors=number)
    inside = np.ones(n, dtype=bool)
    for _ in range(ROUNDS):
        distance = _distances(fitted, scores, inside)
        before, inside = inside, np.zeros(n, dtype=bool)
        inside[np.argsort(distance, kind="stable")[: int(KEPT * n)]] = True
        if np.array_equal(before, inside):
            break
        fitted = _quiet_fit(instrument, scores[inside])
    return number, standard_distance(_distances(fitted, scores, inside), p) < USUAL


def _by_the_others(scores: Array, usual: BoolArray, number: int) -> tuple[Array, int]:
    """Distances of all rows, each under a fit to usual rows of the other parts.

    And the degrees of freedom that the fit to the fewest rows leaves.
    """
    n = len(scores)
    part = np.random.default_rng(0).permutation(n) % FOLDS
    instrument = CuspFactorAnalysis(n_factors=number, random_state=0)
    distance, fewest = np.empty(n), n
    for one in range(FOLDS):
        inside = usual & (part != one)
        fitted = _quiet_fit(instrument, scores[inside])
        distance[part == one] = _distances(fitted, scores, inside)[part == one]
        fewest = min(fewest, int(inside.sum()))
    return distance, fewest - number - 1


def _distances(fitted: CuspFactorAnalysis, scores: Array, inside: BoolArray) -> Array:
    """Squared distances of rows under a fit to those inside: of factor scores, and of residuals.

    Loadings are known up to an error that a row of large factor scores η meets in all its
    residuals: with the leverage h = (1 + |η|²)/n their variance is 1 + h as large; and 1 − h as
    large for a row that was fitted, for it has drawn the factors to itself. The noise variance has
    1 + K/n in it already. With few rows for many columns usual rows would look outlying without
    the former, and outlying rows usual without the latter.
    """
    n = int(inside.sum())
    # Under scikit-learn's global setting `transform` may give a data frame.
    factors = np.asarray(fitted.transform(scores))
    residuals = scores - fitted.mean_ - factors @ fitted.components_
    inner = np.sum(factors**2, axis=1)
    outer = np.sum(residuals**2 / fitted.noise_variance_, axis=1)
    leverage = (1.0 + inner) / n
    variance = np.where(inside, np.maximum(1.0 - leverage, 1.0 / n), 1.0 + leverage)
    return np.asarray(inner + outer * (1.0 + fitted.n_factors_ / n) / variance)


def _outlying_finding(model: CuspFactorAnalysis, rows: Array, places: Indices) -> list[Finding]:
    # Missing values filled from the model's own distribution leave the distances of usual rows as
    # usual as
    # they are.
    allow_missing = bool(np.isnan(rows).any())
    worst = outlying_rows(model._filled(rows) if allow_missing else rows)
    if not len(worst):
        return []
    n = len(rows)
    without = _number_without(model, np.delete(rows, worst, axis=0))
    worst = places[worst]
    noun = "row lies" if len(worst) == 1 else "rows lie"
    message = (
        f"{len(worst)} of {n} {noun} further from the others than normal data would have any "
        f"({_listed(list(worst))}, counted from 0; the worst first)."
        f"{_becomes(model, without, 'these rows')} Look at them; correct what is wrong, or leave "
        "them out and report both numbers."
    )
    return [Finding("outlying rows", message, rows=_whole(worst), n_factors_without=without)]


# --- doublets ---

CONCENTRATED = 0.7
"""Part of a rotated factor's sum of squares that is on two variables. Three variables with equal
loadings have two thirds on two."""
SALIENT = 0.3
"""A loading worth the name: both of a doublet have it."""
ASIDE = 0.5
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
        if part > CONCENTRATED and second >= SALIENT and third < ASIDE * second:
            found.append((int(order[0, h]), int(order[1, h])))
    return found


def _doublet_findings(
    model: CuspFactorAnalysis, rows: Array, names: Sequence[str]
) -> list[Finding]:
    findings = []
    for pair in doublets(principal_axes(model.posterior_.standardized_loadings)):
        first, second = (names[j] for j in pair)
        both = rows[:, pair][~np.isnan(rows[:, pair]).any(axis=1)]
        correlation = float(np.corrcoef(both[:, 0], both[:, 1])[0, 1])
        without = _number_without(model, np.delete(rows, pair[1], axis=1))
        message = (
            f"{first} and {second} have a factor to themselves; they correlate {correlation:+.2f}."
            f"{_becomes(model, without, second)} Two variables say little of a factor: if one "
            "repeats the other, leave one out or add the two up; else measure it by a third."
        )
        findings.append(Finding("doublet", message, columns=pair, n_factors_without=without))
    return findings
