"""The rule of likelihood="auto", column by column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cuspfa.data.screening.column_kinds import column_kinds
from cuspfa.data.screening.likelihood_choice import choose_likelihoods
from cuspfa.errors import DataError
from cuspfa.model.likelihoods.kinds import LikelihoodTable, Ordinal, as_setting, from_setting

RNG = np.random.default_rng(0)
N = 400


def chosen(column: Any, labelled: tuple[str, ...] = (), setting: Any = "auto") -> LikelihoodTable:
    rows = np.asarray(column, dtype=float).reshape(N, -1)
    names = [f"x{j}" for j in range(rows.shape[1])]
    return choose_likelihoods(setting, rows, names, column_kinds(rows), labelled)


@pytest.mark.parametrize(
    ("column", "kind", "reason"),
    [
        (RNG.integers(0, 2, N), "ordinal", "two_values"),
        (RNG.integers(0, 2, N) * 7 - 3, "ordinal", "two_values"),
        (RNG.integers(1, 8, N), "ordinal", "few_levels"),
        (RNG.integers(0, 11, N), "gaussian", "many_levels"),
        (np.minimum(RNG.geometric(0.4, N), 10), "ordinal", "skewed_points"),
        (RNG.integers(1, 200, N), "gaussian", "many_levels"),
        (np.random.default_rng(1).poisson(3, N), "gaussian", "many_levels"),
        (RNG.negative_binomial(1, 0.1, N), "negative_binomial", "counts"),
        (np.exp(1.5 * RNG.normal(size=N)), "normal_scores", "skewed"),
        (RNG.normal(size=N), "gaussian", "continuous"),
        (RNG.choice([0.5, 1.0, 1.5], N), "gaussian", "continuous"),
        (RNG.choice([101, 205, 342, 977], N), "gaussian", "codes"),
    ],
)  # fmt: skip
def test_the_rule(column: Any, kind: str, reason: str) -> None:
    (one,) = chosen(column)
    assert (one.kind, one.reason) == (kind, reason)
    assert bool(one.levels) == bool(one.link) == (kind == "ordinal")


@pytest.mark.parametrize("setting", ["auto", "ordinal"])
@pytest.mark.parametrize("code", [-99, -9, 99, 999])
@pytest.mark.parametrize("count", [1, 10])
def test_a_number_far_from_the_others_is_an_error(setting: str, code: int, count: int) -> None:
    column = np.arange(N) % 4
    assert chosen(column, setting=setting)[0].levels == (0, 1, 2, 3)
    column[:count] = code
    with pytest.raises(DataError, match=f"x0 has the value {code}, far from its other values"):
        chosen(column, setting=setting)


def test_rare_last_categories_and_amounts_are_not_far() -> None:
    column = np.arange(N) % 4 + 1
    column[0] = 9
    assert chosen(column)[0].levels == (1, 2, 3, 4, 9)
    for values in (np.arange(N) % 70, np.arange(N) % 12):  # 999 among many numbers
        values[0] = 999
        assert chosen(values)[0].kind != "ordinal"


def test_labels_make_a_long_scale_ordinal() -> None:
    column = RNG.integers(1, 13, N)
    assert chosen(column)[0].kind == "gaussian"
    assert chosen(column, ("x0",))[0].reason == "labels"
    assert chosen(RNG.integers(0, 40, N), ("x0",))[0].kind != "ordinal"


def test_missing_values_are_no_level() -> None:
    column = RNG.integers(1, 4, N).astype(float)
    column[::7] = np.nan
    assert chosen(column)[0].levels == (1, 2, 3)


def test_a_mapping_decides_for_its_columns() -> None:
    rows = np.column_stack([RNG.integers(1, 6, N), RNG.integers(1, 6, N), RNG.normal(size=N)])
    names = ["x0", "x1", "x2"]
    setting = as_setting({"x0": "gaussian", -1: "normal_scores"}, names)
    assert setting == (("x0", "gaussian"), ("x2", "normal_scores"))
    found = chosen(rows, setting=setting)
    assert [one.kind for one in found] == ["gaussian", "ordinal", "normal_scores"]
    assert [one.reason for one in found] == ["given", "few_levels", "given"]
    mixed = {"x0": Ordinal("logit"), "x1": "binary"}
    assert from_setting(as_setting(mixed, names)) == mixed


def test_a_table_for_people() -> None:
    frame = chosen(np.column_stack([RNG.integers(0, 2, N), RNG.normal(size=N)])).to_frame()
    assert frame["likelihood"].tolist() == ["ordinal", "gaussian"]
    assert frame["reason"].tolist() == ["two values", "continuous numbers"]


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([1, 2, 2.5], "must have whole numbers"),
        ([1, 2, 3, -9], "the value -9, far from its other values"),
        (list(range(21)), "at most 20 categories"),
    ],
)
def test_what_no_ordinal_column_has(values: list[float], error: str) -> None:
    with pytest.raises(DataError, match=error):
        chosen(RNG.choice(values, N), setting="ordinal")
