"""Blocks of code on the pages, what they print, and which of their numbers are Monte Carlo.

A number is compared to the digits shown. If it differs, the block is run again with other random
streams inside the library. A number that does not change with the stream is not a Monte Carlo
value, and is wrong. A number that changes has the standard deviation of those runs as its error,
and may differ by a few errors. So a page need not mark its Monte Carlo values.
"""

import contextlib
import io
import re
import sys
from itertools import zip_longest
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from unittest import mock

import numpy as np

BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
NUMBER = re.compile(r"[-+]?\d+(?:\.(\d*))?")
STREAMS, ERRORS = 12, 5.0
"""Runs with other streams, and the number of their standard deviations by which a value may differ.
With so few runs one value in two thousand differs by more by chance."""


def name_of(page):
    """Its path in the tree: two pages may have the same name."""
    return page.relative_to(Path(__file__).parents[1]).as_posix()


def blocks(page):
    """Code and what it prints, "" where the page does not say."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def run(code, name="page"):
    """What a block prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, name, "exec"), {})
    return out.getvalue()


# --- numbers in a text ---


class Shown(NamedTuple):
    """A text as words with its numbers taken out, and the numbers."""

    words: list[str]
    values: np.ndarray
    units: np.ndarray
    """Of the last digit; 0 for whole numbers, which have no rounding."""


def shown(text):
    found = list(NUMBER.finditer(text))
    finest = max((len(one[1] or "") for one in found), default=0)
    # NumPy prints 0.00 as "0.", so that its digits are those of its neighbours.
    units = [0.0 if one[1] is None else 10.0 ** -(len(one[1]) or finest) for one in found]
    # It also pads numbers within brackets, by how long they are.
    words = re.sub(r"([][])", r" \1 ", NUMBER.sub("#", text)).split()
    return Shown(words, np.array([float(one[0]) for one in found]), np.array(units))


def wrong(said, printed, means=None, errors=0.0):
    """Where two texts differ: words exactly, numbers by more than a unit of the last digit.

    With means and errors of the printed numbers, by more than `ERRORS` errors besides. Whole
    numbers have no error.
    """
    ours, theirs = shown(said), shown(printed)
    if ours.words != theirs.words:
        pairs = zip_longest(ours.words, theirs.words, fillvalue="nothing")
        return next([f"{a} instead of {b}"] for a, b in pairs if a != b)
    unit = np.maximum(ours.units, theirs.units)
    allowed = np.where(unit > 0, 1.01 * unit + ERRORS * np.asarray(errors), 0.0)
    values = theirs.values if means is None else np.where(unit > 0, means, theirs.values)
    far = np.abs(ours.values - values) > allowed
    return [f"{a:g} instead of {b:g}" for a, b in zip(ours.values[far], values[far], strict=True)]


# --- Monte Carlo error ---


@contextlib.contextmanager
def other_streams(key):
    """Random numbers of the library from other streams; not those of data sets or of the page."""
    original = np.random.default_rng

    def default_rng(seed=None):
        frame: FrameType | None = sys._getframe(1)
        inside = frame.f_globals.get("__name__", "").startswith("cuspfa.")
        while inside and frame is not None:
            inside = frame.f_globals.get("__name__") != "cuspfa.datasets"
            frame = frame.f_back
        if not inside or isinstance(seed, np.random.Generator):
            return original(seed)
        if not isinstance(seed, np.random.SeedSequence):
            seed = np.random.SeedSequence(seed)
        spawned = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 19, key))
        return original(spawned)

    with mock.patch.object(np.random, "default_rng", default_rng):
        yield


def by_streams(code, streams=STREAMS):
    """Mean and standard deviation of each number that a block prints, over random streams.

    Only runs that print the most frequent words count, because their numbers correspond. None if
    fewer than half of the runs do. Then the page should print something else.
    """
    texts = []
    for key in range(streams):
        with other_streams(key):
            texts.append(shown(run(code)))
    alike = max(([one for one in texts if one.words == text.words] for text in texts), key=len)
    if 2 * len(alike) < streams:
        return None
    values = np.array([text.values for text in alike])
    moved = np.ptp(values, axis=0) > 0
    return np.where(moved, values.mean(axis=0), values[0]), values.std(axis=0, ddof=1) * moved


def check(code, said, name="page"):
    """What is wrong with the text below a block; an empty list if it is right.

    Words and whole numbers are answers, such as a number of factors, and have no error.
    """
    printed = run(code, name)
    found = wrong(said, printed) if said else []
    if found and shown(said).words == shown(printed).words:
        spread = by_streams(code)
        if spread is None or len(spread[0]) != len(shown(printed).values):
            found.append("no error can be computed: the words depend on the random stream")
        else:
            found = wrong(said, printed, *spread)
    return [*found, f"it prints\n{printed}"] if found else []


# --- new output onto a page ---


def rewrite(page):
    """Put what its blocks print now onto a page, where that is not what it says."""
    text = page.read_text(encoding="utf-8")

    def fresh(block):
        code, said = block.groups()
        if not said or not check(code, said, str(page)):
            return block[0]
        return f"```python\n{code}```\n\n```text\n{run(code, str(page))}```"

    page.write_text(BLOCK.sub(fresh, text), encoding="utf-8")


if __name__ == "__main__":  # python tests/pages.py docs/start.md docs/priors.md
    for name in sys.argv[1:]:
        rewrite(Path(name))
