"""psych of R: K by parallel analysis; minimum residuals of polychoric correlations."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.common import FromR, GaussianFit, LoadingsFit, in_r

NAME, PACKAGE = "psych (R)", "psych"
HOW = "fa, maximum likelihood, K by fa.parallel"
HOW_ORDINAL = 'fa(cor = "poly"), minimum residuals of polychoric correlations'


def fitted(train: np.ndarray) -> FromR:
    """K, loadings and uniquenesses."""
    fit = """
        set.seed(1)
        sink(tempfile())
        k <- fa.parallel(X, fa = "fa", plot = FALSE)$nfact
        found <- fa(X, k, fm = "ml", rotate = "none")
        sink()
    """
    return in_r(
        PACKAGE,
        train,
        fit,
        {"loadings": "unclass(found$loadings)", "uniquenesses": "found$uniquenesses"},
    )


def continuous_fit(train: np.ndarray, found: FromR) -> GaussianFit:
    loadings, psi = found.numbers["loadings"], found.numbers["uniquenesses"][:, 0]
    sd = train.std(axis=0)
    covariance = (loadings @ loadings.T + np.diag(psi)) * np.outer(sd, sd)
    return GaussianFit(loadings.shape[1], train.mean(axis=0), covariance)


def ordinal(rows: np.ndarray, k: int) -> LoadingsFit:
    found = in_r(
        PACKAGE,
        rows,
        f'found <- fa(X, {k}, cor = "poly", rotate = "oblimin")',
        {"loadings": "unclass(found$loadings)"},
    )
    return LoadingsFit(found.numbers["loadings"], found.seconds, found.version)
