"""Columns that are sums or copies of others are named; nearly dependent ones are not."""

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, datasets
from cuspfa.data.in_memory import DenseData
from cuspfa.data.screening.dependent import dependent_columns
from cuspfa.errors import CuspWarning


def table():
    return datasets.simulate(60, 6, 1, random_state=2).X


def found(rows):
    centred = rows - rows.mean(axis=0)
    return dependent_columns(DenseData(centred.T @ centred, is_gram=True), len(rows) - 1, None)


def places(warning):
    return [one.index for one in warning.columns]


def test_independent_columns_are_not_named():
    assert found(table()) is None


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (lambda x: x[:, [2]], [2, 6]),
        (lambda x: 7 - 1e3 * x[:, [2]], [2, 6]),
        (lambda x: x[:, [0]] + x[:, [4]], [0, 4, 6]),
        (lambda x: x.sum(axis=1, keepdims=True), [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_copies_and_sums(extra, expected):
    rows = table()
    warning = found(np.hstack([rows, extra(rows)]))
    assert places(warning) == expected
    assert warning.n_extra == 1
    # Negative control: a little noise, and the columns differ.
    noise = 1e-3 * np.random.default_rng(0).standard_normal((len(rows), 1))
    assert found(np.hstack([rows, extra(rows) * (1 + noise)])) is None


def test_several_sets():
    rows = table()
    warning = found(np.hstack([rows, rows[:, [1]], rows[:, [3]] - rows[:, [5]]]))
    assert warning.n_extra == 2
    assert places(warning) in ([1, 6], [3, 5, 7])


def test_a_fit_names_them():
    frame = pd.DataFrame(table(), columns=list("abcdef"))
    frame["total"] = frame[["b", "c"]].sum(axis=1)
    with pytest.warns(CuspWarning, match="'b'.*'c'.*'total'.* are linearly dependent"):
        CuspFactorAnalysis().fit(frame)


def test_fewer_rows_than_columns_are_always_dependent():
    rows = np.random.default_rng(0).standard_normal((5, 8))
    assert dependent_columns(DenseData(rows, is_gram=False), 4, None) is None
    CuspFactorAnalysis(n_factors=1).fit(rows)
