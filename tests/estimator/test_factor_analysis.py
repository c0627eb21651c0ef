"""The estimator: what it answers, and what it refuses."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from threadpoolctl import ThreadpoolController, threadpool_info

import bridge
from cuspfa import (
    CuspFactorAnalysis,
    CuspPrior,
    EmpiricalBayesSlab,
    GaussianSlab,
    Gibbs,
    InverseGammaSlab,
    Moments,
    Variational,
    datasets,
    prior_sensitivity,
)
from cuspfa._utils import threads
from cuspfa.errors import ConvergenceWarning, CuspWarning, DataError, InputError
from cuspfa.inference.variational import init
from cuspfa.inference.variational import search as search_module
from cuspfa.inference.variational.progress import VariationalProgress
from cuspfa.inference.variational.settings import most_identified
from cuspfa.model.likelihoods.gaussian import Noise
from cuspfa.model.process import Sticks
from cuspfa.rotation.axes import principal_axes
from oracles import algorithm1 as oracle

X = datasets.simulate(150, 8, 2, random_state=3).X
BFI = datasets.load_bfi(subset="paper").data


def fit(data=X, **settings):
    return CuspFactorAnalysis(random_state=0, **settings).fit(data)


def warns_of(message):
    """Expect this warning, or none: the test settings make errors of unexpected ones."""
    return nullcontext() if message is None else pytest.warns(CuspWarning, match=message)


def test_finds_the_true_number_of_factors_and_covariance():
    truth = datasets.simulate(2000, 12, 3, random_state=5)
    model = fit(truth.X)
    assert model.n_factors_ == 3
    assert model.expected_active_factors_ == pytest.approx(3.0, abs=1e-3)
    error = np.sum((model.get_covariance() - truth.covariance) ** 2)
    assert error < 0.02 * np.sum(truth.covariance**2)
    sampling = np.sum((np.cov(truth.X, rowvar=False) - truth.covariance) ** 2)
    assert error < 1.1 * sampling
    rank_two = fit(truth.X, n_factors=2)  # negative control
    assert np.sum((rank_two.get_covariance() - truth.covariance) ** 2) > 10 * error


@pytest.mark.parametrize("shape", [(100, 10), (50, 30), (20, 100), (2000, 12)], ids=str)
def test_pure_noise_has_no_factor(shape):
    noise = np.random.default_rng(0).normal(size=shape)
    assert fit(noise).n_factors_ == 0
    assert fit(noise).loadings_.shape == (shape[1], 0)


@pytest.mark.parametrize("k", [12, 20])
def test_more_factors_than_alpha(k):
    assert fit(datasets.simulate(1000, 60, k, random_state=0).X).n_factors_ == k


def test_as_published_reproduces_the_papers_number_of_factors():
    model = CuspFactorAnalysis.as_published("variational", random_state=0).fit(BFI)
    assert round(model.expected_active_factors_, 1) == 3.0  # Table 1
    assert model.lower_bound_ == max(entry.lower_bound for entry in model.search_)
    # The best bound known for these settings is −5310.92: no run may claim more.
    assert -5330 < model.lower_bound_ < -5310.9
    assert model.posterior_.scale.tolist() == [1.0] * 25


@pytest.mark.parametrize("seed", range(20))
def test_the_search_finds_the_best_bound_whatever_the_seed(seed):
    model = CuspFactorAnalysis.as_published(search=True, random_state=seed).fit(BFI)
    assert model.lower_bound_ >= -5310.93
    assert round(model.expected_active_factors_, 1) == 3.0


def test_jobs_do_not_change_the_result():
    alone = CuspFactorAnalysis.as_published(random_state=3).fit(BFI)
    together = CuspFactorAnalysis.as_published(random_state=3, n_jobs=2).fit(BFI)
    assert alone.lower_bound_ == together.lower_bound_
    assert alone.search_ == together.search_


def test_the_reported_bound_is_the_literal_bound_of_the_reported_posterior():
    model = CuspFactorAnalysis.as_published("variational", search=True).fit(BFI)
    posterior = model.posterior_
    hyper = oracle.PAPER
    # All 26 columns, the inactive ones as the package says they are, for the literal bound.
    k, h = posterior.loadings_distribution.mean.shape[1], 26
    y = BFI - BFI.mean(axis=0)
    literal = bridge.literal_state(
        y,
        posterior.loadings_distribution,
        posterior.tail_variance / (h - k),
        posterior.noise_distribution,
        Sticks(np.ones(h - 1), np.full(h - 1, 5.0)),
        hyper,
    )
    for _ in range(300):  # labels and sticks to their own fixed point
        literal = oracle.step5_sticks(y, oracle.step4_labels(y, literal, hyper), hyper)
    settled = oracle.bound(y, literal, hyper)
    assert model.lower_bound_ <= settled + 1e-6
    assert model.lower_bound_ == pytest.approx(settled, abs=1e-3)


def test_n_or_n_minus_one():
    flat, known = fit(), fit(method=Variational(mean="plug-in"))
    assert flat.posterior_.noise_distribution.shape[0] == pytest.approx(149 / 2 - 1)
    assert known.posterior_.noise_distribution.shape[0] == pytest.approx(150 / 2 - 1)


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


def equicorrelated(signs, n=200, r=0.6):
    """Moments in which all loadings of the one factor have the same size."""
    p = len(signs)
    correlation = (r * np.ones((p, p)) + (1 - r) * np.eye(p)) * np.outer(signs, signs)
    return Moments.from_correlation(correlation, n=n)


@pytest.mark.parametrize("signs", [(1, -1), (-1, 1), (1, -1, 1, -1, -1), (-1, 1, 1)], ids=str)
def test_equally_large_loadings_leave_no_sign_to_rounding_error(signs):
    model = CuspFactorAnalysis(n_factors=1).fit_moments(equicorrelated(signs))
    assert_allclose(model.loadings_[:, 0] / model.loadings_[0, 0], np.array(signs) * signs[0])
    assert model.loadings_[0, 0] > 0
    rng = np.random.default_rng(0)
    exact = np.array([signs], dtype=float).T * 0.7
    for _ in range(20):
        shaken = exact * (1 + 1e-12 * rng.normal(size=exact.shape))
        assert principal_axes(shaken)[0, 0] > 0
    # Negative control: a loading that is larger for certain has the sign, though not the first.
    exact[-1] *= 1.001
    assert principal_axes(exact)[-1, 0] > 0
    assert np.sign(principal_axes(exact)[0, 0]) == signs[0] * signs[-1]


def test_expected_covariance_splits_into_mean_loadings_and_noise():
    model = fit()
    mean = model.posterior_.loadings
    assert_allclose(model.get_covariance(), mean @ mean.T + np.diag(model.noise_variance_))


def test_same_seed_same_result_and_input_unchanged():
    before = X.copy()
    X.flags.writeable = False
    a, b = fit(), fit()
    X.flags.writeable = True
    assert a.lower_bound_ == b.lower_bound_
    assert np.array_equal(a.get_covariance(), b.get_covariance())
    assert np.array_equal(X, before)
    one_start = Variational(init="random", n_init=1)
    c = CuspFactorAnalysis(random_state=1, method=one_start).fit(X)
    d = CuspFactorAnalysis(random_state=2, method=one_start).fit(X)
    assert c.lower_bound_ != d.lower_bound_


def test_data_frames_keep_their_names():
    names = [f"item {j}" for j in range(8)]
    plain = fit()
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(dict(zip(names, X.T, strict=True)))):
        model = fit(frame)
        assert model.feature_names_in_.tolist() == names
        assert_allclose(model.get_covariance(), plain.get_covariance())
    numbered = fit(pd.DataFrame(X))  # pandas' own names are integers
    assert not hasattr(numbered, "feature_names_in_")  # as in scikit-learn
    assert_allclose(numbered.get_covariance(), plain.get_covariance())
    nullable = fit(pd.DataFrame(X).astype("Float64"))
    assert_allclose(nullable.get_covariance(), plain.get_covariance())
    refitted = model.fit(X)
    assert not hasattr(refitted, "feature_names_in_")
    assert refitted.n_features_in_ == 8


@pytest.mark.parametrize("shape", [(60, 8), (8, 20)], ids=["tall", "wide"])
def test_the_order_of_numbers_in_memory_changes_no_bit(shape):
    rows = np.random.default_rng(0).normal(size=shape)
    columns = {f"item {j}": column for j, column in enumerate(rows.T)}
    plain = fit(rows)
    for same in (
        np.asfortranarray(rows),
        np.repeat(rows, 2, axis=1)[:, ::2],
        pd.DataFrame(columns),
        pd.DataFrame(columns).astype("Float64"),
        pl.DataFrame(columns),
    ):
        model = fit(same)
        assert_array_equal(model.get_covariance(), plain.get_covariance())
        assert_array_equal(model.transform(same), plain.transform(rows))


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


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 10])
def test_noise_of_a_handful_of_rows_is_of_the_size_of_their_variance(n):
    """With three rows the expectation under q is ten times what was seen."""
    data = np.random.default_rng(n).normal(size=(n, 1))
    model = fit(data, n_factors=0)
    ratio = model.noise_variance_[0] / data.var(ddof=1)
    assert 0.8 < ratio < 2.1
    distribution = model.posterior_.noise_distribution
    if n == 3:  # negative control
        assert distribution.rate[0] / (distribution.shape[0] - 1) > 9
    if n >= 5:
        assert_allclose(distribution.variance, distribution.rate / (distribution.shape - 1))


def test_noise_variance_falls_as_its_shape_rises():
    shapes = np.linspace(0.1, 6, 600)
    values = Noise(shapes, np.ones(600)).variance
    assert np.all(np.diff(values) <= 0)
    assert np.abs(np.diff(values[shapes > 0.5])).max() < 0.05  # no jump
    assert_allclose(values[shapes < 1], 1 / shapes[shapes < 1])
    assert_allclose(values[shapes > 2], 1 / (shapes[shapes > 2] - 1))


def test_max_factors():
    said = r"as max_factors=1 allows.*raise it: method=Variational\(max_factors=2\)"
    with pytest.warns(CuspWarning, match=said) as caught:
        model = fit(method=Variational(max_factors=1))
    assert len(caught) == 1
    assert model.n_factors_ == 1
    with pytest.raises(InputError, match="n_factors must be at most max_factors=1. Got 2"):
        fit(n_factors=2, method=Variational(max_factors=1))
    none = fit(method=Variational(max_factors=0))
    assert none.n_factors_ == 0
    many = fit(X[:, :3], method=Variational(max_factors=40), prior=CuspPrior(alpha=30.0))
    assert many.loadings_.shape == (3, many.n_factors_)


@pytest.mark.parametrize("k", [0, 1, 3, 8])
def test_the_number_of_factors_may_be_given(k):
    with warns_of("6 of them have no loadings.*the data support 2 of these" if k == 8 else None):
        model = fit(n_factors=k)
    assert model.n_factors_ == k
    assert model.loadings_.shape == (8, k)
    assert [entry.n_factors for entry in model.search_] == [k]
    assert np.all(np.linalg.eigvalsh(model.get_covariance()) > 0)
    free = fit()
    assert model.lower_bound_ <= free.lower_bound_ + 1e-3


def test_a_given_number_far_behind_the_best_is_what_one_gets():
    """On 5000 rows two factors are thousands of nats behind three; this once gave three."""
    data = datasets.simulate(5000, 12, 3, random_state=5).X
    for k in range(6):
        said = f"n_factors={k} was asked for.*{k - 3} of them ha.*support 3 of these"
        with warns_of(said if k > 3 else None):
            assert fit(data, n_factors=k).n_factors_ == k


def test_no_more_factors_than_can_be_told_apart():
    assert [most_identified(p, 1e6) for p in (1, 2, 3, 4, 5, 6, 25)] == [0, 1, 1, 1, 2, 3, 18]
    assert most_identified(100, 9.0) == 8
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(size=(4, 3))
        assert fit(noise).n_factors_ <= 1
    pair = np.random.default_rng(0).normal(size=(100, 1)) + np.random.default_rng(1).normal(
        size=(100, 2), scale=0.2
    )
    assert fit(pair).n_factors_ == 1


def test_more_factors_than_columns_can_tell_apart_are_told_of():
    rng = np.random.default_rng(0)
    two = rng.normal(size=(1000, 2))
    pairs = np.c_[two, two] + 0.3 * rng.normal(size=(1000, 4))
    with pytest.warns(CuspWarning, match=r"no more than 1 can be told apart.*max_factors=2"):
        assert fit(pairs).n_factors_ == 1
    with pytest.warns(CuspWarning, match="max_factors=2 allows"):
        assert fit(pairs, method=Variational(max_factors=2)).n_factors_ == 2
    one = rng.normal(size=(1000, 1)) + 0.5 * rng.normal(size=(1000, 4))
    assert fit(one).n_factors_ == 1  # negative control: at the bound, and nothing is left over


def test_a_given_number_that_a_finite_spike_does_not_accept():
    """The labels may call a given factor inactive; the fit says how many stayed."""
    noise = np.random.default_rng(0).normal(size=(60, 6))
    wide = CuspPrior(slab=InverseGammaSlab(2.0, 2.0), spike=0.3)
    with pytest.warns(CuspWarning, match="n_factors=3 was asked for.*leaves 0 of them active"):
        model = CuspFactorAnalysis(n_factors=3, prior=wide).fit(noise)
    assert model.n_factors_ == 0
    assert model.loadings_.shape == (6, 0)
    narrow = CuspPrior(slab=InverseGammaSlab(2.0, 2.0), spike=1e-6)
    assert CuspFactorAnalysis(n_factors=3, prior=narrow).fit(noise).n_factors_ == 3


def test_search_keeps_the_curve():
    model = fit()
    counts = [entry.n_factors for entry in model.search_]
    assert counts == sorted(set(counts))
    assert {1, 2, 3} <= set(counts)
    assert sum(entry.weight for entry in model.search_) == pytest.approx(1.0)
    best = max(model.search_, key=lambda entry: entry.lower_bound)
    assert best.n_factors == model.n_factors_ == 2
    assert best.lower_bound == model.lower_bound_
    assert all(entry.n_iter > 0 and entry.status for entry in model.search_)


def test_a_run_that_does_not_converge_says_so():
    said = (
        r"stopped at max_iter=2 iterations.*raise max_iter: "
        r"method=Variational\(max_iter=4, tol=1e-09\)"
    )
    with pytest.warns(ConvergenceWarning, match=said) as caught:
        model = fit(n_factors=2, method=Variational(max_iter=2, tol=1e-9))
    assert not model.converged_
    assert model.n_iter_ == 2
    assert issubclass(caught[0].category, sklearn.exceptions.ConvergenceWarning)
    assert issubclass(caught[0].category, CuspWarning)
    assert pickle.loads(pickle.dumps(ConvergenceWarning)) is ConvergenceWarning


def test_one_fit_gives_one_warning():
    data = np.column_stack([X, np.arange(150) == 7])
    with pytest.warns(ConvergenceWarning) as caught:
        fit(data, method=Variational(max_factors=1, max_iter=2, tol=1e-9))
    (one,) = caught
    message = str(one.message)
    for part in ("column 8 is nearly constant", "as max_factors=1 allows", "max_iter=2"):
        assert part in message


def test_callback_hears_of_every_cycle():
    heard: list[VariationalProgress] = []
    model = fit(method=Variational(callback=heard.append))
    assert len(heard) == sum(entry.n_iter for entry in model.search_)
    assert heard[-1].lower_bound == pytest.approx(model.lower_bound_, abs=0.01)
    best = [at.best_lower_bound for at in heard]
    assert best == sorted(best)


def test_a_failed_refit_changes_nothing():
    """Not even the names of columns; Ctrl-C after a first run changes everything together."""
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = CuspFactorAnalysis().fit(frame)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}

    def boom(at):
        raise RuntimeError("boom")

    with pytest.raises(InputError, match="random_state"):
        model.set_params(random_state="bad").fit(X[:, :5])
    with pytest.raises(RuntimeError, match="boom"):
        model.set_params(random_state=0, method=Variational(callback=boom)).fit(X[:, :5])
    with pytest.raises(InputError, match="constant"):
        model.fit(np.ones((9, 3)))
    after = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)
    assert model.transform(frame).shape == (150, 2)

    calls = []

    def press(at):
        calls.append(at)
        if len(calls) == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_params(method=Variational(callback=press)).fit(X[:, :5])
    assert model.n_features_in_ == len(model.mean_) == 5
    assert not hasattr(model, "feature_names_in_")
    assert model.transform(X[:, :5]).shape == (150, model.n_factors_)


def test_ctrl_c_leaves_the_best_state_so_far():
    calls = []

    def press(at):
        calls.append(at)
        if len(calls) == 12:
            raise KeyboardInterrupt

    model = CuspFactorAnalysis(method=Variational(callback=press))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert "interrupted" in model.status_ or model.converged_
    assert np.all(np.isfinite(model.get_covariance()))


@pytest.mark.parametrize(
    ("settings", "moment"),
    [
        ({}, 3),
        ({}, 8),
        ({"init": "random", "n_init": 30}, 3),
        ({"init": "random", "n_init": 30}, 30),
    ],
    ids=["search, early", "search, later", "random, early", "random, last"],
)
def test_ctrl_c_anywhere_after_the_first_run_keeps_something(monkeypatch, moment, settings):
    """Not only inside an iteration: here, when a new candidate is being set up."""
    calls = []
    original = init.state_at

    def press(*args, **kwargs):
        calls.append(1)
        if len(calls) == moment:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(init, "state_at", press)
    monkeypatch.setattr(search_module, "state_at", press)
    model = CuspFactorAnalysis(method=Variational(**settings), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert "interrupted" in model.status_
    assert not model.converged_
    assert np.all(np.isfinite(model.get_covariance()))


@pytest.mark.long
def test_fits_in_threads_agree_and_leave_blas_as_it_was():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before, expected = threads(), fit().get_covariance()
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: fit().get_covariance(), range(12)))
    for result in results:
        assert np.array_equal(result, expected)
    assert threads() == before


def test_libraries_are_looked_for_once(monkeypatch):
    """To look took 4 ms, and the scores of a row a tenth of that."""
    looked = []

    def counted():
        looked.append(1)
        return ThreadpoolController()

    monkeypatch.setattr(threads, "ThreadpoolController", counted)
    threads._libraries.cache_clear()
    model = fit()
    for _ in range(3):
        model.transform(X[:1])
    assert len(looked) == 1


def test_sensitivity_begins_at_the_prior_of_the_engine():
    method = Gibbs(n_draws=5, n_chains=2, burn_in=5)
    with warnings.catch_warnings(action="ignore", category=CuspWarning):
        (row,) = prior_sensitivity(
            CuspFactorAnalysis(method=method, random_state=0), X, alpha=[5.0]
        )
        direct = CuspFactorAnalysis(method=method, random_state=0).fit(X)
    assert row.slab == direct.posterior_.prior.slab
    with pytest.raises(InputError, match="model must be a CuspFactorAnalysis"):
        prior_sensitivity(direct.posterior_, X, alpha=[5.0])


def test_sensitivity_to_the_prior():
    rows = prior_sensitivity(CuspFactorAnalysis(), X, alpha=[1.0, 5.0], slab=[GaussianSlab(1.0)])
    assert [(row.alpha, row.spike) for row in rows] == [(1.0, None), (5.0, None)]
    direct = CuspFactorAnalysis(prior=CuspPrior(alpha=5.0, slab=GaussianSlab(1.0))).fit(X)
    assert rows[1].lower_bound == pytest.approx(direct.lower_bound_, rel=1e-9)
    assert rows[1].n_factors == direct.n_factors_
    wide = prior_sensitivity(CuspFactorAnalysis(), X[:6], spike=[None])
    assert len(wide) == 1
    with pytest.raises(InputError, match="alpha must be None or at least one value"):
        prior_sensitivity(CuspFactorAnalysis(), X, alpha=[])


def test_sensitivity_fits_the_estimators_own_model():
    for settings in ({}, {"standardize": False}):
        estimator = CuspFactorAnalysis(**settings)
        for data in (X, X[:6], sparse.csr_matrix(X[:6])):
            row = prior_sensitivity(estimator, data)[0]
            direct = CuspFactorAnalysis(**settings).fit(data)
            # Runs end when the bound grows by less than 0.0005.
            assert row.lower_bound == pytest.approx(direct.lower_bound_, abs=1e-3)
    with pytest.raises(InputError, match="alpha must be None or several values"):
        prior_sensitivity(CuspFactorAnalysis(), X, alpha=3)
    calls: list[VariationalProgress] = []
    method = Variational(callback=calls.append)
    with pytest.raises(InputError, match="spike must be None"):
        prior_sensitivity(CuspFactorAnalysis(method=method), X, spike=[None, 1e-3])
    assert not calls  # refused before anything was fitted


def test_one_large_column_without_standardisation():
    units = np.array([1e4, 1, 1, 1, 1, 1, 1, 1])
    model = fit(X * units, standardize=False)
    assert model.n_factors_ == 2
    ratio = np.diag(model.get_covariance()) / (X * units).var(axis=0, ddof=1)
    assert np.all((ratio > 0.8) & (ratio < 1.25))


@pytest.mark.parametrize("slab", [EmpiricalBayesSlab(), EmpiricalBayesSlab(shared=True)], ids=str)
@pytest.mark.parametrize("shape", [(100, 8, 2), (15, 80, 2), (60, 8, 0)], ids=str)
def test_learned_slabs_give_no_warnings(slab, shape):
    data = datasets.simulate(*shape, random_state=0).X
    assert np.all(np.isfinite(fit(data, prior=CuspPrior(slab=slab)).get_covariance()))


EDGES = {
    "one huge variance": lambda: X * np.array([1e6, 1, 1, 1, 1, 1, 1, 1]),
    "duplicated column": lambda: np.column_stack([X, X[:, 0]]),
    "all columns the same": lambda: np.column_stack([X[:, 0]] * 5),
    "sum of the others": lambda: np.column_stack([X, X.sum(axis=1)]),
    "opposite columns": lambda: np.column_stack([X[:, :3], -X[:, :3]]),
    "n = p": lambda: X[:8],
    "n = p + 1": lambda: X[:9],
    "two rows": lambda: X[:2],
    "two columns": lambda: X[:, :2],
    "times 1e150": lambda: X * 1e150,
    "times 1e-150": lambda: X * 1e-150,
    "far from zero": lambda: X + 1e7,
    "low rank": lambda: X[:, :2] @ np.random.default_rng(0).normal(size=(2, 7)),
}


DEPENDENT = {
    *("duplicated column", "all columns the same", "sum of the others", "opposite columns"),
    "low rank",
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("prior", [None, CuspPrior.variational_paper()], ids=["default", "paper"])
def test_edges(name, prior):
    named = pytest.warns(CuspWarning, match="linearly dependent")
    with named if name in DEPENDENT else nullcontext():
        model = fit(EDGES[name](), prior=prior)
    covariance = model.get_covariance()
    assert np.all(np.isfinite(covariance))
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.linalg.eigvalsh(covariance / np.outer(sd, sd)) > 0)
    assert np.all(np.isfinite(model.loadings_))
    assert model.converged_


@pytest.mark.parametrize("factor", [1e-10, 1e-3, 1e3, 1e100])
def test_units_without_standardisation(factor):
    """With no prior given, one common scale makes the answer independent of the units."""
    plain, scaled = fit(standardize=False), fit(X * factor, standardize=False)
    assert scaled.n_factors_ == plain.n_factors_
    assert_allclose(scaled.get_covariance() / factor**2, plain.get_covariance(), rtol=1e-6)


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
        (with_value(np.inf), r"contains infinity: column 2 has 1 value.*first in row 3.*Drop"),
        (with_value(np.inf), r"contains infinity: column 2"),
        (with_value(-np.inf), r"contains infinity: column 2"),
        (pd.DataFrame(with_value(-np.inf), columns=list("abcdefgh")), r"column 'c' \(index 2\)"),
        (np.column_stack([X, np.ones(150)]), r"column 8 is constant.*Drop it"),
        (X[:1], r"1 sample.*minimum of 2"),
        (X[:0], r"0 sample.*minimum of 2"),
        (X[:, :0], r"0 feature\(s\)"),
        (X[:, 0], r"Expected 2D array.*got 1D array"),
        (X[None], r"got 3D array"),
        (X * 1j, r"Complex data not supported"),
        (TEXT, r"column 'name' \(index 1\) has type String, which is not numeric"),
        (pl.from_pandas(TEXT), r"column 'name' \(index 1\)"),
        (np.array([["1", "x"], ["2", "3"]]), r"X has type <U1, which is not numeric"),
        (np.array([["2020-01-01"], ["2020-02-01"]], dtype="M8[D]"), r"datetime64.*not numeric"),
        (
            np.ma.masked_array(X, mask=np.tile(np.arange(8) == 2, (len(X), 1))),
            r"column 2 has no value at all",
        ),
        (np.array([[1, "x"], [2, 3]], dtype=object), r"column 1 holds 'x'.*not a number"),
        (np.array([[1, 10**400], [2, 3]], dtype=object), r"column 1 holds 1000"),
        ([[1, 2], [3]], r"rows of equal length"),
        (np.column_stack([X, np.full(150, 0.1) + 1e-17]), r"column 8 is constant"),
        (np.column_stack([np.ones(150), X, np.zeros(150)]), r"column 0, column 9 are constant"),
        (X * 1e160, r"column 0 holds values too large or too small to be squared.*Rescale"),
        (X * 1e-160, r"column 0 holds values too large or too small to be squared"),
        (pl.DataFrame({"a": [1.0, 2.0, 4.0]}).lazy(), r"lazy"),
        (pd.DataFrame({"a": pd.Categorical(["x", "y", "x"])}), r"column 'a' .*not numeric"),
        (pd.DataFrame(X[:, :2], columns=["a", "a"]), "must be different. Got 'a' 2 times: rename"),
        (np.array([[1, None], [2, {}]], dtype=object), r"column 1 holds"),
        (None, r"must be a table.*Got None instead.$"),
        (3.0, r"must be a table.*Got 3.0 instead.$"),
        ({"a": [1.0, 2.0]}, r"must be a table.*Got \{'a': \[1.0, 2.0\]\} instead.$"),
        (X * 1e307, r"column 0 holds values too large"),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(DataError, match=message):
        fit(data)


def test_text_is_a_path():
    with pytest.raises(InputError, match="there is no file or folder 'nowhere.csv'"):
        fit("nowhere.csv")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "gibs"}, r"'method' parameter of CuspFactorAnalysis must be a str among"),
        ({"n_factors": "three"}, r"must be a str among \{'auto'\} or an int .* Got 'three'"),
        ({"n_factors": None}, r"must be a str among \{'auto'\} or an int in .* Got None instead"),
        ({"n_factors": -1}, r"'n_factors' .* an int in the range \[0, inf\). Got -1 instead"),
        ({"n_factors": 9}, "n_factors must be at most the 8 columns. Got 9"),
        ({"n_factors": 2.0}, "'n_factors' .* Got 2.0 instead"),
        ({"n_factors": True}, "'n_factors' .* must not be True or False"),
        ({"n_factors": np.array([1, 2])}, "'n_factors' parameter of"),
        ({"n_jobs": 0}, r"must be None, an int in the range \(-inf, -1\] or .* Got 0 instead"),
        ({"n_jobs": "a"}, "'n_jobs' parameter of"),
        ({"n_jobs": True}, "'n_jobs' .* must not be True or False. Got True instead"),
        ({"prior": 5}, "must be an instance of 'cuspfa.model.prior.CuspPrior' or None. Got 5"),
        ({"standardize": "yes"}, "'standardize' .* must be an instance of 'bool'"),
        ({"random_state": "bad"}, "'random_state' .* must be None, an int .* Got 'bad'"),
        ({"method": Variational(tol=0)}, "'tol' parameter of Variational must be a float in .* 0 "),
        ({"method": Variational(tol="x")}, "'tol' parameter of Variational must be .* Got 'x'"),
        ({"method": Variational(tol=np.inf)}, "'tol' parameter of Variational must be .* Got inf"),
        ({"method": Variational(tol=np.nan)}, "'tol' parameter of Variational must be .* Got nan"),
        ({"method": Variational(max_iter=0)}, r"'max_iter' .* in the range \[1, inf\). Got 0"),
        ({"method": Variational(n_init=1.5)}, "'n_init' parameter of Variational must be an int"),
        ({"method": Variational(max_factors=-1)}, r"'max_factors' .* \[0, inf\) or None. Got -1"),
        ({"method": Variational(max_factors=True)}, "'max_factors' .* must not be True or False"),
        ({"method": Variational(init="best")}, "'init' .* among .* Got 'best'"),
        ({"method": Variational(criterion="bic")}, "'criterion' .* among .* Got 'bic'"),
        ({"method": Variational(mean="zero")}, "'mean' .* among .* Got 'zero'"),
        ({"method": Variational(callback=3)}, "'callback' .* must be a callable or None. Got 3"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        CuspFactorAnalysis(**settings).fit(X)


def test_scikit_learn_can_be_told_not_to_check():
    with sklearn.config_context(skip_parameter_validation=True):
        assert fit(n_factors=True).n_factors_ == 1  # refused otherwise
        assert fit(method=Variational(n_init=1.5)).n_factors_ == 2
    assert fit(n_jobs=np.int64(1), method=Variational(init="random", n_init=2)).converged_


def test_as_published_knows_its_methods():
    with pytest.raises(InputError, match="search must be True or False"):
        CuspFactorAnalysis.as_published(search="yes")
    with pytest.raises(InputError, match="method must be one of 'variational'"):
        CuspFactorAnalysis.as_published("nuts")
