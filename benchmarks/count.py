"""Is the number of factors right as often as its weight says? With the paper's bound beside it."""

from __future__ import annotations

import time
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import stats

from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis, CuspPrior, InverseGammaSlab, Variational
from cuspfa.datasets import simulate
from cuspfa.errors import CuspWarning

PRIOR = CuspPrior(
    alpha=3.0, slab=InverseGammaSlab(3.0, 1.0), noise_shape=3.0, noise_rate=1.5, spike=None
)
SURE = 0.95
BINS = (0.0, 0.5, 0.8, 0.95, 1.0 + 1e-9)


def from_the_prior(seed: int) -> tuple[np.ndarray, int, dict[str, Any]]:
    """K ~ Poisson(α), θ_h, λ, σ² and rows, all from the model with which they are fitted."""
    rng = np.random.default_rng(seed)
    p, n = int(rng.choice([8, 12, 20])), int(rng.choice([50, 100, 300]))
    k = min(int(rng.poisson(3.0)), p // 2)
    theta = stats.invgamma(3.0, scale=1.0).rvs(k, random_state=rng)
    loadings = rng.standard_normal((p, k)) * np.sqrt(theta)
    noise = 1.5 / rng.gamma(3.0, size=p)
    rows = rng.standard_normal((n, k)) @ loadings.T
    rows += rng.standard_normal((n, p)) * np.sqrt(noise)
    return rows, k, {"prior": PRIOR, "standardize": False}


def from_designs(seed: int) -> tuple[np.ndarray, int, dict[str, Any]]:
    """Dense, sparse, Laplace and falling loadings of several strengths; the default prior."""
    rng = np.random.default_rng(50_000 + seed)
    p, n = int(rng.choice([10, 20, 40])), int(rng.choice([50, 100, 300, 1000]))
    k = int(rng.integers(0, min(p // 3, n // 8) + 1))
    sim = simulate(
        n,
        p,
        k,
        design=str(rng.choice(["dense", "sparse", "laplace", "falling"])),
        strength=float(rng.choice([0.4, 0.7, 1.0])),
        noise=(0.3, 1.0),
        random_state=seed,
    )
    return sim.X, k, {}


SOURCES = {"data from the prior": (from_the_prior, 160), "other designs": (from_designs, 160)}
SCORES = ("evidence", "collapsed", "bound")


def one(source: str, seed: int) -> dict[str, Any]:
    rows, k, settings = SOURCES[source][0](seed)
    found: dict[str, Any] = {"source": source, "seed": seed, "n": rows.shape[0], "k": k}
    found["p"] = rows.shape[1]
    for score in SCORES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CuspWarning)
            model = CuspFactorAnalysis(method=Variational(criterion=score), **settings).fit(rows)
        top = max(model.search_, key=lambda entry: entry.weight)
        found[f"{score} k"] = top.n_factors
        found[f"{score} weight"] = top.weight
        found[f"{score} reported"] = model.n_factors_
    return found


def count() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows, details = [], []
    for source, (_, sets) in SOURCES.items():
        done = Parallel(n_jobs=2, batch_size=4)(delayed(one)(source, seed) for seed in range(sets))
        details += done
        for score in SCORES:
            weight = np.array([result[f"{score} weight"] for result in done])
            right = np.array([result[f"{score} k"] == result["k"] for result in done])
            sure = weight > SURE
            table = ", ".join(
                f"{100 * low:.0f}–{min(100 * high, 100):.0f} %: {right[part].mean():.2f} of "
                f"{part.sum()}"
                for low, high in pairwise(BINS)
                if (part := (weight > low) & (weight <= high)).any()
            )
            rows.append(
                row(
                    f"{source}, weights by the {score}: right among those above 95 %",
                    f"{100 * right[sure].mean():.1f} % of {sure.sum()} ({sets} sets)",
                    f"right by weight: {table}",
                    "≥ 90 %" if score == "evidence" else None,
                    right[sure].mean() >= 0.9,
                )
            )
            print(
                f"  {rows[-1]['what']}: {rows[-1]['measured']}; {rows[-1]['against']}", flush=True
            )
    return save(
        "count",
        "The weight of the number of factors",
        rows,
        notes=[
            "The number of factors with the largest weight is compared with the true number. "
            "Data from the prior: K ~ Poisson(3); loadings, noise and rows are drawn from the "
            "model that is fitted (InvGa(3, 1) slab, InvGa(3, 1.5) noise, not standardised), p "
            "= 8, 12, 20, n = 50, 100, 300. Other designs: dense, sparse, Laplace and falling "
            "loadings of strengths 0.4, 0.7, 1 with the default prior, p = 10, 20, 40, n = 50 "
            "to 1000; in these many weak factors cannot be detected. A weight is the softmax of "
            "the scores over the numbers of factors that were scored.",
        ],
        began=began,
        details=details,
    )
