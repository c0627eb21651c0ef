"""`cuspfa app` in a browser: how soon a change is drawn, and whether memory grows with fits."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from benchmarks.browser import (
    CHOOSE,
    HAS_REPORT,
    TICK,
    TICK_ALL,
    Browser,
    bfi_as_csv,
    page,
    processes_under,
    resident_bytes,
    until_idle,
)
from benchmarks.record import row, save

SOON, SOON_WITH_COLUMNS = 200.0, 500.0
"""Milliseconds until a change is drawn."""
CHANGES = {
    "rotation": ("varimax", "promax", "quartimax", "oblimin"),
    "number of factors": ("11", "10", "5", ""),
    "tolerated error": ("0.05", "0.025", "0.1", "0.0"),
    "columns": ("O4", "N1", "A1", "C2"),
}
NAMES = {"rotation": "rotation", "number of factors": "n_factors", "tolerated error": "model_error"}
GROWTH, FIRST, LAST = 0.05, 10, 50
SCRIPT = "script in the browser"


def milliseconds(browser: Browser, *, rested: bool, worker: int) -> dict[str, list[float]]:
    """Times of all changes, each after the report; or after all that is fitted in advance."""
    found: dict[str, list[float]] = {}
    for what, values in CHANGES.items():
        for value in values:
            if rested:
                until_idle(worker)
            if what == "columns":
                taken = browser.change(TICK, value)
            else:
                taken = browser.change(CHOOSE, NAMES[what], value)
            found.setdefault(what, []).append(taken)
            browser.until(HAS_REPORT)
    return found


def sizes_of(browser: Browser, server: int, worker: int) -> dict[str, int]:
    """Bytes of the processes, and of what the page's script holds."""
    until_idle(worker)
    browser.command("HeapProfiler.collectGarbage")
    heap = browser.command("Runtime.getHeapUsage")["usedSize"]
    return {
        "process of the page": resident_bytes(worker),
        "server": resident_bytes(server),
        SCRIPT: int(heap),
    }


def grown() -> dict[str, tuple[int, int]]:
    """Memory after the tenth fit and after the fiftieth, all with other settings but these two.

    They have the same, so that the page shows the same.
    """
    with page() as (browser, server):
        browser.drop(bfi_as_csv())
        browser.fit()
        worker = processes_under(server)[0]
        found = {}
        for number in range(2, LAST + 1):
            if number in (FIRST, LAST):
                browser.run(TICK_ALL)
                browser.change(CHOOSE, "n_factors", "3")
            elif number % 3:
                browser.change(CHOOSE, "n_factors", str(2 + number % 11))
            else:
                browser.change(TICK, f"{'ACENO'[number % 5]}{1 + number // 3 % 5}")
            browser.until(HAS_REPORT)
            if number in (FIRST, LAST):
                found[number] = sizes_of(browser, server, worker)
        return {what: (size, found[LAST][what]) for what, size in found[FIRST].items()}


def app() -> list[dict[str, Any]]:
    began = time.perf_counter()
    load, rows, details = os.getloadavg()[0], [], []
    for rested in (False, True):
        with page() as (browser, server):
            browser.drop(bfi_as_csv())
            browser.fit()
            worker = processes_under(server)[0]
            times = milliseconds(browser, rested=rested, worker=worker)
        when = "fitted in advance" if rested else "at once"
        details.append({"rested": rested, "milliseconds": times})
        for what, taken in times.items():
            limit = SOON_WITH_COLUMNS if what == "columns" else SOON
            rows.append(
                row(
                    f"bfi, change of {what}, {when}",
                    f"{max(taken):.0f} ms",
                    f"median {np.median(taken):.0f} ms of {len(taken)} changes",
                    f"≤ {limit:.0f} ms",
                    max(taken) <= limit,
                )
            )
    for what, (first, last) in grown().items():
        of_program = what != SCRIPT
        rows.append(
            row(
                f"memory after {LAST} fits, {what}",
                f"{last / 1e6:.2f} MB: {100 * (last / first - 1):+.1f} %",
                f"after {FIRST} fits: {first / 1e6:.2f} MB",
                f"< {100 * GROWTH:+.0f} %" if of_program else None,
                last < (1 + GROWTH) * first,
            )
        )
    return save(
        "app",
        "The page of cuspfa app: time until a change is drawn, and memory",
        rows,
        notes=[
            "Measured in Chromium without a window, by a clock, from the change to the frame after "
            "the new answer was drawn: the slowest change of its kind. *At once* is as soon as the "
            "report is there, *fitted in advance* when the page has done what it does while nobody "
            "asks for anything. A change of columns includes 30 ms in which the page "
            "waits for further ticks.",
            "Memory is that of a process which no other shares. Each fit has other settings, and "
            "its report is made; the tenth and the fiftieth have the same. Of the script in the "
            "browser, it is the heap after garbage was collected, in which the browser also keeps "
            "each command of this measurement.",
            f"2800 people with missing values. Load of the machine when it began: {load:.1f}, by "
            f"other programs; nice value of this one {os.getpriority(os.PRIO_PROCESS, 0)}.",
        ],
        began=began,
        details=details,
    )
