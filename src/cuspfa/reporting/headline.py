"""The first sentence of every result: the number of factors, and by tolerated model error."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from cuspfa._utils.fit_warning import NoMarginal
from cuspfa._utils.wording import capitalized, counted
from cuspfa.posterior.error_curve import MORE_TOLERABLE, TOLERABLE, CurvePoint, ModelErrorCurve

PAGE_WIDTH = 80
"""Characters of a line of text."""
LARGE_SHARE, WIDE = 0.03, 100
"""A factor is large if it explains more than this share of the variance. With more columns than
`WIDE` it is compared with the edge of pure noise."""
TIED_ROOM = 6
"""Characters of tied numbers in a table."""
NOT_LEARNED: dict[NoMarginal | None, str] = {
    "missing": " (values are missing)",
    "rows": " (too few rows for the columns)",
    "size": " (too many columns)",
    None: "",
}
"""Why the model error was not learned."""


class LargeShare(NamedTuple):
    """The share of the variance above which a factor is called large, and the rule."""

    value: float
    by_noise: bool
    """Is it that of the leading component of pure noise?"""

    @property
    def words(self) -> str:
        """Such as "3 %"."""
        if not self.by_noise:
            return f"{100 * self.value:.0f} %"
        return f"{100 * self.value:.2g} %, the edge of noise,"

    @property
    def short(self) -> str:
        """In a figure."""
        return f"{100 * self.value:.2g} %"


def large_share(p: int, n: float) -> LargeShare:
    """3 % or, of more than `WIDE` columns, the share of the leading component of pure noise.

    That is (1 + √(p/n))²/p: the largest eigenvalue of the correlations of p independent columns,
    as a part of their variance. Of many columns no factor explains 3 % of all variance.
    """
    if p <= WIDE:
        return LargeShare(LARGE_SHARE, False)
    return LargeShare((1 + math.sqrt(p / n)) ** 2 / p, True)


def strength(n_factors: int, large: int, share: LargeShare) -> str:
    """How many of the factors are large, as they are shown."""
    if n_factors == 0:
        return ""
    words = share.words
    if n_factors == 1:
        return f"it explains {'more' if large else 'less'} than {words} of the variance"
    if large == 1:
        return f"one factor explains more than {words} of the variance"
    if large == 0:
        return f"no factor explains more than {words} of the variance"
    which = "all" if large == n_factors else str(large)
    return f"{which} factors explain more than {words} of the variance each"


class Count(NamedTuple):
    """The number of factors of a fit, and how it came about."""

    n_factors: int
    given: bool = False
    """Was the number asked for?"""
    n_nonempty: int | None = None
    """Factors with loadings, of a number that was asked for."""
    model_error: float = 0.0
    learned: bool = False
    """Was the model error learned?"""
    not_learned: bool = False
    """Was it to be learned, and is 0 as the data do not allow that?"""
    reason: NoMarginal | None = None
    """Why they do not, where that is known."""
    rows_too_few: int | None = None
    """The rows, where they were too few to try more factors than these."""
    has_categories: bool = True
    """Were they too few for the categories of the columns too?"""


def headline(count: Count, curve: ModelErrorCurve | None = None) -> str:
    """The number of factors, and those that remain if the model may be a little wrong."""
    if count.rows_too_few is None:
        return _of_number(count, curve)
    why = f"{count.rows_too_few} rows are too few for this many columns"
    why += " and categories" if count.has_categories else ""
    if count.n_factors == 0:
        return f"No factors were tried: {why}"
    return f"{_of_number(count, curve)}; more were not tried: {why}"


def _of_number(count: Count, curve: ModelErrorCurve | None) -> str:
    points = curve or ModelErrorCurve()
    exact = points.find(0.0)
    learned = f"with a model error of RMSEA {count.model_error:g}, which was learned"
    unlearned = (
        f"; the model error was not learned{NOT_LEARNED[count.reason]} and is taken as 0"
        if count.not_learned
        else ""
    )
    if count.given:
        # Factors without loadings are reported whoever asked for them.
        noun = capitalized(counted(count.n_factors, "factor"))
        empty = count.n_nonempty is not None and count.n_nonempty < count.n_factors
        text = f"{noun} asked for" + (f", {count.n_nonempty or 'none'} with loadings" * empty)
        text += f", {learned}" if count.learned else unlearned
        return text if exact is None else f"{text}; {_told_from_chance(exact, points, '')}"
    if count.model_error == 0.0 and not count.learned:
        # A search that ended early may have another number than the curve.
        near = set() if exact is None else {exact.n_factors, *exact.tied}
        tied = tuple(sorted(near - {count.n_factors}))
        own = CurvePoint(0.0, count.n_factors, tied, 0.0, 0.0)
        noun = " factor" if count.n_factors == 1 else " factors"
        if unlearned:  # short: the curve has the other numbers
            return f"{_told_from_chance(own, ModelErrorCurve(), noun)}{unlearned}"
        return _told_from_chance(own, points, noun)
    own_point = points.find(count.model_error)
    others = "" if own_point is None else _others(own_point)
    noun = capitalized(counted(count.n_factors, "factor")) + others
    how = learned if count.learned else f"if the model may be off by RMSEA {count.model_error:g}"
    chance = "" if exact is None else f"; {_number(exact)} can be told from chance"
    return f"{noun} {how}{chance}"


def _told_from_chance(exact: CurvePoint, curve: ModelErrorCurve, noun: str) -> str:
    number = exact.n_factors or ("No" if noun else "none")
    text = f"{number}{noun}{_others(exact)} can be told from chance"
    near, far = curve.find(TOLERABLE), curve.find(MORE_TOLERABLE)
    if near is None or exact.n_factors == 0:
        return text
    same = [one for one in (near, far) if one is not None and _others(one) == ""]
    if len(same) == 2 and {one.n_factors for one in same} == {exact.n_factors}:
        return f"{text}, also if the model may be off by RMSEA {MORE_TOLERABLE}"
    text += f"; {_number(near)} if the model may be off by RMSEA {TOLERABLE}"
    if far is None:
        return text
    alike = (near.n_factors, near.tied) == (far.n_factors, far.tied)
    return f"{text} or {MORE_TOLERABLE}" if alike else f"{text}, {_number(far)} at {MORE_TOLERABLE}"


def _number(point: CurvePoint) -> str:
    return f"{point.n_factors or 'none'}{_others(point)}"


def _others(point: CurvePoint) -> str:
    """Numbers that are as good, such as " (or 6, 7)"."""
    return f" (or {', '.join(map(str, point.tied))})" if point.tied else ""


# --- the curve ---


def curve_lines(curve: ModelErrorCurve) -> list[str]:
    """The curve as a table of at most 80 columns, and what is missing of it."""
    lines = []
    if curve.points:
        rows = [
            ("tolerated RMSEA", [f"{one.model_error:g}" for one in curve.points]),
            ("factors", [str(one.n_factors) for one in curve.points]),
        ]
        if any(one.tied for one in curve.points):
            rows.append(("or", [tied_text(one.tied) for one in curve.points]))
        lines = [f"{name:<15}" + "".join(f"{cell:>8}" for cell in cells) for name, cells in rows]
    notes = (textwrap.wrap(note, PAGE_WIDTH) for note in curve_notes(curve))
    return lines + [line for note in notes for line in note]


def tied_text(tied: Sequence[int]) -> str:
    """Tied numbers: those of a range by its ends."""
    if not tied:
        return ""
    listed = ", ".join(map(str, tied))
    in_a_row = tied[-1] - tied[0] == len(tied) - 1 and len(tied) > 2
    return f"{tied[0]}–{tied[-1]}" if in_a_row or len(listed) > TIED_ROOM else listed


def curve_notes(curve: ModelErrorCurve) -> list[str]:
    """Sentences on what is missing of the curve, and on points that do not go together."""
    notes = []
    if curve.rows is not None:
        notes.append(
            "Values are missing: by tolerated RMSEA the numbers are approximate, from correlations "
            f"that are counted as {curve.rows:.0f} complete rows."
        )
    if curve.gap is not None:
        last = f" above {curve.points[-1].model_error:g}" if curve.points else ""
        notes.append(f"Factors by tolerated RMSEA{last}: not available, because {curve.gap_words}.")
    for one, two in curve.rises:
        notes.append(
            f"The number rises from {one.n_factors} at RMSEA {one.model_error:g} to "
            f"{two.n_factors} at {two.model_error:g}: a search missed a solution."
        )
    return notes
