"""The clock of a search: what a callback is told, the outlook, and what ends a search early."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cuspfa.inference.variational.run import Run, Status


class Progress(NamedTuple):
    """What a callback is told after each iteration."""

    n_factors: int
    iteration: int
    lower_bound: float
    best_lower_bound: float
    max_factors: int
    """The most that the search would try."""
    rise: float
    """Nats that a further factor has added lately; NaN unless the most factors so far are best."""
    seconds: float
    """Since the search began."""
    seconds_left: float
    """Until `max_factors` at the present pace, and not beyond `max_time`; NaN where `rise` is."""


Callback = Callable[[Progress], None]


class Point(NamedTuple):
    """What was found for one K."""

    lower_bound: float
    n_iter: int
    """Iterations of all its runs."""
    status: Status
    """How its best run ended."""
    seconds: float
    """From the start of the search until it was first tried."""


class Stopped(Exception):
    """The search ends with what it has."""


class Interrupted(Stopped):
    """By Ctrl-C."""


class OutOfTime(Stopped):
    """By `max_time`."""


def stop_if_stopped(done: Run) -> None:
    """Raise what ends the search, if that run was ended from without."""
    if done.status is Status.INTERRUPTED:
        raise Interrupted
    if done.status is Status.OUT_OF_TIME:
        raise OutOfTime


def climb(curve: Mapping[int, Point], look_back: float) -> tuple[float, float]:
    """Nats and seconds per factor up to the best K if none above it was tried; or NaN.

    Measured over the part `look_back` of K, or two factors. Runs that were given up do not count.
    """
    if not curve:
        return math.nan, math.nan
    top = max(curve, key=lambda k: curve[k].lower_bound)
    below = [
        k for k, point in sorted(curve.items()) if k < top - 1 and point.status is not Status.PRUNED
    ]
    if max(curve) > top or not below:
        return math.nan, math.nan
    far = [k for k in below if top - k >= look_back * top]
    start = far[-1] if far else below[0]
    here, there = curve[top], curve[start]
    rise = (here.lower_bound - there.lower_bound) / (top - start)
    return rise, (here.seconds - there.seconds) / (top - start)


def outlook(
    curve: Mapping[int, Point], look_back: float, max_factors: int, seconds_to_deadline: float
) -> tuple[float, float]:
    """How the bound rises per factor, and seconds to `max_factors` at the present pace."""
    rise, pace = climb(curve, look_back)
    if math.isnan(rise):
        return math.nan, math.nan
    top = max(curve, key=lambda k: curve[k].lower_bound)
    return rise, min(pace * (max_factors - top), max(seconds_to_deadline, 0.0))
