"""Sweeps for ordinal columns: the joint distribution is invariant, and a broken step is caught."""

import numpy as np
import pytest
from scipy import stats

from cuspfa import CuspPrior, GaussianSlab, InverseGammaSlab
from cuspfa.errors import InputError
from cuspfa.inference.cellwise import kernels
from cuspfa.inference.cellwise.kernels import (
    OrdinalChains,
    OrdinalData,
    begin_ordinal,
    latent_correlations,
    sweep_ordinal,
    truncated_normal,
)
from cuspfa.inference.cellwise.run import principal_factors, run_cells, start_at
from cuspfa.inference.cellwise.state import CellModel
from cuspfa.inference.kernels import Scales
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood

LEVELS = ((0, 1, 2), (0, 1), (0, 1, 2), (0, 1))
CUT_SD, N, K, CHAINS = 1.2, 6, 2, 4000


def draw_joint(slab, rng):
    """Parameters from the prior and data given them, written from the model alone."""
    p = len(LEVELS)
    if isinstance(slab, GaussianSlab):
        variances, hyper = np.full((CHAINS, K), slab.variance), None
    else:
        variances = stats.invgamma.rvs(
            slab.shape, scale=slab.rate, size=(CHAINS, K), random_state=rng
        )
        hyper = slab.start_hyperparameters(CHAINS)
    loadings = np.sqrt(variances) * rng.normal(size=(p, CHAINS, K))
    scores = rng.normal(size=(CHAINS, N, K))
    cuts = np.full((CHAINS, p, 2), np.inf)
    values = np.empty((CHAINS, N, p))
    for j, own in enumerate(LEVELS):
        count = len(own) - 1
        cuts[:, j, :count] = np.sort(CUT_SD * rng.normal(size=(CHAINS, count)), axis=1)
        f = np.sum(scores * loadings[j][:, None, :], axis=2) + rng.normal(size=(CHAINS, N))
        values[:, :, j] = np.sum(f[:, :, None] > cuts[:, j, None, :], axis=2)
    values[:, 0, 0] = np.nan  # whatever it is, a sweep does not know it
    return OrdinalChains(loadings, scores, cuts, Scales(variances, hyper)), values


def features(chains, values):
    omega = np.einsum("pbk,qbk->bpq", chains.loadings, chains.loadings)
    answers = values[:, :, 1].mean(axis=1)
    return np.array(
        [
            np.log(np.trace(omega, axis1=1, axis2=2)),
            omega[:, 0, 1] / np.sqrt(omega[:, 0, 0] * omega[:, 1, 1]),
            chains.cuts[:, 0, 0],
            np.log(chains.cuts[:, 0, 1] - chains.cuts[:, 0, 0]),
            chains.cuts[:, 1, 0] * (answers - 0.5),
            chains.scores.mean(axis=(1, 2)),
            np.log(np.sum(chains.scores**2, axis=(1, 2))),
            np.log(chains.scales.variances.sum(axis=1)),
            np.sum(chains.scores[:, 1] * chains.loadings[1], axis=1) * (values[:, 1, 1] - 0.5),
        ]
    ).T


def largest_z(slab, sweeps=8):
    """Of the changes of the features of each chain and of their squares, over all chains."""
    rng = np.random.default_rng(0)
    one = OrdinalLikelihood(LEVELS, tuple("abcd"), cut_sd=CUT_SD)
    chains, values = draw_joint(slab, rng)
    data = OrdinalData.of(values, one)
    before = features(chains, values)
    for _ in range(sweeps):
        chains = sweep_ordinal(chains, data, slab, rng)
    after, mean = features(chains, values), before.mean(axis=0)
    change = np.hstack([after - before, (after - mean) ** 2 - (before - mean) ** 2])
    varies = change.std(axis=0) > 0  # a given variance does not
    z = change[:, varies].mean(axis=0) / change[:, varies].std(axis=0)
    return np.max(np.abs(z)) * np.sqrt(CHAINS)


@pytest.mark.parametrize("slab", [GaussianSlab(0.7), InverseGammaSlab(3.0, 1.5)])
def test_sweeps_leave_the_joint_distribution_unchanged(slab):
    # Started at draws of the joint distribution, no feature changes in the mean.
    assert largest_z(slab) < 4.0


class OnePowerLess:
    """A generator whose gamma numbers have lost a part of their Jacobian."""

    def __init__(self, rng):
        self.rng = rng

    def standard_gamma(self, shape):
        return self.rng.standard_gamma(shape - K / 2)


@pytest.mark.parametrize("name", ["scale", "responses", "cuts"])
def test_a_broken_step_is_caught(name, monkeypatch):
    if name == "scale":
        right = kernels.rescale_columns

        def broken(at, responses, linear, data, rng):
            return right(at, responses, linear, data, OnePowerLess(rng))

        monkeypatch.setattr(kernels, "rescale_columns", broken)
    elif name == "responses":  # with another variance than one
        monkeypatch.setattr(
            kernels, "rescale_columns", lambda at, z, f, *rest: (at, f + 1.15 * (z - f))
        )
    else:  # a prior of the cut-points that is not the model's
        monkeypatch.setattr(
            OrdinalLikelihood, "log_cut_density", lambda one, cuts: np.zeros(cuts.shape[:-1])
        )
    assert largest_z(InverseGammaSlab(3.0, 1.5)) > 7.0


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 0.5), (2.0, 2.5), (-1e6, -3.0), (6.0, 1e6), (-41.0, -40.0), (50, 51)]
)
def test_truncated_normal_numbers(low, high):
    drawn = truncated_normal(np.full(4000, low), np.full(4000, high), np.random.default_rng(0))
    assert np.all((drawn >= low) & (drawn <= high))
    if min(abs(low), abs(high)) < 30:
        truth = stats.truncnorm(low, high)
        assert stats.kstest(drawn, truth.cdf).pvalue > 1e-3
    else:  # nearly exponential with the rate of the end
        near = np.abs(drawn) - min(abs(low), abs(high))
        assert near.mean() == pytest.approx(1 / min(abs(low), abs(high)), rel=0.06)


def test_sweeps_from_a_fit_keep_the_correlations():
    rng = np.random.default_rng(1)
    truth = np.array([[0.9], [0.8], [0.7], [1.1], [0.6], [0.8]])
    f = rng.normal(size=(1500, 1)) @ truth.T + rng.normal(size=(1500, 6))
    rows = np.sum(f[:, :, None] > [-0.3, 0.9], axis=2).astype(float)
    one = OrdinalLikelihood.of(rows)
    slab = InverseGammaSlab(2.0, 0.4)
    model = CellModel(one.check(rows), one, CuspPrior(slab=slab))
    state = run_cells(start_at(principal_factors(model.values, 1), model), model).state
    chains, data = begin_ordinal(state, slab, 3, rng), OrdinalData.of(model.values, one)
    kept = []
    for number in range(60):
        chains = sweep_ordinal(chains, data, slab, rng)
        if number >= 20:
            kept.append(latent_correlations(chains))
    mean = np.mean(kept, axis=(0, 1))
    omega = truth @ truth.T + np.eye(6)
    want = omega / np.sqrt(np.outer(np.diag(omega), np.diag(omega)))
    off = np.triu_indices(6, 1)
    np.testing.assert_allclose(mean[off], want[off], atol=0.1)
    slope = mean[off] @ want[off] / (want[off] @ want[off])
    assert slope == pytest.approx(1.0, abs=0.06)
    point = state.loadings._replace(covariance=np.zeros((6, 1, 1)))
    certain = begin_ordinal(state._replace(loadings=point), slab, 3, rng)
    np.testing.assert_allclose(
        certain.loadings, state.loadings.mean[:, None] + 0 * certain.loadings
    )


def test_sweeps_are_refused_for_the_logit_link():
    one = OrdinalLikelihood(LEVELS, tuple("abcd"), "logit")
    with pytest.raises(InputError, match="link must be 'probit' for exact sweeps. Got 'logit'"):
        OrdinalData.of(np.zeros((3, 4)), one)
