"""Sweeps for ordinal columns: the joint distribution is invariant, and a broken step is caught."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cuspfa import CuspPrior, GaussianSlab, InverseGammaSlab
from cuspfa.inference.cellwise import kernels
from cuspfa.inference.cellwise.kernels import (
    CellChains,
    begin_cells,
    draw_given_pseudo_data,
    sweep_cells,
)
from cuspfa.inference.cellwise.state import principal_factors
from cuspfa.inference.kernels import Scales
from cuspfa.model.likelihoods import ordinal
from cuspfa.model.likelihoods.base import PseudoData
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood, ContinuousParameters
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.likelihoods.mixed import MixedLikelihood, Part
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from cuspfa.model.likelihoods.responses import draw_logistic_precision
from joint_draws import largest_change
from oracles.cell_draws import latent_correlations
from oracles.cell_variational import CellModel, run_cells, start_at

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
    return CellChains(loadings, scores, cuts, Scales(variances, hyper)), values


def features(chains, values):
    omega = np.einsum("pbk,qbk->bpq", chains.loadings, chains.loadings)
    answers = values[:, :, 1].mean(axis=1)
    return np.array(
        [
            np.log(np.trace(omega, axis1=1, axis2=2)),
            omega[:, 0, 1] / np.sqrt(omega[:, 0, 0] * omega[:, 1, 1]),
            chains.parameters[:, 0, 0],
            np.log(chains.parameters[:, 0, 1] - chains.parameters[:, 0, 0]),
            chains.parameters[:, 1, 0] * (answers - 0.5),
            chains.scores.mean(axis=(1, 2)),
            np.log(np.sum(chains.scores**2, axis=(1, 2))),
            np.log(chains.scales.variances.sum(axis=1)),
            np.sum(chains.scores[:, 1] * chains.loadings[1], axis=1) * (values[:, 1, 1] - 0.5),
        ]
    ).T


def largest_z(slab, sweeps=8):
    """Of the changes of the features of each chain and of their squares, over all chains."""
    rng = np.random.default_rng(0)
    one = OrdinalLikelihood(LEVELS, tuple("abcd"), cut_sd=CUT_SD, gap_shape=1.0)
    chains, values = draw_joint(slab, rng)
    before = features(chains, values)
    for _ in range(sweeps):
        chains = sweep_cells(chains, values, one, slab, rng)
    return largest_change(before, features(chains, values))


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

        def broken(at, pseudo, linear, likelihood, rng):
            return right(at, pseudo, linear, likelihood, OnePowerLess(rng))

        monkeypatch.setattr(kernels, "rescale_columns", broken)
    elif name == "responses":  # with another variance than one
        monkeypatch.setattr(
            kernels,
            "rescale_columns",
            lambda at, z, f, *rest: (at, z._replace(values=f + 1.15 * (z.values - f))),
        )
    else:  # a prior of the cut-points that is not the model's
        monkeypatch.setattr(
            OrdinalLikelihood, "log_cut_density", lambda one, cuts: np.zeros(cuts.shape[:-1])
        )
    assert largest_z(InverseGammaSlab(3.0, 1.5)) > 7.0


RANKED, BETWEEN = 7, 8


def without_ties(known, rng):
    """Features, of which those that are zero for any parameters are random."""
    return known + 1e-9 * rng.standard_normal(known.shape)


def smallest_rank_p_value(cut_sd=CUT_SD):
    """Over features: is the rank of the truth among draws given its data uniform?

    Chains begin at the parameters of other data and forget them.
    """
    rng, slab = np.random.default_rng(4), InverseGammaSlab(3.0, 1.5)
    one = OrdinalLikelihood(LEVELS, tuple("abcd"), cut_sd=cut_sd, gap_shape=1.0)
    truth, values = draw_joint(slab, rng)
    every = slice(0, CHAINS // 3)
    at = {"loadings": truth.loadings[:, every], "scores": truth.scores[every]}
    truth = truth._replace(
        **at, parameters=truth.parameters[every], scales=Scales(truth.scales.variances[every])
    )
    values = values[every]
    want = without_ties(features(truth, values), rng)
    chains = CellChains(
        np.roll(truth.loadings, 1, axis=1),
        np.roll(truth.scores, 1, axis=0),
        np.roll(truth.parameters, 1, axis=0),
        Scales(np.roll(truth.scales.variances, 1, axis=0), slab.start_hyperparameters(len(values))),
    )
    ranks = np.zeros(want.shape, dtype=int)
    for number in range((RANKED + 4) * BETWEEN):
        chains = sweep_cells(chains, values, one, slab, rng)
        if number >= 4 * BETWEEN and number % BETWEEN == BETWEEN - 1:
            ranks += without_ties(features(chains, values), rng) < want
    counts = [np.bincount(own, minlength=RANKED + 1) for own in ranks.T]
    return min(stats.chisquare(own).pvalue for own in counts)


def test_ranks_of_the_truth_are_uniform():
    assert smallest_rank_p_value() > 1e-3


def test_ranks_notice_a_prior_that_is_not_the_one_of_the_data():
    assert smallest_rank_p_value(CUT_SD / 2) < 1e-10


def test_ranks_notice_responses_of_another_variance(monkeypatch):
    monkeypatch.setattr(
        kernels,
        "rescale_columns",
        lambda at, z, f, *rest: (at, z._replace(values=f + 1.15 * (z.values - f))),
    )
    assert smallest_rank_p_value() < 1e-10


def test_sweeps_from_a_fit_keep_the_correlations():
    rng = np.random.default_rng(1)
    truth = np.array([[0.9], [0.8], [0.7], [1.1], [0.6], [0.8]])
    f = rng.normal(size=(1500, 1)) @ truth.T + rng.normal(size=(1500, 6))
    rows = np.sum(f[:, :, None] > [-0.3, 0.9], axis=2).astype(float)
    one = OrdinalLikelihood.of(rows)
    slab = InverseGammaSlab(2.0, 0.4)
    model = CellModel(one.check(rows), one, CuspPrior(slab=slab))
    state = run_cells(start_at(principal_factors(model.values, 1), model), model).state
    chains, kept = begin_cells(state, one, slab, 3, rng), []
    for number in range(60):
        chains = sweep_cells(chains, model.values, one, slab, rng)
        if number >= 20:
            kept.append(latent_correlations(chains, one))
    mean = np.mean(kept, axis=(0, 1))
    omega = truth @ truth.T + np.eye(6)
    want = omega / np.sqrt(np.outer(np.diag(omega), np.diag(omega)))
    off = np.triu_indices(6, 1)
    np.testing.assert_allclose(mean[off], want[off], atol=0.1)
    slope = mean[off] @ want[off] / (want[off] @ want[off])
    assert slope == pytest.approx(1.0, abs=0.06)
    point = state.loadings._replace(covariance=np.zeros((6, 1, 1)))
    certain = begin_cells(state._replace(loadings=point), one, slab, 3, rng)
    np.testing.assert_allclose(
        certain.loadings, state.loadings.mean[:, None] + 0 * certain.loadings
    )


class MixedJoint:
    """An ordinal column, a binary one with the logit link, and two continuous ones.

    Written from the model alone, in chains; a feature of the joint distribution is given for each.
    """

    def __init__(self, logit):
        names = tuple("abcd")
        link = "logit" if logit else "probit"
        self.logit = logit
        self.likelihood = MixedLikelihood(
            (
                Part(
                    OrdinalLikelihood(((0, 1, 2),), names[:1], cut_sd=CUT_SD, gap_shape=1.0),
                    np.array([0]),
                ),
                Part(OrdinalLikelihood(((0, 1),), names[1:2], link, CUT_SD), np.array([2])),
                Part(ContinuousLikelihood(names[2:], 4.0, 3.0), np.array([1, 3])),
            )
        )

    def draw(self, slab, rng):
        variances = stats.invgamma.rvs(
            slab.shape, scale=slab.rate, size=(CHAINS, K), random_state=rng
        )
        loadings = np.sqrt(variances) * rng.normal(size=(4, CHAINS, K))
        scores = rng.normal(size=(CHAINS, N, K))
        f = np.einsum("bnk,pbk->bnp", scores, loadings)
        first = np.sort(CUT_SD * rng.normal(size=(CHAINS, 1, 2)), axis=2)
        second = CUT_SD * rng.normal(size=(CHAINS, 1, 1))
        noise = stats.invgamma.rvs(4.0, scale=3.0, size=(CHAINS, 2), random_state=rng)
        # The flat prior of the locations has no draws: they are zero, and stay there.
        values = np.empty((CHAINS, N, 4))
        z = f[:, :, 0] + rng.normal(size=(CHAINS, N))
        values[:, :, 0] = np.sum(z[:, :, None] > first, axis=2)
        response = rng.logistic(size=(CHAINS, N)) if self.logit else rng.normal(size=(CHAINS, N))
        values[:, :, 2] = f[:, :, 2] + response > second[:, 0]
        own = np.sqrt(noise)[:, None, :] * rng.normal(size=(CHAINS, N, 2))
        values[:, :, [1, 3]] = f[:, :, [1, 3]] + own
        values[:, 0, 1] = values[:, 1, 2] = np.nan
        known = ContinuousParameters(np.zeros((CHAINS, 2)), Noise(np.ones((CHAINS, 2)), noise))
        hyper = slab.start_hyperparameters(CHAINS)
        parameters = (first, second, known)
        return CellChains(loadings, scores, parameters, Scales(variances, hyper)), values

    def features(self, chains, values):
        first, second, known = chains.parameters
        omega = np.einsum("pbk,qbk->bpq", chains.loadings, chains.loadings)
        f = np.einsum("bnk,pbk->bnp", chains.scores, chains.loadings)
        return np.array(
            [
                np.log(np.trace(omega, axis1=1, axis2=2)),
                omega[:, 0, 1] / np.sqrt(omega[:, 0, 0] * omega[:, 1, 1]),
                omega[:, 2, 3] / np.sqrt(omega[:, 2, 2] * omega[:, 3, 3]),
                np.log(first[:, 0, 1] - first[:, 0, 0]),
                second[:, 0, 0] * (values[:, 2, 2] - 0.5),
                np.log(known.noise.rate[:, 0] / known.noise.shape[:, 0]),
                np.log(known.noise.rate[:, 1] / known.noise.shape[:, 1]),
                np.log(np.sum(chains.scores**2, axis=(1, 2))),
                np.tanh(f[:, 2, 3] * values[:, 2, 3]),
                np.tanh(f[:, 2, 2]) * (values[:, 2, 2] - 0.5),
                np.log(chains.scales.variances.sum(axis=1)),
            ]
        ).T


def largest_mixed_z(logit, sweeps=8):
    rng, slab = np.random.default_rng(0), InverseGammaSlab(3.0, 1.5)
    joint = MixedJoint(logit)
    chains, values = joint.draw(slab, rng)
    before = joint.features(chains, values)
    # Locations are known here: a flat prior has no joint distribution.
    *ordered, continuous = joint.likelihood.parts
    fixed = ContinuousLikelihood(tuple("cd"), 4.0, 3.0, fixed_location=True)
    likelihood = MixedLikelihood((*ordered, Part(fixed, continuous.columns)))
    for _ in range(sweeps):
        chains = sweep_cells(chains, values, likelihood, slab, rng)
    after, mean = joint.features(chains, values), before.mean(axis=0)
    change = np.hstack([after - before, (after - mean) ** 2 - (before - mean) ** 2])
    z = change.mean(axis=0) / change.std(axis=0)
    return np.max(np.abs(z)) * np.sqrt(CHAINS)


@pytest.mark.parametrize("logit", [False, True])
def test_mixed_columns_leave_the_joint_distribution_unchanged(logit):
    assert largest_mixed_z(logit) < 4.0


@pytest.mark.parametrize("name", ["noise", "precision"])
def test_a_broken_step_of_mixed_columns_is_caught(name, monkeypatch):
    if name == "noise":  # one degree of freedom too many
        right = ContinuousLikelihood.draw

        def broken(one, *args):
            return right(replace(one, noise_shape=one.noise_shape + 1.0), *args)

        monkeypatch.setattr(ContinuousLikelihood, "draw", broken)
    else:  # precisions of binary logistic regression, half of those of a response
        monkeypatch.setattr(
            ordinal,
            "draw_logistic_precision",
            lambda residual, rng: draw_logistic_precision(residual, rng) / 2,
        )
    assert largest_mixed_z(name == "precision") > 7.0


@pytest.mark.parametrize("k", [0, 2])
def test_precisions_of_cells_that_are_equal_give_the_draws_of_columns(k):
    # The two paths have one distribution: moments of many chains at the same state.
    rng = np.random.default_rng(3)
    size, n, p = 3000, 7, 4
    loadings = np.tile(rng.normal(size=(p, 1, k)), (1, size, 1))
    z, w = rng.normal(size=(n, p)), np.array([0.5, 1.0, 2.0, 4.0])
    variances = np.full((size, k), 0.6)
    chains = CellChains(loadings, np.zeros((size, n, k)), None, Scales(variances))
    moments = []
    for precision in (np.tile(w, (size, 1)), np.tile(w, (size, n, 1))):
        pseudo = PseudoData(np.tile(z, (size, 1, 1)), precision)
        drawn = draw_given_pseudo_data(chains, pseudo, GaussianSlab(0.6), rng)
        omega = np.einsum("pbk,qbk->bpq", drawn.loadings, drawn.loadings)
        f = np.einsum("bnk,pbk->bnp", drawn.scores, drawn.loadings)
        moments.append(np.concatenate([omega.reshape(size, -1), f.reshape(size, -1)], axis=1))
    first, second = moments
    error = np.sqrt((first.var(axis=0) + second.var(axis=0)) / size) + 1e-12
    assert np.max(np.abs(first.mean(axis=0) - second.mean(axis=0)) / error) < 4.5
