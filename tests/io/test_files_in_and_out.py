"""What must not be lost, hang, leak or be run: outputs, endless inputs, infinities, formulas."""

import csv
import gzip
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cuspfa
from cuspfa import CuspFactorAnalysis, Gibbs, Moments, RowStream, datasets, predict_to_file
from cuspfa.cli.app import run_program
from cuspfa.data.out_of_core import mapped, stream
from cuspfa.data.tables import source_bytes as reading
from cuspfa.errors import CuspWarning, DataError, InputError
from support import posix, run_python

NAMES = [f"item{j}" for j in range(6)]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def rows() -> Any:
    return datasets.simulate(80, 6, 1, random_state=0).X.round(3)


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: object) -> tuple[int, str]:
        capsys.readouterr()
        code = run_program([str(word) for word in words])
        shown = capsys.readouterr()
        return code, " ".join((shown.out + shown.err).split())

    return call


def save(rows: Any, path: str, names: list[str] | None = None) -> str:
    pd.DataFrame(rows, columns=names or NAMES).to_csv(path, index=False)
    return path


# --- outputs ---


@pytest.mark.parametrize("first", ["-o", "--loadings"])
@pytest.mark.parametrize("spelling", ["out.csv", "./out.csv", "folder/../out.csv", "link.csv"])
def test_two_outputs_of_one_name(rows: Any, program: Any, first: str, spelling: str) -> None:
    Path("folder").mkdir()
    os.symlink("out.csv", "link.csv")
    data = save(rows, "data.csv")
    code, said = program("fit", data, first, "out.csv", "--report", spelling)
    assert code == 2
    assert f"{first} and --report must be two files" in said
    assert not Path("out.csv").exists()


def test_two_names_of_one_file(rows: Any, program: Any) -> None:
    data = save(rows, "data.csv")
    Path("a.cusp").write_text("kept", encoding="utf-8")
    os.link("a.cusp", "b.html")
    code, said = program("fit", data, "-o", "a.cusp", "--report", "b.html")
    assert (code, "must be two files" in said) == (2, True)
    assert Path("a.cusp").read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize("option", ["-o", "--loadings", "--report"])
def test_an_output_that_is_the_input(rows: Any, program: Any, option: str) -> None:
    data = save(rows, "data.csv")
    before = Path(data).read_bytes()
    os.symlink("data.csv", "other.csv")
    for name in ("data.csv", "./data.csv", "other.csv"):
        code, said = program("fit", data, option, name)
        assert (code, "is the input and would be lost" in said) == (2, True)
    assert Path(data).read_bytes() == before


def test_a_fit_is_not_drawn_over(rows: Any, program: Any) -> None:
    CuspFactorAnalysis().fit(rows).posterior_.save("fit.png")
    before = Path("fit.png").read_bytes()
    assert program("plot", "fit.png", "search", "-o", "./fit.png")[0] == 2
    assert program("report", "fit.png", "-o", "./fit.png")[0] == 2
    assert program("scores", "fit.png", save(rows, "data.csv"), "-o", "fit.png")[0] == 2
    assert Path("fit.png").read_bytes() == before


# --- a full disk ---


@posix
def test_a_full_disk_names_the_file(rows: Any, program: Any) -> None:
    data = save(rows, "data.csv")
    model = CuspFactorAnalysis(n_factors=1).fit(pd.DataFrame(rows, columns=NAMES))
    model.posterior_.save("fit.cusp")
    for words in (
        ("scores", "fit.cusp", data, "-o", "/dev/full"),
        ("impute", "fit.cusp", data, "-o", "/dev/full"),
    ):
        code, said = program(*words)
        assert code == 2
        assert "No space left on device: '/dev/full'" in said
    for refused in (
        ("fit", data, "--factors", 1, "--report", "/dev/full"),
        ("fit", data, "--factors", 1, "--loadings", "/dev/full"),
        ("fit", data, "--factors", 1, "--loadings", "/dev/stdout"),
        ("report", "fit.cusp", "-o", "/dev/full"),
    ):
        code, said = program(*refused)
        assert code == 2
        assert f"{refused[-2]} must be a file. Got '{refused[-1]}' instead." in said
        assert "Read" not in said  # before anything is read
    os.symlink("/dev/full", "page.html")
    with pytest.raises(OSError, match="No space left on device: 'page.html'"):
        model.posterior_.report("page.html")
    os.symlink("/dev/full", "scores.csv")
    for what in ("transform", "impute"):
        with pytest.raises(OSError, match="scores.csv"):
            predict_to_file(model, what, RowStream(data), "scores.csv")


@posix
def test_a_full_disk_behind_standard_output(rows: Any) -> None:
    save(rows, "data.csv")
    model = CuspFactorAnalysis(n_factors=1).fit(pd.DataFrame(rows, columns=NAMES))
    model.posterior_.save("fit.cusp")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cuspfa", "scores", "fit.cusp", "data.csv"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert done.returncode == 2
    assert "standard output: [Errno 28] No space left on device" in done.stderr


# --- infinities ---


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_an_error_whatever_holds_it(
    rows: Any, value: float, program: Any, tmp_path: Path
) -> None:
    rows[[4, 9], [3, 3]] = value
    frame = pd.DataFrame(rows, columns=NAMES)
    known = CuspFactorAnalysis().fit(datasets.simulate(80, 6, 1, random_state=0).X)
    for data in (rows, rows.tolist(), rows.astype(object), rows.astype(np.float32)):
        for call in (CuspFactorAnalysis().fit, known.transform, known.impute, known.score_samples):
            with pytest.raises(DataError, match="column 3 has 2 values that are infinite"):
                call(data)
    with pytest.raises(DataError, match="'item3'.* has 2 values that are infinite"):
        CuspFactorAnalysis(method=Gibbs(n_draws=10)).fit(frame)
    np.save("rows.npy", rows)
    save(rows, "rows.csv")
    frame.to_parquet("rows.parquet")
    for name in ("rows.npy", "rows.csv", "rows.parquet"):
        with pytest.raises(DataError, match="item3|column 3"):
            CuspFactorAnalysis().fit(name)
    CuspFactorAnalysis(n_factors=1).fit(
        pd.DataFrame(np.nan_to_num(rows, posinf=0, neginf=0), columns=NAMES)
    ).posterior_.save("fit.cusp")
    for words in (["fit"], ["scores", "fit.cusp"], ["impute", "fit.cusp"]):
        for name in ("rows.csv", "rows.parquet"):
            code, said = program(*words, name)
            assert code == 2
            assert "column 'item3' has 2 infinite values, the first in row 5" in said
            assert "--missing inf,-inf" in said
    code, said = program("fit", "rows.csv", "--missing", "inf,-inf")
    assert (code, "2 missing values in 2 of 80 rows" in said) == (0, True)
    assert program("fit", "rows.csv", "--exclude", "item3")[0] == 0


# --- inputs without an end ---


def limited(*words: str, memory: int = 3 << 30, stdin: Any = None) -> Any:
    """The program in a process that may take so much memory and a minute."""
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return run_python("-m", "cuspfa", *words, stdin=stdin, preexec_fn=limit)


@posix
def test_devices_are_refused(program: Any) -> None:
    os.symlink("/dev/zero", "zero.csv")
    for name in ("/dev/zero", "/dev/urandom", "zero.csv"):
        code, said = program("fit", name)
        assert (code, "is a device or a socket, not a file" in said) == (2, True)
    for limit in ([], ["--memory-limit", "1GB"]):
        assert program("fit", "zero.csv", *limit)[0] == 2
    with pytest.raises(InputError, match="zero.csv' is a pipe, a device or a socket"):
        CuspFactorAnalysis().fit("zero.csv")
    for command in ("info", "report"):
        assert program(command, "/dev/zero", *(["-o", "x.html"] * (command == "report")))[0] == 2


def test_standard_input_without_an_end(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "allowed_bytes", lambda limit: 40_000_000)
    with open("/dev/zero", "rb") as zero, open(zero.fileno(), "rb", closefd=False) as raw:
        monkeypatch.setattr(sys, "stdin", type("Text", (), {"buffer": raw, "isatty": bool})())
        code, said = program("fit", "-")
    assert code == 2
    assert "standard input is longer than 10 MB, more than can be read into memory" in said


def test_a_pipe_is_read(rows: Any, program: Any) -> None:
    """As `cuspfa fit <(unzip -p answers.zip)` has it."""
    text = Path(save(rows, "data.csv")).read_bytes()
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(text))
    writer.start()
    code, said = program("fit", "pipe", "--factors", 1)
    writer.join()
    assert (code, "80 rows" in said) == (0, True)


def test_a_pipe_without_an_end(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "allowed_bytes", lambda limit: 40_000_000)
    os.mkfifo("pipe")

    def write() -> None:
        try:
            with open("pipe", "wb") as file:
                while True:
                    file.write(b"1,2,3\n" * 100_000)
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    code, said = program("fit", "pipe")
    writer.join()
    assert (code, "pipe is longer than 10 MB" in said) == (2, True)


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five gigabytes of rows, five megabytes long."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.csv.gz"
    part = gzip.compress(b"0,1,2,3,4,5,6,7\n" * (1 << 22))
    with path.open("wb") as file:
        file.write(gzip.compress(b"a,b,c,d,e,f,g,h\n"))
        for _ in range(80):
            file.write(part)
    return path


def test_a_file_that_swells(bomb: Path, program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "allowed_bytes", lambda limit: 400_000_000)
    code, said = program("fit", bomb)
    assert code == 2
    assert "bomb.csv.gz, once it is decompressed, is longer than 100 MB" in said


@pytest.mark.long
@posix
def test_a_file_that_swells_beyond_the_limit_of_a_process(bomb: Path) -> None:
    done = limited("fit", str(bomb))
    assert done.returncode == 2
    assert "bomb.csv.gz" in done.stderr
    assert "unexpected" not in done.stderr


# --- formulas ---

FORMULAS = ["=cmd|' /C calc'!A0", "@SUM(A1)", "+1+1", "-2+3", "plain", "-5"]
QUOTED = ["'=cmd|' /C calc'!A0", "'@SUM(A1)", "'+1+1", "'-2+3", "plain", "-5"]


def first_row(path: str, separator: str = ",") -> list[str]:
    with open(path, newline="", encoding="utf-8") as file:
        return next(csv.reader(file, delimiter=separator))


def test_names_are_no_formulas(rows: Any, program: Any) -> None:
    data = save(rows, "data.csv", FORMULAS)
    assert program("fit", data, "-o", "fit.cusp", "--loadings", "loadings.csv")[0] == 0
    assert cuspfa.load("fit.cusp").names == FORMULAS  # as they are
    with open("loadings.csv", newline="", encoding="utf-8") as file:
        assert [row[0] for row in csv.reader(file)] == ["variable", *QUOTED]
    rows[3, 2] = np.nan
    save(rows, "data.csv", FORMULAS)
    assert program("impute", "fit.cusp", data, "-o", "filled.csv")[0] == 0
    assert first_row("filled.csv") == QUOTED
    assert program("impute", "fit.cusp", data, "-o", "filled.tsv")[0] == 0
    assert first_row("filled.tsv", "\t") == QUOTED
    assert program("impute", "fit.cusp", data, "-o", "filled.parquet")[0] == 0
    assert list(pd.read_parquet("filled.parquet").columns) == FORMULAS
    # What was written is read again, by both readers.
    assert program("scores", "fit.cusp", "filled.csv", "-o", "scores.csv")[0] == 0
    assert program("scores", "fit.cusp", data, "-o", "scores.csv")[0] == 0
    assert RowStream("filled.csv").names == FORMULAS
    model = CuspFactorAnalysis.from_posterior(cuspfa.load("fit.cusp"))
    assert predict_to_file(model, "impute", "filled.csv", "again.csv") == 80
    assert first_row("again.csv") == QUOTED
    np.testing.assert_allclose(pd.read_csv("again.csv"), pd.read_csv("filled.csv"))
    assert predict_to_file(model, "impute", data, "again.parquet") == 80
    assert list(pd.read_parquet("again.parquet").columns) == FORMULAS


def test_labels_of_rows_are_no_formulas(rows: Any, program: Any) -> None:
    frame = pd.DataFrame(rows, columns=NAMES)
    frame.insert(0, "=who", ["=1+1", "-7", "+x", "@y", *(f"p{i}" for i in range(76))])
    frame.to_csv("data.csv", index=False)
    assert program("fit", "data.csv", "--id", "=who", "--factors", 1, "-o", "fit.cusp")[0] == 0
    assert program("scores", "fit.cusp", "data.csv", "--id", "=who", "-o", "scores.csv")[0] == 0
    with open("scores.csv", newline="", encoding="utf-8") as file:
        found = [row[0] for row in csv.reader(file)]
    assert found[:6] == ["'=who", "'=1+1", "-7", "'+x", "'@y", "p0"]


def test_names_after_blank_lines_are_read_again(rows: Any) -> None:
    text = Path(save(rows, "data.csv", ["'=a", *NAMES[1:]])).read_text(encoding="utf-8")
    for before in ("", "\n", "\n\n", "\ufeff"):
        Path("data.csv").write_text(before + text, encoding="utf-8")
        stream = RowStream("data.csv")
        assert stream.names == ["=a", *NAMES[1:]]
        read = np.concatenate([block.rows for block in stream.blocks()])
        np.testing.assert_array_equal(read, rows)


# --- numbers too large ---


def huge(kind: str, shape: tuple[int, int]) -> Any:
    rows = np.random.default_rng(0).normal(size=shape)
    if kind == "long":
        rows = rows.astype(np.longdouble)
        rows[3, 2] = np.longdouble(10) ** 400
    else:
        rows[3:6, 2] = {"1e160": [1e160, 0, 0], "1e308": [1.7e308, 1.7e308, -1.7e308]}[kind]
    return rows


@pytest.mark.parametrize("kind", ["1e160", "1e308", "long"])
@pytest.mark.parametrize("shape", [(100, 6), (20, 50)])
@pytest.mark.parametrize("how", ["array", "C", "F", "float32", "map", "moments", "dask"])
def test_numbers_too_large_are_our_error(
    kind: str, shape: tuple[int, int], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No warning of NumPy's: pytest makes these errors."""
    if kind == "long" and np.finfo(np.longdouble).max <= np.finfo(float).max:
        pytest.skip("long doubles of this machine are doubles")
    rows = huge(kind, shape)
    np.save("rows.npy", np.asarray(rows, order="F" if how == "F" else "C"))
    data: Any = {"array": rows, "float32": RowStream("rows.npy", dtype="float32")}.get(
        how, "rows.npy"
    )
    call: Any = Moments.from_stream if how == "moments" else CuspFactorAnalysis(n_factors=1).fit
    if how == "map":
        monkeypatch.setattr(stream, "LARGEST_COPY_SHARE", 0.0)
        monkeypatch.setattr(mapped, "MAPPED_BLOCK_SIZE", 200)
    if how == "dask":
        data = pytest.importorskip("dask.array", reason="an extra").from_array(rows, chunks=10)
    with pytest.raises(DataError, match=r"column 2 .*(too large|infini)"):
        call(data)


def test_new_rows_too_large(tmp_path: Path) -> None:
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        model = CuspFactorAnalysis(n_factors=1).fit(np.random.default_rng(1).normal(size=(50, 6)))
    for kind in ("1e160", "1e308"):
        np.save("rows.npy", huge(kind, (100, 6)))
        for what in ("transform", "score_samples", "impute"):
            assert predict_to_file(model, what, "rows.npy", "out.parquet") == 100
