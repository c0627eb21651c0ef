"""Normal scores: ranks as quantiles, and back."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from cuspfa.data.cells import NormalScores


def test_normal_scores_are_normal_and_monotone() -> None:
    column = np.exp(2 * np.random.default_rng(0).normal(size=2000))
    found = NormalScores.of(column)
    scores = found.transform(column)
    order = np.argsort(column)
    assert np.all(np.diff(scores[order]) > 0)
    ranks = ndtri((np.arange(2000) + 0.5) / 2000)
    assert scores[order][25:-25] == pytest.approx(ranks[25:-25], abs=0.05)
    assert scores[order] == pytest.approx(ranks, abs=0.3)
    assert scores.std() == pytest.approx(1.0, abs=0.02)
    assert found.inverse(scores) == pytest.approx(column, rel=1e-9)
    assert len(found.values) <= 65
    assert np.isin(found.values[1:-1], column).sum() == 0


def test_beyond_the_data_the_function_goes_on() -> None:
    found = NormalScores.of(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, np.nan]))
    scores = found.transform(np.array([0.0, 1.0, 6.0, 9.0, np.nan]))
    assert np.all(np.diff(scores[:4]) > 0)
    assert np.isnan(scores[4])
    assert found.inverse(scores[:4]) == pytest.approx([0.0, 1.0, 6.0, 9.0])


def test_ties_have_their_mean_rank() -> None:
    column = np.array([0.0] * 10 + [1.0] * 10 + [2.0] * 20)
    scores = NormalScores.of(column).transform(np.array([0.0, 1.0, 2.0]))
    assert scores == pytest.approx(ndtri([5 / 40, 15 / 40, 30 / 40]), abs=1e-9)
