"""This package, with its default settings."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.common import CountFit, GaussianFit, installed
from cuspfa import CuspFactorAnalysis, CuspPoissonFactorization
from cuspfa._utils.warn import silent

NAME, PACKAGE = "cuspfa", "cuspfa"
HOW = "K by the evidence"
HOW_COUNTS = "Poisson factorization, K by the evidence"


def number() -> str:
    return installed(PACKAGE)


def continuous(train: np.ndarray, k: int) -> GaussianFit:
    with silent():
        model = CuspFactorAnalysis().fit(train)
        lower, upper = model.posterior_.interval("correlation")
    return GaussianFit(model.n_factors_, model.mean_, model.get_covariance(), (lower, upper))


def counts(train: np.ndarray, k: int) -> CountFit:
    with silent():
        model = CuspPoissonFactorization(random_state=0).fit(train)
        rates = model.inverse_transform(model.transform(train))
    return CountFit(model.n_factors_, np.asarray(rates))
