"""What `likelihood=` may be: kinds of columns by name, and `Ordinal`, which has a setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from cuspfa._utils.arguments import must_be, one_of
from cuspfa._utils.tables import Columns, TabularResult
from cuspfa._utils.wording import listed
from cuspfa.errors import InputError
from cuspfa.model.likelihoods.links import LINKS, Link

KindName = Literal["gaussian", "ordinal", "binary", "normal_scores", "poisson", "negative_binomial"]
ColumnLikelihoodName = Literal[
    "gaussian", "ordinal", "normal_scores", "poisson", "negative_binomial"
]
"""The likelihood that a column has; "binary" is "ordinal" with two levels."""
KIND_NAMES: tuple[KindName, ...] = (
    "gaussian",
    "ordinal",
    "binary",
    "normal_scores",
    "poisson",
    "negative_binomial",
)
"""What `likelihood=` may say of a column."""
COUNT_KINDS: tuple[ColumnLikelihoodName, ...] = ("poisson", "negative_binomial")
"""Likelihoods of counts."""
AUTO = "auto"
LIBRARY_SIZE = "library_size"
"""The word of `offset` for the logarithm of the counts of a row."""
GIVEN_OFFSET = "given"
"""In files: offsets were given as numbers."""
NAMES_IN_ERROR = 8
"""Columns that a message lists."""
LikelihoodReason = Literal[
    "given",
    "rule",
    "two_values",
    "few_levels",
    "labels",
    "skewed_points",
    "skewed",
    "counts",
    "codes",
    "many_levels",
    "continuous",
]
REASONS: dict[LikelihoodReason, str] = {
    "given": "as asked for",
    "rule": "by the rule of 'auto'",
    "two_values": "two values",
    "few_levels": "few whole numbers",
    "labels": "whole numbers with labels",
    "skewed_points": "whole numbers, skewed",
    "skewed": "strongly skewed",
    "counts": "counts with zeros",
    "codes": "numbers without an order",
    "many_levels": "many whole numbers",
    "continuous": "continuous numbers",
}
"""Why a column has its likelihood."""


@dataclass(frozen=True)
class Ordinal:
    """Ordered categories by cut-points, as an entry of `likelihood`.

    Parameters
    ----------
    link : {"probit", "logit"}, default="probit"
        "probit" has normal latent responses, whose correlations are polychoric; "logit" logistic
        ones, the graded response model.

    Examples
    --------
    >>> from cuspfa import CuspFactorAnalysis, Ordinal
    >>> CuspFactorAnalysis(likelihood=Ordinal(link="logit"))
    CuspFactorAnalysis(likelihood=Ordinal(link='logit'))
    """

    link: Link = "probit"

    def __post_init__(self) -> None:
        one_of("link", self.link, tuple(LINKS))


LikelihoodSetting = str | tuple[tuple[str, str], ...]
"""A word for all columns, or words by the names of columns: plain values for files."""


def as_setting(likelihood: Any, names: Iterable[str]) -> LikelihoodSetting:
    """The argument `likelihood` as plain values; columns may be given by name or by position."""
    if not isinstance(likelihood, Mapping):
        return _word("likelihood", likelihood)
    known, found = list(names), []
    for key, value in likelihood.items():
        at = key if isinstance(key, str) else _name_at(key, known)
        if at not in known:
            raise InputError(
                f"likelihood: there is no column {key!r}. The columns are "
                f"{listed(known, NAMES_IN_ERROR)}."
            )
        found.append((at, _word(f"likelihood of {at}", value)))
    return tuple(found)


def from_setting(setting: LikelihoodSetting) -> Any:
    """The argument again, as it was given."""
    if isinstance(setting, str):
        return _object(setting)
    return {name: _object(word) for name, word in setting}


def check_likelihood(likelihood: Any) -> None:
    """Raise an InputError where the argument has words that are no kinds of columns."""
    if not isinstance(likelihood, Mapping):
        _word("likelihood", likelihood)
        return
    for key, value in likelihood.items():
        _word(f"likelihood of {key}", value)


def is_setting(setting: Any) -> bool:
    """Is it a value of `as_setting`?"""
    words = [setting] if isinstance(setting, str) else [word for _, word in setting]
    return all(word in _WORDS for word in words)


def kind_of(word: str) -> tuple[KindName, Link]:
    """The kind that a word of a setting names, and its link."""
    name, _, link = word.partition(":")
    return name, link or "probit"  # type: ignore[return-value]


_WORDS = (*KIND_NAMES, AUTO, *(f"ordinal:{link}" for link in LINKS if link != "probit"))


def _word(label: str, value: Any) -> str:
    if isinstance(value, Ordinal):
        return "ordinal" if value.link == "probit" else f"ordinal:{value.link}"
    if not isinstance(value, str) or value not in (*KIND_NAMES, AUTO):
        words = ", ".join(repr(one) for one in (*KIND_NAMES, AUTO))
        raise must_be(label, f"{words}, an Ordinal, or a mapping from columns to these", value)
    return value


def _object(word: str) -> Any:
    name, _, link = word.partition(":")
    return Ordinal(link=link) if link else name  # type: ignore[arg-type]


def _name_at(position: Any, names: list[str]) -> Any:
    known = isinstance(position, int) and -len(names) <= position < len(names)
    return names[position] if known else position


class ColumnLikelihood(NamedTuple):
    """The likelihood of one column."""

    column: str
    kind: ColumnLikelihoodName
    link: str
    """Of an ordinal column: "probit" or "logit"; else empty."""
    levels: tuple[int, ...]
    """The values of an ordinal column, in order; else empty."""
    reason: LikelihoodReason
    """Why the column has this likelihood."""


class LikelihoodTable(TabularResult, list[ColumnLikelihood]):
    """The likelihood of each column, and why it has it: a list of `ColumnLikelihood`."""

    def _columns(self) -> Columns:
        return {
            "column": [one.column for one in self],
            "likelihood": [one.kind for one in self],
            "link": [one.link for one in self],
            "levels": [len(one.levels) or None for one in self],
            "reason": [REASONS[one.reason] for one in self],
        }
