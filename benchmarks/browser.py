"""Chromium at the page of `cuspfa app`, for its measures and for the pictures in the docs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from cuspfa import datasets

DESKTOP, PHONE = (1180, 900), (390, 844)
PATIENCE = 600.0
DROP = """
const files = new DataTransfer();
files.items.add(new File([arguments[0]], "bfi.csv"));
const how = {dataTransfer: files, bubbles: true, cancelable: true};
document.querySelector("#drop").dispatchEvent(new DragEvent("drop", how));
"""
CHOOSE = """
const one = document.querySelector(`#controls [name=${arguments[0]}]`);
delete document.documentElement.dataset.drawn;
one.value = arguments[1];
if (one.value !== arguments[1]) throw new Error(`${arguments[0]} has no ${arguments[1]}`);
one.dispatchEvent(new Event("change", {bubbles: true}));
"""
TICK = """
delete document.documentElement.dataset.drawn;
document.querySelector(`input[value=${arguments[0]}]`).click();
"""
TICK_ALL = "document.querySelector('#tick-all').click()"
FIT = "document.querySelector('#fit-button').click()"
HAS_TABLE = "return document.querySelectorAll('input[name=column]').length"
HAS_ANSWER = "return document.querySelector('#map svg')"
HAS_REPORT = "return document.querySelector('#report').getAttribute('aria-busy') === 'false'"
UNTIL = """
const done = arguments[0];
const now = () => { %s };
const look = () => { const found = now(); if (found) done(found); else setTimeout(look, 10); };
look();
"""
DRAWN = "return document.documentElement.dataset.drawn"


class Browser:
    """Chromium without a window."""

    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(word)
        self.driver = webdriver.Chrome(
            options=options, service=Service(shutil.which("chromedriver"))
        )
        self.driver.set_script_timeout(PATIENCE)

    def command(self, name: str, **settings: Any) -> Any:
        """Of the protocol of its developer tools."""
        return self.driver.execute_cdp_cmd(name, settings)

    def show_as(self, size: tuple[int, int], scheme: str = "light") -> None:
        """The size of the screen and its colours."""
        width, height = size
        how = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.command("Emulation.setDeviceMetricsOverride", **how)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", features=features)
        time.sleep(0.5)

    def run(self, code: str, *arguments: object) -> Any:
        """Run JavaScript."""
        return self.driver.execute_script(code, *arguments)

    def until(self, condition: str) -> Any:
        """Wait for a condition in JavaScript, and return its value.

        The page itself looks again and again: what a driver runs stays in the heap of the page.
        """
        return self.driver.execute_async_script(UNTIL % condition)

    def drop(self, table: str) -> None:
        """Drop a file on the page, and wait for its columns."""
        self.run(DROP, table)
        self.until("return document.querySelector('#result').hidden")
        self.until(HAS_TABLE)

    def fit(self) -> None:
        """Press the button, and wait for the report."""
        self.run(FIT)
        self.until(HAS_ANSWER)
        self.until(HAS_REPORT)

    def change(self, code: str, *arguments: object) -> float:
        """Milliseconds from a change of a setting to the frame after it was drawn."""
        self.run(code, *arguments)
        return float(self.until(DRAWN))


@contextmanager
def page() -> Iterator[tuple[Browser, int]]:
    """The page of a program that ends with the block, and the number of its process."""
    command = [sys.executable, "-u", "-m", "cuspfa", "app", "--no-browser"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as program,
    ):
        assert program.stdout is not None
        found = re.search(r"http://\S+", program.stdout.readline() + program.stdout.readline())
        assert found is not None
        browser = Browser()
        try:
            browser.show_as(DESKTOP)
            browser.driver.get(found[0])
            yield browser, program.pid
        finally:
            browser.driver.quit()
            program.terminate()


def bfi_as_csv() -> str:
    """The items as a file."""
    items = datasets.load_bfi(subset="items")
    lines = [",".join("" if one != one else f"{one:.0f}" for one in row) for row in items.data]
    return "\n".join([",".join(items.feature_names), *lines])


def processes_under(pid: int) -> list[int]:
    """Those that a process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in children]


def resident_bytes(pid: int) -> int:
    """Memory of a process that no other shares."""
    found = re.search(r"Private_Dirty:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text())
    assert found is not None
    return 1024 * int(found[1])


def busy_seconds(pid: int) -> float:
    """Processor seconds of a process until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0


def until_idle(pid: int) -> None:
    """Wait until a process has nothing to do: the page fits nothing more in advance."""
    before = -1.0
    while (now := busy_seconds(pid)) - before > 0.02:
        before = now
        time.sleep(1.5)
