"""Variational steps and bound against literal loops, with and without spike and missing cells."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from cuspfa.data.counts import Counts
from cuspfa.inference.factorization.run import RunLimits, run_iterations
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
