"""Labels and sticks of the sampler against probabilities that are written out."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from cuspfa.inference.gibbs.labels import (
    ProcessColumns,
    adapt,
    draw_labels,
    draw_sticks,
    first_columns,
    log_odds,
)
from cuspfa.inference.kernels import Chains, Scales
from cuspfa.model.prior import CuspPrior
from cuspfa.model.slabs import InverseGammaSlab

SIZE = 4000
PRIOR = CuspPrior(alpha=2.5, stick_shape=1.3, slab=InverseGammaSlab(1.5, 0.6), spike=0.02)
SURVIVORS = np.array([0.8, 0.45, 0.3, 0.0])


def label_probabilities(odds):
    """P(z_h = l), (h, l): the weight of l, with the slab where l is beyond h."""
    weights = -np.diff(SURVIVORS, prepend=1.0)
    h, label = np.indices((4, 4))
    parts = weights[label] * np.where(label > h, np.exp(odds[h]), 1.0)
    return parts / parts.sum(axis=1, keepdims=True)


def test_labels_have_their_probabilities():
    odds = np.array([1.2, -0.7, 0.4, 3.0])
    with np.errstate(divide="ignore"):
        survivors = np.tile(np.log(SURVIVORS), (SIZE, 1))
    columns = ProcessColumns(np.zeros((SIZE, 4), bool), survivors, np.full(SIZE, 4))
    rng = np.random.default_rng(1)
    active, counts = draw_labels(np.tile(odds, (SIZE, 1)), columns, rng)
    wanted = label_probabilities(odds)
    error = 4.5 * np.sqrt(0.25 / SIZE)
    assert_allclose(active.mean(axis=0), np.triu(wanted, 1).sum(axis=1), atol=error)
    assert not active[:, 3].any()
    assert_allclose(np.mean(counts, axis=0), wanted.sum(axis=0), atol=2 * error)
    other = label_probabilities(odds + 0.3)
    assert np.abs(active.mean(axis=0) - np.triu(other, 1).sum(axis=1)).max() > error
    assert np.abs(np.mean(counts, axis=0) - other.sum(axis=0)).max() > 2 * error
    # Labels and activity of a chain are of the same draw: only an inactive column has the first.
    inactive = (~active).sum(axis=1)
    assert all(own.sum() == 4 and own[0] <= n for own, n in zip(counts, inactive, strict=True))


def test_sticks_are_beta_given_the_labels():
    found = np.array([2, 0, 1, 3])  # of six labels, at four columns
    log_s = draw_sticks([found] * SIZE, 6, PRIOR, np.random.default_rng(2))
    assert np.all(np.isinf(log_s[:, 3:]))
    rest = np.exp(np.diff(log_s[:, :3], axis=1, prepend=0.0))
    for column, (at, beyond) in zip(rest.T, [(2, 4), (0, 4), (1, 3)], strict=True):
        stick = stats.beta(1.3 + at, 2.5 + beyond)
        assert stats.kstest(1 - column, stick.cdf).pvalue > 1e-3
        assert stats.kstest(1 - column, stats.beta(1.3 + at + 0.3, 2.5 + beyond).cdf).pvalue < 1e-3


def test_the_first_sticks_have_their_prior():
    active = np.zeros((SIZE, 4), dtype=bool)
    columns = first_columns(active, PRIOR, np.random.default_rng(3))
    assert np.all(np.isinf(columns.log_survivors[:, 3]))
    assert np.all(columns.terms == 4)
    rest = np.exp(np.diff(columns.log_survivors[:, :3], axis=1, prepend=0.0))
    for column in rest.T:
        assert stats.kstest(1 - column, stats.beta(1.3, 2.5).cdf).pvalue > 1e-3
        assert stats.kstest(1 - column, stats.beta(1.0, 2.5).cdf).pvalue < 1e-6


def test_odds_are_the_ratio_of_the_densities():
    rng, p = np.random.default_rng(4), 5
    columns = rng.normal(size=(p, 2, 3)) * 0.3
    scales = Scales(np.ones((2, 3)), (np.array([1.5, 0.7]), np.array([0.6, 2.0])), None)
    found = log_odds(np.sum(columns**2, axis=0), scales, PRIOR, 0.02, p)
    for chain, (a, b) in enumerate([(1.5, 0.6), (0.7, 2.0)]):
        for h in range(3):
            own = columns[:, chain, h]
            slab = stats.multivariate_t(shape=b / a * np.eye(p), df=2 * a).logpdf(own)
            spike = stats.norm.logpdf(own, 0.0, np.sqrt(0.02)).sum()
            assert found[chain, h] == pytest.approx(slab - spike, rel=1e-9)


def two_chains() -> tuple[Any, ProcessColumns]:
    """The first holds two active columns of five, the second three of four."""
    rng = np.random.default_rng(5)
    active = np.array([[True, False, True, False, False], [True, True, True, False, False]])
    terms = np.array([5, 4])
    survivors = np.array([[0.9, 0.6, 0.5, 0.2, 0.0], [0.7, 0.4, 0.1, 0.0, 0.0]])
    loadings = rng.normal(size=(6, 2, 5))
    loadings[:, 1, 4] = 0.0
    scales = Scales(rng.uniform(0.5, 2.0, (2, 5)), None, active)
    with np.errstate(divide="ignore"):
        columns = ProcessColumns(active, np.log(survivors), terms)
    return Chains(loadings, np.ones((6, 2)), scales), columns


def test_inactive_columns_are_dropped_but_one():
    chains, columns = two_chains()
    rng = np.random.default_rng(6)
    moved, after = adapt(chains, columns, np.array([True, False]), 0.01, 9, PRIOR, rng)
    assert after.terms.tolist() == [3, 4]
    assert after.active[0, :3].tolist() == [True, True, False]
    assert_allclose(moved.loadings[:, 0, :2], chains.loadings[:, 0, [0, 2]])
    assert_allclose(moved.scales.variances[0, :3], [*chains.scales.variances[0, [0, 2]], 0.01])
    assert 0.0 < np.abs(moved.loadings[:, 0, 2]).max() < 5 * np.sqrt(0.01)
    # Weights of the columns that stay do: 1 − 0.9 of the first, 0.6 − 0.5 of the third.
    assert_allclose(np.exp(after.log_survivors[0, :3]), [0.9, 0.8, 0.0], atol=1e-12)
    # The other chain was not chosen.
    assert_allclose(moved.loadings[:, 1, :4], chains.loadings[:, 1, :4])
    assert_allclose(np.exp(after.log_survivors[1, :4]), [0.7, 0.4, 0.1, 0.0])
    assert np.array_equal(moved.scales.free, after.active)


def test_a_chain_without_room_gets_a_column_of_the_spike():
    chains, columns = two_chains()
    drawn = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        moved, after = adapt(chains, columns, np.array([False, True]), 0.01, 9, PRIOR, rng)
        assert after.terms.tolist() == [5, 5]
        assert after.active[1].tolist() == [True, True, True, False, False]
        assert_allclose(np.exp(after.log_survivors[1, :3]), [0.7, 0.4, 0.1])
        assert np.isinf(after.log_survivors[1, 4])
        drawn.append((np.exp(after.log_survivors[1, 3]) / 0.1, *moved.loadings[:, 1, 4]))
    rest, *loadings = np.array(drawn).T
    assert stats.kstest(1 - rest, stats.beta(1.3, 2.5).cdf).pvalue > 1e-3
    assert stats.kstest(np.ravel(loadings), stats.norm(0, 0.1).cdf).pvalue > 1e-3
    # Not beyond the most, and not where none is chosen.
    for chosen, most in ((np.array([False, True]), 4), (np.array([False, False]), 9)):
        same = adapt(chains, columns, chosen, 0.01, most, PRIOR, np.random.default_rng(0))
        assert same == (chains, columns)
