"""pyPLNmodels: PCA of log rates (Poisson lognormal), the rank by BIC."""

from __future__ import annotations

import contextlib
import io

import numpy as np

from benchmarks.peers.common import CountFit, NotHere, installed

NAME, PACKAGE = "pyPLNmodels", "pyPLNmodels"
HOW_COUNTS = "PlnPCA, rank from 1 to 6 by BIC"


def number() -> str:
    return installed(PACKAGE)


def counts(train: np.ndarray, k: int) -> CountFit:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            from pyPLNmodels import PlnPCACollection
        except ModuleNotFoundError as error:
            raise NotHere(f"it needs {error.name}") from None
        models = PlnPCACollection(train, ranks=[1, 2, 3, 4, 5, 6]).fit()
        best = models.best_model()
    latent = np.asarray(best.latent_variables)
    # Its variational mean of exp(latent) is not exposed; totals are corrected instead.
    rates = np.exp(latent)
    return CountFit(int(best.rank), rates * train.sum(axis=0) / rates.sum(axis=0))
