"""Draws of a fit: their quantiles are those of long chains, and batches of chains are chains."""

import numpy as np
import pytest

from cuspfa import CuspPrior
from cuspfa.data.cells import CellTable
from cuspfa.inference.cellwise import engine
from cuspfa.inference.cellwise.engine import draw_cells, infer_cells
from cuspfa.inference.cellwise.evidence import ProposedDensity
from cuspfa.inference.cellwise.kernels import (
    begin_at,
    begin_cells,
    sweep_cells,
)
from cuspfa.model.likelihoods.kinds import ColumnLikelihood
from oracles.cell_draws import latent_correlations

P, N = 5, 90


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(5)
    loadings = np.array([1.2, 0.9, 1.0, 0.8, 1.1])
    f = rng.normal(size=(N, 1)) * loadings + rng.normal(size=(N, P))
    rows = np.sum(f[:, :, None] > [0.4, 1.6], axis=2).astype(float)
    columns = tuple(
        ColumnLikelihood(f"x{j}", "ordinal", "probit", (0, 1, 2), "given") for j in range(P)
    )
    return infer_cells(CellTable.of(rows, columns), CuspPrior(), n_factors=1), columns


@pytest.fixture(scope="module")
def long_run(fitted):
    """Thresholds and correlations of chains that forget where they began."""
    fit, _ = fitted
    rng, slab = np.random.default_rng(6), fit.state.slab.with_fixed_hyperparameters()
    chains, kept = begin_cells(fit.state, fit.likelihood, slab, 60, rng), []
    for number in range(180):
        chains = sweep_cells(chains, fit.values, fit.likelihood, slab, rng)
        if number >= 40:
            kept.append(features(chains.loadings[:, :, 0].T, chains.parameters[0]))
            omega = latent_correlations(chains, fit.likelihood)
            np.testing.assert_allclose(kept[-1][:, 0], omega[:, 0, 1])
    return np.concatenate(kept)


def features(loadings, cuts):
    """Correlations and standardised thresholds, (size, …)."""
    common = 1 + loadings**2
    first, second = np.triu_indices(P, 1)
    scaled = loadings / np.sqrt(common)
    thresholds = cuts / np.sqrt(common)[:, :, None]
    return np.hstack([scaled[:, first] * scaled[:, second], thresholds.reshape(len(cuts), -1)])


def mass_inside(fitted, long_run, seeds=3):
    """Of 95 % intervals by the draws of a fit, in the mean."""
    fit, columns = fitted
    masses = []
    for seed in range(seeds):
        drawn = draw_cells(fit, columns, 500, np.random.default_rng(seed))
        own = features(drawn.loadings[:, :, 0], drawn.parameters.thresholds.reshape(-1, P, 2))
        low, high = np.quantile(own, [0.025, 0.975], axis=0)
        masses.append(np.mean((low <= long_run) & (long_run <= high)))
    return float(np.mean(masses))


def test_intervals_of_the_draws_have_the_mass_that_is_meant(fitted, long_run):
    assert mass_inside(fitted, long_run) == pytest.approx(0.945, abs=0.008)


def test_chains_that_begin_at_the_mode_and_are_too_short_are_caught(fitted, long_run, monkeypatch):
    def at_the_mode(proposal, size, rng):
        mode = proposal.mode
        return np.tile(mode.loadings, (size, 1, 1)), np.tile(mode.packed, (size, 1))

    monkeypatch.setattr(ProposedDensity, "draw", at_the_mode)
    monkeypatch.setattr(engine, "BURN_IN", 2)
    monkeypatch.setattr(engine, "SWEEPS_BETWEEN", 0)
    assert mass_inside(fitted, long_run) < 0.925


def test_few_independent_draws_are_caught(fitted, long_run, monkeypatch):
    monkeypatch.setattr(engine, "CHAINS", 8)
    monkeypatch.setattr(engine, "SWEEPS_BETWEEN", 0)
    assert mass_inside(fitted, long_run) < 0.9


def test_large_data_run_few_chains_together(fitted, monkeypatch):
    fit, columns = fitted
    sizes = []

    def counted(loadings, *rest):
        sizes.append(len(loadings))
        return begin_at(loadings, *rest)

    monkeypatch.setattr(engine, "begin_at", counted)
    monkeypatch.setattr(engine, "CELLS_OF_CHAINS", 7 * N * P)
    monkeypatch.setattr(engine, "CHAINS", 16)
    drawn = draw_cells(fit, columns, 32, np.random.default_rng(0))
    assert sizes == [7, 7, 2]
    assert drawn.loadings.shape == (32, P, 1)
    assert drawn.n_chains == 16
