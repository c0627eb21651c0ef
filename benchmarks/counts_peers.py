"""NMF, LDA and hpfrec: fits to counts, and their K."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.decomposition import NMF, LatentDirichletAllocation

from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.search import CountSearchSettings, fit_given_k
from cuspfa.inference.factorization.thinning import thinned
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior

LEAST_PART = 0.01
"""Every method's rates are mixed with this part of the product of the margins, or a rate of zero
would make a log-likelihood infinite."""
NEVER_SEEN = 0.5
"""Added to each margin: an event may be held out of a row or column that has no other."""
NEAR = 2
"""K − 2 to K + 2 are tried where the truth is known, which helps the methods beside ours."""


def margins(x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Totals of rows, and shares of columns, none of them zero."""
    rows, columns = (np.asarray(x.sum(axis=axis)).ravel() + NEVER_SEEN for axis in (1, 0))
    return rows, columns / columns.sum()


def smoothed(rates: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray((1 - LEAST_PART) * rates + LEAST_PART * np.outer(*margins(x)))


def by_nmf(x: np.ndarray, k: int, seed: int = 0) -> np.ndarray:
    """Rates of NMF with the Kullback–Leibler loss."""
    model = NMF(
        k,
        solver="mu",
        beta_loss="kullback-leibler",
        init="nndsvda",
        max_iter=500,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = model.fit_transform(x)
    return np.asarray(scores @ model.components_)


def by_lda(x: np.ndarray, k: int, seed: int = 0) -> np.ndarray:
    """Rates of LDA: the events of a row, times its mixture of topics."""
    model = LatentDirichletAllocation(k, max_iter=50, random_state=seed)
    shares = model.fit_transform(x)
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return np.asarray(x.sum(axis=1, keepdims=True) * (shares @ topics))


def by_hpfrec(x: np.ndarray, k: int, seed: int = 0) -> np.ndarray:
    """Rates of hierarchical Poisson factorization."""
    from hpfrec import HPF

    row, column = np.nonzero(x)
    table = pd.DataFrame({"UserId": row, "ItemId": column, "Count": x[row, column]})
    model = HPF(
        k,
        ncores=1,
        maxiter=300,
        stop_crit="maxiter",
        check_every=300,
        reindex=False,
        verbose=False,
        random_seed=seed + 1,
        use_float=False,
        keep_data=False,
    )
    model.fit(table)
    rates = np.zeros(x.shape)
    found = np.asarray(model.Theta) @ np.asarray(model.Beta).T
    rates[: found.shape[0], : found.shape[1]] = found
    return rates


ASKED = ("NMF", "LDA", "hpfrec")
PEERS: dict[str, Callable[..., np.ndarray]] = {"NMF": by_nmf, "LDA": by_lda}
if find_spec("hpfrec"):
    PEERS["hpfrec"] = by_hpfrec


def nmf_number(x: np.ndarray, k: int, seed: int) -> dict[str, Any]:
    """K by thinned events: of NMF (two of five folds), and of variational fits (one)."""
    rng = np.random.default_rng(seed)
    tried = range(max(1, k - NEAR), k + NEAR + 1)
    folds = np.zeros((5, *x.shape))
    left = x.copy()
    for f in range(4):
        folds[f] = rng.binomial(left, 1 / (5 - f))
        left = left - folds[f].astype(left.dtype)
    folds[4] = left
    values = dict.fromkeys(tried, 0.0)
    for held in folds[:2]:  # two of them: more would take the most of the time
        train = x - held
        for one in tried:
            rates = smoothed(by_nmf(train, one), train) / 4
            values[one] += float(np.sum(held * np.log(np.maximum(rates, 1e-300)) - rates))
    data = Counts(sparse.csr_matrix(x.astype(float)), np.ones(len(x)))
    train_counts, held_counts = thinned(data, 0.75, rng)
    prior = PoissonFactorizationPrior().for_data(data.mean_rate)
    settings = CountSearchSettings(given_work=0.0, tol=1.0)
    own = {}
    for one in tried:
        state = fit_given_k(train_counts, prior, rng, one, settings=settings).run.state
        own[one] = held_out(held_counts, state.scores.mean, state.loadings.mean)
    return {
        "NMF": max(values, key=lambda one: values[one]),
        "thinning": max(own, key=lambda one: own[one]),
    }


def held_out(held: Counts, scores: np.ndarray, loadings: np.ndarray) -> float:
    """Log-likelihood of counts at these means, up to a constant."""
    rates = np.maximum(held.rates(scores, loadings), 1e-300)
    return float(held.x.data @ np.log(rates) - np.sum(held.loading_totals(loadings) * scores))
