"""Answers do not flip: other orders and signs, and values changed in their thirteenth digit."""

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis
from kernels.answers import fitted, search
from kernels.cases import DATA, SETTINGS, Case, rows
from kernels.changes import changes
from kernels.differences import differences

SMALL = [Case("paper", prior) for prior in SETTINGS]
SMALL += [Case(data, "default") for data in DATA if data != "paper"]
SMALL += [Case(f"simulated {seed}", "GaussianSlab(0.05)") for seed in (2, 5, 9, 14)]


SOME = [Case("wine", "default"), Case("diabetes", "default")]
SOME += [Case("paper", "default"), Case("simulated 2", "GaussianSlab(0.05)")]
CASES = [pytest.param(one, marks=() if one in SOME else pytest.mark.long) for one in SMALL]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_same_number_of_factors_status_and_bound(case):
    X = rows(case.data)
    expected = search(fitted(case))
    found = {
        name: differences(expected, search(fitted(case, change.X)))
        for name, change in changes(X).items()
    }
    assert not any(found.values()), found


@pytest.mark.parametrize("data", ["wine", "simulated 4"])
def test_draws_of_a_turned_table_have_the_same_law(data):
    X = rows(data)
    model = CuspFactorAnalysis(n_factors=2)
    expected = covariances(model.fit(X), np.arange(X.shape[1]), np.ones(X.shape[1]), X)
    for name, change in changes(X).items():
        found = covariances(model.fit(change.X), change.columns, change.signs, X)
        assert furthest(expected, found) < 5, name
        # Negative controls: another distribution, and the same not turned back.
        assert furthest(expected, 1.2 * found) > 5, name
        if name.startswith("columns"):
            stuck = covariances(model.fit(change.X), np.arange(X.shape[1]), np.ones_like(X[0]), X)
            assert furthest(expected, stuck) > 5, name


def covariances(model, columns, signs, X):
    """Draws of the covariance, in order and signs of the table X, on its scale."""
    draws = model.posterior_.draw(400, random_state=0).covariance
    found = np.empty_like(draws)
    found[:, columns[:, None], columns] = draws * np.outer(signs, signs)
    return found / np.outer(X.std(axis=0), X.std(axis=0))


def furthest(one, other):
    """Largest difference of the means, in errors."""
    error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(one))
    return np.max(np.abs(one.mean(axis=0) - other.mean(axis=0)) / error)
