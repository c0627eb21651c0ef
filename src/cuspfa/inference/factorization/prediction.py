"""After a fit to counts: scores and densities of rows, draws, and residual dispersion."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from cuspfa._typing import Array
from cuspfa.data.counts import BLOCK, Counts, row_of
from cuspfa.inference.factorization.kernels import draw_from_q, sweep
from cuspfa.inference.factorization.split import expected_split
from cuspfa.inference.factorization.state import CountState, Gammas, gammas
from cuspfa.model.poisson_factorization import Hyperparameters, PoissonFactorizationPrior
from cuspfa.posterior.factorization import COUNT_WARM_UP
from cuspfa.posterior.factorization_results import CountTotals, RawDraws

NEW_ROWS_TOLERANCE, NEW_ROWS_ITERATIONS = 1e-6, 500
"""Scores of new rows have converged when no mean changes by more than this part of itself."""
LEAST_RESIDUAL = 0.1
"""Part of the rates that residuals have at least, however close a fit is to its own data."""
DENSITY_DRAWS = 64
"""Random numbers for each row's log density."""


def new_scores(data: Counts, loadings: Gammas, score_shape: float) -> Gammas:
    """q(θ) of rows, given the distribution of the loadings."""
    k = loadings.shape.shape[1]
    rate = score_shape + data.loading_totals(loadings.mean)
    scores = gammas(np.ones((data.n, k)), np.ones((data.n, k)))
    for _ in range(NEW_ROWS_ITERATIONS if k else 0):
        before = scores.mean
        parts = expected_split(data.x, scores.geometric, loadings.geometric).by_row
        scores = gammas(score_shape + parts, rate)
        change = np.abs(scores.mean - before)
        if np.max(change - NEW_ROWS_TOLERANCE * (before + 1e-3)) <= 0:
            break
    return scores


def row_log_densities(data: Counts, q: Gammas, loadings: Array, a: float) -> Array:
    """Log density of each row given loadings (p, K), scores integrated out.

    By importance sampling from q(θ_i), with the same random numbers in each call.
    """
    if loadings.shape[1] == 0:
        return np.where(np.diff(data.x.indptr) > 0, -np.inf, 0.0)
    shape, rate = q.shape, q.shape / q.mean
    rng, rows = np.random.default_rng(0), row_of(data.x)
    totals = data.loading_totals(loadings)
    factorials = np.bincount(rows, gammaln(data.x.data + 1), minlength=data.n)
    by_row = np.asarray(data.x.sum(axis=1)).ravel()
    constant = by_row * np.log(data.exposure) - factorials
    logs = []
    for _ in range(DENSITY_DRAWS):
        scores = np.maximum(rng.standard_gamma(shape) / rate, 1e-290)
        log_scores = np.log(scores)
        prior = a * np.log(a) - gammaln(a) + (a - 1) * log_scores - a * scores
        own = shape * np.log(rate) - gammaln(shape) + (shape - 1) * log_scores - rate * scores
        cells = data.x.data * np.log(data.rates(scores, loadings))
        fit = np.bincount(rows, cells, minlength=data.n) - np.sum(totals * scores, axis=1)
        logs.append(fit + np.sum(prior - own, axis=1))
    return np.asarray(constant + np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)))


def count_totals(data: Counts, scores: Gammas, loadings: Gammas) -> CountTotals:
    """Sums over the data, and their residual dispersion at the mean rates.

    Σ_i (x_ij − λ_ij)² is Σ x² − 2 Σ xλ + Σ λ²: the first two need the counts above zero alone, and
    the last is β_jᵀ(Σ_i s_i² θ_i θ_iᵀ)β_j. It is divided by what it is expected to be for Poisson
    variables: the sum of the rates, less the variance of the rates, by which a fit is nearer to its
    own data.
    """
    beta, x = loadings.mean, data.x
    exposed = data.exposure[:, None] * scores.mean
    expected = np.sum(data.score_totals(scores.mean) * beta, axis=1)
    squares = np.sum((beta @ (exposed.T @ exposed)) * beta, axis=1)
    for start in range(0, x.nnz, BLOCK):
        block = slice(start, min(start + BLOCK, x.nnz))
        rows = np.searchsorted(x.indptr, np.arange(block.start, block.stop), side="right") - 1
        rates = np.einsum("ck,ck->c", exposed[rows], beta[x.indices[block]])
        parts = x.data[block] * (x.data[block] - 2 * rates)
        squares += np.bincount(x.indices[block], parts, minlength=data.p)
    n_missing = 0
    if data.missing is not None:
        n_missing = int(data.missing.nnz)
        lost = Counts(data.missing, data.exposure).rates(exposed, beta)
        squares -= np.bincount(data.missing.indices, lost**2, minlength=data.p)
    freed = data.exposure[:, None] ** 2
    of_scores = data.observed_totals(freed * (scores.mean**2 + scores.shape / scores.rate**2))
    of_means = data.observed_totals(freed * scores.mean**2)
    variance = np.sum(of_scores * (beta**2 + loadings.shape / loadings.rate**2), axis=1)
    variance -= np.sum(of_means * beta**2, axis=1)
    squares = np.maximum(squares, 0.0)  # rounding
    due = np.maximum(expected - variance, LEAST_RESIDUAL * expected)
    return CountTotals(
        n_events=float(x.sum()),
        n_positive=int(x.nnz),
        n_missing=n_missing,
        by_column=np.asarray(x.sum(axis=0)).ravel(),
        dispersion=np.divide(squares, due, out=np.zeros(data.p), where=due > 0),
        dispersion_of_all=float(squares.sum() / due.sum()) if due.sum() > 0 else 0.0,
    )


class ExactDraws:
    """Exact sweeps from a state; it can be pickled with the posterior."""

    def __init__(self, state: CountState, data: Counts, prior: PoissonFactorizationPrior) -> None:
        self.state, self.data, self.prior = state, data, prior

    def __call__(
        self, n_draws: int, thin: int, rng: np.random.Generator, keep_scores: bool
    ) -> RawDraws:
        """Draws after a warm-up, `thin` sweeps apart."""
        k = self.state.n_factors
        scores = np.empty((n_draws, self.data.n, k)) if keep_scores else None
        loadings, shares = np.empty((n_draws, self.data.p, k)), np.empty((n_draws, k))
        hyper: list[Hyperparameters] = []
        at = draw_from_q(self.state, self.prior, rng)
        for number in range(-COUNT_WARM_UP, n_draws):
            for _ in range(thin):
                at = sweep(at, self.data, self.prior, rng)
            if number >= 0:
                if scores is not None:
                    scores[number] = at.scores
                loadings[number] = at.loadings
                sizes = (self.data.exposure @ at.scores) * at.loadings.sum(axis=0)
                shares[number] = sizes / sizes.sum()
                hyper.append(at.hyper)
        return RawDraws(loadings, shares, hyper, scores)
