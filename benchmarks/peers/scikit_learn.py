"""scikit-learn: FactorAnalysis with K by cross-validation; NMF and LDA with K given."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.decomposition import NMF, FactorAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from benchmarks.peers.common import CountFit, GaussianFit, installed

NAME, PACKAGE = "scikit-learn", "scikit-learn"
HOW = "FactorAnalysis, K by 5-fold cross-validation over 1 to 15"
HOW_COUNTS = "NMF with the Kullback–Leibler loss, K given"


def number() -> str:
    return installed(PACKAGE)


def continuous(train: np.ndarray, k: int) -> GaussianFit:
    grid = {"n_components": list(range(1, min(15, train.shape[1]) + 1))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(
            FactorAnalysis(random_state=0), grid, cv=KFold(5, shuffle=True, random_state=0)
        ).fit(train)
    best = search.best_estimator_
    return GaussianFit(best.n_components, best.mean_, best.get_covariance())


def counts(train: np.ndarray, k: int) -> CountFit:
    model = NMF(k, beta_loss="kullback-leibler", solver="mu", max_iter=2000, random_state=0)
    scores = model.fit_transform(train)
    return CountFit(k, scores @ model.components_)
