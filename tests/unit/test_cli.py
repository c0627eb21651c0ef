"""The program as a person meets it: in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from cuspfa import __version__
from cuspfa.reproduce import reproduce


def cuspfa(*words, python_code=None, **kwargs):
    code = python_code or "from cuspfa.cli import main; main()"
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **kwargs.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
        **kwargs,
    )


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
    assert [row["method"] for row in table["rows"]] == ["variational-random-starts"]
    assert table["paper"][1] == {
        "method": "variational",
        "mse": 0.01,
        "expected_active_factors": 3.0,
        "seconds": 63.0,
    }
    assert table["versions"]["cuspfa"] == __version__
    row = table["rows"][0]
    assert row["n_draws"] == 2000
    assert round(row["mse"], 2) == 0.01
    assert round(row["expected_active_factors"], 1) == 3.0
    assert row["seconds"] > 0
    assert list(tmp_path.iterdir()) == [target]


def test_the_table_is_not_written_in_advance():
    """Another seed gives other figures, the same seed the same."""
    a, b, c = (reproduce(seed=seed, quick=True).rows[0] for seed in (0, 0, 10))
    assert (a.mse, a.lower_bound) == (b.mse, b.lower_bound)
    assert a.lower_bound != c.lower_bound
    assert a.n_draws == 200


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce", "--seed", "x"], "--seed"),
        (["reproduce", "--seed", "-1"], "seed must be a whole number not below 0. Got -1"),
        (["reproduce", "--json", "no/such/folder/x.json"], "there is no directory"),
        (["reproduce", "--json", "."], "must be a file"),
        (["reproduce", "extra"], "extra"),
        (["reprodcue"], 'Did you mean "reproduce"'),
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


def test_help_does_not_load_the_numerical_stack():
    code = (
        "import sys\nfrom cuspfa.cli.app import run\nrun(['--help'])\n"
        "assert 'numpy' not in sys.modules and 'sklearn' not in sys.modules"
    )
    assert cuspfa(python_code=code).returncode == 0


def test_without_the_app_extra_it_says_what_to_install():
    code = "import sys; sys.modules['cyclopts'] = None\nfrom cuspfa.cli import main; main()"
    done = cuspfa("reproduce", python_code=code)
    assert done.returncode == 2
    assert done.stderr == ("The cuspfa program needs more packages: pip install 'cuspfa[app]'\n")
