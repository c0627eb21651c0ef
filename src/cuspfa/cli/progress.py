"""Progress on standard error: one line that changes in a terminal, otherwise a few lines.

A log or a pipe gets its first line after `FIRST` seconds, and the next ones at doubled times.
"""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cuspfa._utils.fit_warning import MUCH
from cuspfa._utils.fit_warning_text import rounded
from cuspfa.cli.console import Terminal
from cuspfa.data.out_of_core.stream import ReadingProgress
from cuspfa.inference.gibbs.chain import GibbsProgress
from cuspfa.inference.variational.progress import VariationalProgress
from cuspfa.inference.variational.search_settings import SearchSettings

FIRST = 10.0
"""Seconds before the first line in a log; most fits have ended by then."""
LEAST_WAIT = 0.5
"""Seconds between two checks whether a line is due."""
REDRAWN = 0.1
"""Seconds after which a changed line is drawn in a terminal."""
HINT = (
    f"The bound still rises above {SearchSettings.large} factors: there may be no small number of "
    "them. --max-factors and --max-time limit the search. Logarithms of counts, differences of "
    "random walks, or fewer columns may need fewer factors."
)


class Bar(NamedTuple):
    """Where progress is shown."""

    on_iteration: Callable[[Any], None] | None
    """For an engine; None with --quiet."""
    on_rows: Callable[[ReadingProgress], None]
    """For a stream."""
    say: Callable[[str], None]
    """For other stages of the work."""


@contextmanager
def progress(quiet: bool = False) -> Iterator[Bar]:
    """Show progress. In a terminal its line is removed at the end; the hint stays."""
    console = Terminal(stderr=True)
    if quiet:
        yield Bar(None, lambda _: None, lambda _: None)
    elif not console.is_terminal:
        with _log_lines(console) as show_line:
            yield _bar(console, show_line)
    else:
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        ) as shown:
            task, drawn = shown.add_task("begins", total=None), time.monotonic()

            def show(text: Callable[[], str]) -> None:
                nonlocal drawn
                # On a busy machine the thread that draws the line may come too late.
                late = time.monotonic() - drawn >= REDRAWN
                shown.update(task, description=text(), refresh=late)
                drawn = time.monotonic() if late else drawn

            yield _bar(console, show)


@contextmanager
def _log_lines(console: Terminal) -> Iterator[Callable[[Callable[[], str]], None]]:
    """Print the latest text, with the seconds so far, whenever a line is due.

    A thread checks this too, so that a long stage without iterations is in the log.
    """
    began, due = time.monotonic(), FIRST
    latest: Callable[[], str] | None = None
    lock, over = threading.Lock(), threading.Event()

    def print_if_due() -> None:
        nonlocal due
        with lock:
            seconds = time.monotonic() - began
            if latest is not None and seconds >= due:
                due = max(2 * due, seconds)
                console.print(f"{latest()}; {seconds:.0f} s", markup=False)

    def show(text: Callable[[], str]) -> None:
        nonlocal latest
        latest = text
        print_if_due()

    def watch() -> None:
        while not over.wait(max(due - (time.monotonic() - began), LEAST_WAIT)):
            print_if_due()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield show
    finally:
        over.set()
        thread.join()


def _bar(console: Terminal, show: Callable[[Callable[[], str]], None]) -> Bar:
    hinted = False

    def on_iteration(at: VariationalProgress | GibbsProgress) -> None:
        nonlocal hinted
        show(lambda: iteration_text(at))
        if not hinted and isinstance(at, VariationalProgress) and _bound_rises(at):
            hinted = True
            console.print(textwrap.fill(HINT, min(console.width, 80)), markup=False)

    return Bar(
        on_iteration, lambda at: show(lambda: rows_text(at)), lambda text: show(lambda: text)
    )


def _bound_rises(at: VariationalProgress) -> bool:
    return at.seconds >= FIRST and at.n_factors > SearchSettings.large and at.rise > MUCH


def iteration_text(at: VariationalProgress | GibbsProgress) -> str:
    """Progress of an engine, in less than 70 characters."""
    if isinstance(at, GibbsProgress):
        first, last = at.chains[0] + 1, at.chains[1]
        which = f"chain {first}" if first == last else f"chains {first} to {last}"
        return f"{which}: sweep {at.sweep} of {at.n_sweeps}, {at.n_factors:.1f} factors"
    if not at.rise > 0:
        best = f" (best {at.best_lower_bound:.1f})"
        return f"K = {at.n_factors}, iteration {at.iteration}, bound {at.lower_bound:.1f}{best}"
    text = f"K = {at.n_factors}, bound {at.lower_bound:.0f}, rising by {rounded(at.rise)} a factor"
    if at.seconds_left >= 1:
        text += f", {at.max_factors} in {rounded(at.seconds_left)} s"
    return text


def rows_text(at: ReadingProgress) -> str:
    """Progress of reading."""
    of = "" if at.n_rows is None else f" of {at.n_rows:,}"
    left = "" if at.seconds_left is None else f", {at.seconds_left:.0f} s left"
    return f"{at.rows:,}{of} rows read, {at.rows_per_second:,.0f} a second{left}"
