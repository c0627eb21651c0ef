"""Time of a fit against n, p and K, with the slope that theory says."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.problems import shaped
from benchmarks.record import row, save
from benchmarks.timing import median_seconds, seconds
from cuspfa import CuspFactorAnalysis, Moments

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "scaling.png"
GRIDS = {
    "n": [(n, 100, 5) for n in (300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)],
    "p": [(500, p, 5) for p in (50, 150, 450, 1000, 2500, 6000, 20_000)],
    "K": [(2000, 500, k) for k in (2, 5, 10, 20, 40, 80, 160)],
}
LABELS = {
    "n": "rows n   (p = 100, K = 5)",
    "p": "columns p   (n = 500, K = 5)",
    "K": "factors K   (n = 2000, p = 500)",
}
# Slope, the point it is drawn through (counted from the end), where it begins, what it is.
THEORY: dict[str, list[tuple[float, int, float, str]]] = {
    "n": [(1, -1, 2e4, "one pass over the rows, np²: slope 1")],
    "p": [(1, -1, 500, "products with n×p rows, npK: slope 1")],
    "K": [
        (1, -3, 8, "products with the Gram, p²K: slope 1"),
        (2, -1, 40, "products of p×K, pK²: slope 2"),
    ],
}


def measure(shape: tuple[int, int, int]) -> dict[str, Any]:
    data, k = shaped(*shape).X, shape[2]

    def fit() -> CuspFactorAnalysis:
        return CuspFactorAnalysis(n_factors=k, random_state=0).fit(data)

    def fit_without_the_pass() -> CuspFactorAnalysis:
        return CuspFactorAnalysis(n_factors=k, random_state=0).fit_moments(moments)

    model, first = fit(), seconds(fit)
    iterations = sum(entry.n_iter for entry in model.search_)
    repeats = 3 if first > 1 else 15
    n, p, k = shape
    result = {
        "n": n,
        "p": p,
        "k": k,
        "iterations": iterations,
        "seconds": median_seconds(fit, repeats),
    }
    if n >= p:
        moments = Moments.from_rows(data)
        result["seconds_after_the_pass"] = median_seconds(fit_without_the_pass, repeats)
    return result


def scaling() -> list[dict[str, Any]]:
    began = time.perf_counter()
    points = {name: [measure(shape) for shape in grid] for name, grid in GRIDS.items()}
    draw(points)
    rows = [slopes(name, found) for name, found in points.items()]
    save(
        "scaling",
        "Time of a fit by n, p and K",
        rows,
        notes=[
            "Default prior, K given, from raw data; median of 3 to 15 fits. Where n ≥ p, the "
            "time after the one pass over the rows (fit_moments) is shown too.",
        ],
        began=began,
        details=[{"against": name, **one} for name, found in points.items() for one in found],
        figure="figures/scaling.png",
    )
    return rows


def slopes(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    key, first, (before, last) = name.lower(), found[0], found[-2:]
    slope = np.log(last["seconds"] / before["seconds"]) / np.log(last[key] / before[key])
    theory = "; ".join(what for *_, what in THEORY[name])
    return row(
        f"{name} from {first[key]:,} to {last[key]:,}",
        f"{1000 * first['seconds']:.0f} ms to {1000 * last['seconds']:.0f} ms, slope of the last "
        f"step {slope:.2f}; {first['iterations']} to {last['iterations']} iterations",
        f"{theory}, for a fixed number of iterations",
    )


def draw(points: dict[str, list[dict[str, Any]]]) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.9), layout="constrained", sharey=True)
    for axis, (name, found) in zip(axes, points.items(), strict=True):
        x = np.array([one[name.lower()] for one in found], dtype=float)
        y = np.array([one["seconds"] for one in found])
        after = np.array([one.get("seconds_after_the_pass", np.nan) for one in found])
        axis.plot(x, y, "o-", color="#0072b2", ms=5, lw=1.4, label="one fit")
        axis.plot(x, after, "s:", color="#009e73", ms=4.5, lw=1.4, label="without the pass")
        for (slope, at, begin, what), style in zip(THEORY[name], ("--", "-."), strict=False):
            through = after[at] if name == "K" else y[at]
            ends = np.array([begin, x[at]])
            guide = through * (ends / x[at]) ** slope
            axis.plot(ends, guide, style, color="#d55e00", lw=1.8, label=what)
        axis.set(xscale="log", yscale="log", xlabel=LABELS[name])
        axis.grid(alpha=0.3, which="major")
        axis.legend(frameon=False, fontsize=8.5, loc="upper left")
    ticks = [shape[2] for shape in GRIDS["K"]]
    axes[2].set_xticks(ticks, list(map(str, ticks)))
    axes[2].minorticks_off()
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(low, high * 8)
    axes[0].set_ylabel("seconds")
    figure.savefig(FIGURE, dpi=150)
    plt.close(figure)
