"""`python -m mutation.run`: do the tests notice small changes of `model/` and `inference/`?

The tests are run once, with marks in the source at the changes of a random sample, to learn which
test comes past which change. Then the tests are collected once, and each mutant is tried in a child
of that process, in which the code of one function is replaced: the tests that come past the change
run, the fastest first, until one of them fails. No file is changed.

Tests run without the compiled core, so that the NumPy definitions are what is tested. Those that
compare the compiled core with its definition need it, and run with it.
"""

import argparse
import ast
import contextlib
import functools
import gc
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mutation.mutants import Mutant, marked, mutants, mutated, sampled

ROOT = Path(__file__).parents[2]
PACKAGES = ("model", "inference")
NOT_TRIED = ("_kernels/", "compiled_", "progress.py")
"""Calls of the compiled core, which does not run here, and what is shown during a search."""
TESTED = tuple(f"tests/{one}" for one in ("model", "inference", "missing", "oracles", "estimator"))
WITH_CORE = "tests/inference/_kernels/"
SWITCH = "CUSPFA_NO_COMPILED_CORE"
SLOWEST_TEST = 3.0
"""Seconds of the processor; slower tests are not used."""
BUDGETS = (3.0, 30.0)
"""Seconds of tests for a mutant: of all mutants first, then of those that are left."""
PATIENCE = (10.0, 4.0)
"""Seconds, and multiples of its own, after which a test counts as one that does not end."""
WAITED = 20
"""How many times as long a child may take by the clock, on a machine that does other work."""
MEMORY = 4 * 2**30
"""Bytes that a child may take beyond what its parent has."""
OPTIONS = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--no-header",
    "--assert=plain",
    "-W",
    "ignore::pytest.PytestWarning",
)
PLACE = ROOT / ".mutation"
GROUP = 10
"""Files of tests that run in one process while they are recorded."""
SAMPLE, SEED = 300, 0
NOT_CHANGED = "is not reached by the change"
IMPORT, COLLECTION = "import of the package", "collection of tests"
"""What runs a line where it is no test. Values that test modules make when they are imported are
those without the change."""


def module_name(path: Path) -> str:
    """The name under which a file of the package is imported."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class ChangedModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from changed trees."""

    def __init__(self, trees: dict[Path, ast.Module], names: dict[str, object]) -> None:
        self.trees = {module_name(path): (path, tree) for path, tree in trees.items()}
        self.names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The specification of a changed module, and of no other."""
        if fullname not in self.trees:
            return None
        return importlib.util.spec_from_file_location(
            fullname, self.trees[fullname][0], loader=self
        )

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the changed source."""
        path, tree = self.trees[module.__name__]
        vars(module).update(self.names)
        exec(compile(tree, str(path), "exec"), vars(module))


def replace_code(mutant: Mutant) -> None:
    """Let the function of a mutant, wherever it is referred to, run the changed code."""
    path = ROOT / mutant.path
    importlib.import_module(module_name(path))
    tree = mutated(path.read_text(encoding="utf-8"), mutant.number)

    def codes(code: types.CodeType) -> Generator[types.CodeType]:
        yield code
        for one in code.co_consts:
            if isinstance(one, types.CodeType):
                yield from codes(one)

    new = {
        (code.co_qualname, code.co_firstlineno): code
        for code in codes(compile(tree, str(path), "exec"))
        if code.co_qualname == mutant.function
    }
    replaced = 0
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and one.__code__.co_filename == str(path):
            changed = new.get((one.__code__.co_qualname, one.__code__.co_firstlineno))
            if changed is not None:
                one.__code__ = changed
                replaced += 1
    if not replaced:
        raise RuntimeError(f"No function to change for {mutant}.")


# --- tests, one after the other ---


class OneByOne:
    """A plugin of pytest: what is done with the tests after they are collected."""

    def __init__(self, work: Callable[["OneByOne"], None]) -> None:
        self.work = work
        self.items: dict[str, pytest.Item] = {}
        self.caches: list[functools._lru_cache_wrapper[object]] = []
        self.failures: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of running all tests."""
        self.items = {one.nodeid: one for one in session.items}
        self.caches = [
            one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)
        ]
        self.caches = [one for one in self.caches if one.__module__.startswith(("cuspfa", "tests"))]
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Whether a test failed."""
        if report.failed:
            self.failures.append(report.nodeid)

    def run(
        self, name: str, following: str | None, seconds: float, slow: Callable[[], None]
    ) -> bool:
        """Does a test pass? Nothing is left in caches from tests before it."""
        for one in self.caches:
            one.cache_clear()
        if name.startswith(WITH_CORE):
            os.environ.pop(SWITCH, None)
        else:
            os.environ[SWITCH] = "1"
        signal.signal(signal.SIGPROF, lambda number, frame: slow())
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            item = self.items[name]
            following_item = None if following is None else self.items[following]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following_item)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
        return name not in self.failures


def in_child(work: Callable[[], int], seconds: float, log: Path | None = None) -> int | None:
    """The exit code of work in a child process, None where it takes longer."""
    pid = os.fork()
    if pid == 0:
        result = 99
        try:
            os.setpgid(0, 0)
            if log is not None:
                descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(descriptor, 1)
                os.dup2(descriptor, 2)
                os.chdir(ROOT)
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            result = int(work())
        finally:
            os._exit(result)
    code: int | None = None
    end = time.monotonic() + seconds
    while code is None and time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if code is None:
        os.waitpid(pid, 0)
    return code


# --- which test comes past which change ---


class Recorder:
    """The changes that each test, and each fixture that several tests share, comes past."""

    def __init__(self) -> None:
        self.context = IMPORT
        self.found: dict[str, set[str]] = {}
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.tests: list[str] = []

    def mark(self, key: str) -> None:
        """What the marks in the source call."""
        self.found.setdefault(self.context, set()).add(key)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """What runs for a fixture of more than one test belongs to each of them."""
        if fixturedef.scope == "function":
            return (yield)
        outer, self.context = self.context, f"{fixturedef.baseid}::{fixturedef.argname}"
        begin = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[self.context] = time.process_time() - begin
            self.context = outer

    def all(self, tests: OneByOne) -> None:
        """Run all tests."""
        self.tests = names = list(tests.items)
        for name, following in zip(names, [*names[1:], None], strict=True):
            self.context, begin = name, time.process_time()
            if not tests.run(name, following, SLOWEST_TEST, self.slow):
                self.failed.append(name)
            self.seconds[name] = time.process_time() - begin
            for fixture in self.fixtures(tests.items[name]):
                if fixture in self.seconds:
                    self.found.setdefault(name, set()).update(self.found.get(fixture, ()))
                    self.seconds[name] = max(self.seconds[name], self.seconds[fixture])
        self.context = COLLECTION

    @staticmethod
    def fixtures(item: pytest.Item) -> list[str]:
        """The names of the fixtures of a test."""
        known = getattr(item, "_fixtureinfo", None)
        named = {} if known is None else known.name2fixturedefs
        return [f"{one.baseid}::{one.argname}" for every in named.values() for one in every]

    @staticmethod
    def slow() -> None:
        """Where a test takes longer than those that are used."""
        pytest.fail("slow", pytrace=False)


def digest(paths: Iterable[Path]) -> str:
    """A hash of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def state_of_the_package() -> str:
    """A hash of its modules."""
    return digest(sorted((ROOT / "src" / "cuspfa").rglob("*.py")))


class Test(NamedTuple):
    """A test as it was recorded."""

    name: str
    state: str
    """Of its file."""
    seconds: float
    past: frozenset[str]
    """Keys of the changes it comes past."""


def key_of(mutant: Mutant) -> str:
    """The name of a mutant."""
    return f"{mutant.path}:{mutant.number}"


def record(files: Sequence[str], kept: dict[str, Path], trees: dict[Path, ast.Module]) -> int:
    """Run the tests of files and write which change each comes past."""
    recorder = Recorder()
    sys.meta_path.insert(0, ChangedModules(trees, {"__mark__": recorder.mark}))
    for path in trees:
        importlib.import_module(module_name(path))
    recorder.context = COLLECTION
    code = pytest.main([*OPTIONS, *files], plugins=[OneByOne(recorder.all), recorder])
    before = {"seconds": 0.0, "past": sorted(recorder.found.get(IMPORT, ()))}
    for file in files:
        found = {
            name: {"seconds": seconds, "past": sorted(recorder.found.get(name, ()))}
            for name, seconds in recorder.seconds.items()
            if name in recorder.tests
            and name.startswith(f"{file}::")
            and name not in recorder.failed
        }
        kept[file].write_text(json.dumps({IMPORT: before, **found}), encoding="utf-8")
    return 0 if code <= 1 else int(code)


def recorded(files: Sequence[str], sample: Sequence[Mutant]) -> tuple[list[Test], set[str]]:
    """The tests of files, and the changes that run when the package is imported."""
    own = hashlib.sha256(json.dumps([key_of(one) for one in sample]).encode()).hexdigest()[:8]
    place = PLACE / f"tests-{state_of_the_package()}-{own}"
    place.mkdir(parents=True, exist_ok=True)
    states = {one: digest([ROOT / one]) for one in files}
    kept = {one: place / f"{one.replace('/', '-')}-{states[one]}.json" for one in files}
    new = [one for one in files if not kept[one].exists()]
    trees = {
        ROOT / path: marked(
            (ROOT / path).read_text(encoding="utf-8"), {one: f"{path}:{one}" for one in numbers}
        )
        for path, numbers in by_path(sample).items()
    }
    # In groups, so that a run that was ended goes on.
    for begin in range(0, len(new), GROUP):
        print(f"Which test comes past which change: {begin} of {len(new)} files", flush=True)
        work = functools.partial(record, new[begin : begin + GROUP], kept, trees)
        if code := in_child(work, float("inf"), log := place / f"{begin}.txt"):
            raise RuntimeError(f"The tests cannot be run ({code}): see {log}")
    found, before = [], set()
    for file in files:
        for name, one in json.loads(kept[file].read_text(encoding="utf-8")).items():
            if name == IMPORT:
                before |= set(one["past"])
            else:
                found.append(Test(name, states[file], one["seconds"], frozenset(one["past"])))
    return found, before


def by_path(sample: Iterable[Mutant]) -> dict[str, list[int]]:
    """The numbers of mutants of each module."""
    found: dict[str, list[int]] = {}
    for one in sample:
        found.setdefault(one.path, []).append(one.number)
    return found


# --- mutants ---


class Outcomes:
    """What was found before, in a file to which several processes add lines."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.noticed: dict[str, str] = {}
        """By which test, of each mutant that one noticed."""
        self.passed: dict[str, set[tuple[str, str]]] = {}
        """Tests, and states of their files, that did not notice a mutant."""
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
            self.take(json.loads(line))

    def take(self, one: dict[str, Any]) -> None:
        """One line."""
        self.passed.setdefault(one["mutant"], set()).update(map(tuple, one["passed"]))
        if one["noticed"]:
            self.noticed[one["mutant"]] = one["noticed"]

    def add(self, mutant: Mutant, tests: Sequence[Test], noticed: str | None) -> None:
        """Write what was found, and know it from now on."""
        passed = [(one.name, one.state) for one in tests]
        line = {"mutant": key_of(mutant), "noticed": noticed, "passed": passed}
        self.take(line)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def chosen(mutant: Mutant, tests: Sequence[Test], outcomes: Outcomes, budget: float) -> list[Test]:
    """Tests that come past a mutant and were not tried with it, the fastest first."""
    done, total, found = outcomes.passed.get(key_of(mutant), set()), 0.0, []
    for one in sorted(tests, key=lambda one: one.seconds):
        if key_of(mutant) in one.past:
            total += one.seconds
            if total > budget:
                break
            if (one.name, one.state) not in done:
                found.append(one)
    return found


def trial(tests: Sequence[Test], report: Path, runner: OneByOne) -> int:
    """Run tests until one fails, and write which."""
    resource_limit()
    for place, one in enumerate(tests):

        def end(how: str, place: int = place) -> None:
            report.write_text(json.dumps([place, how]), encoding="utf-8")

        def slow(end: Callable[[str], None] = end) -> None:
            end("does not end")
            os._exit(1)

        end("ends the process")
        following = tests[place + 1].name if place + 1 < len(tests) else None
        if not runner.run(one.name, following, PATIENCE[0] + PATIENCE[1] * one.seconds, slow):
            end("fails")
            return 1
    return 0


def resource_limit() -> None:
    """No more memory than `MEMORY` beyond what the process has."""
    import resource  # Windows has none, where tests import this module but do not run it

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


Way = Callable[[Mutant | None, Sequence[Test], Path], int]
"""Runs tests with a change, or without one, and returns 0 if all pass."""


def by_code(runner: OneByOne) -> Way:
    """The function of a mutant is replaced after the tests were collected."""

    def way(mutant: Mutant | None, tests: Sequence[Test], report: Path) -> int:
        if mutant is not None:
            report.write_text(json.dumps([0, NOT_CHANGED]), encoding="utf-8")
            replace_code(mutant)
        return trial(tests, report, runner)

    return way


def by_import(mutant: Mutant | None, tests: Sequence[Test], report: Path) -> int:
    """The changed module is imported, for what runs when modules are imported."""
    if mutant is not None:
        path = ROOT / mutant.path
        tree = mutated(path.read_text(encoding="utf-8"), mutant.number)
        sys.meta_path.insert(0, ChangedModules({path: tree}, {}))
    found = [1]

    def work(runner: OneByOne) -> None:
        found[0] = trial(tests, report, runner)

    files = sorted({one.name.split("::")[0] for one in tests})
    code = pytest.main([*OPTIONS, *files], plugins=[OneByOne(work)])
    return found[0] or int(code)


def first_that_fails(
    mutant: Mutant | None, tests: Sequence[Test], way: Way
) -> tuple[int, str] | None:
    """The first test that fails in a child, by its place, and how."""
    report = PLACE / f"last-{os.getpid()}.json"
    report.unlink(missing_ok=True)
    seconds = WAITED * sum(PATIENCE[0] + one.seconds for one in tests)
    work = functools.partial(way, mutant, tests, report)
    if in_child(work, seconds, report.with_suffix(".txt")) == 0:
        return None
    if not report.exists():
        return 0, "cannot be collected"
    place, how = json.loads(report.read_text(encoding="utf-8"))
    if how == NOT_CHANGED:
        raise RuntimeError(f"{mutant} cannot be made: see {report.with_suffix('.txt')}")
    return place, how


def try_all(
    sample: Sequence[Mutant],
    tests: Sequence[Test],
    outcomes: Outcomes,
    budgets: Sequence[float],
    way: Way,
) -> None:
    """Try mutants with the tests that come past them."""
    for budget in budgets:
        for mutant in sample:
            left = (
                []
                if key_of(mutant) in outcomes.noticed
                else chosen(mutant, tests, outcomes, budget)
            )
            while left:
                found = first_that_fails(mutant, left, way)
                if found is None:
                    outcomes.add(mutant, left, None)
                    break
                place, how = found
                outcomes.add(mutant, left[:place], None)
                # A test that fails without the change too, on a busy machine, says nothing.
                if first_that_fails(None, left[place : place + 1], way) is None:
                    outcomes.add(mutant, [], f"{left[place].name} {how}")
                    break
                left = left[place + 1 :]


def try_in_processes(
    sample: Sequence[Mutant],
    tests: Sequence[Test],
    outcomes: Outcomes,
    budgets: Sequence[float],
    workers: int,
) -> int:
    """Collect the tests once, and try mutants in processes that have them."""

    def work(runner: OneByOne) -> None:
        others = []
        for first in range(1, workers):
            if (pid := os.fork()) == 0:
                try:
                    try_all(sample[first::workers], tests, outcomes, budgets, by_code(runner))
                finally:
                    os._exit(0)
            others.append(pid)
        try_all(sample[::workers], tests, outcomes, budgets, by_code(runner))
        for pid in others:
            os.waitpid(pid, 0)

    files = sorted({one.name.split("::")[0] for one in tests})
    return int(pytest.main([*OPTIONS, *files], plugins=[OneByOne(work)]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Try a sample, print the survivors and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=SAMPLE, help="how many of the sample")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time")
    parser.add_argument("--tests", nargs="*", default=TESTED, help="folders or files of tests")
    parser.add_argument("--budgets", type=float, nargs="*", default=BUDGETS, help="seconds")
    parser.add_argument("--output", type=Path, default=None, help="a file for the result, JSON")
    given = parser.parse_args(arguments)
    every = [
        mutant
        for package in PACKAGES
        for path in sorted((ROOT / "src" / "cuspfa" / package).rglob("*.py"))
        if not any(part in path.as_posix() for part in NOT_TRIED)
        for mutant in mutants(path, ROOT)
    ]
    everything = sampled(every, SAMPLE, SEED)
    sample = everything[: given.mutants]
    files = [
        path.relative_to(ROOT).as_posix()
        for one in given.tests
        for path in sorted(
            (ROOT / one).rglob("test_*.py") if (ROOT / one).is_dir() else [ROOT / one]
        )
    ]
    tests, before = recorded(files, everything)
    early = [one for one in sample if key_of(one) in before]
    # No test comes past what ran before: those are tried that run anything of the module.
    of_module = {
        one.path: {key_of(two) for two in everything if two.path == one.path} for one in early
    }
    tests_of_early = [
        one._replace(past=frozenset(key_of(two) for two in early if one.past & of_module[two.path]))
        for one in tests
    ]
    outcomes = Outcomes(PLACE / f"outcomes-{state_of_the_package()}.jsonl")
    try_all(early, tests_of_early, outcomes, given.budgets, by_import)
    late = [one for one in sample if key_of(one) not in before]
    work = functools.partial(try_in_processes, late, tests, outcomes, given.budgets, given.workers)
    if code := in_child(work, float("inf"), log := PLACE / "tests.txt"):
        raise RuntimeError(f"The tests cannot be run ({code}): see {log}")
    outcomes = Outcomes(outcomes.file)
    left = [one for one in sample if key_of(one) not in outcomes.noticed]
    for one in left:
        tried = len(outcomes.passed.get(key_of(one), ()))
        print(f"  {one.path}:{one.line} {one.function}: {one.change} ({tried} tests)")
    noticed = len(sample) - len(left)
    result = {
        "mutants": len(every),
        "tried": len(sample),
        "noticed": {key_of(one): outcomes.noticed.get(key_of(one)) for one in sample},
        "left": [one._asdict() for one in left],
    }
    if given.output:
        given.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    share = f" ({100 * noticed / len(sample):.0f} %)" if sample else ""
    print(f"{len(sample)} of {len(every)} mutants tried, {noticed} noticed{share}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
