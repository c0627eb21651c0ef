"""The program with its server, from an upload to a report, spoken to over a socket."""

import json
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from app_server import Program
from cuspfa import datasets, load
from cuspfa.cli.app import run_program

PATIENCE = 120.0
X = datasets.simulate(150, 10, 2, random_state=1).X
NAMES = [f"x{j}" for j in range(10)]
CSV = "\n".join([",".join(NAMES), *(",".join(f"{v:.3f}" for v in row) for row in X)]).encode()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    running = Program(tmp_path_factory.mktemp("temporary"))
    yield running
    running.close()


class Events:
    """The events of a page, as a browser gets them."""

    def __init__(self, program, page):
        self._client = program.client
        self._open = self._client.stream("GET", f"{page}events")
        self._lines = self._open.__enter__().iter_lines()

    def until(self, *parts):
        name = ""
        for line in self._lines:
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: ") and name in parts:
                return json.loads(line.removeprefix("data: "))
        raise AssertionError(f"the events ended without {parts}")

    def close(self):
        self._open.__exit__(None, None, None)


def test_the_address_is_printed_and_leads_to_a_page(program):
    page = program.enter()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/page/[\w-]{16}/", page)
    text = program.client.get(page).text
    assert "Drop a table here" in text
    # Nothing from elsewhere, and no script or style of its own.
    assert re.findall(r'(?:src|href)="(?!#)([^"]+)"', text) == [
        "data:,",
        "../../static/report.css",
        "../../static/app.css",
        "../../static/report.js",
        "../../static/app.js",
    ]
    assert "<style" not in text
    assert " style=" not in text


def test_from_an_upload_to_a_report(program, tmp_path, capsys, monkeypatch):
    page = program.enter()
    events = Events(program, page)
    assert events.until("limits") == {"upload": 256 * 2**20}
    put = {"params": {"name": "../secret/my data.csv"}, "headers": program.own}
    assert program.client.put(f"{page}file", content=CSV, **put).status_code == 200
    table = events.until("table", "trouble")
    assert table["name"] == "my data.csv"  # the path that the browser may know is not kept
    asked = {"do": "fit", "settings": table["settings"] | {"rotation": "varimax"}}
    assert program.client.post(f"{page}ask", json=asked, headers=program.own).status_code == 200
    answer = events.until("answer")
    assert answer["n_factors"] == 2
    report = events.until("report")
    assert "cuspfa fit &#39;my data.csv&#39; --rotation varimax" in report["html"]
    got = program.client.get(f"{page}get/fit")
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''my_data.cusp"
    (tmp_path / "fit.cusp").write_bytes(got.content)
    (tmp_path / "my data.csv").write_bytes(CSV)
    monkeypatch.chdir(tmp_path)
    assert (
        run_program(["fit", "my data.csv", "--rotation", "varimax", "-o", "again.cusp", "--quiet"])
        == 0
    )
    capsys.readouterr()
    first, again = load("fit.cusp"), load("again.cusp")
    np.testing.assert_array_equal(first.rotated_solution.loadings, again.rotated_solution.loadings)
    got = program.client.get(f"{page}get/report")
    assert got.status_code == 200
    assert got.text.startswith("<!DOCTYPE html>")
    assert program.client.get(f"{page}get/scores").text.count("\n") == 151
    wrong = program.client.get(f"{page}get/passwd")
    assert wrong.status_code == 409
    assert "what must be one of" in wrong.text
    events.close()
    # What was written for a download is gone, and nothing but the upload is kept.
    kept = [one.name for one in program.folders()[0].rglob("*") if one.is_file()]
    assert kept == ["upload.csv"]


@pytest.mark.long
def test_two_pages_know_nothing_of_each_other(program):
    first, second = program.enter(), program.enter()
    assert first != second
    events = Events(program, first)
    program.client.post(f"{first}ask", json={"do": "example"}, headers=program.own)
    assert events.until("table")["name"] == "Example: 25 personality items"
    events.close()
    other = Events(program, second)
    program.client.put(f"{second}file", params={"name": "b.csv"}, content=CSV, headers=program.own)
    assert other.until("table")["name"] == "b.csv"
    other.close()
    # A page that is loaded again shows what it has shown.
    again = Events(program, first)
    assert again.until("table")["name"] == "Example: 25 personality items"
    again.close()


@pytest.mark.long
def test_a_process_that_is_killed_is_told_and_started_again(program):
    page = program.enter()
    events = Events(program, page)
    program.client.put(f"{page}file", params={"name": "b.csv"}, content=CSV, headers=program.own)
    table = events.until("table")
    if os.name != "posix" or not Path("/proc").is_dir():
        pytest.skip("needs /proc to find the process")
    folder = next(one for one in program.folders()[0].iterdir() if worker_of(one) and used(one))
    os.kill(worker_of(folder), signal.SIGKILL)
    assert "has ended" in events.until("trouble")["text"]
    assert events.until("table")["name"] == "b.csv"
    asked = {"do": "fit", "settings": table["settings"]}
    program.client.post(f"{page}ask", json=asked, headers=program.own)
    assert events.until("answer")["n_factors"] == 2
    events.close()


def used(folder):
    """Is it the folder of the page that was opened last?"""
    stored = list(folder.parent.glob("*/upload.csv"))
    return bool(stored) and max(stored, key=lambda one: one.stat().st_mtime).parent == folder


def worker_of(folder):
    """The process of a page; None if there is none."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(folder).encode() in words and b"cuspfa.app.worker" in words:
            return int(place.parent.name)
    return None


@pytest.mark.long
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_nothing_is_left_when_the_program_ends(tmp_path, how):
    program = Program(tmp_path)
    page = program.enter()
    events = Events(program, page)
    events.until("ready")
    program.client.put(f"{page}file", params={"name": "b.csv"}, content=CSV, headers=program.own)
    events.until("table")
    assert list(program.folders()[0].rglob("upload.csv"))
    if how == "interrupted" and os.name == "posix":
        program.process.send_signal(signal.SIGINT)
        assert program.process.wait(PATIENCE) == 0
    else:
        program.process.kill()
    until = time.monotonic() + PATIENCE
    while list(tmp_path.rglob("upload.csv")) and time.monotonic() < until:
        time.sleep(0.05)
    while program.folders() and time.monotonic() < until:
        time.sleep(0.05)
    assert not program.folders()
    program.close()


def test_wrong_options_are_told(capsys):
    assert run_program(["app", "--port", "70000"]) == 2
    assert "--port must be" in capsys.readouterr().err
    assert run_program(["app", "--max-upload", "0"]) == 2
    assert "--max-upload must be" in capsys.readouterr().err
    assert run_program(["app", "--max-time", "0"]) == 2
    assert "--max-time must be" in capsys.readouterr().err
