"""Small figures as SVG: numbers to places, ticks, and marks whose colours the style sheet gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from markupsafe import Markup, escape

from cuspfa._typing import Array

WIDTH = 400
CHARACTER = 7.2
"""Width of a letter of a label, about."""

Scale = Callable[[float], float]


def linear(low: float, high: float, start: float, end: float) -> Scale:
    """From numbers to places."""
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def ticks(low: float, high: float, number: int = 5) -> list[float]:
    """Round numbers from low to high, about so many."""
    span = high - low
    if span <= 0:
        return [low]
    rough = span / number
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def whole_ticks(low: int, high: int, most: int) -> list[int]:
    """Whole numbers, every so many of them."""
    step = max(1, math.ceil((high - low + 1) / most))
    return list(range(low, high + 1, step))


def short(text: str, most: int) -> str:
    """Cut in the middle: names of items often differ at their ends."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


def minus(text: str) -> str:
    """A minus sign where there was a hyphen."""
    return text.replace("-", "−")


class Figure:
    """Marks in the order they were made; text is escaped."""

    def __init__(self, title: str, height: float, width: float = WIDTH) -> None:
        self.title, self.width, self.height = title, width, height
        self.marks: list[Markup] = []

    def add(self, tag: str, kind: str, inside: str = "", title: str = "", **places: float) -> None:
        """A mark of a class, with an optional title that is shown on hover."""
        words = "".join(
            f' {name.rstrip("_").replace("_", "-")}="{_number(value)}"'
            for name, value in places.items()
        )
        body = escape(inside)
        if title:
            body = Markup("<title>{}</title>").format(title) + body
        self.marks.append(
            Markup('<{} class="{}"{}>{}</{}>').format(tag, kind, Markup(words), body, tag)
        )

    def line(self, kind: str, x1: float, y1: float, x2: float, y2: float) -> None:
        """From one place to another."""
        self.add("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)

    def text(self, kind: str, x: float, y: float, words: str, title: str = "") -> None:
        """Words at a place; classes `end` and `middle` say where it is in them."""
        self.add("text", kind, words, title, x=x, y=y)

    def upright(self, words: str, x: float, y: float) -> None:
        """A label that ends at a place and is read from below."""
        self.marks.append(
            Markup(
                '<text class="label end" transform="translate({} {}) rotate(-90)">{}</text>'
            ).format(_number(x), _number(y), words)
        )

    def path(self, kind: str, points: Iterable[tuple[float, float]], close: bool = False) -> None:
        """A line through points."""
        said = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        self.shape(kind, f"M{said}{'z' if close else ''}")

    def shape(self, kind: str, said: str, opacity: float | None = None) -> None:
        """A path as it is written."""
        fill = Markup("") if opacity is None else Markup(' fill-opacity="{}"').format(opacity)
        self.marks.append(Markup('<path class="{}"{} d="{}"/>').format(kind, fill, said))

    def image(self, x: float, y: float, side: float, source: str) -> None:
        """A square picture."""
        self.marks.append(
            Markup('<image class="pixels" x="{}" y="{}" width="{}" height="{}" href="{}"/>').format(
                _number(x), _number(y), _number(side), _number(side), source
            )
        )

    def names(self, rows: Sequence[str], place: Callable[[int], float], end: float) -> None:
        """Labels of rows, shortened to the room on their left."""
        most = max(int((end - 6) / CHARACTER), 3)
        for number, name in enumerate(rows):
            cut = short(name, most)
            self.text("label end", end - 8, place(number) + 4, cut, name if cut != name else "")

    def markup(self, kind: str = "") -> Markup:
        """The element."""
        return Markup(
            '<svg class="figure {}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
        ).format(
            kind,
            _number(self.width),
            _number(self.height),
            self.title,
            Markup("").join(self.marks),
        )


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") or "0"


def room_for(names: Sequence[str], least: float = 40, most: float = 150) -> float:
    """Width that labels need."""
    longest = max((len(name) for name in names), default=0)
    return float(np.clip(longest * CHARACTER + 12, least, most))


def levels(values: Array, limit: float, steps: int = 20) -> Array:
    """Whole numbers from −steps to steps."""
    return np.asarray(np.clip(np.round(values / limit * steps), -steps, steps), dtype=int)
