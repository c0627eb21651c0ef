"""Outlying rows, by their distances under a factor model."""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from cuspfa._typing import Array, BoolArray, Indices
from cuspfa.data.screening.column_kinds import column_kinds
from cuspfa.diagnostics.resampling import quiet_fit
from cuspfa.errors import DataError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis

MIN_ROWS_FOR_OUTLIERS = 20
"""Fewest rows: the distances of fewer do not show what is usual."""
CLIPPED_SCORE = 2.5
"""Robust standard scores beyond this are pulled in for the first fit, so that a single large value
cannot make a factor. In normal data that is about one value in a hundred."""
NEAREST_PART = 0.75
"""Part of the rows that further fits are made to. Rows that are outlying together are found if they
are no more than about a tenth; a fifth of all rows is a group, and can hide as a factor."""
MAX_REFITS = 6
"""Most fits to the nearest rows; two or three are usual."""
LARGEST_USUAL_SCORE = 2.0
"""Rows with a lower standard score of distance are what distances are judged by in the end."""
OUTLIER_FOLDS = 5
"""Parts of the rows. Each is judged by a fit to the others, which its rows did not influence."""
FALSE_ALARM = 0.01
"""Probability that any row of clean data is called outlying."""
LARGEST_ROBUST_SCORE = 1e6
"""Robust standard scores are cut off here, where squares are still exact enough."""


def outlying_rows(rows: Array, items: BoolArray | None = None) -> Indices:
    """Positions of rows that are too far out for normal data, the worst first.

    `items` are the columns with few values, such as answers; None finds them. An answer cannot be
    far out by itself, but among the rows nearest to the centre a rare one may not occur. So the
    noise variances of items are at least those of all rows.

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
    if n < MIN_ROWS_FOR_OUTLIERS:
        return nothing
    scores, items = robust_scores(rows, item_columns(rows) if items is None else items)
    if not scores.shape[1]:
        return nothing
    try:
        first = quiet_fit(
            CuspFactorAnalysis(random_state=0), np.clip(scores, -CLIPPED_SCORE, CLIPPED_SCORE)
        )
        least_noise = np.where(items, first.noise_variance_, 0.0)
        usual = _usual_rows(scores, first, least_noise)
        distance, freedom = _by_the_others(scores, usual, int(first.n_factors_), least_noise)
    except DataError:  # a column that hardly varies, and not at all in some of the rows
        return nothing
    standard = standard_distance(distance, scores.shape[1])
    order = np.argsort(-standard, kind="stable")
    # Centre and axes are estimated: Student's t is what the normal becomes for it.
    limit = student.isf(FALSE_ALARM / n, max(freedom, 1))
    return np.asarray(order[standard[order] > limit])


def item_columns(rows: Array) -> BoolArray:
    """Which columns have two values, or few points on a scale; (p,)."""
    found = np.zeros(rows.shape[1], dtype=bool)
    for group in column_kinds(rows):
        if group.kind in ("few_points", "binary"):
            found[list(group.columns)] = True
    return found


def robust_scores(rows: Array, items: BoolArray) -> tuple[Array, BoolArray]:
    """Columns less their median, by their median absolute deviation, that of a normal being 1.

    Of items, and if over half of the values are equal, the standard deviation takes its place. If
    so many are equal that the nearest rows might all be, the column is left out: also returned is
    which of those that are left are items.
    """
    center = np.median(rows, axis=0)
    varies = np.mean(rows != center, axis=0) > 1.0 - NEAREST_PART
    rows, center, items = rows[:, varies], center[varies], items[varies]
    mad = 1.4826 * np.median(np.abs(rows - center), axis=0)
    robust = ~items & (mad > 1e-12 * np.abs(center))
    spread = np.where(robust, mad, rows.std(axis=0))
    scores = np.clip((rows - center) / spread, -LARGEST_ROBUST_SCORE, LARGEST_ROBUST_SCORE)
    return np.asarray(scores), items


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


def _usual_rows(scores: Array, fitted: CuspFactorAnalysis, least_noise: Array) -> BoolArray:
    """Which rows are near the centre, beginning with a fit to the clipped scores."""
    n, p = scores.shape
    model = CuspFactorAnalysis(n_factors=int(fitted.n_factors_), random_state=0)
    inside = np.ones(n, dtype=bool)
    for _ in range(MAX_REFITS):
        distance = _distances(fitted, scores, inside, least_noise)
        before, inside = inside, np.zeros(n, dtype=bool)
        inside[np.argsort(distance, kind="stable")[: int(NEAREST_PART * n)]] = True
        if np.array_equal(before, inside):
            break
        fitted = quiet_fit(model, scores[inside])
    distance = _distances(fitted, scores, inside, least_noise)
    return standard_distance(distance, p) < LARGEST_USUAL_SCORE


def _by_the_others(
    scores: Array, usual: BoolArray, number: int, least_noise: Array
) -> tuple[Array, int]:
    """Distances of all rows, each under a fit to usual rows of the other parts.

    And the degrees of freedom that the fit to the fewest rows leaves.
    """
    n = len(scores)
    part = np.random.default_rng(0).permutation(n) % OUTLIER_FOLDS
    model = CuspFactorAnalysis(n_factors=number, random_state=0)
    distance, fewest = np.empty(n), n
    for one in range(OUTLIER_FOLDS):
        inside = usual & (part != one)
        fitted = quiet_fit(model, scores[inside])
        distance[part == one] = _distances(fitted, scores, inside, least_noise)[part == one]
        fewest = min(fewest, int(inside.sum()))
    return distance, fewest - number - 1


def _distances(
    fitted: CuspFactorAnalysis, scores: Array, inside: BoolArray, least_noise: Array
) -> Array:
    """Squared distances of rows under a fit to those inside: of factor scores, and of residuals.

    Loadings are known up to an error that a row of large factor scores η meets in all its
    residuals: with the leverage h = (1 + |η|²)/n their variance is 1 + h as large; and 1 − h as
    large for a row that was fitted, which has influenced the factors. The noise variance has
    1 + K/n in it already. With few rows for many columns usual rows would look outlying without
    the former, and outlying rows usual without the latter.
    """
    n = int(inside.sum())
    # Under scikit-learn's global setting `transform` may give a data frame.
    factors = np.asarray(fitted.transform(scores))
    residuals = scores - fitted.mean_ - factors @ fitted.components_
    inner = np.sum(factors**2, axis=1)
    noise = np.maximum(fitted.noise_variance_, least_noise)
    outer = np.sum(residuals**2 / noise, axis=1)
    leverage = (1.0 + inner) / n
    variance = np.where(inside, np.maximum(1.0 - leverage, 1.0 / n), 1.0 + leverage)
    return np.asarray(inner + outer * (1.0 + fitted.n_factors_ / n) / variance)
