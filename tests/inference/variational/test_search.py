"""The search over K: one number of factors, however it is arrived at."""

import math
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from cuspfa import CuspFactorAnalysis, Variational, datasets
from cuspfa.errors import CuspWarning
from cuspfa.inference.variational import settings as settings_module
from cuspfa.inference.variational.search_settings import SearchSettings

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
    with pytest.warns(CuspWarning, match="have no loadings"):
        CuspFactorAnalysis(n_factors=8).fit(load_wine().data)


# --- where scoring ends ---


def random_walks(n, p):
    return np.cumsum(np.random.default_rng(0).standard_normal((n, p)), axis=0)


def evidences(model):
    found = {one.n_factors: one.evidence for one in model.search_}
    return {k: value for k, value in found.items() if not math.isnan(value)}


def test_scoring_goes_on_while_the_evidence_rises():
    """A K whose evidence was the best so far was once compared with itself, which ended it."""
    model = CuspFactorAnalysis(method=Variational(criterion="collapsed"))
    scored = evidences(model.fit(random_walks(150, 30)))
    top = max(scored, key=scored.get)
    assert max(scored) >= top + 2
    assert scored[max(scored)] < scored[top] - 2


def test_evidence_that_rises_at_a_limit_is_told(monkeypatch):
    model = CuspFactorAnalysis(method=Variational(criterion="collapsed"))
    rows = random_walks(150, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free = evidences(model.fit(rows))
    limit = min(free) + 1
    monkeypatch.setattr(settings_module, "SEARCH", SearchSettings(heaviest=limit))
    with pytest.warns(CuspWarning, match="evidence still rose by about .* nats"):
        model.fit(rows)
    assert max(evidences(model)) == model.n_factors_ == limit


def test_evidence_that_rises_to_the_last_factor_there_is_is_not_told():
    """Three factors explain all correlation; that the third adds much says nothing of a fourth."""
    rows = datasets.simulate(200, 12, 3, random_state=1).X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CuspFactorAnalysis().fit(rows).n_factors_ == 3
