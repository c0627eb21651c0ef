"""How far the work is, on standard error: a line that changes in a terminal, else one now and then.

A log or a pipe gets its first line after `FIRST` seconds, and the next ones at doubled times.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cuspfa._utils.fit_warning_text import MUCH, rounded
from cuspfa.cli.console import Terminal
from cuspfa.data.out_of_core.stream import Progress as Read
from cuspfa.inference.gibbs.chain import GibbsProgress
from cuspfa.inference.variational.progress import Progress as At
from cuspfa.inference.variational.search_settings import SearchSettings

FIRST = 10.0
"""Seconds of work before a log hears of it; most fits are done by then."""
HINT = (
    f"The bound still rises above {SearchSettings.large} factors: there may be no small number of "
    "them. --max-factors and --max-time limit the search; logarithms of counts, differences of "
    "series that wander, or fewer columns may need fewer."
)


class Bar(NamedTuple):
    """Where progress is shown."""

    on_iteration: Callable[[Any], None] | None
    """For an engine; None if nobody looks."""
    on_rows: Callable[[Read], None]
    """For a stream."""
    say: Callable[[str], None]
    """For all else."""


@contextmanager
def progress(quiet: bool = False) -> Iterator[Bar]:
    """In a terminal, what it showed is gone when all is done, but for the hint."""
    console = Terminal(stderr=True)
    if quiet:
        yield Bar(None, lambda _: None, lambda _: None)
    elif not console.is_terminal:
        yield _bar(console, _now_and_then(console))
    else:
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        ) as shown:
            task = shown.add_task("begins", total=None)

            def show(text: Callable[[], str]) -> None:
                shown.update(task, description=text())

            yield _bar(console, show)


def _now_and_then(console: Terminal) -> Callable[[Callable[[], str]], None]:
    """Print a text with the seconds so far, if the next line is due."""
    began = time.monotonic()
    due = FIRST

    def show(text: Callable[[], str]) -> None:
        nonlocal due
        seconds = time.monotonic() - began
        if seconds >= due:
            due = max(2 * due, seconds)
            console.print(f"{text()}; {seconds:.0f} s", markup=False)

    return show


def _bar(console: Terminal, show: Callable[[Callable[[], str]], None]) -> Bar:
    hinted = False

    def on_iteration(at: At | GibbsProgress) -> None:
        nonlocal hinted
        show(lambda: in_words(at))
        if not hinted and isinstance(at, At) and _climbs(at):
            hinted = True
            console.print(textwrap.fill(HINT, min(console.width, 80)), markup=False)

    return Bar(
        on_iteration, lambda at: show(lambda: rows_read(at)), lambda text: show(lambda: text)
    )


def _climbs(at: At) -> bool:
    return at.seconds >= FIRST and at.n_factors > SearchSettings.large and at.rise > MUCH


def in_words(at: At | GibbsProgress) -> str:
    """How far an engine is, in less than 70 letters."""
    if isinstance(at, GibbsProgress):
        return (
            f"chains {at.chains[0] + 1} to {at.chains[1]}: sweep {at.sweep} of {at.n_sweeps}, "
            f"{at.n_factors:.1f} factors"
        )
    if not at.rise > 0:
        best = f" (best {at.best_lower_bound:.1f})"
        return f"K = {at.n_factors}, iteration {at.iteration}, bound {at.lower_bound:.1f}{best}"
    text = f"K = {at.n_factors}, bound {at.lower_bound:.0f}, rising by {rounded(at.rise)} a factor"
    if at.seconds_left >= 1:
        text += f", {at.max_factors} in {rounded(at.seconds_left)} s"
    return text


def rows_read(at: Read) -> str:
    """In words."""
    of = "" if at.n_rows is None else f" of {at.n_rows:,}"
    left = "" if at.seconds_left is None else f", {at.seconds_left:.0f} s left"
    return f"{at.rows:,}{of} rows read, {at.rows_per_second:,.0f} a second{left}"
