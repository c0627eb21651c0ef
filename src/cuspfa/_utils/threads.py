"""BLAS threads: the only process-wide setting that cuspfa touches.

It does so around a fit and around the products with new rows, and puts back what it found.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import LibController, ThreadpoolController

SMALL = 2_000_000
"""Products of this many numbers and fewer are quicker with one thread than with many."""

_lock = threading.Lock()
_holders = 0
_before: list[tuple[LibController, int]] = []
"""Libraries that are limited now, and the threads that each had."""


@contextmanager
def one_blas_thread(size: int) -> Iterator[None]:
    """Limit BLAS to one thread while small matrices are multiplied.

    Many threads make small products several times slower. `size` is the number of entries of the
    matrix that is multiplied again and again; above `SMALL` nothing is limited. Fits may run in
    several threads of one process at once: the first to enter sets the limit, and the last to
    leave restores what was there before.
    """
    global _holders, _before
    if size > SMALL:
        yield
        return
    entered, interrupt = False, None
    try:
        with _lock:
            if _holders == 0 and not _before:
                _before = [(one, one.get_num_threads()) for one in _libraries()]
            # Ctrl-C comes at calls, and there is none between these two.
            _holders += 1
            entered = True
            for library, _ in _before:
                library.set_num_threads(1)
        yield
    finally:
        # Ctrl-C may come here too: what it cuts off is done again, and then it goes on its way.
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
    """The BLAS libraries of this process, looked for once.

    To look takes milliseconds, more than the scores of a row. NumPy's and SciPy's are loaded by
    then, and a library that comes later is none that we call.
    """
    found = ThreadpoolController().select(user_api="blas")
    return list(found.lib_controllers)
