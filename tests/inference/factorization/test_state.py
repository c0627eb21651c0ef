"""Variational steps and bound against literal loops, with and without spike and missing cells."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.run import RunLimits, extrapolated, run_iterations
from cuspfa.inference.factorization.search import CountSearchSettings, first_state, larger
from cuspfa.inference.factorization.state import (
    gammas,
    lower_bound,
    state_of,
    step_hyperparameters,
    step_labels,
    step_loadings,
    step_scale,
    step_scores,
    step_split,
)
from cuspfa.inference.variational.run import Status
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior
from oracles.poisson_factorization import Literal

HYPER = (0.6, 0.4, 1.7, 0.9)
N, P, K = 7, 5, 3


def prior_of(spike=None, **changes):
    a, c, e, f = HYPER
    given = {"score_shape": a, "loading_shape": c, "rate_shape": e, "rate_scale": f, "size": 1.0}
    terms = None if spike is None else K
    return PoissonFactorizationPrior(
        **{"alpha": 2.0, "spike": spike, "n_terms": terms, **given, **changes}
    )


def problem(*, missing=False, n=N, p=P, mean=3.0, seed=0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.poisson(mean * rng.gamma(0.5, 2.0, (n, p))).astype(float)
    s = rng.uniform(0.5, 2.0, n)
    holes = (rng.random((n, p)) < 0.2) & missing
    x[holes] = 0
    counts = Counts(
        sparse.csr_matrix(x), s, sparse.csr_matrix(holes.astype(float)) if missing else None
    )
    start = [(rng.uniform(0.5, 4, (m, K)), rng.uniform(0.5, 2, (m, K))) for m in (n, p)]
    return x, holes, counts, start


def started(start, counts, prior):
    scores, loadings = gammas(*start[0]), gammas(*start[1])
    return state_of(scores, loadings, counts, prior.start(), prior)


def both(spike, missing, break_=""):
    x, holes, counts, start = problem(missing=missing)
    prior = prior_of(spike)
    state = started(start, counts, prior)
    scores, loadings = [tuple(part.tolist() for part in one) for one in start]
    literal = Literal(
        x.tolist(),
        counts.exposure.tolist(),
        holes.tolist(),
        HYPER,
        2.0,
        spike,
        scores,
        loadings,
        break_,
    )
    return state, literal, counts, prior


def compare(state, literal, counts, prior):
    for q, own in ((state.scores, literal.theta), (state.loadings, literal.beta)):
        np.testing.assert_allclose(q.shape, own[0], rtol=1e-9)
        np.testing.assert_allclose(np.broadcast_to(q.rate, q.shape.shape), own[1], rtol=1e-9)
    np.testing.assert_allclose(state.active, literal.active, rtol=1e-9, atol=1e-12)
    bound = lower_bound(state, counts, prior, counts.constant).total
    if prior.spike is None:
        bound -= prior.log_count_probability(K)
    assert bound == pytest.approx(literal.bound(), rel=1e-9)


def follow(spike, missing, break_=""):
    """Both through four iterations, compared after every step whose state is whole."""
    state, literal, counts, prior = both(spike, missing, break_)
    bounds = [literal.bound()]
    for _ in range(4):
        for step, own in (
            (step_scores, literal.update_scores),
            (step_loadings, literal.update_loadings),
            (step_scale, literal.update_scale),
            (step_labels, lambda: (literal.update_labels(), literal.update_sticks())),
        ):
            if step is step_labels and spike is None:
                continue
            state = step_split(step(state, counts, prior), counts, prior)
            own()
            literal.update_split()
            compare(state, literal, counts, prior)
            bounds.append(literal.bound())
    return np.array(bounds)


@pytest.mark.parametrize("spike", [None, 1e-3, 0.3])
@pytest.mark.parametrize("missing", [False, True])
def test_every_step_is_that_of_the_loops_and_the_bound_never_falls(spike, missing):
    bounds = follow(spike, missing)
    assert np.all(np.diff(bounds) > -1e-9 * np.abs(bounds[1:]))


@pytest.mark.parametrize("break_", ["exposure", "rate", "shape", "scale"])
def test_broken_formulas_are_caught(break_):
    with pytest.raises(AssertionError):
        follow(0.3 if break_ == "rate" else None, False, break_)


@pytest.mark.parametrize("block", ["scores", "loadings"])
def test_each_update_is_the_best_of_its_block(block):
    # Central differences of the literal bound in the logarithms of shapes and rates.
    _, literal, _, _ = both(0.3, True)
    for _ in range(3):
        literal.update_scores(), literal.update_loadings()
        literal.update_split()
    if block == "scores":
        literal.update_scores()
        q = literal.theta
    else:
        given = literal.d
        literal.update_loadings()
        q, literal.d = literal.beta, given
    for part in (0, 1):
        for i, h in ((0, 0), (2, 1), (4, 2)):
            at, values = q[part][i][h], []
            for sign in (1, -1):
                q[part][i][h] = at * np.exp(sign * 1e-4)
                values.append(literal.bound())
            q[part][i][h] = at
            assert abs(values[0] - values[1]) / 2e-4 < 1e-4


def test_the_scale_step_is_the_best_factor():
    # The bound as a function of the factor, by its definition, on a grid around the step's own.
    state, _, counts, prior = both(None, False)
    from cuspfa.inference.factorization.state import scaled

    best = step_scale(state, counts, prior)
    top = lower_bound(best, counts, prior, counts.constant).total
    for u in (0.9, 0.99, 1.01, 1.1):
        factor = np.array([u, 1.0, 1.0])
        other = best._replace(
            scores=scaled(best.scores, factor), loadings=scaled(best.loadings, 1 / factor)
        )
        assert lower_bound(other, counts, prior, counts.constant).total < top


def test_learned_hyperparameters_raise_the_bound_to_a_stationary_point():
    _, _, counts, start = problem(n=40, p=30)
    prior = PoissonFactorizationPrior(rate_shape=None, size=2.0)
    run = run_iterations(
        started(start, counts, prior),
        counts,
        prior,
        RunLimits(1e-9, accelerate=False),
    )
    assert np.all(np.diff(run.trace) > -1e-9)
    again = step_hyperparameters(run.state, counts, prior)
    np.testing.assert_allclose(again.hyper, run.state.hyper, rtol=1e-3)


@pytest.mark.parametrize("spike", [None, 1e-3])
def test_extrapolation_leads_to_the_same_bound_in_fewer_iterations(spike):
    _, _, counts, start = problem(n=60, p=40, seed=3)
    prior = prior_of(spike)
    runs = [
        run_iterations(
            started(start, counts, prior),
            counts,
            prior,
            RunLimits(1e-7, 20_000, accelerate=accelerate),
        )
        for accelerate in (False, True)
    ]
    plain, fast = runs
    assert plain.status is fast.status is Status.CONVERGED
    assert fast.total > plain.total - 1e-3
    assert len(fast.trace) < len(plain.trace)
    assert np.all(np.diff(fast.trace) > -1e-8 * np.abs(fast.trace[1:]))


def test_no_factor_explains_no_counts_and_all_zeros():
    prior = prior_of()
    for x, expected in ((np.zeros((4, 3)), prior.log_count_probability(0)), (np.eye(3), -np.inf)):
        counts = Counts(sparse.csr_matrix(x), np.ones(len(x)))
        empty = [(np.zeros((m, 0)), np.zeros((m, 0))) for m in x.shape]
        state = started(empty, counts, prior)
        assert lower_bound(state, counts, prior, counts.constant).total == pytest.approx(expected)


@pytest.mark.parametrize("left", [0.5, 0.8])
def test_extrapolation_of_a_geometric_sequence_leads_to_its_limit(left):
    """What is left of the way shrinks by a factor with each iteration."""
    _, _, counts, start = problem()
    rng, prior = np.random.default_rng(4), prior_of()
    way = [tuple(rng.uniform(0.1, 0.2, part.shape) for part in pair) for pair in start]

    def at(rest):
        moved = [
            tuple(part * np.exp(rest * log) for part, log in zip(pair, logs, strict=True))
            for pair, logs in zip(start, way, strict=True)
        ]
        return started(moved, counts, prior)

    states = at(1.0), at(left), at(left**2)
    before = states[0].parameters, states[1].parameters
    found, length = extrapolated(*before, states[2], counts, prior, 8.0)
    assert length == pytest.approx(1 / (1 - left))
    limit = at(0.0)
    for name in ("scores", "loadings"):
        one, other = getattr(found, name), getattr(limit, name)
        np.testing.assert_allclose(one.shape, other.shape, rtol=1e-9)
        np.testing.assert_allclose(one.rate, other.rate, rtol=1e-9)
    # A limit to the length, where it is reached.
    found, length = extrapolated(*before, states[2], counts, prior, 1.5)
    assert length == 1.5
    rest = 1 + 2 * 1.5 * (left - 1) + 1.5**2 * (left**2 - 2 * left + 1)
    np.testing.assert_allclose(found.scores.shape, at(rest).scores.shape, rtol=1e-9)
    assert extrapolated(*before, states[2], counts, prior, 0.9) == (None, 0.9)


def test_extrapolation_moves_no_logarithm_by_more_than_three():
    _, _, counts, start = problem()
    prior = prior_of()
    known: Any = []
    for rest in (1.0, 0.9, 0.81):
        moved = [(shape * np.exp(rest), rate) for shape, rate in start]
        moved[0][0][0, 0] *= np.exp(10 * rest)
        moved[1][0][0, 0] *= np.exp(-10 * rest)
        known.append(started(moved, counts, prior))
    found, length = extrapolated(
        known[0].parameters, known[1].parameters, known[2], counts, prior, 100.0
    )
    assert length == pytest.approx(10.0)
    for name, sign in (("scores", -1.0), ("loadings", 1.0)):
        change = np.log(getattr(found, name).shape / getattr(known[2], name).shape)
        assert change[0, 0] == pytest.approx(sign * 3.0)
        assert np.abs(change).max() == pytest.approx(3.0)


# --- starts of a search ---


def test_one_factor_begins_with_the_margins():
    x, holes, counts, _ = problem(missing=True)
    state = first_state(counts, prior_of(), 1)
    scores, loadings = state.scores.mean, state.loadings.mean
    s = counts.exposure[:, None] * ~holes
    assert scores.mean() == pytest.approx(1.0)
    ratio = (x.sum(axis=1) + 0.5) / s.sum(axis=1)
    np.testing.assert_allclose(scores[:, 0], ratio / ratio.mean(), rtol=1e-9)
    np.testing.assert_allclose((s * scores * loadings.T).sum(axis=0), x.sum(axis=0) + 0.5)
    nothing = first_state(counts, prior_of(), 0)
    assert nothing.n_factors == 0
    assert nothing.scores.shape.shape == (N, 0)


def test_a_further_column_begins_at_the_rows_and_columns_that_are_too_low():
    """Two blocks have three times the rate of the rest; the smaller needs the new column more."""
    rng, n, p = np.random.default_rng(5), 60, 12
    rates = 6.0 * rng.gamma(4.0, 0.25, (n, 1)) * rng.gamma(4.0, 0.25, p)
    for rows, columns in ((slice(0, 15), slice(0, 3)), (slice(45, 60), slice(8, 12))):
        block = 3.0 * rates
        block[rows] /= 3.0
        block[:, columns] /= 3.0
        block[rows, columns] *= 9.0
        counts = Counts(sparse.csr_matrix(np.round(block)), np.ones(n), None)
        before = first_state(counts, prior_of(), 1)
        state = larger(before, counts, prior_of(), CountSearchSettings())
        assert state.n_factors == 2
        new_scores, new_loadings = state.scores.mean[:, 1], state.loadings.mean[:, 1]
        inside, outside = np.zeros(n, bool), np.ones(n, bool)
        inside[rows], outside[rows] = True, False
        assert np.median(new_scores[inside]) > 3 * np.median(new_scores[outside])
        inside, outside = np.zeros(p, bool), np.ones(p, bool)
        inside[columns], outside[columns] = True, False
        own = new_loadings / state.loadings.mean[:, 0]
        assert np.median(own[inside]) > 3 * np.median(own[outside])
        # It has half the mean size, which the other columns give, in proportion.
        assert state.sizes[1] == pytest.approx(0.25 * before.sizes.sum(), rel=1e-6)
        assert state.sizes.sum() == pytest.approx(before.sizes.sum(), rel=1e-6)
        assert new_scores.mean() == pytest.approx(1.05)  # no row is left out altogether
        assert np.all(new_scores > 0)
        assert np.all(new_loadings > 0)
    assert larger(first_state(counts, prior_of(), 0), counts, prior_of(), None).n_factors == 1
