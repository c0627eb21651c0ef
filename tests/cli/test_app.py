"""The program as a person meets it: in a process of its own."""

import json
import os
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, __version__, datasets
from cuspfa.cli import progress as progress_module
from cuspfa.cli.app import run_program
from cuspfa.cli.outputs import write_text
from cuspfa.reporting.summary import summary_draws
from support import posix, run_python, variational_posterior


def cuspfa(*words, python_code=None, **kwargs):
    code = python_code or "from cuspfa.cli import main; main()"
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **kwargs.pop("env", {})}
    return run_python("-c", code, *words, env=environment, **kwargs)


@pytest.mark.long
def test_reproduce_prints_the_table_at_80_columns_and_writes_json(tmp_path):
    target = tmp_path / "table.json"
    done = cuspfa("reproduce", "--seed", "3", "--json", str(target))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Paper: Variational inference" in done.stdout
    assert "340" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if str(tmp_path) not in line)
    assert "\x1b" not in done.stdout
    table = json.loads(target.read_text())
    assert [row["method"] for row in table["rows"]] == [
        "variational-random-starts",
        "variational-search",
        "adaptive-gibbs",
    ]
    assert table["paper"][1] == {
        "method": "variational",
        "mse": 0.01,
        "expected_active_factors": 3.0,
        "seconds": 63.0,
    }
    assert table["versions"]["cuspfa"] == __version__
    sampled = table["rows"][2]
    assert 2.3 <= sampled["expected_active_factors"] <= 2.9
    assert 0 < sampled["expected_active_error"] < 0.25
    assert round(sampled["mse"], 2) == 0.01
    assert sampled["mse"] == pytest.approx(0.0087, abs=0.0008)  # the authors' tutorial
    for row in table["rows"][:2]:
        assert row["n_draws"] == 2000
        assert round(row["mse"], 2) == 0.01
        assert round(row["expected_active_factors"], 1) == 3.0
        assert row["seconds"] > 0
    searched = table["rows"][1]
    assert searched["lower_bound"] >= -5310.93
    assert searched["mse"] == pytest.approx(0.0090, abs=0.0004)
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.long
def test_where_the_figures_differ_it_says_why():
    """Seed 26 is one of the few whose random starts miss the best number of factors."""
    done = cuspfa("reproduce", "--quick", "--seed", "26")
    assert "not the paper's 3.0" in done.stdout
    assert "below the search" in done.stdout
    assert "200 draws" in done.stdout
    usual = cuspfa("reproduce", "--quick", "--seed", "0")
    assert "not the paper's" not in usual.stdout


def test_json_to_standard_output():
    done = cuspfa("reproduce", "--quick", "--json", "-")
    assert len(json.loads(done.stdout)["rows"]) == 3
    assert "Paper: Variational inference" in done.stderr


def test_a_narrow_terminal_loses_no_figure():
    done = cuspfa("reproduce", "--quick", env={"COLUMNS": "40"})
    assert all(len(line) <= 40 for line in done.stdout.splitlines())
    assert "340" in done.stdout
    assert "-5310.92" in done.stdout


@posix
def test_files_are_written_as_a_person_expects(tmp_path):
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert cuspfa("reproduce", "--quick", "--json", str(link)).returncode == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["quick"] is True
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        assert cuspfa("reproduce", "--quick", "--json", str(pipe)).returncode == 0
        assert json.loads(reader.communicate(timeout=60)[0])["quick"] is True
    assert pipe.is_fifo()


@posix
def test_a_full_disk_is_a_message():
    done = cuspfa("reproduce", "--quick", "--json", "/dev/full")
    assert done.returncode == 2
    assert "No space left" in done.stderr


def test_the_whole_file_or_nothing(tmp_path, monkeypatch):
    target = tmp_path / "table.json"
    target.write_text("old")

    def fail(handle):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_ctrl_c_says_so():
    code = (
        "import sys\nfrom cuspfa.cli.commands import reproduce\n"
        "from cuspfa.cli.app import run_program\n"
        "def press(**_): raise KeyboardInterrupt\n"
        "reproduce.reproduce_table = press\nsys.exit(run_program(['reproduce']))"
    )
    done = cuspfa(python_code=code)
    assert done.returncode == 130
    assert done.stderr == "Interrupted.\n"


def test_a_defect_is_told_from_a_mistake():
    code = (
        "import sys\nfrom cuspfa.cli.commands import reproduce\n"
        "from cuspfa.cli.app import run_program\n"
        "reproduce.reproduce_table = lambda **_: 1 / 0\nsys.exit(run_program(['reproduce']))"
    )
    done = cuspfa(python_code=code)
    assert done.returncode == 1
    assert "unexpected ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_defect():
    code = "from cuspfa.cli import main; main()"
    program = f"'{sys.executable}' -c '{code}' reproduce --quick"
    command = f"{program} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines()[-1] in ("0", "141")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "--seed", "x"], "--seed"),
        (["reproduce", "--seed", "1.5"], "must be a whole number"),
        (["reproduce", "--seed", "-1"], "seed must be a whole number not below 0. Got -1"),
        (["reproduce", "--json", "no/such/folder/x.json"], "there is no directory"),
        (["reproduce", "--json", "."], "must be a file"),
        (["reproduce", "extra"], "extra"),
        (["reprodcue"], "Did you mean reproduce"),
    ],
)
def test_errors_are_one_line(words, message):
    done = cuspfa(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_debug_shows_the_traceback():
    done = cuspfa("--debug", "reproduce", "--seed", "-1")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_help_and_version():
    done = cuspfa("--help")
    assert done.returncode == 0
    assert "reproduce" in done.stdout
    assert cuspfa("--version").stdout.strip() == __version__
    assert "Example: cuspfa reproduce" in cuspfa("reproduce", "--help").stdout
    assert cuspfa().returncode == 0
    module = [sys.executable, "-m", "cuspfa", "--version"]
    assert subprocess.run(module, capture_output=True, check=True).stdout
    assert "--debug" in done.stdout


def test_help_does_not_load_the_numerical_stack():
    code = (
        "import sys\nfrom cuspfa.cli.app import run_program\nrun_program(['--help'])\n"
        "assert 'numpy' not in sys.modules and 'sklearn' not in sys.modules"
    )
    assert cuspfa(python_code=code).returncode == 0


def test_without_the_app_extra_it_says_what_to_install():
    code = "import sys; sys.modules['cyclopts'] = None\nfrom cuspfa.cli import main; main()"
    done = cuspfa("reproduce", python_code=code)
    assert done.returncode == 2
    assert done.stderr == ("The cuspfa program needs more packages: pip install 'cuspfa[cli]'\n")


# --- progress, files and figures ---


def test_a_long_stage_without_news_is_in_the_log(monkeypatch, capsys):
    monkeypatch.setattr(progress_module, "FIRST", 0.3)
    monkeypatch.setattr(progress_module, "LEAST_WAIT", 0.05)
    with progress_module.progress() as bar:
        bar.say("draws from the posterior")
        assert capsys.readouterr().err == ""  # not yet due
        time.sleep(0.5)
    assert capsys.readouterr().err == "draws from the posterior; 0 s\n"
    with progress_module.progress():
        time.sleep(0.4)
    assert capsys.readouterr().err == ""  # nothing to say


def test_of_many_factors_there_are_fewer_draws(monkeypatch):
    model = CuspFactorAnalysis(n_factors=2).fit(datasets.simulate(60, 6, 2, random_state=1).X)
    posterior = variational_posterior(model)
    assert len(summary_draws(posterior)) == 1000
    monkeypatch.setattr("cuspfa.reporting.summary.MANY_FACTORS", 1)
    draws = summary_draws(posterior)
    assert len(draws) == 200
    expected = posterior.draw(200, random_state=0, sweeps=1).loadings
    np.testing.assert_array_equal(draws.loadings, expected)


def test_matplotlib_says_nothing_of_its_cache(tmp_path):
    rows = datasets.simulate(60, 6, 1, random_state=3).X
    fit = tmp_path / "a fit.cusp"
    CuspFactorAnalysis(n_factors=1).fit(rows).posterior_.save(fit)
    place = {"HOME": "/proc", "XDG_CACHE_HOME": "/proc", "XDG_CONFIG_HOME": "/proc"}
    kept = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    words = ["plot", str(fit), "trace", "-o", str(tmp_path / "trace.png")]
    done = run_python("-m", "cuspfa", *words, env=kept | place)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fit_in_place_of_data_is_named_as_a_shell_wants_it(tmp_path, capsys):
    rows = datasets.simulate(60, 6, 1, random_state=3).X
    fit = tmp_path / "a fit.cusp"
    CuspFactorAnalysis(n_factors=1).fit(rows).posterior_.save(fit)
    assert run_program(["fit", str(fit)]) == 2
    assert f"cuspfa info '{fit}'" in capsys.readouterr().err


def test_two_outputs_of_one_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_program(["fit", "--example", "bfi", "--report", "./x.out", "-o", "x.out"]) == 2
    assert "-o and --report must be two files. Got 'x.out' for both." in capsys.readouterr().err
