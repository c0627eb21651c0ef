"""A masked value is missing, whatever carries the mask."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from cuspfa import CuspFactorAnalysis, RowStream, datasets, predict_to_file

CODE = -999.0
"""What lies below the mask, and must never be seen."""


@pytest.fixture(scope="module")
def nan() -> Any:
    rows = datasets.simulate(200, 8, 2, random_state=0).X
    rows[np.random.default_rng(0).random(rows.shape) < 0.05] = np.nan
    return rows


@pytest.fixture(scope="module")
def known(nan: Any) -> CuspFactorAnalysis:
    return CuspFactorAnalysis().fit(nan)


def masked(nan: Any, kind: str) -> Any:
    hidden = np.isnan(nan)
    coded = np.where(hidden, CODE, nan)
    array = np.ma.masked_array(coded, hidden)
    if kind == "list of masked rows":
        return list(array)
    if kind == "tuple of lists with masked":
        rows = zip(hidden, coded.tolist(), strict=True)
        return tuple(
            [np.ma.masked if gone else value for gone, value in zip(*row, strict=True)]
            for row in rows
        )
    if kind in ("objects", "frame of objects"):
        objects = coded.astype(object)
        for place in zip(*np.nonzero(hidden), strict=True):
            objects[place] = np.ma.masked
        return objects if kind == "objects" else pd.DataFrame(objects)
    if kind == "masked objects":
        return np.ma.masked_array(coded.astype(object), hidden)
    dask = pytest.importorskip("dask.array", reason="an extra")
    collection = dask.from_array(coded, chunks=(50, 3 if kind == "dask, by columns" else 8))
    if kind == "dask without a word of masks":
        return collection.map_blocks(
            lambda block: np.ma.masked_values(block, CODE), dtype=float, meta=np.empty((0, 0))
        )
    if kind == "dask of whole numbers":
        return dask.from_array(np.ma.masked_array(coded.round().astype(int), hidden), chunks=50)
    assert kind.startswith("dask")
    return dask.ma.masked_values(collection, CODE)


KINDS = [
    "list of masked rows",
    "tuple of lists with masked",
    "objects",
    "frame of objects",
    "masked objects",
    "dask",
    "dask, by columns",
    "dask without a word of masks",
]


@pytest.mark.parametrize("kind", KINDS)
def test_fit(nan: Any, known: CuspFactorAnalysis, kind: str) -> None:
    found = CuspFactorAnalysis().fit(masked(nan, kind))
    assert found.n_factors_ == known.n_factors_ == 2
    assert_allclose(found.get_covariance(), known.get_covariance(), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["transform", "score_samples", "impute"])
def test_new_rows(nan: Any, known: CuspFactorAnalysis, kind: str, method: str) -> None:
    ask = getattr(known, method)
    assert_allclose(ask(masked(nan, kind)), ask(nan), rtol=1e-10)


def test_whole_numbers(nan: Any) -> None:
    found = CuspFactorAnalysis().fit(masked(nan, "dask of whole numbers"))
    plain = CuspFactorAnalysis().fit(nan.round())
    assert_allclose(found.get_covariance(), plain.get_covariance(), rtol=1e-10)


def test_blocks_of_wide_rows() -> None:
    """A mask that hides nothing is no mask; one that does is heeded where rows are few."""
    dask = pytest.importorskip("dask.array", reason="an extra")
    wide = datasets.simulate(40, 60, 2, random_state=3).X
    nan = np.where(np.arange(60) == np.arange(40)[:, None], np.nan, wide)
    coded = dask.from_array(np.nan_to_num(nan, nan=CODE), chunks=(10, 20))
    found = CuspFactorAnalysis(n_factors=2).fit(dask.ma.masked_values(coded, CODE))
    plain = CuspFactorAnalysis(n_factors=2).fit(nan)
    assert_allclose(found.get_covariance(), plain.get_covariance(), rtol=1e-8)


def test_streams_and_iterators(nan: Any, known: CuspFactorAnalysis, tmp_path: Path) -> None:
    array = np.ma.masked_invalid(nan)
    for data in (array, masked(nan, "dask")):
        found = CuspFactorAnalysis().fit(RowStream(data, batch_rows=30))
        assert_allclose(found.get_covariance(), known.get_covariance(), rtol=1e-10)
    batches = iter([array[:90], list(array[90:])])
    assert predict_to_file(known, "transform", batches, tmp_path / "scores.parquet") == 200
    scores = pd.read_parquet(tmp_path / "scores.parquet").to_numpy()
    assert_allclose(scores, known.transform(nan), rtol=1e-10)
