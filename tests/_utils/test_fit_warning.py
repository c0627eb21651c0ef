"""Warnings of a fit: values, their words in Python and on the command line, and their files."""

from __future__ import annotations

import ast
import json
import math
import tempfile
import zipfile
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import cuspfa
from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    Gibbs,
    InverseGammaSlab,
    Moments,
    Rotation,
    Variational,
    datasets,
    load,
)
from cuspfa._utils import fit_warning as values
from cuspfa._utils.fit_warning import (
    AtLedermannBound,
    BoundDecreased,
    ChainsNotConverged,
    ColumnLimitReached,
    ColumnRef,
    ColumnsDropped,
    CorrelationsUnexplained,
    CountsNotConverged,
    DependentColumns,
    DeterminedColumns,
    EmptyFactors,
    EmptyRows,
    EvidenceRising,
    FactorLimitReached,
    FewRows,
    FewRowsForCounts,
    FewRowsForFactors,
    FewRowsForWeights,
    FitWarning,
    HeywoodCases,
    InactiveFactors,
    IterationLimit,
    LongFit,
    LowKmo,
    ModelErrorNotLearned,
    ModeNotFound,
    NearConstant,
    NeverCoObserved,
    PossibleMissingCode,
    RareCategories,
    ReadingNote,
    SamplerOutOfTime,
    SingleValueRows,
    SkewedItems,
    TemperedLikelihood,
    TooFewDraws,
    UncertainAxes,
    VariationalOutOfTime,
    WeightsNotConverged,
    column,
)
from cuspfa._utils.fit_warning_text import engine_code, python_text, terminal_text
from cuspfa._utils.spelling import EngineSettings
from cuspfa.data.provenance import DataProvenance
from cuspfa.data.tables.notes import DroppedColumn, Note
from cuspfa.data.tables.read_options import ReadOptions
from cuspfa.errors import ConvergenceWarning, CuspWarning, FileError, InputError
from cuspfa.inference.engine import engine_settings
from cuspfa.io import posterior_format
from cuspfa.posterior.files import POSTERIOR_CLASSES
from cuspfa.posterior.provenance import Origin
from cuspfa.reporting.provenance_text import data_text, remarks, settings_text
from cuspfa.reporting.recipe import python_recipe

X = datasets.simulate(150, 8, 2, random_state=1).X
ENGINE = EngineSettings("variational", {"tol": 0.01})
SAMPLER = EngineSettings("gibbs", {"n_chains": 2})
EVERY: list[FitWarning] = [
    ReadingNote(Note("no_header", count=7)),
    ColumnsDropped((DroppedColumn("name", "text"), DroppedColumn("age", "few", 3, 60))),
    PossibleMissingCode(("a", "b"), 9, False),
    EmptyRows(3, 97),
    NearConstant((ColumnRef(2, "income"), ColumnRef(5)), 1, 90),
    DependentColumns((ColumnRef(0, "a"), ColumnRef(4, "b")), 2, 6),
    DeterminedColumns(((ColumnRef(3, "b"), ColumnRef(0, "a")), (ColumnRef(4), ColumnRef(1)))),
    NeverCoObserved(16, ColumnRef(0, "a"), ColumnRef(4, "b")),
    SingleValueRows(60, 120),
    InactiveFactors(3, 0, 0.3),
    EmptyFactors(8, 6),
    AtLedermannBound(1, 4),
    FactorLimitReached(100, 100, False, 321.4),
    EvidenceRising(12.5),
    ColumnLimitReached(3),
    ModelErrorNotLearned("rows", 20, 30),
    TemperedLikelihood(0.05, "missing", 170, 30, False),
    FewRowsForFactors(2, 60),
    FewRowsForCounts(2, 60),
    FewRowsForWeights(20, 15),
    WeightsNotConverged(1000),
    IterationLimit(2, 1e-9),
    VariationalOutOfTime(0.3, False, None),
    BoundDecreased(),
    SamplerOutOfTime(5.0),
    ModeNotFound((1, 2)),
    ChainsNotConverged(math.inf, "log-likelihood", 500, 5),
    TooFewDraws(31.0, "number of factors", 40, 1),
]
ANNOUNCED = LongFit(100, 5000, 0.4, 130.0, False)
NOT_KEPT = [
    RareCategories(("Q1: 6",), ("Q2: 3",), 5),
    ANNOUNCED,
    FewRows(12, 4),
    HeywoodCases(("a", "b")),
    SkewedItems(("a", "c"), 9),
    CorrelationsUnexplained(0.004),
    CountsNotConverged(2000, 0.1),
    LowKmo(0.41),
    UncertainAxes("varimax", 0.83),
]
"""Those that are computed from a fit when it is shown, or announced before it."""


def of(warning: FitWarning) -> EngineSettings:
    sampled = (ColumnLimitReached, SamplerOutOfTime, ChainsNotConverged, TooFewDraws)
    return SAMPLER if isinstance(warning, sampled) else ENGINE


def kinds() -> set[type[FitWarning]]:
    found = {one for one in vars(values).values() if isinstance(one, type)}
    return {one for one in found if issubclass(one, FitWarning) and one is not FitWarning}


def test_every_kind_is_tried_and_has_a_code_of_its_own() -> None:
    assert {type(one) for one in [*EVERY, *NOT_KEPT]} == kinds()
    assert len({kind.code for kind in kinds()}) == len(kinds())


@pytest.mark.parametrize("warning", [*EVERY, *NOT_KEPT], ids=lambda one: one.code)
def test_words_of_both_forms(warning: FitWarning) -> None:
    python, program = (text(warning, of(warning)) for text in (python_text, terminal_text))
    for text in (python, program):
        assert text[0].isupper() or text[0].isdigit() or text.startswith(("column", "n_f", "--f"))
        assert text == " ".join(text.split())
        assert "None" not in text.replace("CuspPrior(spike=None)", "")
        assert "nan" not in text
    assert "--" not in python
    for argument in ("n_factors", "max_factors=", "max_time=", "callback"):
        assert argument not in program


@pytest.mark.parametrize("warning", EVERY, ids=lambda one: one.code)
def test_code_and_fields_for_json(warning: FitWarning) -> None:
    found = warning.to_dict()
    assert found.pop("code") == warning.code
    assert list(found) == [one.name for one in fields(warning)]
    json.dumps(found)


def test_advice_for_python_is_code_with_the_other_settings() -> None:
    advised = python_text(IterationLimit(2, 0.01), EngineSettings("variational", {"tol": 0.01}))
    assert "method=Variational(max_iter=4, tol=0.01)" in advised
    advised = python_text(FactorLimitReached(7, 100, True, None), ENGINE)
    assert "max_factors=7 allows" in advised
    assert "method=Variational(max_factors=14, tol=0.01), or leave it out" in advised
    assert "give it: n_factors=7." in advised
    advised = python_text(VariationalOutOfTime(0.3, False, 50.0), EngineSettings("variational"))
    assert "max_time=0.3 seconds" in advised
    assert "rose by about 50 nats" in advised
    assert "method=Variational(max_time=3.0), or leave it out; or give the number" in advised
    assert "rose" not in python_text(VariationalOutOfTime(0.3, False, 5.0))


def test_advice_for_the_program_has_its_options() -> None:
    advised = terminal_text(FactorLimitReached(100, 100, False, None), ENGINE)
    assert "as --max-factors 100 (the default) allows" in advised
    assert "raise it: --max-factors 200. To keep this number, give it: --factors 100." in advised
    assert "--max-time 3, or leave it out" in terminal_text(
        VariationalOutOfTime(0.3, True, None), ENGINE
    )
    assert "have the number found: no --factors." in terminal_text(EmptyFactors(3, 1))
    # Settings that are no options of the program are said to be Python's.
    longer = terminal_text(ChainsNotConverged(1.21, "log-likelihood", 500, 5), SAMPLER)
    assert "R-hat = 1.21 (log-likelihood): the chains have not converged." in longer
    assert "in Python, method=Gibbs(n_chains=2, thin=20)" in longer


def test_columns_are_named_as_the_data_name_them() -> None:
    assert column(1, None) == column(1, [0, 1]) == ColumnRef(1)
    assert column(1, ["a", "b"]) == ColumnRef(1, "b")
    assert column(1, [2010, 2011]) == ColumnRef(1, "2011")
    said = NearConstant((ColumnRef(1, "2011"),), 1, 90)
    assert python_text(said).startswith("column '2011' (index 1) is nearly constant")


def test_settings_that_differ_from_the_defaults() -> None:
    method = Gibbs(thin=np.int64(7), max_time=3, callback=print, checkpoint_dir="somewhere")
    found = engine_settings(method)
    assert found == EngineSettings("gibbs", {"thin": 7, "max_time": 3})
    assert type(found.values["thin"]) is int
    assert engine_settings(Variational()) == EngineSettings("variational")
    assert eval(engine_code(found), {"Gibbs": Gibbs}).get_params() == (
        Gibbs(thin=7, max_time=3).get_params()
    )


# --- a fit ---


def test_a_fit_keeps_the_values_that_it_warns_of() -> None:
    data = np.column_stack([X, np.arange(150) == 7])
    model = CuspFactorAnalysis(method=Variational(max_factors=1, max_iter=2, tol=1e-9))
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(data)
    provenance = model.posterior_.provenance
    assert provenance is not None
    assert provenance.warnings == (
        NearConstant((ColumnRef(8),), 1, 150),
        FactorLimitReached(1, 100, True, None),
        IterationLimit(2, 1e-9),
    )
    said = " ".join(python_text(one, provenance.settings.engine) for one in provenance.warnings)
    assert [str(one.message) for one in caught] == [said]
    quiet = CuspFactorAnalysis().fit(X).posterior_.provenance
    assert quiet is not None
    assert quiet.warnings == ()


@pytest.mark.parametrize("rotation", [None, "varimax"])
def test_given_factors_without_loadings_are_counted_on_principal_axes(rotation: Any) -> None:
    with pytest.warns(CuspWarning, match="have no loadings"):
        model = CuspFactorAnalysis(n_factors=8, rotation=rotation).fit(X)
    assert model.posterior_.provenance.warnings == (EmptyFactors(8, 6),)


@pytest.mark.parametrize(
    "method", ["variational", Gibbs(n_draws=200, n_chains=2, burn_in=200)], ids=str
)
def test_a_posterior_is_built_once_and_keeps_what_is_cached(method: Any) -> None:
    names = [f"item {j}" for j in range(8)]
    made = []
    for source in (X, Moments.from_rows(X)):
        model = CuspFactorAnalysis(method=method, rotation="varimax", random_state=0)
        with pytest.warns(CuspWarning) if method != "variational" else _nothing():
            model._fit(source, names)
        made.append(model.posterior_)
        assert vars(model.posterior_)["rotated_solution"].loadings is model.loadings_
        assert model.posterior_.rotation == Rotation("varimax")
        assert model.posterior_.provenance.settings.rotation == Rotation("varimax")
    assert made[0].names == names
    assert made[1].names is None  # moments have names of their own, or none


class _nothing:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


# --- files ---


POSTERIOR = CuspFactorAnalysis().fit(X).posterior_


def content_with(*warnings: FitWarning) -> dict[str, Any]:
    assert POSTERIOR.provenance is not None
    posterior = replace(POSTERIOR, provenance=replace(POSTERIOR.provenance, warnings=warnings))
    with tempfile.TemporaryDirectory() as folder:
        posterior.save(f"{folder}/fit")
        with zipfile.ZipFile(f"{folder}/fit") as file:
            return json.loads(file.read("fit.json"))  # type: ignore[no-any-return]


def read_again(content: dict[str, Any]) -> Any:
    return posterior_format.check_entries(json.dumps(content).encode(), POSTERIOR_CLASSES)[
        "provenance"
    ]


def test_warnings_of_every_kind_come_back_from_a_file() -> None:
    assert read_again(content_with(*EVERY)).warnings == tuple(EVERY)


@pytest.mark.parametrize("warning", EVERY, ids=lambda one: one.code)
def test_a_warning_with_a_wrong_field_is_refused(warning: FitWarning) -> None:
    content = content_with(warning)
    for name in [one for one in content["provenance"]["warnings"][0] if one != "code"]:
        changed = json.loads(json.dumps(content))
        changed["provenance"]["warnings"][0][name] = {"no": "such value"}
        with pytest.raises(FileError, match="damaged"):
            read_again(changed)
    content["provenance"]["warnings"][0]["more"] = 1
    with pytest.raises(FileError, match="damaged"):
        read_again(content)


def test_no_cell_of_the_data_goes_into_a_file() -> None:
    with pytest.raises(InputError, match="value cannot be -99"):
        content_with(PossibleMissingCode(("a",), 3, False, -99.0))


@pytest.mark.parametrize(
    "change",
    [
        {"engine": {"name": "variational", "values": {"tolerance": 0.1}}},
        {"engine": {"name": "variational", "values": {"init": "somewhere"}}},
        {"engine": {"name": "variational", "values": []}},
        {"engine": {"name": "magic", "values": {}}},
        {"n_factors": "many"},
        {"n_factors": -1},
        {"random_state": -1},
        {"random_state": 1.5},
        {"standardize": "yes"},
        {"prior": {}},
    ],
    ids=str,
)
def test_changed_settings_are_refused(change: dict[str, Any]) -> None:
    content = content_with()
    assert read_again(content).settings.n_factors == "auto"
    content["provenance"]["settings"] |= change
    with pytest.raises(FileError, match="damaged"):
        read_again(content)


def test_all_parameters_come_back_from_a_file(tmp_path: Any) -> None:
    model = CuspFactorAnalysis(
        n_factors=2,
        method=Variational(tol=1, max_iter=500, init="random", n_init=3, max_time=60),
        prior=CuspPrior(alpha=3.0, slab=InverseGammaSlab(2.0, 0.5)),
        standardize=False,
        rotation=Rotation("geomin", delta=0.02),
        random_state=2**70,
    ).fit(X)
    model.posterior_.save(tmp_path / "fit.cusp")
    again = CuspFactorAnalysis.from_posterior(load(tmp_path / "fit.cusp"))
    assert again.method.get_params() == model.method.get_params()
    for name in ("n_factors", "prior", "standardize", "rotation", "random_state"):
        assert getattr(again, name) == getattr(model, name)
    assert np.array_equal(again.fit(X).loadings_, model.loadings_)


def test_a_generator_is_not_kept() -> None:
    model = CuspFactorAnalysis(random_state=np.random.default_rng(0)).fit(X)
    settings = model.posterior_.provenance.settings
    assert settings.random_state == "generator"
    assert "seed from a generator, whose state is not kept" in settings_text(settings)
    assert CuspFactorAnalysis.from_posterior(model.posterior_).random_state is None


# --- what a report says ---


DATA = DataProvenance(
    source="answers.csv",
    form="file",
    kind="CSV",
    n_rows=100,
    n_columns=5,
    n_missing=7,
    names=("a", "b", "c"),
)


def recipe(data: DataProvenance | None, **settings: Any) -> str:
    model = CuspFactorAnalysis(n_factors=1, **settings)._fit(X, origin=Origin(data))
    assert model.posterior_.provenance.data == data
    return python_recipe(model.posterior_.provenance)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (None, "model = CuspFactorAnalysis(n_factors=1).fit(X)  # your data"),
        (DATA, "model = CuspFactorAnalysis(n_factors=1).fit('answers.csv')"),
        (
            replace(DATA, options=ReadOptions(columns=("a-c",), missing=("-99",), header=False)),
            "table = read_table('answers.csv', columns=['a', 'b', 'c'], missing=['-99'], "
            "header=False)",
        ),
        (
            replace(DATA, options=ReadOptions(exclude=("d-e",)), excluded=("d", "e")),
            "table = read_table('answers.csv', exclude=['d', 'e'])",
        ),
        (
            replace(DATA, by_blocks=True, options=ReadOptions(memory_limit="1GB")),
            "table = read_table('answers.csv', memory_limit='1GB')",
        ),
        (replace(DATA, form="stream"), "model = CuspFactorAnalysis(n_factors=1).fit(X)"),
        (replace(DATA, form="example"), 'X = datasets.load_bfi(subset="items", as_frame=True)'),
    ],
)
def test_the_recipe_has_public_names_alone(data: DataProvenance | None, line: str) -> None:
    prior = CuspPrior(alpha=3.0, slab=InverseGammaSlab(2.0, 0.5))
    for settings in ({}, {"prior": prior, "method": Variational(tol=0.01), "rotation": "geomin"}):
        code = recipe(data, **settings)
        assert settings or line in code
        used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        (imported,) = [one for one in ast.parse(code).body if isinstance(one, ast.ImportFrom)]
        names = {one.name for one in imported.names}
        assert imported.module == "cuspfa"
        assert names <= {*cuspfa.__all__, "read_table"}
        assert names == used - {"X", "table", "model"}  # all that is used, and nothing else


def test_data_in_words() -> None:
    assert data_text(DATA) == (
        "The data are answers.csv (CSV): 100 rows, 5 columns, 7 missing values."
    )
    blocks = replace(DATA, by_blocks=True)
    assert data_text(blocks).endswith("7 missing values in those analysed.")
    assert data_text(replace(blocks, n_missing=None)).endswith("100 rows, 5 columns.")
    dropped = tuple(DroppedColumn(f"t{j}", "text") for j in range(22))
    noted = (Note("no_header", count=3),)
    found = remarks(replace(DATA, notes=noted, dropped=dropped, n_empty_rows=1))
    assert found[0].endswith("If it names the columns: --header")
    assert found[1] == "t0 is left out: text."
    assert found[-2] == "2 more columns are left out."
    assert found[-1] == "Left out 1 row without any value in the columns analysed."
