"""What kinds of columns were analysed, and what the model makes of them, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuspfa._utils.wording import counted, listed
from cuspfa.data.screening.column_kinds import KindGroup
from cuspfa.model.likelihoods.kinds import COUNT_KINDS, LikelihoodTable

NAMED_COLUMNS = 3
"""Names of columns in a sentence."""
ENOUGH_POINTS = 5
"""Points from which on a scale that is not skewed can be taken as continuous. Where an item of a
longer scale lacks answers at its end, the longest counts."""
_POINTS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
]
_BETTER = "the ordinal likelihood suits them better"


def kinds_text(groups: Sequence[KindGroup]) -> str:
    """Such as "25 six-point items"; empty if the kinds are not known."""
    return ", ".join(_group_text(one) for one in groups)


def likelihood_text(columns: LikelihoodTable) -> str:
    """How columns that are not Gaussian were modelled; empty if all are."""
    if any(one.kind in COUNT_KINDS for one in columns):
        return _counts_text(columns)
    ordinal = [one for one in columns if one.kind == "ordinal"]
    if not ordinal:
        return ""
    links = " and ".join(sorted({one.link for one in ordinal}))
    parts = ["All columns are"]
    if len(ordinal) < len(columns):
        others = {"gaussian": "Gaussian", "normal_scores": "analysed by their normal scores"}
        parts = [
            f"{_some(columns, kind)} {words};"
            for kind, words in others.items()
            if any(one.kind == kind for one in columns)
        ]
        parts.append(_some(columns, "ordinal"))
    return (
        f"{' '.join(parts)} ordered categories ({links} link): their loadings and correlations "
        "are those of latent responses."
    )


def has_counts(columns: LikelihoodTable) -> bool:
    """Are there columns of counts?"""
    return any(one.kind in COUNT_KINDS for one in columns)


def _counts_text(columns: LikelihoodTable) -> str:
    kinds = {one.kind for one in columns}
    words = {
        "gaussian": "Gaussian",
        "normal_scores": "analysed by their normal scores",
        "ordinal": "ordered categories",
        "poisson": "Poisson counts",
        "negative_binomial": "negative binomial counts",
    }
    if len(kinds) == 1:
        said = [f"All columns are {words[columns[0].kind]}."]
    else:
        parts = [f"{_some(columns, kind)} {words[kind]}" for kind in words if kind in kinds]
        said = ["; ".join(parts) + "."]
    said.append(
        "The factors change the logarithms of the rates of counts, which loadings and correlations "
        "are those of: where a factor is higher by one standard deviation, a rate is exp(λ) times "
        "as high, λ its entry of components_."
    )
    if "negative_binomial" in kinds:
        said.append(
            "A count with the mean m has the variance m + m²/r, with a dispersion r of its column."
        )
    if "poisson" in kinds:
        said.append(
            "Log rates of Poisson counts have no variance but that of the factors: communalities "
            "are 1. Counts that vary more make small factors."
        )
    return " ".join(said)


def _some(columns: LikelihoodTable, kind: str) -> str:
    """Columns of a kind, with the verb."""
    names = [one.column for one in columns if one.kind == kind]
    return f"{listed(names, NAMED_COLUMNS)} {'is' if len(names) == 1 else 'are'}"


def model_text(groups: Sequence[KindGroup], names: Sequence[str]) -> str:
    """What the Gaussian model makes of these columns, and what suits them better."""
    told = {one.kind: one for one in groups}
    said = []
    items, binary = told.get("few_points"), told.get("binary")
    if binary is not None or (items is not None and _few(items)):
        said.append(
            "So few answers are treated as Gaussian: their correlations come out too small, and "
            f"depend on how rare an answer is; {_BETTER}."
        )
    elif items is not None:
        then = f": then {_BETTER}" if items.skewed else ""
        said.append(
            f"Items are treated as Gaussian, which matters little unless they are skewed{then}."
        )
    if (counts := told.get("counts")) is not None:
        said.append(
            f"Counts ({_named(counts, names)}) are treated as Gaussian, which they are not. "
            "Factors of their log rates are those of the likelihood negative_binomial; where "
            "causes of counts add, take Poisson factorization (CuspPoissonFactorization; in the "
            "program the model poisson-factorization)."
        )
    if (codes := told.get("codes")) is not None:
        verb = "looks" if len(codes.columns) == 1 else "look"
        said.append(
            f"{_named(codes, names)} {verb} like numbers of categories, which have no order: leave "
            f"{'it' if len(codes.columns) == 1 else 'them'} out."
        )
    if (skewed := told.get("skewed")) is not None:
        verb = "is" if len(skewed.columns) == 1 else "are"
        said.append(
            f"{_named(skewed, names)} {verb} strongly skewed and treated as Gaussian: take "
            "logarithms or roots first."
        )
    if not said and groups:
        return "The Gaussian model is made for these."
    return " ".join(said)


def kinds_as_json(groups: Sequence[KindGroup], names: Sequence[str]) -> list[dict[str, Any]]:
    """Plain values, with names in place of positions."""
    return [
        {
            "kind": one.kind,
            "columns": [names[j] for j in one.columns],
            "points": None if one.points is None else list(one.points),
            "skewed": [names[j] for j in one.skewed],
        }
        for one in groups
    ]


def kind_text(group: KindGroup) -> str:
    """The kind of one column of a group, such as "six-point item"."""
    return "".join(_group_words(group))


def _group_text(group: KindGroup) -> str:
    noun, further = _group_words(group)
    return counted(len(group.columns), noun) + further


def _group_words(group: KindGroup) -> tuple[str, str]:
    """What a column is, and what is said after it."""
    if group.kind == "few_points":
        assert group.points is not None
        fewest, most = group.points
        if fewest == most:
            return f"{_POINTS[most]}-point item", ""
        return "item", f" of {fewest} to {most} points"
    words = {
        "binary": ("item", " with two answers"),
        "counts": ("column", " of counts with zeros"),
        "codes": ("column", " of codes"),
        "skewed": ("strongly skewed column", ""),
        "continuous": ("continuous column", ""),
    }
    return words[group.kind]


def _few(items: KindGroup) -> bool:
    return items.points is not None and items.points[1] < ENOUGH_POINTS


def _named(group: KindGroup, names: Sequence[str]) -> str:
    return listed([names[j] for j in group.columns], NAMED_COLUMNS)
