"""Tables of every kind through every entry point: a right result or a documented error.

`make calibration` tries more than ten thousand, see benchmarks/robustness.py.
"""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from cuspfa.errors import CuspError, CuspWarning
from robustness import entry_points
from robustness.entry_points import ENTRY_POINTS, RobustnessError, check
from robustness.tables import WRAPPINGS, Recipe, is_good, plain, recipes

SLOW = ("plots", "report")
QUICK = [entry for entry in ENTRY_POINTS if entry not in ("select_n_factors", "prior_sensitivity")]


@pytest.mark.parametrize("entry", [entry for entry in QUICK if entry not in SLOW])
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(recipe=recipes())
def test_any_table_through(entry, recipe):
    check(entry, recipe)


@pytest.mark.parametrize("entry", SLOW)
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(recipe=recipes())
def test_any_table_through_what_draws(entry, recipe):
    check(entry, recipe)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool", "object"])
def test_good_tables_are_taken_in_every_wrapping(wrapping, dtype):
    recipe = Recipe(n=25, p=4, factors=1, wrapping=wrapping, dtype=dtype)
    assert is_good(recipe, plain(recipe)) is True
    assert check("estimator", recipe) == "right"


FOUND = {
    "an arrow table without columns": ("estimator", Recipe(n=4, p=0, wrapping="arrow")),
    "an arrow batch without columns": ("new_rows", Recipe(n=4, p=0, wrapping="arrow batch")),
    "a factor without loadings, saved": (
        "files",
        Recipe(n=3, p=1, seed=1175149654, offset=10.0),
    ),
    "promax of loadings that depend on each other": ("settings", Recipe(n=2, p=2, seed=0)),
    "bytes of a frame in another order": ("estimator", Recipe(dtype=">f8", wrapping="pandas")),
    "loadings that are complex": ("matrices", Recipe(n=7, p=6, odd="complex")),
    "sizes that differ by 1e100, not standardised": (
        "settings",
        Recipe(
            n=30,
            p=20,
            factors=4,
            seed=1563938101,
            relation="all alike",
            spread=100.0,
            wrapping="coo",
        ),
    ),
    "loadings that cannot be squared": ("matrices", Recipe(n=3, p=3, scale=1e300, wrapping="list")),
    "moments that overflow": ("moments", Recipe(n=12, p=20, scale=1e155, offset=10.0)),
    "sizes that differ by 1e100, random starts": (
        "settings",
        Recipe(n=25, p=40, seed=1636693872, spread=100.0),
    ),
    "determinacy of loadings that differ by 1e100": (
        "matrices",
        Recipe(n=12, p=12, seed=1228252251, spread=100.0, offset=1e13, wrapping="subclass"),
    ),
    "fewer rows than columns, with missing values": (
        "results",
        Recipe(n=7, p=15, factors=2, seed=136091595, missing="few"),
    ),
    "a sparse matrix in single precision far from zero": (
        "results",
        Recipe(n=8, p=20, factors=2, seed=1871295247, offset=1e4, dtype="float32", wrapping="csc"),
    ),
    "a stream of numbers that cannot be squared": (
        "stream",
        Recipe(n=25, p=15, factors=1, relation="all alike", scale=1e155, offset=10.0),
    ),
    "a stream without columns": ("stream", Recipe(n=12, p=0)),
    "rotation of no rows": ("matrices", Recipe(n=0, p=4, wrapping="pandas sparse")),
}
"""What the robustness found, once it was put right."""


@pytest.mark.parametrize("name", FOUND)
def test_found_by_random_tables(name):
    check(*FOUND[name])


# --- the oracle can fail ---


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (lambda table, *_: np.linalg.cholesky(-np.eye(2)), "LinAlgError"),
        (lambda table, *_: warnings.warn("divide", RuntimeWarning, stacklevel=1), "not its own"),
        (lambda table, *_: table.__setitem__((0, 0), 7.0), "changed its input"),
        (lambda table, *_: np.random.rand(), "global random"),  # noqa: NPY002
        (lambda table, *_: entry_points._finite("x", [np.nan]), "not finite"),
        (
            lambda *_: [warnings.warn("again", CuspWarning, stacklevel=1) for _ in range(20)],
            "20 warnings",
        ),
        (lambda *_: _refuse(), "refused good data"),
    ],
)
def test_oracle_sees_what_is_wrong(entry, message, monkeypatch):
    np.random.rand()  # noqa: NPY002 - so that one more number changes no other than the place
    monkeypatch.setitem(ENTRY_POINTS, "estimator", entry)
    with pytest.raises(RobustnessError, match=message):
        check("estimator", Recipe())


def _refuse():
    raise CuspError("I do not like this table at all.")


def test_oracle_sees_what_hangs(monkeypatch):
    def hang(*_):
        while True:
            pass

    monkeypatch.setitem(ENTRY_POINTS, "estimator", hang)
    monkeypatch.setattr(entry_points, "PATIENCE", 0.2)
    with pytest.raises(RobustnessError, match="hangs"):
        check("estimator", Recipe())
