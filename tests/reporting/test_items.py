"""Figures and tables of ordinal items, in plots and in the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from cuspfa import CuspFactorAnalysis, plots
from cuspfa.errors import InputError
from support import fewer_cell_draws


@pytest.fixture(autouse=True, scope="module")
def few_draws() -> Iterator[None]:
    with fewer_cell_draws(16):
        yield


@pytest.fixture(scope="module")
def model() -> CuspFactorAnalysis:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 1)) + 0.8 * rng.normal(size=(200, 5))
    codes = np.searchsorted([-0.7, 0.6], z.ravel()).reshape(z.shape)
    frame = pd.DataFrame(codes, columns=["a", "b$", "c", "d", "e"]).assign(e=z[:, 4])
    words = pd.Categorical.from_codes(codes[:, 0], ["never", "at times", "often"], ordered=True)
    return CuspFactorAnalysis(n_factors=1, likelihood="auto").fit(frame.assign(a=words))


def test_curves_of_an_item(model: CuspFactorAnalysis) -> None:
    axes = plots.plot_item(model.posterior_, "a")
    lines = axes.get_lines()
    assert [text.get_text() for text in axes.texts] == ["never", "at times", "often"]
    assert np.sum([line.get_ydata() for line in lines], axis=0) == pytest.approx(np.ones(161))
    score = lines[0].get_xdata()
    loading = model.loadings_[0, 0]
    cut = model.thresholds_[0][0]
    by_hand = ndtr((cut - loading * np.asarray(score)) / np.sqrt(1 - loading**2))
    assert lines[0].get_ydata() == pytest.approx(by_hand)
    assert axes.get_title() == "a"


def test_information_adds_up(model: CuspFactorAnalysis) -> None:
    total = plots.plot_information(model.posterior_).get_lines()[0].get_ydata()
    parts = [
        plots.plot_information(model.posterior_, columns=[name]).get_lines()[0].get_ydata()
        for name in ("a", "b$", "c", "d")
    ]
    assert np.sum(parts, axis=0) == pytest.approx(np.asarray(total))


def test_what_has_no_such_figure(model: CuspFactorAnalysis) -> None:
    with pytest.raises(InputError, match="column must be an ordinal column"):
        plots.plot_item(model.posterior_, "e")
    with pytest.raises(InputError, match="factor must be at most 1"):
        plots.plot_item(model.posterior_, "a", 2)
    plain = CuspFactorAnalysis(n_factors=1).fit(np.random.default_rng(0).normal(size=(50, 4)))
    with pytest.raises(InputError, match="must have ordinal columns"):
        plots.plot_information(plain.posterior_)


def test_the_report_has_items(model: CuspFactorAnalysis, tmp_path: Path) -> None:
    model.posterior_.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="items"' in page
    assert page.count("Answers to ") >= 4
    assert "at times" in page
    assert "Information on Factor 1" in page
    assert "latent responses" in page
    plain = CuspFactorAnalysis(n_factors=1).fit(np.random.default_rng(0).normal(size=(50, 4)))
    plain.posterior_.report(tmp_path / "plain.html")
    assert 'id="items"' not in (tmp_path / "plain.html").read_text(encoding="utf-8")
