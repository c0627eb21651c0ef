"""Adequacy, fit, reliability and determinacy: published figures, definitions by loops, simulation.

Published figures are of the 25 bfi items, all printed by the R package psych unless said otherwise:

KOPTUR     M. Koptur, "Factor Analysis" (2018), github.com/mrtkp9993/Statistical-Modeling-Examples,
           notebooks/Factor_Analysis.md: KMO of all 2800 rows (pairwise correlations).
EASYSTATS  "Structural Models (EFA, CFA, SEM, ...)", easystats.github.io/parameters/articles/
           efa_cfa.html: Bartlett's test and KMO of the 2436 complete rows (R package performance).
WILHELM    F. Wilhelm, "Beautiful Tables for Exploratory Factor Analysis in R",
           franciscowilhelm.com/post/exploratory-factor-analysis-table/: fa(bfi[1:25], 5).
PSYCH      Reference page of cortest.bartlett, personality-project.github.io/psych/reference/
           cortest.bartlett.html: bfi[1:200, 1:10].
TANAKA     Y. Tanaka, "因子分析に関して備忘録" (25 January 2021): VSS() by number of factors and
           fa(fm = "ml"), from complete-case correlations with n.obs = 2800.
LAI        M. Lai, PSYC 520 notes, marklhc.quarto.pub/psyc520-2023spring/r-notes/05-alpha.html.
CODEBOOK   Reference page of knit_print.alpha of the R package codebook, which runs psych's
           example(alpha): four congeneric tests.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize

from bridge import pairwise_correlations
from cuspfa import CuspFactorAnalysis, datasets
from cuspfa.diagnostics.fit_indices import (
    bartlett,
    cronbach_alpha,
    determinacy,
    kmo,
    omega_by_group,
    omega_total,
    rmsea,
    rmsea_of,
    srmr,
)
from cuspfa.errors import CuspWarning, DataError, InputError
from support import complete_rows

ITEMS = datasets.load_bfi(subset="items").data
ALL = pairwise_correlations(ITEMS)
COMPLETE = np.corrcoef(complete_rows(ITEMS), rowvar=False)


def model_of(loadings):
    return loadings @ loadings.T + np.diag(1 - np.sum(loadings**2, axis=1))


def minres(r, k):
    """Least squares over uniquenesses: half the sum of the p − k smallest squared eigenvalues."""

    def loss(psi):
        values, vectors = np.linalg.eigh(r - np.diag(psi))
        rest = values[: len(r) - k]
        return np.sum(rest**2) / 2, -(vectors[:, : len(r) - k] ** 2) @ rest

    start = 1 / np.diag(np.linalg.inv(r))
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(0.005, 1)] * len(r),
        options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 2000},
    )  # fmt: skip
    values, vectors = np.linalg.eigh(r - np.diag(found.x))
    return model_of(vectors[:, len(r) - k :] * np.sqrt(values[len(r) - k :]))


def maximum_likelihood(r, k):
    """The likelihood over log uniquenesses, loadings concentrated out."""
    rest = slice(0, len(r) - k)

    def spectrum(log_psi):
        root = np.exp(-log_psi / 2)
        return np.linalg.eigh(r * np.outer(root, root))

    def loss(log_psi):
        values, vectors = spectrum(log_psi)
        e = values[rest]
        return np.sum(e - 1 - np.log(e)), (vectors[:, rest] ** 2) @ (1 - e)

    start = -np.log(np.diag(np.linalg.inv(r)))
    found = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-7})
    values, vectors = spectrum(found.x)
    big = slice(len(r) - k, None)
    loadings = vectors[:, big] * np.sqrt(values[big] - 1) * np.exp(found.x / 2)[:, None]
    return model_of(loadings)


# --- KMO ---

KOPTUR_KMO = [
    0.74, 0.84, 0.87, 0.87, 0.90, 0.83, 0.79, 0.85, 0.82, 0.86, 0.83, 0.88, 0.89, 0.87, 0.89,
    0.78, 0.78, 0.86, 0.88, 0.86, 0.85, 0.78, 0.84, 0.76, 0.76,
]  # fmt: skip
EASYSTATS_KMO = [
    0.75, 0.84, 0.87, 0.88, 0.90, 0.84, 0.80, 0.85, 0.83, 0.86, 0.84, 0.88, 0.90, 0.88, 0.89,
    0.78, 0.78, 0.86, 0.89, 0.86, 0.86, 0.78, 0.84, 0.77, 0.76,
]  # fmt: skip


def test_kmo_is_the_published_one():
    pairs, rows = kmo(ALL), kmo(COMPLETE)
    assert round(pairs.overall, 2) == round(rows.overall, 2) == 0.85
    assert pairs.by_variable.round(2).tolist() == KOPTUR_KMO
    assert rows.by_variable.round(2).tolist() == EASYSTATS_KMO
    assert pairs.by_variable.round(2).tolist() != EASYSTATS_KMO


def test_a_data_frame_will_do():
    frame = pd.DataFrame(ALL[:4, :4], columns=list("abcd"), index=list("abcd"))
    assert kmo(frame).overall == kmo(ALL[:4, :4]).overall
    assert bartlett(frame, 2800) == bartlett(ALL[:4, :4], 2800)
    assert determinacy(pd.DataFrame(LOADINGS), pd.Series(SHARES)).shape == (2,)


def test_kmo_is_made_of_partial_correlations():
    rows = datasets.simulate(60, 5, 2, random_state=3).X
    rows = rows - rows.mean(axis=0)
    shared, own = np.zeros((5, 5)), np.zeros((5, 5))
    for i in range(5):
        for j in range(5):
            if i != j:
                others = np.delete(rows, [i, j], axis=1)
                pair = rows[:, [i, j]]
                left = pair - others @ np.linalg.lstsq(others, pair, rcond=None)[0]
                shared[i, j] = np.corrcoef(pair.T)[0, 1] ** 2
                own[i, j] = np.corrcoef(left.T)[0, 1] ** 2
    found = kmo(np.corrcoef(rows, rowvar=False))
    assert found.overall == pytest.approx(shared.sum() / (shared + own).sum(), rel=1e-10)
    assert_allclose(found.by_variable, shared.sum(0) / (shared + own).sum(0), rtol=1e-10)
    assert np.abs(found.by_variable - own.sum(0) / (shared + own).sum(0)).min() > 0.01


def test_kmo_of_data_without_factors_is_a_half():
    rng = np.random.default_rng(0)
    shuffled = rng.permuted(complete_rows(ITEMS), axis=0)
    assert kmo(np.corrcoef(shuffled, rowvar=False)).overall == pytest.approx(0.5, abs=0.03)
    nothing = kmo(np.eye(3))
    assert np.isnan(nothing.overall)
    assert np.isnan(nothing.by_variable).all()


def test_a_singular_matrix_is_refused():
    twice = COMPLETE[np.ix_([0, 1, 2, 2], [0, 1, 2, 2])]
    for broken in (kmo, lambda r: bartlett(r, 100), lambda r: rmsea(r, np.eye(4), 100, 0)):
        with pytest.raises(DataError, match="positive definite. Got .* smallest eigenvalue"):
            broken(twice)
    with pytest.raises(DataError, match="model_correlation must be positive definite"):
        rmsea(np.eye(4), twice, 100, 0)
    few = np.corrcoef(np.random.default_rng(0).normal(size=(5, 8)), rowvar=False)
    with pytest.raises(DataError, match="no more rows than variables"):
        kmo(few)


# --- Bartlett ---


def test_bartlett_is_the_published_one():
    every = bartlett(ALL, 2800)
    assert (round(every.statistic, 2), every.df, every.p_value) == (20163.79, 300, 0.0)  # WILHELM
    assert round(bartlett(COMPLETE, 2436).statistic, 2) == 18146.07  # EASYSTATS
    assert round(bartlett(COMPLETE, 2800).statistic, 2) == 20868.91  # TANAKA
    part = bartlett(pairwise_correlations(ITEMS[:200, :10]), 200)  # PSYCH
    assert round(part.statistic, 3) == 457.457
    assert part.df == 45
    assert part.p_value == pytest.approx(1.136106e-69, rel=1e-6)


def test_bartlett_holds_its_level():
    rng = np.random.default_rng(1)
    tests = [bartlett(np.corrcoef(rng.normal(size=(30, 6)), rowvar=False), 30) for _ in range(800)]
    assert stats.kstest([test.p_value for test in tests], "uniform").pvalue > 0.01
    # Negative control: without the correction of n − 1 it does not.
    plain = [stats.chi2.sf(t.statistic * 29 / (29 - 17 / 6), t.df) for t in tests]
    assert stats.kstest(plain, "uniform").pvalue < 1e-6


def test_bartlett_sees_correlation():
    rng = np.random.default_rng(0)
    rows = 0.6 * rng.normal(size=(60, 1)) + 0.8 * rng.normal(size=(60, 6))
    shuffled = rng.permuted(rows, axis=0)
    assert bartlett(np.corrcoef(rows, rowvar=False), 60).p_value < 1e-6
    assert bartlett(np.corrcoef(shuffled, rowvar=False), 60).p_value > 0.05


# --- fit ---

# TANAKA: k, chisq, RMSEA, SRMR of VSS(d_cor, n.obs = 2800).
BY_FACTORS = [
    (1, 12256, 0.125, 0.120), (2, 7670, 0.103, 0.087), (3, 5273, 0.089, 0.065),
    (4, 3488, 0.075, 0.046), (5, 1770, 0.055, 0.028), (6, 1054, 0.044, 0.019),
    (7, 726, 0.038, 0.016), (8, 516, 0.033, 0.013),
]  # fmt: skip


@pytest.mark.parametrize(("k", "statistic", "error", "residual"), BY_FACTORS)
def test_fit_by_number_of_factors_is_the_published_one(k, statistic, error, residual):
    model = minres(COMPLETE, k)
    found = rmsea(COMPLETE, model, 2800, k)
    assert found.statistic == pytest.approx(statistic, abs=1.0)
    # psych divides (T − df)/df by n, not by the multiplier m that T has: 0.2 % less.
    rounding = 5e-4 + 0.003 * error
    assert found.value == pytest.approx(error, abs=rounding)
    assert srmr(COMPLETE, model) == pytest.approx(residual, abs=5.1e-4)
    assert rmsea(COMPLETE, model, 2800, k + 1).value != pytest.approx(error, abs=rounding)
    assert srmr(COMPLETE, minres(COMPLETE, k + 1)) != pytest.approx(residual, abs=5.1e-4)


def test_rmsea_and_its_interval_are_the_published_ones():
    least_squares, likelihood = minres(ALL, 5), maximum_likelihood(COMPLETE, 5)
    found = rmsea(ALL, least_squares, 2800, 5)
    assert found.statistic == pytest.approx(1808.94, abs=0.3)  # WILHELM
    assert (found.df, found.reason) == (185, "")
    assert [round(x, 3) for x in found[:3]] == [0.056, 0.054, 0.058]
    assert round(srmr(ALL, least_squares), 2) == 0.03
    best = rmsea(COMPLETE, likelihood, 2800, 5)
    assert best.statistic == pytest.approx(1714.56, abs=0.01)  # TANAKA
    assert [round(x, 3) for x in best[:3]] == [0.054, 0.052, 0.057]
    # No other model with five factors has a smaller discrepancy.
    assert best.statistic < rmsea(COMPLETE, minres(COMPLETE, 5), 2800, 5).statistic


def test_the_statistic_is_a_likelihood_ratio():
    rows = stats.zscore(datasets.simulate(80, 7, 2, random_state=5).X)
    r = np.corrcoef(rows, rowvar=False)
    model = maximum_likelihood(r, 2)
    ratio = 2 * np.sum(
        stats.multivariate_normal(cov=r).logpdf(rows)
        - stats.multivariate_normal(cov=model).logpdf(rows)
    )
    expected = ratio / 80 * (80 - 1 - (2 * 7 + 5) / 6 - 2 * 2 / 3)
    found = rmsea(r, model, 80, 2)
    assert found.statistic == pytest.approx(expected, rel=1e-8)
    assert found.p_value == pytest.approx(stats.chi2.sf(expected, 8), rel=1e-6)
    assert found.statistic != pytest.approx(ratio, rel=0.01)


def poisson_mixture(statistic, df, noncentrality):
    """P(χ²_df(λ) ≤ statistic): central distributions with df + 2j, j ~ Poisson(λ/2)."""
    j = np.arange(3000)
    weights = stats.poisson.pmf(j, noncentrality / 2)
    return float(weights @ stats.chi2.cdf(statistic, df + 2 * j))


@pytest.mark.parametrize("level", [0.9, 0.5])
def test_the_interval_inverts_the_noncentral_law(level):
    found = rmsea(COMPLETE, minres(COMPLETE, 6), 2800, 6, prob=level)
    weight = 2800 - 1 - 55 / 6 - 4
    low, high = (end**2 * found.df * weight for end in (found.lower, found.upper))
    assert poisson_mixture(found.statistic, found.df, low) == pytest.approx((1 + level) / 2)
    assert poisson_mixture(found.statistic, found.df, high) == pytest.approx((1 - level) / 2)
    assert found.lower < found.value < found.upper


def test_a_model_that_fits_has_no_error():
    loadings = np.full((6, 1), 0.6)
    found = rmsea(model_of(loadings), model_of(loadings), 200, 1)
    assert (found.value, found.lower, found.upper) == (0.0, 0.0, 0.0)
    assert found.p_value == pytest.approx(1.0)


def test_the_interval_covers_the_error_of_the_population():
    """One factor and a small second one, seen through one factor by maximum likelihood."""
    loadings = np.array([[0.7] * 8, [0.35, 0.35, 0.35, 0, 0, 0, -0.35, 0]]).T
    truth = model_of(loadings)
    excess = np.linalg.eigvals(np.linalg.solve(maximum_likelihood(truth, 1), truth)).real
    error = np.sqrt(np.sum(excess - 1 - np.log(excess)) / 20)
    rng = np.random.default_rng(2)
    root = np.linalg.cholesky(truth)
    inside = np.zeros((150, 2), bool)
    for row in inside:
        r = np.corrcoef(rng.normal(size=(150, 8)) @ root.T, rowvar=False)
        model = maximum_likelihood(r, 1)
        for at, n in enumerate((150, 600)):  # The second takes the rows for four times as many.
            found = rmsea(r, model, n, 1)
            row[at] = found.lower <= error <= found.upper
    assert 0.84 <= inside[:, 0].mean() <= 0.96
    assert inside[:, 1].mean() < 0.75


def test_without_degrees_of_freedom_there_is_no_error_to_speak_of():
    r = model_of(np.array([[0.8, 0.7, 0.6]]).T)
    found = rmsea(r, r, 100, 1)
    assert found.df == 0
    assert np.isnan([found.value, found.lower, found.upper, found.p_value]).all()
    assert found.reason == "1 factors of 3 variables leave 0 degrees of freedom"
    assert rmsea(r, r, 100, 2).df == -2
    assert rmsea(r, r, 100, 0).reason == ""


def test_srmr_by_loops():
    a, b = ALL[:6, :6], model_of(np.full((6, 1), 0.4))
    total = sum((a[i, j] - b[i, j]) ** 2 for i in range(6) for j in range(i))
    assert srmr(a, b) == pytest.approx(np.sqrt(total / 15))
    bentler = np.sqrt(total / 21)  # Hu & Bentler count the diagonal, too.
    assert srmr(a, b) * np.sqrt(5 / 7) == pytest.approx(bentler)


# --- reliability and scores ---

LOADINGS = np.array(
    [[0.7, 0.2], [-0.6, 0.1], [0.5, 0.4], [0.8, 0.0], [0.1, 0.7], [0.3, -0.6], [0.0, 0.5]]
)
SHARES = 1 - np.sum(LOADINGS**2, axis=1)
KEYS = np.array([1, -1, 1, 1, 1, -1, 1])


def draw(n=200_000):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(n, 2))
    return scores, scores @ LOADINGS.T + rng.normal(size=(n, 7)) * np.sqrt(SHARES)


def test_omega_is_the_reliability_of_the_sum():
    scores, rows = draw()
    for columns in (None, [0, 1, 2, 3], [4, 5, 6]):
        chosen = np.arange(7) if columns is None else np.array(columns)
        total = rows[:, chosen] @ KEYS[chosen]
        common = (scores @ LOADINGS.T)[:, chosen] @ KEYS[chosen]
        reliability = np.corrcoef(total, common)[0, 1] ** 2
        found = omega_total(LOADINGS, SHARES, columns=columns, keys=KEYS)
        assert found == pytest.approx(reliability, abs=0.004)
        assert abs(omega_total(LOADINGS, SHARES, columns=columns) - reliability) > 0.05
    groups = omega_by_group(LOADINGS, SHARES, {"x": [0, 1, 2, 3], "y": slice(4, 7)}, keys=KEYS)
    assert list(groups) == ["x", "y"]
    assert groups["y"] == omega_total(LOADINGS, SHARES, columns=[4, 5, 6], keys=KEYS)


def test_omega_does_not_depend_on_rotation():
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    found = omega_total(LOADINGS @ turn, SHARES, keys=KEYS)
    assert found == pytest.approx(omega_total(LOADINGS, SHARES, keys=KEYS))
    assert omega_total(np.zeros((3, 0)), np.ones(3)) == 0.0


def test_alpha_is_the_published_one():
    congeneric = model_of(np.array([[0.8, 0.7, 0.6, 0.5]]).T)  # CODEBOOK
    assert round(cronbach_alpha(congeneric), 2) == 0.74
    dropped = [cronbach_alpha(congeneric, columns=np.arange(4) != j) for j in range(4)]
    assert np.round(dropped, 2).tolist() == [0.62, 0.66, 0.70, 0.74]
    # LAI: openness, two of whose items are worded the other way: std.alpha = -0.096.
    openness = cronbach_alpha(ALL, columns=slice(20, 25))
    assert openness == pytest.approx(-0.096, abs=1e-3)
    keys = np.ones(25)
    keys[[21, 24]] = -1
    assert cronbach_alpha(ALL, columns=slice(20, 25), keys=keys) > 0.55


def test_alpha_is_at_most_omega():
    for values in ([0.8, 0.7, 0.6, 0.5], [0.9, 0.2, 0.2, 0.2], [0.6, 0.6, 0.6]):
        loadings = np.array([values]).T
        alpha = cronbach_alpha(model_of(loadings))
        omega = omega_total(loadings, 1 - loadings[:, 0] ** 2)
        equal = len(set(values)) == 1
        assert alpha == pytest.approx(omega) if equal else alpha < omega - 1e-3


def test_determinacy_is_the_correlation_of_factor_and_score():
    scores, rows = draw()
    estimates = rows @ np.linalg.lstsq(rows, scores, rcond=None)[0]
    expected = [np.corrcoef(scores[:, k], estimates[:, k])[0, 1] for k in range(2)]
    found = determinacy(LOADINGS, SHARES)
    assert_allclose(found, expected, atol=0.003)
    assert np.abs(determinacy(LOADINGS[:, ::-1], SHARES) - expected).min() > 0.03
    units = np.geomspace(1e-3, 1e3, 7)
    assert_allclose(determinacy(LOADINGS * units[:, None], SHARES * units**2), found)


def test_determinacy_at_the_ends():
    assert_allclose(determinacy(np.array([[1e-9], [0.0]]), np.ones(2)), [1e-9])
    assert_allclose(determinacy(np.full((3, 1), 1e6), np.full(3, 1e-6)), [1.0])
    assert determinacy(np.zeros((3, 0)), np.ones(3)).shape == (0,)


# --- what is refused ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kmo(np.zeros((3, 2))), r"square matrix.*Got shape \(3, 2\)"),
        (lambda: kmo([[1.0]]), "two or more variables"),
        (lambda: kmo([[1.0, 0.5], [0.2, 1.0]]), "symmetric"),
        (lambda: kmo(np.diag([1.0, 2.0])), "unit diagonal. Got 2 at index 1"),
        (lambda: kmo([[1.0, 1.5], [1.5, 1.0]]), "between -1 and 1"),
        (lambda: kmo([[1.0, np.nan], [np.nan, 1.0]]), "NaN"),
        (lambda: bartlett(np.eye(9), 4), "n must be at least 5 rows for 9 variables"),
        (lambda: bartlett(np.eye(2), 2.5), "n must be a whole number"),
        (lambda: srmr(np.eye(2), np.eye(3)), "same variables. Got 2 and 3"),
        (lambda: rmsea(np.eye(3), np.eye(3), 50, 4), "n_factors must be at most the 3"),
        (lambda: rmsea(np.eye(3), np.eye(3), 50, 1, prob=1.0), "prob must be between 0 and 1"),
        (lambda: omega_total(LOADINGS, SHARES[:3]), "noise_share must be 7 numbers"),
        (lambda: omega_total(LOADINGS, -SHARES), "noise_share must be 7 numbers not below zero"),
        (lambda: omega_total(LOADINGS, SHARES, keys=[1, 2]), "keys must be None or 1 or -1"),
        (lambda: omega_total(LOADINGS, SHARES, keys=[1, [2]]), "keys must be None or 1 or -1"),
        (lambda: omega_total(LOADINGS, SHARES, keys="+-+----"), "keys must be None or 1 or -1"),
        (lambda: omega_total(LOADINGS, SHARES, columns=[]), "at least one variable"),
        (lambda: omega_total(LOADINGS, SHARES, columns=[9]), "between 0 and 6. Got 9"),
        (lambda: omega_total(np.zeros((2, 1)), np.zeros(2)), "does not vary"),
        (lambda: omega_by_group(LOADINGS, SHARES, [[0, 1]]), "mapping from names"),
        (lambda: cronbach_alpha(ALL, columns=[3]), "at least two variables. Got \\[3\\]"),
        (lambda: cronbach_alpha(2 * np.eye(2) - 1), "does not vary"),
        (lambda: determinacy(LOADINGS, np.zeros(7)), "above zero. Got 0 at index 0"),
        (lambda: determinacy(np.zeros((0, 2)), np.ones(0)), "a row for each variable"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_where_no_row_has_two_values_nothing_is_said_of_the_fit():
    rng = np.random.default_rng(0)
    rows = np.full((300, 10), np.nan)
    rows[np.arange(300), rng.integers(0, 10, 300)] = 1 + rng.random(300)
    with pytest.warns(CuspWarning, match="one value only"):
        model = CuspFactorAnalysis().fit(rows)
    summary = model.posterior_.summary()
    assert summary.fit is None
    assert summary.parallel is None
    rows[:200] = 1 + rng.random((200, 10))
    with pytest.warns(CuspWarning, match="one value only"):
        known = CuspFactorAnalysis().fit(rows)
    assert known.posterior_.summary().fit.srmr > 0  # it can tell


def test_rmsea_without_a_weight_has_a_reason():
    found = rmsea_of(0.3, 0.0, 6, 1)
    assert np.isnan([found.value, found.lower, found.upper, found.p_value]).all()
    assert found.reason == "no row has values of two variables"
    assert rmsea_of(0.3, 100.0, 6, 1).reason == ""
