"""BLAS threads: the only process-wide setting that cuspfa changes.

They are limited during a fit and during products with new rows, and restored afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import LibController, ThreadpoolController

ONE_THREAD_SIZE = 2_000_000
"""Products of up to so many numbers are quicker with one thread than with many."""

_lock = threading.Lock()
_holders = 0
_before: list[tuple[LibController, int]] = []
"""Libraries that are limited now, with the number of threads that each had."""


@contextmanager
def one_blas_thread(size: int) -> Iterator[None]:
    """Limit BLAS to one thread while small matrices are multiplied.

    Many threads make small products several times slower. `size` is the number of entries of the
    matrix that is multiplied again and again; above `ONE_THREAD_SIZE` nothing is limited. Fits may
    run in several threads of one process at once: the first to enter sets the limit, and the last
    to leave restores the threads that were found.
    """
    global _holders, _before
    if size > ONE_THREAD_SIZE:
        yield
        return
    entered, interrupt = False, None
    try:
        with _lock:
            if _holders == 0 and not _before:
                _before = [(one, one.get_num_threads()) for one in _libraries()]
            # An interrupt is raised at calls, and there is none between these two lines.
            _holders += 1
            entered = True
            for library, _ in _before:
                library.set_num_threads(1)
        yield
    finally:
        # An interrupt here is raised again after the threads are restored.
        while True:
            try:
                with _lock:
                    if entered:
                        _holders -= 1
                        entered = False
                    if _holders == 0:
                        for library, threads in _before:
                            library.set_num_threads(threads)
                        _before = []
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


@cache
def _libraries() -> list[LibController]:
    """The BLAS libraries of this process.

    The search for them takes milliseconds, more than the scores of a row, so it is done once. Those
    of NumPy and SciPy are loaded by then; cuspfa calls no other.
    """
    found = ThreadpoolController().select(user_api="blas")
    return list(found.lib_controllers)
