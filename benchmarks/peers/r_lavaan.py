"""lavaan of R: exploratory factor analysis, K by BIC; weighted least squares of ordinal columns."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.common import FromR, GaussianFit, LoadingsFit, in_r

NAME, PACKAGE = "lavaan (R)", "lavaan"
HOW = "efa, maximum likelihood, K from 1 to 12 by BIC"
HOW_ORDINAL = "efa(ordered = TRUE), weighted least squares"


def fitted(train: np.ndarray) -> FromR:
    """K and the covariances of the model."""
    fit = """
        all <- lapply(1:12, function(k) tryCatch(
            efa(X, nfactors = k, rotation = "none", output = "lavaan"), error = function(e) NULL))
        bic <- sapply(all, function(one) if (is.null(one)) Inf else
            tryCatch(BIC(one), error = function(e) Inf))
        k <- which.min(bic)
        implied <- lavInspect(all[[k]], "implied")$cov
    """
    return in_r(PACKAGE, train, fit, {"k": "k", "covariance": "unclass(implied)"})


def continuous_fit(train: np.ndarray, found: FromR) -> GaussianFit:
    k = int(found.numbers["k"][0, 0])
    return GaussianFit(k, train.mean(axis=0), found.numbers["covariance"])


def ordinal(rows: np.ndarray, k: int) -> LoadingsFit:
    found = in_r(
        PACKAGE,
        rows,
        f'found <- efa(X, nfactors = {k}, ordered = TRUE, rotation = "oblimin")',
        {"loadings": f'lavInspect(found$nf{k}, "std")$lambda'},
    )
    return LoadingsFit(found.numbers["loadings"], found.seconds, found.version)
