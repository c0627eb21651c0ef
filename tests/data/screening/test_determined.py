"""Columns of answers that follow from another column."""

import numpy as np
import pytest

from cuspfa.data.screening.co_observed import never_co_observed_in
from cuspfa.data.screening.dependent import dependent_in_rows
from cuspfa.data.screening.determined import determined_columns

LABELS = [f"Q{j}" for j in range(4)]


def answers(n: int = 400, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 6, size=(n, 4)).astype(float)


def pairs(rows: np.ndarray) -> list[tuple[int, int]]:
    found = determined_columns(rows, [f"Q{j}" for j in range(rows.shape[1])])
    return [] if found is None else [(one.index, other.index) for one, other in found.pairs]


@pytest.mark.parametrize(
    "copy",
    [
        lambda q: q,
        lambda q: 6 - q,
        lambda q: q - 3,
        lambda q: 2.0 * q,
        lambda q: np.where(q > 2, 1.0, 0.0),
        lambda q: np.where(q > 3, 4.0, q),
    ],
    ids=["copy", "reversed", "shifted", "other codes", "yes or no", "joined"],
)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_column_that_follows_is_named(copy, missing) -> None:
    rows = np.column_stack([answers(), copy(answers()[:, 1])])
    rows[np.random.default_rng(0).random(rows.shape) < missing] = np.nan
    found = pairs(rows)
    assert found == [(4, 1)]


def test_one_row_that_differs_is_no_copy() -> None:
    rows = np.column_stack([answers(), answers()[:, 1]])
    for row in (0, 57, 399):
        other = rows.copy()
        other[row, 4] = 1 + other[row, 4] % 5
        assert pairs(other) == []


def test_answers_without_the_order_of_the_others_do_not_follow() -> None:
    """Extreme answers of either kind, against those in the middle."""
    rows = np.column_stack([answers(), np.abs(answers()[:, 1] - 3)])
    assert pairs(rows) == []


def test_rare_answers_and_measurements_are_not_named() -> None:
    rng = np.random.default_rng(3)
    rows = (rng.random((400, 6)) < 0.01).astype(float)
    rows = np.column_stack([rows, np.repeat(rng.normal(size=(400, 1)), 2, axis=1)])
    assert pairs(rows) == []
    few = np.full((400, 2), np.nan)
    few[:9] = [[1, 2], [1, 2], [2, 3], [2, 3], [2, 3], [1, 2], [1, 2], [1, 2], [1, 2]]
    assert pairs(few) == []


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_answers_that_follow_from_a_measurement_are_named(sign) -> None:
    size = np.random.default_rng(3).normal(170, 10, size=400)
    rows = np.column_stack([answers(), size, np.searchsorted([160, 180], size) * sign])
    assert pairs(rows) == [(5, 4)]
    rows[np.argmin(size), 5] = 2 * sign
    assert pairs(rows) == []


def test_a_sum_of_other_columns_is_dependent() -> None:
    rows = answers()
    assert dependent_in_rows(rows, LABELS) is None
    rows[:, 3] = rows[:, 0] + rows[:, 2]
    found = dependent_in_rows(rows, LABELS)
    assert found is not None
    assert [one.name for one in found.columns] == ["Q0", "Q2", "Q3"]
    rows[0, 0] = np.nan
    assert dependent_in_rows(rows, LABELS) is None


def test_pairs_without_a_common_row_are_counted() -> None:
    rows = answers()
    assert never_co_observed_in(rows, LABELS) is None
    rows[:200, :2] = np.nan
    rows[200:, 3] = np.nan
    found = never_co_observed_in(rows, LABELS)
    assert found is not None
    assert (found.n_pairs, found.first.name, found.second.name) == (2, "Q0", "Q3")
    rows[0, 0] = 1.0
    found = never_co_observed_in(rows, LABELS)
    assert found is not None
    assert (found.n_pairs, found.first.name) == (1, "Q1")
