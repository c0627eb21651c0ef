"""The docs tests, those of draws, and the same answers, under other kernels: `make test-kernels`.

Each setting is two processes, one of tests and one that writes answers, which are compared with
those of the default kernels. Two processes run at a time.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from kernels.differences import ALLOWED, differences, largest, read
from kernels.settings import DEFAULT, Setting, clean, settings
from pages import blocks, name_of

ROOT = Path(__file__).parents[2]
TESTS = [
    "tests/docs/test_coming_from.py",
    "tests/posterior/test_draws.py",
    "tests/posterior/test_posterior.py",
    "tests/rotation/test_align.py",
]
PAGE = "tests/docs/test_docs.py::test_python_on_the_page_runs_and_prints_what_it_says"
"""Of the pages those are taken that say what their code prints."""
TOO_LONG = "not cover and not student"
"""Simulations of coverage, which see other data under every seed anyway."""
PROCESSES = 2
ENOUGH, SPARE = 4, "Sandybridge"
"""Settings besides the default, and the kernel that is run only where there are fewer."""


class Done(NamedTuple):
    code: int
    output: str
    seconds: float


def child(setting, *arguments):
    """A process with the setting; its module asserts that it is in effect."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    more = {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "CUSPFA_KERNEL_SETTING": setting.name}
    environment = clean(os.environ) | more | setting.variables
    began = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
    )  # fmt: skip
    return Done(ended.returncode, ended.stdout, time.perf_counter() - began)


def tests():
    pages = [page for page in (ROOT / "docs").rglob("*.md") if any(t for _, t in blocks(page))]
    return [*TESTS, *sorted(f"{PAGE}[{name_of(page)}]" for page in pages)]


def chosen():
    """What is used as it is, settings that select something else, and notes."""
    found, notes = settings()
    usual = child(DEFAULT, "kernels.settings").output.splitlines()[-1]
    seen = {usual: DEFAULT.name}
    kept: list[Setting] = []
    for setting in sorted(found, key=lambda one: one.name == SPARE):
        if setting.name == SPARE and len(kept) >= ENOUGH:
            notes.append(f"{SPARE}: not needed beside {ENOUGH} others.")
            continue
        asked = child(setting, "kernels.settings")
        lines = asked.output.splitlines()
        if asked.code:
            kept.append(setting)  # its own run says what is wrong
        elif lines[-1] in seen:
            notes.append(f"{setting.name}: the same kernels as {seen[lines[-1]]}, not run again.")
        else:
            seen[lines[-1]] = setting.name
            kept.append(setting)
    return usual, kept, notes


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", action="store_true", help="no tests, answers alone")
    parser.add_argument("--all", action="store_true", help="all data sets with all priors")
    parser.add_argument("--keep", type=Path, help="folder for the answers")
    given = parser.parse_args(argv)
    began = time.perf_counter()
    usual, kept, notes = chosen()
    for note in notes:
        print(note)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(PROCESSES) as pool:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        more = ["--all"] if given.all else []
        answers = {
            one.name: pool.submit(child, one, "kernels.answers", str(file(folder, one)), *more)
            for one in (DEFAULT, *kept)
        }
        tested = {} if given.answers else {
            one.name: pool.submit(child, one, "pytest", "-q", "-n", "0", "-p", "kernels.plugin",
                                  "-p", "no:cacheprovider", "-k", TOO_LONG, *tests())
            for one in kept
        }  # fmt: skip
        reference = answers[DEFAULT.name].result()
        now = usual.removeprefix("uses ")
        print(f"{DEFAULT.name:16} {now}; answers in {reference.seconds:.0f} s", flush=True)
        if reference.code:
            sys.exit(reference.output)
        expected = read(file(folder, DEFAULT))
        good = [report(one, expected, answers[one.name].result(), tested.get(one.name), folder)
                for one in kept]  # fmt: skip
    print(f"{sum(good)} of {len(good)} settings pass, {time.perf_counter() - began:.0f} s")
    return 0 if all(good) else 1


def file(folder, setting):
    return folder / f"{re.sub(r'[^A-Za-z0-9]+', '_', setting.name)}.npz"


def report(setting, expected, answered, tested, folder):
    """Print a line, and below it what is wrong; True if nothing is."""
    uses = re.search(r"^uses (.*)$", answered.output, re.MULTILINE)
    line, below = [uses[1] if uses else "not in effect"], []
    failed, seconds = answered.code != 0, answered.seconds
    if failed:
        below.append(answered.output)
    else:
        found = read(file(folder, setting))
        other = {case: differences(expected[case], found[case]) for case in expected}
        other = {case: words for case, words in other.items() if words}
        failed = bool(other)
        line.append(f"{len(expected) - len(other)} of {len(expected)} answers the same")
        below += [f"  {case}: {'; '.join(words)}" for case, words in other.items()]
        below += table(expected, found) if other or tested is None else []
    if tested is not None:
        ended = tested.result()
        seconds += ended.seconds
        line.append((ended.output.strip().splitlines() or ["no output"])[-1].strip("= "))
        if ended.code:
            failed = True
            below.append(ended.output)
    print(f"{setting.name:16} {'; '.join(line)}; {seconds:.0f} s", flush=True)
    for text in below:
        print(text, flush=True)
    return not failed


def table(expected, found):
    """Largest differences by quantity."""
    return [
        f"    {what:24} {value:8.1e} of {ALLOWED[what]:.0e} allowed  {case}"
        for what, (value, case) in largest(expected, found).items()
    ]


if __name__ == "__main__":
    sys.exit(main())
