"""The first sentence of every result, and the rule for large factors."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, Gibbs, datasets, load
from cuspfa.errors import InputError
from cuspfa.posterior import CurveGap, CurvePoint, ModelErrorCurve
from cuspfa.posterior.error_curve import GAP_WORDS, TOLERATED
from cuspfa.reporting.headline import (
    Count,
    LargeShare,
    curve_lines,
    headline,
    large_share,
    strength,
    tied_text,
)


def curve(*numbers, gap=None, **tied):
    """K at each tolerated error; `e05=(6,)` are the tied numbers at 0.05."""
    points = [
        CurvePoint(size, k, tied.get(f"e{size:g}".replace("0.", ""), ()), 0.0, 0.0)
        for size, k in zip(TOLERATED, numbers, strict=False)
    ]
    return ModelErrorCurve(tuple(points), gap)


FALLING = curve(11, 10, 8, 7, 5, 5, 2)


@pytest.mark.parametrize(
    ("count", "found", "told"),
    [
        (
            Count(11),
            FALLING,
            "11 factors can be told from chance; 5 if the model may be off by RMSEA 0.05 or 0.07",
        ),
        (
            Count(11),
            curve(11, 10, 8, 7, 6, 5, 2),
            "11 factors can be told from chance; 6 if the model may be off by RMSEA 0.05, 5 at "
            "0.07",
        ),
        (
            Count(11),
            curve(11, 10, 8, 7, 5, 5, 2, e05=(6, 7), e0=(12,)),
            "11 factors (or 12) can be told from chance; 5 (or 6, 7) if the model may be off by "
            "RMSEA 0.05, 5 at 0.07",
        ),
        (
            Count(2),
            curve(2, 2, 2, 2, 2, 2, 1),
            "2 factors can be told from chance, also if the model may be off by RMSEA 0.07",
        ),
        (
            Count(1),
            curve(1, 1, 1, 1, 0, 0, 0),
            "1 factor can be told from chance; none if the model may be off by RMSEA 0.05 or 0.07",
        ),
        (Count(0), curve(0, 0, 0, 0, 0, 0, 0), "No factors can be told from chance"),
        (
            Count(0, rows_too_few=100),
            None,
            "No factors were tried: 100 rows are too few for this many columns and categories",
        ),
        (
            Count(2, rows_too_few=100),
            None,
            "2 factors can be told from chance; more were not tried: 100 rows are too few for "
            "this many columns and categories",
        ),
        (
            Count(2, rows_too_few=100, has_categories=False),
            None,
            "2 factors can be told from chance; more were not tried: 100 rows are too few for "
            "this many columns",
        ),
        (
            Count(0, given=True, n_nonempty=0),
            curve(0, 0, 0, 0, 0, 0, 0),
            "No factors asked for; none can be told from chance",
        ),
        (Count(3), ModelErrorCurve((), CurveGap.FEW_ROWS), "3 factors can be told from chance"),
        (Count(3), curve(3, 3), "3 factors can be told from chance"),
        (
            Count(3),
            curve(3, 3, 3, 2, 2),
            "3 factors can be told from chance; 2 if the model may be off by RMSEA 0.05",
        ),
        (
            Count(3, given=True, n_nonempty=3),
            FALLING,
            "3 factors asked for; 11 can be told from chance; 5 if the model may be off by RMSEA "
            "0.05 or 0.07",
        ),
        # A search that ran out of time may have another number than the curve.
        (Count(8), curve(9, e0=(8,)), "8 factors (or 9) can be told from chance"),
        (Count(8, given=True, n_nonempty=2), None, "8 factors asked for, 2 with loadings"),
        (Count(2, given=True, n_nonempty=0), None, "2 factors asked for, none with loadings"),
        (
            Count(5, model_error=0.05),
            curve(11, 10, 8, 7, 5, 5, 2, e05=(6,)),
            "5 factors (or 6) if the model may be off by RMSEA 0.05; 11 can be told from chance",
        ),
        (
            Count(1, model_error=0.05),
            None,
            "1 factor if the model may be off by RMSEA 0.05",
        ),
        (
            Count(7, model_error=0.035, learned=True),
            FALLING,
            "7 factors with a model error of RMSEA 0.035, which was learned; 11 can be told from "
            "chance",
        ),
        (
            Count(3, given=True, n_nonempty=3, model_error=0.06, learned=True),
            FALLING,
            "3 factors asked for, with a model error of RMSEA 0.06, which was learned; 11 can be "
            "told from chance; 5 if the model may be off by RMSEA 0.05 or 0.07",
        ),
        (
            Count(12, not_learned=True, reason="missing"),
            curve(12, 10, 8, 7, 5, 5, 2, e0=(13,)),
            "12 factors (or 13) can be told from chance; the model error was not learned (values "
            "are missing) and is taken as 0",
        ),
        (
            Count(1, not_learned=True, reason="rows"),
            ModelErrorCurve((), CurveGap.FEW_ROWS),
            "1 factor can be told from chance; the model error was not learned (too few rows for "
            "the columns) and is taken as 0",
        ),
        (
            Count(2, given=True, n_nonempty=2, not_learned=True),
            None,
            "2 factors asked for; the model error was not learned and is taken as 0",
        ),
    ],
)
def test_headlines(count, found, told):
    assert headline(count, found) == told


def test_how_many_factors_are_large():
    rule = LargeShare(0.03, False)
    assert strength(0, 0, rule) == ""
    assert strength(1, 1, rule) == "it explains more than 3 % of the variance"
    assert strength(1, 0, rule) == "it explains less than 3 % of the variance"
    assert strength(9, 9, rule) == "all factors explain more than 3 % of the variance each"
    assert strength(9, 5, rule) == "5 factors explain more than 3 % of the variance each"
    assert strength(9, 1, rule) == "one factor explains more than 3 % of the variance"
    assert strength(9, 0, rule) == "no factor explains more than 3 % of the variance"


def test_wide_data_are_compared_with_noise():
    """The largest share of a component of pure noise is at the rule, by simulation."""
    assert large_share(100, 50.0) == LargeShare(0.03, False)
    p, n = 400, 200
    share, by_noise = large_share(p, n)
    assert by_noise
    noise = np.random.default_rng(0).standard_normal((n, p))
    largest = np.linalg.eigvalsh(np.corrcoef(noise, rowvar=False))[-1] / p
    assert share == pytest.approx(largest, rel=0.05)
    assert pytest.approx(largest, rel=0.5) != 0.03  # the negative control
    assert "the edge of noise" in strength(3, 2, large_share(p, n))
    posterior = CuspFactorAnalysis().fit(datasets.simulate(200, 400, 6, random_state=0).X)
    summary = posterior.posterior_.summary(n_draws=50)
    assert summary.n_large == 6
    assert posterior.posterior_.n_major_factors(n_draws=50) == 6
    assert posterior.posterior_.n_major_factors(0.5, n_draws=50) == 0


def test_the_curve_as_a_table():
    wide = curve(46, 42, 36, 32, 27, 22, 17, e015=(41, 43, 44), e025=(37, 38, 39, 40), e05=(28,))
    lines = curve_lines(wide)
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[2:] == ["0", "0.015", "0.025", "0.035", "0.05", "0.07", "0.1"]
    assert lines[1].split() == ["factors", "46", "42", "36", "32", "27", "22", "17"]
    assert lines[2].split() == ["or", "41–44", "37–40", "28"]
    assert [
        line.rindex(word) + len(word)
        for line, word in zip(lines, ("0.05", "27", "28"), strict=True)
    ] == [lines[0].index("0.05") + 4] * 3
    assert len(curve_lines(FALLING)) == 2  # no row of ties where there are none
    assert tied_text([9, 11]) == "9, 11"
    assert tied_text([6, 7]) == "6, 7"


@pytest.mark.parametrize("gap", CurveGap)
def test_every_gap_has_its_reason(gap):
    lines = curve_lines(ModelErrorCurve((), gap))
    assert max(map(len, lines)) <= 80
    told = " ".join(lines)
    assert told.endswith(f"not available, because {GAP_WORDS[gap]}.")
    assert "above 0.015" in " ".join(curve_lines(curve(3, 2, gap=gap)))


def test_a_curve_that_ends_for_few_rows_says_so_of_effective_rows():
    told = " ".join(curve_lines(curve(3, 2, gap=CurveGap.FEW_ROWS)))
    assert told.endswith("with a larger error the rows count as fewer than the columns.")


@pytest.mark.parametrize(
    ("found", "size", "told"),
    [
        (curve(3, 2), 0.05, r"must be on the curve: 0, 0\.015\. Got 0\.05 instead\.$"),
        (
            curve(3, 2, gap=CurveGap.OUT_OF_TIME),
            0.05,
            r"0\.015\. Got 0\.05 instead\. The curve ends at 0\.015, because max_time has passed",
        ),
        (ModelErrorCurve((), CurveGap.SAMPLED), 0.0, "no points, because .* variational fits"),
    ],
)
def test_an_error_that_is_not_on_the_curve(found, size, told):
    with pytest.raises(InputError, match=told):
        found.at(size)
    assert found.find(size) is None
    assert curve(3, 2).at(0.015).n_factors == 2


def summary_of(X, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = CuspFactorAnalysis(random_state=0, **parameters).fit(X).posterior_
    return posterior, posterior.summary(n_draws=50)


def test_an_error_that_could_not_be_learned(tmp_path):
    """With missing values and with few rows; the reason is kept in a file."""
    rows = datasets.simulate(150, 8, 2, random_state=0).X
    _, learned = summary_of(rows, model_error="auto")
    assert "which was learned" in learned.headline  # the negative control
    rows[::7, 3] = np.nan
    posterior, summary = summary_of(rows, model_error="auto")
    told = "the model error was not learned (values are missing) and is taken as 0"
    assert summary.headline.endswith(told)
    assert "which was learned" not in summary.headline
    assert "counted as" in " ".join(str(summary).split())
    posterior.save(tmp_path / "fit.cusp")
    assert load(tmp_path / "fit.cusp").summary(n_draws=50).headline == summary.headline
    _, summary = summary_of(rows[:6, :7], model_error="auto")
    assert "was not learned" in summary.headline


def test_a_sampler_has_no_curve(tmp_path):
    rows = datasets.simulate(100, 6, 1, random_state=0).X
    posterior, summary = summary_of(rows, method=Gibbs(n_draws=40, burn_in=40, n_chains=2))
    posterior.save(tmp_path / "fit.cusp")
    for one in (posterior, load(tmp_path / "fit.cusp")):
        assert one.model_error_curve == ModelErrorCurve((), CurveGap.SAMPLED)
    assert summary.headline == headline(Count(posterior.n_active))
    assert "tolerated RMSEA       0" not in str(summary)
    assert "computed for variational fits" in " ".join(str(summary).split())
    assert posterior.to_dict(n_draws=20)["model_error_curve"]["points"] == []
    assert summary_of(rows)[0].model_error_curve.points  # the negative control


def test_no_factors_leave_no_empty_part():
    _, summary = summary_of(np.random.default_rng(0).standard_normal((60, 6)))
    assert summary.factors == []
    assert "\n\n\n" not in str(summary)
    assert "\n\nSRMR" in str(summary)


def test_one_column_and_long_lines():
    rows = datasets.simulate(100, 8, 2, random_state=0).X
    assert "100 rows, 1 column\n" in str(summary_of(rows[:, :1])[1])
    posterior, _ = summary_of(rows)
    named = replace(posterior, names=[f"lang_{j:02d}" for j in range(8)])
    text = str(named.summary(n_draws=50))
    assert max(map(len, text.splitlines())) <= 80
    first, second = re.search(r"(largest residuals: .*),\n  (.*)\n", text).groups()
    assert all(part.count("&") == part.count("lang") / 2 for part in (first, second))
