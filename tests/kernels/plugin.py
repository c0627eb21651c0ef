"""`pytest -p kernels.plugin`: the tests end at once unless the setting is in effect."""

from kernels.settings import assert_in_effect, selected


def pytest_sessionstart():
    assert_in_effect()


def pytest_report_header():
    return f"uses {selected()}"
