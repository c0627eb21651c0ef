"""BLAS threads: the only process-wide setting that cuspfa touches.

It does so around a fit and around the products with new rows, and puts back what it found.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

SMALL = 2_000_000
"""Products of this many numbers and fewer are quicker with one thread than with many."""

_lock = threading.Lock()
_holders = 0
_limiter: object = None


@contextmanager
def one_blas_thread(size: int) -> Iterator[None]:
    """Limit BLAS to one thread while small matrices are multiplied.

    Many threads make small products several times slower. `size` is the number of entries of the
    matrix that is multiplied again and again; above `SMALL` nothing is limited. Fits may run in
    several threads of one process at once: the first to enter sets the limit, and the last to
    leave restores what was there before.
    """
    global _holders, _limiter
    if size > SMALL:
        yield
        return
    entered = False
    try:
        with _lock:
            if _holders == 0:
                _limiter = _controller().limit(limits=1, user_api="blas")
            # Ctrl-C comes at calls, and there is none between these two.
            _holders += 1
            entered = True
        yield
    finally:
        if entered:
            with _lock:
                _holders -= 1
                if _holders == 0:
                    _limiter.restore_original_limits()  # type: ignore[attr-defined]
                    _limiter = None


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process, looked for once.

    To look takes milliseconds, more than the scores of a row. NumPy's and SciPy's are loaded by
    then, and a library that comes later is none that we call.
    """
    return ThreadpoolController()
