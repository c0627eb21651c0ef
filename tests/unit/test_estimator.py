"""The estimator: what it answers, and what it refuses."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bridge
from cuspfa import CuspFactorAnalysis, CuspPrior, Variational, datasets
from cuspfa.errors import ConvergenceWarning, DataError, InputError
from oracles import algorithm1 as oracle

X = datasets.simulate(150, 8, 2, random_state=3).X
BFI = datasets.load_bfi(subset="paper").data


def fit(data=X, **settings):
    return CuspFactorAnalysis(random_state=0, **settings).fit(data)


def test_finds_the_true_number_of_factors_and_covariance():
    truth = datasets.simulate(2000, 12, 3, random_state=5)
    model = fit(truth.X)
    assert model.n_factors_ == 3
    assert model.expected_active_factors_ == pytest.approx(3.0, abs=1e-3)
    error = np.sum((model.get_covariance() - truth.covariance) ** 2)
    assert error < 0.02 * np.sum(truth.covariance**2)
    rank_two = fit(truth.X, method=Variational(max_factors=2))  # negative control
    assert np.sum((rank_two.get_covariance() - truth.covariance) ** 2) > 10 * error


def test_as_published_reproduces_the_papers_number_of_factors():
    model = CuspFactorAnalysis.as_published("variational", random_state=0).fit(BFI)
    assert round(model.expected_active_factors_, 1) == 3.0  # Table 1
    assert len(model.search_) == 20
    assert model.lower_bound_ == max(entry.lower_bound for entry in model.search_)
    # The best bound known for these settings is −5310.92: no run may claim more.
    assert -5330 < model.lower_bound_ < -5310.9
    assert model.trace_[-1] - model.trace_[-2] < 0.05 < model.trace_[-2] - model.trace_[-3]
    assert model.posterior_.scale.tolist() == [1.0] * 25


def test_the_reported_bound_is_the_literal_bound_of_the_reported_posterior():
    model = CuspFactorAnalysis.as_published("variational", random_state=1).fit(BFI)
    posterior = model.posterior_
    hyper = oracle.Hyper(alpha=5.0, theta_0=1.0, theta_inf=1e-6, a_sigma=1.0, b_sigma=0.3)
    # Go on from the reported loadings, noise and labels with the literal algorithm.
    h = len(posterior.active)
    kappa = np.zeros((h, h))
    kappa[np.arange(h), np.where(posterior.active > 0.5, h - 1, 0)] = 1.0
    y = BFI - BFI.mean(axis=0)
    literal = oracle.State(
        mu_eta=None,
        V_eta=None,
        mu_lambda=posterior.loadings.mean,
        V_lambda=bridge.row_covariances(posterior.loadings),
        A_sigma=posterior.noise.shape[0],
        B_sigma=posterior.noise.rate,
        kappa=kappa,
        A_v=np.ones(h - 1),
        B_v=np.full(h - 1, 5.0),
    )
    literal = oracle.step3_scores(y, literal, hyper)
    for _ in range(60):  # labels and sticks to their own fixed point
        literal = oracle.step5_sticks(y, oracle.step4_labels(y, literal, hyper), hyper)
    settled = oracle.bound(y, literal, hyper)
    assert model.lower_bound_ <= settled + 1e-6
    assert model.lower_bound_ == pytest.approx(settled, abs=0.5)


def test_n_or_n_minus_one():
    flat, known = fit(), fit(method=Variational(mean="plugged-in"))
    assert flat.posterior_.noise.shape[0] == pytest.approx(1 + 149 / 2)
    assert known.posterior_.noise.shape[0] == pytest.approx(1 + 150 / 2)


def test_standardize_gives_results_in_the_users_units():
    units = np.array([1e-3, 1.0, 50.0, 1.0, 2.0, 1e4, 1.0, 3.0])
    plain, scaled = fit(), fit(X * units + 7.0)
    assert_allclose(scaled.get_covariance(), plain.get_covariance() * np.outer(units, units))
    assert_allclose(scaled.noise_variance_, plain.noise_variance_ * units**2)
    assert_allclose(scaled.loadings_, plain.loadings_, atol=1e-8)
    assert_allclose(scaled.mean_, X.mean(axis=0) * units + 7.0)
    assert scaled.lower_bound_ == pytest.approx(plain.lower_bound_)
    # Negative control: without it the answer depends on the units.
    unscaled = fit(X * units, standardize=False)
    assert unscaled.lower_bound_ != pytest.approx(plain.lower_bound_, abs=10)


def test_loadings_are_principal_axes_in_order_with_a_sign_rule():
    loadings = fit().loadings_
    gram = loadings.T @ loadings
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10)
    assert np.all(np.diff(np.diag(gram)) <= 0)
    largest = np.argmax(np.abs(loadings), axis=0)
    assert np.all(loadings[largest, range(loadings.shape[1])] > 0)
    assert np.all(np.sum(loadings**2, axis=1) < 1)  # communalities


def test_expected_covariance_splits_into_mean_loadings_and_noise():
    model = fit()
    mean = model.posterior_.mean_loadings
    assert_allclose(model.get_covariance(), mean @ mean.T + np.diag(model.noise_variance_))


def test_same_seed_same_result_and_input_unchanged():
    before = X.copy()
    X.flags.writeable = False
    a, b = fit(), fit()
    X.flags.writeable = True
    assert a.lower_bound_ == b.lower_bound_
    assert np.array_equal(a.get_covariance(), b.get_covariance())
    assert np.array_equal(X, before)
    c = CuspFactorAnalysis(random_state=1, method=Variational(n_init=1)).fit(X)
    d = CuspFactorAnalysis(random_state=2, method=Variational(n_init=1)).fit(X)
    assert c.lower_bound_ != d.lower_bound_


def test_data_frames_keep_their_names():
    names = [f"item {j}" for j in range(8)]
    plain = fit()
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(dict(zip(names, X.T, strict=True)))):
        model = fit(frame)
        assert model.feature_names_in_.tolist() == names
        assert_allclose(model.get_covariance(), plain.get_covariance())
    refitted = model.fit(X)
    assert not hasattr(refitted, "feature_names_in_")
    assert refitted.n_features_in_ == 8


def test_other_inputs():
    assert_allclose(fit(X.tolist()).get_covariance(), fit().get_covariance())
    assert_allclose(fit(X.astype(object)).get_covariance(), fit().get_covariance())
    assert_allclose(fit(np.asfortranarray(X)).get_covariance(), fit().get_covariance())
    counts = np.random.default_rng(0).integers(0, 9, size=(40, 5))
    assert fit(counts).converged_
    assert fit(counts > 4).converged_


@pytest.mark.parametrize("shape", [(2, 1), (2, 5), (3, 1), (5, 40)], ids=str)
def test_small_and_wide_data(shape):
    model = fit(np.random.default_rng(1).normal(size=shape))
    assert np.all(np.isfinite(model.get_covariance()))
    assert np.all(np.linalg.eigvalsh(model.get_covariance()) > 0)


def test_max_factors():
    model = fit(method=Variational(max_factors=1, n_init=3))
    assert len(model.posterior_.active) == 2
    assert model.n_factors_ == 1
    none = fit(method=Variational(max_factors=0, n_init=2))
    assert none.n_factors_ == 0
    assert none.loadings_.shape == (8, 0)


def test_a_run_that_does_not_converge_says_so():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = fit(method=Variational(max_iter=2, n_init=1))
    assert not model.converged_
    assert model.n_iter_ == 2


def test_callback_hears_of_every_cycle():
    heard = []
    model = fit(method=Variational(n_init=3, callback=heard.append))
    assert [at.start for at in heard] == sorted(at.start for at in heard)
    assert len(heard) == sum(entry.n_iter for entry in model.search_)
    assert heard[-1].lower_bound == model.search_[-1].lower_bound


def test_scikit_learn_manners():
    model = CuspFactorAnalysis(method=Variational(n_init=4), prior=CuspPrior(alpha=3.0))
    copy = clone(model.set_params(method__tol=0.01))
    assert copy.method.tol == 0.01
    assert copy.prior == CuspPrior(alpha=3.0)
    with pytest.raises(NotFittedError):
        copy.get_covariance()
    fitted = pickle.loads(pickle.dumps(fit()))
    assert_allclose(fitted.get_covariance(), fit().get_covariance())


# --- refusals ----------------------------------------------------------------------------------


def with_value(value, row=3, column=2):
    data = X.copy()
    data[row, column] = value
    return data


TEXT = pd.DataFrame({"age": X[:, 0], "name": ["a"] * len(X)})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (with_value(np.nan), r"contains NaN: column 2 has 1 value.*first in row 3.*Drop"),
        (with_value(np.inf), r"contains infinity: column 2"),
        (with_value(-np.inf), r"contains infinity: column 2"),
        (pd.DataFrame(with_value(np.nan), columns=list("abcdefgh")), r"column 'c' \(index 2\)"),
        (np.column_stack([X, np.ones(150)]), r"column 8 is constant.*Drop it"),
        (X[:1], r"1 sample.*minimum of 2"),
        (X[:0], r"0 sample.*minimum of 2"),
        (X[:, :0], r"0 feature\(s\)"),
        (X[:, 0], r"Expected 2D array.*got 1D array"),
        (X[None], r"got 3D array"),
        (X * 1j, r"Complex data not supported"),
        (TEXT, r"column 'name' \(index 1\) has type String, which is not numeric"),
        (pl.from_pandas(TEXT), r"column 'name' \(index 1\)"),
        (np.array([["1", "x"], ["2", "3"]]), r"column 1 holds .*'x'.*not a number"),
        (np.array([[1, None], [2, {}]], dtype=object), r"column 1 holds"),
        ("bfi.csv", r"got 0D array"),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(DataError, match=message):
        fit(data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "gibs"}, "method must be 'variational' or a Variational object. Got 'gibs'"),
        ({"prior": 5}, "prior must be None or a CuspPrior"),
        ({"standardize": "yes"}, "standardize must be True or False"),
        ({"method": Variational(tol=0)}, "tol must be a positive number. Got 0"),
        ({"method": Variational(max_iter=0)}, "max_iter must be a whole number not below 1"),
        ({"method": Variational(n_init=1.5)}, "n_init must be"),
        ({"method": Variational(max_factors=-1)}, "max_factors must be"),
        ({"method": Variational(init="best")}, "init must be one of 'random'"),
        ({"method": Variational(mean="zero")}, "mean must be one of 'flat', 'plugged-in'"),
        ({"method": Variational(callback=3)}, "callback must be"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        fit(**settings)


def test_as_published_knows_its_methods():
    with pytest.raises(InputError, match="method must be one of 'variational'"):
        CuspFactorAnalysis.as_published("nuts")
