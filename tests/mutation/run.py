"""`python -m mutation.run`: do the tests notice small changes of `model/` and `inference/`?

The tests are run once, to learn which of them execute which line. Then each mutant of a random
sample is tried with the tests that execute it, the fastest first, until one of them fails. Each
runs in a child process in which only the import of the changed module differs: no file is changed.

Tests run without the compiled core, so that the NumPy definitions are what is tested. Those that
compare the compiled core with its definition need it, and come last.
"""

import argparse
import ast
import concurrent.futures
import contextlib
import functools
import hashlib
import importlib.abc
import importlib.machinery
import json
import multiprocessing
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
STAGES: tuple[tuple[tuple[str, ...], bool], ...] = (
    (("tests/model",), False),
    (("tests/inference/factorization", "tests/inference/cellwise"), False),
    (("tests/missing", "tests/oracles", "tests/inference/test_kernels.py"), False),
    (("tests/inference/_kernels",), True),
    (("tests/inference/gibbs", "tests/inference/variational"), False),
    (("tests/estimator", "tests/inference/test_basis_free.py"), False),
)
"""Tests, and whether they run with the compiled core. A stage has what the stages before missed."""
TESTED = tuple(f"tests/{one}" for one in ("model", "inference", "missing", "oracles", "estimator"))
SLOWEST_TEST = 8.0
"""Seconds of the processor while lines are recorded; slower tests are stopped, and not used."""
BUDGET = 20.0
"""Seconds of tests of a stage for a mutant, as they were recorded."""
WAITED = 20
"""How many times as long a child may take by the clock, on a machine that does other work."""
OPTIONS = (
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--no-header",
    "--assert=plain",
    "-W",
    "ignore::pytest.PytestWarning",
)
FAILED = 2
"""The largest code with which pytest ends where tests, or their import, have failed."""
PLACE = ROOT / ".mutation"
SAMPLE, SEED, CONTROLS = 300, 0, 2
"""Size and seed of the sample; mutants of a stage whose tests are run without the change too."""

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
    import resource  # Windows has none, where tests import this module but do not run it

    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setpgid(0, 0)
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.chdir(ROOT)
            limit = int(seconds) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            if core:
                os.environ.pop("CUSPFA_NO_COMPILED_CORE", None)
            else:
                os.environ["CUSPFA_NO_COMPILED_CORE"] = "1"
            code = int(work())
        finally:
            os._exit(code)
    end = time.monotonic() + WAITED * seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if code in (-signal.SIGKILL, -signal.SIGXCPU) else code
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
        begin = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - begin
            self.coverage.switch_context("collection")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> object:
        """The test itself, which fails where it takes long."""
        signal.signal(signal.SIGVTALRM, self.stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, SLOWEST_TEST)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)

    @staticmethod
    def stop(number: int, frame: types.FrameType | None) -> None:
        """Where a test is slower than those that are used."""
        pytest.fail("slow", pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tests that fail without a change are of no use here."""
        if report.failed:
            self.failed.append(report.nodeid)


def record(folder: str, file: Path) -> int:
    """Run tests and write which lines of the packages they execute."""
    recorder = Recorder()
    recorder.coverage.start()
    recorder.coverage.switch_context("collection")
    options = [one for one in OPTIONS if one != "-x"]
    pytest.main([*options, folder], plugins=[recorder])
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
    for folder in ("src/cuspfa", *TESTED):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def recorded(folder: str, *, core: bool) -> Path:
    """The file of which test executes which line; it is made where there is none."""
    PLACE.mkdir(exist_ok=True)
    name = f"{folder.replace('/', '-')}-{state_of_the_tree()}"
    file = PLACE / f"{name}.json"
    if not file.exists():
        print(f"Which test of {folder} executes which line ...", flush=True)
        log = PLACE / f"{name}.txt"
        in_child(lambda: record(folder, file), 3600.0, core=core, log=log)
    return file


class Tests:
    """The tests of a stage that execute a line, the fastest first."""

    def __init__(self, files: Sequence[Path], *, core: bool) -> None:
        self.core = core
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, dict[str, set[int]]] = {}
        for file in files:
            found = json.loads(file.read_text(encoding="utf-8"))
            self.seconds |= found["seconds"]
            failed = set(found["failed"])
            for path, tests in found["lines"].items():
                self.lines.setdefault(path, {}).update(
                    (test, set(lines)) for test, lines in tests.items() if test not in failed
                )

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

    seconds = 10.0 + 3.0 * sum(tests.seconds[one] for one in chosen)
    code = in_child(work, seconds, core=tests.core, log=PLACE / f"last-{os.getpid()}.txt")
    if code is not None and code > FAILED:
        raise RuntimeError(f"pytest cannot run the tests of {mutant}: see {PLACE}/last-*.txt")
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


NOW: list[Tests] = []
"""The tests of the stage, for the processes that try mutants."""


def noticed_now(mutant: Mutant) -> bool:
    """Do the tests of the stage notice a mutant?"""
    return noticed(mutant, NOW[-1])


def passes_now(mutant: Mutant) -> bool:
    """Do the tests of a mutant pass without it?"""
    chosen = NOW[-1].of(mutant)
    return not chosen or outcome(mutant, NOW[-1], chosen, change=False) == "passed"


def pool(workers: int) -> concurrent.futures.ProcessPoolExecutor:
    """Processes that have what this one has."""
    return concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("fork"))


def survivors_of(stage: int, sample: Sequence[Mutant], workers: int) -> list[Mutant]:
    """The mutants that a stage does not notice. What is found is kept, to be continued later."""
    folders, core = STAGES[stage]
    with pool(workers) as processes:
        files = list(processes.map(functools.partial(recorded, core=core), folders))
    NOW.append(Tests(files, core=core))
    kept = PLACE / f"outcomes-{stage}-{state_of_the_tree()}.jsonl"
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    known = {(path, number): found for path, number, found in map(json.loads, lines)}
    rest = [one for one in sample if (one.path, one.number) not in known]
    with pool(workers) as processes, kept.open("a", encoding="utf-8") as file:
        if not all(processes.map(passes_now, rest[:CONTROLS])):
            raise RuntimeError(f"Tests fail without a change: see {PLACE}/last-*.txt")
        for mutant, found in zip(rest, processes.map(noticed_now, rest), strict=True):
            known[mutant.path, mutant.number] = found
            print(json.dumps([mutant.path, mutant.number, found]), file=file, flush=True)
    return [one for one in sample if not known[one.path, one.number]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try a sample, print the survivors and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=SAMPLE, help="how many of the sample")
    parser.add_argument("--first", type=int, default=0, help="where to begin in the sample")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time")
    parser.add_argument("--output", type=Path, default=None, help="a file for the result, JSON")
    chosen = parser.parse_args(arguments)
    every = [
        mutant
        for package in PACKAGES
        for path in sorted((ROOT / "src" / "cuspfa" / package).rglob("*.py"))
        if not any(part in path.as_posix() for part in NOT_TRIED)
        for mutant in mutants(path, ROOT)
    ]
    sample = sampled(every, SAMPLE, SEED)[chosen.first : chosen.first + chosen.mutants]
    left = sample
    for stage in range(len(STAGES)):
        left = survivors_of(stage, left, chosen.workers)
        print(f"After stage {stage + 1} of {len(STAGES)}: {len(left)} of {len(sample)} left")
    survivors = [{**one._asdict(), "tests": sum(len(t.of(one)) for t in NOW)} for one in left]
    for one in survivors:
        print("  {path}:{line} {function}: {change} ({tests} tests)".format(**one))
    killed = len(sample) - len(survivors)
    result = {
        "mutants": len(every),
        "sample": [chosen.first, chosen.first + len(sample)],
        "killed": killed,
        "survivors": survivors,
    }
    if chosen.output:
        chosen.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    share = f" ({100 * killed / len(sample):.0f} %)" if sample else ""
    print(f"{len(sample)} of {len(every)} mutants tried, {killed} noticed{share}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
