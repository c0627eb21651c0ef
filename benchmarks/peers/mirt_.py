"""mirt: the graded response model by EM, by the Python port of the package of R."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.peers.common import LoadingsFit, installed
from cuspfa._utils.warn import silent

NAME, PACKAGE = "mirt for Python", "mirt"
HOW_ORDINAL = "graded response model, EM"


def ordinal(rows: np.ndarray, k: int) -> LoadingsFit:
    """Slopes, standardised."""
    number = installed(PACKAGE)
    import mirt

    began = time.process_time()
    with silent():
        found = mirt.fit_mirt(
            rows.astype(int) - 1, model="GRM", n_factors=k, compute_standard_errors=False
        )
    spent = time.process_time() - began
    slopes = np.asarray(found.model.parameters["discrimination"]).reshape(rows.shape[1], k)
    common = np.pi**2 / 3 + np.sum(slopes**2, axis=1)
    standardised = slopes / np.sqrt(common)[:, None]
    return LoadingsFit(standardised, spent, number, found.log_likelihood)
