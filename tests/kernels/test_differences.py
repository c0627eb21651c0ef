"""What a comparison of answers must see, and whether a setting is in effect."""

import platform

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis
from kernels import run, settings
from kernels.answers import answers, fitted
from kernels.cases import Case, rows
from kernels.differences import differences, largest
from kernels.settings import Selected, Setting

CASE = Case("simulated 1", "default")


@pytest.fixture(scope="module")
def answered():
    return answers(fitted(CASE), rows(CASE.data))


def test_the_same_answers_do_not_differ(answered):
    assert answered["K"] >= 2
    assert differences(answered, answers(fitted(CASE), rows(CASE.data))) == []


def test_rounding_is_no_difference_and_more_is(answered):
    for what in ("loadings", "draws of covariance", "imputed"):
        assert differences(answered, answered | {what: answered[what] * (1 + 1e-12)}) == []
        found = differences(answered, answered | {what: answered[what] * (1 + 1e-3)})
        assert [words.rsplit(" ", 1)[0] for words in found] == [what]


def test_another_number_of_factors_is_seen(answered):
    wrong = CuspFactorAnalysis(n_factors=int(answered["K"]) - 1).fit(rows(CASE.data))
    (found,) = differences(answered, answers(wrong, rows(CASE.data)))
    assert found == f"K {answered['K']} and {answered['K'] - 1}"


def test_draws_on_a_basis_with_one_sign_turned_are_seen(answered):
    """The same distribution and random numbers; through the symmetric root the sign is of no
    effect."""
    values, vectors = np.linalg.eigh(answered["covariance"])
    turned = vectors * np.where(np.arange(len(values)) == 2, -1.0, 1.0)
    z = np.random.default_rng(0).standard_normal((200, len(values)))
    by_basis, by_root = (
        [answered | {"draws of noise": z @ root(v)} for v in (vectors, turned)]
        for root in (
            lambda v: np.sqrt(values)[:, None] * v.T,
            lambda v: v * np.sqrt(values) @ v.T,
        )
    )
    assert [words.rsplit(" ", 1)[0] for words in differences(*by_basis)] == ["draws of noise"]
    assert differences(*by_root) == []


def table(chosen, evidence, error):
    return {
        "K": np.array(chosen),
        "table K": np.arange(1, 1 + len(evidence)),
        "table evidence": np.array(evidence),
        "table error": np.full(len(evidence), error),
    }


def test_numbers_of_factors_that_tie_may_differ():
    """The smaller is chosen if it is less than two nats behind."""
    less, more = [-120.0, -101.9, -100.0, np.nan], [-120.0, -102.1, -100.0, np.nan]
    assert differences(table(2, less, 0.1), table(3, more, 0.1)) == []
    assert differences(table(2, less, 0.01), table(3, more, 0.01)) == ["K 2 and 3"]
    assert differences(table(2, less, np.nan), table(3, more, np.nan)) == ["K 2 and 3"]
    clear = [-120.0, -104.0, -100.0, np.nan]
    assert differences(table(3, clear, 0.1), table(2, clear, 0.1)) == ["K 3 and 2"]


def test_status_and_bound_are_compared(answered):
    other = answered | {"status": np.array("stopped"), "bound": answered["bound"] + 0.06}
    assert len(differences(answered, other)) == 2
    assert differences(answered, answered | {"bound": answered["bound"] + 0.04}) == []


def test_the_largest_difference_is_reported(answered):
    moved = answered | {"noise": answered["noise"] + 1e-4}
    found = largest({"a": answered, "b": answered}, {"a": answered, "b": moved})
    assert found["noise"] == (pytest.approx(1e-4), "b")
    assert found["loadings"][0] == 0


# --- settings ---


def test_a_setting_without_effect_is_seen():
    haswell = Selected({"numpy": "Haswell", "scipy": "Haswell"}, ["X86_V3"], compiled=True)
    nehalem = Setting("Nehalem", {}, {"Nehalem"})
    assert len(settings.wrong(nehalem, haswell)) == 2
    assert settings.wrong(nehalem, haswell._replace(kernels={"numpy": "Nehalem"})) == []
    assert settings.wrong(nehalem, haswell._replace(kernels={}))
    less = Setting("without X86_V3", {}, disabled=["X86_V3"])
    assert settings.wrong(less, haswell) == ["NumPy still has X86_V3"]
    assert settings.wrong(less, haswell._replace(features=[])) == []
    assert settings.wrong(settings.NUMPY_ALONE, haswell) == ["the compiled core runs"]
    assert settings.wrong(settings.NUMPY_ALONE, haswell._replace(compiled=False)) == []


def test_no_kernel_is_tried_that_the_processor_cannot_run(monkeypatch):
    monkeypatch.setattr(settings, "HAS", {"SSE3", "SSE42"})
    monkeypatch.setattr(
        settings, "selected", lambda: Selected({"numpy": "Nehalem"}, [], compiled=False)
    )
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    found, notes = settings.settings()
    assert [one.name for one in found] == ["Prescott", "Nehalem"]
    assert "Haswell: this processor lacks AVX2 FMA3." in notes


def test_without_openblas_it_is_said(monkeypatch):
    monkeypatch.setattr(settings, "selected", lambda: Selected({}, ["NEON"], compiled=True))
    found, notes = settings.settings()
    assert [one.name for one in found] == ["without NEON", "NumPy alone"]
    assert "not OpenBLAS" in notes[0]


# --- the run ---


@pytest.mark.parametrize(
    ("answered_by_nehalem", "tests", "code"),
    [("same", 0, 0), ("other", 0, 1), ("not in effect", 0, 1), ("same", 1, 1)],
)
def test_the_run_fails_for_other_answers_tests_and_settings(
    answered, answered_by_nehalem, tests, code, monkeypatch, capsys
):
    def child(setting, module, *rest):
        if module == "pytest":
            return run.Done(tests, "90 passed" if tests == 0 else "1 failed", 1.0)
        if setting.name == "Nehalem" and answered_by_nehalem == "not in effect":
            return run.Done(1, "AssertionError: Nehalem has not taken effect", 1.0)
        other = setting.name == "Nehalem" and answered_by_nehalem == "other"
        np.savez(rest[0], **{
            f"some/default|{what}": value + (what == "bound" and other)
            if value.dtype.kind == "f" else value
            for what, value in answered.items()
        })  # fmt: skip
        return run.Done(0, f"uses {setting.name}\n", 1.0)

    monkeypatch.setattr(run, "child", child)
    monkeypatch.setattr(run, "chosen", lambda: ("uses Haswell", [Setting("Nehalem", {})], []))
    assert run.main([]) == code
    out = capsys.readouterr().out
    assert ("1 of 1 answers the same; 90 passed" in out) == (code == 0)
    assert f"{1 - code} of 1 settings pass" in out
