"""Rows that are not in memory: one pass, maps, what is refused and what is said."""

import gzip
import os
import signal
import sys
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from cuspfa import CuspFactorAnalysis, Moments, RowStream, datasets, predict_to_file
from cuspfa.data.out_of_core import mapped, memory, readers
from cuspfa.data.out_of_core import stream as stream_module
from cuspfa.data.out_of_core.stream import ReadingProgress
from cuspfa.data.sums import Sums
from cuspfa.errors import DataError, FileError, InputError
from support import run_python

NAMES = [f"item {j}" for j in range(8)]


@pytest.fixture(scope="module")
def rows():
    return datasets.simulate(1200, 8, 2, random_state=0).X * 3 + 40


@pytest.fixture(scope="module")
def fitted(rows):
    return CuspFactorAnalysis(n_factors=2).fit(rows)


def table_of(rows, names=NAMES):
    return pa.table({name: rows[:, j] for j, name in enumerate(names)})


def write(kind, rows, path, names=NAMES):
    """Files by their own libraries, not by ours."""
    table = table_of(rows, names)
    if kind == ".parquet":
        pa.parquet.write_table(table, path, row_group_size=170)
    elif kind == ".feather":
        pa.feather.write_feather(table, path, chunksize=90)
    elif kind == ".csv":
        pa.csv.write_csv(table, path)
    elif kind == ".tsv":
        pd.DataFrame(rows, columns=names).to_csv(path, sep="\t", index=False)
    elif kind == ".csv.gz":
        text = pd.DataFrame(rows, columns=names).to_csv(sep=";", index=False)
        path.write_bytes(gzip.compress(text.encode()))
    elif kind == ".npy":
        np.save(path, rows)
    elif kind == ".zarr":
        zarr = pytest.importorskip("zarr", reason="zarr comes with anndata, an extra")
        zarr.create_array(str(path), data=rows, chunks=(100, 8))
    elif kind == ".h5ad":
        anndata = pytest.importorskip("anndata", reason="an extra")
        frame = pd.DataFrame(index=names)
        anndata.AnnData(rows, var=frame).write_h5ad(path)
    return path


KINDS = [".parquet", ".feather", ".csv", ".tsv", ".csv.gz", ".npy", ".zarr", ".h5ad"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_gives_the_fit_of_its_rows(kind, rows, fitted, tmp_path):
    path = write(kind, rows, tmp_path / f"rows{kind}")
    stream = RowStream(path, batch_rows=113)
    assert stream.n_columns == 8
    model = CuspFactorAnalysis(n_factors=2).fit(stream)
    assert model.n_factors_ == fitted.n_factors_ == 2
    assert_allclose(model.get_covariance(), fitted.get_covariance(), rtol=1e-8)
    assert_allclose(model.mean_, rows.mean(axis=0), rtol=1e-12)
    has_names = kind not in (".npy", ".zarr")
    assert hasattr(model, "feature_names_in_") == has_names
    if has_names:
        assert model.feature_names_in_.tolist() == NAMES
    assert_allclose(
        CuspFactorAnalysis(n_factors=2).fit(str(path)).loadings_, fitted.loadings_, atol=1e-8
    )


def test_a_folder_a_list_and_an_iterator(rows, fitted, tmp_path):
    folder = tmp_path / "rows"
    (folder / "year=2020").mkdir(parents=True)
    write(".parquet", rows[:500], folder / "b.parquet")
    turned = list(reversed(NAMES))  # the same columns in another order
    write(".parquet", rows[500:, ::-1], folder / "year=2020" / "a.parquet", turned)
    (folder / "_SUCCESS").write_text("")
    (folder / ".hidden.parquet").write_text("")
    files = [folder / "b.parquet", folder / "year=2020" / "a.parquet"]

    def given_batches():
        yield table_of(rows[:7])
        yield pd.DataFrame(rows[7:7], columns=NAMES)
        yield pd.DataFrame(rows[7:900], columns=NAMES)
        yield table_of(rows[900:])

    for data in (folder, files, given_batches()):
        model = CuspFactorAnalysis(n_factors=2).fit(data)
        assert model.feature_names_in_.tolist() == NAMES
        assert_allclose(model.get_covariance(), fitted.get_covariance(), rtol=1e-8)
    thin = (sparse.csr_matrix(rows[i : i + 100]) for i in range(0, 1200, 100))
    assert_allclose(Moments.from_stream(thin).covariance, np.cov(rows.T), rtol=1e-9)
    assert RowStream(folder).n_rows == 1200


def test_some_columns(rows, tmp_path):
    for kind in (".parquet", ".csv", ".npy"):
        path = write(kind, rows, tmp_path / f"rows{kind}")
        chosen = [5, 1, 2, 7] if kind == ".npy" else [NAMES[j] for j in (5, 1, 2, 7)]
        moments = Moments.from_stream(RowStream(path, columns=chosen))
        assert_allclose(moments.covariance, np.cov(rows[:, [5, 1, 2, 7]].T), rtol=1e-9)
    with pytest.raises(InputError, match="rows.parquet: columns: there is no column 'none'"):
        RowStream(tmp_path / "rows.parquet", columns=["none"])


# --- numbers -----------------------------------------------------------------------------------


def test_one_pass_keeps_its_digits_far_from_zero(tmp_path):
    """Mean/sd = 1e8, and the mean moves from block to block."""
    noise = np.random.default_rng(4).normal(size=(20_000, 3))
    far = noise + 1e8 + np.linspace(0, 50, 20_000)[:, None]
    exact = np.cov((far - far[0]).T)
    np.save(tmp_path / "far.npy", far)
    moments = Moments.from_stream(RowStream(tmp_path / "far.npy", batch_rows=300))
    assert_allclose(moments.covariance, exact, rtol=1e-7)
    naive = (far.T @ far - len(far) * np.outer(far.mean(0), far.mean(0))) / (len(far) - 1)
    assert not np.allclose(naive, exact, rtol=1e-2)


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(0, 60), max_size=6), shift=st.floats(-1e6, 1e6), data=st.data())
def test_sums_do_not_depend_on_the_blocks(cuts, shift, data):
    seed = data.draw(st.integers(0, 1000))
    rows = np.random.default_rng(seed).normal(size=(60, 4)) + shift
    order = data.draw(st.sampled_from(["C", "F"]))
    parts = [Sums(4), Sums(4)]
    for number, (first, last) in enumerate(
        zip([0, *sorted(cuts)], [*sorted(cuts), 60], strict=True)
    ):
        parts[number % 2].add(np.array(rows[first:last], order=order))
    both = parts[0].merge(parts[1])
    centred = rows - rows.mean(axis=0)
    assert both.n == 60
    assert_allclose(both.mean, rows.mean(axis=0), rtol=1e-12, atol=1e-9)
    assert_allclose(both.cross, centred.T @ centred, rtol=1e-8, atol=1e-6)


def test_single_precision_is_multiplied_as_such_and_summed_in_double(rows, tmp_path):
    path = write(".npy", rows, tmp_path / "rows.npy")
    single = Moments.from_stream(RowStream(path, dtype="float32", batch_rows=50))
    double = Moments.from_stream(RowStream(path, batch_rows=50))
    assert_allclose(single.covariance, double.covariance, rtol=1e-4)
    assert np.abs(single.covariance - double.covariance).max() > 1e-9  # it was single
    far = Moments.from_stream(
        iter([np.asarray(rows[:600] + 1e4, np.float32), np.asarray(rows[600:] + 1e4, np.float32)])
    )
    exact = np.cov((rows + 1e4).astype(np.float32).astype(float).T)
    assert_allclose(far.covariance, exact, rtol=1e-9)


def test_columns_that_hardly_vary_are_warned_of(rows, tmp_path):
    rare = rows.copy()
    rare[:, 3] = 2.0
    rare[[17, 900], 3] = 5.0
    rare[:, 5] = np.where(np.arange(1200) < 300, 1.0, rows[:, 5])  # in the first block alone
    path = write(".parquet", rare, tmp_path / "rows.parquet")
    with pytest.warns(UserWarning, match="^column 'item 3' .index 3. is nearly constant: at most"):
        CuspFactorAnalysis(n_factors=2).fit(RowStream(path, batch_rows=100))


def test_an_anndata_object_backed_by_a_file(rows, fitted, tmp_path):
    anndata = pytest.importorskip("anndata", reason="an extra")
    path = tmp_path / "sparse.h5ad"
    names = pd.DataFrame(index=NAMES)
    anndata.AnnData(sparse.csr_matrix(rows), var=names).write_h5ad(path)
    opened = anndata.read_h5ad(path, backed="r")
    model = CuspFactorAnalysis(n_factors=2).fit(opened)
    assert model.feature_names_in_.tolist() == NAMES
    assert_allclose(model.get_covariance(), fitted.get_covariance(), rtol=1e-8)
    opened.file.close()


# --- wide --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide():
    return datasets.simulate(40, 450, 2, random_state=3).X + np.linspace(0, 30, 450)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["float64", "float32", "far"])
def test_wide_rows_stay_in_their_file(order, kind, wide, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_module, "LARGEST_COPY_SHARE", 0.0)
    monkeypatch.setattr(mapped, "MAPPED_BLOCK_SIZE", 3001)
    given_rows = wide + 1e5 if kind == "far" else wide.astype(kind)
    np.save(tmp_path / "wide.npy", np.asarray(given_rows, order=order))
    stream = RowStream(tmp_path / "wide.npy")
    assert stream.plan().how == "map"
    assert "left in the file" in str(stream.plan())
    model = CuspFactorAnalysis(random_state=0).fit(stream)
    reference = CuspFactorAnalysis(random_state=0).fit(np.asarray(given_rows))
    assert model.n_factors_ == reference.n_factors_ == 2
    assert_allclose(model.get_covariance(), reference.get_covariance(), rtol=1e-8, atol=1e-8)
    assert model.lower_bound_ == pytest.approx(reference.lower_bound_, rel=1e-9)


def test_products_of_a_map_are_those_of_the_centred_matrix(wide, monkeypatch):
    monkeypatch.setattr(mapped, "MAPPED_BLOCK_SIZE", 3001)
    scale, w = wide.std(axis=0), np.random.default_rng(0).normal(size=(450, 3))
    y = (wide - wide.mean(axis=0)) / scale
    for thing in (wide, np.asfortranarray(wide)):
        for far in (mapped.LARGEST_MEAN_TO_SD, 0.0):
            monkeypatch.setattr(mapped, "LARGEST_MEAN_TO_SD", far)
            matrix = mapped.MappedMatrix(
                thing, wide.mean(axis=0), scale, np.sum(y**2, axis=0), float(len(y))
            )
            cross, inner = matrix.products(w)
            assert_allclose(cross, y.T @ (y @ w), rtol=1e-9, atol=1e-9)
            assert_allclose(inner, (y @ w).T @ (y @ w), rtol=1e-9, atol=1e-9)


def test_wide_rows_of_other_files_are_held(wide, tmp_path):
    reference = CuspFactorAnalysis(n_factors=2, random_state=0).fit(wide)
    names = [f"g{j}" for j in range(450)]
    write(".parquet", wide, tmp_path / "wide.parquet", names)
    write(".csv", wide, tmp_path / "wide.csv", names)
    for data in (
        tmp_path / "wide.parquet",
        tmp_path / "wide.csv",
        (wide[i : i + 7] for i in range(0, 40, 7)),
    ):
        model = CuspFactorAnalysis(n_factors=2, random_state=0).fit(data)
        assert_allclose(model.get_covariance(), reference.get_covariance(), rtol=1e-8, atol=1e-8)


def test_a_large_memory_map_is_read_by_blocks_and_a_small_one_is_not(rows, tmp_path, monkeypatch):
    path = write(".npy", rows, tmp_path / "rows.npy")
    opened = np.load(path, mmap_mode="r")
    assert not readers.is_out_of_core(opened)
    monkeypatch.setattr(readers, "SMALLEST_STREAMED_MAP", 1000)
    assert readers.is_out_of_core(opened)
    assert CuspFactorAnalysis(n_factors=2).fit(opened).n_factors_ == 2


# --- memory and progress -----------------------------------------------------------------------


def test_what_it_takes_is_said_and_refused_before_a_row_is_read(tmp_path):
    np.lib.format.open_memmap(tmp_path / "tall.npy", "w+", float, (9_000, 8_000)).flush()
    told: list[ReadingProgress] = []
    stream = RowStream(tmp_path / "tall.npy", memory_limit="1GB", progress=told.append)
    assert "9,000 rows, 8,000 columns, summed up in one pass" in str(stream.plan())
    assert stream.plan().memory > 4 * 8 * 8_000**2
    with pytest.raises(MemoryError, match="8,000 columns.*needs about 2.* GB.*and 1 GB may be"):
        CuspFactorAnalysis().fit(stream)
    assert told == []
    many = (np.zeros((10, 30_000)) for _ in range(10))
    with pytest.raises(InputError, match="more columns than rows so far.*npy"):
        CuspFactorAnalysis().fit(RowStream(many, memory_limit="10MB"))
    wide = np.lib.format.open_memmap(tmp_path / "wide.npy", "w+", float, (50, 500_000))
    plan = RowStream(wide, memory_limit="300MB").plan()
    assert plan.how == "map"
    with pytest.raises(MemoryError, match="left in the file"):
        CuspFactorAnalysis().fit(RowStream(wide, memory_limit="300MB"))


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [("4GB", 4e9), ("1.5 gib", 1.5 * 2**30), ("20 MB", 2e7), (1000, 1000), ("7k", 7000), ("9", 9)],
)
def test_sizes(given, bytes_):
    assert memory.allowed_bytes(given) == bytes_


@pytest.mark.parametrize("wrong", ["much", "", "-1GB", 0, -5, True, 1.5, "0GB"])
def test_sizes_that_are_none(wrong):
    with pytest.raises(InputError, match="memory_limit must be a number of bytes, or text"):
        memory.allowed_bytes(wrong)


def test_free_memory_is_that_of_the_container(tmp_path, monkeypatch):
    free = memory.free_bytes()
    assert free is None or 10**7 < free < 10**14
    monkeypatch.setattr(memory, "_container", lambda: 12345)
    assert memory.free_bytes() == 12345
    assert memory.allowed_bytes(None) == 9876
    assert memory.format_bytes(2.5e9) == "2.5 GB"


def test_progress(rows, tmp_path):
    told: list[ReadingProgress] = []
    path = write(".parquet", rows, tmp_path / "rows.parquet")
    Moments.from_stream(RowStream(path, batch_rows=500, progress=told.append))
    assert [one.rows for one in told] == [0, 500, 1000, 1200]
    assert told[-1].n_rows == 1200
    assert told[-1].rows_per_second > 0
    assert told[0].seconds_left is None
    assert told[-1].seconds_left == 0
    with pytest.raises(InputError, match="progress must be a function"):
        RowStream(path, progress=3)


def test_the_reading_thread_ends_with_the_caller(rows):
    def forever():
        while True:
            yield rows

    def stop(at):
        if at.rows > 5000:
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        Moments.from_stream(RowStream(forever(), progress=stop))
    assert threading.active_count() == before


def test_an_iterator_is_read_once(rows):
    stream = RowStream(iter([rows]))
    Moments.from_stream(stream)
    with pytest.raises(InputError, match="can be read once"):
        Moments.from_stream(stream)


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".npy", "iterator"])
def test_a_value_that_is_none_is_named(kind, rows, tmp_path):
    broken = rows.copy()
    broken[777, 3] = np.inf
    if kind == "iterator":
        data, where = (broken[i : i + 100] for i in range(0, 1200, 100)), "batch 7.*row 77"
    else:
        data, where = write(kind, broken, tmp_path / f"rows{kind}"), f"rows{kind}.*row 777"
    label = "column 3|'item 3' .index 3."
    with pytest.raises(DataError, match=where) as caught:
        CuspFactorAnalysis().fit(data if kind == "iterator" else RowStream(data, batch_rows=100))
    assert any(part in str(caught.value) for part in ("column 3", "'item 3' (index 3)")), label


def test_files_that_do_not_fit_together(rows, tmp_path):
    write(".parquet", rows, tmp_path / "a.parquet")
    write(".parquet", rows[:, :7], tmp_path / "b.parquet", NAMES[:7])
    with pytest.raises(
        DataError, match="b.parquet' has no column 'item 7', which .*a.parquet' has"
    ):
        RowStream(tmp_path)
    (tmp_path / "c.csv").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match="files of several kinds"):
        RowStream(tmp_path)
    np.save(tmp_path / "a.npy", rows)
    np.save(tmp_path / "b.npy", rows[:, :3])
    with pytest.raises(DataError, match="b.npy has 3 columns, and .*a.npy has 8"):
        RowStream([tmp_path / "a.npy", tmp_path / "b.npy"])


def _text(path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "name": ["x", "y"]})
    frame.to_parquet(path)


def _cut(kind):
    def make(path):
        write(kind, np.random.default_rng(0).normal(size=(3000, 8)), path)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) * 2 // 3])

    return make


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("t.parquet", _text, 't.parquet has 1 column.*Dropped: name: text, such as "x" in row 1'),
        (
            "t.csv",
            lambda path: path.write_text("a,b\n1,x\n2,y\n"),
            'b: text, such as "x" in row 1 below the header',
        ),
        ("e.parquet", lambda path: path.write_bytes(b""), "e.parquet' is empty"),
        ("c.parquet", _cut(".parquet"), "c.parquet' cannot be read, or is damaged"),
        ("c.feather", _cut(".feather"), "c.feather' cannot be read, or is damaged"),
        ("c.npy", _cut(".npy"), "c.npy' cannot be read, or is cut off"),
        ("c.csv.gz", _cut(".csv.gz"), "c.csv.gz' cannot be read, or is damaged"),
        (
            "short.csv",
            lambda path: path.write_text("a,b\n" + "1,2\n" * 50 + "3"),
            r"short.csv: row 51 below the header has 1 cell where 2 are expected",
        ),
        (
            "late.csv",
            lambda path: path.write_text("a,b\n" + "1,2\n" * 2_000_000 + "1,x\n"),
            'b: correct, .* that are not numbers, such as "x" in row 2000001 below the header',
        ),
        ("d.csv", lambda path: path.write_text("a,a\n3,4\n"), r"d.csv has 1 row"),
        ("o.pdf", lambda path: path.write_bytes(b"%PDF"), "must end in one of .parquet"),
        ("p.npy", lambda path: np.save(path, np.array([{}, {}]), allow_pickle=True), "p.npy"),
        ("v.npy", lambda path: np.save(path, np.zeros(3)), "must be a table. Got 1 dimensions"),
        ("s.npy", lambda path: np.save(path, np.array([["a"]])), "not numeric"),
        ("k.npy", lambda path: np.save(path, np.ones((9, 3))), r"k.npy has 9 rows"),
        ("l.npy", lambda path: np.save(path, np.ones((19, 3))), "x1, x2, x3: constant, always 1"),
        ("one.npy", lambda path: np.save(path, np.ones((1, 1))), "1 column"),
    ],
)
def test_bad_files(name, make, message, tmp_path):
    make(tmp_path / name)
    with pytest.raises(InputError, match=message):
        CuspFactorAnalysis().fit(RowStream(tmp_path / name))


def test_bad_arguments(tmp_path):
    for call, message in (
        (lambda: RowStream(tmp_path / "none.csv"), "there is no file or folder"),
        (lambda: RowStream(tmp_path), "holds no file that ends in .parquet"),
        (lambda: RowStream(3), "data must be a path"),
        (lambda: RowStream([]), "data must be paths"),
        (lambda: RowStream(iter([])), "gave no batch"),
        (lambda: RowStream(iter([np.ones((3, 2))]), columns=[0]), "columns is for files"),
        (lambda: RowStream(iter([np.ones((3, 2))]), dtype="int"), "dtype must be one of"),
        (lambda: RowStream(iter([np.ones((3, 2))]), batch_rows=0), "batch_rows must be a whole"),
        (
            lambda: CuspFactorAnalysis().fit(iter([np.eye(3), np.ones((4, 2))])),
            "batch 1 has other columns than the first: 2 instead of 3",
        ),
        (lambda: CuspFactorAnalysis(n_factors=9).fit(iter([np.eye(3)])), "at most the 3 columns"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_frames_are_read_like_files(rows, fitted, tmp_path):
    frame = pd.DataFrame(rows, columns=NAMES)
    for table in (frame, pa.Table.from_pandas(frame)):
        model = CuspFactorAnalysis(n_factors=2).fit(RowStream(table))
        assert_allclose(model.get_covariance(), fitted.get_covariance(), rtol=1e-8)
        assert predict_to_file(model, "transform", table, tmp_path / "scores.tsv") == len(rows)
        found = pd.read_csv(tmp_path / "scores.tsv", sep="\t").to_numpy()
        assert_allclose(found, model.transform(table), rtol=1e-9, atol=1e-12)
    assert Moments.from_stream(frame).names == NAMES
    assert RowStream(frame, columns=NAMES[:3]).n_columns == 3


def test_what_is_read_is_not_written_over(rows, fitted, tmp_path):
    source = tmp_path / "rows.npy"
    np.save(source, rows)
    (tmp_path / "parts").mkdir()
    frame = pd.DataFrame(rows, columns=NAMES)
    frame.to_csv(tmp_path / "parts" / "a.csv", index=False)
    before = (tmp_path / "parts" / "a.csv").read_bytes()
    model = CuspFactorAnalysis(n_factors=2).fit(frame)
    for data in (tmp_path / "parts", RowStream(tmp_path / "parts"), [tmp_path / "parts" / "a.csv"]):
        with pytest.raises(InputError, match="would"):
            predict_to_file(model, "transform", data, tmp_path / "parts" / "a.csv")
    with pytest.raises(InputError, match="would be one of the files"):
        predict_to_file(
            model, "transform", RowStream(tmp_path / "parts"), tmp_path / "parts" / "new.csv"
        )
    assert (tmp_path / "parts" / "a.csv").read_bytes() == before
    assert os.listdir(tmp_path / "parts") == ["a.csv"]


# --- moments as files --------------------------------------------------------------------------


def test_sites_exchange_moments(rows, fitted, tmp_path):
    for site, part in (("north", rows[:300]), ("south", rows[300:])):
        Moments.from_rows(part, names=NAMES).save(tmp_path / site)
    north, south = Moments.load(tmp_path / "north"), Moments.load(str(tmp_path / "south"))
    assert (north.n, north.names) == (300, NAMES)
    assert_allclose(south.covariance, np.cov(rows[300:].T), rtol=1e-12)
    model = CuspFactorAnalysis(n_factors=2).fit_moments(north + south)
    assert_allclose(model.get_covariance(), fitted.get_covariance(), rtol=1e-8)


def test_moments_add_up_by_name(rows):
    order = np.random.default_rng(0).permutation(len(NAMES))
    names = [NAMES[j] for j in order]
    parts = [rows[:200], rows[200:300], rows[300:]]
    moments = [Moments.from_rows(part, names=NAMES) for part in parts]
    mixed = [moments[0], Moments.from_rows(parts[1][:, order], names=names), moments[2]]
    for found in (sum(moments), sum(mixed), mixed[0] + mixed[1] + mixed[2]):
        assert (found.n, found.names) == (len(rows), NAMES)
        assert_allclose(found.mean, rows.mean(axis=0), rtol=1e-12)
        assert_allclose(found.covariance, np.cov(rows.T), rtol=1e-12, atol=1e-14)
    assert (mixed[1] + mixed[0]).names == names
    other = Moments.from_rows(rows, names=["new", *NAMES[1:]])
    bare, fewer = Moments.from_rows(rows), Moments.from_rows(rows[:, 1:])
    for first, second, message in (
        (moments[0], other, rf"the first alone has \['{NAMES[0]}'\], the second .* \['new'\]"),
        (moments[0], bare, f"{len(NAMES)} with names and {len(NAMES)} without names"),
        (bare, fewer, f"{len(NAMES)} without names and {len(NAMES) - 1} without names"),
    ):
        with pytest.raises(DataError, match=f"different columns cannot be added: {message}"):
            first + second
    with pytest.raises(TypeError):
        1 + bare
    with pytest.raises(TypeError):
        False + bare


def test_moments_of_few_rows_are_saved_with_a_warning(tmp_path):
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="moments of 9 rows and 3 columns may reveal single rows"):
        Moments.from_rows(rng.normal(size=(9, 3))).save(tmp_path / "few")
    with pytest.warns(UserWarning, match="no more numbers than the moments"):
        Moments.from_rows(rng.normal(size=(50, 98))).save(tmp_path / "wide")
    Moments.from_rows(rng.normal(size=(51, 98))).save(tmp_path / "enough")
    assert Moments.load(tmp_path / "few").n == 9


def test_bad_files_of_moments(rows, fitted, tmp_path):
    path = tmp_path / "site"
    Moments.from_rows(rows).save(path)
    saved = path.read_bytes()
    fitted.posterior_.save(tmp_path / "fit")
    cases = {
        saved[:-5]: "is damaged",
        saved[: len(saved) // 2]: "is damaged: it was cut off",
        saved.replace(b'"version": 1', b'"version": 2'): "checksum",
        saved[:400] + bytes([saved[400] ^ 1]) + saved[401:]: "is damaged",
        b"PAR1" + bytes(40): "is not moments saved by cuspfa: it is a Parquet file",
        (tmp_path / "fit").read_bytes(): "it is a saved fit, which cuspfa.load reads",
    }
    for content, message in cases.items():
        path.write_bytes(content)
        with pytest.raises(FileError, match=message):
            Moments.load(path)
    with pytest.raises(InputError, match="path must be a file. Got the directory"):
        Moments.load(tmp_path)
    with pytest.raises(InputError, match="path must be a text"):
        Moments.load(3)


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of file size")
def test_a_disk_that_fills_leaves_nothing(tmp_path):
    """The limit of file sizes stands for a full disk: writing fails in the middle."""
    code = (
        "import resource, signal, sys, numpy as np\n"
        "from cuspfa import Moments\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "moments = Moments.from_rows(np.random.default_rng(0).normal(size=(200, 90)))\n"
        "try:\n    moments.save(sys.argv[1])\n"
        "except OSError as error:\n    print('refused', error.errno)\n"
    )
    path = tmp_path / "site"
    path.write_text("old")
    done = run_python("-c", code, str(path), check=True)
    assert done.stdout.startswith("refused")
    assert os.listdir(tmp_path) == ["site"]
    assert path.read_text() == "old"


# --- missing values
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".npy"])
def test_missing_values_go_to_the_engine_for_them_if_they_fit(kind, rows, tmp_path):
    broken = rows[:300].copy()
    broken[np.random.default_rng(1).random(broken.shape) < 0.03] = np.nan
    broken[:100] = rows[:100]
    path = write(kind, broken, tmp_path / f"rows{kind}")
    model = CuspFactorAnalysis(n_factors=2).fit(RowStream(path, batch_rows=50))
    reference = CuspFactorAnalysis(n_factors=2).fit(broken)
    assert_allclose(model.get_covariance(), reference.get_covariance(), rtol=1e-8)
    row, column = np.argwhere(np.isnan(broken))[0]
    with pytest.raises(
        DataError, match=f"rows{kind}: .*{column}.* NaN in row {row},.*may be taken"
    ):
        CuspFactorAnalysis().fit(RowStream(path, batch_rows=5, memory_limit="20kB"))
    batches_of = (broken[i : i + 100] for i in range(0, 300, 100))
    with pytest.raises(DataError, match="batch 1: .*an iterator can be read once"):
        CuspFactorAnalysis().fit(batches_of)


# --- what is written as it is made -------------------------------------------------------------


@pytest.fixture(scope="module")
def named(rows):
    return CuspFactorAnalysis(n_factors=2).fit(pd.DataFrame(rows, columns=NAMES))


@pytest.mark.parametrize("what", ["transform", "score_samples", "impute"])
@pytest.mark.parametrize("kind", [".parquet", ".csv", ".npy"])
def test_rows_are_written_block_by_block(what, kind, rows, named, fitted, tmp_path):
    broken = rows.copy()
    broken[5, 2] = broken[1100, 7] = np.nan
    model = fitted if kind == ".npy" else named
    if kind == ".npy":
        data = RowStream(write(kind, broken, tmp_path / "rows.npy"), batch_rows=111)
    else:  # with a column of text, and in another order
        frame = pd.DataFrame(broken[:, ::-1], columns=NAMES[::-1])
        frame.insert(2, "name", "x")
        data = tmp_path / f"rows{kind}"
        frame.to_csv(data, index=False) if kind == ".csv" else frame.to_parquet(data)
    done = predict_to_file(model, what, data, tmp_path / "out.parquet")
    assert done == 1200
    found = pd.read_parquet(tmp_path / "out.parquet")
    expected = np.asarray(getattr(fitted, what)(broken)).reshape(1200, -1)
    assert_allclose(found.to_numpy(), expected, rtol=1e-9, atol=1e-12)
    columns = {
        "transform": ["factor1", "factor2"],
        "score_samples": ["log_density"],
        "impute": [f"x{j}" for j in range(1, 9)] if kind == ".npy" else NAMES,
    }
    assert found.columns.tolist() == columns[what]
    predict_to_file(model, what, data, str(tmp_path / "out.csv"))
    assert_allclose(pd.read_csv(tmp_path / "out.csv").to_numpy(), expected, rtol=1e-9, atol=1e-9)


def test_what_cannot_be_written_leaves_nothing(rows, named, fitted, tmp_path):
    good = write(".parquet", rows, tmp_path / "rows.parquet")
    broken = rows.copy()
    broken[1000, 1] = np.inf
    bad = write(".npy", broken, tmp_path / "bad.npy")
    (tmp_path / "out.csv").write_text("old")
    few = write(".parquet", rows[:, :3], tmp_path / "few.parquet", NAMES[:3])
    before, out = sorted(os.listdir(tmp_path)), tmp_path / "out.csv"
    for call, message in (
        (
            lambda: predict_to_file(fitted, "transform", RowStream(bad, batch_rows=99), out),
            "row 1000",
        ),
        (
            lambda: predict_to_file(named, "transform", few, out),
            "few.parquet: columns: there is no column 'item 3'",
        ),
        (lambda: predict_to_file(named, "transform", good, good), "is the input and would be lost"),
        (lambda: predict_to_file(named, "predict", good, out), "what must be one of"),
        (lambda: predict_to_file(named, "impute", good, tmp_path / "a.xlsx"), "ends in .parquet"),
        (lambda: predict_to_file(named, "impute", good, 3), "path must be a text"),
        (lambda: predict_to_file(3, "impute", good, out), "model must be"),
    ):
        with pytest.raises(InputError, match=message):
            call()
        assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "out.csv").read_text() == "old"


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of file size")
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_disk_that_fills_while_rows_are_written(suffix, rows, fitted, tmp_path):
    resource = pytest.importorskip("resource", reason="not on Windows")
    path = write(".npy", rows, tmp_path / "rows.npy")
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, old[1]))
    try:
        with pytest.raises(OSError, match="large|File"):
            predict_to_file(
                fitted, "impute", RowStream(path, batch_rows=50), tmp_path / f"out{suffix}"
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    assert os.listdir(tmp_path) == ["rows.npy"]
