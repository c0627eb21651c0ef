"""statsmodels: Factor by maximum likelihood, with K given."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.common import GaussianFit, installed

NAME, PACKAGE = "statsmodels", "statsmodels"
HOW = "Factor, maximum likelihood, K given"


def number() -> str:
    return installed(PACKAGE)


def continuous(train: np.ndarray, k: int) -> GaussianFit:
    from statsmodels.multivariate.factor import Factor

    found = Factor(train, n_factor=k, method="ml").fit()
    sd = train.std(axis=0)
    fitted = found.loadings @ found.loadings.T + np.diag(found.uniqueness)
    return GaussianFit(k, train.mean(axis=0), fitted * np.outer(sd, sd))
