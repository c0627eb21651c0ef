"""What a callback receives during a search, and the exceptions that end a search early."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cuspfa.inference.variational.run import Run, Status


class VariationalProgress(NamedTuple):
    """The argument of a callback, after each iteration."""

    n_factors: int
    iteration: int
    lower_bound: float
    best_lower_bound: float
    max_factors: int
    """The most that the search tries."""
    rise: float
    """Nats that a further factor added lately; NaN unless the most factors so far are best."""
    seconds: float
    """Since the search began."""
    seconds_left: float
    """Until `max_factors` at the present pace, and not beyond `max_time`; NaN where `rise` is."""


VariationalCallback = Callable[[VariationalProgress], None]


class SearchStopped(Exception):
    """The search ends with what it has found."""


class SearchInterrupted(SearchStopped):
    """Ctrl-C ended the search."""


class SearchTimeout(SearchStopped):
    """`max_time` ended the search."""


def raise_if_stopped(run: Run) -> None:
    """Raise `SearchInterrupted` or `SearchTimeout` if the run ended so."""
    if run.status is Status.INTERRUPTED:
        raise SearchInterrupted
    if run.status is Status.OUT_OF_TIME:
        raise SearchTimeout
