"""Which likelihood each column has: as the user says, or by a rule.

The rule of "auto", for the observed values of a column. It is the first of these that applies:

- "ordinal", which is then an error: at most 7 whole numbers besides codes for missing values;
- "gaussian": the column looks like numbers of categories without an order (see `column_kinds`);
- "ordinal": whole numbers, of which there are two; or at most 7; or at most 20 if the file or the
  data frame has labels for them; or at most 11 with a skewness beyond ±1;
- "negative_binomial": counts with zeros, too many for a scale from 0 to 10;
- "normal_scores": strongly skewed columns;
- "gaussian": all others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from cuspfa._typing import Array
from cuspfa.data.screening.column_kinds import KindGroup, skewness_of
from cuspfa.data.screening.missing_codes import far_categories, is_common_code
from cuspfa.errors import DataError
from cuspfa.model.likelihoods.counts import LARGEST_COUNT, require_counts
from cuspfa.model.likelihoods.kinds import (
    AUTO,
    COUNT_KINDS,
    ColumnLikelihood,
    ColumnLikelihoodName,
    LikelihoodReason,
    LikelihoodSetting,
    LikelihoodTable,
    kind_of,
)
from cuspfa.model.likelihoods.ordinal import MOST_LEVELS

FEW_LEVELS, SKEWED_LEVELS = 7, 11
"""Most values of a column that is ordinal whatever its shape, and of a skewed one."""
SKEWED = 1.0
"""The skewness of the latter."""
NAMED_LEVELS = 8
"""Values that a message lists."""


def choose_likelihoods(
    setting: LikelihoodSetting,
    rows: Array,
    names: Sequence[str],
    kinds: Sequence[KindGroup] = (),
    labelled: Collection[str] = (),
) -> LikelihoodTable:
    """The likelihood of each column of rows (n, p) with NaN for missing values.

    `labelled` are the columns with labels for their values.
    """
    told = {j: one.kind for one in kinds for j in one.columns}
    words = {} if isinstance(setting, str) else dict(setting)
    every = setting if isinstance(setting, str) else AUTO
    found = LikelihoodTable()
    for j, (column, name) in enumerate(zip(rows.T, names, strict=True)):
        word = words.get(name, every)
        if word == AUTO:
            chosen, reason = _by_rule(column, told.get(j), labelled=name in labelled)
            link = "probit"
        else:
            asked, link = kind_of(word)
            chosen, reason = "ordinal" if asked == "binary" else asked, "given"
        if chosen in COUNT_KINDS:
            _check_counts(column, name)
        if chosen != "ordinal":
            found.append(ColumnLikelihood(name, chosen, "", (), reason))
            continue
        levels = ordinal_levels(column, name)
        if word == "binary" and len(levels) > 2:
            raise DataError(
                f"{name} must have two values to be binary. Got {_listed(levels)} instead; call it "
                "ordinal."
            )
        found.append(ColumnLikelihood(name, "ordinal", link, levels, reason))
    return found


def _check_counts(column: Array, name: str) -> None:
    """Raise a DataError where a column cannot be counts."""
    require_counts(column, name)
    if not np.any(column > 0):
        raise DataError(f"Counts of {name} must have one above zero. Got zeros; drop the column.")


def ordinal_levels(column: Array, name: str) -> tuple[int, ...]:
    """The distinct values of an ordinal column, in order, or a DataError."""
    observed = column[~np.isnan(column)]
    broken = observed[observed != np.round(observed)]
    if len(broken):
        raise DataError(
            f"{name} must have whole numbers as categories to be ordinal. Got {broken[0]:g} "
            "instead; number the categories, or call it gaussian."
        )
    levels = tuple(int(value) for value in np.unique(observed))
    if len(levels) < 2:
        what = f"only the value {levels[0]}" if levels else "no value"
        raise DataError(f"{name} must have at least two categories. Got {what}; drop the column.")
    if len(levels) > MOST_LEVELS:
        raise DataError(
            f"{name} must have at most {MOST_LEVELS} categories to be ordinal. Got {len(levels)} "
            "instead; call it gaussian or normal_scores, or join categories."
        )
    if len(levels) > 2 and (far := far_categories(observed)):
        raise DataError(
            f"{name} has the value {far[0]:g}, far from its other values. If it stands for missing "
            f"answers, replace it by NaN (missing={far[0]:g} when a file is read); if it is a "
            "category, number the categories in a row; if it is an amount, call the column "
            "normal_scores."
        )
    return levels


def _by_rule(
    column: Array, kind: str | None, *, labelled: bool
) -> tuple[ColumnLikelihoodName, LikelihoodReason]:
    observed = column[~np.isnan(column)]
    whole = np.all(observed == np.round(observed)) and np.all(np.abs(observed) < 1e15)
    if whole and _has_missing_codes(observed):
        return "ordinal", "few_levels"
    if kind == "codes" and not labelled:
        return "gaussian", "codes"
    if whole:
        number = len(np.unique(observed))
        if number == 2:
            return "ordinal", "two_values"
        if number <= FEW_LEVELS:
            return "ordinal", "few_levels"
        if number <= MOST_LEVELS and labelled:
            return "ordinal", "labels"
        if number <= SKEWED_LEVELS and abs(skewness_of(observed)) > SKEWED:
            return "ordinal", "skewed_points"
        if kind == "counts":
            large = observed.max() > LARGEST_COUNT
            return "normal_scores" if large else "negative_binomial", "counts"
        if kind != "skewed":
            return "gaussian", "many_levels"
    if kind == "skewed":
        return "normal_scores", "skewed"
    return "gaussian", "continuous"


def _has_missing_codes(observed: Array) -> bool:
    """Are there few whole numbers besides those that stand for missing values?"""
    far = far_categories(observed)
    if not far or not all(map(is_common_code, far)):
        return False
    return len(np.unique(observed)) - len(far) <= FEW_LEVELS


def _listed(levels: tuple[int, ...]) -> str:
    more = ", …" if len(levels) > NAMED_LEVELS else ""
    return ", ".join(map(str, levels[:NAMED_LEVELS])) + more
