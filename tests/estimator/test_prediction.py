"""New rows: scores, densities, covariance, precision, samples, against the joint Gaussian."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from scipy.stats import multivariate_normal
from sklearn.base import clone

from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    Gibbs,
    InverseGammaSlab,
    Moments,
    Rotation,
    datasets,
    load,
)
from cuspfa.data import in_memory
from cuspfa.data.column_choice import check_columns
from cuspfa.errors import CuspWarning, DataError, InputError
from cuspfa.model.likelihoods.gaussian import MarginalGaussian
from cuspfa.posterior.predictive import log_densities, scores_of

DATA = datasets.simulate(260, 9, 3, random_state=4).X * np.arange(1, 10) + 5.0
TRAIN, NEW = DATA[:200], DATA[200:]
MODEL = CuspFactorAnalysis().fit(TRAIN)


def conditional(model, rows):
    """E and Cov of η given y from the joint normal distribution of (η, y), with p×p matrices."""
    k = model.n_factors_
    joint = np.block(
        [[np.eye(k), model.components_], [model.components_.T, model.get_covariance()]]
    )
    across, own = joint[:k, k:], joint[k:, k:]
    gain = np.linalg.solve(own, across.T).T
    return (rows - model.mean_) @ gain.T, joint[:k, :k] - gain @ across.T


def test_scores_are_those_of_the_joint_normal_law():
    mean, covariance = conditional(MODEL, NEW)
    scores = MODEL.factor_scores(NEW)
    assert_allclose(scores.mean, mean, atol=1e-10)
    assert_allclose(scores.covariance, covariance, atol=1e-10)
    assert_allclose(MODEL.transform(NEW), mean, atol=1e-10)
    other = CuspFactorAnalysis(n_factors=3).fit(NEW)  # negative control
    assert np.abs(other.transform(NEW) - mean).max() > 0.01


def test_densities_are_the_marginal_normal_ones():
    distribution = multivariate_normal(MODEL.mean_, MODEL.get_covariance())
    assert_allclose(MODEL.score_samples(NEW), distribution.logpdf(NEW), rtol=1e-10)
    assert MODEL.score(NEW) == pytest.approx(distribution.logpdf(NEW).mean())
    assert MODEL.score(NEW) > MODEL.score(NEW + 20.0)


def test_precision_is_the_inverse_of_the_covariance():
    assert_allclose(MODEL.get_precision() @ MODEL.get_covariance(), np.eye(9), atol=1e-9)


SETTINGS = {
    "default": {},
    "plain units": {"standardize": False},
    "given number": {"n_factors": 2},
    "no factor": {"n_factors": 0},
    "paper": {"prior": CuspPrior.variational_paper()},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_loadings_contract(settings):
    model = CuspFactorAnalysis(**settings).fit(TRAIN)
    omega = model.get_covariance()
    rebuilt = model.components_.T @ model.components_ + np.diag(model.noise_variance_)
    assert_allclose(rebuilt, omega, rtol=1e-12)
    assert_allclose(omega, model.posterior_.covariance, rtol=1e-10, atol=1e-12)
    sd = np.sqrt(np.diag(omega))
    assert_allclose(model.loadings_, model.components_.T / sd[:, None], rtol=1e-12)
    gram = model.loadings_.T @ model.loadings_
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10)
    assert np.all(np.diff(np.diag(gram)) <= 0)
    assert np.all(model.loadings_.max(axis=0) >= -model.loadings_.min(axis=0))
    assert model.components_.shape == (model.n_factors_, 9)
    assert model.transform(NEW).shape == (60, model.n_factors_)
    assert len(model.get_feature_names_out()) == model.n_factors_


def test_a_factor_that_the_spike_takes_keeps_the_contract():
    wide = CuspPrior(slab=InverseGammaSlab(2.0, 2.0), spike=0.3)
    with pytest.warns(CuspWarning, match="leaves"):
        model = CuspFactorAnalysis(n_factors=9, prior=wide).fit(TRAIN)
    rebuilt = model.components_.T @ model.components_ + np.diag(model.noise_variance_)
    assert_allclose(rebuilt, model.get_covariance(), rtol=1e-12)
    assert_allclose(rebuilt, model.posterior_.covariance, rtol=1e-10)
    draws = model.posterior_.draw(4000, random_state=0)
    assert draws.loadings.shape == (4000, 9, model.n_factors_)
    assert_allclose(draws.covariance.mean(axis=0), rebuilt, rtol=0.2, atol=0.05 * rebuilt.max())


def test_scores_do_not_depend_on_the_units():
    units = np.geomspace(1e-3, 1e5, 9)
    scaled = CuspFactorAnalysis().fit(TRAIN * units)
    assert_allclose(scaled.transform(NEW * units), MODEL.transform(NEW), atol=1e-7)
    assert_allclose(scaled.components_, MODEL.components_ * units, rtol=1e-6, atol=1e-9)


def test_sparse_rows_give_the_same_and_are_not_made_dense_as_a_whole(monkeypatch):
    counts = sparse.random(300, 40, 0.2, random_state=0, format="csr")
    factors = sparse.random(300, 2, 0.5, random_state=1) @ sparse.random(2, 40, 0.9, random_state=2)
    rows = sparse.csr_array(counts + 3 * factors)
    dense = rows.toarray()
    model = CuspFactorAnalysis(n_factors=2).fit(rows)
    plain = CuspFactorAnalysis(n_factors=2).fit(dense)
    expected = plain.score_samples(dense), plain.transform(dense)

    for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix):
        new = kind(rows)
        with monkeypatch.context() as patch:
            patch.setattr(in_memory, "ROW_BLOCK_SIZE", 7 * 40)
            patch.setattr(sparse.csr_array, "toarray", _small_only(sparse.csr_array.toarray, 7))
            patch.setattr(sparse.csr_matrix, "toarray", _small_only(sparse.csr_matrix.toarray, 7))
            assert_allclose(model.score_samples(new), expected[0], rtol=1e-7)
            patch.setattr(sparse.csr_array, "toarray", _small_only(sparse.csr_array.toarray, 1))
            patch.setattr(sparse.csr_matrix, "toarray", _small_only(sparse.csr_matrix.toarray, 1))
            assert_allclose(model.transform(new), expected[1], atol=1e-6)


def _small_only(original, most):
    def toarray(self, *args, **kwargs):
        assert min(self.shape) <= most, "made dense"
        return original(self, *args, **kwargs)

    return toarray


def test_sparse_densities_of_strong_factors_keep_their_digits():
    p, loading, noise, factor = 5, 1e3, 1e-4, np.array([0.0, 1.0, 3.0])
    distribution = MarginalGaussian(np.full(p, 3.0), np.full((1, p), loading), np.full(p, noise))
    rows = sparse.csr_matrix(3.0 + loading * np.outer(factor, np.ones(p)))
    signal = p * loading**2 / noise
    squares = factor**2 * signal / (1 + signal)
    log_det = p * np.log(2 * np.pi * noise) + np.log1p(signal)
    assert_allclose(log_densities(distribution, rows), -0.5 * (log_det + squares), rtol=1e-12)
    # Negative control: what factors explain, taken from the squares of the whole.
    explained = distribution._root @ (distribution.components / noise) @ (rows.toarray() - 3.0).T
    apart = np.sum((rows.toarray() - 3.0) ** 2, axis=1) / noise - np.sum(explained**2, axis=0)
    assert np.abs(apart - squares).max() > 1e-7


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_huge_values_have_density_zero_and_no_scores(kind):
    rows = NEW[:4].copy()
    rows[2] = 1e200
    values = MODEL.score_samples(kind(rows))
    assert np.isfinite(values[[0, 1, 3]]).all()
    assert values[2] == MODEL.score(kind(rows)) == -np.inf
    assert np.all(np.isfinite(MODEL.transform(kind(rows))))
    rows[2] = 1.7e308 * np.sign(MODEL._marginal()._weights[:, 0])
    assert MODEL.score_samples(kind(rows))[2] == -np.inf
    noise = MODEL.noise_variance_ / 1e9
    small = MarginalGaussian(MODEL.mean_, MODEL.components_ / 1e3, noise)
    with pytest.raises(DataError, match="row 2 holds values so large"):
        scores_of(small, kind(rows))
    large = MarginalGaussian(MODEL.mean_, 1e3 * MODEL.components_, noise)
    assert np.all(np.isfinite(scores_of(large, NEW)))


def test_samples_follow_the_law():
    draws = MODEL.sample(40_000, random_state=0)
    assert_allclose(draws.mean(axis=0), MODEL.mean_, atol=0.3)
    sd = np.sqrt(np.diag(MODEL.get_covariance()))
    gap = (np.cov(draws, rowvar=False) - MODEL.get_covariance()) / np.outer(sd, sd)
    assert np.abs(gap).max() < 5 * np.sqrt(2 / 40_000)
    assert np.array_equal(draws[:3], MODEL.sample(40_000, random_state=0)[:3])
    assert np.abs(np.corrcoef(MODEL.sample(500, random_state=0), rowvar=False)).max() > 0.1


def test_inverse_transform_is_the_common_part():
    scores = MODEL.transform(NEW)
    common = MODEL.inverse_transform(scores)
    assert_allclose(common, MODEL.mean_ + scores @ MODEL.components_)
    gap = np.mean((NEW - common) ** 2, axis=0)
    assert np.all(gap < NEW.var(axis=0))
    with pytest.raises(InputError, match=r"scores with 3 columns.*Got \(60, 2\)"):
        MODEL.inverse_transform(scores[:, :2])
    frame = pd.DataFrame(scores, columns=MODEL.get_feature_names_out())
    assert_allclose(MODEL.inverse_transform(frame), common)
    assert_allclose(MODEL.inverse_transform(frame.set_axis(list("abc"), axis=1)), common)
    with pytest.raises(DataError, match=r"in the order \['factor1', 'factor2', 'factor3'\]. Got"):
        MODEL.inverse_transform(frame[["factor2", "factor1", "factor3"]])


def test_some_columns_of_the_covariance():
    names = list("abcdefghi")
    model = CuspFactorAnalysis().fit(pd.DataFrame(TRAIN, columns=names))
    whole = model.get_covariance()
    mask = np.zeros(9, bool)
    mask[[2, 5]] = True
    for columns in (["c", "f"], [2, 5], [-7, -4], np.array(["c", "f"]), mask, slice(2, 6, 3)):
        assert_allclose(model.get_covariance(columns=columns), whole[np.ix_([2, 5], [2, 5])])
    assert_allclose(model.get_covariance(columns="b"), whole[1:2, 1:2])
    assert model.get_covariance(columns=[]).shape == (0, 0)
    for wrong, message in (
        (["c", "zz"], "among the fitted ones. Got 'zz'"),
        ([9], "between 0 and 8. Got 9"),
        ([1, 1], "twice"),
        ([True], "mask of length 9. Got length 1"),
        ([0.5], "names, indices, a slice or a mask"),
        (["a", 1], "one kind alone. Got .'a', 1."),
        ([True, 2], "one kind alone"),
        ({"a", "b"}, "a list of names or indices, a slice or a mask. Got {"),
        ({"a": 1}, "a list of names or indices"),
        (0.5, "a list of names or indices.*Got 0.5"),
        (slice("a", "c"), "a slice of positions, not of names"),
        ([[1, 2]], "one list"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            model.get_covariance(columns=wrong)
        assert not isinstance(caught.value, DataError)
    numbered = CuspFactorAnalysis().fit(pd.DataFrame(TRAIN, columns=range(10, 19)))
    assert_allclose(numbered.get_covariance(columns=[2, 5]), whole[np.ix_([2, 5], [2, 5])])
    for without in (MODEL, numbered):
        with pytest.raises(InputError, match="must be indices, counted from 0.*no column names"):
            without.get_covariance(columns=["a"])
    assert check_columns(["b"], 3, ["a", "b", "a"]).tolist() == [1]
    with pytest.raises(InputError, match="2 are called 'a'. Use indices"):
        check_columns(["a"], 3, ["a", "b", "a"])


def test_moments_give_a_model_for_rows():
    model = CuspFactorAnalysis().fit_moments(Moments.from_rows(TRAIN))
    assert_allclose(model.transform(NEW), MODEL.transform(NEW), atol=1e-6)


def test_rows_in_blocks_are_rows_at_once(monkeypatch):
    whole = MODEL.score_samples(NEW), MODEL.transform(NEW)
    monkeypatch.setattr(in_memory, "ROW_BLOCK_SIZE", 50)
    assert_allclose(MODEL.score_samples(NEW), whole[0])
    assert_allclose(MODEL.transform(NEW), whole[1])


def test_nearly_noiseless_rows_keep_their_digits():
    """The quadratic form is a sum of squares, not a small difference of large numbers."""
    components = np.random.default_rng(0).normal(size=(2, 6)) * 1e4
    distribution = MarginalGaussian(np.zeros(6), components, np.full(6, 1e-8))
    rows = distribution.sample(3000, np.random.default_rng(1))
    squares = distribution._squares(rows)
    assert squares.mean() == pytest.approx(6.0, abs=0.3)  # χ² with 6 degrees of freedom
    assert stats.kstest(squares, stats.chi2(6).cdf).pvalue > 1e-3
    # Negative control: subtracting what the factors explain loses them all.
    explained = distribution._root @ (components / 1e-8) @ rows.T
    lost = np.sum(rows**2, axis=1) / 1e-8 - np.sum(explained**2, axis=0)
    assert stats.kstest(lost, stats.chi2(6).cdf).pvalue < 1e-6


@pytest.mark.parametrize("settings", [{}, {"rotation": "oblimin"}, {"method": "gibbs"}], ids=str)
def test_a_saved_fit_answers_what_the_model_did(settings, tmp_path):
    frame = pd.DataFrame(TRAIN, columns=[f"item {j}" for j in range(TRAIN.shape[1])])
    if settings.get("method") == "gibbs":
        settings = {"method": Gibbs(n_draws=40, n_chains=2, burn_in=20)}
    # So few draws have not converged.
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        model = CuspFactorAnalysis(random_state=0, **settings).fit(frame)
    model.posterior_.save(tmp_path / "fit.cusp")
    again = CuspFactorAnalysis.from_posterior(load(tmp_path / "fit.cusp"))
    incomplete = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    for rows in (frame, incomplete):
        assert_allclose(again.transform(rows), model.transform(rows), rtol=1e-12)
        assert_allclose(again.score_samples(rows), model.score_samples(rows), rtol=1e-12)
    assert_allclose(again.impute(incomplete), model.impute(incomplete), rtol=1e-12)
    drawn, expected = (one.impute(incomplete, n_draws=3, random_state=1) for one in (again, model))
    assert_allclose(drawn, expected, rtol=1e-9)
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, np.ndarray | int | float):
            assert_array_equal(getattr(again, name), value)
    assert again.search_ == model.search_ or np.isnan(model.lower_bound_)
    assert again.get_params()["rotation"] == model.posterior_.rotation
    if "method" in settings:
        assert again.method.get_params() == settings["method"].get_params()
    else:
        assert again.method == "variational"
    clone(again)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_factors": 2},
        {"standardize": False},
        {"standardize": False, "prior": CuspPrior(alpha=2.0)},
        {"prior": CuspPrior(noise_shape=2.0)},
        {"prior": CuspPrior.variational_paper(), "random_state": 3},
        {"rotation": Rotation("target", target=[[1, 0]] * 9), "n_factors": 2},
    ],
    ids=str,
)
def test_a_saved_fit_is_fitted_again_as_it_was(settings, tmp_path):
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        model = CuspFactorAnalysis(**settings).fit(TRAIN)
        model.posterior_.save(tmp_path / "fit.cusp")
        again = CuspFactorAnalysis.from_posterior(load(tmp_path / "fit.cusp"))
        assert again.prior == model.prior
        assert_allclose(clone(again).fit(TRAIN).components_, model.components_, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:n_factors=1 was asked for")  # of so few rows
@pytest.mark.parametrize("n", [4, 6, 8, 9, 10])
def test_the_usual_prior_is_known_again_after_few_rows(n):
    posterior = CuspFactorAnalysis(n_factors=1).fit(TRAIN[:n, :3]).posterior_
    assert CuspFactorAnalysis.from_posterior(posterior).prior is None


def test_no_model_is_made_of_anything_else():
    for wrong in (MODEL, None, "fit.cusp", replace(MODEL.posterior_, fit_info=None)):
        with pytest.raises(InputError, match="posterior must be"):
            CuspFactorAnalysis.from_posterior(wrong)


def test_rows_without_a_value_do_not_raise_the_score():
    rows = np.vstack([NEW, np.full((5, NEW.shape[1]), np.nan)])
    assert MODEL.score(rows) == pytest.approx(MODEL.score(NEW))
    assert MODEL.score_samples(rows).mean() != pytest.approx(MODEL.score(NEW))  # it can tell
    assert_allclose(MODEL.score_samples(rows)[-5:], 0.0)
    with pytest.raises(DataError, match="at least one value"):
        MODEL.score(rows[-5:])
