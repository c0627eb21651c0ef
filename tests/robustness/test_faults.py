"""Killed, interrupted, out of space: no file is half written, and nothing is left behind.

That a killed Gibbs run goes on as if it had not been is in tests/inference/gibbs/test_settings.py.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from support import run_python

BEGIN = """
import os, signal, sys, time, warnings
from pathlib import Path
import numpy as np
from threadpoolctl import threadpool_info
from cuspfa import CuspFactorAnalysis, datasets, load
from cuspfa.errors import CuspWarning
warnings.simplefilter("error")
warnings.simplefilter("ignore", CuspWarning)
folder = Path(sys.argv[1])
path = folder / "fit.cuspfa"
X = datasets.simulate(200, 12, 2, random_state=1).X
one = CuspFactorAnalysis(n_factors=2).fit(X).posterior_
two = CuspFactorAnalysis(n_factors=1).fit(X).posterior_
rng = np.random.default_rng(0)
one.save(path)

def is_whole():
    k = load(path).n_active  # raises if the file is damaged
    assert k in (1, 2), k
    return k
"""


def run(code, folder):
    # With as many threads as there are, so that it can be seen whether they are put back.
    own = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = run_python("-c", BEGIN + textwrap.dedent(code), str(folder), env=own)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_while_saving(tmp_path):
    """Thirty times and more, at moments spread over the time that some saves take."""
    code = """
    seen, cut = set(), 0
    for attempt in range(300):
        if attempt >= 30 and len(seen) == 2 and cut:
            break
        child = os.fork()
        if child == 0:
            while True:
                two.save(path)
                one.save(path)
        time.sleep(float(rng.uniform(0, 0.05)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        seen.add(is_whole())
        parts = [name for name in os.listdir(folder) if name != "fit.cuspfa"]
        assert all(name.startswith(".cuspfa-") and name.endswith(".part") for name in parts), parts
        cut += bool(parts)
        for name in parts:
            (folder / name).unlink()
    print(len(seen), cut)
    """
    kinds, cut = map(int, run(code, tmp_path).split())
    assert kinds == 2  # so saves did go on
    assert cut > 0  # and some were cut off in the middle


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_in_an_out_of_core_pass(tmp_path):
    """While rows are read and scores of them written: the old file or the new one, and the data."""
    code = """
    from cuspfa import predict_to_file
    model = CuspFactorAnalysis(n_factors=2).fit(X)
    data, target = folder / "rows.npy", folder / "scores.csv"
    np.save(data, np.tile(X, (100, 1)))
    before = data.read_bytes()
    target.write_text("old")
    began = time.perf_counter()
    predict_to_file(model, "transform", data, target)
    usual, new = time.perf_counter() - began, target.read_bytes()
    seen, cut = set(), 0
    for attempt in range(100):
        if attempt >= 20 and len(seen) == 2 and cut:
            break
        target.write_text("old")
        child = os.fork()
        if child == 0:
            predict_to_file(model, "transform", data, target)
            CuspFactorAnalysis(n_factors=2).fit(data)
            os._exit(0)
        # Longer and longer: on a busy machine the usual time is soon too short.
        time.sleep(float(rng.uniform(0, (2 + attempt / 10) * usual)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert target.read_bytes() in (b"old", new)
        seen.add(target.read_bytes() == new)
        parts = set(os.listdir(folder)) - {"fit.cuspfa", "rows.npy", "scores.csv"}
        assert all(name.startswith(".cuspfa-") and name.endswith(".part") for name in parts), parts
        cut += bool(parts)
        for name in parts:
            (folder / name).unlink()
    assert data.read_bytes() == before
    print(len(seen), cut)
    """
    kinds, cut = map(int, run(code, tmp_path).split())
    assert kinds == 2
    assert cut > 0


SAMPLER = """
import numpy as np
from cuspfa import CuspFactorAnalysis, Gibbs, datasets
X = datasets.simulate(150, 300, 3, random_state=1).X
method = Gibbs(n_draws=100_000, n_chains=2)
CuspFactorAnalysis(method=method, n_factors=3, n_jobs=2).fit(X)
"""


def marked(mark):
    """Processes with this mark in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def at_work(process):
    """Is it one of joblib's, and past its imports?"""
    try:
        name = (Path("/proc") / str(process) / "cmdline").read_bytes()
        figures = (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    seconds = (int(figures[11]) + int(figures[12])) / os.sysconf("SC_CLK_TCK")
    return b"loky_posix" in name and seconds > 5


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGINT"])
def test_no_process_is_left_behind(how):
    """By a sampler whose chains are in processes of their own, as they are without the core."""
    mark = f"CUSPFA_MARK={os.getpid()}-{how}"
    name, _, value = mark.partition("=")
    parent = subprocess.Popen(
        [sys.executable, "-c", SAMPLER],
        env={
            **os.environ,
            name: value,
            "OPENBLAS_NUM_THREADS": "1",
            "CUSPFA_NO_COMPILED_CORE": "1",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: sum(map(at_work, marked(mark))) >= 2, 120)
        parent.send_signal(getattr(signal, how))
        parent.wait(60)
        until(lambda: not marked(mark), 60)
    finally:
        for process in marked(mark):
            os.kill(process, signal.SIGKILL)


def until(true, seconds):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "still not so"
        time.sleep(0.1)


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs limits of file sizes")
def test_no_space_left(tmp_path):
    """A limit of file sizes fails a write in the middle, as a full disk does."""
    code = """
    import resource
    size = path.stat().st_size
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for limit in (1, size // 2, size - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            one.save(path)
            raise AssertionError("the limit was not met")
        except OSError as error:
            assert error.strerror, error
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert is_whole() == 2
        assert os.listdir(folder) == ["fit.cuspfa"], os.listdir(folder)
    """
    run(code, tmp_path)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_interrupted_at_a_hundred_moments(tmp_path):
    code = """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    rows = X[:40, :5]
    threads = [pool["num_threads"] for pool in threadpool_info()]

    def work(model):
        model.fit(rows)
        model.posterior_.save(path)

    began = time.perf_counter()
    work(CuspFactorAnalysis(n_factors=2))
    usual = time.perf_counter() - began
    interrupted = 0
    for attempt in range(100):
        model = CuspFactorAnalysis(n_factors=2 - attempt % 2)
        signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(1e-5, 1.2 * usual)))
        try:
            try:
                work(model)
            finally:  # it may ring here too, but never after
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            interrupted += 1
        is_whole()
        assert os.listdir(folder) == ["fit.cuspfa"], os.listdir(folder)
        assert [pool["num_threads"] for pool in threadpool_info()] == threads
        if hasattr(model, "components_"):  # what was found so far is whole
            assert np.isfinite(model.transform(rows)).all()
            assert np.isfinite(model.get_covariance()).all()
    print(interrupted)
    """
    assert int(run(code, tmp_path)) >= 10
