"""Files of Poisson factorizations."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cuspfa import CuspFactorAnalysis, CuspPoissonFactorization, load
from cuspfa.errors import FileError, InputError
from cuspfa.io.posterior_format import FIT_VERSION
from cuspfa.posterior import FactorizationPosterior, load_scores
from support import changed_file

GOLDEN = Path(__file__).parent / "golden" / "factorization_5.cusp"
N, P = 61, 7


def counts() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rates = rng.gamma(0.4, 3, (N, 2)) @ rng.gamma(0.4, 3, (2, P))
    table = pd.DataFrame(rng.poisson(rates).astype(float), columns=list("abcdefg"))
    table.iloc[0, :2] = np.nan
    return table


@pytest.fixture(scope="module")
def model() -> CuspPoissonFactorization:
    fitted = CuspPoissonFactorization(n_factors=2, random_state=0).fit(counts())
    assert len(fitted.posterior_.kept) == 200  # drawn once
    return fitted


@pytest.fixture
def saved(model: CuspPoissonFactorization, tmp_path: Path) -> Path:
    path = tmp_path / "fit.cusp"
    model.posterior_.with_factor_names(["One", "Two"]).save(path)
    return path


def test_a_saved_fit_gives_the_same_answers(model: CuspPoissonFactorization, saved: Path) -> None:
    own, found, table = model.posterior_.with_factor_names(["One", "Two"]), load(saved), counts()
    assert isinstance(found, FactorizationPosterior)
    again = CuspPoissonFactorization.from_posterior(found)
    assert again.get_params()["n_factors"] == 2
    assert again.random_state == 0
    np.testing.assert_array_equal(again.transform(table), model.transform(table))
    np.testing.assert_array_equal(again.score_samples(table), model.score_samples(table))
    assert list(again.feature_names_in_) == list("abcdefg")
    assert str(again.search_) == str(model.search_)  # with NaN
    assert str(found.summary()) == str(own.summary())
    assert str(found.to_dict()) == str(own.to_dict())
    assert found.top_items(3) == own.top_items(3)
    assert found.to_frame().equals(own.to_frame())
    assert found.factor_names == ["One", "Two"]
    assert found.has_exact_draws
    assert len(found.draw(10)) == 10
    assert len(found.draw(10_000)) == len(own.kept)
    low, high = found.interval("loadings", draws=found.draw(10_000))
    assert np.all(low <= high)


def test_a_saved_fit_can_be_saved_again(saved: Path, tmp_path: Path) -> None:
    load(saved).save(tmp_path / "again.cusp")
    assert (tmp_path / "again.cusp").read_bytes() == saved.read_bytes()


def test_no_row_is_in_a_file(model: CuspPoissonFactorization, saved: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        assert json.loads(archive.read("fit.json"))["version"] == FIT_VERSION
        for name in archive.namelist()[1:]:
            assert N not in np.load(archive.open(name)).shape
    found = load(saved)
    assert load_scores(saved) is None
    with pytest.raises(InputError, match="holds no row"):
        _ = found.scores
    with pytest.raises(InputError, match="have no scores"):
        found.interval("rates")
    scores = model.transform(counts())
    model.posterior_.save(tmp_path / "with.cusp", scores=scores)
    np.testing.assert_array_equal(load_scores(tmp_path / "with.cusp"), scores)


def test_a_factorization_is_no_factor_analysis(model: CuspPoissonFactorization) -> None:
    with pytest.raises(InputError, match="posterior must be"):
        CuspFactorAnalysis.from_posterior(model.posterior_)
    with pytest.raises(InputError, match="CuspFactorAnalysis.from_posterior takes others"):
        CuspPoissonFactorization.from_posterior(CuspFactorAnalysis(n_factors=1))


def test_a_fit_without_factors_and_one_without_exact_draws_are_written(tmp_path: Path) -> None:
    none = CuspPoissonFactorization().fit(np.zeros((5, 3)))
    none.posterior_.save(tmp_path / "none.cusp")
    found = load(tmp_path / "none.cusp")
    assert found.n_active == 0
    assert str(found.summary()) == str(none.posterior_.summary())
    parts = CuspPoissonFactorization(n_factors=1, fractions=True).fit(np.full((9, 3), 1.5))
    assert not parts.posterior_.has_exact_draws
    parts.posterior_.save(tmp_path / "parts.cusp")
    assert not load(tmp_path / "parts.cusp").has_exact_draws
    assert "too narrow" in " ".join(str(load(tmp_path / "parts.cusp").summary()).split())


def _array(name: str, value: float) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(content: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[f"{name}.npy"].flat[0] = value

    return change


def _entry(*path: Any, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(content: dict[str, Any], arrays: dict[str, Any]) -> None:
        for name in path[:-1]:
            content = content[name]
        content[path[-1]] = value

    return change


WRONG = {
    "negative shape": _array("loading_shape", -1.0),
    "rate of zero": _array("loading_rate", 0.0),
    "rate of infinity": _array("loading_rate", np.inf),
    "scores of nothing": _array("score_totals", 0.0),
    "negative count": _array("by_column", -1.0),
    "no dispersion": _array("dispersion", np.nan),
    "negative draw": _array("draws_loadings", -1.0),
    "shares above one": _array("draws_shares", 0.99999),
    "hyperparameter": _array("draws_hyperparameters", 0.0),
    "too many names": _entry("names", value=["a"]),
    "names twice": _entry("names", value=["a"] * P),
    "no draws": _entry("n_draws", value=0),
    "other draws": _entry("n_draws", value=3),
    "other factors": _entry("n_factors", value=3),
    "prior": _entry("prior", "alpha", value=-1.0),
    "shape of the prior": _entry("prior", "score_shape", value=1e-9),
    "hyper": _entry("hyperparameters", "rate_scale", value=0.0),
    "more counts than cells": _entry("totals", "n_positive", value=10**6),
    "no events": _entry("totals", "n_events", value="NaN"),
    "statistics": _entry("statistics", value={}),
    "unknown entry": _entry("surprise", value=1),
    "search": _entry("fit_info", "search", value=[{"n_factors": 1}]),
    "seed": _entry("provenance", "settings", "random_state", value=-1),
    "number": _entry("provenance", "settings", "n_factors", value="many"),
    "names of factors": _entry("presentation", "factor_names", value=["One"]),
    "kind": _entry("kind", value="variational"),
}


@pytest.mark.parametrize("what", WRONG)
def test_files_that_contradict_themselves_are_refused(saved: Path, what: str) -> None:
    load(changed_file(saved, lambda content, arrays: None))
    with pytest.raises(FileError):
        load(changed_file(saved, WRONG[what]))


def test_files_that_are_cut_off_or_changed_are_refused(saved: Path) -> None:
    data = saved.read_bytes()
    step = max(1, len(data) // 29)
    for end in range(0, len(data), step):
        saved.write_bytes(data[:end])
        with pytest.raises(FileError):
            load(saved)
    for place in range(0, len(data), step):
        saved.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        with pytest.raises(FileError):
            load(saved)


def test_a_file_of_version_five_is_read() -> None:
    """Written once, and never again: the numbers are those that were printed then."""
    with zipfile.ZipFile(GOLDEN) as archive:
        assert json.loads(archive.read("fit.json"))["version"] == 5
        shape = np.load(archive.open("loading_shape.npy"))
    found = load(GOLDEN)
    np.testing.assert_array_equal(found.loading_shape, shape)
    assert {
        "component": pytest.approx(float(found.components[0, 0])),
        "share": pytest.approx(float(found.shares[0])),
        "draws": pytest.approx(float(found.draw().loadings.sum())),
        "dispersion": pytest.approx(found.totals.dispersion_of_all),
    } == LITERALS
    model = CuspPoissonFactorization.from_posterior(found)
    assert model.score_samples(counts().iloc[:1])[0] == pytest.approx(SCORE, abs=1e-6)


LITERALS: dict[str, float] = {
    "component": 0.003873916042055794,
    "share": 0.576151253710937,
    "draws": 4031.8397993302856,
    "dispersion": 0.982394303743736,
}
SCORE = -14.57646191711105
