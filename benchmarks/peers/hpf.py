"""hpfrec: hierarchical Poisson factorization, with K given."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.common import CountFit, installed

NAME, PACKAGE = "hpfrec", "hpfrec"
HOW_COUNTS = "hierarchical Poisson factorization, K given"


def number() -> str:
    return installed(PACKAGE)


def counts(train: np.ndarray, k: int) -> CountFit:
    import pandas as pd
    from hpfrec import HPF

    row, column = np.nonzero(train)
    table = pd.DataFrame({"UserId": row, "ItemId": column, "Count": train[row, column]})
    model = HPF(k=k, reindex=False, random_seed=1, verbose=False, ncores=1, maxiter=500)
    model.fit(table)
    rates = np.full(train.shape, 1e-10)
    rates[: len(model.Theta), : len(model.Beta)] = model.Theta @ model.Beta.T
    return CountFit(k, rates)
