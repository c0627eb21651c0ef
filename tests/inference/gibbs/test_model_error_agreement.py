"""The variational answer with model error against the exact sampler: draws, and the evidence.

The variational engine works with the nearest Gaussian rows, the sampler with the exact model. Both
have the same prior, and the number of factors is given.
"""

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, CuspPrior, Gibbs, InverseGammaSlab
from cuspfa.data.complete import prepare_rows
from cuspfa.errors import CuspWarning
from cuspfa.inference.compiled_sweeps import log_likelihoods, sweep_chains
from cuspfa.inference.gibbs.chain import GibbsState, Model, sweep
from cuspfa.inference.gibbs.model_error import model_error_kernel
from cuspfa.inference.kernels import begin_at
from cuspfa.inference.variational.bridge_sampling import (
    Bridge,
    LikelihoodRatios,
    bennett,
)
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_given_k import search_given_k
from cuspfa.inference.variational.tolerance import ToleratedError
from model_error_data import rows_near_model

PRIOR = CuspPrior(slab=InverseGammaSlab(2.0, 0.4))
DRAWS = 4000

# --- draws ---


class Difference(NamedTuple):
    """Between draws of correlations, (draws, pairs) each."""

    mean: float
    """The largest difference of means, in posterior standard deviations."""
    width: float
    """The largest relative difference of widths of 95 % intervals."""
    mean_width: float
    """The mean quotient of these widths."""


def difference(ours, exact):
    ends = [np.quantile(one, [0.025, 0.975], axis=0) for one in (ours, exact)]
    ratio = np.subtract(*ends[0]) / np.subtract(*ends[1])
    gap = np.abs(ours.mean(axis=0) - exact.mean(axis=0)) / exact.std(axis=0)
    return Difference(gap.max(), np.abs(ratio - 1).max(), ratio.mean())


def correlations(draws):
    pairs = np.triu_indices(draws.noise_variance.shape[1], 1)
    return draws.correlation[:, pairs[0], pairs[1]]


def both(rows, k, size, n_draws, burn_in):
    """Differences of variational from exact draws, of Ω and Σ̃; and those without model error.

    Also the Monte Carlo error of a mean, in posterior standard deviations.
    """
    settings = {"n_factors": k, "prior": PRIOR, "random_state": 0}
    chains = Gibbs(n_chains=80, n_draws=n_draws, burn_in=burn_in, thin=5)
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        exact = CuspFactorAnalysis(method=chains, model_error=size, **settings).fit(rows)
    found = CuspFactorAnalysis(model_error=size, **settings).fit(rows).posterior_
    plain = CuspFactorAnalysis(**settings).fit(rows).posterior_
    without = correlations(plain.draw(DRAWS))
    error = np.hypot(1 / np.sqrt(exact.posterior_.diagnostics.smallest_size), 1 / np.sqrt(DRAWS))
    differences = []
    for population in (False, True):
        drawn = correlations(found.draw(DRAWS, population=population))
        right = correlations(exact.posterior_.draw(10**6, population=population))
        differences.append((difference(drawn, right), difference(without, right)))
    return (*differences, error)


CASES = [
    pytest.param(300, 8, 2, 0.05, 0.1, 100, 200, id="300 rows, 0.05"),
    pytest.param(500, 8, 2, 0.05, 0.1, 200, 500, id="500 rows, 0.05", marks=pytest.mark.long),
    pytest.param(500, 8, 2, 0.1, 0.2, 400, 1000, id="500 rows, 0.1", marks=pytest.mark.long),
    pytest.param(400, 10, 3, 0.07, 0.2, 300, 500, id="400 rows, 0.07", marks=pytest.mark.long),
    pytest.param(200, 6, 1, 0.1, 0.2, 400, 500, id="200 rows, 0.1", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("n", "p", "k", "size", "tolerance", "n_draws", "burn_in"), CASES)
def test_variational_draws_agree_with_exact_ones(n, p, k, size, tolerance, n_draws, burn_in):
    rows = rows_near_model(n, p, k, size, seed=0)
    model, population, error = both(rows, k, size, n_draws, burn_in)
    for found, without in (model, population):
        assert found.mean < tolerance + 4 * error
        assert found.width < 0.03 + 4 * error  # the error of a width is about that of a mean
        assert found.mean_width == pytest.approx(1.0, abs=0.04)
        # Draws of a model that is taken to be exact are not among these.
        assert without.mean > tolerance + 4 * error or without.mean_width < 0.9


# --- the evidence ---


def log_ratio_of_evidences(rows, k, size, seed):
    """log p(Y) with model error over that of the nearest Gaussian rows, twice; and mean ratio.

    By `Bridge`, and by Bennett's bridge between draws of the posterior of the nearest
    rows and exact ones. Both without the prior's hyperparameters, which are fixed.
    """
    source = prepare_rows(rows, scaling="columns", flat_mean=True).source
    tolerated = ToleratedError(source, size)
    search = Search(
        tolerated.tempered, PRIOR, tol=0.05, max_iter=2000, max_factors=k, tolerated=tolerated
    )
    search_given_k(search, k)
    search.finish()
    scored = search.scored(k)
    assert scored.approximate
    state, statistics, exact = scored.run.state, scored.statistics, scored.source.log_likelihoods
    plain, corrected = (
        Bridge(state, statistics, PRIOR, np.random.default_rng(0), ratios).with_draws(2000)
        for ratios in (None, LikelihoodRatios(exact, statistics, 2000))
    )

    def log_ratios(chains):
        likelihood = log_likelihoods(chains.loadings, chains.noise, statistics)
        return exact(chains.loadings, chains.noise) - likelihood

    rng, slab = np.random.default_rng(seed), state.slab.with_fixed_hyperparameters()
    chains = begin_at(state.loadings, state.noise, slab, 200, rng)
    of_near, of_exact = [], []
    for number in range(10):
        chains = sweep_chains(chains, statistics, slab, PRIOR, 5 if number else 20, rng)
        of_near.append(log_ratios(chains))
    kernel = model_error_kernel(source, size)
    model = Model(kernel, replace(PRIOR, slab=slab), 0.02, k, None, (-1.0, -5e-4), 1)
    at = GibbsState(chains, None)
    for number in range(1, 81):
        at = sweep(at, number, model, rng)
        if number > 40 and number % 4 == 0:
            of_exact.append(log_ratios(at.chains))
    bridge, error = bennett(np.concatenate(of_near), np.array(of_exact).T)
    assert error < 0.05
    return corrected.value - plain.value, bridge, float(np.mean(of_near))


@pytest.mark.parametrize(
    ("n", "p", "k", "size"), [(300, 6, 2, 0.1), (500, 10, 3, 0.07)], ids=["6 columns", "10 columns"]
)
def test_evidence_is_that_of_the_exact_model(n, p, k, size):
    rows = rows_near_model(n, p, k, size, seed=0)
    found, exact, mean_ratio = log_ratio_of_evidences(rows, k, size, seed=5)
    assert found == pytest.approx(exact, abs=0.2)
    # Without a correction, or with one by the mean ratio alone, it is not.
    assert abs(exact) > 100
    assert abs(mean_ratio - exact) > 0.25
