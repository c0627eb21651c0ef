"""The program in the process of the tests."""

import pytest

from cuspfa.cli.app import run_program


@pytest.fixture
def plain_terminal(monkeypatch, tmp_path):
    """No settings of a terminal in the environment; the working folder is an empty one."""
    for name in ("FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cuspfa(plain_terminal, capsys):
    """Run the program: its exit code, standard output and standard error."""

    def call(*words):
        capsys.readouterr()
        code = run_program([str(word) for word in words])
        done = capsys.readouterr()
        assert "Traceback" not in done.err
        return code, done.out, done.err

    return call
