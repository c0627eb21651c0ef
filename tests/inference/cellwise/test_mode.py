"""The mode and its curvature where columns are not what the likelihood says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.decomposition import FactorAnalysis

from cuspfa import CuspFactorAnalysis
from cuspfa.errors import CuspWarning
from cuspfa.inference.cellwise.row_sums import RowBlocks
from cuspfa.inference.cellwise.search import fit_cells
from cuspfa.model.likelihoods.continuous import ContinuousLikelihood
from cuspfa.model.prior import CuspPrior

N = 200


def table() -> np.ndarray:
    """Measurements of two factors: two with two values, one that nearly copies another, a trend."""
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(N, 2))
    rows = scores @ rng.normal(size=(2, 7)) + 0.4 * rng.normal(size=(N, 7))
    rows[:, :2] = rows[:, :2] > 1.0
    rows[:, 3] = rows[:, 2] + 0.2 * rng.normal(size=N)
    rows[:, 4] = np.arange(N)
    rows[:, 5] = np.arange(N) + 6.0 * rng.normal(size=N)
    return rows


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("blocks", [False, True])
def test_the_mode_has_about_the_highest_likelihood(k: int, blocks: bool) -> None:
    rows = table()
    one = ContinuousLikelihood.of(rows)
    values = one.check(rows)
    highest = N * FactorAnalysis(k, tol=1e-3).fit(values).score(values)
    found = fit_cells(RowBlocks(rows, one) if blocks else values, one, CuspPrior(), k)
    assert found.mode.found
    assert highest - 1.0 < found.mode.log_likelihood < highest + 0.01


def test_the_evidence_of_columns_with_two_values_is_the_integral() -> None:
    rows = (np.random.default_rng(0).random((80, 3)) < [0.5, 0.2, 0.7]).astype(float)
    one, prior = ContinuousLikelihood.of(rows), CuspPrior()
    values = one.check(rows)
    found = fit_cells(values, one, prior, 0)
    # With μ under a flat prior and σ² ~ IG(a, b): a normalized t, but for the prior's constant.
    n, a, b = len(values), one.noise_shape, one.noise_rate
    after, rate = a + (n - 1) / 2, b + np.sum((values - values.mean(axis=0)) ** 2, axis=0) / 2
    own = gammaln(after) - after * np.log(rate) - (n - 1) / 2 * np.log(2 * np.pi) - np.log(n) / 2
    constant = 3 * prior.log_noise_constant + prior.log_count_probability(0)
    assert found.laplace == pytest.approx(own.sum() + constant, abs=0.05)


def test_a_mode_that_is_not_found_is_no_convergence(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.column_stack([table()[:, 2:6], np.random.default_rng(1).normal(size=N)])
    model = CuspFactorAnalysis(likelihood="normal_scores")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(rows).converged_
    monkeypatch.setattr("cuspfa.inference.cellwise.evidence.MODE_STEPS", 4)
    with pytest.warns(CuspWarning, match="the mode of the posterior was not found for K = 1"):
        model.fit(rows)
    assert not model.converged_
    assert "not found" in model.status_


def test_the_order_of_columns_has_no_effect_on_few_rows_of_many_categories() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 18, (54, 4))
    scores = []
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        with pytest.warns(CuspWarning, match="rows are too few"):
            model = CuspFactorAnalysis(likelihood="ordinal").fit(rows[:, order])
        scores.append(model.search_[0].evidence)
    assert scores[0] == pytest.approx(scores[1], abs=0.1)
