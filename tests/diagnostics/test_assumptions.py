"""Planted skewed items, outlying rows and doublets are found; clean data give no finding."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.stats import chi2, norm
from sklearn import config_context
from sklearn.exceptions import NotFittedError

from cuspfa import CuspFactorAnalysis, datasets
from cuspfa.diagnostics import assumptions as module
from cuspfa.diagnostics.assumptions import (
    Finding,
    check_assumptions,
    doublets,
    skewed_items,
    warn_of_assumptions,
)
from cuspfa.diagnostics.outliers import outlying_rows, robust_scores, standard_distance
from cuspfa.errors import CuspWarning, DataError, InputError

SEEDS = range(10)
CUTS = norm.ppf([0.6, 0.75, 0.87, 0.95])


def clean(seed, n=400, p=10, k=2):
    """Rows of a factor model, each variable of variance 1."""
    sim = datasets.simulate(n, p, k, random_state=100 + seed)
    return sim.X / np.sqrt(np.diag(sim.covariance))


def cut(X, columns):
    """Five-point items of which 60 % say the lowest, or the highest, by turns."""
    items = X.copy()
    for number, j in enumerate(columns):
        sign = -1.0 if number % 2 else 1.0
        items[:, j] = sign * np.searchsorted(CUTS, sign * X[:, j])
    return items


def shifted(X, seed, share=0.01, size=8.0):
    """The first rows shifted together along one random direction."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(X.shape[1])
    direction /= np.linalg.norm(direction)
    moved = X.copy()
    moved[: round(share * len(X))] += size * (X @ direction).std() * direction
    return moved


def simple(seed, n=400):
    """Two factors of five variables each, the first two of which share something more."""
    rng = np.random.default_rng(seed)
    loadings = np.kron(np.eye(2), np.full((5, 1), 0.7))
    X = rng.standard_normal((n, 2)) @ loadings.T + np.sqrt(0.51) * rng.standard_normal((n, 10))
    X[:, :2] = np.sqrt(0.6) * X[:, :2] + np.sqrt(0.4) * rng.standard_normal((n, 1))
    return X


def look(X):
    model = CuspFactorAnalysis(random_state=0).fit(X)
    return model.n_factors_, check_assumptions(model, X)


# --- planted, and nothing planted ---


def test_clean_data_give_no_finding():
    for seed in SEEDS:
        assert look(clean(seed)) == (2, [])


def test_even_items_are_no_misfit():
    for seed in range(3):
        items = np.searchsorted([-1.5, -0.5, 0.5, 1.5], clean(seed)).astype(float)
        assert look(items) == (2, [])


@pytest.mark.long
def test_skewed_items_are_found_and_the_number_goes_back():
    more, back = 0, 0
    names = [f"item {j}" for j in range(12)]
    for seed in SEEDS:
        X = cut(clean(seed, n=800, p=12), range(6))
        model = CuspFactorAnalysis(random_state=0).fit(X)
        (found,) = module._skewed_finding(model, X, names)  # by itself, for it is quick
        assert (found.kind, found.columns, found.rows) == ("skewed items", tuple(range(6)), ())
        more += model.n_factors_ > 2
        back += found.n_factors_without == 2
    assert more >= 5  # else there was nothing to go back from
    assert back >= 9
    assert check_assumptions(model, X)[0].columns == found.columns


@pytest.mark.long
def test_outlying_rows_are_found_and_the_number_goes_back():
    more, hits, false, back = 0, 0, 0, 0
    for seed in SEEDS:
        number, found = look(shifted(clean(seed), seed))
        assert found[0].kind == "outlying rows"
        rows = set(found[0].rows)
        more += number > 2
        hits += len(rows & set(range(4)))
        false += len(rows - set(range(4)))
        back += found[0].n_factors_without == 2
    assert more >= 7
    assert hits >= 36
    assert false <= 1
    assert back >= 9


def test_a_doublet_is_found_and_the_number_goes_back():
    for seed in range(2):
        number, found = look(simple(seed))
        assert number == 3
        assert [one.kind for one in found] == ["doublet"]
        assert sorted(found[0].columns) == [0, 1]
        assert found[0].n_factors_without == 2
        assert f"correlate {np.corrcoef(simple(seed)[:, :2].T)[0, 1]:+.2f}" in found[0].message


# --- outlying rows ---


def test_outliers_do_not_hide_behind_the_factor_they_make():
    X = shifted(clean(1), 1, share=0.1, size=6.0)
    model = CuspFactorAnalysis().fit(X)
    centred = X - model.mean_
    plain = np.sum(centred @ model.get_precision() * centred, axis=1)
    masked = np.sum(plain[:40] > chi2.isf(0.01 / 400, 10))
    found = outlying_rows(X)
    assert masked <= 10
    assert len(set(found) & set(range(40))) >= 30
    assert len(set(found) - set(range(40))) <= 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "p", "k", "sets"), [(30, 200, 3, 30), (60, 12, 3, 15), (200, 5, 1, 10)]
)
def test_false_alarms_are_rare(n, p, k, sets):
    assert sum(len(outlying_rows(clean(seed, n, p, k))) > 0 for seed in range(sets)) <= 1


def test_one_row_far_out_is_found_whatever_its_size():
    for size in (10.0, 1e5, 1e150):
        X = clean(0, n=100)
        X[17] = size
        assert outlying_rows(X)[0] == 17


def test_fewer_rows_than_columns():
    for seed in range(3):  # two rows together, which 40 rows of 80 columns would well explain
        X = shifted(clean(seed, n=40, p=80), seed, share=0.05, size=12.0)
        assert sorted(outlying_rows(X)) == [0, 1]


def yes_or_no(seed, n=1200, p=57, least=0.5, most=0.95):
    """Items of three factors, of which some rows' answers are rare; `least` to `most` loadings."""
    rng = np.random.default_rng(seed)
    scores, loadings = rng.normal(size=(n, 3)), np.zeros((p, 3))
    loadings[np.arange(p), np.arange(p) % 3] = rng.uniform(least, most, p)
    noise = rng.normal(size=(n, p)) * np.sqrt(1 - np.sum(loadings**2, axis=1))
    return scores @ loadings.T + noise, 0.7 * rng.normal(size=p)


def test_rows_are_not_outlying_because_their_items_are_yes_or_no():
    latent, thresholds = yes_or_no(0, n=3570)
    answers = (latent > thresholds).astype(float)
    assert len(outlying_rows(answers)) == 0
    # Taken as numbers that may be far out, hundreds of rows are called so for a rare answer.
    assert len(outlying_rows(answers, np.zeros(57, dtype=bool))) > 300


def test_missing_answers_do_not_make_items_continuous():
    latent, thresholds = yes_or_no(1)
    answers = (latent > thresholds).astype(float)
    answers[np.random.default_rng(0).random(answers.shape) < 0.02] = np.nan
    model = CuspFactorAnalysis(n_factors=3).fit(answers)
    assert [one for one in check_assumptions(model, answers) if one.kind == "outlying rows"] == []


@pytest.mark.parametrize("extra", [0, 2])
def test_outlying_answers_and_numbers_beside_items_are_found(extra):
    """The negative control: answers against all factors, and numbers far out beside items."""
    latent, _ = yes_or_no(2, n=600, p=30, least=0.5, most=0.8)
    answers = np.digitize(latent, [-1.5, -0.5, 0.5, 1.5]) + 1.0
    if extra:
        numbers = np.random.default_rng(0).normal(size=(600, extra))
        numbers[:5, 0] += 12.0
        table = np.column_stack([latent > 0, numbers]).astype(float)
    else:
        table = answers
        table[:5] = np.where(np.arange(30) // 3 % 2 == 0, 1.0, 5.0)
    assert sorted(outlying_rows(table)) == [0, 1, 2, 3, 4]


def test_standard_distances_of_normal_rows_are_standard_normal():
    for p in (3, 15, 200):
        drawn = chi2.rvs(p, size=200_000, random_state=0)
        standard = standard_distance(1.7 * drawn, p)  # a common factor does not matter
        for tail in (0.5, 0.1, 0.01, 0.001):
            assert np.quantile(standard, 1 - tail) == pytest.approx(norm.isf(tail), abs=0.1)
    # Rows that differ less than normal ones are not the more outlying for it; rows that differ
    # more set their own measure.
    assert standard_distance(200 + 0.001 * drawn, 200).max() < 0.01
    assert standard_distance(drawn**3, 200).max() < standard_distance(drawn, 200).max() * 1.5


def test_robust_scores():
    rng = np.random.default_rng(0)
    normal = rng.normal(5, 2, 1001)
    spoiled = np.where(np.arange(1001) < 100, 1e9, normal)
    mostly_zero = np.where(np.arange(1001) % 3, 0.0, normal)
    rare = np.where(np.arange(1001) < 10, 1.0, 0.0)
    answers = np.where(np.arange(1001) % 10 < 4, 2.0, 1.0)
    table = np.column_stack([normal, spoiled, mostly_zero, rare, answers])
    scores, items = robust_scores(table, np.arange(5) >= 3)
    assert scores.shape == (1001, 4)  # the rare one would be constant in most of the rows
    assert items.tolist() == [False, False, False, True]
    # 2 is answered by 401 of 1001: the standard deviation is √(0.4 · 0.6), as is no deviation's
    # median, which is 0.
    assert scores[:, 3].max() == pytest.approx(1 / np.sqrt(0.24), rel=1e-3)
    assert scores[:, 0].std() == pytest.approx(1, abs=0.05)
    assert scores[100:, 1].std() == pytest.approx(1, abs=0.2)
    assert scores[:, 1].max() == 1e6
    assert_allclose(scores[:, 2], mostly_zero / mostly_zero.std())


def test_too_few_rows_or_no_column_to_look_at():
    X = clean(0, n=19)
    X[0] = 1e6
    assert len(outlying_rows(X)) == 0
    rare = np.zeros((50, 3))
    rare[:3] = np.eye(3)
    assert len(outlying_rows(rare)) == 0


# --- skewed items ---


def test_skewed_items_need_few_values_and_skewness():
    rng = np.random.default_rng(0)
    seven, eight = rng.binomial(6, 0.05, 2000), rng.binomial(7, 0.05, 2000)
    eight[:8] = np.arange(8)
    even = rng.integers(0, 5, 2000)
    late = np.r_[np.zeros(1990), np.arange(10)]  # ten values, of which few are seen early
    X = np.column_stack([seven, eight, even, -seven, rng.exponential(size=2000), late])
    columns, skewness = skewed_items(X.astype(float))
    assert columns.tolist() == [0, 3]
    third = np.mean((seven - seven.mean()) ** 3) / np.std(seven) ** 3
    assert_allclose(skewness, [third, -third])


def test_one_skewed_item_is_not_worth_a_word():
    number, found = look(cut(clean(4), [3]))
    assert (number, found) == (2, [])


def test_no_number_without_all_columns():
    X = cut(clean(0), range(10))
    found = look(X)[1][0]
    assert (found.kind, found.columns) == ("skewed items", tuple(range(10)))
    assert found.n_factors_without is None
    assert "10 of 10 columns" in found.message
    assert "without" not in found.message


# --- doublets ---


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ([0.7, 0.6, 0.1, 0.0, 0.1], [(0, 1)]),
        ([-0.5, 0.1, 0.0, 0.6, -0.1], [(3, 0)]),
        ([0.7, 0.6, 0.5, 0.0, 0.0], []),  # three make a factor
        ([0.9, 0.2, 0.1, 0.0, 0.0], []),  # one alone is no pair
        ([0.2, 0.2, 0.0, 0.0, 0.0], []),  # too weak to matter
        ([0.4, 0.4, 0.3, 0.3, 0.3], []),
    ],
)
def test_what_a_doublet_is(column, found):
    assert doublets(np.array(column)[:, None]) == found


def test_no_doublets_without_factors_or_columns():
    assert doublets(np.zeros((5, 0))) == []
    assert doublets(np.full((2, 1), 0.7)) == []


# --- the face ---


def test_the_model_stays_as_it_is_and_results_repeat():
    X = shifted(clean(0), 0)
    model = CuspFactorAnalysis().fit(X)
    before = dict(vars(model))
    rows = X.copy()
    assert check_assumptions(model, X) == check_assumptions(model, X) != []
    assert vars(model).keys() == before.keys()
    assert all(getattr(model, name) is value for name, value in before.items())
    assert_allclose(X, rows, rtol=0)


def test_names_and_settings_of_scikit_learn():
    names = [f"item {j}" for j in range(10)]
    X = simple(0)
    frame = pd.DataFrame(X, columns=names)
    model = CuspFactorAnalysis().fit(frame)
    with config_context(transform_output="pandas"):
        (found,) = check_assumptions(model, frame)
    assert set(found.columns) == {0, 1}
    assert "item 0" in found.message
    assert "item 1" in found.message
    with pytest.raises(DataError, match="feature names should match"):
        check_assumptions(model, frame.rename(columns={"item 0": "other"}))


def test_a_number_that_was_given_is_not_looked_for_again():
    X = simple(0)
    (found,) = check_assumptions(CuspFactorAnalysis(n_factors=3).fit(X), X)
    assert found.kind == "doublet"
    assert found.n_factors_without is None
    assert "without" not in found.message


def test_one_warning_for_all():
    X = shifted(simple(0), 0)
    model = CuspFactorAnalysis().fit(X)
    with pytest.warns(CuspWarning) as caught:
        found = warn_of_assumptions(model, X)
    assert {one.kind for one in found} == {"outlying rows", "doublet"}
    assert len(caught) == 1
    text = str(caught[0].message)
    assert all(one.message in text for one in found)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(clean(0))
        assert warn_of_assumptions(model, clean(0)) == []


def test_a_finding_prints_on_a_page():
    words = Finding("doublet", "word " * 100, columns=(1, 2), n_factors_without=1)
    lines = str(words).splitlines()
    assert lines[0].startswith("doublet: word")
    assert max(map(len, lines)) <= 80


def test_bad_input():
    X = clean(0)
    model = CuspFactorAnalysis()
    with pytest.raises(InputError, match="model must be a fitted CuspFactorAnalysis. Got 'x'"):
        check_assumptions("x", X)
    with pytest.raises(NotFittedError):
        check_assumptions(model, X)
    model.fit(X)
    with pytest.raises(DataError, match="Got 399 rows instead of 400"):
        check_assumptions(model, X[1:])
    with pytest.raises(DataError, match="fitted to. Got other means in column 2"):
        check_assumptions(model, X + np.eye(10)[2] / 10)
    with pytest.raises(DataError, match="X has 9 features"):
        check_assumptions(model, X[:, 1:])
    with pytest.raises(DataError, match="Input X contains infinity"):
        check_assumptions(model, np.where(X > 2, np.inf, X))
    with pytest.raises(DataError, match="X must be dense"):
        check_assumptions(model, sparse.csr_matrix(X))
