"""What the tests of compiled kernels share."""

import pytest


@pytest.fixture
def both_ways(monkeypatch):
    """A function's answers by the kernel and by NumPy."""

    def answers(module, call):
        compiled = call()
        with monkeypatch.context() as patch:
            patch.setattr(module, "kernel", lambda name: None)
            return compiled, call()

    return answers
