"""Which noise prior should be the default: held-out likelihood on real data, and pure noise."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

from benchmarks.problems import folds, real
from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis, CuspPrior

PRIORS = (
    (1.0, 0.3),
    (1.0, 0.003),
    (0.1, 0.003),
    (-0.5, 0.003),
    (-1.0, 0.03),
    (-1.0, 0.003),
    (-1.0, 0.0003),
)
PURE = ((10, 100), (20, 100), (100, 10), (50, 30), (30, 300))


def model(shape: float, rate: float) -> CuspFactorAnalysis:
    prior = CuspPrior(noise_shape=shape, noise_rate=rate)
    return CuspFactorAnalysis(prior=prior)


def score(fitted: CuspFactorAnalysis, test: np.ndarray) -> float:
    distribution = multivariate_normal(fitted.mean_, fitted.get_covariance())
    return float(np.mean(distribution.logpdf(test)))


def noise() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows = []
    for name, data in real().items():
        pairs = folds(data)
        scores = {
            prior: np.mean([score(model(*prior).fit(train), test) for train, test in pairs])
            for prior in PRIORS
        }
        best = max(scores.values())
        for prior, value in scores.items():
            rows.append(row(f"{name}: InvGa{prior}", f"{value - best:+.3f}", "the best of these"))
        print(f"  {name}", flush=True)
    for shape in PURE:
        for prior in PRIORS:
            found = [
                model(*prior).fit(np.random.default_rng(seed).normal(size=shape)).n_factors_
                for seed in range(10)
            ]
            text = f"factors in pure noise, 10 sets: {', '.join(map(str, found))}"
            rows.append(row(f"{shape}: InvGa{prior}", text, "none"))
    return save(
        "noise",
        "The default noise prior",
        rows,
        notes=[
            "Mean log-likelihood of a held-out row, in 5 folds; K is chosen by the evidence.",
        ],
        began=began,
    )
