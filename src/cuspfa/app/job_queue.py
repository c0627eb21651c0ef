"""Jobs for a worker, and the interruption of work that they make superfluous."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

IDLE: dict[str, Any] = {"do": "idle"}
"""What is done while no job is waiting."""
REPLACING, REPLACED = ("open", "example", "fit"), ("open", "example", "fit", "idle")
"""Jobs that end others, and those that they end."""
AGAIN_AFTER = {"stop": 4.0, "newer": 0.3}
"""Seconds after which work that goes on is interrupted again. A fit that is stopped needs time to
return what it has found."""


class JobQueue:
    """Jobs in their order; the main thread takes them, and is interrupted by newer ones."""

    def __init__(self) -> None:
        self.why = ""
        """Why the work was interrupted, "stop" or "newer"; empty if it was not."""
        self._waiting: list[dict[str, Any]] = []
        self._doing: dict[str, Any] | None = None
        self._armed, self._turn = False, 0
        self._lock, self._arrived = threading.Lock(), threading.Event()
        signal.signal(signal.SIGINT, self._on_signal)

    def put(self, job: dict[str, Any]) -> None:
        """Add a job; called by another thread than the one that takes them."""
        do = job["do"]
        with self._lock:
            doing = "" if self._doing is None else self._doing["do"]
            if do in REPLACING or do == "stop":
                gone = REPLACED if do != "fit" else ("fit",)
                self._waiting = [one for one in self._waiting if one["do"] not in gone]
            if do == "stop":
                why = "stop" if doing else ""
            else:
                self._waiting.append(job)
                replaced = do in REPLACING and doing in REPLACED
                # A fit belongs to the table that is being read.
                replaced = replaced and not (do == "fit" and doing in ("open", "example"))
                why = "newer" if replaced or doing == "idle" else ""
            if why:
                self.why = why
                insist = threading.Thread(target=self._insist, args=(self._turn, why), daemon=True)
                insist.start()
            self._arrived.set()

    def take(self, *, idle: bool) -> dict[str, Any]:
        """The next job; with `idle`, `IDLE` if none is waiting, and otherwise wait for it."""
        while True:
            with self._lock:
                if self._waiting or idle:
                    self._doing = self._waiting.pop(0) if self._waiting else IDLE
                    self.why, self._turn = "", self._turn + 1
                    return self._doing
                self._arrived.clear()
            self._arrived.wait()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """The work on what was taken: a KeyboardInterrupt ends it."""
        try:
            self._armed = True
            if self.why:
                raise KeyboardInterrupt
            yield
        finally:
            self._armed = False

    def done(self) -> None:
        """The work on what was taken has ended."""
        with self._lock:
            self._doing = None

    def _insist(self, turn: int, why: str) -> None:
        while self._turn == turn and self._doing is not None:
            _thread.interrupt_main()
            time.sleep(AGAIN_AFTER[why])

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._armed and self.why:
            raise KeyboardInterrupt
