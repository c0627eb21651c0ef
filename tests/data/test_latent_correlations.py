"""Polychoric and polyserial correlations against quadrature, brute force and simulation."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import norm

from cuspfa import CuspFactorAnalysis, polychoric, rotate
from cuspfa._utils.bivariate_normal import bivariate_normal_cdf, bivariate_normal_density
from cuspfa.datasets import load_bfi
from cuspfa.errors import CuspWarning, DataError, InputError

LSAT6 = [
    3, 6, 2, 11, 1, 1, 3, 4, 1, 8, 0, 16, 0, 3, 2, 15,
    10, 29, 14, 81, 3, 28, 15, 80, 16, 56, 21, 173, 11, 61, 28, 298,
]  # fmt: skip
"""Frequencies of the answers 00000 to 11111 of 1000 people (Bock & Lieberman 1970)."""


def lsat6() -> np.ndarray:
    patterns = (np.arange(32)[:, None] >> np.arange(5)[::-1]) & 1
    return np.repeat(patterns, LSAT6, axis=0)


def literal_cdf(x: float, y: float, rho: float) -> float:
    """By integration over the first variable."""

    def given(t: float) -> float:
        return float(norm.pdf(t) * norm.cdf((y - rho * t) / np.sqrt(1 - rho**2)))

    breaks = [y / rho] if rho and -9 < y / rho < x else None
    return float(quad(given, -9, x, points=breaks, epsabs=1e-13, epsrel=1e-11, limit=400)[0])


@pytest.mark.parametrize("rho", [-0.995, -0.6, 0.0, 0.3, 0.9, 0.9995])
def test_the_distribution_function(rho: float) -> None:
    for x, y in [(0.0, 0.0), (0.0, -1.2), (1.5, 0.0), (-0.7, 0.4), (-2.0, -2.1), (1.0, 1.0)]:
        found = float(bivariate_normal_cdf(np.array(x), np.array(y), np.array(rho)))
        assert found == pytest.approx(literal_cdf(x, y, rho), abs=1e-10)
        step = 1e-6 * (1 - abs(rho))
        ends = bivariate_normal_cdf(np.array(x), np.array(y), np.array([rho - step, rho + step]))
        density = float(bivariate_normal_density(np.array(x), np.array(y), np.array(rho)))
        assert density == pytest.approx(np.diff(ends)[0] / 2 / step, abs=2e-5 * max(1, density))


def normal_pairs(n: int, rho: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal((2, n))
    return np.column_stack([first, rho * first + np.sqrt(1 - rho**2) * second])


def cut(values: np.ndarray, kind: str) -> np.ndarray:
    points = {"binary": [0.8], "five": [-1.2, 0.2, 0.7, 1.6], "continuous": None}[kind]
    return 5 + 2 * values if points is None else np.searchsorted(points, values).astype(float)


@pytest.mark.parametrize("kinds", [("five", "five"), ("binary", "five"), ("binary", "binary")])
def test_it_is_the_maximum_of_the_likelihood(kinds: tuple[str, str]) -> None:
    data = normal_pairs(300, 0.5, 3)
    data = np.column_stack([cut(column, kind) for column, kind in zip(data.T, kinds, strict=True)])
    found = polychoric(data)
    cuts = [
        norm.ppf([0, *np.cumsum(np.unique(column, return_counts=True)[1]) / len(column)])
        for column in data.T
    ]
    codes = [np.unique(column, return_inverse=True)[1] for column in data.T]
    finite = [np.clip(one, -8.5, 8.5) for one in cuts]

    def surprise(rho: float) -> float:
        table = np.array([[literal_cdf(x, y, rho) for y in finite[1]] for x in finite[0]])
        cells = np.diff(np.diff(table, axis=0), axis=1)
        return -float(np.sum(np.log(cells[codes[0], codes[1]])))

    best = minimize_scalar(surprise, bounds=(-0.9, 0.95), method="bounded", options={"xatol": 1e-6})
    assert found.correlation[0, 1] == pytest.approx(best.x, abs=2e-5)
    for place in (0, 1):
        np.testing.assert_allclose(found.thresholds[place], cuts[place][1:-1], atol=1e-12)


def test_polyserial_is_the_maximum_of_the_likelihood() -> None:
    data = normal_pairs(200, -0.6, 5)
    answers = cut(data[:, 1], "five")
    found = polychoric(np.column_stack([data[:, 0] * 3 - 1, answers]))
    x = (data[:, 0] - data[:, 0].mean()) / data[:, 0].std()
    counts = np.unique(answers, return_counts=True)[1]
    cuts = norm.ppf(np.concatenate([[0], np.cumsum(counts) / len(answers)]))
    code = np.unique(answers, return_inverse=True)[1]

    def surprise(rho: float) -> float:
        high, low = (norm.cdf((cuts[code + up] - rho * x) / np.sqrt(1 - rho**2)) for up in (1, 0))
        return -float(np.sum(np.log(high - low)))

    best = minimize_scalar(surprise, bounds=(-0.95, 0.9), method="bounded", options={"xatol": 1e-8})
    assert found.correlation[0, 1] == pytest.approx(best.x, abs=1e-6)
    assert found.kinds == ("continuous", "ordinal")


@pytest.mark.parametrize(
    ("kinds", "rho"),
    [
        (("binary", "binary"), 0.6),
        (("five", "five"), 0.7),
        (("binary", "five"), 0.3),
        (("continuous", "five"), 0.7),
        (("continuous", "binary"), 0.6),
        (("continuous", "continuous"), 0.4),
    ],
)
def test_standard_errors_are_the_spread_over_samples(kinds: tuple[str, str], rho: float) -> None:
    n, times = 400, 500
    found = []
    for seed in range(times):
        data = normal_pairs(n, rho, 1000 + seed)
        columns = [cut(column, kind) for column, kind in zip(data.T, kinds, strict=True)]
        found.append(polychoric(np.column_stack(columns)))
    estimates = np.array([one.correlation[0, 1] for one in found])
    errors = np.array([one.standard_error[0, 1] for one in found])
    assert estimates.mean() == pytest.approx(rho, abs=4 * estimates.std() / np.sqrt(times) + 0.005)
    ratio = estimates.std() / np.sqrt(np.mean(errors**2))
    assert 0.87 < ratio < 1.13  # four standard errors of a standard deviation over 500 samples
    # Negative control: the error of a Pearson correlation is too small for categories.
    if "binary" in kinds:
        assert estimates.std() / ((1 - rho**2) / np.sqrt(n)) > 1.25


def test_tetrachoric_correlations_of_the_law_school_test() -> None:
    """Loadings of one factor, as published for the tetrachoric correlations of LSAT6."""
    found = polychoric(lsat6())
    from statsmodels.multivariate.factor import Factor

    loadings = Factor(corr=found.correlation, n_factor=1, method="ml", nobs=1000).fit().loadings
    published = [0.374, 0.409, 0.482, 0.373, 0.326]
    np.testing.assert_allclose(np.abs(loadings[:, 0]), published, atol=0.02)
    np.testing.assert_allclose(
        [cuts[0] for cuts in found.thresholds], norm.ppf(1 - lsat6().mean(axis=0)), atol=1e-12
    )


def answers(n: int = 400, p: int = 4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    latent = 0.7 * rng.standard_normal((n, 1)) + 0.6 * rng.standard_normal((n, p))
    return np.clip(np.round(latent * 1.5 + 3), 1, 5)


def test_five_factors_of_the_personality_items_as_psych_finds_them() -> None:
    """`fa(bfi[1:25], 5, cor = "poly")` of the R package psych: fit, and its largest loadings."""
    items = load_bfi(subset="items")
    r = polychoric(items.data).correlation

    def residuals(unique: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(r - np.diag(unique))
        loadings = vectors[:, -5:] * np.sqrt(np.maximum(values[-5:], 0.0))
        left = r - loadings @ loadings.T
        np.fill_diagonal(left, 0.0)
        return left, loadings

    start = 1 / np.diag(np.linalg.inv(r))
    best = minimize(  # by least squares, as psych does
        lambda unique: np.sum(residuals(unique)[0] ** 2), start, bounds=[(0.005, 1.0)] * 25
    ).x
    left, loadings = residuals(best)
    assert np.sqrt(np.mean(left[np.triu_indices(25, 1)] ** 2)) == pytest.approx(0.031, abs=5e-4)
    model = loadings @ loadings.T + np.diag(best)
    misfit = np.linalg.slogdet(model)[1] - np.linalg.slogdet(r)[1]
    misfit += np.trace(np.linalg.solve(model, r)) - 25
    assert np.sqrt(misfit / 185 - 1 / 2799) == pytest.approx(0.068, abs=1e-3)
    turned = np.abs(rotate(loadings, "oblimin").loadings)
    largest = dict(zip(items.feature_names, turned.max(axis=1), strict=True))
    published = {"N1": 0.85, "N2": 0.81, "N3": 0.74, "E2": 0.71, "C2": 0.70, "A2": 0.69, "A3": 0.69}
    for item, want in published.items():
        assert largest[item] == pytest.approx(want, abs=0.006)


def test_order_alone_matters() -> None:
    data = answers()
    one = polychoric(data)
    other = polychoric(np.column_stack([data[:, 0] ** 3, -data[:, 1], data[:, 2:]]))
    sign = np.array([1, -1, 1, 1])
    np.testing.assert_allclose(one.correlation, other.correlation * np.outer(sign, sign), atol=1e-8)
    np.testing.assert_allclose(one.standard_error, other.standard_error, atol=1e-8)


def test_missing_values_concern_their_own_pairs() -> None:
    data = answers(p=3)
    whole = polychoric(data)
    data[:150, 2] = np.nan
    some = polychoric(data)
    assert some.correlation[0, 1] == pytest.approx(whole.correlation[0, 1], abs=1e-12)
    assert some.n_rows[0, 1] == 400
    assert some.n_rows[0, 2] == 250
    assert some.standard_error[0, 2] > whole.standard_error[0, 2]


def test_continuous_columns_alone() -> None:
    data = np.random.default_rng(0).standard_normal((60, 3))
    data[3, 1] = np.nan
    found = polychoric(data)
    np.testing.assert_allclose(found.correlation, pd.DataFrame(data).corr(), atol=1e-12)
    assert found.effective_rows == pytest.approx(1 / np.mean([1 / 59, 1 / 60, 1 / 59]))
    assert found.kinds == ("continuous",) * 3


def test_no_maximum() -> None:
    data = answers(p=2)
    data[:, 1] = data[:, 0]
    found = polychoric(pd.DataFrame(data, columns=["first", "copy"]))
    assert found.at_limit == (("first", "copy"),)
    assert found.correlation[0, 1] == pytest.approx(0.9999)


def test_an_empty_cell_of_two_by_two() -> None:
    table = np.repeat([[0, 0], [0, 1], [1, 1]], [40, 20, 40], axis=0)
    found = polychoric(table)
    assert not found.at_limit
    assert 0.85 < found.correlation[0, 1] < 0.999


def test_moments_are_counted_as_effective_rows() -> None:
    frame = pd.DataFrame(answers(p=6), columns=list("abcdef"))
    found = polychoric(frame)
    assert 250 < found.effective_rows < 400
    model = CuspFactorAnalysis().fit_moments(found.moments())
    assert model.n_factors_ == 1
    assert list(model.feature_names_in_) == list("abcdef")
    table = found.to_frame()
    assert list(table["column"][:2]) == ["a", "a"]
    assert table["correlation"][0] == found.correlation[0, 1]
    assert "<table" in found._repr_html_()


def test_kinds_are_what_the_caller_says() -> None:
    frame = pd.DataFrame({"a": answers()[:, 0], "age": np.arange(400) % 19, "b": answers()[:, 1]})
    assert polychoric(frame).kinds == ("ordinal",) * 3
    found = polychoric(frame, kinds={"age": "continuous"})
    assert found.kinds == ("ordinal", "continuous", "ordinal")
    assert found.thresholds[1].size == 0


@pytest.mark.parametrize(
    ("data", "kinds", "message"),
    [
        (np.c_[np.arange(50), np.arange(50) % 2], "ordinal", "at most 20 distinct values. Got 50"),
        (np.c_[np.arange(9) % 3, np.arange(9) % 2], {"z": "ordinal"}, "Got 'z' instead"),
        (np.c_[np.arange(9) % 3, np.arange(9) % 2], {"x0": "count"}, "Got 'count' instead"),
        (np.c_[np.arange(9) % 3, np.arange(9) % 2], "nominal", "Got 'nominal' instead"),
        (np.c_[np.arange(9) % 3, np.ones(9)], "auto", "constant"),
        (
            np.array([[1, np.nan], [2, np.nan], [np.nan, 1], [np.nan, 2]]),
            "auto",
            "at least 2 rows. Got 0 for 'x0' and 'x1'",
        ),
        (
            np.c_[np.r_[-99, np.arange(59) % 4], np.arange(60) % 2],
            "auto",
            "x0 has the value -99, far from its other values",
        ),
        (pd.DataFrame({"a": ["low", "high"] * 9, "b": [1, 2, 3] * 6}), "auto", "ordered categ"),
    ],
)
def test_errors(data: np.ndarray, kinds: Any, message: str) -> None:
    with pytest.raises((InputError, DataError), match=message):
        polychoric(data, kinds=kinds)


def test_ordered_categories_of_a_data_frame_are_numbered() -> None:
    rng = np.random.default_rng(0)
    codes = np.searchsorted([-0.5, 0.5], rng.normal(size=(200, 2)) + rng.normal(size=(200, 1)))
    words = pd.DataFrame(np.array(["never", "now and then", "daily"])[codes], columns=["a", "b"])
    kind = pd.CategoricalDtype(["never", "now and then", "daily"], ordered=True)
    found = polychoric(words.astype(kind))
    assert found.correlation[0, 1] == polychoric(codes).correlation[0, 1]
    assert repr(found) == "<LatentCorrelations of 2 columns, 2 of them ordinal>"


def test_an_indefinite_matrix_is_mended_with_a_warning() -> None:
    """Three pairs from three sets of rows that contradict each other."""
    agree = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [40, 40, 5, 5], axis=0).astype(float)
    data = np.full((270, 3), np.nan)
    data[:90, [0, 1]], data[90:180, [1, 2]] = agree, agree
    data[180:, 0], data[180:, 2] = agree[:, 0], 1 - agree[:, 1]
    with pytest.warns(CuspWarning, match="not positive semi-definite"):
        polychoric(data).moments()
