"""Kinds of columns, by columns whose kind is known because they were made so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from cuspfa import CuspFactorAnalysis, Moments, RowStream, datasets, load
from cuspfa.data.screening.column_kinds import KindGroup, KindWatcher, column_kinds

N = 400
RNG = np.random.default_rng(0)
COLUMNS = {
    "normal": RNG.normal(size=N),
    "yes or no": (RNG.random(N) < 0.5).astype(float),
    "one and two": 1.0 + (RNG.random(N) < 0.1),
    "1 to 5": RNG.integers(1, 6, N).astype(float),
    "0 to 10": RNG.integers(0, 11, N).astype(float),
    "halves": RNG.integers(2, 11, N) / 2.0,
    "doses": 100.0 * RNG.integers(0, 4, N),
    "mostly 1": 1.0 + (RNG.random(N) < 0.15) + (RNG.random(N) < 0.05),
    "counts": RNG.poisson(RNG.gamma(1.0, 6.0, N)).astype(float),
    "marks": RNG.integers(20, 100, N).astype(float),
    "ages": RNG.integers(18, 60, N).astype(float),
    "regions": RNG.choice([101.0, 205.0, 342.0, 507.0, 811.0], N),
    "amounts": 500.0 * RNG.integers(1, 40, N),
    "incomes": np.exp(RNG.normal(10, 1.0, N)),
}
EXPECTED = {
    "normal": "continuous",
    "yes or no": "binary",
    "one and two": "binary",
    "1 to 5": "few_points",
    "0 to 10": "few_points",
    "halves": "few_points",
    "doses": "few_points",
    "mostly 1": "few_points",
    "counts": "counts",
    "marks": "continuous",
    "ages": "continuous",
    "regions": "codes",
    "amounts": "continuous",
    "incomes": "skewed",
}


def kind_of(values: np.ndarray) -> str:
    (group,) = column_kinds(values[:, None])
    assert group.columns == (0,)
    return group.kind


@pytest.mark.parametrize("name", COLUMNS)
def test_each_kind_also_with_missing_values(name: str) -> None:
    values = COLUMNS[name]
    assert kind_of(values) == EXPECTED[name]
    holes = values.copy()
    holes[RNG.random(N) < 0.1] = np.nan
    assert kind_of(holes) == EXPECTED[name]


def test_groups_together() -> None:
    table = np.column_stack(list(COLUMNS.values()))
    found = {one.kind: one for one in column_kinds(table)}
    names = list(COLUMNS)
    for kind, group in found.items():
        assert [names[j] for j in group.columns] == [n for n in names if EXPECTED[n] == kind]
    assert found["few_points"].points == (3, 11)
    assert found["binary"].points == (2, 2)
    assert found["continuous"].points is None
    # 10 % of ones have skewness 2.7, halves of answers 0; 1 to 5 in equal parts has 0 too.
    assert [names[j] for j in found["binary"].skewed] == ["one and two"]
    assert [names[j] for j in found["few_points"].skewed] == ["mostly 1"]


def test_an_outlying_value_makes_no_column_skewed() -> None:
    values = COLUMNS["normal"].copy()
    values[:3] = 50.0
    assert kind_of(values) == "continuous"
    values[:40] = 50.0  # one in ten is no longer an end of the distribution
    assert kind_of(values) == "skewed"
    assert kind_of(COLUMNS["normal"] ** 2) == "skewed"
    assert kind_of(-np.random.default_rng(1).exponential(size=N)) == "skewed"


def test_codes_for_missing_values_make_no_other_kind() -> None:
    rng = np.random.default_rng(3)
    table = rng.integers(1, 7, (200, 4)).astype(float)
    table[:5, 0], table[9, 1], table[7, 2] = -99.0, -99.0, -99.0  # once in some columns
    (items,) = column_kinds(table)
    assert items.kind == "few_points"
    assert items.points == (6, 6)
    table[:, 3] = rng.choice([101.0, 205.0, 342.0, 507.0], 200)
    assert [one.kind for one in column_kinds(table)] == ["few_points", "codes"]


def test_amounts_that_are_mostly_zero_are_no_codes() -> None:
    rng = np.random.default_rng(2)
    pools = np.zeros(2000)
    pools[:13] = rng.choice(np.arange(144, 800), 13, replace=False)
    assert kind_of(pools) == "counts"
    codes = np.zeros(2000)
    codes[:100] = rng.choice([101.0, 205.0, 342.0], 100)
    assert kind_of(codes) == "codes"


def test_few_rows_and_empty_columns_are_not_judged() -> None:
    assert column_kinds(np.ones((19, 2)) * [[1.0, 2.0]]) == ()
    hardly = np.full((50, 1), np.nan)
    hardly[:10, 0] = [1, 2] * 5
    assert kind_of(hardly[:, 0]) == "continuous"
    assert KindWatcher().kinds([0]) == ()


def test_a_stream_is_judged_by_its_first_rows() -> None:
    rows = np.column_stack(list(COLUMNS.values()))
    watcher = KindWatcher()
    for block in np.array_split(rows, 5):
        watcher.add(block)
    kept = [0, 1, 3]
    assert watcher.kinds(kept) == column_kinds(rows[:, kept])


# --- where they go ---

BFI = datasets.load_bfi(subset="paper", as_frame=True).data


def test_a_fit_keeps_them_in_memory_and_on_disk(tmp_path: Path) -> None:
    model = CuspFactorAnalysis(n_factors=2).fit(BFI)
    (group,) = model.posterior_.provenance.kinds
    assert group.kind == "few_points"
    assert group.columns == tuple(range(25))
    assert group.points is not None
    assert group.points[1] == 6
    path = tmp_path / "fit.cusp"
    model.posterior_.save(path)
    again = load(path)
    assert again.provenance is not None
    assert again.provenance.kinds == (group,)
    assert again.to_dict(n_draws=20)["column_kinds"][0]["columns"] == list(BFI.columns)


def test_files_and_streams_have_the_kinds_of_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    BFI.to_csv(path, index=False)
    kinds = CuspFactorAnalysis(n_factors=1).fit(BFI).posterior_.provenance.kinds
    for data in (str(path), RowStream(str(path)), iter([BFI.to_numpy()])):
        assert CuspFactorAnalysis(n_factors=1).fit(data).posterior_.provenance.kinds == kinds


def test_moments_have_none_and_nothing_is_said() -> None:
    posterior = CuspFactorAnalysis(n_factors=1).fit(Moments.from_rows(BFI)).posterior_
    assert posterior.provenance.kinds == ()
    summary = posterior.summary(n_draws=20)
    assert summary.kinds_text == ""
    assert "Gaussian" not in str(summary)


def test_a_group_is_a_value() -> None:
    assert KindGroup("counts", (1,)) == KindGroup("counts", (1,), None, ())


def test_sparse_counts_are_told_and_other_sparse_rows_are_not() -> None:
    counts = sparse.csr_matrix(RNG.poisson(0.3, (200, 6)))
    assert column_kinds(counts) == (KindGroup("counts", tuple(range(6))),)
    assert column_kinds((counts > 0).astype(float)) == ()
    assert column_kinds(counts.log1p()) == ()
    assert column_kinds(counts[:5]) == ()
    text = str(CuspFactorAnalysis(n_factors=0).fit(counts).posterior_.summary(n_draws=10))
    assert "CuspPoissonFactorization" in text
