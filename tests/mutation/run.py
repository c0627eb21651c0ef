"""`python -m mutation.run`: do the tests notice small changes of `model/` and `inference/`?

The tests are run once, to learn which of them execute which line. Then each mutant of a random
sample is tried with the tests that execute it, the fastest first, until one of them fails. Each
runs in a child process in which only the import of the changed module differs: no file is changed.

Tests run without the compiled core, so that the NumPy definitions are what is tested. Those that
compare the compiled core with its definition need it, and come last.
"""

import argparse
import ast
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import json
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import hypothesis  # noqa: F401 - what tests import is there before each child begins
import mpmath  # noqa: F401
import numpy as np  # noqa: F401
import pandas as pd  # noqa: F401
import pytest
import scipy.optimize
import scipy.stats  # noqa: F401
import sklearn.decomposition
import sklearn.utils.estimator_checks  # noqa: F401

from mutation.mutants import Mutant, mutants, mutated, sampled

ROOT = Path(__file__).parents[2]
PACKAGES = ("model", "inference")
NOT_TRIED = ("_kernels/", "compiled_", "progress.py")
"""Calls of the compiled core, which does not run here, and what is shown during a search."""
WITHOUT_CORE = (
    "tests/model",
    "tests/inference",
    "tests/missing",
    "tests/oracles",
    "tests/estimator",
)
WITH_CORE = ("tests/inference/_kernels",)
SLOWEST_TEST = 12.0
"""Seconds; slower tests are not used."""
BUDGET = 45.0
"""Seconds of tests for a mutant."""
OPTIONS = (
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--no-header",
    "-W",
    "ignore::pytest.PytestWarning",
)
PLACE = ROOT / ".mutation"
SAMPLE, SEED, CONTROLS = 300, 0, 10
"""Size and seed of the sample, and mutants whose tests are run without the change too."""

Covered = dict[str, dict[str, list[int]]]
"""Lines by module and test."""


class ChangedModule(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with a change."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The specification of the changed module, and of no other."""
        if fullname != self.name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, origin=str(self.path))

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the changed source."""
        module.__file__ = str(self.path)
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)


def in_child(work: Callable[[], int], seconds: float, *, core: bool, log: Path) -> int | None:
    """The exit code of work in a child process, None where it takes longer."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setpgid(0, 0)
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.chdir(ROOT)
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            if core:
                os.environ.pop("CUSPFA_NO_COMPILED_CORE", None)
            else:
                os.environ["CUSPFA_NO_COMPILED_CORE"] = "1"
            code = int(work())
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


# --- which test executes which line ---


class Recorder:
    """A plugin of pytest: the lines that each test executes, and its seconds."""

    def __init__(self) -> None:
        import coverage

        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, source=[str(ROOT / "src" / "cuspfa")]
        )
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        """All of a test, with its fixtures."""
        self.coverage.switch_context(item.nodeid)
        begin = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.perf_counter() - begin
            self.coverage.switch_context("collection")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tests that fail without a change are of no use here."""
        if report.failed:
            self.failed.append(report.nodeid)


def record(folders: Sequence[str], file: Path) -> int:
    """Run tests and write which lines of the packages they execute."""
    recorder = Recorder()
    recorder.coverage.start()
    recorder.coverage.switch_context("collection")
    options = [one for one in OPTIONS if one != "-x"]
    ignored = [f"--ignore={one}" for one in WITH_CORE] if folders == WITHOUT_CORE else []
    pytest.main([*options, *ignored, *folders], plugins=[recorder])
    recorder.coverage.stop()
    data = recorder.coverage.get_data()
    lines: Covered = {}
    for path in data.measured_files():
        place = Path(path).relative_to(ROOT).as_posix()
        by_line = data.contexts_by_lineno(path)
        for line, tests in by_line.items():
            for test in tests:
                if test in recorder.seconds:
                    lines.setdefault(place, {}).setdefault(test, []).append(line)
    found = {"lines": lines, "seconds": recorder.seconds, "failed": recorder.failed}
    file.write_text(json.dumps(found), encoding="utf-8")
    return 0


def state_of_the_tree() -> str:
    """A hash of the package and its tests."""
    digest = hashlib.sha256()
    for folder in ("src/cuspfa", *WITHOUT_CORE):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Tests:
    """The tests that execute a line, the fastest first."""

    def __init__(self, folders: Sequence[str], *, core: bool) -> None:
        PLACE.mkdir(exist_ok=True)
        file = PLACE / f"{'core' if core else 'numpy'}-{state_of_the_tree()}.json"
        if not file.exists():
            print(f"Which test executes which line: {' '.join(folders)} ...", flush=True)
            begin = time.perf_counter()
            in_child(lambda: record(folders, file), 3600.0, core=core, log=PLACE / "record.txt")
            print(f"  {time.perf_counter() - begin:.0f} s", flush=True)
        found = json.loads(file.read_text(encoding="utf-8"))
        self.core, self.seconds = core, found["seconds"]
        failed = set(found["failed"])
        self.lines: dict[str, dict[str, set[int]]] = {
            path: {test: set(lines) for test, lines in tests.items() if test not in failed}
            for path, tests in found["lines"].items()
        }

    def of(self, mutant: Mutant) -> list[str]:
        """Tests of a mutant, within the budget."""
        wanted = set(range(mutant.line, mutant.end + 1))
        tests = [test for test, lines in self.lines.get(mutant.path, {}).items() if lines & wanted]
        chosen, total = [], 0.0
        for test in sorted(tests, key=lambda one: self.seconds[one]):
            total += self.seconds[test]
            if self.seconds[test] > SLOWEST_TEST or total > BUDGET:
                break
            chosen.append(test)
        return chosen


# --- mutants ---


def outcome(
    mutant: Mutant, tests: Tests, chosen: list[str], *, change: bool = True
) -> Literal["passed", "failed", "endless"]:
    """What the tests say with the change, or without it."""
    path = ROOT / mutant.path
    module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    source = path.read_text(encoding="utf-8")
    tree = mutated(source, mutant.number) if change else ast.parse(source)

    def work() -> int:
        sys.meta_path.insert(0, ChangedModule(module, path, tree))
        return int(pytest.main([*OPTIONS, *chosen]))

    seconds = 30.0 + 5.0 * sum(tests.seconds[one] for one in chosen)
    code = in_child(work, seconds, core=tests.core, log=PLACE / "last.txt")
    return "endless" if code is None else "failed" if code else "passed"


def noticed(mutant: Mutant, tests: Tests) -> bool:
    """Does one of the tests fail with the change, or not end?"""
    chosen = tests.of(mutant)
    if not chosen:
        return False
    found = outcome(mutant, tests, chosen)
    if found == "endless" and outcome(mutant, tests, chosen, change=False) == "endless":
        raise TimeoutError("The tests take too long without a change too: the machine is busy.")
    return found != "passed"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try a sample, print the survivors and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=SAMPLE, help="how many of the sample")
    parser.add_argument("--first", type=int, default=0, help="where to begin in the sample")
    parser.add_argument("--output", type=Path, default=None, help="a file for the result, JSON")
    chosen = parser.parse_args(arguments)
    every = [
        mutant
        for package in PACKAGES
        for path in sorted((ROOT / "src" / "cuspfa" / package).rglob("*.py"))
        if not any(part in path.as_posix() for part in NOT_TRIED)
        for mutant in mutants(path, ROOT)
    ]
    kinds = [Tests(WITHOUT_CORE, core=False), Tests(WITH_CORE, core=True)]
    sample = sampled(every, SAMPLE, SEED)[chosen.first : chosen.first + chosen.mutants]
    for mutant in sample[:CONTROLS]:
        for tests in kinds:
            selected = tests.of(mutant)
            if selected and outcome(mutant, tests, selected, change=False) != "passed":
                print(f"Tests fail without a change: see {PLACE / 'last.txt'}")
                return 1
    killed, survivors = 0, []
    for mutant in sample:
        try:
            found = any(noticed(mutant, tests) for tests in kinds)
        except (KeyboardInterrupt, TimeoutError) as reason:  # what was found until here is printed
            print(f"  ended early: {reason or 'interrupted'}")
            break
        if found:
            killed += 1
        else:
            ran = sum(len(tests.of(mutant)) for tests in kinds)
            survivors.append({**mutant._asdict(), "tests": ran})
            print(
                f"  {mutant.path}:{mutant.line} {mutant.function}: {mutant.change} ({ran} tests)",
                flush=True,
            )
    tried = killed + len(survivors)
    result = {
        "mutants": len(every),
        "sample": [chosen.first, chosen.first + len(sample)],
        "tried": tried,
        "killed": killed,
        "survivors": survivors,
    }
    if chosen.output:
        chosen.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    share = f" ({100 * killed / tried:.0f} %)" if tried else ""
    print(f"{tried} of {len(every)} mutants tried, {killed} noticed{share}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
