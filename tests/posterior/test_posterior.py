"""Draws and intervals: what they are, and that they cover where mean field does not."""

import json
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2, t

from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    EmpiricalBayesSlab,
    GaussianSlab,
    InverseGammaSlab,
    Moments,
    datasets,
)
from cuspfa.diagnostics.fit_measures import predictive_p
from cuspfa.errors import CuspWarning, InputError
from cuspfa.inference.updates import Loadings
from cuspfa.inference.variational.search_settings import SearchSettings
from cuspfa.model.model_error import ModelError, Sample, draw_population
from cuspfa.posterior import base, quantiles
from cuspfa.posterior.draws import Draws
from cuspfa.posterior.fit_info import ModelErrorEntry, ModelErrorPath, SearchEntry
from cuspfa.reporting.summary import EVIDENCE_ODDS, ridge_text, summarise
from support import complete_rows, variational_posterior

DATA = datasets.simulate(120, 9, 2, random_state=4).X * np.arange(1, 10) + 5.0
NAMES = list("abcdefghi")
MODEL = CuspFactorAnalysis().fit(pd.DataFrame(DATA, columns=NAMES))
POSTERIOR = variational_posterior(MODEL)


def entries(draws):
    p = draws.loadings.shape[1]
    return draws.covariance[:, *np.triu_indices(p)]


def test_mean_field_draws_are_from_q():
    draws = POSTERIOR.draw(20_000, random_state=0, mean_field=True)
    distribution, scale = POSTERIOR.loadings_distribution, POSTERIOR.scale
    assert isinstance(distribution, Loadings)
    assert_allclose(draws.loadings.mean(axis=0), POSTERIOR.loadings, atol=0.02 * scale.max())
    variance = (distribution.spread @ (distribution.basis**2).T) * scale[:, None] ** 2
    assert_allclose(draws.loadings.var(axis=0), variance, rtol=0.08)
    expected = (
        scale**2 * POSTERIOR.noise_distribution.rate / (POSTERIOR.noise_distribution.shape - 1)
    )
    assert_allclose(draws.noise_variance.mean(axis=0), expected, rtol=0.03)
    assert_allclose(draws.covariance.mean(axis=0), MODEL.get_covariance(), rtol=0.2, atol=0.6)


def test_same_seed_same_draws_and_another_seed_others():
    for settings in ({}, {"mean_field": True}, {"sweeps": 0}, {"average_over_k": True}):
        one = POSTERIOR.draw(20, random_state=3, **settings)
        two = POSTERIOR.draw(20, random_state=3, **settings)
        other = POSTERIOR.draw(20, random_state=4, **settings)
        assert np.array_equal(one.loadings, two.loadings)
        assert not np.array_equal(one.loadings, other.loadings)


def coverage(settings, sets=40, n=60, p=12, k=2, **prior):
    """Share of covariances inside 95 % intervals, over data sets in which K was found."""
    inside = []
    for seed in range(sets):
        sim = datasets.simulate(n, p, k, random_state=1000 + seed)
        model = CuspFactorAnalysis(**prior).fit(sim.X)
        if model.n_factors_ != k:
            continue
        drawn = entries(model.posterior_.draw(400, random_state=seed, **settings))
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        truth = sim.covariance[np.triu_indices(p)]
        inside.append(np.mean((low <= truth) & (truth <= high)))
    assert len(inside) > 0.8 * sets
    return np.mean(inside)


@pytest.mark.long
def test_intervals_cover_and_mean_field_ones_do_not():
    """The small version of `benchmarks coverage`; its standard error is about 0.013."""
    assert 0.91 < coverage({}) < 0.985
    assert coverage({"sweeps": 0}) > 0.88
    assert coverage({"mean_field": True}) < 0.85  # negative control


@pytest.mark.parametrize("shape", [(60, 12, 2), (20, 40, 2)], ids=str)
@pytest.mark.parametrize(
    "slab",
    [
        GaussianSlab(0.3),
        InverseGammaSlab(2.0, 0.4),
        EmpiricalBayesSlab(),
        EmpiricalBayesSlab(shared=True),
    ],
    ids=str,
)
def test_draws_for_every_slab(slab, shape):
    """Few sweeps from q give what many give; q itself does not."""
    data = datasets.simulate(*shape, random_state=1).X
    model = CuspFactorAnalysis(n_factors=2, prior=CuspPrior(slab=slab)).fit(data)
    posterior = variational_posterior(model)
    long = entries(posterior.draw(600, random_state=0, sweeps=60)).std(axis=0)
    kinds: dict[str, dict[str, Any]] = {
        "default": {},
        "move": {"sweeps": 0},
        "q": {"mean_field": True},
    }
    width = {
        name: np.median(entries(posterior.draw(600, random_state=1, **settings)).std(axis=0) / long)
        for name, settings in kinds.items()
    }
    assert 0.9 < width["default"] < 1.1
    assert 0.8 < width["move"] < 1.15
    assert width["q"] < 0.88


def test_a_finite_spike_and_no_factors():
    published = CuspFactorAnalysis.as_published(search=True).fit(DATA)
    draws = published.posterior_.draw(300, random_state=0)
    assert draws.loadings.shape == (300, 9, published.n_factors_)
    assert_allclose(draws.covariance.mean(axis=0), published.get_covariance(), rtol=0.3, atol=2.0)
    none = CuspFactorAnalysis(n_factors=0).fit(DATA).posterior_
    for settings in ({}, {"mean_field": True}, {"sweeps": 2}):
        drawn = none.draw(50, random_state=0, **settings)
        assert drawn.loadings.shape == (50, 9, 0)
    assert none.interval("explained_variance_ratio").lower.shape == (0,)


def test_sparse_and_wide_data_have_draws_without_sweeps():
    from scipy import sparse

    rows = datasets.simulate(30, 60, 2, random_state=0).X
    model = CuspFactorAnalysis().fit(sparse.csr_matrix(rows))
    assert model.posterior_.statistics is None
    assert model.posterior_.draw(10, random_state=0).loadings.shape == (10, 60, model.n_factors_)
    with pytest.raises(InputError, match="sweeps must be 0 or None"):
        variational_posterior(model).draw(10, sweeps=1)
    assert model.posterior_.sample_correlation is None
    assert "rows" in str(model.posterior_.summary())


@pytest.mark.parametrize(
    "quantity", [one for one in base.QUANTITIES if one not in ("mean", "thresholds", "dispersion")]
)
def test_intervals_are_quantiles_of_draws(quantity, monkeypatch):
    monkeypatch.setattr(quantiles, "INTERVAL_BLOCK_SIZE", 5000)  # several blocks
    draws = POSTERIOR.draw(500, random_state=0)
    lower, upper = POSTERIOR.interval(quantity, 0.8, draws=draws)
    values = getattr(draws, quantity)
    assert_allclose(lower, np.quantile(values, 0.1, axis=0), rtol=1e-4, atol=1e-4)
    assert_allclose(upper, np.quantile(values, 0.9, axis=0), rtol=1e-4, atol=1e-4)
    again = POSTERIOR.interval(quantity, 0.8, n_draws=500, random_state=0)
    assert_allclose(again.lower, lower, rtol=1e-6)
    wider = POSTERIOR.interval(quantity, 0.99, draws=draws)
    assert np.all(wider.lower <= lower + 1e-6)


def test_intervals_of_means_are_nearly_those_of_student():
    few = DATA[:25]
    posterior = CuspFactorAnalysis(n_factors=2).fit(few).posterior_
    lower, upper = posterior.interval("mean", n_draws=20_000)
    spread = few.std(axis=0, ddof=1) / np.sqrt(25)
    centre = (lower + upper) / 2
    assert_allclose(centre, few.mean(axis=0), atol=0.03 * spread.max())
    # The model's variances are not the sample's: they differ by up to 10 % here, either way.
    assert_allclose((upper - lower) / 2, t.ppf(0.975, 24) * spread, rtol=0.13)
    assert np.mean((upper - lower) / 2 / spread) == pytest.approx(t.ppf(0.975, 24), rel=0.04)
    same = posterior.interval("mean", n_draws=20_000, columns=[3])
    assert (same.lower, same.upper) == (lower[3], upper[3])
    again = posterior.interval("mean", n_draws=50, random_state=1)
    assert not np.array_equal(again.lower, posterior.interval("mean", n_draws=50).lower)


@pytest.mark.parametrize("seed", range(4))
def test_intervals_of_means_where_values_miss_at_random(seed):
    truth = datasets.simulate(600, 6, 1, random_state=seed)
    first, other = np.argsort(-np.abs(truth.loadings[:, 0]))[:2]
    gone = truth.X.copy()
    gone[truth.X[:, other] > 0.3, first] = np.nan
    posterior = CuspFactorAnalysis(n_factors=1).fit(gone).posterior_
    lower, upper = (one[0] for one in posterior.interval("mean", columns=[first]))
    whole, seen = truth.X[:, first].mean(), np.nanmean(gone[:, first])
    assert lower < whole < upper
    assert not lower < seen < upper
    spread = truth.X[:, first].std(ddof=1) / np.sqrt(600)
    assert 2 * spread < (upper - lower) / 2 < 6 * spread


def test_intervals_of_some_columns():
    draws = POSTERIOR.draw(300, random_state=0)
    whole = POSTERIOR.interval("correlation", draws=draws)
    part = POSTERIOR.interval("correlation", draws=draws, columns=["c", "a"])
    assert_allclose(part.lower, whole.lower[np.ix_([2, 0], [2, 0])], atol=1e-5)
    few = POSTERIOR.interval("communality", draws=draws, columns=[1])
    assert few.lower.shape == (1,)
    wrong: dict[str, Any]
    for wrong, message in (
        ({"quantity": "loadings"}, "quantity must be one of"),
        ({"quantity": "covariance", "prob": 1.0}, "prob must be between 0 and 1"),
        ({"quantity": "covariance", "prob": 0}, "prob must be between 0 and 1"),
        ({"quantity": "covariance", "prob": "0.9"}, "prob must be a number"),
        ({"quantity": "covariance", "columns": ["zz"]}, "zz"),
        ({"quantity": "covariance", "draws": draws.loadings}, "draws must be None or what post"),
        ({"quantity": "mean", "draws": draws.only([0, 1])}, "of the posterior's 9 variables"),
    ):
        with pytest.raises(InputError, match=message):
            POSTERIOR.interval(**wrong)
    for wrong in ({"mean_field": 1}, {"sweeps": -1}, {"n_draws": 0}, {"average_over_k": None}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            POSTERIOR.draw(**wrong)


def test_intervals_in_extreme_units():
    model = CuspFactorAnalysis().fit(DATA * np.geomspace(1e-100, 1e100, 9))
    lower, upper = model.posterior_.interval("covariance", n_draws=200)
    assert np.all(np.isfinite(lower))
    assert np.all(lower < upper)


def test_draws_mixed_over_the_number_of_factors():
    weak = datasets.simulate(80, 10, 2, design="falling", strength=0.7, random_state=6).X
    for seed in range(30):
        weak = datasets.simulate(60, 10, 3, design="falling", strength=0.6, random_state=seed).X
        posterior = CuspFactorAnalysis().fit(weak).posterior_
        if posterior.alternatives and posterior.weight < 0.8:
            break
    drawn = posterior.draw(2000, random_state=0, average_over_k=True)
    counts = np.sum(np.abs(drawn.loadings).max(axis=1) > 0, axis=1)
    share = np.mean(counts == posterior.n_active)
    total = sum(one.weight for one in (posterior, *posterior.alternatives))
    assert share == pytest.approx(posterior.weight / total, abs=0.05)
    assert 0 < np.mean(counts[:200] == posterior.n_active) < 1
    plain = posterior.draw(50, random_state=0)
    assert plain.loadings.shape[2] == posterior.n_active


def test_nothing_of_a_row_is_in_a_posterior():
    """Neither in what is pickled nor in what is turned into JSON."""
    for data in (DATA, datasets.simulate(12, 30, 1, random_state=0).X):
        model = CuspFactorAnalysis().fit(data)
        posterior = pickle.loads(pickle.dumps(model.posterior_))
        held = posterior.statistics.rows
        centred = (data - posterior.center) / posterior.scale
        gap = np.abs(held[:, None, :] - centred[None]).max(axis=2)
        assert gap.min() > 0.05
        text = json.dumps(model.posterior_.to_dict(n_draws=100), allow_nan=False)
        assert "scores" not in json.loads(text)
        assert repr(float(data[0, 0])) not in text
        scores = model.transform(data)
        asked = model.posterior_.to_dict(scores=scores, n_draws=100)
        assert_allclose(asked["scores"], scores)


def test_summary_and_plain_values():
    found = POSTERIOR.summary()
    text = str(found)
    assert text.splitlines()[0] == found.headline
    assert found.headline == (
        "2 factors can be told from chance, also if the model may be off by RMSEA 0.07"
    )
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "120 rows, 9 columns; all factors explain more than 3 % of the variance each" in text
    plain = POSTERIOR.to_dict()
    assert plain["format"] == "cuspfa-summary"
    assert plain["version"] == 1
    assert plain["columns"] == NAMES
    assert plain["n_factors"] == 2
    assert_allclose(np.abs(plain["loadings"]), np.abs(MODEL.loadings_), atol=1e-8)
    low, high = plain["communality_interval"]
    assert all(a < b < c for a, b, c in zip(low, plain["communality"], high, strict=True))


def test_a_headline_of_factors_without_loadings():
    with pytest.warns(CuspWarning, match="no loadings"):
        asked = CuspFactorAnalysis(n_factors=6).fit(DATA).posterior_
    alive = int(np.sum(np.sum(asked.standardized_loadings**2, axis=0) > 1e-8))
    assert alive < 6
    assert asked.summary(n_draws=50).headline.startswith(f"6 factors asked for, {alive} with")


def with_weights(**weights):
    search = [
        SearchEntry(int(name[1:]), -1.0, -1.0, 0.1, False, weight, 5, "converged")
        for name, weight in weights.items()
    ]
    return replace(POSTERIOR, fit_info=POSTERIOR.fit_info._replace(search=search))


def test_a_number_of_less_weight_is_explained():
    found = with_weights(k2=0.24, k3=0.67, k4=0.09).summary(n_draws=20)
    assert found.remark.startswith("The weight of evidence is 0.67 for 3 and 0.24 for 2")
    lines = str(found).splitlines()
    assert " ".join(line.strip() for line in lines[1:4]) == found.remark
    assert max(map(len, lines)) <= 80
    assert with_weights(k2=0.24, k3=0.67).to_dict(n_draws=20)["remark"]
    for usual in (with_weights(k1=0.1, k2=0.9), with_weights(k2=1.0), with_weights(k3=1.0)):
        assert usual.summary(n_draws=20).remark == ""
    assert replace(POSTERIOR, fit_info=None).summary(n_draws=20).remark == ""
    assert np.exp(SearchSettings.parsimony) == pytest.approx(EVIDENCE_ODDS, abs=0.5)


def test_numbers_that_cannot_be_told_apart_are_named():
    entries = [
        SearchEntry(2, -9.0, -5.25, 0.5, False, 0.4, 5, "converged"),
        SearchEntry(3, -9.0, -4.75, 0.25, True, 0.6, 5, "converged"),
        SearchEntry(4, -9.0, math.nan, math.nan, False, 0.0, 5, "given up"),
    ]
    fit_info = POSTERIOR.fit_info._replace(search=entries)
    said = replace(POSTERIOR, fit_info=fit_info).summary(n_draws=20).remark
    assert said == (
        "2 factors (log evidence -5.2 ± 0.5) are the smallest number within 2 nats (odds of 7 to "
        "1) and two Monte Carlo standard errors of the best. Other draws might choose 3 (-4.8 ± "
        "0.2), less than three Monte Carlo standard errors from that limit."
    )
    settings = SearchSettings()  # what the sentence says of the rule
    assert (settings.parsimony, settings.parsimony_errors, settings.tie_errors) == (2, 2, 3)
    bounds = [one._replace(evidence=math.nan, evidence_error=math.nan) for one in entries]
    fit_info = POSTERIOR.fit_info._replace(search=bounds)
    said = replace(POSTERIOR, fit_info=fit_info).summary(n_draws=20).remark
    assert said == (
        "The bound is highest for 2 factors (-9.0). It differs by less than twice the tolerance "
        "from that for 3 (-9.0)."
    )


def test_of_many_factors_the_strongest_are_printed():
    line = POSTERIOR.summary(n_draws=20).factors[0]._replace(share=0.02)
    found = replace(POSTERIOR.summary(n_draws=20), factors=[line] * 64)
    text = str(found)
    assert sum("2.0" in row.split()[1:2] for row in text.splitlines()) == 12
    assert "and 52 more, together 104.0 % of the variance" in text
    assert "more, together" not in str(replace(found, factors=[line] * 13))


def test_the_lines_of_the_factors():
    found = POSTERIOR.summary()
    lines = str(found).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("factor ")) + 1
    total = 0.0
    for line, one in zip(lines[first:], found.factors, strict=False):
        _, share, lower, dash, upper, cumulative, *_rest = line.split()
        total += one.share
        assert dash == "–"
        assert [float(x) for x in (share, lower, upper, cumulative)] == pytest.approx(
            [100 * x for x in (one.share, one.lower, one.upper, total)], abs=0.051
        )
    assert "*" not in str(found)
    weak = found.factors[1]._replace(determinacy=0.7)
    flagged = str(replace(found, factors=[found.factors[0], weak])).splitlines()
    assert "0.70*" in flagged[first + 1]
    assert flagged[first + 2].startswith("* below 0.71")
    sure = found.factors[1]._replace(determinacy=0.71)
    assert "*" not in str(replace(found, factors=[found.factors[0], sure]))


def test_long_names_are_told_apart():
    same = [f"How satisfied are you with the {j} of your life in general?" for j in range(9)]
    text = str(replace(POSTERIOR, names=same).summary(n_draws=50))
    assert max(map(len, text.splitlines())) <= 80
    named = [line for line in text.splitlines() if "How sat" in line]
    assert len(named) == 3  # two factors and the residual
    assert all("…" in line and " #" in line for line in named)


def test_largest_residuals_and_chi_square():
    found, sample = POSTERIOR.summary(), np.corrcoef(DATA, rowvar=False)
    sd = np.sqrt(np.diag(MODEL.get_covariance()))
    model = MODEL.get_covariance() / np.outer(sd, sd)
    gaps = sorted(
        ((sample - model)[i, j] for i in range(9) for j in range(i + 1, 9)), key=lambda x: -abs(x)
    )
    assert_allclose([one.value for one in found.residuals], gaps[:3], atol=1e-9)
    for one in found.residuals:
        i, j = NAMES.index(one.first), NAMES.index(one.second)
        assert_allclose(one.value, sample[i, j] - model[i, j], atol=1e-9)
    inverse = np.linalg.inv(model)
    gap = np.linalg.slogdet(model)[1] - np.linalg.slogdet(sample)[1] + np.sum(sample * inverse) - 9
    statistic = (120 - 1 - 23 / 6 - 4 / 3) * gap
    assert_allclose([found.fit.chi_square, found.fit.df], [statistic, 19], rtol=1e-6)
    assert_allclose(found.fit.chi_square_p, chi2.sf(statistic, 19), rtol=1e-6)
    text = str(found)
    assert "(90 %: " in text
    assert f"chi² {statistic:.1f}, df 19, p " in text
    assert "largest residuals: " in text


def test_small_factors_count_by_their_share():
    bfi = datasets.load_bfi(subset="items").data
    posterior = CuspFactorAnalysis(n_factors=8).fit(complete_rows(bfi)).posterior_
    assert posterior.n_major_factors() == 5
    assert posterior.n_major_factors(0.0) == 8
    assert posterior.n_major_factors(0.15) == 1
    lower, upper = posterior.interval("explained_variance_ratio", n_draws=500)
    assert np.all(
        (lower < posterior.explained_variance_ratio * 1.1)
        & (posterior.explained_variance_ratio < upper)
    )


def test_predictive_check_finds_a_missing_factor():
    data = datasets.simulate(300, 10, 2, random_state=0).X
    correlation = np.corrcoef(data, rowvar=False)
    right = CuspFactorAnalysis(n_factors=2).fit(data).posterior_
    wrong = CuspFactorAnalysis(n_factors=1).fit(data).posterior_
    assert 0.1 < predictive_p(correlation, 300, right.draw(200, random_state=0)) < 0.9
    assert predictive_p(correlation, 300, wrong.draw(200, random_state=0)) < 0.01


def test_predictive_check_allows_for_the_tolerated_error():
    """The population is off the model: data of it are rejected without the error alone."""
    rng = np.random.default_rng(0)
    loadings, noise = np.full((10, 1), 0.7), np.full(10, 0.51)
    error = ModelError.of_size(0.06, 10)
    omega = loadings @ loadings.T + np.diag(noise)
    found = []
    for _ in range(40):
        population = draw_population(omega[None], Sample(np.zeros((10, 10)), 0.0), error, rng)[0]
        correlation = np.corrcoef(rng.multivariate_normal(np.zeros(10), population, 3000).T)
        draws = Draws(np.repeat(loadings[None], 200, 0), np.repeat(noise[None], 200, 0))
        found.append(
            [predictive_p(correlation, 3000, draws, one) for one in (None, error)],
        )
    without, with_error = np.mean(found, axis=0)
    assert without < 0.02
    assert 0.35 < with_error < 0.65  # p-values of the true model


def test_the_ridge_is_told_by_number_of_factors():
    pairs = [(0.042, 6), (0.035, 7), (0.05, 6), (0.03, 7), (0.025, 8)]
    path = ModelErrorPath(ModelErrorEntry(size, k, 0.0, 0.1, False) for size, k in pairs)
    assert ridge_text(path) == (
        "Factors, with model errors, within 3 nats of the best: 6 (0.042 to 0.05, best 0.042), "
        "7 (0.03 to 0.035, best 0.035), 8 (0.025)."
    )
    assert ridge_text(ModelErrorPath()) == ""


@pytest.mark.parametrize("rotation", [None, "varimax", "oblimin"])
def test_shares_are_those_of_the_factors_shown(rotation):
    bfi = complete_rows(datasets.load_bfi(subset="items").data)[:800]
    posterior = CuspFactorAnalysis(n_factors=7, rotation=rotation).fit(bfi).posterior_
    draws = posterior.draw(100)
    summary = summarise(posterior, draws)
    lines = summary.factors
    lower, upper = posterior.interval("explained_variance_ratio", draws=draws)
    assert_allclose([(one.lower, one.upper) for one in lines], np.transpose([lower, upper]))
    large = sum(one.share > 0.03 for one in lines)
    assert summary.n_large == posterior.n_major_factors(n_draws=100) == large
    assert f"{large} factors explain more than 3 %" in str(summary) or large == 7
    assert posterior.explained_variance_ratio.sum() == pytest.approx(
        np.sum(posterior.standardized_loadings**2) / 25
    )
    assert_allclose(posterior.explained_variance_ratio, [one.share for one in lines], atol=0.02)
    principal = np.median(draws.explained_variance_ratio, axis=0)
    same = np.allclose(principal, [one.share for one in lines], atol=0.01)
    assert same == (rotation is None)  # the negative control


def test_moments_have_a_posterior_like_rows():
    posterior = CuspFactorAnalysis().fit_moments(Moments.from_rows(DATA)).posterior_
    assert posterior.n_rows == 120
    one, other = posterior.interval("covariance"), POSTERIOR.interval("covariance")
    assert_allclose(one.lower, other.lower, rtol=0.2, atol=1.0)
