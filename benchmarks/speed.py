"""A revision against one before it: cases by turns, in processes of their own.

`make speed BASE=rev` prints a table of eight; `benchmarks real_speed` takes its figures from here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
ROUNDS = 3
"""Turns of each revision; the medians are compared."""

LONG = "select_n_factors, bfi"
PUBLISHED_CHAINS = "Gibbs as published, four chains of 15 000 sweeps"
"""Cases that take a quarter of a minute or more in the revision without the compiled core."""
ITERATION_SHAPES = ((13, 5), (25, 10), (30, 18), (53, 34), (200, 10))
"""p and K of the cases of one iteration."""
ITERATIONS = 200
"""Iterations that are timed together."""


def iteration_case(p: int, k: int) -> str:
    return f"iteration, (p, K) = ({p}, {k})"


def complete_bfi() -> np.ndarray:
    from cuspfa.datasets import load_bfi

    items = load_bfi(subset="items").data
    return np.asarray(items[~np.isnan(items).any(axis=1)])


def tables() -> dict[str, Callable[[], np.ndarray]]:
    """The five real sets, each made when it is asked for."""
    from sklearn import datasets

    from cuspfa.datasets import load_bfi

    def digits() -> np.ndarray:
        pixels = datasets.load_digits().data
        return np.asarray(pixels[:, pixels.var(axis=0) > 0.5])

    return {
        "wine": lambda: datasets.load_wine().data,
        "paper": lambda: load_bfi(subset="paper").data,
        "bfi": complete_bfi,
        "breast cancer": lambda: datasets.load_breast_cancer().data,
        "digits": digits,
    }


def cases() -> dict[str, Callable[[], Callable[[], dict[str, Any]]]]:
    """Each case prepares itself and gives what is timed; what that returns is kept beside it."""
    from cuspfa import CuspFactorAnalysis, Gibbs, select_n_factors
    from cuspfa.datasets import load_bfi, simulate

    def fit(data: np.ndarray) -> dict[str, Any]:
        model = CuspFactorAnalysis().fit(data)
        info = model.posterior_.fit_info
        return {"K": model.n_factors_, "bound": float(info.lower_bound)}

    def of_table(name: str) -> Callable[[], Callable[[], dict[str, Any]]]:
        def prepare() -> Callable[[], dict[str, Any]]:
            data = tables()[name]()
            return lambda: fit(data)

        return prepare

    def intervals() -> Callable[[], dict[str, Any]]:
        model = CuspFactorAnalysis(n_factors=10).fit(complete_bfi())

        def made() -> dict[str, Any]:
            found = model.posterior_.interval("correlation", n_draws=2000, random_state=0)
            return {"interval": float(np.asarray(found.upper)[0, 1])}

        return made

    def chains() -> Callable[[], dict[str, Any]]:
        data = load_bfi(subset="paper").data

        def made() -> dict[str, Any]:
            method = Gibbs(n_draws=500, burn_in=500, n_chains=4)
            model = CuspFactorAnalysis(method=method, random_state=0, n_jobs=1).fit(data)
            return {"K": model.n_factors_}

        return made

    def published_chains() -> Callable[[], dict[str, Any]]:
        data = load_bfi(subset="paper").data

        def made() -> dict[str, Any]:
            model = CuspFactorAnalysis.as_published("gibbs", random_state=0)
            model.set_params(method__n_chains=4, n_jobs=1).fit(data)
            return {"K": model.n_factors_}

        return made

    def number() -> Callable[[], dict[str, Any]]:
        data = complete_bfi()

        def made() -> dict[str, Any]:
            found = select_n_factors(CuspFactorAnalysis(), data, n_jobs=1)
            return {"K": found.n_factors, "held out": found.best_held_out}

        return made

    def wide() -> Callable[[], dict[str, Any]]:
        data = simulate(800, 400, 15, random_state=5).X
        return lambda: fit(data)

    def iterations(p: int, k: int) -> Callable[[], Callable[[], dict[str, Any]]]:
        def prepare() -> Callable[[], dict[str, Any]]:
            from cuspfa import CuspPrior
            from cuspfa.data.complete import prepare_rows
            from cuspfa.inference.variational import run

            data = simulate(1000, p, k, strength=0.7, random_state=p).X
            source = prepare_rows(data, scaling="columns", flat_mean=True).source
            prior, state = CuspPrior(), spectral_state(source, k)
            loop = getattr(run, "run_iterations", None) or getattr(run, "run")  # noqa: B009

            def made() -> dict[str, Any]:
                done = loop(state, source, prior, tol=-np.inf, max_iter=ITERATIONS)
                return {"iterations": done.n_iter, "bound": float(done.total)}

            return made

        return prepare

    own = {f"fit {name}": of_table(name) for name in tables()}
    own |= {iteration_case(p, k): iterations(p, k) for p, k in ITERATION_SHAPES}
    return own | {
        "2000 draws, bfi": intervals,
        "Gibbs, four chains": chains,
        "fit 800 × 400": wide,
        LONG: number,
        PUBLISHED_CHAINS: published_chains,
    }


def spectral_state(source: Any, k: int) -> Any:
    """The start at the leading singular vectors, in every revision."""
    import inspect

    from cuspfa import CuspPrior
    from cuspfa.inference.variational.search import Search

    known = {"tol": 0.05, "max_iter": 1000, "max_factors": k, "rng": np.random.default_rng(0)}
    taken = inspect.signature(Search).parameters
    settings = {name: value for name, value in known.items() if name in taken}
    return Search(source, CuspPrior(), **settings).spectral_state(k)


def child(names: list[str]) -> None:
    """Print a line of JSON for each case: processor seconds and what came out."""
    import time
    import warnings

    warnings.simplefilter("ignore")
    known = cases()
    for name in names:
        call = known[name]()
        call()  # imports, caches
        begin = time.process_time()
        found = call()
        sys.stdout.write(json.dumps({"case": name, "seconds": time.process_time() - begin} | found))
        sys.stdout.write("\n")


def unpack(revision: str, folder: Path) -> None:
    """The tree of a revision, with its compiled core if it has one."""
    archive = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, check=True, capture_output=True
    ).stdout
    subprocess.run(["tar", "x"], cwd=folder, input=archive, check=True)
    if (folder / "setup.py").exists():
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def measure(tree: Path, names: list[str]) -> list[dict[str, Any]]:
    """The cases with the package of a tree, and this file whatever the tree has."""
    path = os.pathsep.join([str(tree / "src"), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed", "--child", *names],
        cwd=ROOT, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [json.loads(line) for line in ended.stdout.splitlines()]


def compare(base: str, names: list[str], rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """For each case the medians of both revisions, and what came out."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(base, Path(folder))
        before: dict[str, list[Any]] = {name: [] for name in names}
        after: dict[str, list[Any]] = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                before[name] += measure(Path(folder), [name])
                after[name] += measure(ROOT, [name])
    return [
        {
            "case": name,
            "before": float(np.median([one["seconds"] for one in before[name]])),
            "after": float(np.median([one["seconds"] for one in after[name]])),
            "was": {k: v for k, v in before[name][0].items() if k not in ("case", "seconds")},
            "is": {k: v for k, v in after[name][0].items() if k not in ("case", "seconds")},
        }
        for name in names
    ]


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--child"]:
        child(arguments[1:])
        return 0
    if not arguments:
        print("Name the revision to compare with: make speed BASE=HEAD~1")
        return 2
    print(f"{'case':22}{'before':>10}{'now':>10}{'times':>8}   result before | now")
    few = {LONG, PUBLISHED_CHAINS} | {iteration_case(p, k) for p, k in ITERATION_SHAPES}
    names = arguments[1:] or [name for name in cases() if name not in few]
    for one in compare(arguments[0], names, rounds=1):
        print(
            f"{one['case']:22}{one['before']:9.3f}s{one['after']:9.3f}s"
            f"{one['before'] / one['after']:8.1f}   {one['was']} | {one['is']}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
