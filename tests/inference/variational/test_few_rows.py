"""Very few rows: the choice of K is by collapsed bounds, and no estimate fails."""

import warnings

import mpmath
import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, Variational
from cuspfa.inference.variational import bridge_sampling
from cuspfa.inference.variational.search_settings import SearchSettings
from cuspfa.model.slabs import InverseGammaSlab


def one_factor(n, p, seed):
    rng = np.random.default_rng(100 + seed)
    signal = rng.standard_normal((n, 1)) @ rng.standard_normal((1, p))
    return signal + 0.6 * rng.standard_normal((n, p))


@pytest.mark.parametrize("p", [100, 190])
def test_one_factor_in_ten_rows(p):
    """Bridge sampling finds up to three here; its chains do not reach the posterior."""
    assert [CuspFactorAnalysis().fit(one_factor(10, p, s)).n_factors_ for s in range(4)] == [1] * 4


def test_bridge_sampling_fails_there(monkeypatch):
    """The control."""
    settings = SearchSettings(fewest_bridged_rows=0, most_bridged_columns=1e9)
    monkeypatch.setattr("cuspfa.inference.variational.settings.DEFAULT_SEARCH", settings)
    found = [CuspFactorAnalysis().fit(one_factor(10, 190, s)).n_factors_ for s in range(4)]
    assert max(found) > 1


@pytest.mark.parametrize("shape", [(4, 2000), (4, 600), (6, 1500)], ids=str)
def test_a_wide_table_of_a_few_rows_can_be_fitted(shape):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        CuspFactorAnalysis().fit(np.random.default_rng(0).normal(size=shape))


def test_without_any_overlap_the_error_is_infinite():
    above, below = np.full(40, -1e4), np.full((5, 8), 1e4)
    _, error = bridge_sampling.bennett(above, below)
    assert error == np.inf
    assert bridge_sampling.bennett(np.full(40, np.nan), np.zeros((5, 8)))[1] == np.inf
    assert bridge_sampling.bennett(np.zeros(40), np.zeros((5, 8)))[1] < 1.0


def test_columns_of_very_different_strength_can_be_fitted():
    """A closed form that overflowed here gave no number."""
    slab = InverseGammaSlab(0.61, 0.009)
    one, two = np.array([1e-12, 1e-3, 1.0]), np.array([400.0, 400.0, 1e9])
    found = slab.log_pair_average(one, two, 374)
    expected = [
        float(mpmath.log(mpmath.hyp2f1(0.5, 187.61, 1, -(mpmath.sinh(t / 2) ** 2))))
        for t in np.log((0.009 + two / 2) / (0.009 + one / 2))
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.all(np.isfinite(InverseGammaSlab(1e6, 1e5).log_pair_average(one, two, 10)))


def test_a_weight_that_cannot_be_computed_leaves_the_choice_to_collapsed_bounds(monkeypatch):
    data = one_factor(60, 8, 0)
    original = bridge_sampling.log_average_slab

    def broken(columns, slab, p):
        return np.full(len(columns), np.nan) if columns.shape[1] > 1 else original(columns, slab, p)

    collapsed = CuspFactorAnalysis(method=Variational(criterion="collapsed")).fit(data)
    monkeypatch.setattr(bridge_sampling, "log_average_slab", broken)
    found = CuspFactorAnalysis().fit(data)
    assert found.n_factors_ == collapsed.n_factors_ == 1
    assert all(entry.evidence < 0 for entry in found.search_ if not np.isnan(entry.evidence))
