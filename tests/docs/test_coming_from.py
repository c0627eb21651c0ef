"""The figures on the pages for users of scikit-learn, psych and factor_analyzer.

What their code prints is compared in `test_docs.py`.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.decomposition import FactorAnalysis

from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    GaussianSlab,
    Moments,
    datasets,
    fit_indices,
    rotate,
)
from cuspfa.errors import CuspWarning
from support import column_congruence, complete_rows

DOCS = Path(__file__).parents[2] / "docs"
SKLEARN, PSYCH = (
    (DOCS / f"coming_from_{name}.md").read_text(encoding="utf-8") for name in ("sklearn", "psych")
)
BFI = datasets.load_bfi(subset="items")
X = complete_rows(BFI.data)
R = np.corrcoef(X, rowvar=False)
PRINTED_AS_WELL = 1e-6
"""Beyond half a unit of the last digit: a value on the edge may be rounded either way."""


@pytest.fixture(scope="module")
def five():
    return CuspFactorAnalysis(n_factors=5).fit(X)


# --- reading the pages ---


def table(page, header):
    """Names of the rows and numbers of the table whose header line this is."""
    lines = page[page.index(f"{header}\n") :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    numbers = np.array([[float(cell.replace("−", "-")) for cell in row[1:]] for row in cells])
    return [row[0] for row in cells], numbers


def row(page, label):
    """The numbers of the one table row with this label."""
    (line,) = re.findall(rf"^\| {re.escape(label)} \|(.*)\|$", page, re.MULTILINE)
    return np.array([float(cell.replace("−", "-")) for cell in line.split("|")])


def words(page):
    """The page on one line, so that a sentence is found however it is wrapped."""
    return " ".join(page.split())


def communalities(loadings):
    return np.sum(loadings**2, axis=1)


def items_and_communalities():
    items, numbers = table(PSYCH, "| item | minres | ml | cuspfa |")
    assert items == BFI.feature_names
    return dict(zip(("minres", "ml", "cuspfa"), numbers.T, strict=True))


def printed_loadings():
    names = [f"{who} {k}" for who in ("ml", "cuspfa") for k in range(1, 6)]
    items, numbers = table(PSYCH, "| item | " + " | ".join(names) + " |")
    assert items == BFI.feature_names
    return numbers[:, :5], numbers[:, 5:]


def assert_printed(printed, fresh, digits):
    """Equal to the digits shown; the message has what the page should say."""
    wrong = np.abs(printed - fresh) > 0.5 * 10.0**-digits + PRINTED_AS_WELL
    with np.printoptions(precision=digits, suppress=True, floatmode="fixed", threshold=10_000):
        assert not wrong.any(), f"the page should say\n{fresh}"


def assert_said(page, sentence, *values):
    """A sentence on the page whose numbers, written as {:.3f}, are these to the digits shown."""
    pattern = re.escape(sentence)
    digits = [int(one) for one in re.findall(r"\{:\.(\d)f\}", sentence)]
    pattern = re.sub(r"\\\{:\\\.\df\\\}", r"([-−]?\\d+\\.?\\d*)", pattern)
    found = re.search(pattern, words(page))
    assert found, f"the page should say {sentence.format(*values)}"
    for text, value, number in zip(found.groups(), values, digits, strict=True):
        assert len(text.partition(".")[2]) == number, text
        assert_printed(np.array([float(text.replace("−", "-"))]), np.array([value]), number)


def test_a_sentence_is_compared_to_its_digits():
    page = "the\nrest, 0.125 of −3.50, and more"
    assert_said(page, "rest, {:.3f} of {:.2f}, and", 0.1254, -3.5)
    assert_said(page, "rest, {:.3f} of {:.2f}, and", 0.1255000001, -3.5)  # rounded either way
    for sentence, *values in (
        ("rest, {:.3f} of {:.2f}, and", 0.1266, -3.5),
        ("rest, {:.3f} of {:.2f}, and", 0.125, 3.5),
        ("rest, {:.2f} of {:.2f}, and", 0.125, -3.5),
        ("rests, {:.3f} of", 0.125),
    ):
        with pytest.raises(AssertionError):
            assert_said(page, sentence, *values)


# --- the same figures by other means ---


def principal_axes_like(loadings, like):
    u, s, _ = np.linalg.svd(loadings, full_matrices=False)
    return u * s * np.sign(np.sum(u * like, axis=0))


def ml_loadings(k):
    standardised = (X - X.mean(axis=0)) / X.std(axis=0)
    model = FactorAnalysis(k, svd_method="lapack", tol=1e-8, max_iter=10_000).fit(standardised)
    return model.components_.T


def minres_loadings(k, R=R):
    """Iterated principal factors, which have the same fixed point as minres."""
    h = 1 - 1 / np.diag(np.linalg.inv(R))
    for _ in range(2000):
        values, vectors = np.linalg.eigh(R - np.diag(1 - h))
        loadings = vectors[:, -k:] * np.sqrt(values[-k:])
        before, h = h, communalities(loadings)
        if np.abs(h - before).max() < 1e-9:
            return loadings
    raise AssertionError("principal factor iterations have not settled")


# --- our columns ---


def test_our_communalities_are_those_of_a_fresh_fit(five):
    printed = items_and_communalities()["cuspfa"]
    assert_printed(printed, communalities(five.loadings_), 3)
    with pytest.raises(AssertionError, match="the page should say"):
        assert_printed(printed, communalities(CuspFactorAnalysis(n_factors=4).fit(X).loadings_), 3)


def test_our_loadings_are_those_of_a_fresh_fit(five):
    _, printed = printed_loadings()
    assert_printed(printed, five.loadings_, 3)
    swapped = five.loadings_[:, [0, 1, 2, 4, 3]]
    with pytest.raises(AssertionError, match="the page should say"):
        assert_printed(printed, swapped, 3)


# --- the columns of factor_analyzer ---


def test_ml_columns_are_maximum_likelihood_by_scikit_learn(five):
    printed, (loadings, _) = items_and_communalities()["ml"], printed_loadings()
    fresh = ml_loadings(5)
    assert_printed(printed, communalities(fresh), 3)
    assert_printed(loadings, principal_axes_like(fresh, five.loadings_), 3)
    assert np.abs(printed - communalities(ml_loadings(4))).max() > 0.1


def test_minres_column_is_that_of_principal_factor_iterations():
    printed = items_and_communalities()
    fresh = communalities(minres_loadings(5))
    assert_printed(printed["minres"], fresh, 3)
    assert np.abs(printed["ml"] - fresh).max() > 0.05
    assert np.abs(printed["minres"] - communalities(minres_loadings(4))).max() > 0.1


def test_the_figures_of_agreement(five):
    ours = five.loadings_
    ml, minres = (principal_axes_like(f(5), ours) for f in (ml_loadings, minres_loadings))
    solutions = {"cuspfa": ours, "ml": ml, "minres": minres}
    for name, loadings in solutions.items():
        shares = np.mean(loadings**2, axis=0)
        assert_printed(row(PSYCH, f"share of variance, {name}"), shares, 4)
    for first, second in (("cuspfa", "ml"), ("cuspfa", "minres"), ("minres", "ml")):
        a, b = solutions[first], solutions[second]
        pair = f"{first} with {second}"
        assert_printed(row(PSYCH, f"congruence, {pair}"), column_congruence(a, b), 5)
        of = " of loadings" if pair == "cuspfa with ml" else ""
        largest = np.abs(a - b).max(axis=0)
        assert_printed(row(PSYCH, f"largest difference{of}, {pair}"), largest, 4)
    for first, second in (("minres", "ml"), ("cuspfa", "minres"), ("cuspfa", "ml")):
        h = communalities(solutions[first]) - communalities(solutions[second])
        item = BFI.feature_names[np.argmax(np.abs(h))]
        line = f"| {first} − {second} | {{:.3f}} ({item}) | {{:.4f}} |"
        assert_said(PSYCH, line, np.abs(h).max(), h.mean())


# --- the analysis beside psych's output ---

FACTORS = "NECAO"
PSYCH_NAMES = [f"{who} {f}" for who in ("psych", "cuspfa") for f in FACTORS]


def pairwise_by_hand():
    """Each correlation from the people who answered both items."""
    p = BFI.data.shape[1]
    found = np.eye(p)
    for i in range(p):
        for j in range(i):
            pair = BFI.data[:, [i, j]]
            pair = complete_rows(pair)
            found[i, j] = found[j, i] = np.corrcoef(pair, rowvar=False)[0, 1]
    return found


def in_their_order(loadings, correlations, like):
    """Factors as the page has them: by their items, and with psych's signs."""
    order = [int(np.argmax(np.abs(loadings.T @ like[:, h]))) for h in range(5)]
    signs = np.sign(np.sum(loadings[:, order] * like, axis=0))
    turned = loadings[:, order] * signs
    return turned, correlations[np.ix_(order, order)] * np.outer(signs, signs)


@pytest.fixture(scope="module")
def beside():
    """R, psych's printed pattern and Φ, minres rotated here, and our fit."""
    items, numbers = table(PSYCH, "| item | " + " | ".join(PSYCH_NAMES) + " |")
    assert items == BFI.feature_names
    factors, phis = table(PSYCH, "| | " + " | ".join(PSYCH_NAMES) + " |")
    assert "".join(factors) == FACTORS
    r = pairwise_by_hand()
    model = CuspFactorAnalysis(n_factors=5, rotation="oblimin")
    model.fit_moments(Moments.from_correlation(r, n=2800))
    return r, numbers, phis, model


def test_minres_and_our_oblimin_give_what_psych_prints(beside):
    r, numbers, phis, _ = beside
    found = rotate(minres_loadings(5, r), "oblimin")
    pattern, phi = in_their_order(found.loadings, found.correlations, numbers[:, :5])
    assert_printed(numbers[:, :5], pattern, 2)
    assert_printed(phis[:, :5], phi, 2)
    structure = pattern @ phi
    assert_printed(row(PSYCH, "SS loadings, psych"), np.sum(pattern * structure, axis=0), 2)
    squared = np.diag(structure.T @ np.linalg.solve(r, structure))
    printed = row(PSYCH, "correlation of scores with factors, psych")
    assert_printed(printed, np.sqrt(squared), 2)
    model = pattern @ phi @ pattern.T
    np.fill_diagonal(model, 1.0)
    close = fit_indices.rmsea(r, model, 2800, 5)
    assert_said(PSYCH, "| χ² | {:.2f} |", close.statistic)
    assert_said(PSYCH, "| RMSEA | {:.3f} |", close.value)
    assert_said(PSYCH, "| RMSR / SRMR | {:.2f} |", fit_indices.srmr(r, model))
    # Negative controls: another criterion, and complete rows instead of pairwise correlations.
    for other in (rotate(minres_loadings(5, r), "geomin"), rotate(minres_loadings(5), "oblimin")):
        turned, _ = in_their_order(other.loadings, other.correlations, numbers[:, :5])
        with pytest.raises(AssertionError, match="the page should say"):
            assert_printed(numbers[:, :5], turned, 2)


def test_our_rotated_columns_are_those_of_a_fresh_fit(beside):
    r, numbers, phis, model = beside
    psych = numbers[:, :5]
    pattern, phi = in_their_order(model.loadings_, model.factor_correlations_, psych)
    assert_printed(numbers[:, 5:], pattern, 2)
    assert_printed(phis[:, 5:], phi, 2)
    explained = pattern * (pattern @ phi)
    assert_printed(row(PSYCH, "SS loadings, cuspfa"), explained.sum(axis=0), 2)
    noise = 1 - explained.sum(axis=1)
    determined = fit_indices.determinacy(pattern, noise, factor_correlations=phi)
    assert_printed(row(PSYCH, "correlation of scores with factors, cuspfa"), determined, 2)
    assert_printed(
        row(PSYCH, "congruence, cuspfa with psych"), column_congruence(pattern, psych), 3
    )
    fit = model.posterior_.summary(n_draws=20).fit
    flat = model.posterior_.standardized_loadings
    implied = flat @ flat.T
    np.fill_diagonal(implied, 1.0)
    statistic = fit_indices.rmsea(r, implied, 2800, 5).statistic
    assert_said(PSYCH, "| χ² | 1808.94 | {:.2f} |", statistic)
    assert_said(PSYCH, "| RMSR / SRMR | 0.03 | {:.3f} |", fit.srmr)
    assert_said(PSYCH, "| RMSEA | 0.056 | {:.3f} |", fit.rmsea)


def test_what_the_difference_to_psych_comes_from(beside):
    r, numbers, _, model = beside
    minres, _ = in_their_order(*rotate(minres_loadings(5, r), "oblimin")[:3:2], numbers[:, :5])
    ours, _ = in_their_order(model.loadings_, model.factor_correlations_, numbers[:, :5])
    distance = np.abs(ours - minres)
    j, h = np.unravel_index(np.argmax(distance), distance.shape)
    where = f"({BFI.feature_names[j]} on {FACTORS[h]})"
    assert_said(PSYCH, f"The largest difference of a loading is {{:.2f}} {where}", distance.max())
    # Maximum likelihood needs rows: these have exactly the same correlations.
    rows = np.random.default_rng(0).normal(size=(2800, 25))
    rows -= rows.mean(axis=0)
    rows = rows @ np.linalg.inv(np.linalg.cholesky(rows.T @ rows / 2800)).T
    rows = rows @ np.linalg.cholesky(r).T
    ml = FactorAnalysis(5, svd_method="lapack", tol=1e-8, max_iter=10_000).fit(rows).components_.T
    turned, _ = in_their_order(*rotate(ml, "oblimin")[:3:2], numbers[:, :5])
    assert_said(PSYCH, "rotated in the same way, it is {:.3f}.", np.abs(turned - ours).max())


# --- sentences ---


def test_where_the_differences_come_from(five):
    ml = communalities(ml_loadings(5))
    h = communalities(five.loadings_)
    spread = (
        five.posterior_.loadings_distribution.row_variance
    )  # the engine saw columns of unit variance
    assert np.all(h < ml)
    assert_said(PSYCH, "smaller than those of ml, by {:.4f} on average", np.mean(ml - h))
    assert_said(PSYCH, "It is {:.4f} of a unit variance", np.mean(spread))
    assert_said(PSYCH, "it is the remaining {:.4f}.", np.mean(ml - h - spread))
    wide = CuspFactorAnalysis(n_factors=5, prior=CuspPrior(slab=GaussianSlab(100.0))).fit(X)
    above = np.mean(communalities(wide.loadings_) - ml)
    assert_said(PSYCH, "the communalities are {:.4f} above those of ml", above)
    minres = communalities(minres_loadings(5))
    j = BFI.feature_names.index("N2")
    sentence = "N2 has a communality of {:.3f} by minres and {:.3f} by ml."
    assert_said(PSYCH, sentence, minres[j], ml[j])


def test_uniquenesses_and_scores(five):
    own = five.noise_variance_ / np.diag(five.get_covariance())
    np.testing.assert_allclose(1 - communalities(five.loadings_), own, rtol=1e-12)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    there, here = z @ np.linalg.solve(R, five.loadings_), five.transform(X)
    lowest = min(np.corrcoef(there[:, k], here[:, k])[0, 1] for k in range(5))
    assert lowest >= 0.99999
    assert "the two kinds correlate 0.99999 or better in every factor" in words(PSYCH)
    between = np.corrcoef(here, rowvar=False) - np.eye(5)
    largest = np.abs(between).max()
    assert_said(SKLEARN, "their largest correlation is {:.2f}. In FactorAnalysis it is 0", largest)
    ml = FactorAnalysis(5, svd_method="lapack", tol=1e-8).fit_transform(X)
    assert np.abs(np.corrcoef(ml, rowvar=False) - np.eye(5)).max() < 0.001


def test_shares_and_residuals_in_the_text():
    first, others = re.findall(r"together ([\d.]+) %, the others ([\d.]+) %\n", PSYCH)[-1]
    assert f"They explain {others} % of the variance, and the first five {first} %" in words(PSYCH)
    _, loadings = printed_loadings()
    left = np.triu(R - loadings @ loadings.T, 1)
    assert_array_equal(np.unravel_index(np.argmax(np.abs(left)), left.shape), (0, 1))
    assert round(abs(left[0, 1]) * np.sqrt(len(X))) == 6
    assert "the largest (A1 with A2) is six times as large" in words(PSYCH)


def test_units_and_factors_too_many(five):
    times = X * np.where(np.arange(25) == 3, 100.0, 1.0)
    other = CuspFactorAnalysis(n_factors=5).fit(times)
    np.testing.assert_allclose(other.loadings_, five.loadings_, atol=1e-9)
    np.testing.assert_allclose(other.transform(times), five.transform(X), atol=1e-9)
    np.testing.assert_allclose(other.components_[:, 3], 100 * five.components_[:, 3], rtol=1e-9)

    with pytest.warns(CuspWarning, match="4 of them have no loadings.*support 9 of these"):
        many = CuspFactorAnalysis(n_factors=13).fit(X)
    assert many.n_factors_ == 13
    assert np.sum(np.abs(many.loadings_).max(axis=0) < 1e-6) == 4
    assert "With `n_factors=13` on these data there are four." in words(SKLEARN)
    assert CuspFactorAnalysis(n_factors=10).fit(X).n_factors_ == 10  # without a warning


def test_both_pages_tell_the_same_held_out_densities():
    for k, said in ((5, "40.567"), (9, "40.379")):
        assert f"n_factors {k:2}  tol 0.05  held-out log density -{said}" in SKLEARN
        assert f"−{said}" in PSYCH


def test_the_noise_variances_in_the_text_are_those_printed():
    there, here = re.findall(r"mean noise variance: there (\S+), here (\S+)\n", SKLEARN)[-1]
    assert f"(above: {here} against {there})" in words(SKLEARN)
