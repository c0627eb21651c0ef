"""Figures as SVG elements of a page, whose style sheet sets colours and font."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup
from matplotlib import style
from matplotlib.figure import Figure

FIGURE_WIDTH = 400.0
"""Width in points of a figure beside another."""
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "cuspfa",
    "font.size": 12,
    "axes.labelsize": 12,
    "axes.linewidth": 0,
    "axes.xmargin": 0.02,
    "xtick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "figure.constrained_layout.w_pad": 0.02,
    "figure.constrained_layout.h_pad": 0.02,
}
FURTHER_DECIMALS = re.compile(r"(\d+\.\d\d)\d+")


def as_svg(
    key: str,
    title: str,
    draw: Callable[[Any], object],
    *,
    height: float,
    width: float = FIGURE_WIDTH,
    bare: bool = False,
) -> Markup:
    """The SVG element of a figure that `draw` draws on the axes it is given.

    Parameters
    ----------
    key : str
        Prefix of ids in the figure, different for each figure of a page.
    title : str
        Text for screen readers.
    draw : callable
        Draws on matplotlib Axes.
    height, width : float
        In points.
    bare : bool, default=False
        Let the axes fill the figure, without labels.
    """
    # A report does not depend on the user's matplotlib style, and does not change it.
    with style.context(("default", STYLE)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from")  # the browser has them
        figure = Figure(
            figsize=(width / 72, height / 72), dpi=72, layout=None if bare else "constrained"
        )
        if bare:
            axes = figure.add_axes((0, 0, 1, 1))
            draw(axes)
            axes.set_axis_off()
        else:
            draw(figure.subplots())
        words: dict[str, list[str]] = {}
        for artist in figure.findobj(lambda one: hasattr(one, "described")):
            artist.set_gid(f"described{len(words)}")
            words[f"described{len(words)}"] = getattr(artist, "described")  # noqa: B009
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(file.getvalue(), key, title, words)


def _for_page(text: str, key: str, title: str, words: dict[str, list[str]]) -> Markup:
    """The root element without styles of its own, which the page's policy forbids."""
    root = ElementTree.fromstring(text)
    groups = [(root.find(f".//*[@id='{gid}']"), said) for gid, said in words.items()]
    used = set(re.findall(r'#([\w-]+)[")]', text))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        _clean(element, key, used)
    for group, said in groups:
        if group is None:
            continue
        marks = [*group.iter("use")] or [*group.iter("path")]
        for mark, one in zip(marks, said, strict=True):
            mark.insert(0, ElementTree.Element("title"))
            mark[0].text = one
    box = root.attrib["viewBox"]
    root.attrib = {"class": "figure", "viewBox": box, "role": "img", "aria-label": title}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _clean(element: ElementTree.Element, key: str, used: set[str]) -> None:
    """Turn styles into attributes, prefix ids with the key, and drop what is not needed."""
    element.tag = element.tag.rpartition("}")[2]
    element.tail = None
    if element.tag not in ("text", "tspan"):
        element.text = None
    old, element.attrib = element.attrib, {}
    for name, value in old.items():
        name = name.rpartition("}")[2]
        if name == "id" and value in used:
            element.set(name, f"{key}-{value}")
        elif name == "style":
            for part in filter(None, (one.strip() for one in value.split(";"))):
                setting, _, what = part.partition(":")
                if setting != "font-family":
                    element.set(setting, what.strip())
        elif name in ("d", "x", "y"):
            element.set(name, FURTHER_DECIMALS.sub(r"\1", " ".join(value.split())))
        elif name != "id":
            element.set(name, value.replace("#", f"#{key}-"))
