"""How far the work is, on standard error, if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cuspfa.cli.console import Terminal
from cuspfa.data.streams import Progress as Read
from cuspfa.gibbs.chain import GibbsProgress
from cuspfa.variational.search import Progress as At


class Bar(NamedTuple):
    """Where progress is shown."""

    on_cycle: Callable[[Any], None] | None
    """For an engine; None if nobody looks."""
    on_rows: Callable[[Read], None]
    """For a stream."""
    say: Callable[[str], None]
    """For all else."""


@contextmanager
def progress(quiet: bool = False) -> Iterator[Bar]:
    """What it showed is gone when all is done."""
    console = Terminal(stderr=True)
    if quiet or not console.is_terminal:
        yield Bar(None, lambda _: None, lambda _: None)
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("begins", total=None)

        def say(text: str) -> None:
            bar.update(task, description=text)

        def on_cycle(at: At | GibbsProgress) -> None:
            if not isinstance(at, GibbsProgress):
                say(
                    f"K = {at.n_factors}, cycle {at.cycle}, bound {at.lower_bound:.1f} "
                    f"(best {at.best_lower_bound:.1f})"
                )
            elif at.sweep % 20 == 0:
                say(
                    f"chains {at.chains[0] + 1} to {at.chains[1]}: sweep {at.sweep} of "
                    f"{at.n_sweeps}, {at.n_factors:.1f} factors"
                )

        yield Bar(on_cycle, lambda at: say(rows_read(at)), say)


def rows_read(at: Read) -> str:
    """In words."""
    of = "" if at.n_rows is None else f" of {at.n_rows:,}"
    left = "" if at.seconds_left is None else f", {at.seconds_left:.0f} s left"
    return f"{at.rows:,}{of} rows read, {at.rows_per_second:,.0f} a second{left}"
