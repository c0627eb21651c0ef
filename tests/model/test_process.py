"""The process by itself: Definition 1 and the statements around it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from cuspfa.errors import InputError
from cuspfa.model.process import (
    CumulativeShrinkage,
    Sticks,
    _converged_bound,
    converge_labels,
    expected_log_weights,
    labels_bound,
    prior_sticks,
    rows_needed,
    sticks_bound,
    update_labels,
    update_sticks,
)

N_DRAWS = 40_000


def within(samples, expected, errors=4.5):
    """Is the mean of independent samples within a few standard errors of `expected`?"""
    samples = np.asarray(samples, dtype=float)
    standard_error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return np.abs(samples.mean(axis=0) - expected) <= errors * standard_error


@given(st.floats(0.1, 50), st.integers(1, 40), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=100, deadline=None)
def test_spike_probabilities_never_decrease_and_the_finite_process_ends_at_one(
    alpha, n_terms, seed, finite
):
    process = CumulativeShrinkage(alpha, n_terms if finite else None)
    pi = process.draw_spike_probabilities(5, n_terms=n_terms, random_state=seed)
    assert np.all(np.diff(pi, axis=1) >= 0)
    assert np.all((pi >= 0) & (pi <= 1))
    if finite:
        assert np.all(pi[:, -1] == 1.0)


@pytest.mark.parametrize("alpha", [0.7, 5.0])
@pytest.mark.parametrize("stick_shape", [1.0, 2.5])
def test_expected_slab_probability_falls_geometrically(alpha, stick_shape):
    process = CumulativeShrinkage(alpha, stick_shape=stick_shape)
    pi = process.draw_spike_probabilities(N_DRAWS, n_terms=6, random_state=1)
    expected = (alpha / (stick_shape + alpha)) ** np.arange(1, 7)
    assert_allclose(1 - process.expected_spike_probabilities(6), expected)
    assert np.all(within(1 - pi, expected))
    wrong = ((alpha + 0.3) / (stick_shape + alpha + 0.3)) ** np.arange(1, 7)
    assert not np.any(within(1 - pi, wrong))


def test_expected_number_of_active_terms_approaches_alpha():
    process = CumulativeShrinkage(3.0)
    draws = process.draw(1.0, 0.0, n_draws=N_DRAWS, n_terms=80, random_state=2)
    active = draws.active.sum(axis=1)
    assert within(active, 3.0)
    assert not within(active, 3.1)
    assert np.sum(1 - process.expected_spike_probabilities(80)) == pytest.approx(3.0, abs=1e-8)


def test_loadings_are_increasingly_shrunk():
    """pr(|θ_{h+1}| < ε) ≥ pr(|θ_h| < ε), here for the Gaussian slab and spike of the paper."""
    process = CumulativeShrinkage(2.0, n_terms=8)
    draws = process.draw(stats.norm(0, 1), stats.norm(0, 0.05), n_draws=N_DRAWS, random_state=3)
    for epsilon in (0.02, 0.1, 0.5, 1.5):
        inside = np.mean(np.abs(draws.theta) < epsilon, axis=0)
        assert np.all(np.diff(inside) > -4 * np.sqrt(0.5 / N_DRAWS))
        assert inside[-1] > inside[0]
    # Negative control: with the spike wider than the slab the order turns round.
    swapped = process.draw(stats.norm(0, 0.05), stats.norm(0, 1), n_draws=N_DRAWS, random_state=3)
    inside = np.mean(np.abs(swapped.theta) < 0.1, axis=0)
    assert np.all(np.diff(inside)[:3] < 0)


def test_any_slab_and_spike():
    process = CumulativeShrinkage(5.0, n_terms=10)
    slab, spike = stats.invgamma(2, scale=2), 0.05
    draws = process.draw(slab, spike, n_draws=4000, random_state=4)
    assert np.all(draws.theta[~draws.active] == 0.05)
    assert stats.kstest(draws.theta[draws.active], slab.cdf).pvalue > 1e-4
    assert stats.kstest(draws.theta[draws.active], stats.invgamma(2, scale=2.3).cdf).pvalue < 1e-4
    assert not draws.active[:, -1].any()


def test_same_seed_same_draws_and_global_state_untouched():
    process = CumulativeShrinkage(5.0, n_terms=10)
    before = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
    a = process.draw(stats.norm(), 0.0, n_draws=3, random_state=7)
    b = process.draw(stats.norm(), 0.0, n_draws=3, random_state=np.random.default_rng(7))
    assert_allclose(a.theta, b.theta, rtol=0)
    assert np.array_equal(before, np.random.get_state(legacy=False)["state"]["key"])  # noqa: NPY002


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CumulativeShrinkage(0.0), "alpha must be a positive number. Got 0.0"),
        (lambda: CumulativeShrinkage(np.nan), "alpha must be"),
        (lambda: CumulativeShrinkage(True), "alpha must be"),
        (lambda: CumulativeShrinkage("5"), "alpha must be"),
        (lambda: CumulativeShrinkage(1.0, 0), "n_terms must be a whole number not below 1"),
        (lambda: CumulativeShrinkage(1.0, 2.5), "n_terms must be"),
        (lambda: CumulativeShrinkage(1.0, stick_shape=-1), "stick_shape must be"),
        (lambda: CumulativeShrinkage(1.0).draw_spike_probabilities(3), "n_terms must be given"),
        (
            lambda: CumulativeShrinkage(1.0, 3).draw_spike_probabilities(3, n_terms=4),
            "at most the process's own 3",
        ),
        (lambda: CumulativeShrinkage(1.0, 3).draw_spike_probabilities(3, n_terms="2"), "n_terms"),
        (lambda: CumulativeShrinkage(1.0, 3).draw("x", 0.0), "slab must be"),
        (lambda: CumulativeShrinkage(1.0, 3).draw(1 + 0j, 0.0), "slab must be"),
        (lambda: CumulativeShrinkage(1.0, 3).draw(True, 0.0), "slab must be"),
        (lambda: CumulativeShrinkage(1.0, 3).draw(np.nan, 0.0), "slab must be"),
        (lambda: CumulativeShrinkage(1.0, 3).draw(stats.invgamma, 0.0), "slab must be"),
        (lambda: CumulativeShrinkage(1.0, 3).draw(1.0, object()), "spike must be"),
        (lambda: CumulativeShrinkage(1.0, 3).draw(1.0, 0.0, n_draws=0), "n_draws must be"),
        (lambda: CumulativeShrinkage(1.0, 3).draw(1.0, 0.0, random_state="x"), "random_state"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


COUNTS = [(3.0, 1.0, None), (3.0, 1.0, 6), (4.0, 2.5, None), (5.0, 0.5, None), (2.0, 0.7, 9)]


@pytest.mark.parametrize(("alpha", "shape", "n_terms"), COUNTS)
def test_number_of_active_terms_has_its_exact_law(alpha, shape, n_terms):
    process = CumulativeShrinkage(alpha, n_terms, shape)
    draws = process.draw(1.0, 0.0, n_draws=N_DRAWS, n_terms=n_terms or 200, random_state=6)
    counts = draws.active.sum(axis=1)
    k = np.arange(9)
    pmf = process.active_count_pmf(k)
    observed = (counts[:, None] == k).astype(float)
    assert np.all(within(observed, pmf) | (pmf < 1e-4))
    other = CumulativeShrinkage(1.15 * alpha, n_terms, shape).active_count_pmf(k)
    assert not np.all(within(observed, other) | (other < 1e-4))


def test_number_of_active_terms_of_the_countable_process_is_poisson():
    process = CumulativeShrinkage(7.0)
    assert_allclose(process.active_count_pmf(np.arange(30)), stats.poisson(7.0).pmf(np.arange(30)))
    # The general sum, forced by a shape just off 1, agrees.
    near = CumulativeShrinkage(7.0, stick_shape=1.0 + 1e-12)
    assert_allclose(near.active_count_pmf(np.arange(30)), process.active_count_pmf(np.arange(30)))
    long = CumulativeShrinkage(7.0, n_terms=400)
    assert_allclose(long.active_count_pmf(np.arange(30)), process.active_count_pmf(np.arange(30)))
    with pytest.raises(InputError, match="counts must be whole numbers"):
        process.active_count_pmf([0.5])
    assert process.active_count_pmf([]).shape == (0,)
    with pytest.raises(InputError, match="counts and alpha must be at most 200"):
        CumulativeShrinkage(5.0, stick_shape=2.0).active_count_pmf([5000])
    with pytest.raises(InputError, match="counts and alpha must be at most 200"):
        CumulativeShrinkage(5000.0, stick_shape=0.9).active_count_pmf([3])
    with pytest.raises(InputError, match="stick_shape must be at least"):
        CumulativeShrinkage(1.0, stick_shape=0.1).active_count_pmf([1])


# --- labels and sticks -------------------------------------------------------------------------


def explicit_kappa(log_odds, log_weights):
    size = len(log_odds)
    h, term = np.indices((size, size))
    scores = log_weights[term] + np.where(term > h, log_odds[h], 0.0)
    scores -= scores.max(axis=1, keepdims=True)
    kappa = np.exp(scores)
    return kappa / kappa.sum(axis=1, keepdims=True)


@given(
    st.lists(st.floats(-2e3, 2e3), min_size=1, max_size=30),
    st.floats(0.05, 30),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=200, deadline=None)
def test_labels_without_the_matrix_equal_those_with_it(log_odds, alpha, seed):
    log_odds = np.array(log_odds)
    rng = np.random.default_rng(seed)
    size = len(log_odds) - 1
    sticks = Sticks(rng.uniform(0.05, 5, size), rng.uniform(0.05, alpha + 5, size))
    log_weights = expected_log_weights(sticks)
    kappa = explicit_kappa(log_odds, log_weights)
    labels = update_labels(log_odds, log_weights)
    assert_allclose(labels.active, np.triu(kappa, 1).sum(axis=1), atol=1e-12)
    assert_allclose(labels.inactive, np.tril(kappa).sum(axis=1), atol=1e-12)
    assert_allclose(labels.stick_counts, kappa.sum(axis=0), rtol=1e-9, atol=1e-12)
    entropy = float(np.sum(np.where(kappa > 0, -kappa * np.log(np.maximum(kappa, 1e-320)), 0.0)))
    assert labels.entropy == pytest.approx(entropy, abs=1e-9)
    updated = update_sticks(labels, CumulativeShrinkage(alpha, size + 1))
    assert_allclose(updated.a, 1 + kappa.sum(axis=0)[:-1], rtol=1e-9)
    beyond = np.array([kappa[:, h + 1 :].sum() for h in range(size)])
    assert_allclose(updated.b, alpha + beyond, rtol=1e-9)


def test_sticks_at_their_prior_cost_nothing():
    process = CumulativeShrinkage(4.0, n_terms=12, stick_shape=1.5)
    assert sticks_bound(prior_sticks(process, 12), process) == pytest.approx(0.0, abs=1e-12)
    shifted = Sticks(np.full(11, 2.0), np.full(11, 4.0))
    assert sticks_bound(shifted, process) < -1e-3


@pytest.mark.parametrize(("n_active", "n_terms"), [(0, 1), (1, 2), (3, 26), (20, 26), (4, 300)])
def test_settled_labels_are_a_fixed_point_and_better_than_many_plain_sweeps(n_active, n_terms):
    process = CumulativeShrinkage(5.0)
    odds = np.where(np.arange(n_terms) < n_active, 50.0, -50.0)
    labels, sticks = converge_labels(odds, prior_sticks(process, n_terms), process)
    again = update_sticks(update_labels(odds, expected_log_weights(sticks)), process)
    assert_allclose(again.a, sticks.a, rtol=1e-5)
    assert_allclose(again.b, sticks.b, rtol=1e-5)
    settled = labels_bound(labels, sticks) + sticks_bound(sticks, process)
    plain = prior_sticks(process, n_terms)
    for _ in range(n_terms):
        slow = update_labels(odds, expected_log_weights(plain))
        plain = update_sticks(slow, process)
    assert settled >= labels_bound(slow, plain) + sticks_bound(plain, process) - 1e-6


def test_one_row_may_stand_for_the_far_ones():
    """1500 terms, all rows kept, against the few hundred rows that are needed."""
    process, n_terms, n_active = CumulativeShrinkage(5.0), 1500, 4
    totals, counts = [], []
    for rows in (n_terms, rows_needed(n_terms, n_active, process)):
        odds = np.where(np.arange(rows) < n_active, 1e6, -1e6)
        last = n_terms - rows + 1
        labels, sticks = converge_labels(odds, prior_sticks(process, rows), process, last)
        totals.append(labels_bound(labels, sticks) + sticks_bound(sticks, process))
        counts.append(labels.stick_counts[:20])
        assert labels.total(labels.active + labels.inactive) == pytest.approx(n_terms)
    assert rows < 300
    assert totals[1] == pytest.approx(totals[0], abs=1e-5)
    assert_allclose(counts[1], counts[0], rtol=1e-3)


@pytest.mark.parametrize("last", [1, 5])
def test_what_labels_and_sticks_can_change_of_the_bound(last):
    """It differs from the bound by what no label can change: the better of slab and spike."""
    process, rng = CumulativeShrinkage(3.0, stick_shape=1.4), np.random.default_rng(9)
    odds = np.array([4.0, -3.0, 0.7, -0.2, 1.5, -0.6])
    sticks = Sticks(rng.uniform(0.5, 4, 5), rng.uniform(0.5, 9, 5))
    log_weights = expected_log_weights(sticks)
    for tilt in (0.0, 2.0):
        labels = update_labels(odds + tilt * rng.normal(size=6), log_weights, last)
        found = _converged_bound(labels, sticks, log_weights, odds, process)
        times = np.array([1, 1, 1, 1, 1, last])
        of_columns = np.sum(times * (labels.active * odds - np.maximum(odds, 0.0)))
        rest = labels_bound(labels, sticks) + sticks_bound(sticks, process)
        assert found == pytest.approx(of_columns + rest, rel=1e-12)


def test_expected_log_weights_by_simulation():
    rng = np.random.default_rng(5)
    sticks = Sticks(rng.uniform(0.5, 3, 4), rng.uniform(0.5, 6, 4))
    v = rng.beta(sticks.a, sticks.b, size=(N_DRAWS, 4))
    v = np.column_stack([v, np.ones(N_DRAWS)])
    before = np.column_stack([np.ones(N_DRAWS), np.cumprod(1 - v[:, :-1], axis=1)])
    log_weights = np.log(v * before)
    assert np.all(within(log_weights, expected_log_weights(sticks)))
    assert not np.any(within(log_weights, expected_log_weights(sticks) + 0.1))
