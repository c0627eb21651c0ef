"""Answers in words, such as "strongly agree", as ordered categories: which words, in which order.

A column of words becomes numbers by one of three rules: an order that the user gives, numbers in
front of the words ("2 - moderately true"), or a known scale. The words of a known scale that occur
in any column of the table are numbered from 1 on, in the order of the scale. Words of one line of a
scale are taken as equal; where two of them occur, the order is not known and no rule applies.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from cuspfa._utils.arguments import must_be
from cuspfa._utils.optional import needed
from cuspfa.data.tables.cells import MissingCodes, clean, is_missing
from cuspfa.data.tables.labels import ColumnLabels, ValueLabel
from cuspfa.data.tables.notes import Note

MOST_CATEGORIES = 12
"""Different words from which on a column is text."""


def _both_sides(disagree: str, agree: str, middle: str) -> list[str]:
    """A scale with two sides: the same degrees of two words, and what is between them."""
    degrees = [
        "strongly X/completely X/totally X/extremely X/X strongly/X completely/fully X/"
        "definitely X/X a lot/absolutely X",
        "very X/X very much",
        "X/mostly X/moderately X/X moderately/X mostly",
        "somewhat X/slightly X/X somewhat/X slightly/X a little/rather X/tend to X/a little X/"
        "partly X/probably X",
    ]
    low = [one.replace("X", disagree) for one in degrees]
    high = [one.replace("X", agree) for one in reversed(degrees)]
    between = f"neutral/undecided/neither/not sure/unsure/neither {agree} nor {disagree}/"
    return [*low, f"{between}neither {disagree} nor {agree}{middle}", *high]


SCALES: dict[str, list[str]] = {
    "agreement": _both_sides("disagree", "agree", "/neither agree or disagree/no opinion"),
    "accuracy": _both_sides("inaccurate", "accurate", ""),
    "likelihood": _both_sides("unlikely", "likely", ""),
    "satisfaction": _both_sides("dissatisfied", "satisfied", ""),
    "importance": [
        "not at all important/not important/unimportant",
        "slightly important/of little importance",
        "somewhat important/moderately important",
        "important",
        "very important",
        "extremely important",
    ],
    "frequency": [
        "never/not at all/none of the time",
        "almost never/hardly ever/very rarely/very seldom",
        "rarely/seldom/a little of the time",
        "sometimes/occasionally/some of the time/about half the time/from time to time",
        "often/frequently/fairly often/regularly/a good bit of the time",
        "very often/very frequently/usually/most of the time",
        "almost always/nearly always",
        "always/all of the time/all the time",
    ],
    "days": [
        "not at all",
        "several days",
        "more than half the days",
        "nearly every day",
    ],
    "degree": [
        "not at all",
        "a little/slightly/a little bit/very little/a bit",
        "somewhat/moderately/a moderate amount/to some extent",
        "quite a bit/a lot/very/mostly/quite a lot/considerably",
        "extremely/a great deal/very much/completely/to a great extent",
    ],
    "truth": [
        "not at all true/very untrue/completely false/not at all true of me/very untrue of me",
        "not true/untrue/false/mostly false/untrue of me/not true of me",
        "hardly true/slightly true/slightly true of me/somewhat untrue/somewhat untrue of me",
        "somewhat true/moderately true/somewhat true of me/moderately true of me",
        "mostly true/true/true of me/mostly true of me",
        "exactly true/very true/completely true/certainly true/very true of me/"
        "completely true of me/extremely true of me",
    ],
    "quality": [
        "very poor/very bad/terrible",
        "poor/bad",
        "fair/average/acceptable/ok/okay",
        "good",
        "very good",
        "excellent",
    ],
    "amount": [
        "far too little/much too little",
        "too little/not enough",
        "about right/just right/the right amount",
        "too much",
        "far too much/much too much",
    ],
    "yes": ["no", "yes"],
}
"""Known scales, from low to high. Words between slashes have the same place."""
_RANKS = {
    scale: {word: rank for rank, line in enumerate(lines) for word in line.split("/")}
    for scale, lines in SCALES.items()
}
_NUMBERED = re.compile(
    r"\(?(-?\d{1,3})\)?\s*[-–—:=.)]?\s*(?P<word>[^\W\d_].*)"  # 2 - true, 2: true, (2) true, 2 true
    r"|(-?\d{1,3})\s*[(\[](?P<inside>[^\W\d_][^)\]]*)[)\]]"  # 2 (true)
    r"|(-?\d{1,3})"
)


@dataclass(frozen=True)
class Answers:
    """Columns of words that became numbers.

    Parameters
    ----------
    rule : str
        Why: "order", "numbered" or the name of a known scale.
    columns : tuple of str
        Names of the columns.
    words : tuple of ValueLabel
        The number of each word.
    """

    rule: str
    columns: tuple[str, ...]
    words: tuple[ValueLabel, ...]

    @property
    def note(self) -> Note:
        """What was done, to be shown."""
        if self.rule == "numbered":
            shown = ", ".join(repr(word) for _, word in self.words)
            return Note("numbered", self.columns, detail=shown)
        shown = ", ".join(f"{value:g} = {word}" for value, word in self.words)
        return Note("ordered" if self.rule == "order" else "answers", self.columns, detail=shown)


def as_order(order: Any, label: str = "order") -> tuple[tuple[str, ...], ...]:
    """Orders of words as the user gives them: a text with commas, a list of words, or lists."""
    if order is None:
        return ()
    if isinstance(order, str):
        order = [order.split(",")]
    given = list(order)
    if given and all(isinstance(one, str) for one in given):
        given = [one.split(",") for one in given] if any("," in one for one in given) else [given]
    found = tuple(tuple(clean(str(word)) for word in one if str(word).strip()) for one in given)
    for one in found:
        if len({plain_word(word) for word in one}) < max(len(one), 2):
            raise must_be(label, "different words from low to high, at least two", list(one))
    return found


def plain_word(cell: str) -> str:
    """A word for comparison: small letters, one kind of quote, no outer punctuation."""
    text = clean(cell).lower().replace("’", "'").replace("‐", "-").replace("_", " ")
    return " ".join(text.strip(" .!:;\"'").split())


class FoundAnswers(NamedTuple):
    """What the rules say of the columns of text."""

    answers: list[Answers]
    undecided: dict[str, str]
    """Columns that look like answers, whose order is not known: the word that is in no scale with
    the others, or an empty text if there is none."""


def find_answers(
    columns: Mapping[str, Iterable[str | None]],
    order: Sequence[Sequence[str]],
    missing: MissingCodes,
    known: Sequence[Answers] = (),
) -> FoundAnswers:
    """The columns whose words become numbers; `columns` has the different cells of text columns.

    `known` are those of an earlier fit, which come before all rules.
    """
    words = {
        name: {
            plain_word(cell): clean(cell)
            for cell in cells
            if cell is not None and not is_missing(cell) and not missing.takes(None, cell)
        }
        for name, cells in columns.items()
    }
    found: list[Answers] = []
    scales: dict[str, list[str]] = {}
    for name, own in words.items():
        before = next((one for one in known if name in one.columns), None)
        if before is not None:
            found.append(Answers(before.rule, (name,), before.words))
            continue
        if not own:
            continue
        given = next((one for one in order if own.keys() <= set(map(plain_word, one))), None)
        if given is not None:
            numbers = tuple(ValueLabel(float(k), word) for k, word in enumerate(given, 1))
            found.append(Answers("order", (name,), numbers))
        elif 2 <= len(own) <= MOST_CATEGORIES:
            numbered = _numbered(own.values())
            scale = _scale(own)
            if numbered is not None:
                found.append(Answers("numbered", (name,), numbered))
            elif scale is not None:
                scales.setdefault(scale, []).append(name)
    for scale, names in scales.items():
        found += _of_scale(scale, {name: words[name] for name in names})
    answers = _joined(found, list(columns))
    decided = {name for one in answers for name in one.columns}
    return FoundAnswers(answers, _undecided(words, decided, order))


def _undecided(
    words: Mapping[str, Mapping[str, str]], decided: set[str], order: Sequence[Sequence[str]]
) -> dict[str, str]:
    """Columns with words of a known scale, or with the same few words as another column.

    One word may be in addition, such as a misspelt one.
    """
    few = {name: own for name, own in words.items() if 2 < len(own) <= MOST_CATEGORIES}
    times = Counter(frozenset(own) for own in few.values())
    scales = [{plain_word(word) for word in one} for one in order]
    scales += [set(ranks) for ranks in _RANKS.values()]
    found = {}
    for name, own in few.items():
        if name in decided:
            continue
        if times[frozenset(own)] > 1 or any(own.keys() <= one for one in scales):
            found[name] = ""
            continue
        others = [set(other) for other in times if not own.keys() <= other]
        rest = (own.keys() - one for one in [*scales, *others])
        odd = next((one for one in rest if len(one) == 1), None)
        if odd is not None:
            found[name] = own[odd.pop()]
    return found


def _numbered(cells: Iterable[str]) -> tuple[ValueLabel, ...] | None:
    """The numbers before words, or None: each number has one word, and some have."""
    found: dict[float, str] = {}
    with_word = False
    for cell in cells:
        match = _NUMBERED.fullmatch(cell)
        if match is None:
            return None
        number = float(next(part for part in match.group(1, 3, 5) if part is not None))
        if number in found:
            return None
        found[number] = cell
        with_word = with_word or bool(match["word"] or match["inside"])
    if not with_word:  # plain numbers, with blanks among them
        return None
    return tuple(ValueLabel(number, found[number]) for number in sorted(found))


def _scale(own: Mapping[str, str]) -> str | None:
    """The known scale that has all words; None if there is none, or if several differ."""
    if own.keys() <= {"true", "false"}:  # truth values
        return None
    fits = [scale for scale, ranks in _RANKS.items() if own.keys() <= ranks.keys()]
    orders = {tuple(sorted(own, key=lambda w: (_RANKS[scale][w], w))) for scale in fits}
    return fits[0] if len(orders) == 1 else None


def _of_scale(scale: str, words: Mapping[str, Mapping[str, str]]) -> list[Answers]:
    """Columns with words of one scale, numbered alike; none where two words have one place."""
    shown = {word: cell for own in [*words.values()][::-1] for word, cell in own.items()}
    ranks = _RANKS[scale]
    ordered = sorted(shown, key=lambda word: ranks[word])
    if len({ranks[word] for word in ordered}) < len(ordered):
        if len(words) == 1:
            return []
        # Columns of another wording are numbered by themselves.
        return [one for name, own in words.items() for one in _of_scale(scale, {name: own})]
    numbers = tuple(ValueLabel(float(k), shown[word]) for k, word in enumerate(ordered, 1))
    return [Answers(scale, tuple(words), numbers)]


def _joined(found: Sequence[Answers], names: list[str]) -> list[Answers]:
    """Columns with the same words and numbers together, in the order of the table."""
    groups: dict[tuple[str, tuple[ValueLabel, ...]], list[str]] = {}
    for one in found:
        groups.setdefault((one.rule, one.words), []).extend(one.columns)
    return [
        Answers(rule, tuple(sorted(columns, key=names.index)), words)
        for (rule, words), columns in groups.items()
    ]


def as_numbers(cells: Any, answers: Answers) -> Any:
    """An Arrow column of words as text of numbers; cells that are no such words stay."""
    pyarrow = needed("pyarrow", "Reading tables", "files")
    numbers = {plain_word(word): f"{value:g}" for value, word in answers.words}
    if pyarrow.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    known = {
        cell: cell if cell is None else numbers.get(plain_word(cell), cell)
        for cell in cells.unique().to_pylist()
    }
    return pyarrow.array([known[cell] for cell in cells.to_pylist()], pyarrow.string())


def different_cells(cells: Any) -> list[str | None] | None:
    """The different cells of an Arrow column of text, if they are few; None for other columns."""
    types = needed("pyarrow", "Reading tables", "files").types
    kind = cells.type.value_type if types.is_dictionary(cells.type) else cells.type
    if not (types.is_string(kind) or types.is_large_string(kind)):
        return None
    found = cells.unique()
    return list(found.to_pylist()) if len(found) <= 4 * MOST_CATEGORIES else None


def with_value_labels(
    labels: Sequence[ColumnLabels], answers: Sequence[Answers]
) -> list[ColumnLabels]:
    """Labels with the words of answers as labels of their numbers."""
    known = {one.name: one for one in labels}
    for one in answers:
        for name in one.columns:
            own = known.get(name, ColumnLabels(name))
            known[name] = replace(own, values=one.words)
    return list(known.values())
