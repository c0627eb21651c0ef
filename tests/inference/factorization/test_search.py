"""What a search decides, from evidences and predictions that are given."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from cuspfa.data.counts import Counts
from cuspfa.inference.factorization import search as module
from cuspfa.inference.factorization.evidence import EvidenceValue
from cuspfa.inference.factorization.search import (
    CountSearch,
    CountSearchSettings,
    combined,
    search_over_k,
)
from cuspfa.model.poisson_factorization import PoissonFactorizationPrior


def search_of(evidence=None, *, error=1.0, **settings) -> Any:
    counts = Counts(sparse.csr_matrix(np.ones((6, 4))), np.ones(6))
    made = CountSearch(
        counts,
        PoissonFactorizationPrior(),
        CountSearchSettings(**settings),
        np.random.default_rng(0),
        9,
    )
    made.evidence = {k: EvidenceValue(value, error) for k, value in (evidence or {}).items()}
    return made


def test_more_columns_must_be_clearly_better():
    """By ten nats and the error of the difference, here √2."""
    assert search_of({1: -100.0, 2: -80.0}).best_by_evidence == 2
    assert search_of({1: -100.0, 2: -88.5}).best_by_evidence == 2
    assert search_of({1: -100.0, 2: -88.7}).best_by_evidence == 1
    # Three are not clearly better than two, but than one.
    assert search_of({1: -100.0, 2: -92.0, 3: -85.0}).best_by_evidence == 2
    assert search_of({1: -100.0, 2: -50.0, 3: -60.0}).best_by_evidence == 2


def test_a_score_is_the_difference_to_one_column_less():
    search = search_of({1: -100.0, 2: -80.0, 4: -70.0})
    assert search.score(2) == (20.0, math.sqrt(2.0), search.score(2).held_out)
    for k in (1, 3, 4, 5):
        assert search.score(k) is None


def test_estimates_are_combined_by_their_precision():
    found = combined(EvidenceValue(-10.0, 1.0), EvidenceValue(-13.0, 0.5))
    assert found.value == pytest.approx((-10.0 - 4 * 13.0) / 5)
    assert found.error == pytest.approx(1 / math.sqrt(5.0))


@pytest.mark.parametrize(
    ("evidence", "again"),
    [
        ({2: -100.0, 3: -60.0, 4: -100.0}, None),
        ({2: -100.0, 3: -60.0, 4: -48.6}, (3, 4)),  # a little more than what four must add
        ({2: -100.0, 3: -88.5, 4: -300.0}, (3, 2)),
        ({3: -60.0}, None),
    ],
)
def test_close_decisions_are_made_again_with_more_sweeps(evidence, again, monkeypatch):
    calls = []

    def estimate(state, data, prior, rng, settings):
        calls.append((state, settings.n_sweeps))
        return EvidenceValue(-70.0, 1.0)

    monkeypatch.setattr(module, "log_evidence", estimate)
    search = search_of(evidence)
    search.states = {k: k for k in evidence}
    assert search.estimate_again() == (again is not None)
    if again is None:
        assert not calls
        return
    chosen = search_of(evidence).best_by_evidence
    other = sum(again) - chosen
    assert calls == [(k, 4 * search.settings.path.n_sweeps) for k in (chosen, other)]
    for k in again:
        assert search.evidence[k].value == pytest.approx((evidence[k] - 70.0) / 2)


@pytest.mark.parametrize(
    ("gains", "evidence", "chosen"),
    [
        # Columns that the evidence is sure of need not predict.
        ([{3: -5.0, 4: 9.0}], {2: -100.0, 3: -50.0}, 3),
        # One that it is not sure of has to; what one more predicts is not asked.
        ([{3: 5.0, 4: 9.0}], {2: -100.0, 3: -80.0}, 3),
        ([{3: 1.0, 4: -9.0}, {2: 8.0, 3: -2.0}], {1: -200.0, 2: -100.0, 3: -80.0}, 2),
        # A second opinion may be another, and the mean of both decides.
        ([{3: 1.0, 4: -9.0}, {2: 8.0, 3: 5.0}], {1: -200.0, 2: -100.0, 3: -80.0}, 3),
        ([{3: 1.0, 4: -9.0}, {2: 8.0, 3: 2.9}], {1: -200.0, 2: -100.0, 3: -80.0}, 2),
        ([{}], {2: -100.0, 3: -80.0}, 3),
    ],
)
def test_columns_that_the_evidence_is_not_sure_of_must_predict(gains, evidence, chosen):
    search, left = search_of(evidence), list(gains)
    search.gains_on_held_out = lambda k: left.pop(0)
    k, scores = search.checked_on_held_out(3)
    assert k == chosen
    assert not left
    assert scores[3].evidence == evidence[3] - evidence[2]
    if chosen == 2:
        assert scores[3].held_out == pytest.approx((gains[0][3] + gains[1][3]) / 2)


def test_a_third_of_the_sweeps_follows_a_column_less():
    search = search_of(sweeps=30, quick_sweeps=9, quick_work=24 * 3 + 1)
    search.sweeps = lambda at, number: (at, number)
    for k, number in ((3, 10), (4, 3)):  # four columns are much work
        at: Any = SimpleNamespace(n_factors=k, sizes=np.array([3.0, 0.5, 2.0, 9.0])[:k])
        at.without = lambda which, k=k: (k, which)
        assert search.without_smallest(at) == ((k, 1), number)


@pytest.mark.parametrize(
    ("k", "sweeps"),
    [(1, None), (3, 4), (4, None)],  # four columns are too much work, and two more do not fit
)
def test_a_given_number_begins_with_sweeps_of_more_where_they_are_short(k, sweeps):
    search, made = search_of(given_work=24.0 * 3, spare=2), []
    search.with_columns = lambda state, number: SimpleNamespace(n_factors=number)

    def after_sweeps(state):
        made.append(state.n_factors)
        return state

    search.after_sweeps = after_sweeps
    search.without_smallest = lambda at: SimpleNamespace(n_factors=at.n_factors - 1)
    search.mean_state = lambda at: (at, at)
    search.run = lambda state, fixed=False: (state.n_factors, fixed)
    assert search.run_given(k) == (k, sweeps is not None)
    assert made == ([] if sweeps is None else [sweeps])


def test_zeros_and_no_room_for_columns_have_none():
    nothing = Counts(sparse.csr_matrix((6, 4)), np.ones(6))
    some = Counts(sparse.csr_matrix(np.ones((6, 4))), np.ones(6))
    for data, most in ((nothing, 3), (some, 0)):
        rng = np.random.default_rng(0)
        found = search_over_k(data, PoissonFactorizationPrior(), rng, max_factors=most)
        assert found.run.state.n_factors == 0
        assert set(found.runs) == {0}
