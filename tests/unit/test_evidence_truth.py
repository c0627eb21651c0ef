"""The evidence score against log p(y | K), as a sampler that shares no algebra with it finds it.

What is asked of the score: over the K of a case, it differs from log p(y | K) by a constant, to
about 1 nat. Where it does not, the case is marked as an expected failure with the figures.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from cuspfa import CuspPrior, GaussianSlab, InverseGammaSlab
from cuspfa.data.complete import prepare_rows
from cuspfa.datasets import simulate
from cuspfa.variational.evidence import evidence
from cuspfa.variational.search import Search
from oracles import thermodynamic as oracle

FIXED = CuspPrior(slab=GaussianSlab(1.0), noise_shape=1.0, noise_rate=0.3)
LEARNED = CuspPrior(slab=InverseGammaSlab(2.0, 0.4))


class Case(NamedTuple):
    y: np.ndarray
    prior: CuspPrior
    scaling: str
    flat_mean: bool


CASES = {
    "fixed slab, dense": Case(simulate(50, 7, 2, random_state=1).X, FIXED, "none", False),
    "fixed slab, weak": Case(
        simulate(40, 8, 2, strength=0.4, random_state=2).X, FIXED, "none", True
    ),
    "inverse gamma slab, dense": Case(
        simulate(60, 6, 2, random_state=3).X, LEARNED, "columns", True
    ),
    "inverse gamma slab, weak": Case(
        simulate(50, 8, 1, strength=0.4, random_state=4).X, LEARNED, "columns", True
    ),
    "fixed slab, n < p": Case(simulate(15, 20, 1, random_state=5).X, FIXED, "none", False),
    "inverse gamma slab, n < p": Case(
        simulate(15, 20, 1, random_state=6).X, LEARNED, "columns", True
    ),
}


# log p(y | K) by long runs of the oracle: `truth_of(name, k, sweeps=4000, seed=10)`, errors 0.01 to
# 0.06. Below them what the score misses them by, K = 0, 1, ..., as measured with this revision.
TRUTH = {
    "fixed slab, dense": (-502.67, -486.78, -471.30, -474.89),
    "fixed slab, weak": (-455.69, -456.86, -459.31, -463.14),
    "inverse gamma slab, dense": (-523.95, -472.93, -450.89, -451.28),
    "inverse gamma slab, weak": (-584.35, -581.50, -581.83, -582.48),
    "fixed slab, n < p": (-501.37, -406.04, -410.85),
    "inverse gamma slab, n < p": (-454.98, -362.04, -363.52),
}
TOO_LOW = {
    "fixed slab, dense": "0.0 -1.2 -2.0 -3.7",
    "fixed slab, weak": "0.0 -1.6 -3.5 -5.3",
    "inverse gamma slab, dense": "0.0 -1.5 -3.8 -6.2",
    "inverse gamma slab, weak": "0.0 -2.0 -4.2 -6.2",
    "fixed slab, n < p": "0.0 -1.1 -3.2",
    "inverse gamma slab, n < p": "0.0 -1.8 -6.5",
}
NAT = 1.0
"""What the score may be wrong by in comparing two K."""


class Row(NamedTuple):
    k: int
    truth: float
    score: float
    bound: float


def prepared_of(case):
    return prepare_rows(case.y, scaling=case.scaling, flat_mean=case.flat_mean)


@cache
def table(name):
    case, rows = CASES[name], []
    source = prepared_of(case).source
    for k, truth in enumerate(TRUTH[name]):
        search = Search(
            source,
            case.prior,
            tol=1e-4,
            max_iter=2000,
            max_factors=source.p,
            rng=np.random.default_rng(0),
        )
        search.at_k(k)
        found = evidence(search.best.state, source, case.prior, np.random.default_rng(0), 800)
        assert found.error < 0.2
        constant = case.prior.log_count_probability(k)
        bound = search.curve[k].lower_bound
        rows.append(Row(k, truth, found.value - constant, bound - constant))
    return rows


def as_text(rows):
    lines = ["  K  log p(y | K)  score - truth  bound - truth"]
    for row in rows:
        score, bound = row.score - row.truth, row.bound - row.truth
        lines.append(f"{row.k:3d}{row.truth:14.2f}{score:15.2f}{bound:15.2f}")
    return "\n".join(lines)


def disagreement(gaps):
    """The largest difference between two K."""
    return max(gaps) - min(gaps)


def truth_of(name, k, **options):
    case = CASES[name]
    slab = case.prior.slab
    given = slab.variance if isinstance(slab, GaussianSlab) else (slab.shape, slab.rate)
    model = oracle.Model(k, given, (case.prior.noise_shape, case.prior.noise_rate))
    y = (case.y - case.y.mean(axis=0)) / prepared_of(case).scale
    rows = oracle.rows_without_mean(y) if case.flat_mean else y
    return oracle.log_evidence(rows, model, step=1.0, **options)


@pytest.mark.parametrize("name", CASES)
def test_the_truth_is_what_the_oracle_finds(name):
    """A short run by another seed, for the most factors, good enough to tell a nat."""
    found = truth_of(name, len(TRUTH[name]) - 1, sweeps=250)
    assert found.value == pytest.approx(TRUTH[name][-1], abs=0.75)


def why(name):
    return f"score - truth, K = 0, 1, ...: {TOO_LOW[name]} nats"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=why(name), raises=AssertionError))
        for name in CASES
    ],
)
def test_differences_between_k_are_right_to_a_nat(name):
    rows = table(name)
    assert disagreement([row.score - row.truth for row in rows]) < NAT, as_text(rows)


@pytest.mark.parametrize("name", CASES)
def test_the_score_is_a_bound_and_more_than_half_way_to_the_truth(name):
    rows = table(name)
    assert abs(rows[0].score - rows[0].truth) < 0.1, as_text(rows)  # exact without factors
    for row in rows:
        assert row.score < row.truth + 0.3, as_text(rows)
        assert row.truth - row.score <= 0.5 * (row.truth - row.bound) + 0.05, as_text(rows)


@pytest.mark.parametrize("name", CASES)
def test_the_lower_bound_is_far_from_right(name):
    """Negative control: a nat is not had for nothing."""
    rows = table(name)
    assert disagreement([row.bound - row.truth for row in rows]) > 10 * NAT, as_text(rows)
