"""Results as data frames and in notebooks, and frames that keep their names."""

import importlib
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from numpy.testing import assert_allclose

from cuspfa import (
    CuspFactorAnalysis,
    datasets,
    factor_congruence,
    load,
    prior_sensitivity,
    retention,
    select_n_factors,
)
from cuspfa._utils import tables
from cuspfa.errors import InputError

NAMES = ["a", "<b>", "c", "d", "e", "f"]
ROWS = datasets.simulate(80, 6, 2, random_state=3).X
MODEL = CuspFactorAnalysis().fit(pd.DataFrame(ROWS, columns=NAMES))
POSTERIOR = MODEL.posterior_


class Cells(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


RESULTS: dict[str, tuple[Callable[[], Any], int]] = {
    "aligned": (lambda: POSTERIOR.align(n_draws=50), 12),
    "table": (lambda: POSTERIOR.align(n_draws=50).table(), 12),
    "scores": (lambda: POSTERIOR.align(n_draws=50).scores(ROWS[:3]), 6),
    "factor scores": (lambda: MODEL.factor_scores(MODEL.sample(4)), 4),
    "search": (lambda: MODEL.search_, len(MODEL.search_)),
    "sensitivity": (lambda: prior_sensitivity(CuspFactorAnalysis(), ROWS, alpha=[1.0, 5.0]), 2),
    "congruence": (lambda: factor_congruence(MODEL, MODEL, n_draws=20), 2),
    "vector": (lambda: POSTERIOR.interval("communality", n_draws=50), 6),
    "matrix": (lambda: POSTERIOR.interval("correlation", n_draws=50), 36),
    "shares": (lambda: POSTERIOR.interval("explained_variance_ratio", n_draws=50), 2),
    "parallel": (lambda: retention.parallel_analysis(np.corrcoef(ROWS.T), 80), 6),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("name", RESULTS)
def test_results_are_frames_and_html(name, monkeypatch):
    make, n_rows = RESULTS[name]
    found = make()
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == n_rows
    page = Cells(found._repr_html_())
    assert not page.open
    monkeypatch.setattr(tables, "FRAME_LIBRARIES", ("polars",))
    other = found.to_frame()
    assert isinstance(other, pl.DataFrame)
    assert other.columns == list(frame.columns)
    assert len(other) == n_rows


def test_pandas_is_not_needed_and_without_either_there_is_an_error(monkeypatch):
    def without(*missing):
        def fake(name):
            if name in missing:
                raise ImportError(name)
            return importlib.import_module(name)

        monkeypatch.setattr(tables, "import_module", fake)

    without("pandas")
    assert isinstance(MODEL.search_.to_frame(), pl.DataFrame)
    without("pandas", "polars")
    with pytest.raises(ImportError, match="needs pandas or polars"):
        MODEL.search_.to_frame()


def test_the_table_of_loadings_says_what_its_arrays_say():
    table = POSTERIOR.align(n_draws=50).table(columns=["c", "a"])
    assert table.names == ["c", "a"]
    frame = table.to_frame()
    assert list(frame["variable"]) == ["c", "c", "a", "a"]
    assert list(frame["factor"]) == [1, 2, 1, 2]
    assert_allclose(frame["lower"], table.lower.ravel())
    assert_allclose(frame["false_sign_rate"], table.false_sign_rate.ravel())
    assert f"{table.mean[0, 0]:.2f} [" in table._repr_html_()


def test_names_are_escaped_and_long_tables_cut():
    assert "<b>" not in POSTERIOR.align(n_draws=50)._repr_html_()
    assert "&lt;b&gt;" in POSTERIOR.align(n_draws=50)._repr_html_()
    assert "and 40 more rows" in tables.html_table({"x": list(range(100))})
    shown = Cells(tables.html_table({"x": [None, np.nan, -0.5, True, 3, 2e9]})).texts
    assert shown == ["x", "–", "–", "−0.500", "yes", "3", "2e+09"]


def test_a_posterior_as_a_frame():
    frame = POSTERIOR.to_frame()
    assert list(frame["variable"]) == NAMES
    assert_allclose(frame[["factor1", "factor2"]], MODEL.loadings_)
    assert_allclose(frame["communality"], np.sum(MODEL.loadings_**2, axis=1))


def test_intervals_have_names_and_are_still_pairs():
    interval = POSTERIOR.interval("covariance", columns=["d", "a"], n_draws=50)
    lower, upper = interval
    assert lower.shape == upper.shape == (2, 2)
    frame = interval.to_frame()
    assert list(zip(frame["first"], frame["second"], strict=True)) == [
        ("d", "d"),
        ("d", "a"),
        ("a", "d"),
        ("a", "a"),
    ]
    assert list(POSTERIOR.interval("mean", n_draws=50).to_frame()["name"]) == NAMES


def test_the_search_path_is_a_list_also_from_a_file(tmp_path):
    assert MODEL.search_ == list(MODEL.search_)
    POSTERIOR.save(tmp_path / "fit")
    search = load(tmp_path / "fit").fit_info.search
    assert list(search.to_frame()["n_factors"]) == [entry.n_factors for entry in MODEL.search_]


def test_the_number_of_factors_report():
    found = select_n_factors(CuspFactorAnalysis(), ROWS, n_folds=2, n_splits=1)
    assert next(iter(found.to_frame()["n_factors"])) == 1
    assert_allclose(found.to_frame("factors")["share"], [one.share for one in found.factors])
    assert found.n_factors in set(found.to_frame("rules")["n_factors"])
    assert not Cells(found._repr_html_()).open
    with pytest.raises(InputError, match="what must be one of"):
        found.to_frame("all")


# --- frames in, frames out ---


@pytest.fixture(scope="module")
def incomplete():
    rows = ROWS.copy()
    rows[::7, 2] = np.nan
    return rows


def test_imputed_frames_keep_names_and_index(incomplete):
    plain = CuspFactorAnalysis(n_factors=2).fit(incomplete)
    expected = plain.impute(incomplete)
    assert isinstance(expected, np.ndarray)
    index = [f"person {i}" for i in range(80)]
    frame = pd.DataFrame(incomplete, columns=NAMES, index=index)
    model = CuspFactorAnalysis(n_factors=2).fit(frame)
    filled, std = model.impute(frame, return_std=True)
    for one in (filled, std):
        assert list(one.columns) == NAMES
        assert list(one.index) == index
    assert_allclose(filled, expected)
    drawn = model.impute(frame, n_draws=2)
    assert [type(one) for one in drawn] == [pd.DataFrame] * 2
    assert_allclose(drawn, plain.impute(incomplete, n_draws=2))
    other = model.impute(pl.DataFrame(incomplete, schema=NAMES))
    assert isinstance(other, pl.DataFrame)
    assert other.columns == NAMES
    assert_allclose(other.to_numpy(), expected)
    table = pa.table(list(incomplete.T), names=NAMES)
    assert model.impute(table).column_names == NAMES
    assert model.impute(frame[:0]).shape == (0, 6)


def test_imputed_pandas_frames_with_names_that_are_numbers(incomplete):
    frame = pd.DataFrame(incomplete)
    found = CuspFactorAnalysis(n_factors=2).fit(frame).impute(frame)
    assert list(found.columns) == list(range(6))


def test_covariances_are_named_where_output_is_set():
    model = CuspFactorAnalysis(n_factors=2).fit(pd.DataFrame(ROWS, columns=NAMES))
    expected = model.get_covariance()
    assert isinstance(expected, np.ndarray)
    model.set_output(transform="pandas")
    found = model.get_covariance()
    assert list(found.columns) == list(found.index) == NAMES
    assert_allclose(found, expected)
    assert_allclose(found.to_numpy() @ model.get_precision().to_numpy(), np.eye(6), atol=1e-8)
    assert list(model.get_covariance(columns=["d", "a"]).index) == ["d", "a"]
    model.set_output(transform="polars")
    assert model.get_covariance().columns == NAMES
    plain = CuspFactorAnalysis(n_factors=2).fit(ROWS)
    with sklearn.config_context(transform_output="pandas"):
        assert list(plain.get_covariance().columns) == [f"x{j}" for j in range(6)]
    assert isinstance(plain.get_covariance(), np.ndarray)


def test_covariances_in_a_frame_on_request():
    model = CuspFactorAnalysis(n_factors=2).fit(pd.DataFrame(ROWS, columns=NAMES))
    found = model.get_covariance(as_frame=True)
    assert list(found.columns) == list(found.index) == NAMES
    assert_allclose(found.to_numpy(), model.get_covariance())
    assert list(model.get_covariance(["d", "a"], as_frame=True).index) == ["d", "a"]
    assert list(model.get_precision(as_frame=True).index) == NAMES
    model.set_output(transform="polars")
    assert isinstance(model.get_covariance(as_frame=True), pl.DataFrame)
    assert isinstance(model.get_covariance(as_frame=False), np.ndarray)
    with pytest.raises(InputError, match="as_frame must be True or False"):
        model.get_covariance(as_frame="pandas")
