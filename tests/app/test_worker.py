"""The process behind a page: what it answers, what it interrupts, and how it ends."""

import json
import os
import queue
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from cuspfa import datasets
from cuspfa.app.sessions import WORKER

PATIENCE = 120.0


class Running:
    """A worker with its folder, spoken to as the server does."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [*WORKER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._parts: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._parts.put(json.loads(line))
        self._parts.put({"part": "end"})

    def ask(self, do, **values):
        self.process.stdin.write(json.dumps({"do": do, **values}).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, *parts):
        """Messages up to the first with one of these parts, which is returned."""
        end = time.monotonic() + PATIENCE
        while True:
            found = self._parts.get(timeout=max(end - time.monotonic(), 0.01))
            if found["part"] in parts:
                return found
            assert found["part"] != "end"

    def close(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()

    def fit(self, **settings):
        self.ask("fit", settings=settings)


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    running = Running(tmp_path_factory.mktemp("page"))
    running.until("ready")
    yield running
    running.close()


@pytest.fixture
def columns(worker):
    """Ten columns of a table that is open."""
    X = datasets.simulate(150, 10, 2, random_state=1).X
    names = [f"x{j}" for j in range(10)]
    lines = [",".join(names), *(",".join(f"{value:.3f}" for value in row) for row in X)]
    (worker.folder / "upload.csv").write_text("\n".join(lines))
    worker.ask("open", path="upload.csv", name="my table.csv", missing="")
    assert worker.until("table")["name"] == "my table.csv"
    return names


def test_an_answer_comes_first_and_then_its_report(worker, columns):
    worker.fit(columns=columns)
    first = worker.until("answer")
    assert first["n_factors"] == 2
    second = worker.until("answer", "report")
    assert second["part"] == "answer"
    assert "RMSEA" in second["headline"]
    report = worker.until("report")
    assert report["settings"] == first["settings"]
    assert "methods" in report
    worker.fit(columns=columns, rotation="varimax")
    other = worker.until("answer")
    assert "RMSEA" in other["headline"]  # what was known is kept
    assert other["settings"]["rotation"] == "varimax"
    assert worker.until("report")["settings"] == other["settings"]


def test_fits_with_other_tolerated_errors_are_made_before_the_report(worker, columns):
    """Each goes on from the one before, and is then known."""
    worker.fit(columns=columns)
    worker.until("report")
    for size in (0.05, 0.1, 0.015):
        worker.fit(columns=columns, model_error=size)
        assert not was_fitted(worker, model_error=size)
    worker.fit(columns=columns, n_factors=3, model_error=0.05)
    assert was_fitted(worker, model_error=0.05)


def was_fitted(worker, **settings):
    """Was the fit of the next answer made after it was asked for?"""
    said = []
    while (part := worker.until("busy", "answer"))["part"] == "busy":
        said.append(part["text"])
    assert part["settings"] == part["settings"] | settings
    return any(text.startswith("Fitting") for text in said)


def test_a_file_is_written_where_it_can_be_read_by_the_owner_alone(worker, columns):
    worker.fit(columns=columns, n_factors=1)
    worker.until("answer")
    worker.ask("write", id=7, what="fit", asked={})
    found = worker.until("written", "refused")
    assert (found["id"], found["name"]) == (7, "my_table.cusp")
    path = worker.folder / found["path"]
    assert path.parent == worker.folder
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    worker.ask("write", id=8, what="../../x", asked={})
    refused = worker.until("written", "refused")
    assert refused["part"] == "refused"
    assert "what must be one of" in refused["text"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a,b\n1,2\n", "1 row"),
        (b"", "is empty"),
        (b"\x89HDF\r\n\x1a\n" * 9, "HDF5"),
        (b"PK\x03\x04" + b"\0" * 26 + b"fit.json" + b"\0" * 90, ""),
        (b"PK\x03\x04" + b"\0" * 26 + b"analysis.json" + b"\0" * 90, "damaged"),
        (b"x\n" * 30, ""),
    ],
)
def test_a_bad_file_is_told_by_its_name_and_nothing_changes(worker, columns, content, said):
    (worker.folder / "upload").write_bytes(content)
    worker.ask("open", path="upload", name="bad.csv", missing="")
    found = worker.until("trouble", "table")
    assert found["part"] == "trouble"
    assert said in found["text"]
    assert "defect" not in found["text"]
    assert str(worker.folder) not in found["text"]
    worker.fit(columns=columns, n_factors=1)
    assert worker.until("answer", "trouble")["part"] == "answer"


def test_wrong_settings_are_told(worker, columns):
    worker.fit(columns=[*columns, "none"])
    assert "none" in worker.until("trouble", "answer")["text"]
    worker.fit(columns=columns, n_factors=99)
    assert "at most" in worker.until("trouble", "answer")["text"]
    worker.ask("fit", settings=None)
    assert "settings must be" in worker.until("trouble", "answer")["text"]


def slow(worker):
    """A fit that takes minutes; the columns of its table."""
    worker.ask("example")
    columns = worker.until("table")["settings"]["columns"]
    worker.fit(columns=columns, likelihood="ordinal")
    while not worker.until("busy")["text"].startswith("Fitting"):
        pass
    return columns


def test_a_newer_fit_ends_an_older_one(worker):
    worker.fit(columns=slow(worker), n_factors=1, rotation=None)
    found = worker.until("answer", "trouble")
    assert found["part"] == "answer"
    assert found["settings"]["n_factors"] == 1
    assert found["settings"]["likelihood"] == "gaussian"


def test_a_fit_is_stopped_and_the_next_one_goes_on(worker):
    columns = slow(worker)
    worker.ask("stop")
    found = worker.until("answer", "trouble")
    assert found["part"] == "trouble"
    assert found["text"].startswith("Stopped.")
    worker.fit(columns=columns, n_factors=2)
    assert worker.until("answer", "trouble")["n_factors"] == 2


def test_a_saved_fit_and_an_analysis_are_opened(worker, columns):
    worker.fit(columns=columns, n_factors=2, rotation="varimax", names=["A", "B"])
    worker.until("answer")
    for number, (what, asked) in enumerate(
        [("analysis", {}), ("fit", {}), ("analysis", {"rows": "0"})], start=20
    ):
        worker.ask("write", id=number, what=what, asked=asked)
        found = worker.until("written", "refused")
        (worker.folder / found["path"]).rename(worker.folder / "upload.cuspa")
        worker.ask("open", path="upload.cuspa", name="again", missing="")
        table = worker.until("table", "trouble")
        assert table["part"] == "table"
        assert table["has_rows"] == (number == 20)
        assert table["settings"]["names"] == ["A", "B"]
        if number == 20:
            assert table["name"] == "my table.csv"
        else:
            worker.fit(**table["settings"] | {"columns": []})
        answer = worker.until("answer", "trouble")
        assert answer["names"] == ["A", "B"]
        assert answer["n_factors"] == 2
        worker.until("report")


def test_a_signal_of_others_does_not_end_it(worker, columns):
    if os.name != "posix":
        pytest.skip("signals of POSIX")
    worker.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert worker.process.poll() is None


def test_it_removes_its_files_when_the_server_is_gone(tmp_path):
    folder = tmp_path / "page"
    folder.mkdir()
    running = Running(folder)
    running.until("ready")
    (folder / "upload.csv").write_text("a,b\n")
    running.ask("example")
    running.process.stdin.close()
    assert running.process.wait(PATIENCE) == 0
    assert not folder.exists()
    running.close()
