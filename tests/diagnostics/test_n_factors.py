"""How many: known truths, noise, held-out likelihood by hand, and what is said of bad input."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from scipy.stats import multivariate_normal

from cuspfa import CuspFactorAnalysis, Variational, datasets
from cuspfa.diagnostics import resampling
from cuspfa.diagnostics.n_factors import select_n_factors
from cuspfa.diagnostics.resampling import HeldOut, choose, compare_held_out
from cuspfa.errors import DataError, InputError

QUICK = {"n_folds": 2, "n_splits": 3}
TRUE = datasets.simulate(300, 9, 2, random_state=3).X


@pytest.fixture(scope="module")
def clear():
    return select_n_factors(CuspFactorAnalysis(), TRUE, **QUICK)


def test_all_rules_find_clear_factors(clear):
    assert clear.n_factors == clear.n_large == clear.n_replicated == 2
    assert clear.parallel_factors == clear.parallel_components == 2
    assert clear.minimum_average_partial == 2
    assert clear.one_standard_error == 2
    assert clear.weights[2] == max(clear.weights.values())
    assert sum(clear.weights.values()) == pytest.approx(1)
    assert [one.n_factors for one in clear.held_out] == [1, 2, 3, 4, 5]
    for one in clear.factors:
        assert one.lower < one.share < one.upper
        assert one.lowest <= one.congruence <= one.highest
        assert one.congruence > 0.97 > one.chance


def test_the_curve_is_on_the_page_and_in_a_table(clear):
    table = clear.to_frame("model_error")
    assert list(table["n_factors"]) == [one.n_factors for one in clear.curve.points]
    assert len(table) == 7
    assert "tolerated RMSEA" in str(clear)
    assert "By tolerated model error" in clear._repr_html_()


def test_noise_has_none_and_the_page_says_so():
    X = np.random.default_rng(1).normal(size=(500, 6))
    found = select_n_factors(CuspFactorAnalysis(), X, **QUICK)
    assert (found.n_factors, found.n_replicated, found.one_standard_error) == (0, 0, 0)
    assert found.best_held_out == 0  # for of more than none hardly any is kept
    assert found.factors == ()
    assert found.held_out[0].n_factors == 0  # zero is tried where it may be the answer
    assert str(found).startswith("No factors can be told from chance\n500 rows, 6 columns\n")


def test_small_factors_are_found_but_do_not_replicate():
    # The paper's 126 people: five factors by the evidence, of which halves share two or three.
    X = datasets.load_bfi(subset="paper").data
    found = select_n_factors(CuspFactorAnalysis(), X, numbers=[1, 3, 5], n_folds=2, n_splits=6)
    assert found.n_factors == 5
    assert found.factors[0].congruence > 0.85 > found.factors[4].congruence
    assert found.n_replicated < 5
    assert found.held_out[0].behind > 2 * found.held_out[0].standard_error > 0


def test_page_explains_a_number_of_less_weight(clear):
    assert clear.remark == ""
    told = replace(clear, remark="Another has more weight. " * 5)
    lines = str(told).splitlines()
    assert " ".join(line.strip() for line in lines[1:3]) == told.remark.strip()
    assert str(clear).splitlines()[1:] == lines[3:]


def test_page_begins_with_the_headline_of_the_summary(clear):
    lines = str(clear).splitlines()
    model = CuspFactorAnalysis().fit(TRUE)
    assert lines[0] == clear.headline == model.posterior_.summary().headline
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line.startswith("evidence")] == [
        f"evidence{2:>42}",
        f"evidence, model off by RMSEA 0.05{2:>17}",
        f"evidence, model off by RMSEA 0.07{2:>17}",
    ]


def test_held_out_is_the_density_of_rows_that_were_not_fitted():
    parts = [np.arange(0, 300, 3), np.arange(1, 300, 3), np.arange(2, 300, 3)]
    found, unconverged = resampling.held_out_by_number(
        CuspFactorAnalysis(), TRUE, [1, 2], parts, None
    )
    assert unconverged == 0
    for number, one in enumerate(found, 1):
        densities = []
        for part in parts:
            rest = np.delete(TRUE, part, axis=0)
            model = CuspFactorAnalysis(n_factors=number).fit(rest)
            distribution = multivariate_normal(rest.mean(axis=0), model.get_covariance())
            densities += distribution.logpdf(TRUE[part]).tolist()
        assert one.n_factors == number
        assert one.log_likelihood == pytest.approx(np.mean(densities), abs=1e-8)
    # Negative control: rows that were fitted to are denser.
    assert CuspFactorAnalysis(n_factors=2).fit(TRUE).score(TRUE) > found[1].log_likelihood + 0.01


def test_differences_are_paired():
    densities = np.array([[-1.0, -9.0, -4.0, -6.0], [-1.5, -8.0, -4.0, -5.5]])
    first, second = compare_held_out([1, 2], densities, np.array([1.0, 2.0]))
    assert (second.behind, second.standard_error) == (0.0, 0.0)
    differences = [-0.5, 1.0, 0.0, 0.5]
    assert first.behind == pytest.approx(0.25)
    assert first.standard_error == pytest.approx(np.std(differences, ddof=1) / 2)
    # Unpaired, rows would differ far more than the two numbers do.
    assert first.standard_error < 0.25 * np.std(densities[0], ddof=1)
    assert choose([first, second]) == (2, 1)


def test_choice_within_a_standard_error():
    def behind(*pairs):
        return [HeldOut(k, -1.0, gap, error, k) for k, (gap, error) in enumerate(pairs, 1)]

    assert choose(behind((0.5, 0.1), (0.2, 0.1), (0.05, 0.1), (0.0, 0.0))) == (4, 3)
    assert choose(behind((0.5, 0.1), (0.2, 0.1), (0.0, 0.0), (0.1, 0.2))) == (3, 3)


def test_the_smallest_of_equals_is_the_best():
    densities = np.array([[-3.0, -3.0], [-2.0, -2.0], [-1.9999, -1.9999], [-2.5, -2.5]])
    assert choose(compare_held_out([4, 5, 6, 7], densities, np.array([4, 5, 6, 7])))[0] == 5


def test_a_number_whose_factors_die_does_not_speak_for_so_many():
    densities = np.array([[-3.0, -3.0], [-2.0, -2.0], [-1.9, -1.9]])
    found = compare_held_out([1, 2, 3], densities, np.array([1.0, 1.5, 1.5]))
    assert [one.real for one in found] == [True, True, False]
    assert choose(found) == (2, 2)
    assert found[2].behind == pytest.approx(-0.1)
    alive = compare_held_out([1, 2, 3], densities, np.array([1.0, 2.0, 2.5]))
    assert choose(alive) == (3, 3)
    # If all have fewer than they should, as under a finite spike, they are compared as they are.
    assert choose(compare_held_out([2, 3, 4], densities, np.array([1.0, 1.0, 1.0]))) == (4, 4)


def test_factors_keep_the_names_of_the_whole_fit():
    """A half whose factors come in another order is still compared factor by factor."""
    whole = CuspFactorAnalysis().fit(TRUE)
    half, order = np.arange(0, 300, 2), np.arange(9)
    ahead, _, _ = resampling._one_split(CuspFactorAnalysis(), TRUE, whole.loadings_, half, order)
    back, _, _ = resampling._one_split(
        CuspFactorAnalysis(), TRUE, whole.loadings_[:, ::-1], half, order
    )
    assert_allclose(ahead, back[::-1], atol=1e-12)
    assert not np.allclose(ahead, back)


def test_folds_are_the_same_for_all_numbers_and_cover_all_rows():
    parts = resampling.random_parts(23, 5, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(23))
    assert {len(part) for part in parts} == {4, 5}


def test_same_seed_same_result_whatever_the_processes(clear):
    again = select_n_factors(
        CuspFactorAnalysis(), TRUE, **QUICK, n_jobs=2, random_state=np.random.default_rng(0)
    )
    assert again == clear
    assert select_n_factors(CuspFactorAnalysis(), TRUE, **QUICK, random_state=1) != clear


def test_the_model_given_is_not_touched(clear):
    model = CuspFactorAnalysis().fit(TRUE[:, :5])
    before = dict(vars(model))
    assert select_n_factors(model, TRUE, **QUICK) == clear
    assert vars(model).keys() == before.keys()
    assert all(getattr(model, name) is value for name, value in before.items())


def test_settings_of_the_model_are_used():
    model = CuspFactorAnalysis(method=Variational(max_factors=1))
    with pytest.warns(match="max_factors=1"):
        found = select_n_factors(model, TRUE, **QUICK)
    assert found.n_factors == 1
    assert [one.n_factors for one in found.held_out] == [0, 1]
    few = CuspFactorAnalysis(method=Variational(max_iter=2))
    with pytest.warns(match="Not converged"):
        found = select_n_factors(few, TRUE, numbers=[2], **QUICK)
    assert found.n_unconverged > 0
    assert str(found).endswith("fits to parts of the rows did not converge")


def test_as_published():
    model = CuspFactorAnalysis.as_published(search=True)
    found = select_n_factors(model, TRUE, numbers=[1, 2], **QUICK)
    assert len(found.factors) == found.n_factors >= 2


def test_tables_and_sparse_rows_give_the_same(clear):
    frame = pd.DataFrame(TRUE, columns=[f"item {j}" for j in range(9)])
    assert select_n_factors(CuspFactorAnalysis(), frame, **QUICK) == clear
    found = select_n_factors(CuspFactorAnalysis(), csr_matrix(TRUE), **QUICK)
    assert found.n_factors == 2
    assert_allclose(
        [one.log_likelihood for one in found.held_out],
        [one.log_likelihood for one in clear.held_out],
        atol=1e-3,
    )


def test_fewer_rows_than_columns():
    X = datasets.simulate(40, 50, 2, random_state=0).X
    found = select_n_factors(CuspFactorAnalysis(), X, numbers=[1, 2, 3], **QUICK)
    assert found.n_factors == found.n_replicated == found.one_standard_error == 2
    assert found.parallel_factors is found.minimum_average_partial is None
    assert "parallel" not in str(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "auto"}, "model must be a CuspFactorAnalysis. Got 'str'"),
        ({"model": CuspFactorAnalysis(n_factors=2)}, "model must be one that finds the number"),
        ({"numbers": 3}, "numbers must be None or several numbers of factors"),
        ({"numbers": []}, "numbers must be None or at least one"),
        ({"numbers": [1, -1]}, "numbers must be a whole number not below 0. Got -1"),
        ({"numbers": [1, 10]}, "numbers must be at most 9, .* Got 10"),
        ({"numbers": "12"}, "numbers must be a whole number"),
        ({"n_folds": 1}, "n_folds must be a whole number not below 2. Got 1"),
        ({"n_folds": 301}, "n_folds must be at most the 300 rows. Got 301"),
        ({"n_splits": 0}, "n_splits must be a whole number not below 1. Got 0"),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0"),
        ({"random_state": -1}, "random_state must be a whole number not below 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        select_n_factors(**{"model": CuspFactorAnalysis(), "X": TRUE} | arguments)


def test_missing_values_are_no_obstacle():
    """Ten per cent of them: the same number by every rule that sees rows."""
    incomplete = np.where(np.random.default_rng(0).uniform(size=TRUE.shape) < 0.1, np.nan, TRUE)
    found, whole = (
        select_n_factors(CuspFactorAnalysis(), data, n_splits=2, n_folds=2)
        for data in (incomplete, TRUE)
    )
    assert found.n_factors == whole.n_factors
    assert str(found).splitlines()[0] == str(whole).splitlines()[0]


def test_bad_data():
    with pytest.raises(DataError, match="X must have at least 10 rows to be divided. Got 9"):
        select_n_factors(CuspFactorAnalysis(), TRUE[:9])
    with pytest.raises(DataError, match="Input X contains infinity"):
        select_n_factors(CuspFactorAnalysis(), np.where(TRUE > 2, np.inf, TRUE))
    rare = np.zeros((12, 3))
    rare[:, :2] = TRUE[:12, :2]
    rare[0, 2] = 1.0
    with pytest.raises(DataError, match="X cannot be divided: .* rows by themselves .* constant"):
        select_n_factors(CuspFactorAnalysis(), rare, n_folds=2, n_splits=2)
