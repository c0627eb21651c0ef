"""Beyond memory: one pass over Parquet, wide rows from a memory map, a local Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import row, save
from cuspfa import CuspFactorAnalysis, Moments, RowStream, Variational
from cuspfa.data.out_of_core.dask_ import DaskRows
from cuspfa.data.out_of_core.load import load_data, prepare_loaded

ROWS, COLUMNS, FACTORS = int(os.environ.get("CUSPFA_LARGE_ROWS", 10**7)), 200, 5
WIDE_ROWS, WIDE_COLUMNS = 500, 200_000
FILES = 10
CLUSTER_ROWS = 1_000_000


def large() -> list[dict[str, Any]]:
    began = time.perf_counter()
    rows: list[dict[str, Any]] = []
    details: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in (tall, wide, cluster):
            lines, detail = part(folder)
            rows += lines
            details.append(detail)
    return save(
        "large",
        "Data larger than memory",
        rows,
        notes=[
            "The pass has two threads, one that reads and one that multiplies. With two free "
            "cores it takes the longer of the two times. The requirement is on wall-clock time, "
            "which includes other work on the two cores and the disk. The cluster's seconds are "
            "wall-clock time too.",
            "Each number is from a separate process with one BLAS thread. Anonymous memory is "
            "the largest RssAnon, measured every 20 ms, minus its value with the library "
            "loaded.",
        ],
        began=began,
        details=details,
    )


# --- tall --------------------------------------------------------------------------------------


def tall(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    place = folder / "tall"
    place.mkdir()
    _alone(_write_tall, place, ROWS)
    raw = _alone(_raw_read, place)
    before = _alone(_in_memory)
    found = _alone(_pass, place)
    after = _alone(_in_memory)
    alone = ROWS * (before["processor"] + after["processor"]) / 2
    clock = ROWS * (before["clock"] + after["clock"]) / 2
    longer = max(found["multiplying"], found["reading"])
    share = alone / longer
    for file in place.iterdir():
        file.unlink()
    shape = f"n = {ROWS:.0e}, p = {COLUMNS}".replace("e+0", "e")
    lines = [
        row(
            f"{shape}, one pass over uncompressed Parquet, two threads",
            f"multiplying {found['multiplying']:.1f} s, reading {found['reading']:.1f} s of a "
            f"processor: {100 * share:.0f} % of the speed in memory",
            f"YᵀY of as many rows by blocks in memory: {alone:.1f} s",
        ),
        row(
            "the same by a clock, beside other work",
            f"{found['rows_per_second']:,.0f} rows/s, {found['clock']:.0f} s: "
            f"{100 * clock / found['clock']:.0f} %",
            f"in memory {clock:.0f} s; the disk alone gives {raw / 1e6:,.0f} MB/s, the pass took "
            f"{8 * COLUMNS * found['rows_per_second'] / 1e6:,.0f} MB/s",
            "≥ 50 %",
            clock / found["clock"] >= 0.5,
        ),
        row(
            "anonymous memory of that pass and the fit",
            f"{found['anonymous'] / 1e6:.0f} MB",
            f"files {8 * ROWS * COLUMNS / 1e9:.1f} GB",
            "< 1 GB",
            found["anonymous"] < 1e9,
        ),
        row(
            "number of factors",
            str(found["n_factors"]),
            f"simulated: {FACTORS}; search after the pass: {found['fit_seconds']:.1f} s",
            f"{FACTORS}",
            found["n_factors"] == FACTORS,
        ),
    ]
    return lines, {"before": before, "after": after, "disk": raw, **found}


def _write_tall(place: Path, n: int) -> None:
    import pyarrow
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(FACTORS, COLUMNS))
    names = [f"x{j}" for j in range(COLUMNS)]
    schema = pyarrow.schema([(name, "float64") for name in names])
    for number in range(FILES):
        path = place / f"part-{number}.parquet"
        with pyarrow.parquet.ParquetWriter(
            path, schema, compression="none", use_dictionary=False
        ) as file:
            left = n // FILES
            while left:
                size = min(left, 100_000)
                block = rng.standard_normal((COLUMNS, size))
                block += loadings.T @ rng.standard_normal((FACTORS, size))
                file.write_table(pyarrow.table(list(block), schema=schema))
                left -= size


def _in_memory() -> dict[str, float]:
    """Seconds a row of YᵀY, by blocks of the size that the stream uses."""
    size = (1 << 21) // COLUMNS
    blocks = np.random.default_rng(0).standard_normal((20, size, COLUMNS))
    total = np.zeros((COLUMNS, COLUMNS))
    times = []
    for _ in range(7):
        begin = time.process_time(), time.perf_counter()
        for block in blocks:
            total += block.T @ block
        times.append((time.process_time() - begin[0], time.perf_counter() - begin[1]))
    processor, clock = np.median(times, axis=0) / (len(blocks) * size)
    return {"processor": float(processor), "clock": float(clock)}


def _raw_read(place: Path) -> float:
    """Bytes a second of a file that is not in the page cache."""
    path = min(place.iterdir())
    with open(path, "rb", buffering=0) as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        room, size = bytearray(1 << 24), 0
        begin = time.perf_counter()
        while got := file.readinto(room):
            size += got
        return size / (time.perf_counter() - begin)


def _pass(place: Path) -> dict[str, Any]:
    CuspFactorAnalysis(n_factors=1).fit(np.random.default_rng(0).normal(size=(50, 4)))
    told: list[Any] = []
    with _anonymous() as peak:
        clock, both, ours = time.perf_counter(), time.process_time(), time.thread_time()
        moments = Moments.from_stream(RowStream(place, progress=told.append))
        ours = time.thread_time() - ours
        both, clock = time.process_time() - both, time.perf_counter() - clock
        begin = time.perf_counter()
        model = CuspFactorAnalysis(random_state=0).fit_moments(moments)
        seconds = time.perf_counter() - begin
    return {
        "n": moments.n,
        "rows_per_second": told[-1].rows_per_second,
        "clock": clock,
        "multiplying": ours,
        "reading": both - ours,
        "n_factors": model.n_factors_,
        "fit_seconds": seconds,
        "anonymous": peak[0],
    }


# --- wide --------------------------------------------------------------------------------------


def wide(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    path = folder / "wide.npy"
    _alone(_write_wide, path)
    found = _alone(_fit_wide, path)
    ratio = found["iteration"] / found["products"]
    lines = [
        row(
            f"n = {WIDE_ROWS}, p = {WIDE_COLUMNS:,} from a memory map, whole search",
            f"{found['anonymous'] / 1e9:.2f} GB anonymous",
            f"file 0.8 GB; {found['seconds']:.0f} s, K = {found['n_factors']}",
            "< 2 GB",
            found["anonymous"] < 2e9,
        ),
        row(
            f"an iteration with K = {FACTORS}",
            f"{1e3 * found['iteration']:.0f} ms: {ratio:.2f}×",
            f"YW and YᵀS of the map itself: {1e3 * found['products']:.0f} ms",
            "≤ 1.5×",
            ratio <= 1.5,
        ),
    ]
    return lines, found


def _write_wide(path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = np.lib.format.open_memmap(path, "w+", float, (WIDE_ROWS, WIDE_COLUMNS))
    loadings = rng.normal(size=(FACTORS, WIDE_COLUMNS))
    for first in range(0, WIDE_ROWS, 50):
        rows[first : first + 50] = rng.normal(size=(50, FACTORS)) @ loadings
        rows[first : first + 50] += rng.standard_normal((50, WIDE_COLUMNS)) + 3
    rows.flush()


def _fit_wide(path: Path) -> dict[str, Any]:
    stream = RowStream(path, memory_limit="2GB")
    assert stream.plan().how == "map"
    begin = time.perf_counter()
    with _anonymous() as peak:
        model = CuspFactorAnalysis(random_state=0).fit(stream)
    seconds, times = time.perf_counter() - begin, []
    CuspFactorAnalysis(
        n_factors=FACTORS,
        random_state=0,
        method=Variational(callback=lambda at: times.append(time.process_time()), tol=1e-3),
    ).fit(stream)
    mapped = np.load(path, mmap_mode="r")
    w, products = np.random.default_rng(0).normal(size=(WIDE_COLUMNS, FACTORS)), []
    for _ in range(9):
        first = time.process_time()
        mapped.T @ (mapped @ w)
        products.append(time.process_time() - first)
    return {
        "seconds": seconds,
        "n_factors": model.n_factors_,
        "anonymous": peak[0],
        "iteration": float(np.median(np.diff(times))),
        "products": float(np.median(products)),
    }


# --- a cluster on this machine -----------------------------------------------------------------


def cluster(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    path = folder / "rows.npy"
    _alone(_write_rows, path)
    alone = _alone(_alone_seconds, path, folder / "wide.npy")
    found = {n: _alone(_on_cluster, n, path, folder / "wide.npy") for n in (1, 2)}
    out = 8 * WIDE_COLUMNS * FACTORS
    between = 8 * WIDE_ROWS * FACTORS
    lines = []
    for shape, what in (
        ("tall", f"n = {CLUSTER_ROWS:,}, p = {COLUMNS}, the sums"),
        ("wide", f"n = {WIDE_ROWS}, p = {WIDE_COLUMNS:,}, two products, K = {FACTORS}"),
    ):
        one, two = found[1][shape], found[2][shape]
        lines.append(
            row(
                f"LocalCluster, {what}",
                f"1 worker {one:.2f} s, 2 workers {two:.2f} s: {one / two:.2f}× faster",
                f"this process {alone[shape]:.2f} s: overhead of 1 worker "
                f"{100 * (one / alone[shape] - 1):+.0f} %",
            )
        )
    lines.append(
        row(
            "bytes moved an iteration, wide",
            f"{2 * out / 1e6:.0f} MB between driver and workers",
            f"{found[2]['blocks']} blocks of columns, {between / 1e3:.0f} kB of scores each",
        )
    )
    return lines, {"alone": alone, "1": found[1], "2": found[2]}


def _write_rows(path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = np.lib.format.open_memmap(path, "w+", float, (CLUSTER_ROWS, COLUMNS))
    for first in range(0, CLUSTER_ROWS, 50_000):
        rows[first : first + 50_000] = rng.standard_normal((50_000, COLUMNS))
    rows.flush()


def _alone_seconds(tall_path: Path, wide_path: Path) -> dict[str, float]:
    sums = [_seconds(lambda: Moments.from_stream(tall_path)) for _ in range(3)]
    wide = _prepared(RowStream(wide_path, memory_limit="2GB"))
    return {"tall": float(np.median(sums)), "wide": _product_seconds(wide.source)}


def _prepared(rows: Any) -> Any:
    return prepare_loaded(load_data(rows), scaling="columns", flat_mean=True)


def _on_cluster(workers: int, tall_path: Path, wide_path: Path) -> dict[str, float]:
    import dask.array
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as local,
        Client(local),
    ):
        rows = _dask_rows(dask, tall_path, (50_000, COLUMNS))
        fit = DaskRows(rows)
        sums = [_seconds(lambda: _prepared(fit)) for _ in range(3)]
        wide_rows = _dask_rows(dask, wide_path, (WIDE_ROWS, 25_000))
        source = _prepared(DaskRows(wide_rows)).source
        return {
            "tall": float(np.median(sums)),
            "wide": _product_seconds(source),
            "blocks": len(source._matrix.blocks),
        }


def _dask_rows(dask: Any, path: Path, chunks: tuple[int, int]) -> Any:
    """Blocks that workers read for themselves."""
    shape = np.load(path, mmap_mode="r").shape

    def part(block_info: Any = None) -> np.ndarray:
        here = tuple(slice(*ends) for ends in block_info[None]["array-location"])
        return np.array(np.load(path, mmap_mode="r")[here])

    sizes = tuple(
        tuple(min(size, total - first) for first in range(0, total, size))
        for size, total in zip(chunks, shape, strict=True)
    )
    return dask.array.map_blocks(part, chunks=sizes, dtype=float, meta=np.zeros((0, 0)))


def _product_seconds(source: Any) -> float:
    w = np.random.default_rng(0).normal(size=(source.p, FACTORS))
    source._matrix.products(w)
    return float(np.median([_seconds(lambda: source._matrix.products(w)) for _ in range(7)]))


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# --- processes of their own --------------------------------------------------------------------


def _alone(call: Callable[..., Any], *arguments: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    # Not a pool: its workers are daemons, which may not have children, as a cluster has.
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, call, arguments))
    process.start()
    theirs.close()
    found = ours.recv()
    process.join()
    return found


def _send(pipe: Any, call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    pipe.send(call(*arguments))


@contextmanager
def _anonymous() -> Iterator[list[int]]:
    """The largest growth of this process's anonymous memory, in its first entry."""
    begin, peak, stop = _now(), [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            peak[0] = max(peak[0], _now() - begin)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def _now() -> int:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])
