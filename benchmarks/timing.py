"""Processor seconds of a call, and peak memory of a call in a process of its own.

All timed work runs in one thread, where processor time is what a clock would show on an idle
machine; other work beside it does not count.
"""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def seconds(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def median_seconds(call: Callable[[], Any], repeats: int) -> float:
    return float(np.median([seconds(call) for _ in range(repeats)]))


def interleaved(calls: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Median seconds of each call, taken in turns so that other work slows all alike."""
    times = [[seconds(call) for call in calls] for _ in range(repeats)]
    return [float(value) for value in np.median(times, axis=0)]


def peak_bytes(call: Callable[[np.ndarray], Any], path: str) -> int:
    """Growth of the peak resident memory while `call` works on the array stored at `path`.

    The array is read from a file, so that making it does not raise the peak beforehand.
    """
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak, (call, path))


def _peak(call: Callable[[np.ndarray], Any], path: str) -> int:
    data = np.load(path)
    call(data[:, :50].copy())  # loads what is loaded on first use
    # ru_maxrss would begin at the parent's size, which a child inherits; VmHWM is its own.
    Path("/proc/self/clear_refs").write_text("5")
    before = high_water()
    call(data)
    return high_water() - before


def high_water() -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])
