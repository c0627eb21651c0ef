"""Rotations against statsmodels; do intervals of rotated loadings cover; the largest problem."""

from __future__ import annotations

import resource
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis, Rotation, rotate
from cuspfa.posterior.draws import Draws
from cuspfa.rotation.align import align_draws
from cuspfa.rotation.aligned import AlignedDraws
from cuspfa.rotation.axes import on_axes

DESIGNS = ((100, 12, 3), (300, 12, 3), (300, 30, 5), (1000, 30, 5))
SETS = 30
PHI = 0.3
"""Correlation of all true factors."""


def truth(p: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Items of one factor each, with small loadings besides; and the root of Φ."""
    membership = np.kron(np.eye(k), np.ones((p // k, 1)))
    loadings = membership * rng.uniform(0.5, 0.9, size=(p, k)) + 0.1 * rng.standard_normal((p, k))
    return loadings, np.linalg.cholesky(PHI + (1 - PHI) * np.eye(k))


def one(n: int, p: int, k: int, method: str, seed: int) -> dict[str, float]:
    """Coverage of loadings, factor correlations and scores of one set."""
    rng = np.random.default_rng(seed)
    loadings, root = truth(p, k, rng)
    flat = loadings @ root
    scores = rng.standard_normal((n, k))
    X = scores @ flat.T + 0.7 * rng.standard_normal((n, p))
    posterior = CuspFactorAnalysis(n_factors=k, rotation=method).fit(X).posterior_
    sd = np.sqrt(np.sum(flat**2, axis=1) + 0.49)
    found = rotate(flat / sd[:, None], method)
    mean = posterior.rotated_solution.loadings
    order = [int(np.argmax(np.abs(found.loadings.T @ mean[:, h]))) for h in range(k)]
    if len(set(order)) < k:  # the mean is at another minimum than the truth
        return {"matched": 0.0}
    sign = np.sign(np.sum(found.loadings[:, order] * mean, axis=0))
    true = found.loadings[:, order] * sign
    result = {"matched": 1.0}
    for by in ("rotation", "procrustes"):
        aligned = posterior.align(alignment=by, n_draws=500)
        table = aligned.table()
        result[by] = float(np.mean((table.lower <= true) & (true <= table.upper)))
        if by == "rotation":
            result["quality"] = aligned.quality
            phi = found.correlations[np.ix_(order, order)] * np.outer(sign, sign)
            ends = np.quantile(aligned.factor_correlations, [0.025, 0.975], axis=0)
            off = ~np.eye(k, dtype=bool)
            result["correlations"] = float(np.mean(((ends[0] <= phi) & (phi <= ends[1]))[off]))
            drawn = aligned.scores(X[:50])
            f = (scores @ found.matrix)[:50, order] * sign
            result["scores"] = float(np.mean((drawn.lower <= f) & (f <= drawn.upper)))
    return result


def coverage() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    details: list[dict[str, Any]] = []
    for method in ("varimax", "oblimin"):
        for n, p, k in DESIGNS:
            sets = [one(n, p, k, method, seed) for seed in range(SETS)]
            kept = [single for single in sets if single["matched"]]
            means = {key: float(np.mean([single[key] for single in kept])) for key in kept[0]}
            means["matched"] = len(kept) / SETS
            details.append({"method": method, "n": n, "p": p, "k": k} | means)
        mine = [line for line in details if line["method"] == method]
        low, high = (f([line["rotation"] for line in mine]) for f in (min, max))
        other = [line["procrustes"] for line in mine]
        lines.append(
            row(
                f"95 % intervals of {method} loadings cover",
                f"{100 * low:.0f} to {100 * high:.0f} % by design",
                f"Procrustes to the mean alone: {100 * min(other):.0f} to {100 * max(other):.0f} %",
                "92 to 98 %",
                low >= 0.92 and high <= 0.98,
            )
        )
    scores = [line["scores"] for line in details]
    lines.append(
        row(
            "95 % intervals of rotated scores cover",
            f"{100 * min(scores):.0f} to {100 * max(scores):.0f} % by design",
            "nominal 95 %",
            "92 to 98 %",
            min(scores) >= 0.92 and max(scores) <= 0.98,
        )
    )
    return lines, details


def speed() -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from statsmodels.multivariate.factor_rotation import rotate_factors

    rng = np.random.default_rng(0)
    loadings, root = truth(200, 8, rng)
    flat = loadings @ root @ np.linalg.qr(rng.standard_normal((8, 8)))[0]
    lines = []
    for ours, theirs in (("varimax", "varimax"), ("quartimin", "quartimin")):
        settings = Rotation(ours, normalize=False, n_starts=1)
        seconds = []
        for action in (
            lambda settings=settings: rotate(flat, settings),
            lambda theirs=theirs: rotate_factors(flat, theirs, tol=1e-5, max_tries=2000),
        ):
            began = time.process_time()
            for _ in range(5):
                action()
            seconds.append((time.process_time() - began) / 5)
        lines.append(
            row(
                f"{ours}, 200 items, 8 factors, one start",
                f"{1000 * seconds[0]:.0f} ms",
                f"statsmodels {1000 * seconds[1]:.0f} ms, ratio {seconds[1] / seconds[0]:.1f}",
            )
        )
    return lines


def largest(p: int = 5000, k: int = 30, size: int = 2000) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    mean = rng.standard_normal((p, k)) * (rng.random((p, k)) < 0.1) * 0.5
    loadings = np.empty((size, p, k))
    for number in range(size):
        spin = np.linalg.qr(rng.standard_normal((k, k)))[0]
        loadings[number] = (mean + 0.05 * rng.standard_normal((p, k))) @ spin
    draws = Draws(loadings, np.full((size, p), 0.5))
    standard = mean / np.sqrt(np.sum(mean**2, axis=1) + 0.5)[:, None]
    lines = []
    for method in ("varimax", "oblimin"):
        rotation = Rotation(method, n_starts=2)
        began = time.process_time()
        rotated_solution = on_axes(standard, rotation)
        first = time.process_time()
        turned = align_draws(draws, rotated_solution, rotation, "rotation")
        second = time.process_time()
        names = [f"x{j}" for j in range(p)]
        aligned = AlignedDraws(draws, rotated_solution, *turned, names, np.zeros(p))
        table = aligned.table()
        third = time.process_time()
        distance = float(np.abs(table.mean - rotated_solution.loadings).max())
        gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        lines.append(
            row(
                f"{method} of {size} draws, {p} variables, {k} factors",
                f"solution {first - began:.0f} s, draws {second - first:.0f} s, "
                f"intervals {third - second:.0f} s; {gigabytes:.1f} GB in all",
                f"the draws themselves {loadings.nbytes / 1e9:.1f} GB; quality "
                f"{aligned.quality:.2f}, means within {distance:.2f} of the truth",
                "runs, memory below twice the draws",
                gigabytes < 2 * loadings.nbytes / 1e9 and distance < 0.1,
            )
        )
    return lines


def alignment() -> list[dict[str, Any]]:
    began = time.perf_counter()
    lines, details = coverage()
    lines += speed() + largest()
    return save(
        "alignment",
        "Loadings on rotated axes",
        lines,
        notes=[
            "Each item loads on one factor (0.5 to 0.9) and has small loadings on the others. "
            f"The factors have correlations of {PHI}. K is given. There are {SETS} data sets for "
            f"each (n, p, K) = {', '.join(map(str, DESIGNS))}. The true loadings are rotated by "
            "the same criterion. Each draw is rotated by the criterion and then matched; for "
            "comparison, each is rotated to the mean by Procrustes alone. The large problem "
            "consists of simulated draws on random axes.",
        ],
        began=began,
        details=details,
    )
