"""mofapy2: one view, automatic relevance determination, from fifteen factors down."""

from __future__ import annotations

import contextlib
import io

import numpy as np

from benchmarks.peers.common import GaussianFit, installed

NAME, PACKAGE = "MOFA", "mofapy2"
HOW = "one view, factors below 1 % of the variance dropped"


def number() -> str:
    return installed(PACKAGE)


def continuous(train: np.ndarray, k: int) -> GaussianFit:
    from mofapy2.run.entry_point import entry_point

    mean = train.mean(axis=0)
    with contextlib.redirect_stdout(io.StringIO()):
        run = entry_point()
        run.set_data_options(scale_views=False)
        run.set_data_matrix([[train - mean]], likelihoods=["gaussian"])
        run.set_model_options(factors=min(15, train.shape[1] - 1), ard_weights=True)
        run.set_train_options(
            iter=1000, convergence_mode="medium", dropR2=0.01, seed=1, verbose=False
        )
        run.build()
        run.run()
    found = run.model.getExpectations()
    weights, scores = found["W"][0]["E"], found["Z"]["E"]
    tau = found["Tau"][0]["E"][0]
    common = weights @ np.cov(scores, rowvar=False, bias=True).reshape(2 * weights.shape[1:])
    return GaussianFit(weights.shape[1], mean, common @ weights.T + np.diag(1.0 / tau))
