"""The evidence score: its pieces against dense formulas, its value against the truth."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import invgamma, multivariate_normal, poisson, sem

import bridge
from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    EmpiricalBayesSlab,
    GaussianSlab,
    InverseGammaSlab,
    Variational,
)
from cuspfa.data.complete import prepare_rows
from cuspfa.datasets import load_bfi, simulate
from cuspfa.inference.updates import Loadings, LoadingsDistribution
from cuspfa.inference.variational import collapsed_bound as module
from cuspfa.inference.variational.collapsed_bound import evidence
from cuspfa.inference.variational.search import Search
from cuspfa.inference.variational.search_given_k import search_given_k
from cuspfa.missing.updates import RowwiseLoadings
from support import complete_rows


def fitted(y, k, prior, *, scaling="none", flat=False):
    source = prepare_rows(y, scaling=scaling, flat_mean=flat).source
    search = Search(source, prior, tol=1e-4, max_iter=2000, max_factors=y.shape[1])
    search_given_k(search, k)
    return search.candidates.best, source


@pytest.mark.parametrize("shape", [(30, 6), (5, 12)], ids=str)
def test_log_likelihood_is_that_of_the_joint_gaussian(shape):
    rng = np.random.default_rng(1)
    y = rng.normal(size=shape)
    source = bridge.source_of(y)
    for k in (0, 1, 3):
        loadings, noise = rng.normal(size=(shape[1], k)), rng.uniform(0.2, 2, shape[1])
        omega = loadings @ loadings.T + np.diag(noise)
        expected = multivariate_normal(np.zeros(shape[1]), omega).logpdf(y).sum()
        assert source.log_likelihood(loadings, noise) == pytest.approx(expected, rel=1e-10)


def directions(pairs, k, mirrored):
    """1 at (row, column) of each pair and `mirrored` at (column, row), as matrices."""
    matrices = np.zeros((len(pairs[0]), k, k))
    for matrix, h, other in zip(matrices, *pairs, strict=True):
        matrix[other, h] = mirrored
        matrix[h, other] = 1.0
    return matrices


@pytest.mark.parametrize("slab", [GaussianSlab(0.5), InverseGammaSlab(1.5, 0.5)], ids=str)
def test_the_widened_law_is_the_gaussian_it_claims_to_be(slab):
    y = simulate(80, 5, 3, random_state=2).X
    state = fitted(y, 3, CuspPrior(slab=slab), flat=True)[0].state
    widened = module.Widened(state)
    p, k = widened.mean.shape
    covariance = np.zeros((p * k, p * k))
    for j, block in enumerate(bridge.row_covariances(state.loadings)):
        covariance[j * k : (j + 1) * k, j * k : (j + 1) * k] = block
    narrow = np.linalg.inv(covariance)
    u = np.array([(widened.mean @ d).ravel() for d in directions(widened.pairs, k, 1.0)])
    covariance += u.T @ (widened.widths[:, None] * u)
    assert np.any(widened.widths > 1e-6)
    rng = np.random.default_rng(3)
    distribution = multivariate_normal(np.zeros(p * k), covariance)
    delta, log_q = widened.draw(4000, rng)
    draws = delta.reshape(4000, p * k)
    assert_allclose(log_q[:100], distribution.logpdf(draws[:100]), rtol=1e-9)
    assert_allclose(np.cov(draws.T), covariance, atol=0.08 * covariance.max())
    turns = np.array([(widened.mean @ d).ravel() for d in directions(widened.turns, k, -1.0)])
    assert_allclose(widened.information, turns @ np.linalg.inv(covariance) @ turns.T, rtol=1e-7)
    assert not np.allclose(widened.information, turns @ narrow @ turns.T, rtol=1e-2)


@pytest.mark.long
@pytest.mark.parametrize("slab", [GaussianSlab(1.0), InverseGammaSlab(2.0, 1.0)], ids=str)
def test_against_brute_force_on_a_tiny_problem(slab):
    """log p(y | K) by a million draws from the prior: the score lies just below it."""
    rng = np.random.default_rng(4)
    y = simulate(6, 3, 1, random_state=4).X
    y -= y.mean(axis=0)
    prior = CuspPrior(alpha=2.0, slab=slab, noise_shape=2.0, noise_rate=1.0)
    size = 1_000_000
    for k in (0, 1, 2):
        noise = invgamma(2.0, scale=1.0).rvs(size=(size, 3), random_state=rng)
        theta = np.full((size, 1, k), 1.0)
        if isinstance(slab, InverseGammaSlab):
            theta = invgamma(2.0, scale=1.0).rvs(size=(size, 1, k), random_state=rng)
        loadings = rng.normal(size=(size, 3, k)) * np.sqrt(theta)
        omega = loadings @ loadings.transpose(0, 2, 1)
        omega[:, range(3), range(3)] += noise
        gram = y.T @ y
        _, log_det = np.linalg.slogdet(omega)
        quadratic = np.einsum("sij,ji->s", np.linalg.inv(omega), gram)
        log_weights = -0.5 * (6 * (3 * np.log(2 * np.pi) + log_det) + quadratic)
        truth = np.logaddexp.reduce(log_weights) - np.log(size) + poisson(2.0).logpmf(k)
        run, source = fitted(y, k, prior)
        found = evidence(run.state, source, prior, np.random.default_rng(5), 2000)
        assert found.value < truth + 4 * found.error + 0.02, k
        assert found.value > truth - 0.25 - 0.8 * k, k
        assert found.value > run.total - 4 * found.error - 1e-9  # at least as good as the bound


# log p(y | K) of the paper's data (fixed slab of variance 1, spike at zero, n = 126), K = 1..5,
# by thermodynamic integration with a Gibbs sampler; and the collapsed bound found beside it.
# Source: the project's design notes (MATH.md, section 6).
TRUTH = [-5388.7, -5317.4, -5273.0, -5265.1, -5274.6]
COLLAPSED = [-5389.9, -5319.6, -5276.2, -5270.0, -5282.4]


def test_against_thermodynamic_integration_on_the_papers_data():
    y = load_bfi(subset="paper").data
    prior = CuspPrior(slab=GaussianSlab(1.0), noise_shape=1.0, noise_rate=0.3)
    scores, bounds = [], []
    for k, (truth, collapsed) in enumerate(zip(TRUTH, COLLAPSED, strict=True), start=1):
        run, source = fitted(y, k, prior)
        found = evidence(run.state, source, prior, np.random.default_rng(6), 400)
        scores.append(found.value - prior.log_count_probability(k))
        bounds.append(run.total - prior.log_count_probability(k))
        assert scores[-1] < truth + 0.5
        assert scores[-1] == pytest.approx(collapsed, abs=1.5)
    assert np.argmax(scores) == np.argmax(TRUTH) == 3
    assert np.argmax(bounds) == 2  # negative control: the bound prefers too few
    gaps = np.subtract(TRUTH, bounds)
    assert np.all(np.subtract(TRUTH, scores) < 0.3 * gaps)


def test_an_empty_factor_lowers_it_by_some_nats():
    """With one factor too many the score falls by some nats, not by thousands."""
    y = simulate(500, 100, 4, random_state=7).X
    prior = CuspPrior()
    values = []
    for k in (4, 5):
        run, source = fitted(y, k, prior, scaling="columns", flat=True)
        found = evidence(run.state, source, prior, np.random.default_rng(8), 40)
        assert found.value > run.total
        values.append(found.value)
    assert 5 < values[0] - values[1] < 150


@pytest.mark.long
def test_the_search_weighs_by_evidence_unless_told_otherwise():
    y = load_bfi(subset="items").data
    y = complete_rows(y)
    by_bound = CuspFactorAnalysis(method=Variational(criterion="bound")).fit(y)
    by_evidence = CuspFactorAnalysis(random_state=0).fit(y)
    assert by_bound.n_factors_ < by_evidence.n_factors_
    scored = [entry for entry in by_evidence.search_ if not np.isnan(entry.evidence)]
    top = max(scored, key=lambda entry: entry.evidence)
    chosen = next(  # the smallest K within two nats and two errors of the difference
        entry
        for entry in scored
        if top.evidence - entry.evidence
        <= 2.0 + 2.0 * np.hypot(top.evidence_error, entry.evidence_error)
    )
    assert chosen.n_factors == by_evidence.n_factors_
    assert chosen.lower_bound == by_evidence.lower_bound_
    assert sum(entry.weight for entry in scored) == pytest.approx(1.0)
    assert all(np.isnan(entry.evidence) for entry in by_bound.search_)
    published = CuspFactorAnalysis.as_published(search=True).fit(y)
    assert all(np.isnan(entry.evidence) for entry in published.search_)


def test_a_clear_answer_is_not_weighed():
    model = CuspFactorAnalysis().fit(simulate(1500, 60, 3, random_state=9).X)
    assert model.n_factors_ == 3
    assert all(np.isnan(entry.evidence) for entry in model.search_)


@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("missing", [False, True])
def test_metrics_of_directions_are_quadratic_forms(k, missing):
    """Against Σ_j (Xᵀμ_j)ᵀ V_j^{-1} (Yᵀμ_j) with the literal matrices X and Y."""
    rng, p = np.random.default_rng(k), 6
    mean = rng.normal(size=(p, k))
    distribution: LoadingsDistribution
    if missing:
        roots = rng.normal(size=(p, k, k + 2))
        distribution = RowwiseLoadings(mean, roots @ roots.transpose(0, 2, 1), mean, 0.0)
    else:
        distribution = Loadings(
            mean, rng.normal(size=(k, k)), rng.uniform(1, 2, p), rng.uniform(0, 3, k), 0.0
        )
    precision = np.linalg.inv(distribution.covariances())
    turns = module._turns_by_strength(distribution.column_squared_norm)
    found = module.direction_metrics(distribution.metric(), k, turns)
    both = (directions(np.triu_indices(k), k, 1.0), directions(turns, k, -1.0))
    moved = [np.einsum("jr,xrc->xjc", mean, matrices) for matrices in both]
    for numbers, (x, y) in zip(found, [(0, 0), (0, 1), (1, 1)], strict=True):
        expected = np.einsum("xjc,jcd,yjd->xy", moved[x], precision, moved[y])
        assert_allclose(numbers, expected, rtol=1e-9, atol=1e-9)


def test_rotations_of_the_strongest_columns_come_first():
    norms = np.array([1.0, 5.0, 3.0, 4.0])
    first, other = module._turns_by_strength(norms)
    order = np.argsort(-norms)
    for m in (2, 3, 4):
        pairs = m * (m - 1) // 2
        assert set(first[:pairs]) | set(other[:pairs]) == set(order[:m])


@pytest.mark.parametrize("slab", [InverseGammaSlab(2.0, 0.4), EmpiricalBayesSlab()], ids=str)
def test_the_loss_of_mixed_columns_is_a_mean_over_rotations(slab):
    rng, p, k = np.random.default_rng(5), 12, 4
    root = rng.normal(size=(30, k)) * [4.0, 2.0, 1.0, 0.4]
    second = root.T @ root
    found = module._mixing_losses(second, slab, p)
    assert found[0] == pytest.approx(0.0, abs=1e-10)
    for m in (2, 3, 4):
        turns = np.linalg.qr(rng.standard_normal((20_000, m, m)))[0]
        norms = np.einsum("rah,ab,rbh->rh", turns, second[:m, :m], turns, optimize=True)
        mixed = np.sum(slab.log_density(norms, p), axis=1)
        expected = np.sum(slab.log_density(np.diag(second)[:m], p)) - mixed.mean()
        assert found[m - 1] == pytest.approx(expected, abs=0.5)
        assert expected > 0.5  # negative control: there is something to lose
    invariant = EmpiricalBayesSlab(shared=True)
    assert np.all(module._mixing_losses(second, invariant, p) == 0.0)


def test_nested_determinants_end_where_a_block_is_not_positive():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(7, 9))
    matrix = root @ root.T
    expected = [np.linalg.slogdet(matrix[:m, :m])[1] for m in range(1, 8)]
    assert_allclose(module._nested_log_dets(matrix), expected, rtol=1e-10)
    matrix[4, 4] = -1.0
    assert_allclose(module._nested_log_dets(matrix), expected[:4], rtol=1e-10)
    assert module._nested_log_dets(np.zeros((0, 0))).shape == (0,)


@pytest.mark.parametrize("slab", [GaussianSlab(0.5), InverseGammaSlab(2.0, 0.4)], ids=str)
def test_the_gain_of_rotations_is_their_volume_over_that_of_the_distribution(slab):
    """Of the m strongest columns, of which the angles are normal; the others are exchanged."""
    found, _ = fitted(simulate(60, 9, 3, random_state=2).X, 3, CuspPrior(slab=slab), flat=True)
    widened = module.Widened(found.state)
    second = found.state.loadings.weighted_gram(np.ones(9))
    order = np.argsort(-np.diag(second))
    losses = module._mixing_losses(second[np.ix_(order, order)], slab, 9)
    gains = [np.log(2**3 * 6)]
    for m, volume in ((2, 2 * 2 * np.pi), (3, 2 * 8 * np.pi**2)):  # reflections too
        angles = m * (m - 1) // 2
        entropy = multivariate_normal(
            np.zeros(angles), np.linalg.inv(widened.information[:angles, :angles])
        ).entropy()
        own = np.log(volume) - entropy - losses[m - 1] + (3 - m) * np.log(2 * 3)
        gains.append(own)
        assert np.exp(module.log_volume(m)) == pytest.approx(volume)
    assert module._orbit(found.state, widened) == pytest.approx(max(gains), rel=1e-9)


def test_the_error_of_a_mean_is_its_standard_error():
    values = np.array([0.3, -1.2, 2.5, 0.9])
    assert module._error(values) == pytest.approx(sem(values))


def test_draws_of_a_bound_that_are_added_later():
    """They agree with as many at once to their error, and those made first are kept."""
    found, source = fitted(simulate(90, 8, 2, random_state=8).X, 2, CuspPrior(), flat=True)

    def made(seed):
        return module.CollapsedBound(found.state, source, CuspPrior(), np.random.default_rng(seed))

    steps, once = made(0), made(1)
    first = steps.with_draws(40)
    assert steps.with_draws(40) == first  # no new draws
    later, at_once = steps.with_draws(640), once.with_draws(640)
    assert abs(later.value - at_once.value) < 4 * np.hypot(later.error, at_once.error)
    assert later.error < 0.5 * first.error
    assert later.value != first.value
