"""Quantiles of draws that are sorted already: several times quicker than those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuspfa._typing import Array
from cuspfa._utils.arguments import must_be


def tails(prob: Any) -> list[float]:
    """Lower and upper tail of a central interval of this probability."""
    if isinstance(prob, bool) or not isinstance(prob, (int, float, np.number)):
        raise must_be("prob", "a number between 0 and 1", prob)
    if not 0.0 < prob < 1.0:
        raise must_be("prob", "between 0 and 1", prob)
    return [(1 - float(prob)) / 2, (1 + float(prob)) / 2]


def sorted_quantiles(ordered: NDArray[Any], at: list[float]) -> Array:
    """Along the last axis, which is sorted; linearly interpolated."""
    last = ordered.shape[-1] - 1
    ends = []
    for tail in at:
        low = int(tail * last)
        high = min(low + 1, last)
        share = tail * last - low
        ends.append(ordered[..., low] + share * (ordered[..., high] - ordered[..., low]))
    return np.array(ends, dtype=float)
