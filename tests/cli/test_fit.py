"""`cuspfa fit`, `info`, `scores`, `plot`, `completion` as a new user tries them."""

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from rich.cells import cell_len

from cuspfa import CuspFactorAnalysis, Gibbs, __version__, datasets, load
from cuspfa.cli import app as program
from cuspfa.cli import progress as progress_module
from cuspfa.cli import terminal
from cuspfa.cli.app import run_program
from cuspfa.cli.next_command import command_after
from cuspfa.cli.options import FitOptions
from cuspfa.errors import CuspWarning
from cuspfa.inference.variational.progress import VariationalProgress
from cuspfa.reporting.recipe import python_recipe
from support import answers, posix, run_python, with_missing, write_csv

ROOT = Path(__file__).parents[2]
PROGRAM = "from cuspfa.cli import main; main()"
pytestmark = pytest.mark.usefixtures("plain_terminal")
FRONT_PAGES = ("README.md", "CHANGELOG.md")
COMMANDS = [name for name in program.app if not name.startswith("-")]
ODD_NAMES = ["Größe, cm", 'say "hi"', "名前の長い列", "d", "e", "f", "g", "h"]


@pytest.fixture
def plain_csv(tmp_path):
    return write_csv(tmp_path / "answers.csv", list("abcdefgh"), answers().tolist())


@pytest.fixture
def messy_csv(tmp_path):
    rows = [
        [1000 + 7 * i, *row, "male" if i % 2 else "female", f"1990-0{1 + i % 9}-11", 3, "x\ny"]
        for i, row in enumerate(answers().tolist())
    ]
    names = ["person id", *ODD_NAMES, "sex", "born", "const", "note\nline"]
    return write_csv(tmp_path / "messy.csv", names, rows)


@pytest.fixture(scope="module")
def bfi(tmp_path_factory):
    """One fit of the example, in a process of its own: its output, and the file."""
    file = tmp_path_factory.mktemp("bfi") / "bfi.cusp"
    words = ("fit", "--example", "bfi", "-o", file.name)
    environment = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"}
    done = run_python("-c", PROGRAM, *words, check=True, env=environment, cwd=file.parent)
    return done, file


@pytest.fixture(scope="module")
def small_fit(tmp_path_factory):
    """A fit of a few columns, saved by the library."""
    file = tmp_path_factory.mktemp("small") / "small.cusp"
    CuspFactorAnalysis(random_state=0).fit(answers()).posterior_.save(file)
    return file


def fits_80_columns(text):
    """All lines but commands, which are printed whole, to be copied."""
    lines = [line for line in text.splitlines() if not line.startswith("  cuspfa ")]
    assert all(cell_len(line) <= 80 for line in lines), text


def without_time(text):
    return [line for line in text.splitlines() if not line.startswith("Time:")]


# --- fit ---


def test_the_example(bfi):
    done, file = bfi
    # Nothing but progress, on a slow machine.
    assert all(re.search(r"; \d+ s$", line) for line in done.stderr.splitlines())
    assert "\x1b" not in done.stdout
    fits_80_columns(done.stdout)
    lines = done.stdout.splitlines()
    read = "Read example bfi (25 personality items): 2800 rows, 25 columns, 508 missing."
    assert lines[0] == read
    assert "508 missing values in 364 of 2800 rows: taken as missing at random" in done.stdout
    assert "Most: N4 36" in done.stdout
    head = next(line for line in lines if "can be told from chance" in line)
    assert re.match(r"1[012] factors( \(or [\d, ]+\))? can be told from chance; [56] ", head)
    assert "columns; 5 factors explain more than 3 % of the variance each" in done.stdout
    for word in ("SRMR", "RMSEA", "KMO", "omega total", "Converged after", "Time:", "evidence"):
        assert word in done.stdout
    assert "Written to bfi.cusp" in done.stdout
    assert file.exists()


def test_the_page_on_the_program_shows_what_it_prints(bfi):
    """Numbers may differ in their last digit between machines; the words may not."""
    page = (ROOT / "docs" / "program.md").read_text(encoding="utf-8")
    printed = without_time(bfi[0].stdout)
    shown = re.search(r"\$ cuspfa fit --example bfi -o bfi\.cusp\n(.*?)\n```", page, re.DOTALL)
    told = without_time(shown[1])
    assert len(told) == len(printed)
    number = r"-?\d+(?:\.\d+)?"
    for ours, theirs in zip(told, printed, strict=True):
        assert re.sub(number, "#", ours).split() == re.sub(number, "#", theirs).split()
        one, other = (np.array(re.findall(number, line), float) for line in (ours, theirs))
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=0.031)


def test_the_page_on_the_program_knows_every_command():
    page = (ROOT / "docs" / "program.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"$ cuspfa {command}" in page
        assert f"(#{command})" in page
        assert f"\n## {command}\n" in page
    for code in re.findall(r"^(\d+) ", program.__doc__, re.MULTILINE):
        assert re.search(rf"^\| {code} \|", page, re.MULTILINE)


def test_the_first_page_and_the_changelog_know_every_command():
    first, changes = (ROOT.joinpath(name).read_text(encoding="utf-8") for name in FRONT_PAGES)
    for command in COMMANDS:
        assert f"cuspfa {command}" in first
        assert f"`{command}`" in changes or f"cuspfa {command}" in changes


def test_sorted_loadings_and_communalities(cuspfa, plain_csv):
    code, out, _ = cuspfa("fit", plain_csv)
    assert code == 0
    model = CuspFactorAnalysis(random_state=0).fit(answers())
    content = json.loads(cuspfa("fit", plain_csv, "--json")[1])
    block = out[out.index("Loadings") :].splitlines()[2:10]
    own_factor, previous = -1, 9.0
    for line in block:
        name, *figures = line.split()
        j = "abcdefgh".index(name)
        row = model.loadings_[j]
        np.testing.assert_allclose([float(x.rstrip("°")) for x in figures[:2]], row, atol=0.0051)
        communality, lower, dash, upper = figures[2:]
        assert dash == "–"
        assert float(communality) == pytest.approx(content["communality"][j], abs=0.0051)
        assert float(lower) <= float(communality) <= float(upper)
        largest = int(np.argmax(np.abs(row)))
        assert (largest, -np.max(np.abs(row))) > (own_factor, -previous)
        own_factor, previous = largest, np.max(np.abs(row))


def test_odd_columns_are_left_out_loudly(cuspfa, messy_csv):
    code, out, err = cuspfa("fit", messy_csv)
    assert code == 0
    assert err == ""
    fits_80_columns(out)
    assert "\x1b" not in out
    assert "Left out 5 columns:" in out
    for name, reason in [
        ("person id", "names of rows"),
        ("sex", 'text, such as "female"'),
        ("born", 'dates or times, such as "1990-01-11"'),
        ("const", "constant, always 3"),
        ("note line", 'text, such as "x y"'),
    ]:
        assert re.search(rf"^  {name} +{reason}", out, re.MULTILINE)
    assert "60 rows, 8 columns" in out
    for name in ODD_NAMES:
        assert re.search(rf"^{name} ", out, re.MULTILINE)


def test_columns_exclude_and_id(cuspfa, messy_csv):
    words = ["--columns", '"Größe, cm",4-7', "--columns", "h", "--exclude", "e", "--id", "sex"]
    code, out, _ = cuspfa("fit", messy_csv, *words, "--json")
    assert code == 0
    content = json.loads(out)
    assert content["columns"] == ["Größe, cm", "名前の長い列", "d", "f", "h"]
    assert content["left_out"]["excluded"] == ["e"]
    code, out, _ = cuspfa("fit", messy_csv, "--id", "sex", "--exclude", "person id,born")
    assert "names of rows, as --id says" in out
    assert "Left out as asked: person id, born." in out


def test_json_is_one_document_without_nan(cuspfa, plain_csv):
    def refuse(word):
        raise AssertionError(word)

    code, out, err = cuspfa("fit", plain_csv, "--json", "--factors", "2", "--no-standardize")
    assert code == 0
    content = json.loads(out, parse_constant=refuse)
    assert "Read " in err
    assert content["n_factors"] == 2
    assert np.shape(content["loadings"]) == (8, 2)
    assert content["read"]["n_rows"] == 60
    assert content["settings"] == {
        "method": "variational",
        "standardize": False,
        "factors": 2,
        "max_factors": None,
        "max_time": None,
        "model_error": 0.0,
        "likelihood": "gaussian",
        "ordinal": None,
        "link": "probit",
        "offset": None,
        "robust": False,
        "rotation": None,
        "seed": 0,
        "cuspfa": __version__,
    }
    assert content["search"][0]["evidence"] is None
    assert content["converged"] is True
    assert content["warnings"] == []
    assert content["seconds"]["total"] >= content["seconds"]["fit"] > 0


def test_no_factors_is_an_answer(cuspfa, tmp_path):
    noise = np.random.default_rng(0).normal(size=(60, 5)).round(3)
    path = write_csv("noise.csv", list("abcde"), noise.tolist())
    code, out, _ = cuspfa("fit", path, "-o", "none.cusp")
    assert code == 0
    assert "No factors can be told from chance" in out
    assert "hence no loadings" in out
    assert last_command(out) == ["select-n-factors", "noise.csv"]
    code, out, _ = cuspfa("fit", path, "--json")
    assert json.loads(out)["n_factors"] == 0
    assert cuspfa("info", "none.cusp")[0] == 0
    code, _, err = cuspfa("scores", "none.cusp", path)
    assert code == 2
    assert "no factors" in err


def test_quiet_is_one_line_and_what_is_loud_goes_to_standard_error(cuspfa, messy_csv):
    code, out, err = cuspfa("fit", messy_csv, "--quiet", "-o", "fit.cusp")
    assert code == 0
    assert out.splitlines() == [out.strip()]
    assert "2 factors" in out
    assert "Left out 5 columns" in err
    assert "Read" not in err
    assert Path("fit.cusp").exists()


def test_the_same_seed_gives_the_same_output(cuspfa, plain_csv):
    first, second = (cuspfa("fit", plain_csv, "--seed", "3")[1] for _ in range(2))
    assert without_time(first) == without_time(second)


def test_standard_input(cuspfa, plain_csv, monkeypatch):
    from_file = json.loads(cuspfa("fit", plain_csv, "--json")[1])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(plain_csv.read_bytes())))
    code, out, err = cuspfa("fit", "-", "--json")
    assert code == 0
    assert "Read standard input" in err
    assert json.loads(out)["loadings"] == from_file["loadings"]


def test_more_columns_than_rows(cuspfa):
    names = [f"gene {j}" for j in range(90)]
    path = write_csv("wide.csv", names, answers(30, 90, 3, seed=2).tolist())
    code, out, _ = cuspfa("fit", path)
    assert code == 0
    fits_80_columns(out)
    assert "3 factors" in out
    assert "60 of 90 variables that load most" in out
    assert sum(line.startswith("gene ") for line in out.splitlines()) == 60


@pytest.mark.parametrize("k", [7, 8])
def test_many_factors_and_long_names_fit_80_columns(cuspfa, k):
    names = [f"A rather long question about the matter 名前 number {j}" for j in range(40)]
    path = write_csv("many.csv", names, answers(400, 40, k, seed=5).tolist())
    code, out, _ = cuspfa("fit", path, "--factors", k)
    assert code == 0
    fits_80_columns(out)
    header = out[out.index("Loadings") :].splitlines()[1]
    assert len(re.findall(r" \d+(?= )", header.partition("h²")[0])) == (7 if k == 7 else 6)
    assert ("Factors 7 to 8 have no column" in out) == (k == 8)


def test_variables_of_every_factor_are_shown():
    loadings = np.zeros((100, 2))
    loadings[:90, 0] = np.linspace(0.9, 0.5, 90)
    loadings[90:, 1] = 0.4
    order = terminal.sort_variables(loadings, most=20)
    assert not order.all
    assert order.rows.tolist() == [*range(10), *range(90, 100)]


def test_variables_stand_under_their_factor_among_all(cuspfa):
    """Blocks of three variables, each block a factor: those of factors 7 to 9 have no column."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(400, 9))
    rows = np.repeat(scores, 3, axis=1) * 0.9 + 0.45 * rng.normal(size=(400, 27))
    names = [f"{letter}{j}" for letter in "abcdefghi" for j in (1, 2, 3)]
    path = write_csv("blocks.csv", names, rows.round(3).tolist())
    words = ("fit", path, "--factors", 9, "--rotation", "varimax")
    code, out, _ = cuspfa(*words)
    assert code == 0
    fits_80_columns(out)
    table = out[out.index("Loadings") :].splitlines()
    listed = [line.split()[0] for line in table[2:29]]
    loadings = np.array(json.loads(cuspfa(*words, "--json")[1])["loadings"])
    home = dict(zip(names, np.argmax(np.abs(loadings), axis=1).tolist(), strict=True))
    assert sorted(home.values()) == sorted([*range(9)] * 3)
    assert [home[name] for name in listed] == sorted(home.values())
    below = out[out.index("Factors 7 to 9 have no column; --json has all their loadings.") :]
    for number, line in zip((7, 8, 9), below.splitlines()[1:], strict=False):
        assert re.match(rf"  {number}: ", line)
        assert set(re.findall(r"[a-i]\d", line)) == {
            name for name in names if home[name] == number - 1
        }
        for name, value in re.findall(r"([a-i]\d) ([+-]\d\.\d\d)", line):
            row = loadings[names.index(name)]
            assert float(value) == pytest.approx(row[number - 1], abs=0.0051)


def test_factors_that_matter_nowhere_are_said_to():
    loadings = np.full((4, 9), 0.1)
    loadings[:, 0] = 0.8
    order = terminal.sort_variables(loadings)
    (line,) = terminal._not_shown(loadings, 6, order, list("abcd"))
    assert line == (
        "Factors 7 to 9 have no column: all their loadings are below 0.3; --json has them."
    )
    loadings[2, 7] = -0.31
    head, one, others = terminal._not_shown(loadings, 6, order, list("abcd"))
    assert head.startswith("Factors 7 to 9 have no column;")
    assert one == "  8: c -0.31"
    assert others == "  7, 9: all loadings are below 0.3"


def test_signs_have_the_colours_of_the_figures():
    """Blue is positive, orange negative: the channel that is largest says which."""
    for value, channel in ((0.5, 2), (-0.5, 0)):
        style = terminal._loading_style(value)
        parts = [int(style[i : i + 2], 16) for i in (1, 3, 5)]
        assert int(np.argmax(parts)) == channel
    assert terminal._loading_style(-0.29) == "dim"


def last_command(out):
    (command,) = (line for line in out.splitlines() if line.startswith("  cuspfa "))
    return shlex.split(command)[1:]


def test_after_each_fit_there_is_one_next_command(cuspfa, plain_csv):
    """Followed from the first fit to the tables: each command is complete and runs."""
    words = ["fit", "answers.csv", "--factors", "2", "--rotation", "Oblimin"]
    code, out, _ = cuspfa(*words)
    assert code == 0
    words = [*words[:-1], "oblimin"]
    assert last_command(out) == [*words, "-o", "answers.cusp"]
    code, out, _ = cuspfa(*last_command(out))
    assert code == 0
    assert last_command(out) == ["report", "answers.cusp", "-o", "answers.html"]
    assert cuspfa(*last_command(out))[0] == 0
    assert "<title>Factor analysis of answers.csv: " in Path("answers.html").read_text()
    words += ["-o", "answers.cusp", "--report", "answers.html"]
    code, out, _ = cuspfa(*words)
    assert last_command(out) == ["table", "answers.cusp", "-o", "answers-tables.docx"]
    assert cuspfa(*last_command(out))[0] == 0
    found = json.loads(cuspfa(*words, "--json")[1])
    assert found["next_command"] == "cuspfa table answers.cusp -o answers-tables2.docx"
    code, out, _ = cuspfa("fit", "answers.csv", "--factors", "2")
    assert last_command(out)[-1] == "answers2.cusp"  # nothing is written over


def test_the_next_command_without_word_documents(cuspfa, plain_csv, monkeypatch):
    monkeypatch.setattr("cuspfa.cli.next_command.find_spec", lambda name: None)
    options = FitOptions(data="a b.csv", output=Path("x/my fit.cusp"), report=Path("r.html"))
    assert command_after(options).command == "cuspfa table 'x/my fit.cusp' -o 'my fit-tables.html'"
    assert command_after(FitOptions(data="-")).command == "cuspfa fit - -o fit.cusp"
    assert command_after(FitOptions(example="bfi")).command == (
        "cuspfa fit --example bfi -o bfi.cusp"
    )
    # Dots that are part of the name stay.
    for data, saved in (("sat.act.csv", "sat.act"), ("a.b.csv.gz", "a.b")):
        assert command_after(FitOptions(data=data)).command.endswith(f" -o {saved}.cusp")


def test_the_time_is_that_of_a_clock_from_the_command_on(cuspfa, plain_csv, monkeypatch):
    """One that runs an hour from each look at it to the next: the first look is that of the app."""
    looks = iter(range(0, 10**9, 3600))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(looks)))
    code, out, _ = cuspfa("fit", plain_csv, "--factors", 1)
    assert code == 0
    seconds = re.search(
        r"^Time: ([\d.]+) s for the fit, [\d.]+ s for checks, ([\d.]+) s in all\.$",
        out,
        re.MULTILINE,
    )
    fit, total = map(float, seconds.groups())
    assert fit == 3600
    assert total >= 3 * 3600


def test_capital_letters_of_words_do_not_matter(cuspfa, plain_csv):
    words = ("fit", plain_csv, "--factors", 2, "--json", "--method")
    one = json.loads(cuspfa(*words, "Variational", "--rotation", "OBLIMIN")[1])
    other = json.loads(cuspfa(*words, "variational", "--rotation", "oblimin")[1])
    assert one["loadings"] == other["loadings"]
    assert cuspfa("fit", plain_csv, "--model-error", "Auto", "--quiet")[0] == 0


def test_a_forgotten_command_is_suggested(cuspfa, plain_csv):
    code, _, err = cuspfa("answers.csv", "--factors", 2)
    assert code == 2
    assert err == "cuspfa: to fit a model to a table: cuspfa fit answers.csv --factors 2\n"


def test_warnings_of_the_library_are_lines(cuspfa, tmp_path):
    rows = [[*row, float(i == 5)] for i, row in enumerate(answers().tolist())]
    path = write_csv("nearly.csv", list("abcdefghi"), rows)
    with warnings.catch_warnings(action="error", category=CuspWarning):
        code, out, err = cuspfa("fit", path, "--factors", "7")
    assert code == 0
    assert err == ""
    assert "Warning: column 'i' is nearly constant" in out
    assert "--factors 7 was asked for" in " ".join(out.split())
    assert "n_factors" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give a file with data, - for standard input, or --example bfi"),
        (["answers.csv", "--example", "bfi"], "not both"),
        (["--example", "iris"], "bfi"),
        (["answer.csv"], "there is no file 'answer.csv'. Did you mean 'answers.csv'?"),
        (["nowhere/answers.csv"], "There is no directory 'nowhere' either"),
        (["answers.csv", "--method", "x"], "--method must be variational or gibbs"),
        (["answers.csv", "--columns", "aa"], "--columns: there is no column 'aa'"),
        (["answers.csv", "--exclude", "H"], "Did you mean 'h'?"),
        (["answers.csv", "--id", "nobody"], "--id: there is no column 'nobody'"),
        (["answers.csv", "--factors", "9"], "--factors must be at most the 8 columns"),
        (["answers.csv", "--factors", "-1"], "--factors must be a whole number"),
        (["answers.csv", "--factors", "many"], "must be a whole number"),
        (["answers.csv", "--max-factors", "-1"], "--max-factors must be a whole number not below"),
        (["answers.csv", "--max-factors", "many"], "must be a whole number"),
        (["answers.csv", "--max-factors", "3", "--factors", "2"], "Give one of them."),
        (["answers.csv", "--max-factors", "3", "--method", "gibbs"], "is for --method variational"),
        (["answers.csv", "--model-error", "auto", "--method", "gibbs"], "give the error that it"),
        (
            ["answers.csv", "--model-error", "0.05", "--no-statistics", "-o", "x.cusp"],
            "--no-statistics cannot be used with --model-error",
        ),
        (["answers.csv", "--max-time", "0"], "--max-time must be a positive number. Got"),
        (["answers.csv", "--max-time", "nan"], "--max-time must be a positive number."),
        (["answers.csv", "--max-time", "soon"], "--max-time must be a number. Got 'soon' instead."),
        (["answers.csv", "--seed", "-1"], "--seed must be a whole number not below 0"),
        (["answers.csv", "-o", "no/fit.cusp"], "there is no directory"),
        (["answers.csv", "-o", "."], "must be a file"),
        (["answers.csv", "-o", "/dev/null"], "-o must be a file"),
        (["answers.csv", "-o", "answers.csv"], "would be lost"),
        (["answers.csv", "--colums", "a"], "--colums"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(cuspfa, plain_csv, words, message):
    before = plain_csv.read_bytes()
    code, _, err = cuspfa("fit", *words)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert list(Path().iterdir()) == [Path("answers.csv")]
    assert plain_csv.read_bytes() == before


def test_a_directory_is_read_if_it_holds_data(cuspfa, plain_csv):
    Path("empty").mkdir()
    code, _, err = cuspfa("fit", "empty")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "'empty' holds no file that ends in .parquet" in err
    assert cuspfa("fit", ".", "--quiet")[0] == 0


def test_no_permission(cuspfa, plain_csv, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    code, _, err = cuspfa("fit", plain_csv)
    assert code == 2
    assert err == f"cuspfa: no permission to read '{plain_csv}'.\n"


def test_debug_shows_the_traceback_of_a_mistake(capsys):
    assert run_program(["fit", "nothing.csv", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_defect_is_exit_code_1(cuspfa, plain_csv, monkeypatch):
    monkeypatch.setattr(CuspFactorAnalysis, "_fit", lambda *_: 1 / 0)
    code, _, err = cuspfa("fit", plain_csv)
    assert code == 1
    assert "unexpected ZeroDivisionError" in err


@pytest.mark.parametrize("where", ["fit", "write"])
def test_ctrl_c_leaves_nothing(cuspfa, plain_csv, monkeypatch, where):
    def press(*_):
        raise KeyboardInterrupt

    if where == "fit":
        monkeypatch.setattr(CuspFactorAnalysis, "_fit", press)
    else:
        monkeypatch.setattr(os, "fsync", press)
    code, _, err = cuspfa("fit", plain_csv, "-o", "fit.cusp")
    assert code == 130
    assert err == "Interrupted.\n"
    assert list(Path().iterdir()) == [Path("answers.csv")]


@posix
def test_a_real_ctrl_c_leaves_nothing(tmp_path):
    # A shell that runs this in the background makes its children deaf to Ctrl-C.
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{PROGRAM}"
    with subprocess.Popen(
        [sys.executable, "-u", "-c", code, "fit", "--example", "bfi", "-o", "fit.cusp"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stdout:
            if "Most: " in line:
                process.send_signal(signal.SIGINT)
                break
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "Interrupted.\n"
    assert list(tmp_path.iterdir()) == []


@posix
def test_in_a_terminal_progress_is_shown_and_small_loadings_are_dimmed(plain_csv):
    import pty

    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "100"}
    # A fit of so few rows may end before a line is due, so here each change is drawn at once.
    at_once = f"from cuspfa.cli import progress; progress.REDRAWN = 0.0; {PROGRAM}"
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", at_once, "fit", str(plain_csv)],
        stdout=follower,
        stderr=follower,
        env=environment,
    ) as process:
        os.close(follower)
        pieces = []
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            pieces.append(piece)
    os.close(leader)
    assert process.returncode == 0
    text = b"".join(pieces).decode()
    assert re.search(r"K = \d+, iteration \d+, bound -\d+", text)
    model = CuspFactorAnalysis(random_state=0).fit(answers())
    dim = re.findall(r"\x1b\[2m +(-?\d\.\d\d)\x1b\[0m", text)
    assert len(dim) == np.sum(np.abs(model.loadings_) < terminal.DIMMED_BELOW) > 0
    assert all(abs(float(value)) < 0.3 for value in dim)


def test_a_pipe_hears_of_progress_now_and_then(cuspfa, plain_csv, monkeypatch):
    assert cuspfa("fit", plain_csv)[2] == ""  # it was done before the first line was due
    monkeypatch.setattr(progress_module, "FIRST", 0.0)
    code, out, err = cuspfa("fit", plain_csv)
    assert code == 0
    fits_80_columns(err)
    lines = err.splitlines()
    assert re.fullmatch(r"K = \d+, iteration 1, bound -\d+\.\d \(best -\d+\.\d\); 0 s", lines[0])
    assert 1 < len(lines) < 30  # at doubled times, not after each of a hundred iterations
    code, quiet_out, err = cuspfa("fit", plain_csv, "--quiet")
    assert code == 0
    assert "K = " not in err
    assert quiet_out.strip() in out
    err = cuspfa("fit", plain_csv, "--method", "gibbs")[2]
    assert re.match(r"chains 1 to 4: sweep 1 of \d+, \d\.\d factors; 0 s\n", err)


def test_lines_come_at_doubled_times(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with progress_module.progress() as bar:
        for second in range(170):
            now[0] = 100.0 + second
            bar.say("at work")
    said = capsys.readouterr().err.splitlines()
    assert said == [f"at work; {second} s" for second in (10, 20, 40, 80, 160)]


def test_a_search_that_climbs_is_told_of_early(monkeypatch, capsys):
    at = VariationalProgress(58, 7, -123456.7, -123450.1, 100, 321.4, 12.0, 41.6)
    assert progress_module.iteration_text(at) == (
        "K = 58, bound -123457, rising by 320 a factor, 100 in 42 s"
    )
    monkeypatch.setattr(progress_module, "FIRST", 0.0)
    with progress_module.progress() as bar:
        assert bar.on_iteration is not None
        bar.on_iteration(at._replace(n_factors=12))
        bar.on_iteration(at._replace(rise=3.0))
        quiet = capsys.readouterr().err
        bar.on_iteration(at)
        bar.on_iteration(at)
    said = capsys.readouterr().err
    fits_80_columns(said)
    words = " ".join(said.split())
    assert words.count("there may be no small number of them. --max-factors and --max-time") == 1
    assert "no small number" not in quiet


def test_a_sampled_model_error_needs_complete_data(cuspfa):
    rows = answers().tolist()
    path = write_csv("rows.csv", "abcdefgh", rows[:17] + [[*row[:7], ""] for row in rows[17:20]])
    fit = ("fit", path, "--method", "gibbs", "--model-error", "0.05")
    code, _, err = cuspfa(*fit, "--columns", "a,b,c,h")
    said = " ".join(err.split())
    assert code == 2
    assert "--method gibbs needs data without missing values. Got 3 that are missing." in said
    assert said.endswith("Use --method variational, or leave out --model-error.")
    path = write_csv("rows.csv", "abcdefghijklmnop", [[*r, *(-x for x in r)] for r in rows[:12]])
    err = cuspfa("fit", path, *fit[2:])[2]
    assert "needs more rows than columns. Got 12 rows and 16 columns." in " ".join(err.split())


@pytest.mark.parametrize("method", ["variational", "gibbs"])
def test_time_that_is_over(cuspfa, plain_csv, method):
    words = ("fit", plain_csv, "--method", method, "--max-time", "1e-6")
    code, out, err = cuspfa(*words, "-o", "fit.cusp")
    assert code == 0
    assert err == ""
    fits_80_columns(out)
    said = " ".join(out.split())
    assert "Warning: " in said
    assert "out of time" in said
    assert "raise --max-time 1e-06 or" in said or "raise it: --max-time 1e-05, or leave it" in said
    assert "max_time=" not in said
    assert cuspfa("info", "fit.cusp")[0] == 0
    content = json.loads(cuspfa(*words, "--json")[1])
    assert content["settings"]["max_time"] == 1e-6
    assert content["converged"] is False
    assert content["status"].startswith("out of time")


def test_the_most_factors(cuspfa, plain_csv):
    code, out, _ = cuspfa("fit", plain_csv, "--max-factors", "1", "-o", "fit.cusp")
    assert code == 0
    said = " ".join(out.split())
    assert "As many factors were found as --max-factors 1 allows" in said
    assert (
        "raise it: --max-factors 2, or leave it out. To keep this number, give it: --factors 1."
        in said
    )
    provenance = load("fit.cusp").provenance
    assert "--max-factors 1" in provenance.command
    code = python_recipe(provenance)
    assert "method=Variational(max_factors=1)" in code
    with pytest.warns(CuspWarning, match="max_factors=1 allows"):
        exec(code, {})


# --- info, scores, plot ---


def test_info(cuspfa, bfi, plain_csv):
    fitted = cuspfa("fit", plain_csv, "-o", "fit.cusp")[1]
    code, out, err = cuspfa("info", "fit.cusp")
    assert code == 0
    assert err == ""
    assert out.startswith("cuspfa-fit version 6, written by cuspfa")
    assert "cross-products of the data" in " ".join(out.split())
    start = fitted.index("factors can be told from chance")
    assert fitted[start : fitted.index("Time:")] in out + "\n"
    code, out, err = cuspfa("info", bfi[1])
    assert code == 0
    assert err == ""
    fits_80_columns(out)
    assert out.startswith("cuspfa-fit version 6, written by cuspfa")
    assert "correlations of the data" in " ".join(out.split())
    said = " ".join(out.split())
    assert "The data had missing values, and their rows are not in the file" in said
    lines = [re.findall(r"\nE2 .*", text)[0].split("  ") for text in (bfi[0].stdout, out)]
    assert lines[0][:3] == lines[1][:3]
    with pytest.raises(AssertionError):
        fits_80_columns("x" * 81)


def test_scores_are_those_of_the_model(cuspfa, messy_csv):
    rows = answers()
    model = CuspFactorAnalysis(random_state=0).fit(rows)
    assert cuspfa("fit", messy_csv, "-o", "fit.cusp", "--quiet")[0] == 0
    code, out, err = cuspfa("scores", "fit.cusp", messy_csv, "--id", "person id")
    assert code == 0
    assert err == ""
    head, *lines = csv.reader(io.StringIO(out))
    assert head == ["person id", *model.get_feature_names_out()]
    assert [line[0] for line in lines] == [str(1000 + 7 * i) for i in range(60)]
    scores = np.array([line[1:] for line in lines], dtype=float)
    np.testing.assert_allclose(scores, model.transform(rows), rtol=5e-6)


def test_scores_by_name_with_missing_values(cuspfa, plain_csv):
    assert cuspfa("fit", plain_csv, "-o", "fit.cusp", "--quiet")[0] == 0
    before = list(csv.reader(io.StringIO(cuspfa("scores", "fit.cusp", plain_csv)[1])))
    rows = [["text", *row[::-1]] for row in answers().tolist()]
    rows[4][3] = "NA"
    write_csv("other.tsv", ["extra", *"hgfedcba"], rows, separator="\t")
    code, out, err = cuspfa("scores", "fit.cusp", "other.tsv", "-o", "scores.csv")
    assert code == 0
    assert out == ""
    assert "1 of 60 rows have missing values. Their scores use the others" in err
    after = list(csv.reader(io.StringIO(Path("scores.csv").read_text())))
    model = CuspFactorAnalysis(random_state=0).fit(answers())
    row = answers()[4].copy()
    row[5] = np.nan
    np.testing.assert_allclose(np.array(after[5], float), model.transform([row])[0], rtol=5e-6)
    assert after[5] != before[5]
    one, other = (np.array(lines[1:5] + lines[6:], float) for lines in (before, after))
    np.testing.assert_allclose(one, other, atol=1e-12)
    assert cuspfa("scores", "fit.cusp", "other.tsv", "-o", "scores.tsv")[0] == 0
    assert "\t" in Path("scores.tsv").read_text()


def incomplete(seed=0):
    rows = with_missing(answers(), 0.1, seed)
    rows[7] = np.nan
    return rows


def as_cells(rows):
    return [["" if value != value else value for value in row] for row in rows.tolist()]


def test_missing_values_are_filled_as_the_model_fills_them(cuspfa):
    rows = incomplete()
    data = write_csv(
        "missing.csv", ["who", *"abcdefgh"], [[i, *r] for i, r in enumerate(as_cells(rows))]
    )
    code, out, err = cuspfa("fit", data, "--id", "who", "-o", "fit.cusp")
    assert code == 0
    assert err == ""
    assert "nothing is filled in or dropped" in " ".join(out.split())
    assert "Left out 1 row without any value" in " ".join(out.split())
    model = CuspFactorAnalysis(random_state=0).fit(np.delete(rows, 7, axis=0))
    code, out, err = cuspfa("impute", "fit.cusp", data, "--id", "who", "--std")
    assert code == 0
    n_missing = int(np.isnan(rows).sum())
    assert f"{n_missing} missing values in " in err
    assert "1 row without any value, filled by the means of the fit" in " ".join(err.split())
    head, *lines = csv.reader(io.StringIO(out))
    assert head == ["who", *"abcdefgh", *(f"{name}_std" for name in "abcdefgh")]
    assert [line[0] for line in lines] == [str(i) for i in range(60)]
    values, std = model.impute(rows, return_std=True)
    found = np.array([line[1:] for line in lines], dtype=float)
    np.testing.assert_allclose(found, np.hstack([values, std]), rtol=5e-6)
    code, out, err = cuspfa("info", "fit.cusp")
    assert code == 0
    assert out.startswith("cuspfa-fit version 6")


def test_drawn_tables_one_below_the_other(cuspfa):
    rows = incomplete()
    data = write_csv("missing.csv", "abcdefgh", as_cells(rows))
    assert cuspfa("fit", data, "-o", "fit.cusp", "--quiet")[0] == 0
    code, out, err = cuspfa("impute", "fit.cusp", data, "--draws", 3, "-o", "drawn.tsv")
    assert code == 0
    assert out == ""
    assert "without exact sweeps" in " ".join(err.split())
    assert "Written 3 tables of 60 rows to drawn.tsv" in err
    head, *lines = csv.reader(io.StringIO(Path("drawn.tsv").read_text()), delimiter="\t")
    assert head == ["draw", *"abcdefgh"]
    assert [line[0] for line in lines] == ["1"] * 60 + ["2"] * 60 + ["3"] * 60
    drawn = np.array([line[1:] for line in lines], dtype=float).reshape(3, 60, 8)
    seen = ~np.isnan(rows)
    assert np.array_equal(drawn[0][seen], rows[seen])
    assert np.all(drawn[0][~seen] != drawn[1][~seen])
    again = cuspfa("impute", "fit.cusp", data, "--draws", 3)[1]
    assert again.replace(",", "\t") == Path("drawn.tsv").read_text()
    assert cuspfa("impute", "fit.cusp", data, "--draws", 3, "--seed", 1)[1] != again


@pytest.mark.parametrize(
    "words", [["scores"], ["impute", "--std"], ["impute", "--draws", 3]], ids=str
)
def test_parquet_says_what_csv_says(cuspfa, words):
    rows = as_cells(incomplete())
    data = write_csv(
        "missing.csv", ["who", *"abcdefgh"], [[f"p{i}", *r] for i, r in enumerate(rows)]
    )
    assert cuspfa("fit", data, "--id", "who", "-o", "fit.cusp", "--quiet")[0] == 0
    command, *options = words
    asked = [command, "fit.cusp", data, "--id", "who", *options]
    assert cuspfa(*asked, "-o", "out.csv")[0] == 0
    code, out, _ = cuspfa(*asked, "-o", "out.parquet")
    assert (code, out) == (0, "")
    pd.testing.assert_frame_equal(
        pd.read_parquet("out.parquet"), pd.read_csv("out.csv"), check_dtype=False
    )


def test_as_many_tables_as_were_asked_for_of_a_sampler_that_kept_fewer(cuspfa):
    rows = incomplete()[:, :4]
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        method = Gibbs(n_draws=3, n_chains=1, burn_in=3)
        CuspFactorAnalysis(method=method, random_state=0).fit(rows).posterior_.save("fit.cusp")
    data = write_csv("missing.csv", "abcd", as_cells(rows))
    assert cuspfa("impute", "fit.cusp", data, "--draws", 7, "-o", "drawn.csv")[0] == 0
    assert pd.read_csv("drawn.csv")["draw"].value_counts().to_dict() == dict.fromkeys(
        range(1, 8), 60
    )


def test_names_of_rows_in_parquet(cuspfa):
    rows = answers().tolist()
    for number, (ids, kept) in enumerate(
        [
            (["7", "12", "-3"], [7, 12, -3]),
            (["007", "12", "1"], ["007", "12", "1"]),
            (["a", "", "b"], ["a", None, "b"]),
        ]
    ):
        full = [*ids, *(str(i) for i in range(100, 157))]
        data = write_csv(
            f"d{number}.csv",
            ["who", *"abcdefgh"],
            [[i, *r] for i, r in zip(full, rows, strict=True)],
        )
        assert cuspfa("fit", data, "--id", "who", "-o", "fit.cusp", "--quiet")[0] == 0
        assert cuspfa("scores", "fit.cusp", data, "--id", "who", "-o", "s.parquet")[0] == 0
        assert pyarrow.parquet.read_table("s.parquet")["who"].to_pylist()[:3] == kept


@pytest.mark.parametrize(
    ("head", "words", "name"),
    [
        ("a", ["impute", "--id", "a"], "a"),
        ("factor1", ["scores", "--id", "factor1"], "factor1"),
        ("draw", ["impute", "--id", "draw", "--draws", "2"], "draw"),
        ("a_std", ["impute", "--id", "a_std", "--std"], "a_std"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_no_two_columns_are_called_the_same(cuspfa, plain_csv, head, words, name, kind):
    assert cuspfa("fit", plain_csv, "-o", "fit.cusp", "--quiet")[0] == 0
    data = plain_csv
    if head != "a":
        rows = [[i, *row] for i, row in enumerate(answers().tolist())]
        data = write_csv("data.csv", [head, *"abcdefgh"], rows)
    code, _, err = cuspfa(words[0], "fit.cusp", data, *words[1:], "-o", f"out.{kind}")
    assert code == 2
    assert f"would be called '{name}'" in err
    assert not Path(f"out.{kind}").exists()


@pytest.mark.parametrize("command", ["scores", "impute"])
def test_codes_among_new_rows_are_told(cuspfa, plain_csv, command):
    assert cuspfa("fit", plain_csv, "-o", "fit.cusp", "--quiet")[0] == 0
    rows = answers()
    rows[[3, 9, 20, 31], 2] = -999
    data = write_csv("coded.csv", "abcdefgh", rows.tolist())
    code, _, err = cuspfa(command, "fit.cusp", data)
    assert code == 0
    assert "Warning: -999 occurs 4 times" in " ".join(err.split())
    assert "Warning" not in cuspfa(command, "fit.cusp", data, "--missing", "-999")[2]
    rows = answers()
    rows[[3, 9, 20, 31], [0, 2, 4, 6]] = -99  # once in each column
    data = write_csv("coded.csv", "abcdefgh", rows.tolist())
    said = " ".join(cuspfa(command, "fit.cusp", data)[2].split())
    assert "Warning: -99 occurs 4 times, far from all other values, in a, c, e, g." in said


def test_standard_output_that_is_closed(plain_csv):
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m cuspfa info nothing.cusp >&-"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "defect" not in done.stderr
    done = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m cuspfa fit answers.csv -o fit.cusp >&-"],
        capture_output=True,
        text=True,
        cwd=plain_csv.parent,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_impute_refuses(cuspfa, plain_csv):
    assert cuspfa("fit", plain_csv, "-o", "fit.cusp", "--quiet")[0] == 0
    assert cuspfa("impute", "fit.cusp", plain_csv)[2].startswith("No value is missing.")
    write_csv("some.csv", "abc", answers()[:, :3].tolist())
    for words, message in [
        (["fit.cusp", "some.csv"], "has no column 'd', 'e', 'f', 'g', 'h', which the fit needs"),
        (["fit.cusp", "answers.csv", "--draws", "0"], "--draws must be between 1 and 1000"),
        (["fit.cusp", "answers.csv", "--draws", "2", "--std"], "--std is for expected values"),
        (["fit.cusp", "answers.csv", "--seed", "-1"], "--seed must be a whole number not below 0"),
        (["fit.cusp", "answers.csv", "-o", "fit.cusp"], "would be lost"),
        (["fit.cusp", "answers.csv", "-o", "filled.sav"], "ends in .csv, .tsv, .xlsx or .parquet"),
    ]:
        code, out, err = cuspfa("impute", *words)
        assert code == 2
        assert message in err
        assert len(err.strip().splitlines()) == 1
        assert out == ""


def test_scores_of_a_fit_without_names(cuspfa, plain_csv):
    model = CuspFactorAnalysis(random_state=0).fit(answers())
    model.posterior_.save("fit.cusp")
    code, out, _ = cuspfa("scores", "fit.cusp", plain_csv)
    assert code == 0
    scores = np.array(list(csv.reader(io.StringIO(out)))[1:], dtype=float)
    np.testing.assert_allclose(scores, model.transform(answers()), rtol=5e-6)
    narrow = write_csv("narrow.csv", "ab", answers()[:, :2].tolist())
    code, _, err = cuspfa("scores", "fit.cusp", narrow)
    assert code == 2
    assert "has 2 columns, and the fit, which lacks column names, has 8" in err


def test_what_scores_refuses(cuspfa, plain_csv):
    assert cuspfa("fit", plain_csv, "-o", "fit.cusp", "--quiet")[0] == 0
    write_csv("some.csv", "abc", answers()[:, :3].tolist())
    write_csv("text.csv", "abcdefgh", [["x", *row[1:]] for row in answers().tolist()])
    for words, message in [
        (["fit.cusp", "some.csv"], "has no column 'd', 'e', 'f', 'g', 'h', which the fit needs"),
        (["fit.cusp", "text.csv"], """column 'a' must be numbers: text, such as "x\""""),
        (["answers.csv", "fit.cusp"], "not a fit saved by cuspfa"),
        (["fit.cusp", "fit.cusp"], "is a saved fit, not data"),
        (["fit.csp", "answers.csv"], "Did you mean 'fit.cusp'?"),
        ([".", "answers.csv"], "is a directory"),
        (["fit.cusp", "answers.csv", "-o", "fit.cusp"], "would be lost"),
        (["fit.cusp", "answers.csv", "-o", "scores.sav"], "ends in .csv, .tsv, .xlsx or .parquet"),
        (["fit.cusp", "answers.csv", "--id", "who"], "--id: there is no column 'who'"),
    ]:
        code, out, err = cuspfa("scores", *words)
        assert code == 2
        assert message in err
        assert len(err.strip().splitlines()) == 1
        assert out == ""


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_plot(cuspfa, small_fit, suffix, start):
    name = f"search.{suffix}"
    code, out, _ = cuspfa("plot", small_fit, "search", "-o", name)
    assert code == 0
    assert out == f"Written to {name}\n"
    assert Path(name).read_bytes().startswith(start)
    assert [path.name for path in Path().iterdir()] == [name]


def test_a_plot_that_fails_leaves_nothing(cuspfa, small_fit, monkeypatch):
    from matplotlib.figure import Figure

    def fail(self, path, **_):
        Path(path).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Figure, "savefig", fail)
    assert cuspfa("plot", small_fit, "search", "-o", "search.png")[0] == 130
    assert list(Path().iterdir()) == []


def svg_texts(path):
    """Words of a figure: matplotlib writes each as a comment before its outlines."""
    return re.findall(r"<!-- (.*?) -->", Path(path).read_text(encoding="utf-8"))


def test_plot_of_one_factor_by_number_or_name(cuspfa, small_fit):
    def drawn(*words):
        code, _, err = cuspfa("plot", small_fit, "forest", "-o", "f.svg", *words)
        assert (code, err) == (0, "")
        return [text for text in svg_texts("f.svg") if "of the variance" in text]

    assert drawn()[0].startswith("Factor 1,")
    assert drawn("--factor", 2)[0].startswith("Factor 2,")
    assert drawn("--factor", "worry", "--names", "Calm,Worry")[0].startswith("Worry,")
    assert drawn("--factor", "All") == []  # two titles of two lines
    titles = " ".join(svg_texts("f.svg"))
    assert "Factor 1" in titles
    assert "Factor 2" in titles
    for words, message in [
        (["forest", "--factor", "3"], "--factor: a factor must be a number from 1 to 2. Got 3"),
        (["forest", "--factor", "warm"], "--factor: a factor must be a number from 1 to 2"),
        (["forest", "--factor", ""], "--factor must be words with commas between them"),
        (["loadings", "--factor", "1"], "--factor is for forest. Leave it out for loadings."),
    ]:
        code, _, err = cuspfa("plot", small_fit, *words, "-o", "x.png")
        assert code == 2
        assert message in err
        assert not Path("x.png").exists()


def test_plot_of_eigenvalues(cuspfa, small_fit):
    code, out, _ = cuspfa("plot", small_fit, "scree", "-o", "scree.svg")
    assert (code, out) == (0, "Written to scree.svg\n")
    number = load(small_fit).summary().parallel
    assert f"Parallel analysis: {number} factors" in svg_texts("scree.svg")


def test_the_kinds_of_plot_are_those_of_the_library(cuspfa, small_fit):
    from cuspfa.reporting.plots import PLOTS

    code, out, _ = cuspfa("plot", "--help")
    assert code == 0
    assert all(kind in out for kind in PLOTS)
    code, _, err = cuspfa("plot", small_fit, "lodings", "-o", "x.png")
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert get_args(program.Picture) == tuple(PLOTS)
    code, _, err = cuspfa("plot", small_fit, "search", "-o", "x.gif")
    assert code == 2
    assert ".png, .svg or .pdf" in err
    assert list(Path().iterdir()) == []


# --- help, completion ---


def test_all_commands_are_there():
    first = ["fit", "select-n-factors", "check", "congruence", "prior-sensitivity", "scores"]
    others = ["impute", "info", "describe", "report", "table", "plot", "app"]
    others += ["completion", "reproduce"]
    assert first + others == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(cuspfa, command):
    code, out, _ = cuspfa(command, "--help")
    assert code == 0
    assert f"Example: cuspfa {command}" in out


def test_shell_completion():
    scripts = {}
    for shell in ("bash", "zsh", "fish"):
        done = run_python("-c", PROGRAM, "completion", shell, check=True)
        scripts[shell] = done.stdout
        assert "--exclude" in done.stdout or "exclude" in done.stdout
    assert all(command in script for script in scripts.values() for command in COMMANDS)
    for begun, whole in (("sc", "scores"), ("con", "congruence"), ("sel", "select-n-factors")):
        ask = f"COMP_WORDS=(cuspfa {begun}); COMP_CWORD=1; _cuspfa; echo ${{COMPREPLY[@]}}"
        told = subprocess.run(
            ["bash", "-c", f"{scripts['bash']}\n{ask}"], capture_output=True, text=True, check=True
        )
        assert told.stdout == f"{whole}\n"


@posix
def test_help_starts_in_half_a_second(tmp_path):
    """Of processor time, the best of three: others may be busy on this machine.

    The first leaves its bytecode, also where the package's own folder is not writable.
    """
    import resource

    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(tmp_path)

    def seconds():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", PROGRAM, "--help"]
        subprocess.run(command, capture_output=True, check=True, env=kept)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5


# --- model error ---


@pytest.fixture(scope="module")
def people_csv(tmp_path_factory):
    items = datasets.load_bfi(subset="items", as_frame=True).data.dropna()[:500]
    file = tmp_path_factory.mktemp("people") / "people.csv"
    items.to_csv(file, index=False)
    return file


def test_from_the_headline_to_the_solution_in_one_command(cuspfa, people_csv, tmp_path):
    saved = tmp_path / "fit.cusp"
    code, out, _ = cuspfa("fit", people_csv, "-o", saved, "--report", tmp_path / "fit.html")
    assert code == 0
    short = out.replace(str(people_csv), "people.csv")  # a command is printed whole
    fits_80_columns(re.sub(r"(Read|Written) .*", "", short))
    assert re.search(r"^7 factors can be told from chance; 5", out, re.MULTILINE)
    assert re.search(r"^tolerated RMSEA +0 +0.015 .* 0.1$", out, re.MULTILINE)
    command = next(line for line in out.splitlines() if line.startswith("  cuspfa fit"))
    assert command.endswith("--model-error 0.05 --rotation oblimin")
    assert "-o" not in command.split()  # nothing that was written is written over
    assert "--report" not in command
    code, info, _ = cuspfa("info", saved)
    assert code == 0
    assert command in info
    code, quiet, _ = cuspfa("fit", people_csv, "--quiet")
    assert code == 0
    assert quiet == load(saved).summary().headline + "\n"  # whole, however long
    code, out, _ = cuspfa(*shlex.split(command)[1:], "--json")
    assert code == 0
    found = json.loads(out)
    assert found["model_error"] == found["settings"]["model_error"] == 0.05
    assert found["n_factors"] == 5
    assert found["rotation"] == "oblimin"
    assert found["next_step"] is None
    assert found["headline"].startswith("5 factors")
    points = found["model_error_curve"]["points"]
    assert [one["n_factors"] for one in points if one["model_error"] in (0.0, 0.05)] == [7, 5]


def test_a_learned_error_lists_its_ridge(cuspfa, plain_csv, tmp_path):
    page = tmp_path / "report.html"
    code, out, _ = cuspfa("fit", plain_csv, "--model-error", "auto", "--report", page)
    assert code == 0
    assert "which was learned" in out
    assert "Factors, with model errors, within 3 nats of the best: 2 (0 to 0." in " ".join(
        out.split()
    )
    text = page.read_text()
    assert "which was learned with the number of factors" in text
    assert "model error to be learned" in text
    assert "model_error=&#39;auto&#39;" in text


@pytest.mark.parametrize("value", ["0.6", "-0.1", "much", "nan"])
def test_an_error_that_is_none(cuspfa, plain_csv, value):
    code, _, err = cuspfa("fit", plain_csv, f"--model-error={value}")
    assert code == 2
    assert "--model-error" in err
    assert "auto" in err


def test_robust_rows(cuspfa, tmp_path):
    rows = datasets.simulate(150, 8, 2, random_state=1).X
    rows[:3] += 6 * rows.std(axis=0) * np.array([1.0, -1.0] * 4)
    path = tmp_path / "rows.csv"
    np.savetxt(path, rows, delimiter=",", comments="", header=",".join("abcdefgh"))
    code, out, _ = cuspfa("fit", path, "--robust", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["settings"]["robust"] is True
    assert {one["row"] for one in found["row_weights"]["outlying"]} == {0, 1, 2}
    saved = tmp_path / "fit.cusp"
    code, out, _ = cuspfa("fit", path, "--robust", "-o", saved)
    assert "weights of the rows" in " ".join(cuspfa("info", saved)[1].split())
    assert "3 rows of 150 have weights below 0.3" in " ".join(out.split())
    rows[5, 2] = np.nan
    np.savetxt(path, rows, delimiter=",", comments="", header=",".join("abcdefgh"))
    code, _, err = cuspfa("fit", path, "--robust")
    assert code != 0
    assert "a robust fit needs complete rows" in " ".join(err.split())
