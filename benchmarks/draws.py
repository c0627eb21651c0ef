"""Draws and intervals at p = 1000: time against the fit, and memory."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.problems import shaped
from benchmarks.record import row, save
from benchmarks.timing import interleaved, peak_bytes
from cuspfa import CuspFactorAnalysis

P, K = 1000, 10


def all_intervals(data: np.ndarray) -> None:
    CuspFactorAnalysis(n_factors=K).fit(data).posterior_.interval("covariance")


def draws() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows = []
    for n, required in ((10_000, "less time than the fit"), (1000, None)):
        data = shaped(n, P, K).X
        model = CuspFactorAnalysis().fit(data)
        posterior: Any = model.posterior_
        fit, drawn, plain = interleaved(
            [
                partial(CuspFactorAnalysis().fit, data),
                partial(posterior.draw, 2000, random_state=0),
                partial(posterior.draw, 2000, random_state=0, mean_field=True),
            ],
            5,
        )
        rows.append(
            row(
                f"2000 draws, p = {P}, K = {model.n_factors_}, n = {n}",
                f"{drawn:.2f} s ({plain:.2f} s from q)",
                f"the fit: {fit:.2f} s",
                required,
                drawn < fit,
            )
        )
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/data.npy"
        np.save(path, shaped(1000, P, K).X)
        peak = peak_bytes(all_intervals, path)
    rows.append(
        row(
            f"fit and 95 % intervals of all {P} × {P} covariances from 2000 draws, peak memory",
            f"{peak / 1e9:.2f} GB beside the data",
            "the data: 0.01 GB",
            "≤ 2 GB",
            peak <= 2e9,
        )
    )
    return save(
        "draws",
        "Draws and intervals",
        rows,
        notes=[
            "Times are medians of 5. The measured functions alternate, so that other work "
            "affects all alike. Draws have the default settings, which for these data means no "
            "sweeps.",
        ],
        began=began,
    )
