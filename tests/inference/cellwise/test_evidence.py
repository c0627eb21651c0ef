"""Evidence of ordinal columns against averages over the prior, and the choice of K."""

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy import integrate, linalg, special, stats

from cuspfa import CuspPrior, GaussianSlab, InverseGammaSlab
from cuspfa.inference.cellwise import evidence, search
from cuspfa.inference.cellwise.evidence import (
    ProposedDensity,
    bridged_evidence,
    find_mode,
    laplace_evidence,
)
from cuspfa.inference.cellwise.marginal import DistinctRows, propagate
from cuspfa.inference.cellwise.search import (
    CellSearch,
    fit_cells,
    has_few_rows,
    search_cells,
)
from cuspfa.inference.variational.collapsed_bound import Evidence
from cuspfa.model.likelihoods.ordinal import OrdinalLikelihood
from oracles.cell_variational import CellModel, run_cells, start_at

PRIOR = CuspPrior(alpha=2.0, slab=GaussianSlab(0.8))


def binary_rows(n, p, seed=0):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(n, 1)) @ np.full((1, p), 1.2) + rng.normal(size=(n, p))
    return (f > 0.2).astype(float)


def factor_answers(n, p, k, seed=0, levels=4):
    """Answers to p items, each of one of k factors."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((p, k))
    loadings[np.arange(p), np.arange(p) * k // p] = rng.uniform(0.8, 1.4, size=p)
    f = rng.normal(size=(n, k)) @ loadings.T + rng.normal(size=(n, p))
    return np.sum(f[:, :, None] > np.linspace(-1.2, 1.2, levels - 1), axis=2).astype(float)


def average_over_prior(rows, k, cut_sd, size, seed):
    """log p(x | K) and its error, by draws of loadings and cut-points from the prior.

    The scores are integrated out by 15 nodes in each of K dimensions.
    """
    rng = np.random.default_rng(seed)
    p = rows.shape[1]
    t, w = np.polynomial.hermite_e.hermegauss(15)
    nodes = np.array(np.meshgrid(*[t] * k)).reshape(k, -1)
    weights = np.prod(np.array(np.meshgrid(*[w / w.sum()] * k)).reshape(k, -1), axis=0)
    patterns, counts = np.unique(rows, axis=0, return_counts=True)
    logs = np.zeros(size)
    for first in range(0, size, 2000):
        loadings = np.sqrt(0.8) * rng.normal(size=(2000, p, k))
        cuts = cut_sd * rng.normal(size=(2000, p, 1))
        right = special.ndtr(loadings @ nodes - cuts)
        for pattern, count in zip(patterns, counts, strict=True):
            chance = np.prod(np.where(pattern[:, None] > 0, right, 1 - right), axis=1) @ weights
            logs[first : first + 2000] += count * np.log(chance)
    ratio = np.exp(logs - logs.max())
    return (
        np.log(ratio.mean()) + logs.max(),
        ratio.std() / ratio.mean() / np.sqrt(size),
    )


def fitted(rows, k, cut_sd=1.0, prior=PRIOR):
    one = OrdinalLikelihood.of(rows, cut_sd=cut_sd)
    model = CellModel(one.check(rows), one, prior)
    start = 0.8 * np.random.default_rng(0).normal(size=(rows.shape[1], k))
    return run_cells(start_at(start, model), model).state, one, model.values


@pytest.mark.parametrize(("n", "k"), [(30, 1), (30, 2), (12, 2)])
def test_the_bridge_gives_the_average_over_the_prior(n, k):
    # With 12 rows more than half as many numbers are learned as a column has values.
    rows = binary_rows(n, 3)
    state, one, values = fitted(rows, k)
    distinct = DistinctRows.of(values)
    mode = find_mode(state.loadings.mean, state.parameters, state.slab, distinct, one)
    want, want_error = average_over_prior(rows, k, 1.0, 12_000, 1)
    want += PRIOR.log_count_probability(k)
    rng = np.random.default_rng(2)
    got = bridged_evidence(mode, state, values, one, PRIOR, rng, n_chains=30)
    assert got.error < 0.4
    assert got.value == pytest.approx(want, abs=4 * np.hypot(got.error, want_error))
    # Laplace's method with few rows: within a nat or two. The control: without the orbit's volume
    # the value for two factors would be lower by log vol O(2) = 2.5 nats.
    assert laplace_evidence(mode, one, PRIOR) == pytest.approx(want, abs=2.0)


def test_without_factors_the_evidence_is_a_product_of_integrals():
    rows = binary_rows(60, 3)
    state, one, values = fitted(rows, 0)
    distinct = DistinctRows.of(values)
    mode = find_mode(state.loadings.mean, state.parameters, state.slab, distinct, one)
    want = PRIOR.log_count_probability(0)
    for column in rows.T:
        ones = column.sum()

        def density(cut, ones=ones):
            below = special.ndtr(cut)
            return below ** (60 - ones) * (1 - below) ** ones * stats.norm.pdf(cut)

        want += np.log(integrate.quad(density, -4, 4, epsabs=1e-300, epsrel=1e-9)[0])
    assert laplace_evidence(mode, one, PRIOR) == pytest.approx(want, abs=0.3)


def test_the_proposal_is_the_same_for_all_rotations():
    rows = factor_answers(150, 6, 2)
    one = OrdinalLikelihood.of(rows)
    candidate = fit_cells(one.check(rows), one, PRIOR, 2)
    density = ProposedDensity(candidate.mode)
    rng = np.random.default_rng(3)
    loadings, packed = density.draw(5, rng)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    before = density.log_density(loadings, packed)
    np.testing.assert_allclose(density.log_density(loadings @ turn, packed), before, atol=1e-8)
    assert np.all(np.abs(density.log_density(1.2 * loadings, packed) - before) > 0.5)


def test_the_mode_is_stationary():
    rows = factor_answers(150, 6, 2)
    rows[0, 0] = np.nan
    slab = InverseGammaSlab(2.0, 0.4)
    one = OrdinalLikelihood.of(rows)
    values = one.check(rows)
    mode = fit_cells(values, one, CuspPrior(slab=slab), 2).mode

    def log_posterior(loadings, packed):
        rows_part = propagate(values, one, one.unpack(packed), loadings).log_probability.sum()
        own = np.sum(slab.log_density(np.sum(loadings**2, axis=0), 6))
        return rows_part + own + one.log_packed_prior(packed)

    best = log_posterior(mode.loadings, mode.packed)
    for sign in (-0.08, 0.08):
        for j, h in ((0, 0), (2, 1), (5, 0)):
            moved = mode.loadings.copy()
            moved[j, h] += sign
            assert log_posterior(moved, mode.packed) < best
        shifted = mode.packed.copy()
        shifted[10] += sign
        assert log_posterior(mode.loadings, shifted) < best


def test_laplace_and_bridge_agree_and_find_the_factors():
    rows = factor_answers(200, 6, 2, seed=4)
    one = OrdinalLikelihood.of(rows)
    found = search_cells(one.check(rows), one, CuspPrior(), bridge=True)
    assert found.best.n_factors == 2
    assert found.weights.sum() == pytest.approx(1.0)
    for candidate in found.candidates:
        assert candidate.bridged is not None
        assert candidate.bridged.error < 2.0
        near = 4.0 + 3 * candidate.bridged.error
        assert candidate.laplace == pytest.approx(candidate.bridged.value, abs=near)
    plain = search_cells(one.check(rows), one, CuspPrior())
    scores = {candidate.n_factors: candidate.laplace for candidate in plain.candidates}
    assert scores[2] > scores[1] + 10
    assert scores[1] > scores[0] + 10


def test_a_bridge_that_has_failed_does_not_decide():
    rows = factor_answers(100, 6, 1)
    one = OrdinalLikelihood.of(rows)
    values = one.check(rows)
    candidate = fit_cells(values, one, PRIOR, 1)
    assert candidate.score == candidate.laplace
    far = candidate.mode._replace(loadings=40.0 * candidate.mode.loadings)
    rng = np.random.default_rng(6)
    failed = bridged_evidence(far, candidate.state, values, one, PRIOR, rng, n_chains=4)
    assert failed.error > 10
    assert candidate._replace(bridged=failed).score == candidate.laplace
    good = bridged_evidence(candidate.mode, candidate.state, values, one, PRIOR, rng, n_chains=4)
    assert candidate._replace(bridged=good).score == good.value


def test_few_rows_limit_the_search():
    rows = factor_answers(40, 8, 3, levels=3)
    one = OrdinalLikelihood.of(rows)
    found = search_cells(one.check(rows), one, CuspPrior())
    assert found.limit == 2
    assert [candidate.n_factors for candidate in found.candidates] == [0, 1, 2]
    rows = rows[:10]
    one = OrdinalLikelihood.of(rows)
    found = search_cells(one.check(rows), one, CuspPrior())
    assert found.limit == 0
    assert found.best.n_factors == 0


def test_many_thresholds_do_not_limit_the_search():
    """Of 12 seven-point items with rare categories there are 72 thresholds in 150 rows."""
    rng = np.random.default_rng(0)
    loadings = np.zeros((12, 2))
    loadings[np.arange(12), np.arange(12) % 2] = 1.0
    f = rng.normal(size=(150, 2)) @ loadings.T + rng.normal(size=(150, 12))
    cuts = np.sqrt(2.0) * special.ndtri([0.6, 0.74, 0.83, 0.9, 0.95, 0.98])
    rows = np.sum(f[:, :, None] > cuts, axis=2).astype(float)
    one = OrdinalLikelihood.of(rows)
    found = search_cells(one.check(rows), one, CuspPrior(), bridge=True)
    assert found.limit is None
    assert found.best.n_factors == 2
    assert found.best.error < 0.8


def test_few_rows_have_the_information_of_louis(monkeypatch):
    rows = factor_answers(60, 8, 1, seed=3)
    one = OrdinalLikelihood.of(rows)
    values = one.check(rows)
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    weights = weights / weights.sum()

    def log_likelihood(numbers):
        loadings, cuts = numbers[:8, None], one.unpack(numbers[8:])
        upper = np.column_stack([special.ndtr(cuts[..., None] - loadings[..., None] * nodes)])
        ends = np.zeros((8, 1, len(nodes)))
        chance = np.diff(np.concatenate([ends, upper, ends + 1.0], axis=1), axis=1)
        of_rows = np.prod(chance[np.arange(8), values.astype(int)], axis=1)
        return np.log(of_rows @ weights).sum()

    def found_by(few):
        monkeypatch.setattr(evidence, "MOST_LEARNED_SHARE", 0.0 if few else 100.0)
        return fit_cells(values, one, PRIOR, 1).mode

    mode, other = found_by(True), found_by(False)
    np.testing.assert_allclose(np.abs(mode.loadings), np.abs(other.loadings), atol=0.05)
    center = np.concatenate([mode.loadings.ravel(), mode.packed])
    size, h = len(center), 1e-3
    steps, numeric = h * np.eye(size), np.empty((size, size))
    for a, b in combinations_with_replacement(range(size), 2):
        corners = [
            log_likelihood(center + s * steps[a] + t * steps[b])
            for s, t in ((1, 1), (1, -1), (-1, 1), (-1, -1))
        ]
        curved = -(corners[0] - corners[1] - corners[2] + corners[3]) / (4 * h**2)
        numeric[a, b] = numeric[b, a] = curved
    numeric[:8, :8] += np.diag(np.full(8, 1 / 0.8))
    numeric[8:, 8:] += one.packed_prior_derivatives(mode.packed)[1]

    def far(precision):
        """How far it is from the curvature: of the logarithms of its eigenvalues by this one."""
        return np.abs(np.log(linalg.eigh(precision, numeric, eigvals_only=True))).max()

    assert far(mode.precision) < 0.25
    assert far(other.precision) > 1.0  # of products of gradients


def test_many_columns_do_not_limit_the_search():
    """There are more thresholds than rows, but many rows for each column's own numbers."""
    rows = factor_answers(200, 30, 2, levels=5)
    one = OrdinalLikelihood.of(rows)
    assert one.n_packed > 100
    found = search_cells(one.check(rows), one, CuspPrior(), largest=2)
    assert found.best.n_factors == 2
    assert found.limit is None


@pytest.mark.parametrize(
    ("k", "p", "levels", "n", "few"),
    [
        (2, 12, 5, 40, True),  # one factor too many in every second set
        (1, 10, 7, 40, True),
        (3, 15, 5, 100, False),
        (4, 40, 5, 200, False),
        (2, 12, 7, 150, False),
        (5, 25, 6, 2800, False),
        (3, 15, 2, 60, False),
    ],
)
def test_what_few_rows_are(k, p, levels, n, few):
    assert has_few_rows(k, p, p * (levels - 1), n) == few


def test_without_the_bridge_for_one_number_all_have_the_other_score(monkeypatch):
    rows = factor_answers(150, 8, 1)
    one = OrdinalLikelihood.of(rows)
    values = iter([Evidence(-1.0, 0.1, 64), Evidence(np.nan, np.inf, 64), Evidence(-2.0, 0.1, 64)])
    monkeypatch.setattr(search, "bridged_evidence", lambda *_: next(values))
    monkeypatch.setattr(search, "BRIDGE_WITHIN", 1e6)
    found = search_cells(one.check(rows), one, CuspPrior(), bridge=True, largest=2)
    assert [candidate.score for candidate in found.candidates] == [
        candidate.laplace for candidate in found.candidates
    ]


def test_independent_answers_have_no_factor():
    rows = np.random.default_rng(5).integers(0, 3, size=(300, 6)).astype(float)
    one = OrdinalLikelihood.of(rows)
    found = search_cells(one.check(rows), one, CuspPrior())
    assert found.best.n_factors == 0
    assert found.limit is None


def test_factors_of_noise_gain_nothing_from_many_categories():
    """The control: a prior of cut-points that prefers large loadings."""
    noise = np.random.default_rng([7, 0, 80, 8]).normal(size=(80, 8))
    cuts = special.ndtri([0.05, 0.15, 0.35, 0.65, 0.85, 0.95])
    rows = np.sum(noise[:, :, None] > cuts, axis=2).astype(float)
    gains = []
    for shape in (0.0, 1.0):
        one = replace(OrdinalLikelihood.of(rows), gap_shape=shape)
        scored = search_cells(one.check(rows), one, CuspPrior(), bridge=True, largest=2).candidates
        gains.append(scored[-1].score - scored[0].score)
    # The process itself prefers two factors to none, by log(25/2).
    assert gains[0] < np.log(25 / 2) + 2.0
    assert gains[1] > gains[0] + 2.5


def test_a_further_factor_must_add_more_than_the_errors_of_the_bridge():
    rows = factor_answers(100, 6, 1)
    one = OrdinalLikelihood.of(rows)
    candidates = [fit_cells(one.check(rows), one, PRIOR, k) for k in (1, 2, 3)]

    def scored_as(error, *values):
        scored = zip(candidates, values, strict=True)
        return CellSearch(
            tuple(c._replace(bridged=Evidence(value, error, 64)) for c, value in scored)
        )

    # Parsimony asks for 2 nats, and for twice the error of a difference.
    assert scored_as(0.1, -100.0, -97.0, -99.0).best.n_factors == 2
    assert scored_as(0.1, -100.0, -98.1, -99.0).best.n_factors == 1
    assert scored_as(1.0, -100.0, -97.0, -99.0).best.n_factors == 1
    assert scored_as(1.0, -100.0, -95.0, -99.0).best.n_factors == 2
    # What other draws might have chosen: no other, both others, and the smaller one.
    assert scored_as(0.1, -100.0, -90.0, -99.0).tied == set()
    assert scored_as(1.0, -100.0, -97.0, -99.0).tied == {2, 3}
    assert scored_as(1.0, -100.0, -94.0, -99.0).tied == {1}
    assert [c.score for c in scored_as(20.0, 0.0, 0.0, 0.0).candidates] == [
        c.laplace for c in candidates
    ]
