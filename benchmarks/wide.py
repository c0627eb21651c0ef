"""A whole search on wide data against one randomised SVD of the same matrix."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems import WIDE, shaped
from benchmarks.record import row, save
from benchmarks.svd import rank_60
from benchmarks.timing import interleaved, peak_bytes
from cuspfa import CuspFactorAnalysis


def fit(data: np.ndarray) -> CuspFactorAnalysis:
    return CuspFactorAnalysis(random_state=0).fit(data)


def wide() -> list[dict[str, Any]]:
    began = time.perf_counter()
    data = shaped(*WIDE).X
    found = fit(data).n_factors_
    ours, svd = interleaved([lambda: fit(data), lambda: rank_60(data)], 3)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "data.npy")
        np.save(path, data)
        extra, extra_svd = (peak_bytes(call, path) / data.nbytes for call in (fit, rank_60))
    rows = [
        row(
            f"{WIDE}, whole search, K = {found}, time",
            f"{ours:.2f} s: {ours / svd:.2f}×",
            f"randomized_svd of rank 60: {svd:.2f} s",
            "≤ 8×",
            ours <= 8 * svd,
        ),
        row(
            "peak memory beside the data",
            f"{extra:.2f}× the data",
            f"data {data.nbytes / 1e6:.0f} MB; randomized_svd: {extra_svd:.2f}×",
            "≤ 2.5×",
            extra <= 2.5,
        ),
        row(
            "peak memory, the user's data included",
            f"{1 + extra:.2f}× the data",
            f"randomized_svd: {1 + extra_svd:.2f}×",
        ),
    ]
    return save(
        "wide",
        "More columns than rows",
        rows,
        notes=[
            "Times are medians of 3; the measured functions alternate. Memory: the peak (VmHWM) "
            "of a separate process, minus its value with the data loaded.",
        ],
        began=began,
    )
