"""`python -m benchmarks peers`: one table of all programs that are installed.

Python programs: `pip install factor-analyzer mofapy2 pyPLNmodels hpfrec statsmodels mirt`. Programs
of R: Debian's r-cran-psych, r-cran-lavaan and r-cran-gparotation. Ordinal columns have a section of
their own, `ordinal_peers`.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from benchmarks.peers import (
    cuspfa_,
    factor_analyzer_,
    hpf,
    mofa,
    pln,
    r_lavaan,
    r_psych,
    scikit_learn,
    statsmodels_,
)
from benchmarks.peers.common import CountFit, GaussianFit, NotHere
from benchmarks.problems import folds, real
from benchmarks.record import row, save
from cuspfa.datasets import simulate

PYTHON = (cuspfa_, scikit_learn, factor_analyzer_, statsmodels_, mofa)
R = (r_psych, r_lavaan)
COUNTS = (cuspfa_, scikit_learn, hpf, pln)
HEADS = ["data", "program", "K", "time (s)", "held-out log-likelihood", "error", "covered"]
KEPT = 0.75
"""Part of the events of a table of counts that is fitted."""


class Task(NamedTuple):
    """Continuous data: rows to fit, rows to predict, and the truth where it is known."""

    name: str
    train: np.ndarray
    test: np.ndarray
    k: int
    covariance: np.ndarray | None = None


def continuous_tasks() -> list[Task]:
    train, test = folds(real()["bfi"])[0]
    made = simulate(2400, 20, 4, noise=(0.3, 1.0), random_state=0)
    rows = made.X[:400]
    return [
        Task(f"personality items, {len(train)} × 25", train, test, 5),
        Task("simulated, 400 × 20, K = 4", rows, made.X[400:], 4, made.covariance),
    ]


def count_task() -> tuple[str, np.ndarray, np.ndarray, int]:
    """Sums of three gamma parts; the events are divided at random, so that both are Poisson."""
    rng = np.random.default_rng(2)
    rates = rng.gamma(0.4, 2.0, (200, 3)) @ rng.gamma(0.3, 3.0, (3, 40))
    events = rng.poisson(rates)
    events = events[:, (events > 0).sum(axis=0) >= 5]
    train = rng.binomial(events, KEPT)
    name = f"simulated counts, {events.shape[0]} × {events.shape[1]}, K = 3"
    return name, train.astype(float), (events - train).astype(float), 3


def correlation(covariance: np.ndarray) -> np.ndarray:
    sd = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.outer(sd, sd))


def judged(task: Task, program: Any, fit: GaussianFit, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "data": task.name,
        "program": f"{program.NAME}: {program.HOW}",
        "k": fit.n_factors,
        "seconds": seconds,
        "held out": fit.held_out(task.test),
    }
    if task.covariance is not None:
        pairs = np.triu_indices(len(task.covariance), 1)
        truth = correlation(task.covariance)[pairs]
        error = correlation(fit.covariance)[pairs] - truth
        found["error"] = float(np.sqrt(np.mean(error**2)))
        if fit.interval is not None:
            lower, upper = (end[pairs] for end in fit.interval)
            found["covered"] = float(np.mean((lower <= truth) & (truth <= upper)))
    return found


def judged_counts(
    name: str, program: Any, fit: CountFit, test: np.ndarray, seconds: float
) -> dict[str, Any]:
    rates = np.maximum(fit.rates * (1 - KEPT) / KEPT, 1e-10)
    logs = test * np.log(rates) - rates - gammaln(test + 1)
    return {
        "data": name,
        "program": f"{program.NAME}: {program.HOW_COUNTS}",
        "k": fit.n_factors,
        "seconds": seconds,
        "held out": float(logs.sum(axis=1).mean()),
    }


def cells(one: dict[str, Any]) -> list[str]:
    """A row of the table."""
    return [
        one["data"],
        one["program"],
        str(one["k"]),
        f"{one['seconds']:.3g}",
        f"{one['held out']:.3f}",
        f"{one['error']:.4f}" if "error" in one else "–",
        f"{100 * one['covered']:.0f} %" if "covered" in one else "–",
    ]


def peers() -> list[dict[str, Any]]:
    began = time.perf_counter()
    found: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    versions: dict[str, str] = {}
    for task in continuous_tasks():
        for program in PYTHON:
            try:
                versions[program.NAME] = program.number()
                begin = time.process_time()
                fit = program.continuous(task.train, task.k)
            except NotHere as reason:
                missing[program.NAME] = str(reason)
                continue
            found.append(judged(task, program, fit, time.process_time() - begin))
        for program in R:
            try:
                answer = program.fitted(task.train)
            except NotHere as reason:
                missing[program.NAME] = str(reason)
                continue
            versions[program.NAME] = answer.version
            fit = program.continuous_fit(task.train, answer)
            found.append(judged(task, program, fit, answer.seconds))
    name, train, test, k = count_task()
    for program in COUNTS:
        try:
            versions[program.NAME] = program.number()
            begin = time.process_time()
            made = program.counts(train, k)
        except NotHere as reason:
            missing[program.NAME] = str(reason)
            continue
        found.append(judged_counts(name, program, made, test, time.process_time() - begin))
    notes = [
        "Times are processor seconds of a whole analysis as a user would make it: with the choice "
        "of K where a program makes one. Where K is given it is that of the simulation, or 5 for "
        "the questionnaire. The time of cuspfa has intervals with it.",
        "Held-out log-likelihood: of a row that was not fitted, in nats, by the mean and the "
        "covariance of each program; of counts, of a quarter of the events, by the expected "
        "counts. Error: root mean square of the correlations, where the truth is known. Covered: "
        "true correlations inside 95 % intervals, for programs that have such intervals.",
        "Versions: "
        + ", ".join(f"{one} {number}" for one, number in versions.items() if one not in missing)
        + ".",
    ]
    if missing:
        left_out = "; ".join(f"{one} ({reason})" for one, reason in missing.items())
        notes.append(f"Left out where this was run: {left_out}.")
    return save(
        "peers",
        "Other programs on the same data",
        [compared(found, data) for data in dict.fromkeys(one["data"] for one in found)],
        notes=notes,
        began=began,
        details=found,
        table={"heads": HEADS, "body": [cells(one) for one in found]},
    )


def compared(found: list[dict[str, Any]], data: str) -> dict[str, Any]:
    """One line for a data set: this package, and the best prediction of the others."""
    own, *others = [one for one in found if one["data"] == data]
    best = max(others, key=lambda one: float(one["held out"]))

    def words(one: dict[str, Any]) -> str:
        return f"K = {one['k']}, {one['seconds']:.2f} s, {one['held out']:.3f} a held-out row"

    return row(data, words(own), f"best of {len(others)} others, {best['program']}: {words(best)}")
