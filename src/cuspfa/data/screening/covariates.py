"""Columns that describe rows and are rarely meant to be analysed: age, sex, a year, a weight.

A column is taken for one by its name and the range of its values. The words of the name must all be
words of one kind, or words that say nothing (`FILLERS`), so that "age", "Age (years)" and "What is
your age?" are found, and "language" and "age_of_onset" are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cuspfa._typing import Array

OLDEST, FIRST_YEAR, LAST_YEAR = 120, 1800, 2100
MOST_SEXES, MOST_GRADES, MOST_CLASSES = 4, 30, 20
"""Largest ranges of codes of a sex, a grade or years of education, and a class."""
LARGEST_WEIGHT = 30.0
"""The largest survey weight. Weights are around 1, and body weights are not."""
FILLERS = frozenset(
    [
        "years",
        "year",
        "yrs",
        "yr",
        "in",
        "at",
        "of",
        "the",
        "your",
        "my",
        "respondent",
        "participant",
        "subject",
        "person",
        "student",
        "demo",
        "demographics",
        "demographic",
        "dem",
        "self",
        "current",
        "code",
        "coded",
        "group",
        "cat",
        "category",
        "num",
        "number",
        *("what", "is", "are", "you", "were", "was", "do", "did", "which", "please", "enter"),
        *("indicate", "select", "identify", "as", "with", "highest", "level", "completed", "have"),
        *("ist", "sind", "sie", "ihr", "dein", "deine", "welchem", "jahren"),
        *("birth", "born"),
    ]
)
_ASKED = {"how old": "age", "wie alt": "alter"}
"""Words in which a questionnaire asks for a covariate."""
_SURVEY_WEIGHTS = frozenset(
    ["pweight", "fweight", "pweights", "finalwt", "fnlwgt", "sampwt", "wgt", "weighting"]
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
QUALTRICS_NAMES = frozenset(
    {
        *("Status", "Progress", "Finished", "Duration (in seconds)"),
        *("LocationLatitude", "LocationLongitude"),
    }
)
"""Columns that Qualtrics adds to answers."""
QUALTRICS_SIGNS = frozenset({"ResponseId", "RecordedDate", "ResponseID"})
"""Columns by which a table of Qualtrics is known."""


class ValueRange(NamedTuple):
    """What is known of the values of a column."""

    low: float
    high: float
    whole: bool
    """Are all values whole numbers?"""


class _Rule(NamedTuple):
    words: frozenset[str]
    holds: Callable[[ValueRange], bool]


def _classes(most: int) -> Callable[[ValueRange], bool]:
    return lambda values: values.whole and values.high - values.low <= most


_RULES = {
    "age": _Rule(
        frozenset({"age", "ages", "alter"}), lambda v: v.low >= 0 and 1 < v.high <= OLDEST
    ),
    "sex or gender": _Rule(
        frozenset({"sex", "gender", "geschlecht", "male", "female"}), _classes(MOST_SEXES)
    ),
    "grade or education": _Rule(
        frozenset({"grade", "grades", "education", "educ", "edu", "schooling"}),
        _classes(MOST_GRADES),
    ),
    "an identifier": _Rule(frozenset({"id", "ids", "identifier"}), lambda v: v.whole),
    "a target": _Rule(frozenset({"target"}), lambda v: True),
    "a class": _Rule(frozenset({"label", "class", "outcome", "diagnosis"}), _classes(MOST_CLASSES)),
    "a survey weight": _Rule(
        frozenset({"weight", "weights", "wt"}),
        lambda v: not v.whole and 0 <= v.low < 1 < v.high <= LARGEST_WEIGHT,
    ),
    "a year": _Rule(
        frozenset({"year", "yr", "years", "jahr", "geburtsjahr"}),
        lambda v: v.whole and v.low >= FIRST_YEAR and v.high <= LAST_YEAR,
    ),
}


def may_be_covariate(name: str) -> bool:
    """Is the name one of a kind of covariate, so that the values decide?"""
    return name in QUALTRICS_NAMES or bool(_kinds(name))


def covariate_kind(name: str, values: ValueRange, every_name: frozenset[str]) -> str | None:
    """What a column describes, if it looks like a covariate; `every_name` is of the table."""
    if name in QUALTRICS_NAMES and every_name & QUALTRICS_SIGNS:
        return "a record of the survey"
    return next((kind for kind in _kinds(name) if _RULES[kind].holds(values)), None)


def range_of(values: Array) -> ValueRange:
    """The range of values without missing ones."""
    whole = bool(np.array_equal(values, np.floor(values)))
    return ValueRange(float(values.min()), float(values.max()), whole)


def _kinds(name: str) -> list[str]:
    in_order = " ".join(word.lower() for word in _WORD.findall(name))
    for asked, meant in _ASKED.items():
        in_order = in_order.replace(asked, meant)
    words = set(in_order.split())
    if words & _SURVEY_WEIGHTS:
        return ["a survey weight"]
    return [
        kind
        for kind, rule in _RULES.items()
        if words & rule.words and words <= rule.words | FILLERS
    ]
