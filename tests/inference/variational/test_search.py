"""The search over K: one number of factors, however it is arrived at."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from cuspfa import CuspFactorAnalysis, datasets
from cuspfa.errors import CuspWarning

# --- a given K ---


def bfi_items():
    rows = np.asarray(datasets.load_bfi(subset="items").data, dtype=float)
    return rows[~np.isnan(rows).any(axis=1)]


@pytest.mark.parametrize(
    "rows", [load_breast_cancer().data, bfi_items()], ids=["breast cancer", "bfi"]
)
def test_the_number_that_was_found_can_be_given(rows):
    """All factors are alive, and the fit is as good as the one that found the number."""
    found = CuspFactorAnalysis().fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none is without loadings
        given = CuspFactorAnalysis(n_factors=found.n_factors_).fit(rows)
    assert given.n_factors_ == found.n_factors_
    assert given.lower_bound_ > found.lower_bound_ - 0.1
    assert given.score(rows) == pytest.approx(found.score(rows), abs=0.01)


def test_a_number_that_the_data_do_not_support_is_told():
    with pytest.warns(CuspWarning, match="no loadings worth the name"):
        CuspFactorAnalysis(n_factors=8).fit(load_wine().data)
