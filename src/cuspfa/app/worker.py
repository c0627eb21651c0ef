"""The process behind one page: jobs come in by lines of JSON, and parts of the page go out.

It runs as `python -m cuspfa.app.worker FOLDER`. It does one thing at a time. What a newer job makes
superfluous is interrupted, as is a fit that is stopped; while nothing is asked for it goes on with
the report and with fits that may be asked for next. When its input ends it removes the folder.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from cuspfa.app.analysis import (
    Analysis,
    StoppedEarly,
    open_example,
    open_fit,
    open_table,
    settings_of_fit,
)
from cuspfa.app.analysis_file import is_analysis, read_analysis
from cuspfa.app.file_names import FOLDER_PREFIX, shown_name, stored_as
from cuspfa.app.job_queue import JobQueue
from cuspfa.app.output_files import write_output
from cuspfa.app.page_settings import ROTATIONS, PageSettings, checked_settings
from cuspfa.app.views import answer_part, report_part, table_part
from cuspfa.cli.progress import iteration_text
from cuspfa.data.tables.reader import is_saved_fit
from cuspfa.datasets import simulate
from cuspfa.errors import CuspError, InputError
from cuspfa.estimator.factor_analysis import CuspFactorAnalysis
from cuspfa.posterior.base import Posterior
from cuspfa.posterior.error_curve import TOLERATED

QUICK_FIT, LIVE_FIT = 3.0, 1.0
"""Seconds of a fit up to which others are made in advance, and those with other tolerated errors
even before the report: each goes on from the one before."""
NEAR_NUMBERS = (1, -1, 2, -2)
"""Other numbers of factors that are fitted in advance, by their distance."""
SECONDS_BETWEEN_MESSAGES = 0.15
"""Seconds between two messages on progress."""
FIRST_READ = 64
"""Bytes that tell what a file is."""
Send = Callable[[str, dict[str, Any]], None]


class Worker:
    """An analysis, the answer that the page shows, and what is still to be done for it."""

    def __init__(self, folder: Path, jobs: JobQueue, send: Send) -> None:
        self.folder, self.jobs, self.send = folder, jobs, send
        self.analysis: Analysis | None = None
        self.settings = PageSettings()
        self.posterior: Posterior | None = None
        self.seconds = 0.0
        """Of the last fit that was not known before."""
        self.steps: list[Callable[[], None]] = [_warm_up]
        """What is done while no job is waiting."""

    def run(self) -> None:
        """Do jobs until the process ends."""
        self.send("ready", {})
        while True:
            job = self.jobs.take(idle=bool(self.steps))
            try:
                with self.jobs.interruptible():
                    self._do(job)
            except KeyboardInterrupt:
                self._interrupted(job)
            except Exception as error:
                self._failed(job, error)
            self.jobs.done()
            if not self.steps:
                self.send("busy", {"text": ""})

    # --- jobs ---

    def _do(self, job: dict[str, Any]) -> None:
        do = job["do"]
        if do == "idle":
            self.steps[0]()
            self.steps.pop(0)
        elif do in ("open", "example"):
            self.send("busy", {"text": "Reading the file", "can_stop": True})
            self._open(job)
        elif do == "fit":
            self._fit(checked_settings(job["settings"]))
        else:
            self._write(job)

    def _interrupted(self, job: dict[str, Any]) -> None:
        if self.jobs.why == "newer":
            return  # a step that was not finished is done after the newer job
        if job["do"] == "idle":
            self.steps = []
        elif job["do"] == "write":
            self.send("refused", {"id": job["id"], "text": "Stopped."})
        else:
            self.send("trouble", {"text": "Stopped. What was shown before is still shown."})

    def _failed(self, job: dict[str, Any], error: Exception) -> None:
        if job["do"] == "idle":
            self.steps.pop(0)
        said = self._told(error, str(job.get("path", "")), str(job.get("name", "")))
        if job["do"] == "write":
            self.send("refused", {"id": job["id"], "text": said})
        else:
            self.send("trouble", {"text": said})

    def _told(self, error: Exception, path: str, name: str) -> str:
        """The message of an error, in which a file has its name and not its path."""
        if isinstance(error, MemoryError):
            return "There is not enough memory for this."
        said = " ".join(str(error).split())
        for one in (str(self.folder / path) if path else "", str(self.folder)):
            said = said.replace(one, name) if one else said
        if isinstance(error, (CuspError, OSError, ImportError)):
            return said
        return f"Unexpected {type(error).__name__}: {said} (a defect)"

    def _open(self, job: dict[str, Any]) -> None:
        if job["do"] == "example":
            self._show(open_example(), None)
            return
        path, name = self.folder / job["path"], job["name"]
        with path.open("rb") as file:
            first = file.read(FIRST_READ)
        if is_analysis(first):
            self._open_analysis(path, name)
        elif is_saved_fit(first):
            self._show_fit(open_fit(path, name))
        else:
            self._show(open_table(path, name, job["missing"]), None)

    def _open_analysis(self, path: Path, name: str) -> None:
        saved = read_analysis(path)
        if saved.fit is not None:
            inside = path.with_name("opened.cusp")
            inside.write_bytes(saved.fit)
            self._show_fit(open_fit(inside, name))
        elif saved.table is None:
            self._show(open_example(), saved.settings)
        else:
            name = shown_name(saved.name)
            inside = path.with_name(f"inside-{stored_as(name)}")
            inside.write_bytes(saved.table)
            self._show(open_table(inside, name, saved.missing), saved.settings)

    def _show(self, analysis: Analysis, settings: PageSettings | None) -> None:
        """A new table; with settings, fitted at once."""
        ready = settings or PageSettings(analysis.usual)
        self.analysis, self.posterior, self.steps = analysis, None, []
        self.settings = ready
        self.send("table", table_part(analysis, ready))
        if settings is not None:
            self._fit(ready)

    def _show_fit(self, analysis: Analysis) -> None:
        assert analysis.loaded is not None
        self._show(analysis, settings_of_fit(analysis.loaded))

    # --- answers ---

    def _fit(self, settings: PageSettings) -> None:
        if self.analysis is None:
            raise InputError("Open a file first.")
        self.steps = []
        self.settings = settings
        began, told = time.perf_counter(), 0.0

        def on_iteration(at: Any) -> None:
            nonlocal told
            if time.perf_counter() - told > SECONDS_BETWEEN_MESSAGES:
                told = time.perf_counter()
                self.send("busy", {"text": f"Fitting: {iteration_text(at)}", "can_stop": True})

        known = self.analysis.has_fit(settings)
        if not known:
            latent = settings.likelihood != "gaussian"
            how = ": one number of factors after the other" if latent else ""
            self.send("busy", {"text": f"Fitting{how}", "can_stop": True})
        try:
            posterior = self.analysis.fit(settings, on_iteration)
        except StoppedEarly as stopped:
            posterior = stopped.posterior
        if not known:
            self.seconds = time.perf_counter() - began
        self.posterior = posterior
        has_curve = "model_error_curve" in posterior.__dict__
        self.send("answer", answer_part(posterior, settings, with_curve=has_curve))
        plain = replace(settings, names=())
        axes = [replace(plain, rotation=one) for one in (None, *ROTATIONS) if one != plain.rotation]
        fits = self.seconds < QUICK_FIT and self.analysis.file is not None
        others = [one for one in _other_errors(plain) if not self.analysis.has_fit(one)]
        live = self.seconds < LIVE_FIT
        said = "Fits with other tolerated model errors" if live else ""
        errors = [self._in_advance(one, said) for one in (others if fits else [])]
        self.steps = [self._send_curve, self._send_report]
        place = 1 if live else 2
        self.steps[place:place] = errors
        self.steps += [self._in_advance(one) for one in axes]
        if fits:
            self.steps += [self._in_advance(one) for one in _other_numbers(plain, posterior)]

    def _send_curve(self) -> None:
        """The headline with the number of factors by tolerated error."""
        assert self.analysis is not None
        assert self.posterior is not None
        if "model_error_curve" not in self.posterior.__dict__:
            self.send("busy", {"text": "Factors by tolerated model error"})
            part = answer_part(self.posterior, self.settings, with_curve=True)
            self.analysis.keep_curve(self.settings, self.posterior)
            self.send("answer", part)

    def _send_report(self) -> None:
        assert self.analysis is not None
        assert self.posterior is not None
        self.send("busy", {"text": "Draws from the posterior, intervals and figures"})
        aligned = self.analysis.aligned(self.settings, self.posterior)
        self.send("report", report_part(self.posterior, self.settings, aligned))
        self.send("busy", {"text": ""})

    def _in_advance(self, settings: PageSettings, said: str = "") -> Callable[[], None]:
        """A fit that may be asked for next, and what is said of it while the report is missing."""

        def fit() -> None:
            assert self.analysis is not None
            if said:
                self.send("busy", {"text": said})
            try:
                _ = self.analysis.fit(settings).rotated_solution
            except StoppedEarly:
                raise KeyboardInterrupt from None

        return fit

    def _write(self, job: dict[str, Any]) -> None:
        if self.analysis is None or self.posterior is None:
            raise InputError("There is no fit yet.")
        self.send("busy", {"text": "Writing the file"})
        path = self.folder / f"out-{int(job['id'])}"
        name = write_output(job, path, self.analysis, self.settings, self.posterior)
        self.send("written", {"id": job["id"], "path": path.name, "name": name})


def _other_errors(settings: PageSettings) -> list[PageSettings]:
    """Settings with another tolerated error, where the number of factors is found."""
    if settings.likelihood != "gaussian" or settings.n_factors is not None:
        return []
    found = [replace(settings, model_error=size) for size in TOLERATED]
    return [one for one in found if one != settings]


def _other_numbers(settings: PageSettings, posterior: Posterior) -> list[PageSettings]:
    """Settings with another number of factors, the nearest first."""
    if settings.likelihood != "gaussian":
        return []
    k, p = posterior.n_active, len(posterior.column_names)
    near = [k + step for step in NEAR_NUMBERS if 0 < k + step < p]
    found = [replace(settings, n_factors=number) for number in (k, *near, None)]
    return [one for one in found if one != settings]


def _warm_up() -> None:
    """A small fit and its report, so that the first one of the page does not wait for anything."""
    model = CuspFactorAnalysis(rotation="oblimin").fit(simulate(60, 6, 1, random_state=0).X)
    posterior = model.posterior_
    answer_part(posterior, PageSettings(), with_curve=True)
    report_part(posterior, PageSettings(), posterior.align(draws=posterior.draw(50)))


def _sender(stream: IO[bytes]) -> Send:
    lock = threading.Lock()

    def send(part: str, values: dict[str, Any]) -> None:
        line = json.dumps({"part": part, **values}, allow_nan=False).encode() + b"\n"
        with lock:
            stream.write(line)
            stream.flush()

    return send


def main() -> None:
    """Work until the standard input ends."""
    os.umask(0o077)
    folder = Path(sys.argv[1])
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else gets among the messages
    jobs = JobQueue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            jobs.put(json.loads(line))
        shutil.rmtree(folder, ignore_errors=True)
        if folder.parent.name.startswith(FOLDER_PREFIX):
            with suppress(OSError):  # that of another page is in it
                folder.parent.rmdir()
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    Worker(folder, jobs, _sender(output)).run()


if __name__ == "__main__":
    main()
