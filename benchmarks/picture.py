"""The figure of docs/benchmarks.md, from the stored results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import RESULTS

DRAWN = {"left": "real_speed", "middle": "coverage", "right": "count"}
"""The sections of the panels."""
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#888888"
WEIGHTS = (0.0, 0.5, 0.8, 0.95, 1.0)
"""Edges of the groups of sets by their weight, in the right panel."""


def details(section: str) -> list[dict[str, Any]]:
    text = (RESULTS / f"{section}.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["details"]
    return found


def draw(path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    figure, (speed, coverage, count) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    shapes = details("real_speed")
    ours, theirs = (np.array([one[key] for one in shapes]) for key in ("seconds", "FactorAnalysis"))
    ends = [min(ours.min(), theirs.min()) / 2, 2 * max(ours.max(), theirs.max())]
    speed.loglog(theirs, ours, "o", ms=4, color=BLUE)
    speed.loglog(ends, ends, color=GREY, lw=1)
    speed.set(xlabel="FactorAnalysis at the true K, s", ylabel="whole search, s", title="Speed")

    kinds = {"draws": ("default draws", BLUE), "mean field": ("mean field", ORANGE)}
    coverage.axhspan(93, 97, color=GREY, alpha=0.2, lw=0)
    for kind, (label, colour) in kinds.items():
        shares = [100 * one["covariance 95"] for one in details("coverage") if one["kind"] == kind]
        coverage.plot(range(1, len(shares) + 1), shares, "o", ms=5, color=colour, label=label)
    coverage.set(xlabel="design", ylabel="covered, %", title="95 % intervals", ylim=(35, 100))
    coverage.xaxis.set_major_locator(MaxNLocator(integer=True))
    coverage.legend(frameon=False, loc="lower left", fontsize=8)

    sets = details("count")
    weight = np.array([one["evidence weight"] for one in sets])
    right = np.array([one["evidence k"] == one["k"] for one in sets])
    group = np.digitize(weight, WEIGHTS[1:-1])
    for number in range(len(WEIGHTS) - 1):
        own = group == number
        share, mean = right[own].mean(), weight[own].mean()
        half = 1.96 * np.sqrt(share * (1 - share) / own.sum())
        count.errorbar(mean, share, half, fmt="o", ms=5, color=BLUE)
        count.annotate(
            f"{own.sum()} sets",
            (mean, share),
            (-6, 4),
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )
    count.plot([0, 1], [0, 1], color=GREY, lw=1)
    count.set(xlabel="weight of K", ylabel="share right", title="Number of factors")
    figure.savefig(path, dpi=130)
    plt.close(figure)
