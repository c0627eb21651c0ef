"""Moments that no rows can have."""

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, Moments
from cuspfa.errors import DataError


def test_more_rank_than_rows_can_have_is_refused():
    correlation = 0.3 + 0.7 * np.eye(9)
    with pytest.raises(DataError, match="9 rows have cross-products of rank 8 at most.*rank 9"):
        CuspFactorAnalysis().fit_moments(Moments.from_correlation(correlation, n=9))
    CuspFactorAnalysis().fit_moments(Moments.from_correlation(correlation, n=10))
    rows = np.random.default_rng(0).normal(size=(6, 9))  # few rows have no more rank
    CuspFactorAnalysis(n_factors=1).fit_moments(Moments.from_rows(rows))
