"""Dask collections: the same fit, on the local scheduler and on a cluster that loses a worker."""

import os
import signal
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from cuspfa import CuspFactorAnalysis, Variational, datasets
from cuspfa.data.out_of_core import dask_, load
from cuspfa.errors import DataError
from support import matrix_of

pytest.importorskip("dask.array", reason="an extra")
pytest.importorskip("dask.distributed", reason="an extra")
import dask
import dask.array
import dask.dataframe
from dask.distributed import Client, LocalCluster

NAMES = [f"item {j}" for j in range(8)]


@pytest.fixture(scope="module")
def tall():
    return datasets.simulate(1500, 8, 2, random_state=0).X * 3 + 40


@pytest.fixture(scope="module")
def wide():
    return datasets.simulate(40, 450, 2, random_state=3).X + 5


def same(model, reference):
    assert model.n_factors_ == reference.n_factors_ == 2
    close: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-8}
    assert_allclose(model.get_covariance(), reference.get_covariance(), **close)
    assert_allclose(model.mean_, reference.mean_, rtol=1e-10)
    assert model.lower_bound_ == pytest.approx(reference.lower_bound_, rel=1e-8)


def make(callback=None):
    """Stopped early: an iteration on a cluster takes tens of milliseconds however small Y is."""
    method = Variational(tol=1.0, callback=callback)
    return CuspFactorAnalysis(n_factors=2, random_state=0, method=method)


@pytest.mark.parametrize("chunks", [(100, 8), (37, 3), (1500, 1), (1, 8)], ids=str)
@pytest.mark.parametrize("small", [dask_.SMALL_CHUNK_BYTES, 0], ids=["joined", "tree"])
def test_any_chunks_of_tall_arrays_without_a_cluster(small, chunks, tall, monkeypatch):
    monkeypatch.setattr(dask_, "SMALL_CHUNK_BYTES", small)
    if chunks == (1, 8):
        tall = tall[:60]
    same(make().fit(dask.array.from_array(tall, chunks=chunks)), make().fit(tall))


def test_data_frames(tall):
    frame = pd.DataFrame(tall, columns=NAMES).astype({"item 3": "Float64"})
    rows = dask.dataframe.from_pandas(frame, npartitions=7)
    model = make().fit(rows)
    assert model.feature_names_in_.tolist() == NAMES
    same(model, make().fit(tall))
    frame["name"] = "x"
    with pytest.raises(DataError, match="column 'name' has type .*not numeric"):
        make().fit(dask.dataframe.from_pandas(frame, npartitions=2))


def test_wide_arrays_without_a_cluster(wide, monkeypatch):
    reference = make().fit(wide)
    rows = dask.array.from_array(wide, chunks=(17, 100))
    same(make().fit(rows), reference)
    view = dask_.DaskRows(rows)
    view.allowed = 16 * wide.size - 1  # no room for a copy: read in every iteration
    loaded = load.load_data(view)
    prepared = load.prepare_loaded(loaded, scaling="columns", flat_mean=True)
    w = np.random.default_rng(0).normal(size=(450, 3))
    y = (wide - wide.mean(axis=0)) / wide.std(axis=0, ddof=1)
    assert_allclose(matrix_of(prepared.source).products(w)[0], y.T @ (y @ w), atol=1e-8)


def test_missing_values_and_bad_collections(tall):
    broken = tall[:200].copy()
    broken[77, 3] = np.nan
    rows = dask.array.from_array(broken, chunks=(50, 8))
    assert_allclose(make().fit(rows).mean_, make().fit(broken).mean_)
    view = dask_.DaskRows(rows)
    view.allowed = 10_000
    with pytest.raises(DataError, match="X: column 3 has NaN in row 77.*all rows in memory"):
        load.load_data(view)
    broken[77, 3] = np.inf
    with pytest.raises(DataError, match="X: column 3 has infinity in row 77"):
        make().fit(dask.array.from_array(broken, chunks=(50, 8)))
    for wrong, message in (
        (dask.array.zeros(5), "of two dimensions"),
        (dask.array.from_array(np.array([["a", "b"]])), "not numeric"),
        (dask.array.ones((20, 3), chunks=5), "column 0 .*constant"),
        (dask.array.ones((3, 20), chunks=5), "column 0.*constant"),
    ):
        with pytest.raises(DataError, match=message):
            make().fit(wrong)


# --- a real cluster ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ports, sockets and forks: none is ours
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            Client(cluster) as found,
        ):
            yield found


class Spy:
    """Names of the tasks that workers ran."""

    def __init__(self, client):
        self.client = client

    def names(self):
        done = self.client.run_on_scheduler(
            lambda dask_scheduler: list(dask_scheduler.task_prefixes)
        )
        return {name for name in done if name.startswith("cuspfa")}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_same_fits_by_named_tasks(client, tall, wide, monkeypatch):
    monkeypatch.setattr(dask_, "SMALL_CHUNK_BYTES", 0)
    same(make().fit(dask.array.from_array(tall, chunks=(100, 5))), make().fit(tall))
    rows = dask.array.from_array(wide, chunks=(17, 100))
    same(make().fit(rows), make().fit(wide))
    view = dask_.DaskRows(rows)
    loaded = load.load_data(view)
    prepared = load.prepare_loaded(loaded, scaling="columns", flat_mean=True)
    matrix = matrix_of(prepared.source)
    assert isinstance(matrix, dask_.DistributedColumns)
    assert len(matrix.blocks) == 8
    tasks = ("sums", "merge", "columns", "standardised", "scores", "add", "cross")
    assert Spy(client).names() >= {f"cuspfa-{one}" for one in tasks}
    broken = wide.copy()
    broken[3, 100] = np.inf
    with pytest.raises(
        DataError, match="X, of the columns from 57 on: column 43 has infinity in row 3"
    ):
        make().fit(dask.array.from_array(broken, chunks=(40, 100)))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_a_worker_killed_in_the_middle_of_a_fit_is_survived(client, shape, tall, wide, tmp_path):
    """The blocks it held are made anew, and the fit is that of the rows."""
    killed: list[int] = []

    def kill(*_):
        if not killed:
            process = next(iter(client.run(os.getpid).values()))
            killed.append(process)
            os.kill(process, signal.SIGKILL)

    if shape == "wide":
        rows = dask.array.from_array(wide, chunks=(40, 50))
        model = make(lambda at: kill() if at.iteration == 3 else None)
        same(model.fit(rows), make().fit(wide))
        assert killed[0] not in client.run(os.getpid).values()
    else:
        marker = str(tmp_path / "killed")

        def die_once(block):
            if not os.path.exists(marker):
                open(marker, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return block

        rows = dask.array.from_array(tall, chunks=(300, 8)).map_blocks(
            die_once, dtype=float, meta=np.zeros((0, 0))
        )
        same(make().fit(rows), make().fit(tall))
        killed.append(os.path.exists(marker))
    assert killed
