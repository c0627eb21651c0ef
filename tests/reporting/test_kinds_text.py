"""Kinds of columns and cautions in words: the same in the summary, JSON and report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, datasets
from cuspfa.data.screening.column_kinds import KindGroup
from cuspfa.reporting.kinds_text import kinds_text, model_text

NAMES = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (KindGroup("few_points", (0, 1), (6, 6)), "2 six-point items"),
        (KindGroup("few_points", (0,), (11, 11)), "1 eleven-point item"),
        (KindGroup("few_points", (0, 1, 2), (4, 7)), "3 items of 4 to 7 points"),
        (KindGroup("binary", (0, 1), (2, 2)), "2 items with two answers"),
        (KindGroup("counts", (0,)), "1 column of counts with zeros"),
        (KindGroup("codes", (0, 1)), "2 columns of codes"),
        (KindGroup("skewed", (0,)), "1 strongly skewed column"),
        (KindGroup("continuous", (0, 1)), "2 continuous columns"),
    ],
)
def test_a_group_in_words(group: KindGroup, text: str) -> None:
    assert kinds_text([group]) == text


def test_what_the_model_makes_of_them() -> None:
    assert model_text([KindGroup("continuous", (0,))], NAMES).endswith("is made for these.")
    five = model_text([KindGroup("few_points", (0, 1), (5, 5))], NAMES)
    assert "matters little unless they are skewed" in five
    assert "ordinal likelihood" not in five
    skewed_items = KindGroup("few_points", (0, 1), (5, 5), (1,))
    assert "then the ordinal likelihood suits" in model_text([skewed_items], NAMES)
    for few in (KindGroup("few_points", (0,), (3, 4)), KindGroup("binary", (0,), (2, 2))):
        assert "the ordinal likelihood suits them better" in model_text([few], NAMES)
    assert "Counts (b, c)" in model_text([KindGroup("counts", (1, 2))], NAMES)
    assert "d looks like numbers of categories" in model_text([KindGroup("codes", (3,))], NAMES)
    skewed = model_text([KindGroup("skewed", (0, 1, 2, 3))], NAMES)
    assert skewed.startswith("a, b, c and 1 more are strongly skewed")
    assert model_text([], NAMES) == kinds_text([]) == ""


def yes_or_no(n: int = 300, p: int = 9) -> np.ndarray:
    """Items of one factor, answered with yes by about one in eight."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(n, 1))
    return np.asarray((0.7 * scores + 0.7 * rng.normal(size=(n, p)) > 1.15), dtype=float)


def test_cautions_are_in_summary_json_and_report(tmp_path: Path) -> None:
    posterior = CuspFactorAnalysis(n_factors=1).fit(yes_or_no()).posterior_
    draws = posterior.draw(50, random_state=0)
    summary = posterior.summary(n_draws=50)
    assert [one.code for one in summary.cautions] == ["skewed_items"]
    text = " ".join(str(summary).split())
    assert "9 items with two answers. So few answers are treated as Gaussian" in text
    assert "Caution: 9 of 9 columns are items that are strongly skewed (" in text
    content = posterior.to_dict(n_draws=50)
    assert content["cautions"][0]["code"] == "skewed_items"
    assert len(content["cautions"][0]["columns"]) == 9
    posterior.report(tmp_path / "r.html", draws=draws)
    page = (tmp_path / "r.html").read_text()
    assert "9 items with two answers. So few answers are treated as Gaussian" in page
    assert page.index("9 items with two answers") < page.index('id="loadings"')
    assert "9 of 9 columns are items that are strongly skewed" in page


def test_usual_data_have_no_caution() -> None:
    x = datasets.simulate(200, 10, 2, random_state=1).X
    summary = CuspFactorAnalysis().fit(x).posterior_.summary(n_draws=50)
    assert summary.cautions == ()
    assert "Caution" not in str(summary)
    assert "10 continuous columns. The Gaussian model is made for these." in str(summary)


def test_few_rows_and_a_copy() -> None:
    x = datasets.simulate(30, 6, 1, random_state=1).X
    x = np.column_stack([x, x[:, 0] + 1e-3 * np.random.default_rng(0).normal(size=30)])
    posterior = CuspFactorAnalysis(n_factors=2).fit(x).posterior_
    codes = {one.code: one for one in posterior.summary(n_draws=50).cautions}
    assert set(codes) == {"heywood_cases"}
    assert codes["heywood_cases"].to_dict()["columns"] == [
        posterior.column_names[j] for j in (0, 6)
    ]
    few = CuspFactorAnalysis().fit(x[:9, :6]).posterior_.summary(n_draws=50)
    assert [one.code for one in few.cautions] == ["few_rows"]
    assert "9 rows are few for" in " ".join(str(few).split())


def test_a_misfit_is_said_in_summary_json_and_report(tmp_path: Path) -> None:
    x = datasets.simulate(400, 12, 3, random_state=3).X
    posterior = CuspFactorAnalysis(n_factors=1).fit(x).posterior_
    draws = posterior.draw(50, random_state=0)
    summary = posterior.summary(n_draws=50)
    assert summary.cautions[-1].code == "correlations_unexplained"
    sentence = "fewer than 1 in 100 data sets simulated from it are as far from it"
    assert sentence in " ".join(str(summary).split())
    assert "check_assumptions looks for them" in summary.caution_texts[-1]
    told = posterior.to_dict(n_draws=50)["cautions"][-1]
    assert told["code"] == "correlations_unexplained"
    assert sentence in told["message"]
    posterior.report(tmp_path / "r.html", draws=draws)
    assert (tmp_path / "r.html").read_text().count(sentence) == 1
    enough = CuspFactorAnalysis(n_factors=3).fit(x).posterior_.summary(n_draws=50)
    assert "correlations_unexplained" not in [one.code for one in enough.cautions]


def test_columns_with_little_in_common_and_uncertain_axes() -> None:
    rng = np.random.default_rng(8)
    noise = rng.normal(size=(200, 6))
    pair = noise[:, 0] + 0.3 * rng.normal(size=200)
    x = np.column_stack([noise, pair])
    posterior = CuspFactorAnalysis(n_factors=2, rotation="varimax").fit(x).posterior_
    summary = posterior.summary(n_draws=50)
    assert summary.fit is not None
    assert summary.fit.kmo < 0.5
    codes = {one.code: one for one in summary.cautions}
    assert {"low_kmo", "uncertain_axes"} <= codes.keys()
    assert codes["uncertain_axes"].to_dict()["rotation"] == "varimax"
    assert f"KMO is {summary.fit.kmo:.2f}" in " ".join(str(summary).split())
    plain = CuspFactorAnalysis(n_factors=2).fit(x).posterior_.summary(n_draws=50)
    assert "uncertain_axes" not in [one.code for one in plain.cautions]
