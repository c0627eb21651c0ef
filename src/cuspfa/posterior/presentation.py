"""What factors and variables are called where they are shown; nothing here changes the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from cuspfa._typing import Array
from cuspfa._utils.arguments import is_whole, must_be
from cuspfa._utils.wording import counted
from cuspfa.data.tables.cells import clean
from cuspfa.data.tables.column_names import no_such_column
from cuspfa.errors import InputError
from cuspfa.rotation.gpa import RotatedLoadings

RESERVED_NAMES = ("variable", "label", "communality")
"""Heads of tables, which are no names of factors."""


class Wording(NamedTuple):
    """A column, and the words that stand for it, such as the wording of an item."""

    column: str
    text: str


@dataclass(frozen=True)
class Presentation:
    """Names and signs of the factors, and the wording of the variables.

    Parameters
    ----------
    factor_names : tuple of str
        One for each factor, in their order; empty where they are numbered.
    reversed_factors : tuple of int
        Numbers, from 1 on, of factors that are shown with the opposite sign.
    wording : tuple of Wording
        Of the columns that have any; it replaces labels of the file.
    """

    factor_names: tuple[str, ...] = ()
    reversed_factors: tuple[int, ...] = ()
    wording: tuple[Wording, ...] = ()

    def heads(self, k: int, pattern: str = "Factor {}") -> list[str]:
        """The names of the first `k` factors, or else their numbers in a pattern.

        Examples
        --------
        >>> from cuspfa.posterior.presentation import Presentation
        >>> Presentation().heads(2), Presentation(("A", "B")).heads(2)
        (['Factor 1', 'Factor 2'], ['A', 'B'])
        """
        if self.factor_names:
            return list(self.factor_names[:k])
        return [pattern.format(h) for h in range(1, k + 1)]

    def check(self, k: int) -> None:
        """Raise an InputError where names or numbers are not those of `k` factors."""
        names, numbers = self.factor_names, self.reversed_factors
        if names and list(names) != _checked_names(names, k):
            raise must_be("factor_names", "on one line each", list(names))
        if list(numbers) != sorted(set(numbers)) or not all(1 <= one <= k for one in numbers):
            raise must_be("reversed_factors", f"from 1 to {k}, each once", list(numbers))

    def signs(self, k: int) -> Array:
        """(k,) 1, or -1 for a factor that is reversed."""
        found = np.ones(k)
        found[[one - 1 for one in self.reversed_factors]] = -1.0
        return found

    def reverse(self, solution: RotatedLoadings) -> RotatedLoadings:
        """The solution, with the factors that are to be reversed."""
        if not self.reversed_factors:
            return solution
        sign = self.signs(solution.loadings.shape[1])
        return solution._replace(
            loadings=solution.loadings * sign,
            matrix=solution.matrix * sign,
            correlations=solution.correlations * sign[:, None] * sign,
        )


PLAIN_PRESENTATION = Presentation()
"""Factors by number, with the signs of the rotation, and no wording."""


def with_names(shown: Presentation, names: Sequence[str] | None, k: int) -> Presentation:
    """A presentation with other names of the factors; None means numbers."""
    return replace(shown, factor_names=() if names is None else tuple(_checked_names(names, k)))


def _checked_names(names: Any, k: int) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise must_be("names", "None or a list of names", names)
    wrong = [one for one in names if not isinstance(one, str)]
    if wrong:
        raise must_be("names", "texts", wrong[0])
    found = [clean(one) for one in names]
    if len(found) != k:
        raise InputError(
            f"names must be as many as there are factors, {k}. Got {counted(len(found), 'name')} "
            f"instead: {', '.join(map(repr, found))}."
        )
    if not all(found):
        raise must_be("names", "not empty", list(names))
    lowered = [one.lower() for one in found]
    twice = [one for one, low in zip(found, lowered, strict=True) if lowered.count(low) > 1]
    if twice:
        raise must_be("names", "all different", twice[0])
    taken = [one for one, low in zip(found, lowered, strict=True) if low in RESERVED_NAMES]
    if taken:
        raise must_be("names", f"none of {', '.join(RESERVED_NAMES)}", taken[0])
    return found


def with_reversed(shown: Presentation, factors: Any, k: int) -> Presentation:
    """A presentation with the signs of some factors changed from what they are."""
    several = list(factors) if isinstance(factors, (list, tuple, range, set)) else [factors]
    numbers = {find_factor(shown, one, k) for one in several}
    return replace(shown, reversed_factors=tuple(sorted(numbers ^ set(shown.reversed_factors))))


def find_factor(shown: Presentation, factor: Any, k: int) -> int:
    """The number, from 1 on, of a factor that is given by number or name."""
    if isinstance(factor, str):
        lowered = [one.lower() for one in shown.factor_names]
        if clean(factor).lower() in lowered:
            return lowered.index(clean(factor).lower()) + 1
        if factor.strip().isdecimal():
            factor = int(factor)
    if not is_whole(factor) or not 1 <= factor <= k:
        known = f" or one of {', '.join(shown.factor_names)}" if shown.factor_names else ""
        raise must_be("a factor", f"a number from 1 to {k}{known}", factor)
    return int(factor)


def with_wording(shown: Presentation, wording: Any, columns: Sequence[str]) -> Presentation:
    """A presentation with the wording of some columns, in addition to what is known of others."""
    if not isinstance(wording, Mapping):
        raise must_be("wording", "a mapping from columns to texts, or a file", wording)
    for name, text in wording.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise must_be("wording", "texts for names of columns", {name: text})
    places = set(columns)
    strange = [name for name in wording if name not in places]
    if strange:
        raise InputError(f"wording: {no_such_column(strange[0], list(columns))}")
    texts = dict(shown.wording) | {name: clean(text) for name, text in wording.items()}
    kept = tuple(Wording(name, texts[name]) for name in columns if texts.get(name))
    return replace(shown, wording=kept)
