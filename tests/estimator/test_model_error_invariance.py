"""K and ε do not depend on order and signs of the data, nor on their last digits."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

from cuspfa import CuspFactorAnalysis, datasets

DATA = {"wine": load_wine().data, "paper": datasets.load_bfi(subset="paper").data}


def variants(rows):
    rng = np.random.default_rng(7)
    p = rows.shape[1]
    return {
        "rows": rows[rng.permutation(len(rows))],
        "last digits": rows * (1 + 1e-13 * rng.standard_normal(rows.shape)),
        "signs": rows * rng.choice([-1.0, 1.0], p),
        "columns": rows[:, rng.permutation(p)],
    }


def evidence(model):
    """That of the chosen number of factors."""
    return next(one.evidence for one in model.search_ if one.n_factors == model.n_factors_)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("error", [0.05, "auto"])
def test_the_same_data_in_other_words(name, error):
    model = CuspFactorAnalysis(model_error=error).fit(DATA[name])
    assert model.n_factors_ < CuspFactorAnalysis().fit(DATA[name]).n_factors_
    for what, rows in variants(DATA[name]).items():
        other = CuspFactorAnalysis(model_error=error).fit(rows)
        assert other.n_factors_ == model.n_factors_, what
        assert other.model_error_ == model.model_error_, what
        assert evidence(other) == pytest.approx(evidence(model), abs=0.01), what
        assert [one.tied for one in other.search_] == [one.tied for one in model.search_], what


@pytest.mark.parametrize("error", [0.05, "auto"])
def test_data_that_differ_have_another_answer(error):
    """What is compared above can differ: noise of a tenth changes the evidence."""
    rows = DATA["wine"]
    model = CuspFactorAnalysis(model_error=error).fit(rows)
    noisy = rows + 0.1 * rows.std(axis=0) * np.random.default_rng(0).standard_normal(rows.shape)
    other = CuspFactorAnalysis(model_error=error).fit(noisy)
    assert abs(evidence(other) - evidence(model)) > 1.0
