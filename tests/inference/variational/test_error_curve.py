"""The number of factors by tolerated model error, from what a posterior keeps."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from cuspfa import CuspFactorAnalysis, CuspPrior, InverseGammaSlab, Variational, datasets, load
from cuspfa.inference.variational import error_curve
from cuspfa.posterior import CurveGap, CurvePoint, ModelErrorCurve
from cuspfa.posterior.error_curve import TOLERATED, surely_rises


def minor_factors(n=5000, p=16, major=2, minor=60, share=0.1, seed=0):
    """Rows of a population with a few large factors and many small ones."""
    rng = np.random.default_rng(seed)
    large = np.zeros((p, major))
    large[np.arange(p), np.arange(p) % major] = 0.7
    small = rng.standard_normal((p, minor))
    small *= np.sqrt(share / np.sum(small**2, axis=1))[:, None]
    covariance = large @ large.T + small @ small.T
    covariance[np.diag_indices(p)] = 1.0
    return rng.multivariate_normal(np.zeros(p), covariance, size=n)


ROWS = minor_factors()
POSTERIOR = CuspFactorAnalysis().fit(ROWS).posterior_
CURVE = POSTERIOR.model_error_curve


def numbers(point):
    return {point.n_factors, *point.tied}


def test_the_first_point_is_the_fit():
    own = next(one for one in POSTERIOR.fit_info.search if one.n_factors == POSTERIOR.n_active)
    first = CURVE.points[0]
    assert first[:2] == (0.0, POSTERIOR.n_active)
    assert first.tied == tuple(one.n_factors for one in POSTERIOR.fit_info.search if one.tied)
    assert first.log_evidence == own.evidence
    assert [one.model_error for one in CURVE.points] == list(TOLERATED)
    assert CURVE.gap is None
    assert CURVE.rises == ()


def test_minor_factors_are_not_counted_where_the_error_is_tolerated():
    assert CURVE.points[0].n_factors > 3  # else these data do not need an error
    assert CURVE.at(0.1).n_factors == 2
    assert CURVE.at(0.07).n_factors == 2


@pytest.mark.parametrize("size", [0.025, 0.05, 0.1])
def test_points_are_those_of_fits_with_that_error(size):
    """A fit with the error searches from the beginning, and with more draws."""
    fitted = CuspFactorAnalysis(model_error=size).fit(ROWS)
    tied = {one.n_factors for one in fitted.search_ if one.tied}
    assert numbers(CURVE.at(size)) & {fitted.n_factors_, *tied}
    assert fitted.n_factors_ not in numbers(CURVE.at(0.0))  # the negative control
    own = fitted.posterior_.model_error_curve
    assert own.at(size).n_factors == fitted.n_factors_
    assert own.at(size).tied == tuple(sorted(tied))
    assert own.points[0].n_factors == POSTERIOR.n_active


def test_a_learned_error_is_on_the_curve():
    fitted = CuspFactorAnalysis(model_error="auto").fit(ROWS)
    own = fitted.posterior_.model_error_curve.at(fitted.model_error_)
    assert fitted.model_error_ > 0
    assert own.n_factors == fitted.n_factors_


def test_a_given_number_is_not_the_answer():
    curve = CuspFactorAnalysis(n_factors=1).fit(ROWS).posterior_.model_error_curve
    assert curve.at(0.0)[:3] == CURVE.at(0.0)[:3]
    assert curve.at(0.07).n_factors == 2


def test_files_pickles_and_units_have_the_same_curve(tmp_path):
    POSTERIOR.save(tmp_path / "fit.cusp")
    assert load(tmp_path / "fit.cusp").model_error_curve == CURVE
    assert pickle.loads(pickle.dumps(POSTERIOR)).model_error_curve == CURVE
    scaled = CuspFactorAnalysis().fit(ROWS * np.linspace(0.1, 20, 16)).posterior_.model_error_curve
    assert [one[:3] for one in scaled.points] == [one[:3] for one in CURVE.points]


def test_a_fit_computes_nothing_of_the_curve(monkeypatch):
    def fail(*_):
        raise AssertionError("computed")

    monkeypatch.setattr(error_curve, "try_starts", fail)
    posterior = CuspFactorAnalysis().fit(ROWS).posterior_
    posterior._repr_html_()
    with pytest.raises(AssertionError, match="computed"):
        posterior.summary(n_draws=10)


# --- where there is none ---


def test_reasons_for_no_curve(tmp_path):
    POSTERIOR.save(tmp_path / "fit.cusp", statistics=False)
    bare = load(tmp_path / "fit.cusp")
    assert bare.model_error_curve == ModelErrorCurve((), CurveGap.NO_STATISTICS)
    told = " ".join(str(bare.summary(n_draws=10)).split())
    assert "not available, because no statistics of the data are kept." in told
    wide = CuspFactorAnalysis().fit(ROWS[:12]).posterior_
    assert wide.model_error_curve.gap is CurveGap.FEW_ROWS
    prior = CuspPrior(slab=InverseGammaSlab(2, 2), spike=0.05)
    assert (
        CuspFactorAnalysis(prior=prior).fit(ROWS).posterior_.model_error_curve.gap is CurveGap.SPIKE
    )
    random = CuspFactorAnalysis(method=Variational(init="random", n_init=2), random_state=0)
    assert random.fit(ROWS).posterior_.model_error_curve.gap is CurveGap.SPIKE
    between = datasets.simulate(60, 6, 2, design="falling", random_state=1).X
    alternatives = CuspFactorAnalysis().fit(between).posterior_.alternatives
    assert alternatives
    assert alternatives[0].model_error_curve.gap is CurveGap.NO_SEARCH


def test_the_curve_ends_where_rows_do_not_count_as_more_than_columns():
    rows = datasets.simulate(150, 80, 2, random_state=0).X
    curve = CuspFactorAnalysis().fit(rows).posterior_.model_error_curve
    assert curve.gap is CurveGap.FEW_ROWS
    assert 0 < len(curve.points) < len(TOLERATED)


def test_the_time_limit_of_the_fit_is_that_of_the_curve(monkeypatch):
    posterior = CuspFactorAnalysis(method=Variational(max_time=60)).fit(ROWS).posterior_
    times = iter([0.0] + 100000 * [61.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    curve = posterior.model_error_curve
    assert curve.gap is CurveGap.OUT_OF_TIME
    assert len(curve.points) == 1


# --- missing values ---


def test_missing_values_give_nearly_the_curve_of_complete_rows():
    rng = np.random.default_rng(3)
    rows = ROWS.copy()
    rows[rng.random(rows.shape) < 0.02] = np.nan
    posterior = CuspFactorAnalysis().fit(rows).posterior_
    curve = posterior.model_error_curve
    assert curve.rows is not None
    assert 0.5 * len(rows) < curve.rows < len(rows)
    assert curve.points[0].n_factors == posterior.n_active
    for one, other in zip(curve.points[3:], CURVE.points[3:], strict=True):
        assert numbers(one) & numbers(other)
    assert "the numbers are approximate" in str(posterior.summary(n_draws=20))
    few = rows[:60]
    few[rng.random(few.shape) < 0.3] = np.nan
    sparse = CuspFactorAnalysis().fit(few).posterior_
    assert sparse.model_error_curve == ModelErrorCurve((), CurveGap.MISSING_VALUES)


# --- numbers that rise with the error ---


def test_a_sure_rise():
    def point(k, *tied):
        return CurvePoint(0.0, k, tied, 0.0, 0.0)

    assert surely_rises(point(2), point(3))
    assert not surely_rises(point(2, 3), point(3))
    assert not surely_rises(point(2), point(3, 2))
    assert surely_rises(point(2, 3), point(5, 4))
    assert not surely_rises(point(3), point(3))
    assert not surely_rises(point(3), point(1))


def spoil(monkeypatch, size):
    """Let the first search with this error report one factor too few to be true."""
    seen = []

    def point(at, search):
        if at == size and search not in seen:
            seen.append(search)
            return CurvePoint(at, 1, (), 0.0, 0.0)
        return known(at, search)

    known = error_curve._point
    monkeypatch.setattr(error_curve, "_point", point)


def test_a_search_that_missed_a_solution_begins_again(monkeypatch):
    assert CURVE.at(0.035).n_factors > 1
    spoil(monkeypatch, 0.025)
    mended = error_curve.model_error_curve(POSTERIOR)
    assert mended.rises == ()
    assert numbers(mended.at(0.025)) & numbers(CURVE.at(0.025))


def test_a_rise_that_stays_is_reported(monkeypatch):
    spoil(monkeypatch, 0.025)
    monkeypatch.setattr(error_curve._Curve, "_mend", lambda *_: None)
    curve = error_curve.model_error_curve(POSTERIOR)
    assert [(one.model_error, two.model_error) for one, two in curve.rises] == [(0.025, 0.035)]
    told = replace(POSTERIOR.summary(n_draws=10), curve=curve)
    assert "The number rises from 1 at RMSEA 0.025" in " ".join(str(told).split())
