"""Sweeps for counts: the joint distribution is invariant, and a broken step is caught."""

import numpy as np
import pytest
from scipy import stats

from cuspfa import InverseGammaSlab
from cuspfa.inference.cellwise import direct
from cuspfa.inference.cellwise.kernels import CellChains, sweep_cells
from cuspfa.inference.kernels import Scales, scale_rotate_scores
from cuspfa.model.likelihoods import counts
from cuspfa.model.likelihoods.base import PseudoData
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood, ContinuousParameters
from cuspfa.model.likelihoods.counts import CountLikelihood, CountParameters
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.likelihoods.mixed import MixedLikelihood, Part
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from joint_draws import largest_change

N, K, CHAINS = 6, 2, 4000
CENTER, LOCATION_SD = (1.5, -0.5, 0.5), 0.8
OFFSET = np.array([0.0, 0.4, -0.7, 0.2, 0.1, -0.2])
SLAB = InverseGammaSlab(4.0, 1.5)


class CountJoint:
    """Three columns of counts, with offsets and a missing value; written from the model alone."""

    def __init__(self, family):
        self.family = family
        self.likelihood = CountLikelihood(tuple("abc"), family, CENTER, LOCATION_SD)

    def draw(self, rng):
        variances = stats.invgamma.rvs(4.0, scale=1.5, size=(CHAINS, K), random_state=rng)
        loadings = np.sqrt(variances) * rng.normal(size=(3, CHAINS, K))
        scores = rng.normal(size=(CHAINS, N, K))
        location = np.array(CENTER) + LOCATION_SD * rng.normal(size=(CHAINS, 3))
        f = np.einsum("bnk,pbk->bnp", scores, loadings)
        rate = np.exp(location[:, None] + OFFSET[:, None] + f)
        dispersion = np.full((CHAINS, 3), np.inf)
        if self.family == "negative_binomial":
            dispersion = np.exp(
                counts.LOG_DISPERSION_MEAN + counts.LOG_DISPERSION_SD * rng.normal(size=(CHAINS, 3))
            )
            rate = rate * rng.gamma(dispersion[:, None, :], size=rate.shape) / dispersion[:, None]
        values = np.empty((CHAINS, N, 4))
        values[:, :, :3] = rng.poisson(np.minimum(rate, 1e9))
        values[:, 0, 1] = np.nan
        values[:, :, 3] = OFFSET
        scales = Scales(variances, SLAB.start_hyperparameters(CHAINS))
        return CellChains(loadings, scores, CountParameters(location, dispersion), scales), values

    def features(self, chains, values):
        omega = np.einsum("pbk,qbk->bpq", chains.loadings, chains.loadings)
        f = np.einsum("bnk,pbk->bnp", chains.scores, chains.loadings)
        logs = np.log1p(values[:, :, :3])
        found = [
            np.log(np.trace(omega, axis1=1, axis2=2)),
            omega[:, 0, 1] / np.sqrt(omega[:, 0, 0] * omega[:, 1, 1]),
            chains.parameters.location[:, 0],
            chains.parameters.location[:, 2] * logs[:, :, 2].mean(axis=1),
            chains.scores.mean(axis=(1, 2)),
            np.log(np.sum(chains.scores**2, axis=(1, 2))),
            np.log(chains.scales.variances.sum(axis=1)),
            np.tanh(f[:, 1, 0]) * logs[:, 1, 0],
            np.tanh(f[:, 2, 2]) * logs[:, 2, 2],
            np.tanh(f[:, 0, 1]),
        ]
        if self.family == "negative_binomial":
            dispersion = np.log(chains.parameters.dispersion)
            found += [dispersion[:, 0], dispersion[:, 1], dispersion[:, 0] * logs[:, :, 0].std(1)]
        return np.array(found).T


class MixedJoint:
    """A column of counts beside an ordinal one and a continuous one."""

    def __init__(self):
        self.likelihood = MixedLikelihood(
            (
                Part(
                    OrdinalLikelihood(((0, 1, 2),), ("a",), cut_sd=1.2, gap_shape=1.0),
                    np.array([0]),
                ),
                Part(ContinuousLikelihood(("b",), 4.0, 3.0, fixed_location=True), np.array([1])),
                Part(
                    CountLikelihood(("c", "d"), "negative_binomial", CENTER[:2], LOCATION_SD),
                    np.array([2, 3]),
                ),
            )
        )
        self.counts = CountJoint("negative_binomial")

    def draw(self, rng):
        own, values = self.counts.draw(rng)
        loadings = np.concatenate(
            [np.sqrt(own.scales.variances) * rng.normal(size=(2, CHAINS, K)), own.loadings[:2]]
        )
        f = np.einsum("bnk,pbk->bnp", own.scores, loadings[:2])
        cuts = np.sort(1.2 * rng.normal(size=(CHAINS, 1, 2)), axis=2)
        z = f[:, :, 0] + rng.normal(size=(CHAINS, N))
        noise = stats.invgamma.rvs(4.0, scale=3.0, size=(CHAINS, 1), random_state=rng)
        table = np.empty((CHAINS, N, 5))
        table[:, :, 0] = np.sum(z[:, :, None] > cuts, axis=2)
        table[:, :, 1] = f[:, :, 1] + np.sqrt(noise) * rng.normal(size=(CHAINS, N))
        table[:, :, 2:4], table[:, :, 4] = values[:, :, :2], values[:, :, 3]
        table[:, 1, 1] = np.nan
        known = ContinuousParameters(np.zeros((CHAINS, 1)), Noise(np.ones((CHAINS, 1)), noise))
        counted = CountParameters(*(part[:, :2] for part in own.parameters))
        return own._replace(loadings=loadings, parameters=(cuts, known, counted)), table

    def features(self, chains, values):
        cuts, known, counted = chains.parameters
        omega = np.einsum("pbk,qbk->bpq", chains.loadings, chains.loadings)
        f = np.einsum("bnk,pbk->bnp", chains.scores, chains.loadings)
        return np.array(
            [
                np.log(np.trace(omega, axis1=1, axis2=2)),
                omega[:, 0, 2] / np.sqrt(omega[:, 0, 0] * omega[:, 2, 2]),
                omega[:, 1, 3] / np.sqrt(omega[:, 1, 1] * omega[:, 3, 3]),
                np.log(cuts[:, 0, 1] - cuts[:, 0, 0]),
                np.log(known.noise.rate[:, 0] / known.noise.shape[:, 0]),
                counted.location[:, 0],
                np.log(counted.dispersion[:, 1]),
                np.log(np.sum(chains.scores**2, axis=(1, 2))),
                np.tanh(f[:, 2, 0]) * (values[:, 2, 0] - 1.0),
                np.tanh(f[:, 2, 1] * values[:, 2, 1]),
                np.tanh(f[:, 2, 2]) * np.log1p(values[:, 2, 2]),
            ]
        ).T


def largest_z(joint, sweeps=6):
    """Of the changes of the features of each chain and of their squares, over all chains."""
    rng = np.random.default_rng(0)
    chains, values = joint.draw(rng)
    before = joint.features(chains, values)
    for _ in range(sweeps):
        chains = sweep_cells(chains, values, joint.likelihood, SLAB, rng)
    return largest_change(before, joint.features(chains, values))


JOINTS = {
    "poisson": lambda: CountJoint("poisson"),
    "negative binomial": lambda: CountJoint("negative_binomial"),
    "mixed": MixedJoint,
}


@pytest.mark.long
@pytest.mark.parametrize("name", JOINTS)
def test_sweeps_leave_the_joint_distribution_unchanged(name):
    assert largest_z(JOINTS[name]()) < 4.0


@pytest.mark.parametrize("name", JOINTS)
def test_sweeps_of_few_chains_leave_it_unchanged_too(name, monkeypatch):
    monkeypatch.setitem(globals(), "CHAINS", 300)
    assert largest_z(JOINTS[name](), sweeps=2) < 4.0


def test_proposals_have_the_density_that_is_said():
    rng, (size, p, d) = np.random.default_rng(3), (4000, 2, 3)
    mean, half = rng.normal(size=(1, p, d)), rng.normal(size=(p, d, d))
    precision = half @ half.transpose(0, 2, 1) + np.eye(d)
    here = np.broadcast_to(mean + 0.7, (size, p, d))
    at = direct._Proposal(
        np.broadcast_to(mean, here.shape), np.broadcast_to(precision, (size, p, d, d))
    )
    drawn, log_ratio = direct._proposed(here, at, rng)
    for j in range(p):
        freedom, spread = direct.PROPOSAL_FREEDOM, np.linalg.inv(precision[j])
        one = stats.multivariate_t(mean[0, j], spread, df=freedom)
        wanted = one.logpdf(here[:, j]) - one.logpdf(drawn[:, j])
        np.testing.assert_allclose(log_ratio[:, j], wanted, atol=1e-9)
        # Half of the draws of a t distribution are inside this ellipsoid.
        away = drawn[:, j] - mean[0, j]
        squares = np.einsum("ni,ij,nj->n", away, precision[j], away)
        inside = np.mean(squares < d * stats.f.ppf(0.5, d, freedom))
        assert abs(inside - 0.5) < 4 * 0.5 / np.sqrt(size)


def with_a_wrong_dispersion(monkeypatch):
    """A prior of log r that is not the model's."""
    monkeypatch.setattr(counts, "LOG_DISPERSION_SD", 1.0)


def with_half_a_ratio(monkeypatch):
    """The density of the proposal is left out of the ratio of Metropolis and Hastings."""
    right = direct._proposed

    def broken(here, at, rng):
        drawn, ratio = right(here, at, rng)
        return drawn, np.zeros_like(ratio)

    monkeypatch.setattr(direct, "_proposed", broken)


def with_a_wrong_jacobian(monkeypatch):
    """Scales of scores and loadings are drawn as if there were two more rows."""
    right = scale_rotate_scores

    def broken(chains, known, moved, slab, n, rng):
        return right(chains, known, moved, slab, n + 2, rng)

    monkeypatch.setattr(direct, "scale_rotate_scores", broken)


@pytest.mark.long
@pytest.mark.parametrize(
    "broken", [with_a_wrong_dispersion, with_half_a_ratio, with_a_wrong_jacobian]
)
def test_a_broken_step_is_caught(broken, monkeypatch):
    joint = CountJoint("negative_binomial")
    state = joint.draw(np.random.default_rng(0))
    broken(monkeypatch)
    monkeypatch.setattr(joint, "draw", lambda rng: state)
    assert largest_z(joint) > 7.0


# --- each step by itself, far from where it begins ---

SIZE = 1500
COUNTS = np.array([0.0, 3.0, 1.0, 7.0, 2.0])
ROWS = np.column_stack([COUNTS, np.array([0.2, 0.0, -0.4, 0.5, 0.0])])


def chains_at(score, loading):
    """Chains of one factor and one column of counts, all at the same place."""
    return CellChains(
        np.full((1, SIZE, 1), loading),
        np.full((SIZE, len(COUNTS), 1), score),
        CountParameters(np.full((SIZE, 1), 0.6), np.full((SIZE, 1), np.inf)),
        Scales(np.full((SIZE, 1), 0.5), SLAB.start_hyperparameters(SIZE)),
    )


def no_pseudo_data():
    shape = (SIZE, len(COUNTS), 1)
    return PseudoData(np.zeros(shape), np.zeros(shape))


ONE_COLUMN = CountLikelihood(("a",), "poisson", (1.0,), LOCATION_SD)


def moments(at, logs):
    """Mean and standard deviation of a distribution on a grid."""
    share = np.exp(logs - logs.max())
    share /= share.sum()
    mean = share @ at
    return mean, np.sqrt(share @ (at - mean) ** 2)


def assert_drawn(drawn, mean, sd):
    assert abs(drawn.mean() - mean) < 4.5 * sd / np.sqrt(SIZE)
    assert drawn.std() == pytest.approx(sd, rel=0.1)
    assert abs(drawn.mean() - (mean + 0.3 * sd)) > 4.5 * sd / np.sqrt(SIZE)


def test_scores_of_rows_are_drawn_from_their_posterior():
    rng, chains, loading = np.random.default_rng(1), chains_at(4.0, 0.9), 0.9
    for _ in range(6):
        scores = direct._draw_scores(chains, no_pseudo_data(), ROWS, ONE_COLUMN, rng)
        moved = np.mean(scores != chains.scores)
        chains = chains._replace(scores=scores)
    assert moved > 0.8  # the proposal is nearly the posterior
    at = np.linspace(-6.0, 6.0, 4001)
    for row, (count, offset) in enumerate(ROWS):
        logs = stats.poisson.logpmf(count, np.exp(0.6 + offset + loading * at))
        assert_drawn(chains.scores[:, row, 0], *moments(at, logs + stats.norm.logpdf(at)))


def test_loadings_and_locations_are_drawn_from_their_posterior():
    rng, scores = np.random.default_rng(2), np.array([-1.0, 0.8, -0.3, 1.7, 0.1])
    chains = chains_at(0.0, -2.0)
    chains.scores[:] = scores[:, None]
    for _ in range(8):
        before = chains.loadings
        chains = direct._draw_loadings(chains, no_pseudo_data(), ROWS, ONE_COLUMN, rng)
        moved = np.mean(chains.loadings != before)
    assert moved > 0.8
    loading, location = np.linspace(-3.0, 4.0, 401), np.linspace(-4.0, 4.0, 321)
    rates = location[:, None] + loading[None, :] * scores[:, None, None] + ROWS[:, 1, None, None]
    logs = stats.poisson.logpmf(COUNTS[:, None, None], np.exp(rates)).sum(axis=0)
    logs += stats.norm.logpdf(location, 1.0, LOCATION_SD)[:, None]
    logs += stats.norm.logpdf(loading, 0.0, np.sqrt(0.5))[None, :]
    assert_drawn(chains.loadings[0, :, 0], *moments(loading, np.logaddexp.reduce(logs, axis=0)))
    of_location = moments(location, np.logaddexp.reduce(logs, axis=1))
    assert_drawn(chains.parameters.location[:, 0], *of_location)


def test_without_factors_there_are_no_scores_to_draw():
    chains = chains_at(1.0, 1.0)
    empty = chains._replace(scores=chains.scores[:, :, :0], loadings=chains.loadings[:, :, :0])
    rng = np.random.default_rng(0)
    found = direct._draw_scores(empty, no_pseudo_data(), ROWS, ONE_COLUMN, rng)
    assert found.shape == (SIZE, len(COUNTS), 0)
