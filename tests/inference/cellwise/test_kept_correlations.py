"""The share of the latent correlations that a fit keeps, and what mean field over responses loses.

The control is the variational family that must not be used: normal responses cut off at the
cut-points, independent of the scores (Albert & Chib's augmentation by mean field).
"""

import numpy as np
import pytest
from scipy import special

from cuspfa import CuspPrior
from cuspfa.inference.cellwise.search import fit_cells
from cuspfa.inference.cellwise.state import principal_factors
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from oracles.cell_variational import CellModel, run_cells, start_at

CUTS = {
    "five points, skewed": special.ndtri([0.5, 0.75, 0.9, 0.97]),
    "half": np.zeros(1),
    "rare": special.ndtri([0.85]),
}
LEAST_KEPT = {"five points, skewed": 0.95, "half": 0.9, "rare": 0.85}


def rows_and_correlations(kind, n=1500, seed=0):
    rng = np.random.default_rng(seed)
    loadings = np.zeros((10, 2))
    loadings[:5, 0], loadings[5:, 1] = rng.uniform(0.55, 0.8, size=(2, 5))
    common = np.sum(loadings**2, axis=1)
    response = rng.normal(size=(n, 2)) @ loadings.T
    response += rng.normal(size=(n, 10)) * np.sqrt(1 - common)
    rows = np.sum(response[:, :, None] > CUTS[kind], axis=2).astype(float)
    return rows, loadings @ loadings.T


def kept(loadings, correlations):
    """Slope of the fitted correlations on the true ones that are not zero."""
    omega = loadings @ loadings.T
    sd = np.sqrt(1.0 + np.diag(omega))
    found = omega / np.outer(sd, sd)
    pairs = np.triu_indices(len(omega), 1)
    true = correlations[pairs]
    return (found[pairs] @ true) / (true @ true)


def mean_field_over_responses(rows, k, iterations=300):
    """Loadings of a binary model with q(z) q(η), written out."""
    n = len(rows)
    sign = 2 * rows - 1
    intercept, loadings = special.ndtri(rows.mean(axis=0)), principal_factors(rows, k)
    m = np.zeros((n, k))
    for _ in range(iterations):
        f = intercept + m @ loadings.T
        tail = np.exp(-0.5 * f**2 - special.log_ndtr(sign * f)) / np.sqrt(2 * np.pi)
        z = f + sign * tail
        v = np.linalg.inv(np.eye(k) + loadings.T @ loadings)
        m = (z - intercept) @ loadings @ v
        m -= m.mean(axis=0)
        intercept = z.mean(axis=0)
        loadings = (z - intercept).T @ m @ np.linalg.inv(m.T @ m + n * v)
    return loadings


@pytest.mark.parametrize("kind", CUTS)
def test_correlations_are_kept(kind):
    rows, correlations = rows_and_correlations(kind)
    one = OrdinalLikelihood.of(rows)
    values, prior = one.check(rows), CuspPrior()
    mode = fit_cells(values, one, prior, 2).mode
    assert LEAST_KEPT[kind] < kept(mode.loadings, correlations) < 1.08
    # The variational run begins at the mode, which is near its own optimum.
    model = CellModel(values, one, prior)
    run = run_cells(start_at(mode.loadings, model, mode.parameters, mode.slab), model, tol=0.05)
    assert run.falls == 0
    assert LEAST_KEPT[kind] < kept(run.state.loadings.mean, correlations) < 1.08


@pytest.mark.parametrize(("kind", "most"), [("half", 0.8), ("rare", 0.4)])
def test_mean_field_over_responses_loses_them(kind, most):
    rows, correlations = rows_and_correlations(kind)
    assert kept(mean_field_over_responses(rows, 2), correlations) < most
