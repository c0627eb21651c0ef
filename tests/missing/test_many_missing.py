"""Many missing values: the search, correlations without a model, and measures of fit."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.datasets import load_diabetes, load_wine

import cuspfa
from cuspfa import CuspFactorAnalysis, Gibbs
from cuspfa.diagnostics.fit_indices import rmsea
from cuspfa.diagnostics.fit_measures import predictive_p
from cuspfa.errors import CuspWarning, FileError
from cuspfa.missing import saturated as module
from cuspfa.missing.saturated import unrestricted
from cuspfa.posterior.entries import missing_in
from support import incomplete_rows


def simulated(n: int, p: int, k: int, missing: float, seed: int, size: float = 0.8) -> Any:
    rng = np.random.default_rng(seed)
    loadings, noise = rng.normal(size=(p, k)) * size, rng.uniform(0.5, 1.0, p)
    rows = rng.normal(size=(n, k)) @ loadings.T + rng.normal(size=(n, p)) * np.sqrt(noise)
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows[~np.isnan(rows).all(axis=1)]


def em_by_rows(rows: Any, mean: Any, covariance: Any, steps: int) -> tuple[Any, Any]:
    """Little & Rubin's formulas, row by row."""
    n, p = rows.shape
    for _ in range(steps):
        first, second = np.zeros(p), np.zeros((p, p))
        for row in rows:
            o, h = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
            slopes = covariance[np.ix_(h, o)] @ np.linalg.inv(covariance[np.ix_(o, o)])
            filled = row.copy()
            filled[h] = mean[h] + slopes @ (row[o] - mean[o])
            first += filled
            second += np.outer(filled, filled)
            second[np.ix_(h, h)] += covariance[np.ix_(h, h)] - slopes @ covariance[np.ix_(o, h)]
        mean = first / n
        covariance = second / n - np.outer(mean, mean)
    return mean, covariance


def log_likelihood(rows: Any, mean: Any, covariance: Any) -> float:
    total = 0.0
    for row in rows:
        o = np.flatnonzero(~np.isnan(row))
        total += multivariate_normal.logpdf(row[o], mean[o], covariance[np.ix_(o, o)])
    return total


def correlation(covariance: Any) -> Any:
    sd = np.sqrt(np.diag(covariance))
    return covariance / np.outer(sd, sd)


@pytest.mark.parametrize("missing", [0.02, 0.3, 0.6])
def test_em_and_likelihood_ratio(missing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = simulated(60, 5, 1, missing, 3)
    start = (np.full(5, 0.1), np.eye(5) + 0.2)
    known = em_by_rows(rows, *start, 6)
    data = incomplete_rows(rows)
    monkeypatch.setattr(module, "EM_TOLERANCE", 0.0)
    found = module._maximised(data.rotated(), module._Normal(*start), 6)
    assert_allclose(found.mean, known[0], atol=1e-10)
    assert_allclose(found.covariance, known[1], atol=1e-10)
    sd = np.sqrt(np.diag(known[1]))
    restricted = correlation(start[1]) * np.outer(sd, sd)
    ratio = 2 * (log_likelihood(rows, *known) - log_likelihood(rows, known[0], restricted))
    got = module._likelihood_ratio(data.rotated(), module._Normal(*start), found)
    assert got == pytest.approx(ratio, rel=1e-8)


def test_rows_of_few_patterns_may_be_rotated() -> None:
    """Many rows of two patterns: rotated or not, the numbers are the same."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(200, 4)) @ (np.eye(4) + 0.3)
    rows[:90, 2] = np.nan
    data, distribution = incomplete_rows(rows), module._Normal(np.zeros(4), np.eye(4))
    assert len(data.rotated().rows) < 20
    one, other = (module._maximised(part, distribution, 5) for part in (data, data.rotated()))
    assert_allclose(one.covariance, other.covariance, atol=1e-10)
    assert module._deviance(data, one) == pytest.approx(module._deviance(data.rotated(), one))


def test_rows_are_worth_what_they_have() -> None:
    """A block that is complete beside rows of one value: worth the rows of the block."""
    rng = np.random.default_rng(2)
    covariance = np.full((6, 6), 0.4) + 0.6 * np.eye(6)
    whole = rng.multivariate_normal(np.zeros(6), covariance, 600)
    rows = whole.copy()
    rows[150:] = np.nan
    rows[np.arange(150, 600), rng.integers(0, 6, 450)] = 1.0
    found = unrestricted(incomplete_rows(rows), np.zeros(6), covariance)
    assert found is not None
    assert 110 < found.effective.correlations < 190
    few = whole.copy()
    few[0, 0] = np.nan
    found = unrestricted(incomplete_rows(few), np.zeros(6), covariance)
    assert found is not None
    assert found.effective.correlations == pytest.approx(600, rel=0.01)


def table(name: str) -> Any:
    """Real data, or normal ones of which one column is nearly the sum of four others."""
    if name == "wine":
        return load_wine().data
    if name == "diabetes":
        return load_diabetes().data
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(203, 8)) + rng.normal(size=(203, 1))
    rows[:, 7] = rows[:, :4].sum(axis=1) + 0.01 * rng.normal(size=203)
    return rows


@pytest.mark.parametrize("name", ["wine", "diabetes", "nearly dependent"])
def test_one_missing_value_changes_little(name: str) -> None:
    """The discrepancy counted as 155 of 178, 281 of 442 and 7 of 203 rows."""
    rows = table(name)
    n = len(rows)
    complete = CuspFactorAnalysis().fit(rows).posterior_.summary().fit
    rows[5, 2] = np.nan
    posterior = CuspFactorAnalysis().fit(rows).posterior_
    measures = posterior.summary().fit
    assert posterior.effective is not None
    for value in posterior.effective:
        assert n - 1 <= value <= n
    assert measures.df == complete.df
    assert measures.chi_square == pytest.approx(complete.chi_square, rel=0.04)
    assert measures.rmsea == pytest.approx(complete.rmsea, rel=0.02)


@pytest.mark.parametrize("name", ["wine", "diabetes", "nearly dependent"])
def test_the_count_falls_with_the_share_of_missing_values(name: str) -> None:
    """To nearly n rows as the share goes to zero, here with a model that does not fit."""
    rows = table(name)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    n, p = rows.shape
    model = CuspFactorAnalysis(n_factors=1).fit(rows).get_covariance()
    order = np.random.default_rng(0).permutation(rows.size)
    counts = []
    for share in (0.001, 0.02, 0.1, 0.3):
        some = rows.copy()
        some.flat[order[: math.ceil(share * rows.size)]] = np.nan
        found = unrestricted(incomplete_rows(some), np.zeros(p), model)
        assert found is not None
        counts.append(found.effective)
    for values in zip(*counts, strict=True):
        assert values[0] == pytest.approx(n, rel=0.02)
        assert all(np.diff(values) < 0)
    # Not by the bound alone: a sixth to a quarter of the rows have one of the 2 % missing values.
    assert counts[1].discrepancy > 0.9 * n
    # Negative control: a third of the values is not a small loss.
    assert counts[-1].discrepancy < 0.8 * n


def test_complete_rows_are_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Incomplete rows do not take information away, and values that are missing add none."""
    rows = simulated(100, 5, 1, 0.0, 2)
    rows[:40, 1] = np.nan
    data, model = incomplete_rows(rows), (np.zeros(5), np.cov(rows[40:], rowvar=False) + np.eye(5))
    ratio = module._likelihood_ratio
    for factor, bound in ((1e-3, 60.0), (1e3, 100.0)):
        given = iter([factor] + [1.0] * module.MOST_REPLICATES)  # the data are first
        monkeypatch.setattr(module, "_likelihood_ratio", lambda *a, g=given: ratio(*a) * next(g))
        found = unrestricted(data, *model)
        assert found is not None
        assert found.effective.discrepancy == bound


def test_em_ends_by_the_variance_of_nearly_constant_combinations() -> None:
    """From a model with far too much of it, though all correlations are near one."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(200, 1)) + 0.01 * rng.normal(size=(200, 2))
    rows[:10, 0] = np.nan
    start = (np.zeros(2), np.array([[1.0, 0.99], [0.99, 1.0]]))
    found = module._maximised(incomplete_rows(rows), module._Normal(*start), module.MOST_STEPS)
    known = em_by_rows(rows, *start, 100)[1]
    difference = np.array([1.0, -1.0])
    expected = difference @ known @ difference
    assert difference @ found.covariance @ difference == pytest.approx(expected, rel=0.01)


@pytest.fixture(scope="module")
def fits() -> list[Any]:
    """Ten data sets of 300 rows with a third of the values missing, and their right models."""
    found = []
    for seed in range(10):
        rows = simulated(300, 12, 3, 0.3, seed)
        found.append(CuspFactorAnalysis(n_factors=3).fit(rows).posterior_)
    return found


@pytest.mark.long
def test_a_right_model_is_called_right(fits: list[Any]) -> None:
    """And was not, when rows with missing values counted as complete ones."""
    ratios, wrong, checks, wrong_checks = [], [], [], []
    for posterior in fits:
        measures = posterior.summary().fit
        ratios.append(measures.chi_square / measures.df)
        checks.append(measures.predictive_p)
        sample, model = posterior.sample_correlation, correlation(posterior.covariance)
        assert rmsea(sample, model, 300, 3).df == measures.df == 33
        wrong.append(rmsea(sample, model, 300, 3).statistic / 33)
        draws = posterior.draw(200, random_state=0)
        wrong_checks.append(predictive_p(sample, 300, draws))
    # A mean of ten χ² with 33 degrees of freedom, over these: 1 with a spread of 0.08. The
    # posterior mean is not the maximum, which makes it a little larger.
    assert 0.8 < np.mean(ratios) < 1.35
    assert 0.3 < np.mean(checks) < 0.7
    assert np.mean(wrong) > 2.0
    assert np.mean(wrong_checks) < 0.3


@pytest.mark.long
@pytest.mark.parametrize("missing", [0.1, 0.2])
def test_chi_square_of_reliable_items(missing: float) -> None:
    """One factor of items that correlate by 0.9 and more: χ² is about that of complete data."""
    complete, found, counted = [], [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(300, 1)) + 0.25 * rng.normal(size=(300, 6))
        values = CuspFactorAnalysis(n_factors=1).fit(rows).posterior_.summary().fit
        complete.append(values.chi_square / 9)
        rows[rng.random(rows.shape) < missing] = np.nan
        rows = rows[~np.isnan(rows).all(axis=1)]
        posterior = CuspFactorAnalysis(n_factors=1).fit(rows).posterior_
        found.append(posterior.summary().fit.chi_square / 9)
        sample = posterior.sample_correlation
        counted.append(rmsea(sample, correlation(posterior.covariance), 300, 1).statistic / 9)
    # Means of twenty χ² with 9 degrees of freedom, over these: a spread of 0.11.
    assert 0.7 < np.mean(complete) < 1.35
    assert 0.7 < np.mean(found) < 1.35
    # Negative control: all rows counted as complete.
    assert np.mean(counted) > np.mean(found) * (1 + 2 * missing)


def test_a_wrong_model_is_called_wrong() -> None:
    rows = simulated(300, 12, 3, 0.3, 0)
    measures = CuspFactorAnalysis(n_factors=1).fit(rows).posterior_.summary().fit
    assert measures.chi_square_p < 1e-6
    assert measures.rmsea > 0.1
    assert measures.predictive_p < 0.05


def test_measures_are_the_same_after_save_and_load(fits: list[Any], tmp_path: Path) -> None:
    sampled = CuspFactorAnalysis(method=Gibbs(n_draws=100, n_chains=2, burn_in=50), random_state=0)
    with pytest.warns(CuspWarning):
        sampled.fit(simulated(300, 6, 1, 0.3, 0))
    for posterior in (fits[0], sampled.posterior_):
        posterior.save(tmp_path / "fit.cusp")
        again = cuspfa.load(tmp_path / "fit.cusp")
        one, other = posterior.summary().fit, again.summary().fit
        for name in ("srmr", "rmsea", "chi_square", "df", "kmo"):
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-9)


def test_of_a_file_that_does_not_know_nothing_is_said(fits: list[Any]) -> None:
    unknown = {"correlation": True, "effective": None}
    assert missing_in("missing", unknown)["effective"] is None
    with pytest.raises(FileError):
        missing_in("missing", {"correlation": True})
    for wrong in ([1.0], [0.0, 1.0], "x", [1.0, 2.0, 3.0]):
        with pytest.raises(FileError):
            missing_in("missing", {"correlation": True, "effective": wrong})
    posterior = fits[0]
    assert posterior.sample_correlation is not None
    unknown = replace(posterior, effective=None, rows=None).summary().fit
    assert math.isnan(unknown.chi_square)
    assert math.isnan(unknown.predictive_p)
    assert not math.isnan(unknown.srmr)


def test_too_little_is_there_to_measure_a_fit_by() -> None:
    """Forty rows of ten columns, half of them missing, are worth fewer than three a column."""
    rows = simulated(40, 10, 1, 0.5, 1, size=1.0)
    posterior = CuspFactorAnalysis(n_factors=1).fit(rows).posterior_
    measures = posterior.summary().fit
    assert math.isnan(measures.chi_square)
    assert math.isnan(measures.predictive_p)
    assert posterior.summary().parallel is None


# --- the search ---


def with_single_values(seed: int, number: int, each: int = 1) -> Any:
    """Sixty complete rows of two factors, and so many with few values."""
    rng = np.random.default_rng(seed)
    scores, loadings = rng.normal(size=(60, 2)), rng.normal(size=(2, 10)) * 0.6
    rows = scores @ loadings + rng.normal(size=(60, 10))
    rng = np.random.default_rng(100 + seed)
    others = rng.normal(size=(number, 2)) @ loadings + rng.normal(size=(number, 10))
    keep = np.zeros(others.shape, dtype=bool)
    for row in keep:
        row[rng.choice(10, each, replace=False)] = True
    return np.vstack([rows, np.where(keep, others, np.nan)])


@pytest.mark.filterwarnings("ignore:.*have one value only")
@pytest.mark.parametrize(
    ("seed", "number", "each"), [(0, 540, 1), (1, 540, 1), (3, 540, 1), (2, 240, 1), (3, 240, 2)]
)
def test_the_search_is_not_lost_among_rows_of_few_values(seed: int, number: int, each: int) -> None:
    """It ended at no factors, up to 25 nats below what a fit with their number given reaches."""
    rows = with_single_values(seed, number, each)
    found = CuspFactorAnalysis().fit(rows)
    best = max(entry.lower_bound for entry in found.search_)
    for k in (0, 1, 2):
        assert best > CuspFactorAnalysis(n_factors=k).fit(rows).lower_bound_ - 0.2
    assert found.n_factors_ > 0


def test_many_rows_of_one_value_are_told() -> None:
    with pytest.warns(CuspWarning, match="60 of 120 rows have one value only"):
        CuspFactorAnalysis(n_factors=1).fit(with_single_values(3, 60))
    CuspFactorAnalysis(n_factors=1).fit(with_single_values(3, 5))  # few are not
