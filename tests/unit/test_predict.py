"""New rows: scores, densities, covariance, precision, samples, against the joint Gaussian."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from scipy.stats import multivariate_normal

from cuspfa import CuspFactorAnalysis, CuspPrior, InverseGammaSlab, Moments, datasets
from cuspfa.errors import CuspWarning, DataError, InputError
from cuspfa.posterior.predict import MarginalGaussian

DATA = datasets.simulate(260, 9, 3, random_state=4).X * np.arange(1, 10) + 5.0
TRAIN, NEW = DATA[:200], DATA[200:]
MODEL = CuspFactorAnalysis().fit(TRAIN)


def conditional(model, rows):
    """E and Cov of η given y from the joint normal law of (η, y), with p×p matrices."""
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
    law = multivariate_normal(MODEL.mean_, MODEL.get_covariance())
    assert_allclose(MODEL.score_samples(NEW), law.logpdf(NEW), rtol=1e-10)
    assert MODEL.score(NEW) == pytest.approx(law.logpdf(NEW).mean())
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


def test_sparse_rows_give_the_same_and_are_not_made_dense(monkeypatch):
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
            patch.setattr(sparse.csr_array, "toarray", _small_only(sparse.csr_array.toarray))
            patch.setattr(sparse.csr_matrix, "toarray", _small_only(sparse.csr_matrix.toarray))
            assert_allclose(model.score_samples(new), expected[0], rtol=1e-7)
            assert_allclose(model.transform(new), expected[1], atol=1e-6)


def _small_only(original):
    def toarray(self, *args, **kwargs):
        assert min(self.shape) <= 1, "made dense"
        return original(self, *args, **kwargs)

    return toarray


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
        ([[1, 2]], "one list"),
    ):
        with pytest.raises(DataError, match=message):
            model.get_covariance(columns=wrong)
    with pytest.raises(DataError, match="no column names"):
        MODEL.get_covariance(columns=["a"])


def test_moments_give_a_model_for_rows():
    model = CuspFactorAnalysis().fit_moments(Moments.from_rows(TRAIN))
    assert_allclose(model.transform(NEW), MODEL.transform(NEW), atol=1e-6)


def test_rows_in_blocks_are_rows_at_once(monkeypatch):
    from cuspfa.data import arrays

    whole = MODEL.score_samples(NEW), MODEL.transform(NEW)
    monkeypatch.setattr(arrays, "BLOCK", 50)
    assert_allclose(MODEL.score_samples(NEW), whole[0])
    assert_allclose(MODEL.transform(NEW), whole[1])


def test_nearly_noiseless_rows_keep_their_digits():
    """The quadratic form is a sum of squares, not a small difference of large numbers."""
    components = np.random.default_rng(0).normal(size=(2, 6)) * 1e4
    law = MarginalGaussian(np.zeros(6), components, np.full(6, 1e-8))
    rows = law.sample(3000, np.random.default_rng(1))
    squares = law._dense_squares(rows)
    assert squares.mean() == pytest.approx(6.0, abs=0.3)  # χ² with 6 degrees of freedom
    assert stats.kstest(squares, stats.chi2(6).cdf).pvalue > 1e-3
    # Negative control: subtracting what the factors explain loses them all.
    explained = law._root @ (components / 1e-8) @ rows.T
    lost = np.sum(rows**2, axis=1) / 1e-8 - np.sum(explained**2, axis=0)
    assert stats.kstest(lost, stats.chi2(6).cdf).pvalue < 1e-6
