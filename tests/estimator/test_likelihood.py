"""The estimator for ordinal columns: against quadrature by hand, and by what must not change it."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import ndtr, ndtri
from sklearn.base import clone

from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    EmpiricalBayesSlab,
    GaussianSlab,
    Gibbs,
    Moments,
    Ordinal,
    RowStream,
    Variational,
    check_assumptions,
    load,
    polychoric,
    prior_sensitivity,
)
from cuspfa._utils import tables
from cuspfa.datasets import load_bfi
from cuspfa.errors import ConvergenceWarning, CuspWarning, DataError, InputError
from cuspfa.inference.cellwise import engine, search
from cuspfa.posterior.latent import LatentPosterior
from lsat import LSAT7, answers
from support import fewer_cell_draws

Table = np.ndarray[Any, np.dtype[np.float64]]
SLOPES = np.array([[1.2], [0.9], [0.7], [1.0], [0.5], [0.8]])
CUTS = ((-0.5,), (0.3,), (-1.0, 0.6), (-0.8, 0.9), (-1.2, 0.0, 1.1), (0.0, 1.0))
NAMES = ["a", "b", "c", "d", "e", "f"]


def simulated(n: int = 400, seed: int = 0, *, missing: float = 0.0) -> Table:
    """Items of one factor with two to four categories, numbered from 1 on."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 1)) @ SLOPES.T + rng.normal(size=(n, len(CUTS)))
    rows = np.column_stack([1.0 + np.searchsorted(cut, z[:, j]) for j, cut in enumerate(CUTS)])
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def fitted(X: Any, **given: Any) -> CuspFactorAnalysis:
    given = {"n_factors": 1, "likelihood": "ordinal"} | given
    return CuspFactorAnalysis(**given).fit(X)


@pytest.fixture(autouse=True, scope="module")
def few_draws() -> Iterator[None]:
    """A quarter of the usual draws, for time."""
    with fewer_cell_draws(24):
        yield


@pytest.fixture(scope="module")
def model() -> CuspFactorAnalysis:
    return fitted(pd.DataFrame(simulated(missing=0.05), columns=NAMES))


def by_quadrature(model: CuspFactorAnalysis, row: Table) -> tuple[float, float, float, Table]:
    """log p(row), mean and variance of the score, P(category of the last item | the others).

    On a grid of the score, from thresholds for responses of variance one and standardised loadings.
    """
    grid = np.linspace(-8, 8, 4001)
    weight = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi) * (grid[1] - grid[0])
    chances = []
    for loading, cuts in zip(model.loadings_[:, 0], model.thresholds_, strict=True):
        edges = np.concatenate([[-np.inf], cuts, [np.inf]])
        sd = np.sqrt(1.0 - loading**2)
        chances.append(np.diff(ndtr((edges[:, None] - loading * grid) / sd), axis=0))
    last = chances[-1]
    own = weight.copy()
    for j, value in enumerate(row):
        if not np.isnan(value):
            own = own * chances[j][int(value) - 1]
    total = own.sum()
    mean = (own * grid).sum() / total
    variance = (own * grid**2).sum() / total - mean**2
    return float(np.log(total)), float(mean), float(variance), (last * own).sum(axis=1) / total


def test_new_rows_against_quadrature(model: CuspFactorAnalysis) -> None:
    rows = simulated(12, seed=5, missing=0.2)
    rows[:, 5] = np.nan
    rows[3] = np.nan
    frame = pd.DataFrame(rows, columns=NAMES)
    found, scores = model.score_samples(frame), model.factor_scores(frame)
    filled, chances = model.impute(frame, return_proba=True)
    for i, row in enumerate(rows):
        log_probability, mean, variance, last = by_quadrature(model, row)
        assert found[i] == pytest.approx(log_probability, abs=1e-4)
        assert scores.mean[i, 0] == pytest.approx(mean, abs=1e-2)
        assert scores.covariance[i, 0, 0] == pytest.approx(variance, abs=2e-2)
        assert chances["f"][i] == pytest.approx(last, abs=3e-3)
        assert filled["f"].iloc[i] == 1 + np.argmax(last)
    assert found[3] == pytest.approx(0.0, abs=1e-12)
    assert np.array_equal(model.transform(frame), scores.mean)
    assert model.score(frame) == pytest.approx(np.delete(found, 3).mean())
    with pytest.raises(AssertionError):  # the other sign of the factor is another model
        assert -scores.mean[0, 0] == pytest.approx(by_quadrature(model, rows[0])[1], abs=5e-3)


def test_the_probabilities_of_all_rows_sum_to_one() -> None:
    model = fitted(simulated()[:, :3])
    every = np.array(list(product([1, 2], [1, 2], [1, 2, 3])), dtype=float)
    assert np.exp(model.score_samples(every)).sum() == pytest.approx(1.0, abs=1e-5)


def test_lsat7_is_near_maximum_likelihood() -> None:
    """Reference: one-factor probit loadings .489 .544 .702 .420 .381 (R, psych and ltm)."""
    patterns, counts = answers(LSAT7)
    X = np.repeat(patterns, counts.astype(int), axis=0)
    model = fitted(X, prior=CuspPrior(slab=GaussianSlab(100.0)))
    assert model.loadings_[:, 0] == pytest.approx([0.489, 0.544, 0.702, 0.420, 0.381], abs=0.01)
    assert model.score_samples(X).sum() == pytest.approx(-2658.785, abs=0.05)
    assert [float(one[0]) for one in model.thresholds_] == pytest.approx(
        ndtri(1 - X.mean(axis=0)).tolist(), abs=0.01
    )


def test_latent_scale(model: CuspFactorAnalysis) -> None:
    assert isinstance(model.posterior_, LatentPosterior)
    omega = model.get_covariance()
    assert np.allclose(omega, model.components_.T @ model.components_ + np.eye(6))
    assert np.allclose(np.linalg.inv(omega), model.get_precision())
    sd = np.sqrt(np.diag(omega))
    assert np.allclose(model.loadings_, model.components_.T / sd[:, None])
    assert list(model.get_covariance(as_frame=True).columns) == NAMES
    assert model.mean_.tolist() == [0.0] * 6
    assert [len(one) for one in model.thresholds_] == [1, 1, 2, 2, 3, 2]
    assert [one.levels for one in model.likelihoods_][2] == (1, 2, 3)
    assert model.likelihoods_[0].reason == "given"
    assert model.converged_
    assert model.search_[0].n_factors == model.n_factors_ == 1


def test_draws_agree_with_polychoric_correlations(model: CuspFactorAnalysis) -> None:
    rows = simulated(missing=0.05)
    draws, found = model.posterior_.draw(), polychoric(rows)
    mean, error = draws.correlation.mean(axis=0), found.standard_error
    upper = np.triu_indices(6, 1)
    assert np.all(np.abs(mean - found.correlation)[upper] < 3 * error[upper])
    lower, higher = model.posterior_.interval("thresholds", 0.99)
    own = np.concatenate(found.thresholds)
    assert np.all((lower < own) & (own < higher))
    assert np.all(lower < np.concatenate(model.thresholds_))
    with pytest.raises(AssertionError):  # thresholds of the next column lie elsewhere
        assert np.all((lower < np.roll(own, 1)) & (np.roll(own, 1) < higher))
    some = model.posterior_.interval("thresholds", columns=["e", "a"])
    assert some.names == ["a: 1|2", "e: 1|2", "e: 2|3", "e: 3|4"]


def test_categories_observed_and_predicted(model: CuspFactorAnalysis) -> None:
    table = model.posterior_.category_probabilities().to_frame()
    rows = simulated(missing=0.05)
    assert table["count"].tolist() == [
        int(np.sum(column == level))
        for column in rows.T
        for level in np.unique(column[~np.isnan(column)])
    ]
    assert np.allclose(table["observed"], table["predicted"], atol=0.01)
    assert np.all((table["lower"] < table["predicted"]) & (table["predicted"] < table["upper"]))


@pytest.mark.parametrize("codes", [[0, 1, 2, 3], [-2, -1, 0, 1], [5, 10, 15, 20]])
def test_only_the_order_of_codes_matters(codes: list[int]) -> None:
    rows = simulated(200)
    other = np.asarray(codes, dtype=float)[rows.astype(int) - 1]
    one, two = fitted(rows), fitted(other)
    assert np.array_equal(one.loadings_, two.loadings_)
    assert np.array_equal(one.score_samples(rows), two.score_samples(other))
    assert set(np.unique(two.sample(50, random_state=0))) <= set(codes)


def test_reversed_labels_reverse_loadings_and_thresholds() -> None:
    rows = simulated(200)
    other = rows.copy()
    other[:, 4] = 5 - other[:, 4]
    one, two = fitted(rows), fitted(other)
    sign = np.array([1, 1, 1, 1, -1, 1])
    assert two.loadings_[:, 0] * sign == pytest.approx(one.loadings_[:, 0], abs=1e-3)
    assert two.thresholds_[4] == pytest.approx(-one.thresholds_[4][::-1], abs=1e-3)


def test_categories_of_frames() -> None:
    rows = simulated(200, missing=0.05)
    words = [["no", "yes"], ["no", "yes"], *[["low", "some", "high", "most"]] * 4]
    plain = fitted(pd.DataFrame(rows, columns=NAMES))
    columns = {}
    for j, name in enumerate(NAMES):
        own = [None if np.isnan(value) else words[j][int(value) - 1] for value in rows[:, j]]
        columns[name] = own
    frame = pd.DataFrame(
        {
            name: pd.Categorical(own, categories=words[j], ordered=True)
            for j, (name, own) in enumerate(columns.items())
        }
    )
    model = fitted(frame)
    assert np.array_equal(model.loadings_, plain.loadings_)
    assert np.array_equal(
        model.score_samples(frame), plain.score_samples(pd.DataFrame(rows, columns=NAMES))
    )
    filled = model.impute(frame)
    assert filled["c"].cat.categories.tolist() == words[2]
    assert not filled.isna().any().any()
    kept = frame.notna()
    assert filled.astype(object)[kept].equals(frame.astype(object)[kept])
    assert model.posterior_.level_labels(0) == ["no", "yes"]
    enums = pl.DataFrame(
        {
            name: pl.Series(own, dtype=pl.Enum(words[j]))
            for j, (name, own) in enumerate(columns.items())
        }
    )
    assert np.array_equal(fitted(enums).loadings_, plain.loadings_)
    again = frame.assign(a=pd.Categorical(["maybe"] * 200))
    with pytest.raises(DataError, match="a has the category maybe, which the fit has not seen"):
        model.transform(again)
    unordered = frame.assign(c=frame["c"].cat.as_unordered())
    with pytest.raises(DataError, match="c has categories without an order: low, some, high"):
        fitted(unordered)


def test_imputed_categories_of_a_frame_keep_what_is_there() -> None:
    rows = simulated(60, missing=0.1)
    model = fitted(simulated(200))
    filled = model.impute(rows)
    seen = ~np.isnan(rows)
    assert np.array_equal(filled[seen], rows[seen])
    drawn = model.impute(rows, n_draws=3, random_state=0)
    assert drawn.shape == (3, 60, 6)
    assert np.array_equal(drawn[:, seen], np.broadcast_to(rows[seen], (3, seen.sum())))
    assert np.all(np.isin(drawn, [1, 2, 3, 4]))


def test_samples_have_the_shares_of_the_data(model: CuspFactorAnalysis) -> None:
    new, rows = model.sample(20_000, random_state=1), simulated(missing=0.05)
    for j in range(6):
        column = rows[~np.isnan(rows[:, j]), j]
        for level in np.unique(column):
            assert np.mean(new[:, j] == level) == pytest.approx(np.mean(column == level), abs=0.02)


def test_a_search_finds_the_number_of_factors() -> None:
    rng = np.random.default_rng(3)
    loadings = np.zeros((8, 2))
    loadings[:4, 0] = loadings[4:, 1] = 1.2
    z = rng.normal(size=(300, 2)) @ loadings.T + rng.normal(size=(300, 8))
    rows = np.searchsorted([-0.7, 0.6], z.ravel()).reshape(z.shape).astype(float)
    model = CuspFactorAnalysis(likelihood="ordinal").fit(rows)
    assert model.n_factors_ == 2
    assert sum(one.weight for one in model.search_) == pytest.approx(1.0)
    rotated = CuspFactorAnalysis(n_factors=2, likelihood="ordinal", rotation="oblimin").fit(rows)
    plain = CuspFactorAnalysis(n_factors=2, likelihood="ordinal").fit(rows)
    assert np.allclose(rotated.get_covariance(), plain.get_covariance())
    assert np.allclose(
        rotated.transform(rows), plain.transform(rows) @ rotated.rotation_matrix_, atol=1e-5
    )
    assert rotated.score_samples(rows) == pytest.approx(plain.score_samples(rows), abs=1e-5)


def test_parameters_and_copies(model: CuspFactorAnalysis) -> None:
    frame = pd.DataFrame(simulated(20, seed=9), columns=NAMES)
    given = CuspFactorAnalysis(likelihood={"a": Ordinal("probit"), 1: "binary"})
    assert clone(given).get_params()["likelihood"] == {"a": Ordinal(), 1: "binary"}
    again = CuspFactorAnalysis.from_posterior(model.posterior_)
    assert again.get_params()["likelihood"] == "ordinal"
    assert again.get_params()["n_factors"] == 1
    assert np.array_equal(again.transform(frame), model.transform(frame))
    copied = pickle.loads(pickle.dumps(model))
    assert copied.posterior_.cells is None
    assert np.array_equal(copied.posterior_.draw(50).loadings, model.posterior_.draw(50).loadings)
    rows = simulated(missing=0.05)
    assert not _holds(copied.posterior_.__dict__, rows.shape)


def _holds(value: Any, shape: tuple[int, ...]) -> bool:
    """Is an array with as many rows as the data somewhere inside?"""
    if isinstance(value, np.ndarray):
        return shape[0] in value.shape
    if isinstance(value, dict):
        return any(_holds(one, shape) for one in value.values())
    return isinstance(value, tuple) and any(_holds(one, shape) for one in value)


def test_auto_decides_for_each_column() -> None:
    rows = simulated(200)
    found = CuspFactorAnalysis(n_factors=1, likelihood="auto").fit(rows).likelihoods_
    assert [one.reason for one in found] == ["two_values"] * 2 + ["few_levels"] * 4
    numbers = np.random.default_rng(0).normal(size=(200, 4))
    plain = CuspFactorAnalysis(n_factors=1, likelihood="auto").fit(numbers)
    assert {one.kind for one in plain.likelihoods_} == {"gaussian"}
    assert np.array_equal(plain.loadings_, CuspFactorAnalysis(n_factors=1).fit(numbers).loadings_)
    assert CuspFactorAnalysis.from_posterior(plain.posterior_).likelihood == "auto"


@pytest.mark.parametrize(("n", "given"), [(40, "auto"), (20, 2), (15, 1)])
def test_few_rows_of_many_categories(n: int, given: Any) -> None:
    """Fewer rows than thresholds: finite numbers, no warnings of NumPy, and a true headline."""
    rows = load_bfi(subset="items", as_frame=True).data.dropna().iloc[:n, :10]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = CuspFactorAnalysis(likelihood="ordinal", n_factors=given).fit(rows)
        headline = str(model.posterior_.summary()).splitlines()[0]
    assert np.all(np.isfinite(model.components_))
    assert np.all(np.abs(model.loadings_) < 1.0)
    assert np.all([np.all(np.isfinite(one)) for one in model.thresholds_])
    if given == "auto":
        assert [one.category for one in told] == [CuspWarning]
        assert "Join categories" in str(told[0].message)
        assert headline.startswith("No factors were tried: 40 rows are too few for this many")
    else:
        assert told == []
        assert headline.startswith(f"{given} factor")


def test_rows_without_a_finite_evidence_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "laplace_evidence", lambda *given: np.nan)
    for given in ("auto", 1):
        with pytest.raises(DataError, match="60 rows are too few .* Join categories, or use"):
            fitted(ROWS, n_factors=given)


def test_the_headline_of_a_loaded_fit_says_that_factors_were_not_tried(tmp_path: Path) -> None:
    rows = load_bfi(subset="items", as_frame=True).data.dropna().iloc[:50, :10]
    with pytest.warns(CuspWarning, match="No factors were tried"):
        model = CuspFactorAnalysis(likelihood="ordinal").fit(rows)
    told = "No factors were tried: 50 rows are too few"
    model.posterior_.save(tmp_path / "fit.cusp")
    again = load(tmp_path / "fit.cusp")
    for one in (model.posterior_, again):
        assert one.summary().headline.startswith(told)
        assert told in one._repr_html_()


ROWS = simulated(60)


@pytest.mark.parametrize(
    ("given", "data", "error"),
    [
        ({"likelihood": "weibull"}, ROWS, "likelihood must be 'gaussian', 'ordinal'"),
        (
            {"likelihood": {"zz": "ordinal"}},
            ROWS,
            "likelihood: there is no column 'zz'. The columns are x0, x1,",
        ),
        ({"likelihood": {9: "ordinal"}}, ROWS, "there is no column 9"),
        ({"likelihood": {"x0": "ordinary"}}, ROWS, "likelihood of x0 must be"),
        ({"likelihood": "binary"}, ROWS, "x2 must have two values to be binary"),
        ({"method": "gibbs", "model_error": 0.05}, ROWS, "model_error must be 0 with method='g"),
        ({"method": Gibbs(mean="plug-in")}, ROWS, "mean must be left at its default"),
        (
            {"method": "gibbs", "prior": CuspPrior(slab=EmpiricalBayesSlab())},
            ROWS,
            "The slab of prior must have a distribution that can be drawn from",
        ),
        ({"model_error": "auto"}, ROWS, "model_error must be a number"),
        ({"prior": CuspPrior.variational_paper()}, ROWS, "the spike of prior must be None"),
        ({"method": Variational(tol=1e-3)}, ROWS, "tol must be left at its default"),
        ({"method": Variational(criterion="bound")}, ROWS, "criterion must be"),
        ({"n_factors": 7}, ROWS, "n_factors must be at most the 6 columns"),
        ({}, ROWS / 2, "x0 must have whole numbers as categories"),
        ({}, np.where(ROWS == 1, -99.0, ROWS), "the value -99, far from its other values"),
        ({}, np.arange(120.0).reshape(60, 2) % 59, "at most 20 categories to be ordinal"),
        ({}, np.ones((60, 2)), "are constant"),
        ({}, Moments.from_rows(ROWS), "for Moments, which have no values of rows"),
    ],
)
def test_what_is_refused(given: dict[str, Any], data: Any, error: str) -> None:
    given = {"likelihood": "ordinal"} | given
    model = CuspFactorAnalysis(**given)
    fit = model.fit_moments if isinstance(data, Moments) else model.fit
    with pytest.raises((DataError, InputError), match=error):
        fit(data)


def test_other_functions_know_ordinal_columns(model: CuspFactorAnalysis) -> None:
    with pytest.raises(InputError, match="the likelihood of model must be 'gaussian'"):
        prior_sensitivity(CuspFactorAnalysis(likelihood="ordinal"), ROWS)
    tables = model.posterior_.apa_tables()
    assert "are those of latent responses, at the mode" in tables.to_markdown()


def test_what_new_rows_are_refused(model: CuspFactorAnalysis) -> None:
    frame = pd.DataFrame(simulated(10), columns=NAMES)
    with pytest.raises(DataError, match=r"b has the category 7 \(row 4\), which the fit has not"):
        model.transform(frame.assign(b=[1, 1, 1, 1, 7, 1, 1, 1, 1, 1]))
    with pytest.raises(
        InputError, match="return_std must be False unless all columns are Gaussian"
    ):
        model.impute(frame, return_std=True)
    with pytest.raises(InputError, match="return_proba must be False with n_draws"):
        model.impute(frame, return_proba=True, n_draws=2)
    with pytest.raises(InputError, match=r"AlignedDraws\.scores is for Gaussian columns"):
        model.posterior_.align().scores(frame)
    with pytest.raises(InputError, match="use 'thresholds'"):
        model.posterior_.interval("mean")
    with pytest.raises(InputError, match="average_over_k must be False"):
        model.posterior_.draw(average_over_k=True)
    with pytest.raises(InputError, match="check_assumptions"):
        check_assumptions(model, frame)
    plain = CuspFactorAnalysis(n_factors=1).fit(simulated(60))
    with pytest.raises(InputError, match="return_proba must be False for Gaussian columns"):
        plain.impute(simulated(5), return_proba=True)
    with pytest.raises(InputError, match="Thresholds are those of ordinal columns"):
        plain.posterior_.interval("thresholds")


def test_a_separated_item_has_finite_loadings() -> None:
    rows = simulated(300)
    rows[:, 1] = rows[:, 0]
    with pytest.warns(CuspWarning, match="follow from those in another"):
        model = CuspFactorAnalysis(likelihood="ordinal", n_factors=2).fit(rows)
    assert np.all(np.isfinite(model.components_))
    assert np.max(np.abs(model.loadings_)) < 1.0


def test_rare_and_empty_categories_are_named() -> None:
    rows = simulated(300)
    rows[:2, 5] = 6
    summary = fitted(rows).posterior_.summary()
    (caution,) = [one for one in summary.cautions if one.code == "rare_categories"]
    assert list(caution.to_dict()["rare"]) == ["x5: 6"]
    assert list(caution.to_dict()["empty"]) == ["x5: 4", "x5: 5"]


def mixed(n: int = 300, seed: int = 2) -> pd.DataFrame:
    """Two ordinal columns, two measurements in large units, and two skewed ones, one factor."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(n, 1))
    z = 0.8 * f + 0.6 * rng.normal(size=(n, 6))
    return pd.DataFrame(
        {
            "item": np.searchsorted([-1.0, 0.2, 1.0], z[:, 0]),
            "yes": np.searchsorted([0.5], z[:, 1]),
            "height": 170 + 10 * z[:, 2],
            "weight": 7e4 + 1e4 * z[:, 3],
            "income": np.exp(8 + 1.2 * z[:, 4]),
            "time": np.exp(-2 * z[:, 5]),
        }
    )


def test_columns_of_several_kinds() -> None:
    frame = mixed()
    model = CuspFactorAnalysis(n_factors=1, likelihood="auto").fit(frame)
    kinds = [one.kind for one in model.likelihoods_]
    assert kinds == ["ordinal"] * 2 + ["gaussian"] * 2 + ["normal_scores"] * 2
    assert np.abs(model.loadings_[:, 0]) == pytest.approx([0.8] * 6, abs=0.07)
    assert np.sign(model.loadings_[:, 0]).tolist() == [1, 1, 1, 1, 1, -1]
    assert model.mean_[2:4] == pytest.approx(
        frame[["height", "weight"]].mean().to_numpy(), rel=0.01
    )
    variance = np.diag(model.get_covariance())
    assert variance[2:4] == pytest.approx(frame[["height", "weight"]].var().to_numpy(), rel=0.05)
    lower, upper = model.posterior_.interval("correlation")
    assert np.mean((lower < 0.64 * np.sign(lower)) & (upper > 0.64 * np.sign(upper))) > 0.6
    # Of Gaussian columns alone the density is that of the Gaussian model with these numbers.
    other = frame.copy()
    other[["item", "yes", "income", "time"]] = np.nan
    cov = model.get_covariance()[2:4, 2:4]
    delta = frame[["height", "weight"]].to_numpy() - model.mean_[2:4]
    by_hand = -0.5 * np.sum(delta @ np.linalg.inv(cov) * delta, axis=1)
    by_hand -= 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
    assert model.score_samples(other) == pytest.approx(by_hand, abs=1e-6)
    holes = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.1)
    filled, chances = model.impute(holes, return_proba=True)
    assert not filled.isna().any().any()
    assert set(chances) == {"item", "yes"}
    for name in ("height", "income"):  # better than the mean, or the median
        gone = holes[name].isna()
        truth, guess = np.log(frame[name][gone]), np.log(filled[name][gone])
        assert np.mean((guess - truth) ** 2) < 0.75 * np.mean((np.median(truth) - truth) ** 2)
    seen = holes.notna()
    assert np.allclose(filled.to_numpy()[seen], holes.to_numpy()[seen], rtol=1e-6)
    drawn = model.impute(holes, n_draws=2)[0]
    assert np.allclose(drawn.to_numpy()[seen], holes.to_numpy()[seen], rtol=1e-6)
    new = pd.DataFrame(model.sample(5000, random_state=0), columns=frame.columns)
    for name in ("income", "height", "time"):
        assert new[name].median() == pytest.approx(frame[name].median(), rel=0.1)


def test_units_of_measurements_do_not_matter() -> None:
    frame, given = mixed(), {"n_factors": 1, "likelihood": "auto"}
    one = CuspFactorAnalysis(**given).fit(frame)
    other = (
        frame.assign(weight=frame["weight"] / 1000, income=np.log(frame["income"]) * 3)
        .rename(columns={"income": "log"})
        .assign(log=lambda f: np.exp(f["log"] / 3))
    )
    two = CuspFactorAnalysis(**given).fit(other)
    assert two.loadings_ == pytest.approx(one.loadings_, abs=1e-6)
    assert two.mean_[3] == pytest.approx(one.mean_[3] / 1000)
    # A density is one per unit.
    assert two.score_samples(other) == pytest.approx(
        one.score_samples(frame) + np.log(1000), abs=1e-4
    )


def test_the_logit_link_has_slopes_of_its_own_scale() -> None:
    """Reference: LSAT7, logit slopes .988 1.081 1.707 .765 .736, log-likelihood −2658.805."""
    patterns, counts = answers(LSAT7)
    X = np.repeat(patterns, counts.astype(int), axis=0)
    wide = CuspPrior(slab=GaussianSlab(100.0))
    model = fitted(X, prior=wide, likelihood=Ordinal("logit"))
    assert model.components_[0] == pytest.approx([0.988, 1.081, 1.707, 0.765, 0.736], rel=0.05)
    assert model.score_samples(X).sum() == pytest.approx(-2658.805, abs=0.1)
    assert model.noise_variance_ == pytest.approx([np.pi**2 / 3] * 5)
    found = model.posterior_.category_probabilities().to_frame()
    assert np.allclose(found["observed"], found["predicted"], atol=0.01)


def test_a_tolerated_error_gives_fewer_factors_and_wider_intervals() -> None:
    rng = np.random.default_rng(3)
    loadings = np.zeros((7, 2))
    loadings[:, 0], loadings[:2, 1] = 1.0, 0.8
    z = rng.normal(size=(400, 2)) @ loadings.T + rng.normal(size=(400, 7))
    rows = np.searchsorted([-0.7, 0.6], z.ravel()).reshape(z.shape).astype(float)
    exact = CuspFactorAnalysis(likelihood="ordinal", method=Variational(criterion="collapsed"))
    found = CuspFactorAnalysis(likelihood="ordinal", model_error=0.15).fit(rows)
    assert found.n_factors_ <= exact.fit(rows).n_factors_
    assert found.model_error_ == 0.15
    one, two = fitted(rows), fitted(rows, model_error=0.15)
    width = [np.mean(np.subtract(*m.posterior_.interval("correlation")[::-1])) for m in (one, two)]
    assert width[1] > 1.5 * width[0]
    assert one.posterior_.has_exact_draws
    assert not two.posterior_.has_exact_draws


def test_time_ends_a_search() -> None:
    rows = simulated(300)
    with pytest.warns(ConvergenceWarning, match="Out of time: the fit stopped at max_time=1e-06"):
        model = fitted(rows, n_factors="auto", method=Variational(max_time=1e-6))
    assert not model.converged_
    assert model.status_.startswith("out of time")
    assert model.n_factors_ == 0  # the first number that was tried
    with pytest.warns(ConvergenceWarning, match="Out of time"):
        model = fitted(rows, method=Variational(max_time=1e-6))
    assert model.n_factors_ == 1  # the start of the way to the mode
    ample = fitted(rows, n_factors="auto", method=Variational(max_time=600.0))
    assert ample.search_ == fitted(rows, n_factors="auto").search_


def test_arviz_has_thresholds(model: CuspFactorAnalysis) -> None:
    pytest.importorskip("arviz")
    found = model.posterior_.to_arviz()["posterior"]
    assert found["thresholds"].sizes["threshold"] == 11
    assert found["thresholds"].sizes["chain"] == 1
    mean = found["thresholds"].mean(("chain", "draw")).to_numpy()
    assert mean == pytest.approx(np.concatenate(model.thresholds_), abs=0.1)
    some = model.posterior_.to_arviz(columns=["c"])["posterior"]["thresholds"]
    assert some.coords["threshold"].to_numpy().tolist() == ["c: 1|2", "c: 2|3"]


def test_weights_that_do_not_fit_are_worked_through_by_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = simulated(300, missing=0.05)
    whole = fitted(rows)
    monkeypatch.setattr(engine, "allowed_bytes", lambda limit: 100_000)
    blocks = fitted(rows)
    assert blocks.loadings_ == pytest.approx(whole.loadings_, abs=0.01)
    assert blocks.search_[0].evidence == pytest.approx(whole.search_[0].evidence, abs=0.1)
    assert not blocks.posterior_.has_exact_draws
    one, two = (model.posterior_.draw().correlation for model in (whole, blocks))
    off = np.triu_indices(6, 1)
    assert two.mean(axis=0)[off] == pytest.approx(one.mean(axis=0)[off], abs=0.06)
    assert two.std(axis=0)[off] == pytest.approx(one.std(axis=0)[off], rel=0.35)
    with pytest.raises(MemoryError, match=r"Sampling given 300 × 6 values, not all Gaussian, need"):
        fitted(rows, method="gibbs")


def test_rows_of_any_source(tmp_path: Path) -> None:
    frame = pd.DataFrame(simulated(200), columns=NAMES)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    path, want = str(tmp_path / "rows.csv"), fitted(frame).loadings_
    halves = [frame.iloc[:90], frame.iloc[90:]]
    for data in (path, RowStream(path, batch_rows=30), iter(halves)):
        assert np.array_equal(fitted(data).loadings_, want)
    dask = pytest.importorskip("dask.array")
    chunked = dask.from_array(frame.to_numpy(float), chunks=(70, 6))
    assert np.array_equal(fitted(chunked).loadings_, want)
    with pytest.raises(MemoryError, match=r"A fit of \d+ rows or more and 6 columns, not all"):
        fitted(RowStream(path, memory_limit="10kB"))


def test_columns_that_follow_from_others_are_named() -> None:
    frame = pd.DataFrame(simulated(200), columns=NAMES)
    with pytest.warns(CuspWarning, match=r"column 'copy' \(index \d+\) from column 'b'"):
        CuspFactorAnalysis(likelihood="ordinal", n_factors=1).fit(
            frame.assign(copy=frame["b"].max() - frame["b"])
        )
    total = frame.assign(total=frame["a"] + frame["b"])
    with pytest.warns(CuspWarning, match="linearly dependent"):
        CuspFactorAnalysis(likelihood="ordinal", n_factors=1).fit(total)


def test_the_search_names_all_numbers_that_were_tried() -> None:
    """Those far behind have no evidence by bridge sampling, and no weight."""
    model = CuspFactorAnalysis(likelihood="ordinal").fit(simulated(400))
    entries = list(model.search_)
    assert entries[0].n_factors == 0
    assert np.isnan(entries[0].evidence)
    assert entries[0].weight == 0.0
    assert entries[0].converged
    assert sum(one.weight for one in entries) == pytest.approx(1.0)


def test_a_summary_needs_no_library_of_data_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = fitted(simulated(150)).posterior_
    monkeypatch.setattr(tables, "FRAME_LIBRARIES", ())
    assert "SRMR" in str(posterior.summary())
