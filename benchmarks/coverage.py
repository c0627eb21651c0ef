"""Do intervals cover? By design, with mean field as the negative control."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis
from cuspfa.datasets import simulate
from cuspfa.posterior.draws import Draws

DESIGNS: dict[str, tuple[dict[str, Any], int]] = {
    "(100, 5, 1) dense": ({"n": 100, "p": 5, "n_factors": 1}, 300),
    "(50, 5, 1) dense": ({"n": 50, "p": 5, "n_factors": 1}, 1000),
    "(50, 10, 2) dense": ({"n": 50, "p": 10, "n_factors": 2}, 120),
    "(200, 10, 2) falling": ({"n": 200, "p": 10, "n_factors": 2, "design": "falling"}, 120),
    "(100, 20, 5) dense": ({"n": 100, "p": 20, "n_factors": 5}, 120),
    "(400, 20, 3) sparse": ({"n": 400, "p": 20, "n_factors": 3, "design": "sparse"}, 120),
    "(1000, 50, 8) Laplace": ({"n": 1000, "p": 50, "n_factors": 8, "design": "laplace"}, 100),
    "(300, 60, 4) Laplace": ({"n": 300, "p": 60, "n_factors": 4, "design": "laplace"}, 100),
    "(500, 50, 5) unequal noise": (
        {"n": 500, "p": 50, "n_factors": 5, "noise": (0.02, 3.0)},
        100,
    ),
    "(50, 100, 3) dense": ({"n": 50, "p": 100, "n_factors": 3}, 100),
    "(100, 100, 10) dense": ({"n": 100, "p": 100, "n_factors": 10}, 100),
    "(200, 100, 20) dense": ({"n": 200, "p": 100, "n_factors": 20}, 60),
    "(150, 300, 5) falling": ({"n": 150, "p": 300, "n_factors": 5, "design": "falling"}, 60),
    "(50, 500, 4) dense": ({"n": 50, "p": 500, "n_factors": 4}, 60),
    "(60, 120, 2) sparse": ({"n": 60, "p": 120, "n_factors": 2, "design": "sparse"}, 200),
    "(100, 200, 3) sparse": ({"n": 100, "p": 200, "n_factors": 3, "design": "sparse"}, 100),
}
EDGE = ("(60, 120, 2) sparse", "(100, 200, 3) sparse")
"""Where the prior is known to be wrong, to see what that costs: nothing is required of these."""
DRAWS, ENTRIES = 1000, 1500
KINDS: dict[str, dict[str, Any]] = {
    "draws": {},
    "without sweeps": {"sweeps": 0},
    "mean field": {"mean_field": True},
}


def covered(draws: Draws, truth: np.ndarray, pairs: np.ndarray) -> dict[str, float]:
    """Shares of entries inside 95 % and 50 % intervals, and the width of the former.

    An entry that is exactly zero because two variables have no factor in common is a product of
    loadings around zero, which intervals cover more often than they should: those count apart.
    """
    left, right = pairs
    entries = np.einsum("dek,dek->de", draws.loadings[:, left], draws.loadings[:, right])
    entries += np.where(left == right, draws.noise_variance[:, left], 0.0)
    variances = np.sum(draws.loadings**2, axis=2) + draws.noise_variance
    sd = np.sqrt(variances)
    off = left != right
    true_sd = np.sqrt(np.diag(truth))
    cases = {
        "covariance": (entries, truth[left, right], true_sd[left] * true_sd[right]),
        "correlation": (
            (entries / sd[:, left] / sd[:, right])[:, off],
            (truth[left, right] / true_sd[left] / true_sd[right])[off],
            1.0,
        ),
    }
    found = {}
    for name, (values, target, unit) in cases.items():
        low, high = np.quantile(values, [0.025, 0.975], axis=0)
        inside = (low <= target) & (target <= high)
        there = target != 0
        found[f"{name} 95"] = float(np.mean(inside[there]))
        found[f"{name} 95 all"] = float(np.mean(inside))
        found[f"{name} width"] = float(np.mean((high - low) / unit))
        low, high = np.quantile(values, [0.25, 0.75], axis=0)
        found[f"{name} 50"] = float(np.mean(((low <= target) & (target <= high))[there]))
    return found


def one(design: dict[str, Any], seed: int) -> dict[str, dict[str, float]] | None:
    sim = simulate(**design, random_state=10_000 + seed)
    model = CuspFactorAnalysis(random_state=0).fit(sim.X)
    if model.n_factors_ != design["n_factors"]:
        return None
    p = design["p"]
    pairs = np.array(np.triu_indices(p))
    if pairs.shape[1] > ENTRIES:
        chosen = np.random.default_rng(seed).choice(pairs.shape[1], ENTRIES, replace=False)
        pairs = pairs[:, chosen]
    return {
        kind: covered(
            model.posterior_.draw(DRAWS, random_state=seed, **settings), sim.covariance, pairs
        )
        for kind, settings in KINDS.items()
    }


def coverage() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows, details = [], []
    for name, (design, sets) in DESIGNS.items():
        done = Parallel(n_jobs=2, batch_size=1)(delayed(one)(design, seed) for seed in range(sets))
        right = [result for result in done if result is not None]
        for kind in KINDS:
            mean = {
                key: float(np.mean([result[kind][key] for result in right]))
                for key in right[0][kind]
            }
            error = {
                key: float(np.std([result[kind][key] for result in right]) / np.sqrt(len(right)))
                for key in right[0][kind]
            }
            details.append(
                {"design": name, "kind": kind, "sets": sets, "right": len(right), **mean}
                | {f"se {key}": value for key, value in error.items() if "width" not in key}
            )
            tight = [mean[f"{what} 95"] for what in ("covariance", "correlation")]
            half = [mean[f"{what} 50"] for what in ("covariance", "correlation")]
            inside = all(0.93 <= t <= 0.97 for t in tight) and all(0.45 <= h <= 0.55 for h in half)
            main, asked = kind == "draws", kind == "draws" and name not in EDGE
            whole = mean["covariance 95 all"]
            zeros = f", with zeros {100 * whole:.1f} %" if whole != tight[0] else ""
            rows.append(
                row(
                    f"{name}: {kind}" + (f", K right in {len(right)} of {sets}" if main else ""),
                    f"covariances {100 * tight[0]:.1f} % (50 %: {100 * half[0]:.1f}{zeros}), width "
                    f"{mean['covariance width']:.3f}; correlations {100 * tight[1]:.1f} % "
                    f"(50 %: {100 * half[1]:.1f}), width {mean['correlation width']:.3f}",
                    f"nominal; standard errors {100 * error['covariance 95']:.1f} and "
                    f"{100 * error['correlation 95']:.1f}",
                    "93–97 % and 45–55 %" if asked else None,
                    inside,
                )
            )
        print(f"  {rows[-3]['what']}: {rows[-3]['measured']}", flush=True)
        print(f"  {rows[-2]['what']}: {rows[-2]['measured']}", flush=True)
    return save(
        "coverage",
        "Coverage of intervals",
        rows,
        notes=[
            f"Coverage of 95 % and 50 % intervals from {DRAWS} draws, over up to {ENTRIES} "
            "entries of Ω and of its correlation matrix, averaged over the data sets in which "
            "the true number of factors was found. Entries that are exactly zero (sparse "
            "designs) are products of loadings around zero. Intervals cover them more often "
            "than stated, so they are included only where the line says so. Widths of "
            "covariances are in units of the two standard deviations. CuspFactorAnalysis() has "
            "its default settings. 'without sweeps' is the scale-rotation move alone; mean "
            "field is the paper's q, the negative control. Standard errors are over data sets.",
            f"{' and '.join(EDGE)}: four in five variables have no loading on a factor, and "
            "there are more variables than rows. The slab has one variance for all loadings of "
            "a factor, which is wrong for these designs. Intervals of the entries that are not "
            "zero are then too narrow, also with exact sampling.",
        ],
        began=began,
        details=details,
    )
