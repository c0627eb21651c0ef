"""The pages that are open: each has a private folder, a process, and what it shows now."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from cuspfa.app.file_names import FOLDER_PREFIX, stored_as

WORKER = (sys.executable, "-P", "-m", "cuspfa.app.worker")
GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 20)}
"""The C library of Linux gives memory back: otherwise it grows with fits of other sizes."""
LONGEST_LINE = 1 << 28
"""Bytes of a message of a worker."""
AFTER_CLOSING, BEFORE_OPENING = 20.0, 30.0
"""Seconds for which a page is kept that nobody listens to, after its last listener and before its
first: a page that is loaded again keeps its work. If another page needs its place, it is kept for
20 seconds less."""
HEARTBEAT = 5.0
"""Seconds between signs of life, by which a page that was closed is noticed."""
MOST_LISTENERS = 8
TO_END = 20.0
"""Seconds that a job has to end after it was stopped, before its process is killed."""
SHOWN = ("ready", "table", "answer", "report", "busy", "trouble")
"""Parts of a page, in the order in which a page that is loaded again gets them."""


@dataclass(frozen=True)
class PageLimits:
    """What a person may use."""

    pages: int = 4
    """Open at the same time. A browser makes six connections to a host, and each page holds one:
    with six pages none could ask for anything."""
    upload: int = 1 << 28
    """Bytes of a file."""
    seconds: float = 600.0
    """Of one fit."""


class NotWritten(Exception):
    """A file was not written, for a reason that can be told."""


@dataclass
class Session:
    """One page."""

    folder: Path
    limits: PageLimits
    command: Sequence[str] = WORKER
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    process: asyncio.subprocess.Process | None = None
    closed: bool = False

    def __post_init__(self) -> None:
        self._latest: dict[str, str] = {}
        self._listeners: set[asyncio.Queue[tuple[str, str] | None]] = set()
        self._left = time.monotonic() + BEFORE_OPENING - AFTER_CLOSING
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._opened: dict[str, Any] | None = None
        """The job that has opened the table, to be done again by a new process."""
        self._deadline: float | None = None
        self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the process ---

    async def start(self) -> None:
        """Start the process."""
        places = os.pathsep.join(one for one in sys.path if one)
        variables = {**os.environ, "PYTHONPATH": places, "OPENBLAS_NUM_THREADS": "1", **GIVES_BACK}
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            str(self.folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LONGEST_LINE,
            cwd=self.folder,
            env=variables,
            start_new_session=True,  # Ctrl-C in the terminal is for the server
        )
        task = asyncio.create_task(self._read(self.process))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            message = json.loads(line)
            part = message.pop("part")
            if part in ("written", "refused"):
                waiting = self._waiting.pop(message["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
                continue
            if part == "busy" and not message["text"]:
                self._deadline = None
            if part == "table":
                self._forget("answer", "report", "trouble")
            self._show(part, json.dumps(message))
        if not self.closed:
            await self._restart()

    async def _restart(self) -> None:
        """After the process has ended by itself, for lack of memory for instance, or was killed."""
        for one in self._waiting.values():
            if not one.done():
                one.set_result({"text": "The process that wrote the file has ended."})
        self._waiting.clear()
        again, self._opened, self._deadline = self._opened, None, None
        self._forget("answer", "report", "busy", *(() if again else ("table",)))
        await self.start()
        said = "It took too long" if self._stopped else "The process that computes has ended"
        self._stopped = False
        self._show("lost", "{}")
        self._show(
            "trouble", json.dumps({"text": f"{said}. Fit again, with fewer columns or rows."})
        )
        if again is not None:
            self._tell(again)

    def _tell(self, job: dict[str, Any]) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        if not self.process.stdin.is_closing():
            self.process.stdin.write(json.dumps(job).encode() + b"\n")

    # --- jobs ---

    def ask(self, job: dict[str, Any]) -> None:
        """Give a job to the process, whose answers go to the page."""
        if job["do"] != "stop":
            self._forget("trouble")
            self._deadline = time.monotonic() + self.limits.seconds
        if job["do"] in ("open", "example"):
            self._opened = job
        self._tell(job)

    def place_for(self, name: str) -> Path:
        """Where an upload of this name is stored."""
        return self.folder / stored_as(name)

    async def write(self, what: str, asked: dict[str, str]) -> tuple[Path, str]:
        """Have a file written; its place, and what it is called."""
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.ask({"do": "write", "id": number, "what": what, "asked": asked})
        found = await waiting
        if "path" not in found:
            raise NotWritten(found["text"])
        return self.folder / found["path"], found["name"]

    # --- the page ---

    def _show(self, part: str, text: str) -> None:
        if part in SHOWN:
            self._latest[part] = text
        for one in self._listeners:
            one.put_nowait((part, text))

    def _forget(self, *parts: str) -> None:
        for part in parts:
            self._latest.pop(part, None)

    async def events(self) -> AsyncGenerator[str, None]:
        """What the page shows now, and every part that changes, as server-sent events."""
        own: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue()
        for part in SHOWN:
            if part in self._latest:
                own.put_nowait((part, self._latest[part]))
        self._listeners.add(own)
        try:
            limits = json.dumps({"upload": self.limits.upload})
            yield f"retry: 1000\nevent: limits\ndata: {limits}\n\n"
            while not self.closed:
                try:
                    found = await asyncio.wait_for(own.get(), HEARTBEAT)
                except TimeoutError:
                    yield ": here\n\n"
                    continue
                if found is None:
                    break
                yield f"event: {found[0]}\ndata: {found[1]}\n\n"
        finally:
            self._listeners.discard(own)
            self._left = time.monotonic()

    @property
    def is_full(self) -> bool:
        """Do as many listen as may?"""
        return len(self._listeners) >= MOST_LISTENERS

    @property
    def left_for(self) -> float:
        """Seconds for which nobody has listened; negative while a page may still open."""
        return -float("inf") if self._listeners else time.monotonic() - self._left

    @property
    def is_left(self) -> bool:
        """Has the page been closed for some time?"""
        return self.left_for > AFTER_CLOSING

    def check_time(self) -> None:
        """Stop what takes too long; kill it if it does not stop."""
        late = 0.0 if self._deadline is None else time.monotonic() - self._deadline
        if late > TO_END and self.process is not None:
            self._deadline = None
            _kill(self.process)
        elif late > 0 and not self._stopped:
            self._stopped = True
            self._tell({"do": "stop"})
        elif self._deadline is None:
            self._stopped = False

    async def close(self) -> None:
        """End the process and remove the folder."""
        self.closed = True
        for one in self._listeners:
            one.put_nowait(None)
        if self.process is not None:
            _kill(self.process)
            await self.process.wait()
        for task in list(self._tasks):
            task.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)


def _kill(process: asyncio.subprocess.Process) -> None:
    """End a process with those that it has started, such as parsers of workbooks."""
    if process.returncode is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        # macOS does not permit to kill one that has just ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


class Sessions:
    """All pages of a server, in one private folder."""

    def __init__(self, limits: PageLimits, command: Sequence[str] = WORKER) -> None:
        self.limits, self.command = limits, command
        # Folders that `tempfile` makes can be read by their owner only.
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        self._open: dict[str, Session] = {}

    def find(self, id: str) -> Session | None:
        """The page of this name, if it is open."""
        return self._open.get(id)

    async def create(self) -> Session | None:
        """A new page, in the place of the one that was closed first; None if all are open."""
        first = None
        if len(self._open) >= self.limits.pages:
            first = max(self._open.values(), key=lambda one: one.left_for)
            if first.left_for < 0.0:
                return None
            del self._open[first.id]
        session = Session(Path(tempfile.mkdtemp(dir=self.folder)), self.limits, self.command)
        self._open[session.id] = session
        if first is not None:
            await first.close()
        await session.start()
        return session

    async def tend(self) -> None:
        """Close the pages that were left, and stop what takes too long; every second."""
        while True:
            await asyncio.sleep(1.0)
            for session in list(self._open.values()):
                session.check_time()
                # It may have given its place to another, while one before it was closed.
                if session.is_left and self._open.pop(session.id, None) is not None:
                    await session.close()

    async def close(self) -> None:
        """Close all pages and remove all files."""
        while self._open:
            await self._open.popitem()[1].close()
        shutil.rmtree(self.folder, ignore_errors=True)
