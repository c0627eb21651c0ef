"""The compiled core is optional: what is said without it, and that answers are the same."""

import re
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis
from cuspfa.datasets import simulate
from cuspfa.errors import PerformanceWarning
from cuspfa.inference import _kernels
from cuspfa.model.slabs import InverseGammaSlab


@pytest.fixture
def no_core(monkeypatch):
    """As on a machine where the extensions were not built."""

    def missing(name):
        raise ImportError(name)

    monkeypatch.delenv(_kernels.SWITCH, raising=False)
    monkeypatch.setattr(_kernels, "import_module", missing)
    _kernels.kernel.cache_clear()
    yield
    _kernels.kernel.cache_clear()


DATA = simulate(120, 10, 2, random_state=3).X


def test_a_fit_says_once_what_is_missing(no_core):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            CuspFactorAnalysis().fit(DATA)
    (told,) = [one for one in caught if issubclass(one.category, PerformanceWarning)]
    assert "compiled core of cuspfa is not built" in str(told.message)
    assert "C compiler" in str(told.message)
    assert told.filename == __file__


def test_nothing_is_said_where_it_was_switched_off(no_core, monkeypatch):
    monkeypatch.setenv(_kernels.SWITCH, "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CuspFactorAnalysis().fit(DATA)


def test_the_switch_is_read(monkeypatch):
    _kernels.kernel.cache_clear()
    monkeypatch.setenv(_kernels.SWITCH, "1")
    assert _kernels.kernel("iteration") is None
    _kernels.kernel.cache_clear()


@pytest.mark.skipif(_kernels.kernel("iteration") is None, reason="the compiled core is not built")
def test_answers_are_the_same_without_it(request):
    with_core = CuspFactorAnalysis().fit(DATA)
    request.getfixturevalue("no_core")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)
        without = CuspFactorAnalysis().fit(DATA)
    assert with_core.n_factors_ == without.n_factors_
    one, two = with_core.posterior_, without.posterior_
    assert one.fit_info.lower_bound == pytest.approx(two.fit_info.lower_bound, abs=1e-8)
    drawn, again = (post.draw(50, random_state=1).covariance for post in (one, two))
    np.testing.assert_allclose(drawn, again, rtol=1e-8, atol=1e-8)


def test_wheels_are_tried_with_all_kernels():
    """The command that tries a wheel names them, and an extension that was not built is missed."""
    root = Path(__file__).parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    (named,) = re.findall(r"map\(kernel, '(.*?)'", project["tool"]["cibuildwheel"]["test-command"])
    sources = (root / "src/cuspfa/inference/_kernels").glob("*.pyx")
    assert named.split() == sorted(source.stem for source in sources)


def test_a_subclass_of_a_slab_is_left_to_numpy():
    """It may have formulas of its own, which no kernel knows."""

    @dataclass(frozen=True)
    class Wider(InverseGammaSlab):
        def log_density(self, squared_norm, p):
            return super().log_density(squared_norm / 2, p)

    assert InverseGammaSlab().kernel_form() is not None
    assert Wider().kernel_form() is None
