"""Simulated Poisson factorizations, and which of them speak clearly for their K."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.prediction import new_scores
from cuspfa.inference.factorization.state import gammas
from cuspfa.inference.factorization.thinning import thinned

FIRST_SEED = 800_000
"""No other simulation of the project has these."""
CLEAR_NATS, SPLITS = 5.0, 4
SHAPE, POOLING = 0.3, 5.0
"""Of scores and loadings, and of the rates of the columns: what the default prior is centred at."""
KNOWN = 1e8
"""Shape of a gamma variable that is known."""


class Design(NamedTuple):
    n: int
    p: int
    k: int
    mean: float
    """Of a cell."""

    @property
    def name(self) -> str:
        return f"{self.n} × {self.p}, K = {self.k}, mean {self.mean:g}"


DESIGNS = (
    Design(200, 40, 2, 0.1),
    Design(200, 60, 3, 1.0),
    Design(300, 30, 4, 5.0),
    Design(400, 80, 5, 0.5),
    Design(600, 100, 6, 0.2),
    Design(500, 100, 8, 1.0),
    Design(800, 120, 10, 2.0),
    Design(1000, 150, 15, 1.0),
)
DESIGNS_NOTE = (
    "Simulated counts are Poisson variables, of Ga(0.3, 0.3) scores and of loadings Ga(0.3, d_h) "
    "with d_h ~ Ga(5, f), f such that the mean count is as given: factors differ in size by the "
    "prior. A set is clear if thinned halves prefer K over K − 1 by more than 5 nats: given the "
    "true loadings, or the K − 1 that come nearest to the true rates (Kullback–Leibler), scores "
    "are estimated from one half, and the log-likelihood of the other is compared; mean of four "
    "splits. No fit takes part."
)


class CountSet(NamedTuple):
    x: np.ndarray
    scores: np.ndarray
    loadings: np.ndarray

    @property
    def rates(self) -> np.ndarray:
        return np.asarray(self.scores @ self.loadings.T)

    @property
    def counts(self) -> Counts:
        return Counts(sparse.csr_matrix(self.x.astype(float)), np.ones(len(self.x)))


def simulated(design: Design, seed: int) -> CountSet:
    rng = np.random.default_rng(FIRST_SEED + seed)
    n, p, k, mean = design
    scores = rng.gamma(SHAPE, 1 / SHAPE, (n, k))
    own = rng.gamma(POOLING, 1.0, k)
    loadings = rng.gamma(SHAPE, 1.0, (p, k)) / own
    loadings *= mean / np.mean(scores @ loadings.T)
    return CountSet(rng.poisson(scores @ loadings.T), scores, loadings)


def clearness(data: CountSet, seed: int) -> float:
    """Nats of thinned halves for K over K − 1, given loadings; the mean of several splits."""
    fewer, rng, gains = nearest(data), np.random.default_rng(FIRST_SEED + seed), []
    for _ in range(SPLITS):
        train, held = thinned(data.counts, 0.5, rng)
        gains.append(predicted(train, held, data.loadings) - predicted(train, held, fewer))
    return float(np.mean(gains))


def predicted(train: Counts, held: Counts, loadings: np.ndarray) -> float:
    """Log-likelihood of counts, with scores of others, up to a constant."""
    known = gammas(np.full(loadings.shape, KNOWN), KNOWN / np.maximum(loadings, 1e-12))
    scores = new_scores(train, known, SHAPE).mean
    rates = np.maximum(held.rates(scores, loadings), 1e-300)
    return float(held.x.data @ np.log(rates) - np.sum(held.loading_totals(loadings) * scores))


def nearest(data: CountSet) -> np.ndarray:
    """K − 1 loadings whose rates come nearest to the true ones, from K starts."""
    best, found = np.inf, data.loadings
    for h in range(data.loadings.shape[1]):
        kept = np.arange(data.loadings.shape[1]) != h
        far, loadings = approximated(
            data.rates, data.scores[:, kept] + 0.01, data.loadings[:, kept]
        )
        if far < best:
            best, found = far, loadings
    return found


def approximated(
    rates: np.ndarray, scores: np.ndarray, loadings: np.ndarray
) -> tuple[float, np.ndarray]:
    """Kullback–Leibler distance after multiplicative updates, and loadings for scores of mean 1."""
    loadings = loadings + 0.01 * loadings.mean()
    for _ in range(100):
        scores = scores * ((rates / (scores @ loadings.T)) @ loadings) / loadings.sum(axis=0)
        loadings = loadings * ((rates / (scores @ loadings.T)).T @ scores) / scores.sum(axis=0)
    fitted = scores @ loadings.T
    near = np.maximum(rates, 1e-300)
    far = float(np.sum(near * np.log(near / fitted) - near + fitted))
    return far, loadings * scores.mean(axis=0)
