"""factor_analyzer: maximum likelihood, K as the number of eigenvalues above one."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.common import GaussianFit, NotHere, installed

NAME, PACKAGE = "factor_analyzer", "factor-analyzer"
HOW = "maximum likelihood, K by eigenvalues above one"


def number() -> str:
    return installed(PACKAGE)


def continuous(train: np.ndarray, k: int) -> GaussianFit:
    from factor_analyzer import FactorAnalyzer

    correlation = np.corrcoef(train, rowvar=False)
    k = int(np.sum(np.linalg.eigvalsh(correlation) > 1))
    try:
        model = FactorAnalyzer(n_factors=k, rotation=None, method="ml").fit(train)
    except TypeError as error:
        if "force_all_finite" not in str(error):
            raise
        raise NotHere("its fit fails with the installed scikit-learn") from None
    sd = train.std(axis=0)
    fitted = model.loadings_ @ model.loadings_.T + np.diag(model.get_uniquenesses())
    return GaussianFit(k, train.mean(axis=0), fitted * np.outer(sd, sd))
