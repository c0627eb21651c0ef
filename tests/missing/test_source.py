"""The engine for incomplete data: against the complete engine, a literal one, and dense
distributions."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime

from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    EmpiricalBayesSlab,
    GaussianSlab,
    Variational,
    datasets,
)
from cuspfa._utils.fit_warning_text import python_text, terminal_text
from cuspfa.data import in_memory
from cuspfa.data.complete import prepare_rows
from cuspfa.data.in_memory import GramMatrix
from cuspfa.data.protocols import CompleteSource
from cuspfa.errors import CuspWarning
from cuspfa.inference.variational import cost
from cuspfa.inference.variational.cost import cost_of_incomplete
from cuspfa.inference.variational.elbo import lower_bound
from cuspfa.inference.variational.init import draw_start
from cuspfa.inference.variational.run import iteration
from cuspfa.inference.variational.steps import step_loadings, step_noise, step_scores
from cuspfa.missing.source import MissingDataSource, prepare_incomplete
from cuspfa.missing.updates import RowwiseLoadings
from oracles import missing as oracle
from support import factor_rows, incomplete_rows

PRIORS = {
    "default": CuspPrior(),
    "gaussian": CuspPrior(slab=GaussianSlab(1.0)),
    "learned": CuspPrior(slab=EmpiricalBayesSlab()),
    "spike": CuspPrior(slab=GaussianSlab(1.0), spike=1e-4),
}


def rows_of(n, p, k, seed=0):
    rng = np.random.default_rng(seed)
    return factor_rows(n, p, k, rng) + 3.0


def incomplete_factors(n, p, k, part=0.3, seed=0):
    """Incomplete rows, some rows alike, one row with nothing at all."""
    y = rows_of(n, p, k, seed)
    rng = np.random.default_rng([seed, 1])
    y[rng.random(y.shape) < part] = np.nan
    y[: n // 4, 0] = np.nan
    y[: n // 4, 1:] = rows_of(n // 4, p - 1, k, seed + 1)
    y[-1] = np.nan
    return oracle.centred(y)


def source_of(y, **settings):
    return MissingDataSource(incomplete_rows(y), **settings)


# --- nothing missing ---


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_equal_to_the_complete_engine_where_nothing_is_missing(prior):
    y = oracle.centred(rows_of(40, 7, 2))
    whole, incomplete = CompleteSource(GramMatrix(y.T @ y, 39.0)), source_of(y)
    states = [draw_start(one, prior, 8, np.random.default_rng(0), 2) for one in (whole, incomplete)]
    for _ in range(5):
        states = [
            iteration(state, one, prior)
            for state, one in zip(states, (whole, incomplete), strict=True)
        ]
        bounds = [
            lower_bound(s, one, prior) for s, one in zip(states, (whole, incomplete), strict=True)
        ]
        assert_allclose(bounds[0], bounds[1], rtol=1e-8, atol=1e-8)
        assert_allclose(states[0].loadings.mean, states[1].loadings.mean, atol=1e-8)
        assert_allclose(states[0].noise.rate, states[1].noise.rate, rtol=1e-8)
    assert_allclose(
        whole.log_likelihood(states[0].loadings.mean, 1 / states[0].noise.precision),
        incomplete.log_likelihood(states[0].loadings.mean, 1 / states[0].noise.precision),
        rtol=1e-10,
    )


def test_the_whole_search_is_equal_where_nothing_is_missing():
    x = rows_of(60, 8, 2)
    found = []
    for prepare in (prepare_rows, prepare_incomplete):
        prepared = prepare(x, scaling="columns", flat_mean=True)
        fit = Variational(criterion="collapsed").infer(
            prepared.source, CuspPrior(), n_factors=None, rng=np.random.default_rng(0)
        )
        found.append(fit)
        assert_allclose(prepared.center, x.mean(axis=0))
    assert [entry.n_factors for entry in found[0].entries] == [
        entry.n_factors for entry in found[1].entries
    ]
    for one, other in zip(found[0].entries, found[1].entries, strict=True):
        assert_allclose(one.lower_bound, other.lower_bound, atol=1e-8, rtol=1e-10)
        # An average over draws, whose basis may differ by signs.
        assert_allclose(one.evidence, other.evidence, atol=0.2)


def test_plugged_in_means_are_those_of_the_complete_engine_too():
    y = oracle.centred(rows_of(30, 6, 1))
    whole, incomplete = CompleteSource(GramMatrix(y.T @ y, 30.0)), source_of(y, flat_mean=False)
    states = [
        draw_start(one, CuspPrior(), 7, np.random.default_rng(0), 2) for one in (whole, incomplete)
    ]
    for _ in range(3):
        states = [
            iteration(states[0], whole, CuspPrior()),
            iteration(states[1], incomplete, CuspPrior()),
        ]
    assert_allclose(
        lower_bound(states[0], whole, CuspPrior()),
        lower_bound(states[1], incomplete, CuspPrior()),
        atol=1e-8,
    )


# --- with missing values ---


def state_with(y, prior, iterations=2, k=2, seed=0):
    source = source_of(y)
    state = draw_start(source, prior, y.shape[1] + 1, np.random.default_rng(seed), k)
    for _ in range(iterations):
        state = iteration(state, source, prior)
    return source, state


def test_steps_equal_the_literal_oracle():
    y, prior = incomplete_factors(24, 6, 2), PRIORS["gaussian"]
    source, state = state_with(y, prior)
    tau = state.noise.precision
    after = step_scores(step_loadings(state, source, prior), source, prior)
    distribution, moments = after.loadings, after.scores
    assert isinstance(distribution, RowwiseLoadings)
    m, v = oracle.scores(y, distribution.mean, distribution.covariance, distribution.anchor, tau)
    again = step_noise(step_loadings(after, source, prior), source, prior)
    assert isinstance(again.loadings, RowwiseLoadings)
    mean, covariance, anchor, rss = oracle.loadings(y, m, v, np.ones(2), tau)
    assert_allclose(again.loadings.mean, mean, rtol=1e-9, atol=1e-10)
    assert_allclose(again.loadings.covariance, covariance, rtol=1e-9, atol=1e-12)
    assert_allclose(again.loadings.anchor, anchor, rtol=1e-9, atol=1e-10)
    counts = np.sum(~np.isnan(y), axis=0)
    assert_allclose(again.noise.shape, prior.noise_shape + (counts - 1) / 2)
    assert_allclose(again.noise.rate, prior.noise_rate + rss / 2, rtol=1e-9)
    total = sum(np.outer(one, one) for one in m - m.mean(axis=0)) + (1 - 1 / 24) * v.sum(axis=0)
    assert_allclose(moments.total, total, rtol=1e-9, atol=1e-10)
    assert_allclose(m[-1], -m[:-1].sum(axis=0) * 0, atol=1e-12)  # nothing seen: the prior mean
    assert_allclose(v[-1], np.eye(2))
    log_det = (1 - 1 / 24) * sum(np.linalg.slogdet(one)[1] for one in v)
    assert_allclose(moments.log_det, log_det, rtol=1e-9)


@pytest.mark.parametrize(("part", "gap"), [(0.0, 1e-9), (0.1, 0.2), (0.4, 0.5)])
def test_the_bound_is_one_and_nearly_that_of_the_joint_distribution(part, gap):
    y = oracle.centred(rows_of(14, 5, 2)) if part == 0 else incomplete_factors(14, 5, 2, part)
    prior = PRIORS["gaussian"]
    source, state = state_with(y, prior, iterations=4)
    state = step_scores(state, source, prior)
    distribution, tau = state.loadings, state.noise.precision
    assert isinstance(distribution, RowwiseLoadings)
    m, v = oracle.scores(y, distribution.mean, distribution.covariance, distribution.anchor, tau)
    exact = sum(oracle.dense_scores_terms(y, m, v, distribution.mean, distribution.covariance, tau))
    bound = lower_bound(state, source, prior)
    rss = state.scores.expected_rss(distribution, source.squares)
    ours = -0.5 * tau @ rss + bound.scores
    assert ours <= exact + 1e-9
    assert exact - ours < gap


@pytest.mark.parametrize("flat", [True, False])
def test_scores_are_at_a_maximum_once_means_and_scores_have_settled(flat):
    """By numerical derivatives: the engine's formulas are not used."""
    y, prior = incomplete_factors(10, 4, 1, 0.2, seed=3), PRIORS["gaussian"]
    source = source_of(y, flat_mean=flat)
    state = draw_start(source, prior, 5, np.random.default_rng(0), 1)
    for _ in range(200):
        state = iteration(state, source, prior)
    for _ in range(200):
        state = step_scores(step_loadings(state, source, prior), source, prior)
    distribution, tau = state.loadings, state.noise.precision
    assert isinstance(distribution, RowwiseLoadings)
    anchor = distribution.anchor if flat else np.zeros((4, 1))
    m, v = oracle.scores(y, distribution.mean, distribution.covariance, anchor, tau)

    def bound(flattened):
        m_new = flattened[:10, None]
        v_new = np.exp(flattened[10:])[:, None, None]
        value, part = 0.0, 0.9 if flat else 1.0
        for j in range(4):
            rows = np.flatnonzero(~np.isnan(y[:, j]))
            at = m_new[rows].mean() if flat else 0.0
            second = np.sum((m_new[rows] - at) ** 2) + part * np.sum(v_new[rows])
            both = distribution.covariance[j, 0, 0] + distribution.mean[j, 0] ** 2
            value -= 0.5 * tau[j] * both * second
            value += tau[j] * distribution.mean[j, 0] * np.sum(y[rows, j] * m_new[rows, 0])
        about = m_new - m_new.mean() if flat else m_new
        value += 0.5 * part * np.sum(np.log(v_new) - v_new) - 0.5 * np.sum(about**2)
        return value

    here = np.concatenate([m[:, 0], np.log(v[:, 0, 0])])
    slope = approx_fprime(here, bound, 1e-6)
    assert np.max(np.abs(slope)) < 1e-4
    assert np.max(np.abs(approx_fprime(1.05 * here, bound, 1e-6))) > 1e-2  # it can tell


@pytest.mark.parametrize("part", [0.05, 0.3])
def test_log_likelihood_is_a_lower_bound_close_to_the_dense_one(part):
    y = incomplete_factors(50, 6, 2, part)
    rng = np.random.default_rng(1)
    source = source_of(y)
    source._few = None  # as with many missing values
    gaps = []
    for _ in range(5):
        loadings, noise = rng.normal(size=(6, 2)), rng.uniform(0.3, 1.0, 6)
        exact = oracle.log_likelihood(y, loadings, noise)
        ours = source.log_likelihood(loadings, noise)
        assert ours <= exact + 1e-8
        gaps.append(exact - ours)
    assert 1e-6 < np.max(gaps) < 0.25
    assert_allclose(
        source.log_likelihood(np.zeros((6, 0)), noise),
        oracle.log_likelihood(y, np.zeros((6, 1)), noise),
        rtol=1e-10,
    )


@pytest.mark.parametrize(("n", "p", "part"), [(50, 6, 0.05), (50, 6, 0.5), (400, 7, 0.02)])
def test_log_likelihood_with_few_missing_values_is_the_dense_one(n, p, part):
    """With rows that share a pattern, more than p + 1 of them, and patterns by themselves."""
    y = incomplete_factors(n, p, 2, part)
    rng = np.random.default_rng(1)
    source, plugged, many = source_of(y), source_of(y, flat_mean=False), source_of(y)
    assert source._few is not None
    many._few = None
    for _ in range(5):
        loadings, noise = rng.normal(size=(p, 2)), rng.uniform(0.3, 1.0, p)
        exact = oracle.log_likelihood(y, loadings, noise)
        assert_allclose(source.log_likelihood(loadings, noise), exact, rtol=1e-10)
        plain = plugged.log_likelihood(loadings, noise)
        assert plain < exact + 1e-8  # the means of what was observed are not the best ones
        plugged._few, kept = None, plugged._few
        assert_allclose(plugged.log_likelihood(loadings, noise), plain, rtol=1e-10)
        plugged._few = kept
    none = np.zeros((p, 0))
    assert_allclose(
        source.log_likelihood(none, noise), many.log_likelihood(none, noise), rtol=1e-10
    )


def test_patterns_with_many_missing_values_are_left_to_their_factors():
    rng = np.random.default_rng(0)
    y = np.where(rng.random((40, 30)) < 0.6, np.nan, rng.normal(size=(40, 30)))
    assert source_of(y)._few is None
    few = np.where(rng.random((40, 30)) < 0.1, np.nan, rng.normal(size=(40, 30)))
    assert source_of(few)._few is not None


# --- what it is for ---


def driven_missing(n, seed):
    """Column 0 is always there and decides which rows lack the others."""
    rng = np.random.default_rng(seed)
    loadings = np.array([0.9, 0.8, 0.8, 0.7, 0.7, 0.6])[:, None]
    noise = 1.0 - loadings[:, 0] ** 2
    mean = np.array([1.0, -2.0, 0.5, 3.0, 0.0, 1.0])
    x = mean + rng.normal(size=(n, 1)) @ loadings.T + rng.normal(size=(n, 6)) * np.sqrt(noise)
    gone = rng.random((n, 5)) < (x[:, [0]] > mean[0]) * 0.75
    x[:, 1:][gone] = np.nan
    return x, mean, loadings @ loadings.T + np.diag(noise)


def errors_of(x, mean, omega, *, flat):
    prepared = prepare_incomplete(x, scaling="columns", flat_mean=flat)
    fit = Variational().infer(
        prepared.source, CuspPrior(), n_factors=1, rng=np.random.default_rng(0)
    )
    state, scale = fit.best.state, prepared.scale
    found = prepared.center + scale * state.scores.location(state.loadings)
    second = state.loadings.mean @ state.loadings.mean.T
    second += np.diag(state.noise.variance + state.loadings.row_variance)
    covariance = second * np.outer(scale, scale)
    diagonal = np.eye(6, dtype=bool)
    return (
        np.abs(found - mean).max(),
        np.abs(covariance - omega)[diagonal].max(),
        np.abs(covariance - omega)[~diagonal].max(),
    )


def test_means_variances_and_covariances_when_an_observed_item_drives_the_missing_values():
    x, mean, omega = driven_missing(4000, 0)
    right = errors_of(x, mean, omega, flat=True)
    assert max(right) < 0.08
    # Centred at the means of what was observed, all three are wrong.
    wrong = errors_of(x, mean, omega, flat=False)
    assert wrong[0] > 0.25
    assert wrong[2] > 0.12
    model = CuspFactorAnalysis().fit(x)
    assert model.n_factors_ == 1
    assert_allclose(model.mean_, mean, atol=0.08)
    assert_allclose(model.get_covariance(), omega, atol=0.1)


def test_order_of_rows_does_not_matter():
    y = incomplete_factors(60, 6, 2)[:-1]  # without the row that has nothing
    order = np.random.default_rng(0).permutation(59)
    one, other = (CuspFactorAnalysis(n_factors=2).fit(x) for x in (y, y[order]))
    assert_allclose(one.lower_bound_, other.lower_bound_, rtol=1e-9)
    assert_allclose(one.transform(y)[order], other.transform(y[order]), atol=1e-6)


def test_rows_of_one_pattern_may_be_rotated():
    y = np.vstack(
        [incomplete_factors(12, 5, 2), rows_of(30, 5, 2), incomplete_factors(40, 5, 2, 0.0)]
    )
    y = oracle.centred(y)
    source = source_of(y)
    assert len(source.data.rows) < len(y)
    plain = source_of(y)
    plain.data = plain.incomplete_rows
    prior = CuspPrior()
    state = draw_start(source, prior, 6, np.random.default_rng(0), 2)
    state = iteration(iteration(state, source, prior), source, prior)
    one, other = (
        each.expect_scores(state.loadings, state.noise.precision) for each in (source, plain)
    )
    for a, b in zip(one, other, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    one, other = (each.log_likelihood(state.loadings.mean, np.ones(5)) for each in (source, plain))
    assert_allclose(one, other, rtol=1e-10)
    near = state.loadings.mean
    one, other = (each.leading(3, np.ones(5), near=near)[0] for each in (source, plain))
    assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize(("n", "p"), [(40, 200), (30, 1600)])
def test_starts_of_wide_data_see_no_more_directions_than_there_are(n, p):
    """Covariances of pairs would show noise as signal, and the search would try them all."""
    x = datasets.simulate(n, p, 2, random_state=0).X
    x[np.random.default_rng(0).random(x.shape) < 0.15] = np.nan
    model = CuspFactorAnalysis(random_state=0).fit(x)
    assert model.n_factors_ == 2
    assert len(model.search_) < 9


def test_a_long_fit_is_announced():
    assert cost_of_incomplete(2800, 2600, 25, None) is None
    warning = cost_of_incomplete(100_000, 100_000, 100, None)
    assert (warning.n_columns, warning.n_patterns) == (100, 100_000)
    said = python_text(warning)
    assert "100000 different patterns" in said
    assert re.search(r"about 0\.\d s an iteration and \d+ minutes in all", said)
    assert "given n_factors" in said
    given = cost_of_incomplete(100_000, 100_000, 300, 20)
    assert "given n_factors" not in python_text(given)
    assert "--factors takes a tenth of it." in terminal_text(warning)
    assert "--factors" not in terminal_text(given)
    assert cost_of_incomplete(100_000, 12, 25, None) is None  # few patterns


def test_the_announcement_is_a_warning_before_the_fit(monkeypatch):
    monkeypatch.setattr(cost, "MULTIPLICATIONS_PER_SECOND", 1.0)

    def stop(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(Variational, "infer", stop)
    with (
        pytest.warns(CuspWarning, match="With missing values in 6 columns"),
        pytest.raises(KeyboardInterrupt),
    ):
        CuspFactorAnalysis().fit(incomplete_factors(40, 6, 2))


def test_a_given_number_is_found_on_a_surrogate(monkeypatch):
    """With fewer iterations on the data themselves, and no lower bound."""
    rows = incomplete_factors(250, 15, 3)[:-1]
    scores = MissingDataSource.expect_scores
    iterations: list[int] = []

    def counted(self, *given):
        iterations[-1] += 1
        return scores(self, *given)

    monkeypatch.setattr(MissingDataSource, "expect_scores", counted)

    def bounds():
        found = []
        for k in (2, 3, 5, 6):
            iterations.append(0)
            found.append(CuspFactorAnalysis(n_factors=k).fit(rows).lower_bound_)
        return np.array(found)

    quick = bounds()
    monkeypatch.setattr(MissingDataSource, "surrogate", lambda *_: None)
    assert np.all(quick > bounds() - 0.02)
    made = np.array(iterations).reshape(2, 4)
    assert np.all(made[0] < made[1])
    assert made[0].sum() < 0.4 * made[1].sum()


def test_columns_that_are_never_seen_together_are_named():
    rows = datasets.simulate(120, 8, 2, random_state=0).X
    rows[:60, :4] = np.nan
    rows[60:, 4:] = np.nan
    with pytest.warns(
        CuspWarning, match=r"no row with both of 16 pairs of columns \(such as column 0"
    ):
        model = CuspFactorAnalysis().fit(rows)
    # Completed rows would know what nobody saw: the search goes on in the data themselves.
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        for k in (1, 2):
            given = CuspFactorAnalysis(n_factors=k).fit(rows).lower_bound_
            found = {one.n_factors: one.lower_bound for one in model.search_}
            assert found[k] > given - 0.5
    rows[:20] = datasets.simulate(20, 8, 2, random_state=1).X  # a bridge between the two
    with warnings.catch_warnings(action="error", category=CuspWarning):
        CuspFactorAnalysis(n_factors=2).fit(rows)


@pytest.mark.parametrize("numbers", [1, 40, 10_000])
def test_pairwise_counts_by_blocks_of_patterns(numbers, monkeypatch):
    monkeypatch.setattr(in_memory, "ROW_BLOCK_SIZE", numbers)
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(60, 5))
    rows[rng.random(rows.shape) < 0.3] = np.nan
    rows = rows[~np.isnan(rows).all(axis=1)]
    seen = ~np.isnan(rows)
    source: Any = prepare_incomplete(rows, scaling="columns").source
    expected = [[int(np.sum(seen[:, j] & seen[:, k])) for k in range(5)] for j in range(5)]
    np.testing.assert_array_equal(source.pairwise_counts, expected)
